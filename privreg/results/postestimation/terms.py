"""Tests of whole terms, each given all others, and of the differences between a factor's levels."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.errors import InferenceError, OptionError, as_named, choose, flag, interval_level, refuse
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, ResultData
from privreg.results.plots.style import CONSTANTS
from privreg.results.postestimation.hypothesis import ContrastTest, contrast_test, factors_of, wald_test
from privreg.tables import Part, Table, View, diagnostics, estimates_table, formatted, marked, noted
from privreg.tables.diagnostics import Diagnostic


@dataclass(frozen=True, repr=False)
class TermTests(View):
    """A joint test of every term; see `PrivateResults.wald_test_terms`."""

    table: pd.DataFrame  # A line a term, its index: statistic, pvalue, df_constraint, fvalue, df_denom, reliable
    law: str  # Distribution of the t-ratios that the tests are made of
    notes: tuple[Diagnostic, ...] = ()  # Whatever takes rows back, and why a term could not be tested

    def summary_frame(self) -> pd.DataFrame:
        """Return the table under statsmodels' headings: F or chi2, P>F or P>chi2, df constraint, df denom."""
        table = self.table
        names = {"pvalue": "P>F", "df_constraint": "df constraint", "fvalue": "F", "df_denom": "df denom"}
        if np.isinf(table["df_denom"]).all() or table["df_denom"].isna().all():
            names = {"statistic": "chi2", "pvalue": "P>chi2", "df_constraint": "df constraint"}
        return Frame(table[[*names]].rename(columns=names))

    def anova(self) -> pd.DataFrame:
        """Return the tests under the headings of `anova_lm`; see `PrivateResults.anova`."""
        names = {"df_constraint": "df", "df_denom": "df_denom", "statistic": "chi2", "fvalue": "F", "pvalue": "PR(>F)"}
        table = self.table.drop(index=list(CONSTANTS), errors="ignore")
        out = Frame(table[[*names, "reliable"]].rename(columns=names))
        for note in (n for n in self.notes if n.code == "marginal"):
            out.attrs["note"] = f"Note: {note}."
        return out

    def _layout(self) -> list[Part]:
        table = self.table.rename(columns={"statistic": "Wald", "df_constraint": "df", "fvalue": "F", "pvalue": "P>F"})
        shown = formatted(table[["Wald", "df", "F", "df_denom", "P>F"]])
        rows = [[{"inf": "∞", "nan": ""}.get(v, v) for v in row] for row in zip(*shown.values(), strict=True)]
        title = f"Wald tests of terms (each given all others; {self.law})"
        names, head = marked(table.index, table["reliable"]), ["Wald", "df", "F", "df denom", "P"]
        return [Table(names, head, rows, title), *noted(self.notes)]


def wald_test_terms(self: Any, *, skip_single: bool = False, method: str | None = None) -> TermTests:
    """Test each term jointly, given all others; with `skip_single` those of several coefficients.

    ``table`` of the TermTests has a line a term: statistic, pvalue, df_constraint, fvalue, df_denom, reliable. Of a
    multinomial fit a term is tested over all levels of the response together.
    """
    known, fit, single = self._known(method, "wald_test_terms"), self._fit, not flag("skip_single", skip_single)
    kept, each, failed = diagnostics.reliable(known.notes, len(fit.names)), known._replace(notes=()), list[Diagnostic]()
    rows = dict[str, tuple[Any, ...]]()
    for term, at in ((t.name, fit.of_terms[t.name]) for t in fit.design.terms):
        if single or len(at) > 1:
            found = (math.nan, math.nan, len(at), math.nan, math.nan)
            try:
                t = wald_test(each, np.eye(len(fit.names))[at])
                found = (t.statistic, t.pvalue, t.df_num, t.fvalue, t.df_denom)
            except InferenceError as e:
                failed.append(Diagnostic("remark", f"{term}: {str(e).rstrip('.')}"))
            rows[term] = (*found, bool(kept[at].all()))
    if not rows:
        raise OptionError("no term has several coefficients; leave out skip_single=True to test each of them.")
    names = ["statistic", "pvalue", "df_constraint", "fvalue", "df_denom", "reliable"]
    table = Frame(pd.DataFrame.from_dict(rows, orient="index", columns=names).rename_axis("term"))
    products = [name for name in rows if len(factors_of(name)) > 1]
    within = {
        name: inside
        for name in rows
        if name not in CONSTANTS and (inside := [p for p in products if {*factors_of(name)} < {*factors_of(p)}])
    }
    if within:
        are, one = ("are", "each") if len(within) > 1 else ("is", "it")
        interactions = dict.fromkeys(p for inside in within.values() for p in inside)
        said = (
            f"{', '.join(within)} {are} in {', '.join(interactions)} too: {one} is tested where the columns that "
            "multiply it are 0, those of a factor at its reference level; get_prediction(new) has means elsewhere"
        )
        failed.insert(0, Diagnostic("marginal", said))
    return TermTests(table, known.pivot.label, (*known.notes, *failed))


ADJUSTMENTS: Final = {
    "holm": "h", "bonferroni": "b", "sidak": "s", "holm-sidak": "hs", "simes-hochberg": "sh", "hommel": "ho",
    "fdr_bh": "fdr_bh", "fdr_by": "fdr_by", "fdr_tsbh": "fdr_tsbh", "fdr_tsbky": "fdr_tsbky",
}  # fmt: skip
"""Ways of adjusting p-values, by the names and short names of statsmodels' `multipletests`."""

_GRID: Final = 10_000  # Rows of a reference grid, at most


@all_known_arguments
@dataclass(frozen=True, repr=False)
class PairwiseTests(View):
    """Differences between the levels of a factor, with p-values adjusted for their number."""

    tests: ContrastTest  # Each difference by itself
    method: str  # Method by which p-values were adjusted
    # Probability of a false rejection (a false discovery rate of the ``fdr`` methods); one minus the intervals' level
    alpha: float
    title: str
    pvalue_adjusted: Array  # P-values adjusted for the number of differences, shape (q,); NaN where there is none
    reject: NDArray[np.bool_]  # Which differences are distinguished from 0, all of them counted, shape (q,)

    @property
    def pvalue(self) -> Array:
        """Two-sided p-values, each by itself, shape (q,)."""
        return self.tests.pvalue

    @property
    def result_frame(self) -> pd.DataFrame:
        """Frame of statsmodels' `t_test_pairwise`: tests by summary_frame(), pvalue-METHOD, reject-METHOD, reliable.

        The limits are those of each difference alone; ``tests.conf_int(simultaneous=True)`` has wider ones.
        """
        frame, adjusted = self.tests.summary_frame(self.alpha), {"pvalue": self.pvalue_adjusted, "reject": self.reject}
        more = {f"{name}-{self.method}": values for name, values in adjusted.items()}
        return Frame(frame.drop(columns="reliable").assign(**more, reliable=self.tests.reliable))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return each difference by itself."""
        return self.tests.summary_frame(alpha)

    def _layout(self) -> list[Part]:
        tests, title = self.tests, f"{self.title} ({self.tests.pivot.label}; p-values adjusted for {{}}, limits not)"
        frame = tests.summary_frame(self.alpha).assign(**{"P>|t|": self.pvalue_adjusted})
        table = estimates_table(frame, title.format(len(frame)), self.alpha)
        return [replace(table, head=[*table.head[:3], f"P {self.method}", *table.head[4:]]), *noted(tests.notes)]


def t_test_pairwise(
    self: Any, term_name: str | None = None, method: str = "holm", *, alpha: float = 0.05, inference: str | None = None
) -> PairwiseTests:
    """Test the differences between every two levels of a factor, by its coefficients.

    ``result_frame`` as in statsmodels; pvalue, pvalue_adjusted, reject. Differences are later less earlier level, in
    the order of declaration. `term_name` is the factor's column or term, "region" or "C(region)"; of a model with one
    factor it may be left out. `method` says how p-values are adjusted for the number of differences, as in statsmodels'
    `multipletests`; Holm's holds whatever the tests have to do with each other. `alpha` is the probability of a false
    rejection, and one minus the level of the limits; `inference` an inference method of this fit, which is called
    method elsewhere.
    """
    known, fit = self._known(inference, "t_test_pairwise"), self._fit
    read = list(dict.fromkeys(c for t in fit.design.terms for c in t.reads))
    factors = [c for c in read if c in fit.design.schema.levels]
    called = {**{f"C({c})": c for c in factors}, **{t.name: t.reads[0] for t in fit.design.terms if t.levels}}
    named = as_named(term_name, (*called, *factors)) if isinstance(term_name, str) else None
    listed = ", ".join(map(repr, factors))
    wrong = {
        "this model has no factor whose levels could be compared; declare one by levels= and name it in a formula. "
        "get_prediction(new) has means at values of numbers": not factors,
        f"this model has several factors; name one of {listed}": term_name is None and len(factors) > 1,
        f"{named!r} is a number and has no levels; t_test({named!r}) tests its slope, and get_prediction(new) has "
        f"means at values of it, of a public row for each. Factors are {listed}": named in read
        and named not in factors,
    }
    refuse(wrong, OptionError)
    column = factors[0] if term_name is None else called.get(named or "", named or "")
    if column not in factors:
        choose("the factor", term_name, factors)
    short = {s: name for name, s in ADJUSTMENTS.items()}
    how = short.get(method) if isinstance(method, str) else None
    how = how or choose("method", method, tuple(ADJUSTMENTS))
    if (term := next((t for t in fit.design.terms if t.levels and t.reads == (column,)), None)) is None:
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
    if more := [t.name for t in fit.design.terms if column in t.reads and t.name != term.name]:
        said = (
            f"{column} is in {', '.join(more)} too: these are its differences where columns that multiply it are 0, "
            "a factor at its reference level, or on average over its levels if their codes sum to 0; "
            f"marginaleffects.avg_comparisons(res.for_marginaleffects(), variables={column!r}) averages them"
        )
        notes = (*notes, Diagnostic("remark", said))
    from statsmodels.stats.multitest import multipletests  # slow to import

    level, known_p = interval_level(alpha), np.isfinite(tests.pvalue)
    reject, adjusted = np.zeros(len(rows), dtype=np.bool_), np.full(len(rows), np.nan)
    if known_p.any():
        reject[known_p], adjusted[known_p], *_ = multipletests(tests.pvalue[known_p], level, ADJUSTMENTS[how])
    return PairwiseTests(replace(tests, index=pd.Index(labels), notes=notes), how, level, title, adjusted, reject)


def reference_grid(self: Any) -> pd.DataFrame:
    """Covariates from what is declared: all combinations of factors' levels, numbers at the middle of their bounds.

    Public rows for `PrivateResults.predict`, `design_matrix` and `for_marginaleffects`. An OptionError if a number's
    scale is private, or there are more than 10,000 combinations.
    """
    design, row = self._fit.design, public_row(self._fit)
    levels = design.schema.levels
    if private := [c for c in row if c in design.schema.private]:
        raise OptionError(f"nothing public is known of {', '.join(private)}; give public rows in place of a grid.")
    factors = [c for c in row if c in levels]
    rows = math.prod(len(levels[c]) for c in factors)
    if rows > _GRID:
        raise OptionError(f"the levels of {', '.join(factors)} have {rows:,} combinations; give public rows instead.")
    columns = zip(*itertools.product(*(levels[c] for c in factors)), strict=True)
    grid = {c: np.array(column, dtype=object) for c, column in zip(factors, columns, strict=True)}
    return pd.DataFrame({c: v for c, v in row.items() if c not in grid} | grid, index=range(rows))


def public_row(fit: ResultData) -> dict[str, Any]:
    """Covariates of one made-up record: numbers at the middle of their scale, first levels, no offset."""
    design, schema = fit.design, fit.design.schema
    row = {
        c: schema.levels[c][0] if c in schema.levels else schema.scale(c)[0]
        for c in dict.fromkeys(c for t in design.terms for c in t.reads)
    }
    return row | {name: value for name, value in ((design.offset, 0.0), (design.exposure, 1.0)) if name is not None}
