"""Shares of a study with two collectors in a database.

What is deleted stays in free pages, write-ahead logs and backups, sealed by its batch's key, which is in none of them.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from privreg_field.service.store import records as o
from privreg_field.service.store import tables as t
from privreg_field.service.store.records import HELD, SUMMED, UNSUMMED, Batch, Make, Posted, RecordStore
from privreg_field.wire.messages import ID
from privreg_field.wire.wire import hash_of

_S, _B = t.share.c, t.batch.c

_KNOWN: Final = "SELECT token_id, k, status, body_hash FROM share WHERE study = ? AND token_id IN ({})"
_STATUS: Final = "SELECT status FROM batch WHERE study = ? AND k = ?"
_KEEP: Final = """\
INSERT INTO share (study, token_id, k, status, body_hash, sealed) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (study, token_id) DO UPDATE SET
k = excluded.k, status = excluded.status, body_hash = excluded.body_hash, sealed = excluded.sealed"""
"""Statements for every few shares, as text: to build one takes longer than to run it."""
_FIELDS: Final = tuple(_B[name] for name in Batch._fields)


class _Row(NamedTuple):
    k: int
    status: str
    body_hash: bytes


class Way(NamedTuple):
    """Access to a database: members of `sql.Store`."""

    engine: sa.Engine
    slug: str
    reading: Callable[[], AbstractContextManager[sa.Connection]]
    sql: Callable[[str], str]
    insert: Callable[[sa.Table], Any]
    note: Callable[[sa.Connection, Mapping[str, int], bool], None]


class Shares(RecordStore):
    """Shares of a study, in its database, of which each enters one sum at most.

    What is taken are `Posted`: shares of open batches, each token's first, or its first after it was unsummed.
    """

    def __init__(self, way: Way) -> None:
        self._engine, self._slug, self._reading, self._sql, self._insert, self._note = way
        with self._engine.begin() as c:
            t.SUMS.create_all(c)

    def _of(self, k: int, status: str = HELD) -> tuple[Any, ...]:
        return _S.study == self._slug, _S.k == k, _S.status == status

    def take(
        self, posted: Sequence[Posted], counts: Mapping[str, int], *, trial: bool = False, places: float = math.inf
    ) -> list[str]:
        """Keep some, at most so many new ones; what became of each."""
        with self._engine.begin() as c:
            known = self._known(c, [one.token_id for one in posted])
            batches = {k: self._status(c, k) for k in {one.state for one in posted}}
            fresh: dict[bytes, Posted] = {}
            out = []
            for one in posted:
                out.append(_outcome(one, known.get(one.token_id), batches[one.state]))
                if out[-1] == o.NEW and len(fresh) >= places:
                    out[-1] = o.FROZEN
                elif out[-1] == o.NEW:
                    known[one.token_id] = _Row(one.state, HELD, one.body_hash)
                    fresh[one.token_id] = one
            if fresh:
                rows = [(self._slug, id_, p.state, HELD, p.body_hash, p.sealed) for id_, p in fresh.items()]
                c.exec_driver_sql(self._sql(_KEEP), rows)
            self._note(c, Counter(out) + Counter(counts), trial)
        return out

    def _known(self, c: sa.Connection, tokens: list[bytes]) -> dict[bytes, _Row]:
        if not tokens:
            return {}
        found = c.exec_driver_sql(self._sql(_KNOWN.format(", ".join("?" * len(tokens)))), (self._slug, *tokens))
        return {id_: _Row(k, status, sealed) for id_, k, status, sealed in found}

    def has(self, token: bytes, body_hash: bytes) -> bool:
        """True if these bytes of a token count."""
        with self._reading() as c:
            row = self._known(c, [token]).get(token)
        return row is not None and row.status != UNSUMMED and row.body_hash == body_hash

    def tokens(self, k: int, status: str = HELD) -> list[bytes]:
        """Ids of a batch's tokens whose shares have a status, ascending."""
        with self._reading() as c:
            return self._tokens(c, k, status)

    def _tokens(self, c: sa.Connection, k: int, status: str = HELD) -> list[bytes]:
        return list(c.execute(sa.select(_S.token_id).where(*self._of(k, status)).order_by(_S.token_id)).scalars())

    def people(self) -> dict[int, int]:
        """Numbers of shares that count, by the state that they answered."""
        chosen = sa.select(_S.k, sa.func.count()).where(_S.study == self._slug, _S.status.in_((HELD, SUMMED)))
        with self._reading() as c:
            return {int(k): int(n) for k, n in c.execute(chosen.group_by(_S.k))}

    def batch(self, k: int) -> Batch:
        """State of a batch."""
        with self._reading() as c:
            return self._batch(c, k)

    def _batch(self, c: sa.Connection, k: int) -> Batch:
        row = c.execute(sa.select(*_FIELDS).where(_B.study == self._slug, _B.k == k)).first()
        return Batch(k) if row is None else Batch(*row)

    def _status(self, c: sa.Connection, k: int) -> str:
        return c.exec_driver_sql(self._sql(_STATUS), (self._slug, k)).scalar() or o.OPEN

    def _put(self, c: sa.Connection, batch: Batch) -> None:
        given = batch._asdict()
        made = self._insert(t.batch).values(study=self._slug, **given)
        c.execute(made.on_conflict_do_update(index_elements=["study", "k"], set_=given))

    def freeze(self, k: int) -> None:
        """Take no more shares of an open batch; keep which it has."""
        with self._engine.begin() as c:
            if self._status(c, k) == o.OPEN:
                ids = b"".join(self._tokens(c, k))
                self._put(c, Batch(k, o.OFFERED, hash_of(ids), ids))

    def thaw(self, k: int) -> None:
        """Open a frozen batch again."""
        with self._engine.begin() as c:
            if self._status(c, k) == o.OFFERED:
                self._put(c, Batch(k))

    def fix(self, k: int, ids: Sequence[bytes], make: Make) -> Batch | None:
        """Fix a batch: those of `ids` that are held are summed, all others unsummed; None if `make` gives none."""
        with self._engine.begin() as c:
            have = self._batch(c, k)
            if have.status not in {o.OPEN, o.OFFERED}:
                return have
            chosen = sorted(set(ids) & set(self._tokens(c, k)))
            made = make(chosen, self._sealed(c, k, frozenset(chosen)))
            if made is not None:
                self._end(c, k, UNSUMMED)
                self._use(c, k, chosen)
                self._put(c, made)
            return made

    def _sealed(self, c: sa.Connection, k: int, chosen: frozenset[bytes]) -> Iterator[tuple[bytes, bytes]]:
        held = sa.select(_S.token_id, _S.sealed).where(*self._of(k)).execution_options(yield_per=1024)
        with c.execute(held) as rows:
            yield from ((id_, sealed) for id_, sealed in rows if id_ in chosen)

    def _end(self, c: sa.Connection, k: int, status: str) -> None:
        """Let no share of a batch be held any more."""
        c.execute(t.share.update().where(*self._of(k)).values(status=status, sealed=None))

    def _use(self, c: sa.Connection, k: int, ids: Iterable[bytes]) -> None:
        """Let tokens be used up, also ones that never came here."""
        rows = [{"study": self._slug, "token_id": id_, "k": k, "status": SUMMED, "body_hash": b""} for id_ in ids]
        made = self._insert(t.share)
        over = made.on_conflict_do_update(
            index_elements=["study", "token_id"], set_={"status": SUMMED, "k": k, "sealed": None}
        )
        if rows:
            c.execute(over, rows)

    def change(self, batch: Batch) -> None:
        """Keep what has become of a batch that was fixed."""
        with self._engine.begin() as c:
            self._put(c, batch)

    def lose(self, k: int) -> None:
        """Give up a batch: its shares are deleted, its tokens used up; what the other has committed to stays."""
        with self._engine.begin() as c:
            self._end(c, k, SUMMED)
            self._put(c, self._batch(c, k)._replace(status=o.LOST, value=b"", peer_value=b""))

    def adopt(self, batch: Batch) -> None:
        """Take over a published batch that was lost here: the tokens of its list are used up."""
        with self._engine.begin() as c:
            self._end(c, batch.k, SUMMED)
            self._use(c, batch.k, [batch.ids[i : i + ID] for i in range(0, len(batch.ids), ID)])
            self._put(c, batch)


def _outcome(one: Posted, row: _Row | None, batch: str) -> str:
    """Outcome of a share, by what its token has sent before and by its batch's status."""
    if row is not None and row.status != UNSUMMED:
        return o.OTHER if row.body_hash != one.body_hash else o.LOST if batch == o.LOST else o.SAME
    if batch == o.LOST and (row is None or row.k != one.state):  # of a backup: a sum may have left that has the token
        return o.LOST
    if batch not in {o.OPEN, o.OFFERED} or (row is not None and one.state <= row.k):
        return UNSUMMED
    return o.NEW if batch == o.OPEN and one.sealed is not None else o.FROZEN
