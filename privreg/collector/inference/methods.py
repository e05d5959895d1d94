"""Inference methods, each a value that declares what it needs, costs and assumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Pivot
from privreg.errors import InferenceError, OptionError, choose, shown
from privreg.tables.diagnostics import Diagnostic

WIDE: Final = 100  # Coefficients up to which local reports are fitted by rounds, and random scaling keeps all numbers

FULLEST: Final = 4000
"""Coefficients for which a whole matrix is kept, at most: 8 p² bytes each, 32 MB at 2,000 and 128 MB here."""


@dataclass(frozen=True)
class Method:
    """An inference method."""

    name: str
    title: str  # Title in tables
    cost: str  # Cost in people, budget or time, in words
    assumes: str
    # True if it needs the reports' outer products, curvature reports (of a single chain), or raw sums of a trusted
    # curator
    outer: bool = False
    curvature: bool = False
    central: bool = False
    streaming: bool = True  # True if results may be computed repeatedly along the stream
    tuning: str = "any"  # The tuning it goes with, or "any"
    # True if it needs sums of the path at equal marks, or products of reports and iterates
    blocks: bool = False
    path: bool = False
    scaling: bool = False  # True if it needs second moments of the path's partial sums
    full: bool = False  # True if it needs all of them, however many coefficients there are
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
    Method("random_scaling_full", "random scaling (whole matrix)",
           f"{_FREE}; p² numbers of memory, 32 MB at 2,000 coefficients, however many there are", _PATH,
           scaling=True, full=True, tests="t_test, wald_test of up to 20 restrictions"),
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
    import pandas as pd

    columns = ("title", "tuning", "cost", "assumes", "tests", "streaming")
    rows = [[getattr(m, c) for c in columns] for m in METHODS.values()]
    return pd.DataFrame(rows, columns=list(columns), index=pd.Index(METHODS, name="inference"))


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
