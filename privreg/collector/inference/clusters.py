"""Clusters of people, such as schools: their random groups, and precision by differences of these.

All people of a cluster answer in one group, so that groups are independent whatever people of a cluster have in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array, Ints
from privreg.collector.inference.pivots import ENOUGH
from privreg.collector.levels import PART
from privreg.protocol.rounds import GROUPS, LEAST_GROUPS
from privreg.tables.diagnostics import Diagnostic, note

LEAST: Final = 2 * LEAST_GROUPS  # Clusters at least: two a group
SUMMED: Final = 24  # Groups of clusters at most whose sums two collectors publish


class Between(NamedTuple):
    """Precision of a weighted mean by differences of groups."""

    cov: Array  # Covariance of the weighted mean; shape (p, p)
    df: int  # Degrees of freedom


def dealt(clusters: int, groups: int) -> Ints:
    """Random groups of clusters by their number, shape (clusters,): of each group as many or one more; public."""
    order = np.random.Generator(np.random.PCG64([clusters, groups])).permutation(clusters)
    out = np.empty(clusters, dtype=np.int64)
    out[order] = np.arange(clusters) % groups
    return out


def local_groups(clusters: int) -> int:
    """Random groups of local reports: twice the fewest where each has enough clusters."""
    return GROUPS if clusters >= GROUPS * ENOUGH else LEAST_GROUPS


def summed_groups(clusters: int) -> int:
    """Random groups whose sums two collectors publish: each sum has its noise, so that they are few."""
    return min(SUMMED, clusters // 2)


def between(each: Array, weights: Array) -> Between:
    """Covariance of the weighted mean of independent groups' estimates, shape (groups, p), and its degrees of freedom.

    Equation (44) of docs/estimator.md, for positive weights. Unbiased where a group's variance goes with 1 over its
    weight, as for people of clusters of a common size; the degrees of freedom are Satterthwaite's (1946) under this
    model, rounded down: groups − 1 if weights are equal.

    See Bell and McCaffrey (2002), Bias reduction in standard errors for linear regression with multi-stage samples.
    """
    share = weights / weights.sum()
    left = np.eye(len(share)) - share  # row g takes the weighted mean from group g's estimate
    form = left.T @ (share[:, None] ** 2 * left) / share  # times the groups' variances
    mean = float(np.trace(form))
    deviation = (left @ each) * share[:, None]
    cov = deviation.T @ deviation * float(np.sum(share) / mean)  # Σ s² v, v = 1/s
    return Between(np.asarray(cov), max(math.floor(mean**2 / float(np.sum(form * form.T)) + 1e-9), 1))


def counted(people: Sequence[int], groups: int) -> str:
    """Numbers of clusters with people and of random groups, in words for the header; `people` by cluster."""
    return f"{int(np.count_nonzero(people)):,} in {groups} random groups"


def notes(people: Sequence[int], groups: int, *, lanes: bool) -> tuple[Diagnostic, ...]:
    """Notes where groups have few clusters, or one cluster is much of its group; of `people` by cluster, public.

    `lanes` says whether ``lanes=`` sets the number of groups, as of local reports.
    """
    out, held = [], np.asarray(people)
    some = int(np.count_nonzero(held))
    if some < ENOUGH * groups:
        fewer = "fewer groups (lanes=8) or " if lanes and groups > LEAST_GROUPS else ""
        each = some / groups
        out.append(note("clusters.few", clusters=some, groups=groups, each=each, enough=ENOUGH, fewer=fewer))
    if held.sum() and held.max() > PART / groups * held.sum():
        out.append(note("clusters.large", share=held.max() / held.sum(), groups=groups))
    return tuple(out)
