"""Report of a record: a vector of norm 1 at most, by role, in whole numbers; and sums of reports, noised and read.

Devices and collectors both need it: Equations (1) to (3). Shares of whole numbers add up exactly.
"""

import math
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array, Flags, Ints
from privreg.collector.aggregate import classes
from privreg.collector.aggregate.plan import Plan, Rules, State
from privreg.families import measures
from privreg.families.hazards import followed
from privreg.families.scores import unit
from privreg.protocol import lattice
from privreg.protocol.plans import Persons
from privreg.protocol.sums import MEDIAN, SQUARED, form_of

ROOT2: Final = math.sqrt(2.0)
upper = cache(np.triu_indices)  # Few sizes recur in many blocks


def stacked(matrix: Array) -> Array:
    """Entries of symmetric matrices, √2 times those off the diagonal: shape (…, d, d) to (…, d (d + 1)/2)."""
    i, j = upper(matrix.shape[-1])
    return np.asarray(matrix[..., i, j] * np.where(i == j, 1.0, ROOT2))


def unstacked(entries: Array, blocks: int = 1) -> Array:
    """The symmetric matrix of stacked entries, shape (b d, b d); of several blocks a mean of products S ⊗ z z'."""
    rows = entries.reshape(blocks * (blocks + 1) // 2, -1)
    d = math.isqrt(2 * rows.shape[1])
    (i, j), (k, n) = upper(d), upper(blocks)
    each, out = np.zeros((len(rows), d, d)), np.zeros((blocks, blocks, d, d))
    each[:, i, j] = each[:, j, i] = rows / np.where(i == j, 1.0, ROOT2)
    out[k, n] = out[n, k] = each / np.where(k == n, 1.0, ROOT2)[:, None, None]
    return out.transpose(0, 2, 1, 3).reshape(blocks * d, blocks * d)


def products(z: Array, by: Array) -> Array:
    """Stacked by · z z' of rows z, shape (m, d), one row each."""
    i, j = upper(z.shape[1])
    out = z[:, i]
    out *= z[:, j]
    out *= np.where(i == j, 1.0, ROOT2)
    out *= by[:, None]
    return out


class Factor(NamedTuple):
    """A block of reports as far as rows differ: row · by, or, of products, its stacked row row' · by."""

    rows: Array  # Shape (m, k), of people's rows (m K, k)
    by: Array  # Shape (m,) or (m K,)
    product: bool = False
    parts: Array | None = None  # Parts of rows in their people's reports, shape (m, K); None of rows that count whole

    def each(self) -> Array:
        """The block of each report, one a row."""
        one = products(self.rows, self.by) if self.product else self.rows * self.by[:, None]
        return averaged(one, self.parts)

    def total(self, scale: Array) -> Array:
        """Its sum over reports, each times its `scale`, shape (m,)."""
        by = self.by * (scale if self.parts is None else (self.parts * scale[:, None]).reshape(-1))
        return stacked(self.rows.T @ (self.rows * by[:, None])) if self.product else np.asarray(by @ self.rows)

    def norms(self, known: dict[int, Array]) -> Array:
        """Norm of each report's block, or what it is at most; shape (m,). Squares of rows are `known` by their id."""
        if id(self.rows) not in known:
            known[id(self.rows)] = np.einsum("ij,ij->i", self.rows, self.rows)
        square = known[id(self.rows)]
        norm = np.asarray(np.abs(self.by) * (square if self.product else np.sqrt(square)))
        return norm if self.parts is None else np.asarray((norm.reshape(self.parts.shape) * self.parts).sum(axis=1))


def factors(
    plan: Plan,
    state: State,
    y: Array,
    x: Array,
    offset: Array | None = None,
    clamped: Array | Flags | None = None,
    weight: Array | None = None,
) -> tuple[list[Factor], Array]:
    """Blocks of reports, and what each report is multiplied by, shape (m,): 0 of a record that can't be used.

    `y`, `x` and `offset` have shapes (m,), (m, d) and (m,), internal units, y NaN of a record that can't be used; of
    people (`plan.persons`) they have an axis of their rows after the first: Equation (26). `clamped`, shape (m,
    plan.bounded), is which columns bounds clamp, of people in which part of their rows; `weight`, shape (m,), is
    people's, in [0, 1].
    """
    people, parts, usable = len(y), None, np.ones((0, 0), dtype=np.bool_)
    if plan.persons is not None:
        usable = np.isfinite(y) & np.isfinite(x).all(axis=2)
        parts = parts_of(plan.persons, usable, weight)
        y, x = y.reshape(-1), x.reshape(-1, plan.d)
        offset = None if offset is None else offset.reshape(-1)
    finite = np.isfinite(x)
    silent = ~(np.isfinite(y) & (finite.all() or finite.all(axis=1)))
    if silent.any():
        y, x = np.where(silent, 0.0, y), np.where(silent[:, None], 0.0, x)
    y, x = np.clip(y, plan.y_low, plan.y_high), np.clip(x, plan.lows, plan.highs)
    shift = np.zeros(len(y)) if offset is None else np.where(np.isfinite(offset), offset, 0.0)
    if plan.rules.link == "log" and offset is not None and state.role in {"location", "moments"} and not plan.followed:
        # rates
        y = np.clip(y * np.exp(plan.rate - shift), plan.y_low, plan.y_high)
    one = np.ones(people)
    match state.role:
        case "clamping":
            flags: Any = np.zeros((people, plan.bounded)) if clamped is None else clamped
            out = [Factor(np.column_stack([one, flags]), one / math.sqrt(plan.bounded + 1.0))]
        case "location":
            out = _means(plan, y, x, shift, usable, parts)
        case "moments":
            out = [_moments(plan, state, y, x, shift, usable, parts)]
        case "measures":
            out = [Factor(_measures(plan, state, y, x, shift, people), one)]
        case "directions" | "lengths":
            # bin of ‖z‖², and direction z z'/‖z‖² of long rows, with half of the squared norm each
            z, half = x @ state.rows.T, math.sqrt(0.5) if state.role == "directions" else 1.0
            square = np.einsum("ij,ij->i", z, z)
            bins = np.searchsorted(plan.ends[:-1], square)[:, None] == np.arange(len(plan.ends))
            out = [Factor(bins.astype(np.float64), np.full(len(z), half), parts=parts)]
            if state.role == "directions":
                long = np.where(square > plan.normal, half / np.maximum(square, 1e-300), 0.0)
                out.append(Factor(z, long, True, parts))
        case _ if plan.followed:
            out = _hazards(plan, state, y, x, shift, usable, parts)
        case _:
            out = _scores(plan, state, y, x, shift, parts)
    if parts is not None:
        silent = np.asarray(~usable.any(axis=1))
    known: dict[int, Array] = {}
    norm = np.sqrt(sum(np.square(one.norms(known)) for one in out))
    scale = np.where(silent, 0.0, 1.0 / np.maximum(norm, 1.0))  # rounding, and rows whose numbers overflow
    if not np.isfinite(norm).all():
        scale = np.where(np.isfinite(norm), scale, 0.0)
        out = [one._replace(rows=np.nan_to_num(one.rows), by=np.nan_to_num(one.by)) for one in out]
    return out, scale


@np.errstate(all="ignore")  # a warning would tell of one record
def vectors(plan: Plan, state: State, *rows: Any) -> Array:
    """Reports of records, shape (m, numbers), of norm 1 at most, zeros of unusable ones; `rows` are as of `factors`."""
    blocks, scale = factors(plan, state, *rows)
    out = np.column_stack([one.each() for one in blocks])
    out *= scale[:, None]
    return np.where(np.isfinite(out), out, 0.0)


def parts_of(persons: Persons, usable: Flags, weight: Array | None) -> Array:
    """Part of each row in its person's report, 0 of one that can't be used; shape (m, K), sums 1 at most."""
    whole = usable.sum(axis=1, keepdims=True) if persons.mean else usable.shape[1]
    parts = usable / np.maximum(whole, 1.0)
    return np.asarray(parts if weight is None else parts * np.clip(np.nan_to_num(weight), 0.0, 1.0)[:, None])


def averaged(rows: Array, parts: Array | None) -> Array:
    """Vectors of people from those of their rows, shape (m K, w) to (m, w): Equation (26)."""
    if parts is None:
        return rows
    cube = rows.reshape(*parts.shape, -1)
    return np.asarray(np.einsum("mk,mkw->mw", parts, np.where(parts[:, :, None] > 0.0, cube, 0.0)))


def _means(plan: Plan, y: Array, x: Array, shift: Array, usable: Flags, parts: Array | None) -> list[Factor]:
    """Numbers within ±1, and their squares: Equation (1), of people (27).

    Of intervals also each one's event, and part of the time at risk in it over √J: Equation (57).
    """
    columns, unit = plan.numbers, math.sqrt(plan.longest2)
    middle, half = 0.5 * (plan.lows + plan.highs)[columns], 0.5 * (plan.highs - plan.lows)[columns]
    out = (x[:, columns] - middle) / half
    if not plan.binary:
        out = np.column_stack([out, (y - 0.5 * (plan.y_low + plan.y_high)) / (0.5 * (plan.y_high - plan.y_low))])
    out = np.clip(out, -1.0, 1.0)
    one = np.ones((len(y), int(plan.persons is not None and not plan.followed)))
    means = Factor(np.column_stack([out, SQUARED * out**2, one]) / unit, np.ones(len(y)), parts=parts)
    if not plan.followed or plan.persons is None or parts is None:
        return [means]
    widths = np.array(plan.persons.widths)
    events = np.where(usable, y.reshape(usable.shape), 0.0)
    times = np.where(usable, np.clip(np.exp(shift).reshape(usable.shape) / widths, 0.0, 1.0), 0.0)
    events = np.where(np.cumsum(events, axis=1) <= 1.0, events, 0.0)  # a person has one
    return [means, Factor(np.hstack([events, times / math.sqrt(len(widths))]), parts.sum(axis=1) / unit)]


def _moments(plan: Plan, state: State, y: Array, x: Array, shift: Array, usable: Flags, parts: Array | None) -> Factor:
    """Second moments of (z, r), shortened to the square root of the state's ball: Equation (2).

    Of intervals those of z over a person's, by their hazards: Equation (58).
    """
    rows = x @ state.rows.T
    if plan.followed and parts is not None:
        eta = np.where(usable, (rows @ state.theta + shift).reshape(usable.shape), -np.inf)
        share = np.nan_to_num(np.exp(eta - eta.max(axis=1, keepdims=True)))
        share /= np.maximum(share.sum(axis=1, keepdims=True), 1.0)
        parts = share * parts.sum(axis=1)[:, None]
    else:
        y = y - (shift if plan.rules.link == "identity" else 0.0)
        answered = state.classes[:, np.rint(y).astype(int)].T if state.classes.size else y[:, None] - state.y_centre
        lines = rows @ state.theta.reshape(plan.rules.blocks, -1).T
        rows = np.column_stack([rows, (answered - lines) / state.scale])
    square = np.einsum("ij,ij->i", rows, rows)
    return Factor(rows, np.minimum(1.0, state.ball / np.maximum(square, 1e-300)) / state.ball, True, parts)


def _hazards(
    plan: Plan, state: State, y: Array, x: Array, shift: Array, usable: Flags, parts: Array | None
) -> list[Factor]:
    """Score, slope and squared score of people over their intervals: Equation (54). Weights are those of intervals."""
    assert parts is not None
    reach, shape, whole, z = state.reach(plan), usable.shape, parts.sum(axis=1), x @ state.rows.T
    weight = np.minimum(1.0, reach**2 / np.maximum(np.einsum("ij,ij->i", z, z), 1e-300))
    score, slope = followed((z @ state.theta + shift).reshape(shape), y.reshape(shape), usable, state.most)
    a, b, m, _, _ = np.sqrt(plan.rules.shares)
    by = (score * whole[:, None]).reshape(-1) * weight / (reach * state.span)
    total = np.nan_to_num((z * by[:, None]).reshape(*shape, -1).sum(axis=1))
    total /= np.maximum(np.sqrt(np.einsum("ij,ij->i", total, total)), 1.0)[:, None]
    steep = (slope * whole[:, None]).reshape(-1) * weight * (b / (state.top(plan.rules) * reach**2))
    one = np.ones(len(whole))
    return [Factor(total, a * one), Factor(z, steep, True, np.ones(shape)), Factor(total, m * one, True)]


def _scores(plan: Plan, state: State, y: Array, x: Array, shift: Array, of: Array | None = None) -> list[Factor]:
    """Score, slope and squared score with bounded weights, the score beyond c, and the scale: Equation (3).

    Of people by the parts `of` their rows, with one weight a person: Equations (26) and (28). Matrices of several
    linear predictors are products S ⊗ z z': Equation (19).
    """
    rules, reach, z = plan.rules, state.reach(plan), x @ state.rows.T
    c = state.scale if rules.scoring.extra else state.threshold(rules)  # an extra parameter stands for the threshold
    length = np.einsum("ij,ij->i", z, z)
    if of is not None:  # a weight of each row would bias slopes within people where errors are skewed
        length = np.repeat((of * length.reshape(of.shape)).sum(axis=1), of.shape[1])
    weight = np.minimum(1.0, reach**2 / np.maximum(length, 1e-300))
    a, b, m, o, t = np.sqrt(rules.shares)
    if state.classes.size:
        each, slope = classes.scores(state.classes, state.theta, z, np.rint(y).astype(int))
        far, steep = weight / reach, stacked(slope).T * (weight * (b / (rules.top * reach**2)))
        alone = [Factor(z, one * (a * far)) for one in each.T]
        return [*alone, *(Factor(z, one, True) for one in (*steep, *products(each, m * far**2).T))]
    eta = z @ state.theta + shift
    if of is not None and rules.scoring.stacked and rules.shape.a:
        # rows at cut points, and differences of two that follow each other, in which gaps count: Equation (52)
        assert plan.persons is not None
        scoring: Any = rules.scoring
        k, (high, steepest) = plan.persons.cuts, heights(plan, state)
        score, slope = scoring.cut(eta.reshape(-1, k), y.reshape(-1, k))
        cube = z.reshape(-1, k, plan.d)
        z = np.concatenate([cube, cube[:, :-1] - cube[:, 1:]], axis=1).reshape(-1, plan.d)
        far, people = weight.reshape(-1, k)[:, :1], len(of)
        of = np.broadcast_to(of.reshape(-1, k)[:, :1], score.shape).reshape(people, -1)
        score = (score * (far / (high * reach))).reshape(-1)
        slope = (slope * (far * (b / (steepest * reach**2)))).reshape(-1)
        squared = Factor(averaged(z * score[:, None], of), np.full(people, m), True)
        return [Factor(z, score * a, parts=of), Factor(z, slope, True, of), squared]
    beyond = np.abs(y - eta) > c if rules.cornered and not rules.scoring.extra else np.zeros(len(y), dtype=np.bool_)
    # of numbers within these ends reports are as far from each other as `protocol.sums` says
    score = np.clip(unit(rules.shape, c, eta, y, rules.function), -1.0, 1.0) * weight / reach
    slope = np.where(beyond, 0.0, np.clip(slopes(rules, c, eta, y), 0.0, rules.top)) * weight
    out = [Factor(z, score * a, parts=of), Factor(z, slope * (b / (rules.top * reach**2)), True, of)]
    ones, scores = np.ones(len(y) if of is None else len(of)), z * score[:, None]
    if not rules.scaled:
        return [*out, Factor(averaged(scores, of), m * ones, True)]
    if rules.scoring.extra:  # the slope of its number, from −1 to 1, in place of a share: Equation (59)
        number, rise = (np.clip(v, -1.0, 1.0) for v in rules.scoring.number(rules.shape, state.scale, eta, y))
        inside: Any = 0.5 + 0.5 * rise
    else:
        far = np.log(np.maximum(np.abs(y - eta), 1e-300) / (MEDIAN * state.scale)) / state.window
        number, inside = np.clip(far, -1.0, 1.0), np.abs(far) < 1.0
    out.append(Factor(averaged(np.column_stack([scores, number]), of), 0.5 * m * ones, True))
    if rules.cornered and rules.scoring.extra:  # both together are 1 at most: Equations (62) and (63)
        for one in rules.scoring.beside(rules.shape, state.scale, eta, y):
            out.append(Factor(z, np.clip(one, -1.0, 1.0) * weight * (o / (ROOT2 * reach)), parts=of))
    elif rules.cornered:  # no residual is beyond the threshold and in the middle
        out.append(Factor(z, np.where(beyond, score * o, 0.0), parts=of))
        out.append(Factor(z, np.sign(y - eta) * (inside & ~beyond) * weight * (o / reach), parts=of))
    numbers: list[Any] = [number, inside - 0.5] if of is None else [number, 0.5 * inside, 0.5 * (1.0 - inside)]
    return [*out, Factor(np.column_stack(numbers), np.full(len(y), t), parts=of)]


def _measures(plan: Plan, state: State, y: Array, x: Array, shift: Array, people: int) -> Array:
    """Measures of the state's predictions: numbers within 0 and 1, and their products: Equation (24).

    Of levels in order a record's rows at its cut points are the predictors, and their responses sum to its level.
    """
    assert state.gauge is not None
    theta = classes.against_first(state.classes) @ state.theta.reshape(plan.rules.blocks, -1)
    eta = x @ state.rows.T @ theta.T
    y, eta = (y - shift, eta) if plan.rules.link == "identity" else (y, eta + shift[:, None])
    if plan.rules.scoring.stacked:
        y, eta = y.reshape(people, -1).sum(axis=1), eta.reshape(people, -1)
    measured = np.clip(measures.values(state.gauge, eta, y), 0.0, 1.0)
    i, j = upper(state.gauge.numbers)
    return np.asarray(np.concatenate([measured, measured[:, i] * measured[:, j]], axis=1) * plan.measures)


def heights(plan: Plan, state: State) -> tuple[float, float]:
    """Size of a score and of a slope for which 1 is reported: of the likelihood of levels, as large as its gaps allow.

    Gaps of cut points follow from a state. Rows of gaps are up to twice as long as others, two rows of three count half
    and more, and squares of the parts of a report sum to 1.6.
    """
    scoring: Any = plan.rules.scoring
    if plan.followed:
        return state.span, state.top(plan.rules)
    if not (scoring.stacked and plan.rules.shape.a):
        return 1.0, plan.rules.top
    score, slope = scoring.gaps(plan.cuts @ state.rows.T @ state.theta)
    return 1.3 * (1.0 - float(score.min(initial=0.0))), 1.3 * (0.25 + 2.0 * float(slope.max(initial=0.0)))


def slopes(rules: Rules, c: float, eta: Array, y: Array) -> Array:
    """Slope of the unit score by the linear predictor, times c, in [0, rules.top]; shape (m,).

    Of quantiles, whose score is a step, that of its mean over a window of ±c (the density of residuals there); of a
    score of one's own a difference: Equation (23).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return rules.scoring.slope(rules.shape, c, eta, y, rules.top, rules.function)


# --- whole numbers, and noise on their sums ---------------------------------------------------------------------


class Steps(NamedTuple):
    """A role's reports in whole numbers."""

    form: str  # One of `protocol.lattice.SUM_FORMS`
    numbers: int
    radius: int
    bits: int  # Each collector adds normals of the sd 2^bits, rounded

    @property
    def unit(self) -> float:
        """Whole numbers that stand for a report's norm of 1."""
        return lattice.unit_of_sums(self.form, self.numbers, self.radius)

    @property
    def sd(self) -> float:
        """Sd of one collector's noise in a number of its sum."""
        return 2.0**self.bits

    def whole(self, vectors: Array) -> Ints:
        """Reports of norm 1 at most in whole numbers, shape (m, numbers); squares of each sum to radius² at most."""
        return np.asarray(np.rint(vectors * self.unit), dtype=np.int64)


@cache
def _steps(form: str, numbers: int, mu: float, square: Fraction) -> Steps:
    budget = lattice.fraction_of(mu)
    bits = lattice.bits_of_sums(budget)
    return Steps(form, numbers, lattice.radius(form, numbers, budget, bits, square), bits)


def steps(plan: Plan, asked: State | str, mu: float = 0.0) -> Steps:
    """Whole numbers of reports to a state, or to any of a role and budget `mu`, 0: the plan's; the largest radius."""
    role, mu = (asked, mu) if isinstance(asked, str) else (asked.role, asked.mu)
    square = plan.distance2(role, None if isinstance(asked, str) else asked)
    return _steps(form_of(role), plan.width(role), mu or plan.mu, square)


def sd(plan: Plan, asked: State | str, mu: float = 0.0) -> float:
    """Noise sd of a number of a round's sum, for reports of norm 1: that of all who add noise."""
    one = steps(plan, asked, mu)
    return math.sqrt(plan.noise.adders) * one.sd / one.unit


def noised(plan: Plan, state: State, exact: Ints, normals: tuple[Array, ...]) -> Ints:
    """Add rounded noise, modulo 2⁶⁴, to the exact sum, shape (plan.width(state.role),): the public sum.

    `normals` are standard normals of that shape of each who adds noise, drawn for this sum alone.
    """
    for drawn in normals:
        exact = with_noise(exact, steps(plan, state).sd, drawn)
    return exact


def with_noise(exact: Ints, sd: float, drawn: Array) -> Ints:
    """Sums with the rounded noise of one collector, modulo 2⁶⁴; `drawn` are standard normals, used here alone."""
    with np.errstate(over="ignore"):
        return np.asarray(exact + np.rint(sd * drawn).astype(np.int64))
