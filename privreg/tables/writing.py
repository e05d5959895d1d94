"""Views in files, by the ending of the name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from privreg.errors import OptionError, choose
from privreg.files import archive
from privreg.tables.docx import as_docx
from privreg.tables.html import as_html, as_page
from privreg.tables.latex import as_latex
from privreg.tables.markdown import as_markdown
from privreg.tables.parts import Part
from privreg.tables.text import as_text


def rendered(
    parts: Sequence[Part], ending: str, title: str = "", more: Mapping[str, Callable[[], str]] | None = None
) -> bytes:
    """Contents of a file of a view, by its ending: .txt, .md, .html (a whole page), .tex (to be included) or .docx.

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
    if ending in _TABLES - set(forms):
        raise OptionError(
            f"save() writes {', '.join(forms)}, not {ending}; for numbers alone let pandas write the DataFrame of "
            "tidy(), summary_frame() or table."
        )
    made = forms[choose("the ending of the file", ending, forms)]()
    return made if isinstance(made, bytes) else made.encode()


_TABLES = frozenset({".csv", ".tsv", ".xlsx", ".xls", ".parquet", ".json"})
"""Endings of files that hold numbers, and nothing that they rest on."""


def save_parts(parts: Sequence[Part], path: str | Path, more: Mapping[str, Callable[[], str]] | None = None) -> None:
    """Write a view to a file, atomically; see :func:`rendered`."""
    if not isinstance(path, str | Path) or not str(path):
        raise OptionError('save() takes the name of a file, such as save("table.docx").')
    archive.write_bytes(path, rendered(parts, Path(path).suffix.lower(), more=more))
