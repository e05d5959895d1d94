"""A factor's levels compared: pairwise differences of its coefficients, and a grid of all levels.

Nothing here reads private rows: all of it follows from released coefficients, public declarations and public rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, interval_level
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, ResultData
from privreg.results.postestimation.hypothesis import ContrastTest, contrast_test
from privreg.results.postestimation.known import Estimated, Known
from privreg.tables import Part, Table, cells, marked, noted
from privreg.tables.diagnostics import Diagnostic

ADJUSTMENTS: Final = {
    "holm": "h", "bonferroni": "b", "sidak": "s", "holm-sidak": "hs", "simes-hochberg": "sh", "hommel": "ho",
    "fdr_bh": "fdr_bh", "fdr_by": "fdr_by", "fdr_tsbh": "fdr_tsbh", "fdr_tsbky": "fdr_tsbky",
}  # fmt: skip
"""Ways of adjusting p-values, by the names and short names of statsmodels' `multipletests`."""

_GRID: Final = 10_000  # Rows of a reference grid, at most


@all_known_arguments
@dataclass(frozen=True, repr=False)
class PairwiseTests(Estimated):
    """Differences between the levels of a factor, with p-values adjusted for their number."""

    tests: ContrastTest  # Each difference by itself
    method: str  # Method by which p-values were adjusted
    # Probability of a false rejection (a false discovery rate of the ``fdr`` methods); one minus the intervals' level
    alpha: float
    title: str

    @property
    def pvalue(self) -> Array:
        """Two-sided p-values, each by itself, shape (q,)."""
        return self.tests.pvalue

    @property
    def pvalue_adjusted(self) -> Array:
        """P-values adjusted for the number of differences, shape (q,); NaN where there is none."""
        return self._adjusted()[1]

    @property
    def reject(self) -> NDArray[np.bool_]:
        """Which differences are distinguished from 0 at level `alpha`, all differences counted, shape (q,)."""
        return self._adjusted()[0]

    @property
    def result_frame(self) -> pd.DataFrame:
        """Frame of statsmodels' `t_test_pairwise`: summary_frame() of the tests, pvalue-METHOD, reject-METHOD.

        The last column, reliable, says whether no note takes a difference back. The limits are those of each difference
        alone; ``tests.conf_int(simultaneous=True)`` has wider ones.
        """
        reject, adjusted = self._adjusted()
        frame = self.tests.summary_frame(self.alpha)
        kept = frame.pop("reliable")
        frame = frame.assign(**{f"pvalue-{self.method}": adjusted, f"reject-{self.method}": reject})
        return Frame(frame.assign(reliable=kept))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return each difference by itself."""
        return self.tests.summary_frame(alpha)

    def _adjusted(self) -> tuple[NDArray[np.bool_], Array]:
        from statsmodels.stats.multitest import multipletests  # slow to import

        p = self.tests.pvalue
        known = np.isfinite(p)
        reject, adjusted = np.zeros(len(p), dtype=np.bool_), np.full(len(p), np.nan)
        if known.any():
            reject[known], adjusted[known], *_ = multipletests(p[known], self.alpha, ADJUSTMENTS[self.method])
        return reject, adjusted

    def _layout(self) -> list[Part]:
        columns = ["estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "reliable"]
        frame = self.tests.summary_frame(self.alpha).set_axis(columns, axis=1).assign(p_value=self.pvalue_adjusted)
        head, rows = cells(frame, self.alpha)
        head[3] = f"P {self.method}"
        title = f"{self.title} ({self.tests.pivot.label}; p-values adjusted for {len(rows)}, limits not)"
        names = marked(self.tests.labels, frame["reliable"])
        return [Table(names, head, rows, title), *noted(self.tests.notes)]


def check_adjustment(method: str) -> str:
    """Return the full name of a way of adjusting p-values, given by it or by its short name."""
    short = {s: name for name, s in ADJUSTMENTS.items()}
    if isinstance(method, str) and method in short:
        return short[method]
    return str(choose("method", method, tuple(ADJUSTMENTS)))


def factor_of(fit: ResultData, factor: Any) -> str:
    """Column of a factor of the model, given by its name or by that of its term; None is the only one.
    Raises OptionError if it is no such factor; the message lists those there are.
    """
    design = fit.design
    known = [c for c in dict.fromkeys(c for t in design.terms for c in t.reads) if c in design.schema.levels]
    terms = {**{f"C({c})": c for c in known}, **{t.name: t.reads[0] for t in design.terms if t.levels}}
    if isinstance(factor, str) and (factor in terms or factor in known):
        return str(terms.get(factor, factor))
    if not known:
        raise OptionError(
            "this model has no factor whose levels could be compared; declare one by levels= and name it in a formula. "
            "get_prediction(new) has means at values of numbers."
        )
    if factor is None:
        if len(known) > 1:
            raise OptionError(f"this model has several factors; name one of {', '.join(map(repr, known))}.")
        return str(known[0])
    numbers = [c for t in design.terms for c in t.reads if c not in known]
    if isinstance(factor, str) and factor in numbers:
        raise OptionError(
            f"{factor!r} is a number and has no levels; t_test({factor!r}) tests its slope, and get_prediction(new) "
            "has means at values of it, given a row of public values for each. Factors are "
            f"{', '.join(map(repr, known))}."
        )
    return str(choose("the factor", factor, known))


def pairwise(known: Known, factor: Any, method: str, alpha: float) -> PairwiseTests:
    """Test the differences between a factor's levels; see `PrivateResults.t_test_pairwise`."""
    fit = known.fit
    column, how = factor_of(fit, factor), check_adjustment(method)
    term = next((t for t in fit.design.terms if t.levels and t.reads == (column,)), None)
    if term is None:
        raise OptionError(
            f"{column!r} has no term of its own, only with others; marginaleffects compares its levels at public rows: "
            f"avg_comparisons(res.for_marginaleffects(), variables={column!r})."
        )
    width, responses = len(fit.design.names), fit.baseline[1:] or ("",)
    rows, labels = [], []
    for k, response in enumerate(responses):
        for i, j in itertools.combinations(range(len(term.levels)), 2):
            row = np.zeros(len(fit.names))
            row[[k * width + c for c in term.columns]] = term.coding[j] - term.coding[i]
            rows.append(row)
            labels.append(f"{response}: " * bool(response) + f"{term.levels[j]}-{term.levels[i]}")
    tests = contrast_test(known, np.array(rows))
    title, notes = f"Differences between levels of {column}", tests.notes
    more = [t for t in fit.design.terms if column in t.reads and t.name != term.name]
    if more:
        title += f" {_where(fit, column, more)}"
        by = ", ".join(_partners(column, more))
        said = f"{column} is in {', '.join(t.name for t in more)} too: its differences depend on {by}; "
        said += f"marginaleffects.avg_comparisons(res.for_marginaleffects(), variables={column!r}) averages them"
        notes = (*notes, Diagnostic("remark", said))
    return PairwiseTests(replace(tests, index=pd.Index(labels), notes=notes), how, interval_level(alpha), title)


def _partners(column: str, terms: Sequence[Any]) -> list[str]:
    """Columns that a factor is multiplied by in some terms."""
    return [c for c in dict.fromkeys(c for t in terms for c in t.reads) if c != column]


def _where(fit: ResultData, column: str, terms: Sequence[Any]) -> str:
    """At which values of the columns it is multiplied by a factor's coefficients are its levels' differences."""
    at, over = list[str](), list[str]()
    for name in _partners(column, terms):
        main = next((t for t in fit.design.terms if t.levels and t.reads == (name,)), None)
        if name not in fit.design.schema.levels and all(name in t.name.split(":") for t in terms if name in t.reads):
            at.append(f"{name} = 0")
        elif main is not None and main.reference is not None:
            at.append(f"{name} = {main.reference}")
        elif main is not None and np.allclose(main.coding.mean(axis=0), 0.0):
            over.append(name)
        else:
            return f"where what {column} is multiplied by is 0"
    said = [f"at {', '.join(at)}"] * bool(at) + [f"averaged over levels of {', '.join(over)}"] * bool(over)
    return ", ".join(said)


def reference_grid(design: Any) -> pd.DataFrame:
    """Covariates of what is declared; see `PrivateResults.reference_grid`."""
    schema, read = design.schema, list(dict.fromkeys(c for t in design.terms for c in t.reads))
    if private := [c for c in read if c in schema.private]:
        raise OptionError(f"nothing public is known of {', '.join(private)}; give public rows in place of a grid.")
    factors = [c for c in read if c in schema.levels]
    rows = math.prod(len(schema.levels[c]) for c in factors)
    if rows > _GRID:
        raise OptionError(f"the levels of {', '.join(factors)} have {rows:,} combinations; give public rows instead.")
    grid: dict[str, Any] = {c: schema.scale(c)[0] for c in read if c not in factors}
    grid |= {name: value for name, value in ((design.offset, 0.0), (design.exposure, 1.0)) if name is not None}
    levels = zip(*itertools.product(*(schema.levels[c] for c in factors)), strict=True)
    grid |= {c: np.array(column, dtype=object) for c, column in zip(factors, levels, strict=True)}
    return pd.DataFrame(grid, index=range(rows))
