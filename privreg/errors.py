"""Errors and warnings a user meets.

Every message says what was got, what is allowed and how to mend it. None of them quotes a value read
from the private rows: text that came from another library is replaced (``raise ... from None``), never
passed on.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BudgetError",
    "DataError",
    "FormulaError",
    "InferenceError",
    "NotPrivateError",
    "OptionError",
    "PrivacyLeakError",
    "PrivacyLeakWarning",
    "PrivregError",
    "PrivregWarning",
    "SavedFileError",
    "SchemaError",
    "UnsupportedArgumentError",
    "choose",
]


class PrivregError(Exception):
    """Base of every error raised on purpose by privreg."""


class FormulaError(PrivregError, ValueError):
    """The formula can't be read, or asks for something that is not a model."""


class PrivacyLeakError(PrivregError, ValueError):
    """What was asked would let something learned from raw rows out of the device side."""


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


class SavedFileError(PrivregError, ValueError):
    """A saved file is missing, damaged, or of another kind."""


class NotPrivateError(PrivregError, AttributeError):
    """A statsmodels attribute that would need the raw rows."""


class UnsupportedArgumentError(PrivregError, TypeError):
    """A statsmodels argument that has no private meaning."""


class PrivregWarning(UserWarning):
    """Something worth knowing that does not weaken the privacy guarantee."""


class PrivacyLeakWarning(UserWarning):
    """The user opted out of a part of the privacy guarantee."""


def choose(name: str, got: object, allowed: Iterable[str]) -> str:
    """Return `got` if it is one of `allowed`.

    Parameters
    ----------
    name : str
        The option's name, for the message.
    got : object
        What the user gave.
    allowed : iterable of str
        The choices.

    Returns
    -------
    str
        `got`, unchanged.

    Raises
    ------
    OptionError
        If `got` is not one of the choices; the message lists them and the nearest one.

    Examples
    --------
    >>> choose("tuning", "published", ("efficient", "published"))
    'published'
    """
    choices = list(allowed)
    if isinstance(got, str) and got in choices:
        return got
    near = get_close_matches(got, choices, n=1) if isinstance(got, str) else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(repr(c) for c in choices)
    raise OptionError(f"{name}={got!r} is not known; choose one of {listed}.{hint}")
