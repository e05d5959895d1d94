"""Questions to devices of a study with two collectors: roles, constants, and states."""

import numpy as np

from privreg.collector.aggregate.plan import Plan
from privreg.collector.aggregate.report import steps
from privreg.collector.design import Chain
from privreg.errors import OptionError
from privreg.protocol.sums import ROLES, SumAsk, Sums
from privreg_field.collector.chain import tables
from privreg_field.wire.analyses import WORDS
from privreg_field.wire.roles import Role


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


def present_ask(chain: Chain) -> SumAsk:
    """Ask of the next state of a study; see `service.scheduler.Study._stated`."""
    plan, state = chain.plan, chain.progress.state
    return SumAsk(
        role=state.role,
        below=WORDS,
        rows=tuple(tuple(map(float, row)) for row in state.rows),
        theta=tuple(map(float, state.theta)),
        y_centre=float(state.y_centre),
        scale=float(state.scale),
        window=float(state.window),
        ball=float(state.ball),
        reach=1.0 if chain.design is tables else float(state.reach(plan)),
        radius=plan.form.radius if chain.design is tables else steps(plan, state).radius,
        most=float(state.most),
    )
