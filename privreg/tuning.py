"""From the user's wishes to the numbers of one fit: score, weights, steps, batches. Public inputs only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.errors import InferenceError, OptionError, choose, real, shown
from privreg.families import LOGISTIC, Family, Score
from privreg.inference import DOUBT, Method
from privreg.mechanisms import Gaussian
from privreg.steps import Steps
from privreg.weights import SCORE_WEIGHTS, ScoreWeights, omega

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.accounting import Budget
    from privreg.scaling import Units

    Array = NDArray[np.float64]

__all__ = ["TUNINGS", "Settings", "resolve_tuning"]

TUNINGS: Final = ("efficient", "published")
CURVATURE_SHARE: Final = 0.1
MOST_PER_BATCH: Final = 10**9
MIXING: Final = 10.0
"""Σγλ_min under which a note warns that the path may not have forgotten its start."""


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
    steps : Steps
    batch : int
        People per update.
    methods : tuple of Method
    curvature_share : float
        Share of people who send curvature instead of a score.
    curvature_bound : float
        Bound of a curvature report.
    weakest : float
        Smallest eigenvalue of the curvature for unrelated covariates whose bounds lie at ±4 sd.
    """

    tuning: str
    score: Score
    score_words: str
    weights: ScoreWeights
    mechanism: Gaussian
    steps: Steps
    batch: int
    methods: tuple[Method, ...]
    curvature_share: float
    curvature_bound: float
    weakest: float

    @property
    def bound(self) -> float:
        """Bound of the weighted score's ℓ2 norm, internal units."""
        return self.score.bound * self.weights.reach

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


def resolve_tuning(
    *,
    tuning: object,
    family: Family,
    budget: Budget,
    units: Units,
    probe: Array,
    moments_only: bool,
    standardised: bool,
    score_weights: object,
    methods: tuple[Method, ...],
    batch_size: object,
    alpha: object,
    step: object,
) -> Settings:
    """Choose the numbers of a fit.

    Parameters
    ----------
    tuning : "efficient" or "published"
    family : Family
    budget : Budget
    units : Units
        Internal units.
    probe : ndarray, shape (m, p)
        Rows over the public box, internal units.
    moments_only : bool
        Whether the response is scaled by its sd rather than by its range.
    standardised : bool
        Whether the scale was taken from the data, as the sources' applications do.
    score_weights : str or None
        None lets the tuning choose.
    methods : tuple of Method
    batch_size, alpha, step
        The user's wishes or None.

    Returns
    -------
    Settings

    Raises
    ------
    OptionError
        If an option is out of range.
    InferenceError
        If a method can't do what is asked under these settings.

    References
    ----------
    XSJKH (arXiv 2505.08227), sections 5 and 6, for the published settings.
    """
    how = choose("tuning", tuning, TUNINGS)
    published = how == "published"
    if score_weights is None:
        score_weights = "published" if published else "unit"
    weights = SCORE_WEIGHTS[choose("score_weights", score_weights, SCORE_WEIGHTS)]
    p = probe.shape[1]
    score, words = family.resolve(
        unit=units.y_scale,
        auto_scale=0.5 if moments_only else 0.25,
        p=p,
        mu=budget.mu,
        published=published,
    )
    if (
        isinstance(batch_size, bool)
        or not isinstance(batch_size, Integral)
        or not 1 <= int(batch_size) <= MOST_PER_BATCH
    ):
        raise OptionError(f"batch_size={shown(batch_size)} must be a whole number of people, 1 or more (at most 1e9).")
    batch = int(batch_size)
    eigenvalues = _curvature_to_expect(score, family, weights, probe)
    if published:
        gamma, power, delay = (0.2, 0.501, 0.0) if standardised else (0.5, 0.51, 0.0)
    else:
        # γλ̄ small enough that noisy iterates keep most residuals within the corner, large enough to forget the
        # start. Logistic curvature vanishes far out, where large steps would strand the path: an eighth there.
        relaxed = 0.05 if family.binary else 0.4
        gamma, power, delay = relaxed / float(np.mean(eigenvalues)), 0.51, 100.0
    if alpha is not None:
        power = _number("alpha", alpha, 0.0, 1.0)
    if step is not None:
        gamma = _number("step", step, 0.0, math.inf)
    if power <= 0.5 and methods:
        raise InferenceError(
            f"alpha={power:g} is the exponent of the steps, and intervals need it above 1/2 (inference=None gives "
            "estimates alone); the level of intervals is set in summary(alpha=) and conf_int(alpha=)."
        )
    mechanism = Gaussian(budget)
    reach2 = weights.reach2 if math.isfinite(weights.reach2) else units.reach
    curvature_bound = score.curvature_bound * reach2
    wants_curvature = [m for m in methods if m.curvature or m.central]
    if wants_curvature and budget.private and not math.isfinite(curvature_bound):
        raise InferenceError(
            f"{wants_curvature[0].name} needs a bound on the curvature, which {weights.name!r} score weights give only "
            "with bounded covariates: declare finite bounds=, use score_weights='published', "
            "or inference='random_scaling'."
        )
    share = CURVATURE_SHARE if any(m.curvature for m in methods) else 0.0
    return Settings(
        tuning=how,
        score=score,
        score_words=words,
        weights=weights,
        mechanism=mechanism,
        steps=Steps(gamma, power, delay),
        batch=batch,
        methods=methods,
        curvature_share=share,
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
