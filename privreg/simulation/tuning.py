"""From the user's options to the numbers of one fit: score, weights, steps, batches. Public inputs only."""

from __future__ import annotations

import math
import warnings
from typing import Final, NamedTuple

import numpy as np

from privreg.arrays import Array
from privreg.collector.published.history import FULLEST
from privreg.collector.published.steps import Steps
from privreg.errors import InferenceError, OptionError, PrivregWarning
from privreg.families.constants import ScoreRules, score_rules
from privreg.families.family import Family
from privreg.families.measures import Gauge, count
from privreg.families.scores import Score
from privreg.families.weights import SCORE_WEIGHTS, ScoreWeights, omega
from privreg.formula.covariates import PublicRows
from privreg.formula.spec import ModelSpec
from privreg.formula.units import Units
from privreg.inference.blocks import Layout, growing_edges
from privreg.inference.methods import METHODS, Method, resolve_methods
from privreg.inference.resampling import FIRST
from privreg.options.table import check, find
from privreg.protocol.codes import BALANCED, EXPECTILE, MULTINOMIAL, POISSON
from privreg.protocol.rounds import GROUPS, LEAST_GROUPS, MOST_GROUPS
from privreg.simulation.published.path import BATCHES
from privreg.simulation.settings import Efficient, FitOptions, ScoreReports, Settings

CURVATURE_SHARE: Final = 0.1
LEAST_RATIO: Final = 0.1
MOST_RATIO: Final = 2.0
FEWEST_OF_CHAIN: Final = 16
"""Blocks of the single chain."""


def resolve_tuning(asked: FitOptions, spec: ModelSpec, rows: int | None = None) -> Settings:
    """Choose the numbers of a fit.

    Parameters
    ----------
    asked : FitOptions
    spec : ModelSpec
    rows : int or None
        Records expected, if known.

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
    told = {name: check("local.fit", name, getattr(asked, name)) for name in ("tuning", "threads", *_Numbers._fields)}
    check("local.formula", "score_weights", spec.score_weights)
    how = told["tuning"]
    if check("local.fit", "order", asked.order) is not None and how == "published":
        raise OptionError(
            f"order={asked.order!r} goes with tuning='efficient'; the published algorithm goes by position."
        )
    if told["rounds"] != find("local.fit", "rounds").default:
        _refuse_rounds(told["rounds"], how, rows)
    numbers = _Numbers(*(told[name] for name in _Numbers._fields))._replace(
        measures=_share(told["measures"], how, spec, rows)
    )
    methods = _methods(asked.inference, how)
    size = spec.blocks * spec.units.centre.shape[0]
    if size > FULLEST and any(m.full for m in methods):
        raise InferenceError(
            f"inference='random_scaling_full' keeps {size:,} × {size:,} numbers ({8e-6 * size**2:,.0f} MB), and as "
            f"many again for results; it is held with at most {FULLEST:,} coefficients. Use 'random_scaling', which "
            "keeps variances, or 'sandwich' or 'batch_means'."
        )
    if how == "published" and numbers.alpha is not None and numbers.alpha <= 0.5 and methods:
        raise InferenceError(
            f"alpha={numbers.alpha:g} is the exponent of the steps, and intervals need it above 1/2 (inference=None "
            "gives estimates alone); the level of intervals is set in summary(alpha=) and conf_int(alpha=)."
        )
    if how == "efficient":
        return _efficient(methods, numbers, spec, rows, asked.covariates)
    if asked.covariates is not None:
        raise OptionError(
            "covariates= goes with tuning='efficient'; the published algorithm has no use for them: leave it out."
        )
    return _published(methods, numbers, spec, rows)


class _Numbers(NamedTuple):
    batch_size: int | None
    lanes: int | None
    alpha: float | None
    step: float | None
    measures: float
    rounds: int


def _refuse_rounds(rounds: int, tuning: str, rows: int | None) -> None:
    """Refuse a number of rounds of a fit that has none, or as many as people need."""
    if tuning == "published":
        raise OptionError(
            f"rounds={rounds} goes with tuning='efficient'; the published algorithm has none: leave it out."
        )
    if rows is None:
        raise OptionError(
            f"rounds={rounds} needs to know how many people will come, and of a stream of unknown length every round "
            "holds a quarter of those before; give rows= to the model, or leave rounds= out."
        )


def _share(share: float | None, tuning: str, spec: ModelSpec, rows: int | None) -> float:
    """Share of the people whom the fit is measured by; 0 if it is not."""
    if share is None:
        return 0.0
    if tuning == "published":
        raise OptionError("measures= goes with tuning='efficient'; the published algorithm has no measures of fit.")
    if rows is None:
        raise OptionError(
            "measures= takes the last people of the stream, so it must be known how many come; give rows= to the model."
        )
    if not count(spec.scored, spec.classes):
        raise OptionError(f"measures= knows none for {spec.scored!r}; leave it out.")
    return share


def _methods(inference: object, tuning: str) -> tuple[Method, ...]:
    """Inference methods, the default being what suits the tuning."""
    if inference is None:
        return ()
    if isinstance(inference, str) and inference == "auto":
        return (METHODS["random_scaling" if tuning == "published" else "sandwich"],)
    methods = resolve_methods(inference)
    for m in methods:
        if m.tuning not in {"any", tuning}:
            fits = ", ".join(repr(k) for k, v in METHODS.items() if v.tuning in {"any", tuning})
            raise InferenceError(
                f"inference={m.name!r} needs tuning={m.tuning!r}; with tuning={tuning!r} there are {fits}."
            )
    return methods


def _efficient(
    methods: tuple[Method, ...], numbers: _Numbers, spec: ModelSpec, rows: int | None, covariates: PublicRows | None
) -> Settings:
    """Settings of a fit by rounds: unit scores in learned coordinates."""
    family, budget, units, weights = spec.scored, spec.budget, spec.units, spec.score_weights
    if weights not in {None, "unit", "whitened"}:
        raise OptionError(
            f"score_weights={weights!r} goes with tuning='published'; the efficient tuning has 'whitened' and 'unit'."
        )
    p = units.centre.shape[0]
    low, high = spec.response_limits
    rules = score_rules(family, p, budget.mu, low=low, high=high, label=spec.scalar)
    if family.cornered and rules.track and not LEAST_RATIO <= rules.ratio <= MOST_RATIO:
        name = repr(family).partition("(")[0]
        raise OptionError(
            f"c={rules.ratio:g} residual scales: the scale is learned from how many residuals lie within c, which "
            f"tells little outside {LEAST_RATIO:g} to {MOST_RATIO:g}; declare it, as in {name}(c={rules.ratio:g}, "
            "scale=...)."
        )
    scalar = spec.scalar
    mechanism = spec.mechanism_for(1 if scalar else spec.blocks * p, scalar=scalar)
    reports = ScoreReports(mechanism, spec.blocks, scalar, low, high)
    words, corner = _score_words(family, rules, units)
    told = count(family, spec.classes) + int(spec.unusable) if numbers.measures else 0
    start = (1.0, 1.0, 0.0)  # of residuals, responses and their centre, until they are learned
    gauge = Gauge(family.code, family.tau, spec.classes, *start, family.y_max, spec.unusable) if told else None
    return Settings(
        tuning="efficient",
        score=Score(rules.shape, 1.0, 1.0, math.inf),
        score_text=words,
        weights=SCORE_WEIGHTS["leverage" if scalar else "unit"],
        mechanism=mechanism,
        methods=methods,
        efficient=Efficient(
            *(rows, rules, reports, corner, weights != "unit", _groups(numbers.lanes), gauge, told, numbers.measures),
            rounds=numbers.rounds,
            covariates=covariates,
        ),
    )


def _groups(lanes: int | None) -> int:
    """Random groups of a main round."""
    if lanes is None:
        return GROUPS
    if not LEAST_GROUPS <= lanes <= MOST_GROUPS or lanes & (lanes - 1):
        raise OptionError(
            f"lanes={lanes} is the number of random groups, which must be a power of two from {LEAST_GROUPS} to "
            f"{MOST_GROUPS}; leave it out ({GROUPS})."
        )
    return lanes


def warn_of_steps(asked: FitOptions, stacklevel: int) -> None:
    """Say that a fit by rounds has no steps, if some were asked for."""
    given = [f"{name}=" for name in ("step", "alpha", "batch_size") if getattr(asked, name) is not None]
    if given and asked.tuning == "efficient":
        level = "; the level of intervals is conf_int(alpha=)'s or tidy(conf_level=)'s" if "alpha=" in given else ""
        warnings.warn(
            f"{', '.join(given)} has no meaning in a fit by rounds and is ignored; it belongs to tuning='published', "
            f"and the next version will refuse it here{level}.",
            PrivregWarning,
            stacklevel=stacklevel + 1,
        )


def _score_words(family: Family, rules: ScoreRules, units: Units) -> tuple[str, float]:
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


def _published(methods: tuple[Method, ...], numbers: _Numbers, spec: ModelSpec, rows: int | None) -> Settings:
    """Settings of the published algorithm: one averaged chain."""
    family, budget, units = spec.scored, spec.budget, spec.units
    if numbers.lanes not in {None, 1}:
        raise OptionError(
            f"lanes={numbers.lanes} goes with tuning='efficient'; the published algorithm is a single chain."
        )
    if spec.private == "response" and spec.scalar:
        raise OptionError("private='response' goes with tuning='efficient'; the published algorithm does not have it.")
    if spec.score_weights == "whitened":
        raise OptionError(
            "score_weights='whitened' goes with tuning='efficient'; the published algorithm has 'published' and 'unit'."
        )
    if units.unscaled.any() or units.y_unscaled:
        raise OptionError(
            "scaling='private' goes with tuning='efficient'; for the published algorithm declare bounds= or moments=."
        )
    if spec.personal:
        raise OptionError(
            "personal budgets (mu= as a column) go with tuning='efficient'; the published algorithm does not have them."
        )
    alone = spec.alone and spec.blocks == 1
    mechanism = spec.mechanism_for(spec.blocks * spec.covariates, scalar=alone and spec.blocks == 1)
    low, high = spec.response_limits
    weights = SCORE_WEIGHTS[str(spec.score_weights or "published")]
    score, words = family.resolve(unit=units.y_scale, low=low, high=high)
    gamma, power, delay = (0.2, 0.501, 0.0) if spec.standardised else (0.5, 0.51, 0.0)
    gamma, power = gamma if numbers.step is None else numbers.step, power if numbers.alpha is None else numbers.alpha
    reach2 = weights.reach2 if math.isfinite(weights.reach2) else units.reach
    curvature_bound = score.curvature_bound * reach2
    if mechanism.pure and any(m.central for m in methods):
        raise InferenceError(
            "plug_in_central adds Gaussian noise at the curator's, which keeps no pure epsilon; use "
            "mechanism='gaussian' with mu=, rho= or epsilon= and delta=, or inference='random_scaling'."
        )
    if spec.people.max_per_id > 1 and any(m.central for m in methods):
        raise InferenceError(
            "plug_in_central releases sums to which each of a person's rows adds, and id= with max_per_id above 1 "
            "allows several; use max_per_id=1, or inference='plug_in' or 'random_scaling'."
        )
    if rows is not None and rows < FIRST and any(m.name == "anytime" for m in methods):
        raise InferenceError(
            f"anytime intervals begin at {FIRST:,} people, and {rows:,} will come; use "
            "inference='random_scaling', or ask more people."
        )
    wants_curvature = [m for m in methods if m.curvature or m.central]
    if wants_curvature and not math.isfinite(score.curvature_bound):
        raise InferenceError(
            f"{wants_curvature[0].name} needs curvature that one person's record tells, and {family!r} has none; use "
            "inference='random_scaling', or tuning='efficient' with 'sandwich'."
        )
    if wants_curvature and budget.private and not math.isfinite(curvature_bound):
        raise InferenceError(
            f"{wants_curvature[0].name} needs a bound on the curvature, which {weights.name!r} score weights give only "
            "with bounded covariates: declare finite bounds=, use score_weights='published', "
            "or inference='random_scaling'."
        )
    batch, share = numbers.batch_size or 1, CURVATURE_SHARE if any(m.curvature for m in methods) else 0.0
    edges: tuple[int, ...] = ()
    if rows is not None and share == 0.0 and any(m.name in {"batch_means", "anytime"} for m in methods):
        edges = growing_edges(rows // batch, BATCHES, power)
    # blocks of n^β updates with β halfway between α and 1, as α < β < 1 is needed
    layout = Layout(1, (1.0 - power) / 2.0, FEWEST_OF_CHAIN, edges)
    return Settings(
        tuning="published",
        score=score,
        score_text=words,
        weights=weights,
        mechanism=mechanism,
        methods=methods,
        steps=Steps(gamma, power, delay),
        batch=batch,
        cut=layout if any(m.blocks for m in methods) else None,
        curvature_share=share,
        curvature_bound=curvature_bound,
        weakest=float(_curvature_to_expect(score, family, weights, _narrowed(spec.probe))[0]),
        alone=alone,
        blocks=spec.blocks,
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
