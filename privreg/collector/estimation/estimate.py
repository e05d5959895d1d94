"""Coefficients, their covariance and measures of fit from the reports of all rounds. Reports only."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.design import Batch
from privreg.collector.estimation import combination, curvature, reference
from privreg.collector.estimation.coordinates import reference_model
from privreg.collector.inference.methods import Steps
from privreg.collector.plan import SAMPLED, Carried, Estimated, Part, Plan, Progress
from privreg.families import measures
from privreg.families.measures import Measure
from privreg.options.running import one_thread

TURNS: Final = 3  # Iterations: in each, rounds are carried to the estimate before


@one_thread()
def estimate(plan: Plan, progress: Progress) -> Estimated | None:
    """Coefficients from all rounds so far; None before a main round has begun.

    At each of three estimates in turn it is equations (21) and (22) of docs/estimator.md, and equations (25) to (31) of
    docs/estimator.md; then equations (32) to (36) of docs/estimator.md.
    """
    if progress.final is not None or not progress.main:
        return progress.final
    assert progress.fitted is not None
    model, scale, far, at = reference_model(plan, progress), progress.fitted.scale, 0.0, progress.state.theta
    for _ in range(TURNS):
        carried = combination.carry_rounds(plan, progress, model, at, scale)
        learned = carried.learned()
        found = combination.combine(carried.rounds, carried.noise, learned, brief=True)
        theta = at = np.asarray(np.linalg.solve(carried.root.T, found.x), dtype=np.float64)
        # far from all states, on the scale of the predictor, curvature is the reference model's alone, and noise would
        # choose it
        if plan.rules.varying:
            away = np.linalg.solve(carried.root.T, found.moved)
            far = float(np.linalg.norm(away))
            at = theta + away * (1.0 - min(1.0, curvature.STEADY / max(far, 1e-300)))
            theta = theta + away * (1.0 - min(1.0, curvature.FAR / max(far, 1e-300)))  # no farther than one step
    noise, m = scattered(plan, progress, carried, learned.mean), curvature.floored(learned.mean)
    found = combination.combine(carried.rounds, carried.noise, learned, scattered=noise)
    counted = list(zip(combination.counted(plan, progress), found.weights.tolist(), carried.rounds, strict=True))
    # the bias by offsets depends on the residual scale, which is estimated
    sd, change = math.sqrt(max(float(progress.fitted.cov[-1, -1]), 0.0)), np.zeros(plan.size)
    if model.scaled and any(one.bias.any() for one in carried.rounds):
        known: dict[tuple[bytes, float], Array] = {}
        for one, share, answered in counted:
            if (kind := combination.offset_kind(one.state)) not in known:
                ends = (scale * math.exp(way * sd) for way in (-1.0, 1.0))
                low, high = (combination.offset_bias(plan, model, at, one.state, end) for end in ends)
                known[kind] = 0.5 * (high - low)
            change += share * (answered.map @ known[kind])
    shift = np.linalg.solve(m, change)
    if plan.size == 1 and plan.layout.constant and not plan.rules.varying:  # a location is within its public limits
        theta = np.clip(theta, *combination.limits(plan, progress.state))
    back, turn = np.linalg.inv(carried.root.T), np.linalg.solve(carried.root.T, np.linalg.inv(m))
    parts = [Part(one, share, answered.bias, turn @ answered.map) for one, share, answered in counted]
    cov, unknown = (back @ (part + np.outer(shift, shift)) @ back.T for part in (found.cov, found.unknown))
    return Estimated(theta, cov, unknown, parts, learned, carried, far)


def earlier(carried: Carried, linear: Array) -> list[tuple[Array, Array]]:
    """Estimates after each main round but the last, and variances of `linear` times them."""
    out, root = [], np.linalg.inv(carried.root.T)
    for fewer in range(carried.main - 1, 0, -1):
        learned = carried.learned(fewer, brief=True)
        here = combination.combine(carried.rounds[:-fewer], carried.noise, learned, brief=True)
        out.append((root @ here.x, np.asarray(((linear @ root @ here.cov) * (linear @ root)).sum(axis=1))))
    return out


def scattered(plan: Plan, progress: Progress, carried: Carried, m: Array) -> Array:
    """Covariance of a report, by how cells scatter about a line: equations (32) and (43) of docs/estimator.md.

    `m` is the line's slope. The reference model counts as if that many degrees of freedom had shown it as a variance
    with its error would have: thousands at μ = 1, where 15 rounds of 8 parts and 16 groups have 1,900; some thirty at μ
    = 8. It is the least: for a number that 5% of the records have, else 0, it is twice too large, but so is the
    curvature learned, and without it intervals covered 88% (20,000 records, no noise). Of reports of several rows the
    part without noise has any size from that of independent rows to that of equal ones.
    """
    sampled = 0.25 * SAMPLED / plan.d * plan.effective_mu(progress.state.longest) ** 2  # part of a report's error
    doubt = 1.0 - reference.MODELLED
    prior = 2.0 / max(doubt * sampled, 1e-6) ** 2
    least = carried.noise
    if plan.persons is not None and plan.mechanism.additive:  # (43): how alike a person's rows are isn't known
        model = reference_model(plan, progress)
        inverse = np.linalg.inv(carried.root)
        sampling = carried.noise - progress.main[-1].sd ** 2 * inverse @ inverse.T
        sampled = float(np.trace(sampling) / max(np.trace(carried.noise), 1e-300))
        wrong = math.hypot(doubt, (1.0 - model.least) / (1.0 + model.least) / math.sqrt(3.0))
        prior = 2.0 / max(wrong * sampled, 1e-6) ** 2
        least = carried.noise - (1.0 - model.least / model.square) * sampling
    total, freedom = prior * carried.noise, -0.5 * (len(m) + 1.0)  # which the slope has taken
    for one, answered in zip(progress.main, carried.rounds[-carried.main :], strict=True):
        heard = one.weight > 0.0
        each = answered.weight.sum() / one.weight.sum()  # less where carrying a report makes its noise larger
        weight = each * one.weight[heard]
        left = each * (one.score[heard] / weight[:, None]) @ answered.map.T - (answered.x @ m)[np.nonzero(heard)[1]]
        left = (left - weight @ left / weight.sum()) * np.sqrt(weight)[:, None]
        total = total + left.T @ left
        freedom += len(weight) - 1.0
    return combination.at_least(total / (prior + freedom), least) if freedom > 0.0 else carried.noise


def equation(plan: Plan, progress: Progress, found: Estimated) -> tuple[Array, Array, Array, Array]:
    """The estimating equation, Σ_j a_j E ω z ψ_j(z'(θ + δ_j), y) = e: equation (40) of docs/estimator.md.

    In order: weights a, sum 1, shape (m,), of the rounds in the estimate, divided among groups as reports were;
    thresholds c of ψ, (m,); offsets δ of the groups, coordinates of the scores, (m, b d); and the bias of offsets under
    the reference model, e, (b d,). States with the same threshold c and offset count together.
    """
    last, theta, added = progress.main[-1].state, found.theta, np.zeros(plan.size)
    weights: dict[tuple[float, bytes], float] = {}
    for part in found.parts:
        state, each, share = part.round.state, part.round.weight.sum(axis=0), part.weight
        if state.c != last.c:  # a report's mean is carried by its own curvature
            assert progress.fitted is not None
            model, scale = reference_model(plan, progress), progress.fitted.scale
            there, here = (reference.secant(model, theta, c, theta, scale) for c in (last.c, state.c))
            share *= float(np.trace(there @ np.linalg.inv(combination.kept(here)))) / len(theta)
        added += share * part.bias
        for offset, weight in zip(state.offsets, (share * each / each.sum()).tolist(), strict=True):
            at = state.c, (offset + 0.0).tobytes()
            weights[at] = weights.get(at, 0.0) + weight
    out = np.array(list(weights.values()))
    offsets = np.array([np.frombuffer(given) for _, given in weights])
    return out / out.sum(), np.array([c for c, _ in weights]), offsets, added / out.sum()


@one_thread()
def steps(plan: Plan, progress: Progress, found: Estimated, came: Sequence[int]) -> Steps:
    """One-step estimates by parts of main rounds, for windows of a stream: coordinates of the scores, shape (m, q).

    `came` are records by round, with those of the present one. Curvature is learned within rounds alone: differences
    between rounds show it only if nothing changes over time.
    """
    carried = found.carried
    answered, main = carried.rounds[-carried.main :], progress.main
    learned = curvature.learn(carried.rounds, carried.noise, carried.prior, slopes=carried.local.slopes)
    m, back = curvature.floored(learned.mean), np.linalg.inv(carried.root.T)
    ends, begin, weight, theta, places, means = [], [], [], [], [], []
    for k, (one, seen) in enumerate(zip(main, answered, strict=True)):
        each, at = one.weight.sum(axis=1), float(sum(came[: one.state.number]))
        edges = at + came[one.state.number] * np.cumsum(each) / each.sum()
        heard = each > 0.0
        g = (one.score.sum(axis=1)[heard] / each[heard, None] - seen.bias) @ seen.map.T
        x = (one.state.theta + (one.weight[heard] @ one.state.offsets) / each[heard, None]) @ carried.root
        theta.append((x - np.linalg.solve(m, g.T).T) @ back.T)
        weight.append(each[heard] * float(seen.weight.sum() / each.sum()))
        begin.append(np.append(at, edges[:-1])[heard])
        ends.append(edges[heard])
        places.append(np.full(int(heard.sum()), k))
        means.append(each[heard] @ g / each.sum())
    precise, unknown = combination.precision(learned, scattered(plan, progress, carried, learned.mean), np.array(means))
    at_begin, at_end, each, thetas, rounds = map(np.concatenate, (begin, ends, weight, theta, places))
    return Steps(at_begin, at_end, each, thetas, rounds, back @ precise @ back.T, unknown @ back.T)


def measured(plan: Plan, progress: Progress, reports: Batch, unit: float) -> tuple[Measure, ...]:
    """Measures of fit from the reports of their round so far; `unit` is the internal unit of the response."""
    m = plan.measured
    if progress.gauge is None or reports.people <= m:
        return ()
    total = reports.total.sum(axis=(0, 1)) / float(reports.weight.sum())
    mean = total[:m]
    cov = (total[m:].reshape(m, m) - np.outer(mean, mean)) / reports.people
    return measures.summarise(progress.gauge, mean, cov, unit * progress.state.y_scale)


def corrections(parts: Sequence[Part]) -> tuple[Array, Array]:
    """One-step estimates of each part of each main round, scores' coordinates, (m, b d), and their weights, (m,)."""
    out, weights = [], []
    for one, share, bias, carry in parts:
        each = one.weight.sum(axis=1)
        heard = each > 0.0
        mean = one.score.sum(axis=1)[heard] / each[heard, None]
        shift = (one.weight[heard] @ one.state.offsets) / each[heard, None]
        out.append(one.state.theta + shift + (bias - mean) @ carry.T)
        weights.append(share * each[heard] / each.sum())
    return np.concatenate(out), np.concatenate(weights)


def of_groups(parts: Sequence[Part]) -> tuple[Array, Array]:
    """One-step estimates of each group over all main rounds, scores' coordinates, (groups, b d), and their weights."""
    out, weights = np.zeros((1, 1)), np.zeros(1)
    for one, share, bias, carry in parts:
        each = one.weight.sum(axis=0)
        mean = one.score.sum(axis=0) / np.maximum(each, 1e-300)[:, None]
        here = share * each / each.sum()
        out = out + here[:, None] * (one.state.theta + one.state.offsets + (bias - mean) @ carry.T)
        weights = weights + here
    return np.asarray(out / np.maximum(weights, 1e-300)[:, None]), weights
