"""Huber's loss, expectiles and quantiles: scores of residuals, with their moments for normal errors."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, real, shown
from privreg.families.scores import (
    CLASSICAL_C,
    Family,
    Function,
    Gauge,
    Moments,
    Score,
    ScoreRules,
    Scoring,
    SumRules,
    phi,
    window,
)
from privreg.families.squared import MeanMeasures
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

QUANTILE_RATIO: Final = 0.5
"""Half-width, in residual sd, of the window about the quantile line by which the density there is learned."""
LARGEST_C: Final = 100.0
"""Above it c is surely a residual scale in the wrong place; at 100 the loss is least squares for all purposes."""


class Residual(Scoring):
    """A score of y − η over a residual scale."""

    residual = scaled = bounded = tracked = True

    def near(self, shape: Shape, c: float, eta: Array, y: Array, function: Function = None) -> Array:
        return (np.abs(y - eta) <= c).astype(np.float64)

    def ratio(self, family: Family, d: int, mu: float) -> float:
        """Threshold c in residual sd; "auto" has the least asymptotic variance: equation (3) of docs/estimator.md.

        From 0.5 to 1.345, for d coefficients at μ per person. With spherical covariates the curvature is in proportion
        to 2Φ(c) − 1; below c = 0.5 the gain is under 5% while the curvature keeps falling.
        """
        if not isinstance(family.c, str):
            return family.c
        grid = np.linspace(0.5, CLASSICAL_C, 170)
        cdf = np.array([math.erf(v / math.sqrt(2.0)) for v in grid])  # 2Φ(c) − 1
        pdf = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
        psi2 = cdf - 2 * grid * pdf + grid**2 * (1 - cdf)
        variance = (psi2 / d + (2 * grid / mu) ** 2) / cdf**2
        return float(grid[int(np.argmin(variance))])


class Clipped(Residual):
    """A score that is constant beyond ± c, of Huber and expectiles."""

    cornered = True
    shares = "cornered"

    def curvature(self, family: Family, c: float, low: float, high: float) -> float:
        tau, centre = family.tau, self.centred(family, c)
        below, middle, upto = (float(ndtr(v)) for v in (centre - c, centre, centre + c))
        return (tau * (upto - middle) + (1.0 - tau) * (middle - below)) / max(tau, 1.0 - tau)

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        square = clipped_square(known.ratio) / clipped_square(CLASSICAL_C) * (CLASSICAL_C / known.ratio) ** 2
        return SumRules(1.0, known.curvature, 0.39 * square)  # 0.39 at normal errors, c = 1.345

    def moments(
        self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any, *, brief: bool = False
    ) -> Moments:
        mean = there - s * rules.centre - here  # of the residual
        up, down = self.sides(rules.shape)
        top, uneven = max(up, down), up - down
        ends = (-c - mean) / s, (c - mean) / s
        below, density = [ndtr(v) for v in ends], [phi(v) for v in ends]
        low, high = (v * p + f for v, p, f in zip(ends, below, density, strict=True))  # ∫ Φ up to there
        # E min(max(r, 0), c) = c − ∫ P(r < t) dt from 0 to c, and so on the other side
        clipped = up * c - s * (up * high - down * low)
        inside, edge = up * below[1] - down * below[0], down * density[0] - up * density[1]
        if uneven != 0.0:
            middle = -mean / s
            negative, rise = ndtr(middle), phi(middle)
            clipped = clipped + s * uneven * (middle * negative + rise)
            inside, edge = inside - uneven * negative, edge + uneven * rise
        score, slope = -clipped / (c * top), -inside / (c * top)
        if brief:
            return score, slope
        # with e = (r − mean)/s: d/ds E clip(r) = E[e − centre | inside]
        return (score, slope, -(edge - rules.centre * inside) * s / (c * top), *window(rules, ends, below, density, s))

    def square(self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any) -> Array:
        up, down = self.sides(rules.shape)
        mean = there - s * rules.centre - here
        cuts = (-c - mean) / s, -mean / s, (c - mean) / s
        below, density = [ndtr(v) for v in cuts], [phi(v) for v in cuts]
        # ∫ r² between two cuts, r = mean + s e
        part = [
            (mean**2 + s**2) * (below[k + 1] - below[k])
            + 2.0 * mean * s * (density[k] - density[k + 1])
            + s**2 * (cuts[k] * density[k] - cuts[k + 1] * density[k + 1])
            for k in (0, 1)
        ]
        left, right = part[0] + c**2 * below[0], part[1] + c**2 * (1.0 - below[2])
        return np.asarray((up**2 * right + down**2 * left) / (c * max(up, down)) ** 2)


class Level(Scoring):
    """A line at a level tau; a = τ, b = max(τ, 1 − τ)."""

    measured = 1

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, family.tau, max(family.tau, 1.0 - family.tau), 0)

    def values(self, gauge: Gauge, eta: Array, y: Array) -> list[Array]:
        first = eta[:, 0]
        return [np.where(np.isnan(y - first), np.nan, (y < first).astype(np.float64))]

    def measures(self, gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
        return [("share below", lambda m: float(m[0]), f"of responses below the line; {gauge.tau:g} for a quantile")]


class HuberScore(MeanMeasures, Clipped):
    """ψ = −min(max(r, −c), c)."""

    code = codes.HUBER
    call = "Huber(c={c!r}, scale={scale!r})"
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

    def published(self, family: Family, shape: Shape, c: float, low: float, high: float) -> Score:
        return Score(shape, c, c, math.inf if family.joint else 1.0)  # 1/σ

    def twin(self, sm: Any, family: Family, y: Array, x: Array) -> Any:
        return sm.RLM(y, x, M=sm.robust.norms.HuberT()).fit()


class ExpectileScore(Level, Clipped):
    """ψ = −w(r) min(max(r, −c), c), w = τ above the line and 1 − τ below."""

    code = codes.EXPECTILE
    call = "Expectile({tau:g}, c={c!r}, scale={scale!r})"
    title = "Expectile({tau:g})"
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

    def centred(self, family: Family, ratio: float) -> float:
        from scipy.optimize import brentq

        z = np.asarray(ndtri((np.arange(4000) + 0.5) / 4000))

        def score(at: float) -> float:
            r = z - at
            return float(np.mean(np.where(r >= 0.0, family.tau, 1.0 - family.tau) * np.clip(r, -ratio, ratio)))

        return float(brentq(score, -8.0, 8.0))

    def published(self, family: Family, shape: Shape, c: float, low: float, high: float) -> Score:
        return Score(shape, c, c * shape.b, shape.b, -family.tau * c, (1.0 - family.tau) * c)


class QuantileScore(Level, Residual):
    """ψ = 1{r < 0} − τ."""

    code = codes.QUANTILE
    call = title = "Quantile({tau:g})"
    estimand = "conditional {tau:g}-quantile; its weighted projection if quantiles are not linear"
    density = curved = jumps = True
    bend = QUANTILE_RATIO
    shares = "window"

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        r = y - eta
        return np.where(r >= 0.0, -shape.a / shape.b, np.where(r < 0.0, (1.0 - shape.a) / shape.b, np.nan))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        return np.where(np.abs(y - eta) <= c, top, 0.0)  # of its mean over a window of ± c

    def tau(self, shape: Shape) -> float:
        return shape.a

    def ratio(self, family: Family, d: int, mu: float) -> float:
        return QUANTILE_RATIO

    def centred(self, family: Family, ratio: float) -> float:
        return float(ndtri(family.tau))

    def curvature(self, family: Family, c: float, low: float, high: float) -> float:
        centre, top = self.centred(family, c), max(family.tau, 1.0 - family.tau)
        return c * math.exp(-0.5 * centre**2) / math.sqrt(2.0 * math.pi) / top

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(0.5 / shape.b, known.curvature, (1.0 - shape.a) * shape.a / shape.b**2)

    def published(self, family: Family, shape: Shape, c: float, low: float, high: float) -> Score:
        return Score(shape, c, shape.b, math.inf, -family.tau, 1.0 - family.tau)

    def compared(self, family: Family, y: Array, eta: Array) -> dict[str, float]:
        r = y - eta[:, 0]
        return {"check loss": float(np.mean(r * (family.tau - (r < 0.0)))), "share below": float(np.mean(r < 0.0))}

    def twin(self, sm: Any, family: Family, y: Array, x: Array) -> Any:
        return sm.QuantReg(y, x).fit(q=family.tau)


@known_arguments
def Huber(c: float | str = "auto", scale: float | str = "auto") -> Family:
    """Robust linear regression with Huber's loss.
    Raises OptionError if `c` or `scale` is not positive, or `c` is above 100.

    See XSJKH (arXiv 2505.08227), section 5.1; "joint": SXJKH (arXiv 2507.07041), section 5.1.

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
    """
    threshold, size = positive("c", c), positive("scale", scale, ("auto", "joint"))
    if not isinstance(threshold, str) and threshold > LARGEST_C:
        raise OptionError(
            f"c={threshold:g} is in units of the residual scale and usually between 0.5 and 2; for a residual scale "
            f"of {threshold:g} write family=Huber(scale={threshold:g})."
        )
    return Family("Huber", codes.HUBER, "identity", c=threshold, scale=size)


@known_arguments
def Expectile(tau: float = 0.5, c: float | str = "auto", scale: float | str = "auto") -> Family:
    """Robust expectile regression: asymmetric least squares with Huber's thresholds.
    Raises OptionError if `tau` is not in (0, 1), or c or scale is out of range.

    See XSJKH (arXiv 2505.08227), section 5.3.

    Parameters
    ----------
    tau : float
        Level, in (0, 1); 0.5 is :func:`Huber`.
    c, scale : float or "auto"
        As for :func:`Huber`. The smaller c, the nearer the estimand is to the conditional tau-quantile.
    """
    huber = Huber(c, positive("scale", scale))
    return Family("Expectile", codes.EXPECTILE, "identity", c=huber.c, scale=huber.scale, tau=level(tau))


@known_arguments
def Quantile(tau: float = 0.5) -> Family:
    """Quantile regression; with the formula ``"y ~ 1"`` the quantile of one variable.
    Raises OptionError if `tau` is not in (0, 1).

    Needs a response with a density at the quantile: ties there break the normal limit. The density is learned from
    joint reports, each saying also whether a residual is near the line.
    See Dette & Graw (arXiv 2405.12553), section 4.

    Parameters
    ----------
    tau : float
        Level, in (0, 1); 0.5 is the median.
    """
    return Family("Quantile", codes.QUANTILE, "identity", tau=level(tau))


def positive(name: str, value: object, words: tuple[str, ...] = ("auto",)) -> float | str:
    """Read an option that is one of `words` or a positive number; OptionError if it is neither."""
    if isinstance(value, str):
        return choose(name, value, words)
    number = real(value)
    if number is None or not (number > 0 and math.isfinite(number)):
        raise OptionError(f"{name}={shown(value)} must be a positive number or 'auto'.")
    return number


def level(tau: object) -> float:
    """Read a level; OptionError if it is not in (0, 1)."""
    number = real(tau)
    if number is None or not 0.0 < number < 1.0:
        raise OptionError(f"tau={shown(tau)} must be a number in (0, 1); 0.5 is the middle.")
    return number


def clipped_square(c: float) -> float:
    """E min(Z², c²) of a standard normal Z."""
    inside = math.erf(c / math.sqrt(2.0))
    return inside - c * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * c * c) + c * c * (1.0 - inside)
