"""What the ledger knows people by: one object is one account. No value of a row is looked at.

An array counts by the memory it is a view of, a table also as the object it is, a file by device and inode, a query by
its text and connection. Names that outlive what they name count too much rather than too little: the inode of a deleted
file may be another's later. Objects are watched, so that nothing is ever taken for one that is gone.
"""

from __future__ import annotations

import hashlib
import math
import weakref
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.files.optional import comes_from
from privreg.privacy.budget import compose

__all__ = ["Account", "Accounts", "accounts_of", "of_columns", "of_files", "of_mapping", "of_parts", "of_query"]


class Account(NamedTuple):
    """One of the accounts that a release from some rows goes to."""

    key: Hashable
    # What the key is good for the life of, or a weak reference to it; None for a key that is good for ever
    owner: Any = None
    # Which part of the owner, along `axis`; None for all of it. Parts without a common row don't add up.
    rows: range | None = None
    axis: int = 0
    main: bool = True  # Whether it stands for the rows; or goes along with one that does

    def meets(self, other: Account) -> bool:
        """Whether two accounts of one key may have a row in common."""
        a, b = self.rows, other.rows
        if any(rows is not None and not rows for rows in (a, b)):
            return False
        if a is None or b is None or self.axis != other.axis:
            return True
        if max(min(a[0], a[-1]), min(b[0], b[-1])) > min(max(a[0], a[-1]), max(b[0], b[-1])):
            return False
        return (a.start - b.start) % math.gcd(a.step, b.step) == 0

    def heaviest(self, spent: Iterable[tuple[float, Account]]) -> list[float]:
        """Costs that were spent on the row of this account for which they are most; never less, and seldom more."""
        met = [(mu, other) for mu, other in spent if self.meets(other)]
        out = [mu for mu, other in met if other.rows is None]
        for axis in {other.axis for _, other in met if other.rows is not None}:
            parts = [(mu, other.rows) for mu, other in met if other.rows is not None and other.axis == axis]
            out += _deepest(parts, self.rows if self.axis == axis else None)
        return out

    def held(self) -> Account | None:
        """The same with its owner in hand; None if it is gone."""
        if not isinstance(self.owner, weakref.ref):
            return self
        owner = self.owner()
        return None if owner is None else self._replace(owner=owner)


def _deepest(parts: list[tuple[float, range]], asked: range | None) -> list[float]:
    """Costs of those parts that a row asked for is in, of the row for which they are most.

    Several steps are taken for their common divisor, which makes parts larger, never smaller.
    """
    everything = [rows for _, rows in parts] + ([] if asked is None else [asked])
    step = math.gcd(*(rows.step for rows in everything if _sparse(rows)))
    spans = [(mu, min(rows[0], rows[-1]), max(rows[0], rows[-1]), _sparse(rows)) for mu, rows in parts]
    phases = {asked.start % step} if asked and _sparse(asked) else {low % step for _, low, _, sparse in spans if sparse}
    begin = min(asked[0], asked[-1]) if asked else 0
    best: list[float] = []
    for phase in phases or {0}:
        here = [(mu, low, high) for mu, low, high, sparse in spans if not sparse or low % step == phase]
        for row in {max(low, begin) for _, low, _ in here}:
            best = max(best, [mu for mu, low, high in here if low <= row <= high], key=compose)
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

    def now(self) -> list[Account]:
        """Those whose owners are alive, which they are as long as the list is kept."""
        files = [account for path in self.paths for account in _file(path)]
        added = [account for account in files if account not in self.entries]
        return [account for entry in (*self.entries, *added) if (account := entry.held()) is not None]

    def weak(self) -> Accounts:
        """The same, which keep nothing alive."""
        held = [a if a.owner is None else a._replace(owner=weakref.ref(a.owner)) for a in self.now()]
        return replace(self, entries=tuple(held))


NOBODY: Final = Accounts()


def accounts_of(data: Any) -> Accounts:
    """Accounts of whatever rows come in; none for a stream.

    A text, or a tuple of texts and numbers, is a name that the caller has given; a tuple of names is several.
    """
    if isinstance(data, Accounts):
        return data
    told = getattr(type(data), "_privreg_accounts", None)
    if told is not None:
        out: Accounts = told(data)
        return out
    if isinstance(data, str) or (isinstance(data, tuple) and _plain(data)):
        several = isinstance(data, tuple) and data and all(isinstance(one, tuple) for one in data)
        return _whole(Account(("name", name)) for name in (dict.fromkeys(data) if several else (data,)))
    if isinstance(data, list):
        return of_parts(data)
    if isinstance(data, tuple):
        return of_columns(data)
    if isinstance(data, Mapping):
        return of_mapping(data, ())
    return _whole(_of_object(data))


def of_columns(columns: Iterable[Any]) -> Accounts:
    """Accounts of columns about the same people, one of which is enough to tell them by."""
    return _whole(account for column in columns if _holds_rows(column) for account in accounts_of(column).now())


def of_mapping(data: Mapping[str, Any], read: Iterable[Any]) -> Accounts:
    """Accounts of a mapping of columns: of each of them, and of itself where it can be watched.

    Columns that are not among those `read` are not kept alive, and not asked for unless the mapping is a dict.
    """
    out = list(_watched(data))
    if isinstance(data, dict):
        others = [column for column in dict.values(data) if _holds_rows(column)]
        out += [a._replace(owner=weakref.ref(a.owner)) for column in others for a in _of_object(column)]
    return _whole([*of_columns(read).entries, *out])


def of_parts(parts: Iterable[Any]) -> Accounts:
    """Accounts of tables that hold different people, in whatever order."""
    each = [accounts_of(part) for part in parts if isinstance(part, Mapping) or _holds_rows(part)]
    plain = isinstance(parts, list | tuple) and len(each) < len(parts)
    entries = tuple(account for accounts in each for account in accounts.now())
    return Accounts(entries, bool(each) and not plain and all(accounts.whole for accounts in each))


def of_files(paths: Iterable[Path]) -> Accounts:
    """Accounts of files, each by device and inode, or by its place where the file system has no inodes."""
    held = tuple(paths)
    return Accounts(tuple(account for path in held for account in _file(path)), whole=True, paths=held)


def of_query(text: str, parameters: Any, place: Any, owner: Any = None) -> Accounts:
    """Accounts of a query at some place, which is `owner`'s for its life or, without one, for ever.

    Of the text, whose white space doesn't count, of parameters and addresses only a digest is kept.
    """
    told = "\0".join((" ".join(text.split()), repr(parameters), repr(place)))
    return Accounts((Account(("query", hashlib.sha256(told.encode()).hexdigest()), owner),), whole=True)


# --- of one thing ----------------------------------------------------------------------------------------


def _whole(entries: Iterable[Account]) -> Accounts:
    found: dict[Hashable, Account] = {}
    for entry in entries:
        found.setdefault((entry.key, entry.axis, entry.rows), entry)
    return Accounts(tuple(found.values()), whole=bool(found))


def _plain(data: tuple[Any, ...]) -> bool:
    """Whether a tuple is made of texts and numbers only."""
    return all(
        one is None or isinstance(one, str | bytes | int | float) or (isinstance(one, tuple) and _plain(one))
        for one in data
    )


def _holds_rows(value: Any) -> bool:
    """Whether a value is an object of its own that holds rows: no number or text, no list of them, and no class."""
    if isinstance(value, type | str | bytes | int | float | list | tuple | None):
        return False
    return hasattr(value, "__len__") or hasattr(value, "__array__") or hasattr(value, "__arrow_c_stream__")


def _of_object(data: Any) -> Iterator[Account]:
    if isinstance(data, np.ndarray):
        yield _memory(data)
        return
    yield from _watched(data)
    if comes_from(data, "pandas", "DataFrame"):
        columns = [values for _, column in data.items() if (values := _values(column)) is not None]
        times = Counter(id(_root(values)) for values in columns)
        for values in columns:
            yield _memory(values, alone=times[id(_root(values))] == 1)._replace(main=False)
    elif comes_from(data, "pandas", "Series", "Index") and (values := _values(data)) is not None:
        yield _memory(values)._replace(main=False)


def _watched(data: Any) -> Iterator[Account]:
    """The account of an object that can be watched."""
    if data is None:
        return
    try:
        weakref.ref(data)
    except TypeError:
        return
    yield Account(("object", id(data)), data)


def _values(column: Any) -> Any:
    """NumPy's values of a pandas column, without a copy; None if it is kept in another way."""
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    held = getattr(column.array, "_data", None)  # of a column with missing values apart
    return held if isinstance(held, np.ndarray) and held.ndim == 1 else None


def _file(path: Path) -> Iterator[Account]:
    try:
        stat = path.stat()
        yield Account(("file", stat.st_dev, stat.st_ino) if stat.st_ino else ("file", str(path.resolve())))
    except OSError:
        return  # gone; reading it says so


# --- arrays ----------------------------------------------------------------------------------------------


def _root(values: np.ndarray) -> np.ndarray:
    """The array that an array is, in the end, a view of."""
    while isinstance(values.base, np.ndarray):
        values = values.base
    return values


def _memory(values: np.ndarray, *, alone: bool = False) -> Account:
    root = _root(values)
    axis, rows = _rows(values, root, alone=alone)
    return Account(("memory", id(root)), root, rows, axis)


def _rows(values: np.ndarray, root: np.ndarray, *, alone: bool) -> tuple[int, range | None]:
    """Along which axis of its root the first axis of a view runs, and over which part; all of it where that isn't sure.

    `alone` says that steps along a root of one axis leave rows out; otherwise they may be those from row to row of a
    matrix, whose other columns lie between.
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
        moves = [s * (m - 1) for s, m in zip(values.strides, values.shape, strict=True)]
        low, high = (offset + sum(f(move, 0) for move in moves) for f in (min, max))
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
