"""Sources whose rows come person by person: gathered in memory by an id, or taken as they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.data.cells import Taken
from privreg.data.columns import column_of
from privreg.data.participants import ids_of, texts_of, without_id
from privreg.data.sources.order import dealt_rows
from privreg.data.sources.source import Batch, Source, chunk_of


def by_person(source: Source, column: str, *, gaps: bool) -> Source:
    """Rows of which those of one person come one after the other; `column` tells people apart.

    Rows that can be had at any place are gathered: people in the order in which they first come, or dealt in random
    order, and `rows` of the source are people; `column` has their numbers then. A row without an id is nobody's with
    `gaps`, else an error. Rows of other sources are taken as they lie, and nothing tells how many people there are:
    that depends on the kind of source, never on its rows.
    """
    if source.at is None:
        return replace(source, rows=None, count=lambda: None, part=None, dealt=None, blocks=())
    ids = [ids_of(column_of(batch, column)) for batch in source.batches(0)]
    if len({some.dtype for some in ids}) != 1:
        ids = [np.zeros(0, dtype=object), *map(texts_of, ids)]
    values, order = np.concatenate(ids), None
    if values.dtype.kind in "iu" and (values[1:] >= values[:-1]).all():
        first = np.r_[np.flatnonzero(np.r_[True, values[1:] != values[:-1]])[: len(values)], len(values)]
        codes = np.repeat(np.arange(len(first) - 1), np.diff(first))
    else:
        codes, found = pd.factorize(values)
        order = _in_order(codes)
        first = np.r_[0, np.bincount(codes[codes >= 0], minlength=len(found)).cumsum()]
    people = len(first) - 1
    if not gaps and first[-1] < len(codes):
        raise without_id(column)

    def rows(which: NDArray[np.int64], skip: int) -> Iterator[Batch]:
        ends = np.diff(first)[which].cumsum()
        moves = first[which + 1] - ends
        for a in range(skip, int(ends[-1]) if len(ends) else 0, chunk_of(1)):
            b = min(a + chunk_of(1), int(ends[-1]))
            i, j = np.searchsorted(ends, [a, b - 1], side="right")
            times = np.diff(np.minimum(ends[i : j + 1], b), prepend=a)
            places = np.arange(a, b) + np.repeat(moves[i : j + 1], times)
            places = places if order is None else order[places]
            batch = source.at(places)  # type: ignore[misc]
            yield Taken({**batch.columns, column: codes}, places)

    def dealt(key: bytes | None, skip: int) -> Iterator[Batch]:
        return rows(np.concatenate([*dealt_rows(people, key), np.zeros(0, dtype=np.int64)]), skip)

    return replace(
        source,
        rows=people,
        batches=partial(rows, np.arange(people)),
        count=lambda: people,
        part=None,
        dealt=lambda key: partial(dealt, key),
        at=None,
        gathered=True,
    )


def _in_order(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of people's rows, person by person, of a number for each row, below 0 for nobody: sorted by halves."""
    low = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    order = low[np.argsort((codes[low] >> 16).astype(np.int16), kind="stable")]
    return order[np.count_nonzero(codes < 0) :]
