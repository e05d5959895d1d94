"""Views as LaTeX, to be included in a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from privreg.tables.parts import Header, Notes, Pairs, Paragraph, Part, Table, plain

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
                starts = range(0, len(part.head), per)
                out += title + [_columns(part, slice(start, start + per), wrap=wrap) for start in starts]
    body = "\n\n\\smallskip\n".join(out)
    needs, settings = r"\usepackage{booktabs} and \usepackage{array}", r"\footnotesize\setlength{\tabcolsep}{3pt}%"
    if "{longtable}" in body:
        needs = r"\usepackage{booktabs}, \usepackage{array} and \usepackage{longtable}"
        lengths = {"LTleft": "0pt", "LTright": "0pt", "LTpre": r"\smallskipamount", "LTpost": r"\smallskipamount"}
        settings += "\n" + "".join(f"\\setlength{{\\{k}}}{{{v}}}" for k, v in lengths.items()) + "%"
    return f"% needs {needs}\n\\begin{{center}}\n{settings}\n{body}\n\\end{{center}}\n"


def _columns(table: Table, part: slice, *, wrap: bool) -> str:
    """Some columns; with facts all wrap."""
    body = list[str]()
    for name, row in table.lines():
        if row is None:  # of no width, so that it doesn't widen the columns below it
            title = f"\\parbox[t]{{\\linewidth}}{{\\raggedright\\bfseries {tex(name, breaks=True)}}}"
            body.append("\\midrule\n" * bool(body) + f"\\makebox[0pt][l]{{{title}}} \\\\*")
        elif not part.start or any(row[part]):
            body.append(_row(name, row[part]))
    if table.facts:
        body += [r"\midrule", *(_row(label, values[part]) for label, values in table.facts)]
    head = table.head[part]
    stub, column = r">{\raggedright\arraybackslash}p{0.32\linewidth}" if wrap else "l", "r"
    if table.facts:
        share = (0.67 if wrap else 0.75) / len(head)
        column = rf">{{\raggedleft\arraybackslash}}p{{\dimexpr{share:.3f}\linewidth-2\tabcolsep}}"
    top = [f"\\toprule\n{_row(table.stub, head)}\n\\midrule"]
    lines = (1 + (wrap or bool(table.facts))) * len(body)
    # a single column of numbers stays beside the names: an empty one takes the rest of the width
    if len(head) > 1:
        layout = rf"@{{\extracolsep{{\fill}}}}{stub}{column * len(head)}@{{}}"
    else:
        layout = rf"@{{}}{stub}@{{\hspace{{2em}}}}{column}@{{\extracolsep{{\fill}}}}l@{{}}"
    return _environment(layout, top, body, [r"\bottomrule"], lines, fill=True)


_PAGE: Final = 30  # Lines of a table that stay on one page; longer tables may break over pages


def _row(label: str, values: Iterable[str]) -> str:
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
