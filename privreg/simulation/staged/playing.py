"""The devices of each role, played in one process: rows through the kernels, reports into a pipeline's state.

Every function takes consecutive people of one stage: `y`, shape (n,), `x`, shape (n, d), `offset`, shape (n,), or
None, and `weight`, shape (n,), or empty where all budgets are equal; internal units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privreg.collector import curvature, diagonal, location
from privreg.families import measures
from privreg.simulation.staged import findings, kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.simulation.staged.pipeline import Pipeline
    from privreg.simulation.staged.schedule import Stage

    Array = NDArray[np.float64]

__all__ = ["assess", "locate", "measure", "run_chain"]


def locate(run: Pipeline, y: Array, x: Array, offset: Array | None, weight: Array, stage: Stage) -> None:
    """Take the reports on where columns lie."""
    mechanism, columns = run.start.reports.mechanism, run.start.unscaled
    own = x[:, run.start.at([j for j in columns if j < run.d])]  # the response comes last
    v = np.column_stack([own, run.response(y, offset)]) if columns[-1] == run.d else np.ascontiguousarray(own)
    m2, size = 2 * len(columns), stage.people // location.BATCHES
    channel, radius = mechanism.channel(m2), mechanism.bits_radius(m2)
    at, i = run.at, 0
    while i < len(v):
        noise = run.draw(min(len(v) - i, size - at % size))
        m = len(noise)
        guess = (run.location.centre, np.exp(run.location.log_spread))
        kernels.location_reports(v, *guess, noise, channel, radius, weight, run.total, i, m)
        for w in weight[i : i + m]:
            run.location_weight += float(w)
        run.used(m)
        i, at = i + m, at + m
        if at % size == 0:
            people = size if not weight.size else run.location_weight
            run.location = location.learn(run.location, run.total / people)
            run.total, run.location_weight = np.zeros_like(run.total), 0.0


def measure(run: Pipeline, y: Array, x: Array, offset: Array | None, weight: Array) -> None:
    """Take the reports on second moments."""
    if run.start.wide is not None:
        v = diagonal.numbers(run.start.wide, x[:, run.start.at(run.start.wide.columns)])
        _numbers(run, v, weight)
        return
    response = [run.response(y, offset)] if run.start.layout.response else []
    v = np.column_stack([*[np.ones(len(y))] * run.extra, x, *response])
    v, i = np.ascontiguousarray(v), 0
    if run.start.reports.label:  # covariates are public
        tell = kernels.log_sizes if run.first_round else kernels.second_moments
        tell(v, run.scatter.rows, run.total, 0, len(v))
        return
    channel, radius = run.start.reports.mechanism.channel(len(run.total)), run.moment_radius()
    while i < len(v):
        noise = run.draw(len(v) - i)
        given = (v, run.scatter.rows, noise, channel, radius, weight, run.total, i, len(noise))
        kernels.moment_reports(*given)
        run.used(len(noise))
        i += len(noise)


def assess(run: Pipeline, y: Array, x: Array, offset: Array | None, weight: Array) -> None:
    """Take the reports on how well the estimate predicts."""
    theta = run.estimate()
    assert theta is not None
    with np.errstate(over="ignore", invalid="ignore"):
        eta = np.zeros((len(x), run.coefficients // run.d))
        slopes = curvature.inside(theta.reshape(-1, run.d), run.whitener)
        columns = run.start.columns
        for c, own in enumerate(x.T):  # a product's bits depend on the rows
            j, levels = (c, 0) if columns is None else columns[c].tolist()
            if levels:
                some = own >= 0.0
                eta[some] += slopes.T[j + own[some].astype(np.int64)]
                eta[np.isnan(own)] = np.nan
            else:
                eta += own[:, None] * slopes.T[j]
        eta = eta if offset is None else eta + (offset / run.y_scale)[:, None]
    _numbers(run, measures.values(findings.gauge(run), eta, run.response(y, None)), weight)


def _numbers(run: Pipeline, v: Array, weight: Array) -> None:
    """Take reports of numbers in [0, 1], shape (n, m)."""
    mechanism, m, i = run.start.reports.mechanism, v.shape[1], 0
    channel, radius = mechanism.channel(m), mechanism.bits_radius(m)
    while i < len(v):
        noise = run.draw(len(v) - i)
        kernels.number_reports(v, noise, channel, radius, weight, run.total, i, len(noise), run.outer)
        run.used(len(noise))
        i += len(noise)


def run_chain(run: Pipeline, y: Array, x: Array, offset: Array | None, weight: Array) -> None:
    """Take the reports to the chains, with threads where there are lanes."""
    assert run.chains is not None
    plan, state, newton, chain = run.chains
    rows = run.whitener
    r = run.response(y, None)
    with np.errstate(over="ignore"):
        off = np.empty(0) if offset is None else offset / run.y_scale
    pool = run.pool if plan.lanes > 1 else None
    at, i = run.at, 0
    while i < len(r):
        if pool is None or run.noise is None:
            noise = run.draw(len(r) - i)
        else:
            noise = run.noise.take(len(r) - i, pool)
        m = len(noise)
        first = at // plan.batch // plan.lanes
        last = (at + m - 1) // plan.batch // plan.lanes
        steps, gains = chain.block(first, last - first + 1)
        here = slice(i, i + m)
        given = (r[here], off[here], weight[here], rows, newton, steps, gains, noise, at)

        def work(thread: int, threads: int, here: slice = here, given: Any = given) -> None:
            kernels.run_lanes(x[here], *given, thread, threads, plan, state, run.start.columns)

        if pool is None or run.noise is None:
            work(0, 1)
            run.used(m)
        else:
            list(pool.map(work, range(run.threads), [run.threads] * run.threads))
        i, at = i + m, at + m
