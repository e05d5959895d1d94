"""Views as a block of HTML with a scoped style that reads on light and dark grounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from privreg.tables.parts import Header, Lines, Notes, Pairs, Paragraph, Part, Table
from privreg.tables.words import plain

# Colours are inherited, so that the same page reads on a light and on a dark ground. The class is doubled where
# notebooks' own rules for tables would otherwise weigh more.
STYLE: Final = """<style>
.privreg { font-size: 0.9em; line-height: 1.4; max-width: 54em; overflow-x: auto; }
.privreg table { border-collapse: collapse; width: 100%; margin: 0; font-size: inherit; table-layout: auto;
  border: 0 solid; border-top: 2px solid; }
.privreg tr, .privreg tbody tr:nth-child(n) { background: none; }
.privreg.privreg th, .privreg.privreg td { border: 0; padding: 0.1em 0.6em; text-align: left; vertical-align: top;
  color: inherit; white-space: normal; max-width: none; }
.privreg th { font-weight: normal; opacity: 0.8; width: 1%; min-width: 11.5em; }
.privreg .title { font-weight: bold; text-align: center; padding: 0.4em; caption-side: top; color: inherit; }
.privreg.privreg .coef th, .privreg.privreg .coef td { text-align: right; white-space: nowrap;
  width: auto; min-width: 0; font-variant-numeric: tabular-nums; }
.privreg.privreg .coef th:first-child { text-align: left; white-space: normal; overflow-wrap: break-word; opacity: 1;
  min-width: 7em; }
.privreg.privreg .coef th.inside { padding-left: 2em; }
.privreg.privreg .coef .fact td { white-space: normal; }
.privreg.privreg .coef thead th { border-bottom: 1px solid; opacity: 1; }
.privreg.privreg .coef .fact.first th, .privreg.privreg .coef .fact.first td { border-top: 1px solid; }
.privreg.privreg .coef .block th { border-top: 1px solid; font-weight: bold; }
.privreg .value { overflow-wrap: anywhere; }
.privreg .whole { white-space: nowrap; }
.privreg p, .privreg ol { margin: 0; padding: 0.3em 0.6em; border-top: 1px solid; }
.privreg ol { padding-left: 2.4em; }
.privreg li::marker { content: "[" counter(list-item) "] "; }
.privreg .loud { font-weight: bold; border: 2px solid; text-align: center; }
.privreg .caution { font-weight: bold; }
@media (max-width: 36em) {
  .privreg.privreg table:not(.coef) tr { display: flex; flex-wrap: wrap; }
  .privreg.privreg table:not(.coef) th { flex: 0 0 30%; min-width: 0; box-sizing: border-box; }
  .privreg.privreg table:not(.coef) td { flex: 1 0 70%; box-sizing: border-box; }
  .privreg .coef, .privreg .coef thead, .privreg .coef caption, .privreg .coef tbody { display: block; }
  .privreg.privreg .coef tr { display: grid; grid-template-columns: repeat(var(--columns), 1fr); }
  .privreg.privreg .coef th, .privreg.privreg .coef td { padding: 0 0.15em; font-size: 0.85em; min-width: 0;
    overflow-wrap: anywhere; white-space: pre-line; }
  .privreg.privreg .coef th:first-child { grid-column: 1 / -1; padding-top: 0.3em; font-size: 1em; }
  .privreg.privreg .coef thead th:empty { display: none; }
}
</style>"""


def as_html(parts: Iterable[Part]) -> str:
    """Parts below each other in the scope of the style, everything escaped."""
    body = "\n".join(filter(None, map(_block, parts)))
    return f'<div class="privreg">\n{STYLE}\n{body}\n</div>'


def as_page(title: str, body: str) -> str:
    """A page of its own around a block."""
    head = f'<meta charset="utf-8">\n<title>{_shown(title)}</title>'
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
            return loud + _table(map(_pairs, rows), part.title)
        case Table():
            return _columns(part)


def _columns(table: Table) -> str:
    head = "".join(f'<th scope="col">{_shown(plain(h))}</th>' for h in table.head)
    wide = f'<tr class="block"><th scope="rowgroup" colspan="{len(table.head) + 1}">'
    lines = table.lines()
    body = [f"{wide}{_shown(plain(name))}</th></tr>" if row is None else _row(name, row) for name, row in lines]
    body += [_row(label, row, "fact" if i else "fact first") for i, (label, row) in enumerate(table.facts)]
    return _table(body, table.title, len(table.head), f"<thead><tr><th></th>{head}</tr></thead>\n")


def _shown(text: str) -> str:
    """Escape; lines stay lines."""
    return "<br>".join(escape(plain(line)) for line in text.split("\n"))


def _paragraph(text: str, style: str) -> str:
    return f"<p{_class(style)}>{_shown(text)}</p>"


def _table(rows: Iterable[str], title: str, numbers: int = 0, head: str = "") -> str:
    """A table; of so many columns of numbers, which on a narrow screen stand below the names of their rows."""
    style = f' class="coef" style="--columns: {numbers}"' if numbers else ""
    caption = f'<caption class="title">{_shown(title)}</caption>\n' if title else ""
    return f"<table{style}>\n{caption}{head}<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"


_BUDGET: Final = re.compile(r"[\d.e+-]+-(?:GDP|DP|zCDP)\b")
_WHOLE: Final = r'<span class="whole">\g<0></span>'  # A narrow cell must not break a budget at its hyphen


def _row(name: str, values: Iterable[str], style: str = "") -> str:
    cells = "".join(f"<td>{_BUDGET.sub(_WHOLE, _shown(v))}</td>" for v in values)
    inside = ' class="inside"' if name[:1] == " " else ""
    return f'<tr{_class(style)}><th scope="row"{inside}>{_shown(plain(name))}</th>{cells}</tr>'


def _pairs(row: Sequence[tuple[str, str]]) -> str:
    wide = ' colspan="3"' if len(row) == 1 else ""
    cells = (f'<th scope="row">{_shown(plain(a))}</th><td class="value"{wide}>{_shown(plain(b))}</td>' for a, b in row)
    return f"<tr>{''.join(cells)}</tr>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
