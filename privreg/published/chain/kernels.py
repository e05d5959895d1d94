"""The compiled loop of the published algorithm's single chain, in one file.

One file because numba's on-disk cache does not notice an edited callee in another file. The arithmetic follows the
readable twin of the tests operation by operation, so that the fused loop gives the same bits; no fastmath.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from privreg.base.arrays import Array
from privreg.protocol import codes, counts
from privreg.protocol.plans import Channel, Shape

if TYPE_CHECKING:  # whose text compiled loops don't depend on
    from privreg.published.chain.plans import Plan, State


@intrinsic
def _call_at(typing_context: Any, address: Any, eta: Any, y: Any) -> Any:
    """Call a compiled score by its address: a function passed as an argument would be compiled for anew each time."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        function = builder.inttoptr(arguments[0], ir.FunctionType(double, [double, double]).as_pointer())
        return builder.call(function, [arguments[1], arguments[2]])

    return types.float64(types.int64, types.float64, types.float64), generate


def within(value: float, low: float, high: float) -> float:
    """`value` within limits, by two selects, which are no branch to mispredict; not a number if it is none."""
    value = high if value > high else value
    return low if value < low else value


clipped: Callable[..., float] = njit(cache=True, nogil=True, error_model="numpy")(within)
count_score: Callable[..., float] = njit(cache=True, nogil=True, error_model="numpy")(counts.unit)


@njit(cache=True, nogil=True, error_model="numpy")
def unit_score(shape: Shape, c: float, eta: float, y: float) -> float:
    """Scalar score over its bound, in [−1, 1] (of a user's own family as it computes it); see `scores.unit`."""
    family = shape.family
    if family == codes.HUBER:
        return -clipped((y - eta) / c, -1.0, 1.0)
    if family == codes.LOGISTIC:
        e = math.exp(-abs(eta))
        return (1.0 / (1.0 + e) if eta >= 0 else e / (1.0 + e)) - y
    if family == codes.CLOGLOG:
        hazard = math.exp(eta)
        share, rest = -math.expm1(-hazard), math.exp(-hazard)
        return ((1.0 - y) * share - y * rest) / (max(share, rest) if shape.b else 1.0)
    if family == codes.EXPECTILE:
        r = (y - eta) / c
        side = shape.a if r >= 0.0 else 1.0 - shape.a
        return -(side / shape.b) * clipped(r, -1.0, 1.0)
    if family == codes.QUANTILE:
        r = y - eta
        return -shape.a / shape.b if r >= 0.0 else (1.0 - shape.a) / shape.b if r < 0.0 else math.nan
    if family == codes.POISSON:
        if eta > math.log(0.5 * shape.a):
            return 1.0 - y * math.exp(-eta)
        mean = math.exp(eta)
        return (mean - y) / (shape.a - mean)
    if family == codes.ROBUST_POISSON:
        return count_score(c, eta, y)
    if family == codes.HINGE:
        side = 2.0 * y - 1.0
        margin = side * eta
        return -side if margin < 1.0 else 0.0 if margin >= 1.0 else math.nan
    if family == codes.SMOOTHED_HINGE:
        side = 2.0 * y - 1.0
        return -side * clipped((1.0 - side * eta) / shape.a, 0.0, 1.0)
    if family == codes.SQUARED:
        return (clipped(eta, shape.a, shape.b) - clipped(y, shape.a, shape.b)) / (shape.b - shape.a)
    if family == codes.CUSTOM:
        return clipped(_call_at(shape.address, eta, y), -1.0, 1.0)
    return math.nan  # a family it does not know: noise only


@njit(cache=True, nogil=True, error_model="numpy")
def _scaled_psi(c: float, sigma: float, eta: float, y: float) -> float:
    """Huber's scalar score −ψ_c(r/σ); a scale that noise made 0 or negative counts as none, its limit."""
    return -clipped((y - eta) / max(sigma, codes.TINY), -c, c)


@njit(cache=True, nogil=True, error_model="numpy")
def _psi(shape: Shape, c: float, top: float, eta: float, y: float) -> float:
    """Scalar score."""
    score: float = _scaled_psi(c, 1.0, eta, y) if shape.family == codes.HUBER else top * unit_score(shape, c, eta, y)
    return score


@njit(cache=True, nogil=True, error_model="numpy")
def _curvature(shape: Shape, c: float, top: float, eta: float, y: float) -> float:
    """∂ψ/∂η of the families that report it."""
    family = shape.family
    if family == codes.HUBER:
        return 1.0 if abs(y - eta) <= c else 0.0
    if family == codes.LOGISTIC:
        e = math.exp(-abs(eta))
        return e / ((1.0 + e) * (1.0 + e))
    if family == codes.EXPECTILE:
        r = y - eta
        side = shape.a if r >= 0.0 else 1.0 - shape.a
        return side if abs(r) <= c else 0.0
    if family == codes.SMOOTHED_HINGE:
        slack = 1.0 - (2.0 * y - 1.0) * eta
        return 1.0 / shape.a if 0.0 < slack < shape.a else 0.0
    if family == codes.SQUARED:
        return 1.0 if shape.a <= eta <= shape.b else 0.0
    return math.nan


@njit(cache=True, nogil=True, error_model="numpy")
def _weight(weights: int, norm2: float, first: float, d: int) -> float:
    """ω(x) from ‖x‖² and, for the slopes-only form, the first of its `d` coordinates."""
    if weights == codes.UNIT:
        return 1.0 / math.sqrt(norm2) if norm2 > codes.TINY else 0.0
    if weights == codes.PUBLISHED:
        return 2.0 / norm2 if norm2 > 2.0 else 1.0
    if weights == codes.PUBLISHED_SLOPES:
        slopes = norm2 - first * first
        return 2.0 / slopes if slopes > 2.0 else 1.0
    return 0.0  # a form it does not know: noise only


@njit(cache=True, nogil=True, error_model="numpy")
def _bounded(factor: float, length: float, bound: float) -> float:
    """Shrink `factor` so that its product with what has this length is at most `bound`; 0, noise only, if no number."""
    norm = abs(factor) * length
    if norm <= bound:
        return factor
    if norm > bound and norm < math.inf:
        return factor * (bound / norm)
    return 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def is_curvature_turn(position: int, share: int) -> bool:
    """True if the person at `position` sends a curvature report: a public hash of the position only."""
    z = np.uint64(position) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return bool(np.int64(z >> np.uint64(32)) < share)


@njit(cache=True, nogil=True, error_model="numpy")
def score_senders(rows: int, share: int) -> int:
    """Number of the first `rows` people who send a score, and not curvature."""
    out = rows
    for position in range(rows):
        out -= is_curvature_turn(position, share)
    return out


# Sums within a block may be reassociated, which lets them run in vector registers. So that the fused loop and the
# readable collector still agree to the bit, both take a full block through `flush_block`, whose length is a constant.
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def add_gram(lines: Array, m: int, out: Array) -> None:
    """Add the lower triangle of lines[:, :m] lines[:, :m]ᵀ; no BLAS, whose threads cost more than they bring here."""
    p = lines.shape[0]
    for j in range(0, p - 1, 2):
        for k in range(0, j + 1, 2):
            s00, s01, s10, s11 = 0.0, 0.0, 0.0, 0.0
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
    if mode == codes.FULL:
        add_gram(path, m, sums)
    else:
        p = path.shape[0] - 1
        for j in range(p):
            squares, weighted = 0.0, 0.0
            for b in range(m):
                squares += path[j, b] * path[j, b]
                weighted += path[p, b] * path[j, b]
            sums[0, j] += squares
            sums[1, j] += weighted


@njit(cache=True, nogil=True, error_model="numpy")
def flush_block(path: Array, sums: Array, mode: int, reports: Array, outer: Array, has_outer: int) -> None:
    """Add a full block of the path and, if they are kept, of the reports."""
    if mode in (codes.DIAGONAL, codes.FULL):
        flush(path, codes.BLOCK, sums, mode)
    if has_outer > 0:
        add_gram(reports, codes.BLOCK, outer)


@njit(cache=True, nogil=True, error_model="numpy")
def fused(
    x: Array,
    y: Array,
    offset: Array,
    steps: Array,
    noise: Array,
    curvature_noise: Array,
    plan: "Plan",
    state: "State",
    raw_curvature: Array,
    raw_outer: Array,
    ratios: Array,
) -> tuple[int, int, int]:
    """Play devices and collector for consecutive people until rows, steps or noise are used up.

    `x`, `y`, `offset`, shapes (n, p), (n,) and (n,) or (0,), are in internal units, `steps`, shape (m,), the γ of the
    next updates. `noise` and `curvature_noise`, shapes (g, width), (c, width), are standard normals of the next
    gradient and curvature senders, `width` as `mechanisms.width` has it. `ratios`, shape (n,), or (0,) where all have
    the same budget, are people's noise over that of the largest budget. The state is updated in place, and so, only if
    `plan.central`, are the raw sums of the central plug-in, shape (p, p). Returned are the rows of x, of noise and of
    curvature noise that were used.
    """
    n, p = x.shape
    theta, origin, total, batch = state.theta, state.origin, state.total, state.batch
    path, reports, functional, counts = state.path, state.reports, state.functional, state.counts
    shape, c, top, weights, bound = plan.shape, plan.c, plan.top, plan.weights, plan.bound
    size, mode, share, d = plan.batch, plan.scaling_mode, plan.curvature_share, theta.shape[0]
    answer, middle, beside_middle = np.zeros(d), plan.middle, 0.25 * (2.0 * plan.joint - c * c)
    has_offset, personal = offset.shape[0] > 0, ratios.shape[0] > 0
    updates, position, in_batch = counts[codes.UPDATES], counts[codes.POSITION], counts[codes.IN_BATCH]
    first, stop, senders = updates, updates + steps.shape[0], noise.shape[0]
    i, used, used_curvature = 0, 0, 0
    while i < n and updates < stop and used < senders:
        norm2, eta, off = 0.0, 0.0, 0.0
        for j in range(p):
            norm2 += x[i, j] * x[i, j]
            eta += x[i, j] * theta[j]
        if has_offset:
            off = offset[i]
            eta += off
        ratio = ratios[i] if personal else 1.0
        if share > 0 and is_curvature_turn(position, share):
            if used_curvature == curvature_noise.shape[0]:
                break
            _curvature_report(x[i], y[i], off, norm2, curvature_noise[used_curvature], ratio, plan, state, updates)
            state.spreads[1] += ratio * ratio
            used_curvature += 1
            position += 1
            i += 1
            continue
        state.spreads[0] += ratio * ratio
        omega = _weight(weights, norm2, x[i, 0], p)
        beside = 0.0
        if plan.joint > 0.0:
            psi = _scaled_psi(c, theta[p], eta, y[i])
            beside = 0.5 * (plan.joint - psi * psi) * omega
            beside = beside if abs(beside) < math.inf else 0.0
            beside = min(max(beside, 0.5 * (plan.joint - c * c)), 0.5 * plan.joint)
        else:
            psi = _psi(shape, c, top, eta, y[i])
        factor = _bounded(psi * omega, math.sqrt(norm2), bound)
        if plan.central == 1:
            curvature = _bounded(_curvature(shape, c, top, eta, y[i]) * omega, norm2, plan.curvature_bound)
            for j in range(p):
                for m in range(p):
                    # factor times x first: a row too long to be squared must not become inf, nor 0 × inf
                    raw_curvature[j, m] += (curvature * x[i, j]) * x[i, m] if curvature != 0.0 else 0.0
                    raw_outer[j, m] += (factor * x[i, j]) * (factor * x[i, m]) if factor != 0.0 else 0.0
        slot = updates % codes.BLOCK
        position += 1
        if plan.blocks > 1:
            _multinomial(y[i], x[i], norm2, omega, plan.blocks, bound, theta, answer)
        else:
            for j in range(p):
                answer[j] = (factor * x[i, j] if factor != 0.0 else 0.0) - middle  # 0 × inf would not be a number
            if plan.joint > 0.0:
                answer[p] = beside - beside_middle
        if plan.channel.kind == codes.GAUSSIAN:  # without a call, which costs as much as the rest
            sd = plan.channel.scale * ratio * plan.radius
            for j in range(d):
                answer[j] += sd * noise[used, j]
        else:
            channel = Channel(plan.channel.kind, plan.channel.scale * ratio, plan.channel.accept, plan.channel.above)
            randomise(answer, d, plan.radius, channel, noise[used])
        if middle != 0.0:
            answer[0] += middle  # of reports of one number
        if plan.joint > 0.0:
            answer[p] += beside_middle
        used += 1
        i += 1
        if size > 1:
            in_batch += 1
            batch += answer
            if in_batch < size:
                continue
            in_batch = 0
            for j in range(d):
                answer[j], batch[j] = batch[j] / size, 0.0
        gamma = steps[updates - first]
        for j in range(d):
            if plan.outer > 0:
                reports[j, slot] = answer[j]
            if plan.outer == 2:  # under it the iterate at which people were asked, and a 1
                reports[d + j, slot], reports[2 * d, slot] = theta[j] - origin[j], 1.0
            t = theta[j] - gamma * answer[j]
            theta[j] = t
            t = total[j] + (t - origin[j])
            total[j] = t
            path[j, slot] = t
        updates += 1
        path[d, slot] = float(updates)
        if mode == codes.DIAGONAL:
            t = 0.0
            for j in range(d):
                t += functional[j] * total[j]
            path[0, slot] = t
        if slot == codes.BLOCK - 1:
            flush_block(path, state.sums, mode, reports, state.outer, plan.outer)
    counts[codes.UPDATES] = updates
    counts[codes.POSITION] = position
    counts[codes.IN_BATCH] = in_batch
    counts[codes.PEOPLE] += used
    counts[codes.CURVATURES] += used_curvature
    return i, used, used_curvature


@njit(cache=True, nogil=True, error_model="numpy")
def _curvature_report(
    x: Array,
    y: float,
    offset: float,
    norm2: float,
    noise: Array,
    ratio: float,
    plan: "Plan",
    state: "State",
    updates: int,
) -> None:
    """One person's curvature ω ∂ψ x xᵀ at the running average, as its noisy upper triangle."""
    p, done, eta, q = x.shape[0], max(updates, 1), 0.0, 0
    for j in range(p):
        eta += x[j] * (state.origin[j] + state.total[j] / done)
    eta += offset
    factor = _curvature(plan.shape, plan.c, plan.top, eta, y) * _weight(plan.weights, norm2, x[0], p)
    factor = _bounded(factor, norm2, plan.curvature_bound)
    answer = np.empty(p * (p + 1) // 2)
    for j in range(p):
        for m in range(j, p):
            entry = factor * x[j] * x[m] if factor != 0.0 else 0.0
            answer[q] = entry * math.sqrt(2.0) if m > j else entry
            q += 1
    channel = plan.curvature_channel
    personal = Channel(channel.kind, channel.scale * ratio, channel.accept, channel.above)
    randomise(answer, q, plan.curvature_radius, personal, noise)
    state.curvature[:] += answer


# the normal law by which PrivUnit and randomised response draw: as plain functions they give the same bits
@njit(cache=True, nogil=True, error_model="numpy")
def normal_cdf(x: float) -> float:
    """Φ(x)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@njit(cache=True, nogil=True, error_model="numpy")
def normal_quantile(p: float) -> float:
    """Φ⁻¹(p) by a rational start and three of Halley's steps in the nearer tail; limited to ±38."""
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
def randomise(report: Array, size: int, radius: float, channel: Channel, noise: Array) -> None:
    """Randomise in place the first `size` numbers of a report in a ball of `radius` about 0; see `device.randomised`.

    A report longer than that becomes biased, never less private. `noise` are standard normals drawn for this person.
    """
    if channel.kind == codes.GAUSSIAN:
        sd = channel.scale * radius
        for j in range(size):
            report[j] += sd * noise[j]
    elif channel.kind == codes.LAPLACE:
        spread = channel.scale * radius
        for j in range(size):  # √(N₁² + N₂²) N₃ is a Laplace number
            a, b = noise[3 * j], noise[3 * j + 1]
            report[j] += spread * (math.sqrt(a * a + b * b) * noise[3 * j + 2])
    elif channel.kind == codes.PRIVUNIT:
        _privunit(report, size, radius, channel, noise)
    else:  # one number: rounded to an end of its range at random, so that its mean stays, then reported or flipped
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
    chance = normal_cdf(noise[size])
    sign, axis = 1.0 if chance < 0.5 + 0.5 * share else -1.0, 0
    if tiny:  # any axis, either way, so that what is sent has no direction
        way = int(min(2.0 * size * chance, 2.0 * size - 1.0))
        axis, sign = way // 2, 1.0 - 2.0 * (way % 2)
    along = 0.0
    for j in range(size):
        report[j] = (1.0 if j == axis else 0.0) if tiny else report[j] / norm
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
def _multinomial(
    y: float, z: Array, norm2: float, omega: float, blocks: int, bound: float, theta: Array, answer: Array
) -> None:
    """Fill `answer` with (π_k − 1{y = k}) ω z of all classes k ≥ 1; 0 where the row can't be used."""
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
    length2 = squares if y == 0.0 else math.nan
    for k in range(1, blocks + 1):
        if y == k:
            length2 = squares + 1.0 - 2.0 * share[k]
    scale = omega
    norm = scale * math.sqrt(abs(length2) * norm2)
    if norm > bound and norm < math.inf:
        scale *= bound / norm
    known = norm < math.inf
    for k in range(blocks):
        residual = share[k + 1] - (1.0 if y == k + 1 else 0.0)
        for j in range(d):
            answer[k * d + j] = scale * residual * z[j] if known else 0.0
