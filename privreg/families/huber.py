"""Huber's loss: residuals beyond ± c residual scales count by their sign."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import OptionError
from privreg.families.declared import Declared
from privreg.families.family import Family
from privreg.families.residuals import LARGEST_C, Clipped, positive, robust_twin
from privreg.families.scores import Function, Score
from privreg.families.squared import MeanMeasures
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape


class HuberScore(MeanMeasures, Clipped):
    """ψ = −min(max(r, −c), c)."""

    code = codes.HUBER
    estimand = (
        "minimiser of the weighted Huber loss: where the model is right, the conditional mean if errors are symmetric, "
        "between it and the conditional median if they are skewed; else their weighted projection"
    )
    symmetric = linear = True

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        r = np.asarray((y - eta) / c)
        return np.asarray(np.negative(np.clip(r, -1.0, 1.0, out=r), out=r))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        return self.near(shape, c, eta, y)

    def score(self, family: Declared, shape: Shape, c: float) -> Score:
        return Score(shape, c, c, math.inf if family.joint else 1.0)  # 1/σ

    def words(self, family: Declared) -> str:
        return f"Huber(c={family.c!r}, scale={family.scale!r})"

    def twin(self, family: Declared, y: Any, x: Any, levels: Any) -> Any:
        return robust_twin(y, x)


@known_arguments
def Huber(c: float | str = "auto", scale: float | str = "auto") -> Family:
    """Robust linear regression with Huber's loss.

    Parameters
    ----------
    c : float or "auto"
        Huber threshold, in units of the residual scale. "auto" is half the residual scale while
        privacy noise dominates and rises to the classical 1.345 as the budget grows. The residual scale is
        where a share P(abs z ≤ c) of the residuals, z standard normal, is within c of it: 38.3% at half.
        With symmetric errors every c gives the conditional mean; with skewed ones a small c gives nearly the
        conditional median.
    scale : float, "auto" or "joint"
        Residual scale in the response's own units, a *public* guess: a wrong one costs
        precision, never privacy. "auto" learns it from privatised reports (with tuning="published": 1, as in
        the sources). "joint", with tuning="published": the chain estimates it beside the coefficients, by the loss
        (σ ρ_c(r/σ) + κ_c σ/2) ω(x); each report holds a score for σ, too.

    Raises
    ------
    OptionError
        If `c` or `scale` is not positive, or `c` is above 100.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 5.1; "joint": SXJKH (arXiv 2507.07041), section 5.1.

    Examples
    --------
    >>> Huber(1.345)
    Huber(c=1.345, scale='auto')
    """
    threshold, size = positive("c", c), positive("scale", scale, ("auto", "joint"))
    if not isinstance(threshold, str) and threshold > LARGEST_C:
        raise OptionError(
            f"c={threshold:g} is in units of the residual scale and usually between 0.5 and 2; for a residual scale "
            f"of {threshold:g} write family=Huber(scale={threshold:g})."
        )
    return Family("Huber", codes.HUBER, "identity", c=threshold, scale=size)
