"""What a staged fit has found out beside its coefficients: what notes and measures of fit are made of. Reports only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import stdtr

from privreg.collector import curvature, location, moments
from privreg.families import measures
from privreg.simulation.notes import MOST, RARE, Findings
from privreg.simulation.staged import beginning, intervals, lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from privreg.inference.methods import Estimate
    from privreg.simulation.settings import Settings
    from privreg.simulation.staged.pipeline import Pipeline

    Array = NDArray[np.float64]

__all__ = [
    "at_limit",
    "changing",
    "gauge",
    "lead",
    "measured",
    "rare",
    "reference_is_rare",
    "relied",
    "silent",
    "unanswered",
    "unlike",
    "wide",
]

USUAL_GROWTH: Final = 6.0
"""Growth with three slopes of 1, for which it was simulated how many people intervals need."""

FLAT: Final = 1e-4
"""Residual scale, relative to the response's declared range, below which it is taken for nothing at all."""

FEWEST: Final = 8
"""Lanes by which a variance is told."""

CHANCE: Final = 1e-6
"""Of a note that people come in an order that matters, where it doesn't."""

SILENT: Final = 3.0
"""What a tracked number that makes up for people who send noise only may grow to before it is taken for their work: 1
over the share who answer. The same for a window about the predictor, whose usual half-width is below 1."""

FAR: Final = 10.0
"""Residual scale, relative to the learned or declared sd of an unbounded response, that no answers can bring about."""

CORRELATED: Final = 6.0
"""The same where covariates are so correlated that what was learned of it from noisy reports is in every lane: with
10 of correlation 0.5^|j−k| and μ = 1, 91% of 95% intervals held with 200,000 people, 93% with 400,000. Twice that where
curvature depends on the coefficients: of a million people's ten intervals at μ = 2, six missed in one fit of three."""


def lead(run: Pipeline) -> int:
    """People before the lanes: those who were, and those of the stages to come as planned."""
    stages = run.start.schedule.stages
    last = next(k for k, s in enumerate(stages) if s.kind == "lanes")
    if run.stage >= last:
        return sum(run.past[:last])
    return sum(run.past) + run.here.people + sum(s.people for s in stages[run.stage + 1 : last])


def relied(run: Pipeline) -> float:
    """People in lanes whom intervals need, relative to what the schedule says."""
    held = any(stage.optional and people for stage, people in run.roles())
    if held and run.start.cells and run.chains is not None and not run.extra:
        # what levels of one factor have to do with each other is known from their shares
        rows = run.scatter.rows[: run.d, : run.d] / run.stretch[:, None]
        held = curvature.is_correlated(rows, constant=True, groups=[g.columns for g in run.start.cells])
    growth, theta = run.growth, run.estimate()
    if run.start.rules.from_predictor and run.chains is not None and theta is not None:
        growth = max(growth, beginning.growth_at(run, theta))  # a short search may not have come near
    return wanted_more(growth, correlated=held, moving=run.start.rules.moving) / run.scatter.answering**2


def wanted_more(growth: float, *, correlated: bool, moving: bool) -> float:
    """The same from what was found: growth of the estimate's variance, and whether covariates are correlated."""
    more = CORRELATED * (2.0 if moving else 1.0)
    return max(1.0, growth / USUAL_GROWTH) * (more if correlated else 1.0)


def rare(run: Pipeline) -> list[int]:
    """Two-valued columns with too few people on one side; see `coordinates.rare`."""
    start = run.start
    effective = start.schedule.effective * run.scatter.answering
    return curvature.rare(run.shares, start.rules, effective, run.people) if run.chains else []


def reference_is_rare(run: Pipeline, columns: Iterable[int]) -> list[int]:
    """The constant, if few people have the lower value of one of these two-valued columns: it is about them, too."""
    some = list(columns)
    if not run.start.layout.constant or not some:
        return []
    mean = np.linalg.inv(run.scatter.rows[: run.d, : run.d])[:, 0]  # inside, where the two values are at ±1
    return [0] if any(mean[j] > 0.0 for j in some) else []


def wide(run: Pipeline) -> list[tuple[int, float]]:
    """Columns whose bounds are much wider than what was learned; see `coordinates.wide`."""
    start = run.start
    if start.wide is not None or run.chains is None:
        return []
    return curvature.wide(run.scatter.rows, start.gaps, start.unscaled, start.layout.constant)


def gauge(run: Pipeline) -> measures.Gauge:
    """By what fit is measured, with the scales that were learned."""
    gauge = run.start.gauge
    assert gauge is not None
    assert run.chains is not None
    spread, centre, residual = 1.0, 0.0, 1.0
    if run.start.layout.response:
        *slopes, own = np.linalg.inv(run.scatter.rows)[run.d]
        first = 1 if run.start.layout.constant else 0
        spread, centre = math.hypot(*slopes[first:], own), float(slopes[0]) if first else 0.0
        residual = float(own)
    if run.start.rules.track and not run.start.rules.moving:
        residual = math.exp(float(np.mean(run.chains.state.log_c))) / run.start.rules.ratio
    return gauge._replace(residual=measures.REACH * residual, spread=measures.REACH * spread, centre=centre)


def measured(run: Pipeline, unit: float) -> tuple[measures.Measure, ...]:
    """Measures of fit, as far as people have told; `unit` is the response's per internal unit."""
    people = run.weight_here
    if run.kind != "measures" or run.at <= run.start.told:
        return ()
    mean = run.total / people
    cov = (run.outer / people - np.outer(mean, mean)) / run.at
    return measures.summarise(gauge(run), mean, cov, unit * run.y_scale)


def at_limit(run: Pipeline) -> bool:
    """Whether the location of a response alone has ended at its public limits."""
    theta = run.estimate()
    if theta is None or run.coefficients > 1 or run.start.rules.moving or not run.start.layout.constant:
        return False
    limits = run.start.reports.y_low, run.start.reports.y_high
    return bool(np.isclose(run.inside(theta)[0], limits, rtol=0.0, atol=1e-9).any())


def flat(run: Pipeline) -> bool:
    """Whether the learned residual scale is next to nothing beside the response's range, as where all are clamped."""
    start = run.start
    low, high = start.reports.y_low, start.reports.y_high
    if not start.rules.track or start.rules.moving or run.chains is None or not math.isfinite(high - low):
        return False
    learned = math.exp(float(np.mean(run.chains.state.log_c))) / start.rules.ratio
    return learned * run.y_scale < FLAT * (high - low)


def changing(run: Pipeline) -> bool:
    """Whether the first people tell other coefficients than those after them, by far more than chance would.

    As in a file that is sorted by something in the formula. Lanes take people in turn, so that they don't see it; the
    common chain's people come before them.
    """
    if not run.in_lanes or run.common is None:
        return False
    first, *later = run.groups()
    return len(later) >= FEWEST and bool(unlike(first, later, run.outside).min() < CHANCE / run.coefficients)


def unlike(first: lanes.GroupEstimate, later: list[lanes.GroupEstimate], outside: Callable[[Array], Array]) -> Array:
    """P-value, of each coefficient, that one group tells the same as others, from how far the others lie apart."""
    move = outside((first.estimate - lanes.pooled(later))[None])[0]
    variance = (outside(lanes.apart(later)) ** 2).sum(axis=0) * (1.0 + sum(g.weight for g in later) / first.weight)
    return np.asarray(2.0 * stdtr(len(later) - 1.0, -np.abs(move) / np.sqrt(variance)))


def silent(run: Pipeline) -> bool:
    """Whether what was tracked has grown beyond what answers can bring about, as where most people send noise only.

    The corner of a residual grows until a fixed share of all people, the silent ones included, lies inside. No line is
    farther than the response's declared range from anybody; a corner of half of it takes in all who answer, or they are
    too few.
    """
    start, rules = run.start, run.start.rules
    if not start.unusable or run.chains is None or not (rules.track or rules.counting):
        return False
    c, widest = math.exp(float(np.mean(run.chains.state.log_c))), run.chains.plan.widest
    if rules.moving or rules.counting:
        return c > SILENT
    return c > 0.5 * math.exp(widest) if math.isfinite(widest) else c > FAR * rules.ratio


def unanswered(run: Pipeline) -> tuple[float, float] | None:
    """Share of the people who sent noise only and its standard error, if it is surely above 0."""
    share, error = run.scatter.told
    return (1.0 - share, error) if run.start.unusable and share < 1.0 - moments.SURE * error else None


def lost(run: Pipeline) -> list[int]:
    """Columns, d for the response, whose spread had not settled when the search for it ended."""
    if run.stage == 0 or not run.start.unscaled:
        return []
    outside, people = location.outside(run.location, run.start.schedule.people("location"))
    numbers, mechanism = 2 * len(run.start.unscaled), run.start.reports.mechanism
    sd = mechanism.sd(mechanism.bits_radius(numbers), numbers) + 0.5
    away = (outside - location.TARGET) * math.sqrt(people) / sd
    far = (away < -2.5) | (away > 4.0)  # a spread that falls on and on is the worse of the two
    return [j for j, is_far in zip(run.start.unscaled, far, strict=True) if is_far]


def found(run: Pipeline, settings: Settings, estimates: tuple[Estimate, ...]) -> Findings:
    """All of it together, of which notes are made."""
    start, schedule, have, theta = run.start, run.start.schedule, bool(estimates), run.estimate()
    nonresponse = have and silent(run)
    strong = have and not nonresponse and start.rules.from_predictor and theta is not None
    strong = strong and beginning.strength(run, theta if theta is not None else np.zeros(1)) > beginning.FARTHEST
    before, more = lead(run), relied(run)  # people whom intervals need, relative to the schedule's rule
    needs = more / run.worth
    short = not schedule.enough(int((run.people - before) / needs), run.coefficients)
    few = rare(run) if have else []
    told = unanswered(run)
    many = None
    if start.wide is not None:
        many = np.flatnonzero(np.nan_to_num(start.wide.shares, nan=1.0) < RARE).tolist()
    gone = told is not None and told[0] > MOST
    return Findings(
        have=have,
        people=run.people,
        rows=schedule.rows,
        constant=start.layout.constant,
        shares=run.shares,
        tied=run.tied,
        lost=lost(run),
        rare=few,
        reference_is_rare=bool(reference_is_rare(run, [j for j in few if not run.tied[j] and not gone])),
        wide=wide(run) if have else [],
        nonresponse=nonresponse,
        unanswered=told,
        repeated=start.nonresponse,
        unlearned=start.nonresponse and not (start.rules.track or start.rules.counting or bool(run.scatter.asked)),
        flat=have and flat(run),
        changing=have and changing(run),
        at_limit=have and at_limit(run),
        strong=beginning.FARTHEST if strong else 0.0,
        diagonal=many,
        measures=bool(start.told),
        measuring=run.kind == "measures",
        early=intervals.waiting(run, settings, estimates, before),
        needed=schedule.wanted(run.coefficients) * needs + before if short else None,
        told=more > 1.0,
    )
