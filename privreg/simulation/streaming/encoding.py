"""Rows of records in internal units, and people of rows: content of devices before they are asked. Device side."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array, Flags, Ints
from privreg.data.columns import column_of
from privreg.data.participants import NOBODY, WITHIN, Counter, Participants
from privreg.data.sources.open import SILO
from privreg.formula.spec import ModelSpec


class Block(NamedTuple):
    """Consecutive rows that are played together, internal units; None for all alike."""

    y: Array  # shape (n,), as others where no other shape is said
    x: Array  # shape (n, p), column by column if for rounds, else row by row
    offset: Array | None = None
    weight: Array | None = None  # Squared share of the largest budget, or a survey weight over the largest
    clamped: Array | Flags | None = None  # True if a record was clamped, by column, in rounds that ask; shape (n, D)
    cluster: Ints | None = None  # Place of its cluster among those declared
    silo: Ints | None = None  # Place of the silo that holds the record, all that are played together in one
    delay: Ints | None = None  # Rounds by which a record's report is late
    # Part of each of a person's rows in the report, shape (n, K); y, x and offset have this axis after the first
    parts: Array | None = None
    hashes: Any = None  # Keyed hash of the person's id

    @property
    def reported(self) -> tuple[Array, Array, Array | None, Array | Flags | None, Array | None]:
        """Parts that reports of noised sums are made of: arguments of `report.factors`."""
        return self.y, self.x, self.offset, self.clamped, self.weight


def picked(rows: Block, which: Any) -> Block:
    """Rows of a block, by a slice, places or flags."""
    return Block._make(None if c is None else c[which] for c in rows)


def cut(rows: Block, a: int, b: int) -> Block:
    """Rows a to b of a block."""
    return rows if a == 0 and b >= len(rows.y) else picked(rows, slice(a, b))


def joined(parts: Sequence[Block]) -> Block:
    """Rows of several blocks, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Block._make(None if c[0] is None else np.concatenate(c) for c in zip(*parts, strict=True))


class Gatherer:
    """Makes people of rows that come one after the other, those of a person together.

    A person whose rows may go on in the next batch waits. The first column of rows is the constant. `binary` says
    whether the response is 0 or 1: without levels of persons that is the conditional logit of two rows. `cuts`, shape
    (K − 1, p), are what a row has at each cut point of a response of K levels beyond what it has at the first.
    """

    def __init__(self, people: Participants, *, binary: bool, cuts: Array | None = None) -> None:
        self._people, self._binary, self._cuts = people, binary, cuts
        self._open: Block | None = None

    def cut(self, rows: Block) -> list[Block]:
        """Rows of the first person of a batch, the people after that one, made, and rows of the last. Any thread may.

        Of a batch of one person there are their rows alone.
        """
        if self._people.k_max is None:
            return [self.made(rows)]
        known = rows.hashes != NOBODY
        rows = rows if known.all() else picked(rows, known)
        others = 1 + np.flatnonzero(rows.hashes[1:] != rows.hashes[:-1])
        if not len(others):
            return [rows]
        first, last = others[[0, -1]]
        parts = [picked(rows, part) for part in (slice(first), slice(first, last), slice(last, None))]
        return [parts[0], self.made(parts[1]), parts[2]]

    def take(self, parts: list[Block]) -> list[Block]:
        """People who are complete with the next batch, as it was cut."""
        if self._people.k_max is None:
            return parts
        (first, *more), held, done = parts, self._open, []
        if held is not None and len(held.hashes) and len(first.hashes) and held.hashes[0] != first.hashes[0]:
            done = [self.made(held)]
        elif held is not None:
            both, flags = [held, first], next((one.clamped for one in (held, first) if one.clamped is not None), None)
            if flags is not None:  # 0 of those without
                none = [np.zeros((len(one.y), flags.shape[1]), np.bool_) for one in both]
                both = [r if r.clamped is not None else r._replace(clamped=n) for r, n in zip(both, none, strict=True)]
            first = joined(both)
        self._open = more.pop() if more else first
        return [*done, self.made(first), *more] if more else done

    def rest(self) -> Block | None:
        """The person who waited, once nobody follows."""
        rows, self._open = self._open, None
        return None if rows is None or not len(rows.y) else self.made(rows)

    def together(self, rows: Block) -> Block:
        """People of a batch that has all of their rows, in any order."""
        if self._people.k_max is not None:
            rows = picked(rows, rows.hashes != NOBODY)
            _, first, person = np.unique(rows.hashes, return_index=True, return_inverse=True)
            rows = picked(rows, np.argsort(first[person], kind="stable"))
        return self.made(rows)

    @np.errstate(all="ignore")  # a warning would tell of one value
    def made(self, rows: Block) -> Block:
        """People of rows that are all there: arrays have an axis of rows after the first, NaN where one has fewer."""
        if self._people.followed is not None:
            y, each = rows.y, self._people.rows  # all intervals in place, without a response where one isn't at risk
            more = None if rows.offset is None else rows.offset.reshape(-1, each)
            x = np.ascontiguousarray(rows.x).reshape(-1, each, rows.x.shape[1])
            return picked(rows, slice(None, None, each))._replace(y=y.reshape(-1, each), x=x, offset=more)
        if self._people.k_max is None:
            return self._stacked(_padded(rows, np.arange(len(rows.y)), 1))
        begin = np.flatnonzero(np.r_[True, rows.hashes[1:] != rows.hashes[:-1]])[: len(rows.hashes)]
        out = _padded(rows, begin, self._people.rows)
        if self._people.effect is None:
            return self._stacked(out)
        y, x, offset = out.y, out.x, out.offset
        if self._binary:  # both rows of a person whose answers differ, each as it differs from the other
            x = x - x[:, ::-1]
            y = np.where((y[:, :1] != y[:, 1:]) & np.isfinite(y).all(axis=1, keepdims=True), y, np.nan)
            x[:, :, 0] = np.where(np.isfinite(y), 1.0, np.nan)
            return out._replace(y=y, x=x, offset=None if offset is None else offset - offset[:, ::-1])
        y = y if offset is None else y - offset
        if self._people.effect == WITHIN:  # less their person's means, but for the constant; a single row is unusable
            have = np.isfinite(y)
            count = have.sum(axis=1)
            by = np.maximum(count, 1.0)
            y = y - (np.where(have, y, 0.0).sum(axis=1) / by)[:, None]
            means = np.where(have[:, :, None], x, 0.0).sum(axis=1) / by[:, None]
            means[:, 0] = 0.0
            y[count < 2] = np.nan
            return out._replace(y=y, x=x - means[:, None, :], offset=None)
        steps, moves = np.diff(y, axis=1), np.diff(x, axis=1)  # in both directions, so that no constant is left in them
        y, x = np.concatenate([steps, -steps], axis=1), np.concatenate([moves, -moves], axis=1)
        x[:, :, 0] = np.where(np.isfinite(y), 1.0, np.nan)
        return out._replace(y=y, x=x, offset=None)

    def _stacked(self, rows: Block) -> Block:
        """Rows at each cut point, with the response 1 of levels above it, one after the other."""
        cuts = self._cuts
        if cuts is None:
            return rows
        above = np.where(np.isnan(rows.y)[..., None], np.nan, rows.y[..., None] > np.arange(len(cuts)))
        return rows._replace(
            y=above.reshape(len(above), -1),
            x=(rows.x[:, :, None] + cuts).reshape(len(above), -1, cuts.shape[1]),
            offset=None if rows.offset is None else np.repeat(rows.offset, len(cuts), axis=1),
        )


def _padded(rows: Block, begin: Any, most: int) -> Block:
    """The first `most` usable rows of each person, whose rows `begin` at these places."""
    y, x, weight, m = rows.y, rows.x, rows.weight, len(begin)
    kept = np.isfinite(y) & np.isfinite(x).all(axis=1)
    if weight is not None:
        kept &= np.isfinite(weight)
    lengths = np.diff(begin, append=len(y))
    have = lengths if kept.all() else np.add.reduceat(kept, begin, dtype=np.int64)
    if have.max(initial=0) > most:
        before: Any = np.cumsum(kept) - kept
        kept &= before - np.repeat(before[begin], lengths) < most
        have = np.minimum(have, most)
    filled = np.arange(most) < have[:, None]
    every, full = bool(kept.all()), bool(filled.all())

    def spread(values: Array) -> Any:
        values = values if every else values[kept]
        if full:
            return values.reshape(m, most)
        out = np.full((m, most), np.nan)
        out[filled] = values
        return out

    def mean(values: Any) -> Any:
        return np.bincount(np.repeat(np.arange(m), have), values[kept], m) / np.maximum(have, 1.0)

    return Block(
        y=spread(y),
        x=np.array([spread(column) for column in x.T]).transpose(1, 2, 0),  # column by column, as they come
        offset=None if rows.offset is None else spread(rows.offset),
        weight=None if weight is None else mean(weight),
        hashes=None if rows.hashes is None else rows.hashes[begin],
        clamped=None if rows.clamped is None else np.stack([mean(flags) for flags in rows.clamped.T], axis=1),
        cluster=None if rows.cluster is None else rows.cluster[begin],
        silo=None if rows.silo is None else rows.silo[begin],
    )


class Encoder:
    """Makes rows of batches, in the engine's `order` of the user's columns, shape (p,).

    `counter` counts rows by id; `by_column` says whether the numbers of a column lie together, or those of a row.
    """

    def __init__(self, spec: ModelSpec, order: NDArray[np.intp], counter: Counter | None, *, by_column: bool) -> None:
        self.order, self._layout = order, np.asfortranarray if by_column else np.ascontiguousarray
        self._spec, self._counter = spec, counter
        units = spec.units  # but for their mix, which comes after
        self._sorted = bool((np.diff(order) == 1).all())
        self._design = scaled = spec.design.scaled(units.centre, units.scale)
        if not self._sorted and units.mix is None:
            self._design, self._sorted = scaled.ordered(order), True

    def encode(self, batch: Any, *, clamped: bool = False) -> Block:
        """Rows of a batch; with `clamped`, also flags of clamped values."""
        spec, units = self._spec, self._spec.units
        if spec.people.followed is not None:
            batch = spec.people.followed.rows(batch, spec.design.schema, spec.columns)
        rows = self._design.encode(batch, spec.people.missing)
        x = rows.exog
        units.rows_mixed(x)
        x = self._layout(x if self._sorted else x[:, self.order])
        with np.errstate(over="ignore"):  # a warning would tell of one value
            offset = None if rows.offset is None else rows.offset / units.y_scale
        weight = spec.people.weights(batch, rows.kept)
        if spec.people.weight is not None:
            least, largest = spec.design.schema.limits(spec.people.weight)
            weight = spec.people.survey_weights(batch, largest, least, rows.kept)
        hashes = flags = None
        if self._counter is not None:
            hashes = self._counter.hashed(spec.people.ids(batch), gaps=spec.people.missing != "raise")
            hashes = hashes if rows.kept is None else hashes[rows.kept]
        if clamped and spec.clamps:
            flags = spec.design.clamps(batch, [c.name for c in spec.clamps])
            flags = flags if rows.kept is None else flags[rows.kept]
        y, cluster = units.response_inside(rows.endog), None
        if spec.people.cluster is not None:
            place = spec.people.clusters(batch, spec.design.schema.levels[spec.people.cluster], rows.kept)
            y, cluster = np.where(place < 0, np.nan, y), np.maximum(place, 0)
        silo = None if not spec.silos else np.array(column_of(batch, SILO).codes, dtype=np.int64)
        if silo is not None and hashes is not None:  # an id is a person's in one silo alone
            hashes = np.where(hashes == NOBODY, NOBODY, hashes + (silo.astype(np.uint64) << np.uint64(44)))
        return Block(y, x, offset, weight, flags, cluster, silo, hashes=hashes)
