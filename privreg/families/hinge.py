"""Linear support vector machines: the hinge loss, and one that is rounded off."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import OptionError, real, shown
from privreg.families.scores import CAP, Family, Function, Gauge, Score, ScoreRules, Scoring, SumRules
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

CURVATURE: Final = 0.2  # Assumed curvature of hinges and of scores that users define
MARGIN: Final = 0.5
SMOOTHED_MARGIN: Final = 0.2
"""Length of groups' offsets on the scale of the predictor, of hinges, whose curvature changes with the predictor in a
way that no reference model here has. With 0.7 estimates were up to 2 standard errors from where the mean score is zero,
with 0.5 up to 0.8; with 0.2 reports showed nothing. Of smoothed ones, 5.8 standard errors with 0.7, 0.7 with 0.2, for
intervals a fifth longer (`benchmarks.families`)."""
_SVM: Final = "direction and offset of the hyperplane with the least mean weighted {} loss; no odds, no probabilities"


class Margin(Scoring):
    """A score of the margin (2 y − 1) η, or one that nothing is known of: its curvature is learned near the margin."""

    unsure = 4.0
    tracked = varying = True

    def curvature(self, family: Family, c: float, low: float, high: float) -> float:
        return CURVATURE


class HingeScore(Margin):
    """ψ = −s where the margin is below 1, s = 2 y − 1."""

    code = codes.HINGE
    estimand = _SVM.format("hinge")
    jumps = True
    margin = MARGIN
    measured = 2

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        side = 2.0 * y - 1.0
        margin = side * eta
        return np.where(margin < 1.0, -side, np.where(margin >= 1.0, 0.0, np.nan))

    def responses(self, shape: Shape, eta: float, c: float) -> list[tuple[str, float]]:
        return [("y = 0", 0.0), ("y = 1", 1.0)]

    def values(self, gauge: Gauge, eta: Array, y: Array) -> list[Array]:
        margin = (2.0 * y - 1.0) * eta[:, 0]
        right = np.where(np.isnan(margin), np.nan, (margin > 0.0).astype(np.float64))
        return [np.clip(np.maximum(1.0 - margin, 0.0) / CAP, 0.0, 1.0), right]

    def measures(self, gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
        return [
            ("accuracy", lambda m: float(m[1]), "share of people on their side of the hyperplane"),
            ("hinge loss", lambda m: CAP * float(m[0]), f"mean of max(0, 1 − margin), clipped at {CAP:g}"),
        ]

    def compared(self, family: Family, y: Array, eta: Array) -> dict[str, float]:
        margin = (2.0 * y - 1.0) * eta[:, 0]
        loss = float(np.mean(np.maximum(1.0 - margin, 0.0)))
        return {"accuracy": float(np.mean(margin > 0.0)), "hinge loss": loss}

    def unsummed(self, family: Family) -> str:
        return (
            f"reports hold the score's slope, and that of {family!r} is 0 wherever there is one; use SmoothedHinge(), "
            "Logistic() or {others}"
        )


class SmoothedHingeScore(HingeScore):
    """ψ = −s min(max((1 − margin)/a, 0), 1)."""

    code = codes.SMOOTHED_HINGE
    call = "SmoothedHinge(width={width:g})"
    estimand = _SVM.format("smoothed hinge")
    jumps = False
    margin = SMOOTHED_MARGIN

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        side = 2.0 * y - 1.0
        return np.asarray(-side * np.clip((1.0 - side * eta) / shape.a, 0.0, 1.0))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        short = 1.0 - (2.0 * y - 1.0) * eta
        return np.where((short > 0.0) & (short < shape.a), top, 0.0)

    def steep(self, shape: Shape, c: float) -> tuple[float, float]:
        return 1.0 - 0.999 * shape.a, 1.0

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(1.0, known.curvature, known.curvature, family.width)

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, family.width, 0.0, 0)

    def published(self, family: Family, shape: Shape, c: float, low: float, high: float) -> Score:
        return Score(shape, c, 1.0, 1.0 / family.width)

    def unsummed(self, family: Family) -> str:
        return ""


@known_arguments
def Hinge() -> Family:
    """Linear support vector machine: hinge loss for a response in {0, 1}, a boolean, or a two-level factor."""
    return Family("Hinge", codes.HINGE, "margin", "binary")


@known_arguments
def SmoothedHinge(width: float = 1.0) -> Family:
    """Linear support vector machine with a hinge rounded off over a stretch of the margin.
    Raises OptionError if `width` is not a positive number.

    Parameters
    ----------
    width : float
        Length of that stretch: the loss is (1 − m)²/(2 width) for margins m in (1 − width, 1), linear below.
    """
    number = real(width)
    if number is None or not 0.0 < number < math.inf:
        raise OptionError(f"width={shown(width)} must be a positive number; 1 is usual.")
    return Family("SmoothedHinge", codes.SMOOTHED_HINGE, "margin", "binary", width=number)
