"""The chain of states of a study with two collectors: each is a pure function of the plan and of published sums.

`roles_of`, `sums_of` and `present_ask` are what devices are asked; `closed` makes the next state of a batch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector.aggregate import measuring, rounds
from privreg.collector.aggregate.lattice import sd, steps
from privreg.collector.field.table import BEGUN, Tabled
from privreg.errors import OptionError
from privreg.protocol.parts.analyses import WORDS
from privreg.protocol.parts.roles import Role
from privreg.protocol.sums import ROLES, SumAsk, Sums

if TYPE_CHECKING:
    from privreg.arrays import Ints
    from privreg.collector.aggregate.plan import Plan, Progress

DOUBT: Final = 6.5  # Standard deviations of noise by which a mean report may be longer than any report is


class Batch(NamedTuple):
    """One sum as it is published."""

    people: int
    total: Ints  # Whole numbers, modulo 2⁶⁴, with both collectors' noise


class Chain(NamedTuple):
    """What the public knows once some batches are published."""

    history: tuple[Progress, ...]  # Before each batch, the last one being open
    batches: tuple[Batch, ...] = ()
    refused: tuple[int, ...] = ()  # Batches that were lost, or whose sum no reports can have

    @property
    def progress(self) -> Progress:
        """What is known now."""
        return self.history[-1]


def begin(plan: Plan | Tabled) -> Chain:
    """Before the first report."""
    return Chain((BEGUN if isinstance(plan, Tabled) else rounds.begin(plan),))


def closed(plan: Plan | Tabled, chain: Chain, batch: Batch | None) -> Chain:
    """Take in the open batch's sum, and make the next state.

    A sum whose mean is longer than reports can be, by more than its noise, is left out, and so is a batch that was
    lost, None: the next state asks the same of other people.
    """
    progress, role = chain.progress, chain.progress.state.role
    lost, batch = batch is None, batch or Batch(0, np.zeros(0, dtype=np.int64))
    public = batch.total / (plan.form.radius if isinstance(plan, Tabled) else steps(plan, role).unit)
    noise = plan.noise if isinstance(plan, Tabled) else sd(plan, role)
    refused = lost or float(np.linalg.norm(public)) > batch.people + noise * (math.sqrt(len(public)) + DOUBT)
    if refused:
        chain = chain._replace(refused=(*chain.refused, len(chain.batches)))
    if refused or isinstance(plan, Tabled):
        state = progress.state._replace(number=progress.state.number + 1)
        after = progress._replace(state=state, held=(*progress.held, batch.people))
    else:
        after = measuring.advance(plan, progress, public, batch.people)
    return chain._replace(history=(*chain.history, after), batches=(*chain.batches, batch))


def ends(plan: Plan | Tabled, chain: Chain) -> int | None:
    """Reports that close the open batch; None of the last round, which stays open until the study closes."""
    if isinstance(plan, Tabled) or chain.progress.state.role == ("measures" if plan.measured else "main"):
        return None
    return rounds.people(plan, chain.progress)


# --- what devices are asked ------------------------------------------------------------------------------------


def held_roles(plan: Plan) -> list[str]:
    """Roles of rounds that the plan may hold, in order."""
    return [role for role in ROLES if role == "main" or plan.sizes[role] or role in {"moments", "approach"}]


def roles_of(plan: Plan) -> dict[str, Role]:
    """Roles of a fit's rounds, each with the largest radius that keeps the budget.

    Raises
    ------
    OptionError
        If the budget is too small for a role.
    """
    out = {}
    for name in held_roles(plan):
        form, numbers, radius, _ = steps(plan, name)
        if radius < 1:
            raise OptionError(f"mu = {plan.mu:g} is too small for reports of {numbers} numbers; ask for more.")
        out[name] = Role(form, numbers, radius, 1)
    return out


def sums_of(plan: Plan) -> Sums:
    """What devices make reports of."""
    rules = plan.rules
    return Sums(
        shares=tuple(map(float, rules.shares)),
        ratio=float(rules.ratio),
        scaled=rules.scaled,
        top=float(rules.top),
        fixed=float(rules.fixed),
        reach=plan.reach,
        lows=tuple(map(float, plan.lows)),
        highs=tuple(map(float, plan.highs)),
        y_low=float(plan.y_low),
        y_high=float(plan.y_high),
        numbers=tuple(plan.numbers.tolist()),
        binary=plan.binary,
    )


def present_ask(progress: Progress) -> SumAsk:
    """What the next state of a study asks; see `service.course.Study._stated`."""
    state = progress.state
    return SumAsk(
        role=state.role,
        below=WORDS,
        rows=tuple(tuple(map(float, row)) for row in state.rows),
        theta=tuple(map(float, state.theta)),
        y_centre=float(state.y_centre),
        scale=float(state.scale),
        window=float(state.window),
        ball=float(state.ball),
    )
