"""One person's device of the published chain, readable: the compiled loop gives the same bits.

A device holds one row (x, y), receives the public iterate θ and sends one report. The order is always
score → weight → bound → clip to the bound → randomise.

`bound` is the declared sup of ‖ω(x) ψ x‖₂. The clip is a safety net: were the declared bound wrong,
the report would be biased and stay private. How much it is randomised comes from the mechanism.
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
from privreg.privacy.channels import randomised_one
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol.codes import TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Function = Callable[[float, float], float] | None

__all__ = ["Device", "curvature_report", "score_report"]


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
        blocks = np.array(_blocks_score(theta, np.asarray(x), norm2, omega, y, device.bound))
        return randomised_one(device.mechanism.channel(len(theta)), blocks, device.radius, noise)
    eta = _inner(x, theta) + float(offset)
    psi = float(scores.psi(device.score, _one(eta), _one(float(y)), device.function)[0])
    factor = psi * _weight(device.weights, norm2, float(x[0]), len(x))
    norm = abs(factor) * math.sqrt(norm2)
    if device.bound < norm < math.inf:
        factor *= device.bound / norm
    elif not norm <= device.bound:  # overflow: nothing but noise is sent
        factor = 0.0
    report = np.array([(factor * float(v) if factor != 0.0 else 0.0) - device.centre for v in x])
    return randomised_one(device.mechanism.channel(len(x)), report, device.radius, noise) + device.centre


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
    return randomised_one(device.mechanism.channel(len(out)), np.array(out), radius, noise)


def _blocks_score(theta: Array, x: Array, norm2: float, omega: float, y: float, bound: float) -> list[float]:
    """Multinomial score over classes k ≥ 1, times ω x."""
    d, blocks = len(x), len(theta) // len(x)
    etas = [_inner(x, theta[k * d : (k + 1) * d]) for k in range(blocks)]
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
    scale = omega
    norm = scale * math.sqrt(abs(length2) * norm2)
    if bound < norm < math.inf:
        scale *= bound / norm
    if not norm < math.inf:
        return [0.0] * (blocks * d)
    residual = [share - (1.0 if y == k + 1 else 0.0) for k, share in enumerate(shares[1:])]
    return [scale * r * float(a) for r in residual for a in x]
