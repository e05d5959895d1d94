"""Tobit regression: a normal response that is censored at declared limits."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np
from scipy.special import log_ndtr, ndtr

from privreg.base.arrays import Array
from privreg.errors import OptionError, SchemaError, real, shown
from privreg.families.residuals import clipped_square
from privreg.families.scores import CAP, CLASSICAL_C, Family, Function, Gauge, ScoreRules, Scoring, SumRules, phi
from privreg.options.unknown import known_arguments
from privreg.protocol import codes
from privreg.protocol.plans import Shape

STEP: Final = 1e-4  # Half-width of differences that give a slope


class TobitScore(Scoring):
    """ψ = −E[min(max(u, −K), K) | y]/K, u = (y* − η)/σ standard normal, y = a or b where y* is beyond; σ is learned."""

    code = codes.TOBIT
    call = "Tobit(low={low!r}, high={high!r})"
    estimand = (
        "coefficients of the uncensored response if it is normal with one variance; else of the normal model that is "
        "nearest by clipped residuals"
    )
    scaled = censored = tracked = True
    extra = "sigma"
    limits = 1e-6, 1e6
    shares = "cornered"
    measured = 3
    most: ClassVar[float] = CLASSICAL_C

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        return self._parts(shape, c, eta, y)[0]

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        return self._parts(shape, c, eta, y)[1]

    def number(self, shape: Shape, at: float, eta: Array, y: Array) -> tuple[Array, Array]:
        least, (_, _, square, rise, *_) = clipped_square(self.most), self._parts(shape, at, eta, y)
        return (square - least) / (self.most**2 - least), rise

    def reference(self, shape: Shape, at: float, here: Array, there: Array, truth: float) -> tuple[Array, ...]:
        k, least, (m, r) = self.most, clipped_square(self.most), ((there - here) / at, truth / at)
        low, high = (shape.a - here) / at, (shape.b - here) / at
        left, right = truncated(k, low), truncated(k, -high)
        ends = [(v - m) / r for v in (low, np.clip(-k, low, high), np.clip(k, low, high), high)]
        below, (_, first, last, _) = [ndtr(v) for v in ends], [phi(v) for v in ends]
        square = (m * m + r * r) * (below[2] - below[1]) + r * r * (ends[1] * first - ends[2] * last)
        square += 2.0 * m * r * (first - last) + k * k * (below[1] - below[0] + below[3] - below[2])
        square += left[2] * below[0] + right[2] * (1.0 - below[3])
        number, rise = (square - least) / (k * k - least), np.zeros_like(here)
        if truth == at and here is there:  # the slope at the model
            up, down = (self.reference(shape, at, here, here, at * math.exp(h))[0] for h in (STEP, -STEP))
            rise = (up - down) / (2.0 * STEP)
        score = m * (below[2] - below[1]) + r * (first - last) - k * (below[1] - below[0] - below[3] + below[2])
        score += left[0] * below[0] - right[0] * (1.0 - below[3])
        return number, rise, -score / k

    def beside(self, shape: Shape, at: float, eta: Array, y: Array) -> tuple[Array, Array]:
        *_, far, near = self._parts(shape, at, eta, y)
        return far, near

    def steps(self) -> tuple[float, float]:
        gap = self.most**2 - clipped_square(self.most)
        return 2.0 * self.most**2 / gap, 2.0 * self.most / gap

    def _parts(self, shape: Shape, s: Any, eta: Array, y: Array) -> tuple[Array, ...]:
        """Score, slope, squared residual, its slope, and slopes by log σ and η: docs/sums.md (62)."""
        k, u = self.most, np.asarray((y - eta) / s)
        inside = (np.abs(u) < k).astype(np.float64)
        sides = np.where(y <= shape.a, 1.0, np.where(y >= shape.b, -1.0, 0.0))
        cut = np.where(sides > 0.0, shape.a - eta, eta - shape.b) / s
        mean, steep, square, rise = truncated(k, cut)
        free = sides == 0.0
        return (
            np.where(free, -np.clip(u / k, -1.0, 1.0), -sides * mean / k),
            np.where(free, inside, steep),
            np.where(free, np.minimum(u * u, k * k), square),
            np.where(free, inside * u * u, 0.5 * cut * rise) / k**2,
            np.where(free, np.sign(-u) * (1.0 - inside), sides * (cut * steep - mean) / k),
            np.where(free, -u * inside, -0.5 * sides * rise) / k,
        )

    def values(self, gauge: Gauge, eta: Array, y: Array) -> list[Array]:
        u, low, high = ((v - eta[:, 0]) / gauge.residual for v in (y, gauge.centre, gauge.y_max))
        below, above = y <= gauge.centre, y >= gauge.y_max
        loss = np.where(below, -log_ndtr(low), np.where(above, -log_ndtr(-high), 0.5 * u * u))
        return [np.clip(loss / CAP, 0.0, 1.0), below + above + 0.0 * u, ndtr(low) + ndtr(-high)]

    def measures(self, gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
        density = math.log(gauge.residual * unit * math.sqrt(2.0 * math.pi))
        return [
            (
                "mean log-likelihood",
                lambda m: -CAP * float(m[0]) - density * (1.0 - float(m[1])),
                f"of a record, its loss clipped at {CAP:g}; -2 times it by records, + 2 a parameter, is AIC",
            ),
            ("share censored", lambda m: float(m[1]), "of responses at a limit"),
            ("share predicted censored", lambda m: float(m[2]), "mean of what the fit predicts"),
        ]

    def ratio(self, family: Family, d: int, mu: float) -> float:
        return self.most

    def curvature(self, family: Family, c: float, low: float, high: float) -> float:
        return math.erf(self.most / math.sqrt(2.0))

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(1.0, known.curvature, clipped_square(self.most) / self.most**2)

    def noiseless(self, shape: Shape) -> Shape:
        return shape._replace(family=codes.TOBIT_LIKELIHOOD)

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, low, high, 0)

    def refuse(self, family: Family, limits: tuple[float, float], name: str) -> None:
        if any(v is not None and v != end for v, end in zip((family.low, family.high), limits, strict=True)):
            low, high = (end if v is None else v for v, end in zip((family.low, family.high), limits, strict=True))
            fix = f"give bounds={{{name!r}: ({low:g}, {high:g})}}" if low < high else "give limits within the bounds"
            raise SchemaError(
                f"{name!r} goes from {limits[0]:g} to {limits[1]:g}, but {family!r} has other limits; {fix}."
            )


class TobitLikelihoodScore(TobitScore):
    """Score of the likelihood: K = 32, which no residual reaches."""

    code = codes.TOBIT_LIKELIHOOD
    form = True
    most = 32.0


def truncated(k: float, cut: Array) -> tuple[Array, Array, Array, Array]:
    """Mean of min(max(u, −k), k), u a standard normal below `cut`, its slope by it, and the same of min(u², k²)."""
    cut = np.maximum(cut, -k)  # below it is −k, without a slope
    inner, below, tail = np.minimum(cut, k), np.exp(log_ndtr(cut)), ndtr(-k)
    share, density, end = ndtr(inner), phi(inner), phi(np.asarray(k))
    more = np.maximum(below - share, 0.0)
    mean = (k * (more - tail) + end - density) / below
    square = (k * k * (more + tail) + share - inner * density - tail - k * end) / below
    hazard = np.where(cut > -k, phi(cut) / below, 0.0)
    return mean, hazard * (inner - mean), square, hazard * (inner * inner - square)


@known_arguments
def Tobit(low: float | None = None, high: float | None = None) -> Family:
    """Tobit regression of a normal response of which values beyond limits are only known to be there.
    Raises OptionError if there is no limit, or `low` is not below `high`.

    Rounds learn σ, see ``res.fit_measures``. Residuals count up to 1.345 σ, censored ones by their mean then, which is
    right for normal errors; without noise (``mu=None``, ``trust="central"``) the fit is the likelihood's. Predictions
    are of the uncensored response. Not for ``trust="local"``.
    See Tobin, Estimation of relationships for limited dependent variables, Econometrica 1958.

    Parameters
    ----------
    low, high : float, optional
        Limits, one at least: responses at `low` or below count as censored there, at `high` or above as censored there.
        They are bounds of the response, too; where one is left out, ``bounds=`` has the other end, beyond which
        responses count as censored, too, as no difference can be seen.
    """
    given = [real(v) for v in (low, high) if v is not None]
    ends = [v for v in given if v is not None and math.isfinite(v)]
    if not ends or len(ends) < len(given) or ends[0] >= [*ends, math.inf][1]:
        raise OptionError(f"low={shown(low)}, high={shown(high)}: give a limit, low=0, say, or two, the lower first.")
    least, most = None if low is None else ends[0], None if high is None else ends[-1]
    return Family("Tobit", codes.TOBIT, "identity", low=least, high=most)
