"""The design of a model given as arrays: named numeric columns, each declared in the public schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from privreg.data.cells import Flags, Floats, plain_table, unmasked
from privreg.data.columns import (
    Encoded,
    all_finite,
    beyond,
    clamped,
    complete_rows,
    level_codes,
    log_exposure,
    numbers,
    same_rows,
    settled,
    zero_one,
)
from privreg.data.sources.open import as_frame
from privreg.errors import DataError, SavedFileError, SchemaError, choose, quietly
from privreg.formula.affine import clip_rows
from privreg.formula.language.allowlist import check_exposure, check_levels, misfit, undeclared, undeclared_offset
from privreg.formula.probe import check_rank, probe_rows, public_constant
from privreg.formula.response import unclamped
from privreg.formula.terms import DesignTerm
from privreg.options.table import check
from privreg.schema.declarations import RESPONSE_KINDS, Schema

_CONSTANT_NAMES = ("const", "Intercept")
_OFFSET, _EXPOSURE = "offset", "exposure"


@dataclass(frozen=True)
class ArrayDesign:
    """A frozen design of named array columns; the attributes are those of :class:`privreg.formula.design.Design`.

    A column named "const" or "Intercept", or one with bounds (v, v), is a declared constant: it is set to
    1 (or v) whatever the array holds, and never looked for in the data.
    """

    exog_names: tuple[str, ...]
    endog_name: str
    schema: Schema
    has_offset: bool
    has_exposure: bool
    kind: str
    limits: Floats = field(compare=False, repr=False)  # (2, p): lowest and highest value of each column
    columns: tuple[str, ...] = field(compare=False, repr=False)
    probe: Floats = field(compare=False, repr=False)
    constant: Floats | None = field(compare=False, repr=False)
    endog_limits: tuple[float, float] = field(compare=False)

    def __hash__(self) -> int:
        return hash((self.exog_names, self.endog_name, self.has_offset, self.has_exposure, self.kind))

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(array_design, offset=self.has_offset, exposure=self.has_exposure, kind=self.kind)
        return make, (self.exog_names, self.endog_name, self.schema)

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
    def terms(self) -> tuple[DesignTerm, ...]:
        """Each column is a term of its own."""
        pairs = enumerate(zip(self.exog_names, self.sources, strict=True))
        return tuple(DesignTerm(name, (j,), made_of) for j, (name, made_of) in pairs)

    @property
    def endog_sources(self) -> tuple[str, ...]:
        """Raw columns that the response is made from: itself."""
        return (self.endog_name,)

    @property
    def endog_bare(self) -> str | None:
        """Raw numeric column that the response is, or None for a factor."""
        return None if self.endog_name in self.schema.levels else self.endog_name

    @property
    def endog_levels(self) -> tuple[Any, ...] | None:
        """Declared levels of the response, in order, if it is a factor."""
        return self.schema.levels.get(self.endog_name)

    @property
    def offset(self) -> str | None:
        """Name under which the offset is declared, or None."""
        return _OFFSET if self.has_offset else None

    @property
    def exposure(self) -> str | None:
        """Name under which the exposure is declared, or None."""
        return _EXPOSURE if self.has_exposure else None

    @property
    def formula(self) -> None:
        """None: there is no formula."""
        return None

    def encode(self, batch: Sequence[Any], missing: str = "raise") -> Encoded:
        """Encode a batch ``(endog, exog[, offset[, exposure]])`` of arrays, clamped to the bounds.

        `missing` is as for :meth:`privreg.formula.design.Design.encode`.

        Raises
        ------
        DataError
            The arrays don't fit each other or the names, or hold something that is not a finite number.
        """
        gaps = check("local.formula", "missing", missing) != "raise"
        endog, exog, offset, exposure = self._parts(batch)
        y = self._endog(_vector(endog, self.endog_name), gaps)
        x = self._exog(exog, clamp=True, gaps=gaps)
        more = [
            clamped(numbers(_vector(raw, name), name, gaps=gaps), self.schema.limits(name))
            for raw, name in ((offset, _OFFSET), (exposure, _EXPOSURE))
            if raw is not None
        ]
        if any(len(v) != len(x) for v in (y, *more)):
            raise DataError("endog, exog, offset and exposure differ in their number of rows.")
        if self.has_exposure:
            more[-1] = np.log(more[-1])  # the bounds are positive
        rows = Encoded(y, x, np.array(np.add.reduce(more)) if more else None)
        return settled(rows, complete_rows((x, *more)), missing) if gaps else rows

    def _parts(self, batch: Any) -> tuple[Any, Any, Any, Any]:
        """Endog, exog, offset and exposure of a batch; the last two are there if they were declared."""
        if not isinstance(batch, tuple | list) or not 2 <= len(batch) <= 4:
            raise DataError(
                "rows of an array model come as (endog, exog), (endog, exog, offset) or "
                f"(endog, exog, offset, exposure), got {_kind(batch)}."
            )
        endog, exog, offset, exposure = (*batch, None, None)[:4]
        form = ["endog", "exog"]
        if self.has_exposure:
            form += [_OFFSET if self.has_offset else "None", _EXPOSURE]
        elif self.has_offset:
            form += [_OFFSET]
        for given, name, declared in ((offset, _OFFSET, self.has_offset), (exposure, _EXPOSURE, self.has_exposure)):
            if (given is not None) != declared:
                how = "with" if declared else "without"
                raise DataError(f"the model was declared {how} {name}=, so each batch is ({', '.join(form)}).")
        same_rows(endog=endog, exog=exog, offset=offset, exposure=exposure)
        return endog, exog, offset, exposure

    def encode_exog(self, exog: Any, *, clamp: bool = False) -> Floats:
        """Encode a 2-D array of covariates; declared constants are set, other columns clamped on request."""
        return self._exog(exog, clamp=clamp, gaps=False, new=True)

    def _exog(self, exog: Any, *, clamp: bool, gaps: bool, new: bool = False) -> Floats:
        x = _array(exog, "exog", partial(plain_table, width=None if new else len(self.exog_names)))
        if x.ndim != 2 or x.shape[1] != len(self.exog_names):
            raise DataError(
                f"exog must have two dimensions and {len(self.exog_names)} columns "
                f"({', '.join(self.exog_names)}), got shape {x.shape}."
            )
        if x.dtype.kind not in "biuf":  # columns of several types, texts, dates
            x = np.column_stack([numbers(x[:, j], name, gaps=gaps, new=new) for j, name in enumerate(self.exog_names)])
        with np.errstate(all="ignore"):  # a warning would tell of one value
            out = np.array(x, dtype=np.float64, order="C")
        if not all_finite(out):
            finite = np.isfinite(out)
            for j in np.flatnonzero(~finite.all(axis=0)):
                out[:, j] = numbers(out[:, j], self.exog_names[j], gaps=gaps, new=new)  # names the column at fault
        low, high = self.limits
        if clamp:
            clip_rows(out, low, high)
            return out
        fixed = low == high
        out[:, fixed] = low[fixed]
        return out

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns but the constant."""
        return tuple(name for made_of in self.sources for name in made_of)

    def encode_covariates(self, frame: Any) -> Floats:
        """Encode public rows of these columns, clamped to their bounds."""
        return self.encode_exog(self._matrix(frame), clamp=True)

    def _matrix(self, frame: Any, gaps: bool = False) -> Floats:
        """Columns of a frame as a matrix, ones for a constant that it has not."""
        ones, how = np.ones(len(frame)), {"gaps": gaps, "new": True}
        return np.column_stack([numbers(frame[n], n, **how) if n in frame else ones for n in self.exog_names])

    def read_new(self, new: Any) -> tuple[Any, Any]:
        """Rows for prediction, and their index; see :meth:`privreg.formula.design.Design.read_new`."""
        exog, *added = new if isinstance(new, tuple) and 2 <= len(new) <= 3 else (new,)
        rows = (as_frame(exog), *added)
        labels = same_rows(**dict(zip(("exog", _OFFSET, _EXPOSURE), rows, strict=False)))
        return rows if added else rows[0], labels

    def encode_new(self, new: Any, *, gaps: bool = False) -> tuple[Floats, Floats]:
        """Covariates and offset for prediction, unclamped; with `gaps` NaN in rows that can't be used, else an error.

        `new` is an array or DataFrame of the covariates, or ``(exog, offset)``, or ``(exog, offset, exposure)``.
        """
        most = 3 if self.has_exposure else 1 + self.has_offset
        form = ("exog", _OFFSET if self.has_offset else "None", _EXPOSURE)[:most]
        exog, offset, exposure = (
            (*new, None)[:3] if isinstance(new, tuple) and len(new) == most > 1 else (new, None, None)
        )
        if (offset is not None, exposure is not None) != (self.has_offset, self.has_exposure):
            raise DataError(f"new rows of this model are ({', '.join(form)}): every row needs all of them.")
        if hasattr(exog, "columns"):
            lacking = [n for n in self.exog_names if n not in exog.columns and n not in _CONSTANT_NAMES]
            if lacking:
                raise DataError(f"the new rows lack the column {lacking[0]!r}; needed: {', '.join(self.exog_names)}.")
            twice = [n for n in self.exog_names if list(exog.columns).count(n) > 1]
            if twice:
                raise DataError(f"the new rows have more than one column named {twice[0]!r}; rename or drop one.")
            exog = self._matrix(exog, gaps)
        x = self._exog(exog, clamp=False, gaps=gaps, new=True)
        total = np.zeros(len(x))
        for raw, name in ((offset, _OFFSET), (exposure, _EXPOSURE)):
            if raw is None:
                continue
            values = numbers(_vector(raw, name), name, new=True, gaps=gaps)
            if len(values) != len(x):
                raise DataError(f"the new rows are {len(x)} but the {name} has {len(values)}; give one number a row.")
            total += log_exposure(values, name) if name == _EXPOSURE else values
        x[np.isnan(x).any(axis=1) | np.isnan(total)] = np.nan
        return x, total

    def outside(self, new: Any, x: Floats) -> tuple[str, ...]:
        """Covariates of rows for prediction, as given and encoded, that lie outside their declared bounds somewhere."""
        del new
        bounded = [(j, n) for j, n in enumerate(self.exog_names) if n in self.schema.bounds]
        return tuple(n for j, n in bounded if beyond(x[:, j], self.schema.limits(n)).any())

    def clamps(self, batch: Sequence[Any], names: Sequence[str]) -> Flags:
        """Whether raw rows lie outside the declared bounds of these columns, and so are clamped; shape (n, m)."""
        endog, exog, offset, exposure = self._parts(batch)
        x = self._exog(exog, clamp=False, gaps=True)
        own = {self.endog_name: endog, _OFFSET: offset, _EXPOSURE: exposure}
        held = {n: x[:, j] for j, n in enumerate(self.exog_names)}
        values = [held[n] if n in held else numbers(_vector(own[n], n), n, gaps=True) for n in names]
        return np.column_stack([beyond(v, self.schema.limits(n)) for n, v in zip(names, values, strict=True)])

    def _endog(self, raw: Any, gaps: bool) -> Floats:
        name = self.endog_name
        if name in self.schema.levels:
            codes = level_codes(raw, name, self.schema.levels[name], gaps=gaps)
            values = np.where(codes < 0, np.nan, codes)
        else:
            values = np.array(clamped(numbers(raw, name, gaps=gaps), self.schema.limits(name)))
        return zero_one(values, name, gaps=gaps) if self.kind == "binary" else values

    def to_json(self) -> dict[str, Any]:
        """Represent the design by JSON values."""
        return {
            "kind": "arrays",
            "exog_names": list(self.exog_names),
            "endog_name": self.endog_name,
            "schema": self.schema.to_json(),
            "offset": self.has_offset,
            "exposure": self.has_exposure,
            "response": self.kind,
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> ArrayDesign:
        """Rebuild a design from :meth:`to_json`."""
        if doc.get("kind") != "arrays":
            raise SavedFileError(f"expected a saved array design, got kind {doc.get('kind')!r}.")
        schema = Schema.from_json(doc["schema"])
        more: dict[str, Any] = {"offset": bool(doc["offset"]), "exposure": bool(doc["exposure"])}
        return array_design(doc["exog_names"], doc["endog_name"], schema, **more, kind=str(doc["response"]))


class Held(NamedTuple):
    """Arrays as the user gave them, with names; values are not looked at."""

    names: tuple[str, ...]
    endog_name: str
    endog: Any
    exog: Any
    offset: Any
    exposure: Any = None

    def numeric(self, kind: str) -> list[str]:
        """Columns that need a scale: all but declared constants and a response that is not a number."""
        out = [n for n in self.names if n not in _CONSTANT_NAMES]
        return [*out, self.endog_name] if kind == "number" else out


def read_arrays(
    endog: Any,
    exog: Any,
    offset: Any,
    exog_names: Sequence[str] | None,
    endog_name: str | None,
    exposure: Any = None,
) -> Held:
    """Name the columns of arrays or pandas objects and check that their shapes fit.

    Raises
    ------
    DataError
        The arrays don't fit each other, or the names don't fit them.
    """
    if endog is None or exog is None:
        raise DataError("endog and exog must both be given; to describe a model without data use from_formula.")
    exog = as_frame(exog)
    if exog_names is None and hasattr(exog, "columns"):
        exog_names = [str(c) for c in exog.columns]
    if endog_name is None:
        label = next(iter(endog.columns)) if np.shape(getattr(endog, "columns", ())) == (1,) else None
        label = getattr(endog, "name", None) if label is None else label
        endog_name = str(label) if isinstance(label, str | int) and label else "y"
    if not isinstance(endog_name, str):
        raise DataError(f"endog_name must be a string, got {type(endog_name).__name__}.")
    width = None if exog_names is None else len(_names(exog_names))
    x = _array(exog, "exog", partial(plain_table, width=width))
    x = x[:, None] if x.ndim == 1 else x
    y = _vector(_array(endog, endog_name, _column), endog_name)
    if x.ndim != 2 or x.shape[1] == 0:
        raise DataError(f"exog must have two dimensions and at least one column, got shape {x.shape}.")
    names = tuple(f"x{j + 1}" for j in range(x.shape[1])) if exog_names is None else _names(exog_names)
    if len(names) != x.shape[1]:
        raise DataError(f"exog has {x.shape[1]} columns but {len(names)} names; exog_names needs one string a column.")
    o, e = (
        None if given is None else _vector(_array(given, name, _column), name)
        for given, name in ((offset, _OFFSET), (exposure, _EXPOSURE))
    )
    more = {name: len(v) for name, v in ((_OFFSET, o), (_EXPOSURE, e)) if v is not None}
    if len({len(y), len(x), *more.values()}) > 1:
        rest = "".join(f", {name} {n}" for name, n in more.items())
        raise DataError(f"endog has {len(y)} rows, exog {len(x)}{rest}; they need the same number, one row a person.")
    same_rows(endog=endog, exog=exog, offset=offset, exposure=exposure)
    return Held(names, endog_name, y, x, o, e)


def check_array_levels(schema: Schema, endog_name: str) -> None:
    """Refuse levels of anything but the response of a model that is given as arrays.

    Raises
    ------
    SchemaError
        If another name has levels.
    """
    others = [name for name in schema.levels if name != endog_name]
    if others:
        raise SchemaError(
            f"levels[{others[0]!r}]: levels= is for formulas; arrays hold numbers, except for the response "
            f"({endog_name!r} here): code factors first, or use from_formula."
        )


def array_design(
    exog_names: Sequence[str],
    endog_name: str,
    schema: Schema,
    *,
    offset: bool = False,
    exposure: bool = False,
    kind: str = "number",
) -> ArrayDesign:
    """Build the public design of named array columns.

    Parameters
    ----------
    exog_names : sequence of str
        Names of the columns of exog, each in bounds, moments or the schema's private columns, except "const" or
        "Intercept", which is the constant 1.
    endog_name : str
        Name of the response, declared too unless it is 0/1.
    schema : Schema
    offset : bool
        An offset array is given with each batch; its bounds are declared under the name "offset".
    exposure : bool
        An exposure array is given with each batch, whose logarithm is added to the offset; its bounds, which are
        positive, are declared under the name "exposure".
    kind : {"number", "binary", "levels"}
        What the response is; "levels" needs its levels declared, 2 to 50 of them.

    Raises
    ------
    SchemaError
        A column is not declared as a number.
    FormulaError
        The columns are linearly dependent whatever the data.
    """
    choose("kind", kind, RESPONSE_KINDS)
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
            raise SchemaError(undeclared(name, schema, dates=False))
    if exposure:
        check_exposure(_EXPOSURE, schema)
    if schema.dates:
        raise SchemaError(
            f"bounds[{schema.dates[0]!r}] are dates, and arrays hold numbers; use from_formula() for columns of dates."
        )
    limits = np.array([full.limits(name) for name in names]).T
    rows = probe_rows(names, full)
    probe = np.column_stack([rows[name] for name in names])
    check_rank(probe, names)
    constant = public_constant(probe, names, [(name,) for name in names], full)
    columns = (endog_name, *names, *([_OFFSET] if offset else []), *([_EXPOSURE] if exposure else []))
    span = _endog_limits(endog_name, schema, kind)
    own = unclamped(schema, endog_name, kind)
    return ArrayDesign(names, endog_name, own, offset, exposure, kind, limits, columns, probe, constant, span)


def _endog_limits(name: str, schema: Schema, kind: str) -> tuple[float, float]:
    if kind == "levels":
        if schema.is_declared_number(name):
            raise SchemaError(
                f"the response {name!r} is declared as a number, but this family models levels; give "
                f"levels={{{name!r}: [...]}} in place of bounds or moments, or choose a family for numbers."
            )
        check_levels(name, schema)
    if name in schema.levels:
        if wrong := misfit(name, schema.levels[name], kind):
            raise SchemaError(f"the response {name!r} {wrong}")
        return 0.0, len(schema.levels[name]) - 1.0
    if not schema.is_number(name):
        if kind != "binary":
            raise SchemaError(undeclared(name, schema, dates=False))
        return 0.0, 1.0
    limits = schema.limits(name)
    if kind == "binary" and limits != (0.0, 1.0):
        raise SchemaError(
            f"a binary response is 0 or 1; declare bounds={{{name!r}: (0, 1)}} or leave them out; of a column of two "
            f"other values levels={{{name!r}: [...]}}; or choose a family for numbers, such as family='huber'."
        )
    return limits


def _kind(batch: Any) -> str:
    return f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, tuple | list) else "")


def _names(exog_names: Any) -> tuple[str, ...]:
    wrong = DataError("exog_names must be a list of strings, one for each column of exog.")
    names = () if isinstance(exog_names, str) else quietly(lambda: tuple(exog_names), wrong)
    if not names or not all(isinstance(n, str) for n in names):
        raise wrong
    return names


_column = partial(plain_table, width=1)


def _array(values: Any, name: str, read: Callable[[Any], Any]) -> Any:
    """Array of what the user gave; ragged lists and the like are refused without quoting them."""
    if isinstance(values, str):
        raise DataError("formulas go to PrivateOnlineRegression.from_formula(formula, data); here go arrays.")
    values = unmasked(values)
    wrong = DataError(f"{name!r} can't be read as an array; give rows of equal length that hold numbers.")
    return quietly(lambda: values.to_numpy() if hasattr(values, "to_numpy") else read(values), wrong)


def _vector(values: Any, name: str) -> Any:
    values = unmasked(values)
    wrong = DataError(f"{name!r} is ragged; give one number a row.")
    if isinstance(values, list | tuple):
        values = quietly(lambda: _column(values), wrong)
    shape = quietly(lambda: np.shape(values), wrong)
    if len(shape) == 2 and shape[1] == 1:
        return np.asarray(values)[:, 0]
    if len(shape) != 1:
        formula = "; formulas go to PrivateOnlineRegression.from_formula(formula, data)"
        hint = {0: formula, 2: "; the response comes first, then the covariates"}.get(len(shape), "")
        raise DataError(f"{name!r} must be one-dimensional, got shape {shape}{hint}.")
    return values
