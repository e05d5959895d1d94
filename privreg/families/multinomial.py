"""Multinomial logistic regression: several linear predictors, whose scores are reported at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privreg.base.arrays import Array
from privreg.families.declared import Declared
from privreg.families.family import Family
from privreg.families.logistic import ClassMeasures
from privreg.families.scores import Predicted, Score, ScoreRules, SumRules
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape


class MultinomialScore(ClassMeasures, Predicted):
    """ψ = π − e_y of classes k ≥ 1."""

    code = codes.MULTINOMIAL
    estimand = "log-odds of each class against the first; their weighted projection if the model is wrong"
    multiple = endless = gentle = True
    shares = "classes"

    def sums(self, family: Declared, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(0.25, 0.4 / (high + 1.0), 0.4 / (high + 1.0))  # ¼ and less by numbers of equal classes

    def balanced(self, shape: Shape, *, summed: bool) -> bool:
        return not summed

    def resolve(self, family: Declared, shape: Shape, *, unit: float, low: float, high: float) -> tuple[Score, str]:
        return Score(shape, 1.0, math.sqrt(2.0), math.inf), repr(family)

    def twin(self, family: Declared, y: Any, x: Any, levels: Any) -> Any:
        import statsmodels.api as sm

        return sm.MNLogit((y[:, None] == np.asarray(levels)).argmax(axis=1), x).fit(disp=0)


def multinomial(theta: Array, z: Array, y: Array) -> Array:
    """Balanced multinomial score over classes k ≥ 1, before it is multiplied by the covariates, shape (n, K − 1).

    (π − e_y) / max_k ‖π − e_k‖, where e_0 = 0: of norm 1 at most, with mean zero where the model holds, as the divisor
    depends on covariates only. For two classes it is the balanced logistic score. `theta` has the shape (K − 1, d), `z`
    (n, d), and `y`, of classes 0 … K − 1, (n,).
    """
    eta = np.column_stack([np.zeros(len(z)), z @ theta.T])
    share = np.exp(eta - eta.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    ends = np.eye(eta.shape[1])[:, 1:]
    largest = np.linalg.norm(share[:, None, 1:] - ends[None], axis=2).max(axis=1)
    return np.asarray((share[:, 1:] - ends[y.astype(np.intp)]) / largest[:, None])


@known_arguments
def Multinomial() -> Family:
    """Multinomial logistic regression for a factor of two or more declared levels, the first being the baseline.

    Notes
    -----
    The score of all classes is reported at once, over its largest norm for any response at the same covariates.

    Examples
    --------
    >>> Multinomial()
    Multinomial()
    """
    return Family("Multinomial", codes.MULTINOMIAL, "logit", "levels")
