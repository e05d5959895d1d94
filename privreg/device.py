"""What one person's device does: the whole of the privacy claim in one short file.

A device holds one row (x, y), receives the public iterate θ and sends one report. The order is always
score → weight → bound → clip to the bound → randomise. The fused kernel does the same arithmetic in the
same order and is tested to give the same bits.

`bound` is the declared sup of ‖ω(x) ψ x‖₂. The clip is a safety net: were the declared bound wrong,
the report would be biased and stay private. The noise sd comes from the mechanism (2·bound/μ).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.errors import DataError
from privreg.families import HUBER, Score
from privreg.kernels import TINY, LanePlan
from privreg.mechanisms import Gaussian
from privreg.weights import ScoreWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Device", "curvature_report", "lane_report", "location_report", "moment_report", "score_report"]


class Device(NamedTuple):
    """What every device knows before it sees its row: public.

    Attributes
    ----------
    score : Score
        Scalar score and its bound, internal units.
    weights : ScoreWeights
        ω(x).
    mechanism : Gaussian
        Randomiser.
    row_bound : float
        sup ‖x‖ω that holds for the declared covariates (finite for every form of weight).
    curvature_bound : float
        sup of ‖ω ∂ψ x xᵀ‖_F, or inf where no curvature may be reported.
    """

    score: Score
    weights: ScoreWeights
    mechanism: Gaussian
    row_bound: float
    curvature_bound: float

    @property
    def bound(self) -> float:
        """Declared bound B0 of the weighted score's ℓ2 norm."""
        return self.score.bound * self.row_bound


def _clamped(r: float, c: float) -> float:
    """Limit r to ±c; what is not a number stays so, and becomes a report of pure noise."""
    r = c if r > c else r
    return -c if r < -c else r


def _scalar_score(score: Score, eta: float, y: float) -> float:
    if score.code == HUBER:
        return -_clamped(y - eta, score.c)
    e = math.exp(-abs(eta))
    return (1.0 / (1.0 + e) if eta >= 0 else e / (1.0 + e)) - y


def _scalar_curvature(score: Score, eta: float, y: float) -> float:
    if score.code == HUBER:
        return 1.0 if abs(y - eta) <= score.c else 0.0
    e = math.exp(-abs(eta))
    return e / ((1.0 + e) * (1.0 + e))


def _weight(weights: ScoreWeights, norm2: float, first: float) -> float:
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
    theta : ndarray, shape (p,)
        Current public iterate, internal units.
    x : ndarray, shape (p,)
        The person's row, internal units.
    y : float
        The person's response, internal units.
    noise : ndarray, shape (p,)
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
    eta = _inner(x, theta) + float(offset)
    factor = _scalar_score(device.score, eta, float(y)) * _weight(device.weights, norm2, float(x[0]))
    norm = abs(factor) * math.sqrt(norm2)
    if device.bound < norm < math.inf:
        factor *= device.bound / norm
    elif not norm <= device.bound:  # overflow: nothing but noise is sent
        factor = 0.0
    sd = device.mechanism.score_sd(device.bound)
    return np.array([factor * float(x[j]) + sd * float(noise[j]) for j in range(len(x))])


def curvature_report(device: Device, centre: Array, x: Array, y: float, noise: Array, offset: float = 0.0) -> Array:
    """One person's curvature report, sent *instead of* a score report.

    Parameters
    ----------
    device : Device
    centre : ndarray, shape (p,)
        Public running average of the iterates, internal units.
    x, y, offset
        As in :func:`score_report`.
    noise : ndarray, shape (p (p + 1) / 2,)
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
    factor = _scalar_curvature(device.score, eta, float(y)) * _weight(device.weights, norm2, float(x[0]))
    norm = factor * norm2
    if device.curvature_bound < norm < math.inf:
        factor *= device.curvature_bound / norm
    elif not norm <= device.curvature_bound:
        factor = 0.0
    sd = device.mechanism.curvature_sd(device.curvature_bound)
    out: list[float] = []
    for j in range(len(x)):
        for m in range(j, len(x)):
            entry = factor * float(x[j]) * float(x[m])
            out.append((entry * math.sqrt(2.0) if m > j else entry) + sd * float(noise[len(out)]))
    return np.array(out)


def location_report(mechanism: Gaussian, location: Array, spread: Array, v: Array, noise: Array) -> Array:
    """One person's report on where each of m numbers lies, for columns whose scale nobody declared.

    Parameters
    ----------
    mechanism : Gaussian
    location, spread : ndarray, shape (m,)
        Current public guesses; spread > 0.
    v : ndarray, shape (m,)
        The person's numbers.
    noise : ndarray, shape (2m,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (2m,)
        For each number, with a = (v − location) / spread, the bits 1{a > 0} and 1{abs a > 1}, plus noise: μ-GDP.
    """
    _refuse_not_finite(v, 0.0, 0.0)
    sd = mechanism.bits_sd(2 * len(v))
    out: list[float] = []
    for j in range(len(v)):
        with np.errstate(over="ignore"):
            a = float((v[j] - location[j]) / spread[j])
        out.append((1.0 if a > 0.0 else 0.0) + sd * float(noise[2 * j]))
        out.append((1.0 if abs(a) > 1.0 else 0.0) + sd * float(noise[2 * j + 1]))
    return np.array(out)


def _whitened(rows: Array, x: Array) -> Array:
    return np.array([_inner(rows[j, : j + 1], x[: j + 1]) for j in range(len(x))])


def moment_report(mechanism: Gaussian, rows: Array, v: Array, noise: Array) -> Array:
    """One person's report on second moments.

    Parameters
    ----------
    mechanism : Gaussian
    rows : ndarray, shape (d, d)
        Current public row map, lower triangular.
    v : ndarray, shape (d,)
        The person's covariates, and the response where it has a scale to learn.
    noise : ndarray, shape (d (d + 1) / 2,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (d (d + 1) / 2,)
        Lower triangle of u uᵀ, u = z/‖z‖, z = `rows` v, off-diagonal entries times √2, plus noise: μ-GDP, since
        u uᵀ is positive semidefinite of Frobenius norm 1.
    """
    _refuse_not_finite(v, 0.0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        z = _whitened(rows, v)
        norm2 = _inner(z, z)
    factor = 1.0 / norm2 if TINY < norm2 < math.inf else 0.0
    sd = mechanism.moment_sd()
    out: list[float] = []
    for j in range(len(v)):
        for m in range(j + 1):
            entry = factor * float(z[j]) * float(z[m]) if factor > 0.0 else 0.0
            out.append((entry * math.sqrt(2.0) if m < j else entry) + sd * float(noise[len(out)]))
    return np.array(out)


def _unit_score(family: int, c: float, eta: float, y: float) -> float:
    if family == HUBER:
        return -_clamped((y - eta) / c, 1.0)
    e = math.exp(-abs(eta))
    if eta >= 0:
        return (1.0 - y) - (1.0 - (1.0 - y)) * e
    return -(y - (1.0 - y) * e)


def lane_report(
    plan: LanePlan,
    mechanism: Gaussian,
    rows: Array,
    theta: Array,
    c: float,
    x: Array,
    y: float,
    noise: Array,
    offset: float = 0.0,
) -> Array:
    """One person's report to a chain: the weighted unit score, and in a joint report whether abs r ≤ c.

    Parameters
    ----------
    plan : LanePlan
        Family, bound, weight kappa of the bit (0: no bit is sent).
    mechanism : Gaussian
    rows : ndarray, shape (d, d)
        Public row map, lower triangular; z = `rows` x.
    theta : ndarray, shape (d,)
        Current public iterate, whitened coordinates.
    c : float
        Current public corner, internal units.
    x, y, offset
        The person's row, internal units.
    noise : ndarray, shape (d,) or (d + 1,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (d,) or (d + 1,)
        ψ z/‖z‖, abs ψ ≤ 1, and kappa·1{abs r ≤ c}, plus noise of sd √(4 + kappa²)/μ: μ-GDP.

    Raises
    ------
    DataError
        If the row is not finite.
    """
    _refuse_not_finite(x, y, offset)
    with np.errstate(over="ignore", invalid="ignore"):
        z = _whitened(rows, x)
        norm2 = _inner(z, z)
        eta = _inner(z, theta) + float(offset)
        score = _unit_score(plan.family, c, eta, float(y))
        factor = score * (1.0 / math.sqrt(norm2) if norm2 > TINY else 0.0)
        norm = abs(factor) * math.sqrt(norm2) if norm2 >= 0.0 else math.nan
    if plan.reach < norm < math.inf:
        factor *= plan.reach / norm
    elif not norm <= plan.reach:
        factor = 0.0
    sd = mechanism.joint_sd(plan.reach, plan.kappa)
    out = [(factor * float(a) if factor != 0.0 else 0.0) + sd * float(e) for a, e in zip(z, noise, strict=False)]
    if plan.kappa > 0.0:
        out.append((plan.kappa if abs(float(y) - eta) <= c else 0.0) + sd * float(noise[len(z)]))
    return np.array(out)
