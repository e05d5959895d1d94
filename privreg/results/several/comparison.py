"""Several results side by side, what they cost together, and what one has beside another."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.collector.inference.methods import METHODS
from privreg.errors import OptionError, interval_level, refuse, whole
from privreg.families.family import check_ratios
from privreg.options.unknown import all_known_arguments, known_arguments
from privreg.privacy.ledger import compose, within
from privreg.results.data import Frame, of_results
from privreg.results.plots.coefficients import Side, plot_coef
from privreg.results.plots.style import Axes
from privreg.results.postestimation.hypothesis import WaldTest, wald_test
from privreg.results.results import PrivateResults
from privreg.tables import MARK, Paragraph, Part, Table, View, formatted, plain


@known_arguments
def compare(
    results: Sequence[Any] | Mapping[str, Any] | PrivateResults,
    *more: Any,
    names: Sequence[str] | None = None,
    alpha: float = 0.05,
    exponentiate: bool = False,
    digits: int | None = None,
) -> "Comparison":
    """Put results side by side, with the budget they use up together.

    ``compare(res1, res2)`` is ``compare([res1, res2])``; `names`, or the keys of a mapping, are by default "(1)",
    "(2)", …. `exponentiate` shows exp(estimate) with its limits in place of the estimate with its standard error, see
    `PrivateResults.tidy`. `digits` are decimals of all numbers; by default two figures of the least standard error are
    shown.
    """
    if isinstance(results, Mapping) and not more:
        names, results = list(results) if names is None else names, list(results.values())
    if isinstance(results, PrivateResults):
        results = [results, *more]
    elif more or not isinstance(results, Sequence) or not results:
        raise OptionError("compare() takes one or more results, such as compare([res1, res2]).")
    for i, r in enumerate(results, 1):
        if not isinstance(r, PrivateResults):
            raise OptionError(
                f"item {i} is of type {type(r).__name__}, not results; compare what fit() returns. Beside results of "
                "other libraries statsmodels.iolib.summary2.summary_col shows it."
            )
        if exponentiate:
            check_ratios(r.family, r._fit.design.endog_name)
    digits, labels = None if digits is None else whole("digits", digits, 0, 15), labelled(names, len(results))
    return Comparison(tuple(results), tuple(labels), interval_level(alpha), bool(exponentiate), digits)


def labelled(names: Any, count: int) -> list[str]:
    """Names of so many results: those given, or "(1)", "(2)", …"""
    if names is None:
        return [f"({i})" for i in range(1, count + 1)]
    labels = [plain(n) for n in names] if isinstance(names, Iterable) and not isinstance(names, str | Mapping) else []
    if len(labels) != count or len({*labels}) != count:
        raise OptionError(f"names must be {count} different names, one a result, in a list.")
    return labels


def factor_plain(term: str) -> str:
    """A coefficient's name with k for C(k), which is the same factor."""
    return re.sub(r"\bC\(([^\W\d]\w*|Q\([^()]*\))\)(?=\[)", r"\1", str(term))


def alike(tables: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], Callable[[str], str]]:
    """Tables by term with one label for a factor, C(k) or k, that of the first table; and which label a term has."""
    first = {factor_plain(term): str(term) for table in reversed(tables) for term in reversed(table.index)}

    def label(term: str) -> str:
        return first.get(factor_plain(term), str(term))

    return [table.rename(index=label) for table in tables], label


def references(results: Iterable[tuple[str, Any]]) -> dict[str, dict[Any, str]]:
    """Factors that are compared with one level in some fits and with another in others: these levels, and in which."""
    found: dict[str, dict[Any, str]] = {}
    for name, r in results:
        for term in r._fit.design.terms:
            if term.reference is not None:
                found.setdefault(term.reads[0], {}).setdefault(term.reference, name)
    return {column: by for column, by in found.items() if len(by) > 1}


def targets(results: Sequence[Any]) -> list[str]:
    """Reasons why fits estimate different numbers where models are wrong, in words; of one fit nothing."""
    families = [r._fit.family for r in results]
    if len({repr(f) for f in families}) > 1:
        named = ", ".join(dict.fromkeys(repr(f) for f in families))
        return [f"These fits estimate different quantities unless the model is right: {named}."]
    local = [r.privacy.setting == "reports" for r in results]
    found = [of_results(r._fit) for r in results]
    if len(results) > 1 and found[0] is not None and all(found[0].same(t) for t in found):
        people = [None if r._fit.equation is None else r._fit.equation.people for r in results]
        if all(one == people[0] for one in people):
            return []
    if len(results) > 1 and any(local) and {"auto", "joint"} & {families[0].c, families[0].scale}:
        return [
            f"Each fit learned its threshold and residual scale: with skewed errors targets differ. "
            f"{families[0].name}(c=…, scale=…) gives all fits the same, and so does fit(like=) of an earlier one."
        ]
    return []


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Comparison(View):
    """Results side by side. Made by :func:`compare`."""

    results: tuple[PrivateResults, ...]
    names: tuple[str, ...]
    alpha: float
    exponentiate: bool
    digits: int | None = None  # Decimals

    @property
    def total_mu(self) -> float:
        """GDP parameter per person of all these results together; ``inf`` if one is not private.

        Holds for people who are in all of them. Results of the same reports, as with several methods or along one
        stream, are one release; after saving and loading nothing tells that they are, and they count as several.
        """
        return compose(self._releases().values())

    def _releases(self) -> dict[object, float]:
        """GDP parameter per person of each release, by its reports."""
        out: dict[object, float] = {}
        for r in self.results:
            out[r._fit.origin] = max(r.privacy.total_mu, out.get(r._fit.origin, 0.0))
        return out

    def frame(self) -> pd.DataFrame:
        """Numbers of the table: terms in order of first appearance, "level:term" of multinomial results.

        Columns: (result, quantity), the quantities of `PrivateResults.tidy`; NaN where a result lacks the term.
        """
        with np.errstate(over="ignore"):  # exp of an intercept in large units is infinite
            tidy = [(r._fit, r.tidy(self.exponentiate, alpha=self.alpha)) for r in self.results]
        tables = alike([fit.flat(table).set_index("term") for fit, table in tidy])[0]
        order = dict.fromkeys(t for table in tables for t in table.index)
        both = pd.concat(tables, axis=1, keys=list(self.names), names=["result", "quantity"])
        return Frame(both.reindex(pd.Index(list(order), name="term")))

    def plot(
        self, ax: Any = None, *, intercept: bool = False, scaled: bool = False, exponentiate: bool | None = None
    ) -> Axes | NDArray[Any]:
        """Draw the coefficients; exponentiated as the table is by default. See `PrivateResults.plot_coef`.

        An array if the results have several units.
        """
        side = Side(self.results, self.names)
        ratios = self.exponentiate if exponentiate is None else exponentiate
        return plot_coef(side, alpha=self.alpha, intercept=intercept, scaled=scaled, exponentiate=ratios, ax=ax)

    def _layout(self) -> list[Part]:
        frame, numbers = self.frame(), ("estimate", "std_error", "conf_low", "conf_high")
        columns = list[list[str]]()
        for name in self.names:  # estimates, marked where not to be relied on, "" where none is
            table = cast("pd.DataFrame", frame[name])
            there, out = table[table["estimate"].notna()], dict.fromkeys(table.index, "")
            shown = formatted(there[[k for k in numbers if k in there]], self.digits)
            for i, (term, reliable) in enumerate(zip(there.index, there["reliable"], strict=True)):
                out[term] = shown["estimate"][i] + (MARK if reliable == 0 else "")
                if shown.get("std_error", ["nan"] * len(there))[i] != "nan":
                    limits = f"[{shown['conf_low'][i]}, {shown['conf_high'][i]}]"
                    out[term] += f"\n{limits}" if self.exponentiate else f"\n({shown['std_error'][i]})"
            columns.append(list(out.values()))
        rows, words = ("Dep. variable", "n", "Family", "Baseline", "Inference", "Budget"), list[tuple[str, ...]]()
        for r in self.results:
            response, base = dict(r._fit.title).get("Dep. Variable", ""), r._fit.baseline[:1]
            inference = METHODS[r.methods[0]].title if r.methods else "none"
            words.append(
                (plain(response), f"{r.nobs:,}", r.family.title, "".join(map(plain, base)), inference, r.privacy.short)
            )
        facts = [(k, list(v)) for k, v in zip(rows, zip(*words, strict=True), strict=True) if k != "Baseline" or any(v)]
        title, lines = "Private Online Regressions Compared", list(zip(*columns, strict=True))
        what, below = "Estimates", "(standard errors)"
        if self.exponentiate:
            what, below = "exp(estimates)", f"[{100 * (1 - self.alpha):.6g}% limits]"
        notes = [f"{what} with {below} below." if any(r.methods for r in self.results) else f"{what} only."]
        if not self.exponentiate and len({r._estimate(None).pivot for r in self.results if r.methods}) > 1:
            notes.append("Standard errors of these results have different limit distributions: compare intervals.")
        if len({r._fit.baseline[0] for r in self.results if r._fit.baseline}) > 1:
            notes.append("Multinomial coefficients with different baselines say different things: don't compare them.")
        notes += targets(self.results)
        notes += [
            f"Coefficients of {column} are relative to {', '.join(f'{a} in {name}' for a, name in by.items())}; to "
            "compare them give all fits the same first level, or the same Treatment()."
            for column, by in references(zip(self.names, self.results, strict=True)).items()
        ]
        doubts = [f"{name}: {note}." for name, r in zip(self.names, self.results, strict=True) for note in r._doubts()]
        notes += [f"{MARK} Not to be relied on, as follows.", *doubts] if doubts else []
        total, k = self.total_mu, len(self._releases())
        lead, more = f"Composed over these {k} releases", ", if the same people are in all of them"
        lead, more = (lead, more) if k > 1 else ("One release", "")
        cost = f"{lead}: {within(total, 4)}-GDP per person{more}."
        none = "NOT PRIVATE in all: at least one of these results was fitted with mu=None."
        notes.append(none if math.isinf(total) else cost)
        made = Table(list(map(str, frame.index)), self.names, lines, title, facts=facts)
        return [made, Paragraph("\n".join(notes))]


@known_arguments
def anova(
    small: PrivateResults, large: PrivateResults | None = None, *, method: str | None = None
) -> WaldTest | pd.DataFrame:
    """Test what a larger fit has beside a smaller one; of one fit, each of its terms, see `PrivateResults.anova`.

    Terms that the smaller fit lacks are tested within the larger one, by a `method` of its, in either order. Fits that
    are not nested are an OptionError: other people (by their number), another response, family, baseline, offset or
    exposure, other bounds or levels of columns that both use, or columns that the larger one lacks.

    This is the Wald test within the larger fit that its additional coefficients are all 0. Both fits are made of
    reports with other noise, so that no difference between them has a known distribution. The smaller fit therefore
    says nothing here: it is another release, at a cost, for which ``large.anova()`` and ``large.wald_test(["bmi",
    "C(region)"])`` tell the same without it.
    """
    for r in (small, large):
        if not isinstance(r, PrivateResults) and not (r is None and r is large):
            listed = "; give the results one by one, not in a list" if isinstance(r, list | tuple) else ""
            raise OptionError(
                f"anova() takes what fit() returns, such as anova(small, large); got {type(r).__name__}{listed}."
            )
    if large is None:
        return small.anova(method=method)
    if len(large._fit.design.names) < len(small._fit.design.names):
        small, large = large, small
    a, b = small._fit, large._fit
    there, names = set(map(factor_plain, a.design.names)), list(map(factor_plain, b.design.names))
    one, two, extra = a.design.schema, b.design.schema, [n for n in a.design.names if factor_plain(n) not in names]
    both = sorted(set(a.design.columns) & set(b.design.columns))
    other = [c for c in both if (one.bounds.get(c), one.levels.get(c)) != (two.bounds.get(c), two.levels.get(c))]
    added = [(fit.design.offset, fit.design.exposure) for fit in (a, b)]
    of = [fit.design.endog_name + "".join(f" (baseline {base})" for base in fit.baseline[:1]) for fit in (a, b)]
    reasons = [
        (type(small) is not type(large), "one is of people's reports, the other a curator's"),
        (a.nobs != b.nobs, f"they are of {a.nobs:,} and {b.nobs:,} records; fit both to the same"),
        (of[0] != of[1], f"their responses are {of[0]} and {of[1]}"),
        (repr(a.family) != repr(b.family), f"their families are {a.family!r} and {b.family!r}"),
        (added[0] != added[1], "they have not the same offset and exposure"),
        (extra, f"the larger one lacks {', '.join(extra)}"),
        (other, f"{', '.join(other)} have other bounds or levels in one than in the other"),
        (len(a.design.names) == len(b.design.names), "they have the same terms; compare() puts them side by side"),
    ]
    refuse({f"anova() compares nested fits, and these are not: {why}": true for true, why in reasons}, OptionError)
    lacking = [t.name for t in b.design.terms if any(names[j] not in there for j in t.columns)]
    at = [j for j in range(len(b.names)) if names[j % len(names)] not in there]
    words = (
        f"Wald test within the larger fit: {', '.join(lacking)}. The smaller fit has other noise and isn't used: "
        f"the larger fit's wald_test({lacking!r}) says the same without it."
    )
    return wald_test(large._known(method, "anova"), np.eye(len(b.names))[at], words)
