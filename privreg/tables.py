"""Tables as text, HTML and LaTeX: numbers, names, escapes and layout that summaries and comparisons share."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

WIDTH: Final = 78
"""Columns of the text, those of statsmodels."""

MARK: Final = "†"
"""Of rows that should not be relied on; a star would be read as significance."""


# --- numbers and names -----------------------------------------------------------------------------------


def number(x: float, digits: int) -> str:
    """Format as statsmodels' tables do: `digits` decimals, or `digits` figures when that would hide the number.

    Examples
    --------
    >>> number(1.5, 3), number(123456.0, 3), number(-0.00001234, 4)
    ('1.500', '1.23e+05', '-1.234e-05')
    """
    return f"{x:.{digits}g}" if abs(x) >= 1e4 or abs(x) < 1e-4 else f"{x:.{digits}f}"


def p_value(x: float) -> str:
    """Three decimals, as in statsmodels."""
    return f"{x:.3f}"


def plain(name: object) -> str:
    """Name on one line: control characters would break a table."""
    return "".join(c if c.isprintable() else " " for c in str(name))


def span(text: str) -> int:
    """Columns that a terminal gives to `text`: two for an East Asian character, none for an accent put over another.

    Examples
    --------
    >>> span("süd"), span("東京")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def left(text: str, width: int) -> str:
    """Text at the left of `width` columns."""
    return text + " " * (width - span(text))


def right(text: str, width: int) -> str:
    """Text at the right of `width` columns."""
    return " " * (width - span(text)) + text


def shorten(names: Iterable[str], width: int) -> list[str]:
    """Names of at most `width` columns, with an ellipsis in the middle of long ones, still distinct.

    Examples
    --------
    >>> shorten(["age", "C(region, Treatment('north'))[T.south]"], 20)
    ['age', 'C(region,…)[T.south]']
    """
    full = [plain(n) for n in names]
    middle = (width - 1) // 2
    for head in sorted(range(1, max(width - 1, 2)), key=lambda h: abs(h - middle)):
        out = [_cut(n, width, head) for n in full]
        if len(set(out)) == len(set(full)):
            return out
    # no one cut tells them apart: number them as in the table
    return [n if span(n) <= width else _cut(f"{i}:{n}", width, middle) for i, n in enumerate(full, 1)]


def _cut(name: str, width: int, head: int) -> str:
    if span(name) <= width:
        return name
    end = _upto(name[::-1], width - 1 - head)
    return f"{name[: _upto(name, head)]}…{name[len(name) - end :]}"


def _upto(text: str, width: int) -> int:
    """How many characters from the beginning fit into `width` columns."""
    k = min(len(text), max(width, 0))
    while span(text[:k]) > width:
        k -= 1
    return k


def limits_header(alpha: float) -> tuple[str, str]:
    """Headings of the two columns of confidence limits."""
    return f"[{alpha / 2:.10g}", f"{1 - alpha / 2:.10g}]"


def cells(table: pd.DataFrame, alpha: float) -> tuple[list[str], list[list[str]]]:
    """Headings and formatted rows of a tidy table, without the names."""
    head, columns = ["coef"], [[number(v, 4) for v in table["estimate"]]]
    if "std_error" in table:
        head += ["std err", "t", "P>|t|", *limits_header(alpha)]
        columns += [[number(v, 3) for v in table[c]] for c in ("std_error", "statistic")]
        columns += [[p_value(v) for v in table["p_value"]]]
        columns += [[number(v, 3) for v in table[c]] for c in ("conf_low", "conf_high")]
    return head, [list(row) for row in zip(*columns, strict=True)]


def frame_cells(frame: pd.DataFrame) -> tuple[list[str], list[str], list[list[str]]]:
    """Names, headings and formatted rows of a `summary_frame` of 95% limits."""
    names = [", ".join(map(str, i)) if isinstance(i, tuple) else str(i) for i in frame.index]
    rows = [
        [number(v[0], 4), number(v[1], 3), number(v[2], 3), p_value(v[3]), number(v[4], 3), number(v[5], 3)]
        for v in frame.to_numpy()
    ]
    return names, [*map(str, frame.columns[:4]), *limits_header(0.05)], rows


# --- text ------------------------------------------------------------------------------------------------


def wrapped(label: str, text: str, indent: int, width: int = WIDTH) -> list[str]:
    """`label` and then `text` from column `indent` on; a longer label gets a line of its own."""
    lines = fold(plain(text), max(width - indent, 1)) or [""]
    label = _cut(plain(label), width, width // 2)
    if span(label) >= indent:
        return [label, *(" " * indent + line for line in lines)]
    return [left(label, indent) + lines[0], *(" " * indent + line for line in lines[1:])]


def fold(text: str, width: int = WIDTH) -> list[str]:
    """Lines of at most `width` columns."""
    # textwrap counts characters: wide ones are followed by a stand-in, which is taken out again
    wide = "".join(c + "\0" * (span(c) - 1) for c in text)
    return [line.replace("\0", "") for line in textwrap.wrap(wide, width, break_on_hyphens=False)]


def table_text(
    names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], blocks: Mapping[int, str] | None = None
) -> list[str]:
    """Right-aligned columns after left-aligned names, filling the width where there is room.

    With `blocks` the table begins anew before certain rows, under the title that each is given.
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for sep in (4, 3, 2, 1):
        room = WIDTH - sum(widths) - sep * len(widths)
        if room >= min(max(map(span, names), default=0), 24):
            break
    stubs = shorten(names, max(room, 3))
    lead = max(room, 3) if len(head) > 1 else max(map(span, stubs), default=0)

    def line(stub: str, row: Sequence[str]) -> str:
        return (left(stub, lead) + "".join(v.rjust(w + sep) for v, w in zip(row, widths, strict=True))).rstrip()

    top, rule = line("", head), "-" * WIDTH
    if not blocks:
        return [top, rule, *(line(s, r) for s, r in zip(stubs, rows, strict=True))]
    out: list[str] = []
    for i, (stub, row) in enumerate(zip(stubs, rows, strict=True)):
        if i in blocks:
            out += [*([rule] if out else []), plain(blocks[i]), top, rule]
        out.append(line(stub, row))
    return out


# --- HTML ------------------------------------------------------------------------------------------------

# Colours are inherited, so that the same page reads on a light and on a dark ground. The class is doubled where
# notebooks' own rules for tables would otherwise weigh more.
STYLE: Final = """<style>
.privreg { font-size: 0.9em; line-height: 1.4; max-width: 54em; overflow-x: auto; }
.privreg table { border-collapse: collapse; width: 100%; margin: 0; font-size: inherit; table-layout: auto;
  border: 0 solid; border-top: 2px solid; }
.privreg tr, .privreg tbody tr:nth-child(n) { background: none; }
.privreg.privreg th, .privreg.privreg td { border: 0; padding: 0.1em 0.6em; text-align: left; vertical-align: top;
  color: inherit; white-space: normal; max-width: none; }
.privreg th { font-weight: normal; opacity: 0.8; min-width: 9.5em; }
.privreg .title { font-weight: bold; text-align: center; padding: 0.4em; caption-side: top; color: inherit; }
.privreg.privreg .coef th, .privreg.privreg .coef td { text-align: right; white-space: nowrap;
  min-width: 0; font-variant-numeric: tabular-nums; }
.privreg.privreg .coef th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; opacity: 1;
  min-width: 7em; }
.privreg.privreg .coef .fact td { white-space: normal; }
.privreg.privreg .coef thead th { border-bottom: 1px solid; opacity: 1; }
.privreg.privreg .coef .fact.first th, .privreg.privreg .coef .fact.first td { border-top: 1px solid; }
.privreg.privreg .coef .block th { border-top: 1px solid; font-weight: bold; }
.privreg .value { overflow-wrap: anywhere; }
.privreg p, .privreg ol { margin: 0; padding: 0.3em 0.6em; border-top: 1px solid; }
.privreg ol { padding-left: 2.4em; }
.privreg li::marker { content: "[" counter(list-item) "] "; }
.privreg .loud { font-weight: bold; border: 2px solid; text-align: center; }
.privreg .caution { font-weight: bold; }
</style>"""


def html_block(body: str) -> str:
    """Wrap `body` in the scope of the style."""
    return f'<div class="privreg">\n{STYLE}\n{body}\n</div>'


def html_rows(pairs: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Label and value cells, one or two pairs a row."""
    out = []
    for pair in pairs:
        row = list(pair)
        span = ' colspan="3"' if len(row) == 1 else ""
        out.append("<tr>" + "".join(_html_pair(a, b, span) for a, b in row) + "</tr>")
    return "\n".join(out)


def _html_pair(label: str, value: str, span: str) -> str:
    return f'<th scope="row">{escape(plain(label))}</th><td class="value"{span}>{escape(plain(value))}</td>'


def html_table(
    names: Sequence[str],
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    blocks: Mapping[int, str] | None = None,
) -> str:
    """Coefficient table, names and headings escaped; `blocks` gives titles of rows that begin a block."""
    top = "".join(f'<th scope="col">{escape(plain(h))}</th>' for h in head)
    titles = {
        i: f'<tr class="block"><th scope="rowgroup" colspan="{len(head) + 1}">{escape(plain(title))}</th></tr>\n'
        for i, title in (blocks or {}).items()
    }
    body = "\n".join(
        titles.get(i, "")
        + f'<tr><th scope="row">{escape(plain(n))}</th>'
        + "".join(f"<td>{escape(v)}</td>" for v in row)
        + "</tr>"
        for i, (n, row) in enumerate(zip(names, rows, strict=True))
    )
    caption = f'<caption class="title">{escape(caption)}</caption>\n' if caption else ""
    return f'<table class="coef">\n{caption}<thead><tr><th></th>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


# --- LaTeX -----------------------------------------------------------------------------------------------

_TEX: Final = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    **{"\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\textasciicircum{}", "|": r"\textbar{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "[": "{[}", "]": "{]}", '"': "''", "`": r"\textasciigrave{}"},
    **{"×": r"$\times$", "√": r"$\surd$", "−": "$-$", "‖": r"$\Vert$", "ℓ": r"$\ell$", "·": r"$\cdot$"},
    **{"≤": r"$\le$", "≥": r"$\ge$", "±": r"$\pm$", "→": r"$\to$", "←": r"$\leftarrow$", "∞": r"$\infty$"},
    **{
        "∫": r"$\int$",
        "∂": r"$\partial$",
        "≈": r"$\approx$",
        "…": r"\ldots{}",
        "–": r"\textendash{}",
        "—": r"\textemdash{}",
    },
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


def tex_number(text: str) -> str:
    """Number with a proper minus sign; anything else escaped."""
    return "$-$" + tex(text[1:]) if re.match(r"-\d", text) else tex(text)


_NAME_COLUMN: Final = r">{\raggedright\arraybackslash}p{0.32\linewidth}"
_LABEL_COLUMN: Final = r">{\raggedright\arraybackslash}p{0.22\linewidth}"
_TEXT_COLUMN: Final = r">{\raggedright\arraybackslash}p{\dimexpr0.78\linewidth-2\tabcolsep}"
_PAGE: Final = 30
"""Lines of a table that stay on one page; longer tables may break over pages."""


def tex_table(
    names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], blocks: Mapping[int, str] | None = None
) -> str:
    """Table as wide as the text with booktabs rules; long names wrap, and long tables break over pages.

    With `blocks` certain rows begin a block, under the title that each is given.
    """
    body = []
    for i, (name, row) in enumerate(zip(names, rows, strict=True)):
        title = blocks.get(i) if blocks else None
        if title is not None:
            rule = "\\midrule\n" if i else ""
            # of no width, so that it doesn't widen the columns below it
            wide = f"\\parbox[t]{{\\linewidth}}{{\\raggedright\\bfseries {tex(title, breaks=True)}}}"
            body.append(f"{rule}\\makebox[0pt][l]{{{wide}}} \\\\*")
        body.append(tex_row(name, row))
    return tex_columns(names, head, body)


def tex_row(label: str, values: Iterable[str]) -> str:
    """One row, escaped; the lines of a value are put below each other where the column is a paragraph."""
    shown = [r"\par ".join(map(tex_number, v.split("\n"))) for v in values]
    return " & ".join([tex(label, breaks=True), *shown]) + r" \\"


def tex_columns(names: Iterable[str], head: Sequence[str], body: Sequence[str], *, wrap_values: bool = False) -> str:
    """Rows under a head, spread over the width of the text; with `wrap_values` all columns but the first wrap too."""
    wrap = max(map(len, names), default=0) > 22
    stub, column = _NAME_COLUMN if wrap else "l", "r"
    if wrap_values:
        share = (0.67 if wrap else 0.75) / len(head)
        column = rf">{{\raggedleft\arraybackslash}}p{{\dimexpr{share:.3f}\linewidth-2\tabcolsep}}"
    top = f"\\toprule\n{tex_row('', head)}\n\\midrule"
    lines = (1 + max(wrap, wrap_values)) * len(body)
    # a single column of numbers stays beside the names: an empty one takes the rest of the width
    if len(head) > 1:
        layout = rf"@{{\extracolsep{{\fill}}}}{stub}{column * len(head)}@{{}}"
    else:
        layout = rf"@{{}}{stub}@{{\hspace{{2em}}}}{column}@{{\extracolsep{{\fill}}}}l@{{}}"
    return _tex_environment(layout, [top], body, [r"\bottomrule"], lines, fill=True)


def tex_pairs(pairs: Sequence[tuple[str, str]], title: str = "") -> str:
    """Labels and their text as wide as the text: under a rule, or with a `title` between rules."""
    body = [f"{tex(a, breaks=True)} & {tex(b, breaks=True)} \\\\" for a, b in pairs]
    top, end = [r"\toprule"], []
    if title:
        top, end = [rf"\multicolumn{{2}}{{@{{}}c@{{}}}}{{\textbf{{{tex(title)}}}}} \\", r"\midrule"], [r"\bottomrule"]
    lines = sum(1 + len(b) // 70 for _, b in pairs)
    return _tex_environment(f"@{{}}{_LABEL_COLUMN}{_TEXT_COLUMN}@{{}}", top, body, end, lines, fill=False)


def _tex_environment(
    columns: str, top: list[str], body: Sequence[str], end: list[str], lines: int, *, fill: bool
) -> str:
    """Put rows in a tabular, which may stand in a float, or if they are many `lines` in a longtable."""
    if lines > _PAGE:
        out = [rf"\begin{{longtable}}{{{columns}}}", *top, r"\endhead", *end, r"\endfoot", *body, r"\end{longtable}"]
        return "\n".join(out)
    begin, name = (r"{tabular*}{\linewidth}", "tabular*") if fill else ("{tabular}", "tabular")
    return "\n".join([rf"\begin{begin}{{{columns}}}", *top, *body, *end, rf"\end{{{name}}}"])


def tex_block(parts: Iterable[str]) -> str:
    """Stack parts, each a paragraph, in small type."""
    body = "\n\n\\smallskip\n".join(parts)
    needs, settings = r"\usepackage{booktabs} and \usepackage{array}", r"\footnotesize\setlength{\tabcolsep}{3pt}%"
    if "{longtable}" in body:
        needs = r"\usepackage{booktabs}, \usepackage{array} and \usepackage{longtable}"
        lengths = {"LTleft": "0pt", "LTright": "0pt", "LTpre": r"\smallskipamount", "LTpost": r"\smallskipamount"}
        settings += "\n" + "".join(f"\\setlength{{\\{k}}}{{{v}}}" for k, v in lengths.items()) + "%"
    return f"% needs {needs}\n\\begin{{center}}\n{settings}\n{body}\n\\end{{center}}\n"


def tex_notes(lines: Iterable[str]) -> str:
    """Paragraphs as wide as the text."""
    body = "\\par\n".join(lines)
    return f"{{\\raggedright\n{body}\\par}}"
