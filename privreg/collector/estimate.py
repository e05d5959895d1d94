"""From all that rounds reported to the coefficients, their covariance and measures of fit. Reports only."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector import combination, coordinates, curvature, law, many
from privreg.collector.coordinates import reference
from privreg.collector.plan import Estimated, Frame, Local, Many, Plan, Progress, Seen
from privreg.families import measures
from privreg.options.threads import one_thread
from privreg.protocol.rounds import Reports, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from privreg.arrays import Array
    from privreg.collector.combination import Combined
    from privreg.collector.law import Law
    from privreg.families.measures import Measure

WIDE_CORNER: Final = 2.0
"""Corner of a round, relative to the last, up to which it enters the estimate."""

TURNS: Final = 3
"""Times that rounds are carried by secants to the estimate before, at most."""

REACH: Final = 0.5
"""Length from the mean state, on the scale of the predictor, up to which curvature is looked up by the law."""

FLATTEST: Final = 0.01
"""Least singular value of a slope, relative to its largest, that is inverted as it is."""

WRONG: Final = 0.3
"""Sd of the law's error in the variance of scores, relative to it.

For the covariate of "two peaks" (`benchmarks.validity`) the law's variance is a third too small. With it alone,
intervals at μ = 8 cover 89 and 91%; with `scattered`, 94 and 95%."""

SPREAD: Final = 7.0
"""Sd of the logarithm of a covariate's spread relative to the residuals' scale's, where curvature goes with the
coefficients and bounds are far away (`coordinates.unbound`): second moments, which the law has of covariates, may be
those of a few records far out. Without it, and without what following states tell, z-scores of the slope of "yes, few
far out" had a mean square of 4.7 at μ = 8."""

SETTLED: Final = 0.1
"""Standard errors by which an estimate may still move then."""


def framed(plan: Plan, progress: Progress, said: Law, theta: Array, scale: float, *, nearby: bool = False) -> Frame:
    """Rounds in coordinates in which the reference model has M = I: equations (21) and (22) of docs/estimator.md.

    The model is taken at `theta`, shape (b d,); with `nearby`, as linear between that and all states.
    """
    main, rounds = progress.main, counted(plan, progress)
    last = main[-1]
    local = _local(plan, progress, said, theta, scale)
    inverse = np.linalg.inv(local.root)
    own = local.root @ local.root.T
    noise = inverse @ local.noise[_kind(last)] @ inverse.T
    size = float(np.trace(noise))
    out, maps, bends = [], [], []
    for one in rounds:
        weight = one.weight.sum(axis=0)
        mean = one.score.sum(axis=0) / np.maximum(weight, 1e-300)[:, None]
        map_ = local.map
        if not nearby or one.state.corner != last.state.corner:
            here = law.secant(said, one.state.theta, one.state.corner, theta, scale)
            map_ = inverse @ own @ np.linalg.inv(_kept(here))
        states = (one.state.theta + one.state.offsets) @ local.root
        # a joint report's noise is larger, and another corner's score is scaled
        times = float(np.trace(map_ @ local.noise[_kind(one)] @ map_.T)) / size if size > 0.0 else 1.0
        maps.append(map_)
        bends.append(local.bends[_offset(one.state)])
        out.append(curvature.Answered(states, (mean - bends[-1]) @ map_.T, weight / max(times, 1e-12)))
    common = curvature.UNSCALED if said.scaled else curvature.COMMON
    moving = plan.rules.moving
    return Frame(out, len(main), _gain(plan, local.root, noise, out), noise, local, maps, bends, common, moving)


def _gain(plan: Plan, root: Array, noise: Array, rounds: list[curvature.Answered]) -> Array:
    """Part of the way that states went, shape (q, q), if curvature is about the law's."""
    if not plan.rules.moving:
        return curvature.gain(noise, moving=False)
    most = max(float(r.weight.sum()) for r in rounds)
    back = np.linalg.inv(root.T)
    gain = curvature.gain(back @ noise @ back.T / max(most, 1e-300), moving=True)
    return np.asarray(root.T @ gain @ back)


def _local(plan: Plan, progress: Progress, said: Law, theta: Array, scale: float) -> Local:
    """What the law says at `theta` of reports of the rounds so far; what is known is kept where it is the same."""
    rounds, last = counted(plan, progress), progress.main[-1].state
    kinds, offsets = {_kind(one): one for one in rounds}, {_offset(one.state): one.state for one in rounds}
    known = progress.local
    if known is not None and known.fixed:
        same = (known.corner, known.scale) == (last.corner, scale)
        if same and kinds.keys() <= known.noise.keys() and offsets.keys() <= known.bends.keys():
            return known
    own = _symmetric(law.secant(said, theta, last.corner, theta, scale))
    root = np.asarray(np.linalg.cholesky(own), dtype=np.float64)
    inverse = np.linalg.inv(root)
    return Local(
        last.corner,
        scale,
        said.scaled and not plan.label,
        root,
        inverse @ own @ np.linalg.inv(_kept(own)),
        inverse @ _slopes(plan, progress, said, theta, scale) @ inverse.T,
        {kind: _noise(plan, said, theta, scale, one) for kind, one in kinds.items()},
        {at: _bend(plan, said, theta, state, scale) for at, state in offsets.items()},
    )


def _slopes(plan: Plan, progress: Progress, said: Law, theta: Array, scale: float) -> Array:
    """What curvature changes by as the reference model may be wrong, (k, q, q): equation (15) of docs/estimator.md."""
    last = progress.main[-1].state
    out = law.slopes(said, theta, last.corner, scale) / math.sqrt(plan.size)
    if not plan.rules.moving or plan.wide is not None or plan.size > curvature.MOST:
        return out
    at = last.rows[: plan.d, : plan.d], theta, last.corner, scale
    more = law.spreads(said, *at, constant=plan.layout.constant, unit=not plan.label)
    return np.concatenate([out, SPREAD * coordinates.unbound(plan, progress, last)[:, None, None] * more])


def _kind(one: Seen) -> tuple[float, float]:
    """Weight of the number of a joint report, and the corner: what a report's noise depends on of a round."""
    return one.state.kappa, one.state.corner


def _noise(plan: Plan, said: Law, theta: Array, scale: float, one: Seen) -> Array:
    """Second moments of a round's report, noise included, (b d, b d); for equation (22) of docs/estimator.md."""
    corner, kappa, limits = one.state.corner, one.state.kappa, _limits(plan, one.state)
    if not plan.mechanism.additive:  # what is sent has the same size whatever the score
        if plan.label:
            mean = law.means(said, theta, corner, theta, scale)
            return law.public_answers(said, theta, corner, mean, one.sd, limits, plan.function, kappa)
        if kappa > 0.0:
            return one.sd**2 * np.eye(plan.size)
        return plan.mechanism.sent(law.directions(said), plan.radius("main"))
    noise = one.sd**2 * np.eye(plan.size)
    if plan.label:
        noise = one.sd**2 * law.public_noise(said, theta, corner, limits, plan.function, kappa)
    return noise + law.variance(said, theta, corner, theta, scale)


def _offset(state: State) -> tuple[bytes, float]:
    """What `_bend` depends on of a state: offsets of all opposite signs add the same."""
    return (state.offsets.T @ state.offsets).tobytes(), state.corner


def _bend(plan: Plan, said: Law, theta: Array, state: State, scale: float) -> Array:
    """What groups' offsets add to mean reports of a state by the law, as scores are bent.

    Nothing if errors are symmetric; skewness, which nobody knows, remains in the estimand.
    """
    if not state.offsets.any() or not (plan.rules.moving or plan.rules.centre != 0.0):
        return np.zeros(plan.size)
    return law.bend(said, theta, state.offsets.T @ state.offsets / len(state.offsets), state.corner, scale)


def counted(plan: Plan, progress: Progress) -> list[Seen]:
    """Rounds of which the estimate is made: main ones, and the last of the pilot if their corner is about the same.

    Of hinges and the like, of quantiles but the median and of expectiles main ones alone: the law doesn't tell what
    their scores are far from the estimate, where the density is another one, or at another corner. With two rounds of
    the pilot, coefficients of 0.9 quantiles with skewed errors were off by a tenth of an error more and covered 86%
    instead of 88% (50,000 records).
    """
    main, rules = progress.main, plan.rules
    if (rules.moving and rules.track) or rules.centre != 0.0 or progress.since > 0:
        return main
    corner = WIDE_CORNER * main[-1].state.corner
    pilots = [s for s in progress.seen if s.state.role == "pilot" and s.state.corner < corner and s.weight.any()]
    return [*pilots[-2:], *main]


def equation(plan: Plan, progress: Progress, found: Estimated) -> tuple[Array, Array, Array, Array]:
    """What the estimate solves, Σ_j a_j E ω z ψ_j(z'(θ + δ_j), y) = e: equation (40) of docs/estimator.md.

    Returns
    -------
    ndarray, shape (m,)
        Weights a, sum 1: of the rounds in the estimate, divided among groups as reports were.
    ndarray, shape (m,)
        Corners of ψ.
    ndarray, shape (m, b d)
        Offsets δ of the groups, coordinates of the scores. States with the same corner and offset count together.
    ndarray, shape (b d,)
        What offsets add by the law, e.
    """
    rounds, weights = counted(plan, progress), None if found.combined is None else found.combined.weights
    if found.many is not None:
        rounds, weights = progress.main, found.many.found.weights
    assert weights is not None
    last, theta = rounds[-1].state, found.theta
    parts: dict[tuple[float, bytes], float] = {}
    bends = [np.zeros(plan.size)] * len(rounds) if found.frame is None else found.frame.bends
    bend = np.zeros(plan.size)
    for k, (one, share) in enumerate(zip(rounds, weights.tolist(), strict=True)):
        state, each = one.state, one.weight.sum(axis=0)
        if state.corner != last.corner and found.many is None and progress.fitted is not None:
            # a report's mean is carried by its own curvature
            said, scale = reference(plan, progress), progress.fitted.scale
            own, here = (law.secant(said, theta, c, theta, scale) for c in (last.corner, state.corner))
            share *= float(np.trace(own @ np.linalg.inv(_kept(here)))) / len(theta)
        bend += share * bends[k]
        for offset, weight in zip(state.offsets, (share * each / each.sum()).tolist(), strict=True):
            at = state.corner, (offset + 0.0).tobytes()
            parts[at] = parts.get(at, 0.0) + weight
    out = np.array(list(parts.values()))
    offsets = np.array([np.frombuffer(given) for _, given in parts])
    return out / out.sum(), np.array([c for c, _ in parts]), offsets, bend / out.sum()


def _limits(plan: Plan, state: State) -> tuple[float, float]:
    """Public limits of the response, in units of the learned scale."""
    return (plan.y_low - state.y_centre) / state.y_scale, (plan.y_high - state.y_centre) / state.y_scale


def _symmetric(matrix: Array) -> Array:
    """Symmetric, with eigenvalues whose roots can be divided by: far off the law may tell no curvature at all."""
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (matrix + matrix.T)))
    top = float(values[-1])
    values = np.maximum(values, FLATTEST * (top if top > 0.0 else 1.0))
    return np.asarray((vectors * values) @ vectors.T)


def _kept(matrix: Array) -> Array:
    """With singular values that can be divided by."""
    u, values, v = np.linalg.svd(np.nan_to_num(matrix))
    return np.asarray((u * np.maximum(values, FLATTEST * (float(values[0]) or 1.0))) @ v)


def answered(plan: Plan, progress: Progress, theta: Array) -> list[many.Answered]:
    """Rounds of which the estimate is made, with their curvature up to `theta`."""
    box = progress.box
    assert box is not None
    assert progress.fitted is not None
    main = progress.main
    out = []
    for one in main:
        weight = one.weight.sum(axis=0)
        mean = one.score.sum(axis=0) / np.maximum(weight, 1e-300)[:, None]
        at = one.state.theta, one.state.corner, theta, progress.fitted.scale
        small = many.curve(plan.rules, box, *at) * progress.scatter.answering
        square = many.square(plan.rules, box, *at) * progress.scatter.answering if plan.mechanism.additive else 0.0
        out.append(many.Answered(one.state.theta, one.state.offsets, mean, weight, small, one.sd**2, square))
    return out


def _estimate_of_many(plan: Plan, progress: Progress) -> Estimated:
    box = progress.box
    assert box is not None
    theta = progress.state.theta
    for _ in range(3):
        rounds = answered(plan, progress, theta)
        learned = many.learn(rounds, box)
        found = many.combine(rounds, box, learned)
        theta = found.theta
    eye = np.eye(plan.size)
    cov, unknown = found.covariance(box, eye), found.covariance(box, eye, whole=False)
    return Estimated(theta, cov, unknown, None, None, None, Many(rounds, learned, found))


@one_thread()
def estimate(plan: Plan, progress: Progress) -> Estimated | None:
    """Coefficients from all rounds so far; None before a main round has begun.

    Equations (21) to (36) of docs/estimator.md, all but the last at each of at most three estimates in turn.
    """
    if progress.final is not None:
        return progress.final
    if not progress.main:
        return None
    assert progress.fitted is not None
    if plan.many:
        return _estimate_of_many(plan, progress)
    said, scale = reference(plan, progress), progress.fitted.scale
    at = progress.state.theta
    for _ in range(TURNS):
        before = at
        frame = framed(plan, progress, said, at, scale)
        learned = frame.learned()
        found = combination.combine(frame.rounds, frame.noise, learned, brief=True)
        theta = np.asarray(np.linalg.solve(frame.root.T, found.x), dtype=np.float64)
        at = theta
        if plan.rules.moving:  # far from all states curvature is the law's alone, and noise would choose it
            away = np.linalg.solve(frame.root.T, found.moved)
            at = theta + away * (1.0 - min(1.0, REACH / max(float(np.linalg.norm(away)), 1e-300)))
        moved = frame.root.T @ (at - before)
        if (moved**2 < SETTLED**2 * np.diag(found.cov)).all():  # which may be 0 where the law has no spread
            break
    noise = scattered(plan, progress, frame, learned.mean)
    found = combination.combine(frame.rounds, frame.noise, learned, scattered=noise)
    more = _of_scale(plan, progress, said, at, frame, found, learned.mean)
    found = found._replace(cov=found.cov + more, unknown=found.unknown + more)
    theta = _possible(plan, progress.state, theta)
    back = np.linalg.inv(frame.root.T)
    return Estimated(theta, back @ found.cov @ back.T, back @ found.unknown @ back.T, found, learned, frame)


def scattered(plan: Plan, progress: Progress, frame: Frame, m: Array) -> Array:
    """Covariance of a report, by how cells scatter about the line of slope `m`: equation (32) of docs/estimator.md.

    The law counts as if that many degrees of freedom had told it as a variance with its error would have. At μ = 1
    that is thousands, where 15 rounds of 8 parts and 16 groups have 1,900; at μ = 8 it is some thirty. The law's is the
    least: for a number that 5% of the records have, else 0, it is twice too large, but so is the curvature learned, and
    without it intervals covered 88% (20,000 records, no noise).
    """
    prior = 2.0 / max(WRONG * plan.sampled, 1e-6) ** 2
    total, told = prior * frame.noise, -0.5 * (len(m) + 1.0)  # which the slope has taken
    for one, map_, answered in zip(progress.main, frame.maps[-frame.main :], frame.rounds[-frame.main :], strict=True):
        heard = one.weight > 0.0
        each = answered.weight.sum() / one.weight.sum()  # less where carrying a report makes its noise larger
        weight = each * one.weight[heard]
        left = each * (one.score[heard] / weight[:, None]) @ map_.T - (answered.x @ m)[np.nonzero(heard)[1]]
        left = (left - weight @ left / weight.sum()) * np.sqrt(weight)[:, None]
        total = total + left.T @ left
        told += len(weight) - 1.0
    if told <= 0.0:
        return frame.noise
    return combination.at_least(total / (prior + told), frame.noise)


def _of_scale(plan: Plan, progress: Progress, said: Law, at: Array, frame: Frame, found: Combined, m: Array) -> Array:
    """Part of the covariance that comes of not knowing the residual scale by which offsets' bend is taken off."""
    fitted = progress.fitted
    assert fitted is not None
    sd = math.sqrt(max(float(fitted.cov[-1, -1]), 0.0))
    apart = np.zeros(plan.size)
    if said.scaled and any(bend.any() for bend in frame.bends):
        known: dict[tuple[bytes, float], Array] = {}
        for one, share, map_ in zip(counted(plan, progress), found.weights.tolist(), frame.maps, strict=True):
            kind = _offset(one.state)
            if kind not in known:
                low, high = (_bend(plan, said, at, one.state, fitted.scale * math.exp(way * sd)) for way in (-1.0, 1.0))
                known[kind] = 0.5 * (high - low)
            apart += share * (map_ @ known[kind])
    shift = np.linalg.solve(combination.floored(m), apart)
    return np.outer(shift, shift)


def _possible(plan: Plan, state: State, theta: Array) -> Array:
    """Keep the location of a response alone inside its public limits."""
    if plan.size > 1 or not plan.layout.constant or plan.rules.moving:
        return theta
    return np.clip(theta, *_limits(plan, state))


def measured(plan: Plan, progress: Progress, reports: Reports, unit: float) -> tuple[Measure, ...]:
    """Measures of fit, as far as records have told.

    Parameters
    ----------
    plan : Plan
    progress : Progress
    reports : Reports
        Of the round on measures.
    unit : float
        Response units per internal unit.
    """
    m = plan.told
    if progress.gauge is None or reports.people <= m:
        return ()
    weight = float(reports.weight.sum())
    total = reports.total.sum(axis=(0, 1)) / weight
    mean = total[:m]
    cov = (total[m:].reshape(m, m) - np.outer(mean, mean)) / reports.people
    return measures.summarise(progress.gauge, mean, cov, unit * progress.state.y_scale)


def corrections(plan: Plan, progress: Progress, found: Estimated) -> tuple[Array, Array]:
    """One-step estimates of each part of each main round, in order, and their weights.

    Returns
    -------
    ndarray, shape (m, b d)
        Coordinates of the scores.
    ndarray, shape (m,)
        Weights of which their mean is about the estimate.
    """
    out, weights = [], []
    for one, share, carry in _carried(progress, found):
        each = one.weight.sum(axis=1)
        heard = each > 0.0
        mean = one.score.sum(axis=1)[heard] / each[heard, None]
        shift = (one.weight[heard] @ one.state.offsets) / each[heard, None]
        out.append(one.state.theta + shift + carry(mean))
        weights.append(share * each[heard] / each.sum())
    return np.concatenate(out), np.concatenate(weights)


def of_groups(progress: Progress, found: Estimated) -> tuple[Array, Array]:
    """One-step estimates of each random group over all main rounds, and their weights.

    Returns
    -------
    ndarray, shape (groups, b d)
        Coordinates of the scores.
    ndarray, shape (groups,)
        Weights of which their mean is about the estimate.
    """
    out, weights = np.zeros((1, 1)), np.zeros(1)
    for one, share, carry in _carried(progress, found):
        each = one.weight.sum(axis=0)
        mean = one.score.sum(axis=0) / np.maximum(each, 1e-300)[:, None]
        here = share * each / each.sum()
        out = out + here[:, None] * (one.state.theta + one.state.offsets + carry(mean))
        weights = weights + here
    return np.asarray(out / np.maximum(weights, 1e-300)[:, None]), weights


def _carried(progress: Progress, found: Estimated) -> Iterator[tuple[Seen, float, Callable[[Array], Array]]]:
    """Main rounds with their weights, and how far mean reports carry a state."""
    main = progress.main
    if found.many is not None:
        box, known = progress.box, found.many
        assert box is not None
        for one, answered, share in zip(main, known.rounds, known.found.weights, strict=True):
            yield one, float(share), partial(many.corrected, box, answered.small, known.learned)
        return
    frame = found.frame
    assert frame is not None
    assert found.combined is not None
    assert found.curvature is not None
    turn = np.linalg.solve(frame.root.T, np.linalg.inv(combination.floored(found.curvature.mean)))
    last = slice(-len(main), None)
    for one, map_, bend, share in zip(
        main, frame.maps[last], frame.bends[last], found.combined.weights[last], strict=True
    ):
        yield one, float(share), partial(_stepped, turn @ map_, bend)


def _stepped(matrix: Array, bend: Array, mean: Array) -> Array:
    return np.asarray((bend - mean) @ matrix.T)
