"""Coefficients and their covariance from all rounds of scores: Equations (12) to (17) and (22)."""

import math
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import brentq

from privreg.base.arrays import Array
from privreg.collector.aggregate import common, extra
from privreg.collector.aggregate.classes import against_first
from privreg.collector.aggregate.common import Rounds, differing
from privreg.collector.aggregate.curvature import Curvature, curvature, level, pooled, posterior, sampled, unequal
from privreg.collector.aggregate.lengths import MOVED, lines, missed, skewed
from privreg.collector.aggregate.plan import MOST_MU, Plan, Progress, State, Summed
from privreg.collector.aggregate.rounds import LEAP, WINDOWS
from privreg.collector.estimation.curvature import SPREAD, floored
from privreg.collector.levels import SURE
from privreg.protocol.sums import FALLS

STUDENT: Final = 1.21  # (z² + 1)/4 at 95%, of the expansion of Student's t by one over its degrees of freedom
UNEVEN: Final = 0.5  # Sd of squared scores' shape about that of slopes, relative to their mean, of a curator's sums
LOST: Final = 3.0
"""Sds of an entry that the curvature of any direction has at least; below four it is marked. With 2 or 4 coverage of
unmarked rows is within a point of that with 3, and marks differ by less than two points."""
LIKELY: Final = 2.0  # Sds by which a score must be short of that, for records not to be taken for such
PERFECT: Final = 0.5  # Of the score that perfect prediction would have: one is nearer to it than to 0
STEP: Final = 1e-4  # Of slopes by differences
FLAT: Final = 1e-6  # Of a slope, relative to that at the state, below which it is none
PASSES: Final = 6
"""Times that estimate, threshold and weights of rounds follow from each other: the last moves it by under 0.01 sds."""


class Estimated(NamedTuple):
    """Estimate of a fit, in whitened coordinates z = rows @ x."""

    rows: Array  # Shape (d, d)
    theta: Array  # Shape (b d,), of contrasts of classes where there are several predictors
    root: Array  # Of the covariance: cov = root @ root.T, so that no rounding makes a variance negative
    curvature: Array  # Mean slope times z z', per unit of the score's bound and c
    weights: Array  # Of the rounds that count; sum 1
    rounds: tuple[Summed, ...]  # Which these are, in their own coordinates
    wider: float  # How far the threshold moved since the last round; 1 where it is no longer alike
    lines: Array  # Unit vector of the step from the last round's state, and rows of levels; shape (m, b d)
    moves: Array  # That step along them, in thresholds; shape (m,)
    threshold: float
    bread: Array  # Inverse of the slope of scores, shape (b d, b d)
    spread: Array  # Variances of entries of the curvature
    scale: float  # Residual scale or extra parameter; 1 without one
    beside: extra.Extra | None  # An extra parameter
    classes: Array  # Contrasts, shape (b, b + 1); of one predictor shape (0, 0)
    each: Array  # Estimates by the sums of the main round, of groups of clusters, say; shape (k, b d)
    parts: Array  # Their weights; shape (k,)
    unknown: Array  # Covariance of theta that comes of what isn't known of the curvature
    finite: Array  # Sds by which it shows that none beyond `ends` are predicted perfectly; ∞ where none can be
    ends: Array  # Distances of columns from bounds, and levels' indicators, as linear forms; shape (len(finite), d)
    left: Array  # Scores that long rows may lack, of each number; shape (k, d)
    step: Array  # Last step to the estimate, of coefficients and a parameter together; 0 of others; shape (b d,)
    gap: Array  # Estimate by the last round less that by the one before at another state, shape (b d,)
    chance: Array  # Covariance of that by noise and sampling, shape (b d, b d)
    part: float  # Part of it that the step from the last state may be off by, too
    grown: Array  # A⁻¹ J without a parameter, slopes at the estimate over those where rounds asked; shape (b d, b d)
    squares: tuple[Array, float]  # Squared scores of a record, shape (b d, b d), and variance of their entries

    @property
    def back(self) -> Array:
        """Matrix from theta to coefficients of x, of classes against the first: Equation (18); shape (b d, b d)."""
        return np.asarray(np.kron(against_first(self.classes), self.rows.T))

    @property
    def cov(self) -> Array:
        """Covariance of theta, shape (d, d)."""
        return np.asarray(self.root @ self.root.T)

    @property
    def whole(self) -> tuple[Array, Array]:
        """Bread and covariance, of theta and the logarithm of an extra parameter."""
        return (self.bread, self.cov) if self.beside is None else self.beside.both(self.bread, self.cov)

    def blurred(self, loads: Array) -> Array:
        """Relative sds of the standard errors of `loads` @ theta, as slopes are uncertain: Equations (42) and (65).

        Where rounds asked: on a way along which slopes grow their errors grow, too. `loads` has the shape (q, b d), or
        one more with an extra parameter; what comes back (q,).
        """
        asked = self._replace(bread=self.grown @ self.bread, root=self.grown @ self.root)
        d, (bread, cov) = len(self.theta), (loads @ one[: loads.shape[1]] for one in asked.whole)
        both = np.einsum("qk,ql->qkl", bread[:, :d], cov[:, :d])
        moved = np.einsum("qkl,kl->q", np.square(both + both.transpose(0, 2, 1)), self.spread)
        alone = np.einsum("qk,k->q", np.square(bread[:, :d] * cov[:, :d]), np.diag(self.spread))
        more = 0.0 if self.beside is None else self.beside.unsure(bread, cov)
        cov = cov[:, : loads.shape[1]]
        with np.errstate(divide="ignore", invalid="ignore"):  # of none that varies
            return np.asarray(np.sqrt(0.5 * moved - alone + more) / np.einsum("qk,qk->q", cov, loads))

    def displaced(self, loads: Array, left: Array) -> Array:
        """Bias of `loads` @ theta, in standard errors, by parts of steps that are `left`, in thresholds: Equation (43).

        Or as rounds differ, where it is more than by chance: Equation (66). `loads` has the shape (q, b d), `left`
        (m,), what comes back (q,).
        """
        if self.wider > 1.0:
            return np.full(len(loads), math.inf)
        lines, cov = self.lines[left > 0.0], loads @ self.cov
        along = np.abs(cov @ lines.T) / np.einsum("mk,kl,ml->m", lines, self.cov, lines) * left[left > 0.0]
        bias = np.maximum(self.threshold * along.max(axis=1, initial=0.0), np.abs(loads @ self.step))
        gap, sd = np.abs(loads @ self.gap), np.sqrt(np.einsum("qk,kl,ql->q", loads, self.chance, loads))
        bias = np.maximum(bias, np.where(gap > SURE * sd, self.part * gap, 0.0))
        return np.asarray(bias / np.sqrt(np.einsum("qk,qk->q", cov, loads)))

    def lacking(self, loads: Array) -> Array:
        """Bias of `loads` @ theta, in standard errors, if long rows' scores of a number are one sd: Equation (48).

        Its shape is (q, numbers).
        """
        by = (loads @ self.bread).reshape(len(loads), -1, self.left.shape[1]) @ self.left.T
        most = np.abs(by).max(axis=1, initial=0.0)
        return np.asarray(most / np.sqrt(np.einsum("qk,kl,ql->q", loads, self.cov, loads))[:, None])

    def scattered(self, loads: Array) -> Array:
        """Sds, by noise, by which squared scores along `loads` @ theta are more than the slope there: Equation (67)."""
        by, (squares, variance) = loads @ self.bread, self.squares
        slope = np.einsum("qk,qk->q", by, loads)
        more = np.einsum("qk,kl,ql->q", by, squares, by) / slope
        sd = np.sqrt(variance + more**2 * float(self.spread.mean())) * np.square(by).sum(axis=1) / slope
        return np.asarray((more - 1.0) / sd)

    def pulled(self, loads: Array, pull: Array | None) -> Array:
        """Score of long rows that moves `loads` @ theta, over that where they point everywhere alike: Equation (44)."""
        if pull is None:
            return np.ones(len(loads))
        by = (loads @ self.bread).reshape(len(loads), -1, len(pull))
        squares = np.einsum("qbk,kl,qbl->q", by, pull, by) / np.square(by).sum(axis=(1, 2))
        return np.asarray(np.sqrt(len(pull) * squares))


class _Root(NamedTuple):
    """Root of the weighted mean score."""

    theta: Array
    weights: Array
    rounds: Rounds  # At the estimate's threshold
    scale: float
    bent: Array  # Variances of scores because they bend, shape (rounds,)
    bend: common.Bend
    step: Array  # Last step there, of coefficients and a parameter together
    model: extra.Model | None
    lacking: Array  # Scores that rounds lack as other rows count whole and as they bend, b_k of (14); (2, rounds)
    left: Array  # And any score if those of long rows are one sd, along each number: Equation (48); shape (k, d)


def estimate(plan: Plan, progress: Progress) -> Estimated | None:
    """Combine all rounds of scores, of the same rows by Equation (32); None before there is one."""
    if not progress.seen:
        return None
    # rounds whose thresholds differ from the last one's by little: others estimate something else
    last = progress.state if progress.state.gauge is None else progress.seen[-1].state  # else that of the estimate
    c = progress.seen[-1].state.threshold(plan.rules)
    summed = tuple(s for s in progress.seen if abs(math.log(s.state.threshold(plan.rules) / c)) < WINDOWS[1])
    windows = np.array([s.state.window for s in summed])
    rounds = Rounds(plan, progress, last, summed, windows == windows.min(), c, []).at(c)  # (12)
    # curvature A, between pooled slopes and second moments of covariates: (9)
    people = sampled(plan, rounds.summed)
    curved = curvature(plan, progress, rounds.turned, people, differing(rounds))
    curved = curved._replace(mean=floored(curved.mean, LOST * math.sqrt(float(curved.variances.mean()))))
    model = extra.modelled(rounds, curved) if plan.rules.scoring.extra and plan.mu < MOST_MU else None  # (61)
    rounds = rounds if model is None else model.rounds
    squares, height, unsure = _squares(rounds, curved.level)  # (30), (37)
    # variance v/m_k + σ_k² of a number of each round's score, the diagonal of (14)
    variances = height * rounds.c**2 / np.array(people) + [float(np.trace(t.noise)) / plan.size for t in rounds.turned]
    if plan.clusters and rounds.main.any():  # rounds before hold people of all clusters: they give start and slope
        variances = np.where(rounds.main, variances, np.inf)
    x = np.linalg.inv(rounds.last.rows)
    second = x @ curved.mean[: plan.d, : plan.d] @ x.T  # of columns, weighted by curvature
    root = _solve(rounds, curved, variances, second, rounds.c * math.sqrt(height), model)  # (13), (14), (22), (39)
    more, slope = root.bend.added(root.theta, root.weights)
    grown = np.asarray(np.linalg.solve(curved.mean, slope))
    scale, vague, beside, meat = root.scale, 0.0, None, np.zeros_like(squares)
    if plan.rules.cornered or plan.rules.scoring.extra:
        learned = _Learned(scale, 1.0, 0.0, np.zeros(len(x))) if model is None else _learned(model, root.theta)  # (61)
        found, tied, meat = _beside(root, slope, learned)  # (16), (60)
        scale, vague, slope = learned.scale, learned.vague, slope + tied
        beside = found if plan.rules.scoring.extra else None
    bread = np.asarray(np.linalg.inv(slope))
    covariance, unknown = _covariance(root, curved, bread, squares, meat, vague, beside)  # (15), (17), (31), (48)
    lines, moves, wider = _moves(root, second, covariance)  # (38), (43)
    at, main = root.rounds.turned, rounds.main
    each = np.array([bread @ (curved.mean @ t.theta - t.score - m) for t, m in zip(at, more, strict=True)])
    gap, chance, part = _gap(root, each, squares, curved, bread)
    step = root.step + bread @ _late(rounds, curved.mean, root.theta)
    if model is not None and plan.rules.cornered and not rounds.again:  # a way that is known to a quarter: (61), (64)
        way = root.weights @ extra.bent(model, root.theta, root.scale)[0]
        step = step + SPREAD * np.asarray(bread @ way)
    asked = [t for t in at if t.state.role == "main" and (t.theta == at[-1].theta).all()]
    finite, ends = _finite(plan, rounds.last, asked, curved.mean, squares)  # (41)
    return Estimated(
        rows=rounds.last.rows,
        theta=root.theta,
        root=covariance,
        curvature=curved.mean,
        weights=root.weights,
        rounds=rounds.summed,
        wider=wider,
        lines=lines,
        moves=moves,
        threshold=rounds.c * plan.rules.bend,
        bread=bread,
        spread=curved.variances,
        scale=scale,
        beside=beside,
        classes=rounds.last.classes,
        each=each[main],
        parts=root.weights[main],
        unknown=bread @ unknown @ bread.T,
        finite=finite,
        ends=ends,
        left=root.left,
        step=step,
        gap=gap,
        chance=chance,
        part=part,
        grown=grown,
        squares=(squares, unsure),
    )


def _gap(root: _Root, each: Array, squares: Array, curved: Curvature, bread: Array) -> tuple[Array, Array, float]:
    """Difference of the last round's estimate to that of another state, its covariance, and Equation (66)'s ρ.

    `each` has the rounds' estimates, shape (rounds, b d).
    """
    rounds, last = root.rounds, root.rounds.turned[-1]
    before = [k for k, t in enumerate(rounds.turned) if (t.theta != last.theta).any()]
    if not before:
        return np.zeros(len(bread)), np.zeros(bread.shape), 0.0
    k = before[-1]
    other, way, half = rounds.turned[k], last.theta - rounds.turned[k].theta, 0.5 * curved.variances
    sampling = 0.0 if rounds.once else 1.0 / other.people + 1.0 / last.people
    more = float(root.bent[k] + root.bent[-1] + np.square(root.lacking[:, k] - root.lacking[:, -1]).sum())
    spread = squares * sampling + other.noise + last.noise + more * np.eye(len(way))
    spread = spread + half * np.outer(way, way) + np.diag(half @ way**2)
    part = abs(float((root.theta - last.theta) @ way)) / float(way @ way)
    return each[-1] - each[k], bread @ spread @ bread.T, part


def _squares(rounds: Rounds, slope: float) -> tuple[Array, float, float]:
    """Squared scores V of a record at the common threshold, shape (b d, b d), their level v over its square, variance.

    Their shape is drawn to that of slopes, (30), of the same rows with variances' own error added: Equation (37). Where
    the dispersion of counts is learned their level is about the model's own, by the mean count that the `slope` says.
    """
    plan, again, d = rounds.plan, rounds.again, rounds.plan.size
    scoring, model, least = plan.rules.scoring, plan.square, math.inf
    if scoring.counts and scoring.extra:
        mean = min(slope / rounds.progress.filled, 1.0) * plan.rules.shape.a
        model = least = scoring.weighed(plan.rules.shape, mean, rounds.last.scale)[1]
    noises, people = [t.sds[2] * t.wider for t in rounds.turned], sampled(plan, rounds.summed)
    # long rows that are weighted down have large scores
    far = np.hypot(differing(rounds), unequal(plan, rounds.summed))
    square, noise, _ = pooled([t.square for t in rounds.turned], noises, people, plan.square**2, far)
    height = level(square[:d, :d], noise, model, plan.unsure, least)
    # largest relative difference of the squared score along one direction from the mean of all: Equation (30)
    alike = (plan.alone - 1.0) * (plan.d - 1.0) / (plan.alone + plan.d - 1.0)
    prior = np.full((plan.d, plan.d), (UNEVEN if again else SPREAD) ** 2 + alike**2)
    about = rounds.progress.known.mean if again else np.eye(plan.d)
    known = rounds.progress.known._replace(mean=about, variances=prior)
    squares, variances = posterior(square[:d, :d], noise, known.whole, height)
    if again:  # variances that are uncertain make t heavier in its tails
        squares = squares + STUDENT * float(variances.mean()) / height * np.eye(d)
    return squares * rounds.c**2, height, float(variances.mean()) * rounds.c**4


def _solve(
    rounds: Rounds, curved: Curvature, variances: Array, second: Array, sd: float, model: extra.Model | None
) -> _Root:
    """Root of Σ w_k {g_k + A(θ − θ_k) + r_k(θ)}, Equations (13), (22) and (39), with weights w of (14).

    Scores with a threshold are at that of the estimate's scale, (12), so that both follow from each other. What scores
    may lack if those of long rows are one `sd` is no more than lengths that were looked at leave, and there is none
    where no row is long, or without noise: Equation (48).
    """
    plan, rules, places, last = rounds.plan, rounds.plan.rules, rounds.places, rounds.last
    lacking, left, progress = np.zeros(len(rounds.summed)), np.zeros((0, plan.d)), rounds.progress

    def missing(moments: Array, state: State) -> Array:
        return np.asarray(missed(plan, moments, state.rows, np.array([state.reach(plan) ** 2]))[0])

    if plan.like is None and not plan.extremes and plan.mu < MOST_MU:
        by, x = np.array([missing(second, s.state) for s in rounds.summed]), np.linalg.inv(last.rows)
        most = np.maximum(by[-1], missing(x @ progress.known.mean @ x.T, last))
        most = np.minimum(most, progress.lost[2] if progress.lost else math.inf)
        ways = lines(plan, second, last.rows)[0]
        sizes = np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-300)
        lacking, left = sd * (by - by[-1]).max(axis=1), ways / sizes * sd * most[:-1, None]
    theta, bend, known = last.theta, common.bend(rounds, curved), float(curved.variances.mean())
    scale = _scale(rounds, theta) if rules.scaled else 1.0
    lacks = np.vstack([lacking, bend.left(theta, rounds.c)])
    weights = _weights(variances + bend.variances(theta, rounds.c), places - theta, known, lacks)
    tied, step = np.zeros_like(curved.mean), np.zeros(len(theta))
    for _ in range(PASSES):
        if rules.cornered and model is not None:  # a parameter that moves with the estimate: both in one step
            scale, *_, leaning = _learned(model, theta)
            by_scale = rules.ratio * scale * sum(w * t.beyond for w, t in zip(weights, rounds.turned, strict=True))
            if not rounds.again:  # rows that answer again are asked near the estimate
                bend = bend._replace(added=extra.added(model, curved.mean, scale))
                by_scale = by_scale + weights @ extra.bent(model, theta, scale)[2]
            tied = extra.tied(bend.added(theta, weights)[1], by_scale, leaning, extra.WALKING)
        elif rules.cornered:
            scale = _scale(rounds, theta)
        rounds = rounds.at(rules.ratio * scale) if rules.cornered else rounds
        by_slope = [curved.mean @ t.theta - t.score for t in rounds.turned]
        more, slope = bend.added(theta, weights)
        steps = sum(w * one for w, one in zip(weights, by_slope, strict=True))
        found = np.linalg.solve(slope + tied, steps - weights @ more + tied @ theta)
        far = float(np.linalg.norm(found - theta)) / (extra.STRIDE * rounds.summed[-1].state.threshold(rules))
        step = found - theta
        theta = theta + (found - theta) / far if tied.any() and far > 1.0 else found
        bent = bend.variances(theta, rounds.c)
        lacks = np.vstack([lacking, bend.left(theta, rounds.c)])
        weights = _weights(variances + bent, places - theta, known, lacks)
    return _Root(theta, weights, rounds, scale, bent, bend, step, model, lacks, left)


def _beside(root: _Root, slope: Array, learned: "_Learned") -> tuple[extra.Extra, Array, Array]:
    """A scale or an extra parameter at the estimate: Equations (16), (60) and (65).

    It has slopes e = c Σ w_k b_k of the score by its logarithm and λ of that by the coefficients. Beside it are the
    slope of the score by the coefficients with which it moves, shape (d, d), and the part C of the meat, shape (d, d).
    """
    rounds, weights, model, d = root.rounds, root.weights, root.model, len(root.theta)
    score, log, tied, cornered = np.zeros(d), learned.leaning, np.zeros_like(slope), rounds.plan.rules.cornered
    each = zip(weights, rounds.turned, rounds.narrow, strict=True)
    said = [(w, t) for w, t, narrow in each if narrow]  # rounds that say the scale
    shares = _crowd(rounds)
    if cornered:
        score = rounds.c * sum(w * t.beyond for w, t in zip(weights, rounds.turned, strict=True))
    if cornered and model is None:
        log = np.asarray(sum(share * t.lean for share, (_, t) in zip(shares, said, strict=True)))
        tied = np.outer(score, log)
    elif cornered and model is not None:  # slopes are those at the estimate
        score = score if rounds.again else score + weights @ extra.bent(model, root.theta, root.scale)[2]
        tied = extra.tied(slope, score, log, extra.KEPT)
    # variance of the logarithm by its number, and covariance with the score
    variance, both, noise = 0.0, np.zeros(d), (0.0, 0.0, 0.0)
    for share, (weight, t) in zip(shares, said, strict=True):
        # rows that answer again are sampled once: their score has weight 1, and the scale that of all rounds
        part, far = share / t.steep, root.theta - t.theta
        variance += part**2 * t.sds[4] ** 2 + (share * t.lean_sd) ** 2 * float(far @ far)
        variance += (part / t.steep if rounds.once else part**2) * max(float(t.square[d, d]), 0.0) / t.people
        both += rounds.c * (1.0 if rounds.once else weight) * part / t.people * t.square[:d, d]
    # the score rises with θ, and a larger scale with c: both move θ by minus the bread
    beside = learned.wide * np.outer(score, both)
    meat = learned.wide**2 * variance * np.outer(score, score) + beside + beside.T
    variance = learned.wide**2 * variance + learned.vague
    if model is not None:
        by_round = [w**2 * t.sds[3] ** 2 * t.wider for w, t in zip(weights, rounds.turned, strict=True) if score.any()]
        leans = float(np.square(shares) @ [s.lean_sd**2 for s in rounds.said])
        noise = rounds.c**2 * float(sum(by_round)), leans, float(np.square(shares) @ model.unsure)
    return extra.Extra(score, log, learned.wide * both + variance * score, variance, noise), tied, meat


def _covariance(
    root: _Root, curved: Curvature, bread: Array, squares: Array, more: Array, vague: float, beside: extra.Extra | None
) -> tuple[Array, Array]:
    """Root of the sandwich J⁻¹ (V Σ w²/m + Σ w² σ² + C + U) J⁻ᵀ, C being `more`: (15); of the same rows (32) and (37).

    And U, what isn't known: of curvature (17), bends, long rows (48), clipped steps (31), and slopes by a parameter.
    Of silos some of which have dropped out of rounds the sampling is that of Equation (50).
    """
    rounds, rules, theta, weights = root.rounds, root.rounds.plan.rules, root.theta, root.weights
    far = np.linalg.solve(curved.mean, sum(w * t.score for w, t in zip(weights, rounds.turned, strict=True)))
    half = 0.5 * curved.variances
    unknown = floored(half * np.outer(far, far) + np.diag(half @ far**2), 0.0)
    bent = float(np.square(root.lacking @ weights).sum()) + (0.0 if rounds.again else float(weights**2 @ root.bent))
    long = MOVED**2 * np.kron(np.eye(rules.blocks), root.left.T @ root.left)
    unknown = unknown + bent * np.eye(len(theta)) + long
    if rules.scoring.cornered:
        moves = np.array([(theta - t.theta) / rounds.c for t in rounds.turned])
        points, one = rounds.progress.known.whole.points, np.linalg.inv(rounds.last.rows)[0]
        off = rounds.c * curved.mean @ common.clipped(rules, moves, weights, curved.mean, points, one)
        unknown = unknown + off @ off.T
    if beside is not None:
        unknown = unknown + vague * np.outer(beside.by, beside.by)
    silos = rounds.plan.noise
    if not rounds.once:
        times = sum(w**2 / t.people for w, t in zip(weights, rounds.turned, strict=True))
    elif not silos.silos:
        times = 1.0 / rounds.plan.rows
    else:
        each = [silos._replace(came=s.counts) for s in rounds.summed]
        parts = sum(w * one.weights / sum(one.counts) for w, one in zip(weights, each, strict=True))
        alike = len({one.counts for one in each}) == 1
        times = 1.0 / each[0].precise if alike else float(np.square(parts) @ silos.silos)
    noised = sum(w**2 * t.noise for w, t in zip(weights, rounds.turned, strict=True))
    # estimated entries may leave no covariance; the noise's is known
    meat = floored(squares * times + more, 0.0) + noised
    if rounds.again:  # as slopes are uncertain, so are variances
        cov = bread @ (meat + unknown) @ bread.T
        wider = cov + float(np.trace(cov)) * np.eye(len(cov))
        meat = meat + 2.0 * STUDENT * float(curved.variances.mean()) * wider
    if beside is not None:  # (65)
        meat = meat + 2.0 * STUDENT * beside.widened(bread, bread @ (meat + unknown) @ bread.T)
    values, vectors = np.linalg.eigh(meat + unknown)
    return np.asarray(bread @ (vectors * np.sqrt(np.maximum(values, 0.0)))), unknown


def _moves(root: _Root, second: Array, covariance: Array) -> tuple[Array, Array, float]:
    """Lines of the step from the last round's state, its own, levels' rows and skewed numbers; its size along them.

    In thresholds, or, of scores that bend, twice what such a step leaves in standard errors, if that is more: Equation
    (38). And the move of the threshold, over the largest at which rounds are combined.
    """
    rounds, plan, rules, asked = root.rounds, root.rounds.plan, root.rounds.plan.rules, root.rounds.summed[-1].state
    c, last, points = asked.threshold(rules), rounds.last, rounds.progress.known.whole.points
    if rules.link == "log" and not rounds.again and 0 < len(plan.cells) <= 2:  # levels' slopes are known on the way
        points = points[:0]
    most = 0.5 * asked.window if rounds.again else WINDOWS[1]
    wider = abs(math.log(root.scale / asked.scale)) / most if rules.follows else 0.0
    move = (root.theta - (rounds.turned[-1].theta if rounds.again else last.theta)) / c
    lines = np.vstack([move / max(float(np.linalg.norm(move)), 1e-300), points])
    if not rules.scoring.curved or rounds.again:
        return lines, np.abs(lines @ move) / rules.bend, wider
    lines = np.vstack([lines, np.kron(np.eye(rules.blocks), skewed(plan, second, last.rows, last.reach(plan)))])
    moves = np.abs(lines @ move) / rules.bend
    wide = np.maximum(np.linalg.norm(lines, axis=1), 1.0) * math.sqrt(float(np.trace(covariance @ covariance.T)))
    judged = (np.arange(len(lines)) > len(points)) | (not rounds.progress.near)  # skewed rows by main rounds
    return lines, np.maximum(moves, judged * moves**2 * c * rules.bend / wide), wider


def _late(rounds: Rounds, curvature: Array, theta: Array) -> Array:
    """Scores that intervals' slopes may leave, as people are followed for another time; shape (d,): Equation (68).

    Those before which the usual person's cumulative hazard is where weights fall already.
    """
    plan, last, levels = rounds.plan, rounds.last, list(rounds.plan.levels)
    if not levels or plan.persons is None or rounds.again or last.most < FALLS:
        return np.zeros(len(theta))
    wide, back = (plan.highs - plan.lows)[levels], np.linalg.inv(last.rows)
    at = np.searchsorted(np.flatnonzero(plan.dummies if plan.indicators is None else plan.indicators), levels)
    points = rounds.progress.known.whole.points[at]
    each = np.vstack([points[0] - last.rows[:, levels[0]] * wide[0], points])
    upto = np.cumsum(plan.persons.widths * np.exp(each @ last.theta))
    part = 0.5 * np.minimum(0.5 * (upto[1:] + upto[:-1]), last.most) * (upto[:-1] > last.most - FALLS)
    left = 0.5 * part * np.square(points @ (theta - last.theta)) / wide
    return np.asarray(curvature @ (back[levels] - np.outer(plan.lows[levels], back[0])).T @ left)


def _finite(plan: Plan, last: State, rounds: list[Summed], curvature: Array, squares: Array) -> tuple[Array, Array]:
    """Sds by which scores show that no records, by distance from a bound or by level, are predicted perfectly.

    And these forms, of the distances of columns from their bounds and of combinations of levels, the first of each too.
    Of records that all answered 1, at a state that predicts 1 with probability π, the mean score π − y is -1/π times
    the slope π(1 - π), of those that all answered 0 the slope over 1 − π; of counts that are all 0 it is the slope. ∞
    where the score is nearer to 0 than to that, by its sd: Equation (41).
    """
    x = np.linalg.inv(last.rows)
    likelihood = plan.rules.scoring.stacked and plan.rules.shape.a  # whose score is not that of logits alone
    if plan.rules.link == "identity" or likelihood or not (plan.rules.scoring.curved and rounds):
        return np.empty(0), np.empty((0, len(x)))
    ends = np.concatenate([x[:1], x[1:] - np.outer(plan.lows[1:], x[0]), np.outer(plan.highs[1:], x[0]) - x[1:]])
    ends = np.concatenate([ends, *(forms @ x for forms in plan.cells)])
    people = np.array([float(t.people) for t in rounds])
    part = people / people.sum()
    score = ends @ sum(p * t.score for p, t in zip(part, rounds, strict=True))
    slope = ends @ sum(p * t.slope for p, t in zip(part, rounds, strict=True)) @ x[0]
    mine, other = part**2 @ [[t.sds[0] ** 2 * t.wider, (t.sds[1] * t.wider) ** 2] for t in rounds]
    sizes, steep = np.square(ends).sum(axis=1), ends @ curvature @ x[0]
    entry = 0.5 * (sizes * sizes[0] + np.square(ends @ x[0]))
    sampling = np.einsum("ki,ij,kj->k", ends, squares, ends) / people.sum()
    eta = ends @ curvature @ rounds[-1].theta / np.maximum(steep, 1e-12)
    kinds = plan.rules.scoring.perfect(eta)
    left = np.full((len(kinds), len(ends)), math.inf)
    for k, (sign, chance) in enumerate(kinds):  # all answered 0, or 1
        whole, noise = sign * chance * score, chance * np.sqrt(mine * sizes + sampling)
        short = (slope - whole) / np.sqrt(mine * sizes + other * entry + 2.0 * sampling)
        left[k] = np.where(whole + LIKELY * noise > PERFECT * np.minimum(steep, slope), short, math.inf)
    return left.min(axis=0), ends


def _weights(alone: Array, far: Array, unsure: float, lacking: Array) -> Array:
    """Weights of rounds, of least variance: of each one's score, and of the curvature that all share: Equation (14).

    And of what scores may be `lacking`, shape (2, rounds), because long rows count less, and as they bend. Rounds whose
    variance is infinite have none, wherever they come.
    """
    weights, held = np.zeros(len(alone)), np.isfinite(alone)
    far, lacks = far[held], lacking[:, held]
    both = np.diag(alone[held]) + 0.5 * unsure * (1.0 + 1.0 / far.shape[1]) * far @ far.T + lacks.T @ lacks
    both += 1e-9 * np.diag(np.diag(both))  # no two rounds are alike but for rounding
    weights[held] = np.maximum(np.linalg.solve(both, np.ones(len(far))), 0.0)
    return np.asarray(weights / weights.sum())


def _crowd(rounds: Rounds) -> Array:
    """Weights of rounds' scales: by their records, or, of the same rows again, by noise and half of their move.

    A parameter that moves with the coefficients is carried to where the last round is: its move is the larger one of
    those by its number and until there, and the noise of its slopes by them counts.
    """
    moved = np.array([s.scale - math.log(s.state.scale) for s in rounds.said])
    noise = np.array([s.sds[4] / s.steep for s in rounds.said])
    people = np.array([float(s.people) for s in rounds.said])
    if rounds.plan.rules.cornered and rounds.plan.rules.scoring.extra:
        for k, s in enumerate(rounds.said):
            by = (rounds.last.rows @ np.linalg.inv(s.state.rows)).T
            moved[k] = max(abs(moved[k]), abs(rounds.said[-1].scale - math.log(s.state.scale)))
            noise[k] = math.hypot(noise[k], s.lean_sd * float(np.linalg.norm(by @ rounds.last.theta - s.state.theta)))
    size = 1.0 / (noise**2 + (0.5 * moved) ** 2) if rounds.again else people
    return np.asarray(size / size.sum())


def _scale(rounds: Rounds, theta: Array) -> float:
    """Residual scale at coefficients `theta`: Equation (11)."""
    logs = []
    for s in rounds.said:
        moved = float(s.lean @ ((rounds.last.rows @ np.linalg.inv(s.state.rows)).T @ theta - s.state.theta))
        most = max(s.state.window, WINDOWS[1])
        logs.append(s.scale + float(np.clip(moved, -most, most)))
    return math.exp(float(_crowd(rounds) @ logs))


class _Learned(NamedTuple):
    """Extra parameter at an estimate."""

    scale: float
    wide: float  # Slopes that are known of reports over that at the estimate
    vague: float  # Variance of its logarithm as slopes are uncertain
    leaning: Array  # Slope of its logarithm by theta, shape (d,)


def _learned(model: extra.Model, theta: Array) -> _Learned:
    """Extra parameter at an estimate: Equation (61).

    Where no parameter within a step's length gives the mean number a step is taken, by which it is uncertain.
    """
    rounds, plan, z, weight = model.rounds, model.rounds.plan, model.z, model.weight
    scoring, shape, shares = plan.rules.scoring, plan.rules.shape, _crowd(rounds)
    there, log, wide, vague, leaning = z @ theta + plan.rate, 0.0, 0.0, 0.0, np.zeros(len(theta))
    low, high, carried = *map(math.log, scoring.limits), plan.rules.cornered and not rounds.again

    def number(at: float, here: Array, there: Array, truth: float) -> Array:
        def mean(by: float, more: float) -> Array:
            return scoring.reference(shape, at * math.exp(more), here + by, there, math.exp(truth))[0]

        return extra.led(mean, there - here, truth - math.log(at)) if carried else mean(0.0, 0.0)

    for share, unsure, s in zip(shares, model.unsure, rounds.said, strict=True):
        at, found, ratio, turn = s.state.scale, s.scale, 1.0, rounds.last.rows @ np.linalg.inv(s.state.rows)
        place = np.linalg.solve(turn.T, s.state.theta)
        here, known = z @ place + plan.rate, carried * s.steep / rounds.progress.filled
        steep = known or max(float(weight @ scoring.reference(shape, at, here, here, at)[1]), 1e-100)  # squares finite
        lean = turn @ s.lean * steep  # slopes by θ that are known of reports
        if plan.rules.cornered and rounds.again:  # in place of the model's
            each = [scoring.reference(shape, at, here, here + h, at)[0] for h in (-STEP, STEP)]
            lean = lean + ((each[1] - each[0]) * weight / (2.0 * STEP)) @ z
        mean = s.number * steep / s.steep + float(lean @ (theta - place))

        def over(x: float, at: float = at, here: Array = here, mean: float = mean, known: float = known) -> float:
            return float(weight @ number(at, here, there, x)) + known * (x - math.log(at)) - mean

        if over(found - LEAP) < 0.0 < over(found + LEAP):
            found = brentq(over, found - LEAP, found + LEAP)
            rise = max((over(found + STEP) - over(found - STEP)) / (2.0 * STEP), FLAT * steep)
            ratio = steep / rise
            vague += share * (found - math.log(at)) ** 2 * unsure
            each = [number(at, here, there + h, found) for h in (-STEP, STEP)]
            leaning -= share / rise * (((each[1] - each[0]) * weight / (2.0 * STEP)) @ z - lean)
        else:
            vague += share * LEAP**2
        log, wide = log + share * min(max(found, low), high), wide + share * ratio
    return _Learned(math.exp(log), wide, vague, leaning)
