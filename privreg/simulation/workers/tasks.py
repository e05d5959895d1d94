"""Messages to the workers of one fit: names of files, numbers of rows, keys that print as nothing.

No rows go from one place to another, and no text of another library, which could quote one.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from privreg.base.arrays import Ints
from privreg.data.sources.open import Batch, Source, file_mark, first, rows_of
from privreg.data.sources.source import Wanted, at_places, dealt_rows
from privreg.errors import DataError, PrivregError
from privreg.fits.settings import FitOptions
from privreg.formula.spec import ModelSpec
from privreg.privacy.noise import Key
from privreg.simulation.streaming.stream import Stream, begin

P = ParamSpec("P")
T = TypeVar("T")


class Span(NamedTuple):
    """Consecutive rows of one file, or rows at consecutive places of a random order of those of a row group."""

    path: str
    first: int  # Place of the first row in the file, or in the order
    rows: int
    mark: tuple[int, ...] = ()  # Size and times of change of the file when the fit began; a key is for no other rows
    of: tuple[int, int] = (0, 0)  # First row of the row group, and its number of rows
    order: Key | None = None  # Key of the random order; None if rows are consecutive

    def places(self) -> Ints:
        """Numbers of the rows in the file."""
        if self.order is None:
            return np.arange(self.first, self.first + self.rows)
        held = dealt_rows(self.of[1], self.order.value, self.first, end=self.first + self.rows)
        return self.of[0] + np.concatenate(list(held))


class Part(NamedTuple):
    """Rows that are played together."""

    spans: tuple[Span, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(s.rows for s in self.spans)

    def after(self, rows: int) -> Part:
        """The part without its first `rows` rows."""
        out = []
        for span in self.spans:
            took = min(rows, span.rows)
            rows -= took
            if took < span.rows:
                out.append(span._replace(first=span.first + took, rows=span.rows - took))
        return Part(tuple(out))

    def before(self, rows: int) -> Part:
        """The part's first `rows` rows."""
        out = []
        for span in self.spans:
            took = min(rows, span.rows)
            rows -= took
            if took:
                out.append(span._replace(rows=took))
        return Part(tuple(out))


@dataclass(frozen=True)
class Work:
    """Message to every worker: the model and the options of its fit; public."""

    spec: ModelSpec
    asked: FitOptions
    start: Any  # The user's first guess
    rows: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _known, (pickle.dumps((self.spec, self.asked, self.start, self.rows)),)

    def stream(self) -> Stream:
        """A new stream of the plan."""
        return begin(self.spec, self.asked, self.start, None, self.rows)

    def batches(self, part: Part, rows: int) -> Iterator[Batch]:
        """Batches of a part's first `rows` rows; a row group in random order is read once, for all its spans."""
        opened = functools.cache(self.spec.open)  # a file is looked into once
        groups: dict[tuple[object, ...], list[Span]] = {}
        for span in part.before(rows).spans:
            groups.setdefault(span if span.order is None else (span.path, span.of), []).append(span)
        ones = [spans[0] for spans in groups.values()]
        batches = (batch for one in ones for batch in _read(opened(one.path), one))
        if all(one.order is None for one in ones):
            return batches
        before = np.cumsum([0, *(one.of[1] for one in ones)])[:-1]
        places = [s.places() - s.of[0] + n for n, some in zip(before, groups.values(), strict=True) for s in some]
        return at_places(batches, np.concatenate(places), Wanted(self.spec.columns, self.spec.design.schema))


def _read(source: Source, span: Span) -> Iterator[Batch]:
    """Rows of a span, or of all its row group where they are dealt."""
    changed = DataError(f"{span.path!r} is not what it was when the fit began; files must not change under a fit.")
    if span.mark and tuple(file_mark(Path(span.path))[1:]) != span.mark:
        raise changed
    begin, n = (span.first, span.rows) if span.order is None else span.of
    for batch in first(source.batches(begin), n) if source.part is None else source.part(begin, n):
        n -= rows_of(batch)
        yield batch
    if n:
        raise changed


@functools.lru_cache(maxsize=4)
def _known(public: bytes) -> Work:
    """Work made from its pickle, cached: a design takes longer to make than a batch to play."""
    return Work(*pickle.loads(public))


Each = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]
"""Call a function with each of many sets of arguments, anywhere and in any order; results in the order of the sets."""


def quiet(play: Callable[P, T]) -> Callable[P, T]:
    """Let no text of another library leave a worker: it could quote a row."""

    @functools.wraps(play)
    def played(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return play(*args, **kwargs)
        except PrivregError:
            raise
        except MemoryError:
            problem = DataError("a worker has not enough memory; give it more, or fewer threads.")
        except Exception as e:
            kind = type(e).__name__
            problem = DataError(
                f"a part could not be worked on ({kind}; its text is withheld, as it could quote a row)."
            )
        raise problem  # out here, where no other exception is its context

    return played
