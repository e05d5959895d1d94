"""The table that opens a paper: people described, by public subgroups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import pandas as pd

from privreg.options.unknown import all_known_arguments
from privreg.tables import MARK, Paragraph, Part, Table, View, noted
from privreg.tables.diagnostics import Diagnostic

COLUMNS: Final = (
    *("variable", "level", "group", "people", "estimate", "std_error", "sd", "count", "missing", "p_value", "reliable"),
)


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
        names, rows = [], []
        for variable, part in self.numbers.groupby("variable", sort=False):
            p = part["p_value"].iloc[0]
            test = [] if self.by is None else ["" if math.isnan(p) else "<0.001" if p < 5e-4 else f"{p:.3f}"]
            if part["level"].isna().all():
                names.append(f"{variable}, mean ({'SE' if part['sd'].isna().all() else 'SD'})")
                rows.append([*_cells(part), *test])
            else:
                names.append(f"{variable}, n (%)")
                rows.append([*[""] * len(people), *test])
            for level, line in part.groupby("level", sort=False):
                names.append(f"  {level}")
                rows.append([*_cells(line), *[""] * len(test)])
            if part["missing"].notna().any():
                lost = part.drop_duplicates("group")
                names.append("  missing")
                rows.append([*_counts(lost["missing"], lost["missing"] / lost["people"]), *[""] * len(test)])
        head, last = [*people.index, *["p-value"] * len(test)], [*(f"{n:,}" for n in people), *[""] * len(test)]
        title = "Characteristics of people" + ("" if self.by is None else f" by {self.by}")
        below = ["Estimates carry noise; n is the share times the people who have a value."]
        if self.by is not None:
            below.append("p-values: Wald's tests that subgroups are alike, noise accounted for.")
        below.append(f"Privacy: {self.guarantee}" + ("." if self.by is None else "; each person is in one subgroup."))
        shown = Table(names, head, rows, title, facts=[("People", last)])
        return [shown, Paragraph("\n".join(below)), *noted(self.notes)]


def _cells(line: pd.DataFrame) -> list[str]:
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
    both = zip(counts.round() + 0.0, (100.0 * shares).round(1) + 0.0, strict=True)  # no minus before 0
    return [f"{n:,.0f} ({p:.1f}%)" for n, p in both]
