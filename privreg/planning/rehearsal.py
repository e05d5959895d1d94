"""A fit rehearsed on expected reports: the collector's own states and estimate, with no person and no row of anybody.

What a round's records report is replaced by its mean over assumed people, with noise of the size that its sum would
have; everything else is the fit's: its rounds, states, law, posterior of the curvature, weights and covariance.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector import rounds as collector
from privreg.collector.design import Batch
from privreg.collector.estimation import coordinates, reference
from privreg.collector.estimation.estimate import estimate
from privreg.collector.plan import Plan, Progress
from privreg.families.logistic import class_shares, farthest
from privreg.protocol.rounds import State
from privreg.protocol.schedule import ENDLESS
from privreg.simulation import devices
from privreg.simulation.devices import Devices
from privreg.simulation.streaming.encoding import Block

POINTS: Final = 512  # Points of a distribution of several predictors
STEP: Final = 1e-3  # Step of a predictor, in differences that stand for derivatives


class People(NamedTuple):
    """Assumed people, equally likely; internal units, columns in the order inside."""

    x: Array  # shape (m, d)
    eta: Array  # Linear predictors of the response; shape (m, b)
    scale: Array  # Sd of the residual; shape (m,)
    y: Array  # Responses where moments or locations are told of them; shape (m,)
    persons: Block | None = None  # People with their rows, of which the above are, where a report is of several


def rehearse(
    plan: Plan, people: People, rng: np.random.Generator | None, sign: float = 1.0, begun: Progress | None = None
) -> Array:
    """Hold all rounds of a plan, with its number of records; the covariance that the fit would estimate.

    Internal units; shape (b d, b d).
    `rng` is of the noise, None for reports without; `sign` is −1 for the opposite noise. `begun` is the progress after
    the rounds on location, of a plan with other numbers of records; see `silent`.
    """
    assert plan.rows is not None
    progress = _resumed(plan, begun)
    while True:
        size = plan.people(progress)
        last = size == ENDLESS
        if progress.state.role == "measures":
            break
        size = max(plan.rows - sum(progress.held), 1) if last else size
        reports = _reports(plan, progress.state, people, size, rng, sign)
        if last:
            progress = collector.scored(plan, progress, reports)
            break
        progress = collector.advance(plan, progress, reports)
        if plan.blocks > 1 and progress.points is not None and len(progress.points) > POINTS:  # each costs time
            some = np.random.Generator(np.random.PCG64(POINTS)).permutation(len(progress.points))[:POINTS]
            progress = progress._replace(points=progress.points[np.sort(some)])
    found = estimate(plan, progress)
    assert found is not None
    linear = coordinates.linear(plan, progress.state)
    return linear @ found.cov @ linear.T


def silent(plan: Plan, people: People, begun: Progress | None = None) -> Progress:
    """Progress after the rounds on location or, `begun` there, after all before the pilot: reports without noise."""
    progress = _resumed(plan, begun)
    while progress.state.role == "location" if begun is None else progress.fitted is None:
        reports = _reports(plan, progress.state, people, plan.people(progress), None, 1.0)
        progress = collector.advance(plan, progress, reports)
    return progress


def _resumed(plan: Plan, begun: Progress | None) -> Progress:
    """Progress of another plan's rounds, as if this plan had held them; the beginning if there is none."""
    progress = collector.begin(plan) if begun is None else begun
    return progress._replace(held=tuple(r.people for r in plan.rounds[: len(progress.held)]))


def enough_in_main(plan: Plan, people: People, begun: Progress, enough: float) -> bool:
    """True if there are enough records in main rounds."""
    assert plan.rows is not None
    most = plan.rows - sum(r.people for r in plan.rounds if r.role != "main" and not r.optional)
    optional = sum(r.people for r in plan.rounds if r.optional)
    if most < enough or most - optional >= enough:
        return most >= enough
    held = silent(plan, people, begun).held
    return most - sum(k for k, r in zip(held, plan.rounds, strict=False) if r.optional) >= enough


def bread(plan: Plan, people: People) -> Array:
    """Curvature of the mean score at the truth, whitened covariates, one predictor; shape (d, d)."""
    z = np.linalg.solve(np.linalg.cholesky(people.x.T @ people.x / len(people.x)), people.x.T).T
    here = people.eta[:, 0]
    kappa = np.ones(len(z))
    if plan.blocks == 1 and plan.rules.scoring.predicted:
        kappa = plan.rules.scoring.moments(plan.rules, here, here, 1.0, people.scale, brief=True)[1]
    elif plan.blocks > 1:
        share = class_shares(people.eta)[:, 1:]
        kappa = (share * (1.0 - share)).min(axis=1)
    weight = np.abs(kappa) / np.linalg.norm(z, axis=1)
    return np.asarray((z * weight[:, None]).T @ z / len(z))


def _reports(
    plan: Plan, state: State, people: People, size: int, rng: np.random.Generator | None, sign: float
) -> Batch:
    """Sums of the reports of a round of `size` records.

    Of means, shape (groups, numbers), and spread: the sd of one report's numbers, or a root of their covariance.
    """
    if state.role == "clamping":  # which tells nothing of coefficients
        return Batch(size, np.zeros((1, 1, plan.numbers(state.role))), np.full((1, 1), float(size)))
    sd, m, groups = plan.sd(state.role), len(people.x), len(state.offsets)
    if state.role == "location":
        columns = [_response(state, people.y) if j == plan.d else people.x[:, j] for j in plan.unscaled]
        mean = np.array([[(v > t).mean() for v, t in zip(columns, row, strict=True)] for row in state.thresholds])
        spread = np.full(mean.shape[1], math.hypot(sd, 0.5))
    elif (rows := people.persons) is not None:  # by their devices
        each = Block._make(None if c is None else np.concatenate([c] * groups) for c in rows)
        made = Devices(plan, state, None).before_noise(each)[0].reshape(groups, len(rows.y), -1)
        mean = made.mean(axis=1)
        left = (made - mean[:, None]).reshape(groups * len(rows.y), -1)
        if state.role == "moments":
            spread = np.sqrt(sd**2 + left.var(axis=0))
        else:
            sampled = left.T @ left / len(left) if plan.mechanism.additive else 0.0
            spread = np.linalg.cholesky(sd**2 * np.eye(left.shape[1]) + sampled)
    elif state.role == "moments":
        more = [np.ones((m, plan.extra)), people.x]
        if plan.layout.response:
            more.append((_response(state, people.y) if plan.added is None else np.zeros(m))[:, None])
        v = np.concatenate(more, axis=1)
        if plan.label:
            first = not any(r.role == "moments" for r in plan.rounds[: state.number])
            mean = (devices.public_sizes if first else devices.public_moments)(state, v) / m
            spread = np.zeros(mean.shape[1])
        else:
            mean = devices.moments(state, v, None) / m
            spread = np.full(mean.shape[1], math.hypot(sd, 1.0 / v.shape[1]))
    else:
        mean, spread = _scores(plan, state, people)
    records = size / len(mean)
    if rng is not None:
        normal = sign * rng.standard_normal(mean.shape)
        mean = mean + (normal @ spread.T if spread.ndim == 2 else normal * spread) / math.sqrt(records)
    return Batch(size, mean[None] * records, np.full((1, len(mean)), records))


def _response(state: State, y: Array) -> Array:
    return np.asarray((y - state.y_centre) / state.y_scale)


def _scores(plan: Plan, state: State, people: People) -> tuple[Array, Array]:
    """Mean score reports, shape (groups, numbers), and a root of one report's covariance, shape (numbers, numbers)."""
    rules, scoring, blocks, c = plan.rules, plan.rules.scoring, plan.blocks, state.c
    z = people.x @ state.rows.T if len(state.rows) == plan.d else people.x * state.rows[0] + state.rows[1]
    if len(state.rows) != plan.d:
        z[:, 0] = people.x[:, 0] * state.rows[0, 0]
    model = reference.reference_of(rules, z, blocks=blocks, unit=not plan.label, longest=state.longest)
    wz, unit = z * (model.weight / len(z))[:, None], model.points * model.weight[:, None]
    # the predictor at which the law of the response has its coefficients, and the sd about it
    there, scale = people.eta[:, 0], people.scale
    if not scoring.predicted:
        scale = np.asarray(people.scale / state.y_scale, dtype=np.float64)
        there = _response(state, there) + rules.centre * scale
    score, number = np.zeros(len(z)), 0.0
    if blocks > 1:
        law, means = class_shares(people.eta), []
        for offset in state.offsets:
            here = class_shares(z @ (state.theta + offset).reshape(blocks, -1).T)
            means.append((((here - law)[:, 1:] / farthest(here)[:, None]).T @ wz).reshape(-1))
        mean = np.array(means)
    else:
        here = z @ state.theta
        if scoring.predicted:
            low, score, high = (
                scoring.moments(rules, here + h, there, c, scale, brief=True)[0] for h in (-STEP, 0.0, STEP)
            )
            slope = (high - low) / (2.0 * STEP)
        elif state.kappa > 0.0:
            score, slope, _, each, *_ = scoring.moments(rules, here, there, c, scale)
            slope, number = -slope, float(each.mean())
        else:
            score, slope = scoring.moments(rules, here, there, c, scale, brief=True)
            slope = -slope
        mean = wz.T @ score + state.offsets @ ((z * slope[:, None]).T @ wz)
    sd = plan.sd(state.role)
    noise = sd**2 * np.eye(plan.size)
    limits = (plan.y_low - state.y_centre) / state.y_scale, (plan.y_high - state.y_centre) / state.y_scale
    if plan.label:
        at, mean_score = (model, state.theta, c, sd, limits), None if plan.mechanism.additive else score
        noise = reference.public_noise(*at, plan.function, state.kappa, mean=mean_score)
    if plan.mechanism.additive and blocks > 1:
        noise = noise + np.kron(np.eye(blocks), 1.0 / (2.0 * blocks * len(unit)) * unit.T @ unit)
    elif plan.mechanism.additive:
        square = scoring.square(rules, model.points @ state.theta, there, c, scale)
        noise = noise + (unit * square[:, None]).T @ unit / len(unit)
    root: Array = np.asarray(np.linalg.cholesky(noise), dtype=np.float64)
    if state.kappa > 0.0:
        mean = np.column_stack([mean, np.full(len(mean), state.kappa * number)])
        wider = np.zeros((len(root) + 1, len(root) + 1))
        wider[:-1, :-1], wider[-1, -1] = root, math.hypot(sd, 0.5 * state.kappa)
        root = wider
    return mean, root
