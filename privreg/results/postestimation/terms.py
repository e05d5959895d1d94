"""Tests of whole terms, each given all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg import diagnostics
from privreg.arrays import Array
from privreg.diagnostics import Diagnostic
from privreg.errors import InferenceError, OptionError, choose, shown
from privreg.inference.methods import Pivot
from privreg.results.data import Frame, ResultData
from privreg.results.postestimation.hypothesis import WaldTest, factors_of, wald_test
from privreg.tables import MARK, Part, Table, View, in_one_format, noted

_CONSTANTS: Final = ("Intercept", "const")


@dataclass(frozen=True, repr=False)
class TermTests(View):
    """A joint test of every term; see `PrivateResults.wald_test_terms`.

    Parameters
    ----------
    terms : tuple of str
    tests : tuple of WaldTest
        One a term, in the order of the coefficients.
    reliable : tuple of bool
        Whether no note of the summary takes back a coefficient of the term.
    law : str
        Of the t-ratios that the tests are made of.
    notes : tuple of Diagnostic
        Whatever takes rows back, and why a term could not be tested.
    """

    terms: tuple[str, ...]
    tests: tuple[WaldTest, ...]
    reliable: tuple[bool, ...]
    law: str
    notes: tuple[Diagnostic, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """One line a term, its name as index: statistic, pvalue, df_constraint, fvalue, df_denom, reliable."""
        columns: dict[str, Any] = {
            "statistic": [t.statistic for t in self.tests],
            "pvalue": [t.pvalue for t in self.tests],
            "df_constraint": [t.df_num for t in self.tests],
            "fvalue": [t.fvalue for t in self.tests],
            "df_denom": [t.df_denom for t in self.tests],
            "reliable": list(self.reliable),
        }
        return Frame(columns, index=pd.Index(self.terms, name="term"))

    def summary_frame(self) -> pd.DataFrame:
        """Return the table under statsmodels' headings: F or chi2, P>F or P>chi2, df constraint, df denom."""
        table = self.table
        chi2 = bool(np.isinf(table["df_denom"]).all() or table["df_denom"].isna().all())
        names = {"df_constraint": "df constraint"} | (
            {"statistic": "chi2", "pvalue": "P>chi2"}
            if chi2
            else {"fvalue": "F", "pvalue": "P>F", "df_denom": "df denom"}
        )
        return Frame(table[list({k: None for k in table if k in names})].rename(columns=names))

    def anova(self) -> pd.DataFrame:
        """Return the tests under the headings of `anova_lm`; see `PrivateResults.anova`."""
        said = next((str(note) for note in self.notes if note.code == "marginal"), "")
        table = self.table
        table = table[[t not in _CONSTANTS for t in self.terms]]
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
        names = [name if ok else f"{name} {MARK}" for name, ok in zip(self.terms, self.reliable, strict=True)]
        head = ["Wald", "df", "F", "df denom", "P"]
        title = f"Wald tests of terms (each given all others; {self.law})"
        return [Table(names, head, rows, title), *noted(self.notes)]


def _marginal(names: Sequence[str]) -> list[Diagnostic]:
    """What a test of a term means that is part of an interaction too."""
    products = [name for name in names if len(factors_of(name)) > 1]
    within = {
        name: inside
        for name in names
        if name not in _CONSTANTS and (inside := [p for p in products if {*factors_of(name)} < {*factors_of(p)}])
    }
    if not within:
        return []
    interactions = dict.fromkeys(p for inside in within.values() for p in inside)
    several = len(within) > 1
    said = (
        f"{', '.join(within)} {'are' if several else 'is'} in {', '.join(interactions)} too: "
        f"{'each is' if several else 'it is'} tested where the columns that multiply it are 0, those of a factor at "
        "its reference level; marginal_means() and get_prediction(new) have means elsewhere"
    )
    return [Diagnostic("marginal", said)]


def places(fit: ResultData) -> dict[str, list[int]]:
    """Positions of each term's coefficients; of a multinomial fit of all levels together, and as "level:term".

    A column's name stands for the term that is this factor alone: "region" for "C(region)", and the reverse.
    """
    width, levels = len(fit.design.names), fit.baseline[1:]
    out: dict[str, list[int]] = {}
    for term in fit.design.terms:
        out[term.name] = [k * width + j for k in range(max(len(levels), 1)) for j in term.columns]
        for k, level in enumerate(levels):
            out[f"{level}:{term.name}"] = [k * width + j for j in term.columns]
    for term in fit.design.terms:
        if term.levels:
            for name in (term.reads[0], f"C({term.reads[0]})"):
                out.setdefault(name, out[term.name])
    return out


def coefficients_of(fit: ResultData, terms: Any) -> list[str]:
    """Names of the coefficients that are meant by names of coefficients or of terms, each once.

    Of a multinomial fit a name without a level stands for all levels.

    Raises
    ------
    OptionError
        If one is neither.
    """
    listed = [terms] if isinstance(terms, str) else list(terms) if isinstance(terms, Sequence | pd.Index) else []
    if not listed:
        raise OptionError(
            f"terms={shown(terms)} must be the name of a coefficient or term, or several: {', '.join(fit.names)}."
        )
    width, known = len(fit.design.names), places(fit)
    known |= {name: list(range(j, len(fit.names), width)) for j, name in enumerate(fit.design.names)}
    known |= {name: [j] for j, name in enumerate(fit.names)}
    return list(dict.fromkeys(fit.names[j] for t in listed for j in known[choose("terms", t, known)]))


def term_tests(
    fit: ResultData, cov: Array, pivot: Pivot, notes: tuple[Diagnostic, ...], *, skip_single: bool
) -> TermTests:
    """Test each term jointly, given all others; see `PrivateResults.wald_test_terms`."""
    known = places(fit)
    kept = diagnostics.reliable(notes, len(fit.names))
    terms, tests, reliable, failed = [], list[WaldTest](), list[bool](), list[Diagnostic]()
    for term in (t.name for t in fit.design.terms):
        at = known[term]
        if skip_single and len(at) == 1:
            continue
        terms.append(term)
        reliable.append(bool(kept[at].all()))
        try:
            tests.append(wald_test(fit.names, fit.params, cov, pivot, np.eye(len(fit.names))[at]))
        except InferenceError as e:
            tests.append(WaldTest(math.nan, math.nan, len(at), pivot.joint_label(1)))
            failed.append(Diagnostic("remark", f"{term}: {str(e).rstrip('.')}"))
    if not terms:
        raise OptionError("no term has several coefficients; leave out skip_single=True to test each of them.")
    return TermTests(tuple(terms), tuple(tests), tuple(reliable), pivot.label, (*notes, *_marginal(terms), *failed))
