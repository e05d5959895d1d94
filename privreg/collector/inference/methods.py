"""Inference methods, each a value that declares what it needs, costs and assumes; and random groups of clusters.

All people of a cluster answer in one group, so that groups are independent whatever people of a cluster have in common.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array, Ints
from privreg.collector.inference.pivots import ENOUGH, Pivot, StudentT
from privreg.errors import InferenceError, OptionError, choose, shown
from privreg.protocol.rounds import GROUPS, LEAST_GROUPS
from privreg.protocol.sums import summed_groups as summed_groups
from privreg.tables.diagnostics import Diagnostic, doubts, note

DOMINANT: Final = 0.25  # Part of a group's people from which on one cluster decides on it
WIDE: Final = 100  # Coefficients up to which local reports are fitted by rounds, and random scaling keeps all numbers


@dataclass(frozen=True)
class Method:
    """An inference method."""

    name: str
    title: str  # Title in tables
    cost: str  # Cost in people, budget or time, in words
    assumes: str
    outer: bool = False  # True if it needs the reports' outer products,
    curvature: bool = False  # curvature reports (of a single chain),
    central: bool = False  # raw sums of a trusted curator,
    blocks: bool = False  # sums of the path at equal marks,
    path: bool = False  # products of reports and iterates,
    scaling: bool = False  # second moments of the path's partial sums
    streaming: bool = True  # True if results may be computed repeatedly along the stream
    tuning: str = "any"  # The tuning it goes with, or "any"
    tests: str = "t_test, wald_test"  # Tests that it supports


_FREE: Final = "no records and no budget"
_MEMORY: Final = f"{_FREE}; some n^(1/4) p numbers of memory"
_PATH: Final = "a functional central limit theorem for the path (1/2 < alpha < 1)"
# fmt: off
METHODS: Final = {m.name: m for m in (
    Method("sandwich", "sandwich", _FREE,
           "known noise; curvature from reports and a reference model; the error contains what isn't known of it",
           tuning="efficient"),
    Method("between_lanes", "between groups", _FREE,
           "random groups large enough for normal estimates; the error contains what isn't known of the curvature",
           tuning="efficient", tests="t_test, wald_test of fewer restrictions than groups"),
    Method("random_scaling", "random scaling",
           f"{_FREE}; p² numbers of memory, 2p of them with more than {WIDE} coefficients", _PATH, scaling=True,
           tests=f"t_test, wald_test of up to 20 restrictions; single coefficients only with more than {WIDE}"),
    Method("batch_means", "batch means", _MEMORY, "batches long enough to be independent", blocks=True),
    Method("block_bootstrap", "block bootstrap (percentile)", _MEMORY,
           "blocks long enough to be independent, and many of them", blocks=True),
    Method("block_bootstrap_t", "block bootstrap (t)", _MEMORY, "blocks long enough to be independent", blocks=True),
    Method("anytime", "anytime-valid", f"{_FREE}; intervals are wider by a half or more",
           "batch means that have converged; holds at all sample sizes from 30,000 on at once", blocks=True,
           tests="t_test"),
    Method("plug_in", "plug-in (local)",
           "a tenth of the records send curvature instead of a score (published tuning); none (efficient tuning)",
           "smooth loss, non-singular curvature (published tuning); as sandwich, whose numbers it gives (efficient)",
           outer=True, curvature=True),
    Method("path_curvature", "path curvature", f"{_FREE}; p² numbers of memory",
           "non-singular curvature and a path that varies enough to show it: long streams (published tuning); as "
           "sandwich, whose numbers it gives (efficient)", outer=True, path=True),
    Method("plug_in_central", "plug-in (central, one release)",
           "a second release at mu by a trusted curator: sqrt(2)*mu in all",
           "smooth loss, non-singular curvature, a curator who sees raw curvature", central=True, streaming=False,
           tuning="published"),
)}
# fmt: on


@dataclass(frozen=True)
class Estimate:
    """Precision of the averaged estimate by one method, in the user's units."""

    method: str
    cov: Array  # Reported covariance, or variances where only these are known; shape (p, p)
    pivot: Pivot  # Distribution of the t-ratios formed with it
    notes: tuple[Diagnostic, ...] = ()  # Notes on its limits

    @property
    def variances(self) -> Array:
        """Reported variances, shape (p,)."""
        return self.cov if self.cov.ndim == 1 else np.diag(self.cov)


OF_CHAIN: Final = ("path_curvature", "plug_in", "batch_means")
"""Methods for standard errors of a single chain's windows, best first; batches are as few as windows."""


def of_chain(estimates: Iterable[Estimate]) -> Estimate | None:
    """Estimate for standard errors of a single chain's windows: the first in `OF_CHAIN` that no note marks."""
    there = sorted((e for e in estimates if e.method in OF_CHAIN), key=lambda e: OF_CHAIN.index(e.method))
    return next((e for e in there if not doubts(e.notes)), there[0] if there else None)


class Steps(NamedTuple):
    """Estimates of consecutive runs of records, each from its reports, except for curvature; user's units."""

    begin: Array  # Records before a run; shape (m,)
    ends: Array  # Records up to its end; shape (m,)
    weight: Array  # shape (m,)
    estimate: Array  # shape (m, p)
    group: NDArray[np.intp]  # Group of runs with the same error due to curvature; shape (m,)
    each: Array  # Covariance of an estimate of weight 1; shape (p, p)
    unknown: Array  # That error, by group: moves whose squares and products sum to a covariance; shape (r, k, p)


def describe() -> pd.DataFrame:
    """Tell what each inference method needs, costs, assumes and can test.

    Returns
    -------
    DataFrame
        One line a method, its name as index: title, tuning, cost, assumes, tests, streaming.

    Examples
    --------
    >>> describe().loc["anytime", "tests"]
    't_test'
    """
    columns = ["title", "tuning", "cost", "assumes", "tests", "streaming"]
    rows = [[getattr(m, c) for c in columns] for m in METHODS.values()]
    return pd.DataFrame(rows, columns=columns, index=pd.Index(METHODS, name="inference"))


def resolve_methods(inference: object) -> tuple[Method, ...]:
    """Read ``inference=``: a name or several, the first being the default.
    Raises OptionError if a name is not known, none is given, or one is given twice; InferenceError if methods that
    can't share a pass are asked for together.
    """
    names = [inference] if isinstance(inference, str) else inference
    if not isinstance(names, Sequence) or not 0 < len(names) <= len(METHODS):
        raise OptionError(f"inference={shown(inference)} must be one or more of {', '.join(map(repr, METHODS))}.")
    methods = tuple(METHODS[choose("inference", n, METHODS)] for n in names)
    if len(set(methods)) != len(methods):
        raise OptionError("inference names a method twice; list each once.")
    if sum(m.curvature or m.central for m in methods) > 1:
        raise InferenceError(
            "plug_in and plug_in_central can't share one pass: the first makes some people send curvature, "
            "the second is for a trusted curator. Choose one."
        )
    return methods


LEAST: Final = 2 * LEAST_GROUPS  # Clusters at least: two a group


def dealt(clusters: int, groups: int) -> Ints:
    """Random groups of clusters by their number, shape (clusters,): of each group as many or one more; public."""
    order = np.random.Generator(np.random.PCG64([clusters, groups])).permutation(clusters)
    out = np.empty(clusters, dtype=np.int64)
    out[order] = np.arange(clusters) % groups
    return out


def local_groups(clusters: int) -> int:
    """Random groups of local reports: twice the fewest where each has enough clusters."""
    return GROUPS if clusters >= GROUPS * ENOUGH else LEAST_GROUPS


def between_groups(each: Array, weights: Array, unknown: Array) -> list[Estimate]:
    """Precision of the weighted mean of independent groups' estimates, shape (groups, p), by their differences.

    Its covariance has `unknown` added, which all groups share; shape (p, p). There is none before two have people,
    whose weights are positive. Equation (44) of docs/estimator.md. Unbiased where a group's variance goes with 1 over
    its weight, as for people of clusters of a common size; the degrees of freedom are Satterthwaite's (1946) under this
    model, rounded down: groups − 1 if weights are equal.

    See Bell and McCaffrey (2002), Bias reduction in standard errors for linear regression with multi-stage samples.
    """
    each, weights = each[weights > 0.0], weights[weights > 0.0]
    if len(weights) < 2:
        return []
    share = weights / weights.sum()
    left = np.eye(len(share)) - share  # row g takes the weighted mean from group g's estimate
    form = left.T @ (share[:, None] ** 2 * left) / share  # times the groups' variances
    mean, deviation = float(np.trace(form)), (left @ each) * share[:, None]
    cov = deviation.T @ deviation * float(np.sum(share) / mean)  # Σ s² v, v = 1/s
    df = max(math.floor(mean**2 / float(np.sum(form * form.T)) + 1e-9), 1)
    return [Estimate("between_lanes", np.asarray(cov) + unknown, StudentT(df))]


def of_clusters(people: Sequence[int] | Ints | None, groups: int, *, lanes: bool) -> tuple[str, tuple[Diagnostic, ...]]:
    """Clusters with people and random groups, in words for the header; notes where these say little of each other.

    Groups may have few clusters, or one cluster be much of its group. `people` are those by cluster, public; without
    any there are no words. `lanes` says whether ``lanes=`` sets the number of groups, as of local reports.
    """
    out, held = list[Diagnostic](), np.asarray(() if people is None else people)
    if not len(held):
        return "", ()
    some, few = int(np.count_nonzero(held)), "fewer groups (lanes=8) or "
    if some < ENOUGH * groups:
        fewer = few if lanes and groups > LEAST_GROUPS else ""
        out.append(note("clusters.few", clusters=some, groups=groups, each=some / groups, enough=ENOUGH, fewer=fewer))
    if held.sum() and held.max() > DOMINANT / groups * held.sum():
        out.append(note("clusters.large", share=held.max() / held.sum(), groups=groups))
    return f"{some:,} in {groups} random groups", tuple(out)
