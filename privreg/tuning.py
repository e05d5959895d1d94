"""From the user's wishes to the numbers of one fit: score, weights, steps, batches. Public inputs only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import InferenceError, OptionError, choose, real, shown
from privreg.families import LOGISTIC, Family, Score
from privreg.inference import DOUBT, METHODS, Method, resolve_methods
from privreg.kernels import BALANCED
from privreg.mechanisms import Gaussian
from privreg.stages import FEWEST_LANES, ChainRules, Schedule, make_schedule
from privreg.steps import Steps
from privreg.weights import SCORE_WEIGHTS, ScoreWeights, omega

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.accounting import Budget
    from privreg.scaling import Units

    Array = NDArray[np.float64]

__all__ = ["TUNINGS", "WEIGHTS", "Efficient", "Settings", "Wishes", "resolve_tuning"]

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
    """

    tuning: Any = "efficient"
    inference: Any = "auto"
    lanes: Any = None
    batch_size: Any = None
    alpha: Any = None
    step: Any = None
    threads: Any = None


@dataclass(frozen=True)
class Efficient:
    """What the staged fit needs beyond `Settings`; public.

    Parameters
    ----------
    schedule : Schedule
    rules : ChainRules
    corner : float
        Huber's c where it is declared, internal units.
    whitened : bool
        Whether score weights are those of whitened covariates, or of scaled ones.
    """

    schedule: Schedule
    rules: ChainRules
    corner: float
    whitened: bool


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
    mechanism : Gaussian
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
    efficient : Efficient or None
        The staged fit; None for the single chain of the published algorithm.
    """

    tuning: str
    score: Score
    score_words: str
    weights: ScoreWeights
    mechanism: Gaussian
    methods: tuple[Method, ...]
    steps: Steps = NO_STEPS
    batch: int = 1
    curvature_share: float = 0.0
    curvature_bound: float = math.inf
    weakest: float = 0.0
    efficient: Efficient | None = None

    @property
    def bound(self) -> float:
        """Bound of the weighted score's ℓ2 norm, internal units; of the unit score in a staged fit."""
        return self.weights.reach if self.efficient else self.score.bound * self.weights.reach

    @property
    def noise_sd(self) -> float:
        """Noise sd per coordinate of a score report, internal units."""
        return self.mechanism.score_sd(self.bound)

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


def resolve_tuning(
    wishes: Wishes,
    *,
    family: Family,
    budget: Budget,
    units: Units,
    probe: Array,
    scale_declared: bool,
    standardised: bool,
    score_weights: object,
    rows: int | None,
) -> Settings:
    """Choose the numbers of a fit.

    Parameters
    ----------
    wishes : Wishes
    family : Family
    budget : Budget
    units : Units
        Internal units.
    probe : ndarray, shape (m, p)
        Rows over the public box, internal units.
    scale_declared : bool
        Whether mean and sd of every covariate are declared.
    standardised : bool
        Whether the scale was taken from the data, as the sources' applications do.
    score_weights : str or None
        None lets the tuning choose.
    rows : int or None
        People expected, if known.

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
    if score_weights is not None:
        choose("score_weights", score_weights, WEIGHTS)
    batch = _count("batch_size", wishes.batch_size, MOST_PER_BATCH, "people")
    lanes = _count("lanes", wishes.lanes, MOST_LANES, "chains")
    _count("threads", wishes.threads, MOST_THREADS, "threads")
    alpha = None if wishes.alpha is None else _number("alpha", wishes.alpha, 0.0, 1.0)
    step = None if wishes.step is None else _number("step", wishes.step, 0.0, math.inf)
    methods = _methods(wishes.inference, how, lanes)
    if alpha is not None and alpha <= 0.5 and methods:
        raise InferenceError(
            f"alpha={alpha:g} is the exponent of the steps, and intervals need it above 1/2 (inference=None gives "
            "estimates alone); the level of intervals is set in summary(alpha=) and conf_int(alpha=)."
        )
    if how == "efficient":
        return _efficient(
            methods, batch, lanes, alpha, step, family, budget, units, scale_declared, score_weights, rows
        )
    return _published(methods, batch, lanes, alpha, step, family, budget, units, probe, standardised, score_weights)


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


def _efficient(
    methods: tuple[Method, ...],
    batch: int | None,
    lanes: int | None,
    alpha: float | None,
    step: float | None,
    family: Family,
    budget: Budget,
    units: Units,
    scale_declared: bool,
    score_weights: object,
    rows: int | None,
) -> Settings:
    """Settings of the staged fit: unit scores in learned coordinates, Newton steps, lanes."""
    if score_weights not in {None, "unit", "whitened"}:
        raise OptionError(
            f"score_weights={score_weights!r} goes with tuning='published'; "
            "the efficient tuning has 'whitened' and 'unit'."
        )
    p = units.centre.shape[0]
    unscaled = int(units.unscaled.sum()) + int(units.y_unscaled)
    ratio = family.ratio(p, budget.mu)
    learned = not family.binary and isinstance(family.scale, str)
    words = family.name
    corner = 1.0
    if learned and not LEAST_RATIO <= ratio <= MOST_RATIO:
        raise OptionError(
            f"c={ratio:g} residual scales: the scale is learned from how many residuals lie within c, which tells "
            f"little outside {LEAST_RATIO:g} to {MOST_RATIO:g}; declare it, as in Huber(c={ratio:g}, scale=...)."
        )
    if learned:
        words = f"Huber, c = {ratio:.4g} × residual scale, learned from the reports"
    elif not family.binary:
        corner = ratio * float(family.scale) / units.y_scale
        words = f"Huber, c = {ratio:.4g} × residual scale {float(family.scale):.4g} (declared)"
    rules = ChainRules(BALANCED if family.binary else family.code, ratio, learned)
    schedule = make_schedule(
        d=p,
        mu=budget.mu,
        rows=rows,
        unscaled=unscaled,
        declared=scale_declared,
        batch=batch,
        lanes=lanes,
        alpha=alpha,
        pace=step,
        between=any(m.lanes for m in methods) or not methods,
        binary=family.binary,
    )
    return Settings(
        tuning="efficient",
        score=Score(rules.family, 1.0, 1.0, 1.0),
        score_words=f"{words}, balanced score" if family.binary else words,
        weights=SCORE_WEIGHTS["unit"],
        mechanism=Gaussian(budget),
        methods=methods,
        efficient=Efficient(schedule, rules, corner, score_weights != "unit"),
    )


def _published(
    methods: tuple[Method, ...],
    batch: int | None,
    lanes: int | None,
    alpha: float | None,
    step: float | None,
    family: Family,
    budget: Budget,
    units: Units,
    probe: Array,
    standardised: bool,
    score_weights: object,
) -> Settings:
    """Settings of the published algorithm: one averaged chain."""
    if lanes not in {None, 1}:
        raise OptionError(f"lanes={lanes} goes with tuning='efficient'; the published algorithm is a single chain.")
    if score_weights == "whitened":
        raise OptionError(
            "score_weights='whitened' goes with tuning='efficient'; the published algorithm has 'published' and 'unit'."
        )
    if units.unscaled.any() or units.y_unscaled:
        raise OptionError(
            "scaling='private' goes with tuning='efficient'; for the published algorithm declare bounds= or moments=."
        )
    weights = SCORE_WEIGHTS[str(score_weights or "published")]
    score, words = family.resolve(unit=units.y_scale)
    gamma, power, delay = (0.2, 0.501, 0.0) if standardised else (0.5, 0.51, 0.0)
    gamma, power = gamma if step is None else step, power if alpha is None else alpha
    reach2 = weights.reach2 if math.isfinite(weights.reach2) else units.reach
    curvature_bound = score.curvature_bound * reach2
    wants_curvature = [m for m in methods if m.curvature or m.central]
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
        mechanism=Gaussian(budget),
        methods=methods,
        steps=Steps(gamma, power, delay),
        batch=batch or 1,
        curvature_share=CURVATURE_SHARE if any(m.curvature for m in methods) else 0.0,
        curvature_bound=curvature_bound,
        weakest=float(_curvature_to_expect(score, family, weights, _narrowed(probe))[0]),
    )


def _curvature_to_expect(score: Score, family: Family, weights: ScoreWeights, rows: Array) -> Array:
    """Eigenvalues of E κ ω x xᵀ, ascending, for covariates like `rows` and a residual scale like the assumed one.

    κ is P(abs r ≤ c) at normal residuals, or π(1 − π) near 1/5.
    """
    kappa = 0.2
    if score.code != LOGISTIC:
        ratio = 0.5 if isinstance(family.c, str) else float(family.c)
        kappa = math.erf(max(ratio, 0.1) / math.sqrt(2.0))
    values: Array = np.linalg.eigvalsh(kappa * (rows * omega(weights, rows)[:, None]).T @ rows / rows.shape[0])
    return values


def _narrowed(probe: Array) -> Array:
    """Shrink the probe about its mean to what data look like whose bounds were declared at ±4 sd."""
    mean = probe.mean(axis=0)
    narrow: Array = mean + (probe - mean) * (math.sqrt(3.0) / 4.0)
    return narrow
