"""The public schema: facts about the columns that everybody may know before a single row is read.

Dates are numbers: days since 1970-01-01, as R's as.numeric() of a Date has them. Times of day are fractions of a day;
times with a zone count in UTC, those without one as they are written.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

import numpy as np

from privreg.base import archive
from privreg.errors import SchemaError, located, meant, real, shown, warn
from privreg.schema.files import PARTS, checked_path, document, numbers_of, pairs, redcap, text_of, xlsform

EPOCH_TEXT: Final = "1970-01-01"  # Day 0
_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = timedelta(days=1)
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?", re.DOTALL)


def day_of(value: Any) -> float | None:
    """Days since 1970-01-01 of a date, a time or an ISO text; None if it is none, or no time at all (NaT)."""
    if isinstance(value, np.datetime64):
        out = float(days_of_times(np.array([value]))[0])
        return None if math.isnan(out) else out
    if isinstance(value, str):
        text = value.strip()
        if not _ISO.fullmatch(text):
            return None
        try:
            value = datetime.fromisoformat(text)
        except ValueError:  # a 30th of February, say
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return float(value.toordinal() - _EPOCH.toordinal())
    if not isinstance(value, datetime) or value != value:  # not a time is a time for Python
        return None
    try:
        plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # another day in UTC, before the first or after the last
        return None
    return float((plain - _EPOCH) / _DAY)


def days_of_times(values: np.ndarray) -> np.ndarray:
    """Days since 1970-01-01 of an array of NumPy's times; NaN where there is none."""
    if np.datetime_data(values.dtype)[0] in {"ps", "fs", "as"}:  # which NumPy can't compare with days
        values = values.astype("datetime64[ns]")
    return np.asarray((values - np.datetime64(0, "D")) / np.timedelta64(1, "D"))


def iso(day: float) -> str:
    """The day of a number as an ISO text, with the time if it isn't midnight; a number that no date has as it is."""
    try:
        time = _EPOCH + timedelta(days=day)
    except OverflowError:
        return f"{day:g}"
    return time.date().isoformat() if time == datetime(time.year, time.month, time.day) else time.isoformat()


RESPONSE_KINDS: Final = ("number", "binary", "levels")
"""Kinds of response: a number, 0/1, or one of the declared levels of a factor, in their order."""

MOST_LEVELS: Final = 50  # Levels that a response of kind "levels" may have
_POINT_ZEROS: Final = re.compile(r"([-+]?[0-9]{1,16})\.0+")
Pair = tuple[float, float]
Names = tuple[str, str]
LARGEST = 1e100
SMALLEST = 1e-100  # Below it, the span of bounds or an sd is a slip of the pen, and arithmetic inside fails
SMALLEST_EIGENVALUE = 1e-9  # Below it, declared correlations are taken for a matrix that is not positive definite


def _pair(kind: str, name: object, value: object) -> Pair:
    wanted = "(low, high)" if kind == "bounds" else "(mean, sd)"
    if getattr(value, "shape", None) == (2,):  # a Series, or an array
        value = np.asarray(value).tolist()
    two = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 2 else ()
    # anything but a pair could be the column itself, or one person's value in a mapping by person
    sized = f" of {len(value)}" if isinstance(value, list | tuple) else ""
    got = f"({', '.join(map(shown, two))})" if two else f"a {type(value).__name__}{sized}"
    pair = [real(v) for v in two]
    if kind == "bounds" and _are_dates(two):
        pair = [day_of(v) for v in two]
        if any(day_of(iso(v)) != v for v in pair if v is not None):
            raise SchemaError(f"{kind}[{name!r}] is {got}; give days of the years 1 to 9999, such as 2020-01-31.")
    if len(pair) != 2 or pair[0] is None or pair[1] is None:
        dates = "or of dates, two that exist, such as 2020-01-31"
        if kind == "moments":
            dates = f"for dates count days since {EPOCH_TEXT}, and give dates as bounds"
        elif any(isinstance(v, str) for v in two):
            dates += "; texts have levels="
        raise SchemaError(f"{kind}[{name!r}] is {got}; it must be a pair of numbers {wanted}, {dates}.")
    if any(LARGEST < abs(v) < math.inf for v in pair if v is not None):
        raise SchemaError(f"{kind}[{name!r}] is {got}; beyond {LARGEST:g} change the column's unit, in {wanted} too.")
    return pair[0], pair[1]


def _are_dates(value: object) -> bool:
    """True if bounds are two dates: of Python, NumPy or pandas, or ISO texts."""
    pair = isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 2
    return pair and all(day_of(v) is not None for v in value)  # type: ignore[attr-defined]


def _bound(name: str, value: object) -> Pair:
    low, high = _pair("bounds", name, value)
    said = f"bounds[{name!r}] = " + "({}, {})".format(*map(iso if _are_dates(value) else "{:g}".format, (low, high)))
    if not low <= high or low == math.inf or high == -math.inf:
        raise SchemaError(f"{said} is empty; write (low, high), low <= high.")
    if 0 < high - low < SMALLEST:
        raise SchemaError(f"{said} span less than {SMALLEST:g}; change the unit, or give low = high for a constant.")
    if math.isinf(low) != math.isinf(high):
        raise SchemaError(f"{said}: give two finite bounds or (-inf, inf).")
    return low, high


def _levels(name: str, value: object) -> tuple[Any, ...]:
    """Levels of a list, or an array, Index or Categorical's categories; what has no order is refused."""
    given = value
    held = getattr(value, "cat", None) if getattr(value, "dtype", None) == "category" else None
    # of a Categorical, its dtype or a Series of it; their values are rows
    value = getattr(value if held is None else held, "categories", value)
    if isinstance(value, str | bytes) or not (isinstance(value, Sequence) or len(getattr(value, "shape", ())) == 1):
        order = ", which has no order, and the first level is the reference" if isinstance(value, Set) else ""
        raise SchemaError(
            f"levels[{name!r}] must be a list of levels such as ['no', 'yes'], got {type(value).__name__}{order}."
        )
    plain: Any = value.tolist() if hasattr(value, "tolist") else value
    single = (v.item() if hasattr(v, "item") and getattr(v, "ndim", 1) == 0 else v for v in plain)
    got = tuple(normalize("NFC", v) if isinstance(v, str) else v for v in single)
    if len(got) < 2:
        raise SchemaError(f"levels[{name!r}] has {len(got)} level(s); a factor needs at least two.")
    if any(not isinstance(v, str | bool | int | float) or v in (math.inf, -math.inf) or v != v for v in got):
        raise SchemaError(f"levels[{name!r}]: levels are strings, booleans or finite numbers, and can't be NaN.")
    if len(set(got)) != len(got):
        rows = " Got a Series that is not of type category, whose values they are." * (type(given).__name__ == "Series")
        raise SchemaError(f"levels[{name!r}] names a level twice; list each level once.{rows}")
    if len({plain_text(str(v)) for v in got}) < len(got):
        warn(
            f"levels[{name!r}] has levels that differ only by blanks at their ends or by .0 after a whole number, and "
            "are told apart letter by letter; if they are one, list it once and mend the data."
        )
    return got


def plain_text(text: str) -> str:
    """A text in Unicode's form NFC, without blanks at its ends, and a whole number without zeros after its point."""
    text = normalize("NFC", text).strip()
    found = _POINT_ZEROS.fullmatch(text)
    return text if found is None else found[1]


def public_mapping(kind: str, value: object) -> Mapping[Any, Any]:
    """Return declarations of one kind if they are a mapping from columns; what is declared is not looked at."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SchemaError(
            f"{kind} must be a mapping from column name to its declaration, got {type(value).__name__}; "
            f"write {kind}={{'age': ...}}, of arrays by the names of their columns, such as 'y' and 'x1'."
        )
    for key in value:
        pair = isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)
        if isinstance(key, str) or (kind == "moments" and pair):
            continue
        also = ", and a correlation's key is a pair of them" if kind == "moments" else ""
        raise SchemaError(f"{kind} has the key {shown(key)}; column names are strings{also}.")
    return value


@dataclass(frozen=True)
class Schema:
    """Public declarations about the raw columns."""

    # Lowest and highest value of a numeric column; values outside are clamped on the device. (-inf, inf) together with
    # moments declares a column that is not clamped. Of a column in `dates` they are days since 1970-01-01
    bounds: Mapping[str, Pair] = field(default_factory=dict)
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # Levels of factors, the reference first
    moments: Mapping[str, Pair] = field(default_factory=dict)  # Public mean and sd, used only to scale a number inside
    leaked: tuple[str, ...] = ()  # Kinds of declaration, "levels" or "scale", taken from the rows with allow_leak=
    leaked_columns: tuple[str, ...] = ()  # The columns concerned
    private: tuple[str, ...] = ()  # Numbers whose location and scale a fit learns from reports; they are not clamped
    # Correlations of columns that have moments, used only to make their design columns uncorrelated inside. Each pair
    # once, names in alphabetical order; a pair left out counts as 0
    correlations: Mapping[Names, float] = field(default_factory=dict)
    carried: tuple[str, ...] = field(default=(), compare=False)  # Columns declared by the data, in attrs["privreg"]
    dates: tuple[str, ...] = ()  # Columns whose bounds were given as dates: values are days since 1970-01-01

    @classmethod
    def declare(
        cls, bounds: object = None, levels: object = None, moments: object = None, private: Sequence[str] = ()
    ) -> "Schema":
        """Check a user's declarations and freeze them; each is as the attribute of its name.

        Bounds may also be two dates (np.datetime64, pd.Timestamp, datetime.date or an ISO text), for a column of dates,
        and `moments` hold correlations by pair of names too, as in ``{"x": (0, 1), "z": (5, 2), ("x", "z"): 0.9}``.
        Raises SchemaError if a declaration is malformed, empty, given twice for one column, or contradicts another.
        """
        given = public_mapping("moments", moments)
        limits = public_mapping("bounds", bounds)
        lows = {name: _bound(name, value) for name, value in limits.items()}
        dates = tuple(sorted(name for name, value in limits.items() if _are_dates(value)))
        cats = {name: _levels(name, value) for name, value in public_mapping("levels", levels).items()}
        moms = {name: _pair("moments", name, value) for name, value in given.items() if isinstance(name, str)}
        for name, (mean, sd) in moms.items():
            if not (math.isfinite(mean) and math.isfinite(sd) and sd >= SMALLEST):
                said = f"moments[{name!r}] = ({mean:g}, {sd:g})"
                raise SchemaError(f"{said}: (mean, sd) must be finite with sd > 0, {SMALLEST:g} at least.")
        if both := sorted({*lows, *moms} & {*cats}):
            raise SchemaError(f"{', '.join(map(repr, both))} declared as a factor (levels=) and as a number; keep one.")
        if endless := [name for name, (low, _) in lows.items() if math.isinf(low) and name not in moms]:
            raise SchemaError(
                f"bounds[{endless[0]!r}] = (-inf, inf) leaves the column without a scale; give finite bounds or "
                f'moments={{{endless[0]!r}: (mean, sd)}} (a fit may leave it out with scaling="private").'
            )
        rhos: dict[Names, float] = {}  # each pair once, names in alphabetical order
        for (a, b), value in ((sorted(pair), v) for pair, v in given.items() if isinstance(pair, tuple)):
            said = f"moments[{a!r}, {b!r}]"
            if unknown := [name for name in (a, b) if name not in moms]:
                raise SchemaError(
                    f"{said} is the correlation of {unknown[0]!r}, which has no moments; "
                    f"give moments={{{unknown[0]!r}: (mean, sd)}} too, or leave the pair out."
                )
            if a == b or (a, b) in rhos:
                raise SchemaError(f"{said} is given twice, or of a column with itself; name two columns, or keep one.")
            if (rho := real(value)) is None or not -1 < rho < 1:
                raise SchemaError(
                    f"{said} is {shown(value)}; a correlation is a number above -1 and below 1. "
                    "Of two columns that determine each other, leave one out of the model."
                )
            rhos[a, b] = rho
        names = sorted({name for pair in rhos for name in pair})
        if names and np.linalg.eigvalsh(cls(correlations=rhos).correlation_matrix(names))[0] < SMALLEST_EIGENVALUE:
            raise SchemaError(
                f"the correlations of {', '.join(map(repr, names))} can't hold together (their matrix is not positive "
                "definite; a pair that is left out counts as 0); declare every pair of them, or values nearer to 0."
            )
        both = [name for name in private if name in lows or name in cats or name in moms]
        if both or len(set(private)) != len(private):
            fix = "can't be declared and have a scale that is learned privately, nor be named twice; keep one"
            raise SchemaError(f"{', '.join(map(repr, both or private))} {fix}.")
        return cls(lows, cats, moms, private=tuple(private), correlations=dict(sorted(rhos.items())), dates=dates)

    @classmethod
    def from_file(cls, path: str | Path) -> "Schema":
        """Read declarations from a small YAML or JSON file.

        It has the keys ``bounds``, ``levels``, ``moments``, each of them columns with their declaration, and
        ``correlations``, a list of ``[column, column, correlation]``; all may be left out. YAML needs PyYAML
        (``pip install ".[yaml]"``). Nothing in the file is executed. Raises SchemaError if it is missing or malformed,
        with the name of the file and the key.
        """
        file = checked_path(path)
        with located(file.name):
            return cls.from_document(document(file))

    @classmethod
    def from_redcap(cls, path: str | Path) -> "Schema":
        """Read bounds and levels from a REDCap data dictionary (CSV): choices by their codes, and validated ranges.

        Fields without both limits are left out, and a fit that uses one says what to declare.
        Raises SchemaError if the file can't be read, or is no dictionary.
        """
        return cls.declare(*redcap(path))

    @classmethod
    def from_xlsform(cls, path: str | Path) -> "Schema":
        """Read bounds and levels from an XLSForm of ODK or KoBo (.xlsx): choices, and limits that constraints set.

        Raises SchemaError as :meth:`from_redcap` does; MissingExtraError if openpyxl is not installed.
        """
        return cls.declare(*xlsform(path))

    @classmethod
    def from_document(cls, doc: Any, private: Sequence[str] = ()) -> "Schema":
        """Declarations of a document of plain values, each checked like a user's own.
        Raises SchemaError if it is no such document, or a declaration is malformed; the message names the key.
        """
        if not isinstance(doc, dict):
            raise SchemaError(
                f"it holds a {type(doc).__name__}; write keys among {', '.join(PARTS)}, each with columns."
            )
        if unknown := [key for key in doc if key not in PARTS]:
            known = f"the keys are {', '.join(PARTS)}.{meant(unknown[0], PARTS)}"
            raise SchemaError(f"there is no key {shown(unknown[0])} in a schema; {known}")
        parts = {kind: public_mapping(kind, doc.get(kind)) for kind in PARTS[:3]}
        empty = [f"{kind}[{n!r}]" for kind, columns in parts.items() for n, v in columns.items() if v in (None, [])]
        if empty:
            raise SchemaError(f"{empty[0]} is empty; fill it in, or leave the column out.")
        numbers = {kind: {k: numbers_of(v) for k, v in parts[kind].items()} for kind in ("bounds", "moments")}
        moments = {**numbers["moments"], **dict(pairs(doc.get("correlations")))}
        return cls.declare(numbers["bounds"], parts["levels"], moments, private)

    def to_file(self, path: str | Path) -> None:
        """Write the declarations to a file that :meth:`from_file` reads; .yaml, .yml or .json.

        Columns whose scale is learned privately are left out, as nothing about them is declared.
        Raises SchemaError if declarations were taken from the rows by ``allow_leak=``, or the suffix is another one;
        SavedFileError if the file can't be written.
        """
        self.refuse_leaked()
        file = checked_path(path)
        archive.write_bytes(file, text_of(self.to_json(), yaml=file.suffix.lower() != ".json").encode())

    def refuse_leaked(self) -> None:
        """Refuse what was learned from rows where only public declarations may be."""
        if self.leaked:
            raise SchemaError(
                f"{', '.join(map(repr, self.leaked_columns))} were taken from the rows by allow_leak= and are no "
                "public declaration; declare them yourself."
            )

    def declares(self, name: str) -> bool:
        """True if a column's kind is known: by a declaration, or as a number whose scale is learned privately."""
        return name in self.levels or self.is_number(name)

    def is_number(self, name: str) -> bool:
        """True if a column is declared numeric, or its scale is learned privately."""
        return self.is_declared_number(name) or name in self.private

    def is_declared_number(self, name: str) -> bool:
        """True if a column has bounds or moments."""
        return name in self.bounds or name in self.moments

    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric columns in the order of declaration; those with a private scale come last."""
        return tuple(dict.fromkeys([*self.bounds, *self.moments, *self.private]))

    def as_given(self) -> tuple[dict[str, Any], dict[str, Any], dict[Any, Any]]:
        """Bounds (of dates as ISO texts), levels, and moments with correlations, as :meth:`declare` takes them."""
        limits = {n: tuple(map(iso, pair)) if n in self.dates else pair for n, pair in self.bounds.items()}
        return limits, {**self.levels}, {**self.moments, **self.correlations}

    def bounds_text(self, name: str) -> tuple[str, str]:
        """Bounds of a column as they are printed: numbers in short form, dates as ISO texts."""
        low, high = self.bounds[name]
        return (iso(low), iso(high)) if name in self.dates else (f"{low:g}", f"{high:g}")

    def correlation_matrix(self, names: Sequence[str]) -> np.ndarray:
        """Declared correlations of the named columns, 0 where none is declared, shape (k, k)."""
        out = np.eye(len(names))
        for i, a in enumerate(names):
            for j, b in enumerate(names[:i]):
                out[i, j] = out[j, i] = self.correlations.get((min(a, b), max(a, b)), 0.0)
        return out

    def limits(self, name: str) -> Pair:
        """Clamping limits of a numeric column; infinite if only its moments, or nothing at all, are declared."""
        return self.bounds.get(name, (-math.inf, math.inf))

    def reference(self, name: str) -> Pair:
        """Limits of the public box that stands for a numeric column: bounds, or mean ± 2 sd.

        A column with a private scale has the box (1, 2), which says nothing about its values: there np.log,
        division and powers can be tried out.
        """
        low, high = self.limits(name)
        if math.isinf(low) and name in self.private:
            return 1.0, 2.0
        if math.isinf(low):
            mean, sd = self.moments[name]
            return mean - 2 * sd, mean + 2 * sd
        return low, high

    def scale(self, name: str) -> Pair:
        """Location and scale that map a numeric column to standard units inside: (mean, sd) or bounds to ±1.

        (0, 1) for a private scale, which is not known yet.
        """
        if name in self.private:
            return 0.0, 1.0
        if name in self.moments:
            return self.moments[name]
        low, high = self.bounds[name]
        return (low + high) / 2, (high - low) / 2 or 1.0

    def source_words(self, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Entry of a statement that says which of the columns' declarations came with the data; none if none did."""
        about = [c for c in columns if self.declares(c)]
        carried = [c for c in about if c in self.carried]
        which = "" if carried == about else f"of {', '.join(carried)}: "
        return (("declarations", f"{which}carried by the data, attrs['privreg']"),) if carried else ()

    def to_json(self) -> dict[str, Any]:
        """Represent the schema by JSON values."""
        limits, levels, _ = self.as_given()
        out = {
            "bounds": {
                k: [x if isinstance(x, str) or math.isfinite(x) else str(x) for x in v] for k, v in limits.items()
            },
            "levels": {k: list(v) for k, v in levels.items()},
            "moments": {k: list(v) for k, v in self.moments.items()},
            "leaked": list(self.leaked),
            "leaked_columns": list(self.leaked_columns),
            "private": list(self.private),
            "correlations": [[a, b, rho] for (a, b), rho in self.correlations.items()],
        }
        return out | ({"carried": list(self.carried)} if self.carried else {})

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> "Schema":
        """Rebuild a schema from :meth:`to_json`, checked like a user's own declaration."""
        plain = cls.from_document({kind: doc[kind] for kind in PARTS}, tuple(map(str, doc["private"])))
        carried = tuple(map(str, doc.get("carried", ())))
        return replace(plain, leaked=tuple(doc["leaked"]), leaked_columns=tuple(doc["leaked_columns"]), carried=carried)


def combined(schema: object, bounds: object, levels: object, moments: object) -> Schema:
    """Declarations of a schema, or of a file, and those given beside it, which take precedence column by column.
    Raises SchemaError if one makes a factor of what the other makes a number.
    """
    if schema is None:
        return Schema.declare(bounds, levels, moments)
    base = schema if isinstance(schema, Schema) else Schema.from_file(schema)  # type: ignore[arg-type]
    base.refuse_leaked()
    beside = {"bounds": bounds, "levels": levels, "moments": moments}
    given = {kind: public_mapping(kind, declared) for kind, declared in beside.items()}
    for kind, name in ((kind, name) for kind, names in given.items() for name in names):
        if base.is_declared_number(name) if kind == "levels" else name in base.levels:
            was, now = ("number", "factor") if kind == "levels" else ("factor", "number")
            raise SchemaError(f"{name!r} is a {was} in the schema and a {now} in {kind}=; mend the one or the other.")
    limits, cats, mean = base.as_given()
    mean = {k: v for k, v in mean.items() if isinstance(k, str) or k[::-1] not in given["moments"]}
    return Schema.declare({**limits, **given["bounds"]}, {**cats, **given["levels"]}, {**mean, **given["moments"]})
