"""Sources whose rows come person by person: gathered in memory by an id, or taken as they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.data.columns import column_of
from privreg.data.participants import texts_of, without_id
from privreg.data.sources.order import dealt_rows
from privreg.data.sources.source import Batch, Source, chunk_of


def by_person(source: Source, column: str, *, gaps: bool) -> Source:
    """Rows of which those of one person come one after the other; `column` tells people apart.

    Rows that can be had at any place are gathered: people in the order in which they first come, or dealt in random
    order, and `rows` of the source are people. A row without an id is nobody's with `gaps`, else an error. Rows of
    other sources are taken as they lie, and nothing tells how many people there are: that depends on the kind of
    source, never on its rows.
    """
    if source.at is None:
        return replace(source, rows=None, count=lambda: None, part=None, dealt=None, blocks=())
    ids = [texts_of(column_of(batch, column)) for batch in source.batches(0)]
    codes, people = pd.factorize(np.concatenate(ids) if ids else np.zeros(0, dtype=object))
    if not gaps and (codes < 0).any():
        raise without_id(column)
    order = np.argsort(codes, kind="stable")[int((codes < 0).sum()) :]
    first = np.searchsorted(codes[order], np.arange(len(people) + 1))

    def rows(which: NDArray[np.int64], skip: int) -> Iterator[Batch]:
        lengths = np.diff(first)[which]
        begin = np.repeat(first[which] - np.r_[0, np.cumsum(lengths)[:-1]], lengths) if len(which) else which
        places = order[begin + np.arange(len(begin))]
        most = chunk_of(1)
        return (source.at(places[a : a + most]) for a in range(skip, len(places), most))  # type: ignore[misc]

    def dealt(key: bytes | None, skip: int) -> Iterator[Batch]:
        return rows(np.concatenate([*dealt_rows(len(people), key), np.zeros(0, dtype=np.int64)]), skip)

    return replace(
        source,
        rows=len(people),
        batches=partial(rows, np.arange(len(people))),
        count=lambda: len(people),
        part=None,
        dealt=lambda key: partial(dealt, key),
        at=None,
    )
