"""Encoded rows to people, each with all of theirs: what a person's device holds before it is asked. Device side."""

from __future__ import annotations

from typing import Any

import numpy as np

from privreg.arrays import Array
from privreg.data.participants import NOBODY, WITHIN, Participants
from privreg.simulation.streaming.encoding import Rows


class Gatherer:
    """Makes people of rows that come one after the other, those of a person together.

    A person whose rows may go on in the next batch waits. The first column of rows is the constant. `binary` says
    whether the response is 0 or 1: without levels of persons that is the conditional logit of two rows.
    """

    def __init__(self, people: Participants, *, binary: bool) -> None:
        self._people, self._binary = people, binary
        self._open: Rows | None = None

    def together(self, rows: Rows) -> Rows:
        """Rows of a batch with those of a person one after the other, people as they first come."""
        if self._people.k_max is None:
            return rows
        _, first, person = np.unique(rows.hashes, return_index=True, return_inverse=True)
        return _some(rows, np.argsort(first[person], kind="stable"))

    def take(self, rows: Rows) -> Rows:
        """People that are complete: arrays have an axis of rows after the first, NaN where a person has fewer."""
        if self._people.k_max is None:
            return _padded(rows, np.arange(len(rows.endog)), 1)
        rows = _some(rows, rows.hashes != NOBODY)
        rows = rows if self._open is None else _joined(self._open, rows)
        last = len(rows.hashes) - int((rows.hashes[::-1] == rows.hashes[-1:]).argmin()) if len(rows.hashes) else 0
        if len(rows.hashes) and (rows.hashes == rows.hashes[-1]).all():
            last = 0
        self._open = _some(rows, slice(last, None))._replace(read=0)
        return self._made(_some(rows, slice(last)))

    def rest(self) -> Rows | None:
        """The person who waited, once nobody follows."""
        rows, self._open = self._open, None
        return None if rows is None or not len(rows.endog) else self._made(rows)

    @np.errstate(all="ignore")  # a warning would tell of one value
    def _made(self, rows: Rows) -> Rows:
        person = np.cumsum(np.r_[False, rows.hashes[1:] != rows.hashes[:-1]])[: len(rows.hashes)]
        out = _padded(rows, person, self._people.rows)
        if self._people.effect is None:
            return out
        offset: Any = 0.0 if out.offset is None else out.offset
        if self._binary:
            y, x = _changes(out.endog, out.exog)
            return out._replace(endog=y, exog=x, offset=None if out.offset is None else offset - offset[:, ::-1])
        y, x = (_within if self._people.effect == WITHIN else _differences)(out.endog - offset, out.exog)
        return out._replace(endog=y, exog=x, offset=None)


def _some(rows: Rows, which: Any) -> Rows:
    return Rows._make([*(None if c is None else c[which] for c in rows[:-1]), rows.read])


def _joined(first: Rows, then: Rows) -> Rows:
    """Rows of both; those that come without what bounds clamp of them are asked nothing about it."""
    flags = next((one.clamped for one in (first, then) if one.clamped is not None), None)
    if flags is not None:
        first, then = (
            one
            if one.clamped is not None
            else one._replace(clamped=np.zeros((len(one.endog), flags.shape[1]), np.bool_))
            for one in (first, then)
        )
    pairs = zip(first[:-1], then[:-1], strict=True)
    held = [None if a is None or b is None else np.concatenate([a, b]) for a, b in pairs]
    return Rows._make([*held, first.read + then.read])


def _padded(rows: Rows, person: Any, most: int) -> Rows:
    """The first `most` usable rows of each person; `person` numbers them, in order."""
    y, x, offset, weight = rows.endog, rows.exog, rows.offset, rows.weight
    m = int(person[-1]) + 1 if len(person) else 0
    usable = np.isfinite(y) & np.isfinite(x).all(axis=1)
    if weight is not None:
        usable &= np.isfinite(weight)
    before: Any = np.cumsum(usable) - usable
    first = np.searchsorted(person, np.arange(m))
    place: Any = before - before[first[person]] if m else before
    kept = usable & (place < most)
    at = person[kept], place[kept]

    def spread(values: Array | None) -> Any:
        if values is None:
            return None
        out = np.full((m, most, *values.shape[1:]), np.nan)
        out[at] = values[kept]
        return out

    def mean(values: Any) -> Any:
        out = np.zeros((m, *values.shape[1:]))
        np.add.at(out, at[0], values[kept])
        have = np.maximum(np.bincount(at[0], minlength=m), 1.0)
        return out / have.reshape(-1, *[1] * (values.ndim - 1))

    return Rows(
        endog=spread(y),
        exog=spread(x),
        offset=spread(offset),
        weight=None if weight is None else mean(weight),
        hashes=None if rows.hashes is None else rows.hashes[first],
        clamped=None if rows.clamped is None else mean(rows.clamped),
        cluster=None if rows.cluster is None else rows.cluster[first],
        read=rows.read,
    )


def _within(y: Array, x: Array) -> tuple[Array, Array]:
    """Rows less their person's means, but for the constant; a single row tells nothing."""
    have = np.isfinite(y)
    rows = have.sum(axis=1)
    by = np.maximum(rows, 1.0)
    y = y - (np.where(have, y, 0.0).sum(axis=1) / by)[:, None]
    means = np.where(have[:, :, None], x, 0.0).sum(axis=1) / by[:, None]
    means[:, 0] = 0.0
    y[rows < 2] = np.nan
    return y, x - means[:, None, :]


def _differences(y: Array, x: Array) -> tuple[Array, Array]:
    """Differences of following rows, each in both directions, so that no constant is left in them."""
    steps, moves = np.diff(y, axis=1), np.diff(x, axis=1)
    y, x = np.concatenate([steps, -steps], axis=1), np.concatenate([moves, -moves], axis=1)
    x[:, :, 0] = np.where(np.isfinite(y), 1.0, np.nan)
    return y, x


def _changes(y: Array, x: Array) -> tuple[Array, Array]:
    """Both rows of a person whose answers differ, each as it differs from the other; nothing of others."""
    y = np.where((y[:, :1] != y[:, 1:]) & np.isfinite(y).all(axis=1, keepdims=True), y, np.nan)
    moves = x - x[:, ::-1]
    moves[:, :, 0] = np.where(np.isfinite(y), 1.0, np.nan)
    return y, moves
