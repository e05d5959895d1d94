"""Scores by code: what the engines, measures, plans and words ask of a family, one object a score, and its options.

A :class:`Scoring` is a score ψ(η, y) over its bound with all that is known of it. Each family's module defines its own,
which enters `SCORINGS` by its code; nothing outside this folder asks which one it is. Equations are those of
docs/estimator.md and, of fits by sums, docs/sums.md.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.errors import OptionError
from privreg.protocol.codes import LEVER2, TINY
from privreg.protocol.plans import Shape

Function = Callable[[float, float], float] | None
"""Unit score of a family of one's own."""

Moments = tuple[Array, ...]

CLASSICAL_C: Final = 1.345  # Huber's constant with 95% efficiency for normal errors of sd 1
CAP: Final = 5.0  # Losses are clipped to it: log-losses and hinge losses are rarely larger
REACH: Final = 3.0  # Learned sd to which residuals and responses are clipped

SCORINGS: "Final[dict[int, Scoring]]" = {}
"""Scores by their code."""


def probability(eta: Array) -> Array:
    """Probability at log-odds `eta`, complex ones too, as derivatives take steps along the imaginary axis."""
    rising = np.real(eta) >= 0
    e = np.exp(np.where(rising, -eta, eta))
    return np.where(rising, 1.0, e) / (1.0 + e)


LINKS: Final[dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]]] = {
    "identity": (lambda eta: eta, np.ones_like),
    "margin": (lambda eta: eta, np.ones_like),
    "logit": (probability, lambda eta: probability(eta) * (1.0 - probability(eta))),
    "log": (np.exp, np.exp),
}
"""Mean response at a linear predictor, and its derivative, by the link; families may add theirs."""


@dataclass(frozen=True, repr=False)
class Family:
    """A loss with its options, as the user names it. Made by :func:`Huber`, :func:`Logistic` and their like."""

    name: str  # Name in tables
    code: int  # Kernel code
    link: str  # One of `LINKS`; "margin" of classifiers whose predictor is no probability
    response: Literal["number", "binary", "levels", "ordinal", "count"] = "number"
    c: float | str = "auto"  # Threshold in units of the residual scale; of counts √mean, where "auto" is none
    scale: float | str = "auto"  # That scale, in the response's own units
    tau: float = 0.5  # Level of quantiles and expectiles
    y_max: float = 0.0  # Public largest response of Poisson
    low: float | None = None  # Limits beyond which a response of Tobit is censored
    high: float | None = None
    width: float = 1.0  # Width over which the hinge is smoothed
    bound: float = 1.0  # Family bound of a score that users define
    slope: float = 0.0  # Family bound of its slope by η; 0 if none is declared
    score: Any = field(default=None, compare=False)  # That score ψ(η, y), compiled; None for other families
    _compiled: Any = field(default=None, compare=False, repr=False)

    @property
    def compiled(self) -> Callable[[float, float], float] | None:
        """Compiled score that no record can make fail: NaN where the score raises an error."""
        return None if self._compiled is None else self._compiled.ctypes

    @property
    def binary(self) -> bool:
        """True if the response is 0/1."""
        return self.response == "binary"

    @property
    def kind(self) -> str:
        """Kind of response as the design has it: "number", "binary", "levels" or "ordinal"."""
        return "number" if self.response == "count" else self.response

    @property
    def joint(self) -> bool:
        """True if the published chain estimates the residual scale beside the coefficients."""
        return self.scale == "joint"

    def refuse_joint(self) -> None:
        """Raise an `OptionError` if the residual scale is to be estimated by the published chain, and this is none."""
        if self.joint:
            raise OptionError(
                "Huber(scale='joint') is the published chain's, of local reports: give tuning='published' to fit or "
                "start with trust='local', or leave scale= out, which learns it too."
            )

    @property
    def robust(self) -> bool:
        """True if counts' Pearson residuals are clipped."""
        return self.response == "count" and not isinstance(self.c, str)

    def inverse_link(self, eta: Array) -> Array:
        """Mean response (or quantile, expectile, class margin) at linear predictor `eta`, same shape."""
        with np.errstate(over="ignore"):
            return LINKS[self.link][0](eta)

    def inverse_link_derivative(self, eta: Array) -> Array:
        """Derivative of :meth:`inverse_link`, same shape."""
        with np.errstate(over="ignore"):
            return LINKS[self.link][1](eta)

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values; a user's own score is left out."""
        names = (f.name for f in fields(self) if f.compare)
        return {n: getattr(self, n) for n in names}

    def __repr__(self) -> str:
        return scoring_of(self.shape().family).words(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return from_json, (self.to_json(), self.score)

    @property
    def scoring(self) -> "Scoring":
        """The score, and all that is known of it."""
        return scoring_of(self.code)

    @property
    def scaled(self) -> bool:
        """True if the response has units, so that it is scaled inside."""
        return self.scoring.scaled

    @property
    def logs(self) -> tuple[str, str] | None:
        """Names of coefficients and their exponentials where these are ratios."""
        return self.scoring.logs or {"logit": ("log-odds", "odds ratio"), "log": ("log rate", "rate ratio")}.get(
            self.link
        )

    @property
    def title(self) -> str:
        """Name in tables, with its level."""
        return self.scoring.title.format(**vars(self))

    @property
    def estimand(self) -> str:
        """Estimand of the coefficients, in words."""
        return scoring_of(self.shape().family).estimand.format(**vars(self))

    def target(self, ratio: float, *, learned: bool) -> str:
        """Target of the coefficients, in words, with the threshold c in residual scales, if there is one."""
        if not self.scoring.symmetric:
            return self.estimand
        beyond = math.erfc(ratio / math.sqrt(2.0))  # of normal errors
        near = "a median regression" if beyond > 0.5 else "least squares" if beyond < 0.05 else "a regression of means"
        moves = "; c and scale were learned, so with skewed errors another fit targets other numbers" if learned else ""
        return (
            f"close to {near}: residuals beyond ± {ratio:.4g} scale ({100.0 * beyond:.0f}% of normal ones) count by "
            f"their sign. With symmetric errors and a right model the conditional mean{moves}"
        )

    def shape(self, low: float = -1.0, high: float = 1.0, *, balanced: bool = False, plain: bool = False) -> Shape:
        """Score over its bound, for the kernel; `balanced` is of Logistic's, `plain` of Poisson's likelihood's.

        `low` and `high` are public limits of the response, internal units, which Squared needs.
        """
        return self.scoring.shape(self, low, high, balanced=balanced, plain=plain)

    def resolve(self, *, unit: float, low: float = -1.0, high: float = 1.0) -> "tuple[Score, str]":
        """Turn the family into the numbers of the published algorithm, and describe it with them in the user's units.

        "auto" is the sources' fixed c = 1.345 internal units. `unit` is response units per internal one, `low` and
        `high` are public limits of the response, internal units.
        """
        scoring, shape, assumed = self.scoring, self.shape(low, high), isinstance(self.scale, str)
        ratio = CLASSICAL_C if isinstance(self.c, str) else self.c
        scale = 1.0 if isinstance(self.scale, str) else self.scale / unit
        if not scoring.cornered:
            words = repr(self).removesuffix("()")
            return scoring.published(self, shape, ratio if self.robust else 1.0, low, high), words
        size = f" {scale * unit:.4g} ({'assumed' if assumed else 'declared'})"
        size = ", estimated jointly" if self.joint else size
        words = f"{self.title}, c = {ratio:.4g} × residual scale{size}"
        return scoring.published(self, shape, ratio * scale, low, high), words


def from_json(doc: Mapping[str, Any], score: Any = None) -> Family:
    """Rebuild a family from :meth:`Family.to_json`; one of a user's own without its score can predict, not fit."""
    if score is None:
        return Family(**doc)
    return Family(**doc, score=score, _compiled=scoring_of(doc["code"]).compiled(score, Family(**doc)))


@dataclass(frozen=True)
class Score:
    """Scalar score ψ(η, y), so that a person's score is ψ·ω(x)·x, in internal units."""

    shape: Shape  # The score over its bound
    c: float  # Huber threshold in internal response units, where the family has one
    bound: float  # sup abs ψ
    curvature_bound: float  # sup ∂ψ/∂η; inf where curvature can't be reported
    # Range of ψ over all responses, where it is narrower than ± bound
    low: float | None = None
    high: float | None = None

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest ψ."""
        return -self.bound if self.low is None else self.low, self.bound if self.high is None else self.high


@dataclass(frozen=True)
class ScoreRules:
    """Public constants of a family for local reports."""

    shape: Shape  # The unit score
    ratio: float  # Huber threshold in residual sd
    track: bool  # True if the threshold c (or the half-width of the window that stands for it) is learned
    curvature: float  # Curvature of the loss, per unit of score bound and c
    varying: bool  # True if curvature depends on the coefficients, so that these are to be searched for
    centre: float = 0.0  # The estimand for normal residuals, in their sd above the mean

    @property
    def scoring(self) -> "Scoring":
        """The score."""
        return scoring_of(self.shape.family)


class Gauge(NamedTuple):
    """Public constants of reports on measures of fit, internal units of the response."""

    family: int  # Kernel code
    tau: float
    classes: int
    # Limits to which residuals, and responses about `centre`, are clipped
    residual: float
    spread: float
    centre: float  # Lower limit, where responses are censored
    y_max: float  # Largest count, or upper limit
    # True if records may be unusable; then they send zeros, and all others a further 1
    nonresponse: bool = False

    @property
    def numbers(self) -> int:
        """Numbers that each person reports, without that 1."""
        return scoring_of(self.family).numbers(self.classes)


class SumRules(NamedTuple):
    """Unit score in a fit by sums, under the reference model before a record is seen."""

    top: float  # Largest slope, per unit of c
    slope: float  # Mean slope
    square: float  # Mean square
    fixed: float | None = None  # Threshold c, where it is not 1 and the family's declared scale does not give it


class Scoring:
    """A score over its bound, and all that is known of it. Instances hold nothing; `shape` has the numbers."""

    code: ClassVar[int] = -1  # On the wire and in compiled loops, see `protocol.codes`
    # Words, with the family's options in braces, as {tau}:
    estimand: ClassVar[str] = ""  # Meaning of its coefficients
    call: ClassVar[str] = "{name}()"  # Call that makes it
    title: ClassVar[str] = "{name}"  # Name in tables
    discrete: ClassVar[str] = ""  # Model of statsmodels for the discrete response that it has
    logs: ClassVar[tuple[str, str] | None] = None  # Coefficients, and exponentials of them, where these are ratios
    form: ClassVar[bool] = False  # True if it is a form of another code's score, which users do not name

    residual: ClassVar[bool] = False  # A score of y − η over a residual scale, which is learned
    scaled: ClassVar[bool] = False  # The response has units, so that it is scaled inside
    counts: ClassVar[bool] = False  # The response is a count
    classed: ClassVar[bool] = False  # The response is a class, with a model of its probability
    predicted: ClassVar[bool] = False  # The linear predictor determines the distribution of the response
    linear: ClassVar[bool] = False  # The predictor is the response's mean, but for a constant: levels can be taken off
    multiple: ClassVar[bool] = False  # Several linear predictors
    stacked: ClassVar[bool] = False  # A record is a row for each cut point between levels, with one report
    custom: ClassVar[bool] = False  # It is a function of the user's, which is never saved
    extra: ClassVar[str] = ""  # Name of a parameter that rounds learn beside the coefficients; empty without one
    limits: ClassVar[tuple[float, float]] = 0.0, math.inf  # Its public range
    censored: ClassVar[bool] = False  # Responses at their bounds, or beyond, count as censored
    conditional: ClassVar[bool] = False  # Two rows of a person have a score without the person's level

    # --- how it bends
    cornered: ClassVar[bool] = False  # Constant beyond a threshold c in residual scales
    symmetric: ClassVar[bool] = False  # Residuals within ± c have the slope 1, so that their share is the curvature
    density: ClassVar[bool] = False  # A step, whose slope is the density of residuals in a window of ± c
    bend: ClassVar[float] = 1.0  # Thresholds (of a density residual sds) over which the slope changes by itself
    varying: ClassVar[bool] = False  # The curvature depends on the coefficients, so that these are searched for
    tracked: ClassVar[bool] = False  # c, the half-width of a window for it, or an extra parameter is learned
    bounded: ClassVar[bool] = False  # The slope changes over c of a residual
    curved: ClassVar[bool] = False  # One predictor bends it: a step by its slope leaves half its square, in thresholds
    bent_by_offsets: ClassVar[bool] = False  # Bent by a state's offsets, though curvature does not vary
    jumps: ClassVar[bool] = False  # It may jump
    separable: ClassVar[bool] = False  # Its loss may fall for ever along a line
    pearson: ClassVar[bool] = False  # c clips Pearson residuals of counts
    short_offsets: ClassVar[bool] = False  # Groups' offsets are short, see `collector.rounds.GENTLE`
    margin: ClassVar[float] = 0.0  # Their length, where it is one of a margin
    followed: ClassVar[bool] = False  # Rows are intervals of a person's time at risk
    measured: ClassVar[int] = 0  # Numbers that each person reports on the fit; 0 without measures
    shares: ClassVar[str] = "plain"  # Split of a report's squared norm in fits by sums, see `protocol.sums`
    bound: ClassVar[float] = 1.0  # sup abs ψ
    steepest: ClassVar[float] = math.inf  # sup ∂ψ/∂η, where it can be reported
    unsure: ClassVar[float] = 0.4  # Sd of slope and square of `sums` relative to these, before a record is seen

    def __init_subclass__(cls) -> None:
        if "code" in cls.__dict__:
            SCORINGS[cls.code] = cls()

    # --- the score ---------------------------------------------------------------------------------------------

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        """Scalar score over its bound; see :func:`unit`."""
        raise ValueError("no scalar score of this code")

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        """Slope of the unit score by the linear predictor, times c, about [0, top]; shape (m,)."""
        raise ValueError("no slope of this score")

    def number(self, shape: Shape, at: float, eta: Array, y: Array) -> tuple[Array, Array]:
        """Number in [−1, 1] whose mean is 0 if `at` is the extra parameter, and its slope by minus the log of `at`."""
        raise ValueError("no parameter beside the coefficients")

    def beside(self, shape: Shape, at: float, eta: Array, y: Array) -> tuple[Array, Array]:
        """Slope of threshold times score by the threshold, and of that number by η, in ±1 each."""
        raise ValueError("no parameter beside the coefficients")

    def steps(self) -> tuple[float, float]:
        """Largest slopes of the number by minus log `at`, and by η times `at`, to which they are relative."""
        return 1.0, 1.0

    def reference(self, shape: Shape, at: float, here: Array, there: Array, truth: float) -> tuple[Array, ...]:
        """Mean of that number at `here` if `there` and `truth` are the truth, the slope at `here`, and, where the score
        depends on the parameter, its mean; shape (m,).
        """
        raise ValueError("no parameter beside the coefficients")

    def start(self, mean: float, sd: float) -> float:
        """Extra parameter of responses with this mean and standard deviation."""
        return sd

    def near(self, shape: Shape, c: float, eta: Array, y: Array, function: Function = None) -> Array:
        """Half the rise of the score from η − c to η + c; see :func:`near`."""
        rise = 0.5 * (unit(shape, 1.0, eta + c, y, function) - unit(shape, 1.0, eta - c, y, function))
        return np.where(rise > 0.0, np.minimum(rise, 1.0), 0.0)

    def responses(self, shape: Shape, eta: float, c: float) -> list[tuple[str, float]]:
        """Responses as far out as they can be, with words: those an audit tries."""
        near = [("y at the lower threshold", eta - INSIDE * c), ("y at the upper threshold", eta + INSIDE * c)]
        return [("y low", -FAR), ("y high", FAR), ("y in the middle", 0.0), *near]

    def steep(self, shape: Shape, c: float) -> tuple[float, float]:
        """Predictor and response of the most curvature and much score."""
        return 0.0, c

    def convex(self, shape: tuple[int, float, float]) -> tuple[int, float, float]:
        """Code and numbers of a score that rises in η, whose root is near."""
        return shape

    def compiled(self, score: Any, family: Family) -> Any:
        """A user's own score, compiled."""
        raise ValueError("only a score of one's own is compiled")

    # --- the reference model -----------------------------------------------------------------------------------

    def ratio(self, family: Family, d: int, mu: float) -> float:
        """Threshold c in residual sd; 1 without one."""
        return 1.0

    def curvature(self, family: Family, c: float, low: float, high: float) -> float:
        """Curvature of the loss, per unit of score bound and c, for normal residuals."""
        return 1.0

    def rules(self, family: Family, shape: Shape, d: int, mu: float, low: float, high: float) -> ScoreRules:
        """Public constants for local reports; see `family.score_rules`."""
        if self is _UNKNOWN:
            raise ValueError(f"no rules of rounds for {family!r}")
        ratio = self.ratio(family, d, mu)
        track = self.tracked and isinstance(family.scale, str)
        curvature, centre = self.curvature(family, ratio, low, high), self.centred(family, ratio)
        return ScoreRules(shape, ratio, track, curvature, self.varying, centre)

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        """Public constants for fits by sums; `low` and `high` are public limits of the response, internal units."""
        return SumRules(1.0, known.curvature, 0.39)

    def noiseless(self, shape: Shape) -> Shape:
        """Score of a fit by sums without noise: the likelihood's, bounded or not."""
        return shape

    def linked(self, mean: float) -> tuple[float, float]:
        """Linear predictor of a mean response in (0, 1), and the slope of the mean by it."""
        return math.log(mean / (1.0 - mean)), mean * (1.0 - mean)

    def weighed(self, shape: Shape, mean: float, at: float) -> tuple[float, float]:
        """Mean slope and square of the unit score of counts, by their mean and the extra parameter."""
        return mean / shape.a, mean / shape.a**2

    def moments(
        self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any, *, brief: bool = False
    ) -> Moments:
        """Mean unit score at `here` if `there` is the truth; its derivatives by `there` and log s; the same of the
        number; all of shape (m,), the first two alone if `brief`: equation (12) of docs/estimator.md.

        Here that of a step at a quantile of normal residuals of scale s, the median where the score is unknown.
        """
        tau = self.tau(rules.shape)
        top = max(tau, 1.0 - tau)
        mean = there - s * rules.centre - here  # of the residual
        density_at = phi(mean / s)
        score, slope = (ndtr(-mean / s) - tau) / top, -density_at / (s * top)
        if brief:
            return score, slope
        ends = (-c - mean) / s, (c - mean) / s
        within = window(rules, ends, [ndtr(v) for v in ends], [phi(v) for v in ends], s)
        return (score, slope, density_at * (mean / s + rules.centre) / top, *within)

    def square(self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any) -> Array:
        """Mean squared unit score there, shape (m,): equation (12) of docs/estimator.md."""
        tau = self.tau(rules.shape)
        top = max(tau, 1.0 - tau)
        below = ndtr(-(there - s * rules.centre - here) / s)
        return np.asarray((below * (1.0 - tau) ** 2 + (1.0 - below) * tau**2) / top**2)

    def sides(self, shape: Shape) -> tuple[float, float]:
        """Weights of residuals above and below 0, of a score that is constant beyond ± c."""
        return 0.5, 0.5

    def tau(self, shape: Shape) -> float:
        """Level of the step that stands for the score."""
        return 0.5

    def log_odds(self, eta: Array) -> Array:
        """Log-odds of classes against the first, from linear predictors; both of shape (n, b)."""
        return eta

    def perfect(self, eta: Array) -> list[tuple[float, Array]]:
        """Sign of scores of records that are predicted perfectly, and their slope over the size of these scores."""
        return []

    # --- measures of fit ---------------------------------------------------------------------------------------

    def numbers(self, classes: int) -> int:
        """Numbers that each person reports on the fit."""
        return self.measured

    def values(self, gauge: Gauge, eta: Array, y: Array) -> list[Array]:
        """These numbers, in [0, 1]; `eta` has the shape (n, b), `y` and each number (n,). NaN for unusable records."""
        return []

    def measures(self, gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
        """Name, function of the mean numbers and meaning of each measure; `unit` is the internal unit of y."""
        return []

    def compared(self, family: Family, y: Array, eta: Array) -> dict[str, float]:
        """Measures of predictors `eta`, shape (n, b), on public responses `y`, shape (n,), user's units."""
        r, spread = y - family.inverse_link(eta[:, 0]), float(np.var(y))
        error = float(np.mean(r**2))
        return {
            "mean error": float(np.mean(r)),
            "mean absolute error": float(np.mean(np.abs(r))),
            "mean squared error": error,
            "R²": 1.0 - error / spread if spread > 0.0 else np.nan,
        }

    # --- words, plans and limits -------------------------------------------------------------------------------

    def words(self, family: Family) -> str:
        """The call that makes the family."""
        return self.call.format(**vars(family))

    def balanced(self, shape: Shape, *, summed: bool) -> bool:
        """True if the score has a divisor that depends on covariates; `summed`: of a fit by sums."""
        return False

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        """Numbers of the score; see `Family.shape`."""
        return Shape(self.code, 0.0, 0.0, 0)

    def published(self, family: Family, shape: Shape, c: float, low: float, high: float) -> Score:
        """Score of the published algorithm, at the threshold c; internal units."""
        return Score(shape, c, self.bound, self.steepest)

    def refuse(self, family: Family, limits: tuple[float, float], name: str) -> None:
        """Raise a SchemaError if public limits of the response do not suit the family."""

    def unsummed(self, family: Family) -> str:
        """Reason why a fit by sums can't take the family, with a remedy; empty if it can."""
        return ""

    def unlocal(self, d: int, mu: float, classes: int) -> str:
        """Reason why local reports at `mu` can't take the family, with a remedy; empty if they can.

        Of an extra parameter's number, of slope 0.1, a report's noise √2.45/(μ √0.0232) hides a fifth from so many.
        """
        many = 2.45 / 0.0232 / (0.1 * 0.2 * min(mu, 1e6)) ** 2
        words = f"{self.extra} is not learned: it would take some {float(f'{max(many, 1000.0):.2g}'):,.0f} people"
        return f"{words}; give trust='two_collectors', 'silos' or 'central'" if self.extra else ""

    def centred(self, family: Family, ratio: float) -> float:
        """The estimand for normal residuals, in their sd above the mean; `ratio` is the threshold c in sd."""
        return 0.0

    def draw(self, family: Family, eta: Array, levels: Any, rng: np.random.Generator, dispersion: Any = 1.0) -> Array:
        """Responses of made-up people with linear predictors `eta`, shape (n, b): levels, or counts with a variance of
        `dispersion` times their mean.
        """
        raise ValueError("no model of the response")

    def exceeding(self, family: Family, eta: Array, dispersion: Array) -> float:
        """Share of such responses beyond the declared largest one."""
        return 0.0

    def twin(self, sm: Any, family: Family, y: Array, x: Array) -> Any:
        """Fitted model of `sm`, statsmodels, without privacy; None if it has none. Classes are 0, 1 and so on."""
        return getattr(sm, self.discrete)(y, x).fit(disp=0) if self.discrete else None


FAR: Final = 1e6  # A response that no scale reaches
INSIDE: Final = 1.0 - 1e-9  # Part of a threshold that is surely within it


class Predicted(Scoring):
    """A score whose response's distribution follows from the linear predictor, linear in the response if not said."""

    predicted = varying = True

    def near(self, shape: Shape, c: float, eta: Array, y: Array, function: Function = None) -> Array:
        return np.full(np.shape(y), min(0.5 * c, 1.0))

    def mean(self, shape: Shape, there: Array) -> tuple[Array, Array]:
        """Mean response at a linear predictor, and its slope."""
        raise ValueError("no mean of this score")

    def moments(
        self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any, *, brief: bool = False
    ) -> Moments:
        found, zero = self.brief(rules.shape, here, there, c), np.zeros_like(here)
        return found if brief else (*found, zero, np.ones_like(here), zero, zero)

    def brief(self, shape: Shape, here: Array, there: Array, c: float) -> tuple[Array, Array]:
        """Mean unit score and its derivative by `there`."""
        low, high = self.ends(shape, here)
        mean, slope = self.mean(shape, there)
        return low + (high - low) * mean, (high - low) * slope

    def ends(self, shape: Shape, here: Array) -> tuple[Array, Array]:
        """Unit scores at responses 0 and 1."""
        one = np.ones_like(here)
        return unit(shape, 1.0, here, 0.0 * one), unit(shape, 1.0, here, one)


class Binary(Predicted):
    """A score of a response that is 0 or 1, by a model of its probability."""

    classed = curved = separable = short_offsets = True

    def square(self, rules: ScoreRules, here: Array, there: Array, c: float, s: Any) -> Array:
        share = self.mean(rules.shape, there)[0]
        low, high = self.ends(rules.shape, here)
        return np.asarray((1.0 - share) * low**2 + share * high**2)

    def responses(self, shape: Shape, eta: float, c: float) -> list[tuple[str, float]]:
        return [("y = 0", 0.0), ("y = 1", 1.0)]


def scoring_of(code: int) -> Scoring:
    """The score of a code; one that nothing is known of where there is none."""
    return SCORINGS.get(code, _UNKNOWN)


_UNKNOWN: Final = Scoring()


def unit(shape: Shape, c: float | Array, eta: Array, y: Array, function: Function = None) -> Array:
    """Scalar score over its bound, in [−1, 1], shape (n,): equation (2) of docs/estimator.md.

    `eta` and `y`, the linear predictor and the response in internal units, have any one shape but for a family of one's
    own, whose score over its bound is `function`; the threshold `c` of Huber, Expectile and robust counts goes with
    them.

    See XSJKH (arXiv 2505.08227), section 5, for Huber, logistic and expectile.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return scoring_of(shape.family).unit(shape, c, eta, y, function)


def ends(
    shape: Shape, c: float, eta: Array, y_low: float, y_high: float, function: Function = None
) -> tuple[Array, Array]:
    """Range of the unit score over the public limits of the response, lowest and highest, each of shape (n,)."""
    one = np.ones_like(eta)
    low, high = unit(shape, c, eta, y_high * one, function), unit(shape, c, eta, y_low * one, function)
    if shape.address:  # a user's own that is not a number there, at infinity: its bound is known
        low, high = np.where(np.isnan(low), -1.0, low), np.where(np.isnan(high), 1.0, high)
    return low, high


def psi(score: Score, eta: Array, y: Array, function: Function = None) -> Array:
    """Scalar score ψ(η, y) = ∂ρ/∂η; arguments as for :func:`unit`, shape (n,)."""
    if scoring_of(score.shape.family).symmetric:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(-np.clip(y - eta, -score.c, score.c))
    return score.bound * unit(score.shape, score.c, eta, y, function)


def near(shape: Shape, c: float, eta: Array, y: Array, function: Function = None) -> Array:
    """Number in [0, 1] that a joint report carries, shape (n,).

    abs r ≤ c for scores of residuals; min(1, c/2) where the linear predictor tells the curvature, so that c learns
    the share of those who answer; else half the rise of the score from η − c to η + c. Its mean over c is the
    curvature near c, and c is tracked so that the mean is a given one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return scoring_of(shape.family).near(shape, c, eta, y, function)


def phi(v: Array) -> Array:
    """Density of a standard normal."""
    return np.asarray(np.exp(-0.5 * v * v) / math.sqrt(2.0 * math.pi))


def window(rules: ScoreRules, cuts: Any, below: Any, density: Any, s: Any) -> tuple[Array, Array, Array]:
    """P(abs r ≤ c) and its derivatives by the mean and by log s, of −c and c in standard units, Φ and φ there."""
    low, high = (f * (v - rules.centre) for f, v in zip(density, cuts, strict=True))
    return below[1] - below[0], (density[0] - density[1]) / s, low - high


# --- weights ω(x), by which a covariate vector of any length gives a score of bounded length ---------------------


@dataclass(frozen=True)
class ScoreWeights:
    """A form of weight."""

    name: str
    code: int  # Kernel code
    reach: float  # sup ‖x‖ω(x) over all x
    reach2: float  # sup ‖x‖²ω(x), which bounds a curvature report; inf if only bounded covariates bound it
    formula: str  # In words, for the privacy block


SCORE_WEIGHTS: Final = {
    "unit": ScoreWeights("unit", 2, 1.0 + 1e-12, math.inf, "1/‖x‖"),
    "published": ScoreWeights("published", 1, math.sqrt(2.0), 2.0, "min(1, 2/‖x‖²)"),
    "published_slopes": ScoreWeights(
        "published_slopes", 3, math.sqrt(3.0), 3.0, "min(1, 2/‖slopes‖²), intercept left out"
    ),
    "leverage": ScoreWeights(
        "leverage", 4, math.inf, math.inf, "min(1, 8 √p/‖x‖), x = covariates uncorrelated, variance 1, which are public"
    ),
}
"""Published: Mallows weights of XSJKH (arXiv 2505.08227), section 5. With the intercept left out of the
norm ‖x‖²ω ≤ (1 + 2)·1, so the reach is √3. Unit weights have the largest curvature per unit of bound;
their reach is a hair above 1 to cover rounding, so that the safety clip is a branch hardly ever taken.
Leverage: where covariates are public nothing of privacy depends on the weights, so ordinary rows, and those of rare
levels, have the weight 1; ‖x‖ω is bounded by 8 √p for any number p of them."""


def omega(weights: ScoreWeights, x: Array) -> Array:
    """ω of every row in internal units, shape (n, p): the NumPy twin of the kernel's, shape (n,)."""
    norm2 = np.einsum("ij,ij->i", x, x)
    if weights.name == "unit":
        return np.asarray(np.divide(1.0, np.sqrt(norm2), out=np.zeros_like(norm2), where=norm2 > TINY))
    if weights.name == "leverage":
        most = LEVER2 * x.shape[1]
        return np.asarray(np.sqrt(np.divide(most, norm2, out=np.ones_like(norm2), where=norm2 > most)))
    if weights.name == "published_slopes":
        norm2 = norm2 - x[:, 0] ** 2
    return np.asarray(np.minimum(1.0, np.divide(2.0, norm2, out=np.ones_like(norm2), where=norm2 > 0)))
