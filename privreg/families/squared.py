"""Least squares of a response with public bounds."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import SchemaError
from privreg.families.scores import REACH, Family, Function, Gauge, Predicted, Score, ScoreRules, Scoring, SumRules
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

LEFT: Final = 0.1  # Part of the slope that is left beyond the bounds in the reference model, by which a state goes back


class MeanMeasures(Scoring):
    """Measures of a line of means."""

    measured = 3

    def values(self, gauge: Gauge, eta: Array, y: Array) -> list[Array]:
        r, centred = (y - eta[:, 0]) / gauge.residual, (y - gauge.centre) / gauge.spread
        return [np.clip(r**2, 0.0, 1.0), np.clip(centred**2, 0.0, 1.0), 0.5 + 0.5 * np.clip(centred, -1.0, 1.0)]

    def measures(self, gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
        g, clipped = gauge, f"residuals and responses clipped at {REACH:g} learned sd"

        def residual_sd(m: Array) -> float:
            square = float(m[0]) * g.residual**2
            return math.copysign(math.sqrt(abs(square)), square) * unit

        def r_squared(m: Array) -> float:
            total = float(m[1]) * g.spread**2 - ((2.0 * float(m[2]) - 1.0) * g.spread) ** 2
            return 1.0 - float(m[0]) * g.residual**2 / total if total > 0.0 else math.nan

        return [
            ("R²", r_squared, f"share of the response's variance that the fit explains; {clipped}"),
            ("residual sd", residual_sd, f"in the response's units; {clipped}"),
        ]


class SquaredScore(MeanMeasures, Predicted):
    """ψ = clamped η − clamped y, to the response's public bounds a and b."""

    code = codes.SQUARED
    estimand = "conditional mean of the response clamped to its public bounds"
    scaled = linear = bent_by_offsets = True
    varying = False
    unsure = 4.0  # units are the response's public limits

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        a, b = shape.a, shape.b
        return np.asarray((np.clip(eta, a, b) - np.clip(y, a, b)) / (b - a))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        return np.where((eta >= shape.a) & (eta <= shape.b), top, 0.0)

    def responses(self, shape: Shape, eta: float, c: float) -> list[tuple[str, float]]:
        return [("y low", shape.a), ("y high", shape.b)]

    def steep(self, shape: Shape, c: float) -> tuple[float, float]:
        return shape.b, shape.a

    def curvature(self, family: Family, c: float, low: float, high: float) -> float:
        return 1.0 / (high - low)

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(1.0 / (high - low), 1.0 / (high - low), 0.01)

    def brief(self, shape: Shape, here: Array, there: Array, c: float) -> tuple[Array, Array]:
        least, most = shape.a, shape.b
        distance = [v + (LEFT - 1.0) * (v - np.clip(v, least, most)) for v in (here, there)]
        slope = np.where((there > least) & (there < most), 1.0, LEFT)
        return (distance[0] - distance[1]) / (most - least), -slope / (most - least)

    def square(self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any) -> Array:
        return np.full_like(here, 0.1)

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, low, high, 0)

    def published(self, family: Family, shape: Shape, c: float, low: float, high: float) -> Score:
        return Score(shape, c, high - low, 1.0)

    def refuse(self, family: Family, limits: tuple[float, float], name: str) -> None:
        if not all(map(math.isfinite, limits)):
            raise SchemaError(f"Squared() needs a response with finite bounds; give bounds={{{name!r}: (low, high)}}.")

    def twin(self, sm: Any, family: Family, y: Array, x: Array) -> Any:
        return sm.OLS(y, x).fit()


@known_arguments
def Squared() -> Family:
    """Least squares for a response with finite public bounds, to which predictions are clamped in the score.

    ``family="gaussian"`` is this one: least squares' coefficients of responses within their bounds, skewed ones too.
    Its score is as wide as the response's range, so it wants many more people than :func:`Huber`; see "Means of
    skewed outcomes" of the guide to models.
    """
    return Family("Squared", codes.SQUARED, "identity")
