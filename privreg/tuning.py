"""From the user's wishes to the numbers of one fit: score, weights, steps, batches. Public inputs only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from privreg.errors import InferenceError, OptionError, choose, real, shown
from privreg.family import Family
from privreg.inference import DOUBT, METHODS, Method, resolve_methods
from privreg.kernels import BALANCED, EXPECTILE, MULTINOMIAL, POISSON
from privreg.measures import Gauge, count
from privreg.mechanisms import Mechanism, resolve_mechanism
from privreg.rules import ChainRules, chain_rules
from privreg.scores import Score
from privreg.stages import FEWEST_LANES, Reports, Schedule, make_schedule
from privreg.steps import Steps
from privreg.weights import SCORE_WEIGHTS, ScoreWeights, omega

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.accounting import Budget
    from privreg.scaling import Units

    Array = NDArray[np.float64]

__all__ = ["TUNINGS", "WEIGHTS", "Efficient", "Problem", "Settings", "Wishes", "resolve_tuning"]

TUNINGS: Final = ("efficient", "published")
WEIGHTS: Final = ("unit", "whitened", "published", "published_slopes")
CURVATURE_SHARE: Final = 0.1
MOST_PER_BATCH: Final = 10**9
MOST_LANES: Final = 1024
LEAST_RATIO: Final = 0.1
MOST_RATIO: Final = 2.0
MOST_THREADS: Final = 256
NO_STEPS: Final = Steps(0.0, 0.0, 0.0)
MIXING: Final = 10.0
"""Σγλ_min under which a note warns that the path may not have forgotten its start."""


@dataclass(frozen=True)
class Wishes:
    """What the user asked of `fit` or `start`; None where nothing was asked.

    Parameters
    ----------
    tuning : str
    inference : str or sequence of str or None
        "auto" leaves the choice to the tuning; None asks for estimates alone.
    lanes, batch_size : int or None
    alpha, step : float or None
    threads : int or None
    measures : float or None
        Share of the people whom the fit is measured by.
    """

    tuning: Any = "efficient"
    inference: Any = "auto"
    lanes: Any = None
    batch_size: Any = None
    alpha: Any = None
    step: Any = None
    threads: Any = None
    measures: Any = None


@dataclass(frozen=True)
class Efficient:
    """What the staged fit needs beyond `Settings`; public.

    Parameters
    ----------
    schedule : Schedule
    rules : ChainRules
    reports : Reports
    corner : float
        Huber's c where it is declared, internal units.
    whitened : bool
        Whether score weights are those of whitened covariates, or of scaled ones.
    gauge : Gauge or None
        By what fit is measured.
    told : int
        Numbers that people report whom it is measured by.
    """

    schedule: Schedule
    rules: ChainRules
    reports: Reports
    corner: float
    whitened: bool
    gauge: Gauge | None = None
    told: int = 0


@dataclass(frozen=True)
class Settings:
    """Everything a fit needs to know before the first record; public.

    Parameters
    ----------
    tuning : str
    score : Score
    score_words : str
        The family with its constants, in the user's units.
    weights : ScoreWeights
    mechanism : Mechanism
    methods : tuple of Method
    steps : Steps
        Of the single chain.
    batch : int
        People per update of the single chain.
    curvature_share : float
        Share of people who send curvature instead of a score.
    curvature_bound : float
        Bound of a curvature report.
    weakest : float
        Smallest eigenvalue of the curvature for unrelated covariates whose bounds lie at ±4 sd.
    alone : bool
        Whether the single chain has no covariates but the constant.
    blocks : int
        Linear predictors of a person in the single chain.
    efficient : Efficient or None
        The staged fit; None for the single chain of the published algorithm.
    """

    tuning: str
    score: Score
    score_words: str
    weights: ScoreWeights
    mechanism: Mechanism
    methods: tuple[Method, ...]
    steps: Steps = NO_STEPS
    batch: int = 1
    curvature_share: float = 0.0
    curvature_bound: float = math.inf
    weakest: float = 0.0
    alone: bool = False
    blocks: int = 1
    efficient: Efficient | None = None

    @property
    def bound(self) -> float:
        """Bound of the weighted score's ℓ2 norm, internal units; of the unit score in a staged fit."""
        if self.efficient is not None and self.efficient.reports.label:
            return 1.0
        return self.weights.reach if self.efficient else self.score.bound * self.weights.reach

    @property
    def parts(self) -> int:
        """Releases at this budget of one person's data: two with the central plug-in."""
        return 2 if any(m.central for m in self.methods) else 1

    def _report(self, p: int) -> tuple[float, int]:
        """Radius and size of a score report with `p` covariates."""
        if self.efficient is not None:
            reports = self.efficient.reports
            return reports.radius(0.0), reports.size(p, 0.0)
        low, high = self.score.range
        return self.mechanism.score_radius(0.5 * (high - low) if self.alone else self.bound), p * self.blocks

    def noise_sd(self, p: int) -> float:
        """Noise sd per coordinate of a score report with `p` covariates, internal units."""
        return self.mechanism.sd(*self._report(p))

    def noise_words(self, p: int) -> str:
        """What is done to a score report, for the privacy block."""
        return self.mechanism.words(*self._report(p))

    def mixing_note(self, updates: int) -> str | None:
        """Words for a path too short to have forgotten its start, judged from public numbers only."""
        forgotten = self.steps.total(updates) * self.weakest
        if forgotten >= MIXING:
            return None
        return (
            f"{DOUBT} the intervals: few records for this model. Were the declared bounds 4 sd from the mean, the "
            f"steps would sum to {forgotten:.1f} relaxation times of the slowest direction; {MIXING:g} are wanted. "
            "More people, tighter bounds or moments= help"
        )


def _number(name: str, value: object, low: float, high: float) -> float:
    number = real(value)
    if number is None or not low < number < high:
        interval = f"in ({low:g}, {high:g})" if math.isfinite(high) else f"above {low:g}"
        raise OptionError(f"{name}={shown(value)} must be a number {interval}.")
    return number


def _count(name: str, value: object, most: int, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= most:
        raise OptionError(f"{name}={shown(value)} must be a whole number of {what}, 1 or more (at most {most:.9g}).")
    return int(value)


@dataclass(frozen=True)
class Problem:
    """What is to be fitted: public facts only.

    Parameters
    ----------
    family : Family
    budget : Budget
        The largest, where people have budgets of their own.
    units : Units
        Internal units.
    probe : ndarray, shape (m, p)
        Rows over the public box, internal units.
    constant : bool
        Whether the design has the constant column.
    response_limits : (float, float)
        Public limits of the response, internal units.
    classes : int
        Levels of a multinomial response, else 2.
    scale_declared : bool
        Whether mean and sd of every covariate are declared.
    standardised : bool
        Whether the scale was taken from the data, as the sources' applications do.
    score_weights : str or None
        None lets the tuning choose.
    mechanism : str
        As the user asked; "auto" lets the budget choose.
    private : str
        "record" or "response".
    personal : bool
        Whether people have budgets of their own.
    rows : int or None
        People expected, if known.
    """

    family: Family
    budget: Budget
    units: Units
    probe: Array
    constant: bool = True
    response_limits: tuple[float, float] = (-math.inf, math.inf)
    classes: int = 2
    scale_declared: bool = False
    standardised: bool = False
    score_weights: Any = None
    mechanism: Any = "auto"
    private: str = "record"
    personal: bool = False
    rows: int | None = None

    @property
    def covariates(self) -> int:
        """Columns of the design."""
        return int(self.units.centre.shape[0])

    @property
    def blocks(self) -> int:
        """Linear predictors of a person."""
        return self.classes - 1 if self.family.code == MULTINOMIAL else 1

    @property
    def scalar(self) -> bool:
        """Whether a person's report is one number, as covariates are public or there are none.

        Raises
        ------
        OptionError
            If it would be several.
        """
        if self.blocks > 1 and self.private == "response":
            raise OptionError(
                "private='response' randomises one number, and a multinomial score has one for each level but the "
                "first; use private='record', or Logistic() for each level."
            )
        alone = self.constant and self.covariates == 1
        return self.blocks == 1 and (self.private == "response" or alone)

    def mechanism_for(self, size: int, *, scalar: bool) -> Mechanism:
        """Mechanism for score reports of `size` numbers."""
        found = resolve_mechanism(self.mechanism, self.budget, size=size, scalar=scalar)
        if self.personal and found.name != "gaussian":
            if self.mechanism != "auto":
                raise OptionError(f"mechanism={self.mechanism!r} has no personal budgets; use 'gaussian'.")
            found = Mechanism("gaussian", self.budget)
        return found


def resolve_tuning(wishes: Wishes, problem: Problem) -> Settings:
    """Choose the numbers of a fit.

    Parameters
    ----------
    wishes : Wishes
    problem : Problem

    Returns
    -------
    Settings

    Raises
    ------
    OptionError
        If an option is out of range, or does not go with another.
    InferenceError
        If a method can't do what is asked under these settings.

    References
    ----------
    XSJKH (arXiv 2505.08227), sections 5 and 6, for the published settings.
    """
    how = choose("tuning", wishes.tuning, TUNINGS)
    if problem.score_weights is not None:
        choose("score_weights", problem.score_weights, WEIGHTS)
    numbers = _Numbers(
        batch=_count("batch_size", wishes.batch_size, MOST_PER_BATCH, "people"),
        lanes=_count("lanes", wishes.lanes, MOST_LANES, "chains"),
        alpha=None if wishes.alpha is None else _number("alpha", wishes.alpha, 0.0, 1.0),
        step=None if wishes.step is None else _number("step", wishes.step, 0.0, math.inf),
        measures=_share(wishes.measures, how, problem),
    )
    _count("threads", wishes.threads, MOST_THREADS, "threads")
    methods = _methods(wishes.inference, how, numbers.lanes)
    if numbers.alpha is not None and numbers.alpha <= 0.5 and methods:
        raise InferenceError(
            f"alpha={numbers.alpha:g} is the exponent of the steps, and intervals need it above 1/2 (inference=None "
            "gives estimates alone); the level of intervals is set in summary(alpha=) and conf_int(alpha=)."
        )
    if how == "efficient":
        return _efficient(methods, numbers, problem)
    return _published(methods, numbers, problem)


class _Numbers(NamedTuple):
    batch: int | None
    lanes: int | None
    alpha: float | None
    step: float | None
    measures: float


def _share(wanted: object, tuning: str, problem: Problem) -> float:
    """Share of the people whom the fit is measured by; 0 if it is not."""
    if wanted is None:
        return 0.0
    share = _number("measures", wanted, 0.0, 0.5)
    if tuning != "efficient":
        raise OptionError("measures= goes with tuning='efficient'; the published algorithm has no measures of fit.")
    if problem.rows is None:
        raise OptionError(
            "measures= takes the last people of the stream, so it must be known how many come; give rows= to the model."
        )
    if not count(problem.family, problem.classes):
        raise OptionError(f"measures= knows none for {problem.family!r}; leave it out.")
    return share


def _methods(inference: object, tuning: str, lanes: int | None) -> tuple[Method, ...]:
    """Inference methods, the default being what suits the tuning."""
    if inference is None:
        return ()
    few = lanes is not None and lanes < FEWEST_LANES
    if isinstance(inference, str) and inference == "auto":
        return (METHODS["random_scaling" if tuning == "published" or few else "between_lanes"],)
    methods = resolve_methods(inference)
    for m in methods:
        if m.tuning not in {"any", tuning}:
            fits = ", ".join(repr(k) for k, v in METHODS.items() if v.tuning in {"any", tuning})
            raise InferenceError(
                f"inference={m.name!r} needs tuning={m.tuning!r}; with tuning={tuning!r} there are {fits}."
            )
        if m.lanes and few:
            raise InferenceError(
                f"inference={m.name!r} compares lanes and needs at least {FEWEST_LANES}; got lanes={lanes}. "
                "Leave lanes= out, or use inference='random_scaling'."
            )
    return methods


def _efficient(methods: tuple[Method, ...], numbers: _Numbers, problem: Problem) -> Settings:
    """Settings of the staged fit: unit scores in learned coordinates, Newton steps, lanes."""
    family, budget, units, weights = problem.family, problem.budget, problem.units, problem.score_weights
    if weights not in {None, "unit", "whitened"}:
        raise OptionError(
            f"score_weights={weights!r} goes with tuning='published'; the efficient tuning has 'whitened' and 'unit'."
        )
    p = units.centre.shape[0]
    low, high = problem.response_limits
    rules = chain_rules(family, p, budget.mu, low=low, high=high, label=problem.scalar)
    if family.cornered and rules.track and not LEAST_RATIO <= rules.ratio <= MOST_RATIO:
        name = repr(family).partition("(")[0]
        raise OptionError(
            f"c={rules.ratio:g} residual scales: the scale is learned from how many residuals lie within c, which "
            f"tells little outside {LEAST_RATIO:g} to {MOST_RATIO:g}; declare it, as in {name}(c={rules.ratio:g}, "
            "scale=...)."
        )
    scalar, size = problem.scalar, 1 if problem.scalar else problem.blocks * p
    mechanism = problem.mechanism_for(size, scalar=scalar)
    reports = Reports(mechanism, SCORE_WEIGHTS["unit"].reach, problem.blocks, scalar, low, high)
    words, corner = _score_words(family, rules, units)
    noise = mechanism.sd(reports.radius(0.0), size) ** 2
    numbers_each = (p + 1) * (p + 2) // 2
    schedule = make_schedule(
        d=problem.blocks * p,
        noise=noise,
        moment_noise=mechanism.sd(mechanism.moment_radius(), numbers_each) ** 2,
        rows=problem.rows,
        unscaled=int(units.unscaled.sum()) + int(units.y_unscaled or (scalar and family.of_residuals)),
        declared=problem.scale_declared,
        batch=numbers.batch,
        lanes=numbers.lanes,
        alpha=numbers.alpha,
        pace=numbers.step,
        between=any(m.lanes for m in methods) or not methods,
        moving=rules.moving,
        curvature=rules.curvature,
        label=scalar,
        measures=numbers.measures,
    )
    told = count(family, problem.classes) if numbers.measures else 0
    gauge = Gauge(family.code, family.tau, problem.classes, 1.0, 1.0, 0.0, family.y_max) if told else None
    return Settings(
        tuning="efficient",
        score=Score(rules.shape, 1.0, 1.0, math.inf),
        score_words=words,
        weights=SCORE_WEIGHTS["one" if scalar else "unit"],
        mechanism=mechanism,
        methods=methods,
        efficient=Efficient(schedule, rules, reports, corner, weights != "unit", gauge, told),
    )


def _score_words(family: Family, rules: ChainRules, units: Units) -> tuple[str, float]:
    """The family with its constants, and its corner where it is declared, internal units."""
    name = family.name if family.code != EXPECTILE else f"Expectile({family.tau:g})"
    if family.cornered and rules.track:
        return f"{name}, c = {rules.ratio:.4g} × residual scale, learned from the reports", 1.0
    if family.cornered:
        scale = float(family.scale)
        return f"{name}, c = {rules.ratio:.4g} × residual scale {scale:.4g} (declared)", (
            rules.ratio * scale / units.y_scale
        )
    balanced = rules.shape.family == BALANCED or family.code in {POISSON, MULTINOMIAL}
    return f"{repr(family).removesuffix('()')}{', balanced score' if balanced else ''}", 1.0


def _published(methods: tuple[Method, ...], numbers: _Numbers, problem: Problem) -> Settings:
    """Settings of the published algorithm: one averaged chain."""
    family, budget, units = problem.family, problem.budget, problem.units
    if numbers.lanes not in {None, 1}:
        raise OptionError(
            f"lanes={numbers.lanes} goes with tuning='efficient'; the published algorithm is a single chain."
        )
    if problem.private == "response" and problem.scalar:
        raise OptionError("private='response' goes with tuning='efficient'; the published algorithm does not have it.")
    if problem.score_weights == "whitened":
        raise OptionError(
            "score_weights='whitened' goes with tuning='efficient'; the published algorithm has 'published' and 'unit'."
        )
    if units.unscaled.any() or units.y_unscaled:
        raise OptionError(
            "scaling='private' goes with tuning='efficient'; for the published algorithm declare bounds= or moments=."
        )
    if problem.personal:
        raise OptionError(
            "personal budgets (mu= as a column) go with tuning='efficient'; the published algorithm does not have them."
        )
    alone = problem.constant and problem.covariates == 1 and problem.blocks == 1
    mechanism = problem.mechanism_for(problem.blocks * problem.covariates, scalar=alone and problem.blocks == 1)
    low, high = problem.response_limits
    weights = SCORE_WEIGHTS[str(problem.score_weights or "published")]
    score, words = family.resolve(unit=units.y_scale, low=low, high=high)
    gamma, power, delay = (0.2, 0.501, 0.0) if problem.standardised else (0.5, 0.51, 0.0)
    gamma, power = gamma if numbers.step is None else numbers.step, power if numbers.alpha is None else numbers.alpha
    reach2 = weights.reach2 if math.isfinite(weights.reach2) else units.reach
    curvature_bound = score.curvature_bound * reach2
    wants_curvature = [m for m in methods if m.curvature or m.central]
    if wants_curvature and not math.isfinite(score.curvature_bound):
        raise InferenceError(
            f"{wants_curvature[0].name} needs curvature that one person's record tells, and {family!r} has none (it "
            "depends on a density); use inference='random_scaling', or tuning='efficient' with 'between_lanes'."
        )
    if wants_curvature and budget.private and not math.isfinite(curvature_bound):
        raise InferenceError(
            f"{wants_curvature[0].name} needs a bound on the curvature, which {weights.name!r} score weights give only "
            "with bounded covariates: declare finite bounds=, use score_weights='published', "
            "or inference='random_scaling'."
        )
    return Settings(
        tuning="published",
        score=score,
        score_words=words,
        weights=weights,
        mechanism=mechanism,
        methods=methods,
        steps=Steps(gamma, power, delay),
        batch=numbers.batch or 1,
        curvature_share=CURVATURE_SHARE if any(m.curvature for m in methods) else 0.0,
        curvature_bound=curvature_bound,
        weakest=float(_curvature_to_expect(score, family, weights, _narrowed(problem.probe))[0]),
        alone=alone,
        blocks=problem.blocks,
    )


def _curvature_to_expect(score: Score, family: Family, weights: ScoreWeights, rows: Array) -> Array:
    """Eigenvalues of E κ ω x xᵀ, ascending, for covariates like `rows` and a residual scale like the assumed one.

    κ is P(abs r ≤ c) at normal residuals, or π(1 − π) near 1/5.
    """
    kappa = 0.2
    if family.cornered:
        ratio = 0.5 if isinstance(family.c, str) else float(family.c)
        kappa = math.erf(max(ratio, 0.1) / math.sqrt(2.0))
    values: Array = np.linalg.eigvalsh(kappa * (rows * omega(weights, rows)[:, None]).T @ rows / rows.shape[0])
    return values


def _narrowed(probe: Array) -> Array:
    """Shrink the probe about its mean to what data look like whose bounds were declared at ±4 sd."""
    mean = probe.mean(axis=0)
    narrow: Array = mean + (probe - mean) * (math.sqrt(3.0) / 4.0)
    return narrow
