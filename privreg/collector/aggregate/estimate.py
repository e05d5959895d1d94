"""Coefficients and their covariance from all rounds of scores: Equations (12) to (17) and (22)."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from privreg.collector.aggregate import extra
from privreg.collector.aggregate.classes import against_first, expected, points
from privreg.collector.aggregate.lengths import along, missed, skewed
from privreg.collector.aggregate.plan import MOST_MU
from privreg.collector.aggregate.rounds import (
    LEAP,
    WINDOWS,
    floored,
    grouped,
    level,
    pooling,
    posterior,
    sampled,
    unequal,
)
from privreg.collector.estimation.curvature import SPREAD
from privreg.families.scores import scoring_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from privreg.base.arrays import Array
    from privreg.collector.aggregate.plan import Known, Plan, Progress, Rules, State, Summed
    from privreg.protocol.plans import Shape

NORMAL: Final = 2_000  # Normal errors, at even quantiles, of which steps are off
FARTHEST: Final = 2.0  # Thresholds up to which steps are known; further ones are marked
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
    beside: extra.Extra | None  # Slopes of an extra parameter
    classes: Array  # Contrasts, shape (b, b + 1); of one predictor shape (0, 0)
    each: Array  # Estimates by the sums of the main round, of groups of clusters, say; shape (k, b d)
    parts: Array  # Their weights; shape (k,)
    unknown: Array  # Covariance of theta that comes of what isn't known of the curvature
    finite: Array  # Sds by which it shows that none beyond `ends` are predicted perfectly; ∞ where none can be
    ends: Array  # Distances of columns from their bounds as linear forms; shape (len(finite), d)
    left: Array  # Scores that long rows may lack, of each number; shape (k, d)

    @property
    def back(self) -> Array:
        """Matrix from theta to coefficients of x, of classes against the first: Equation (18); shape (b d, b d)."""
        return np.asarray(np.kron(against_first(self.classes), self.rows.T))

    @property
    def cov(self) -> Array:
        """Covariance of theta, shape (d, d)."""
        return np.asarray(self.root @ self.root.T)

    @property
    def reach(self) -> float:
        """Longest step from the last state to the estimate, in thresholds, or how far the threshold moved."""
        return max(float(self.moves.max()), self.wider)

    @property
    def whole(self) -> tuple[Array, Array]:
        """Bread and covariance, of theta and the logarithm of an extra parameter."""
        return (self.bread, self.cov) if self.beside is None else self.beside.both(self.bread, self.cov)

    def blurred(self, loads: Array) -> Array:
        """Relative sds of the standard errors of `loads` @ theta, as slopes are uncertain: Equations (42) and (64).

        `loads` has the shape (q, b d), or one more with an extra parameter; what comes back (q,).
        """
        d, (bread, cov) = len(self.theta), (loads @ one[: loads.shape[1]] for one in self.whole)
        both = np.einsum("qk,ql->qkl", bread[:, :d], cov[:, :d])
        moved = np.einsum("qkl,kl->q", np.square(both + both.transpose(0, 2, 1)), self.spread)
        alone = np.einsum("qk,k->q", np.square(bread[:, :d] * cov[:, :d]), np.diag(self.spread))
        more = 0.0 if self.beside is None else self.beside.unsure(bread, cov)
        cov = cov[:, : loads.shape[1]]
        with np.errstate(divide="ignore", invalid="ignore"):  # of none that varies
            return np.asarray(np.sqrt(0.5 * moved - alone + more) / np.einsum("qk,qk->q", cov, loads))

    def displaced(self, loads: Array, left: Array) -> Array:
        """Bias of `loads` @ theta, in standard errors, by parts of steps that are `left`, in thresholds: Equation (43).

        `loads` has the shape (q, b d), `left` (m,), what comes back (q,).
        """
        if self.wider > 1.0:
            return np.full(len(loads), math.inf)
        lines, cov = self.lines[left > 0.0], loads @ self.cov
        along = np.abs(cov @ lines.T) / np.einsum("mk,kl,ml->m", lines, self.cov, lines) * left[left > 0.0]
        return np.asarray(self.threshold * along.max(axis=1, initial=0.0) / np.sqrt(np.einsum("qk,qk->q", cov, loads)))

    def lacking(self, loads: Array) -> Array:
        """Bias of `loads` @ theta, in standard errors, if long rows' scores are one sd: Equation (48); shape (q,)."""
        by = np.abs(loads @ self.bread @ np.kron(np.eye(len(self.theta) // self.left.shape[1]), self.left.T))
        return np.asarray(by.max(axis=1, initial=0.0) / np.sqrt(np.einsum("qk,kl,ql->q", loads, self.cov, loads)))

    def pulled(self, loads: Array, pull: Array | None) -> Array:
        """Score of long rows that moves `loads` @ theta, over that where they point everywhere alike: Equation (44)."""
        if pull is None:
            return np.ones(len(loads))
        by = (loads @ self.bread).reshape(len(loads), -1, len(pull))
        squares = np.einsum("qbk,kl,qbl->q", by, pull, by) / np.square(by).sum(axis=(1, 2))
        return np.asarray(np.sqrt(len(pull) * squares))


class _Turned(NamedTuple):
    """A round in the last one's coordinates."""

    theta: Array
    score: Array  # Times the threshold
    slope: Array
    square: Array
    noise: Array  # Covariance of the score
    beyond: Array
    steep: float
    lean: Array
    lean_sd: float
    people: float  # That sampling varies by
    wider: float  # Mean square by which noise grew in turning
    sds: tuple[float, float, float, float, float]


def estimate(plan: Plan, progress: Progress) -> Estimated | None:
    """Combine all rounds of scores, of the same rows by Equation (32); None before there is one."""
    if not progress.seen:
        return None
    last = progress.state if progress.state.gauge is None else progress.seen[-1].state  # the estimate's, measured
    c = progress.seen[-1].state.threshold(plan.rules)
    most = WINDOWS[1]  # rounds whose thresholds differ by more estimate something else
    alike = tuple(s for s in progress.seen if abs(math.log(s.state.threshold(plan.rules) / c)) < most)
    rules, d = plan.rules, plan.size
    least = min(s.state.window for s in alike)
    best = tuple(s for s in alike if s.state.window == least)  # of the scale
    scale, common = _scale(plan, best, last.rows, last.theta) if rules.scaled else 1.0, c
    turned = [_turn(plan, s, last.rows, common) for s in alike]
    known = progress.known.whole

    places, again = np.array([t.theta for t in turned]), plan.noise.again
    people, reference = sampled(plan, alike), progress.filled * rules.slope
    unlike = unequal(plan, alike)
    far = np.linalg.norm(places - last.theta, axis=1) / (common * rules.bend) if again else unlike
    rough = np.array([t.sds[1] * t.wider for t in turned])
    shares, noise = pooling(rough.tolist(), people, reference**2, far)
    pooled = sum(w * t.slope for w, t in zip(shares, turned, strict=True))
    height = level(pooled, noise, reference, rules.unsure)
    curvature, spread = posterior(pooled, noise, known, height)
    curvature = floored(curvature, LOST * math.sqrt(float(spread.mean())))

    if learned := bool(rules.scoring.extra) and plan.mu < MOST_MU:
        made = extra.rows(plan, progress, last, curvature)
        alike, steeper = extra.known(plan, progress.filled, made, alike, last)
        steeper = [v for v, s in zip(steeper, alike, strict=True) if s.state.window == least]
        best = tuple(s for s in alike if s.state.window == least)
        turned = [_turn(plan, s, last.rows, common) for s in alike]

    parts, jitter = pooling([t.sds[2] * t.wider for t in turned], people, plan.square**2, far)
    square = sum(w * t.square for w, t in zip(parts, turned, strict=True))
    middle = level(square[:d, :d], jitter, plan.square, plan.unsure)
    prior = np.full((plan.d, plan.d), (UNEVEN if again else SPREAD) ** 2 + plan.alike**2)
    about = progress.known.mean if again else np.eye(plan.d)
    close = progress.known._replace(mean=about, variances=prior)
    squares, loose = posterior(square[:d, :d], jitter, close.whole, middle)
    if again:  # variances that are uncertain make t heavier in its tails: Equation (37)
        squares = squares + STUDENT * float(loose.mean()) / middle * np.eye(d)
    squares = squares * common**2

    sampling = middle * common**2 / np.array(people)
    alone = sampling + [float(np.trace(t.noise)) / d for t in turned]
    main = np.array([grouped(plan, s) if again else s.state.role == "main" for s in alike])
    if plan.clusters and main.any():  # rounds before hold people of all clusters: they give the start, and the slope
        alone = np.where(main, alone, np.inf)
    x = np.linalg.inv(last.rows)
    second = x @ curvature[: plan.d, : plan.d] @ x.T
    lacking, left = np.zeros(len(alike)), np.zeros((0, d))
    if not (again or plan.like is not None or plan.extremes):  # rounds where other rows count whole, other targets
        unit = common * math.sqrt(middle)
        by = [missed(plan, second, s.state.rows, np.array([s.state.reach(plan) ** 2]))[0] for s in alike]
        lacking = unit * (np.array(by) - by[-1]).max(axis=1)
        early = missed(plan, x @ progress.known.mean @ x.T, last.rows, np.array([last.reach(plan) ** 2]))[0]
        left = along(plan, second, last.rows) * unit * np.maximum(by[-1], early)[:-1, None]
    weights = 1.0 / alone / (1.0 / alone).sum()
    theta, bent = last.theta, _bend(plan, progress.known, last, curvature, places, shares)
    if rules.scoring.curved and not again:
        loose = rough**2 + 2.0 * height**2 / np.array(people)
        same = np.array([[float(np.array_equal(a.state.rows, b.state.rows)) for b in alike] for a in alike])
        slopes = np.array([t.slope for t in turned])
        bent, unsure = _secants(slopes, loose, places, same, weights, last, c * rules.bend, curvature, pooled)
    tied = np.zeros((d, d))
    for _ in range(PASSES):
        if rules.cornered:  # scores at a common threshold, that of the estimate
            scale = _scale(plan, best, last.rows, theta)
            if learned:  # which moves with the estimate: both in one step
                scale, _, _, leaning = _learned(plan, progress.filled, made, best, last, theta)
                by_scale = rules.ratio * scale * sum(w * t.beyond for w, t in zip(weights, turned, strict=True))
                if not again:  # rows that answer again are asked near the estimate
                    near = math.exp(np.clip(math.log(scale / last.scale), -WINDOWS[1], WINDOWS[1])) * last.scale
                    model = extra.bent(plan, progress.filled, made, alike, last, near)
                    bent = partial(_modelled, model, weights, curvature, last.theta, c)
                    by_scale = by_scale + weights @ model(theta)[2]
                tied = extra.tied(bent(theta)[1], by_scale, leaning, extra.WALKING)
            common = rules.ratio * scale
            turned = [_turn(plan, s, last.rows, common) for s in alike]
        steps = sum(w * (curvature @ t.theta - t.score) for w, t in zip(weights, turned, strict=True))
        more, slope = bent(theta)
        found = np.linalg.solve(slope + tied, steps - weights @ more + tied @ theta)
        far = float(np.linalg.norm(found - theta)) / (extra.STRIDE * c)
        theta = theta + (found - theta) / far if tied.any() and far > 1.0 else found
        distance = np.square(places - theta).sum(axis=1)
        off = (
            (0.5 * height / (common * rules.bend) * distance) ** 2 / d
            if again
            else (height * unlike) ** 2 * distance / d
        )
        if rules.scoring.curved and not again:
            # where people are followed ends at another time at other states: as much as an unknown bend may leave
            off = unsure(theta) + plan.followed * (0.5 * height / (common * rules.bend) * distance) ** 2 / d
        weights = _weights(alone + off, places - theta, float(spread.mean()), lacking)
    whole = again and not main.any()  # all rows in each round: they are sampled once
    sampling = squares * (
        _once(plan, alike, weights) if whole else sum(w**2 / t.people for w, t in zip(weights, turned, strict=True))
    )
    noised = sum(w**2 * t.noise for w, t in zip(weights, turned, strict=True))
    far = sum(w * (t.theta - theta) for w, t in zip(weights, turned, strict=True))
    half = 0.5 * spread
    unknown = floored(half * np.outer(far, far) + np.diag(half @ far**2), 0.0)
    if not again:
        unknown = unknown + (float(weights**2 @ off) + float(weights @ lacking) ** 2) * np.eye(d)
    if rules.scoring.cornered:
        moves, one = np.array([(theta - t.theta) / common for t in turned]), np.linalg.inv(last.rows)[0]
        off = common * curvature @ _off(rules, moves, weights, curvature, known.points, one)
        unknown = unknown + off @ off.T
    by_scale, by_theta, wide, vague = np.zeros(d), np.zeros(d), 1.0, 0.0
    if learned:
        scale, wide, vague, by_theta = _learned(plan, progress.filled, made, best, last, theta)
    slope = bent(theta)[1]
    if rules.cornered:
        by_scale = common * sum(w * t.beyond for w, t in zip(weights, turned, strict=True))
        narrow = [(w, t) for w, t, s in zip(weights, turned, alike, strict=True) if any(s is one for one in best)]
        shares = _crowd(best, again=again)
        if learned:  # slopes are those at the estimate
            by_scale = by_scale if again else by_scale + weights @ model(theta)[2]
            tied = extra.tied(slope, by_scale, by_theta, extra.KEPT)
        else:
            by_theta = np.asarray(sum(w * t.lean for w, (_, t) in zip(shares, narrow, strict=True)))
            tied = np.outer(by_scale, by_theta)
        sampling = sampling + _of_scale(by_scale, theta, narrow, shares, common, wide, again=whole)
        slope = slope + tied
    bread = np.linalg.inv(slope)
    meat = floored(sampling, 0.0) + noised  # estimated entries may leave no covariance; the noise's is known
    if again:  # as slopes are uncertain, so are variances: Equation (37)
        cov = bread @ (meat + unknown) @ bread.T
        meat = meat + 2.0 * STUDENT * float(spread.mean()) * (cov + float(np.trace(cov)) * np.eye(d))
    beside = None
    if rules.scoring.extra:
        own_variance, both = _extra_variance(best, turned, alike, weights, theta, common, again=whole)
        own_variance, unsure_of = wide**2 * own_variance + vague, (0.0, 0.0, 0.0)
        if learned:
            unsure_of = extra.noise(common, weights, turned, _crowd(best, again=again), best, steeper)
        beside = extra.Extra(by_scale, by_theta, wide * both + own_variance * by_scale, own_variance, unsure_of)
        unknown = unknown + vague * np.outer(by_scale, by_scale)
        meat = meat + 2.0 * STUDENT * beside.widened(bread, bread @ (meat + unknown) @ bread.T)
    values, vectors = np.linalg.eigh(meat + unknown)
    root = bread @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    move = (theta - (turned[-1].theta if again else last.theta)) / c
    asked = progress.seen[-1].state
    wider = abs(math.log(scale / asked.scale)) / (0.5 * asked.window if again else most) if rules.follows else 0.0
    lines = np.vstack([move / max(float(np.linalg.norm(move)), 1e-300), known.points])
    if rules.scoring.curved and not again:
        lines = np.vstack([lines, np.kron(np.eye(rules.blocks), skewed(plan, second, last.rows, last.reach(plan)))])
    moves = np.abs(lines @ move) / rules.bend
    if rules.scoring.curved and not again:  # twice what such a step leaves, in standard errors
        wide = np.maximum(np.linalg.norm(lines, axis=1), 1.0) * math.sqrt(float(np.trace(root @ root.T)))
        judged = (np.arange(len(lines)) > len(known.points)) | (not progress.near)  # skewed rows by main rounds
        moves = np.maximum(moves, judged * moves**2 * c * rules.bend / wide)
    more = bent(theta)[0]
    each = [bread @ (curvature @ t.theta - t.score - m) for t, m in zip(turned, more, strict=True)]
    own = np.array(each)[main], weights[main], bread @ unknown @ bread.T
    late = [
        t for t, s in zip(turned, alike, strict=True) if s.state.role == "main" and (t.theta == turned[-1].theta).all()
    ]
    finite = _finite(plan, last, late, curvature, squares)
    how = wider, lines, moves, c * rules.bend, bread, spread, scale, beside, last.classes
    return Estimated(last.rows, theta, root, curvature, weights, alike, *how, *own, *finite, left)


def _once(plan: Plan, rounds: Sequence[Summed], weights: Array) -> float:
    """Sampling variance of a weighted mean of all rounds' scores over that of one record's, of the same records.

    Of silos some of which have dropped out of rounds: Equation (50).
    """
    if not plan.noise.silos:
        return 1.0 / plan.rows
    each = [plan.noise._replace(came=s.counts) for s in rounds]
    if len({one.counts for one in each}) == 1:
        return 1.0 / each[0].precise
    parts = sum(w * one.weights / sum(one.counts) for w, one in zip(weights, each, strict=True))
    return float(np.square(parts) @ plan.noise.silos)


def _bend(
    plan: Plan, known: Known, last: State, curvature: Array, places: Array, shares: Array
) -> Callable[[Array], Any]:
    """Difference of scores at an estimate from those on the pooled slope, and their slope: Equation (22).

    Within one threshold of the last state: farther off it is unreliable. Half the pooled slope is kept.
    """
    if plan.rules.blocks == 1:
        return lambda theta: (np.zeros((len(places), len(theta))), curvature)
    root = np.linalg.cholesky(curvature)
    z, weight = points(known.mean, np.linalg.inv(last.rows)[0], plan.reach)
    there = [expected(last.classes, place, z, weight) for place in places]
    steep = sum(w * slope for w, (_, slope) in zip(shares, there, strict=True))

    def bent(theta: Array) -> tuple[Array, Array]:
        move = theta - last.theta
        near = last.theta + move / max(1.0, float(np.linalg.norm(move)))
        score, slope = expected(last.classes, near, z, weight)
        back = np.linalg.solve(root, np.linalg.solve(root, slope - steep).T)
        more = root @ floored(back, -0.5) @ root.T
        return score - np.array([one for one, _ in there]) - (near - places) @ steep - more @ theta, curvature + more

    return bent


def _modelled(model: Any, weights: Array, curvature: Array, last: Array, c: float, theta: Array) -> tuple[Array, Array]:
    """Scores of rounds at an estimate, within a threshold of the last state, beyond their slopes, and the slope there.

    They are a model's, and half of the slope is kept.
    """
    more, changes, _ = model(last + (theta - last) / max(1.0, float(np.linalg.norm(theta - last)) / c))
    root = np.linalg.cholesky(curvature)
    back = np.linalg.solve(root, np.linalg.solve(root, np.einsum("k,kij->ij", weights, changes)).T)
    change = root @ floored(back, -0.5) @ root.T
    return more - change @ theta, curvature + change


def _secants(
    slopes: Array,
    noise: Array,
    places: Array,
    alike: Array,
    parts: Array,
    last: State,
    c: float,
    curvature: Array,
    pooled: Array,
) -> tuple[Callable[[Array], Any], Callable[[Array], Array]]:
    """Scores of rounds on secants to an estimate, and the slope there: Equation (39); and variances of these scores.

    `slopes`, shape (rounds, d, d), have entries of variances `noise`, shape (rounds,), about a line in the coefficients
    that rounds share, but for a constant of rounds whose records weigh alike: `alike`, shape (rounds, rounds). The
    slope is the mean of rounds' by `parts`.
    """
    (rounds, d), square = places.shape, (float(np.trace(curvature)) / len(curvature)) ** 2
    steep, constant = 2.0 * square / (d + 1.0), SPREAD**2 * square
    x, ones = (places - last.theta) / c, np.ones((rounds, 1))  # in thresholds
    system = np.block([[steep * x @ x.T + constant * alike + np.diag(noise), ones], [ones.T, np.zeros((1, 1))]])
    root, least = np.linalg.cholesky(curvature), 1.0 / float((1.0 / noise).sum())

    def along(theta: Array) -> tuple[Array, Array]:
        """Weights of slopes at the middle of each secant, then at its end, within a threshold; and variances there."""
        move = (theta - last.theta) / c
        near = move / max(1.0, float(np.linalg.norm(move)))
        at = np.vstack([0.5 * (x + near), np.tile(near, (rounds, 1))])
        given = np.vstack([steep * x @ at.T + constant * np.tile(alike, 2), np.ones((1, 2 * rounds))])
        found = np.linalg.solve(system, given)
        return found[:-1].T, steep * np.square(at).sum(axis=1) + constant - (found * given).sum(axis=0)

    def bent(theta: Array) -> tuple[Array, Array]:
        weights, _ = along(theta)
        changes = np.einsum("tk,kij->tij", weights, slopes) - pooled
        changes = np.vstack([changes[:rounds], np.einsum("k,kij->ij", parts, changes[rounds:])[None]])
        back = [np.linalg.solve(root, np.linalg.solve(root, one).T) for one in changes]
        changes = np.array([root @ floored(one, -0.5) @ root.T for one in back])  # half of the slope is kept
        return np.einsum("kij,kj->ki", changes[:-1], theta - places) - changes[-1] @ theta, curvature + changes[-1]

    def unsure(theta: Array) -> Array:
        _, variances = along(theta)
        far = np.square(theta - places).sum(axis=1)
        return np.asarray(0.5 * (1.0 + 1.0 / d) * np.maximum(variances[:rounds] - least, 0.0) * far)

    return bent, unsure


def _finite(plan: Plan, last: State, rounds: list[_Turned], curvature: Array, squares: Array) -> tuple[Array, Array]:
    """Sds by which scores show that no records, by distance from a bound, are predicted perfectly; and these forms.

    Of records that all answered 1, at a state that predicts 1 with probability π, the mean score π − y is -1/π times
    the slope π(1 - π), and of those that all answered 0 the slope over 1 − π; of counts that are all 0 it is the slope:
    Equation (41). ∞ where the score is nearer to 0 than to that, by its sd.
    """
    x = np.linalg.inv(last.rows)
    likelihood = plan.rules.scoring.stacked and plan.rules.shape.a  # whose score is not that of logits alone
    if plan.rules.linear or likelihood or not (plan.rules.scoring.curved and rounds):
        return np.empty(0), np.empty((0, len(x)))
    ends = np.concatenate([x[:1], x[1:] - np.outer(plan.lows[1:], x[0]), np.outer(plan.highs[1:], x[0]) - x[1:]])
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


def _off(rules: Rules, moves: Array, weights: Array, curvature: Array, points: Array, one: Array) -> Array:
    """Error of steps because scores are clipped, in thresholds, shape (d, 2 + points): Equation (31).

    `moves`, shape (rounds, d), are those from rounds' states to the estimate, in thresholds; `one`, shape (d,), moves
    all rows by 1.
    """
    shifts, alone, normal = _steps(rules.shape, rules.ratio)
    length = np.linalg.norm(moves, axis=1)
    far = (weights * (length - np.interp(length, normal, shifts[-len(normal) :])) / np.maximum(length, 1e-300)) @ moves
    # rows that move up and down alike: 0 but for expectiles, whose score bends at 0
    both = -0.5 * (np.interp(length, alone, shifts) + np.interp(-length, alone, shifts))
    out = [far, one * float(weights @ both)]
    for p in points:
        along, by = moves @ p, np.linalg.solve(curvature, p)
        out.append(by / (p @ by) * float(weights @ (along - np.interp(along, alone, shifts))))
    return np.array(out).T


@cache
def _steps(shape: Shape, ratio: float) -> tuple[Array, Array, Array]:
    """Moves from a state to the root in thresholds, and the steps that score and slope give, for normal errors.

    Steps of rows that all move by the same, of either sign, and of normal rows along one direction, from 0 on.
    """
    scoring = scoring_of(shape.family)
    above, below = (1.0, 1.0) if scoring.symmetric else scoring.sides(shape)
    r = ndtri((np.arange(NORMAL) + 0.5) / NORMAL) / ratio
    r = r - brentq(lambda at: float((np.where(r > at, above, below) * np.clip(r - at, -1.0, 1.0)).sum()), r[0], r[-1])
    shifts = np.linspace(-FARTHEST, FARTHEST, 241)
    rows = np.linspace(-4.0, 4.0, 161)
    fine = np.linspace(-4.0 * FARTHEST, 4.0 * FARTHEST, 1601)
    errors = r + fine[:, None]
    slope = (np.where(errors > 0.0, above, below) * (np.abs(errors) <= 1.0)).mean(axis=1)
    score = np.concatenate([[0.0], np.cumsum(0.5 * (slope[1:] + slope[:-1]) * np.diff(fine))])
    score -= score[len(fine) // 2]
    density = np.exp(-0.5 * rows**2)
    at = shifts[:, None] * rows
    normal = (density * rows * np.interp(at, fine, score)).sum(axis=1)
    normal /= (density * rows**2 * np.interp(at, fine, slope)).sum(axis=1)
    # of one error at least: where none is within the threshold no step is known
    alone = np.interp(shifts, fine, score) / np.maximum(np.interp(shifts, fine, slope), 1.0 / NORMAL)
    half = len(shifts) // 2
    alone = np.concatenate([np.minimum.accumulate(alone[half::-1])[:0:-1], np.maximum.accumulate(alone[half:])])
    return shifts, alone, np.maximum.accumulate(normal[half:])


def _weights(alone: Array, far: Array, unsure: float, lacking: Array) -> Array:
    """Weights of rounds, of least variance: of each one's score, and of the curvature that all share: Equation (14).

    And of what scores may be `lacking`, shape (rounds,), because long rows count less.

    Rounds whose variance is infinite have none, wherever they come.
    """
    weights, held = np.zeros(len(alone)), np.isfinite(alone)
    far = far[held]
    both = np.diag(alone[held]) + 0.5 * unsure * (1.0 + 1.0 / far.shape[1]) * far @ far.T
    both += np.outer(lacking[held], lacking[held])
    weights[held] = np.maximum(np.linalg.solve(both, np.ones(len(far))), 0.0)
    return np.asarray(weights / weights.sum())


def _crowd(rounds: Sequence[Summed], *, again: bool) -> Array:
    """Weights of rounds' scales: by their records, or, of the same rows `again`, by noise and half of their move."""
    moved = np.array([s.scale - math.log(s.state.scale) for s in rounds])
    noise = np.array([s.sds[4] / s.steep for s in rounds])
    size = 1.0 / (noise**2 + (0.5 * moved) ** 2) if again else np.array([float(s.people) for s in rounds])
    return np.asarray(size / size.sum())


def _scale(plan: Plan, rounds: tuple[Summed, ...], rows: Array, theta: Array) -> float:
    """Residual scale at coefficients `theta` of `rows`: Equation (11)."""
    logs = []
    for s in rounds:
        moved = float(s.lean @ ((rows @ np.linalg.inv(s.state.rows)).T @ theta - s.state.theta))
        most = max(s.state.window, WINDOWS[1])
        logs.append(s.scale + float(np.clip(moved, -most, most)))
    return math.exp(float(_crowd(rounds, again=plan.noise.again) @ logs))


def _learned(
    plan: Plan, filled: float, made: tuple[Array, Array], best: Sequence[Summed], last: State, theta: Array
) -> tuple[float, float, float, Array]:
    """Extra parameter at an estimate, slopes that were reported over that there, and slope by theta: Equation (61).

    The third is the variance of its logarithm as slopes are uncertain, the last, shape (d,), that logarithm's slope.
    Where no parameter within a step's length gives the mean number a step is taken, by which it is uncertain.
    """
    scoring, shape, shares = plan.rules.scoring, plan.rules.shape, _crowd(best, again=plan.noise.again)
    z, weight = made
    there, log, wide, far, by = z @ theta + plan.rate, 0.0, 0.0, 0.0, np.zeros(len(theta))
    low, high = map(math.log, scoring.limits)
    for share, s in zip(shares, best, strict=True):
        at, found, ratio, turn = s.state.scale, s.scale, 1.0, last.rows @ np.linalg.inv(s.state.rows)
        place = np.linalg.solve(turn.T, s.state.theta)
        here, more = z @ place + plan.rate, np.zeros(len(theta))
        steep = max(float(weight @ scoring.reference(shape, at, here, here, at)[1]), 1e-100)  # squares stay finite
        noise, seen = (2.0 * scoring.steps()[0] * s.sds[4] / (filled * steep)) ** 2, s.steep / (filled * steep)
        if plan.rules.cornered:  # slopes by θ that are known of reports, in place of the model's
            each = [scoring.reference(shape, at, here, here + h, at)[0] for h in (-STEP, STEP)]
            more = ((each[1] - each[0]) * weight / (2.0 * STEP)) @ z + turn @ s.lean * steep
        mean = s.number / (filled * seen) + float(more @ (theta - place))

        def over(x: float, at: float = at, here: Array = here, mean: float = mean) -> float:
            return float(weight @ scoring.reference(shape, at, here, there, math.exp(x))[0]) - mean

        if over(found - LEAP) < 0.0 < over(found + LEAP):
            found = brentq(over, found - LEAP, found + LEAP)
            rise = max((over(found + STEP) - over(found - STEP)) / (2.0 * STEP), FLAT * steep)
            ratio = steep / rise
            far += share * (found - math.log(at)) ** 2 / (1.0 / noise + SPREAD**-2)
            each = [scoring.reference(shape, at, here, there + h, math.exp(found))[0] for h in (-STEP, STEP)]
            by -= share / rise * (((each[1] - each[0]) * weight / (2.0 * STEP)) @ z - more)
        else:
            far += share * LEAP**2
        log, wide = log + share * min(max(found, low), high), wide + share * ratio
    return math.exp(log), wide, far, by


def _extra_variance(
    best: Sequence[Summed],
    turned: list[_Turned],
    alike: Sequence[Summed],
    weights: Array,
    theta: Array,
    c: float,
    *,
    again: bool,
) -> tuple[float, Array]:
    """Variance of the logarithm of an extra parameter by its number, and covariance with the score: Equation (60)."""
    d, out, both = len(turned[-1].theta), 0.0, np.zeros(len(turned[-1].theta))
    for own, s in zip(_crowd(best, again=again), best, strict=True):
        weight, t = next((w, t) for w, t, one in zip(weights, turned, alike, strict=True) if one is s)
        part = own / t.steep
        out += part**2 * t.sds[4] ** 2 + (own * t.lean_sd) ** 2 * float((theta - t.theta) @ (theta - t.theta))
        out += (part / t.steep if again else part**2) * max(float(t.square[d, d]), 0.0) / t.people
        both += c * (1.0 if again else weight) * part / t.people * t.square[:d, d]
    return out, both


def _of_scale(
    by_scale: Array,
    theta: Array,
    rounds: list[tuple[float, _Turned]],
    shares: Array,
    c: float,
    wide: float,
    *,
    again: bool,
) -> Array:
    """Part of the meat due to the estimated scale, its covariance with the score included: Equation (16)."""
    d = len(by_scale)
    out = np.zeros((d, d))
    for own, (weight, t) in zip(shares, rounds, strict=True):
        # rows that answer again are sampled once: their score has weight 1, and the scale that of all rounds
        part = own / t.steep
        alone = part**2 * t.sds[4] ** 2 + (own * t.lean_sd) ** 2 * float((theta - t.theta) @ (theta - t.theta))
        alone += (part if again else part**2) * max(float(t.square[d, d]), 0.0) / t.people / (t.steep if again else 1.0)
        with_score = c * (1.0 if again else weight) * part / t.people * t.square[:d, d]
        # the score rises with θ, and a larger scale with c: both move θ by minus the bread
        both = np.outer(by_scale, with_score)
        out += wide**2 * alone * np.outer(by_scale, by_scale) + wide * both + wide * both.T
    return out


def _turn(plan: Plan, s: Summed, rows: Array, common: float) -> _Turned:
    """A round's sums in other coordinates, scores at the common threshold, squares about their mean: Equation (12)."""
    by, c = rows @ np.linalg.inv(s.state.rows), s.state.threshold(plan.rules)
    by, d = np.kron(np.eye(len(s.score) // len(by)), by), len(s.score)
    square = s.square - s.products
    square[:d, :d] += s.products_noise * np.eye(d)
    wide = np.eye(len(square))
    wide[:d, :d] = by
    return _Turned(
        theta=np.asarray(np.linalg.solve(by.T, s.state.theta), dtype=np.float64),
        score=by @ (c * s.score + (common - c) * s.beyond),
        slope=by @ s.slope @ by.T,
        square=wide @ square @ wide.T,
        noise=((c * s.sds[0]) ** 2 + ((common - c) * s.sds[3] if common != c else 0.0) ** 2) * by @ by.T,
        beyond=by @ s.beyond,
        steep=s.steep,
        lean=by @ s.lean,
        lean_sd=s.lean_sd,
        people=plan.noise._replace(came=s.counts).precise if s.counts else s.people,
        wider=float((by**2).sum()) / len(by),
        sds=s.sds,
    )
