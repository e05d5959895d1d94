"""The chain of states of a study with two collectors: each is a pure function of the plan and of published sums.

`roles_of`, `sums_of` and `present_ask` are what devices are asked; `closed` makes the next state of a batch, of a fit
as `aggregate.chain.closed` does.
"""

import numpy as np

from privreg.collector.aggregate import chain as chains
from privreg.collector.aggregate.chain import Batch, Chain
from privreg.collector.aggregate.plan import Plan, Progress
from privreg.collector.aggregate.report import steps
from privreg.errors import OptionError
from privreg.protocol.sums import ROLES, SumAsk, Sums
from privreg_field.collector.chain import BEGUN, Tabled
from privreg_field.wire.analyses import WORDS
from privreg_field.wire.roles import Role


def begin(plan: Plan | Tabled) -> Chain:
    """Before the first report."""
    return Chain((BEGUN,)) if isinstance(plan, Tabled) else chains.begin(plan)


def closed(plan: Plan | Tabled, chain: Chain, batch: Batch | None) -> Chain:
    """Take in the open batch's sum, None if it was lost, and make the next state: of a table, the same again."""
    if not isinstance(plan, Tabled):
        return chains.closed(plan, chain, batch)
    return chains.taken(chain, batch, unit=plan.form.radius, noise=plan.noise, advance=None)


def ends(plan: Plan | Tabled, chain: Chain) -> int | None:
    """Reports that close the open batch; None of the last round, which stays open until the study closes."""
    return None if isinstance(plan, Tabled) else chains.ends(plan, chain)


# --- what devices are asked ------------------------------------------------------------------------------------


def roles_of(plan: Plan) -> dict[str, Role]:
    """Roles of the rounds that a fit may hold, in order, each with the largest radius that keeps the budget.

    Raises
    ------
    OptionError
        If the budget is too small for a role.
    """
    out = {}
    for name in ROLES:
        if name not in {"main", "moments", "approach"} and not plan.sizes[name]:
            continue
        form, numbers, radius, _ = steps(plan, name)
        if radius < 1:
            raise OptionError(f"mu = {plan.mu:g} is too small for reports of {numbers} numbers; ask for more.")
        out[name] = Role(form, numbers, radius, 1)
    return out


def sums_of(plan: Plan) -> Sums:
    """Public constants of devices' reports."""
    rules, cuts, edges = plan.rules, plan.cuts, list[float]()
    if plan.followed and plan.persons is not None:
        edges = [float(f"{v:.15g}") for v in np.cumsum([0.0, *plan.persons.widths])]
        cuts = np.zeros((len(plan.levels) + 1, plan.d))
        cuts[np.arange(1, len(cuts)), list(plan.levels)] = (plan.highs - plan.lows)[list(plan.levels)]
    return Sums(
        shares=rules.shares,
        ratio=float(rules.ratio),
        scaled=rules.scaled,
        top=float(rules.top),
        fixed=float(rules.fixed),
        lows=tuple(map(float, plan.lows)),
        highs=tuple(map(float, plan.highs)),
        y_low=float(plan.y_low),
        y_high=float(plan.y_high),
        numbers=tuple(plan.numbers.tolist()),
        binary=plan.binary,
        rate=float(plan.rate),
        cuts=tuple(tuple(map(float, row)) for row in cuts),
        edges=tuple(edges),
    )


def present_ask(plan: Plan | Tabled, progress: Progress) -> SumAsk:
    """Ask of the next state of a study; see `service.scheduler.Study._stated`."""
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
        reach=1.0 if isinstance(plan, Tabled) else float(state.reach(plan)),
        radius=plan.form.radius if isinstance(plan, Tabled) else steps(plan, state).radius,
        most=float(state.most),
    )
