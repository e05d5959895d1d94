"""Scores of residuals clipped at a threshold c: moments for normal errors, and the constants that follow from them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, real, shown
from privreg.families.declared import Declared
from privreg.families.scores import Function, Moments, Score, ScoreRules, Scoring, SumRules, phi, window
from privreg.protocol.plans import Shape

CLASSICAL_C: Final = 1.345  # Huber's constant with 95% efficiency for normal errors of sd 1
LARGEST_C: Final = 100.0
"""Above it c is surely a residual scale in the wrong place; at 100 the loss is least squares for all purposes."""


class Residual(Scoring):
    """A score of y − η over a residual scale."""

    residual = scaled = bounded = True

    def near(self, shape: Shape, c: float, eta: Array, y: Array, function: Function = None) -> Array:
        return (np.abs(y - eta) <= c).astype(np.float64)

    def ratio(self, family: Declared, d: int, mu: float) -> float:
        """Threshold c in residual sd."""
        return auto_c(d, mu) if isinstance(family.c, str) else family.c

    def learned(self, family: Declared) -> bool:
        """True if c follows the residuals."""
        return isinstance(family.scale, str)

    def curvature(self, family: Declared, c: float) -> float:
        """Curvature per unit of score bound and c, for normal residuals."""
        raise NotImplementedError

    def rules(self, family: Declared, shape: Shape, d: int, mu: float, low: float, high: float) -> ScoreRules:
        ratio = self.ratio(family, d, mu)
        curvature, centre = self.curvature(family, ratio), self.centred(family, ratio)
        return ScoreRules(shape, ratio, self.learned(family), curvature, varying=False, centre=centre)


class Clipped(Residual):
    """A score that is constant beyond ± c, of Huber and expectiles."""

    cornered = True
    shares = "cornered"

    def curvature(self, family: Declared, c: float) -> float:
        tau, centre = family.tau, self.centred(family, c)
        low, middle, high = (float(ndtr(v)) for v in (centre - c, centre, centre + c))
        return (tau * (high - middle) + (1.0 - tau) * (middle - low)) / max(tau, 1.0 - tau)

    def sums(self, family: Declared, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
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

    def resolve(self, family: Declared, shape: Shape, *, unit: float, low: float, high: float) -> tuple[Score, str]:
        scale = 1.0 if isinstance(family.scale, str) else family.scale / unit
        ratio = CLASSICAL_C if isinstance(family.c, str) else family.c
        how = "assumed" if isinstance(family.scale, str) else "declared"
        words = f"{self.named(family)}, c = {ratio:.4g} × residual scale {scale * unit:.4g} ({how})"
        words = f"{self.named(family)}, c = {ratio:.4g} × residual scale, estimated jointly" if family.joint else words
        return self.score(family, shape, ratio * scale), words

    def score(self, family: Declared, shape: Shape, c: float) -> Score:
        """Score at the threshold c, internal units."""
        raise NotImplementedError

    def twin(self, family: Declared, y: Any, x: Any, levels: Any) -> Any:
        return None


def robust_twin(y: Any, x: Any) -> Any:
    """Robust regression by Huber's loss, by statsmodels."""
    import statsmodels.api as sm

    return sm.RLM(y, x, M=sm.robust.norms.HuberT()).fit()


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


def normal_expectile(tau: float, c: float) -> float:
    """Robust expectile of a standard normal."""
    from scipy.optimize import brentq

    z = np.asarray(ndtri((np.arange(4000) + 0.5) / 4000))

    def score(at: float) -> float:
        r = z - at
        return float(np.mean(np.where(r >= 0.0, tau, 1.0 - tau) * np.clip(r, -c, c)))

    return float(brentq(score, -8.0, 8.0))


def clipped_square(c: float) -> float:
    """E min(Z², c²) of a standard normal Z."""
    inside = math.erf(c / math.sqrt(2.0))
    return inside - c * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * c * c) + c * c * (1.0 - inside)


def auto_c(p: int, mu: float) -> float:
    """Threshold c in residual sd, in [0.5, 1.345], of the least asymptotic variance: equation (3) of docs/estimator.md.

    For `p` coefficients at `mu` per person. With spherical covariates the curvature is in proportion to 2Φ(c) − 1;
    below c = 0.5 the gain is under 5% while the curvature keeps falling.
    """
    grid = np.linspace(0.5, CLASSICAL_C, 170)
    cdf = np.array([math.erf(v / math.sqrt(2.0)) for v in grid])  # 2Φ(c) − 1
    pdf = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    psi2 = cdf - 2 * grid * pdf + grid**2 * (1 - cdf)
    variance = (psi2 / p + (2 * grid / mu) ** 2) / cdf**2
    return float(grid[int(np.argmin(variance))])
