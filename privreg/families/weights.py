"""Score weights ω(x): how a covariate vector of any length gives a score of bounded length."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privreg.protocol.codes import LEVER2, TINY


@dataclass(frozen=True)
class ScoreWeights:
    """A form of weight."""

    name: str
    code: int  # Kernel code
    reach: float  # sup ‖x‖ω(x) over all x
    reach2: float  # sup ‖x‖²ω(x), which bounds a curvature report; inf if only bounded covariates bound it
    formula: str  # In words, for the privacy block


SCORE_WEIGHTS: Final = {
    "unit": ScoreWeights("unit", 2, 1.0 + 1e-12, math.inf, "1/‖x‖"),
    "published": ScoreWeights("published", 1, math.sqrt(2.0), 2.0, "min(1, 2/‖x‖²)"),
    "published_slopes": ScoreWeights(
        "published_slopes", 3, math.sqrt(3.0), 3.0, "min(1, 2/‖slopes‖²), intercept left out"
    ),
    "leverage": ScoreWeights(
        "leverage", 4, math.inf, math.inf, "min(1, 8 √p/‖x‖), x = covariates uncorrelated, variance 1, which are public"
    ),
}
"""Published: Mallows weights of XSJKH (arXiv 2505.08227), section 5. With the intercept left out of the
norm ‖x‖²ω ≤ (1 + 2)·1, so the reach is √3. Unit weights have the largest curvature per unit of bound;
their reach is a hair above 1 to cover rounding, so that the safety clip is a branch hardly ever taken.
Leverage: where covariates are public nothing of privacy depends on the weights, so ordinary rows, and those of rare
levels, have the weight 1; ‖x‖ω is bounded by 8 √p for any number p of them."""


def omega(weights: ScoreWeights, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """ω of every row in internal units, shape (n, p): the NumPy twin of the kernel's, shape (n,)."""
    norm2 = np.einsum("ij,ij->i", x, x)
    if weights.name == "unit":
        return np.asarray(np.divide(1.0, np.sqrt(norm2), out=np.zeros_like(norm2), where=norm2 > TINY))
    if weights.name == "leverage":
        most = LEVER2 * x.shape[1]
        return np.asarray(np.sqrt(np.divide(most, norm2, out=np.ones_like(norm2), where=norm2 > most)))
    if weights.name == "published_slopes":
        norm2 = norm2 - x[:, 0] ** 2
    return np.asarray(np.minimum(1.0, np.divide(2.0, norm2, out=np.ones_like(norm2), where=norm2 > 0)))
