"""Shares of levels as tables: two factors crossed with a test that they are independent, and classes of a number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, real, shown
from privreg.means.results.fit import ChiSquareTest, Moved, Shares, limits
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.tables import MARK, Paragraph, Part, Table, View, cells, noted, plain
from privreg.tables.diagnostics import Diagnostic


def independence(shares: Array, cov: Array) -> tuple[float, int, float]:
    """Statistic, degrees of freedom and p-value of the test that shares, shape (a, b), are of independent factors.

    Wald's test (1943, *Transactions of the American Mathematical Society* 54) that s p_ij = r_i c_j for shares p, their
    sum s and margins r and c, by slopes at independence and the covariance of the shares, of sampling and of noise.
    Noise that is alike in all cells leaves the differences unbiased.
    """
    from scipy.stats import chi2

    def difference(p: Any) -> Any:
        row, column, whole = (p.sum(axis=axis, keepdims=True) for axis in (-1, -2, (-1, -2)))
        return (whole * p - row * column)[..., :-1, :-1]

    found, df = difference(shares).ravel(), (shares.shape[0] - 1) * (shares.shape[1] - 1)
    if not np.isfinite(found).all():
        return math.nan, df, math.nan
    independent = np.outer(shares.sum(axis=1), shares.sum(axis=0)) / shares.sum()
    statistic = float(found @ np.linalg.pinv(Moved(difference, independent, cov).cov, hermitian=True) @ found)
    return statistic, df, float(chi2.sf(statistic, df))


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Crosstab(Shares):
    """A two-way table of shares. Made by :meth:`MeansResults.crosstab`."""

    @property
    def shares(self) -> pd.DataFrame:
        """Shares, with their sums in the last row and column; they may come out below 0, being unbiased."""
        return self._summed()[0]

    @property
    def std_errors(self) -> pd.DataFrame:
        """Standard errors of the shares and of their sums, of sampling and of noise."""
        return self._summed()[1]

    @property
    def counts(self) -> pd.DataFrame:
        """Shares times the number of records that have both values."""
        return self.shares * self.people

    def proportions(self, margin: str = "rows", *, alpha: float = 0.05) -> pd.DataFrame:
        """Shares within rows or columns, by `margin`, as R's ``prop.table(table, 1)``.

        Index: row and column level; share, std_error, conf_low, conf_high, normal limits by the delta method. NaN of a
        row whose share came out as 0 or less. ``["share"].unstack()`` is the table.
        """
        axis = -1 if choose("margin", margin, ("rows", "columns")) == "rows" else -2

        def within(p: Any) -> Any:
            whole = p.sum(axis=axis, keepdims=True)
            return p / np.where(whole.real > 0.0, whole, np.nan)

        found = Moved(within, self._table, self.cov)
        share, error = found.values.ravel(), found.errors.ravel()
        index = pd.MultiIndex.from_product([part.labels for part in self.term.parts], names=self.term.columns)
        return Frame({"share": share, "std_error": error, **limits(share, error, alpha, 0.0, 1.0)}, index=index)

    def conf_int(self, alpha: float = 0.05) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Lower and upper normal limits of every share, each by itself."""
        shares, errors = self._summed()
        low, high = limits(shares, errors, alpha, 0.0, 1.0).values()
        return low, high

    @property
    def test(self) -> ChiSquareTest:
        """Test that the two factors are independent."""
        of = f"Independence of {' and '.join(self.term.columns)}"
        return ChiSquareTest(*independence(self._table, self.cov), of, self.notes)

    @property
    def _table(self) -> Array:
        return self.estimates.reshape([len(part.levels) for part in self.term.parts])

    def _summed(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Cells with sums of rows and columns: shares, and their standard errors."""

        def summed(p: Any) -> Any:
            rows = np.concatenate([p, p.sum(axis=-2, keepdims=True)], axis=-2)
            return np.concatenate([rows, rows.sum(axis=-1, keepdims=True)], axis=-1)

        found = Moved(summed, self._table, self.cov)
        index, columns = (pd.Index([*part.labels, "All"], name=part.column) for part in self.term.parts)
        return pd.DataFrame(found.values, index, columns), pd.DataFrame(found.errors, index, columns)

    def _layout(self) -> list[Part]:
        row, column = self.term.parts
        both = zip(*(frame.to_numpy() for frame in self._summed()), strict=True)
        *rows, last = [[f"{p:.4f}\n({e:.4f})" for p, e in zip(*cells, strict=True)] for cells in both]
        title = f"Joint shares of {row.column} (rows) and {column.column} (columns), of records that have both"
        facts = [("All", [v.replace("\n", " ") for v in last])]
        below = "Standard errors of sampling and noise in brackets.\n"
        below += f"Independence, noise accounted for: {self.test.words}.\n"
        if not math.isnan(self.missing):
            lost = f"{self.missing:.4f} ({self.missing_error:.4f})"
            below += f"Missing: {lost} of the records lack a value of one of them, or both.\n"
        shown = Table(row.labels, (*column.labels, "All"), rows, title, facts=facts)
        return [shown, Paragraph(below + self.footer), *noted(self.notes)]


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Histogram(Shares):
    """Shares of a number's classes. Made by :meth:`MeansResults.histogram`."""

    @property
    def edges(self) -> tuple[float, ...]:
        """Numbers between which the classes are, shape (k + 1,)."""
        return self.term.edges

    @property
    def shares(self) -> Array:
        """Shares of the classes, shape (k,)."""
        return self.estimates

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """One class a row: low, high (its ends), share, std_error, conf_low, conf_high, density (share over length)."""
        shares, error = self.estimates, np.sqrt(np.diag(self.cov))
        columns = {"low": self.edges[:-1], "high": self.edges[1:], "share": shares, "std_error": error}
        return Frame(columns | limits(shares, error, alpha, 0.0, 1.0) | {"density": shares / np.diff(self.edges)})

    def quantile(self, q: float | Sequence[float] = 0.5, *, alpha: float = 0.05) -> pd.DataFrame:
        """Quantiles by a smooth curve through the cumulated shares of classes: index q; estimate, conf_low, conf_high.

        The estimate is where a monotone cubic curve (Fritsch and Butland's) through the cumulative shares, made to rise
        by least squares, reaches q; limits are where the curves of their normal band do (Woodruff 1952, JASA 47,
        635-646). Nothing tells how numbers are spread within a class, so that classes should be narrow where the
        density bends.
        """
        from scipy.interpolate import PchipInterpolator  # slow to import
        from scipy.optimize import isotonic_regression

        given = [real(v) for v in (q if isinstance(q, Sequence | np.ndarray) else [q])]
        if not (asked := [v for v in given if v is not None and 0.0 < v < 1.0]) or len(asked) < len(given):
            raise OptionError(f"q={shown(q)} must be one or more numbers in (0, 1), such as 0.5 or [0.25, 0.75].")
        found = Moved(lambda p: np.cumsum(p, axis=-1), self.estimates, self.cov)
        below, quantiles = found.values, pd.Index(asked, name="q")
        if not np.isfinite(below).all():  # noise left nobody who has a share
            return Frame(dict.fromkeys(("estimate", "conf_low", "conf_high"), math.nan), index=quantiles)
        low, high = (limit[:-1] for limit in limits(below, found.errors, alpha).values())
        at = np.append(np.linspace(self.edges[:-1], self.edges[1:], 65, axis=1)[:, :-1].ravel(), self.edges[-1])

        def reached(rising: Array, side: Literal["left", "right"]) -> Array:
            """Points at which a rising curve over the inner edges first reaches each q, or is last at most q."""
            values = np.concatenate([[0.0], np.clip(rising, 0.0, 1.0), [1.0]])
            curve = np.maximum.accumulate(PchipInterpolator(self.edges, values)(at))
            j = np.clip(np.searchsorted(curve, asked, side=side), 1, len(at) - 1)
            part = (np.asarray(asked) - curve[j - 1]) / np.maximum(curve[j] - curve[j - 1], 1e-300)
            return np.asarray(at[j - 1] + np.clip(part, 0.0, 1.0) * (at[j] - at[j - 1]))

        columns = {"estimate": reached(isotonic_regression(np.clip(below[:-1], 0.0, 1.0)).x, "left")}
        columns["conf_low"] = reached(np.maximum.accumulate(high), "left")
        columns["conf_high"] = reached(np.minimum.accumulate(low[::-1])[::-1], "right")
        return Frame(columns, index=quantiles)

    def plot(self, *, alpha: float = 0.05, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the density with intervals of each class."""
        frame, lengths, name = self.frame(alpha), np.diff(self.edges), plain(self.term.columns[0])
        footer = f"{100 * (1 - alpha):.6g}% intervals; {self.privacy.headline}"
        footer += f"\n{self.notes[0]}" if self.notes else ""
        with style.drawing(ax, (1.2 * style.COLUMN, 0.8 * style.COLUMN), footer, title) as on:
            inks = style.inks_for(on)
            on.bar(frame["low"], frame["density"], lengths, align="edge", color=inks[0], alpha=0.45, edgecolor=inks[0])
            middles = frame["low"] + lengths / 2.0
            on.vlines(middles, frame["conf_low"] / lengths, frame["conf_high"] / lengths, color=inks[0], linewidth=1.2)
            on.axhline(0.0, color=inks.grey, linewidth=0.7)
            on.set(xlim=(self.edges[0], self.edges[-1]), xlabel=style.literal(name), ylabel="density")
        return cast("Axes", on)

    def _layout(self) -> list[Part]:
        frame, (median,) = self.frame(), self.quantile(0.5).itertuples(index=False)
        head, rows = cells(frame.rename(columns={"share": "estimate"}), 0.05, "share")
        digits = max(3 - math.floor(math.log10(max(self.edges[-1] - self.edges[0], 1e-300))), 0)
        middle, low, high = (f"{v:.{digits}f}" for v in median)
        said = f"Median {middle}, 95% interval {low} to {high}; quantile() has others."
        shown = Table(self.term.labels, head, rows, f"Histogram of {plain(self.term.columns[0])}")
        return [shown, Paragraph(f"{said}\n{self.footer}"), *noted(self.notes)]


@all_known_arguments
@dataclass(frozen=True, repr=False)
class TableOne(View):
    """People described: means of numbers, shares of levels, by subgroup. Made by :meth:`MeansResults.table_one`."""

    numbers: pd.DataFrame  # See `frame`
    by: str | None  # Column of the public subgroups
    guarantee: str
    notes: tuple[Diagnostic, ...] = ()  # Whatever takes estimates back

    def frame(self) -> pd.DataFrame:
        """Numbers of the table: a line for each group, "All" first, and variable or level.

        variable, level, group, people, estimate, std_error, sd (NaN of levels, and with local noise), count (share
        times people who have a value; NaN of numbers), missing (who have none; NaN where it isn't asked), p_value (of
        the variable), reliable.
        """
        return self.numbers.copy()

    def _layout(self) -> list[Part]:
        people = self.numbers.groupby("group", sort=False)["people"].first()
        lines, compared = list[tuple[str, list[str], str]](), self.by is not None
        for variable, part in self.numbers.groupby("variable", sort=False):
            p = part["p_value"].iloc[0]
            test = "" if math.isnan(p) else "<0.001" if p < 5e-4 else f"{p:.3f}"
            if part["level"].isna().all():
                beside = "SE" if part["sd"].isna().all() else "SD"
                lines.append((f"{variable}, mean ({beside})", _described(part), test))
            else:
                lines.append((f"{variable}, n (%)", [""] * len(people), test))
            lines += [(f"  {level}", _described(line), "") for level, line in part.groupby("level", sort=False)]
            if part["missing"].notna().any():
                lost = part.drop_duplicates("group")
                lines.append(("  missing", _counts(lost["missing"], lost["missing"] / lost["people"]), ""))
        rows = [[*shown, *[test] * compared] for _, shown, test in lines]
        facts = [("People", [*(f"{n:,}" for n in people), *[""] * compared])]
        title = "Characteristics of people" + (f" by {self.by}" if compared else "")
        below = "Estimates carry noise; n is the share times the people who have a value, and 0 if noise makes it less."
        below += "\np-values: Wald's tests that subgroups are alike, noise accounted for." * compared
        below += f"\nPrivacy: {self.guarantee}" + ("; each person is in one subgroup." if compared else ".")
        names, head = [name for name, *_ in lines], [*people.index, *["p-value"] * compared]
        return [Table(names, head, rows, title, facts=facts), Paragraph(below), *noted(self.notes)]


def _described(line: pd.DataFrame) -> list[str]:
    """A line's estimates by group: mean (sd, or standard error where there is none), or count (share)."""
    if line["level"].isna().all():
        beside = line["std_error"] if line["sd"].isna().all() else line["sd"]
        least = line["std_error"][line["std_error"] > 0.0].min()  # of which two figures are to be seen
        digits = min(max(1 - math.floor(math.log10(least)), 0), 6) if least > 0.0 else 2
        shown = [f"{m:.{digits}f} ({s:.{digits}f})" for m, s in zip(line["estimate"], beside, strict=True)]
    else:
        shown = _counts(line["count"], line["estimate"])
    return [text if ok else f"{text} {MARK}" for text, ok in zip(shown, line["reliable"], strict=True)]


def _counts(counts: pd.Series, shares: pd.Series) -> list[str]:
    both = zip(counts.clip(0.0) + 0.0, 100.0 * shares.clip(0.0) + 0.0, strict=True)  # no minus before 0
    return [f"{n:,.0f} ({p:.1f}%)" for n, p in both]
