"""People behind rows: their budgets, ids, weights and clusters. Device side; no error raised here quotes a value."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from numbers import Number
from typing import Any, Final
from uuid import UUID

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.data.cells import LARGEST, Flags, Floats, as_series, exact, read_numbers
from privreg.data.columns import column_of, level_codes, numbers
from privreg.data.followed import Followed
from privreg.errors import BudgetError, DataError, OptionError, SchemaError, quietly, real, refuse, shown
from privreg.options.table import check
from privreg.privacy.conversions import gdp_mu, gdp_mus
from privreg.schema.declarations import plain_text

Hashes = NDArray[np.uint64]
Counts = NDArray[np.int64]
WITHIN, DIFFERENCES = "within", "differences"  # Removal of persons' levels from rows before they are reported

LEAST_WEIGHT: Final = 0.99e-6
"""Smallest squared share of the largest budget. Sums are rounded to 2⁻³²; beside less that would count."""


@dataclass(frozen=True)
class Participants:
    """Declarations about the people behind the rows. Made by :meth:`declare`."""

    mu: str | None  # column of each person's own budget, see `spent`; None if all have the same
    mu_max: float | None  # public: nobody's budget is above it
    id: str | None  # column that identifies people; None if every row is another person
    max_per_id: int = 1  # rows of one person that are used: the first that come
    missing: str = "noise"  # what becomes of rows that can't be used, see `MISSING`
    k_max: int | None = None  # rows of one person of which its one report is made, at most; None if a row has a report
    per_person: str = "sum"  # "mean": people count alike, however many rows they have
    weight: str | None = None  # column of survey weights, by which reports are multiplied
    effect: str | None = None  # `WITHIN` or `DIFFERENCES`; None where persons' levels stay in the model
    cluster: str | None = None  # column of public clusters of people, who may be alike; None if people are independent
    spent: str = "mu"  # or "epsilon": what the column of budgets holds
    delta: float = 0.0  # of budgets that are (ε, δ), the same for all
    followed: Followed | None = None  # their time at risk, whose intervals are the rows of a report

    @classmethod
    def declare(
        cls,
        mu_column: Any = None,
        mu_max: Any = None,
        id: Any = None,
        max_per_id: Any = 1,
        missing: Any = "noise",
        k_max: Any = None,
        per_person: Any = "sum",
        weights: Any = None,
        effect: tuple[str, str] | None = None,
        cluster: Any = None,
        spent: str = "mu",
        delta: Any = None,
    ) -> "Participants":
        """Check the user's options and freeze them; `effect` is what a formula has after ``|``: a kind and a column.

        `mu_column` and `mu_max` are the column of personal budgets, in units of `spent`, and their ceiling.
        """
        ceiling, most = f"{spent}_max", real(mu_max)
        column = _column(spent, mu_column, f"a column of personal budgets ({spent}='my_budget', {ceiling}=1.0)")
        quoted = mu_max is None and (column or "").replace(".", "", 1).isdecimal()
        wrong = {
            f"{ceiling}={shown(mu_max)} is the ceiling of a column of personal budgets, and none is named; give "
            f"{spent}='column' too, or leave {ceiling} out": column is None and mu_max is not None,
            f"{spent} must be a number, and {column!r} is text; write it without quotes: {spent}=1.0": quoted,
            f"{spent}={column!r} names a column of personal budgets, and {ceiling}={shown(mu_max)} is no public "
            f"ceiling of them, a positive finite number; give {ceiling}=1.0, say, if nobody's budget is above it": (
                column is not None and not 0 < (most or 0.0) < np.inf
            ),
        }
        refuse(wrong, BudgetError)
        who = _column("id", id, "the column that identifies people (id='person')")
        if effect is not None and who not in {None, effect[1]}:
            raise OptionError(
                f"the formula takes out levels of {effect[1]!r}, and id={who!r} tells people apart: a device has the "
                f"rows of one person, so that both must be one column; for another factor write C({effect[1]})."
            )
        who = who if effect is None else effect[1]
        each = check("local.formula", "max_per_id", max_per_id)
        rows, how = check("local.formula", "k_max", k_max), check("local.formula", "per_person", per_person)
        weight = _column("weights", weights, "the column of survey weights (weights='w', bounds={'w': (0, 4)})")
        wrong = {
            f"max_per_id={shown(max_per_id)} needs the column that identifies people; give id='person' too, or leave "
            "it out": who is None and max_per_id != 1,
            f"k_max={rows} means one report of a person's rows, at mu, and max_per_id={each} as many reports, at more "
            "than mu; give one of them, with two collectors k_max=": rows is not None and each != 1,
            f"k_max={rows} needs the column that identifies people; give id='person' too": rows and who is None,
            f"per_person={how!r} is about several rows of a person; give k_max=, how many of them its report holds":
            rows is None and how != "sum",
            "to take out levels of persons a report needs several rows of each; give k_max=5, say, the largest number "
            "of rows that a person's report is to hold, 2 or more": effect is not None and (rows or 1) < 2,
        }  # fmt: skip
        refuse(wrong, OptionError)
        group = _column("cluster", cluster, "the column of clusters (cluster='school', levels={'school': [...]})")
        named = {spent: column, "id": who, "weights": weight, "cluster": group}
        for (one, name), (other, again) in combinations(named.items(), 2):
            if name is not None and name == again:
                raise OptionError(f"{one}={name!r} and {other}={name!r} are the same column; name one for each.")
        missing = check("local.formula", "missing", missing)
        kind = None if effect is None else effect[0]
        return cls(column, most, who, each, missing, rows, how, weight, kind, group, spent, real(delta) or 0.0)

    @property
    def centred(self) -> bool:
        """True if rows are reported without their person's level."""
        return self.effect == WITHIN

    @property
    def gathered(self) -> bool:
        """True if a report is made of all rows of a person, or of a row and its weight."""
        return self.k_max is not None or self.weight is not None or self.followed is not None

    @property
    def rows(self) -> int:
        """Rows of a person at most of which one report is made."""
        return len(self.followed.cuts) if self.followed is not None else self.given

    @property
    def given(self) -> int:
        """Rows of a person in the data, at most."""
        return self.k_max or 1

    @property
    def reports(self) -> int:
        """Independent rows that a report is the mean of, at most: of differences one fewer."""
        return self.rows - 1 if self.effect == DIFFERENCES else self.rows

    @property
    def spread(self) -> float:
        """Largest size of a column without a person's level, relative to how far its bounds are apart."""
        return 1.0 - 1.0 / self.rows if self.effect == WITHIN else 1.0

    @property
    def columns(self) -> tuple[str, ...]:
        """Raw columns to read besides the design's."""
        return tuple(c for c in (self.mu, self.id, self.weight, self.cluster) if c is not None)

    @property
    def text(self) -> tuple[str, ...]:
        """Columns whose fields in a file are kept as they are written."""
        return () if self.id is None else (self.id,)

    def check_columns(self, used: Iterable[str]) -> None:
        """Refuse a column that the model uses too, in the `used` columns of its design."""
        taken = set(used)
        of = (self.spent, self.mu), ("id", self.id), ("weights", self.weight), ("cluster", self.cluster)
        for option, name in of:
            if name in taken:
                raise SchemaError(
                    f"{option}={name!r} is a column of the model too; take it out of the formula (or offset= or "
                    f"exposure=), or name another column in {option}=."
                )

    def weights(self, frame: Any, kept: Flags | None = None) -> Floats | None:
        """Each person's squared share of the largest budget, in (0, 1]; None if all have the same budget.

        Of a frame of raw rows those `kept`; all are checked.
        Raises DataError if a budget is missing, not a number, not positive, or above `mu_max`.
        """
        if self.mu is None or self.mu_max is None:
            return None

        def check_all(wrong: Any, words: str) -> None:
            if wrong.any():
                raise DataError(f"column {self.mu!r}, which holds the personal budgets, has a value {words}")

        budgets, most = read_numbers(column_of(frame, self.mu)), f"{self.spent}_max"
        absent = "that is missing, infinite or no number; everybody needs a budget: fill it, or leave such rows out."
        check_all(np.isnan(budgets), absent)
        check_all(budgets <= 0, "that is not positive; leave out rows whose person reports nothing.")
        above = f"above {most}={self.mu_max:g}; declare a larger {most}, or lower such budgets."
        check_all(budgets > self.mu_max, above)
        shares = gdp_mus(budgets, self.delta) / gdp_mu(self.mu_max, self.delta) if self.delta else budgets / self.mu_max
        out: Floats = np.minimum(shares, 1.0) ** 2
        few = f"too near 0 to be used, below a thousandth of {most}; leave such rows out, whose reports would be"
        check_all(~(out > LEAST_WEIGHT), f"{few} noise alone.")
        return out if kept is None else out[kept]

    def survey_weights(self, frame: Any, largest: float, least: float, kept: Flags | None = None) -> Floats | None:
        """Weights of the rows relative to the largest, in [0, 1], NaN where missing; None without a column of them."""
        if self.weight is None:
            return None
        given = numbers(column_of(frame, self.weight), self.weight, gaps=self.missing != "raise")
        out: Floats = np.clip(given, least, largest) / largest
        return out if kept is None else out[kept]

    def clusters(self, frame: Any, levels: Sequence[Any], kept: Flags | None = None) -> Counts:
        """Places of the rows' clusters among the declared ones, below 0 where it is missing or none of them."""
        assert self.cluster is not None
        codes = level_codes(column_of(frame, self.cluster), self.cluster, levels, gaps=self.missing != "raise")
        return codes if kept is None else codes[kept]

    def ids(self, frame: Any) -> Any:
        """Raw ids of the rows, for :meth:`Counter.excess`; None if every row is another person."""
        return None if self.id is None else column_of(frame, self.id)

    def counter(self) -> "Counter | None":
        """Make the counter of one stream; None if every row is another person."""
        return None if self.id is None else Counter(self.id, self.max_per_id)

    def to_json(self) -> dict[str, Any]:
        """Represent the declaration by JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> "Participants":
        """Rebuild it from :meth:`to_json`, checked like a user's own."""
        given = {**doc, "mu_column": doc["mu"], "weights": doc.get("weight"), "spent": str(doc.get("spent", "mu"))}
        given["effect"] = None if doc.get("effect") is None else (str(doc["effect"]), str(doc["id"]))
        followed = doc.get("followed")
        out = cls.declare(**{k: v for k, v in given.items() if k not in {"mu", "weight", "followed"}})
        if followed is None:
            return out
        return replace(out, followed=Followed(**{**followed, "cuts": tuple(map(float, followed["cuts"]))}))


def _column(option: str, name: Any, what: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise OptionError(f"{option}={shown(name)} must be the name of {what}, a string.")
    return str(name)


# --- several rows of one person ------------------------------------------------------------------------


def without_id(column: str) -> DataError:
    """Error for a column of ids in which one is missing or can't be read."""
    return DataError(
        f"column {column!r} has an id that is missing, or neither a text nor a whole number, as doubles of 2⁵³ or more "
        "aren't for sure; everybody needs one, or a row can't be counted: convert the ids to text, fill them, leave "
        "such rows out, or let them send noise (missing='noise')."
    )


class Counter:
    """Finds which rows are beyond the first few of their person. One for each stream, on the device side.

    It remembers no id, only how often each keyed hash (SipHash, 64 bits) came; the key is drawn for this counter and
    leaves neither it nor the process. Two people whose hashes are equal, which in 10 million people happens with
    probability 3e-6, count as one: that costs a row, never privacy.
    """

    def __init__(self, column: str, most: int) -> None:
        self.column, self.most = column, most
        self.numbered = False  # True if ids are numbers of people from 0 on, who all come once
        # pandas wants a key of 16 ASCII characters: 112 secret bits
        self._key = bytes(b & 0x7F for b in os.urandom(16)).decode("ascii")
        # Hashes in order and how often each came. Each run is more than twice as long as the next: every row is
        # merged a few times only, and there are few runs to look into.
        self._runs: list[tuple[Hashes, Counts]] = []

    def excess(self, ids: Any, *, gaps: bool = False) -> Flags:
        """Count the next rows, however cut into batches; True for those beyond the first `most` of their person.

        With `gaps` a row without an id is beyond them too; else that is a DataError, and nothing has been counted.
        """
        return self.count(self.hashed(ids, gaps=gaps))

    def hashed(self, ids: Any, *, gaps: bool = False) -> Hashes:
        """Keyed hashes of ids, without counting them; any thread may do it. An id as text is the same person's."""
        if self.numbered:
            return np.asarray(ids, dtype=np.uint64) + np.uint64(1)
        values = ids_of(ids)
        if values.dtype.kind in "iu" and len(values):  # once for rows of a person that follow one another
            first = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
            return np.repeat(self._hashed(texts_of(values[first])), np.diff(np.r_[first, len(values)]))
        known = np.array([text is not None for text in values], dtype=np.bool_)
        if known.all():
            return self._hashed(values)
        if not gaps:
            raise without_id(self.column)
        return np.where(known, self._hashed(np.where(known, values, "")), NOBODY)

    def _hashed(self, texts: NDArray[Any]) -> Hashes:
        wrong = DataError(f"the ids in column {self.column!r} can't be read; convert them to text.")
        hashes = quietly(lambda: pd.util.hash_array(texts, hash_key=self._key, categorize=False), wrong)
        return np.maximum(np.asarray(hashes, dtype=np.uint64), 1)

    def count(self, hashes: Hashes) -> Flags:
        """Count the next rows by their hashes, in order; True for those beyond the first `most` of their person."""
        n = len(hashes)
        if self.numbered:
            return np.zeros(n, dtype=np.bool_)
        order = np.argsort(hashes, kind="stable")
        placed = hashes[order]
        first = np.flatnonzero(np.r_[True, placed[1:] != placed[:-1]]) if n else np.zeros(0, dtype=np.intp)
        people, times = placed[first], np.diff(np.r_[first, n])
        before = np.zeros(len(people), dtype=np.int64)  # how often each came before
        for known, often in self._runs:
            at = np.minimum(np.searchsorted(known, people), len(known) - 1)
            before += np.where(known[at] == people, often[at], 0)
        rank = np.arange(n) - np.repeat(first, times) + np.repeat(before, times)
        out = np.empty(n, dtype=np.bool_)
        out[order] = rank >= self.most
        out[hashes == NOBODY] = True
        runs = [*self._runs, (people, times)] if n else self._runs
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            (a, m), (b, k) = runs[-2:]
            both = np.concatenate([a, b])
            order = np.argsort(both, kind="stable")
            both = both[order]
            first = np.flatnonzero(np.r_[True, both[1:] != both[:-1]])
            runs[-2:] = [(both[first], np.add.reduceat(np.concatenate([m, k])[order], first))]
        self._runs = runs
        return out

    def __reduce__(self) -> str:
        raise TypeError("a counter of ids holds a secret key and can't be pickled or copied; begin another stream")

    def __repr__(self) -> str:
        return f"Counter({self.column!r}, most={self.most})"


NOBODY: Final = np.uint64(0)  # In place of the hash of an id that can't be read


def texts_of(ids: Any) -> NDArray[Any]:
    """Ids as texts by the rule of `plain_text`, a person's the same in a column of any type; None if it is no id."""
    values = ids_of(ids)
    return values.astype(str).astype(object) if values.dtype.kind in "iu" else values


def ids_of(ids: Any) -> NDArray[Any]:
    """Cells of a column, but whole numbers as they are where it has no others; doubles of 2⁵³ and more are none."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return ids
    series = as_series(ids)
    if isinstance(series.dtype, pd.CategoricalDtype):
        texts = np.array([*texts_of(series.cat.categories), None], dtype=object)
        return np.asarray(texts[series.cat.codes.to_numpy()])
    if pd.api.types.is_integer_dtype(series.dtype) and series.hasnans:
        series = series.astype(object)  # not as doubles: who has a large id would be another person in this batch
    values = np.asarray(series.to_numpy())
    if values.dtype.kind == "f":
        exact = np.abs(values) < 2.0 ** min(np.finfo(values.dtype).nmant + 1, 53)
        values = np.where(exact, values, np.nan).astype(np.float64)
        if bool((exact & (np.floor(values) == values)).all()):
            values = values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values
    return np.fromiter(map(_text, values.tolist()), dtype=object, count=len(values))


def _text(value: Any) -> str | None:
    try:
        if isinstance(value, str):
            value.encode()  # a text that is no Unicode has no hash
            return plain_text(value) or None
        if isinstance(value, UUID):
            return str(value)
        number = exact(value) if isinstance(value, Number) else np.nan
        most = 2.0**53 if isinstance(number, float) else LARGEST  # of several people, perhaps, before it was rounded
        # a decimal number of a line may be one of millions of digits
        return str(int(number)) if abs(number) < most and number == int(number) else None
    except Exception:  # a number with thousands of digits, say
        return None
