"""Views as Markdown with GitHub's tables, for notebooks' cells, issues and reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from privreg.tables.parts import Header, Lines, Notes, Pairs, Paragraph, Part, Table
from privreg.tables.words import plain


def as_markdown(parts: Iterable[Part]) -> str:
    """Parts below each other, everything escaped."""
    return "\n\n".join(filter(None, map(_block, parts))) + "\n"


def _block(part: Part) -> str:
    match part:
        case Lines():
            return ""
        case Paragraph():
            return "\\\n".join(map(_escaped, part.words.split("\n")))
        case Notes():
            notes = "\n".join(f"{i}. {_escaped(note)}" for i, note in enumerate(part.notes, 1))
            return f"Notes:\n\n{notes}" if part.notes else notes
        case Header() | Pairs():
            bold = [f"**{_escaped(words)}**" for words in (part.title, part.loud) if words]
            return "\n\n".join([*bold, "\n".join(f"- {_escaped(a)}: {_escaped(b)}" for a, b in part.pairs)])
        case Table():
            return _table(part)


def _table(table: Table) -> str:
    out = [_row(table.stub, table.head), f"|:--|{'--:|' * len(table.head)}"]
    for name, row in (*table.lines(), *table.facts):
        out.append(f"| **{_escaped(name)}** |{' |' * len(table.head)}" if row is None else _row(name, row))
    return "\n".join([*([f"**{_escaped(table.title)}**\n"] if table.title else []), *out])


def _row(name: str, values: Sequence[str]) -> str:
    inside = "&emsp;" if name[:1] == " " else ""  # spaces alone would go
    cells = [inside + _escaped(name.lstrip(" ")), *("<br>".join(map(_escaped, v.split("\n"))) for v in values)]
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Escape what begins or ends markup; a minus sign, a dot or a bracket within a line begins nothing."""
    return re.sub(r"([\\`*_\[\]<>#|~&$])", r"\\\1", plain(text))
