"""A study in SQLite: every report once, its cell in the same transaction, states and their snapshots.

All writes of a process go through one thread, `Writer`; processes that share a file take turns by SQLite's lock.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError

from privreg.collector import chain as chains
from privreg.collector.chain import Cell, Place
from privreg.errors import OptionError
from privreg.protocol.study import LIMIT
from privreg.service.store import tables as t
from privreg.service.store.kept import NEW, OTHER, SAME, About, Arrived, Held, Shares, Store, StoreError
from privreg.service.store.sqlite_shares import SQLiteShares

SCHEME: Final = "sqlite:///"
BUSY: Final = 30_000  # Milliseconds to wait for another process's transaction


class SQLite(Store):
    """A study in a file of SQLite; parameters and errors are those of `open_store`."""

    def __init__(self, url: str, slug: str, clock: Callable[[], float], *, make: bool) -> None:
        self.slug, self.clock = slug, clock
        self.path = path = Path(url.removeprefix(SCHEME))
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder {str(path.parent)!r} for the database.")
        if path.exists():
            _must_be_ours(path)
        elif make:
            path.touch(0o600)
        else:
            raise StoreError(f"there is no database {str(path)!r}; privreg serve makes it.")
        self.engine = sa.create_engine(url, connect_args={"check_same_thread": False, "isolation_level": None})
        sa.event.listen(self.engine, "connect", _prepare)
        sa.event.listen(self.engine, "begin", _begin)
        try:
            with self.engine.begin() as c:
                t.METADATA.create_all(c)
                c.execute(insert(t.meta).values(name="format", value=str(t.FORMAT)).on_conflict_do_nothing())
                found = c.execute(sa.select(t.meta.c.value).where(t.meta.c.name == "format")).scalar_one()
        except SQLAlchemyError:
            raise StoreError(f"{str(path)!r} is no database of a collector, or can't be written.") from None
        if found != str(t.FORMAT):
            raise StoreError(f"{str(path)!r} is of another release of privreg, format {found}; use that release.")

    def _reading(self) -> sa.Connection:
        return self.engine.connect().execution_options(reading=True)

    # --- the study -------------------------------------------------------------------------------------

    def enter(self, plan_hash: bytes, envelope: bytes, analyst: bytes) -> bool:
        with self.engine.begin() as c:
            row = c.execute(sa.select(t.study.c.slug, t.study.c.plan_hash)).all()
            if not row:
                c.execute(
                    t.study.insert().values(
                        slug=self.slug, plan_hash=plan_hash, plan=envelope, status="open", analyst=analyst, issued=0,
                        seq=0,
                    )
                )  # fmt: skip
                return True
        if [(r.slug, r.plan_hash) for r in row] != [(self.slug, plan_hash)]:
            raise StoreError("the database holds another study, or another plan of this one; name another file.")
        return False

    def known(self) -> bool:
        with self._reading() as c:
            return c.execute(sa.select(t.study.c.slug)).first() is not None

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self.beside("lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OptionError("another privreg serve has this database; stop it first.") from None
            yield

    def leave(self) -> None:
        with closing(self.engine.raw_connection()) as raw:
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.engine.dispose()

    def about(self) -> About:
        with self._reading() as c:
            return About(*c.execute(sa.select(t.study).where(t.study.c.slug == self.slug)).one())

    @cached_property
    def shares(self) -> Shares:
        return SQLiteShares(self.engine, self.slug, self._note)

    def beside(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")

    def mark(self, status: str) -> None:
        with self.engine.begin() as c:
            c.execute(t.study.update().where(t.study.c.slug == self.slug).values(status=status))

    # --- tokens ----------------------------------------------------------------------------------------

    def issuers(self) -> dict[int, bytes]:
        with self._reading() as c:
            rows = c.execute(sa.select(t.issuer).where(t.issuer.c.study == self.slug, t.issuer.c.revoked == 0)).all()
        return {r.key: r.secret for r in rows}

    def issue(self, secret: bytes, number: int | None = None) -> int:
        of = t.issuer.c.study == self.slug
        with self.engine.begin() as c:
            have = set(c.execute(sa.select(t.issuer.c.key).where(of)).scalars())
            number = max(have, default=0) + 1 if number is None else number
            if number > 255 or number in have:
                raise StoreError("an issuer has at most 255 keys, each once.")
            c.execute(t.issuer.insert().values(study=self.slug, key=number, secret=secret, revoked=0))
        return number

    def handed_out(self, count: int) -> None:
        with self.engine.begin() as c:
            c.execute(t.study.update().where(t.study.c.slug == self.slug).values(issued=t.study.c.issued + count))

    def revoke(self, *, keys: Sequence[int] = (), tokens: Sequence[bytes] = ()) -> None:
        with self.engine.begin() as c:
            for key in keys:
                c.execute(
                    t.issuer.update().where(t.issuer.c.study == self.slug, t.issuer.c.key == key).values(revoked=1)
                )
            for token in tokens:
                c.execute(insert(t.revoked).values(study=self.slug, token_id=token).on_conflict_do_nothing())

    def taken_back(self) -> frozenset[bytes]:
        with self._reading() as c:
            rows = c.execute(sa.select(t.revoked.c.token_id).where(t.revoked.c.study == self.slug)).scalars()
            return frozenset(rows)

    # --- states ----------------------------------------------------------------------------------------

    def states(self, first: int = 0) -> list[Held]:
        where = (t.state.c.study == self.slug, t.state.c.k >= first)
        with self._reading() as c:
            rows = c.execute(sa.select(t.state).where(*where).order_by(t.state.c.k)).all()
        return [Held(r.k, r.envelope, r.payload, r.hash, r.time) for r in rows]

    def snapshots(self, first: int = 0) -> list[bytes]:
        where = (t.snapshot.c.study == self.slug, t.snapshot.c.k >= first)
        with self._reading() as c:
            return list(c.execute(sa.select(t.snapshot.c.cells).where(*where).order_by(t.snapshot.c.k)).scalars())

    def publish(self, held: Held, before: bytes, snapshot: bytes | None) -> bool:
        with self.engine.begin() as c:
            given = held._asdict()
            new = c.execute(insert(t.state).values(study=self.slug, prev=before, **given).on_conflict_do_nothing())
            if new.rowcount != 1:
                return False
            if snapshot is not None:
                c.execute(t.snapshot.insert().values(study=self.slug, k=held.k - 1, cells=snapshot))
        return True

    # --- reports ---------------------------------------------------------------------------------------

    def take(self, arrived: Sequence[Arrived], counts: Mapping[str, int], *, trial: bool = False) -> list[str]:
        outcomes = [""] * len(arrived)
        with self.engine.begin() as c:
            first: dict[bytes, int] = {}
            for i, one in enumerate(arrived):
                first.setdefault(one.token_id, i)
            known = self._known(c, list(first))  # exact, as nobody else writes until this transaction ends
            new = [arrived[i] for token, i in first.items() if token not in known]
            if new:
                c.exec_driver_sql(_KEEP, [(self.slug, *one) for one in new])
                self._fold(c, new)
            fresh = {one.token_id: one.body_hash for one in new}
            for i, one in enumerate(arrived):
                token = one.token_id
                if token in fresh and first[token] == i:
                    outcomes[i] = NEW
                else:
                    have = fresh[token] if token in fresh else known[token]
                    outcomes[i] = SAME if have == one.body_hash else OTHER
            self._note(c, Counter(outcomes) + Counter(counts), trial)
        return outcomes

    def has(self, token: bytes, body_hash: bytes) -> bool:
        with self._reading() as c:
            return self._known(c, [token]).get(token) == body_hash

    def _known(self, c: sa.Connection, tokens: list[bytes]) -> dict[bytes, bytes]:
        """Hashes of what these tokens have sent before."""
        found = c.exec_driver_sql(_KNOWN.format(", ".join("?" * len(tokens))), (self.slug, *tokens))
        return {token: own for token, own in found}

    def _fold(self, c: sa.Connection, some: Sequence[Arrived]) -> None:
        """Add new reports to their cells."""
        where = t.study.c.slug == self.slug
        seq = c.execute(sa.select(t.study.c.seq).where(where)).scalar_one() + len(some)
        c.execute(t.study.update().where(where).values(seq=seq))
        places: dict[Place, list[bytes]] = {}
        for one in some:
            places.setdefault(Place(one.state, one.role, one.group), []).append(one.values)
        have = self._cells(c, sorted({place.state for place in places}))
        made, more = list[dict[str, Any]](), list[dict[str, Any]]()
        for place, values in places.items():
            told = np.frombuffer(b"".join(values), dtype="<i4").reshape(len(values), -1)
            cell = chains.add(have.get(place), told, place.role)
            (more if place in have else made).append(
                {
                    "study": self.slug, "k": place.state, "role": place.role, "grp": place.group, "people": cell.people,
                    "sums": _packed(cell.sums), "squares": _packed(cell.squares), "upto": seq,
                }
            )  # fmt: skip
        if made:
            c.execute(t.cell.insert(), made)
        if more:
            c.execute(_UPDATE, [{f"{k}_" if k in _KEY else k: v for k, v in one.items()} for one in more])

    def _note(self, c: sa.Connection, counts: Mapping[str, int], trial: bool) -> None:
        """Count outcomes in this minute; try whether there is room for a report."""
        if trial:
            c.execute(t.meta.insert().values(name="trial", value="0" * LIMIT))
            c.execute(t.meta.delete().where(t.meta.c.name == "trial"))
        rows = [(self.slug, int(self.clock()) // 60, name, count) for name, count in counts.items()]
        if rows:
            c.exec_driver_sql(_COUNT, rows)

    def cells(self) -> dict[Place, Cell]:
        with self._reading() as c:
            return self._cells(c)

    def _cells(self, c: sa.Connection, states: Sequence[int] | None = None) -> dict[Place, Cell]:
        """Sums of the reports that answered these states, or any."""
        chosen = sa.select(t.cell).where(t.cell.c.study == self.slug)
        rows = c.execute(chosen if states is None else chosen.where(t.cell.c.k.in_(states)))
        return {Place(row.k, row.role, row.grp): _cell_of(row) for row in rows}

    def people(self) -> dict[int, int]:
        chosen = sa.select(t.cell.c.k, sa.func.sum(t.cell.c.people)).where(t.cell.c.study == self.slug)
        with self._reading() as c:
            return {int(k): int(n) for k, n in c.execute(chosen.group_by(t.cell.c.k))}

    def counts(self, first: int = 0) -> list[tuple[int, str, int]]:
        c_ = t.counter.c
        with self._reading() as c:
            where = c_.study == self.slug, c_.minute >= first
            chosen = sa.select(c_.minute, c_.name, c_.count).where(*where).order_by(c_.minute, c_.name)
            return [(int(m), str(n), int(k)) for m, n, k in c.execute(chosen)]

    def reports(self, size: int = 4096) -> Iterable[tuple[Place, bytes]]:
        with self._reading() as c:
            chosen = sa.select(t.report).where(t.report.c.study == self.slug).order_by(t.report.c.token_id)
            for row in c.execution_options(yield_per=size).execute(chosen):
                yield Place(row.k, row.role, row.grp), row.vals


_KNOWN: Final = "SELECT token_id, body_hash FROM report WHERE study = ? AND token_id IN ({})"
_KEEP: Final = "INSERT INTO report (study, token_id, k, role, grp, body_hash, vals) VALUES (?, ?, ?, ?, ?, ?, ?)"
_COUNT: Final = """\
INSERT INTO counter (study, minute, name, count) VALUES (?, ?, ?, ?)
ON CONFLICT (study, minute, name) DO UPDATE SET count = count + excluded.count"""
"""What is asked for every few reports, as text: to build a statement takes longer than to run it."""

_KEY: Final = ("study", "k", "role", "grp")
_UPDATE: Final = (
    t.cell.update()
    .where(*(t.cell.c[name] == sa.bindparam(f"{name}_") for name in _KEY))
    .values({name: sa.bindparam(name) for name in ("people", "sums", "squares", "upto")})
)


def _packed(values: NDArray[np.int64]) -> bytes:
    return values.astype("<i8").tobytes()


def _cell_of(row: Any) -> Cell:
    sums = np.frombuffer(row.sums, dtype="<i8").astype(np.int64)
    return Cell(row.people, sums, np.frombuffer(row.squares, dtype="<i8").astype(np.int64).reshape(2, -1))


def _must_be_ours(path: Path) -> None:
    """Refuse another program's database before anything of it is changed."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    except sqlite3.Error:
        raise StoreError(f"{str(path)!r} is no database of a collector, or can't be read.") from None
    if names and not names >= set(t.METADATA.tables):
        raise StoreError(f"{str(path)!r} has tables of another program; name a new file by --db sqlite:///FILE.")


def _prepare(connection: Any, record: Any) -> None:
    for line in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={BUSY}", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {line}")


def _begin(connection: sa.Connection) -> None:
    """Take SQLite's lock when a transaction that writes begins: what it reads nobody changes meanwhile."""
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
