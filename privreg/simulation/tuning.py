"""From the user's options to the numbers of one fit: score, weights, steps, batches. Public inputs only."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector.diagonal import WIDE, between, is_wide
from privreg.collector.history import FULLEST
from privreg.collector.steps import Steps
from privreg.errors import InferenceError, OptionError
from privreg.families.constants import ChainRules, chain_rules
from privreg.families.family import Family
from privreg.families.measures import Gauge, count
from privreg.families.scores import Score
from privreg.families.weights import SCORE_WEIGHTS, ScoreWeights, omega
from privreg.formula.spec import ModelSpec
from privreg.inference.blocks import Layout, growing_edges
from privreg.inference.methods import METHODS, Method, resolve_methods
from privreg.inference.resampling import FIRST
from privreg.options.table import check
from privreg.protocol.codes import BALANCED, EXPECTILE, MULTINOMIAL, POISSON
from privreg.simulation.chain_intervals import BATCHES
from privreg.simulation.settings import Efficient, FitOptions, Settings
from privreg.simulation.staged.schedule import FEWEST_LANES, Reports, make_schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.formula.units import Units

    Array = NDArray[np.float64]

__all__ = ["resolve_tuning"]

CURVATURE_SHARE: Final = 0.1
LEAST_RATIO: Final = 0.1
MOST_RATIO: Final = 2.0
SPARE: Final = 0.25
FEWEST_BLOCKS: Final = 64
"""Blocks of the lanes' one-step corrections, which hardly depend on each other: n^SPARE, these at least."""

FEWEST_OF_CHAIN: Final = 16
"""Blocks of the single chain, whose iterates do."""


def resolve_tuning(
    asked: FitOptions, spec: ModelSpec, rows: int | None = None, partitions: int | None = None
) -> Settings:
    """Choose the numbers of a fit.

    Parameters
    ----------
    asked : FitOptions
    spec : ModelSpec
    rows : int or None
        Records expected, if known.
    partitions : int or None
        Parts of the stream that go through lanes of their own, if it is cut.

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
    told = {name: check("local.fit", name, getattr(asked, name)) for name in ("tuning", "threads", *_Numbers._fields)}
    check("local.formula", "score_weights", spec.score_weights)
    how = told["tuning"]
    if check("local.fit", "order", asked.order) is not None and how != "rounds":
        raise OptionError(f"order={asked.order!r} goes with tuning='rounds'; other fits go by position: leave it out.")
    numbers = _Numbers(*(told[name] for name in _Numbers._fields))._replace(
        measures=_share(told["measures"], how, spec, rows)
    )
    methods = _methods(asked.inference, how, numbers.lanes)
    size = spec.blocks * spec.units.centre.shape[0]
    if size > FULLEST and any(m.full for m in methods):
        raise InferenceError(
            f"inference='random_scaling_full' keeps {size:,} × {size:,} numbers ({8e-6 * size**2:,.0f} MB), and as "
            f"many again for results; it is held with at most {FULLEST:,} coefficients. Use 'random_scaling', which "
            "keeps variances, or 'between_lanes' or 'batch_means'."
        )
    if size > WIDE and spec.personal and any(m.full for m in methods):
        raise InferenceError(
            f"inference='random_scaling_full' with more than {WIDE} coefficients takes all lanes' paths together, "
            "which personal budgets (mu= as a column) make of unequal weight; use 'between_lanes' or 'batch_means'."
        )
    if numbers.alpha is not None and numbers.alpha <= 0.5 and methods:
        raise InferenceError(
            f"alpha={numbers.alpha:g} is the exponent of the steps, and intervals need it above 1/2 (inference=None "
            "gives estimates alone); the level of intervals is set in summary(alpha=) and conf_int(alpha=)."
        )
    if how == "rounds":
        return replace(_efficient(methods, numbers, spec, rows, partitions), tuning="rounds")
    if how == "efficient":
        return _efficient(methods, numbers, spec, rows, partitions)
    return _published(methods, numbers, spec, rows)


class _Numbers(NamedTuple):
    batch_size: int | None
    lanes: int | None
    alpha: float | None
    step: float | None
    measures: float


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


def _methods(inference: object, tuning: str, lanes: int | None) -> tuple[Method, ...]:
    """Inference methods, the default being what suits the tuning."""
    if inference is None:
        return ()
    few = lanes is not None and lanes < FEWEST_LANES
    if isinstance(inference, str) and inference == "auto":
        if tuning == "rounds":
            return (METHODS["sandwich"],)
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
    methods: tuple[Method, ...], numbers: _Numbers, spec: ModelSpec, rows: int | None, partitions: int | None
) -> Settings:
    """Settings of the staged fit: unit scores in learned coordinates, Newton steps, lanes."""
    family, budget, units, weights = spec.scored, spec.budget, spec.units, spec.score_weights
    if weights not in {None, "unit", "whitened"}:
        raise OptionError(
            f"score_weights={weights!r} goes with tuning='published'; the efficient tuning has 'whitened' and 'unit'."
        )
    p = units.centre.shape[0]
    low, high = spec.response_limits
    rules = chain_rules(family, p, budget.mu, low=low, high=high, label=spec.scalar, nonresponse=spec.nonresponse)
    if family.cornered and rules.track and not LEAST_RATIO <= rules.ratio <= MOST_RATIO:
        name = repr(family).partition("(")[0]
        raise OptionError(
            f"c={rules.ratio:g} residual scales: the scale is learned from how many residuals lie within c, which "
            f"tells little outside {LEAST_RATIO:g} to {MOST_RATIO:g}; declare it, as in {name}(c={rules.ratio:g}, "
            "scale=...)."
        )
    scalar, size = spec.scalar, 1 if spec.scalar else spec.blocks * p
    mechanism = spec.mechanism_for(size, scalar=scalar)
    reports = Reports(mechanism, SCORE_WEIGHTS["unit"].reach, spec.blocks, scalar, low, high)
    words, corner = _score_words(family, rules, units)
    noise = mechanism.sd(reports.radius(0.0), size) ** 2
    many = is_wide(p, label=scalar)
    if many and any(m.outer for m in methods):
        raise InferenceError(
            f"inference={next(m.name for m in methods if m.outer)!r} keeps {(2 * p + 1) ** 2:,} numbers a lane with "
            f"{p} coefficients, and is held with at most {WIDE}; use 'between_lanes', "
            "'batch_means' or 'random_scaling'."
        )
    numbers_each = (p + 1) * (p + 2) // 2
    schedule = make_schedule(
        d=spec.blocks * p,
        noise=noise,
        moment_noise=0.0 if many else mechanism.sd(mechanism.moment_radius(), numbers_each) ** 2,
        rows=rows,
        unscaled=int(units.unscaled.sum()) + int(units.y_unscaled or ((scalar or many) and family.of_residuals)),
        declared=spec.scale_declared,
        batch=numbers.batch_size,
        lanes=numbers.lanes,
        alpha=numbers.alpha,
        pace=numbers.step,
        between=any(m.lanes for m in methods) or not methods,
        moving=rules.moving,
        shaped=rules.shaped,
        curvature=rules.curvature,
        label=scalar,
        wide=between(spec.probe) if many else None,
        measures=numbers.measures,
        partitions=partitions,
    )
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
        cut=Layout(schedule.lanes, SPARE, FEWEST_BLOCKS) if any(m.blocks for m in methods) else None,
        efficient=Efficient(schedule, rules, reports, corner, weights != "unit", gauge, told, numbers.measures),
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
            "inference='random_scaling', or tuning='efficient' with 'between_lanes'."
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
