"""The summary of a result as text, HTML and LaTeX.

Everything shown comes from ``results.tidy()``, the header of the fit and the privacy statement; nothing is
computed here.
"""

from __future__ import annotations

import re
import textwrap
from html import escape
from typing import TYPE_CHECKING, Final

import pandas as pd

from privreg.inference import METHODS, RandomScaling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from privreg.privacy import PrivacyStatement
    from privreg.results import PrivateResults

__all__ = ["Summary", "privacy_html", "privacy_text"]

TITLE: Final = "Private Online Regression Results"
WIDTH: Final = 78
"""Columns of the text, those of statsmodels."""
_GAP: Final = 3
_HALF: Final = (WIDTH - _GAP) // 2
_LABEL: Final = 22


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


def paired(entries: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], ...]]:
    """Arrange header entries two a row where they fit, long ones alone and last."""
    short = [e for e in entries if len(e[0]) + len(e[1]) + 2 <= _HALF]
    long = [e for e in entries if e not in short]
    return [tuple(short[i : i + 2]) for i in range(0, len(short), 2)] + [(e,) for e in long]


def _half_line(label: str, value: str) -> str:
    return f"{label}:" + plain(value).rjust(_HALF - len(label) - 1)


def _header_text(entries: Sequence[tuple[str, str]]) -> list[str]:
    out: list[str] = []
    for row in paired(entries):
        if len(row) == 2 or len(row[0][0]) + len(row[0][1]) + 2 <= _HALF:
            out.append((" " * _GAP).join(_half_line(*e) for e in row))
        else:
            label, value = row[0]
            indent = max(len(e[0]) for e in entries) + 3
            out += wrapped(f"{label}:", value, min(indent, _LABEL))
    return out


def table_text(names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Right-aligned columns after left-aligned names, filling the width where there is room."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for sep in (4, 3, 2, 1):
        room = WIDTH - sum(widths) - sep * len(widths)
        if room >= min(max(map(len, names), default=0), 24):
            break
    stubs = shorten(names, max(room, 3))
    lead = max(room, 3) if len(head) > 1 else max(map(len, stubs), default=0)

    def line(stub: str, row: Sequence[str]) -> str:
        return (stub.ljust(lead) + "".join(v.rjust(w + sep) for v, w in zip(row, widths, strict=True))).rstrip()

    return [line("", head), "-" * WIDTH, *(line(s, r) for s, r in zip(stubs, rows, strict=True))]


def privacy_text(statement: PrivacyStatement) -> str:
    """Lay out a privacy statement as text of at most 80 columns, with numbered notes.

    Parameters
    ----------
    statement : PrivacyStatement

    Returns
    -------
    str
    """
    out = [] if statement.loud is None else [statement.loud]
    for label, text in statement.rows():
        out += wrapped(f"{label}:", text, _LABEL)
    if statement.notes:
        out += ["", "Notes:"]
        for i, note in enumerate(statement.notes, 1):
            out += wrapped(f"[{i}]", note, 4 if i < 10 else 5)
    return "\n".join(out)


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


def html_table(names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Coefficient table, names and headings escaped."""
    top = "".join(f'<th scope="col">{escape(plain(h))}</th>' for h in head)
    body = "\n".join(
        f'<tr><th scope="row">{escape(plain(n))}</th>' + "".join(f"<td>{escape(v)}</td>" for v in row) + "</tr>"
        for n, row in zip(names, rows, strict=True)
    )
    caption = f'<caption class="title">{escape(caption)}</caption>\n' if caption else ""
    return f'<table class="coef">\n{caption}<thead><tr><th></th>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


def privacy_html(statement: PrivacyStatement) -> str:
    """Lay out a privacy statement as a block of HTML that reads on light and dark grounds.

    Parameters
    ----------
    statement : PrivacyStatement

    Returns
    -------
    str
    """
    return html_block(_privacy_html_body(statement))


def _privacy_html_body(statement: PrivacyStatement) -> str:
    out = [] if statement.loud is None else [f'<p class="loud">{escape(statement.loud)}</p>']
    rows = html_rows([(pair,) for pair in statement.rows()])
    out.append(f'<table>\n<caption class="title">Privacy</caption>\n<tbody>\n{rows}\n</tbody>\n</table>')
    if statement.notes:
        notes = "\n".join(f"<li>{escape(plain(n))}</li>" for n in statement.notes)
        out.append(f"<ol>\n{notes}\n</ol>")
    return "\n".join(out)


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


def tex_table(names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Tabular with booktabs rules; long names wrap in their column, and long tables go on in another tabular."""
    body = [tex_row(n, row) for n, row in zip(names, rows, strict=True)]
    return tex_tabulars(names, head, body)


def tex_row(label: str, values: Iterable[str]) -> str:
    """One row, escaped."""
    return " & ".join([tex(label, breaks=True), *map(tex_number, values)]) + r" \\"


def tex_tabulars(names: Iterable[str], head: Sequence[str], rows: Sequence[str], *, lines: int = 1) -> str:
    """Rows, each of `lines` lines, in as many tabulars as pages need: a tabular can't break over pages."""
    wrap = max(map(len, names), default=0) > 22
    columns = (_NAME_COLUMN if wrap else "l") + "r" * len(head)
    top = f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{tex_row('', head)}\n\\midrule"
    page = 48 // (lines + wrap)
    chunks = ["\n".join(rows[i : i + page]) for i in range(0, len(rows), page)]
    return "\n\n".join(f"{top}\n{chunk}\n\\bottomrule\n\\end{{tabular}}" for chunk in chunks)


def _tex_pairs(pairs: Iterable[tuple[str, str]], rule: str) -> str:
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


# --- the summary -----------------------------------------------------------------------------------------


class Summary:
    """Header, coefficients and privacy statement of a result.

    Parameters
    ----------
    results : PrivateResults
    alpha : float
        One minus the level of the intervals.
    method : str or None
        Inference method; None for the fit's first.

    Raises
    ------
    OptionError
        If `alpha` is not in (0, 1).
    InferenceError
        If the fit was not made with `method`.
    """

    def __init__(self, results: PrivateResults, alpha: float = 0.05, method: str | None = None) -> None:
        fit = results._fit
        self._title, self._statement = fit.title, results.privacy
        self._names = list(fit.names)
        self._law: str | None = None
        if fit.estimates or method is not None:  # with inference=None, asking for a method is an error
            e = results._estimate(method)
            table = results.tidy(alpha=alpha, method=method)
            law = e.pivot.label
            if isinstance(e.pivot, RandomScaling):
                lanes = f" of {e.pivot.lanes} lanes" if e.pivot.lanes > 1 else ""
                law = f"random-scaling limit{lanes}"
            by = METHODS[e.method].title if e.method in METHODS else e.method
            by = f"std err by {by}; " if len(fit.estimates) > 1 else ""
            critical = f"{100 * (1 - alpha):.6g}% critical value {e.pivot.critical(alpha):.3f}"
            self._law = f"{by}t and P>|t| refer to the {law}; {critical}"
            doubts = [str(i) for i, note in enumerate(self._statement.notes, 1) if note in self._statement.doubts]
            if doubts:
                self._law += f"; DON'T RELY ON THE INTERVALS: see note [{'], ['.join(doubts)}]"
        else:
            table = results.tidy()
        self._head, self._rows = cells(table, alpha)

    def as_text(self) -> str:
        """Lay out as plain text, at most 80 columns wide.

        Very long names of coefficients are shortened in the middle.

        Returns
        -------
        str
        """
        double, single = "=" * WIDTH, "-" * WIDTH
        out = [TITLE.center(WIDTH).rstrip()]
        if self._statement.loud:
            out.append(f"*** {self._statement.loud} ***".center(WIDTH).rstrip())
        out += [double, *_header_text(self._title), double]
        out += [*table_text(self._names, self._head, self._rows), double]
        if self._law:
            out += textwrap.wrap(self._law, WIDTH, break_on_hyphens=False)
        out += ["", "Privacy".center(WIDTH).rstrip(), single]
        return "\n".join([*out, privacy_text(self._statement)])

    def as_html(self) -> str:
        """Lay out as a self-contained block of HTML, with its own scoped style and every name escaped.

        Colours are inherited from the page, so it reads on light and dark grounds.

        Returns
        -------
        str
        """
        words = self._statement.loud
        loud = f'<p class="loud">{escape(words)}</p>\n' if words else ""
        head = f'<caption class="title">{TITLE}</caption>\n<tbody>\n{html_rows(paired(self._title))}\n</tbody>'
        law = f"<p>{escape(self._law)}</p>\n" if self._law else ""
        table = html_table(self._names, self._head, self._rows)
        body = f"{loud}<table>\n{head}\n</table>\n{table}\n{law}{_privacy_html_body(self._statement)}"
        return html_block(body)

    def as_latex(self) -> str:
        r"""Lay out as LaTeX to be included in a document.

        Returns
        -------
        str
            The preamble needs ``\usepackage{booktabs}`` and ``\usepackage{array}``. Names in scripts other
            than Latin and Greek need LuaLaTeX or XeLaTeX with a font that has them.
        """
        title = f"{{\\normalsize\\textbf{{{TITLE}}}}}"
        parts = [title]
        if self._statement.loud:
            parts.append(f"\\textbf{{{tex(self._statement.loud)}}}")
        parts += [_tex_pairs(self._title, r"\toprule"), tex_table(self._names, self._head, self._rows)]
        if self._law:
            parts.append(tex_notes([tex(self._law)]))
        parts.append(_tex_pairs(self._statement.rows(), r"\multicolumn{2}{c}{\textbf{Privacy}} \\ \midrule"))
        notes = [f"{{[}}{i}{{]}} {tex(n)}" for i, n in enumerate(self._statement.notes, 1)]
        if notes:
            parts.append(tex_notes(notes))
        return tex_block(parts)

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.as_html()
