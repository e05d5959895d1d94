"""What one person's device does: the whole of the privacy claim in one short file.

A device holds one row (x, y), receives the public iterate θ and sends one report. The order is always
score → weight → bound → clip to the bound → randomise. The fused kernel does the same arithmetic in the
same order and is tested to give the same bits.

`bound` is the declared sup of ‖ω(x) ψ x‖₂. The clip is a safety net: were the declared bound wrong,
the report would be biased and stay private. How much it is randomised comes from the mechanism. A row that is not a
number (of somebody who has nothing to say) becomes a report of pure noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.errors import DataError
from privreg.families import scores
from privreg.families.scores import Score
from privreg.families.weights import ScoreWeights
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol import codes, normal
from privreg.protocol.codes import LEVER2, TINY
from privreg.protocol.plans import Channel, ScorePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Function = Callable[[float, float], float] | None

__all__ = [
    "Device",
    "Told",
    "curvature_report",
    "moment_report",
    "randomised",
    "round_report",
    "score_report",
    "scored",
    "second_moments",
    "threshold_report",
]


def randomised(channel: Channel, report: Array, radius: float, noise: Array) -> Array:
    """Randomise a report in the ball of `radius` about 0.

    Parameters
    ----------
    channel : Channel
        The mechanism's numbers.
    report : ndarray, shape (size,)
    radius : float
        For additive noise half the sensitivity.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (size,)
        The only thing that leaves the device.

    References
    ----------
    See `mechanisms.Mechanism`.
    """
    size, scale = len(report), channel.scale * radius
    if channel.kind == codes.GAUSSIAN:
        return np.array([float(v) + scale * float(e) for v, e in zip(report, noise, strict=False)])
    if channel.kind == codes.LAPLACE:
        three = np.reshape(noise[: 3 * size], (size, 3))
        return np.array(
            [float(v) + scale * (math.sqrt(a * a + b * b) * e) for v, (a, b, e) in zip(report, three, strict=True)]
        )
    if channel.kind == codes.RESPONSE:
        share = min(max(float(report[0]) / radius, -1.0), 1.0) if radius > 0.0 else 0.0
        up = normal.cdf(float(noise[0])) < 0.5 + 0.5 * share / channel.scale
        return np.array([scale if up else -scale])
    norm = math.sqrt(_inner(report, report))
    tiny = not norm > 1e-140
    share = 0.0 if tiny else min(norm / radius, 1.0)
    sign = 1.0 if normal.cdf(float(noise[size])) < 0.5 + 0.5 * share else -1.0
    unit = [(1.0 if j == 0 else 0.0) if tiny else float(v) / norm for j, v in enumerate(report)]
    along = _inner(np.array(unit), noise[:size])
    uniform = normal.cdf(along)
    in_cap = normal.cdf(float(noise[size + 1])) < channel.accept
    drawn = -normal.quantile(uniform * channel.above) if in_cap else normal.quantile(uniform * (1.0 - channel.above))
    return np.array([scale * (float(noise[j]) + (sign * drawn - along) * unit[j]) for j in range(size)])


class Device(NamedTuple):
    """What every device knows before it sees its row: public."""

    score: Score  # Scalar score and its bound, internal units
    weights: ScoreWeights  # ω(x)
    mechanism: Mechanism  # Randomiser
    row_bound: float  # sup ‖x‖ω that holds for the declared covariates (finite for every form of weight)
    curvature_bound: float  # sup of ‖ω ∂ψ x xᵀ‖_F, or inf where no curvature may be reported
    function: Function = None  # Score over its bound of a user's own family
    alone: bool = False  # Whether x is the constant 1, so that a score report is one number of known range

    @property
    def centre(self) -> float:
        """What a score report is randomised about."""
        return 0.5 * sum(self.score.range) if self.alone else 0.0

    @property
    def radius(self) -> float:
        """Radius by which a score report is randomised: half the range of a single number, else by its bound."""
        low, high = self.score.range
        return self.mechanism.score_radius(0.5 * (high - low) if self.alone else self.bound)

    @property
    def bound(self) -> float:
        """Declared bound B0 of the weighted score's ℓ2 norm."""
        return self.score.bound * self.row_bound


def _one(value: float) -> Array:
    return np.array([value])


def _leverage(norm2: float, d: int) -> float:
    return math.sqrt(LEVER2 * d / norm2) if norm2 > LEVER2 * d else 1.0


def _weight(weights: ScoreWeights, norm2: float, first: float, d: int) -> float:
    if weights.name == "unit":
        return 1.0 / math.sqrt(norm2) if norm2 > TINY else 0.0
    if weights.name == "published_slopes":
        norm2 = norm2 - first * first
    return 2.0 / norm2 if norm2 > 2.0 else 1.0


def _inner(a: Array, b: Array) -> float:
    out = 0.0
    for j in range(len(a)):
        out += float(a[j]) * float(b[j])
    return out


def _refuse_not_finite(x: Array, y: float, offset: float) -> None:
    if not (np.isfinite(x).all() and math.isfinite(y) and math.isfinite(offset)):
        raise DataError("a row holds a missing or infinite value; drop it, or fill it before reporting.")


def score_report(device: Device, theta: Array, x: Array, y: float, noise: Array, offset: float = 0.0) -> Array:
    """One person's report: the weighted, bounded score plus noise.

    Parameters
    ----------
    device : Device
    theta : ndarray, shape (b p,)
        Current public iterate, internal units; b > 1 blocks for a multinomial response.
    x : ndarray, shape (p,)
        The person's row, internal units.
    y : float
        The person's response, internal units.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.
    offset : float

    Returns
    -------
    ndarray, shape (p,)
        The only thing that leaves the device: μ-GDP for the person.

    Raises
    ------
    DataError
        If the row is not finite.

    References
    ----------
    XSJKH (arXiv 2505.08227), equation (2.3), with noise sd 2·bound/μ.
    """
    _refuse_not_finite(x, y, offset)
    norm2 = _inner(x, x)
    if len(theta) > len(x):
        omega = _weight(device.weights, norm2, float(x[0]), len(x))
        blocks, _ = _blocks_score(theta, np.asarray(x), norm2, omega, y, device.bound, balanced=False)
        return randomised(device.mechanism.channel(len(theta)), np.array(blocks), device.radius, noise)
    eta = _inner(x, theta) + float(offset)
    psi = float(scores.psi(device.score, _one(eta), _one(float(y)), device.function)[0])
    factor = psi * _weight(device.weights, norm2, float(x[0]), len(x))
    norm = abs(factor) * math.sqrt(norm2)
    if device.bound < norm < math.inf:
        factor *= device.bound / norm
    elif not norm <= device.bound:  # overflow: nothing but noise is sent
        factor = 0.0
    report = np.array([(factor * float(v) if factor != 0.0 else 0.0) - device.centre for v in x])
    return randomised(device.mechanism.channel(len(x)), report, device.radius, noise) + device.centre


def curvature_report(device: Device, centre: Array, x: Array, y: float, noise: Array, offset: float = 0.0) -> Array:
    """One person's curvature report, sent *instead of* a score report.

    Parameters
    ----------
    device : Device
    centre : ndarray, shape (p,)
        Public running average of the iterates, internal units.
    x, y, offset
        As in :func:`score_report`.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (p (p + 1) / 2,)
        Upper triangle of ω ∂ψ x xᵀ, off-diagonal entries times √2, plus noise: μ-GDP.

    Raises
    ------
    DataError
        If the row is not finite.
    """
    _refuse_not_finite(x, y, offset)
    norm2 = _inner(x, x)
    eta = _inner(x, centre) + float(offset)
    curvature = float(scores.curvature(device.score, _one(eta), _one(float(y)))[0])
    factor = curvature * _weight(device.weights, norm2, float(x[0]), len(x))
    norm = factor * norm2
    if device.curvature_bound < norm < math.inf:
        factor *= device.curvature_bound / norm
    elif not norm <= device.curvature_bound:
        factor = 0.0
    out: list[float] = []
    for j in range(len(x)):
        for m in range(j, len(x)):
            entry = factor * float(x[j]) * float(x[m]) if factor != 0.0 else 0.0
            out.append(entry * math.sqrt(2.0) if m > j else entry)
    radius = device.mechanism.curvature_radius(device.curvature_bound)
    return randomised(device.mechanism.channel(len(out)), np.array(out), radius, noise)


def threshold_report(mechanism: Mechanism, thresholds: Array, v: Array, noise: Array) -> Array:
    """One person's report, in a fit by rounds, on where each of m numbers lies whose scale nobody declared.

    Parameters
    ----------
    mechanism : Mechanism
    thresholds : ndarray, shape (m,)
        Public ones of the person's group.
    v : ndarray, shape (m,)
        The person's numbers; NaN for one who has nothing to tell.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (m,)
        1 for a number above its threshold, 0 for another, 1/2 for none, randomised about 1/2.
    """
    bits = [0.0 if math.isnan(a) else 0.5 if a > t else -0.5 for a, t in zip(v, thresholds, strict=True)]
    radius = mechanism.bits_radius(len(bits))
    return randomised(mechanism.channel(len(bits)), np.array(bits), radius, noise) + 0.5


def _whitened(rows: Array, x: Array) -> Array:
    if len(rows) < len(x):  # scales and shifts
        return np.array([s * a + (t * x[0] if t != 0.0 else 0.0) for a, s, t in zip(x, *rows, strict=True)])
    return np.array([_inner(rows[j, : j + 1], x[: j + 1]) for j in range(len(x))])


class Told(NamedTuple):
    """A report before it is randomised: a point of the ball of `radius` about 0, and what is made of the answer."""

    report: Array  # shape (size,)
    radius: float
    centre: Array  # Public, added to the answer; shape (size,)
    carried: Array | None = None  # Public covariates that multiply its first number, where only a response is private

    def finish(self, answer: Array) -> Array:
        """What leaves the device, of randomised reports of shape (…, size)."""
        out = answer + self.centre
        if self.carried is None:
            return np.asarray(out)
        with np.errstate(over="ignore", invalid="ignore"):
            score = np.where(out[..., :1] * self.carried != 0.0, out[..., :1] * self.carried, 0.0)
        return np.concatenate([score, out[..., 1:]], axis=-1)


def moment_report(mechanism: Mechanism, rows: Array, v: Array, noise: Array) -> Array:
    """One person's report on second moments.

    Parameters
    ----------
    mechanism : Mechanism
    rows : ndarray, shape (d, d)
        Current public row map, lower triangular.
    v : ndarray, shape (d,)
        The person's covariates, and the response where it has a scale to learn.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (d (d + 1) / 2,)
        Lower triangle of u uᵀ, u = z/‖z‖, z = `rows` v, off-diagonal entries times √2, randomised: u uᵀ is positive
        semidefinite of trace and Frobenius norm 1. Where v can't be used, noise only.
    """
    told = second_moments(rows, v)
    return randomised(mechanism.channel(len(told)), told, mechanism.moment_radius(), noise)


def second_moments(rows: Array, v: Array) -> Array:
    """What a report on second moments says before it is randomised; see `moment_report`."""
    d = len(v)
    with np.errstate(over="ignore", invalid="ignore"):
        z = _whitened(rows, v)
        norm2 = _inner(z, z)
    silent = not TINY < norm2 < math.inf
    factor = 0.0 if silent else 1.0 / norm2
    entries: list[float] = []
    for j in range(d):
        for m in range(j + 1):
            entry = 0.0 if silent else factor * float(z[j]) * float(z[m])
            entries.append(entry * math.sqrt(2.0) if m < j else entry)
    return np.array(entries)


def round_report(
    plan: ScorePlan,
    rows: Array,
    theta: Array,
    c: float,
    x: Array,
    y: float,
    noise: Array,
    offset: float = 0.0,
    function: Function = None,
    weight: float = 1.0,
) -> Array:
    """One person's report in a round of scores: the weighted unit score, and in a pilot a number that tells curvature.

    Parameters
    ----------
    plan : ScorePlan
        Family, bound, weight kappa of the number (0: none is sent), channel and radius.
    rows : ndarray, shape (d, d) or (2, d)
        Public row map, lower triangular; z = `rows` x. Or the scales and shifts of z_j = s_j x_j + t_j x_0.
    theta : ndarray, shape (b d,)
        The group's public coefficients, whitened coordinates, b the number of blocks.
    c : float
        Public corner, internal units.
    x, y, offset
        The person's row, internal units; NaN for one who has nothing to tell.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.
    function : callable, optional
        Score over its bound of a user's own family.
    weight : float
        (μ_i/μ_max)² of a person with a smaller budget, whose report carries more noise.

    Returns
    -------
    ndarray, shape (b d,) or (b d + 1,)
        ψ z/‖z‖, abs ψ ≤ 1, and kappa times the number, randomised. With label privacy ψ alone is randomised, about the
        middle of its range over y at this predictor, and the public ω z multiplies it, ω = min(1, 8 √d/‖z‖).
    """
    told = scored(plan, rows, theta, c, x, y, offset, function)
    return told.finish(randomised(plan.channel, told.report, told.radius / math.sqrt(weight), noise))


def scored(
    plan: ScorePlan,
    rows: Array,
    theta: Array,
    c: float,
    x: Array,
    y: float,
    offset: float = 0.0,
    function: Function = None,
) -> Told:
    """What a report of scores says before it is randomised; arguments as of `round_report`."""
    with np.errstate(over="ignore", invalid="ignore"):
        z = _whitened(rows, x)
        norm2 = _inner(z, z)
        if plan.label:
            omega = _leverage(norm2, len(z))
        else:
            omega = 1.0 / math.sqrt(norm2) if norm2 > TINY else 0.0
        if plan.blocks > 1:
            score, eta = _blocks_score(theta, z, norm2, omega, y, plan.reach, balanced=True)
        else:
            eta = _inner(z, theta) + float(offset)
            psi = float(scores.unit(plan.shape, c, _one(eta), _one(float(y)), function)[0])
    if plan.label:
        return _of_response(plan, z, omega, psi, eta, c, y, function)
    if plan.blocks == 1:
        factor = psi * omega
        norm = abs(factor) * math.sqrt(norm2) if norm2 >= 0.0 else math.nan
        if plan.reach < norm < math.inf:
            factor *= plan.reach / norm
        elif not norm <= plan.reach:
            factor = 0.0
        score = [factor * float(a) if factor != 0.0 else 0.0 for a in z]
    centre = np.zeros(len(score) + int(plan.kappa > 0.0))
    if plan.kappa > 0.0:
        score = [*score, plan.kappa * (_number(plan, c, eta, y, function) - 0.5)]
        centre[-1] = 0.5 * plan.kappa
    return Told(np.array(score), plan.radius, centre)


def _number(plan: ScorePlan, c: float, eta: float, y: float, function: Function) -> float:
    if math.isnan(eta) or math.isnan(y):
        return 0.0  # so that c grows with the share of the silent, and steps with it
    return float(scores.told(plan.shape, c, _one(eta), _one(float(y)), function)[0])


def _of_response(
    plan: ScorePlan, z: Array, omega: float, psi: float, eta: float, c: float, y: float, function: Function
) -> Told:
    ends = scores.unit(plan.shape, c, np.array([eta, eta]), np.array([plan.y_high, plan.y_low]), function)
    low, high = float(ends[0]), float(ends[1])
    if plan.shape.family == codes.CUSTOM:  # one that is not a number there, at infinity: its bound is known
        low, high = -1.0 if math.isnan(low) else low, 1.0 if math.isnan(high) else high
    middle = 0.5 * (low + high)
    # nothing to tell: no score, as far as its range allows
    report = [min(max(0.0 if math.isnan(psi) else psi, low), high) - middle]
    half = 0.5 * (high - low)
    radius = math.sqrt(half * half + 0.25 * (plan.kappa * plan.kappa))
    if not (radius < math.inf and _inner(z, z) < math.inf):
        omega, middle, radius, report = 0.0, 0.0, 1.0, [0.0]
    centre = [middle]
    if plan.kappa > 0.0:
        report.append(plan.kappa * (_number(plan, c, eta, y, function) - 0.5))
        centre.append(0.5 * plan.kappa)
    carried = np.array([omega * float(a) for a in z]) if omega != 0.0 else np.zeros(len(z))
    return Told(np.array(report), radius, np.array(centre), carried)


def _blocks_score(
    theta: Array, z: Array, norm2: float, omega: float, y: float, bound: float, *, balanced: bool
) -> tuple[list[float], float]:
    """Multinomial score over classes k ≥ 1, times ω z; the second value is there for symmetry."""
    d, blocks = len(z), len(theta) // len(z)
    etas = [_inner(z, theta[k * d : (k + 1) * d]) for k in range(blocks)]
    top = max(0.0, *etas) if not any(math.isnan(e) for e in etas) else math.nan
    shares = [math.exp(e - top) if e - top < 700.0 else math.nan for e in [0.0, *etas]]
    total = 0.0
    for share in shares:
        total += share
    shares = [share / total for share in shares]
    squares = 0.0
    for share in shares[1:]:
        squares += share * share
    lengths = [squares, *(squares + 1.0 - 2.0 * share for share in shares[1:])]
    length2 = lengths[int(y)] if y in range(blocks + 1) else math.nan
    scale = omega / math.sqrt(max(lengths)) if balanced and not math.isnan(total) else omega
    norm = scale * math.sqrt(abs(length2) * norm2)
    if bound < norm < math.inf:
        scale *= bound / norm
    if not norm < math.inf:
        return [0.0] * (blocks * d), math.nan
    residual = [share - (1.0 if y == k + 1 else 0.0) for k, share in enumerate(shares[1:])]
    return [scale * r * float(a) for r in residual for a in z], 0.0
