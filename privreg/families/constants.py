"""Rules of a family for a fit by rounds, and the constants that follow from normal residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.families.family import CLASSICAL_C, Family
from privreg.protocol import codes
from privreg.protocol.plans import Shape

QUANTILE_RATIO: Final = 0.5
"""Half-width, in residual sd, of the window about the quantile line by which the density there is learned."""

HINGE_CURVATURE: Final = 0.2  # Assumed curvature of hinges and of scores that users define


@dataclass(frozen=True)
class ScoreRules:
    """Public constants of a family for the collector."""

    shape: Shape  # The unit score
    ratio: float  # Huber threshold in residual sd
    track: bool  # True if the threshold c (or the half-width of the window that stands for it) is learned
    curvature: float  # Curvature of the loss, per unit of score bound and c
    varying: bool  # True if curvature depends on the coefficients, so that these are to be searched for
    centre: float = 0.0  # The estimand for normal residuals, in their sd above the mean

    @property
    def from_predictor(self) -> bool:
        """True if curvature follows from the linear predictor."""
        return self.varying and not self.track


def _normal_shares(family: Family, ratio: float) -> tuple[float, float]:
    """Curvature per unit of score bound and c, and centre, for normal residuals, c = `ratio` sd."""
    c, tau = ratio, family.tau
    if family.code == codes.HUBER:
        centre, tau = 0.0, 0.5
    elif family.code == codes.QUANTILE:
        centre = float(ndtri(tau))
    else:
        centre = normal_expectile(tau, c)
    top = max(tau, 1.0 - tau)
    if family.code == codes.QUANTILE:
        return c * math.exp(-0.5 * centre**2) / math.sqrt(2.0 * math.pi) / top, centre
    low, middle, high = (float(ndtr(v)) for v in (centre - c, centre, centre + c))
    return (tau * (high - middle) + (1.0 - tau) * (middle - low)) / top, centre


def normal_expectile(tau: float, c: float) -> float:
    """Robust expectile of a standard normal."""
    from scipy.optimize import brentq

    z = np.asarray(ndtri((np.arange(4000) + 0.5) / 4000))

    def score(at: float) -> float:
        r = z - at
        return float(np.mean(np.where(r >= 0.0, tau, 1.0 - tau) * np.clip(r, -c, c)))

    return float(brentq(score, -8.0, 8.0))


def clipped_square(c: float) -> float:
    """E min(Z², c²) of a standard normal Z."""
    inside = math.erf(c / math.sqrt(2.0))
    return inside - c * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * c * c) + c * c * (1.0 - inside)


def auto_c(p: int, mu: float) -> float:
    """Threshold c in residual sd, in [0.5, 1.345], of the least asymptotic variance: equation (3) of docs/estimator.md.

    For `p` coefficients at `mu` per person. With spherical covariates the curvature is in proportion to 2Φ(c) − 1;
    below c = 0.5 the gain is under 5% while the curvature keeps falling.
    """
    grid = np.linspace(0.5, CLASSICAL_C, 170)
    cdf = np.array([math.erf(v / math.sqrt(2.0)) for v in grid])  # 2Φ(c) − 1
    pdf = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    psi2 = cdf - 2 * grid * pdf + grid**2 * (1 - cdf)
    variance = (psi2 / p + (2 * grid / mu) ** 2) / cdf**2
    return float(grid[int(np.argmin(variance))])


def score_rules(
    family: Family,
    d: int,
    mu: float,
    *,
    low: float = -1.0,
    high: float = 1.0,
    label: bool = False,
    plain: bool = False,
) -> ScoreRules:
    """Rules of a family for a fit by rounds of `d` coefficients at `mu` per person.

    `low` and `high` are public limits of the response, internal units. `label` is True if only the response is
    private: then a score's range counts, not its size. `plain` is True if no score has a divisor that depends on
    covariates, as likelihoods have none.
    Raises OptionError if the family is the published chain's alone; ValueError of a code without rules here.
    """
    family.refuse_joint()
    shape = family.shape(low, high, balanced=not (label or plain), plain=plain)
    if family.of_residuals:
        ratio = auto_c(d, mu) if isinstance(family.c, str) else family.c
        ratio = QUANTILE_RATIO if family.code == codes.QUANTILE else ratio
        learned = family.code == codes.QUANTILE or isinstance(family.scale, str)
        curvature, centre = _normal_shares(family, ratio)
        return ScoreRules(shape, ratio, learned, curvature, varying=False, centre=centre)
    if family.code == codes.SQUARED:
        return ScoreRules(shape, 1.0, False, 1.0 / (high - low), varying=False)
    if family.code in {codes.HINGE, codes.SMOOTHED_HINGE, codes.CUSTOM}:
        return ScoreRules(shape, 1.0, True, HINGE_CURVATURE, varying=True)
    if family.code not in {codes.LOGISTIC, codes.MULTINOMIAL, codes.POISSON}:
        raise ValueError(f"no rules of rounds for {family!r}")
    return ScoreRules(shape, float(family.c) if family.robust else 1.0, False, 1.0, varying=True)
