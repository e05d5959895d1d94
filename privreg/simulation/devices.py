"""Devices of one round, all at once: blocks of raw rows to sums of their reports. Device side.

The arithmetic is that of one device in the field, in NumPy, on blocks of rows fixed by position. Where the sum of
reports has a simple distribution it comes back without noise, which falls on whole pieces before they are kept, stored
or sent; see `rounds`. Other mechanisms randomise every report here.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array, Ints
from privreg.collector.aggregate.report import averaged
from privreg.collector.covariates.whitening import triangle
from privreg.collector.plan import Plan
from privreg.families import measures, scores
from privreg.families.logistic import multinomial
from privreg.families.scores import Gauge
from privreg.privacy.mechanisms import randomised
from privreg.protocol import codes
from privreg.protocol.rounds import MOST_GROUPS, State
from privreg.simulation.streaming.encoding import Block, picked

MOST: Final = 8192  # Records that are played together, at most
NUMBERS: Final = 1 << 20  # Numbers in rows that are played together, at most


def most(d: int) -> int:
    """Records of `d` columns that are played together, at most: with many columns few enough for memory."""
    return min(MOST, max(NUMBERS // d // MOST_GROUPS, 1) * MOST_GROUPS)


def _times(x: Array, matrix: Array) -> Array:
    """X @ matrix.T, column by column as rows are: sums over few columns of many rows are fast this way alone."""
    return np.asarray((matrix @ x.T).T)


def root_of(weight: Array) -> Array:
    """Roots of records' weights; 1 for those that never reported, whose weight is 0."""
    return np.sqrt(np.where(weight > 0.0, weight, 1.0))


def _directions(z: Array) -> tuple[Array, Array]:
    """Rows, and 1 over their length; zeros for an unusable row."""
    norm2 = np.einsum("ij,ij->i", z, z)
    inverse = np.reciprocal(np.sqrt(norm2))
    if len(norm2) and norm2.min() > codes.TINY and norm2.max() < math.inf:  # of one that is no number neither holds
        return z, inverse
    usable = (norm2 > codes.TINY) & (norm2 < math.inf)
    return np.where(usable[:, None], z, 0.0), np.where(usable, inverse, 0.0)


def directions(state: State, v: Array) -> Array:
    """Unit rows in the coordinates of a state, shape (n, D); zeros for unusable records."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        z, inverse = _directions(_times(v, state.rows))
        return np.asarray(z * inverse[:, None])


def moments(state: State, v: Array, weight: Array | None) -> Array:
    """Sum of reports on second moments before noise, shape (1, D (D + 1) / 2).

    `v`, shape (n, D), are rows, and the response where its scale is learned; `weight`, shape (n,), may be None.
    """
    u = directions(state, v)
    square = u.T @ (u if weight is None else u * weight[:, None])
    at = triangle(len(square))
    return np.asarray(square[at] * np.where(at[0] == at[1], 1.0, math.sqrt(2.0)))[None]


def direction_moments(state: State, v: Array) -> Array:
    """Reports on second moments before noise, one a row, shape (n, D (D + 1) / 2)."""
    u = directions(state, v)
    row, col = triangle(u.shape[1])
    return np.asarray(u[:, row] * u[:, col] * np.where(row == col, 1.0, math.sqrt(2.0)))


def _scored(
    plan: Plan, state: State, y: Array, x: Array, offset: Array | None, parts: Array | None
) -> tuple[Array, Array, Array | None]:
    """Rows z, shape (groups, m, d), factors ψ ω, shape (groups, m) or (groups, m, b), and numbers in joint reports.

    Before noise; rows of people count by their `parts`. Equations (1) and (41) of docs/estimator.md.
    """
    groups = len(state.offsets)
    m, d, shape = len(y) // groups, x.shape[1], plan.rules.shape
    raw = _times(x, state.rows)
    z, inverse = _directions(raw)
    if parts is not None and plan.persons is not None and plan.persons.one:
        shares, counts = inverse.reshape(parts.shape), parts > 0.0  # one weight for all: the least of rows that count
        least = np.where(counts & (shares > 0.0), shares, math.inf).min(axis=1, keepdims=True)
        inverse = np.asarray(np.where(counts & (shares > 0.0), least, 0.0).reshape(-1))
    if state.longest:  # the ball holds reports of longer rows too, were there any
        inverse = np.minimum(inverse, 1.0 / state.longest)
    theta, cube = state.theta + state.offsets, z.reshape(groups, m, d)
    number = None
    if plan.blocks > 1:
        ok = (y >= 0.0) & (y <= plan.blocks) & (y == np.floor(y)) & (inverse > 0.0)
        label = np.where(ok, y, 0.0).reshape(groups, m)
        each = [
            multinomial(t.reshape(plan.blocks, d), rows, some) for t, rows, some in zip(theta, cube, label, strict=True)
        ]
        factor = np.array(each) * (inverse * ok).reshape(groups, m, 1)
        return cube, np.where(np.isfinite(factor), factor, 0.0), None
    eta = np.matmul(cube, theta[:, :, None]).reshape(-1)
    eta = eta if offset is None else eta + offset
    factor = scores.unit(shape, state.c, eta, y, plan.function) * inverse
    if not math.isfinite(float(factor.sum())):
        factor = np.where(np.isfinite(factor), factor, 0.0)
    # the bound holds by itself; were it ever wrong, a report would be biased and stay private
    np.clip(factor, -inverse, inverse, out=factor)
    if state.kappa > 0.0:
        lost = np.flatnonzero(inverse == 0.0)
        if len(lost):  # the predictor of a row that can't be used, as far as it is a number
            eta[lost] = (raw[lost] * theta[lost // m]).sum(axis=1) + (0.0 if offset is None else offset[lost])
        number = scores.near(shape, state.c, eta, y, plan.function)
        number = np.where(np.isnan(eta) | np.isnan(y), 0.0, number).reshape(groups, m)
    return cube, factor.reshape(groups, m), number


def sums(
    plan: Plan, state: State, y: Array, x: Array, offset: Array | None, weight: Array | None, parts: Array | None = None
) -> Array:
    """Sums of score reports before noise, by group, shape (groups, numbers).

    There are n records, a multiple of the state's groups: the first n/groups are the first group's. `x` has the shape
    (n, d), the others (n,); `offset` and `weight` may be None. `parts`, shape (people, K), is of each row its part in
    its person's report, if rows are of people: n = people K.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        cube, factor, number = _scored(plan, state, y, x, offset, parts)
    groups, m, _ = cube.shape
    if weight is not None:
        w = weight.reshape(groups, m)
        factor = factor * (w if factor.ndim == 2 else w[:, :, None])
        number = None if number is None else number * w
    if factor.ndim == 3:
        return np.asarray(np.matmul(factor.transpose(0, 2, 1), cube).reshape(groups, -1))
    out = np.matmul(factor[:, None, :], cube)[:, 0]
    return out if number is None else np.column_stack([out, state.kappa * number.sum(axis=1)])


def reports(plan: Plan, state: State, y: Array, x: Array, offset: Array | None, parts: Array | None = None) -> Array:
    """Score reports before noise, one a row, shape (n, numbers), arguments as of :func:`sums`."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        cube, factor, number = _scored(plan, state, y, x, offset, parts)
    n = len(y)
    if factor.ndim == 3:
        out = (factor[..., None] * cube[:, :, None, :]).reshape(n, -1)
    else:
        out = (factor[..., None] * cube).reshape(n, -1)
    return out if number is None else np.column_stack([out, state.kappa * number.reshape(-1)])


def public_sizes(state: State, v: Array) -> Array:
    """Sums of logarithms of public covariates' sizes, in the form of `covariates.moments.sizes`."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        log = np.log(np.abs(v @ state.rows.T))
    known = np.abs(log) <= codes.BEYOND
    d = v.shape[1]
    out = np.zeros(d * (d + 1) // 2)
    at = np.arange(1, d)
    out[at * (at + 1) // 2 + at] = np.where(known, log, 0.0).sum(axis=0)[1:]
    out[at * (at + 1) // 2] = known.sum(axis=0)[1:]
    return out[None]


def public_moments(state: State, v: Array) -> Array:
    """Sums of weighted second moments of public covariates, in the form of `covariates.moments.exact`.

    Σ w z zᵀ, w = min(1, 25 d/‖z‖²), so that a row far out counts for no more than a bound.
    """
    d = v.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        z = v @ state.rows.T
        norm2 = np.einsum("ij,ij->i", z, z)
    usable = norm2 < math.inf
    z = np.where(usable[:, None], z, 0.0)
    w = np.where(usable, np.minimum(1.0, codes.LEVER2 * d / np.maximum(norm2, 1e-300)), 0.0)
    return np.asarray((z * w[:, None]).T @ z)[triangle(d)][None]


def public_sums(
    plan: Plan,
    state: State,
    rows: tuple[Array, Array, Array | None, Array | None],
    limits: tuple[float, float],
    noise: Array,
) -> Array:
    """Sums of randomised reports where covariates are public, by group, shape (groups, d + 1 of a joint report).

    They are of ω z (ψ randomised about the middle of its range at this predictor), and of the numbers. `rows` are y, x,
    offset and weight, as of :func:`sums`, `limits` the public range of the response, in units of the learned scale, and
    `noise`, shape (n, width), standard normals drawn for these records and never used again.
    """
    y, x, offset, weight = rows
    groups, shape = len(state.offsets), plan.rules.shape
    n, d = x.shape
    m = n // groups
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        raw = x @ state.rows.T
        norm2 = np.einsum("ij,ij->i", raw, raw)
        reach2 = codes.LEVER2 * d
        omega = np.where(norm2 > reach2, np.sqrt(reach2 / norm2), 1.0)
        cube = np.where((norm2 < math.inf)[:, None], raw, 0.0).reshape(groups, m, d)
        eta = np.matmul(cube, (state.theta + state.offsets)[:, :, None]).reshape(-1)
        eta = eta if offset is None else eta + offset
        psi = scores.unit(shape, state.c, eta, y, plan.function)
        low, high = scores.ends(shape, state.c, eta, *limits, plan.function)
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        radius = np.sqrt(half * half + 0.25 * state.kappa**2)
        usable = np.isfinite(radius) & np.isfinite(middle) & (norm2 < math.inf)
        middle, radius = np.where(usable, middle, 0.0), np.where(usable, radius, 1.0)
        score = np.clip(np.where(np.isnan(psi), 0.0, psi), low, high) - middle  # nothing to tell: no score
        report = [np.where(usable, score, 0.0)]
        if state.kappa > 0.0:
            number = scores.near(shape, state.c, eta, y, plan.function)
            number = np.where((norm2 < math.inf) & ~np.isnan(eta) & ~np.isnan(y), number, 0.0)
            report.append(state.kappa * (number - 0.5))
    radius = radius if weight is None else radius / root_of(weight)
    out = randomised(plan.mechanism.channel(len(report)), np.column_stack(report), radius, noise)
    times = np.ones(n) if weight is None else weight
    factor = np.where(usable, omega * (out[:, 0] + middle), 0.0) * times
    sums = np.matmul(factor.reshape(groups, 1, m), cube)[:, 0]
    if state.kappa > 0.0:
        number = (out[:, 1] + 0.5 * state.kappa) * times
        sums = np.column_stack([sums, number.reshape(groups, m).sum(axis=1)])
    return np.asarray(sums)


def indicators(state: State, v: Array) -> Array:
    """Indicators of m numbers above their group's threshold, shape (n, m): 1, 0, or 1/2 for NaN."""
    cube = v.reshape(len(state.thresholds), -1, v.shape[1])
    with np.errstate(invalid="ignore"):
        above = (cube > state.thresholds[:, None, :]).astype(np.float64)
    return np.where(np.isnan(cube), 0.5, above).reshape(v.shape)


def gauged(plan: Plan, gauge: Gauge, state: State, y: Array, x: Array, offset: Array | None) -> Array:
    """Reports on measures of fit at the state's coefficients before noise, shape (n, m), in [0, 1]: 1/2 for NaN."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        eta = _times(x, state.rows) @ state.theta.reshape(plan.blocks, -1).T
        eta = eta if offset is None else eta + offset[:, None]
        out = measures.values(gauge, eta, y)
    return np.where(np.isnan(out), 0.5, np.clip(out, 0.0, 1.0))


def by_group(rows: Block, group: Ints, groups: int) -> Block:
    """Rows in the order of their groups, equally many of each: those added for that have weight 0."""
    order, held = np.argsort(group, kind="stable"), np.bincount(group, minlength=groups)
    most = max(int(held.max()), 1)
    place = np.arange(len(group)) - np.repeat(np.cumsum(held) - held, held)
    taken, real = np.zeros(groups * most, dtype=np.int64), np.zeros(groups * most)
    at = group[order] * most + place
    taken[at], real[at] = order, 1.0
    return picked(rows, taken)._replace(weight=real if rows.weight is None else real * rows.weight[taken])


def _by_row(rows: Block) -> Block:
    """Rows of people one after the other, each with its part times the weight of the person's report."""
    if rows.parts is None:
        return rows
    times = rows.parts if rows.weight is None else rows.parts * rows.weight[:, None]
    offset = None if rows.offset is None else rows.offset.reshape(-1)
    x = rows.x.reshape(-1, rows.x.shape[-1])
    return rows._replace(y=rows.y.reshape(-1), x=x, offset=offset, weight=times.reshape(-1))


class Devices(NamedTuple):
    """Devices that answer one round: its public state and the reports asked for."""

    plan: Plan
    state: State
    gauge: Gauge | None  # Public constants of measures of fit

    @property
    def each(self) -> bool:
        """True if each report is randomised by itself: the sum of reports has no simple distribution."""
        plan, role = self.plan, self.state.role
        if role == "measures":  # of which outer products are summed, too
            return True
        scores = role not in {"location", "moments", "clamping"}
        return plan.mechanism.channel(plan.numbers(role)).kind != codes.GAUSSIAN or (plan.label and scores)

    @property
    def by_group(self) -> bool:
        """True if groups have separate sums, so that several blocks may be played as one of more groups."""
        return self.state.role in {"pilot", "main"} and not self.each

    @property
    def public(self) -> bool:
        """True if the round is on moments of public covariates."""
        return self.plan.label and self.state.role == "moments"

    @property
    def unit(self) -> float:
        """Public size of a product of two numbers in a report on measures of fit, by which their sums are rounded."""
        return 1.0 + self.plan.sd("measures") ** 2

    def sums(self, rows: Block, normals: Callable[[int], Array]) -> Array:
        """Sums of reports by group, shape (groups, numbers); `rows` are equally many of each group.

        `normals` gives so many standard normals that no other report has; it is called if `each` report has noise.
        """
        plan, state, role = self.plan, self.state, self.state.role
        if self.public:
            first = not any(r.role == "moments" for r in plan.rounds[: state.number])
            return (public_sizes if first else public_moments)(state, self._moments(rows))
        if not self.each and role not in {"location", "clamping"}:
            rows = _by_row(rows)
            if role == "moments":
                return moments(state, self._moments(rows), rows.weight)
            return sums(plan, state, self._response(rows.y, None), rows.x, self._offset(rows), rows.weight, rows.parts)
        groups, n, size, weight = len(state.offsets), len(rows.y), plan.numbers(role), rows.weight
        if self.each:
            width = plan.mechanism.width(size)
            noise = normals(n * width).reshape(n, width)
            if plan.label and role not in {"location", "moments", "clamping", "measures"}:
                given = self._response(rows.y, None), rows.x, self._offset(rows), weight
                low, high = ((v - state.y_centre) / state.y_scale for v in (plan.y_low, plan.y_high))
                return public_sums(plan, state, given, (low, high), noise)
            before, centre = self.before_noise(rows)
            radius = plan.radius(role) / (root_of(weight) if role == "measures" and weight is not None else 1.0)
            out = randomised(plan.mechanism.channel(size), before - centre, radius, noise) + centre
        else:
            out, _ = self.before_noise(rows)
        weighted = out if weight is None else out * weight[:, None]
        if role == "measures":  # and their outer products; shape (1, …)
            return np.concatenate([weighted.sum(axis=0), (weighted.T @ out / self.unit).reshape(-1)])[None]
        return np.asarray(weighted.reshape(groups, n // groups, size).sum(axis=1))

    def before_noise(self, rows: Block) -> tuple[Array, Array]:
        """Reports before noise, (n, numbers), of equally many `rows` of each group, and the centre of their ball."""
        plan, state, role = self.plan, self.state, self.state.role
        centre = np.zeros(plan.numbers(role))
        if role == "location":  # of the columns whose scale is learned; the response comes last
            places = rows.x[:, [j for j in plan.unscaled if j < plan.d]]
            if plan.d in plan.unscaled:
                places = np.column_stack([places, self._response(rows.y, rows.offset)])
            return indicators(state, places), centre + 0.5
        if role == "clamping":  # 1 if a record was clamped, by column, else 0; 0 for an unusable record
            if rows.clamped is None:
                raise ValueError("rows of a round on clamping come with what bounds clamp")
            return rows.clamped.astype(np.float64), centre + 0.5
        rows = _by_row(rows)
        if role == "moments":
            return averaged(direction_moments(state, self._moments(rows)), rows.parts), centre
        if role == "measures":
            assert self.gauge is not None
            y = self._response(rows.y, None)
            return gauged(plan, self.gauge, state, y, rows.x, self._offset(rows)), centre + 0.5
        if state.kappa > 0.0:
            centre[-1] = 0.5 * state.kappa
        given = rows.x, self._offset(rows), rows.parts
        return averaged(reports(plan, state, self._response(rows.y, None), *given), rows.parts), centre

    def directions(self, rows: Block) -> Array:
        """Unit rows of a round of moments, shape (n, size); zeros for unusable records."""
        return directions(self.state, self._moments(rows))

    def _moments(self, rows: Block) -> Array:
        plan = self.plan
        more = [np.ones((len(rows.y), plan.extra)), rows.x]
        if plan.layout.response:
            last = self._response(rows.y, rows.offset) if plan.added is None else rows.offset
            assert last is not None
            more.append(last[:, None])
        return np.concatenate(more, axis=1)

    def _response(self, y: Array, offset: Array | None) -> Array:
        """Response less its offset, in units of the learned scale."""
        state = self.state
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of one value
            r = y if offset is None else y - offset
            if (state.y_centre, state.y_scale) == (0.0, 1.0):
                return r
            return np.asarray((r - state.y_centre) / state.y_scale)

    def _offset(self, rows: Block) -> Array | None:
        if rows.offset is None:
            return None
        with np.errstate(over="ignore"):
            return np.asarray(rows.offset / self.state.y_scale)
