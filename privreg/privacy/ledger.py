"""The ledger of releases, and identification of data sets: by memory, by file, as objects, or by `dataset=`.

The unit of account is μ of Gaussian differential privacy *per person*, neighbours differing in one record
(replace-one).

No value of a row is read, so a copy can't be recognised. All rows of a buffer are the same people, whichever library
shows which of them; a file is identified by device and inode; the source of a query's rows is not known. Objects are
watched, so that no new one is taken for one that is gone; memory whose end is not reported, as Arrow's or that of
bytes, is kept.
"""

from __future__ import annotations

import hashlib
import math
import threading
import unicodedata
import weakref
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from mmap import mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.optional import comes_from
from privreg.errors import BudgetError, NotPrivateError, OptionError, real, shown
from privreg.privacy.budget import (
    REPORTED_DELTA,
    UNSET,
    Budget,
    at_least,
    at_most,
    compose,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    within,
)


class Account(NamedTuple):
    """An account in the ledger that a release from some rows is charged to."""

    key: tuple[Any, ...]
    # Object for whose life the key is valid, or a weak reference to it; None for a key that is valid for ever
    owner: Any = None
    span: tuple[int, int] = (0, 1)  # Begin and end of the buffer, in bits
    part: tuple[int, int] = (0, 1)  # Begin and end of these rows in it
    times: int = 1  # Largest number of times that a person is in these rows
    kept: Any = None  # Memory that others may share unseen, kept once a report from it had secret noise

    @property
    def shared(self) -> bool:
        """True if different people of one release may have it, as slices of an array."""
        return self.key[0] in {"memory", "dataset"}

    def meets(self, other: Account) -> bool:
        """True if two accounts are of the same people, as far as the ledger can know."""
        return self.key == other.key and self.span[0] < other.span[1] and other.span[0] < self.span[1]


@dataclass(frozen=True)
class Accounts:
    """All accounts of some rows."""

    entries: tuple[Account, ...] = ()
    whole: bool = False  # True if everybody is in one of them
    paths: tuple[Path, ...] = ()  # Files, looked up anew each time: another may have taken a file's place since
    lost: bool = False  # True if there may be rows that no account identifies

    def now(self) -> list[Account]:
        """Accounts whose owners are alive, and stay so as long as the list is kept."""
        known = [*self.entries, *(one for one in _of_paths(self.paths) if one not in self.entries)]
        held = [(one, one.owner() if isinstance(one.owner, weakref.ref) else one.owner) for one in known]
        return [one._replace(owner=owner) for one, owner in held if owner is not None or one.owner is None]

    def weak(self) -> Accounts:
        """Accounts with weak references, which keep nothing alive; none of single values, which hold no rows."""
        held = (one for one in self.now() if not isinstance(one.owner, np.generic))
        weakly = [one._replace(owner=None if one.owner is None else weakref.ref(one.owner), kept=None) for one in held]
        return replace(self, entries=tuple(weakly))


UNKNOWN: Final = Accounts(lost=True)  # Accounts of rows that come on demand, from an unknown source


def named(data: Any, dataset: str | Iterable[str] | None) -> Any:
    """Accounts of rows of people whom the analyst has named, as "survey 2026", or who are of several such names.
    Raises OptionError for what is no name; `data` without one are as they came.
    """
    if dataset is None:
        return data
    names = [dataset] if isinstance(dataset, str) else dataset if isinstance(dataset, list | tuple) else []
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise OptionError("dataset= must be a name of these people, such as 'survey 2026', or a list of names.")
    alike = dict.fromkeys(" ".join(unicodedata.normalize("NFC", name).split()) for name in names)
    found, more = accounts_of(data), [Account(("dataset", name)) for name in alike]
    return replace(found, entries=(*found.entries, *more), whole=True)


_FORMS: Final = ("__arrow_c_stream__", "__array__", "__array_interface__", "__dlpack__", "__dataframe__")
"""Protocols by which other libraries' objects give rows without their place in memory."""

_QUERIES: Final = {"polars": "LazyFrame", "pyarrow": "Dataset", "duckdb": "DuckDBPyRelation", "privreg": "Sql"}
"""Objects that know how to find rows, which may be whose they will."""


def accounts_of(data: Any) -> Accounts:
    """Accounts of whatever rows come in; none for a stream. A text is a name that the caller has given."""
    if isinstance(data, Accounts):
        return data
    if isinstance(data, Iterator):
        return UNKNOWN
    if isinstance(data, str):
        return Accounts((Account(("name", data)),), whole=True)
    if isinstance(data, list):
        return _of_parts(data)
    if isinstance(data, tuple):
        return of_columns(data)
    if isinstance(data, Mapping):
        return of_mapping(data, ())
    watched = list(_watched(data))
    if _is_query(data):
        return Accounts(tuple(watched), lost=True)
    columns = (_together([list(_memory(values, data)) for values in _leaves(column)]) for column in _columns(data))
    found = _about([watched, *columns])
    rows = any(hasattr(data, name) for name in _FORMS) and getattr(data, "size", 1) != 0
    return _about([found.entries], rows and len(found.entries) == len(watched))


def of_columns(columns: Iterable[Any]) -> Accounts:
    """Accounts of columns about the same people, one of which is enough to identify them."""
    each = [accounts_of(column) for column in columns if _holds_rows(column)]
    lost = any(accounts.lost for accounts in each) and not any(accounts.whole for accounts in each)
    return _about((accounts.now() for accounts in each), lost)


def of_mapping(data: Mapping[str, Any], read: Iterable[Any]) -> Accounts:
    """Accounts of a mapping of columns: of each of them, and of itself where it can be watched.

    Columns that are not among those `read` are not kept alive, and not asked for unless the mapping is a dict.
    """
    columns, others = of_columns(read), of_columns(dict.values(data) if isinstance(data, dict) else ())
    return _about([columns.entries, _watched(data), others.weak().entries], columns.lost)


def of_files(paths: Iterable[Path]) -> Accounts:
    """Accounts of files, each by device and inode, or by its place where the file system has no inodes."""
    held = tuple(paths)
    return Accounts(tuple(_of_paths(held)), whole=True, paths=held)


def _of_parts(parts: Sequence[Any]) -> Accounts:
    """Accounts of tables that hold different people, in whatever order."""
    each = [accounts_of(part) for part in parts if isinstance(part, Mapping) or _holds_rows(part)]
    whole = bool(each) and len(each) == len(parts) and all(accounts.whole for accounts in each)
    lost, paths = any(accounts.lost for accounts in each), tuple(path for a in each for path in a.paths)
    return Accounts(tuple(_together([accounts.now() for accounts in each])), whole, paths, lost)


def _about(groups: Iterable[Iterable[Account]], lost: bool = False) -> Accounts:
    """All accounts of columns about the same people; of one buffer that with the most of somebody's rows."""
    each = sorted(chain.from_iterable(groups), key=lambda one: one.times)
    entries = tuple({(one.key, one.span, one.part): one for one in each}.values())
    return Accounts(entries, bool(entries) and not lost, lost=lost)


def _together(groups: Sequence[Sequence[Account]]) -> list[Account]:
    """Accounts of rows below each other: who is in several of them is in them several times."""
    ends: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for one in chain.from_iterable(groups) if len(groups) > 1 else ():
        for known, end in zip(ends[one.key], one.part, strict=True):
            insort(known, end)
    out = []
    for one in chain.from_iterable(groups):
        begins, closed = ends[one.key]
        met = bisect_left(begins, one.part[1]) - bisect_right(closed, one.part[0])
        out.append(one._replace(times=max(met, one.times)))
    return out


def _is_query(data: Any) -> bool:
    return any(comes_from(data, *names) for names in _QUERIES.items())


def _holds_rows(value: Any) -> bool:
    """True if a value is an object that holds rows: no number or text, no list of them, and no class."""
    if isinstance(value, type | str | bytes | int | float | list | tuple | None):
        return False
    return any(hasattr(value, name) for name in ("__len__", "__next__", *_FORMS)) or _is_query(value)


def _watched(data: Any) -> Iterator[Account]:
    """The account of an object that can be watched."""
    try:
        if data is not None and weakref.ref(data):
            yield Account(("object", id(data)), data)
    except TypeError:
        return


def _of_paths(paths: Iterable[Path]) -> Iterator[Account]:
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            continue  # gone; reading it says so
        yield Account(("file", stat.st_dev, stat.st_ino) if stat.st_ino else ("file", str(path.resolve())))


# --- memory ---------------------------------------------------------------------------------------------------

BLOCK: Final = 1 << 26  # Bits of memory whose accounts are looked through together: 8 MB


def _columns(data: Any) -> Iterable[Any]:
    """Columns of a table; of anything else itself."""
    if comes_from(data, "pandas", "DataFrame"):
        return (column for _, column in data.items())
    if comes_from(data, "polars", "DataFrame"):
        return list(data.get_columns())
    return list(data.columns) if comes_from(data, "pyarrow", "Table", "RecordBatch") else [data]


def _leaves(data: Any) -> Iterator[Any]:
    """Arrays of NumPy and Arrow that hold a column, without a copy or a look at values; none of other kinds."""
    parts: Iterable[Any] = ()
    if isinstance(data, np.ndarray) or comes_from(data, "pyarrow", "Array") or _exported(data) is not None:
        yield data
    elif comes_from(data, "pyarrow", "ChunkedArray"):
        parts = data.chunks
    elif comes_from(data, "polars", "Series"):
        parts = _of_polars(data)
    elif comes_from(data, "pandas", "Series", "Index"):
        parts = [data.to_numpy() if isinstance(data.dtype, np.dtype) else data.array]
    elif comes_from(data, "pandas", "ExtensionArray"):
        names = ("_pa_array", "_ndarray", "_data", "_sparse_values")  # Arrow's, NumPy's, with a mask, mostly alike
        parts = [held for name in names if (held := getattr(data, name, None)) is not None][:1]
    for part in parts:
        yield from _leaves(part)


def _of_polars(series: Any) -> Iterator[Any]:
    held = series.to_physical() if str(series.dtype).startswith("Categorical") else series
    for chunk in held.get_chunks() if str(series.dtype) != "Object" else ():
        try:  # texts of another level would be copied
            yield chunk.to_arrow(compat_level=import_module("polars").CompatLevel.newest())
        except Exception:  # of a kind that no model reads
            return


def _exported(data: Any) -> np.ndarray | None:
    """The memory of an object that is neither NumPy's nor Arrow's, but lets others look into it, as a memoryview."""
    try:
        return np.asarray(memoryview(data))
    except Exception:  # of an object that doesn't
        return None


def _memory(values: Any, owner: Any) -> Iterator[Account]:
    """Accounts of the buffer that a column is a view of, one for each block of memory that it lies in."""
    kept, root = values, values if isinstance(values, np.ndarray) else _exported(values)
    if root is None:
        span, part = _of_arrow(values)
    else:
        part = _bits(root)
        while isinstance(last := _below(root), np.ndarray):
            owner = root = last
        owner, span = values if root is values else owner, _bits(root)
        owner = last if (tells := isinstance(last, mmap | array)) else owner
        kept = None if last is None or tells else root  # another's memory doesn't end with this view of it
        held = () if last is None or (whole := _exported(last)) is None else (_bits(whole),)
        arrow = _leaves(last) if comes_from(last, "pyarrow", "Array", "ChunkedArray") else ()
        spans = (*held, *(one for one, _ in map(_of_arrow, arrow)))
        span = next((one for one in spans if one[0] <= span[0] < one[1]), span)
        if isinstance(root, np.memmap) and root.filename is not None:
            yield from _of_paths([Path(root.filename)])
    for block in range(span[0] // BLOCK, -(-span[1] // BLOCK)):
        yield Account(("memory", block), owner, span, part, kept=kept)


def _below(view: np.ndarray) -> Any:
    """Object in whose memory an array is, also through a memoryview or a strided view's holder; None: in its own."""
    below = view.base.obj if isinstance(view.base, memoryview) else view.base
    return below if below is None or isinstance(below, np.ndarray) else getattr(below, "base", below)


def _bits(array: np.ndarray) -> tuple[int, int]:
    """Begin and end of an array in memory, in bits."""
    first = array.__array_interface__["data"][0]
    moves = [step * (size - 1) for size, step in zip(array.shape, array.strides, strict=True)]
    low, high = (sum(f(move, 0) for move in moves) for f in (min, max))
    return (8 * (first + low), 8 * (first + high + array.itemsize)) if array.size else (0, 0)


def _of_arrow(array: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Begin and end of the buffer of an Arrow array, and of its rows there, in bits; of texts those of their places."""
    array = getattr(array, "storage", array)
    array = getattr(array, "indices", array)
    kind, buffers = array.type, array.buffers()
    if kind.num_fields or len(buffers) < 2 or buffers[1] is None:
        return (0, 0), (0, 0)
    name = str(kind).removeprefix("large_")
    texts = 128 if name.endswith("_view") else 64 if name != str(kind) else 32
    bits = texts if name.startswith(("binary", "string")) else kind.bit_width
    whole, first = buffers[1], 8 * int(buffers[1].address) + bits * array.offset
    while whole.parent is not None:  # as of columns of a file in memory
        whole = whole.parent
    low = 8 * int(whole.address)
    return (low, low + 8 * int(whole.size)), (first, first + bits * len(array))


__all__ = [
    "LEDGER", "REPORTED_DELTA", "UNSET", "Budget", "Charge", "Ledger", "Release", "at_least", "at_most", "compose",
    "gdp_delta", "gdp_epsilon", "gdp_mu", "limit_spending", "refuse_fitted", "refuse_shared", "within",
]  # fmt: skip


@dataclass(frozen=True)
class Release:
    """One release as the ledger saw it."""

    number: int  # 1 of the first release from these data in this process; 0 if nothing can tell whose data they are
    total_mu: float  # GDP parameter of all of them together, per person
    dataset: str = ""  # The names that the people were given; without one a copy of their data is not known for theirs

    def words(self, whose: str = "these data") -> str:
        """Number of this release from the data named by `whose`, and the total μ of all of them, in words."""
        if self.number == 0:
            return "not counted: streams, queries and plain lists have no source to count by; dataset= names the people"
        whose = self.dataset or whose
        more = "" if self.dataset else "; of a copy nobody can know: dataset= names its people"
        if self.number == 1:
            return f"release 1 from {whose} in this process{more}"
        total = f"{within(self.total_mu, 4)}-GDP in all" if self.total_mu < math.inf else "not private in all"
        return f"release {self.number} from {whose} in this process: {total}{more}"

    def __str__(self) -> str:
        return self.words()


@dataclass
class _Entry:
    """Entry of a release in an account: its cost in μ."""

    number: int  # Number of the release in its ledger
    mu: float
    account: Account  # without its owner
    release: str  # Name of a release that may go on; empty for others
    owner: int  # Number of the object that the entry goes with; 0 if it stays
    seeded: bool


class Ledger:
    """Releases from each data source in this process.

    The same people are those of the same object, the same buffer, the same file or the same ``dataset=``; of a copy
    nobody can know. All views of a buffer are the same people, whichever rows they show and whichever library shows
    them; only the batches of one stream and the silos of one fit are others. A table counts as itself and by its
    columns, a mapping by its columns, a list by its members in any order, a file by device and inode. Where a query
    will look for rows is not known, so a limit asks for a name of their people.

    Entries go when the object goes; memory of Arrow, polars and bytes (unpickled arrays, say), which don't tell when it
    goes, is kept until the process ends, if noise was secret. Entries of files and names stay. Fits enter their
    releases in the process's own ledger before the first report, and whatever becomes of the fit they stay.
    :func:`limit_spending` gives it a limit; a ledger made here keeps the accounts you enter yourself.

    Parameters
    ----------
    limit : float, optional
        Largest μ per person, of all releases from one source together; a release that would exceed it is refused
        before it is made. None for no limit.

    Raises
    ------
    BudgetError
        If `limit` is not a positive number.

    Examples
    --------
    >>> ledger = Ledger(limit=1.5)
    >>> ledger.spend("people.csv", 1.0).total_mu
    1.0
    >>> ledger.check("people.csv", 1.2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    privreg.errors.BudgetError: release 2 from these data would cost 1.563-GDP per person in all ...
    >>> ledger
    <Ledger: 1 release, limit 1.5-GDP per person>
    """

    def __init__(self, limit: float | None = None) -> None:
        self._limit = _allowed(limit)
        self._spent: dict[Hashable, list[_Entry]] = {}
        self._keys: dict[int, set[Hashable]] = {}  # Keys of the entries that go with an object
        self._gone: deque[int] = deque()  # Objects whose entries are to go; garbage may be collected at any time
        self._count = 0
        self._lock = threading.RLock()  # re-entrant: collecting garbage inside may end an entry

    @property
    def limit(self) -> float | None:
        """Largest μ per person of all releases from one source together; None for no limit."""
        return self._limit

    def spent(self, source: Any) -> float:
        """Return the μ per person of all releases from `source` so far, 0 if there were none."""
        return max(map(compose, self._costs(accounts_of(source))), default=0.0)

    def _costs(self, accounts: Accounts, *, seeded: bool = True) -> list[list[float]]:
        """Costs of the releases from each account; with `seeded` also of those whose noise follows from a seed."""
        with self._lock:
            self._tidy()
            return [self._of(account, seeded=seeded) for account in accounts.now()]

    def check(self, source: Any, mu: float) -> None:
        """Refuse a release of `mu` per person from `source` that would exceed the limit; enter nothing.

        Raises
        ------
        BudgetError
            If it would, or if there is a limit and the source can't be followed.
        """
        with self._lock:
            self._tidy()
            accounts = accounts_of(source)
            self._check(accounts, accounts.now(), mu)

    def _check(self, accounts: Accounts, known: list[Account], mu: float) -> None:
        limit = self._limit
        if limit is None:
            return
        if not accounts.whole or not known:
            raise BudgetError(
                f"this ledger allows {at_least(limit, 4)}-GDP per person, but rows that come as a stream have no "
                "source to count by, nor have plain lists, nor tables that don't tell where their rows are; give a "
                "DataFrame, arrays, an Arrow or polars table or a file, name the people by dataset=, or take the "
                "limit away."
            )
        spent, more = max(
            ((self._of(account), [mu] * account.times) for account in known),
            key=lambda costs: compose([*costs[0], *costs[1]]),
        )
        total, used = compose([*spent, *more]), compose(spent)
        if math.isinf(used):
            raise BudgetError(
                "these data have been fitted without noise (mu=None) in this process: nothing about them is private "
                "any more, and no further release can be within a limit; use other people, or take the limit away."
            )
        if total <= limit * (1 + 1e-12):  # k equal parts of √k pass, whatever their last bits
            return
        left = math.sqrt(max((limit - used) * (limit + used), 0.0))
        less = f"ask for mu={at_most(left, 4)} or less, " if left > 1e-6 * limit else ""
        raise BudgetError(
            f"release {len(spent) + 1} from these data would cost {_words(total)} per person in all "
            f"({_words(used)} is spent, {_words(mu)} was asked for), and this ledger allows {_words(limit)}; "
            f"{less}use other people, or allow more."
        )

    def spend(
        self, source: Any, mu: float, *, seeded: bool = False, release: str = "", before: str = "", stream: str = ""
    ) -> Release:
        """Enter a release of `mu` per person from `source` and return the running total.

        Its noise follows from a seed if it is `seeded`, as in simulations, whose rows are nobody's. Under the name
        `release` it is entered once, and what is entered under `before`, the name before an interruption, has the new
        name then, so that of two that go on from there with different noise the second counts anew. `stream` is a name
        of the release that `source` is a batch of: people of one array or ``dataset=`` are entered once for all.

        Raises
        ------
        BudgetError
            As :meth:`check` does, before anything is entered.
        """
        with self._lock:
            self._tidy()
            accounts = accounts_of(source)
            known = accounts.now()
            names = {release, before} - {""}
            new, again = list[Account](), list[_Entry]()
            for one in known:
                asked = {stream} if stream and one.shared else names
                found = [e for e in self._spent.get(one.key, ()) if e.release in asked and e.account.meets(one)]
                again += found
                new += [] if found else [one]
            if new or not known:
                self._check(accounts, new, mu)
            if not known:
                return Release(0, mu)
            for entry in again:
                entry.release = release or entry.release
            self._count += bool(new)
            for one in new:
                self._enter(mu, one, stream if stream and one.shared else release, seeded=seeded)
            most = max((self._of(account) for account in known), key=compose) or [mu]  # there may be no rows
            called = [repr(account.key[1]) for account in known if account.key[0] == "dataset"]
            unknown = accounts.lost and not called and len(most) == 1  # but for the object itself
            return Release(0 if unknown else len(most), compose(most), " and ".join(called))

    def _enter(self, mu: float, account: Account, release: str, *, seeded: bool) -> None:
        stays = account.owner is None or (account.kept is not None and not seeded)
        owner = 0 if stays else id(account.owner)
        if owner and owner not in self._keys:
            self._keys[owner] = set()
            weakref.finalize(account.owner, self._gone.append, owner).atexit = False
        if owner:
            self._keys[owner].add(account.key)
        held = account._replace(owner=None, kept=account.kept if stays else None)
        self._spent.setdefault(account.key, []).append(_Entry(self._count, mu, held, release, owner, seeded))

    def _tidy(self) -> None:
        """Take away the entries of objects that are gone."""
        while self._gone:
            owner = self._gone.popleft()
            for key in self._keys.pop(owner):
                self._spent[key] = [entry for entry in self._spent[key] if entry.owner != owner]
                if not self._spent[key]:
                    del self._spent[key]

    def _of(self, account: Account, *, seeded: bool = True) -> list[float]:
        """Costs μ of the releases from an account's people; a release of two columns of one buffer is one."""
        met = [e for e in self._spent.get(account.key, ()) if (seeded or not e.seeded) and e.account.meets(account)]
        once = {e.number: [e.mu] * e.account.times for e in sorted(met, key=lambda e: e.account.times)}
        return [mu for costs in once.values() for mu in costs]

    def __repr__(self) -> str:
        limit = "no limit" if self.limit is None else f"limit {_words(self.limit)} per person"
        return f"<Ledger: {self._count} release{'' if self._count == 1 else 's'}, {limit}>"


def _allowed(limit: float | None) -> float | None:
    """A limit that is one."""
    if limit is None:
        return None
    allowed = real(limit)
    if allowed is None or not 0 < allowed < math.inf:
        raise BudgetError(f"limit={shown(limit)} must be a positive number, the mu per person, or None.")
    return allowed


def _words(mu: float) -> str:
    return f"{at_least(mu, 4)}-GDP" if mu < math.inf else "no privacy"


_OTHERS: Final = (
    "give public rows, if they are others built anew, as by pd.DataFrame(rows.to_dict('list')): copies share texts"
)

LEDGER: Final = Ledger()  # Ledger of this process's fits; without a limit until `limit_spending` sets one


class Charge:
    """A release of `mu` per person, entered once for `whose` the ledger knows, when its first report is due.

    `seeded` says whether its noise follows from a seed, `stream` what it is a batch of, see `Ledger.spend`.
    """

    def __init__(self, whose: Any, mu: float, *, seeded: bool, stream: str = "") -> None:
        self.whose, self.mu, self.seeded, self.stream = whose, mu, seeded, stream
        self.release: Release | None = None
        self._name = self._before = ""

    @property
    def name(self) -> str:
        """Name of a release that may go on; empty if it never does."""
        return self._before if self._before and self.release is None else self._name

    def follow(self, before: str, noise: bytes) -> None:
        """Go on from a name, empty for a release that begins, with noise that follows from a secret."""
        self._name, self._before = hashlib.sha256(before.encode() + noise).hexdigest(), before

    def enter(self) -> Release:
        """The release as the ledger has it.
        Raises BudgetError if it would exceed the ledger's limit.
        """
        if self.release is None:
            names = {"release": self._name, "before": self._before, "stream": self.stream}
            self.release = LEDGER.spend(self.whose, self.mu, seeded=self.seeded, **names)
        return self.release


def refuse_fitted(rows: Any, what: str, *, simulated: bool = False) -> None:
    """Refuse rows that are to be public, but were fitted privately in this process; `what` would tell of them.

    Rows are as the ledger knows people by: a DataFrame, arrays, or the accounts of a file. A view of fitted rows
    counts. `simulated` lets rows pass of which every release so far had its noise from a seed.
    Raises NotPrivateError also if rows have been fitted, and nothing tells whether these are some of them.
    """
    accounts = accounts_of(rows)
    if accounts.lost and LEDGER._spent:
        raise NotPrivateError(
            f"nothing tells whose rows these are; if they were fitted in this process, {what} would tell of them "
            "without noise: give a DataFrame (of rows one by one pd.DataFrame(list(rows))), arrays, an Arrow or polars "
            "table (of a query what it finds, as by collect()) or a file of public rows."
        )
    if any(0.0 < compose(costs) < math.inf for costs in LEDGER._costs(accounts, seeded=not simulated)):
        raise NotPrivateError(
            f"these rows were fitted privately in this process, or share memory with rows that were, and {what} would "
            f"tell of them without noise; {_OTHERS}."
        )


def refuse_shared(public: Any, fitted: Any, what: str) -> None:
    """Refuse rows that are to be public, but are among those fitted; `what` is the option that public rows are for.
    Raises NotPrivateError if they have a row in common, as the ledger knows people.
    """
    people = accounts_of(fitted).now()
    if any(one.meets(other) for one in accounts_of(public).now() for other in people):
        raise NotPrivateError(
            f"{what} is for other rows, which are public, and these are among the rows to be fitted, or share memory "
            f"with them: the fit would tell of them without noise; {_OTHERS}."
        )


def limit_spending(limit: float | None) -> None:
    """Refuse, from now on in this process, every fit that would spend more than `limit` on one source of people.

    Releases made before count too, also those that failed after the first report; one that goes on from its checkpoint
    counts once. Streams, queries and plain lists are refused without a ``dataset=``, as nothing tells whose rows they
    are; a stream begun or loaded goes on with batches that can be counted. :class:`Ledger` says what one source is.

    Parameters
    ----------
    limit : float or None
        Largest μ per person, of all releases from one DataFrame or file together; None takes the limit away.

    Raises
    ------
    BudgetError
        If `limit` is not a positive number.
    """
    LEDGER._limit = _allowed(limit)
