"""Ordered logit: levels in their order by proportional odds, one slope for all cut points between them."""

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.families.logistic import LogisticScore
from privreg.families.scores import Family, ScoreRules, SumRules, probability
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

NEAREST: Final = 1.0 / 1024.0
"""Distance of two cut points at least, in the likelihood: a level between them has a share of 1/4096 then."""
PRECISE: Final = 0.1  # Standard error, a sd of a covariate, for which the people of local reports are said
MODEL: Final = 0.8
"""Mean slope and squared score relative to those without covariates, as 0.2 of logits is to 1/4."""


class OrderedScore(LogisticScore):
    """ψ_k = π_k − 1{y > k} at each cut point k, π_k = 1/(1 + exp(κ_k − x'β)), averaged over cut points: Equation (51).

    If a of the shape is 1, it is that of the likelihood. A row of the engine is a record at one cut point, with the
    response 1{y > k}.
    """

    code = codes.ORDERED
    estimand = (
        "cut points and log-odds ratios of higher levels, alike at all cut points; a weighted projection of the logits "
        "at each cut point if odds are not proportional"
    )
    stacked, conditional = True, False
    logs = ("log-odds", "odds ratio")

    def gaps(self, eta: Array) -> tuple[Array, Array]:
        """Score and slope of −log(1 − e^−g) at gaps g of predictors at cut points, shape (…, K − 1) to (…, K − 2)."""
        gap = np.maximum(eta[..., :-1] - eta[..., 1:], NEAREST)
        return np.asarray(-1.0 / np.expm1(gap)), np.asarray(0.25 / np.sinh(0.5 * gap) ** 2)

    def cut(self, eta: Array, y: Array) -> tuple[Array, Array]:
        """Scores and slopes of the likelihood by the predictors of cut points, then by their gaps: Equation (52).

        `eta` and `y`, shape (m, K − 1), are x'β − κ_k and 1{y > k}; both results have the shape (m, 2 K − 3). With
        π_k falling in k the likelihood of level j is π_(j−1) (1 − π_j) (1 − e^−g), g = κ_j − κ_(j−1): two logits, and a
        term of the gap alone.
        """
        share, place = probability(eta), np.arange(eta.shape[1])
        level = y.sum(axis=1, keepdims=True)
        used = (place == level) | (place == level - 1.0)
        (by_gap, bend), between = self.gaps(eta), place[1:] == level
        score = np.hstack([used * (share - y), between * by_gap])
        return score, np.hstack([used * share * (1.0 - share), between * bend])

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        k = high + 1.0  # equally frequent levels: the mean of π (1 − π) at cut points, and the variance of mean scores
        slope, square = MODEL * (k + 1.0) / (6.0 * k), MODEL * (k + 1.0) / (12.0 * (k - 1.0))
        return SumRules(0.25, slope, square)

    def noiseless(self, shape: Shape) -> Shape:
        return shape._replace(a=1.0)

    def log_odds(self, eta: Array) -> Array:
        eta = np.minimum.accumulate(eta, axis=1)  # a level between cut points that are out of order has no share
        above, below = -np.logaddexp(0.0, -eta), -np.logaddexp(0.0, eta)  # log π and log(1 − π)
        with np.errstate(divide="ignore"):
            between = np.log(-np.expm1(eta[:, 1:] - eta[:, :-1]))
        return np.hstack([above[:, :-1] + below[:, 1:] + between, above[:, -1:]]) - below[:, :1]

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, 0.0, 0.0, 0)

    def unlocal(self, d: int, mu: float, classes: int) -> str:
        slope = MODEL * (classes + 1.0) / (6.0 * classes)
        people = 4.0 * d / (min(mu, 1e6) * slope * PRECISE) ** 2  # of reports zψ/‖z‖ with noise of the sd 2/μ
        return (
            f"Ordered() is not there yet: for standard errors of {PRECISE:g} a sd of a covariate noise alone would ask "
            f"for {max(people, 1000.0):,.0f} people or more; give trust='two_collectors' or 'central', or Logistic() "
            "for levels above one cut point"
        )

    def twin(self, sm: Any, family: Family, y: Array, x: Array) -> Any:
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        p = int(np.flatnonzero((x == -1.0).all(axis=0))[-1])  # columns of cut points are the last
        fitted = OrderedModel(y, x[:, :p], distr="logit").fit(method="bfgs", disp=0)
        params = np.asarray(fitted.params)
        turned = np.eye(len(params))  # its thresholds are the first one, and logarithms of gaps
        turned[p:, p:] = np.tril(np.broadcast_to(np.append(1.0, np.exp(params[p + 1 :])), (x.shape[1] - p,) * 2))
        params[p:] = fitted.model.transform_threshold_params(params)[1:-1]
        errors = np.sqrt(np.diag(turned @ np.asarray(fitted.cov_params()) @ turned.T))
        return SimpleNamespace(params=params, bse=errors, mle_retvals=fitted.mle_retvals)


@known_arguments
def Ordered() -> Family:
    """Ordered logit with proportional odds, for a factor of two or more levels that are declared in their order.

    P(y ≤ k) = 1/(1 + exp(x'β − κ_k)): a coefficient is the log of the odds ratio of being above any cut point κ_k, as
    in ``MASS::polr`` of R and ``OrderedModel`` of statsmodels. Cut points, "low|mid" say, take the place of an
    intercept.

    With noise the score is that of the logits at all cut points, averaged, which is bounded; its zero is that of the
    likelihood where odds are proportional. Without noise (``mu=None``, ``trust="central"``) it is the likelihood's.
    """
    return Family("Ordered", codes.ORDERED, "logit", "ordinal")
