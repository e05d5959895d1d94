"""Views as a Word document, by python-docx."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

from privreg.errors import MissingExtraError
from privreg.tables.parts import Header, Lines, Notes, Pairs, Paragraph, Table
from privreg.tables.words import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from privreg.tables.parts import Part

__all__ = ["as_docx", "need_docx"]


def need_docx() -> Any:
    """Import python-docx.

    Raises
    ------
    MissingExtraError
        If it isn't installed.
    """
    try:
        return import_module("docx")
    except ImportError:
        pass  # raised below: the text of another package's error is not passed on
    raise MissingExtraError("a .docx file needs python-docx, which is not installed: pip install privreg[docx].")


def as_docx(parts: Iterable[Part]) -> bytes:
    """Parts below each other as a document whose tables can be edited, as bytes of a .docx file.

    Raises
    ------
    MissingExtraError
        If python-docx isn't installed.
    """
    document = need_docx().Document()
    for part in parts:
        _add(document, part)
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def _add(document: Any, part: Part) -> None:
    match part:
        case Lines():
            return
        case Paragraph():
            for line in part.words.split("\n"):
                _words(document, line, bold=bool(part.style))
        case Notes():
            for i, note in enumerate(part.notes, 1):
                _words(document, f"[{i}] {note}")
        case Header() | Pairs():
            for words in filter(None, (part.title, part.loud)):
                _words(document, words, bold=True)
            if part.pairs:
                _grid(document, [list(map(plain, pair)) for pair in part.pairs], numbers=False)
        case Table():
            _table(document, part)


def _words(document: Any, text: str, *, bold: bool = False) -> None:
    document.add_paragraph().add_run(plain(text)).bold = bold


def _table(document: Any, table: Table) -> None:
    if table.title:
        _words(document, table.title, bold=True)
    rows: list[list[str]] = [["", *table.head]]
    for i, (name, row) in enumerate(zip(table.names, table.rows, strict=True)):
        rows += [[table.blocks[i], *[""] * len(table.head)]] if i in table.blocks else []
        rows.append([name, *row])
    rows += [[label, *values] for label, values in table.facts]
    _grid(document, rows, numbers=True)


def _grid(document: Any, rows: Sequence[Sequence[str]], *, numbers: bool) -> None:
    """A table; of numbers all but the first column are at the right, and the first row is a heading."""
    right = import_module("docx.enum.text").WD_ALIGN_PARAGRAPH.RIGHT
    made = document.add_table(len(rows), len(rows[0]), style="Light List" if numbers else None)
    for i, row in enumerate(rows):
        for j, (cell, text) in enumerate(zip(made.rows[i].cells, row, strict=True)):
            cell.text = "\n".join(map(plain, text.split("\n")))
            if numbers and j:
                cell.paragraphs[0].alignment = right
    document.add_paragraph()
