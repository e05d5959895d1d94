"""A study in an SQL database: every report once, its cell in the same transaction, states and their snapshots.

All writes of a process go through one thread, `Writer`; a transaction that writes waits until no other one does, so
that nobody changes what it has read. How, each database says: `sqlite`, `postgres`.
"""

import secrets
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from privreg_field.collector import chain as chains
from privreg_field.collector.chain import Cell, Place
from privreg_field.service.store import tables as t
from privreg_field.service.store.records import NEW, OTHER, SAME, About, Access, Arrived, Held, RecordStore, StoreError
from privreg_field.service.store.shares import Shares, Way
from privreg_field.wire.study import LIMIT

BACKUP: Final = "backup"  # Place that the study of a backup has been moved to
BUSY: Final = 30_000  # Milliseconds to wait for another process's transaction


class Store(RecordStore):
    """An analysis of a study in an SQL database, with the study's tokens; `insert` makes its dialect's statement.

    Each method is one transaction: all of it is kept, or nothing. Whatever it can't read or write raises SQLAlchemy's
    errors. Transactions begun by `engine.begin()` write, and exclude each other; `reading()` gives one that only reads.
    """

    slug: str
    clock: Callable[[], float]
    engine: sa.Engine
    path: Path  # Files beside the database are named by it
    insert: Callable[[sa.Table], Any]
    _here: threading.local  # The transaction of each thread's `moment`

    @abstractmethod
    def _reading(self) -> sa.Connection:
        """A transaction that only reads, and sees one state of the database."""

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads, and sees one state of the database: that of the thread's `moment`, if any."""
        if (now := getattr(self._here, "now", None)) is not None:
            yield now
        else:
            with self._reading() as c:
                yield c

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Let all that this thread reads be of one moment, whatever others write meanwhile."""
        before = getattr(self._here, "now", None)
        with self.reading() as self._here.now:
            try:
                yield
            finally:
                self._here.now = before

    def sql(self, text: str) -> str:
        """Text as the driver takes it, of text with a question mark for each parameter."""
        return text

    @abstractmethod
    def alone(self, *, shared: bool = False) -> AbstractContextManager[None]:
        """Keep other servers away from this database; if `shared`, those that don't share it.
        Raises OptionError if another one serves it.
        """

    @abstractmethod
    def leave(self) -> None:
        """End, and leave the database so that it can be copied."""

    @abstractmethod
    def compact(self) -> None:
        """Leave nothing of deleted rows in the database's files."""

    def _make(self, *, old: bool) -> None:
        """Make the tables if there are none, and see whose they are.
        Raises StoreError if they are of another version, unless of an earlier one and `old`.
        """
        self._here = threading.local()
        if not old:
            with self.engine.begin() as c:
                found = t.version_of(c)
                if not found:
                    t.METADATA.create_all(c)
                    c.execute(t.meta.insert().values(name="format", value=str(found := t.FORMAT)))
            t.must_be_this(found, str(self))
        sa.event.listen(self.engine, "begin", partial(_begin, self.sql(_MOVED), self.slug, str(self)))

    def keeping(self) -> sa.Connection:
        """A transaction that may also change what has been moved, or is a backup, or has other tables."""
        return self.engine.connect().execution_options(keeping=True)

    def migrate(self, *, check: bool = False) -> tuple[int, list[str]]:
        """Bring the tables to this release's version; the version that they had, and the statements of that.

        With `check` nothing is changed.
        Raises StoreError if there are none, or of a later version.
        """
        with self.keeping() as c, c.begin():
            found = t.version_of(c)
            if not found:
                raise StoreError(f"{self} has no study; privreg serve makes its tables.")
            t.must_be_known(found, str(self))
            made = t.steps(found, c.dialect.name)
            for line in () if check else made:
                c.exec_driver_sql(line)
            if made and not check:
                c.execute(t.meta.update().where(t.meta.c.name == "format").values(value=str(t.FORMAT)))
        if made and not check:
            self.compact()
        return found, made

    @property
    def study(self) -> str:
        """The study's own name, to which tokens belong."""
        return self.slug.partition("/")[0]

    def beside(self, name: str) -> Path:
        """A file beside the database."""
        analysis = self.slug[len(self.study) + 1 :]  # of an analysis, which has keys of its own
        return self.path.with_name(".".join([self.path.name, *([analysis] if analysis else []), name]))

    # --- the study -------------------------------------------------------------------------------------

    def enter(self, plan_hash: bytes, envelope: bytes, first: Access) -> bool:
        """Enter the study, with its first token, if it isn't there; whether it was new.
        Raises StoreError if the database holds another plan.
        """
        with self.engine.begin() as c:
            rows = c.execute(sa.select(t.study.c.slug, t.study.c.plan_hash, t.study.c.plan)).all()
            row = next((r for r in rows if r.slug == self.slug), None)
            others = [r for r in rows if r != row and r.slug.partition("/")[0] == self.study]
            mixed = any(r.plan != envelope for r in others)
            if row is None and not mixed and not self.other_studies(c):
                c.execute(
                    t.study.insert().values(
                        slug=self.slug, plan_hash=plan_hash, plan=envelope, status="open", issued=0, seq=0
                    )
                )  # fmt: skip
                if not others:
                    self._grant(c, [first])
                return True
        if row is None or mixed or row.plan_hash != plan_hash:
            raise StoreError("the database holds another study, or another plan of this one; name another by --db.")
        return False

    def other_studies(self, c: sa.Connection) -> bool:
        """True if other studies are in the way."""
        return False

    def known(self) -> bool:
        """True if the database has a study."""
        with self.reading() as c:
            row = c.execute(sa.select(t.study.c.slug).where(t.study.c.slug == self.slug)).first()
            return row is not None or self.other_studies(c)

    def about(self) -> About:
        """The study. Raises StoreError if it was moved to another database, or this is a backup."""
        with self.reading() as c:
            found = About(*c.execute(sa.select(t.study).where(t.study.c.slug == self.slug)).one())
        _must_be_here(found.moved, str(self))
        return found

    @cached_property
    def shares(self) -> Shares:
        """Shares, if the study has two collectors."""
        return Shares(Way(self.engine, self.slug, self.reading, self.sql, self.insert, self.note))

    def mark(self, status: str) -> None:
        """Mark the study as closed, or sealed; what is sealed tells no order in which reports came."""
        with self.engine.begin() as c:
            c.execute(t.study.update().where(t.study.c.slug == self.slug).values(status=status))

    def erase(self) -> int:
        """Delete all reports, and keep their sums; how many there were."""
        with self.engine.begin() as c:
            count = c.execute(t.report.delete().where(t.report.c.study == self.slug)).rowcount
            c.execute(t.study.update().where(t.study.c.slug == self.slug).values(erased=int(self.clock())))
        self.compact()
        return count

    # --- tokens ----------------------------------------------------------------------------------------

    def issuers(self) -> dict[int, bytes]:
        """Secrets of the keys that are good, as they are kept."""
        with self.reading() as c:
            rows = c.execute(sa.select(t.issuer).where(t.issuer.c.study == self.study, t.issuer.c.revoked == 0)).all()
        return {r.key: r.secret for r in rows}

    def issue(self, secret: bytes, number: int | None = None) -> int:
        """Enter a new key of the issuer; its number, which is the next one unless given."""
        of = t.issuer.c.study == self.study
        with self.engine.begin() as c:
            have = set(c.execute(sa.select(t.issuer.c.key).where(of)).scalars())
            number = max(have, default=0) + 1 if number is None else number
            if number > 255 or number in have:
                raise StoreError("an issuer has at most 255 keys, each once.")
            c.execute(t.issuer.insert().values(study=self.study, key=number, secret=secret, revoked=0))
        return number

    def handed_out(self, count: int) -> None:
        """Count tokens that were handed out to people who answer the analysis."""
        with self.engine.begin() as c:
            c.execute(t.study.update().where(t.study.c.slug == self.slug).values(issued=t.study.c.issued + count))

    def revoke(self, *, keys: Sequence[int] = (), tokens: Sequence[bytes] = ()) -> None:
        """Take keys back, with all tokens that aren't used yet, or tokens."""
        with self.engine.begin() as c:
            for key in keys:
                c.execute(
                    t.issuer.update().where(t.issuer.c.study == self.study, t.issuer.c.key == key).values(revoked=1)
                )
            for token in tokens:
                c.execute(self.insert(t.revoked).values(study=self.study, token_id=token).on_conflict_do_nothing())

    def access(self) -> list[Access]:
        """Tokens of those who read results, or operate the collector, also such as have ended."""
        with self.reading() as c:
            rows = c.execute(sa.select(t.access).where(t.access.c.study == self.study)).all()
        return [Access(bytes(r.digest), r.name, tuple(r.may.split()), r.until) for r in rows]

    def grant(self, some: Sequence[Access], without: str | None = None) -> None:
        """Keep such tokens, in place of those of the name `without`."""
        with self.engine.begin() as c:
            c.execute(t.access.delete().where(t.access.c.study == self.study, t.access.c.name == without))
            self._grant(c, some)

    def _grant(self, c: sa.Connection, some: Sequence[Access]) -> None:
        for one in some:
            c.execute(t.access.insert().values(study=self.study, **one._asdict() | {"may": " ".join(one.may)}))

    def taken_back(self) -> frozenset[bytes]:
        """Ids of tokens that were taken back."""
        with self.reading() as c:
            rows = c.execute(sa.select(t.revoked.c.token_id).where(t.revoked.c.study == self.study)).scalars()
            return frozenset(rows)

    # --- states ----------------------------------------------------------------------------------------

    def states(self, first: int = 0) -> list[Held]:
        """Published states, in order."""
        where = (t.state.c.study == self.slug, t.state.c.k >= first)
        with self.reading() as c:
            rows = c.execute(sa.select(t.state).where(*where).order_by(t.state.c.k)).all()
        return [Held(r.k, r.envelope, r.payload, r.hash, r.time) for r in rows]

    def snapshots(self, first: int = 0) -> list[bytes]:
        """Snapshots of the sums when each state closed, in order."""
        where = (t.snapshot.c.study == self.slug, t.snapshot.c.k >= first)
        with self.reading() as c:
            return list(c.execute(sa.select(t.snapshot.c.cells).where(*where).order_by(t.snapshot.c.k)).scalars())

    def publish(self, held: Held, before: bytes, snapshot: bytes | None) -> bool:
        """Publish a state, with the snapshot that it follows from; False if another process has published it."""
        with self.engine.begin() as c:
            if c.execute(sa.select(t.state.c.k).where(t.state.c.study == self.slug, t.state.c.k == held.k)).first():
                return False
            c.execute(t.state.insert().values(study=self.slug, prev=before, **held._asdict()))
            if snapshot is not None:
                c.execute(t.snapshot.insert().values(study=self.slug, k=held.k - 1, cells=snapshot))
        return True

    # --- reports ---------------------------------------------------------------------------------------

    def take(self, arrived: Sequence[Arrived], counts: Mapping[str, int], *, trial: bool = False) -> list[str]:
        """Keep reports, each token's first, with their cells; what became of each. A `trial` takes as much room as one.

        That is "new"; "same", if the same bytes came before; "other", if other bytes of this token came before.
        """
        outcomes = [""] * len(arrived)
        with self.engine.begin() as c:
            first: dict[bytes, int] = {}
            for i, one in enumerate(arrived):
                first.setdefault(one.token_id, i)
            new = self._keep(c, [arrived[i] for i in first.values()])
            if new:
                self._fold(c, new)
            fresh = {one.token_id: one.body_hash for one in new}
            known = self._known(c, [token for token in first if token not in fresh])
            for i, one in enumerate(arrived):
                token = one.token_id
                if token in fresh and first[token] == i:
                    outcomes[i] = NEW
                else:
                    have = fresh[token] if token in fresh else known[token]
                    outcomes[i] = SAME if have == one.body_hash else OTHER
            self.note(c, Counter(outcomes) + Counter(counts), trial)
        return outcomes

    def _keep(self, c: sa.Connection, some: Sequence[Arrived]) -> list[Arrived]:
        """Keep those of different tokens that have sent nothing before; which they are."""
        known = self._known(c, [one.token_id for one in some])  # exact: nobody else writes until this transaction ends
        new = [one for one in some if one.token_id not in known]
        if new:
            c.exec_driver_sql(_KEEP, [(self.slug, *one) for one in new])
        return new

    def has(self, token: bytes, body_hash: bytes) -> bool:
        """True if these bytes of a token count."""
        with self.reading() as c:
            return self._known(c, [token]).get(token) == body_hash

    def _known(self, c: sa.Connection, tokens: list[bytes]) -> dict[bytes, bytes]:
        """Hashes of what these tokens have sent before."""
        if not tokens:
            return {}
        found = c.exec_driver_sql(self.sql(_KNOWN.format(", ".join("?" * len(tokens)))), (self.slug, *tokens))
        return {token: record for token, record in found}

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
            reports = np.frombuffer(b"".join(values), dtype="<i4").reshape(len(values), -1)
            cell = chains.add(have.get(place), reports, place.role)
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

    def note(self, c: sa.Connection, counts: Mapping[str, int], trial: bool) -> None:
        """Count outcomes in this minute; try whether there is room for a report."""
        if trial:
            c.execute(t.meta.insert().values(name="trial", value=secrets.token_hex(LIMIT // 2)))
            c.execute(t.meta.delete().where(t.meta.c.name == "trial"))
        rows = [(self.slug, int(self.clock()) // 60, name, count) for name, count in counts.items()]
        if rows:
            c.exec_driver_sql(self.sql(_COUNT), rows)

    def cells(self) -> dict[Place, Cell]:
        """Sums of all reports."""
        with self.reading() as c:
            return self._cells(c)

    def _cells(self, c: sa.Connection, states: Sequence[int] | None = None) -> dict[Place, Cell]:
        """Sums of the reports that answered these states, or any."""
        chosen = sa.select(t.cell).where(t.cell.c.study == self.slug)
        rows = c.execute(chosen if states is None else chosen.where(t.cell.c.k.in_(states)))
        return {Place(r.k, r.role, r.grp): Cell(r.people, _read(r.sums), _read(r.squares).reshape(2, -1)) for r in rows}

    def people(self) -> dict[int, int]:
        """Numbers of reports that count, by the state that they answered."""
        chosen = sa.select(t.cell.c.k, sa.func.sum(t.cell.c.people)).where(t.cell.c.study == self.slug)
        with self.reading() as c:
            return {int(k): int(n) for k, n in c.execute(chosen.group_by(t.cell.c.k))}

    def counts(self, first: int = 0) -> list[tuple[int, str, int]]:
        """Minutes since 1970, outcomes and their numbers, from a minute on."""
        c_ = t.counter.c
        with self.reading() as c:
            where = c_.study == self.slug, c_.minute >= first
            chosen = sa.select(c_.minute, c_.name, c_.count).where(*where).order_by(c_.minute, c_.name)
            return [(int(m), str(n), int(k)) for m, n, k in c.execute(chosen)]

    def reports(self, size: int = 4096) -> Iterable[tuple[Place, bytes]]:
        """Every report's place and values, in a fixed order."""
        with self.reading() as c:
            chosen = sa.select(t.report).where(t.report.c.study == self.slug).order_by(t.report.c.token_id)
            for row in c.execute(chosen.execution_options(yield_per=size)):
                yield Place(row.k, row.role, row.grp), row.vals


_KNOWN: Final = "SELECT token_id, body_hash FROM report WHERE study = ? AND token_id IN ({})"
_KEEP: Final = "INSERT INTO report (study, token_id, k, role, grp, body_hash, vals) VALUES (?, ?, ?, ?, ?, ?, ?)"
_MOVED: Final = "SELECT moved FROM study WHERE slug = ?"
_COUNT: Final = """\
INSERT INTO counter (study, minute, name, count) VALUES (?, ?, ?, ?)
ON CONFLICT (study, minute, name) DO UPDATE SET count = counter.count + excluded.count"""
"""Statements for every few reports, as text: to build one takes longer than to run it."""

_KEY: Final = ("study", "k", "role", "grp")
_UPDATE: Final = (
    t.cell.update()
    .where(*(t.cell.c[name] == sa.bindparam(f"{name}_") for name in _KEY))
    .values({name: sa.bindparam(name) for name in ("people", "sums", "squares", "upto")})
)


def _begin(moved: str, slug: str, name: str, c: sa.Connection) -> None:
    """Refuse to change what has been moved to another database, or is a backup; no listener keeps a store alive."""
    if not c.get_execution_options().keys() & {"reading", "keeping"}:
        _must_be_here(c.exec_driver_sql(moved, (slug,)).scalar(), name)


def _must_be_here(moved: str | None, name: str) -> None:
    if moved == BACKUP:
        raise StoreError(f"{name} is a backup; put it into another database by privreg collector restore --from FILE.")
    if moved is not None:
        raise StoreError(f"the study was moved from {name} to {moved}; name that by --db.")


def _packed(values: NDArray[np.int64]) -> bytes:
    return values.astype("<i8").tobytes()


def _read(packed: bytes) -> NDArray[np.int64]:
    return np.frombuffer(packed, dtype="<i8").astype(np.int64)
