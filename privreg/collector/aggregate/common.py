"""Rounds of scores in common coordinates, Equation (12), and how scores bend between them: (22), (31) and (39)."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, roots_jacobi

from privreg.base.arrays import Array, Flags
from privreg.collector.aggregate.classes import mean_score, points
from privreg.collector.aggregate.curvature import Curvature, grouped, sampled, unequal
from privreg.collector.aggregate.lengths import CLEAR, NORMAL
from privreg.collector.aggregate.plan import Plan, Progress, Rules, State, Summed
from privreg.collector.estimation.curvature import SPREAD, floored
from privreg.families.hazards import ending
from privreg.families.scores import scoring_of
from privreg.protocol.plans import Shape

ERRORS: Final = 2_000  # Normal errors, at even quantiles, of which steps are off
FARTHEST: Final = 2.0  # Thresholds up to which steps are known; further ones are marked


Way = Callable[[Array, Array, Array], tuple[Array, Array]]
"""Mean slope on a way, and that at its end, by the slope before it, the state and the way; shapes (d, d) and (d,)."""


class Rounds(NamedTuple):
    """Rounds of scores that are combined, in common coordinates and at a common threshold."""

    plan: Plan
    progress: Progress
    last: State  # Its rows are the coordinates
    summed: tuple[Summed, ...]  # Those whose thresholds are within a factor 1.5 of the last one's
    narrow: Flags  # Those of them that say the residual scale, by the narrowest window; shape (rounds,)
    c: float
    turned: list[Summed]

    @property
    def again(self) -> bool:
        """True if the same rows answered all of them."""
        return self.plan.noise.again

    @property
    def said(self) -> list[Summed]:
        """Rounds that say the residual scale or an extra parameter."""
        return [s for s, narrow in zip(self.summed, self.narrow, strict=True) if narrow]

    @property
    def places(self) -> Array:
        """Coefficients at which they asked, shape (rounds, b d)."""
        return np.array([t.theta for t in self.turned])

    @property
    def main(self) -> Flags:
        """Rounds of people who are sampled separately: main ones, of the same rows those of groups of clusters."""
        return np.array([grouped(self.plan, s) if self.again else s.state.role == "main" for s in self.summed])

    @property
    def once(self) -> bool:
        """True if all rows are in each of them, so that they are sampled once."""
        return self.again and not self.main.any()

    def at(self, c: float) -> "Rounds":
        """The rounds in common coordinates, scores at a common threshold, squares about their mean: Equation (12)."""
        turned = []
        for s in self.summed:
            by, d = self.last.rows @ np.linalg.inv(s.state.rows), len(s.score)
            threshold = s.state.threshold(self.plan.rules)
            by = by if d == len(by) else np.kron(np.eye(d // len(by)), by)
            square = s.square - s.products
            square[:d, :d] += s.products_noise * np.eye(d)
            wide = np.eye(len(square))
            wide[:d, :d] = by
            noise = (threshold * s.sds[0]) ** 2 + ((c - threshold) * s.sds[3] if c != threshold else 0.0) ** 2
            one = s._replace(
                theta=np.asarray(np.linalg.solve(by.T, s.state.theta), dtype=np.float64),
                score=by @ (threshold * s.score + (c - threshold) * s.beyond),
                slope=by @ s.slope @ by.T,
                square=wide @ square @ wide.T,
                noise=noise * by @ by.T,
                beyond=by @ s.beyond,
                lean=by @ s.lean,
                people=self.plan.noise._replace(came=s.counts).precise if s.counts else s.people,
                wider=float((by**2).sum()) / len(by),
            )
            turned.append(one)
        return self._replace(c=c, turned=turned)


def differing(rounds: Rounds) -> Array:
    """Share by which rounds' slopes may differ from that at the estimate, by states or rows that count; (rounds,)."""
    if not rounds.again:
        return unequal(rounds.plan, rounds.summed)
    far = np.linalg.norm(rounds.places - rounds.last.theta, axis=1)
    return np.asarray(far / (rounds.c * rounds.plan.rules.bend))


class Bend(NamedTuple):
    """Change of scores between rounds' states and an estimate: on a straight line, by classes, or on secants."""

    # At an estimate and weights of rounds: scores beside those on the slope A, less A's change times it, shape (rounds,
    # b d); and the slope
    added: Callable[[Array, Array], tuple[Array, Array]]
    # At an estimate and a threshold: variances of a number of each score, because it bends; shape (rounds,)
    variances: Callable[[Array, float], Array]
    # And what is left of a number of each, of one sign, as an approach comes from one side; shape (rounds,)
    left: Callable[[Array, float], Array]


def bend(rounds: Rounds, curved: Curvature) -> Bend:
    """Choose how scores change on the way to an estimate.

    Scores of the same rows, or that hardly bend, are straight but for several predictors (22); others are on secants.
    What is left is the square of the way at most if slopes change by as much in a threshold as they are: Equation (32).
    """
    plan, places, d, height, last = rounds.plan, rounds.places, rounds.plan.size, curved.level, rounds.last
    unlike = unequal(plan, rounds.summed)

    def distance(theta: Array) -> Array:
        return np.asarray(np.square(places - theta).sum(axis=1))

    def squared(theta: Array, c: float) -> Array:
        among = 1.0 if plan.followed else float(d)  # a start that knows no slopes may be off along one number alone
        return np.asarray((0.5 * height / (c * plan.rules.bend) * distance(theta)) ** 2 / among)

    def straight(*_: Array) -> tuple[Array, Array]:
        return np.zeros((len(places), d)), curved.mean

    def none(*_: Array | float) -> Array:
        return np.zeros(len(places))

    if plan.rules.scoring.curved and not rounds.again:
        rough = np.array([t.sds[1] * t.wider for t in rounds.turned])
        noise = rough**2 + 2.0 * height**2 / np.array(sampled(plan, rounds.summed))
        rows, slopes = [s.state.rows for s in rounds.summed], np.array([t.slope for t in rounds.turned])
        alike = np.array([[float(np.array_equal(a, b)) for b in rows] for a in rows])
        c = rounds.c * plan.rules.bend
        tilt, parts = on_the_way(plan, last.rows, curved), parts_of(plan, last.rows, curved)
        added, unsure = secants(slopes, noise, places, alike, last, c, curved.mean, curved.pooled, tilt)
        apart = np.einsum("ki,ij,kj->k", places - last.theta, curved.mean, places - last.theta)

        def left(theta: Array, c: float) -> Array:
            if plan.rules.link != "log":
                return none()
            way = theta - last.theta
            sizes, _, about = celled(parts, curved.mean, way)
            unknown = sizes.sum() * about
            if plan.followed:
                unknown = unknown + ending(rounds.progress.events[0], last.most) * curved.mean
            size = apart + float(way @ unknown @ way)
            return np.asarray(0.5 * size / (c * plan.rules.bend * math.sqrt(d)))

        return Bend(added, lambda theta, _: unsure(theta), left)
    variances = squared if rounds.again else lambda theta, _: (height * unlike) ** 2 * distance(theta) / d
    if plan.rules.blocks == 1:
        return Bend(straight, variances, none)
    root = np.linalg.cholesky(curved.mean)
    z, weight = points(rounds.progress.known.mean, np.linalg.inv(last.rows)[0], plan.reach)
    there = [mean_score(last.classes, place, z, weight) for place in places]
    steep = sum(w * slope for w, (_, slope) in zip(curved.shares, there, strict=True))

    def by_classes(theta: Array, _: Array) -> tuple[Array, Array]:
        """Within one threshold of the last state: farther off the slope is unreliable. Half of A is kept."""
        move = theta - last.theta
        near = last.theta + move / max(1.0, float(np.linalg.norm(move)))
        score, slope = mean_score(last.classes, near, z, weight)
        back = np.linalg.solve(root, np.linalg.solve(root, slope - steep).T)
        more = root @ floored(back, -0.5) @ root.T
        return score - np.array([one for one, _ in there]) - (near - places) @ steep - more @ theta, curved.mean + more

    return Bend(by_classes, variances, none)


def secants(
    slopes: Array,
    noise: Array,
    places: Array,
    alike: Array,
    last: State,
    c: float,
    curvature: Array,
    pooled: Array,
    tilt: Way | None = None,
) -> tuple[Callable[[Array, Array], tuple[Array, Array]], Callable[[Array], Array]]:
    """Scores of rounds on secants to an estimate, and the slope there: Equation (39); and variances of these scores.

    `slopes`, shape (rounds, d, d), have entries of variances `noise`, shape (rounds,), about a line in the coefficients
    that rounds share, but for a constant of rounds whose records weigh alike: `alike`, shape (rounds, rounds). The
    slope is the mean of rounds' by weights, as an early state's leads far. `tilt`, where more is known of how slopes
    change, has the mean on the way and the end of a slope, of it, the place of its round and the way.
    """
    (rounds, d), square = places.shape, (float(np.trace(curvature)) / len(curvature)) ** 2
    steep, constant = 2.0 * square / (d + 1.0), SPREAD**2 * square
    x, ones = (places - last.theta) / c, np.ones((rounds, 1))  # in thresholds
    system = np.block([[steep * x @ x.T + constant * alike + np.diag(noise), ones], [ones.T, np.zeros((1, 1))]])
    root, least = np.linalg.cholesky(curvature), 1.0 / float((1.0 / noise).sum())

    def along(theta: Array) -> tuple[Array, Array, Array]:
        """Weights of slopes at the middle of each secant, or its beginning if its change is known, then at its end,
        within a threshold; variances there; and that end.
        """
        move = (theta - last.theta) / c
        near = move / max(1.0, float(np.linalg.norm(move)))
        at = np.vstack([0.5 * (x + near) if tilt is None else x, np.tile(near, (rounds, 1))])
        given = np.vstack([steep * x @ at.T + constant * np.tile(alike, 2), np.ones((1, 2 * rounds))])
        found = np.linalg.solve(system, given)
        return found[:-1].T, steep * np.square(at).sum(axis=1) + constant - (found * given).sum(axis=0), near

    def added(theta: Array, parts: Array) -> tuple[Array, Array]:
        weights, _, end = along(theta)
        changes = np.einsum("tk,kij->tij", weights, slopes) - pooled
        changes = np.vstack([changes[:rounds], np.einsum("k,kij->ij", parts, changes[rounds:])[None]])
        back = [np.linalg.solve(root, np.linalg.solve(root, by).T) for by in changes]
        changes = np.array([root @ floored(by, -0.5) @ root.T for by in back])  # half of the slope is kept
        if tilt is not None:
            ways = zip(changes[:-1], places, c * (end - x), strict=True)
            each = [tilt(curvature + a, place, way) for a, place, way in ways]
            changes = np.array([*(mean for mean, _ in each), sum(p * s for p, (_, s) in zip(parts, each, strict=True))])
            changes -= curvature
        return np.einsum("kij,kj->ki", changes[:-1], theta - places) - changes[-1] @ theta, curvature + changes[-1]

    def unsure(theta: Array) -> Array:
        _, variances, _ = along(theta)
        far = np.square(theta - places).sum(axis=1)
        return np.asarray(0.5 * (1.0 + 1.0 / d) * np.maximum(variances[:rounds] - least, 0.0) * far)

    return added, unsure


class Parts(NamedTuple):
    """Factors and numbers, of which more than two moments are known, as forms of z."""

    one: Array  # `one` @ z is 1; shape (d,)
    factors: list[Array]  # Row k of each is 1 of its level k and 0 of others; shape (levels, d)
    numbers: Array  # Shape (k, d)
    lows: Array  # Their bounds, shape (k,)
    highs: Array


def parts_of(plan: Plan, rows: Array, curved: Curvature) -> Parts:
    """Numbers, and factors each level of which is clear of the noise of slopes, in coordinates z = `rows` @ x."""
    back, sd, n = np.linalg.inv(rows), math.sqrt(float(curved.variances.mean())), plan.numbers
    factors = [forms @ back for forms in plan.cells]
    clear = [sd * np.square(one).sum(axis=1) < CLEAR * np.diag(one @ curved.mean @ one.T) for one in factors]
    factors = [one for one, good in zip(factors, clear, strict=True) if good.all()]
    return Parts(np.asarray(back[0]), factors, np.asarray(back[n]), plan.lows[n], plan.highs[n])


def celled(parts: Parts, slope: Array, move: Array) -> tuple[Array, Array, Array]:
    """Sizes, shape (cells,), and means of z, (cells, d), of cells of rows, and the covariance within them, (d, d).

    By weights m of which `slope` is E m z z'. Cells are those of two factors, and three points of a number, a beta
    variable between its bounds: of those that differ most along `move`.
    """
    one, numbers = parts.one, parts.numbers
    some = sorted(parts.factors, key=lambda f: -np.ptp(f @ slope @ move / np.diag(f @ slope @ f.T)))[:2]
    sizes, by = np.array([one @ slope @ one]), np.vstack([one, *(forms[1:] for forms in some)])
    if some:
        both = some[0] @ slope @ some[-1].T
        sizes = np.maximum(both.ravel() if len(some) > 1 else np.diag(both), 1e-12)
    each = np.indices([len(forms) for forms in some]).reshape(len(some), len(sizes))
    cells = [np.ones((len(sizes), 1)), *(np.eye(len(f))[k, 1:] for f, k in zip(some, each, strict=True))]
    means = np.hstack(cells) @ np.linalg.solve(by @ slope @ by.T, by @ slope)
    about = floored((slope - (means.T * sizes) @ means) / sizes.sum(), 0.0)
    if len(numbers):
        lines = about @ numbers.T
        sds = np.sqrt(np.maximum(np.einsum("kd,dk->k", numbers, lines), 1e-12))
        k = int(np.abs(move @ (lines / sds)).argmax())
        line, x = lines[:, k] / sds[k], numbers[k]
        mean, square = np.array([one, x]) @ slope @ x / (one @ slope @ one)
        sd = math.sqrt(max(square - mean**2, 1e-12))
        at, chances = beta((mean - parts.lows[k]) / sd, (parts.highs[k] - mean) / sd)
        means = (means + np.multiply.outer(at, line)[:, None]).reshape(-1, len(one))
        sizes, about = np.outer(chances, sizes).ravel(), about - np.outer(line, line)
    return sizes, means, about


def beta(near: float, far: float) -> tuple[Array, Array]:
    """Three points, and their chances, that have five moments of a beta variable of mean 0, sd 1 on (-near, far)."""
    near, far = np.clip([near, far], 1e-3, NORMAL)
    size = max(near * far - 1.0, 1e-3) / (near + far)
    at, chances = roots_jacobi(3, size * far - 1.0, size * near - 1.0)
    chances, at = chances / chances.sum(), 0.5 * (near + far) * at
    at = at - chances @ at
    return at / math.sqrt(float(chances @ at**2)), chances


def on_the_way(plan: Plan, rows: Array, curved: Curvature) -> Way | None:
    """Mean slope on a way from a state, and that at its end, as functions of the slope there, the state and the way.

    Of exponential means, and of logits whose predictors have no offset, in coordinates z = `rows` @ x; None of other
    scores, as of gaps between cut points.
    """
    back, d = np.linalg.inv(rows), len(rows)
    gaps = plan.cuts.size and plan.rules.shape.a
    if plan.rules.scoring.curved and plan.rules.link == "log":
        return partial(tilted, parts_of(plan, rows, curved))
    if gaps or plan.shifted or not plan.rules.scoring.curved or plan.rules.link != "logit":
        return None
    return partial(leaning, back.T @ (np.linalg.pinv(plan.cuts + np.eye(d)[0]) if plan.cuts.size else np.eye(d)[:, :1]))


def tilted(parts: Parts, slope: Array, _: Array, move: Array) -> tuple[Array, Array]:
    """Mean of an exponential mean's slope E m z z' on the way along `move`, and the slope there.

    e^(z'move) turns moments of z by weights m as if rows were normal within each of the cells of `celled`. Half of the
    slope is kept, so that no step is longer than twice the straight one, and a tenth at the end.
    """
    (sizes, means, about), out = celled(parts, slope, move), []
    for part in (0.0, 0.5, 1.0):
        at = means + part * about @ move
        levels = sizes * np.exp(np.minimum(part * 0.5 * (means + at) @ move, 5.0))
        out.append((at.T * levels) @ at + levels.sum() * about)
    return kept(slope, (out[0] + 4.0 * out[1] + out[2]) / 6.0, 0.5), kept(slope, out[2], 0.1)  # Simpson's rule


def kept(slope: Array, later: Array, part: float) -> Array:
    """A slope on the way from `slope`, of which a part is left in any direction at least."""
    root = np.linalg.cholesky(slope)
    back = np.linalg.solve(root, np.linalg.solve(root, later).T)
    return np.asarray(root @ floored(np.asarray(back), part) @ root.T)


def leaning(forms: Array, slope: Array, place: Array, move: Array) -> tuple[Array, Array]:
    """Mean of a slope Σ_k E π_k (1 − π_k) z_k z_k' of logits on the way from `place` along `move`, and at its end.

    Rows by these weights are taken as normal, with the moments that the slope says: see "Levels in order" in
    docs/sums.md. Column k of `forms`, shape (d, K), is 1 of rows of logit k and 0 of others.
    """
    levels = np.einsum("dk,de,ek->k", forms, slope, forms)
    means = (slope @ forms / levels).T
    about = (slope - (means.T * levels) @ means) / levels.sum()
    # predictors before and along the way, and what goes with them, by independent u
    values, vectors = np.linalg.eigh(np.stack([place, move]) @ about @ np.stack([place, move]).T)
    root, (u, chance) = vectors * np.sqrt(np.maximum(values, 0.0)), _normal_pairs()
    by = about @ np.stack([place, move]).T @ vectors / np.sqrt(np.maximum(values, 1e-12))
    eta, way = np.moveaxis((u @ root.T)[:, None, :] + np.stack([means @ place, means @ move], axis=1), -1, 0)
    z, out = means[:, None, :] + u @ by.T, []
    for part in (0.0, 0.5, 1.0):
        there = eta + part * way  # π(1 − π) is 1/(e^½η + e^−½η)²
        ratios = np.exp(2.0 * (np.logaddexp(0.5 * eta, -0.5 * eta) - np.logaddexp(0.5 * there, -0.5 * there)))
        sizes = levels[:, None] * chance * ratios.T
        out.append(np.einsum("kn,knd,kne->de", sizes, z, z) + sizes.sum() * (about - by @ by.T))
    return (out[0] + 4.0 * out[1] + out[2]) / 6.0, out[2]  # Simpson's rule


@cache
def _normal_pairs() -> tuple[Array, Array]:
    """Pairs of independent normal numbers, shape (225, 2), and their weights, for Gauss–Hermite integrals."""
    points, weights = np.polynomial.hermite_e.hermegauss(15)
    pairs = np.stack(np.meshgrid(points, points), axis=-1).reshape(-1, 2)
    return pairs, np.outer(weights, weights).ravel() / weights.sum() ** 2


def clipped(rules: Rules, moves: Array, weights: Array, curvature: Array, points: Array, one: Array) -> Array:
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
    r = ndtri((np.arange(ERRORS) + 0.5) / ERRORS) / ratio
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
    alone = np.interp(shifts, fine, score) / np.maximum(np.interp(shifts, fine, slope), 1.0 / ERRORS)
    half = len(shifts) // 2
    alone = np.concatenate([np.minimum.accumulate(alone[half::-1])[:0:-1], np.maximum.accumulate(alone[half:])])
    return shifts, alone, np.maximum.accumulate(normal[half:])
