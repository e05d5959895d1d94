"""Views as a Word document, by python-docx."""

import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from io import BytesIO
from typing import Any, Final

from privreg.base.optional import need
from privreg.tables.parts import Notes, Pairs, Paragraph, Part, Table, plain

PAGE: Final = (210.0, 297.0)
MARGIN: Final = 20.0  # Size of the page, A4, and its margins, mm
SIZE: Final = 9.0  # Height of the letters, points: a summary of some ten coefficients has room on one page
W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
LETTER, PAD = 0.62 * SIZE * 25.4 / 72.0, 2.0  # Width of a letter of wide type, and of a cell's margin, mm
MINUS: Final = re.compile(r"(?<=\de)-(?=\d)|(?:(?<=^)|(?<=\())-(?=[\d.]|inf)")  # Hyphens, at which lines would break


def as_docx(parts: Iterable[Part]) -> bytes:
    """Parts below each other as a document whose tables can be edited, as bytes of a .docx file."""
    document, parts, shared = need("docx", "docx", "a .docx file").Document(), list(parts), import_module("docx.shared")
    wanted = [_wanted(_cells(part), across=False) for part in parts if isinstance(part, Table)]
    # A4, small letters, no spaces; lying if numbers would leave less than half the longest name's width to the names
    across = any(PAGE[0] - 2.0 * MARGIN - sum(others) < 0.5 * names for names, *others in wanted)
    section, style = document.sections[0], document.styles["Normal"]
    section.page_width, section.page_height = map(shared.Mm, PAGE[::-1] if across else PAGE)
    section.orientation = import_module("docx.enum.section").WD_ORIENT(int(across))
    for side in ("left", "right", "top", "bottom"):
        setattr(section, f"{side}_margin", shared.Mm(MARGIN))
    style.font.size = shared.Pt(SIZE)
    style.paragraph_format.space_before = style.paragraph_format.space_after = shared.Pt(1.0)
    style.paragraph_format.line_spacing = 1.0
    for part in parts:
        match part:
            case Paragraph() | Notes() if part.words:
                for line in part.words.split("\n"):
                    _words(document, line, bold=bool(part.style))
            case Pairs():
                for words in filter(None, (part.title, part.loud)):
                    _words(document, words, bold=True)
                if part.pairs:
                    rows = part.arranged()
                    wide = 2 * max(map(len, rows))
                    cells = [[word for pair in row for word in pair] for row in rows]
                    _grid(document, [[*row, *[""] * (wide - len(row))] for row in cells], numbers=False)
            case Table():
                if part.title:
                    _words(document, part.title, bold=True)
                made = _grid(document, _cells(part), numbers=True)
                made.rows[0]._tr.get_or_add_trPr().append(_element("tblHeader"))  # again on each page
                for cell in made.rows[-len(part.facts)].cells if part.facts else ():
                    borders = _element("tcBorders")
                    borders.append(_element("top", val="single", sz="4"))
                    cell._tc.get_or_add_tcPr().append(borders)
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def _words(document: Any, text: str, *, bold: bool = False) -> None:
    paragraph = document.add_paragraph()
    paragraph.add_run(MINUS.sub("−", plain(text))).bold = bold
    paragraph.paragraph_format.keep_with_next = bold


def _cells(table: Table) -> list[list[str]]:
    """Rows of a table with their names, its heading first."""
    lines = [(table.stub, table.head), *table.lines(), *table.facts]
    return [[name, *([""] * len(table.head) if cells is None else cells)] for name, cells in lines]


def _element(name: str, **values: str) -> Any:
    """An element of Word's own, with its attributes."""
    made = import_module("docx.oxml").OxmlElement(f"w:{name}")
    for key, value in values.items():
        made.set(f"{W}{key}", value)
    return made


def _grid(document: Any, rows: Sequence[Sequence[str]], *, numbers: bool) -> Any:
    """A table; of numbers all but the first column are at the right, and rules are above and below the first row, a
    heading, and below the last.

    Of words a row that ends with empty cells has its last words across them; numbers stay in their columns.
    """
    right = import_module("docx.enum.text").WD_ALIGN_PARAGRAPH.RIGHT
    made = document.add_table(len(rows), len(rows[0]), style="Light Shading" if numbers else None)
    for name, value in {"val": "0620", "firstColumn": "0", "noHBand": "1"}.items():  # no shades, no bold names
        made._tbl.tblPr.find(f"{W}tblLook").set(f"{W}{name}", value)
    made.autofit, room = False, document.sections[0].page_width.mm - 2.0 * MARGIN
    for column, width in zip(made.columns, _widths(rows, room, across=not numbers), strict=True):
        for cell in (column, *column.cells):  # programs go by either
            cell.width = import_module("docx.shared").Mm(width)
    for i, row in enumerate(rows):
        last = max((j for j, text in enumerate(row) if text), default=0)
        for j, (cell, text) in enumerate(zip(made.rows[i].cells, row, strict=True)):
            if text or j < last:
                cell.text = "\n".join(MINUS.sub("−", plain(line)) if j else plain(line) for line in text.split("\n"))
            if numbers and j:
                cell.paragraphs[0].alignment = right
        if last < len(row) - 1 and not numbers:
            made.cell(i, last).merge(made.cell(i, len(row) - 1))
    document.add_paragraph()
    return made


def _wanted(rows: Sequence[Sequence[str]], *, across: bool) -> list[float]:
    """Widths of the longest lines of columns, mm; without those that stand `across` the columns after theirs."""
    out = []
    for j, last in enumerate([*[False] * (len(rows[0]) - 1), True]):
        alone = [row[j] for row in rows if not across or last or any(row[j + 1 :])]
        out.append(LETTER * max((len(line) for text in alone for line in text.split("\n")), default=0) + 2.0 * PAD)
    return out


def _widths(rows: Sequence[Sequence[str]], room: float, *, across: bool) -> list[float]:
    """Widths of columns, mm: those of their longest lines, of which the widest give way where there is no `room`."""
    wanted = _wanted(rows, across=across)
    free, most = room, room
    for k, width in enumerate(sorted(wanted)):
        most = free / (len(wanted) - k)
        if width > most:
            break
        free -= width
    else:
        return [width * room / sum(wanted) for width in wanted]
    return [min(width, most) for width in wanted]
