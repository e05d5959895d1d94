"""Every compiled function of the package, in one file.

One file because numba's on-disk cache does not notice an edited callee in another file. The arithmetic
follows `device` and `collector` operation by operation, in the same order, so that the fused loop gives
the same bits; no fastmath.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Words = NDArray[np.uint64]

__all__ = [
    "BLOCK",
    "LanePlan",
    "Lanes",
    "Plan",
    "State",
    "add_gram",
    "affine_rows",
    "flush",
    "flush_block",
    "fused",
    "is_curvature_turn",
    "linear_rows",
    "location_reports",
    "moment_reports",
    "run_lanes",
    "ziggurat",
]

BLOCK: Final = 256
"""Updates between two flushes of the path's partial sums; 256 × p × 8 bytes fit the first cache at p = 11."""

LINE: Final = BLOCK + 8
"""Length of a line that holds a block: a power of two would fall into few cache sets."""

TINY: Final = 1e-290
"""Below this ‖x‖² has lost digits to underflow, so 1/‖x‖ can't be trusted: such a row sends noise only."""

HUBER: Final = 0
LOGISTIC: Final = 1
BALANCED: Final = 2
PUBLISHED: Final = 1
UNIT: Final = 2
PUBLISHED_SLOPES: Final = 3

NONE: Final = 0
DIAGONAL: Final = 1
FULL: Final = 2

UPDATES: Final = 0
PEOPLE: Final = 1
CURVATURES: Final = 2
POSITION: Final = 3
IN_BATCH: Final = 4


class Plan(NamedTuple):
    """What is fixed before the first record: numbers only, all public.

    Attributes
    ----------
    family : int
        Kernel code of the score.
    c : float
        Huber's corner, internal units.
    weights : int
        Kernel code of the score weights ω(x).
    bound : float
        Declared bound of the weighted score's ℓ2 norm; the device clips to it.
    noise_sd : float
        Noise sd per coordinate of a score report.
    batch : int
        People per update.
    scaling_mode : int
        Random scaling: NONE, DIAGONAL or FULL.
    outer : int
        1 if outer products of the reports are summed (plug-in).
    curvature_share : int
        A person sends a curvature report when a hash of their position is below this (of 2**32).
    curvature_bound : float
        Bound of a curvature report's Frobenius norm.
    curvature_sd : float
        Noise sd per coordinate of a curvature report.
    central : int
        1 if the raw sums of the central plug-in are kept on the device side.
    """

    family: int
    c: float
    weights: int
    bound: float
    noise_sd: float
    batch: int
    scaling_mode: int
    outer: int
    curvature_share: int
    curvature_bound: float
    curvature_sd: float
    central: int


class State(NamedTuple):
    """What the collector knows: sums of reports and of iterates, nothing else. Internal units.

    Attributes
    ----------
    theta : ndarray, shape (p,)
        Current iterate.
    origin : ndarray, shape (p,)
        The start; path sums are taken about it, against cancellation.
    total : ndarray, shape (p,)
        Σ (θ_k − origin).
    batch : ndarray, shape (p,)
        Reports of the unfinished batch, summed.
    path : ndarray, shape (p + 1, LINE)
        Columns (s_k, k) of the current block of updates, s_k the partial sum after update k.
    sums : ndarray, shape (p + 1, p + 1) or (2, p)
        Σ (s_k, k)(s_k, k)ᵀ over finished blocks, lower triangle; in DIAGONAL mode Σ s_k² and Σ k s_k.
    functional : ndarray, shape (p,)
        In DIAGONAL mode coordinate 0 of the path is this functional of s_k (the user's intercept).
    reports : ndarray, shape (p, LINE)
        Mean reports of the current block, if outer products are summed.
    outer : ndarray, shape (p, p)
        Σ g̃ g̃ᵀ over finished blocks, lower triangle.
    curvature : ndarray, shape (p (p + 1) / 2,)
        Σ of curvature reports.
    counts : ndarray of int64, shape (5,)
        Updates, gradient senders, curvature senders, people seen, people in the unfinished batch.
    """

    theta: Array
    origin: Array
    total: Array
    batch: Array
    path: Array
    sums: Array
    functional: Array
    reports: Array
    outer: Array
    curvature: Array
    counts: Ints


class LanePlan(NamedTuple):
    """What is fixed for one stage of chains: numbers only, all public.

    Attributes
    ----------
    family : int
        Kernel code of the score, whose unit form lies in [−1, 1].
    batch : int
        People who are asked at one iterate.
    lanes : int
        Parallel chains; batch g of the stage goes to lane g mod `lanes`.
    reach : float
        Bound of a weighted unit score's ℓ2 norm; the device clips to it.
    kappa : float
        Weight of the bit 1{abs r ≤ c} in a joint report; 0 if scores are sent alone.
    noise_sd : float
        Noise sd per coordinate of a report.
    target : float
        Share of residuals that c is to hold, when it is tracked.
    late : int
        Updates from this one on enter the late averages.
    path : int
        1 if the second moments of the path are kept, for random scaling.
    """

    family: int
    batch: int
    lanes: int
    reach: float
    kappa: float
    noise_sd: float
    target: float
    late: int
    path: int


class Lanes(NamedTuple):
    """State of K parallel chains in whitened coordinates: sums of reports and of iterates, nothing else.

    Attributes
    ----------
    theta : ndarray, shape (K, d)
        Current iterates.
    log_c : ndarray, shape (K,)
        Log of the corner c, internal response units.
    origin : ndarray, shape (d,)
        Common start; sums are taken about it, against cancellation.
    total : ndarray, shape (K, d)
        Σ (θ − origin) over the iterates at which people were asked.
    score : ndarray, shape (K, d)
        Σ c ḡ over batches, ḡ the batch's mean report.
    late : ndarray, shape (K, d + 1)
        Σ (θ − origin, log c) after the updates of the stage's second half.
    batch : ndarray, shape (K, d + 1)
        Reports of the unfinished batch, summed; the last entry is the bits'.
    partial : ndarray, shape (K, d)
        Σ (u_k − origin), u_k = θ_{k−1} − c P ḡ_k the one-step corrections.
    sums : ndarray, shape (K, d + 1, d + 1)
        Σ (s_k, k)(s_k, k)ᵀ of those partial sums, lower triangle, if the path is kept.
    updates : ndarray of int64, shape (K,)
    in_batch : ndarray of int64, shape (K,)
        People in the unfinished batch.
    """

    theta: Array
    log_c: Array
    origin: Array
    total: Array
    score: Array
    late: Array
    batch: Array
    partial: Array
    sums: Array
    updates: Ints
    in_batch: Ints


@njit(cache=True, nogil=True, error_model="numpy")
def _psi(family: int, c: float, eta: float, y: float) -> float:
    if family == HUBER:
        r = y - eta
        r = c if r > c else r  # two selects, no branch to mispredict
        r = -c if r < -c else r
        return -r
    e = math.exp(-abs(eta))
    if eta >= 0:
        return 1.0 / (1.0 + e) - y
    return e / (1.0 + e) - y


@njit(cache=True, nogil=True, error_model="numpy")
def _curvature(family: int, c: float, eta: float, y: float) -> float:
    if family == HUBER:
        return 1.0 if abs(y - eta) <= c else 0.0
    e = math.exp(-abs(eta))
    return e / ((1.0 + e) * (1.0 + e))


@njit(cache=True, nogil=True, error_model="numpy")
def _weight(weights: int, norm2: float, first: float) -> float:
    """ω(x) from ‖x‖² and, for the slopes-only form, the first coordinate."""
    if weights == UNIT:
        return 1.0 / math.sqrt(norm2) if norm2 > TINY else 0.0
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
    if mode != NONE:
        flush(path, BLOCK, sums, mode)
    if has_outer == 1:
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
    noise : ndarray, shape (g, p)
        Standard normals of the next gradient senders.
    curvature_noise : ndarray, shape (c, p (p + 1) / 2)
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
    family, c, weights, bound, sd = plan.family, plan.c, plan.weights, plan.bound, plan.noise_sd
    size, mode, share = plan.batch, plan.scaling_mode, plan.curvature_share
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
        omega = _weight(weights, norm2, x[i, 0])
        factor = _bounded(_psi(family, c, eta, y[i]) * omega, norm2, bound)
        if plan.central == 1:
            curvature = _bounded_curvature(_curvature(family, c, eta, y[i]) * omega, norm2, plan.curvature_bound)
            _central(x, i, curvature, factor, raw_curvature, raw_outer)
        slot = updates % BLOCK
        position += 1
        if size == 1:
            gamma = steps[updates - first]
            if plan.outer == 1:
                for j in range(p):
                    reports[j, slot] = factor * x[i, j] + sd * noise[used, j]
            for j in range(p):
                g = factor * x[i, j] + sd * noise[used, j]
                t = theta[j] - gamma * g
                theta[j] = t
                t = total[j] + (t - origin[j])
                total[j] = t
                path[j, slot] = t
            used += 1
            i += 1
        else:
            for j in range(p):
                batch[j] += factor * x[i, j] + sd * noise[used, j]
            used += 1
            i += 1
            in_batch += 1
            if in_batch < size:
                continue
            in_batch = 0
            gamma = steps[updates - first]
            for j in range(p):
                g = batch[j] / size
                batch[j] = 0.0
                if plan.outer == 1:
                    reports[j, slot] = g
                t = theta[j] - gamma * g
                theta[j] = t
                t = total[j] + (t - origin[j])
                total[j] = t
                path[j, slot] = t
        updates += 1
        path[p, slot] = float(updates)
        if mode == DIAGONAL:
            t = 0.0
            for j in range(p):
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
def _curvature_report(
    x: Array, i: int, y: float, offset: float, norm2: float, noise: Array, plan: Plan, state: State, updates: int
) -> None:
    """One person's curvature ω ∂ψ x xᵀ at the running average, as its noisy upper triangle."""
    p = x.shape[1]
    k = max(updates, 1)
    eta = 0.0
    for j in range(p):
        eta += x[i, j] * (state.origin[j] + state.total[j] / k)
    eta += offset
    factor = _curvature(plan.family, plan.c, eta, y) * _weight(plan.weights, norm2, x[i, 0])
    factor = _bounded_curvature(factor, norm2, plan.curvature_bound)
    q = 0
    for j in range(p):
        for m in range(j, p):
            entry = factor * x[i, j] * x[i, m]
            if m > j:
                entry *= math.sqrt(2.0)
            state.curvature[q] += entry + plan.curvature_sd * noise[q]
            q += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _central(x: Array, i: int, curvature: float, factor: float, raw_curvature: Array, raw_outer: Array) -> None:
    p = x.shape[1]
    f2 = factor * factor
    for j in range(p):
        for m in range(p):
            xx = x[i, j] * x[i, m]
            raw_curvature[j, m] += curvature * xx
            raw_outer[j, m] += f2 * xx


@njit(cache=True, nogil=True, error_model="numpy")
def location_reports(
    x: Array, location: Array, spread: Array, noise: Array, sd: float, total: Array, first: int, n: int
) -> None:
    """Add the location reports of rows `first` … `first + n` − 1 to `total`, shape (2m,); see `device.location_report`.

    The last column is the response if it is among those whose scale is learned.
    """
    m = location.shape[0]
    for i in range(first, first + n):
        for j in range(m):
            a = (x[i, j] - location[j]) / spread[j]
            above = 1.0 if a > 0.0 else 0.0
            outside = 1.0 if abs(a) > 1.0 else 0.0
            total[2 * j] += above + sd * noise[i - first, 2 * j]
            total[2 * j + 1] += outside + sd * noise[i - first, 2 * j + 1]


@njit(cache=True, nogil=True, error_model="numpy")
def moment_reports(v: Array, rows: Array, noise: Array, sd: float, total: Array, first: int, n: int) -> None:
    """Add the moment reports of rows `first` … `first + n` − 1 to `total`, shape (d (d + 1) / 2,).

    A report is the lower triangle of u uᵀ + noise, u = z / ‖z‖, z = `rows` v; see `device.moment_report`.
    """
    d = rows.shape[0]
    z = np.empty(d)
    root = math.sqrt(2.0)
    for i in range(first, first + n):
        norm2 = _whiten(v, i, rows, z)
        factor = 1.0 / norm2 if TINY < norm2 < math.inf else 0.0
        q = 0
        for j in range(d):
            for m in range(j + 1):
                entry = factor * z[j] * z[m] if factor > 0.0 else 0.0
                if m < j:
                    entry *= root
                total[q] += entry + sd * noise[i - first, q]
                q += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _whiten(x: Array, i: int, rows: Array, z: Array) -> float:
    """Fill z with `rows` x[i], rows lower triangular; ‖z‖² is returned."""
    norm2 = 0.0
    for j in range(rows.shape[0]):
        s = 0.0
        for m in range(j + 1):
            s += rows[j, m] * x[i, m]
        z[j] = s
        norm2 += s * s
    return norm2


@njit(cache=True, nogil=True, error_model="numpy")
def _unit_score(family: int, c: float, eta: float, y: float) -> float:
    """Scalar score over its bound, in [−1, 1]."""
    if family == HUBER:
        r = (y - eta) / c
        r = 1.0 if r > 1.0 else r
        r = -1.0 if r < -1.0 else r
        return -r
    # (π − y) / max(π, 1 − π) through e^−|η|: 1 where the likelier value was not seen, else −e^−|η|
    e = math.exp(-abs(eta))
    likelier = 1.0 if eta >= 0 else 0.0
    sign = 1.0 if eta >= 0 else -1.0
    share = (1.0 - y) if likelier == 1.0 else y
    return sign * (share - (1.0 - share) * e)


@njit(cache=True, nogil=True, error_model="numpy")
def run_lanes(
    x: Array,
    y: Array,
    offset: Array,
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
) -> None:
    """Play devices and collector for consecutive people of one stage of chains.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Rows, internal units, before whitening.
    y : ndarray, shape (n,)
    offset : ndarray, shape (n,) or (0,)
    rows : ndarray, shape (d, d)
        Learned row map, lower triangular.
    newton : ndarray, shape (d, d)
        P of the Newton step θ ← θ − γ c P ḡ.
    steps, gains : ndarray, shape (m,)
        γ and the gain of log c, from the update on that the person at `at` belongs to.
    noise : ndarray, shape (n, width)
        A row of standard normals for every person; width is d, or d + 1 for joint reports.
    at : int
        People of this stage before these.
    thread, threads : int
        Only lanes k with ⌊k `threads` / K⌋ = `thread` are worked on: neighbours share cache lines.
    plan, state : LanePlan, Lanes
        The state is updated in place.
    """
    n, d = x.shape
    size, lanes, family, sd = plan.batch, plan.lanes, plan.family, plan.noise_sd
    joint = plan.kappa > 0.0
    has_offset = offset.shape[0] > 0
    z = np.empty(d)
    first = at // size // lanes
    i = 0
    while i < n:
        group = (at + i) // size
        lane = group % lanes
        end = min(n, i + size - (at + i) % size)
        if lane * threads // lanes == thread:
            c = math.exp(state.log_c[lane])
            for k in range(i, end):
                norm2 = _whiten(x, k, rows, z)
                eta = 0.0
                for j in range(d):
                    eta += z[j] * state.theta[lane, j]
                if has_offset:
                    eta += offset[k]
                score = _unit_score(family, c, eta, y[k])
                factor = _bounded(score * _weight(UNIT, norm2, 0.0), norm2, plan.reach)
                for j in range(d):  # a row too long to be squared sends noise only, and 0 × inf would not
                    state.batch[lane, j] += (factor * z[j] if factor != 0.0 else 0.0) + sd * noise[k, j]
                if joint:
                    bit = plan.kappa if abs(y[k] - eta) <= c else 0.0
                    state.batch[lane, d] += bit + sd * noise[k, d]
            state.in_batch[lane] += end - i
            if state.in_batch[lane] == size:
                t = group // lanes
                _update_lane(newton, steps[t - first], gains[t - first], c, lane, plan, state)
        i = end


@njit(cache=True, nogil=True, error_model="numpy")
def _update_lane(newton: Array, gamma: float, gain: float, c: float, lane: int, plan: LanePlan, state: Lanes) -> None:
    """One Newton step of a lane from its finished batch."""
    d = state.theta.shape[1]
    t = state.updates[lane]
    mean = np.empty(d)
    for j in range(d):
        mean[j] = c * (state.batch[lane, j] / plan.batch)
    for j in range(d):
        step = 0.0
        for m in range(d):
            step += newton[j, m] * mean[m]
        ahead = state.theta[lane, j] - state.origin[j]
        state.total[lane, j] += ahead
        state.score[lane, j] += mean[j]
        state.partial[lane, j] += ahead - step
        state.theta[lane, j] -= gamma * step
    if plan.kappa > 0.0:
        move = gain * (state.batch[lane, d] / plan.batch / plan.kappa - plan.target)
        state.log_c[lane] -= min(max(move, -0.5), 0.5)
    for j in range(d + 1):
        state.batch[lane, j] = 0.0
    state.in_batch[lane] = 0
    state.updates[lane] = t + 1
    if t >= plan.late:
        for j in range(d):
            state.late[lane, j] += state.theta[lane, j] - state.origin[j]
        state.late[lane, d] += state.log_c[lane]
    if plan.path == 1:
        k = float(t + 1)
        for j in range(d):
            for m in range(j + 1):
                state.sums[lane, j, m] += state.partial[lane, j] * state.partial[lane, m]
        for m in range(d):
            state.sums[lane, d, m] += k * state.partial[lane, m]
        state.sums[lane, d, d] += k * k


@njit(cache=True, nogil=True, error_model="numpy")
def affine_rows(x: Array, centre: Array, scale: Array) -> None:
    """x[:, j] ← (x[:, j] − centre[j]) / scale[j], in place."""
    n, p = x.shape
    for i in range(n):
        for j in range(p):
            x[i, j] = (x[i, j] - centre[j]) / scale[j]


@njit(cache=True, nogil=True, error_model="numpy")
def linear_rows(x: Array, matrix_t: Array) -> None:
    """X ← x @ matrix_t in place, each row on its own so that the split into chunks can't change a bit."""
    n, p = x.shape
    out = np.empty(p)
    for i in range(n):
        out[:] = 0.0
        for j in range(p):
            a = x[i, j]
            for m in range(p):
                out[m] += a * matrix_t[j, m]
        for m in range(p):
            x[i, m] = out[m]


LAYERS: Final = 256
_TAIL: Final = 3.6541528853610088
_AREA: Final = 0.00492867323399


def _tables() -> tuple[Array, Words, Array]:
    """Scales, acceptance thresholds and densities of the 256 layers, widest first.

    Marsaglia & Tsang (2000), The ziggurat method. Layer i is x < edge[i]; the base layer's edge is
    that of a rectangle with the area of base and tail together.
    """
    edge = np.zeros(LAYERS + 1)
    edge[0] = _AREA / math.exp(-0.5 * _TAIL * _TAIL)
    edge[1] = _TAIL
    for i in range(1, LAYERS - 1):
        edge[i + 1] = math.sqrt(-2.0 * math.log(_AREA / edge[i] + math.exp(-0.5 * edge[i] ** 2)))
    scale = edge[:LAYERS] / 2.0**53
    accept = (edge[1:] / edge[:LAYERS] * 2.0**53).astype(np.uint64)
    return scale, accept, np.exp(-0.5 * edge**2)


_SCALE, _ACCEPT, _DENSITY = _tables()
# The same by nine bits, layer and sign: entry 256 + i is layer i's, negative.
_SIGNED_SCALE = np.concatenate([_SCALE, -_SCALE])
_SIGNED_ACCEPT = np.concatenate([_ACCEPT, _ACCEPT]).astype(np.int64)
_RUN: Final = 8


@njit(cache=True, nogil=True, error_model="numpy")
def ziggurat(words: Words, out: Array, filled: int) -> tuple[np.int64, np.int64]:
    """Turn cipher words into standard normals.

    Parameters
    ----------
    words : ndarray of uint64, shape (w,)
        Key stream, each word used at most once.
    out : ndarray, shape (n,)
        Normals; entries before `filled` are kept.
    filled : int
        Where to go on.

    Returns
    -------
    filled, used : int
        Normals now in `out`, words used. Stops short when the next draw could need more words than
        are left.
    """
    # Unsigned indices spare a test for negative ones; int64 magnitudes (53 bits) convert to float64 faster.
    one, run = np.uint64(1), np.uint64(_RUN)
    n, last = np.uint64(out.shape[0]), np.uint64(max(words.shape[0] - 1, 0))
    f, w = np.uint64(filled), np.uint64(0)
    while f < n and w < last:
        # Runs of words that are all accepted at once, nine runs in ten: no branch inside, so vectorised.
        while f + run <= n and w + run <= last:
            refused = 0
            for k in range(_RUN):
                word = words[w + np.uint64(k)]
                entry = word & np.uint64(511)
                magnitude = np.int64(word >> np.uint64(11))
                out[f + np.uint64(k)] = np.float64(magnitude) * _SIGNED_SCALE[entry]
                refused |= _SIGNED_ACCEPT[entry] - 1 - magnitude  # negative if this one is refused
            if refused < 0:
                break
            f += run
            w += run
        # The run with a refusal, or the end, word by word.
        stop = min(w + run, last)
        while f < n and w < stop:
            word = words[w]
            entry = word & np.uint64(511)
            magnitude = np.int64(word >> np.uint64(11))
            x = np.float64(magnitude) * _SIGNED_SCALE[entry]
            w += one
            if magnitude >= _SIGNED_ACCEPT[entry]:
                layer = entry & np.uint64(255)
                if layer == 0:
                    x, at = _tail(words, np.int64(w))
                    w = np.uint64(at)
                    if x < 0:  # ran out of words inside the tail: start this draw afresh with the next batch
                        return np.int64(f), at
                    if entry != 0:
                        x = -x
                else:
                    u = np.float64(np.int64(words[w] >> np.uint64(11))) / 2.0**53
                    w += one
                    if _DENSITY[layer] + u * (_DENSITY[layer + one] - _DENSITY[layer]) >= math.exp(-0.5 * x * x):
                        continue
            out[f] = x
            f += one
    return np.int64(f), np.int64(w)


@njit(cache=True, nogil=True, error_model="numpy")
def _tail(words: Words, w: int) -> tuple[float, int]:
    """One |normal| beyond the base layer's edge by Marsaglia's method, or −1 if the words run out."""
    while w + 2 <= words.shape[0]:
        a = -math.log((np.float64(words[w] >> np.uint64(11)) + 0.5) / 2.0**53) / _TAIL
        b = -math.log((np.float64(words[w + 1] >> np.uint64(11)) + 0.5) / 2.0**53)
        w += 2
        if b + b > a * a:
            return _TAIL + a, w
    return -1.0, w
