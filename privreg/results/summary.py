"""The summary of a result as text, HTML and LaTeX.

Everything shown comes from ``results.tidy()``, the header of the fit and the privacy statement; nothing is
computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.inference.methods import METHODS, RandomScaling
from privreg.inference.simultaneous import joint_critical
from privreg.tables import (
    MARK,
    WIDTH,
    Header,
    Lines,
    Paragraph,
    Table,
    View,
    cells,
    shorten,
    span,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from privreg.inference.methods import Estimate
    from privreg.results.results import PrivateResults
    from privreg.results.statement import PrivacyStatement
    from privreg.tables import Part

__all__ = ["Summary", "caution", "level_table", "marked", "summarise"]


@dataclass(frozen=True, repr=False)
class Summary(View):
    """Header, coefficients and privacy statement of a result."""

    heading: str
    header: tuple[tuple[str, str], ...]
    table: Table
    below: tuple[Paragraph, ...]  # what the table's numbers refer to, and what its mark means
    statement: PrivacyStatement

    def _layout(self) -> list[Part]:
        double, privacy = Lines(("=" * WIDTH,)), Lines(("", "Privacy".center(WIDTH).rstrip(), "-" * WIDTH))
        head = Header(self.header, self.heading, self.statement.loud)
        return [head, self.table, double, *self.below, privacy, *self.statement._layout()]


# --- the table -------------------------------------------------------------------------------------------


def marked(table: pd.DataFrame) -> list[str]:
    """Names of the rows of a tidy table, those that should not be relied on with a mark."""
    pairs = zip(table["term"].astype(str), table["reliable"], strict=True)
    return [name if reliable else f"{name} {MARK}" for name, reliable in pairs]


def caution(table: pd.DataFrame, notes: Sequence[str], taken_back: Sequence[str]) -> tuple[Paragraph, ...]:
    """What the mark means, with the numbers of the notes that say why; nothing if no row of the table has one."""
    if table["reliable"].all():
        return ()
    *first, last = [f"[{i}]" for i, note in enumerate(notes, 1) if note in taken_back]
    which = f"notes {', '.join(first)} and {last}" if first else f"note {last}"
    some = "MARKED " if table["reliable"].any() else ""
    what = "INTERVALS" if "conf_low" in table else "ESTIMATES"
    return (Paragraph(f"{MARK} DON'T RELY ON THE {some}{what}: see {which}", "caution"),)


def level_table(table: pd.DataFrame, alpha: float, response: str, levels: Sequence[str]) -> Table:
    """Lay out a tidy table, that of a multinomial fit with a block for each of `levels` but the first."""
    terms = len(table) // max(len(levels) - 1, 1)

    def blocks(response: str, levels: Sequence[str]) -> dict[int, str]:
        base = f"  (baseline {response}={levels[0]})" if levels else ""
        return {i * terms: f"{response}={level}{base}" for i, level in enumerate(levels[1:])}

    (short,) = shorten([response], 16)
    room = (WIDTH - span(f"{short}=  (baseline {short}=)")) // 2
    short_blocks = blocks(short, shorten(levels, room))
    return Table(marked(table), *cells(table, alpha), blocks=blocks(response, levels), short_blocks=short_blocks)


# --- of a regression -------------------------------------------------------------------------------------

TITLE: Final = "Private Online Regression Results"


def summarise(results: PrivateResults, alpha: float, method: str | None, simultaneous: bool) -> Summary:
    """Summary of a regression; see `PrivateResults.summary`.

    Raises
    ------
    OptionError
        If `alpha` is not in (0, 1).
    InferenceError
        If the fit was not made with `method`.
    """
    fit = results._fit
    law: tuple[Paragraph, ...] = ()
    if fit.estimates or method is not None:  # with inference=None, asking for a method is an error
        e = results._estimate(method)
        table = results.tidy(alpha=alpha, method=method, simultaneous=simultaneous)
        law = (Paragraph(_law(e, alpha, len(table), several=len(fit.estimates) > 1, simultaneous=simultaneous)),)
    else:
        table = results.tidy()
    doubts = caution(table, results.privacy.notes, results._doubts(method))
    shown = level_table(table, alpha, str(fit.design.endog_name), fit.baseline)
    return Summary(TITLE, fit.title, shown, law + doubts, results.privacy)


def _law(e: Estimate, alpha: float, rows: int, *, several: bool, simultaneous: bool) -> str:
    """What t and P>|t| refer to, and the critical value."""
    law = e.pivot.label
    if isinstance(e.pivot, RandomScaling):
        lanes = f" of {e.pivot.lanes} lanes" if e.pivot.lanes > 1 else ""
        law = f"random-scaling limit{lanes}"
    by = METHODS[e.method].title if e.method in METHODS else e.method
    by = f"std err by {by}; " if several else ""
    found = np.atleast_1d(joint_critical(e.pivot, e.cov, alpha) if simultaneous else e.pivot.critical(alpha))
    value = f"value {found[0]:.3f}" if len(found) == 1 else f"values {found.min():.3f} to {found.max():.3f}"
    words = f"{100 * (1 - alpha):.6g}% critical {value}"
    if simultaneous:
        words = f"the {rows} intervals hold together, {words}"
    return f"{by}t and P>|t| refer to the {law}; {words}"
