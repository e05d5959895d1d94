"""Complementary log-log regression: whether an event has happened by a public time, by the logarithm of its hazard."""

import math
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.families.logistic import ClassMeasures
from privreg.families.scores import LINKS, Binary, Family, Function, ScoreRules, SumRules
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

LARGEST: Final = 32.0
"""Hazard up to which the likelihood's score rises: one so large has no event with the chance e^−32."""
STEEPEST: Final = math.exp(-1.0)  # Largest slope of π, at η = 0
BEND: Final = 0.25
"""Change of η over which the slope of π changes by as much as it is, along the direction of normal rows in which it
changes most: 0.255 where nine in ten have an event and predictors have an sd of 0.8, 0.7 where one in twelve has. See
"Scores that bend" in docs/sums.md."""
SMALL: Final = 1e-3  # Hazard below which the likelihood's slope is half of it, up to a part of 3e-4


class CloglogScore(ClassMeasures, Binary):
    """ψ = π − y, π = 1 − e^−m, m = e^η; over max(π, 1 − π) if b is 1. If a is positive, the likelihood's over a."""

    code = codes.CLOGLOG
    estimand = "log hazard ratios of the complementary log-log model; its weighted projection if the model is wrong"
    bend = BEND
    logs = ("log hazard", "hazard ratio")

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        m = np.exp(eta)
        if shape.a:
            m = np.minimum(m, shape.a)
            return np.asarray(((1.0 - y) * m - y * np.where(m > 0.0, m / np.expm1(m), 1.0)) / shape.a)
        share, rest = -np.expm1(-m), np.exp(-m)
        return np.asarray(((1.0 - y) * share - y * rest) / (np.maximum(share, rest) if shape.b else 1.0))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        m = np.exp(np.minimum(eta, 700.0))
        if not shape.a:
            return np.asarray(m * np.exp(-m))
        rest = np.exp(-m)
        event = np.where(m < SMALL, 0.5 * m, m * rest * (m + np.expm1(-m)) / np.expm1(-m) ** 2)
        return np.asarray(np.where(m < shape.a, (1.0 - y) * m + y * event, 0.0) / shape.a)

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(1.0, 0.3 / shape.a, 0.3 / shape.a**2) if shape.a else SumRules(STEEPEST, 0.25, 0.2)

    def noiseless(self, shape: Shape) -> Shape:
        return shape._replace(a=LARGEST, b=0.0)

    def linked(self, mean: float) -> tuple[float, float]:
        m = -math.log1p(-mean)
        return math.log(m), (1.0 - mean) * m

    def mean(self, shape: Shape, there: Array) -> tuple[Array, Array]:
        m = np.exp(np.minimum(there, 700.0))
        return -np.expm1(-m), m * np.exp(-m)

    def perfect(self, eta: Array) -> list[tuple[float, Array]]:
        m = np.exp(np.clip(eta, -50.0, 6.0))
        return [(1.0, m / np.expm1(m)), (-1.0, m)]

    def log_odds(self, eta: Array) -> Array:
        m = np.exp(np.clip(eta, -700.0, 700.0))
        return np.asarray(m + np.log(-np.expm1(-m)))

    def balanced(self, shape: Shape, *, summed: bool) -> bool:
        return bool(shape.b)

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, 0.0, float(balanced), 0)

    def twin(self, sm: Any, family: Family, y: Array, x: Array) -> Any:
        return sm.GLM(y, x, family=sm.families.Binomial(sm.families.links.CLogLog())).fit()


LINKS["cloglog"] = lambda eta: -np.expm1(-np.exp(eta)), lambda eta: np.exp(eta - np.exp(eta))


@known_arguments
def Cloglog() -> Family:
    """Complementary log-log regression for a response in {0, 1}, a boolean, or a two-level factor.

    The probability is 1 − exp(−exp(η)): of an event with proportional hazards by one public time, so that exponentials
    of coefficients are hazard ratios.

    The score of the likelihood has no bound. With noise it is π − y instead, whose zero is the same where the model is
    right, and whose loss is convex, too. Without noise (``mu=None``, ``trust="central"``) it is the likelihood's.
    """
    return Family("Cloglog", codes.CLOGLOG, "cloglog", "binary")
