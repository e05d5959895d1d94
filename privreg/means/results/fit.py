"""What results of means know."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privreg.arrays import Array
from privreg.inference.methods import Estimate
from privreg.inference.pivots import Normal
from privreg.means.results.crosstab import Crossed
from privreg.results.data import Labelled
from privreg.results.statement import PrivacyStatement


@dataclass(frozen=True)
class MeansFit(Labelled):
    """Everything a result knows."""

    names: tuple[str, ...]  # Of the estimates: columns, and column[level]
    centres: Array  # Middle of each one's public range, shape (p,); shrinking takes estimates towards it
    halves: Array  # Half the range's length, shape (p,)
    params: Array
    cov: Array  # About the means of the population that the people were drawn from, shape (p, p)
    nobs: int  # People who sent a report
    by: str | None  # Column of public subgroups
    groups: tuple[str, ...]
    group_people: tuple[int, ...]  # People of each, which is public
    group_params: Array  # Shape (g, p); NaN where a subgroup had too few people, as in `group_variances`
    group_variances: Array
    header: tuple[tuple[str, str], ...]
    biased: bool  # Whether the mechanism is a biased one, so that the estimates are not means
    statement: PrivacyStatement
    group_reliable: NDArray[np.bool_]  # Whether a subgroup's estimate may be relied on, shape (g, p)
    tables: tuple[Crossed, ...] = ()  # Two-way tables among the estimates
    variables: tuple[tuple[str, tuple[str, ...]], ...] = ()  # What they are of: columns, with levels
    # Standard deviations of numbers, of everybody, then of subgroups, shape (1 + g, p); NaN with local noise
    sds: Array = field(default_factory=lambda: np.zeros((0, 0)))
    group_tests: Array = field(default_factory=lambda: np.zeros((0, 2)))  # By variable: statistic, degrees of freedom
    moments: Array = field(default_factory=lambda: np.zeros((5, 0)))  # See `collector.moments`
    products: tuple[tuple[str, str, int], ...] = ()  # Numbers multiplied, and where among the estimates
    # Shares without a usable value and their errors, of everybody, then of subgroups, by variable, shape (1 + g, t, 2);
    # NaN where it isn't asked
    missing: Array = field(default_factory=lambda: np.zeros((0, 0, 2)))
    cuts: tuple[tuple[str, int, tuple[float, ...]], ...] = ()  # Numbers in classes, where these are, and between what

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The one way to their precision: the variance of the reports as they came."""
        return (Estimate("reports", self.cov, Normal()),)
