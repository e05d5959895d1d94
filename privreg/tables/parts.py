"""Parts of a view: values without layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from privreg.tables.words import WIDTH, cells, fold, marked, span

if TYPE_CHECKING:
    import pandas as pd


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


def respelt(parts: Iterable[Part], spell: Callable[[str], str]) -> list[Part]:
    """Parts whose notes name options as `spell` does."""
    return [replace(p, notes=[spell(note) for note in p.notes]) if isinstance(p, Notes) else p for p in parts]


@dataclass(frozen=True)
class Pairs:
    """Labels and their words, one below the other."""

    pairs: Sequence[tuple[str, str]]
    title: str = ""  # but of the text
    loud: str | None = None  # what nobody may miss


@dataclass(frozen=True)
class Header:
    """Title of a view, and labels with their words, two a row where they fit."""

    pairs: Sequence[tuple[str, str]]
    title: str
    loud: str | None = None  # what nobody may miss

    def arranged(self) -> list[Sequence[tuple[str, str]]]:
        """Rows of two pairs that leave each other half the columns of the text; long ones alone and last."""
        short = [pair for pair in self.pairs if fits(pair)]
        long = [[pair] for pair in self.pairs if not fits(pair)]
        return [*(short[i : i + 2] for i in range(0, len(short), 2)), *long]

    def indent(self) -> int:
        """Column of the text at which words begin that have a line of their own."""
        return min(max((len(label) for label, _ in self.pairs), default=0) + 3, LABEL)

    def lines(self) -> int:
        """Lines of the text that the pairs take."""
        room = WIDTH - self.indent()
        return sum(len(fold(row[0][1], room)) if not fits(row[0]) else 1 for row in self.arranged())


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
    short_blocks: Mapping[int, str] | None = None  # the same, for text
    facts: Sequence[tuple[str, Sequence[str]]] = ()  # rows of words below a rule; columns are of one width then
    stub: str = ""  # heading of the names

    def lines(self) -> Iterator[tuple[str, Sequence[str] | None]]:
        """Names with their cells, and titles of blocks, which have none, where they belong; without the facts."""
        for i, line in enumerate(zip(self.names, self.rows, strict=True)):
            if i in self.blocks:
                yield self.blocks[i], None
            yield line


Part = Lines | Paragraph | Notes | Pairs | Header | Table


def estimates_table(frame: pd.DataFrame, title: str) -> Table:
    """Lay out a `summary_frame`: estimate, standard error, t and p-value if it has them, 95% limits.

    Lines not to rely on are marked.
    """
    names = [", ".join(map(str, i)) if isinstance(i, tuple) else str(i) for i in frame.index]
    if "reliable" in frame:
        names = marked(names, frame["reliable"])
        frame = frame.drop(columns="reliable")
    tests = ["statistic", "p_value"] if frame.shape[1] == 6 else []
    tidy = frame.set_axis(["estimate", "std_error", *tests, "conf_low", "conf_high"], axis=1)
    return Table(names, *cells(tidy, 0.05, str(frame.columns[0])), title)


def noted(notes: Iterable[str]) -> list[Part]:
    """Notes that aren't numbered."""
    return [Paragraph(f"Note: {note}.") for note in notes]
