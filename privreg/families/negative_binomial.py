"""Negative binomial regression of counts (NB2), whose dispersion rounds learn beside the coefficients."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy.special import digamma, polygamma

from privreg.base.arrays import Array
from privreg.families.poisson import PoissonScore, largest
from privreg.families.scores import Family, Function
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

FLAT: Final = 0.1
"""Part of the largest count below which all counts weigh alike, so that scores are 1/(1 + α y_max/10) of a Poisson's,
as their bound is: with weights 1/(1 + α m) to the end noise would be 1 + α m times that of a Poisson's."""
FARTHER: Final = 3.0
"""Points v₂ = 3m/(3 + m) and v₁ = v₂/3 of the generating function: of means 0.3 to 40 and dispersions 0.1 to 3 the
dispersion's variance is 1.1 to 1.4 times the likelihood's (`tests.families.test_negative_binomial`)."""


class NegativeBinomialScore(PoissonScore):
    """ψ = (m − y)(1 + α b)/(a + a α max(m, b)), m = e^η at most a = y_max; the likelihood's if b is 0. α is learned."""

    code = codes.NEGATIVE_BINOMIAL
    call = "NegativeBinomial(y_max={y_max:g})"
    estimand = (
        "log rate ratios for counts up to {y_max:g} (larger ones are clamped), whatever their dispersion; their "
        "projection, weighted by 1/(1 + alpha mean), alike below {y_max:g}/10, if the mean is not log-linear"
    )
    extra, tracked = "alpha", True
    limits = 1e-4, 1e3
    shares = "window"

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        mean = np.minimum(np.exp(eta), shape.a)
        weight = (1.0 + c * shape.b) / ((1.0 + c * np.maximum(mean, shape.b)) * shape.a)
        return np.asarray((mean - y) * weight)

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        mean = np.exp(np.minimum(eta, 700.0))
        steep = np.where(mean < shape.b, 1.0, (1.0 + c * y) * (1.0 + c * shape.b) / (1.0 + c * mean) ** 2)
        return np.where(mean < shape.a, mean * steep / shape.a, 0.0)

    def number(self, shape: Shape, at: float, eta: Array, y: Array) -> tuple[Array, Array]:
        """Difference of E z^y at two points z from what it is at α, orthogonal to the mean; docs/sums.md (59).

        Without noise the likelihood's score of log α, and the slope that was observed.
        """
        mean = np.exp(np.clip(eta, -700.0, math.log(shape.a)))
        if shape.b:
            return _bounded(at, mean, lambda step: np.exp(y * step))
        k, x = 1.0 / at, at * mean
        up, steep = digamma(y + k) - digamma(k), polygamma(1, y + k) - polygamma(1, k)
        total = np.log1p(x) * k
        score = total - k * up + (y - mean) / (1.0 + x)  # over y_max, within ±1 but for rows that are far off
        slope = total - mean / (1.0 + x) - k * up - k**2 * steep + (y - mean) * x / (1.0 + x) ** 2
        return np.asarray(score / shape.a), np.asarray(slope / shape.a)

    def reference(self, shape: Shape, at: float, here: Array, there: Array, truth: float) -> tuple[Array, ...]:
        mean, true = (np.exp(np.clip(v, -700.0, math.log(shape.a))) for v in (here, there))
        return _bounded(at, mean, lambda step: np.exp(-np.log1p(truth * true * -np.expm1(step)) / truth))

    def start(self, mean: float, sd: float) -> float:
        """α at which counts of this mean have this standard deviation."""
        return (sd**2 - mean) / mean**2

    def weighed(self, shape: Shape, mean: float, at: float) -> tuple[float, float]:
        weight = (1.0 + at * shape.b) / (1.0 + at * max(mean, shape.b)) / shape.a
        return mean * weight, (mean + at * mean**2) * weight**2

    def twin(self, sm: Any, family: Family, y: Array, x: Array) -> Any:
        mean = sm.Poisson(y, x).fit(disp=0).predict()
        alpha = float(np.clip(((y - mean) ** 2 - mean).sum() / np.square(mean).sum(), *self.limits))
        return sm.GLM(y, x, family=sm.families.NegativeBinomial(alpha=alpha)).fit()

    def noiseless(self, shape: Shape) -> Shape:
        return shape._replace(b=0.0)

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, family.y_max, FLAT * family.y_max, 0)


def _bounded(at: float, mean: Array, power: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Number of docs/sums.md (59), and its slope; `power` is z^y, or its mean, by log z."""
    near = mean / (FARTHER + mean)
    steps = np.log1p(-1.0 / (FARTHER + mean)), np.log(near)
    x = at * near, FARTHER * at * near
    sizes = [np.exp((1.0 / at + 1.0) * np.log1p(v)) for v in x]

    def difference(power: Callable[[Array], Array]) -> Array:
        second, first = sizes[1] * power(steps[1]) / FARTHER, sizes[0] * power(steps[0])
        return np.asarray(second - first + 1.0 - 1.0 / FARTHER)

    rise = near * ((1.0 + x[1]) * np.log1p(x[1]) / x[1] - (1.0 + x[0]) * np.log1p(x[0]) / x[0])
    peak = np.log(steps[1] * sizes[1] / (FARTHER * steps[0] * sizes[0])) / (steps[0] - steps[1])
    peak = np.maximum(peak, 0.0)
    ends = np.abs(difference(np.ones_like)), np.abs(difference(lambda step: np.exp(peak * step)))
    most = np.maximum(np.maximum(*ends), 1.0 - 1.0 / FARTHER)
    return difference(power) / most, rise / most


@known_arguments
def NegativeBinomial(y_max: float | None = None) -> Family:
    """Negative binomial regression of counts (NB2), the variance of which is m + α m² at the mean m.
    Raises OptionError if `y_max` is not a positive number.

    Rounds learn α, see ``res.fit_measures``. Counts weigh 1/(1 + α m), and coefficients are those of a log-linear mean
    whatever the dispersion is: with zero inflation, say. With noise they weigh alike below y_max/10, and α follows
    from bounded numbers z^y, whose mean is (1 + α m (1 − z))^(−1/α); without noise (``mu=None``, ``trust="central"``)
    it is the likelihood's fit. Not for ``trust="local"``.
    See Lawless, Negative binomial and mixed Poisson regression, Canadian Journal of Statistics 1987; Kemp and Kemp,
    Rapid estimation for discrete distributions, The Statistician 1988, for z^y.

    Parameters
    ----------
    y_max : float
        Largest response, to be given, as for :func:`Poisson`.
    """
    top = largest("NegativeBinomial", y_max)
    return Family("NegativeBinomial", codes.NEGATIVE_BINOMIAL, "log", "count", y_max=top)
