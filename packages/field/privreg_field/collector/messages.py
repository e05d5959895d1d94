"""Between a fit by rounds and a study in the field: states as messages, and reports of whole numbers as sums.

A report of whole numbers over its radius is what a simulated report is: a point of the unit ball, or of [0, 1], with
noise of the sd 2^m/R, which is the sd of `Plan.sd` up to the rounding of R.
"""

import numpy as np

from privreg.base.arrays import Array, Ints
from privreg.collector.covariates.whitening import triangle
from privreg.collector.design import Batch
from privreg.collector.plan import Plan
from privreg.errors import OptionError
from privreg.families.scores import Gauge as Measured
from privreg.protocol import lattice
from privreg.protocol.lattice import Mu
from privreg.protocol.rounds import State
from privreg_field.wire.analyses import WORDS, mu_of
from privreg_field.wire.messages import Ask, Gauge
from privreg_field.wire.roles import ROLES, Role
from privreg_field.wire.study import FAMILIES


def check_field(plan: Plan) -> None:
    """Refuse what devices in the field don't have; raises `OptionError`."""
    if plan.mechanism.name != "gaussian" or not plan.mechanism.budget.private:
        raise OptionError("devices in the field have Gaussian noise only; write mechanism='gaussian', and a budget.")
    if plan.label:
        raise OptionError("devices in the field keep whole records private; write private='record'.")
    if plan.rules.scoring.custom:
        raise OptionError("devices in the field don't run a score of one's own; take a family by name.")


def family_of(plan: Plan) -> str:
    """Name of the fit's score in messages."""
    check_field(plan)
    return next(name for name, code in FAMILIES.items() if code == plan.rules.shape.family)


def roles_of(plan: Plan, mu: Mu | None = None) -> dict[str, Role]:
    """Roles of a fit's rounds, each with the largest radius that keeps `mu`, by default the plan's as a fraction.

    Raises
    ------
    OptionError
        If devices in the field can't play this fit, or the budget is too small for a role.
    """
    check_field(plan)
    mu, out = mu_of(plan.mechanism.budget.mu) if mu is None else mu, {}
    for name in ROLES:
        if all(r.role != name for r in plan.rounds):
            continue
        scores = lattice.JOINT if plan.kappa(name) > 0.0 else lattice.BALL
        form = {"numbers": lattice.BOX, "moments": lattice.MOMENTS}.get(plan.form(name), scores)
        numbers = plan.numbers(name)
        radius = lattice.radius(form, numbers, mu)
        if radius < 1:
            raise OptionError(f"mu = {mu.p}/{mu.q} is too small for reports of {numbers} numbers; ask for more.")
        out[name] = Role(form, numbers, radius, plan.groups_of(name))
    return out


def ask_of(plan: Plan, state: State, gauge: Measured | None = None) -> Ask:
    """A state of a fit as what a state of the study asks; `gauge` is that of a round on measures, `Progress.gauge`."""
    role = state.role
    scores = role in {"pilot", "main", "measures"}
    rows: tuple[tuple[float, ...], ...] = ()
    if role not in {"location", "clamping"}:
        if np.triu(state.rows, 1).any():
            raise ValueError("a row map is lower triangular")
        rows = tuple(tuple(map(float, row[: j + 1])) for j, row in enumerate(state.rows))
    step = 0.0
    signs: tuple[bytes, ...] = ()
    offsets: tuple[tuple[float, ...], ...] = ()
    if role == "main" and state.offsets.any():
        size = np.abs(state.offsets)
        if (size == size.max()).all():
            step = float(size.max())
            signs = tuple(row.tobytes() for row in np.packbits(state.offsets < 0.0, axis=1, bitorder="little"))
        else:
            offsets = tuple(tuple(map(float, row)) for row in state.offsets)
    return Ask(
        role=role,
        below=WORDS,
        rows=rows,
        y_centre=float(state.y_centre),
        y_scale=float(state.y_scale),
        theta=tuple(map(float, state.theta)) if scores else (),
        c=float(state.c),
        step=step,
        signs=signs,
        offsets=offsets,
        thresholds=tuple(tuple(map(float, row)) for row in state.thresholds) if role == "location" else (),
        gauge=None if gauge is None else Gauge(gauge.residual, gauge.spread, gauge.centre),
    )


def state_of(plan: Plan, ask: Ask) -> tuple[State, Measured | None]:
    """State of a fit, of what a state of a study asks: the inverse of `ask_of`."""
    size, scores = plan.size, ask.role in {"pilot", "main", "measures"}
    rows = np.zeros((len(ask.rows), len(ask.rows)))
    for j, row in enumerate(ask.rows):
        rows[j, : j + 1] = row
    offsets = np.zeros((plan.groups_of(ask.role), size))
    for g, octets in enumerate(ask.signs):
        bits = np.unpackbits(np.frombuffer(octets, dtype=np.uint8), count=size, bitorder="little")
        offsets[g] = np.where(bits, -ask.step, ask.step)
    offsets = np.array(ask.offsets, dtype=np.float64) if ask.offsets else offsets
    theta = np.array(ask.theta) if scores else np.zeros(size)
    thresholds = np.array(ask.thresholds, dtype=np.float64) if ask.thresholds else np.zeros((len(offsets), 0))
    kappa = plan.kappa(ask.role)
    state = State(
        0, ask.role, rows, ask.y_centre, ask.y_scale, theta, ask.c, offsets, kappa, thresholds
    )  # fmt: skip
    given = ask.gauge
    gauge = plan.gauge
    if given is None or gauge is None:
        return state, None
    return state, gauge._replace(residual=given.residual, spread=given.spread, centre=given.centre)


def reports_of(role: Role, people: Ints, sums: Ints) -> Batch:
    """Sums of whole numbers, shape (parts, groups, numbers), of `people`, (parts, groups), as sums of reports."""
    return Batch(int(people.sum()), sums / float(role.radius), people.astype(np.float64))


def products(role: Role, people: int, sums: Ints, squares: Array) -> Batch:
    """Reports on measures of fit, whose products are summed beside.

    `sums` have the shape (numbers,); `squares`, shape (2, numbers (numbers + 1) / 2), are sums of products, lower
    triangle row by row: high and low part.
    """
    row, col = triangle(role.numbers)
    outer = np.zeros((role.numbers, role.numbers))
    outer[row, col] = outer[col, row] = squares[0] * 2.0**32 + squares[1]
    total = np.concatenate([sums / role.radius, outer.reshape(-1) / role.radius**2])
    return Batch(people, total[None, None], np.full((1, 1), float(people)))
