"""The compiled loops of both engines, in one file.

One file because numba's on-disk cache does not notice an edited callee in another file. The arithmetic
follows `device` and `collector` operation by operation, in the same order, so that the fused loop gives
the same bits; no fastmath.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from privreg.protocol.codes import (
    BALANCED,
    BEYOND,
    BLOCK,
    CURVATURES,
    CUSTOM,
    DIAGONAL,
    EXPECTILE,
    FULL,
    GAUSSIAN,
    HINGE,
    HUBER,
    IN_BATCH,
    LAPLACE,
    LEVER2,
    LEVERAGE,
    LOGISTIC,
    MULTINOMIAL,
    OUTSIDE,
    PEOPLE,
    POISSON,
    POSITION,
    PRIVUNIT,
    PUBLISHED,
    PUBLISHED_SLOPES,
    QUANTILE,
    SHORT,
    SMOOTHED_HINGE,
    SQUARED,
    TINY,
    UNIT,
    UPDATES,
    WITHIN2,
)
from privreg.protocol.plans import Channel, LanePlan, Lanes, Plan, Shape, State

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Words = NDArray[np.uint64]

__all__ = [
    "add_gram",
    "flush",
    "flush_block",
    "fused",
    "is_curvature_turn",
    "location_reports",
    "log_sizes",
    "moment_reports",
    "normal_cdf",
    "normal_quantile",
    "number_reports",
    "randomise",
    "run_lanes",
    "second_moments",
    "told",
    "unit_score",
]


@intrinsic
def _call_at(typing_context: Any, address: Any, eta: Any, y: Any) -> Any:
    """Call a compiled score by its address: a function passed as an argument would be compiled for anew each time."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        function = builder.inttoptr(arguments[0], ir.FunctionType(double, [double, double]).as_pointer())
        return builder.call(function, [arguments[1], arguments[2]])

    return types.float64(types.int64, types.float64, types.float64), generate


@njit(cache=True, nogil=True, error_model="numpy")
def unit_score(shape: Shape, c: float, eta: float, y: float) -> float:
    """Scalar score over its bound, in [−1, 1] (of a user's own family as it computes it); see `scores.unit`."""
    family = shape.family
    if family == HUBER:
        r = (y - eta) / c
        r = 1.0 if r > 1.0 else r  # two selects, no branch to mispredict
        r = -1.0 if r < -1.0 else r
        return -r
    if family == BALANCED:
        # (π − y) / max(π, 1 − π) through e^−|η|: 1 where the likelier value was not seen, else −e^−|η|
        e = math.exp(-abs(eta))
        if eta >= 0:
            return (1.0 - y) - (1.0 - (1.0 - y)) * e
        return -(y - (1.0 - y) * e)
    if family == LOGISTIC:
        e = math.exp(-abs(eta))
        return (1.0 / (1.0 + e) if eta >= 0 else e / (1.0 + e)) - y
    if family == EXPECTILE:
        r = (y - eta) / c
        side = shape.a if r >= 0.0 else 1.0 - shape.a
        r = 1.0 if r > 1.0 else r
        r = -1.0 if r < -1.0 else r
        return -(side / shape.b) * r
    if family == QUANTILE:
        r = y - eta
        if r >= 0.0:
            return -shape.a / shape.b
        return (1.0 - shape.a) / shape.b if r < 0.0 else math.nan
    if family == POISSON:
        half = math.log(0.5 * shape.a)
        if eta > half:
            return 1.0 - y * math.exp(-eta)
        mean = math.exp(eta)
        return (mean - y) / (shape.a - mean)
    if family == HINGE:
        side = 2.0 * y - 1.0
        margin = side * eta
        if margin < 1.0:
            return -side
        return 0.0 if margin >= 1.0 else math.nan
    if family == SMOOTHED_HINGE:
        side = 2.0 * y - 1.0
        slack = (1.0 - side * eta) / shape.a
        slack = 1.0 if slack > 1.0 else slack
        slack = 0.0 if slack < 0.0 else slack
        return -side * slack
    if family == SQUARED:
        inside = shape.b if eta > shape.b else eta
        inside = shape.a if inside < shape.a else inside
        seen = shape.b if y > shape.b else y
        seen = shape.a if seen < shape.a else seen
        return (inside - seen) / (shape.b - shape.a)
    if family == CUSTOM:
        own: float = _call_at(shape.address, eta, y)
        own = 1.0 if own > 1.0 else own
        return -1.0 if own < -1.0 else own
    return math.nan  # a family it does not know: noise only


@njit(cache=True, nogil=True, error_model="numpy")
def _psi(shape: Shape, c: float, top: float, eta: float, y: float) -> float:
    """Scalar score."""
    if shape.family == HUBER:
        r = y - eta
        r = c if r > c else r
        r = -c if r < -c else r
        return -r
    unit: float = unit_score(shape, c, eta, y)
    return top * unit


@njit(cache=True, nogil=True, error_model="numpy")
def _curvature(shape: Shape, c: float, top: float, eta: float, y: float) -> float:
    """∂ψ/∂η of the families that report it; see `scores.curvature`."""
    family = shape.family
    if family == HUBER:
        return 1.0 if abs(y - eta) <= c else 0.0
    if family == LOGISTIC:
        e = math.exp(-abs(eta))
        return e / ((1.0 + e) * (1.0 + e))
    if family == EXPECTILE:
        r = y - eta
        side = shape.a if r >= 0.0 else 1.0 - shape.a
        return side if abs(r) <= c else 0.0
    if family == SMOOTHED_HINGE:
        slack = 1.0 - (2.0 * y - 1.0) * eta
        return 1.0 / shape.a if 0.0 < slack < shape.a else 0.0
    if family == SQUARED:
        return 1.0 if shape.a <= eta <= shape.b else 0.0
    return math.nan


@njit(cache=True, nogil=True, error_model="numpy")
def told(shape: Shape, c: float, eta: float, y: float) -> float:
    """Number in [0, 1] that a joint report carries, from which curvature and c are learned; see `scores.told`."""
    family = shape.family
    if family in (HUBER, EXPECTILE, QUANTILE):
        return 1.0 if abs(y - eta) <= c else 0.0
    if family in (LOGISTIC, BALANCED, POISSON, SQUARED, MULTINOMIAL):
        return 0.5 * c if c < 2.0 else 1.0
    rise = 0.5 * (unit_score(shape, 1.0, eta + c, y) - unit_score(shape, 1.0, eta - c, y))
    rise = 1.0 if rise > 1.0 else rise
    return rise if rise > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _weight(weights: int, norm2: float, first: float, d: int) -> float:
    """ω(x) from ‖x‖² and, for the slopes-only form, the first of its `d` coordinates."""
    if weights == UNIT:
        return 1.0 / math.sqrt(norm2) if norm2 > TINY else 0.0
    if weights == LEVERAGE:
        return math.sqrt(LEVER2 * d / norm2) if norm2 > LEVER2 * d else 1.0
    if weights == PUBLISHED:
        return 2.0 / norm2 if norm2 > 2.0 else 1.0
    if weights == PUBLISHED_SLOPES:
        slopes = norm2 - first * first
        return 2.0 / slopes if slopes > 2.0 else 1.0
    return 0.0  # a form it does not know: noise only


@njit(cache=True, nogil=True, error_model="numpy")
def _bounded(factor: float, norm2: float, bound: float) -> float:
    """Shrink `factor` so that ‖factor · x‖ ≤ bound; a report that is not a number becomes pure noise."""
    norm = abs(factor) * math.sqrt(norm2)
    if norm <= bound:
        return factor
    if norm > bound and norm < math.inf:
        return factor * (bound / norm)
    return 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _bounded_curvature(factor: float, norm2: float, bound: float) -> float:
    """Shrink `factor` so that ‖factor · x xᵀ‖_F ≤ bound, likewise."""
    norm = factor * norm2
    if norm <= bound:
        return factor
    if norm > bound and norm < math.inf:
        return factor * (bound / norm)
    return 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def is_curvature_turn(position: int, share: int) -> bool:
    """Whether the person at `position` sends a curvature report: a public hash of the position only."""
    z = np.uint64(position) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return bool(np.int64(z >> np.uint64(32)) < share)


# Sums within a block may be reassociated, which lets them run in vector registers. So that the fused loop and the
# readable collector still agree to the bit, both take a full block through `flush_block`, whose length is a constant.
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def add_gram(lines: Array, m: int, out: Array) -> None:
    """Add the lower triangle of lines[:, :m] lines[:, :m]ᵀ; no BLAS, whose threads cost more than they bring here."""
    p = lines.shape[0]
    for j in range(0, p - 1, 2):
        for k in range(0, j + 1, 2):
            s00 = 0.0
            s01 = 0.0
            s10 = 0.0
            s11 = 0.0
            for b in range(m):
                s00 += lines[j, b] * lines[k, b]
                s01 += lines[j, b] * lines[k + 1, b]
                s10 += lines[j + 1, b] * lines[k, b]
                s11 += lines[j + 1, b] * lines[k + 1, b]
            out[j, k] += s00
            out[j, k + 1] += s01
            out[j + 1, k] += s10
            out[j + 1, k + 1] += s11
    if p % 2:
        for k in range(p):
            s00 = 0.0
            for b in range(m):
                s00 += lines[p - 1, b] * lines[k, b]
            out[p - 1, k] += s00


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def flush(path: Array, m: int, sums: Array, mode: int) -> None:
    """Add the first `m` updates (s_k, k) of a block to the path's second moments (lower triangle in FULL mode)."""
    if mode == FULL:
        add_gram(path, m, sums)
    else:
        p = path.shape[0] - 1
        for j in range(p):
            squares = 0.0
            weighted = 0.0
            for b in range(m):
                squares += path[j, b] * path[j, b]
                weighted += path[p, b] * path[j, b]
            sums[0, j] += squares
            sums[1, j] += weighted


@njit(cache=True, nogil=True, error_model="numpy")
def flush_block(path: Array, sums: Array, mode: int, reports: Array, outer: Array, has_outer: int) -> None:
    """Add a full block of the path and, if they are kept, of the reports."""
    if mode in (DIAGONAL, FULL):
        flush(path, BLOCK, sums, mode)
    if has_outer > 0:
        add_gram(reports, BLOCK, outer)


@njit(cache=True, nogil=True, error_model="numpy")
def fused(
    x: Array,
    y: Array,
    offset: Array,
    steps: Array,
    noise: Array,
    curvature_noise: Array,
    plan: Plan,
    state: State,
    raw_curvature: Array,
    raw_outer: Array,
) -> tuple[int, int, int]:
    """Play devices and collector for consecutive people until rows, steps or noise are used up.

    Parameters
    ----------
    x : ndarray, shape (n, p)
        Rows, internal units.
    y : ndarray, shape (n,)
    offset : ndarray, shape (n,) or (0,)
    steps : ndarray, shape (m,)
        γ of the next updates.
    noise : ndarray, shape (g, width)
        Standard normals of the next gradient senders, `width` as `mechanisms.width` has it.
    curvature_noise : ndarray, shape (c, width)
        Standard normals of the next curvature senders.
    plan, state : Plan, State
        The state is updated in place.
    raw_curvature, raw_outer : ndarray, shape (p, p)
        Raw sums of the central plug-in, touched only if `plan.central`.

    Returns
    -------
    rows, gradients, curvatures : int
        Rows of x, of noise and of curvature noise that were used.
    """
    n, p = x.shape
    theta, origin, total, batch = state.theta, state.origin, state.total, state.batch
    path, reports, functional, counts = state.path, state.reports, state.functional, state.counts
    shape, c, top, weights, bound = plan.shape, plan.c, plan.top, plan.weights, plan.bound
    additive = plan.channel.kind == GAUSSIAN and plan.blocks == 1 and plan.middle == 0.0
    sd = plan.channel.scale * plan.radius
    size, mode, share = plan.batch, plan.scaling_mode, plan.curvature_share
    d = theta.shape[0]
    answer = np.zeros(d)
    has_offset = offset.shape[0] > 0
    updates, position, in_batch = counts[UPDATES], counts[POSITION], counts[IN_BATCH]
    first = updates
    stop = updates + steps.shape[0]
    senders = noise.shape[0]
    i = 0
    used = 0
    used_curvature = 0
    while i < n and updates < stop and used < senders:
        norm2 = 0.0
        eta = 0.0
        for j in range(p):
            norm2 += x[i, j] * x[i, j]
            eta += x[i, j] * theta[j]
        off = 0.0
        if has_offset:
            off = offset[i]
            eta += off
        if share > 0 and is_curvature_turn(position, share):
            if used_curvature == curvature_noise.shape[0]:
                break
            _curvature_report(x, i, y[i], off, norm2, curvature_noise[used_curvature], plan, state, updates)
            used_curvature += 1
            position += 1
            i += 1
            continue
        omega = _weight(weights, norm2, x[i, 0], p)
        factor = _bounded(_psi(shape, c, top, eta, y[i]) * omega, norm2, bound)
        if plan.central == 1:
            curvature = _bounded_curvature(_curvature(shape, c, top, eta, y[i]) * omega, norm2, plan.curvature_bound)
            _central(x, i, curvature, factor, raw_curvature, raw_outer)
        slot = updates % BLOCK
        position += 1
        if not additive:
            if plan.blocks > 1:
                _multinomial(y[i], x[i], norm2, omega, plan.blocks, False, bound, theta, answer)
            else:
                for j in range(d):
                    answer[j] = (factor * x[i, j] if factor != 0.0 else 0.0) - plan.middle
            randomise(answer, d, plan.radius, plan.channel, noise[used])
            for j in range(d):
                answer[j] += plan.middle
        if size == 1:
            gamma = steps[updates - first]
            if plan.outer > 0:
                for j in range(d):
                    own = factor * x[i, j] if factor != 0.0 else 0.0  # 0 × inf would not be a number
                    reports[j, slot] = own + sd * noise[used, j] if additive else answer[j]
            if plan.outer == 2:
                _iterate(theta, origin, reports, slot)
            for j in range(d):
                own = factor * x[i, j] if factor != 0.0 else 0.0
                g = own + sd * noise[used, j] if additive else answer[j]
                t = theta[j] - gamma * g
                theta[j] = t
                t = total[j] + (t - origin[j])
                total[j] = t
                path[j, slot] = t
            used += 1
            i += 1
        else:
            for j in range(d):
                own = factor * x[i, j] if factor != 0.0 else 0.0
                batch[j] += own + sd * noise[used, j] if additive else answer[j]
            used += 1
            i += 1
            in_batch += 1
            if in_batch < size:
                continue
            in_batch = 0
            gamma = steps[updates - first]
            if plan.outer == 2:
                _iterate(theta, origin, reports, slot)
            for j in range(d):
                g = batch[j] / size
                batch[j] = 0.0
                if plan.outer > 0:
                    reports[j, slot] = g
                t = theta[j] - gamma * g
                theta[j] = t
                t = total[j] + (t - origin[j])
                total[j] = t
                path[j, slot] = t
        updates += 1
        path[d, slot] = float(updates)
        if mode == DIAGONAL:
            t = 0.0
            for j in range(d):
                t += functional[j] * total[j]
            path[0, slot] = t
        if slot == BLOCK - 1:
            flush_block(path, state.sums, mode, reports, state.outer, plan.outer)
    counts[UPDATES] = updates
    counts[POSITION] = position
    counts[IN_BATCH] = in_batch
    counts[PEOPLE] += used
    counts[CURVATURES] += used_curvature
    return i, used, used_curvature


@njit(cache=True, nogil=True, error_model="numpy")
def _iterate(theta: Array, origin: Array, reports: Array, slot: int) -> None:
    """Note the iterate at which people are asked under their report's place, and a 1."""
    d = theta.shape[0]
    for j in range(d):
        reports[d + j, slot] = theta[j] - origin[j]
    reports[2 * d, slot] = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _curvature_report(
    x: Array, i: int, y: float, offset: float, norm2: float, noise: Array, plan: Plan, state: State, updates: int
) -> None:
    """One person's curvature ω ∂ψ x xᵀ at the running average, as its noisy upper triangle."""
    p = x.shape[1]
    done = max(updates, 1)
    eta = 0.0
    for j in range(p):
        eta += x[i, j] * (state.origin[j] + state.total[j] / done)
    eta += offset
    factor = _curvature(plan.shape, plan.c, plan.top, eta, y) * _weight(plan.weights, norm2, x[i, 0], p)
    factor = _bounded_curvature(factor, norm2, plan.curvature_bound)
    answer = np.empty(p * (p + 1) // 2)
    q = 0
    for j in range(p):
        for m in range(j, p):
            entry = factor * x[i, j] * x[i, m] if factor != 0.0 else 0.0
            answer[q] = entry * math.sqrt(2.0) if m > j else entry
            q += 1
    randomise(answer, q, plan.curvature_radius, plan.curvature_channel, noise)
    for k in range(q):
        state.curvature[k] += answer[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _central(x: Array, i: int, curvature: float, factor: float, raw_curvature: Array, raw_outer: Array) -> None:
    p = x.shape[1]
    for j in range(p):
        for m in range(p):
            # factor times x first: a row too long to be squared must not become inf, nor 0 × inf
            raw_curvature[j, m] += (curvature * x[i, j]) * x[i, m] if curvature != 0.0 else 0.0
            raw_outer[j, m] += (factor * x[i, j]) * (factor * x[i, m]) if factor != 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def randomise(report: Array, size: int, radius: float, channel: Channel, noise: Array) -> None:
    """Randomise in place the first `size` numbers of a report in a ball of `radius` about 0; see `device.randomised`.

    Parameters
    ----------
    report : ndarray
        Of norm at most `radius`; a wrong one becomes biased, never less private.
    size : int
    radius : float
        For additive noise half the sensitivity.
    channel : Channel
    noise : ndarray, shape (width,)
        Standard normals drawn for this person.
    """
    if channel.kind == GAUSSIAN:
        sd = channel.scale * radius
        for j in range(size):
            report[j] += sd * noise[j]
    elif channel.kind == LAPLACE:
        spread = channel.scale * radius
        for j in range(size):  # √(N₁² + N₂²) N₃ is a Laplace number
            a, b = noise[3 * j], noise[3 * j + 1]
            report[j] += spread * (math.sqrt(a * a + b * b) * noise[3 * j + 2])
    elif channel.kind == PRIVUNIT:
        _privunit(report, size, radius, channel, noise)
    else:  # one number: rounded to an end of its range at random, so that its mean stays, then told or flipped
        share = min(max(report[0] / radius, -1.0), 1.0) if radius > 0.0 else 0.0
        up = normal_cdf(noise[0]) < 0.5 + 0.5 * share / channel.scale
        report[0] = channel.scale * radius if up else -(channel.scale * radius)


@njit(cache=True, nogil=True, error_model="numpy")
def _privunit(report: Array, size: int, radius: float, channel: Channel, noise: Array) -> None:
    """Answer with a normal vector whose part along ± the report is drawn from its cap, or from the rest."""
    norm2 = 0.0
    for j in range(size):
        norm2 += report[j] * report[j]
    norm = math.sqrt(norm2)
    tiny = not norm > 1e-140
    # the report's length is rounded to the radius at random, so that the mean stays
    share = 0.0 if tiny else min(norm / radius, 1.0)
    sign = 1.0 if normal_cdf(noise[size]) < 0.5 + 0.5 * share else -1.0
    along = 0.0
    for j in range(size):
        report[j] = (1.0 if j == 0 else 0.0) if tiny else report[j] / norm
        along += report[j] * noise[j]
    uniform = normal_cdf(along)
    if normal_cdf(noise[size + 1]) < channel.accept:
        drawn = -normal_quantile(uniform * channel.above)
    else:
        drawn = normal_quantile(uniform * (1.0 - channel.above))
    factor = radius * channel.scale
    for j in range(size):
        report[j] = factor * (noise[j] + (sign * drawn - along) * report[j])


@njit(cache=True, nogil=True, error_model="numpy")
def normal_cdf(x: float) -> float:
    """Φ(x)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@njit(cache=True, nogil=True, error_model="numpy")
def normal_quantile(p: float) -> float:
    """Φ⁻¹(p) by a rational start and two Newton steps in the nearer tail; limited to ±38."""
    tail = min(p, 1.0 - p)
    if not tail > 1e-300:
        return -38.0 if p < 0.5 else 38.0
    t = math.sqrt(-2.0 * math.log(tail))
    # Hastings' approximation, error below 4.5e-4, Abramowitz & Stegun 26.2.23
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(3):  # Halley
        error = (0.5 * math.erfc(x / math.sqrt(2.0)) - tail) * math.sqrt(2.0 * math.pi) * math.exp(0.5 * x * x)
        x += error / (1.0 - 0.5 * x * error)
    return -x if p < 0.5 else x


@njit(cache=True, nogil=True, error_model="numpy")
def location_reports(
    x: Array,
    location: Array,
    spread: Array,
    noise: Array,
    channel: Channel,
    radius: float,
    weight: Array,
    total: Array,
    first: int,
    n: int,
) -> None:
    """Add the location reports of rows `first` … `first + n` − 1 to `total`, shape (2m,); see `device.location_report`.

    The last column is the response if it is among those whose scale is learned. `weight` is empty, or the people's
    weights, shape as x has rows.
    """
    m = location.shape[0]
    answer = np.zeros(2 * m)
    for i in range(first, first + n):
        for j in range(m):
            a = (x[i, j] - location[j]) / spread[j]
            if a == a:
                answer[2 * j] = 0.5 if a > 0.0 else -0.5
                answer[2 * j + 1] = (1.0 if abs(a) > 1.0 else 0.0) - 0.5
            else:  # nothing to tell: what a settled search expects
                answer[2 * j], answer[2 * j + 1] = 0.0, OUTSIDE - 0.5
        w = weight[i] if weight.shape[0] > 0 else 1.0
        randomise(answer, 2 * m, radius / math.sqrt(w), channel, noise[i - first])
        for j in range(2 * m):
            total[j] += w * (answer[j] + 0.5)


@njit(cache=True, nogil=True, error_model="numpy")
def log_sizes(v: Array, rows: Array, total: Array, first: int, n: int) -> None:
    """Sum logarithms that tell the scales of public covariates, z = `rows` v, of rows `first` … `first + n` − 1.

    `total`, shape (d (d + 1) / 2,), is a lower triangle row by row: log abs z_j is added on the diagonal, and 1 in the
    first column; zeros are left out, and what is beyond reason. z₀ is the constant 1.
    """
    d = v.shape[1]
    z, turned = np.empty(d), _turned(rows)
    for i in range(first, first + n):
        _whiten(v, i, turned, z)
        for j in range(1, d):
            size = abs(z[j])
            log = math.log(size) if 0.0 < size < math.inf else math.inf
            if abs(log) <= BEYOND:
                total[j * (j + 1) // 2 + j] += log
                total[j * (j + 1) // 2] += 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def second_moments(v: Array, rows: Array, total: Array, first: int, n: int) -> None:
    """Add w z zᵀ, z = `rows` v, of public covariates to `total`, shape (d (d + 1) / 2,): a lower triangle row by row.

    Of rows `first` … `first + n` − 1, in order. w = min(1, 25 d/‖z‖²), so that a row far out counts for no more than a
    bound; rows whose ‖z‖² is not finite are left out. z₀ is the constant 1, so that the first entry is Σ w.
    """
    d = v.shape[1]
    z, turned = np.empty(d), _turned(rows)
    for i in range(first, first + n):
        norm2 = _whiten(v, i, turned, z)
        if not norm2 < math.inf:
            continue
        w = WITHIN2 * d / norm2 if norm2 > WITHIN2 * d else 1.0
        q = 0
        for j in range(d):
            for m in range(j + 1):
                total[q] += (w * z[j]) * z[m]
                q += 1


@njit(cache=True, nogil=True, error_model="numpy")
def number_reports(
    v: Array,
    noise: Array,
    channel: Channel,
    radius: float,
    weight: Array,
    total: Array,
    first: int,
    n: int,
    outer: Array,
) -> None:
    """Add reports of numbers in [0, 1], rows `first` … `first + n` − 1 of `v`, to `total`, shape (m,).

    Nothing to tell (NaN) counts as 1/2. `outer`, shape (m, m) or (0, 0), takes the reports' outer products.
    """
    m = total.shape[0]
    answer = np.zeros(m)
    for i in range(first, first + n):
        for j in range(m):
            a = v[i, j] - 0.5
            answer[j] = min(max(a, -0.5), 0.5) if a == a else 0.0
        w = weight[i] if weight.shape[0] > 0 else 1.0
        randomise(answer, m, radius / math.sqrt(w), channel, noise[i - first])
        for j in range(m):
            total[j] += w * (answer[j] + 0.5)
            if outer.shape[0] > 0:
                for k in range(m):
                    outer[j, k] += w * (answer[j] + 0.5) * (answer[k] + 0.5)


@njit(cache=True, nogil=True, error_model="numpy")
def moment_reports(
    v: Array,
    rows: Array,
    noise: Array,
    channel: Channel,
    radius: float,
    weight: Array,
    total: Array,
    first: int,
    n: int,
) -> None:
    """Add the moment reports of rows `first` … `first + n` − 1 to `total`, shape (d (d + 1) / 2,).

    A report is the randomised lower triangle of u uᵀ, u = z / ‖z‖, z = `rows` v; see `device.moment_report`.
    """
    d = rows.shape[0]
    size = d * (d + 1) // 2
    z, answer, turned = np.empty(d), np.empty(size), _turned(rows)
    root = math.sqrt(2.0)
    for i in range(first, first + n):
        norm2 = _whiten(v, i, turned, z)
        silent = not TINY < norm2 < math.inf
        factor = 0.0 if silent else 1.0 / norm2
        q = 0
        for j in range(d):
            for m in range(j + 1):
                entry = 0.0 if silent else factor * z[j] * z[m]
                answer[q] = entry * root if m < j else entry
                q += 1
        w = weight[i] if weight.shape[0] > 0 else 1.0
        randomise(answer, size, radius / math.sqrt(w), channel, noise[i - first])
        for q in range(size):
            total[q] += w * answer[q]


@njit(cache=True, nogil=True, error_model="numpy")
def _turned(rows: Array) -> Array:
    """A row map as `_mapped` wants it: a large triangular one column by column, which sums in vector registers."""
    return rows.T.copy() if rows.shape[0] == rows.shape[1] and rows.shape[0] >= SHORT else rows


@njit(cache=True, nogil=True, error_model="numpy")
def _mapped(x: Array, i: int, turned: Array, z: Array) -> None:
    """Fill z with `rows` x[i], `turned` being `_turned` rows of `SHORT` coefficients or more.

    `rows` is lower triangular, or of shape (2, d): z_j = rows[0, j] x_j + rows[1, j] x_0, with rows[1, 0] = 0.
    """
    d = turned.shape[1]
    if turned.shape[0] < d:
        first = x[i, 0]
        for j in range(d):
            z[j] = turned[0, j] * x[i, j] + (turned[1, j] * first if turned[1, j] != 0.0 else 0.0)  # not 0 × inf
        return
    for j in range(d):
        z[j] = 0.0
    for m in range(0, d, 4):  # in the same order, four terms at a time
        for k in range(m, min(m + 3, d)):
            for j in range(k, min(m + 3, d)):
                z[j] += turned[k, j] * x[i, k]
        if m + 3 < d:
            a0, a1, a2, a3 = x[i, m], x[i, m + 1], x[i, m + 2], x[i, m + 3]
            for j in range(m + 3, d):
                z[j] = (((z[j] + turned[m, j] * a0) + turned[m + 1, j] * a1) + turned[m + 2, j] * a2) + (
                    turned[m + 3, j] * a3
                )


@njit(cache=True, nogil=True, error_model="numpy")
def _whiten(x: Array, i: int, turned: Array, z: Array) -> float:
    """The same for any number of coefficients; ‖z‖² is returned."""
    if z.shape[0] < SHORT and turned.shape[0] == z.shape[0]:
        short: float = _whiten_short(x, i, turned, z)
        return short
    _mapped(x, i, turned, z)
    norm2 = 0.0
    for j in range(z.shape[0]):
        norm2 += z[j] * z[j]
    return norm2


@njit(cache=True, nogil=True, error_model="numpy")
def _whiten_short(x: Array, i: int, rows: Array, z: Array) -> float:
    """The same for few coefficients, sum by sum."""
    norm2 = 0.0
    for j in range(z.shape[0]):
        s = 0.0
        for m in range(j + 1):
            s += rows[j, m] * x[i, m]
        z[j] = s
        norm2 += s * s
    return norm2


@njit(cache=True, nogil=True, error_model="numpy")
def _hot(x: Array, i: int, columns: Ints, rows: Array, at: Ints, z: Array) -> tuple[int, float]:
    """Coefficients that row i has values for, in order, and the values after the map; how many, and ‖z‖²."""
    used = 0
    norm2 = 0.0
    for c in range(columns.shape[0]):
        j, levels = columns[c, 0], columns[c, 1]
        a = x[i, c]
        if levels > 0:
            if a == -1.0:
                continue
            s = math.nan  # nothing to tell, or no level at all: noise only
            if 0.0 <= a < levels:
                j += int(a)
                s = rows[0, j]
        else:
            s = rows[0, j] * a + (rows[1, j] * x[i, 0] if rows[1, j] != 0.0 else 0.0)
        at[used] = j
        z[used] = s
        used += 1
        norm2 += s * s
    return used, norm2


@njit(cache=True, nogil=True, error_model="numpy")
def run_lanes(
    x: Array,
    y: Array,
    offset: Array,
    weight: Array,
    rows: Array,
    newton: Array,
    steps: Array,
    gains: Array,
    noise: Array,
    at: int,
    thread: int,
    threads: int,
    plan: LanePlan,
    state: Lanes,
    columns: Ints | None = None,
) -> None:
    """Play devices and collector for consecutive people of one stage of chains.

    Parameters
    ----------
    x : ndarray, shape (n, d), or (n, m) with `columns`
        Rows, internal units, before whitening. Where a column stands for all levels of a factor, the number of the
        level's coefficient among the factor's, −1 for the reference level, NaN for people who send noise only.
    y : ndarray, shape (n,)
        NaN for people who send noise only.
    offset : ndarray, shape (n,) or (0,)
    weight : ndarray, shape (n,) or (0,)
        Weights (μ_i/μ_max)² of people with personal budgets.
    rows : ndarray, shape (d, d) or (2, d)
        Learned row map, lower triangular, or the scales and shifts of one that leaves correlations alone, and doesn't
        shift coefficients of factors that come as one column.
    newton : ndarray, shape (b d, b d) or (1, d)
        P of the Newton step θ ← θ − γ c P ḡ, b the number of blocks; or its diagonal.
    steps, gains : ndarray, shape (m,)
        γ and the gain of log c, from the update on that the person at `at` belongs to.
    noise : ndarray, shape (n, width)
        A row of standard normals for every person.
    at : int
        People of this stage before these.
    thread, threads : int
        Only lanes k with ⌊k `threads` / K⌋ = `thread` are worked on: neighbours share cache lines.
    plan, state : LanePlan, Lanes
        The state is updated in place.
    columns : ndarray of int, shape (m, 2), or None
        First coefficient of each column, ascending, and how many it has if it stands for a factor's levels, else 0;
        the bits are those of the dense rows. None if each column is a coefficient's.
    """
    n, d = x.shape[0], rows.shape[1]
    sparse = columns is not None
    places = np.empty((0, 2), dtype=np.int64) if columns is None else columns
    place, values, before = np.empty(x.shape[1], dtype=np.int64), np.empty(x.shape[1]), np.empty(x.shape[1])
    used = 0
    size, lanes, shape = plan.batch, plan.lanes, plan.shape
    plain = plan.channel.kind == GAUSSIAN and plan.label == 0 and plan.blocks == 1
    sd = plan.channel.scale * plan.radius
    joint = plan.kappa > 0.0
    has_offset, weighted = offset.shape[0] > 0, weight.shape[0] > 0
    z, turned = np.zeros(d), _turned(rows)
    short = not sparse and d < SHORT and rows.shape[0] == d
    together = plain and not sparse and not short
    answer = np.empty(plan.blocks * d + 1)
    first = at // size // lanes
    i = 0
    while i < n:
        group = (at + i) // size
        lane = group % lanes
        end = min(n, i + size - (at + i) % size)
        if lane * threads // lanes == thread:
            c = math.exp(state.log_c[lane])
            for k in range(i, end):
                w, norm2 = weight[k] if weighted else 1.0, 0.0
                if sparse:
                    used, norm2 = _hot(x, k, places, rows, place, values)
                    if not plain:
                        z[:] = 0.0
                        for m in range(used):
                            z[place[m]] = values[m]
                elif short:
                    norm2 = _whiten_short(x, k, turned, z)
                elif together:
                    _mapped(x, k, turned, z)
                else:
                    norm2 = _whiten(x, k, turned, z)
                if not plain:
                    off = offset[k] if has_offset else 0.0
                    _general_report(y[k], off, w, c, z, norm2, noise[k], plan, state, lane, answer)
                else:
                    eta = 0.0
                    if sparse:
                        for m in range(used):
                            eta += values[m] * state.theta[lane, place[m]]
                    elif together:
                        norm2 = 0.0
                        for j in range(d):  # neither sum waits for the other
                            norm2 += z[j] * z[j]
                            eta += z[j] * state.theta[lane, j]
                    else:
                        for j in range(d):
                            eta += z[j] * state.theta[lane, j]
                    if has_offset:
                        eta += offset[k]
                    score = unit_score(shape, c, eta, y[k])
                    factor = _bounded(score * _weight(plan.weights, norm2, z[0], d), norm2, plan.reach)
                    sd_w = plan.channel.scale * (plan.radius / math.sqrt(w)) if weighted else sd
                    if sparse:
                        for m in range(used):
                            before[m] = state.batch[lane, place[m]]
                        for j in range(d):
                            state.batch[lane, j] += w * (sd_w * noise[k, j])
                        for m in range(used):
                            j = place[m]
                            own = factor * values[m] if factor != 0.0 else 0.0
                            state.batch[lane, j] = before[m] + w * (own + sd_w * noise[k, j])
                    else:
                        for j in range(d):  # a row too long to be squared sends noise only, and 0 × inf would not
                            own = factor * z[j] if factor != 0.0 else 0.0
                            state.batch[lane, j] += w * (own + sd_w * noise[k, j])
                    if joint:
                        number = told(shape, c, eta, y[k]) if eta == eta and y[k] == y[k] else 0.0
                        answer[d] = plan.kappa * (number - 0.5) + sd_w * noise[k, d]
                        state.batch[lane, d] += w * (answer[d] + 0.5 * plan.kappa)
                state.weight[lane, 1] += w
            state.in_batch[lane] += end - i
            if state.in_batch[lane] == size:
                t = group // lanes
                _update_lane(newton, steps[t - first], gains[t - first], c, lane, plan, state)
        i = end


@njit(cache=True, nogil=True, error_model="numpy")
def _general_report(
    y: float,
    offset: float,
    w: float,
    c: float,
    z: Array,
    norm2: float,
    noise: Array,
    plan: LanePlan,
    state: Lanes,
    lane: int,
    answer: Array,
) -> None:
    """Add one person's report by any channel, of label privacy or of several blocks; see `device.lane_report`."""
    d, blocks = z.shape[0], plan.blocks
    omega = _weight(plan.weights, norm2, z[0], d)
    size = 1 if plan.label == 1 else blocks * d
    radius, middle = plan.radius, 0.0
    if blocks == 1:
        eta = 0.0
        for j in range(d):
            eta += z[j] * state.theta[lane, j]
        eta += offset
        score = unit_score(plan.shape, c, eta, y)
        if plan.label == 1:
            low = unit_score(plan.shape, c, eta, plan.y_high)
            high = unit_score(plan.shape, c, eta, plan.y_low)
            if plan.shape.family == CUSTOM:  # one that is not a number there, at infinity: its bound is known
                low = low if low == low else -1.0
                high = high if high == high else 1.0
            middle = 0.5 * (low + high)
            half = 0.5 * (high - low)
            score = score if score == score else 0.0  # nothing to tell: no score, as far as its range allows
            answer[0] = min(max(score, low), high) - middle
            radius = math.sqrt(half * half + 0.25 * (plan.kappa * plan.kappa))
            if not (radius < math.inf and norm2 < math.inf):  # covariates too large to be used: a known 0
                omega, middle, radius, answer[0] = 0.0, 0.0, 1.0, 0.0
        else:
            factor = _bounded(score * omega, norm2, plan.reach)
            for j in range(d):
                answer[j] = factor * z[j] if factor != 0.0 else 0.0
        known = eta == eta and y == y
    else:
        eta = 0.0
        known = _multinomial(y, z, norm2, omega, blocks, True, plan.reach, state.theta[lane], answer)
    if plan.kappa > 0.0:
        answer[size] = plan.kappa * ((told(plan.shape, c, eta, y) if known else 0.0) - 0.5)
    total = size + 1 if plan.kappa > 0.0 else size
    randomise(answer, total, radius / math.sqrt(w), plan.channel, noise)
    if plan.label == 1:
        g = w * (omega * (answer[0] + middle))
        for j in range(d):  # 0 × inf would not be a number
            state.batch[lane, j] += g * z[j] if g != 0.0 else 0.0
    else:
        for j in range(size):
            state.batch[lane, j] += w * answer[j]
    if plan.kappa > 0.0:
        state.batch[lane, blocks * d] += w * (answer[size] + 0.5 * plan.kappa)


@njit(cache=True, nogil=True, error_model="numpy")
def _multinomial(
    y: float,
    z: Array,
    norm2: float,
    omega: float,
    blocks: int,
    balanced: bool,
    bound: float,
    theta: Array,
    answer: Array,
) -> bool:
    """Fill `answer` with (π_k − 1{y = k}) ω z of all classes k ≥ 1, if `balanced` over its largest norm for any y.

    Gives whether the row could be used.
    """
    d = z.shape[0]
    share = np.empty(blocks + 1)
    top = 0.0
    for k in range(blocks):
        eta = 0.0
        for j in range(d):
            eta += z[j] * theta[k * d + j]
        share[k + 1] = eta
        top = max(top, eta)
    share[0] = math.exp(-top)
    total = share[0]
    for k in range(1, blocks + 1):
        share[k] = math.exp(share[k] - top)
        total += share[k]
    squares = 0.0
    for k in range(blocks + 1):
        share[k] /= total
        if k > 0:
            squares += share[k] * share[k]
    most = squares  # ‖π − e_k‖², e_0 = 0
    length2 = squares if y == 0.0 else math.nan
    for k in range(1, blocks + 1):
        here = squares + 1.0 - 2.0 * share[k]
        most = max(most, here)
        if y == k:
            length2 = here
    scale = omega / math.sqrt(most) if balanced else omega
    norm = scale * math.sqrt(abs(length2) * norm2)
    if norm > bound and norm < math.inf:
        scale *= bound / norm
    known = norm < math.inf
    for k in range(blocks):
        residual = share[k + 1] - (1.0 if y == k + 1 else 0.0)
        for j in range(d):
            answer[k * d + j] = scale * residual * z[j] if known else 0.0
    return known


@njit(cache=True, nogil=True, error_model="numpy")
def _times(matrix: Array, v: Array, out: Array) -> None:
    """Put `matrix` v into `out`, all zeros, four entries at a time so that their sums don't wait for each other."""
    d = v.shape[0]
    for j in range(0, d - 3, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for m in range(d):
            s0 += matrix[j, m] * v[m]
            s1 += matrix[j + 1, m] * v[m]
            s2 += matrix[j + 2, m] * v[m]
            s3 += matrix[j + 3, m] * v[m]
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
    for j in range(d - d % 4, d):
        for m in range(d):
            out[j] += matrix[j, m] * v[m]


@njit(cache=True, nogil=True, error_model="numpy")
def _update_lane(newton: Array, gamma: float, gain: float, c: float, lane: int, plan: LanePlan, state: Lanes) -> None:
    """One Newton step of a lane from its finished batch."""
    d = state.theta.shape[1]
    t = state.updates[lane]
    people = plan.batch * plan.worth
    weight = state.weight[lane, 1] / people
    mean = np.empty(d)
    for j in range(d):
        mean[j] = c * (state.batch[lane, j] / people)
    if plan.gram == 1:
        v = np.empty(2 * d + 1)
        for j in range(d):
            v[j] = mean[j]
            v[d + j] = weight * (state.theta[lane, j] - state.origin[j])
        v[2 * d] = weight
        for j in range(2 * d + 1):
            for m in range(j + 1):
                state.gram[lane, j, m] += v[j] * v[m]
    steps = np.zeros(d)
    if newton.shape[0] < d:
        for j in range(d):
            steps[j] = newton[0, j] * mean[j]
    else:
        _times(newton, mean, steps)
    for j in range(d):
        step = steps[j]
        ahead = weight * (state.theta[lane, j] - state.origin[j])
        state.total[lane, j] += ahead
        state.score[lane, j] += mean[j]
        state.partial[lane, j] += ahead - step
        state.theta[lane, j] -= gamma * step
    if plan.kappa > 0.0:
        move = gain * (state.batch[lane, d] / people / plan.kappa - weight * plan.target)
        state.log_c[lane] -= min(max(move, -0.5), 0.5)
        if plan.widest < math.inf:
            state.log_c[lane] = min(state.log_c[lane], plan.widest)
    for j in range(d + 1):
        state.batch[lane, j] = 0.0
    state.weight[lane, 0] += weight
    state.weight[lane, 1] = 0.0
    state.in_batch[lane] = 0
    state.updates[lane] = t + 1
    if t >= plan.late:
        for j in range(d):
            state.late[lane, j] += state.theta[lane, j] - state.origin[j]
        state.late[lane, d] += state.log_c[lane]
    if plan.path == 2:
        k = state.weight[lane, 0]
        intercept = 0.0
        for j in range(d):
            intercept += state.functional[j] * state.partial[lane, j]
        for j in range(d):
            s = intercept if j == 0 else state.partial[lane, j]
            state.sums[lane, 0, j] += s * s
            state.sums[lane, 1, j] += k * s
        state.sums[lane, 1, d] += k * k
    elif plan.path == 1:
        k = state.weight[lane, 0]
        for j in range(d):
            for m in range(j + 1):
                state.sums[lane, j, m] += state.partial[lane, j] * state.partial[lane, m]
        for m in range(d):
            state.sums[lane, d, m] += k * state.partial[lane, m]
        state.sums[lane, d, d] += k * k
