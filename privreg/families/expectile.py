"""Expectiles: asymmetric least squares with Huber's thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from privreg.base.arrays import Array
from privreg.families.declared import Declared
from privreg.families.family import Family
from privreg.families.huber import Huber
from privreg.families.quantile import LevelMeasures
from privreg.families.residuals import Clipped, level, normal_expectile, positive
from privreg.families.scores import Function, Score
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape


class ExpectileScore(LevelMeasures, Clipped):
    """ψ = −w(r) min(max(r, −c), c), w = τ above the line and 1 − τ below; a = τ, b = max(τ, 1 − τ)."""

    code = codes.EXPECTILE
    estimand = (
        "minimiser of the weighted robust {tau:g}-expectile loss: between the conditional {tau:g}-expectile (large c) "
        "and the {tau:g}-quantile (small c)"
    )
    bounded = False

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        r = (y - eta) / c
        return np.asarray(-(np.where(r >= 0.0, shape.a, 1.0 - shape.a) / shape.b) * np.clip(r, -1.0, 1.0))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        r = y - eta
        return np.where(np.abs(r) <= c, np.where(r >= 0.0, shape.a, 1.0 - shape.a) / shape.b, 0.0)

    def sides(self, shape: Shape) -> tuple[float, float]:
        return shape.a, 1.0 - shape.a

    def steep(self, shape: Shape, c: float) -> tuple[float, float]:
        return 0.0, c if shape.a >= 0.5 else -c

    def centred(self, family: Declared, ratio: float) -> float:
        return normal_expectile(family.tau, ratio)

    def shape(self, family: Declared, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, family.tau, max(family.tau, 1.0 - family.tau), 0)

    def score(self, family: Declared, shape: Shape, c: float) -> Score:
        return Score(shape, c, c * shape.b, shape.b, -family.tau * c, (1.0 - family.tau) * c)

    def words(self, family: Declared) -> str:
        return f"Expectile({family.tau:g}, c={family.c!r}, scale={family.scale!r})"

    def named(self, family: Declared) -> str:
        return f"Expectile({family.tau:g})"


@known_arguments
def Expectile(tau: float = 0.5, c: float | str = "auto", scale: float | str = "auto") -> Family:
    """Robust expectile regression: asymmetric least squares with Huber's thresholds.

    Parameters
    ----------
    tau : float
        Level, in (0, 1); 0.5 is :func:`Huber`.
    c, scale : float or "auto"
        As for :func:`Huber`. The smaller c, the nearer the estimand is to the conditional tau-quantile.

    Raises
    ------
    OptionError
        If `tau` is not in (0, 1), or c or scale is out of range.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 5.3.

    Examples
    --------
    >>> Expectile(0.8)
    Expectile(0.8, c='auto', scale='auto')
    """
    huber = Huber(c, positive("scale", scale))
    return Family("Expectile", codes.EXPECTILE, "identity", c=huber.c, scale=huber.scale, tau=level(tau))
