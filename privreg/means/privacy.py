"""The summary of mean and frequency estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privreg.inference.methods import Normal
from privreg.results.summary import Summary, caution, marked
from privreg.tables import limits_header, number

if TYPE_CHECKING:
    from privreg.means.results import MeansResults

__all__ = ["MeansSummary"]


class MeansSummary(Summary):
    """Header, estimates and privacy statement, laid out as those of a regression.

    Parameters
    ----------
    results : MeansResults
    alpha : float
        One minus the level of the intervals.
    """

    heading = "Private Means and Frequencies"

    def __init__(self, results: MeansResults, alpha: float = 0.05) -> None:
        table = results.tidy(alpha=alpha)
        self._title, self._statement = results.header, results.privacy
        self._response, self._levels, self._terms = "", (), len(table)
        critical = Normal().critical(alpha)
        self._law = f"limits are normal; {100 * (1 - alpha):.6g}% critical value {critical:.3f}"
        if results.biased:
            self._law += "; THESE ARE NOT MEANS: see the notes"
        self._names = marked(table)
        self._caution = caution(table, self._statement.notes, self._statement.doubts)
        self._head = ["estimate", "std err", *limits_header(alpha)]
        columns = [[number(v, 4) for v in table["estimate"]]]
        columns += [[number(v, 4) for v in table[c]] for c in ("std_error", "conf_low", "conf_high")]
        self._rows = [list(row) for row in zip(*columns, strict=True)]
