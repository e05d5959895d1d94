"""Identification of data sets for the ledger: arrays by memory, files by inode, tables as objects, or `dataset=`.

No value of a row is read. Objects are watched, so that no new one is taken for one that is gone. See `ledger.Ledger`.
"""

import contextlib
import unicodedata
import weakref
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from mmap import mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.errors import OptionError


class Account(NamedTuple):
    """An account in the ledger that a release from some rows is charged to."""

    key: tuple[Any, ...]
    owner: Any = None  # Object for whose life the key is valid, or a weak reference to it; None: for ever
    span: tuple[int, int] = (0, 1)  # Begin and end of the buffer, in bits
    part: tuple[int, int] = (0, 1)  # Begin and end of these rows in it
    times: int = 1  # Largest number of times that a person is in these rows
    group: int = 0  # Accounts of a release that have the same number are of the same people
    kept: Any = None  # Memory that others may share unseen, kept once a report from it had secret noise
    dense: bool = True  # True if these rows have all of their part: no others lie between them

    @property
    def shared(self) -> bool:
        """True if different people of one release may have it, as slices of an array."""
        return self.key[0] in {"memory", "dataset"}

    def meets(self, other: "Account") -> bool:
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
        keys, first = {one.key for one in self.entries}, max((one.group + 1 for one in self.entries), default=0)
        came = (one._replace(group=first + one.group) for one in _of_paths(self.paths) if one.key not in keys)
        known = [*self.entries, *came]
        held = [(one, one.owner() if isinstance(one.owner, weakref.ref) else one.owner) for one in known]
        return [one._replace(owner=owner) for one, owner in held if owner is not None or one.owner is None]

    def weak(self) -> "Accounts":
        """Accounts with weak references, which keep nothing alive; none of single values, which hold no rows."""
        weakly = list[Account]()
        for one in (one for one in self.now() if not isinstance(one.owner, np.generic)):
            with contextlib.suppress(TypeError):  # as of a bytearray
                weakly.append(one._replace(owner=None if one.owner is None else weakref.ref(one.owner), kept=None))
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
    found = accounts_of(data)
    groups = {one.group for one in found.now()} or {0}
    more = [Account(("dataset", name), group=group) for name in alike for group in groups]
    if len(alike) > 1:  # whose people are others
        more = [Account(("dataset", name), group=max(groups) + 1 + k) for k, name in enumerate(alike)]
    return replace(found, entries=(*found.entries, *more), whole=True)


_FORMS: Final = ("__arrow_c_stream__", "__array__", "__array_interface__", "__dlpack__", "__dataframe__")
"""Protocols by which other libraries' objects give rows without their place in memory."""
_QUERIES: Final = {"polars": "LazyFrame", "pyarrow": "Dataset", "duckdb": "DuckDBPyRelation", "privreg": "Sql"}
"""Objects that know how to find rows, which may be whose they will."""


def comes_from(value: object, package: str, *names: str) -> bool:
    """True if a value is of one of a package's classes, found without importing it."""
    return any(
        c.__name__ in names and c.__module__.partition(".")[0].lstrip("_") == package for c in type(value).__mro__
    )


def accounts_of(data: Any) -> Accounts:
    """Accounts of whatever rows come in; none for a stream. A text is a name that the caller has given."""
    if isinstance(data, Accounts):
        return data
    if isinstance(data, Iterator):
        return UNKNOWN
    if isinstance(data, str):
        return Accounts((Account(("name", data)),), whole=True)
    if isinstance(data, list):  # tables that hold different people, in whatever order
        each = [accounts_of(part) for part in data if isinstance(part, Mapping | Accounts) or _holds_rows(part)]
        whole = bool(each) and len(each) == len(data) and all(accounts.whole for accounts in each)
        lost, paths = any(accounts.lost for accounts in each), tuple(path for a in each for path in a.paths)
        held, first = list[list[Account]](), 0
        for accounts in each:
            held.append([one._replace(group=first + one.group) for one in accounts.now()])
            first = max((one.group + 1 for one in held[-1]), default=first)
        return Accounts(tuple(_together(held)), whole, paths, lost)
    if isinstance(data, tuple):
        return of_columns(data)
    if isinstance(data, Mapping):
        return of_mapping(data, dict.values(data) if isinstance(data, dict) else ())
    watched = _watched(data)
    if _is_query(data):
        return Accounts(tuple(watched), lost=True)
    columns = data.columns if comes_from(data, "pyarrow", "Table", "RecordBatch") else [data]
    if comes_from(data, "pandas", "DataFrame"):
        columns = (column for _, column in data.items())
    elif comes_from(data, "polars", "DataFrame"):
        columns = data.get_columns()
    found = _about(
        [watched, *(_together([list(_memory(values, data)) for values in _leaves(column)]) for column in columns)]
    )
    rows = any(hasattr(data, name) for name in ("__len__", *_FORMS)) and getattr(data, "size", 1) != 0
    return _about([found.entries], rows and len(found.entries) == len(watched))


def of_columns(columns: Iterable[Any]) -> Accounts:
    """Accounts of columns about the same people, one of which is enough to identify them."""
    each = [accounts_of(column) for column in columns if _holds_rows(column)]
    lost = any(accounts.lost for accounts in each) and not any(accounts.whole for accounts in each)
    return _about((accounts.now() for accounts in each), lost)


def of_mapping(data: Mapping[str, Any], read: Iterable[Any]) -> Accounts:
    """Accounts of a mapping, where it can be watched, and of its columns; those that aren't `read` may go.

    A mapping that is no dict may make columns as they are asked for: it doesn't tell of those that nobody read.
    """
    columns, others = of_columns(read), of_columns(dict.values(data) if isinstance(data, dict) else ())
    lost = columns.lost or not (columns.entries or isinstance(data, dict))
    return _about([others.weak().entries, _watched(data), columns.entries], lost)


def of_files(paths: Iterable[Path]) -> Accounts:
    """Accounts of files, each by device and inode, or by its place where the file system has no inodes."""
    held = tuple(paths)
    return Accounts(tuple(_of_paths(held)), whole=True, paths=held)


def _about(groups: Iterable[Iterable[Account]], lost: bool = False) -> Accounts:
    """All accounts of columns about the same people; of one buffer that with the most of somebody's rows.

    An object has somebody as often as its columns do.
    """
    each = sorted((one._replace(group=0) for one in chain.from_iterable(groups)), key=lambda one: one.times)
    each = [one._replace(times=each[-1].times) if one.key[0] == "object" else one for one in each]
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


def _watched(data: Any) -> list[Account]:
    """The account of an object, if it can be watched."""
    with contextlib.suppress(TypeError):
        weakref.ref(data)
        return [Account(("object", id(data)), data)]
    return []


def _of_paths(paths: Iterable[Path]) -> Iterator[Account]:
    """Accounts of files, which are of different people."""
    for k, path in enumerate(paths):
        try:
            stat = path.stat()
        except OSError:
            continue  # gone; reading it says so
        yield Account(("file", stat.st_dev, stat.st_ino) if stat.st_ino else ("file", str(path.resolve())), group=k)


BLOCK: Final = 1 << 26  # Bits of memory whose accounts are looked through together: 8 MB


def _leaves(data: Any) -> Iterator[Any]:
    """Arrays of NumPy and Arrow that hold a column, without a copy or a look at values; none of other kinds."""
    parts: Iterable[Any] = ()
    if isinstance(data, np.ndarray) or comes_from(data, "pyarrow", "Array") or _exported(data) is not None:
        yield data
    elif comes_from(data, "pyarrow", "ChunkedArray"):
        parts = data.chunks
    elif comes_from(data, "polars", "Series"):
        held = data.to_physical() if str(data.dtype).startswith("Categorical") else data
        for chunk in held.get_chunks() if str(data.dtype) != "Object" else ():
            with contextlib.suppress(Exception):  # of a kind that no model reads; other levels' texts would be copied
                yield chunk.to_arrow(compat_level=import_module("polars").CompatLevel.newest())
    elif comes_from(data, "pandas", "Series", "Index"):
        parts = [data.to_numpy() if isinstance(data.dtype, np.dtype) else data.array]
    elif comes_from(data, "pandas", "ExtensionArray"):
        names = ("_pa_array", "_ndarray", "_data", "_sparse_values")  # Arrow's, NumPy's, with a mask, mostly alike
        parts = [held for name in names if (held := getattr(data, name, None)) is not None][:1]
    yield from chain.from_iterable(map(_leaves, parts))


def _exported(data: Any) -> np.ndarray | None:
    """The memory of an object that is neither NumPy's nor Arrow's, but lets others look into it, as a memoryview."""
    with contextlib.suppress(Exception):  # of an object that doesn't
        return np.asarray(memoryview(data))
    return None


def _memory(values: Any, owner: Any) -> Iterator[Account]:
    """Accounts of the buffer that a column is a view of, one for each block of memory that it lies in."""
    kept, root, dense = values, values if isinstance(values, np.ndarray) else _exported(values), True
    if root is None:
        span, part = _of_arrow(values)
    else:
        last: Any = root
        part, owner = _bits(root), values if root is values else owner
        dense = 8 * root.nbytes == part[1] - part[0]
        while isinstance(last, np.ndarray):  # also through a memoryview or a strided view's holder
            owner, root = owner if last is root else last, last
            last = root.base.obj if isinstance(root.base, memoryview) else root.base
            last = last if last is None or isinstance(last, np.ndarray) else getattr(last, "base", last)
        span, owner = _bits(root), last if (tells := isinstance(last, mmap | array)) else owner
        kept = None if last is None or tells else root  # another's memory doesn't end with this view of it
        held = () if last is None or (whole := _exported(last)) is None else (_bits(whole),)
        arrow = _leaves(last) if comes_from(last, "pyarrow", "Array", "ChunkedArray") else ()
        spans = (*held, *(one for one, _ in map(_of_arrow, arrow)))
        span = next((one for one in spans if one[0] <= span[0] < one[1]), span)
        if isinstance(root, np.memmap) and root.filename is not None:
            yield from _of_paths([Path(root.filename)])
    for block in range(span[0] // BLOCK, -(-span[1] // BLOCK)):
        yield Account(("memory", block), owner, span, part, kept=kept, dense=dense)


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
