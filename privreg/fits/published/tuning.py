"""Numbers of the single chain, from the user's options: score, weights, steps, batches. Public inputs only."""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.inference.methods import Method
from privreg.collector.inference.resampling import FIRST
from privreg.errors import InferenceError, OptionError
from privreg.families.family import Family
from privreg.families.residuals import clipped_square
from privreg.families.weights import SCORE_WEIGHTS, ScoreWeights, omega
from privreg.fits.settings import FitOptions, Settings
from privreg.formula.spec import ModelSpec
from privreg.options.table import find
from privreg.published.chain.path import BATCHES, Layout, growing_edges
from privreg.published.chain.plans import Published, Steps, turns

CURVATURE_SHARE: Final = 0.1
FEWEST: Final = 16  # Blocks of the path


def resolve(asked: FitOptions, methods: tuple[Method, ...], spec: ModelSpec, rows: int | None) -> Settings:
    """Choose the numbers of the published algorithm, one averaged chain, of options each in its range.
    Raises OptionError if an option belongs to fits by rounds; InferenceError if a method can't do what is asked.

    See XSJKH (arXiv 2505.08227), sections 5 and 6.
    """
    _refuse(asked, spec)
    family, units = spec.scored, spec.units
    alone = spec.alone and spec.blocks == 1 and not family.joint
    mechanism = spec.mechanism_for(spec.blocks * spec.covariates + family.joint, scalar=alone)
    low, high = spec.response_limits
    weights = SCORE_WEIGHTS[str(spec.score_weights or "published")]
    score, words = family.resolve(unit=units.y_scale, low=low, high=high)
    gamma, power, delay = (0.2, 0.501, 0.0) if "scale" in spec.design.schema.leaked else (0.5, 0.51, 0.0)
    gamma, power = gamma if asked.step is None else asked.step, power if asked.alpha is None else asked.alpha
    reach2 = weights.reach2 if math.isfinite(weights.reach2) else units.reach
    curvature_bound = score.curvature_bound * reach2
    kappa = clipped_square(score.c) if family.joint else 0.0
    how = Published(score, weights, mechanism, weights.reach, curvature_bound, Steps(gamma, power, delay), alone, kappa)
    _refuse_methods(methods, asked, spec, rows, how)
    batch, share = asked.batch_size or 1, CURVATURE_SHARE if any(m.curvature for m in methods) else 0.0
    edges: tuple[int, ...] = ()
    counted = rows is not None and (share == 0.0 or rows <= 1 << 32)  # within seconds; longer streams go by equal marks
    if counted and any(m.name in {"batch_means", "anytime"} for m in methods):
        assert rows is not None
        if share:  # who sends curvature instead of a score is public before the first record
            from privreg.published.chain.kernels import score_senders  # slow to import

            rows = int(score_senders(rows, turns(share)))
        edges = growing_edges(rows // batch, BATCHES, power)
    # blocks of n^β updates with β halfway between α and 1, as α < β < 1 is needed
    layout = Layout((1.0 - power) / 2.0, FEWEST, edges)
    return Settings(
        tuning="published",
        score_text=words,
        mechanism=mechanism,
        methods=methods,
        how=replace(
            how,
            batch=batch,
            curvature_share=share,
            weakest=_weakest(family, weights, spec.units.probe_inside(spec.design.probe)),
            blocks=spec.blocks,
            cut=layout if any(m.blocks for m in methods) else None,
        ),
    )


def _refuse(asked: FitOptions, spec: ModelSpec) -> None:
    """Refuse what fits by rounds alone have."""
    scaled = not (spec.units.unscaled.any() or spec.units.y_unscaled)
    for fits, what, why in (
        (asked.order is None, f"order={asked.order!r} goes", "goes by position"),
        (asked.rounds == find("local.fit", "rounds").default, f"rounds={asked.rounds} goes", "has none: leave it out"),
        (asked.measures is None, "measures= goes", "has no measures of fit"),
        (asked.covariates is None, "covariates= goes", "has no use for them: leave it out"),
        (asked.lanes in {None, 1}, f"lanes={asked.lanes} goes", "is a single chain"),
        (spec.private != "response" or not spec.scalar, "private='response' goes", "does not have it"),
        (not spec.family.joint or spec.score_weights in {None, "published"}, "score_weights= goes", _JOINT),
        (
            spec.score_weights not in {"whitened", "likelihood"},
            f"score_weights={spec.score_weights!r} goes",
            "has 'published' and 'unit'",
        ),
        (scaled, "scaling='private' goes", "needs bounds= or moments= declared"),
    ):
        if not fits:
            raise OptionError(f"{what} with tuning='efficient'; the published algorithm {why}.")


_JOINT: Final = "bounds the score of a joint scale by weights of at most 1, those of 'published': leave it out"


def _refuse_methods(
    methods: tuple[Method, ...], asked: FitOptions, spec: ModelSpec, rows: int | None, how: Published
) -> None:
    """Refuse methods that can't do what is asked."""
    family, budget, score = spec.scored, spec.budget, how.score
    if asked.alpha is not None and asked.alpha <= 0.5 and methods:
        raise InferenceError(
            f"alpha={asked.alpha:g} is the exponent of the steps, and intervals need it above 1/2 (inference=None "
            "gives estimates alone); the level of intervals is set in summary(alpha=) and conf_int(alpha=)."
        )
    if how.mechanism.pure and any(m.central for m in methods):
        raise InferenceError(
            "plug_in_central adds Gaussian noise at the curator's, which keeps no pure epsilon; use "
            "mechanism='gaussian' with mu=, rho= or epsilon= and delta=, or inference='random_scaling'."
        )
    if spec.personal and any(m.central for m in methods):
        raise InferenceError(
            "plug_in_central is one release with the same noise for all, so that its budget is everybody's, and they "
            f"are personal ({spec.people.spent}={spec.people.mu!r}); use inference='plug_in' or 'random_scaling'."
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
    if wants_curvature and budget.private and not math.isfinite(how.curvature_bound):
        raise InferenceError(
            f"{wants_curvature[0].name} needs a bound on the curvature, which {how.weights.name!r} score weights "
            "give only with bounded covariates: declare finite bounds=, use score_weights='published', or "
            "inference='random_scaling'."
        )


def _weakest(family: Family, weights: ScoreWeights, probe: Array) -> float:
    """Smallest eigenvalue of E κ ω x xᵀ, for covariates like `probe` shrunk as if its bounds were declared at ±4 sd.

    κ is P(abs r ≤ c) at normal residuals of the assumed scale, or π(1 − π) near 1/5.
    """
    mean, kappa = probe.mean(axis=0), 0.2
    rows = mean + (probe - mean) * (math.sqrt(3.0) / 4.0)
    if family.scoring.cornered:
        ratio = 0.5 if isinstance(family.c, str) else float(family.c)
        kappa = math.erf(max(ratio, 0.1) / math.sqrt(2.0))
    return float(np.linalg.eigvalsh(kappa * (rows * omega(weights, rows)[:, None]).T @ rows / len(rows))[0])
