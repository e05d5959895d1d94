"""Logistic regression of a response that is 0 or 1, and of classes, whose scores are reported at once."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy.special import softmax

from privreg.base.arrays import Array
from privreg.families.scores import (
    CAP,
    Binary,
    Family,
    Function,
    Gauge,
    Predicted,
    ScoreRules,
    Scoring,
    SumRules,
    probability,
)
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

RARE: Final = 1e-300  # Least probability whose logarithm is taken


class ClassMeasures(Scoring):
    """Measures of probabilities of classes, whose predictors are log-odds against the first."""

    classed = True

    def numbers(self, classes: int) -> int:
        return classes + 1

    def values(self, gauge: Gauge, eta: Array, y: Array) -> list[Array]:
        full = np.column_stack([np.zeros(len(y)), self.log_odds(eta)])
        top = full.max(axis=1, keepdims=True)
        log_share = full - top - np.log(np.exp(full - top).sum(axis=1, keepdims=True))
        known = ~np.isnan(log_share).any(axis=1) & ~np.isnan(y)
        k = np.where(known, y, 0.0).astype(np.intp)
        loss = -log_share[np.arange(len(y)), k]
        right = (log_share.argmax(axis=1) == k).astype(np.float64)
        shares = [(k == c).astype(np.float64) for c in range(1, gauge.classes)]
        return [np.where(known, v, np.nan) for v in (np.clip(loss / CAP, 0.0, 1.0), right, *shares)]

    def measures(self, gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
        def explained(m: Array) -> float:
            shares = np.clip([1.0 - float(m[2:].sum()), *m[2:]], 1e-9, 1.0)
            return 1.0 - CAP * float(m[0]) / max(-float(np.sum(shares * np.log(shares))), 1e-12)

        clipped = f"clipped at {CAP:g}"
        return [
            ("deviance explained", explained, f"share of the null deviance (McFadden); log-losses {clipped}"),
            ("log-loss", lambda m: CAP * float(m[0]), f"mean −log probability of what was seen, {clipped}"),
            ("accuracy", lambda m: float(m[1]), "share of people whose likeliest class is their own"),
        ]

    def compared(self, family: Family, y: Array, eta: Array) -> dict[str, float]:
        share, k = class_shares(self.log_odds(eta)), y.astype(np.intp)
        null = np.bincount(k, minlength=share.shape[1]) / len(y)
        entropy = -float(np.sum(null[null > 0] * np.log(null[null > 0])))
        loss = float(np.mean(-np.log(np.maximum(share[np.arange(len(y)), k], RARE))))
        halves = 0.5 if family.binary else 1.0  # with two classes it is the squared error of one probability
        return {
            "log-loss": loss,
            "deviance explained": 1.0 - loss / entropy if entropy > 0.0 else np.nan,
            "accuracy": float(np.mean(share.argmax(axis=1) == k)),
            "Brier score": halves * float(np.mean(np.sum((share - np.eye(share.shape[1])[k]) ** 2, axis=1))),
        }

    def draw(self, family: Family, eta: Array, levels: Any, rng: np.random.Generator, dispersion: Any = 1.0) -> Array:
        full = np.column_stack([np.zeros(len(eta)), self.log_odds(eta)])
        gumbel = -np.log(-np.log(rng.uniform(size=full.shape)))
        return np.asarray(levels[np.argmax(full + gumbel, axis=1)])


class LogisticScore(ClassMeasures, Binary):
    """ψ = π − y."""

    code = codes.LOGISTIC
    estimand = "log-odds ratios of the logistic model; its weighted projection if the model is wrong"
    shares, discrete = "logistic", "Logit"
    steepest = 0.25
    conditional = True

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        return np.asarray(probability(eta) - y)

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        e = np.exp(-np.abs(eta))
        return np.asarray(e / (1.0 + e) ** 2)

    def steep(self, shape: Shape, c: float) -> tuple[float, float]:
        return 0.0, 1.0

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(0.25, 0.2, 0.2)

    def mean(self, shape: Shape, there: Array) -> tuple[Array, Array]:
        share = probability(there)
        return share, share * (1.0 - share)

    def brief(self, shape: Shape, here: Array, there: Array, c: float) -> tuple[Array, Array]:
        low, high = self.ends(shape, here)
        share = probability(there)
        return low + (high - low) * share, (high - low) * share * (1.0 - share)

    def perfect(self, eta: Array) -> list[tuple[float, Array]]:
        return [(sign, 1.0 / (1.0 + np.exp(np.clip(sign * eta, -50.0, 50.0)))) for sign in (1.0, -1.0)]

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(codes.BALANCED if balanced else self.code, 0.0, 0.0, 0)


class BalancedScore(LogisticScore):
    """ψ = (π − y)/max(π, 1 − π)."""

    code = codes.BALANCED
    form = True

    def balanced(self, shape: Shape, *, summed: bool) -> bool:
        return True

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        e = np.exp(-np.abs(eta))
        return np.where(eta >= 0, (1.0 - y) - (1.0 - (1.0 - y)) * e, -(y - (1.0 - y) * e))


class MultinomialScore(ClassMeasures, Predicted):
    """ψ = π − e_y of classes k ≥ 1."""

    code = codes.MULTINOMIAL
    estimand = "log-odds of each class against the first; their weighted projection if the model is wrong"
    multiple = separable = short_offsets = True
    shares, discrete = "classes", "MNLogit"
    bound = math.sqrt(2.0)

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(0.25, 0.4 / (high + 1.0), 0.4 / (high + 1.0))  # ¼ and less by numbers of equal classes

    def balanced(self, shape: Shape, *, summed: bool) -> bool:
        return not summed


def multinomial(theta: Array, z: Array, y: Array) -> Array:
    """Balanced multinomial score over classes k ≥ 1, before it is multiplied by the covariates, shape (n, K − 1).

    (π − e_y) / max_k ‖π − e_k‖, where e_0 = 0: of norm 1 at most, with mean zero where the model holds, as the divisor
    depends on covariates only. For two classes it is the balanced logistic score. `theta` has the shape (K − 1, d), `z`
    (n, d), and `y`, of classes 0 … K − 1, (n,).
    """
    share = class_shares(z @ theta.T)
    return np.asarray((share - np.eye(share.shape[1])[y.astype(np.intp)])[:, 1:] / farthest(share)[:, None])


def class_shares(eta: Array) -> Array:
    """Probabilities of all K classes, shape (n, K), from the log-odds of all but the first, shape (n, K − 1)."""
    return np.asarray(softmax(np.column_stack([np.zeros(len(eta)), eta]), axis=1))


def farthest(share: Array) -> Array:
    """Largest distance max_k ‖π − e_k‖ of probabilities from a class, first ones left out; shape (n,)."""
    ends = np.eye(share.shape[1])[:, 1:]
    return np.asarray(np.linalg.norm(share[:, None, 1:] - ends[None], axis=2).max(axis=1))


@known_arguments
def Logistic() -> Family:
    """Logistic regression for a response in {0, 1}, a boolean, or a two-level factor.

    See XSJKH (arXiv 2505.08227), section 5.2, with y in {0, 1} as its loss needs (the text says {−1, 1}).
    """
    return Family("Logistic", codes.LOGISTIC, "logit", "binary")


@known_arguments
def Multinomial() -> Family:
    """Multinomial logistic regression for a factor of two or more declared levels, the first being the baseline.

    The score of all classes is reported at once, over its largest norm for any response at the same covariates.
    """
    return Family("Multinomial", codes.MULTINOMIAL, "logit", "levels")
