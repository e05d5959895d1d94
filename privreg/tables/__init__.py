"""Tables and other views as text, HTML, LaTeX and Markdown.

`parts` has what a view consists of, with its numbers, names and lines; `text` (Markdown, HTML and LaTeX too) and `docx`
lay it out. `diagnostics` are the notes of results, by code and severity.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privreg.base import archive
from privreg.errors import OptionError, choose
from privreg.options.unknown import WORDS
from privreg.tables.docx import as_docx
from privreg.tables.parts import (
    MARK,
    WIDTH,
    Header,
    Lines,
    Notes,
    Pairs,
    Paragraph,
    Part,
    Table,
    cells,
    estimates_table,
    fold,
    formatted,
    in_one_format,
    marked,
    noted,
    plain,
    respelt,
    shorten,
)
from privreg.tables.text import as_html, as_latex, as_markdown, as_page, as_text, tex

__all__ = [
    "MARK", "WIDTH", "Header", "Lines", "Notes", "Pairs", "Paragraph", "Part", "Table", "View", "as_html", "as_latex",
    "as_markdown", "as_page", "as_text", "cells", "estimates_table", "fold", "formatted", "in_one_format",
    "marked", "noted", "plain", "respelt", "shorten", "tex", "write",
]  # fmt: skip

_NUMBERS: Final = frozenset({".csv", ".tsv", ".xlsx", ".xls", ".parquet", ".json"})
"""Endings of files that hold numbers, and nothing that they rest on."""


def write(
    path: str | Path, parts: Sequence[Part], more: Mapping[str, Callable[[], str]] | None = None, title: str = ""
) -> None:
    """Write parts to a file, atomically, by its ending: .txt, .md, .html (a page), .tex (to be included) or .docx.

    `title` is that of the page, by default the first title in it; `more` are further forms, by ending.
    Raises OptionError if the ending is another; MissingExtraError if it is .docx, and python-docx is not installed.
    """
    title = title or next(filter(None, (getattr(part, "title", "") for part in parts)), "Results")
    forms: dict[str, Callable[[], str | bytes]] = {
        ".txt": lambda: as_text(parts) + "\n",
        ".md": lambda: as_markdown(parts),
        ".html": lambda: as_page(title, as_html(parts)) + "\n",
        ".tex": lambda: as_latex(parts),
        ".docx": lambda: as_docx(parts),
        **(more or {}),
    }
    if (ending := Path(path).suffix.lower()) in _NUMBERS - set(forms):
        raise OptionError(
            f"save() writes {', '.join(forms)}, not {ending}; numbers alone are in the DataFrame of tidy(), "
            "summary_frame(), frame() or table: tidy().save('table.csv'), or let pandas write it."
        )
    made = forms[choose("the ending of the file", ending, forms)]()
    archive.write_bytes(path, made if isinstance(made, bytes) else made.encode())


class View:
    """A page for readers: a class that lists its parts gets its text, HTML, LaTeX, Markdown and files.

    `alpha` of its methods is one minus the level of intervals, in (0, 1), else an OptionError; plots take a `title`,
    and `ax` to be drawn on, without which a figure is made.
    """

    def _layout(self) -> Sequence[Part]:
        raise NotImplementedError

    def _exported(self) -> Sequence[Part]:
        """Parts of a document, whose reader has no Python."""
        return self._layout()

    def as_text(self) -> str:
        """Lay out as plain text of at most 80 columns; a name longer than its column has a line of its own."""
        return as_text(self._layout())

    def as_html(self) -> str:
        """Lay out as a self-contained block of HTML, with its own scoped style and every name escaped.

        Colours are inherited from the page, so it reads on light and dark grounds.
        """
        return as_html(self._layout())

    def as_latex(self) -> str:
        r"""Lay out as LaTeX to be included in a document; the first line says which packages its preamble needs.

        These are booktabs, array and for long tables longtable. Names in other scripts than Latin and Greek need
        LuaLaTeX or XeLaTeX with a font that has them.
        """
        return as_latex(self._exported())

    def as_markdown(self) -> str:
        """Lay out as Markdown with GitHub's tables."""
        return as_markdown(self._exported())

    def save(self, path: str | Path) -> None:
        """Write to a file, atomically, in the form that its ending says: .txt, .md, .html, .tex or .docx.

        Of a privacy statement .json, too. Another ending is an OptionError; .docx without python-docx (``pip install
        ".[docx]"``) a MissingExtraError; a file that can't be written a SavedFileError.
        """
        as_json = getattr(self, "as_json", None)
        write(path, self._exported(), {".json": lambda: f"{as_json()}\n"} if as_json else {})

    if not TYPE_CHECKING:  # type checkers would take every name for one that is there

        def __getattr__(self, name: str) -> Any:
            there = [n for n in dir(self) if n[0] != "_"]
            meant = (one["hint"] for one in WORDS["views"] if name in one["names"].split() and one["has"] in there)
            hint = next(meant, f"it has {', '.join(there)}")
            raise AttributeError(f"{type(self).__name__} has no {name!r}; {hint}.")

    __str__ = __repr__ = as_text
    _repr_html_ = to_html = as_html
    to_latex, to_markdown = as_latex, as_markdown  # pandas' names
