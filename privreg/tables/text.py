"""Views as plain text of at most 80 columns, as Markdown, HTML, and LaTeX to be included in a document."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import zip_longest
from typing import Final

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
    out = list[str]()
    for part in parts:
        match part:
            case Lines():
                out += part.lines
            case Paragraph():
                out += [line for words in part.words.split("\n") for line in fold(words)]
            case Notes():
                out += ["", part.title] if part.notes and part.title else []
                for i, note in enumerate(part.notes, 1):
                    out += wrapped(f"[{i}]", note, 4 if i < 10 else 5)
            case Header():
                double, most = "=" * WIDTH, max(len(label) for label, _ in part.pairs)
                out += [centred(part.title), *([centred(f"*** {part.loud} ***")] if part.loud else []), double]
                for row in part.arranged():
                    if fits(row[0]):
                        out.append((" " * GAP).join(f"{a}:" + right(plain(b), HALF - len(a) - 1) for a, b in row))
                    else:
                        out += wrapped(f"{row[0][0]}:", row[0][1], min(most + 3, LABEL))
                out.append(double)
            case Pairs():
                out += [part.loud] if part.loud else []
                out += [line for a, b in part.pairs for line in wrapped(f"{a}:", b, LABEL)]
            case Table():
                out += _pages(part) if part.facts else [*fold(part.title), *_page(part)]
    return "\n".join(out)


def _page(table: Table) -> list[str]:
    """Right-aligned columns after left-aligned names, filling the width; a name too long gets a line of its own."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.rows, strict=True)]
    for sep in (4, 3, 2, 1):
        room = WIDTH - sum(widths) - sep * len(widths)
        if room >= min(max(map(span, table.names), default=0), 24):
            break
    stubs = [plain(name) for name in table.names]
    lead = max(room, 3) if len(table.head) > 1 else min(max(map(span, stubs), default=0), max(room, 3))
    columns, rule = [w + sep for w in widths], "-" * WIDTH
    top = [*_row_of(table.stub, table.head, lead, columns), rule]
    out = [] if table.blocks else list(top)
    for i, (stub, row) in enumerate(zip(stubs, table.rows, strict=True)):
        if i in table.blocks:
            out += [*([rule] if out else []), *fold(plain(table.blocks[i])), *top]
        out += _row_of(stub, row, lead, columns) if any(row) else fold(stub)
    return out


def _row_of(label: str, cells: Sequence[str], stub: int, widths: Sequence[int]) -> list[str]:
    """Lines of a row: cells of several lines at the right of their columns, a label too long for its column above."""
    above, label = ([], label) if span(label) <= stub else (fold(label), "")
    down = zip_longest(*(cell.split("\n") for cell in cells), fillvalue="")
    rows = ("".join(right(v, w) for v, w in zip(row, widths, strict=False)) for row in down)
    return [*above, *((left("" if i else label, stub) + row).rstrip() for i, row in enumerate(rows))]


def _pages(table: Table) -> list[str]:
    """Columns of one width; those that don't fit go on below, with the rows that they have."""
    rows = [list(row) for row in table.rows]
    if any(MARK in v for row in rows for v in row):  # digits stand below each other
        rows = [[re.sub(rf"(?<=[^{MARK}])$", " ", v, flags=re.MULTILINE) for v in row] for row in rows]
    width = max(13, *(len(line) for row in rows for v in row for line in v.split("\n")))  # numbers are never cut
    labels = [*table.names, *(label for label, _ in table.facts)]
    stub = max(min(max(map(span, labels)), WIDTH - width - 2, 30), 13)
    per = min(max(1, (WIDTH - stub) // (width + 2)), len(table.head))
    width = min((WIDTH - stub) // per - 2, max(width, *map(span, table.head)), max(width, 24))
    rule, columns = stub + (width + 2) * per, [width + 2] * per
    names, head = [plain(name) for name in table.names], shorten(table.head, 3 * width - 2)
    facts = [(label, ["\n".join(fold(v, width)) for v in values]) for label, values in (("", head), *table.facts)]
    out = [centred(table.title, max(rule, len(table.title))), "=" * rule]
    for start in range(0, len(head), per):
        part = slice(start, start + per)
        first, *last = (_row_of(label, values[part], stub, columns) for label, values in facts)
        out += [*first, "-" * rule]
        for name, row in zip(names, rows, strict=True):
            out += _row_of(name, row[part], stub, columns) if not start or any(row[part]) else []
        out += ["-" * rule, *(line for lines in last for line in lines), "=" * rule]
    return out


def as_markdown(parts: Iterable[Part]) -> str:
    """Parts below each other, everything escaped."""
    out = list[str]()
    for part in parts:
        match part:
            case Paragraph():
                out.append("\\\n".join(map(_escaped, part.words.split("\n"))))
            case Notes() if part.notes:
                out += ["Notes:", "\n".join(f"{i}. {_escaped(note)}" for i, note in enumerate(part.notes, 1))]
            case Pairs():
                out += [f"**{_escaped(words)}**" for words in (part.title, part.loud) if words]
                out.append("\n".join(f"- {_escaped(a)}: {_escaped(b)}" for a, b in part.pairs))
            case Table():
                rows = [_cells(part.stub, part.head), f"|:--|{'--:|' * len(part.head)}"]
                for name, row in (*part.lines(), *part.facts):
                    empty = f"| **{_escaped(name)}** |{' |' * len(part.head)}"
                    rows.append(empty if row is None else _cells(name, row))
                out += [f"**{_escaped(part.title)}**"] * bool(part.title) + ["\n".join(rows)]
    return "\n\n".join(filter(None, out)) + "\n"


def _cells(name: str, values: Sequence[str]) -> str:
    inside = "&emsp;" if name[:1] == " " else ""  # spaces alone would go
    cells = [inside + _escaped(name.lstrip(" ")), *("<br>".join(map(_escaped, v.split("\n"))) for v in values)]
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Escape what begins or ends markup; a minus sign, a dot or a bracket within a line begins nothing."""
    return re.sub(r"([\\`*_\[\]<>#|~&$])", r"\\\1", plain(text))


# In it colours are inherited, so that the same page reads on a light and on a dark ground. The class is doubled where
# notebooks' own rules for tables would otherwise weigh more.
STYLE: Final = f"<style>\n{files('privreg.tables').joinpath('style.css').read_text('utf-8')}</style>"


def as_html(parts: Iterable[Part]) -> str:
    """Parts below each other in the scope of the style, everything escaped."""
    out = [STYLE]
    for part in parts:
        match part:
            case Paragraph():
                out.append(f"<p{_class(part.style)}>{_shown(part.words)}</p>")
            case Notes() if part.notes:
                out += ["<ol>", *(f"<li>{_shown(plain(note))}</li>" for note in part.notes), "</ol>"]
            case Pairs():
                out += [f'<p class="loud">{_shown(part.loud)}</p>'] if part.loud else []
                lines = list[str]()
                for row in part.arranged():
                    wide = ' colspan="3"' if len(row) == 1 else ""
                    heads = ((f'<th scope="row">{_shown(plain(a))}</th>', _whole(b)) for a, b in row)
                    cells = "".join(f'{head}<td class="value"{wide}>{value}</td>' for head, value in heads)
                    lines.append(f"<tr>{cells}</tr>")
                out.append(_table(lines, part.title))
            case Table():
                head = "".join(f'<th scope="col">{_shown(plain(h))}</th>' for h in part.head)
                wide = f'<tr class="block"><th scope="rowgroup" colspan="{len(part.head) + 1}">'
                lines = [
                    f"{wide}{_shown(plain(name))}</th></tr>" if row is None else _row(name, row)
                    for name, row in part.lines()
                ]
                lines += [_row(label, row, "fact" if i else "fact first") for i, (label, row) in enumerate(part.facts)]
                top = f"<thead><tr><th>{_shown(plain(part.stub))}</th>{head}</tr></thead>\n"
                out.append(_table(lines, part.title, len(part.head), top))
    return "\n".join(['<div class="privreg">', *out, "</div>"])


def as_page(title: str, body: str) -> str:
    """A page of its own around a block."""
    head = '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">'  # phones have narrow screens
    head += f"\n<title>{_shown(title)}</title>"
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>'


def _shown(text: str) -> str:
    """Escape; lines stay lines."""
    return "<br>".join(escape(plain(line)) for line in text.split("\n"))


def _table(rows: Iterable[str], title: str, numbers: int = 0, head: str = "") -> str:
    """A table; of so many columns of numbers, which on a narrow screen stand below the names of their rows."""
    per = numbers if numbers <= _PER_LINE else -(-numbers // 2)
    style = f' class="coef" style="--columns: {per}"' if numbers else ""
    caption = f'<caption class="title">{_shown(title)}</caption>\n' if title else ""
    return f"<table{style}>\n{caption}{head}<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"


_PER_LINE: Final = 6  # Columns of numbers that have room beside each other on a narrow screen
_BUDGET: Final = re.compile(r"[\d.e+-]+-(?:GDP|DP|zCDP)\b|\d+e-\d+")


def _whole(text: str) -> str:
    """Escape; a narrow cell must not break a budget at its hyphen."""
    return _BUDGET.sub(r'<span class="whole">\g<0></span>', _shown(text))


def _row(name: str, values: Iterable[str], style: str = "") -> str:
    cells = "".join(f"<td>{_whole(v)}</td>" for v in values)
    inside = ' class="inside"' if name[:1] == " " else ""
    return f'<tr{_class(style)}><th scope="row"{inside}>{_shown(plain(name))}</th>{cells}</tr>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


_TEX: Final = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    **{"\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\textasciicircum{}", "|": r"\textbar{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "[": "{[}", "]": "{]}", '"': "''", "`": r"\textasciigrave{}"},
    **{"×": r"$\times$", "√": r"$\surd$", "−": "$-$", "‖": r"$\Vert$", "ℓ": r"$\ell$", "·": r"$\cdot$"},
    **{"≤": r"$\le$", "≥": r"$\ge$", "±": r"$\pm$", "→": r"$\to$", "←": r"$\leftarrow$", "∞": r"$\infty$"},
    **{"∫": r"$\int$", "∂": r"$\partial$", "≈": r"$\approx$", "…": r"\ldots{}"},
    **{"–": r"\textendash{}", "—": r"\textemdash{}"},
    **{c: f"$^{{{i}}}$" for i, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{c: f"$_{{{i}}}$" for i, c in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{"⁻": "$^{-}$", "ᵀ": r"$^{\top}$", "†": r"$\dagger$"},
}
_SMALL: Final = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho varsigma sigma tau upsilon "
    "varphi chi psi omega"
)
_CAPITAL: Final = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
_GREEK: Final = {
    **dict(zip("αβγδεζηθικλμνξπρςστυφχψω", _SMALL.split(), strict=True)),
    **dict(zip("ΓΔΘΛΞΠΣΥΦΨΩ", _CAPITAL.split(), strict=True)),
    "µ": "mu",  # the micro sign, which keyboards give
}


def tex(text: object, *, breaks: bool = False) -> str:
    r"""Escape for LaTeX; with `breaks`, lines may end within long names, after punctuation and before brackets.

    Examples
    --------
    >>> print(tex("a_b [50%] ω"))
    a\_b {[}50\%{]} $\omega$
    >>> print(tex("a_b, 1,000.5 or c[T.d]", breaks=True))
    a\_\allowbreak{}b, 1,000.5 or c\allowbreak{}{[}T.d{]}
    """
    given = plain(text)
    out = []
    for c, after in zip(given, given[1:] + " ", strict=False):
        out.append(_TEX.get(c) or (f"$\\{_GREEK[c]}$" if c in _GREEK else c))
        # never before punctuation, nor between a digit and what a number may go on with
        if breaks and ((c in "_:)]*" and (after.isalnum() or after in "([")) or (c.isalnum() and after == "[")):
            out.append(r"\allowbreak{}")
    return re.sub(r"-(?=-)", "-{}", "".join(out))  # two hyphens would be set as a dash


def as_latex(parts: Iterable[Part]) -> str:
    """Parts below each other, each a paragraph, in small type; the first line says which packages they need."""
    out = list[str]()
    for part in parts:
        title = [rf"{{\normalsize\textbf{{{tex(v)}}}}}" for v in filter(None, [getattr(part, "title", "")])]
        match part:
            case Paragraph() | Notes() if part.words:
                body = "\\par\n".join(map(tex, part.words.split("\n")))
                out.append(f"{{\\raggedright\n{body}\\par}}")
            case Header():
                out += [*title, *([f"\\textbf{{{tex(part.loud)}}}"] if part.loud else []), _pairs(part.pairs)]
            case Pairs():
                out.append(_pairs(part.pairs, part.title))
            case Table():
                # names wrap where they are long, and columns go on below where they hold words
                wrap = max(map(len, part.names), default=0) > 22
                per = (3 if wrap else 4) if part.facts else len(part.head)
                out += title
                for start in range(0, len(part.head), per):
                    columns, rows = slice(start, start + per), list[str]()
                    for name, row in part.lines():
                        if row is None:  # of no width, so that it doesn't widen the columns below it
                            block = rf"\parbox[t]{{\linewidth}}{{\raggedright\bfseries {tex(name, breaks=True)}}}"
                            rows.append("\\midrule\n" * bool(rows) + rf"\makebox[0pt][l]{{{block}}} \\*")
                        elif not start or any(row[columns]):
                            rows.append(_tex_row(name, row[columns]))
                    if part.facts:
                        rows += [r"\midrule", *(_tex_row(label, values[columns]) for label, values in part.facts)]
                    head, column = part.head[columns], "r"
                    stub = r">{\raggedright\arraybackslash}p{0.32\linewidth}" if wrap else "l"
                    if part.facts:  # all wrap
                        share = (0.67 if wrap else 0.75) / len(head)
                        column = rf">{{\raggedleft\arraybackslash}}p{{\dimexpr{share:.3f}\linewidth-2\tabcolsep}}"
                    layout = rf"@{{\extracolsep{{\fill}}}}{stub}{column * len(head)}@{{}}"
                    if len(head) == 1:  # it stays beside the names: an empty column takes the rest of the width
                        layout = rf"@{{}}{stub}@{{\hspace{{2em}}}}{column}@{{\extracolsep{{\fill}}}}l@{{}}"
                    top = [f"\\toprule\n{_tex_row(part.stub, head)}\n\\midrule"]
                    lines = (1 + (wrap or bool(part.facts))) * len(rows)
                    out.append(_environment(layout, top, rows, [r"\bottomrule"], lines, fill=True))
    body = "\n\n\\smallskip\n".join(out)
    needs, settings = r"\usepackage{booktabs} and \usepackage{array}", r"\footnotesize\setlength{\tabcolsep}{3pt}%"
    if "{longtable}" in body:
        needs = r"\usepackage{booktabs}, \usepackage{array} and \usepackage{longtable}"
        lengths = {"LTleft": "0pt", "LTright": "0pt", "LTpre": r"\smallskipamount", "LTpost": r"\smallskipamount"}
        settings += "\n" + "".join(f"\\setlength{{\\{k}}}{{{v}}}" for k, v in lengths.items()) + "%"
    return f"% needs {needs}\n\\begin{{center}}\n{settings}\n{body}\n\\end{{center}}\n"


_PAGE: Final = 30  # Lines of a table that stay on one page; longer tables may break over pages


def _tex_row(label: str, values: Iterable[str]) -> str:
    """One row, escaped; the lines of a value are put below each other where the column is a paragraph."""
    lines = ([("$-$" + tex(x[1:])) if re.match(r"-\d", x) else tex(x) for x in v.split("\n")] for v in values)
    shown = map(r"\par ".join, lines)
    inside = r"\quad " if label[:1] == " " else ""  # spaces alone would go
    return " & ".join([inside + tex(label.lstrip(" "), breaks=True), *shown]) + r" \\"


def _pairs(rows: Sequence[tuple[str, str]], title: str = "") -> str:
    """Labels and their text as wide as the text: under a rule, or with a `title` between rules."""
    body = [f"{tex(a, breaks=True)} & {tex(b, breaks=True)} \\\\" for a, b in rows]
    top, end = [r"\toprule"], []
    if title:
        top, end = [rf"\multicolumn{{2}}{{@{{}}c@{{}}}}{{\textbf{{{tex(title)}}}}} \\", r"\midrule"], [r"\bottomrule"]
    lines = sum(1 + len(b) // 70 for _, b in rows)
    layout = r"@{}>{\raggedright\arraybackslash}p{0.22\linewidth}"
    layout += r">{\raggedright\arraybackslash}p{\dimexpr0.78\linewidth-2\tabcolsep}@{}"
    return _environment(layout, top, body, end, lines, fill=False)


def _environment(columns: str, top: list[str], body: Sequence[str], end: list[str], lines: int, *, fill: bool) -> str:
    """Put rows in a tabular, which may stand in a float, or if they are many `lines` in a longtable."""
    name, width = ("tabular*", r"{\linewidth}") if fill else ("tabular", "")
    if lines > _PAGE:
        name, width, top, end = "longtable", "", [*top, r"\endhead", *end, r"\endfoot"], []
    return "\n".join([rf"\begin{{{name}}}{width}{{{columns}}}", *top, *body, *end, rf"\end{{{name}}}"])
