"""Parts of a view, without layout: numbers, names and lines as tables have them, and what a view consists of."""

import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

WIDTH: Final = 78  # Columns of the text, those of statsmodels
MARK: Final = "†"  # Mark of rows not to rely on; a star would be read as significance


def marked(names: Iterable[object], reliable: Iterable[object]) -> list[str]:
    """Names of rows, those that should not be relied on with the mark."""
    return [str(name) if ok else f"{name} {MARK}" for name, ok in zip(names, reliable, strict=True)]


def in_one_format(values: Iterable[float], digits: int, least: float = math.nan) -> list[str]:
    """Format the numbers of one column alike: with equal decimals, or all in powers of ten where these won't do.

    There are `digits` decimals where nothing else is needed, and so many figures in powers of ten. Of the `least`
    standard error in the table two figures are to be seen; by default it is the least number.

    Examples
    --------
    >>> in_one_format([11760.22, 4860.2207, -50.4555], 4)
    ['11760.220', '4860.221', '-50.456']
    >>> in_one_format([1.5, 0.0001234], 3), in_one_format([1.5e9, 0.01], 3)
    (['1.50000', '0.00012'], ['1.500e+09', '1.000e-02'])
    """
    held = [float(v) for v in values]
    sizes = [abs(v) for v in held if math.isfinite(v) and v]
    least = least if least > 0.0 and math.isfinite(least) else min(sizes, default=1.0)
    whole = max(math.floor(math.log10(max(sizes, default=1.0))) + 1, 1)
    needed = max(1 - math.floor(math.log10(least)), 0)
    decimals = max(min(digits, _FIGURES - whole), needed)
    if decimals > _MOST or (whole + decimals > _FIGURES + 1 and (least < 10.0**-digits or whole > _FIGURES)):
        return [f"{v:.{digits}e}" for v in held]
    return [f"{v:.{min(decimals, max(digits, needed))}f}" for v in held]


_FIGURES: Final = 8  # Figures of a number, before and after the point together
_MOST: Final = 6  # Decimals


def plain(name: object) -> str:
    """Name on one line: control characters would break a table."""
    return "".join(c if c.isprintable() else " " for c in str(name))


def span(text: str) -> int:
    """Columns that a terminal gives to `text`: two for an East Asian character, none for an accent put over another."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def left(text: str, width: int) -> str:
    """Text at the left of `width` columns."""
    return text + " " * (width - span(text))


def right(text: str, width: int) -> str:
    """Text at the right of `width` columns."""
    return " " * (width - span(text)) + text


def centred(text: str, width: int = WIDTH) -> str:
    """Text in the middle of `width` columns."""
    return text.center(width).rstrip()


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
    # no one cut distinguishes them: number them as in the table
    return [n if span(n) <= width else _cut(f"{i}:{n}", width, middle) for i, n in enumerate(full, 1)]


def _cut(name: str, width: int, head: int) -> str:
    if span(name) <= width:
        return name
    end = _upto(name[::-1], width - 1 - head)
    return f"{name[: _upto(name, head)]}…{name[len(name) - end :]}"


def _upto(text: str, width: int) -> int:
    """Number of characters from the beginning that fit into `width` columns."""
    k = min(len(text), max(width, 0))
    while span(text[:k]) > width:
        k -= 1
    return k


_P: Final = re.compile(r"(?i)p[_>(]|pr[(]")  # Columns of p-values, of degrees of freedom and of statistics, by name
_DF: Final = re.compile(r"(?i)df")
_STATISTIC: Final = re.compile(r"(?i)(statistic|[tzfq]|chi2|wald)$")


def formatted(frame: "pd.DataFrame", digits: Any = None, wide: Container[object] = ()) -> dict[Any, list[str]]:
    """Cells of a table's columns, by name: estimates and their errors alike, what tests give in formats of its own.

    `digits` are decimals, of all numbers or by column, where a user rounded; columns of estimates have 3, `wide` ones
    4, and of the least standard error two figures are to be seen.
    """
    errors = [e for c in frame if str(c).startswith("std") for e in frame[c] if 0.0 < e < math.inf]
    out, alike, least = dict[Any, list[str]](), dict[Any, int](), min(errors, default=math.nan)
    for c in frame:
        values, rounded = frame[c], digits.get(c) if isinstance(digits, Mapping) else digits
        places = 4 if c in wide else 3
        if values.dtype.kind != "f":
            out[c] = list(map(str, values))
        elif _P.match(str(c)):
            d = max(3 if rounded is None else rounded, 1)  # what would be written as 0 is "<0.001"
            out[c] = [f"<{10.0**-d:.{d}f}" if v < 10.0**-d else f"{v:.{d}f}" for v in values]
        elif rounded is not None:
            out[c] = [f"{v:.{max(rounded, 0)}f}" for v in values]
        elif _DF.match(str(c)):
            out[c] = [f"{v:g}" for v in values]
        elif _STATISTIC.match(str(c)):
            out[c] = in_one_format(values, places, 1.0)
        else:
            out[c], alike[c] = in_one_format(values, places, least), places
    if errors and any("e" in cell for c in alike for cell in out[c]):  # one needs powers of ten
        out |= {c: [f"{v:.{places}e}" for v in frame[c]] for c, places in alike.items()}
    return out


def cells(
    frame: "pd.DataFrame", alpha: float, first: str = "coef", places: int = 3, digits: int | None = None
) -> tuple[list[str], list[list[str]]]:
    """Headings and formatted rows of a tidy table, those of its columns that are there, without the names.

    `digits` are decimals that a user asks for, in place of those that two figures of the least standard error need.
    """
    low, high = f"[{alpha / 2:.10g}", f"{1 - alpha / 2:.10g}]"  # Confidence limits
    columns = {"estimate": first, "std_error": "std err", "statistic": "t", "p_value": "P>|t|"}
    columns = {k: v for k, v in {**columns, "conf_low": low, "conf_high": high}.items() if k in frame}
    shown = formatted(frame[[*columns]], digits, wide=("estimate",) if places == 3 else tuple(columns))
    if "p_value" in columns:  # as in statsmodels
        shown["p_value"] = [f"{v:.{max(3, digits or 0)}f}" for v in frame["p_value"]]
    return list(columns.values()), [list(row) for row in zip(*shown.values(), strict=True)]


def wrapped(label: str, text: str, indent: int) -> list[str]:
    """`label` and then `text` from column `indent` on; a longer label gets a line of its own."""
    lines = fold(plain(text), max(WIDTH - indent, 1)) or [""]
    label = _cut(plain(label), WIDTH, WIDTH // 2)
    if span(label) >= indent:
        return [label, *(" " * indent + line for line in lines)]
    return [left(label, indent) + lines[0], *(" " * indent + line for line in lines[1:])]


def fold(text: str, width: int = WIDTH) -> list[str]:
    """Lines of at most `width` columns."""
    # textwrap counts characters: wide ones are followed by a stand-in, which is taken out again
    wide = "".join(c + "\0" * (span(c) - 1) for c in text)
    return [line.replace("\0", "") for line in textwrap.wrap(wide, width, break_on_hyphens=False)]


@dataclass(frozen=True)
class Lines:
    """Lines of text between parts; the other forms have their own space and rules."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Paragraph:
    """Words as wide as the page, in one or several lines."""

    words: str
    style: str = ""  # class in HTML


@dataclass(frozen=True)
class Notes:
    """Numbered notes."""

    notes: Sequence[str]
    title: str = ""  # of the text
    style = ""

    @property
    def words(self) -> str:
        """All of them, each on its line."""
        return "\n".join(f"[{i}] {note}" for i, note in enumerate(self.notes, 1))


def respelt(parts: "Iterable[Part]", spell: Callable[[str], str]) -> "list[Part]":
    """Parts whose notes name options as `spell` does."""
    return [replace(p, notes=[spell(note) for note in p.notes]) if isinstance(p, Notes) else p for p in parts]


@dataclass(frozen=True)
class Pairs:
    """Labels and their words, one below the other."""

    pairs: Sequence[tuple[str, str]]
    title: str = ""  # but of the text
    loud: str | None = None  # what nobody may miss

    def arranged(self) -> list[Sequence[tuple[str, str]]]:
        """Rows of pairs."""
        return [[pair] for pair in self.pairs]


class Header(Pairs):
    """Title of a view, and labels with their words, two a row where they fit."""

    def arranged(self) -> list[Sequence[tuple[str, str]]]:
        """Rows of two pairs that leave each other half the columns of the text; long ones alone and last."""
        short = [pair for pair in self.pairs if fits(pair)]
        long = [[pair] for pair in self.pairs if not fits(pair)]
        return [*(short[i : i + 2] for i in range(0, len(short), 2)), *long]


LABEL: Final = 22  # Columns of the text that labels take, at most
GAP: Final = 3  # Columns of the text between two pairs of a header
HALF: Final = (WIDTH - GAP) // 2


def fits(pair: tuple[str, str]) -> bool:
    """True if a label and its words leave half the line to others."""
    return span(pair[0]) + span(pair[1]) + 2 <= HALF


@dataclass(frozen=True)
class Table:
    """Rows of formatted cells beside their names; what follows a line break in a cell stands below it."""

    names: Sequence[str]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    blocks: Mapping[int, str] = field(default_factory=dict)  # titles of the rows that begin a block
    facts: Sequence[tuple[str, Sequence[str]]] = ()  # rows of words below a rule; columns are of one width then
    stub: str = ""  # heading of the names

    def lines(self) -> Iterator[tuple[str, Sequence[str] | None]]:
        """Names with their cells, and titles of blocks, which have none, where they belong; without the facts."""
        for i, line in enumerate(zip(self.names, self.rows, strict=True)):
            if i in self.blocks:
                yield self.blocks[i], None
            yield line


Part = Lines | Paragraph | Notes | Pairs | Header | Table


def estimates_table(
    frame: "pd.DataFrame",
    title: str = "",
    alpha: float = 0.05,
    first: str = "coef",
    names: Any = None,
    digits: int | None = None,
    **more: Any,
) -> Table:
    """Lay out a tidy table, or a `summary_frame`: estimate, standard error, t and p-value if it has them, limits.

    Rows have the `names`, or those of the index; what is not to be relied on is marked.
    """
    if "estimate" not in frame:
        tests = ["statistic", "p_value"] if len(frame.columns) == 7 else []
        first, columns = str(frame.columns[0]), ["estimate", "std_error", *tests, "conf_low", "conf_high", "reliable"]
        frame = frame.set_axis(columns, axis=1)
    names = [", ".join(map(str, i)) if isinstance(i, tuple) else i for i in (frame.index if names is None else names)]
    names = marked(names, frame["reliable"] if "reliable" in frame else [True] * len(names))
    return Table(names, *cells(frame, alpha, first, digits=digits), title, **more)


def noted(notes: Iterable[str]) -> list[Part]:
    """Notes that aren't numbered."""
    return [Paragraph(f"Note: {note}.") for note in notes]
