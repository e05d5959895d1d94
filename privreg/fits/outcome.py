"""Outcome of a fit in progress: numbers before tables are made of them. Reports only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.clusters import between
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import StudentT
from privreg.collector.inference.windows import Steps
from privreg.errors import InferenceError
from privreg.families.measures import Measure
from privreg.formula.units import Units
from privreg.results.data import NO_STEPS, Equation, Later, RoundHeld
from privreg.results.wording import Unusable
from privreg.tables import in_one_format
from privreg.tables.diagnostics import Diagnostic


class FitOutcome(NamedTuple):
    """Outcome of a fit in progress; numbers in the user's units."""

    people: int  # People whose report has come
    params: Array  # Shape (p,), as `last`
    last: Array
    estimates: tuple[Estimate, ...]
    senders: int  # People whose score entered an update
    updates: int
    trail_n: NDArray[np.int64]  # People so far, shape (m,)
    trail_senders: NDArray[np.int64]  # Number of them whose score entered an update
    trail_params: Array  # Shape (m, p), as `trail_variances`
    trail_variances: Array
    family: str  # The family with its constants
    tuning: str  # For the header
    spending: str  # People in rounds before the main ones, for the privacy block
    bound: str  # The score's bound, for the privacy block
    notes: tuple[Diagnostic, ...]
    mechanics: tuple[dict[str, Any], ...]  # Inputs for an audit of the reports: numbers only
    measures: tuple[Measure, ...] = ()  # Privately released measures of fit
    measured: int = 0  # People who reported them
    cost: str = "instead of a score"  # Cost of that, in words
    rounds: tuple[RoundHeld, ...] = ()  # Rounds of a fit by rounds
    steps: Later[Steps | None] = NO_STEPS  # Estimates along the stream, of which windows are made
    equation: Equation | None = None  # Estimating equation
    target: str = ""  # Target of the coefficients, in words; the family's if empty
    unusable: Unusable | None = None  # Lower limit of the share of unusable records
    clusters: str = ""  # Clusters of people, and groups of them; empty if people are independent
    clamping: str | None = None  # Clamped shares in words, if anybody is asked
    weighing: str = ""  # Score weights, where more is known of them than the settings say
    spreads: Array | None = None  # Sds of the design's columns, learned from reports; NaN if the scale was declared

    def measure_words(self) -> tuple[tuple[str, str], ...]:
        """Names of the measures of fit, each with its value and what it cost."""
        cost = f"(se); from {self.measured:,} records {self.cost}"
        values = [in_one_format([m.estimate, m.std_error], 0, m.std_error) for m in self.measures]
        return tuple((m.name, f"{' ± '.join(words)} {cost}") for m, words in zip(self.measures, values, strict=True))


def outside_of(theta: Array, order: NDArray[np.intp], units: Units) -> Array:
    """Coefficients in the user's units and order, block by block."""
    blocks = theta.reshape(-1, len(order))
    out = np.empty_like(blocks)
    out[:, order] = blocks
    return np.concatenate([units.params_outside(block) for block in out])


def refuse_overflow(*thetas: Array) -> None:
    """Raise an `InferenceError` if an estimate is not finite."""
    if not all(np.isfinite(t).all() for t in thetas):
        raise InferenceError("the estimates overflowed: the steps are too large; leave step= out or make it smaller.")


def of_clusters(each: Array, weights: Array, unknown: Array) -> list[Estimate]:
    """Precision by differences of groups of clusters, plus `unknown`, which all share; none before two have reported.

    Shapes are those of `clusters.between`; groups without people have the weight 0.
    """
    heard = weights > 0.0
    if np.count_nonzero(heard) < 2:
        return []
    some = between(each[heard], weights[heard])
    return [Estimate("between_lanes", some.cov + unknown, StudentT(some.df))]
