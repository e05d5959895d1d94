"""Views as a block of HTML with a scoped style that reads on light and dark grounds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Final

from privreg.tables.parts import Header, Lines, Notes, Pairs, Paragraph, Part, Table, plain

# In it colours are inherited, so that the same page reads on a light and on a dark ground. The class is doubled where
# notebooks' own rules for tables would otherwise weigh more.
STYLE: Final = f"<style>\n{files('privreg.tables').joinpath('style.css').read_text('utf-8')}</style>"


def as_html(parts: Iterable[Part]) -> str:
    """Parts below each other in the scope of the style, everything escaped."""
    body = "\n".join(filter(None, map(_block, parts)))
    return f'<div class="privreg">\n{STYLE}\n{body}\n</div>'


def as_page(title: str, body: str) -> str:
    """A page of its own around a block."""
    head = '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">'  # phones have narrow screens
    head += f"\n<title>{_shown(title)}</title>"
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>'


def _block(part: Part) -> str:
    match part:
        case Lines():
            return ""
        case Paragraph():
            return _paragraph(part.words, part.style)
        case Notes():
            items = "\n".join(f"<li>{_shown(plain(n))}</li>" for n in part.notes)
            return f"<ol>\n{items}\n</ol>" if items else ""
        case Header() | Pairs():
            rows = part.arranged() if isinstance(part, Header) else [[pair] for pair in part.pairs]
            loud = _paragraph(part.loud, "loud") + "\n" if part.loud else ""
            lines = list[str]()
            for row in rows:
                wide = ' colspan="3"' if len(row) == 1 else ""
                heads = ((f'<th scope="row">{_shown(plain(a))}</th>', _value(b)) for a, b in row)
                cells = "".join(f'{head}<td class="value"{wide}>{value}</td>' for head, value in heads)
                lines.append(f"<tr>{cells}</tr>")
            return loud + _table(lines, part.title)
        case Table():
            return _columns(part)


def _columns(table: Table) -> str:
    head = "".join(f'<th scope="col">{_shown(plain(h))}</th>' for h in table.head)
    wide = f'<tr class="block"><th scope="rowgroup" colspan="{len(table.head) + 1}">'
    lines = table.lines()
    body = [f"{wide}{_shown(plain(name))}</th></tr>" if row is None else _row(name, row) for name, row in lines]
    body += [_row(label, row, "fact" if i else "fact first") for i, (label, row) in enumerate(table.facts)]
    top = f"<thead><tr><th>{_shown(plain(table.stub))}</th>{head}</tr></thead>\n"
    return _table(body, table.title, len(table.head), top)


def _shown(text: str) -> str:
    """Escape; lines stay lines."""
    return "<br>".join(escape(plain(line)) for line in text.split("\n"))


def _paragraph(text: str, style: str) -> str:
    return f"<p{_class(style)}>{_shown(text)}</p>"


def _table(rows: Iterable[str], title: str, numbers: int = 0, head: str = "") -> str:
    """A table; of so many columns of numbers, which on a narrow screen stand below the names of their rows."""
    per = numbers if numbers <= _PER_LINE else -(-numbers // 2)
    style = f' class="coef" style="--columns: {per}"' if numbers else ""
    caption = f'<caption class="title">{_shown(title)}</caption>\n' if title else ""
    return f"<table{style}>\n{caption}{head}<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"


def _value(text: str) -> str:
    return _BUDGET.sub(_WHOLE, _shown(text))


_PER_LINE: Final = 6  # Columns of numbers that have room beside each other on a narrow screen
_BUDGET: Final = re.compile(r"[\d.e+-]+-(?:GDP|DP|zCDP)\b|\d+e-\d+")
_WHOLE: Final = r'<span class="whole">\g<0></span>'  # A narrow cell must not break a budget at its hyphen


def _row(name: str, values: Iterable[str], style: str = "") -> str:
    cells = "".join(f"<td>{_value(v)}</td>" for v in values)
    inside = ' class="inside"' if name[:1] == " " else ""
    return f'<tr{_class(style)}><th scope="row"{inside}>{_shown(plain(name))}</th>{cells}</tr>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
