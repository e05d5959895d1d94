"""Tests of whole terms, each given all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privreg.errors import InferenceError, OptionError, choose, shown
from privreg.results.data import Frame, ResultData
from privreg.results.plots.style import CONSTANTS
from privreg.results.postestimation.hypothesis import WaldTest, factors_of, wald_test
from privreg.results.postestimation.known import Known
from privreg.tables import Part, Table, View, diagnostics, in_one_format, marked, noted
from privreg.tables.diagnostics import Diagnostic


@dataclass(frozen=True, repr=False)
class TermTests(View):
    """A joint test of every term; see `PrivateResults.wald_test_terms`."""

    terms: tuple[str, ...]
    tests: tuple[WaldTest, ...]  # One a term, in the order of the coefficients
    reliable: tuple[bool, ...]  # True if no note of the summary takes back a coefficient of the term
    law: str  # Distribution of the t-ratios that the tests are made of
    notes: tuple[Diagnostic, ...] = ()  # Whatever takes rows back, and why a term could not be tested

    @property
    def table(self) -> pd.DataFrame:
        """One line a term, its name as index: statistic, pvalue, df_constraint, fvalue, df_denom, reliable."""
        names = ["statistic", "pvalue", "df_constraint", "fvalue", "df_denom"]
        rows = [(t.statistic, t.pvalue, t.df_num, t.fvalue, t.df_denom) for t in self.tests]
        frame = pd.DataFrame(rows, columns=names, index=pd.Index(self.terms, name="term"))
        return Frame(frame.assign(reliable=list(self.reliable)))

    def summary_frame(self) -> pd.DataFrame:
        """Return the table under statsmodels' headings: F or chi2, P>F or P>chi2, df constraint, df denom."""
        table = self.table
        names = {"pvalue": "P>F", "df_constraint": "df constraint", "fvalue": "F", "df_denom": "df denom"}
        if np.isinf(table["df_denom"]).all() or table["df_denom"].isna().all():
            names = {"statistic": "chi2", "pvalue": "P>chi2", "df_constraint": "df constraint"}
        return Frame(table[[*names]].rename(columns=names))

    def anova(self) -> pd.DataFrame:
        """Return the tests under the headings of `anova_lm`; see `PrivateResults.anova`."""
        said = next((str(note) for note in self.notes if note.code == "marginal"), "")
        table = self.table
        table = table[[t not in CONSTANTS for t in self.terms]]
        names = {"df_constraint": "df", "df_denom": "df_denom", "statistic": "chi2", "fvalue": "F", "pvalue": "PR(>F)"}
        out = Frame(table[[*names, "reliable"]].rename(columns=names))
        if said:
            out.attrs["note"] = f"Note: {said}."
        return out

    def _layout(self) -> list[Part]:
        rows = []
        chi2, f = (in_one_format(self.table[c], 3, least=1.0) for c in ("statistic", "fvalue"))
        for i, test in enumerate(self.tests):
            denom = "" if math.isnan(test.df_denom) else "∞" if math.isinf(test.df_denom) else f"{test.df_denom:g}"
            p = "" if math.isnan(test.pvalue) else f"{test.pvalue:.3f}"
            rows.append([chi2[i], f"{test.df_num}", "" if math.isnan(test.df_denom) else f[i], denom, p])
        title = f"Wald tests of terms (each given all others; {self.law})"
        names, head = marked(self.terms, self.reliable), ["Wald", "df", "F", "df denom", "P"]
        return [Table(names, head, rows, title), *noted(self.notes)]


def _marginal(names: Sequence[str]) -> list[Diagnostic]:
    """Meaning of a test of a term that is part of an interaction too."""
    products = [name for name in names if len(factors_of(name)) > 1]
    within = {
        name: inside
        for name in names
        if name not in CONSTANTS and (inside := [p for p in products if {*factors_of(name)} < {*factors_of(p)}])
    }
    if not within:
        return []
    interactions = dict.fromkeys(p for inside in within.values() for p in inside)
    several = len(within) > 1
    said = (
        f"{', '.join(within)} {'are' if several else 'is'} in {', '.join(interactions)} too: "
        f"{'each is' if several else 'it is'} tested where the columns that multiply it are 0, those of a factor at "
        "its reference level; get_prediction(new) has means elsewhere"
    )
    return [Diagnostic("marginal", said)]


def coefficients_of(fit: ResultData, terms: Any) -> list[str]:
    """Names of the coefficients that are meant by names of coefficients or of terms, each once.

    Of a multinomial fit a name without a level stands for all levels.
    """
    listed = [terms] if isinstance(terms, str) else list(terms) if isinstance(terms, Sequence | pd.Index) else []
    if not listed:
        raise OptionError(
            f"terms={shown(terms)} must be the name of a coefficient or term, or several: {', '.join(fit.names)}."
        )
    width, known = len(fit.design.names), dict(fit.of_terms)
    known |= {name: list(range(j, len(fit.names), width)) for j, name in enumerate(fit.design.names)}
    known |= {name: [j] for j, name in enumerate(fit.names)}
    return list(dict.fromkeys(fit.names[j] for t in listed for j in known[choose("terms", t, known)]))


def term_tests(known: Known, *, skip_single: bool) -> TermTests:
    """Test each term jointly, given all others; see `PrivateResults.wald_test_terms`."""
    fit, pivot, kept = known.fit, known.pivot, diagnostics.reliable(known.notes, len(known.fit.names))
    each, terms, tests, failed = known._replace(notes=()), list[str](), list[WaldTest](), list[Diagnostic]()
    for term in (t.name for t in fit.design.terms):
        at = fit.of_terms[term]
        if skip_single and len(at) == 1:
            continue
        terms.append(term)
        try:
            tests.append(wald_test(each, np.eye(len(fit.names))[at]))
        except InferenceError as e:
            tests.append(WaldTest(math.nan, math.nan, len(at), pivot.joint_label(1)))
            failed.append(Diagnostic("remark", f"{term}: {str(e).rstrip('.')}"))
    if not terms:
        raise OptionError("no term has several coefficients; leave out skip_single=True to test each of them.")
    reliable = tuple(bool(kept[fit.of_terms[t]].all()) for t in terms)
    return TermTests(tuple(terms), tuple(tests), reliable, pivot.label, (*known.notes, *_marginal(terms), *failed))
