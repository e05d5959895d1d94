"""Estimates of fits to different people, term by term, as meta-analysis and shrinkage need them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.errors import InferenceError, OptionError, as_named, choose, nearest
from privreg.privacy.ledger import compose, within
from privreg.results.base import Results
from privreg.results.plots.style import CONSTANTS
from privreg.results.several.comparison import alike, is_public, labelled, public_table, references, targets

_NORMAL: Final = 1.959964  # Critical value of 95% limits of normal ones


class Gathered(NamedTuple):
    """Estimates of k fits with their standard errors; NaN where a fit lacks a term."""

    names: list[str]  # Names of the fits
    terms: list[str]
    estimate: Array  # Shape (k, terms)
    error: Array  # Shape (k, terms): half a 95% interval over 1.96, whatever the fit's pivot
    reliable: NDArray[np.bool_]  # Shape (k, terms)
    notes: list[str]
    terms_of: dict[str, list[str]]  # Coefficients of a model's terms, such as "region"
    relative: bool = False  # True if errors of federated fits are known up to a factor only, 1/√silos

    def of(self, term: str) -> tuple[list[str], Array, Array]:
        """Names, estimates and variances of the fits that have a term."""
        j = self.terms.index(choose("term", term, self.terms))
        there = np.flatnonzero(np.isfinite(self.error[:, j]))
        return [self.names[i] for i in there], self.estimate[there, j], self.error[there, j] ** 2

    def meant(self, asked: str | None, found: Sequence[str]) -> list[str]:
        """Coefficients of `found` that a name of one or of a term means; the first but the intercept by default."""
        if asked is None:
            return [next((t for t in found if t not in CONSTANTS), found[0])]
        named = as_named(asked, [*found, *self.terms_of]) if isinstance(asked, str) else asked
        meant = [] if named in found else self.terms_of.get(named, [])
        return [t for t in found if t in meant] or [choose("term", asked, found)]


def gathered(results: Any, names: Sequence[str] | None, terms: Any, caller: str, least: int) -> Gathered:
    """Read the results that are given to `caller`, which needs `least` fits.
    Raises OptionError if there are too few results, one of them is none, names or terms don't match, or responses or
    links differ; InferenceError if a result has no standard errors.
    """
    if isinstance(results, Mapping):
        names, results = list(results) if names is None else names, list(results.values())
    if isinstance(results, str | pd.DataFrame) or not isinstance(results, Sequence) or len(results) < least:
        raise OptionError(
            f"{caller}() takes at least {least} results of fits to different people, in a list or by name, such as "
            f"{caller}({{'north': res1, 'south': res2, …}})."
        )
    labels = labelled(names, len(results))
    named = [(name, r) for name, r in zip(labels, results, strict=True) if isinstance(r, Results)]
    tables, label = alike([_table(r, name, caller) for name, r in zip(labels, results, strict=True)])
    known, of = list(dict.fromkeys(t for table in tables for t in table.index)), dict[str, list[str]]()
    for _, r in named:
        for term, at in getattr(r._fit, "of_terms", {}).items():
            of[term] = list(dict.fromkeys([*of.get(term, []), *(label(r._fit.names[j]) for j in at)]))
    single = getattr(terms, "shape", None) == () or not isinstance(terms, Iterable)  # an array may have no dimension
    if terms is not None and (single or not len(list(terms))):
        raise OptionError(f"terms must be one or more names of coefficients, such as {known[:2]}.")
    asked = known if terms is None else [terms] if isinstance(terms, str) else list(map(str, terms))
    asked = [as_named(t, [*known, *of]) for t in asked]
    wanted = list(dict.fromkeys(c for t in asked for c in ([label(t)] if label(t) in known else of.get(t, [t]))))
    for t in (t for t in wanted if t not in known):
        near = nearest(str(t), [*known, *of])
        fix = f"did you mean {near!r}?" if near else f"choose one of {', '.join(map(repr, known))}."
        if not isinstance(terms, str):  # a list may be a column by mistake, and is never shown
            raise OptionError(f"no result has what terms= lists; choose some of {', '.join(map(repr, known))}.")
        raise OptionError(f"no result has the coefficient or term {t!r}; {fix}")
    _refuse(named, len(results), wanted, caller)
    held = np.array([t.reindex(wanted)[_HELD].to_numpy(dtype=float) for t in tables])  # shape (k, terms, 4)
    estimate, low, high, ok = np.moveaxis(held, -1, 0)
    error = (high - low) / (2.0 * _NORMAL)
    there = np.isfinite(error) & (error > 0.0) & np.isfinite(estimate)
    estimate, error = (np.where(there, v, math.nan) for v in (estimate, error))
    private = [r for _, r in named]
    notes, silos = [*targets(private), *_budget(labels, results)], any(map(_silos, private))
    return Gathered(labels, wanted, estimate, error, (ok != 0.0) | ~there, notes, of, silos)


_HELD: Final = ["estimate", "conf_low", "conf_high", "reliable"]


def _table(r: Any, name: str, caller: str) -> pd.DataFrame:
    """Estimates and limits of a result by term."""
    if is_public(r):
        return public_table(r, 0.05)
    if not isinstance(r, Results) or not hasattr(r._fit, "design"):  # means have none
        raise OptionError(
            f"{name} is of type {type(r).__name__}, not results; {caller}() takes what fit() returns, or what has "
            "params, bse, pvalues, nobs and conf_int(), as statsmodels' results to public data have."
        )
    table: pd.DataFrame = r._fit.flat(r._table()).set_index("term")
    if silos := _silos(r):
        half = _NORMAL / math.sqrt(silos)
        return table.assign(conf_low=table["estimate"] - half, conf_high=table["estimate"] + half)
    if "conf_low" not in table:
        raise InferenceError(f"{name} has estimates without standard errors; fit with inference='auto'.")
    return table


def _silos(r: Any) -> int:
    """Silos of a federated fit, which has no standard errors; else 0."""
    return int(r.silos) if isinstance(r, Results) and not r._fit.estimates and hasattr(type(r), "silos") else 0


def _refuse(named: Sequence[tuple[str, Any]], fits: int, wanted: Sequence[str], caller: str) -> None:
    """Refuse fits that are not alike, one that is given twice, as it would count as two, and names with other meanings.

    Federated fits converge elsewhere by their options, and their spread tells their error where budgets are the same.
    """
    silos = [dict(r._fit.title) | {"Budget": r.privacy.budget} for _, r in named if _silos(r)]
    if silos and caller != "meta_analysis":
        raise InferenceError(
            f"{caller}() needs standard errors, which federated fits don't have. Fit each silo's rows by themselves, "
            "with PrivateOnlineRegression or privreg.central, and give these results."
        )
    if silos and len(silos) < fits:
        raise InferenceError(
            "federated fits have no standard errors, so that nothing tells their weight beside fits that have; pool "
            "federated fits alone, whose spread tells their error."
        )
    options = ("Rounds", "Local steps", "Update clip", "Family", "Budget")
    facts = {f"options {what.lower()}": [one[what] for one in silos] for what in options if silos}
    fitted = [r._fit for _, r in named]
    facts |= {"responses": [fit.design.endog_name for fit in fitted], "links": [fit.family.link for fit in fitted]}
    facts["baselines of the response"] = ["".join(map(str, fit.baseline[:1])) for fit in fitted]
    for what, values in facts.items():
        if len(set(values)) > 1:
            found = ", ".join(f"{value} in {name}" for (name, _), value in zip(named, values, strict=True) if value)
            raise OptionError(
                f"{caller}() takes fits of one model to different people, with the same options, and their {what} "
                f"differ: {found}; give all fits the same."
            )
    for i, (name, r) in enumerate(named):
        for other, s in named[:i]:
            if r._fit.origin == s._fit.origin or np.array_equal(r._fit.params, s._fit.params):
                raise OptionError(
                    f"{other} and {name} are results of one fit; {caller}() takes fits to different people, each once."
                )
    for column, by in references(named).items():
        for fit in fitted:
            over = [{*term.reads} for term in fit.design.terms if column in term.reads]
            moved = [j for t in fit.design.terms if any({*t.reads} <= s for s in over) for j in t.columns]
            labels = [
                f"{level}:" * bool(level) + fit.design.names[j] for level in fit.baseline[1:] or ("",) for j in moved
            ]
            if hit := [t for t in wanted if t in labels]:
                found = ", ".join(f"{level} in {name}" for level, name in by.items())
                raise OptionError(
                    f"{caller}() can't put {', '.join(hit)} together: {column} is compared with {found}. Give all fits "
                    "the same first level, or the same Treatment(), or choose other coefficients by terms=."
                )


def _budget(names: Sequence[str], results: Sequence[Any]) -> list[str]:
    """Cost to a person who is in one of these fits, or in several."""
    private = [(name, r) for name, r in zip(names, results, strict=True) if isinstance(r, Results)]
    mus = {getattr(r._fit, "origin", r): r.privacy.total_mu for _, r in private}
    again = [name for name, r in private if r.privacy.release.number > 1]
    if not mus:
        return ["NOT PRIVATE: none of these results is."]
    most, total = max(mus.values()), compose(mus.values())
    if not math.isfinite(most):
        return ["NOT PRIVATE: at least one of these results was fitted with mu=None."]
    every, one = ("every silo", "silo") if any(map(_silos, results)) else ("everybody", "person")
    out = [
        f"Computed from released estimates, at no cost. If {every} is in one of these fits only, they cost "
        f"{within(most, 4)}-GDP per {one} at most; whoever is in all of them, {within(total, 4)}-GDP."
    ]
    if again:
        out.append(
            f"{', '.join(again)}: not the first fit of its data. Fits that share people are pooled with "
            "standard errors that are too small."
        )
    return out
