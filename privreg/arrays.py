"""The design of a model given as arrays: named numeric columns, each declared in the public schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from privreg.allowlist import undeclared, undeclared_offset
from privreg.columns import Encoded, Floats, clamped, level_codes, numbers, quietly, zero_one
from privreg.errors import DataError, SavedFileError, SchemaError, choose
from privreg.probe import check_rank, probe_rows, public_constant
from privreg.schema import Schema

__all__ = ["ArrayDesign", "Held", "array_design", "read_arrays"]

_CONSTANT_NAMES = ("const", "Intercept")
_OFFSET = "offset"


@dataclass(frozen=True)
class ArrayDesign:
    """A frozen design of named array columns; the attributes are those of :class:`privreg.design.Design`.

    A column named "const" or "Intercept", or one with bounds (v, v), is a declared constant: it is set to
    1 (or v) whatever the array holds, and never looked for in the data.
    """

    exog_names: tuple[str, ...]
    endog_name: str
    schema: Schema
    has_offset: bool
    binary: bool
    limits: Floats = field(compare=False, repr=False)  # (2, p): lowest and highest value of each column
    columns: tuple[str, ...] = field(compare=False, repr=False)
    probe: Floats = field(compare=False, repr=False)
    constant: Floats | None = field(compare=False, repr=False)
    endog_limits: tuple[float, float] = field(compare=False)

    def __hash__(self) -> int:
        return hash((self.exog_names, self.endog_name, self.has_offset, self.binary))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.exog_names, self.endog_name, self.schema, self.has_offset, self.binary)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design's columns."""
        return self.exog_names

    @property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """Raw columns that each design column is made from: itself, or none for the constant 1."""
        return tuple(() if n in _CONSTANT_NAMES and n not in self.schema.bounds else (n,) for n in self.exog_names)

    @property
    def bare(self) -> tuple[str | None, ...]:
        """Raw numeric column that each design column is, or None for the constant 1."""
        return tuple(made_of[0] if made_of else None for made_of in self.sources)

    @property
    def endog_sources(self) -> tuple[str, ...]:
        """Raw columns that the response is made from: itself."""
        return (self.endog_name,)

    @property
    def endog_bare(self) -> str | None:
        """Raw numeric column that the response is, or None for a factor."""
        return None if self.endog_name in self.schema.levels else self.endog_name

    @property
    def offset(self) -> str | None:
        """Name under which the offset is declared, or None."""
        return _OFFSET if self.has_offset else None

    @property
    def formula(self) -> None:
        """None: there is no formula."""
        return None

    def encode(self, batch: Sequence[Any], missing: str = "raise") -> Encoded:
        """Encode a batch ``(endog, exog)`` or ``(endog, exog, offset)`` of arrays, clamped to the bounds.

        Raises
        ------
        DataError
            The arrays don't fit each other or the names, or hold something that is not a finite number.
        """
        choose("missing", missing, ("raise",))
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise DataError(
                f"rows of an array model come as (endog, exog) or (endog, exog, offset), got {_kind(batch)}."
            )
        endog, exog, offset = (*batch, None)[:3]
        if (offset is None) == self.has_offset:
            raise DataError(
                "the model was declared with offset=, so each batch is (endog, exog, offset)."
                if self.has_offset
                else "the model was declared without offset=, so each batch is (endog, exog)."
            )
        y = self._endog(_vector(endog, self.endog_name))
        x = self.encode_exog(exog, clamp=True)
        o = None
        if offset is not None:
            values = numbers(_vector(offset, _OFFSET), _OFFSET)
            o = np.array(clamped(values, self.schema.limits(_OFFSET)))
        if len(y) != len(x) or (o is not None and len(o) != len(x)):
            raise DataError("endog, exog and offset differ in their number of rows.")
        return Encoded(y, x, o)

    def encode_exog(self, exog: Any, *, clamp: bool = False) -> Floats:
        """Encode a 2-D array of covariates; declared constants are set, other columns clamped on request."""
        x = _array(exog, "exog")
        if x.ndim != 2 or x.shape[1] != len(self.exog_names):
            raise DataError(
                f"exog must have two dimensions and {len(self.exog_names)} columns "
                f"({', '.join(self.exog_names)}), got shape {x.shape}."
            )
        if x.dtype.kind == "O":  # columns of several types
            x = np.column_stack([numbers(x[:, j], name) for j, name in enumerate(self.exog_names)])
        if x.dtype.kind not in "biuf":  # the dtype itself would say how long the longest text is
            raise DataError("exog must hold numbers or booleans, got text, dates or complex numbers; code them first.")
        out = np.array(x, dtype=np.float64, order="C")
        finite = np.isfinite(out)
        if not finite.all():
            name = self.exog_names[int(np.argmin(finite.all(axis=0)))]
            raise DataError(f"column {name!r} has a missing or infinite value; drop or fill such rows first.")
        low, high = self.limits
        if clamp:
            return np.clip(out, low, high, out=out)
        fixed = low == high
        out[:, fixed] = low[fixed]
        return out

    def encode_new(self, new: Any) -> tuple[Floats, Floats]:
        """Covariates and offset for prediction, unclamped; an offset that is not given is 0.

        `new` is an array or DataFrame of the covariates, or ``(exog, offset)``.
        """
        paired = isinstance(new, tuple) and self.has_offset and len(new) == 2
        exog, offset = new if paired else (new, None)
        if hasattr(exog, "columns"):
            lacking = [n for n in self.exog_names if n not in exog.columns and n not in _CONSTANT_NAMES]
            if lacking:
                raise DataError(f"the new rows lack the column {lacking[0]!r}; needed: {', '.join(self.exog_names)}.")
            twice = [n for n in self.exog_names if list(exog.columns).count(n) > 1]
            if twice:
                raise DataError(f"the new rows have more than one column named {twice[0]!r}; rename or drop one.")
            held = [numbers(exog[n], n) if n in exog.columns else np.ones(len(exog)) for n in self.exog_names]
            exog = np.column_stack(held)
        x = self.encode_exog(exog)
        o = np.zeros(len(x)) if offset is None else numbers(_vector(offset, _OFFSET), _OFFSET)
        if len(o) != len(x):
            raise DataError(f"the new rows are {len(x)} but the offset has {len(o)}; it needs one number a row.")
        return x, o

    def _endog(self, raw: Any) -> Floats:
        name = self.endog_name
        if name in self.schema.levels:
            return level_codes(raw, name, self.schema.levels[name]).astype(np.float64)
        values = np.array(clamped(numbers(raw, name), self.schema.limits(name)))
        return zero_one(values, name) if self.binary else values

    def to_json(self) -> dict[str, Any]:
        """Represent the design by JSON values."""
        return {
            "kind": "arrays",
            "exog_names": list(self.exog_names),
            "endog_name": self.endog_name,
            "schema": self.schema.to_json(),
            "offset": self.has_offset,
            "binary": self.binary,
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> ArrayDesign:
        """Rebuild a design from :meth:`to_json`."""
        if doc.get("kind") != "arrays":
            raise SavedFileError(f"expected a saved array design, got kind {doc.get('kind')!r}.")
        schema = Schema.from_json(doc["schema"])
        return _rebuild(doc["exog_names"], doc["endog_name"], schema, bool(doc["offset"]), bool(doc["binary"]))


class Held(NamedTuple):
    """Arrays as the user gave them, with names; values are not looked at."""

    names: tuple[str, ...]
    endog_name: str
    endog: Any
    exog: Any
    offset: Any

    def numeric(self, binary: bool) -> list[str]:
        """Columns that need a scale: all but declared constants and a binary response."""
        out = [n for n in self.names if n not in _CONSTANT_NAMES]
        return out if binary else [*out, self.endog_name]


def read_arrays(endog: Any, exog: Any, offset: Any, exog_names: Sequence[str] | None, endog_name: str | None) -> Held:
    """Name the columns of arrays or pandas objects and check that their shapes fit.

    Raises
    ------
    DataError
        The arrays don't fit each other, or the names don't fit them.
    """
    if endog is None or exog is None:
        raise DataError("endog and exog must both be given; to describe a model without data use from_formula.")
    if exog_names is None and hasattr(exog, "columns"):
        exog_names = [str(c) for c in exog.columns]
    if endog_name is None:
        label = next(iter(endog.columns)) if np.shape(getattr(endog, "columns", ())) == (1,) else None
        label = getattr(endog, "name", None) if label is None else label
        endog_name = str(label) if isinstance(label, str | int) and label else "y"
    if not isinstance(endog_name, str):
        raise DataError(f"endog_name must be a string, got {type(endog_name).__name__}.")
    x = _array(exog, "exog")
    x = x[:, None] if x.ndim == 1 else x
    y = _vector(_array(endog, endog_name), endog_name)
    if x.ndim != 2 or x.shape[1] == 0:
        raise DataError(f"exog must have two dimensions and at least one column, got shape {x.shape}.")
    names = tuple(f"x{j + 1}" for j in range(x.shape[1])) if exog_names is None else _names(exog_names)
    if len(names) != x.shape[1]:
        raise DataError(f"exog has {x.shape[1]} columns but {len(names)} names; exog_names needs one string a column.")
    o = None if offset is None else _vector(_array(offset, _OFFSET), _OFFSET)
    if len({len(y), len(x), len(x) if o is None else len(o)}) > 1:
        third = "" if o is None else f", offset {len(o)}"
        raise DataError(f"endog has {len(y)} rows, exog {len(x)}{third}; they need the same number, one row a person.")
    return Held(names, endog_name, y, x, o)


def array_design(
    exog_names: Sequence[str],
    endog_name: str,
    schema: Schema,
    *,
    offset: bool = False,
    binary: bool = False,
) -> ArrayDesign:
    """Build the public design of named array columns.

    Parameters
    ----------
    exog_names : sequence of str
        Names of the columns of exog, each in bounds, moments or the schema's private columns, except "const" or
        "Intercept", which is the constant 1.
    endog_name : str
        Name of the response, declared too unless `binary`.
    schema : Schema
    offset : bool
        An offset array is given with each batch; its bounds are declared under the name "offset".
    binary : bool
        The response is 0/1.

    Raises
    ------
    SchemaError
        A column is not declared as a number.
    FormulaError
        The columns are linearly dependent whatever the data.
    """
    names = tuple(exog_names)
    if not names or len({*names, endog_name}) != len(names) + 1:
        raise SchemaError(f"column names must be given and differ, got {[endog_name, *names]!r}.")
    known = {n: (1.0, 1.0) for n in _CONSTANT_NAMES if n in names and n not in schema.bounds}
    full = replace(schema, bounds={**schema.bounds, **known})
    for name in (*names, *([_OFFSET] if offset else [])):
        if name in full.levels:
            raise SchemaError(f"column {name!r} of an array is a number, but levels= declares it; use a formula.")
        if offset and name == _OFFSET and not full.is_declared_number(name):
            raise SchemaError(undeclared_offset(name, schema))
        if not full.is_number(name):
            raise SchemaError(undeclared(name, schema))
    limits = np.array([full.limits(name) for name in names]).T
    rows = probe_rows(names, full)
    probe = np.column_stack([rows[name] for name in names])
    check_rank(probe, names)
    constant = public_constant(probe, names, [(name,) for name in names], full)
    columns = (endog_name, *names, *([_OFFSET] if offset else []))
    span = _endog_limits(endog_name, schema, binary)
    return ArrayDesign(names, endog_name, schema, offset, binary, limits, columns, probe, constant, span)


def _rebuild(exog_names: Sequence[str], endog_name: str, schema: Schema, offset: bool, binary: bool) -> ArrayDesign:
    return array_design(exog_names, endog_name, schema, offset=offset, binary=binary)


def _endog_limits(name: str, schema: Schema, binary: bool) -> tuple[float, float]:
    if name in schema.levels:
        if not binary or len(schema.levels[name]) != 2:
            raise SchemaError(
                f"the response {name!r} has {len(schema.levels[name])} declared levels; a binary family "
                f"needs two, and any other family a number (bounds={{{name!r}: (low, high)}})."
            )
        return 0.0, 1.0
    if not schema.is_number(name):
        if not binary:
            raise SchemaError(undeclared(name, schema))
        return 0.0, 1.0
    limits = schema.limits(name)
    if binary and limits != (0.0, 1.0):
        raise SchemaError(f"a binary response is 0 or 1; declare bounds={{{name!r}: (0, 1)}} or leave them out.")
    return limits


def _kind(batch: Any) -> str:
    return f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, tuple | list) else "")


def _names(exog_names: Any) -> tuple[str, ...]:
    wrong = DataError("exog_names must be a list of strings, one for each column of exog.")
    names = () if isinstance(exog_names, str) else quietly(lambda: tuple(exog_names), wrong)
    if not names or not all(isinstance(n, str) for n in names):
        raise wrong
    return names


def _array(values: Any, name: str) -> Any:
    """Array of what the user gave; ragged lists and the like are refused without quoting them."""
    wrong = DataError(f"{name!r} can't be read as an array; give rows of equal length that hold numbers.")
    return quietly(lambda: values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values), wrong)


def _vector(values: Any, name: str) -> Any:
    wrong = DataError(f"{name!r} is ragged; give one number a row.")
    shape = quietly(lambda: np.shape(values), wrong)
    if len(shape) == 2 and shape[1] == 1:
        return np.asarray(values)[:, 0]
    if len(shape) != 1:
        raise DataError(f"{name!r} must be one-dimensional, got shape {shape}.")
    return values
