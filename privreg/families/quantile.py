"""Quantiles: a score that is a step, whose slope is the density of residuals."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.families.family import Family
from privreg.families.residuals import LevelMeasures, Residual, level
from privreg.families.scores import Function, Score, ScoreRules, SumRules
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

RATIO: Final = 0.5
"""Half-width, in residual sd, of the window about the quantile line by which the density there is learned."""


class QuantileScore(LevelMeasures, Residual):
    """ψ = 1{r < 0} − τ; a = τ, b = max(τ, 1 − τ)."""

    code = codes.QUANTILE
    estimand = "conditional {tau:g}-quantile; its weighted projection if quantiles are not linear"
    density = curved = jumps = True
    bend = RATIO
    shares = "window"

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        r = y - eta
        return np.where(r >= 0.0, -shape.a / shape.b, np.where(r < 0.0, (1.0 - shape.a) / shape.b, np.nan))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        return np.where(np.abs(y - eta) <= c, top, 0.0)  # of its mean over a window of ± c

    def tau(self, shape: Shape) -> float:
        return shape.a

    def ratio(self, family: Family, d: int, mu: float) -> float:
        return RATIO

    def learned(self, family: Family) -> bool:
        return True

    def centred(self, family: Family, ratio: float) -> float:
        return float(ndtri(family.tau))

    def curvature(self, family: Family, c: float) -> float:
        centre, top = self.centred(family, c), max(family.tau, 1.0 - family.tau)
        return c * math.exp(-0.5 * centre**2) / math.sqrt(2.0 * math.pi) / top

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(0.5 / shape.b, known.curvature, (1.0 - shape.a) * shape.a / shape.b**2)

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, family.tau, max(family.tau, 1.0 - family.tau), 0)

    def resolve(self, family: Family, shape: Shape, *, unit: float, low: float, high: float) -> tuple[Score, str]:
        return Score(shape, 1.0, shape.b, math.inf, -family.tau, 1.0 - family.tau), repr(family)

    def compared(self, family: Family, y: Array, eta: Array) -> dict[str, float]:
        r = y - eta[:, 0]
        return {
            "check loss": float(np.mean(r * (family.tau - (r < 0.0)))),
            "share below": float(np.mean(r < 0.0)),
        }

    def words(self, family: Family) -> str:
        return f"Quantile({family.tau:g})"

    def named(self, family: Family) -> str:
        return f"Quantile({family.tau:g})"

    def twin(self, family: Family, y: Any, x: Any, levels: Any) -> Any:
        import statsmodels.api as sm

        return sm.QuantReg(y, x).fit(q=family.tau)


@known_arguments
def Quantile(tau: float = 0.5) -> Family:
    """Quantile regression; with the formula ``"y ~ 1"`` the quantile of one variable.

    Parameters
    ----------
    tau : float
        Level, in (0, 1); 0.5 is the median.

    Raises
    ------
    OptionError
        If `tau` is not in (0, 1).

    Notes
    -----
    Needs a response with a density at the quantile: ties there break the normal limit. The density is learned from
    joint reports, each saying also whether a residual is near the line.

    References
    ----------
    Dette & Graw (arXiv 2405.12553), section 4.

    Examples
    --------
    >>> Quantile(0.9)
    Quantile(0.9)
    """
    return Family("Quantile", codes.QUANTILE, "identity", tau=level(tau))
