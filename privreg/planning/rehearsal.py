"""A fit rehearsed on expected reports: the collector's own states and estimate, with no person and no row of anybody.

What a round's records report is replaced by its mean over assumed people, with noise of the size that its sum would
have; everything else is the fit's: its rounds, states, law, posterior of the curvature, weights and covariance.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.collector import rounds as collector
from privreg.collector.estimation import coordinates, reference
from privreg.collector.estimation.estimate import estimate
from privreg.collector.plan import Plan, Progress
from privreg.families.logistic import class_shares, farthest
from privreg.protocol.rounds import Reports, State
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
    low = np.linalg.cholesky(people.x.T @ people.x / len(people.x))
    z = np.linalg.solve(low, people.x.T).T
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
) -> Reports:
    """Sums of the reports of a round of `size` records."""
    if state.role == "clamping":  # which tells nothing of coefficients
        return Reports(np.full((1, 1), float(size)), np.zeros((1, 1, plan.numbers(state.role))), size)
    if state.role == "location":
        mean, spread = _located(plan, state, people)
    elif people.persons is not None:
        mean, spread = _of_persons(plan, state, people.persons)
    elif state.role == "moments":
        mean, spread = _moments(plan, state, people)
    else:
        mean, spread = _scores(plan, state, people)
    each = size / len(mean)
    if rng is not None:
        normal = sign * rng.standard_normal(mean.shape)
        mean = mean + (normal @ spread.T if spread.ndim == 2 else normal * spread) / math.sqrt(each)
    weight = np.full((1, len(mean)), each)
    return Reports(weight, mean[None] * each, size)


def _of_persons(plan: Plan, state: State, rows: Block) -> tuple[Array, Array]:
    """Reports of devices of people with several rows: means, shape (groups, numbers), and spread as of the others."""
    groups, m = len(state.offsets), len(rows.y)
    each = Block._make(None if c is None else np.concatenate([c] * groups) for c in rows)
    made = Devices(plan, state, None).before_noise(each)[0].reshape(groups, m, -1)
    mean, sd = made.mean(axis=1), plan.sd(state.role)
    left = (made - mean[:, None]).reshape(groups * m, -1)
    if state.role == "moments":
        return mean, np.sqrt(sd**2 + left.var(axis=0))
    sampled = left.T @ left / len(left) if plan.mechanism.additive else 0.0
    return mean, np.linalg.cholesky(sd**2 * np.eye(left.shape[1]) + sampled)


def _located(plan: Plan, state: State, people: People) -> tuple[Array, Array]:
    """Mean reports on locations, shape (groups, k), and the sd of one report's numbers."""
    columns = [_response(state, people.y) if j == plan.d else people.x[:, j] for j in plan.unscaled]
    share = np.array([[(v > t).mean() for v, t in zip(columns, row, strict=True)] for row in state.thresholds])
    return share, np.full(share.shape[1], math.hypot(plan.sd("location"), 0.5))


def _moments(plan: Plan, state: State, people: People) -> tuple[Array, Array]:
    """Mean reports on moments, shape (1, numbers), and the sd of one report's numbers."""
    m = len(people.x)
    more = [np.ones((m, plan.extra)), people.x]
    if plan.layout.response:
        more.append((_response(state, people.y) if plan.added is None else np.zeros(m))[:, None])
    v = np.concatenate(more, axis=1)
    if plan.label:
        first = not any(r.role == "moments" for r in plan.rounds[: state.number])
        total = (devices.public_sizes if first else devices.public_moments)(state, v)
        return total / m, np.zeros(total.shape[1])
    mean = devices.moments(state, v, None) / m
    return mean, np.full(mean.shape[1], math.hypot(plan.sd("moments"), 1.0 / v.shape[1]))


def _response(state: State, y: Array) -> Array:
    return np.asarray((y - state.y_centre) / state.y_scale)


def _scores(plan: Plan, state: State, people: People) -> tuple[Array, Array]:
    """Mean score reports, shape (groups, numbers), and a root of one report's covariance, shape (numbers, numbers)."""
    z = people.x @ state.rows.T if len(state.rows) == plan.d else people.x * state.rows[0] + state.rows[1]
    if len(state.rows) != plan.d:
        z[:, 0] = people.x[:, 0] * state.rows[0, 0]
    own = reference.reference_of(plan.rules, z, blocks=plan.blocks, unit=not plan.label, longest=state.longest)
    wz = z * (own.weight / len(z))[:, None]
    if plan.blocks > 1:
        means = [(_levels(plan, z, state.theta + o, people.eta).T @ wz).reshape(-1) for o in state.offsets]
        mean, number, score = np.array(means), 0.0, np.zeros(len(z))
    else:
        score, slope, told = _scalar(plan, state, z @ state.theta, people)
        mean = wz.T @ score + state.offsets @ ((z * slope[:, None]).T @ wz)
        number = float(told.mean())
    sd = plan.sd(state.role)
    noise = sd**2 * np.eye(plan.size)
    limits = (plan.y_low - state.y_centre) / state.y_scale, (plan.y_high - state.y_centre) / state.y_scale
    if plan.label:
        at, mean_score = (own, state.theta, state.c, sd, limits), None if plan.mechanism.additive else score
        noise = reference.public_noise(*at, plan.function, state.kappa, mean=mean_score)
    if plan.mechanism.additive:
        noise = noise + _variance(plan, state, own, people)
    root: Array = np.asarray(np.linalg.cholesky(noise), dtype=np.float64)
    if state.kappa > 0.0:
        mean = np.column_stack([mean, np.full(len(mean), state.kappa * number)])
        wider = np.zeros((len(root) + 1, len(root) + 1))
        wider[:-1, :-1], wider[-1, -1] = root, math.hypot(sd, 0.5 * state.kappa)
        root = wider
    return mean, root


def _there(plan: Plan, state: State, people: People) -> tuple[Array, Array]:
    """Predictor at which the law of the response has its coefficients, and the sd about it; shape (m,)."""
    if plan.rules.scoring.predicted:
        return people.eta[:, 0], people.scale
    scale = np.asarray(people.scale / state.y_scale, dtype=np.float64)
    there = _response(state, people.eta[:, 0]) + plan.rules.centre * scale
    return np.asarray(there, dtype=np.float64), scale


def _scalar(plan: Plan, state: State, here: Array, people: People) -> tuple[Array, Array, Array]:
    """Mean unit score at predictors `here`, its derivative by them, and the mean number; shape (m,)."""
    there, scale = _there(plan, state, people)
    rules, c, none = plan.rules, state.c, np.zeros_like(here)
    if not plan.rules.scoring.predicted:
        if state.kappa > 0.0:
            score, slope, _, number, *_ = rules.scoring.moments(rules, here, there, c, scale)
            return score, -slope, number
        score, slope = rules.scoring.moments(rules, here, there, c, scale, brief=True)
        return score, -slope, none
    low, score, high = (
        rules.scoring.moments(rules, here + h, there, c, scale, brief=True)[0] for h in (-STEP, 0.0, STEP)
    )
    return score, (high - low) / (2.0 * STEP), none


def _levels(plan: Plan, z: Array, theta: Array, eta: Array) -> Array:
    """Mean scores of several predictors, shape (m, b)."""
    here, there = class_shares(z @ theta.reshape(plan.blocks, -1).T), class_shares(eta)
    return np.asarray((here - there)[:, 1:] / farthest(here)[:, None])


def _variance(plan: Plan, state: State, own: reference.Reference, people: People) -> Array:
    """Second moments of a score before noise, shape (b d, b d)."""
    unit = own.points * own.weight[:, None]
    if plan.blocks > 1:
        share = 1.0 / (2.0 * plan.blocks * len(unit))
        return np.asarray(np.kron(np.eye(plan.blocks), share * unit.T @ unit))
    there, scale = _there(plan, state, people)
    square = plan.rules.scoring.square(plan.rules, own.points @ state.theta, there, state.c, scale)
    return np.asarray((unit * square[:, None]).T @ unit / len(unit))


def residuals(m: int) -> Array:
    """Standard normal residuals, the same ones always, shape (m,)."""
    rng = np.random.Generator(np.random.PCG64(m))
    return np.asarray(rng.permutation(ndtri((np.arange(m) + 0.5) / m)))
