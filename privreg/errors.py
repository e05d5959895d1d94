"""Errors and warnings a user meets.

Every message says what was got, what is allowed and how to mend it. None of them quotes a value read
from the private rows: text that came from another library is replaced (``raise ... from None``), never
passed on.
"""

import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

__all__ = [
    "BudgetError", "DataError", "FormulaError", "InferenceError", "MissingExtraError", "NotPrivateError", "OptionError",
    "PrivacyLeakError", "PrivacyLeakWarning", "PrivregError", "PrivregWarning", "ReliabilityWarning", "SavedFileError",
    "SchemaError", "StreamError", "StudyError", "UnsupportedArgumentError", "as_named", "choose", "equation", "flag",
    "interval_level", "level", "located", "meant", "nearest", "outside", "plain_name", "quietly", "real", "refuse",
    "shown", "warn", "whole",
]  # fmt: skip


class PrivregError(Exception):
    """Base of every error raised on purpose by privreg."""


class FormulaError(PrivregError, ValueError):
    """The formula can't be read, or asks for something that is not a model."""


class PrivacyLeakError(PrivregError, ValueError):
    """The request would let values learned from raw rows leave the device side."""


class SchemaError(PrivregError, ValueError):
    """A public declaration (bounds, levels, moments) is missing, malformed or contradicted."""


class BudgetError(PrivregError, ValueError):
    """A privacy budget is missing, given twice, or out of range."""


class OptionError(PrivregError, ValueError):
    """An option has a value that is not among its choices or outside its range."""


class DataError(PrivregError, ValueError):
    """The rows or the file that hold them can't be used."""


class InferenceError(PrivregError, ValueError):
    """An inference method can't do what was asked of it."""


class StudyError(PrivregError, RuntimeError):
    """A study in the field can't be reached, its plan can't be fitted, or what its server says can't be verified."""


class SavedFileError(PrivregError, ValueError):
    """A saved file is missing, damaged, or of another kind."""


class MissingExtraError(PrivregError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class StreamError(PrivregError, RuntimeError):
    """A fit in progress can't go on without risking that noise is used twice."""


class NotPrivateError(PrivregError, AttributeError):
    """A statsmodels attribute that would need the raw rows."""


class UnsupportedArgumentError(PrivregError, TypeError):
    """A statsmodels argument that has no private meaning."""


class PrivregWarning(UserWarning):
    """Something worth knowing that does not weaken the privacy guarantee."""


class ReliabilityWarning(PrivregWarning):
    """Some rows of the results should not be relied on; it names them and why."""


class PrivacyLeakWarning(UserWarning):
    """The user opted out of a part of the privacy guarantee."""


T = TypeVar("T")
_LONGEST_QUOTE = 60

_TABLES = json.loads(Path(__file__).with_name("options").joinpath("elsewhere.json").read_text("utf-8"))
_ELSEWHERE = {name: ours for ours, names in _TABLES["choices"].items() for name in names.split()}
"""Other libraries' names of a choice, or of several."""


def __dir__() -> list[str]:
    return sorted(__all__)


def shown(value: object) -> str:
    """Quote an option's value for a message: a number or a short text; of anything larger, only its type.

    A column given by mistake as an option would otherwise be printed, rows, index and all.

    Examples
    --------
    >>> shown(-1), shown("tunning"), shown([3.1, 2.7])
    ('-1', "'tunning'", '<list>')
    """
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, str):
        return repr(str(value)) if len(value) <= _LONGEST_QUOTE else f"{str(value[:_LONGEST_QUOTE])!r}..."
    if isinstance(value, int) and abs(value) < 10**_LONGEST_QUOTE:
        return str(int(value))
    number = real(value)
    return f"<{type(value).__name__}>" if number is None else repr(number)


def real(value: object) -> float | None:
    """Return a real number as float (infinite beyond the largest), and None for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except ValueError:  # a decimal number that signals
        return math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def refuse(reasons: Mapping[str, object], error: type[PrivregError] = UnsupportedArgumentError) -> None:
    """Raise an error with the first of these reasons that is true."""
    for words, true in reasons.items():
        if true:
            raise error(f"{words}.")


def whole(name: str, got: object, low: int, high: float = math.inf) -> int:
    """Return a whole number from `low` to `high`; else raise an OptionError."""
    if isinstance(got, bool) or not isinstance(got, Integral) or not low <= int(got) <= high:
        most = " or more" if high == math.inf else f" to {high:,}"
        raise OptionError(f"{name}={shown(got)} must be a whole number, {low:,}{most}.")
    return int(got)


def number(
    name: str, got: object, must: str, low: float = 0.0, high: float = math.inf, *,
    closed: bool = False, error: type[PrivregError] = OptionError,
) -> float:  # fmt: skip
    """Return a number above `low` (allowed if `closed`) and below `high`; else raise the error, with what it `must`."""
    if (found := real(got)) is None or not (low < found < high or (closed and found == low)):
        raise error(f"{name}={shown(got)} must {must}.")
    return found


def level(alpha: object) -> float:
    """Return `alpha`, one minus the level of an interval, if it lies in (0, 1); else raise an OptionError."""
    return number("alpha", alpha, "lie in (0, 1); 0.05 gives 95% intervals", high=1.0)


def interval_level(alpha: object) -> float:
    """Return `alpha` of intervals that are shown; warn above 0.5, which users of other packages give as coverage."""
    number = level(alpha)
    if number > 0.5:
        warn(
            f"alpha={number:.6g} gives {100 * (1 - number):.6g}% intervals; for {100 * number:.6g}% give "
            f"alpha={1 - number:.6g}.",
        )
    return number


def warn(text: str, category: type[Warning] = PrivregWarning) -> None:
    """Warn at the line outside the package that called it, however deep inside the reason is found."""
    warnings.warn(text, category, stacklevel=outside()[1] + 1)


def outside() -> tuple[FrameType | None, int]:
    """First frame outside the package and its kit, None if another language calls, and its level above the caller."""
    frame: FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, depth = frame.f_back, depth + 1
    return frame, depth


_INSIDE: Final = ("privreg", "privreg_field", "contextlib", "functools")  # Packages whose frames aren't the caller's


def flag(name: str, got: object) -> bool:
    """Return `got` if it is True or False; else raise an OptionError."""
    if not isinstance(got, bool):
        raise OptionError(f"{name}={shown(got)} must be True or False.")
    return got


def choose(name: str, got: object, allowed: Iterable[str]) -> str:
    """Return `got`, what a user gave for the option `name`, if it is one of `allowed`.
    Raises OptionError if it isn't; the message lists the choices and the nearest one.
    """
    choices = list(allowed)
    if isinstance(got, str) and (named := as_named(got, choices)) in choices:
        return named
    near = []
    if isinstance(got, str):
        known = [c for c in _ELSEWHERE.get(got.lower(), "").split(" or ") if c in choices]
        near = known or [c for c in [nearest(got, choices)] if c is not None]
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    listed = ", ".join(repr(c) for c in choices)
    given = f"{name} {shown(got)}" if name.startswith("the ") else f"{name}={shown(got)}"
    raise OptionError(f"{given} is not known; {f'choose one of {listed}.{hint}' if choices else 'there is none.'}")


def plain_name(name: str) -> str:
    """A name in the form in which names are compared: no blanks beside signs, and one kind of quotes.

    Examples
    --------
    >>> plain_name("I(age ** 2)"), plain_name('a : C(g)[T.high  risk]')
    ('I(age**2)', 'a:C(g)[T.high risk]')
    """
    return re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(name.split())).replace('"', "'")


def as_named(got: str, names: Iterable[object]) -> str:
    """The one of the names that was typed, but perhaps for blanks and quotes; the text as it is if there is none."""
    known = {n for n in names if isinstance(n, str)}
    same = set() if got in known else {n for n in known if plain_name(n) == plain_name(got)}
    return same.pop() if len(same) == 1 else got


NEAR: Final = 0.66
"""Likeness from which on two names may be one misspelt: "bim" is near "bmi", and "charges" isn't near "age"."""


def nearest(got: str, choices: Iterable[object]) -> str | None:
    """The one of the names that was meant, if one is near enough; case, and a name cut short, don't count.

    Examples
    --------
    >>> nearest("charges", ["age", "bmi"]), nearest("bim", ["age", "bmi"]), nearest("rating", ["driver_rating"])
    (None, 'bmi', 'driver_rating')
    """
    names = [c for c in choices if isinstance(c, str)]
    low = got.lower()
    lowered: dict[str, str] = {}
    for name in names:
        lowered.setdefault(name.lower(), name)
    near = get_close_matches(low, lowered, n=1, cutoff=NEAR)
    if not near and len(low) >= SHORTEST_PART:
        near = [n for n in lowered if n.startswith(low)] or [n for n in lowered if low in re.split(r"\W|_", n)]
    return lowered[near[0]] if near else None


def meant(got: object, choices: Iterable[object]) -> str:
    """A question after a sentence, whether the nearest name was meant; "" if none is near."""
    near = nearest(str(got), choices)
    return "" if near is None else f" Did you mean {near!r}?"


SHORTEST_PART: Final = 3  # Letters of a name cut short, or of one of its words, from which on it is known again
_EQUATION: Final = re.compile(r"\s*([^=<>!~]*[^=<>!~\s])\s*(?:={1,2}|<-)\s*([^=~\s][^=~]*?)\s*")


def equation(formula: str) -> str | None:
    """A formula that was written as an equation, or with R's arrow, as it should read; None if it wasn't.

    Examples
    --------
    >>> equation("hours = age + bmi"), equation("hours ~ age")
    ('hours ~ age + bmi', None)
    """
    found = _EQUATION.fullmatch(formula.strip())
    if found is None or found[1].count("(") != found[1].count(")"):
        return None
    return f"{found[1]} ~ {found[2]}"


@contextmanager
def located(where: str) -> Iterator[None]:
    """Say where data, or declarations, are that can't be read."""
    try:
        yield
    except (DataError, SchemaError, UnsupportedArgumentError) as e:
        e.args = (f"{where}: {e}", *e.args[1:])
        raise


def quietly(make: Callable[[], T], error: PrivregError) -> T:
    """Return ``make()``; any foreign exception is replaced, not chained: its text could hold data."""
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            return make()
    except PrivregError:
        raise
    except Exception:
        pass  # raised below, outside the handler, so that nothing is attached as context
    raise error
