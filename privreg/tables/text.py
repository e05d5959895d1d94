"""Views as plain text of at most 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from privreg.tables.parts import (
    GAP,
    HALF,
    LABEL,
    MARK,
    WIDTH,
    Header,
    Lines,
    Notes,
    Pairs,
    Paragraph,
    Part,
    Table,
    centred,
    fits,
    fold,
    left,
    plain,
    right,
    shorten,
    span,
    wrapped,
)


def as_text(parts: Iterable[Part]) -> str:
    """Parts below each other as plain text."""
    return "\n".join(line for part in parts for line in _lines(part))


def _lines(part: Part) -> list[str]:
    match part:
        case Lines():
            return list(part.lines)
        case Paragraph():
            return [line for words in part.words.split("\n") for line in fold(words)]
        case Notes():
            top = ["", part.title] if part.notes and part.title else []
            notes = (wrapped(f"[{i}]", note, 4 if i < 10 else 5) for i, note in enumerate(part.notes, 1))
            return [*top, *(line for note in notes for line in note)]
        case Pairs():
            loud = [part.loud] if part.loud else []
            return [*loud, *(line for a, b in part.pairs for line in wrapped(f"{a}:", b, LABEL))]
        case Header():
            double, indent = "=" * WIDTH, part.indent()
            out = [centred(part.title), *([centred(f"*** {part.loud} ***")] if part.loud else []), double]
            for row in part.arranged():
                if fits(row[0]):
                    out.append((" " * GAP).join(f"{a}:" + right(plain(b), HALF - len(a) - 1) for a, b in row))
                else:
                    out += wrapped(f"{row[0][0]}:", row[0][1], indent)
            return [*out, double]
        case Table():
            return _pages(part) if part.facts else [*fold(part.title), *_page(part)]


def _page(table: Table) -> list[str]:
    """Right-aligned columns after left-aligned names, filling the width; a name too long gets a line of its own."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.rows, strict=True)]
    for sep in (4, 3, 2, 1):
        room = WIDTH - sum(widths) - sep * len(widths)
        if room >= min(max(map(span, table.names), default=0), 24):
            break
    stubs = [plain(name) for name in table.names]
    lead = max(room, 3) if len(table.head) > 1 else min(max(map(span, stubs), default=0), max(room, 3))

    def line(stub: str, row: Sequence[str]) -> str:
        if not any(row):
            return "\n".join(fold(stub))
        *above, stub = ["", stub] if span(stub) <= lead else [*fold(stub), ""]
        numbers = "".join(v.rjust(w + sep) for v, w in zip(row, widths, strict=True))
        return "\n".join([*filter(None, above), (left(stub, lead) + numbers).rstrip()])

    top, rule = [line(table.stub, table.head), "-" * WIDTH], "-" * WIDTH
    blocks = table.short_blocks or table.blocks
    out = [] if blocks else list(top)
    for i, (stub, row) in enumerate(zip(stubs, table.rows, strict=True)):
        if i in blocks:
            out += [*([rule] if out else []), plain(blocks[i]), *top]
        out.append(line(stub, row))
    return out


def _pages(table: Table) -> list[str]:
    """Columns of one width; those that don't fit go on below, with the rows that they have."""
    cells = [[v.split("\n") for v in row] for row in table.rows]
    if any(line.endswith(MARK) for row in cells for v in row for line in v):  # digits stand below each other
        cells = [[[x if not x or x.endswith(MARK) else f"{x} " for x in v] for v in row] for row in cells]
    width = max(13, *(len(line) for row in cells for v in row for line in v))  # numbers are never cut
    labels = [*table.names, *(label for label, _ in table.facts)]
    stub = max(min(max(map(span, labels)), WIDTH - width - 2, 30), 13)
    per = min(max(1, (WIDTH - stub) // (width + 2)), len(table.head))
    width = min((WIDTH - stub) // per - 2, max(width, *map(span, table.head)), max(width, 24))
    rule = stub + (width + 2) * per

    def lines(label: str, values: Sequence[Sequence[str]]) -> list[str]:
        deep = max(map(len, values))
        down = zip(*([*v, *[""] * (deep - len(v))] for v in values), strict=True)
        shown = ("".join("  " + right(v, width) for v in row) for row in down)
        above, label = ([], label) if span(label) <= stub else (fold(label, rule), "")
        return [*above, *((left("" if i else label, stub) + row).rstrip() for i, row in enumerate(shown))]

    names = [plain(name) for name in table.names]
    head = [fold(h, width) or [""] for h in shorten(table.head, 3 * width - 2)]
    facts = [(label, [fold(v, width) or [""] for v in values]) for label, values in table.facts]
    out = [centred(table.title, max(rule, len(table.title))), "=" * rule]
    for start in range(0, len(head), per):
        part = slice(start, start + per)
        out += [*lines("", head[part]), "-" * rule]
        for name, row in zip(names, cells, strict=True):
            if not start or any(v != [""] for v in row[part]):
                out += lines(name, row[part])
        out.append("-" * rule)
        out += [line for label, values in facts for line in lines(label, values[part])]
        out.append("=" * rule)
    return out


# --- views as markdown with github's tables, for notebooks' cells, issues and reports -------------


def as_markdown(parts: Iterable[Part]) -> str:
    """Parts below each other, everything escaped."""
    return "\n\n".join(filter(None, map(_marked, parts))) + "\n"


def _marked(part: Part) -> str:
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
            columns = len(part.head)
            out = [_cells(part.stub, part.head), f"|:--|{'--:|' * columns}"]
            for name, row in (*part.lines(), *part.facts):
                out.append(f"| **{_escaped(name)}** |{' |' * columns}" if row is None else _cells(name, row))
            return "\n".join([*([f"**{_escaped(part.title)}**\n"] if part.title else []), *out])


def _cells(name: str, values: Sequence[str]) -> str:
    inside = "&emsp;" if name[:1] == " " else ""  # spaces alone would go
    cells = [inside + _escaped(name.lstrip(" ")), *("<br>".join(map(_escaped, v.split("\n"))) for v in values)]
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Escape what begins or ends markup; a minus sign, a dot or a bracket within a line begins nothing."""
    return re.sub(r"([\\`*_\[\]<>#|~&$])", r"\\\1", plain(text))
