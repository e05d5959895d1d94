"""Log-linear regression of counts, and its form with clipped Pearson residuals."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy
from scipy.special import gammaln, pdtr, xlogy

from privreg.base.arrays import Array
from privreg.errors import OptionError, SchemaError, real, shown
from privreg.families.scores import CAP, Family, Function, Gauge, Predicted, ScoreRules, SumRules
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.counts import FARTHEST, LARGE
from privreg.protocol.plans import Shape

MOST_Y: Final = 1e9
SMALL: Final = 1e-6  # Variance of counts beyond their mean, over it, which is none
LEAST_PEARSON: Final = 0.5
MOST_PEARSON: Final = 10.0
"""Range of the threshold of counts' residuals: below, scores hardly show more than the sign of a residual; at 10 nearly
nothing is clipped."""


class PoissonScore(Predicted):
    """ψ = m − y, m = e^η; a = y_max. Over the largest size at η, but over y_max everywhere if b is 1."""

    code = codes.POISSON
    measured, discrete = 3, "Poisson"
    call = "Poisson(y_max={y_max:g})"
    estimand = (
        "log rate ratios for counts up to {y_max:g} (larger ones are clamped); their weighted projection if the mean "
        "is not log-linear"
    )
    counts = curved = separable = short_offsets = True
    unsure = 4.0  # units are the response's public limits

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        a, mean = shape.a, np.exp(eta)
        if shape.b:
            return np.asarray((np.minimum(mean, a) - y) / a)
        return np.where(eta > math.log(0.5 * a), 1.0 - y * np.exp(-eta), (mean - y) / (a - mean))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        mean = np.exp(np.minimum(eta, 700.0))
        return np.where(mean < shape.a, mean / shape.a, 0.0)

    def responses(self, shape: Shape, eta: float, c: float) -> list[tuple[str, float]]:
        return [("no count", 0.0), ("largest count", shape.a)]

    def mean(self, shape: Shape, there: Array) -> tuple[Array, Array]:
        at = np.minimum(there, math.log(shape.a))
        mean = np.exp(at)
        return mean, np.where(there > at, 0.0, mean)

    def square(self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any) -> Array:
        low, high = self.ends(rules.shape, here)
        mean = np.exp(np.minimum(there, math.log(rules.shape.a)))
        return np.asarray(np.minimum((low + (high - low) * mean) ** 2 + (high - low) ** 2 * mean, 1.0))

    def ratio(self, family: Family, d: int, mu: float) -> float:
        return float(family.c) if family.robust else 1.0

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(1.0, 2.0 / shape.a, 2.0 / shape.a**2)

    def perfect(self, eta: Array) -> list[tuple[float, Array]]:
        return [(1.0, np.ones(len(eta)))]  # all are 0

    def values(self, gauge: Gauge, eta: Array, y: Array) -> list[Array]:
        mean, top = np.exp(np.minimum(eta[:, 0], 700.0)), gauge.y_max
        loss = np.clip(_deviance(y, eta[:, 0], mean) / (2.0 * CAP), 0.0, 1.0)
        return [loss, y / top, np.clip(mean / top, 0.0, 1.0) + 0.0 * y]

    def measures(self, gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
        return [
            ("mean deviance", lambda m: 2.0 * CAP * float(m[0]), f"of a person, clipped at {2 * CAP:g}"),
            ("mean response", lambda m: float(m[1]) * gauge.y_max, "mean count"),
            ("mean prediction", lambda m: float(m[2]) * gauge.y_max, "mean of what the fit predicts"),
        ]

    def compared(self, family: Family, y: Array, eta: Array) -> dict[str, float]:
        mean, average = np.exp(eta[:, 0]), np.asarray(y.mean())
        deviance = float(_deviance(y, eta[:, 0], mean).mean())
        null = float(_deviance(y, np.log(np.maximum(average, 1e-300)), average).mean())
        explained = 1.0 - deviance / null if null > 0.0 else np.nan
        return {"mean deviance": deviance, "deviance explained": explained, "mean error": float(np.mean(y - mean))}

    def balanced(self, shape: Shape, *, summed: bool) -> bool:
        return not shape.b

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(codes.ROBUST_POISSON if family.robust else self.code, family.y_max, float(plain), 0)

    def refuse(self, family: Family, limits: tuple[float, float], name: str) -> None:
        low, high = limits
        if not (low == 0.0 and high == family.y_max):
            raise SchemaError(
                f"the counts {name!r} go from {low:g} to {high:g}, but {family!r} takes 0 to {family.y_max:g}; give "
                f"bounds={{{name!r}: (0, {family.y_max:g})}}, or a larger y_max."
            )

    def unsummed(self, family: Family) -> str:
        needless = f"noise falls on sums, for which {family!r} needs no c; leave c= out, or use trust='local'"
        return needless if family.robust else ""

    def draw(self, family: Family, eta: Array, levels: Any, rng: np.random.Generator, dispersion: Any = 1.0) -> Array:
        mean, more = np.exp(np.minimum(eta[:, 0], 20.0)), np.ravel(dispersion) - 1.0
        if more[0] < 0.0:  # binomial
            counts = rng.binomial(np.floor(mean / -more + rng.uniform(size=len(mean))).astype(np.int64), -more)
        else:  # negative binomial
            counts = rng.poisson(rng.gamma(mean / more, more) if more.any() else mean)
        return np.asarray(np.minimum(counts, family.y_max))

    def exceeding(self, family: Family, eta: Array, dispersion: Array) -> float:
        mean, more = np.exp(np.minimum(eta, 20.0)), np.maximum(dispersion - 1.0, SMALL)
        return float(scipy.stats.nbinom.sf(family.y_max, mean / more, 1.0 / (1.0 + more)).mean())  # slow to import


class RobustPoissonScore(PoissonScore):
    """ψ = a(m) − min(max((y − m)/√m, −c), c), a(m) the mean of the latter, over its largest size."""

    code = codes.ROBUST_POISSON
    call = "Poisson(y_max={y_max:g}, c={c:g})"
    form = pearson = True
    estimand = (
        "log rate ratios if counts are Poisson's; counts whose variance is not their mean move intercept and slopes, "
        "as Pearson residuals are clipped at {c:g}"
    )

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        root, a = _roots(eta)[0], correction(c, eta)  # as `protocol.counts.unit`
        return np.asarray((a - np.clip(y / root - root, -c, c)) / (c + np.abs(a)))

    def convex(self, shape: tuple[int, float, float]) -> tuple[int, float, float]:
        return codes.POISSON, shape[1], 1.0

    def brief(self, shape: Shape, here: Array, there: Array, c: float) -> tuple[Array, Array]:
        return moments(c, shape.a, here, there)[:2]

    def square(self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any) -> Array:
        return moments(c, rules.shape.a, here, there)[2]


@known_arguments
def Poisson(y_max: float | None = None, c: float | None = None) -> Family:
    """Log-linear regression of counts with a public largest count.
    Raises OptionError if `y_max` is not a positive number, or `c` is out of range.

    Responses that are no counts are neither refused nor reported, since that would tell that somebody has one:
    negative ones are clamped to 0, and fractions are kept as they are, which suits rates and averages, too.

    Without `c` noise covers the whole range of counts, so that precision goes with mean/(y_max − mean): with a mean of
    1, about 20 times as many people are wanted under `y_max` = 20 as under 5. Declare the least that few exceed. See
    ``StudyPlan.compare_families`` for what each choice needs.
    See Cantoni and Ronchetti, Robust inference for generalized linear models, JASA 2001, for `c`.

    Parameters
    ----------
    y_max : float
        Largest response, to be given; larger ones are clamped to it on the device, which changes the estimand if many
        are.
    c : float, optional
        Where Pearson residuals (y − m)/√m are clipped in the score, from 0.5 to 10; 1.5 is usual. Then the noise no
        longer covers the whole range of counts, and `y_max` costs next to nothing, but estimates are right for Poisson
        counts alone: a variance of two means moves the linear predictor by −0.37, −0.19, −0.12 and −0.03 at means of
        0.2, 1, 2 and 8 (c = 1.5), and slopes with it. By default they aren't clipped.
    """
    top = largest("Poisson", y_max)
    threshold = "auto" if c is None else real(c)
    if threshold is None or not (isinstance(threshold, str) or LEAST_PEARSON <= threshold <= MOST_PEARSON):
        raise OptionError(
            f"c={shown(c)} is where Pearson residuals are clipped, from {LEAST_PEARSON:g} to {MOST_PEARSON:g}; 1.5 is "
            "usual. Leave it out for means of counts of any distribution."
        )
    return Family("Poisson", codes.POISSON, "log", "count", c=threshold, y_max=top)


def largest(name: str, y_max: object) -> float:
    """Read the largest count of the family `name`; OptionError if it is no positive number."""
    number = real(y_max)
    if number is None or not 0.0 < number <= MOST_Y:
        raise OptionError(
            f"{name}(y_max=...): y_max={shown(y_max)} must be a positive number, the largest count anybody may have."
        )
    return number


def correction(c: float | Array, eta: Array) -> Array:
    """Mean of the clipped Pearson residual under the Poisson distribution of mean exp(η), same shape as `eta`."""
    root, mean = _roots(eta)
    with np.errstate(over="ignore", invalid="ignore"):
        a = np.asarray(-c * np.exp(-0.5 * np.square(c)) / (3.0 * math.sqrt(2.0 * math.pi) * root))
    small = ~(eta > LARGE) & ~np.isnan(a)
    if not small.any():
        return a
    root, mean = root[small], mean[small]
    threshold = np.broadcast_to(c, a.shape)[small]
    out, total, p = np.zeros_like(mean), np.zeros_like(mean), np.exp(-mean)
    last = float(np.max(mean + np.minimum(threshold * root, 8.0 * root + 16.0)))
    for k in range(math.floor(last) + 1):
        out += np.clip((k - mean) / root, -threshold, threshold) * p
        total += p
        p *= mean / (k + 1.0)
    a[small] = out + threshold * (1.0 - total)
    return a


def moments(c: float, y_max: float, here: Array, there: Array) -> tuple[Array, Array, Array]:
    """Mean of the unit score at `here`, its derivative by `there`, and mean square; shape (m,).

    Counts are Poisson's of mean exp(there), clamped to `y_max`. Their distribution function F gives all: with j and l
    the counts just within the thresholds and the upper one u = min(c, (y_max − m)/√m),

        E ψ = u {1 − F(l)} − c F(j) + [λ {F(l − 1) − F(j − 1)} − m {F(l) − F(j)}]/√m.
    """
    root, mean = _roots(here)
    at = np.minimum(there, math.log(y_max))
    rate = np.exp(np.maximum(at, -FARTHEST))
    top = np.clip((y_max - mean) / root, -c, c)
    low, high = np.floor(mean - c * root), np.floor(mean + top * root)

    def below(j: Array) -> Array:
        return np.where(j >= 0.0, pdtr(np.maximum(j, 0.0), rate), 0.0)

    def chance(j: Array) -> Array:
        known = np.maximum(j, 0.0)
        return np.where(j >= 0.0, np.exp(xlogy(known, rate) - rate - gammaln(known + 1.0)), 0.0)

    first, last = below(low), below(high)
    inside = [last - first, *(below(high - k) - below(low - k) for k in (1.0, 2.0))]
    psi = top * (1.0 - last) - c * first + (rate * inside[1] - mean * inside[0]) / root
    rise = inside[1] / root + (top + (mean - high) / root) * chance(high) + (c - (mean - low) / root) * chance(low)
    middle = rate**2 * inside[2] + (rate - 2.0 * mean * rate) * inside[1] + mean**2 * inside[0]
    square = top**2 * (1.0 - last) + c**2 * first + np.maximum(middle, 0.0) / mean
    a = correction(c, here)
    most = c + np.abs(a)
    slope = np.where(there > at, 0.0, -rate * rise / most)
    return (a - psi) / most, slope, np.minimum((square - 2.0 * a * psi + a * a) / most**2, 1.0)


def _deviance(y: Array, eta: Array, mean: Array) -> Array:
    """Deviance of each count; `mean` is exp(`eta`)."""
    saturated = np.where(y > 0.0, y * np.log(np.maximum(y, 1e-300)), 0.0)
    return np.asarray(2.0 * (saturated - y * eta - (y - mean)))


def _roots(eta: Array) -> tuple[Array, Array]:
    """√m and m at the linear predictor."""
    root = np.exp(0.5 * np.clip(eta, -FARTHEST, FARTHEST))
    return root, root * root
