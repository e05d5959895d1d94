"""What the chains of an efficient fit are told about a family, and the constants that follow from normal residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.families import scores
from privreg.protocol import codes
from privreg.protocol.plans import Shape

if TYPE_CHECKING:
    from privreg.families.family import Family

__all__ = ["CLASSICAL_C", "ChainRules", "auto_c", "chain_rules", "normal_expectile"]

CLASSICAL_C: Final = 1.345
"""Huber's constant with 95% efficiency for normal errors of sd 1."""

QUANTILE_RATIO: Final = 0.5
"""Half-width, in residual sd, of the window about the quantile line by which the density there is learned."""

PRESENT_TARGET: Final = 0.5
"""Mean of min(1, c/2) over all people, 0 for the silent: c stands still where it is 1 over the share who answer."""

SECANT_TARGET: Final = 0.2
"""Mean rise of a unit score over the tracked window η ± c, where nothing better is known of its curvature."""

EASY_CURVATURE: Final = 0.5
"""Of a count that is a third of the largest on average; that of a yes or no at even odds."""


@dataclass(frozen=True)
class ChainRules:
    """What the chains are told about the family. Public."""

    shape: Shape  # The unit score
    ratio: float  # Corner in residual sd
    track: bool  # Whether the corner c (or the half-width of the window that stands for it) is learned
    target: float  # Mean of the number in joint reports at which it stands still
    curvature: float  # Curvature of the loss there, per unit of score bound and c
    slope: float  # d/d log c of that mean
    moving: bool  # Whether curvature depends on the coefficients, so that these are to be searched for
    centre: float = 0.0  # Where the estimand lies for normal residuals, in their sd above the mean
    counting: bool = False  # Whether c stands for no corner, and is tracked to make up for people who send noise only

    @property
    def skewed(self) -> bool:
        """Whether the loss weighs the two sides of a residual differently."""
        return self.shape.family in {codes.EXPECTILE, codes.QUANTILE} and self.shape.a != 0.5

    @property
    def shaped(self) -> bool:
        """Whether the linear predictor tells the shape of the curvature, and a tracked window its size."""
        return self.shape.family in {codes.HINGE, codes.SMOOTHED_HINGE}

    @property
    def from_predictor(self) -> bool:
        """Whether the linear predictor tells the curvature."""
        return self.moving and not self.track

    @property
    def ease(self) -> float:
        """Curvature at a linear predictor of 0, relative to where it is easiest to learn from."""
        if self.shape.family != codes.POISSON:
            return 1.0
        return float(scores.expected_curvature(self.shape, np.zeros(1))[0]) / EASY_CURVATURE


def _normal_shares(family: Family, ratio: float) -> tuple[float, float, float, float]:
    """P(abs r ≤ c), curvature per unit of score bound and c, slope and centre, for normal residuals, c = `ratio` sd."""
    c, tau = ratio, family.tau
    if family.code == codes.HUBER:
        centre, tau = 0.0, 0.5
    elif family.code == codes.QUANTILE:
        centre = float(ndtri(tau))
    else:
        centre = normal_expectile(tau, c)
    density = [math.exp(-0.5 * v * v) / math.sqrt(2.0 * math.pi) for v in (centre - c, centre, centre + c)]
    low, middle, high = (float(ndtr(v)) for v in (centre - c, centre, centre + c))
    slope = c * (density[0] + density[2])
    top = max(tau, 1.0 - tau)
    if family.code == codes.QUANTILE:
        return high - low, c * density[1] / top, slope, centre
    return high - low, (tau * (high - middle) + (1.0 - tau) * (middle - low)) / top, slope, centre


def normal_expectile(tau: float, c: float) -> float:
    """Where the robust expectile of a standard normal lies."""
    from scipy.optimize import brentq

    z = np.asarray(ndtri((np.arange(4000) + 0.5) / 4000))

    def score(at: float) -> float:
        r = z - at
        return float(np.mean(np.where(r >= 0.0, tau, 1.0 - tau) * np.clip(r, -c, c)))

    return float(brentq(score, -8.0, 8.0))


def auto_c(p: int, mu: float) -> float:
    """Pick c (in residual sd) that minimises the asymptotic variance under unit weights, in [0.5, 1.345].

    With spherical covariates A = (2Φ(c)−1) a I and the per-coordinate variance of a report is
    E ψ²/p + (2c/μ)²; below c = 0.5 the gain is under 5% while the curvature keeps falling.
    """
    grid = np.linspace(0.5, CLASSICAL_C, 170)
    cdf = np.array([math.erf(v / math.sqrt(2.0)) for v in grid])  # 2Φ(c) − 1
    pdf = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    psi2 = cdf - 2 * grid * pdf + grid**2 * (1 - cdf)
    variance = (psi2 / p + (2 * grid / mu) ** 2) / cdf**2
    return float(grid[int(np.argmin(variance))])


def chain_rules(
    family: Family,
    d: int,
    mu: float,
    *,
    low: float = -1.0,
    high: float = 1.0,
    label: bool = False,
    nonresponse: bool = False,
) -> ChainRules:
    """What the chains of an efficient fit need to know.

    Parameters
    ----------
    family : Family
    d : int
        Coefficients.
    mu : float
        GDP parameter per person.
    low, high : float
        Public limits of the response, internal units.
    label : bool
        Whether only the response is private: then a score's range counts, not its size.
    nonresponse : bool
        Whether people may send noise only.

    Returns
    -------
    ChainRules
    """
    shape = family.shape(low, high, balanced=not label)
    if family.of_residuals:
        ratio = auto_c(d, mu) if isinstance(family.c, str) else family.c
        ratio = QUANTILE_RATIO if family.code == codes.QUANTILE else ratio
        learned = family.code == codes.QUANTILE or isinstance(family.scale, str)
        target, curvature, slope, centre = _normal_shares(family, ratio)
        return ChainRules(shape, ratio, learned, target, curvature, slope, moving=False, centre=centre)
    target = slope = PRESENT_TARGET if nonresponse else 1.0
    if family.code == codes.SQUARED:
        curvature = 1.0 / (high - low)
        return ChainRules(shape, 1.0, False, target, curvature, slope, moving=False, counting=nonresponse)
    if family.code in {codes.HINGE, codes.SMOOTHED_HINGE, codes.CUSTOM}:
        return ChainRules(shape, 1.0, True, SECANT_TARGET, SECANT_TARGET, SECANT_TARGET, moving=True)
    return ChainRules(shape, 1.0, False, target, 1.0, slope, moving=True, counting=nonresponse)
