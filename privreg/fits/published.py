"""The published algorithm: its single chain, from options to what results hold; covariances and pivots by method.

Public inputs and reports only, but for the curator's one release of the central plug-in.
"""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.audit import reports
from privreg.base.arrays import Array
from privreg.collector.inference.methods import WIDE, Estimate, Method, Steps, of_chain
from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.collector.inference.resampling import FIRST, KAPPA, Anytime, Bootstrap, Sandwich, floored, sandwich
from privreg.errors import InferenceError, OptionError
from privreg.families.residuals import clipped_square
from privreg.families.scores import SCORE_WEIGHTS, omega
from privreg.fits.outcome import FitOutcome, outside_of, refuse_overflow
from privreg.fits.rounds import SMALLER
from privreg.fits.settings import FitOptions, Settings
from privreg.formula.spec import ModelSpec
from privreg.options.table import find
from privreg.privacy.mechanisms import Mechanism, released
from privreg.privacy.noise import NoiseStream, derived_key
from privreg.protocol.codes import DIAGONAL, FULL, NONE, PEOPLE
from privreg.published.chain import collector, kernels, plans
from privreg.published.chain import path as marks
from privreg.published.chain.collector import ChainSummary
from privreg.published.chain.path import BATCHES, Layout, growing_edges, path_sandwich, regression
from privreg.published.chain.plans import Plan, Published, turns
from privreg.published.chain.run import BURN_IN, AveragedSGD, Mark
from privreg.results.data import Equation, Later
from privreg.tables.diagnostics import note

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
    steps = plans.Steps(gamma, power, delay)
    how = Published(score, weights, mechanism, weights.reach, curvature_bound, steps, alone, kappa)
    _refuse_methods(methods, asked, spec, rows, how)
    batch, share = asked.batch_size or 1, CURVATURE_SHARE if any(m.curvature for m in methods) else 0.0
    edges: tuple[int, ...] = ()
    counted = rows is not None and (share == 0.0 or rows <= 1 << 32)  # within seconds; longer streams go by equal marks
    if counted and any(m.name in {"batch_means", "anytime"} for m in methods):
        assert rows is not None
        if share:  # who sends curvature instead of a score is public before the first record
            rows = int(kernels.score_senders(rows, turns(share)))
        edges = growing_edges(rows // batch, BATCHES, power)
    # blocks of n^β updates with β halfway between α and 1, as α < β < 1 is needed
    layout = Layout((1.0 - power) / 2.0, FEWEST, edges)
    # the weakest eigenvalue is of E κ ω x xᵀ, covariates like the probe shrunk as if bounds were declared at ±4 sd;
    # κ is P(abs r ≤ c) at normal residuals of the assumed scale, or π(1 − π) near 1/5
    probe, slope = units.probe_inside(spec.design.probe), 0.2
    mean = probe.mean(axis=0)
    x = mean + (probe - mean) * (math.sqrt(3.0) / 4.0)
    if family.scoring.cornered:
        ratio = 0.5 if isinstance(family.c, str) else float(family.c)
        slope = math.erf(max(ratio, 0.1) / math.sqrt(2.0))
    how = replace(
        how,
        batch=batch,
        curvature_share=share,
        weakest=float(np.linalg.eigvalsh(slope * (x * omega(weights, x)[:, None]).T @ x / len(x))[0]),
        blocks=spec.blocks,
        cut=layout if any(m.blocks for m in methods) else None,
    )
    return Settings("published", words, mechanism, methods, how)


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


# --- the chain, and what results hold -----------------------------------------------------------------------------

MIXING: Final = 10.0  # Σγλ_min under which a note warns that the path may not have forgotten its start


def numbers(settings: Settings) -> Published:
    """Numbers of the chain."""
    assert isinstance(settings.how, Published)
    return settings.how


def begin(spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None) -> AveragedSGD:
    """Begin the chain, from the user's public first guess in internal units, shape (b p,), or zero.

    `key` is that of the devices' noise; None without privacy.
    """
    how, methods, p = numbers(settings), settings.methods, len(spec.design.names)
    to_user, joint = np.asarray(np.kron(np.eye(how.blocks), spec.units.matrix)), bool(how.joint)
    mode = NONE
    if any(m.scaling for m in methods):
        # with no mixture but in the first row sums of single coefficients' paths and of the intercept's are enough
        beside = np.count_nonzero(to_user[1:]) - np.count_nonzero(np.diag(to_user)[1:])
        mode = DIAGONAL if how.blocks == 1 and len(to_user) > WIDE and not beside and not joint else FULL
    first = np.zeros(p * how.blocks) if start is None else start
    if joint:  # of which the residual scale, at first the internal unit, is none of the user's coefficients
        to_user, first = np.pad(to_user, ((0, 0), (0, 1))), np.append(first, 1.0)
    outer = 2 if any(m.path for m in methods) else int(any(m.outer for m in methods))
    plan = how.plan(p, scaling_mode=mode, outer=outer, central=any(m.central for m in methods))
    state = collector.init(first, plan, to_user[0])
    anytime = any(m.name == "anytime" for m in methods)
    run = AveragedSGD(plan, how.steps, state, to_user, key, how.cut, anytime=anytime, mechanism=settings.mechanism)
    if plan.central and key is not None:
        run.central_key = derived_key(key, "central")
    return run


def report(run: AveragedSGD, spec: ModelSpec, settings: Settings, order: NDArray[np.intp]) -> FitOutcome:
    """Outcome of the published algorithm's single chain.
    Raises InferenceError if there are too few people, or the steps were so large that the estimates overflowed.
    """
    how, chain, units = numbers(settings), collector.final(run.state, run.plan), spec.units
    p = len(run.to_user)
    refuse_overflow(chain.mean, chain.last)
    if chain.updates <= p:
        raise InferenceError(
            f"{chain.people} people in {chain.updates} updates can't determine {p} coefficients; "
            f"more than {p} updates are needed."
        )
    estimates = tuple(_of_chain(m, run, chain, settings) for m in settings.methods)
    if not (trail := run.trail) or trail[-1].updates < chain.updates:
        trail = [*trail, Mark(chain.updates, chain.people, chain.mean, run.variances(chain))]
    people = np.array([mark.people for mark in trail], dtype=np.int64)
    steps, weights, score, theta = how.steps, how.weights, how.score, chain.mean[:p]
    delay = f" + {steps.delay:g}" if steps.delay else ""
    spending = "no pilot; no curvature spending"
    if chain.curvature_people:
        spending = f"{chain.curvature_people:,} people sent curvature instead of a score; no extra budget"
    # a path too short to have forgotten its start, judged from public numbers only
    mixed = how.steps.total(chain.updates) * how.weakest
    windows = None
    if known := of_chain(estimates):
        # means of iterates between marks, by differences of sums. The first sixteenth of the path, as far as the next
        # mark, is left out: it comes from the start, where large steps take iterates beyond the thresholds of the
        # score. With it a test of change finds the start
        at = np.array([float(mark.updates) for mark in run.trail])
        sums = at[:, None] * np.reshape([mark.mean for mark in run.trail], (len(at), len(chain.mean)))
        if run.blocks is not None:
            at = marks.ends(run.blocks)
            sums = run.blocks.sums + at[:, None] * run.state.origin
        at, sums = np.append(at, chain.updates), np.concatenate([sums, [chain.updates * chain.mean]])
        kept = (np.diff(at, prepend=0.0) > 0.0) & (BURN_IN * at >= chain.updates)
        at, sums = at[kept], sums[kept]
        weight, ends = np.diff(at), at * run.people / chain.updates  # with those who sent curvature
        means, none = np.diff(sums, axis=0) / weight[:, None], np.zeros(len(weight), dtype=np.intp)
        each = np.reshape([outside_of(one[:p], order, units) for one in means], (-1, len(known.cov)))
        shared = np.zeros((1, 1, len(known.cov)))
        windows = Steps(ends[:-1], ends[1:], weight, each, none, known.cov * at[-1], shared)
    return FitOutcome(
        nobs=run.people,
        params=outside_of(theta, order, units),
        last=outside_of(chain.last[:p], order, units),
        estimates=estimates,
        senders=chain.people,
        updates=chain.updates,
        trail_n=people,
        trail_params=np.array([outside_of(mark.mean[:p], order, units) for mark in trail]),
        trail_senders=people,
        trail_variances=np.array([mark.variances for mark in trail]),
        family=settings.score_text + (f": {chain.mean[p] * units.y_scale:.4g}" if how.joint else ""),
        tuning=f"published: step {steps.gamma:.4g} (k{delay})^-{steps.alpha:g}, {how.batch} a batch, averaged",
        spending=spending,
        bound=f"{how.bound:.4g} (internal units), weights ω = {weights.formula}",
        notes=(note("few.steps", forgotten=mixed, wanted=MIXING),) if mixed < MIXING else (),
        mechanics=_mechanics(run, settings, personal=spec.personal),
        steps=Later(lambda: windows),
        equation=Equation(  # at the residual scale if that is estimated: no row map, no offsets
            shape=(score.shape.family, score.shape.a, score.shape.b),
            weighing=weights.name,
            rows=np.eye(p // how.blocks),
            order=np.arange(p // how.blocks),
            constant=False,
            c=np.array([score.c * (float(chain.mean[p]) if how.joint else 1.0)]),
            offsets=np.zeros((1, p)),
            bend=np.zeros(p),
            theta=theta,
        ),
    )


def curator_sds(mechanism: Mechanism, plan: Plan) -> tuple[float, float]:
    """Noise sds of the curator's release: of curvatures, and of the scores' outer products."""
    return mechanism.central_sd(plan.curvature_bound), mechanism.central_sd(plan.bound**2)


def _mechanics(run: AveragedSGD, settings: Settings, *, personal: bool) -> tuple[dict[str, Any], ...]:
    """Inputs for an audit of the reports: numbers only."""
    plan, theta, alone = run.plan, run.state.theta, numbers(settings).alone
    out = [reports.described("score", "chain", plan, theta, alone=alone)]
    if plan.curvature_share:
        out.append(reports.described("curvature", "curvature", plan, theta, alone=alone))
    if plan.central:
        sds = list(curator_sds(settings.mechanism, plan))
        out.append(reports.described("curator's release", "central", plan, theta, alone=alone, sds=sds))
    if personal:
        ratio = float(settings.mechanism.ratios(np.array([math.sqrt(SMALLER)]))[0])
        out += [{**reports.of_smaller_budget(m, SMALLER), "ratio": ratio} for m in out]
    return tuple(out)


# --- covariances and pivots ------------------------------------------------------------------------------


def _of_chain(method: Method, run: AveragedSGD, chain: ChainSummary, settings: Settings) -> Estimate:
    """Precision of the chain's mean by a method, user's units.
    Raises InferenceError if the method has too little to go on yet.
    """
    user = run.outside
    p, name = len(chain.mean), method.name
    if method.blocks:
        found, people = run.batches(chain, growing=name in {"batch_means", "anytime"}), chain.people
        cov = np.asarray(run.to_user @ found.cov @ run.to_user.T)
        if name == "anytime" and people < FIRST:
            raise InferenceError(
                f"anytime intervals begin at {FIRST:,} people whose reports enter the estimate, and {people:,} have; "
                "ask more people, or fit with inference='batch_means'."
            )
        if name in {"batch_means", "anytime"}:
            return Estimate(name, cov, StudentT(found.df) if name == "batch_means" else Anytime(people))
        return Estimate(name, cov, Bootstrap(found.moves @ run.to_user.T, name == "block_bootstrap_t"))
    if method.scaling:
        pivot = RandomScaling(1, chain.updates)
        if chain.scaling.ndim == 1 and chain.scaling.size:
            return Estimate(name, run.variances(chain), pivot)
        return Estimate(name, user(6.0 * chain.scaling / chain.updates), pivot)
    if name == "path_curvature":
        if chain.updates <= p + 1:  # the regression would fit them exactly
            raise InferenceError(
                f"path_curvature needs more than {p + 1} updates, and there were {chain.updates}; ask more people."
            )
        k0, early = run.early(chain.updates)
        gram = chain.outer * chain.updates - early
        steps = run.steps.total(chain.updates) - run.steps.total(k0)
        out = path_sandwich(*regression(gram), chain.updates, steps, KAPPA)
    elif name == "plug_in":
        if not chain.curvature_people:
            raise InferenceError("nobody has sent a curvature report yet; plug_in needs more people.")
        sd = settings.mechanism.sd
        sds = sd(run.plan.radius, p), sd(run.plan.curvature_radius, p * (p + 1) // 2)
        sds = sds[0] * math.sqrt(chain.spreads[0]), sds[1] * math.sqrt(chain.spreads[1])
        out = local_sandwich(chain._replace(outer=chain.outer[:p, :p]), *sds, run.plan.batch)
    else:  # randomise the raw sums of curvature and scores, once, as a trusted curator; then forget them
        summed = int(run.state.counts[PEOPLE])  # those of an unfinished batch are in the sums too
        rows, cols = np.triu_indices(p)
        noise = np.zeros((2, len(rows)))
        if run.central_key is not None:
            noise = NoiseStream(run.central_key, len(rows)).peek()[:2].copy()
        elif settings.mechanism.budget.private:
            raise InferenceError("the central plug-in was already released once; fit again for another release.")
        run.central_key = None
        means = np.zeros((2, p, p))
        raw, scales = np.array([run.raw_curvature, run.raw_outer]), curator_sds(settings.mechanism, run.plan)
        means[:, rows, cols] = released(raw, scales, noise) / summed
        run.raw_curvature[:], run.raw_outer[:] = 0.0, 0.0
        means += np.triu(means, 1).transpose(0, 2, 1)
        out = central_sandwich(means[0], means[1], chain.people, run.plan.channel.scale * run.plan.radius)
    return Estimate(name, user(out.cov), Normal(), out.notes)


def local_sandwich(path: ChainSummary, noise_sd: float, curvature_sd: float, batch: int) -> Sandwich:
    """Plug-in covariance from local reports only: XSJKH (arXiv 2505.08227), section 4.1, without raw sums.

    S̃ is the mean outer product of the reports, its eigenvalues at least the known noise variance; Â the mean curvature
    report, its eigenvalues at least κ₁ and at least two sd of the noise in it. Sds are of a coordinate of a report.
    """
    sd = curvature_sd / np.sqrt(path.curvature_people)
    return sandwich(path.curvature, path.outer, path.updates, max(KAPPA, 2 * sd), noise_sd**2 / batch)


def central_sandwich(curvature: Array, outer: Array, n: int, noise_sd: float) -> Sandwich:
    """Plug-in covariance from raw sums released once with noise, for a trusted curator: XSJKH, section 4.1.

    `curvature` and `outer`, shape (p, p), are randomised means already; `noise_sd`, that of the score reports, is added
    to the meat.
    """
    p = curvature.shape[0]
    vectors, values, _ = floored(outer, KAPPA)
    meat = (vectors * values) @ vectors.T + noise_sd**2 * np.eye(p)
    return sandwich(curvature, meat, n, KAPPA, KAPPA)
