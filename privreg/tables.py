"""Tables as text, HTML and LaTeX: numbers, names, escapes and layout that summaries and comparisons share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

WIDTH: Final = 78
"""Columns of the text, those of statsmodels."""


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


def shorten(names: Iterable[str], width: int) -> list[str]:
    """Names of at most `width` characters, with an ellipsis in the middle of long ones, still distinct.

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
    return [n if len(n) <= width else _cut(f"{i}:{n}", width, middle) for i, n in enumerate(full, 1)]


def _cut(name: str, width: int, head: int) -> str:
    if len(name) <= width:
        return name
    return f"{name[:head]}…{name[len(name) - max(0, width - 1 - head) :]}"


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


# --- text ------------------------------------------------------------------------------------------------


def wrapped(label: str, text: str, indent: int, width: int = WIDTH) -> list[str]:
    """`label` and then `text` from column `indent` on; a longer label gets a line of its own."""
    lines = textwrap.wrap(
        plain(text), max(width - indent, 1), break_on_hyphens=False, break_long_words=True, drop_whitespace=True
    ) or [""]
    label = _cut(plain(label), width, width // 2)
    if len(label) >= indent:
        return [label, *(" " * indent + line for line in lines)]
    return [label.ljust(indent) + lines[0], *(" " * indent + line for line in lines[1:])]


def table_text(
    names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], blocks: Mapping[int, str] | None = None
) -> list[str]:
    """Right-aligned columns after left-aligned names, filling the width where there is room.

    With `blocks` the table begins anew before certain rows, under the title that each is given.
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for sep in (4, 3, 2, 1):
        room = WIDTH - sum(widths) - sep * len(widths)
        if room >= min(max(map(len, names), default=0), 24):
            break
    stubs = shorten(names, max(room, 3))
    lead = max(room, 3) if len(head) > 1 else max(map(len, stubs), default=0)

    def line(stub: str, row: Sequence[str]) -> str:
        return (stub.ljust(lead) + "".join(v.rjust(w + sep) for v, w in zip(row, widths, strict=True))).rstrip()

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
.privreg.privreg .coef th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; opacity: 1; }
.privreg.privreg .coef thead th { border-bottom: 1px solid; opacity: 1; }
.privreg.privreg .coef .first th, .privreg.privreg .coef .first td { border-top: 1px solid; }
.privreg.privreg .coef .block th { border-top: 1px solid; font-weight: bold; }
.privreg .value { overflow-wrap: anywhere; }
.privreg p, .privreg ol { margin: 0; padding: 0.3em 0.6em; border-top: 1px solid; }
.privreg ol { padding-left: 2.4em; }
.privreg .loud { font-weight: bold; border: 2px solid; text-align: center; }
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
    **{"⁻": "$^{-}$", "ᵀ": r"$^{\top}$"},
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
    r"""Escape for LaTeX; with `breaks`, lines may end after punctuation, as long names need.

    Examples
    --------
    >>> print(tex("a_b [50%] ω"))
    a\_b {[}50\%{]} $\omega$
    """
    out = []
    for c in plain(text):
        out.append(_TEX.get(c) or (f"$\\{_GREEK[c]}$" if c in _GREEK else c))
        if breaks and c in "_:,.)]*":
            out.append(r"\allowbreak{}")
    return re.sub(r"-(?=-)", "-{}", "".join(out))  # two hyphens would be set as a dash


def tex_number(text: str) -> str:
    """Number with a proper minus sign; anything else escaped."""
    return "$-$" + tex(text[1:]) if re.match(r"-\d", text) else tex(text)


_NAME_COLUMN: Final = r">{\raggedright\arraybackslash}p{0.3\linewidth}"
_TEXT_COLUMN: Final = r">{\raggedright\arraybackslash}p{0.74\linewidth}"
_TEX_HEAD: Final = "% needs \\usepackage{booktabs} and \\usepackage{array}\n"


def tex_table(
    names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], blocks: Mapping[int, str] | None = None
) -> str:
    """Tabular with booktabs rules; long names wrap in their column, and long tables go on in another tabular.

    With `blocks` a tabular for each block, under its title.
    """
    body = [tex_row(n, row) for n, row in zip(names, rows, strict=True)]
    if not blocks:
        return tex_tabulars(names, head, body)
    ends = [*list(blocks)[1:], len(body)]
    return "\n\n".join(
        tex_tabulars(names, head, body[start:end], title=title)
        for (start, title), end in zip(blocks.items(), ends, strict=True)
    )


def tex_row(label: str, values: Iterable[str]) -> str:
    """One row, escaped."""
    return " & ".join([tex(label, breaks=True), *map(tex_number, values)]) + r" \\"


def tex_tabulars(
    names: Iterable[str], head: Sequence[str], rows: Sequence[str], *, lines: int = 1, title: str = ""
) -> str:
    """Rows, each of `lines` lines, in as many tabulars as pages need: a tabular can't break over pages."""
    wrap = max(map(len, names), default=0) > 22
    columns = (_NAME_COLUMN if wrap else "l") + "r" * len(head)
    if title:  # a longer one wraps
        column = "l" if len(title) <= 60 else r">{\raggedright\arraybackslash}p{0.9\linewidth}"
        title = (
            f"\\multicolumn{{{len(head) + 1}}}{{@{{}}{column}@{{}}}}{{\\textbf{{{tex(title, breaks=True)}}}}} \\\\\n"
        )
    top = f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{title}{tex_row('', head)}\n\\midrule"
    page = 48 // (lines + wrap)
    chunks = ["\n".join(rows[i : i + page]) for i in range(0, len(rows), page)]
    return "\n\n".join(f"{top}\n{chunk}\n\\bottomrule\n\\end{{tabular}}" for chunk in chunks)


def tex_pairs(pairs: Iterable[tuple[str, str]], rule: str) -> str:
    """Labels and their text in a tabular that begins with `rule`."""
    body = "\n".join(f"{tex(a, breaks=True)} & {tex(b, breaks=True)} \\\\" for a, b in pairs)
    label = r">{\raggedright\arraybackslash}p{0.22\linewidth}"
    return f"\\begin{{tabular}}{{@{{}}{label}{_TEXT_COLUMN}@{{}}}}\n{rule}\n{body}\n\\bottomrule\n\\end{{tabular}}"


def tex_block(parts: Iterable[str]) -> str:
    """Stack parts, each a paragraph, in small type."""
    body = "\n\n\\smallskip\n".join(parts)
    return f"{_TEX_HEAD}\\begin{{center}}\n\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}%\n{body}\n\\end{{center}}\n"


def tex_notes(lines: Iterable[str]) -> str:
    """Paragraphs in a minipage."""
    body = "\\par\n".join(lines)
    return f"\\begin{{minipage}}{{\\linewidth}}\\footnotesize\\raggedright\n{body}\n\\end{{minipage}}"
