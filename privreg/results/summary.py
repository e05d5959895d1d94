"""The summary of a result as text, HTML and LaTeX.

Everything shown comes from ``results.tidy()``, the header of the fit and the privacy statement; nothing is
computed here.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.inference.methods import METHODS, RandomScaling
from privreg.inference.simultaneous import joint_critical
from privreg.tables import (
    MARK,
    WIDTH,
    cells,
    fold,
    html_block,
    html_rows,
    html_table,
    number,
    plain,
    right,
    shorten,
    span,
    table_text,
    tex,
    tex_block,
    tex_notes,
    tex_pairs,
    tex_table,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from privreg.results.results import PrivateResults
    from privreg.results.statement import PrivacyStatement

__all__ = ["Summary", "number", "plain", "privacy_html", "privacy_text", "shorten", "tex"]

TITLE: Final = "Private Online Regression Results"
_GAP: Final = 3
_HALF: Final = (WIDTH - _GAP) // 2
_LABEL: Final = 22


# --- header and privacy ----------------------------------------------------------------------------------


def paired(entries: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], ...]]:
    """Arrange header entries two a row where they fit, long ones alone and last."""
    short = [e for e in entries if span(e[0]) + span(e[1]) + 2 <= _HALF]
    long = [e for e in entries if e not in short]
    return [tuple(short[i : i + 2]) for i in range(0, len(short), 2)] + [(e,) for e in long]


def _half_line(label: str, value: str) -> str:
    return f"{label}:" + right(plain(value), _HALF - len(label) - 1)


def _header_text(entries: Sequence[tuple[str, str]]) -> list[str]:
    out: list[str] = []
    for row in paired(entries):
        if len(row) == 2 or span(row[0][0]) + span(row[0][1]) + 2 <= _HALF:
            out.append((" " * _GAP).join(_half_line(*e) for e in row))
        else:
            label, value = row[0]
            indent = max(len(e[0]) for e in entries) + 3
            out += wrapped(f"{label}:", value, min(indent, _LABEL))
    return out


def privacy_text(statement: PrivacyStatement) -> str:
    """Lay out a privacy statement as text of at most 80 columns, with numbered notes.

    Parameters
    ----------
    statement : PrivacyStatement

    Returns
    -------
    str
    """
    out = [] if statement.loud is None else [statement.loud]
    for label, text in statement.rows():
        out += wrapped(f"{label}:", text, _LABEL)
    if statement.notes:
        out += ["", "Notes:"]
        for i, note in enumerate(statement.notes, 1):
            out += wrapped(f"[{i}]", note, 4 if i < 10 else 5)
    return "\n".join(out)


def privacy_html(statement: PrivacyStatement) -> str:
    """Lay out a privacy statement as a block of HTML that reads on light and dark grounds.

    Parameters
    ----------
    statement : PrivacyStatement

    Returns
    -------
    str
    """
    return html_block(_privacy_html_body(statement))


def _privacy_html_body(statement: PrivacyStatement) -> str:
    out = [] if statement.loud is None else [f'<p class="loud">{escape(statement.loud)}</p>']
    rows = html_rows([(pair,) for pair in statement.rows()])
    out.append(f'<table>\n<caption class="title">Privacy</caption>\n<tbody>\n{rows}\n</tbody>\n</table>')
    if statement.notes:
        notes = "\n".join(f"<li>{escape(plain(n))}</li>" for n in statement.notes)
        out.append(f"<ol>\n{notes}\n</ol>")
    return "\n".join(out)


# --- the summary -----------------------------------------------------------------------------------------


def marked(table: pd.DataFrame) -> list[str]:
    """Names of the rows of a tidy table, those that should not be relied on with a mark."""
    pairs = zip(table["term"].astype(str), table["reliable"], strict=True)
    return [name if reliable else f"{name} {MARK}" for name, reliable in pairs]


def caution(table: pd.DataFrame, notes: Sequence[str], taken_back: Sequence[str]) -> str | None:
    """What the mark means, with the numbers of the notes that say why; None if no row of the table has one."""
    if table["reliable"].all():
        return None
    *first, last = [f"[{i}]" for i, note in enumerate(notes, 1) if note in taken_back]
    which = f"notes {', '.join(first)} and {last}" if first else f"note {last}"
    some = "MARKED " if table["reliable"].any() else ""
    what = "INTERVALS" if "conf_low" in table else "ESTIMATES"
    return f"{MARK} DON'T RELY ON THE {some}{what}: see {which}"


class Summary:
    """Header, coefficients and privacy statement of a result.

    Parameters
    ----------
    results : PrivateResults
    alpha : float
        One minus the level of the intervals.
    method : str or None
        Inference method; None for the fit's first.
    simultaneous : bool
        Whether the intervals of all coefficients are to hold together.

    Raises
    ------
    OptionError
        If `alpha` is not in (0, 1).
    InferenceError
        If the fit was not made with `method`.
    """

    heading = TITLE

    def __init__(
        self, results: PrivateResults, alpha: float = 0.05, method: str | None = None, simultaneous: bool = False
    ) -> None:
        fit = results._fit
        self._title, self._statement = fit.title, results.privacy
        self._response, self._levels, self._terms = fit.design.endog_name, fit.baseline, len(fit.design.names)
        self._law: str | None = None
        if fit.estimates or method is not None:  # with inference=None, asking for a method is an error
            e = results._estimate(method)
            table = results.tidy(alpha=alpha, method=method, simultaneous=simultaneous)
            law = e.pivot.label
            if isinstance(e.pivot, RandomScaling):
                lanes = f" of {e.pivot.lanes} lanes" if e.pivot.lanes > 1 else ""
                law = f"random-scaling limit{lanes}"
            by = METHODS[e.method].title if e.method in METHODS else e.method
            by = f"std err by {by}; " if len(fit.estimates) > 1 else ""
            joint = joint_critical(e.pivot, e.cov, alpha) if simultaneous else e.pivot.critical(alpha)
            found = np.atleast_1d(joint)
            value = f"value {found[0]:.3f}" if len(found) == 1 else f"values {found.min():.3f} to {found.max():.3f}"
            words = f"{100 * (1 - alpha):.6g}% critical {value}"
            if simultaneous:
                words = f"the {len(table)} intervals hold together, {words}"
            self._law = f"{by}t and P>|t| refer to the {law}; {words}"
        else:
            table = results.tidy()
        self._names = marked(table)
        self._caution = caution(table, self._statement.notes, results._doubts(method))
        self._head, self._rows = cells(table, alpha)

    def _blocks(self, width: int | None = None) -> dict[int, str]:
        """Titles of the levels' blocks, by their first row; levels are shortened to fit `width`, if it is given."""
        response, levels = self._response, list(self._levels)
        if width is not None:
            (response,) = shorten([response], 16)
            levels = shorten(levels, (width - span(f"{response}=  (baseline {response}=)")) // 2)
        return {
            i * self._terms: f"{response}={level}  (baseline {response}={levels[0]})"
            for i, level in enumerate(levels[1:])
        }

    def as_text(self) -> str:
        """Lay out as plain text, at most 80 columns wide.

        Very long names of coefficients are shortened in the middle.

        Returns
        -------
        str
        """
        double, single = "=" * WIDTH, "-" * WIDTH
        out = [self.heading.center(WIDTH).rstrip()]
        if self._statement.loud:
            out.append(f"*** {self._statement.loud} ***".center(WIDTH).rstrip())
        out += [double, *_header_text(self._title), double]
        out += [*table_text(self._names, self._head, self._rows, self._blocks(WIDTH)), double]
        for words in (self._law, self._caution):
            out += fold(words) if words else []
        out += ["", "Privacy".center(WIDTH).rstrip(), single]
        return "\n".join([*out, privacy_text(self._statement)])

    def as_html(self) -> str:
        """Lay out as a self-contained block of HTML, with its own scoped style and every name escaped.

        Colours are inherited from the page, so it reads on light and dark grounds.

        Returns
        -------
        str
        """
        words = self._statement.loud
        loud = f'<p class="loud">{escape(words)}</p>\n' if words else ""
        head = f'<caption class="title">{self.heading}</caption>\n<tbody>\n{html_rows(paired(self._title))}\n</tbody>'
        law = f"<p>{escape(self._law)}</p>\n" if self._law else ""
        law += f'<p class="caution">{escape(self._caution)}</p>\n' if self._caution else ""
        table = html_table(self._names, self._head, self._rows, blocks=self._blocks())
        body = f"{loud}<table>\n{head}\n</table>\n{table}\n{law}{_privacy_html_body(self._statement)}"
        return html_block(body)

    def as_latex(self) -> str:
        r"""Lay out as LaTeX to be included in a document.

        Returns
        -------
        str
            The preamble needs ``\usepackage{booktabs}`` and ``\usepackage{array}``, and for tables too long for a
            page ``\usepackage{longtable}``; the first line says which. Names in scripts other than Latin and Greek
            need LuaLaTeX or XeLaTeX with a font that has them.
        """
        title = f"{{\\normalsize\\textbf{{{self.heading}}}}}"
        parts = [title]
        if self._statement.loud:
            parts.append(f"\\textbf{{{tex(self._statement.loud)}}}")
        table = tex_table(self._names, self._head, self._rows, self._blocks())
        parts += [tex_pairs(self._title), table]
        below = [tex(words) for words in (self._law, self._caution) if words]
        if below:
            parts.append(tex_notes(below))
        parts.append(tex_pairs(self._statement.rows(), "Privacy"))
        notes = [f"{{[}}{i}{{]}} {tex(n)}" for i, n in enumerate(self._statement.notes, 1)]
        if notes:
            parts.append(tex_notes(notes))
        return tex_block(parts)

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.as_html()
