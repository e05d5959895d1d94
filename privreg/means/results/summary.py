"""The summary of mean and frequency estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privreg.inference.methods import Normal
from privreg.results.summary import Summary, caution, marked
from privreg.tables import Paragraph, Table, cells

if TYPE_CHECKING:
    from privreg.means.results.results import MeansResults

__all__ = ["summarise"]


def summarise(results: MeansResults, alpha: float = 0.05) -> Summary:
    """Summary of means, laid out as that of a regression; see `MeansResults.summary`."""
    table, statement = results.tidy(alpha=alpha), results.privacy
    law = f"limits are normal; {100 * (1 - alpha):.6g}% critical value {Normal().critical(alpha):.3f}"
    if results.biased:
        law += "; THESE ARE NOT MEANS: see the notes"
    below = (Paragraph(law), *caution(table, statement.notes, statement.doubts))
    shown = Table(marked(table), *cells(table, alpha, "estimate", 4))
    return Summary("Private Means and Frequencies", results.header, shown, below, statement)
