"""What the ledger knows people by: one object is one account. No value of a row is looked at.

A column counts by the memory that holds it, of whatever library it is a view; a table also as the object it is, a file
by device and inode, a query by its text and connection, or by the files and tables that it reads. Names that outlive
what they name count too much rather than too little: the inode of a deleted file may be another's later. Objects are
watched, so that nothing is ever taken for one that is gone; memory whose end nobody tells, as Arrow's, is kept.
"""

from __future__ import annotations

import hashlib
import math
import re
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from mmap import mmap
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from privreg.files.optional import comes_from
from privreg.privacy.budget import compose


class Account(NamedTuple):
    """One of the accounts that a release from some rows goes to."""

    key: Hashable
    # What the key is good for the life of, or a weak reference to it; None for a key that is good for ever
    owner: Any = None
    # Which part of the owner, along `axis`; None for all of it. Parts without a common row don't add up.
    rows: range | None = None
    axis: int = 0
    main: bool = True  # Whether it stands for the rows; or goes along with one that does
    # What holds memory that others may share without a word, kept once somebody's report of it had secret noise
    kept: Any = None

    def meets(self, other: Account) -> bool:
        """Whether two accounts of one key may have a row in common."""
        a, b = self.rows, other.rows
        if (a is not None and not a) or (b is not None and not b):
            return False
        if a is None or b is None or a == b or self.axis != other.axis:
            return True
        if max(min(a[0], a[-1]), min(b[0], b[-1])) > min(max(a[0], a[-1]), max(b[0], b[-1])):
            return False
        return (a.start - b.start) % math.gcd(a.step, b.step) == 0

    def heaviest(self, spent: Iterable[tuple[float, Account]]) -> list[float]:
        """Costs that were spent on the row of this account for which they are most; never less, and seldom more."""
        alike: dict[tuple[range | None, int], tuple[Account, list[float]]] = {}  # releases of the same rows, as a rule
        for mu, other in spent:
            alike.setdefault((other.rows, other.axis), (other, []))[1].append(mu)
        met = [(other, costs) for other, costs in alike.values() if self.meets(other)]
        out = [mu for other, costs in met if other.rows is None for mu in costs]
        for axis in {other.axis for other, _ in met if other.rows is not None}:
            parts = [(costs, other.rows) for other, costs in met if other.rows is not None and other.axis == axis]
            out += _deepest(parts, self.rows if self.axis == axis else None)
        return out

    def held(self) -> Account | None:
        """The same with its owner in hand; None if it is gone."""
        if not isinstance(self.owner, weakref.ref):
            return self
        owner = self.owner()
        return None if owner is None else self._replace(owner=owner)


def _deepest(parts: list[tuple[list[float], range]], asked: range | None) -> list[float]:
    """Costs of those parts that a row asked for is in, of the row for which they are most.

    Several steps are taken for their common divisor, which makes parts larger, never smaller.
    """
    everything = [rows for _, rows in parts] + ([] if asked is None else [asked])
    step = math.gcd(*(rows.step for rows in everything if _sparse(rows)))
    spans = [(costs, min(rows[0], rows[-1]), max(rows[0], rows[-1]), _sparse(rows)) for costs, rows in parts]
    phases = {asked.start % step} if asked and _sparse(asked) else {low % step for _, low, _, sparse in spans if sparse}
    begin = min(asked[0], asked[-1]) if asked else 0
    best: list[float] = []
    for phase in phases or {0}:
        here = [(costs, low, high) for costs, low, high, sparse in spans if not sparse or low % step == phase]
        for row in {max(low, begin) for _, low, _ in here}:
            best = max(best, [mu for costs, low, high in here if low <= row <= high for mu in costs], key=compose)
    return best


def _sparse(rows: range) -> bool:
    """Whether a part leaves rows out."""
    return len(rows) > 1 and abs(rows.step) > 1


@dataclass(frozen=True)
class Accounts:
    """All accounts of some rows."""

    entries: tuple[Account, ...] = ()
    whole: bool = False  # Whether everybody is in one of them
    # Files whose accounts are looked up anew each time: another may have taken a file's place since
    paths: tuple[Path, ...] = ()
    lost: bool = False  # Whether they may be rows of somebody's that no account tells of

    def now(self) -> list[Account]:
        """Those whose owners are alive, which they are as long as the list is kept."""
        files = [account for path in self.paths for account in _file(path)]
        added = [account for account in files if account not in self.entries]
        return [account for entry in (*self.entries, *added) if (account := entry.held()) is not None]

    def weak(self) -> Accounts:
        """The same, which keep nothing alive."""
        return replace(self, entries=tuple(map(_weakly, self.now())))


UNKNOWN: Final = Accounts(lost=True)  # Of rows that come as they are asked for


def accounts_of(data: Any) -> Accounts:
    """Accounts of whatever rows come in; none for a stream.

    A text, or a tuple of texts and numbers, is a name that the caller has given; a tuple of names is several.
    """
    if isinstance(data, Accounts):
        return data
    given = getattr(type(data), "_privreg_accounts", None)
    if given is not None:
        return cast("Accounts", given(data))
    if isinstance(data, Iterator):
        return UNKNOWN
    if isinstance(data, str) or (isinstance(data, tuple) and _plain(data)):
        several = isinstance(data, tuple) and data and all(isinstance(one, tuple) for one in data)
        return _whole([[Account(("name", name)) for name in (dict.fromkeys(data) if several else (data,))]])
    if isinstance(data, list):
        return of_parts(data)
    if isinstance(data, tuple):
        return of_columns(data)
    if isinstance(data, Mapping):
        return of_mapping(data, ())
    reading = next((read for package, name, read in _QUERIES if comes_from(data, package, name)), None)
    if reading is not None:
        try:
            return reading(data)
        except Exception:  # whatever kind of query it is
            return Accounts(tuple(_watched(data)), lost=True)
    found = _whole(_of_object(data))
    rows = any(hasattr(data, name) for name in _FORMS) and getattr(data, "size", 1) != 0
    lost = rows and found.entries == tuple(_watched(data))
    return replace(found, whole=found.whole and not lost, lost=lost)


_FORMS: Final = ("__arrow_c_stream__", "__array__", "__array_interface__", "__dlpack__", "__dataframe__")
"""By which other libraries' objects hand out rows without a word of where they are."""


def of_columns(columns: Iterable[Any]) -> Accounts:
    """Accounts of columns about the same people, one of which is enough to tell them by."""
    each = [accounts_of(column) for column in columns if _holds_rows(column)]
    found = _whole(accounts.now() for accounts in each)
    lost = any(accounts.lost for accounts in each) and not any(accounts.whole for accounts in each)
    return replace(found, whole=found.whole and not lost, lost=lost)


def of_mapping(data: Mapping[str, Any], read: Iterable[Any]) -> Accounts:
    """Accounts of a mapping of columns: of each of them, and of itself where it can be watched.

    Columns that are not among those `read` are not kept alive, and not asked for unless the mapping is a dict.
    """
    out = [list(_watched(data))]
    for column in filter(_holds_rows, dict.values(data) if isinstance(data, dict) else ()):
        out += [[_weakly(account) for account in group] for group in _of_object(column)]
    columns = of_columns(read)
    found = _whole([columns.entries, *out])
    return replace(found, whole=found.whole and not columns.lost, lost=columns.lost)


def of_parts(parts: Iterable[Any]) -> Accounts:
    """Accounts of tables that hold different people, in whatever order."""
    each = [accounts_of(part) for part in parts if isinstance(part, Mapping) or _holds_rows(part)]
    plain = isinstance(parts, list | tuple) and len(each) < len(parts)
    entries = tuple(account for accounts in each for account in accounts.now())
    lost, paths = any(accounts.lost for accounts in each), tuple(path for a in each for path in a.paths)
    return Accounts(entries, bool(each) and not plain and all(accounts.whole for accounts in each), paths, lost)


def of_files(paths: Iterable[Path]) -> Accounts:
    """Accounts of files, each by device and inode, or by its place where the file system has no inodes."""
    held = tuple(paths)
    return Accounts(tuple(account for path in held for account in _file(path)), whole=True, paths=held)


def of_query(text: str, parameters: Any, place: Any, owner: Any = None) -> Accounts:
    """Accounts of a query at some place, which is `owner`'s for its life or, without one, for ever.

    Of the text, whose white space doesn't count, of parameters and addresses only a digest is kept.
    """
    named = "\0".join((" ".join(text.split()), repr(parameters), repr(place)))
    return Accounts((Account(("query", hashlib.sha256(named.encode()).hexdigest()), owner),), whole=True)


def of_relation(relation: Any, text: str, parameters: Any, connection: Any) -> Accounts:
    """Accounts of a query of DuckDB's, which may be whose rows it will, if it reads others than its own tables."""
    found = of_query(text, parameters, id(connection), connection)
    read = set(re.findall(r"[A-Z_]+_SCAN|READ_[A-Z_]+", relation.explain()))
    return replace(found, whole=read <= _OF_TABLES, lost=not read <= _OF_TABLES)


_OF_TABLES: Final = {f"{kind}_SCAN" for kind in ("SEQ", "TABLE", "INDEX", "COLUMN_DATA", "CTE", "DELIM", "DUMMY")}
"""Names, in DuckDB's plans, of what reads its own tables; files and other libraries' tables are read by others."""


# --- of one thing ----------------------------------------------------------------------------------------


def _whole(groups: Iterable[Iterable[Account]]) -> Accounts:
    """All accounts of columns about the same people; who comes twice in a column is in them twice."""
    found: dict[Hashable, list[Account]] = {}
    for group in groups:
        here = defaultdict(list)
        for entry in group:
            here[entry.key, entry.axis, entry.rows].append(entry)
        found |= {name: same for name, same in here.items() if len(same) > len(found.get(name, ()))}
    return Accounts(tuple(entry for same in found.values() for entry in same), whole=bool(found))


def _plain(data: tuple[Any, ...]) -> bool:
    """Whether a tuple is made of texts and numbers only."""
    return all(
        one is None or isinstance(one, str | bytes | int | float) or (isinstance(one, tuple) and _plain(one))
        for one in data
    )


def _holds_rows(value: Any) -> bool:
    """Whether a value is an object that holds rows: no number or text, no list of them, and no class."""
    if isinstance(value, type | str | bytes | int | float | list | tuple | None):
        return False
    kinds = ("__len__", "__next__", *_FORMS)
    return any(hasattr(value, name) for name in kinds) or any(comes_from(value, *names) for *names, _ in _QUERIES)


def _weakly(account: Account) -> Account:
    """The same, which keeps nothing alive."""
    alone = account.owner is None or isinstance(account.owner, np.generic)  # a scalar holds no rows
    return account if alone else account._replace(owner=weakref.ref(account.owner), kept=None)


def _of_object(data: Any) -> Iterator[list[Account]]:
    """Accounts of a thing and of each of its columns."""
    if not isinstance(data, np.ndarray):
        yield list(_watched(data))
    columns = [list(_leaves(column)) for column in _columns(data)]
    times = Counter(id(_root(values)) for leaves in columns for values in leaves if isinstance(values, np.ndarray))
    table = comes_from(data, "pandas", "DataFrame")
    for leaves in columns:
        out: list[Account] = []
        for values in leaves:
            if isinstance(values, np.ndarray):
                alone = table and times[id(_root(values))] == 1
                out += (a._replace(main=a.main and values is data) for a in _memory(values, alone=alone))
            elif (place := _buffer(values)) is not None:
                out += _spans(*place, 1, data, values)
        yield out


def _watched(data: Any) -> Iterator[Account]:
    """The account of an object that can be watched."""
    if data is None:
        return
    try:
        weakref.ref(data)
    except TypeError:
        return
    yield Account(("object", id(data)), data)


def _columns(data: Any) -> Iterable[Any]:
    """Columns of a table; of anything else itself."""
    if comes_from(data, "pandas", "DataFrame"):
        return (column for _, column in data.items())
    if comes_from(data, "polars", "DataFrame"):
        return list(data.get_columns())
    return list(data.columns) if comes_from(data, "pyarrow", "Table", "RecordBatch") else [data]


def _leaves(data: Any) -> Iterator[Any]:
    """Arrays of NumPy and Arrow that hold a column, without a copy; of one that is kept in another way none.

    None of them is asked for a value.
    """
    parts: Iterable[Any] = ()
    if isinstance(data, np.ndarray) or comes_from(data, "pyarrow", "Array"):
        yield data
    elif comes_from(data, "pyarrow", "ChunkedArray"):
        parts = data.chunks
    elif comes_from(data, "polars", "Series"):
        held = data.to_physical() if str(data.dtype).startswith("Categorical") else data
        yield from () if str(data.dtype) == "Object" else _of_polars(held)
    elif comes_from(data, "pandas", "Series", "Index"):
        parts = [data.to_numpy() if isinstance(data.dtype, np.dtype) else data.array]
    elif comes_from(data, "pandas", "ExtensionArray"):
        parts = [held for name in _HELD_AS if (held := getattr(data, name, None)) is not None][:1]
    elif _exported(data) is not None:
        yield data
    for part in parts:
        yield from _leaves(part)


def _exported(data: Any) -> np.ndarray | None:
    """The memory of an object that is neither NumPy's nor Arrow's, but lets others look into it, as a memoryview."""
    try:
        return np.asarray(memoryview(data))
    except Exception:  # of an object that doesn't
        return None


_HELD_AS: Final = ("_pa_array", "_ndarray", "_data", "_sparse_values")
"""Where pandas' columns keep values that are Arrow's, NumPy's, with a mask, or mostly alike."""


def _of_polars(series: Any) -> Iterator[Any]:
    level = import_module("polars").CompatLevel.newest()  # texts of others would be copied
    for chunk in series.get_chunks():
        try:
            yield chunk.to_arrow(compat_level=level)
        except Exception:  # of a kind that no model reads
            return


def _buffer(array: Any) -> tuple[int, int] | None:
    """Where rows of an Arrow array or a memoryview begin and end in memory, in bits; of texts that of each."""
    if (seen := _exported(array)) is not None:
        first, (low, high) = seen.__array_interface__["data"][0], _moves(seen)
        return (8 * (first + low), 8 * (first + high + seen.itemsize)) if seen.size else None
    array = getattr(array, "storage", array)
    array = getattr(array, "indices", array)
    kind, buffers = array.type, array.buffers()
    if kind.num_fields or len(buffers) < 2 or buffers[1] is None:
        return None
    bits = _BITS.get(str(kind)) or kind.bit_width
    first = 8 * int(buffers[1].address) + bits * array.offset
    return first, first + bits * len(array)


_BITS: Final = {
    f"{size}{kind}{view}": bits
    for size, view, bits in (("", "", 32), ("large_", "", 64), ("", "_view", 128))
    for kind in ("binary", "string")
}
"""Bits that tell where a text is, by type."""


# --- what queries read -----------------------------------------------------------------------------------


def _of_lazy(data: Any) -> Accounts:
    plan = data._ldf.visit()
    todo, files, found = [plan.get_node()], list[Path](), list[Account]()
    while todo:
        plan.set_node(todo.pop())
        node, inputs = plan.view_current_node(), plan.get_inputs()
        todo += inputs
        if hasattr(node, "paths"):
            files += [Path(path).resolve(strict=True) for path in node.paths]
        elif not inputs:
            held = accounts_of(import_module("polars").DataFrame._from_pydf(node.df)).entries
            found += [account._replace(owner=data) for account in held if not account.main]
    read = of_files(files)
    return replace(read, entries=(*read.entries, *found))


def _of_dataset(data: Any) -> Accounts:
    names = getattr(data, "files", None) or [part.path for part in data.get_fragments()]
    return of_files([Path(name).resolve(strict=True) for name in names])


_QUERIES: Final[tuple[tuple[str, str, Callable[[Any], Accounts]], ...]] = (
    ("polars", "LazyFrame", _of_lazy),
    ("pyarrow", "Dataset", _of_dataset),
    ("duckdb", "DuckDBPyRelation", lambda data: of_relation(data, data.sql_query(), None, data._con)),
)


def _file(path: Path) -> Iterator[Account]:
    try:
        stat = path.stat()
        yield Account(("file", stat.st_dev, stat.st_ino) if stat.st_ino else ("file", str(path.resolve())))
    except OSError:
        return  # gone; reading it says so


# --- arrays ----------------------------------------------------------------------------------------------


def _root(values: np.ndarray) -> np.ndarray:
    """The array that an array is, in the end, a view of."""
    while isinstance(base := values.base.obj if isinstance(values.base, memoryview) else values.base, np.ndarray):
        values = base
    return values


def _memory(values: np.ndarray, *, alone: bool = False) -> Iterator[Account]:
    root = _root(values)
    axis, rows = _rows(values, root, alone=alone)
    base: Any = root.base  # another library's memory doesn't end with this view of it
    kept = None if base is None or isinstance(base, bytes | bytearray | memoryview | mmap) else root
    yield Account(("array", id(root)), root, rows, axis, kept=kept)
    if not values.size:
        return
    if isinstance(root, np.memmap) and root.filename is not None:
        low, high = (values.__array_interface__["data"][0] + move for move in _moves(values))
        begin = root.__array_interface__["data"][0] - root.offset
        part = range(low - begin, high - begin + values.itemsize)
        yield from (account._replace(rows=part, main=False) for account in _file(Path(root.filename)))
    # row by row where rows are one after another, else column by column
    whole = values.ndim != 2 or values.strides[0] == values.shape[1] * values.itemsize
    places = set()
    for column in [values] if whole else values.T:
        first = column.__array_interface__["data"][0]
        low, high = (8 * (first + move) for move in _moves(column))
        each = abs(column.strides[0]) if column.ndim == 1 else 1
        places.add((low, high + 8 * column.itemsize, 8 * each if each > column.itemsize else 1))
    for place in places:
        yield from _spans(*place, root, kept)


def _moves(values: np.ndarray) -> tuple[int, int]:
    """Bytes from the first number of an array to the one that is first in memory, and to the last."""
    moves = [s * (m - 1) for s, m in zip(values.strides, values.shape, strict=True)]
    return sum(min(move, 0) for move in moves), sum(max(move, 0) for move in moves)


def _spans(begin: int, end: int, step: int, owner: Any, kept: Any) -> Iterator[Account]:
    """Accounts of a piece of memory, in bits, of which every `step` begins a row; by the blocks that it is in."""
    rows = range(begin, end, step)
    for block in range(begin // BLOCK, (end - 1) // BLOCK + 1):
        yield Account(("memory", block), owner, rows, main=False, kept=kept)


BLOCK: Final = 1 << 26  # Bits of memory whose accounts are looked through together: 8 MB


def _rows(values: np.ndarray, root: np.ndarray, *, alone: bool) -> tuple[int, range | None]:
    """Along which axis of its root the first axis of a view runs, and over which part; all of it where that isn't sure.

    `alone` says that steps along a root of one axis leave rows out; otherwise they may be those from row to row of a
    matrix, whose other columns are between.
    """
    if not values.ndim or not root.ndim:
        return 0, None
    if not values.size:
        return 0, range(0)
    n, step = values.shape[0], values.strides[0]
    offset = values.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    axes = sorted((k for k in range(root.ndim) if root.shape[k] > 1), key=lambda k: -root.strides[k])
    if not axes or offset < 0 or root.strides[axes[-1]] <= 0:
        return 0, None
    if root.ndim == 1 and not (values.ndim == 1 and (alone or abs(step) == root.strides[0])):
        low, high = (offset + move for move in _moves(values))
        return 0, range(low // root.strides[0], high // root.strides[0] + 1)
    at = {}
    for k in axes:
        at[k], offset = divmod(offset, root.strides[k])
    axis = axes[0] if n == 1 else next((k for k in axes if step and step % root.strides[k] == 0), None)
    if axis is None:
        return 0, None
    each = 1 if n == 1 else step // root.strides[axis]
    rows = range(at[axis], at[axis] + each * n, each)
    return (axis, rows) if 0 <= min(rows[0], rows[-1]) <= max(rows[0], rows[-1]) < root.shape[axis] else (0, None)
