"""The public schema: what everybody may know about the columns before a single row is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privreg.errors import SchemaError, real, shown

__all__ = ["Schema"]

Pair = tuple[float, float]
LARGEST = 1e100


def _pair(kind: str, name: object, value: object) -> Pair:
    wanted = "(low, high)" if kind == "bounds" else "(mean, sd)"
    two = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 2 else ()
    # anything but a pair could be the column itself, or one person's value in a mapping by person
    got = f"({', '.join(map(shown, two))})" if two else f"a {type(value).__name__}"
    pair = [real(v) for v in two]
    if len(pair) != 2 or pair[0] is None or pair[1] is None:
        raise SchemaError(f"{kind}[{name!r}] is {got}; it must be a pair of numbers {wanted}.")
    if any(LARGEST < abs(v) < math.inf for v in pair if v is not None):
        raise SchemaError(f"{kind}[{name!r}] is {got}; beyond {LARGEST:g} change the column's unit, in {wanted} too.")
    return pair[0], pair[1]


def _mapping(kind: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SchemaError(
            f"{kind} must be a mapping from column name to its declaration, got {type(value).__name__}; "
            f"write {kind}={{'age': ...}}."
        )
    for key in value:
        if not isinstance(key, str):
            raise SchemaError(f"{kind} has the key {shown(key)}; column names are strings.")
    return value


@dataclass(frozen=True)
class Schema:
    """Public declarations about the raw columns.

    Parameters
    ----------
    bounds : mapping of str to (float, float)
        Lowest and highest value of a numeric column. Values outside are clamped on the device.
        ``(-inf, inf)`` together with `moments` declares a column that is not clamped.
    levels : mapping of str to tuple
        Levels of a categorical column in order; the first is the reference.
    moments : mapping of str to (float, float)
        Public mean and standard deviation of a numeric column, used only to scale it inside.
    leaked : tuple of str
        Kinds of declaration ("levels", "scale") that were taken from the data because the user
        opted out with ``allow_leak=``.
    leaked_columns : tuple of str
        The columns concerned.
    """

    bounds: Mapping[str, Pair] = field(default_factory=dict)
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    moments: Mapping[str, Pair] = field(default_factory=dict)
    leaked: tuple[str, ...] = ()
    leaked_columns: tuple[str, ...] = ()

    @classmethod
    def declare(cls, bounds: object = None, levels: object = None, moments: object = None) -> Schema:
        """Check a user's declarations and freeze them.

        Raises
        ------
        SchemaError
            If a declaration is malformed, empty, or given twice for one column.
        """
        lows: dict[str, Pair] = {}
        for name, value in _mapping("bounds", bounds).items():
            low, high = _pair("bounds", name, value)
            if math.isnan(low) or math.isnan(high) or low > high:
                raise SchemaError(f"bounds[{name!r}] = ({low:g}, {high:g}) is empty; write (low, high), low <= high.")
            if math.isinf(low) != math.isinf(high) or low == math.inf or high == -math.inf:
                raise SchemaError(f"bounds[{name!r}] = ({low:g}, {high:g}): give two finite bounds or (-inf, inf).")
            lows[name] = (low, high)
        cats: dict[str, tuple[Any, ...]] = {}
        for name, value in _mapping("levels", levels).items():
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise SchemaError(
                    f"levels[{name!r}] must be a list of levels such as ['no', 'yes'], got {type(value).__name__}."
                )
            got = tuple(v.item() if hasattr(v, "item") and getattr(v, "ndim", 1) == 0 else v for v in value)
            if len(got) < 2:
                raise SchemaError(f"levels[{name!r}] has {len(got)} level(s); a factor needs at least two.")
            if not all(isinstance(v, str | bool | int | float) for v in got):
                raise SchemaError(f"levels[{name!r}]: levels are strings, booleans or numbers.")
            if any(isinstance(v, float) and not math.isfinite(v) for v in got):
                raise SchemaError(f"levels[{name!r}]: a level can't be NaN or infinite; leave it out.")
            if len(set(got)) != len(got):
                raise SchemaError(f"levels[{name!r}] names a level twice; list each level once.")
            cats[name] = got
        moms: dict[str, Pair] = {}
        for name, value in _mapping("moments", moments).items():
            mean, sd = _pair("moments", name, value)
            if not (math.isfinite(mean) and math.isfinite(sd) and sd > 0):
                raise SchemaError(f"moments[{name!r}] = ({mean:g}, {sd:g}): (mean, sd) must be finite with sd > 0.")
            moms[name] = (mean, sd)
        both = sorted((set(lows) | set(moms)) & set(cats))
        if both:
            raise SchemaError(
                f"{', '.join(map(repr, both))} declared as a factor (levels=) and as a number (bounds= or moments=); "
                "keep one."
            )
        for name, (low, _) in lows.items():
            if math.isinf(low) and name not in moms:
                raise SchemaError(
                    f"bounds[{name!r}] = (-inf, inf) leaves the column without a scale; "
                    f"give moments={{{name!r}: (mean, sd)}} or finite bounds."
                )
        return cls(lows, cats, moms)

    def numeric(self) -> tuple[str, ...]:
        """Names of the columns declared numeric, in the order of declaration."""
        return tuple(dict.fromkeys([*self.bounds, *self.moments]))

    def limits(self, name: str) -> Pair:
        """Clamping limits of a numeric column; infinite if only its moments are declared."""
        return self.bounds.get(name, (-math.inf, math.inf))

    def reference(self, name: str) -> Pair:
        """Limits of the public box that stands for a numeric column: bounds, or mean ± 2 sd."""
        low, high = self.limits(name)
        if math.isinf(low):
            mean, sd = self.moments[name]
            return mean - 2 * sd, mean + 2 * sd
        return low, high

    def scale(self, name: str) -> Pair:
        """Location and scale that map a numeric column to standard units inside: (mean, sd) or bounds to ±1."""
        if name in self.moments:
            return self.moments[name]
        low, high = self.bounds[name]
        return (low + high) / 2, (high - low) / 2 or 1.0

    def to_json(self) -> dict[str, Any]:
        """Represent the schema by JSON values."""
        return {
            "bounds": {k: [_out(x) for x in v] for k, v in self.bounds.items()},
            "levels": {k: list(v) for k, v in self.levels.items()},
            "moments": {k: list(v) for k, v in self.moments.items()},
            "leaked": list(self.leaked),
            "leaked_columns": list(self.leaked_columns),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> Schema:
        """Rebuild a schema from :meth:`to_json`, checked like a user's own declaration."""
        bounds = {k: (float(v[0]), float(v[1])) for k, v in doc["bounds"].items()}
        moments = {k: (float(v[0]), float(v[1])) for k, v in doc["moments"].items()}
        plain = cls.declare(bounds, doc["levels"], moments)
        leaked, columns = tuple(doc["leaked"]), tuple(doc["leaked_columns"])
        return cls(plain.bounds, plain.levels, plain.moments, leaked, columns)


def _out(x: float) -> float | str:
    return x if math.isfinite(x) else str(x)
