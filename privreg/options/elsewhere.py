"""Names that users of other libraries type first, and what to write instead: the tables of `elsewhere.json`.

Their keys are what is said, mostly, and their values the names it is said of, several in one string. "signs" of
formulas are regular expressions, whose groups the text takes in. Any other name gets the nearest there is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

from privreg.errors import NotPrivateError, nearest

WORDS: Final[dict[str, Any]] = json.loads(files("privreg.options").joinpath("elsewhere.json").read_text("utf-8"))
"""Of attributes of results, views and the package, arguments of methods and of plots, options, terms of formulas."""


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Turn a table of names by text, several in one string, into texts by name.

    Examples
    --------
    >>> by_name({"use log": "ln logn"})
    {'ln': 'use log', 'logn': 'use log'}
    """
    return {name: text for text, names in table.items() for name in names.split()}


class Meant(NamedTuple):
    """An option that other libraries call otherwise."""

    names: frozenset[str]
    option: str  # What it is called here; empty if there is none
    products: frozenset[str]  # That have it; of what is no option, those of which this is said, all if empty
    hint: str  # What to write, if that is more than its name


OPTIONS: Final = tuple(
    Meant(frozenset(o["names"].split()), o.get("option", ""), frozenset(o.get("of", "").split()), o.get("hint", ""))
    for o in WORDS["options"]
)
"""In the order in which they are tried."""

MODELS: Final = by_name(WORDS["package"]["models"])
"""The family that stands for a model or family of statsmodels, R or scikit-learn."""

_CALLED, _NONE = by_name(WORDS["results"]["called"]), by_name(WORDS["results"]["absent"])
_INSTEAD: Final = {name: why for why in WORDS["results"]["private"] for name in why["names"].split()}
"""Names of what needs rows: why it can't be had, and what there is in its place, the first that the results have."""

_FUNCTIONS, _ABSENT = (by_name(WORDS["package"][kind]) for kind in ("called", "absent"))
"""Of the package: functions by ours, and those that there are none of."""

MEASURES: Final = "fit(measures=0.05)"  # How measures of fit are asked for


def called(name: str, have: Collection[str] | None = None) -> str | None:
    """Return what another library's name is called here; None if it is not such a name, or not among those there are.

    Examples
    --------
    >>> called("coef_"), called("confint"), called("resid")
    ('params', 'conf_int()', None)
    """
    right = _CALLED.get(name)
    return right if right is None or have is None or re.split(r"\W", right)[0] in have else None


def needs_rows(name: str) -> bool:
    """Whether a name of statsmodels or R stands for something made of the raw rows."""
    return name in _INSTEAD


def _reason(name: str, have: Collection[str] | None = None) -> str | None:
    """Why there is nothing of a name, with the first there is in its place; None if no name is known as that."""
    if name not in _INSTEAD:
        return _NONE.get(name)
    why, ways = _INSTEAD[name]["why"], _INSTEAD[name]["instead"].items()
    return next((f"{why}; {text}" for key, text in ways if have is None or key in have), str(why))


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """A question whether the nearest public name was meant, or what to do where none is near."""
    near = None if name.startswith("_") else nearest(name, [n for n in known if n[:1] != "_"])
    return otherwise if near is None else f"did you mean {near!r}?"


def unavailable(name: str, have: Collection[str], *, measures: str = MEASURES) -> AttributeError:
    """Error for an attribute that results don't have: what it is called here, or why it can't be had.

    Nothing is suggested that is not among the names they `have`, nor measures of fit unless `measures` says how to ask
    for them.
    """
    if (right := called(name, have)) is not None:
        return AttributeError(f"results have no {name!r}; it is called {right}.")
    reason = _reason(name, set(have) - (set() if measures else {"fit_measures"}))
    if reason is None:
        return AttributeError(f"results have no attribute {name!r}; {_nearest(name, have, 'see dir(res).')}")
    if needs_rows(name):
        return NotPrivateError(f"{name!r} is not private: {reason.replace(MEASURES, measures)}.")
    return AttributeError(f"results have no {name!r}: {reason}.")


def not_fitted(name: str, model: type, results: type) -> AttributeError:
    """Error for an attribute that a class of models doesn't have: what its `results` have, or the nearest there is."""
    have = set(dir(results))
    right = called(name, have)
    if name in have and not name.startswith("_"):
        right = f"{name}()" if callable(getattr(results, name)) else name
    if right is not None and name != "update":
        return AttributeError(f"a model has no {name!r} before it is fitted: res = model.fit(), then res.{right}.")
    reason = _reason(name, have)
    said = f": {reason}." if reason else f"; {_nearest(name, dir(model), 'see dir(model).')}"
    return AttributeError(f"a model has no {name!r}{said}")


def no_rows_in(name: str) -> AttributeError:
    """Error for an attribute of a fitted model that results, which keep its names only, can't have."""
    return NotPrivateError(
        f"res.model has no {name!r}: rows are private, and results keep names only, endog_names, exog_names and "
        "formula; keep the model that you fitted."
    )


def public_names(module: str, names: Iterable[str]) -> tuple[Callable[[], list[str]], Callable[[str], Any]]:
    """``__dir__`` and ``__getattr__`` of a module that shows `names` only, and says which of them was meant.

    Examples
    --------
    >>> shown, refused = public_names("privreg.families", ["Huber", "Logistic"])
    >>> shown(), str(refused("Binomial"))
    Traceback (most recent call last):
        ...
    AttributeError: privreg.families has no 'Binomial'; it is called pr.Logistic().
    """
    known = sorted(names)

    def refused(name: str) -> Any:
        gone = _ABSENT.get(f"{module.removeprefix('privreg.')}.{name}")
        family = MODELS.get(name) if module == "privreg.families" else None
        fix = f"it is called {family}." if family else _nearest(name, known, f"see dir({module}).")
        raise AttributeError(f"{module} has no {name!r}{f': {gone}.' if gone else f'; {fix}'}")

    return lambda: list(known), refused


def no_such_name(name: str, known: Iterable[str]) -> AttributeError:
    """Error for a name that the package doesn't have: what to write for a model of statsmodels, R or scikit-learn."""
    head, reason = f"privreg has no {name!r}", _ABSENT.get(name) or _reason(name)
    right = called(name) or next((r for r in _CALLED.values() if re.split(r"\W", r)[0] == name), None)
    if name in MODELS:
        return AttributeError(
            f"{head}: write PrivateOnlineRegression.from_formula(formula, data, family={MODELS[name]}, mu=1, ...), or "
            "PrivateOnlineRegression(endog, exog, ...) for arrays."
        )
    if name in _FUNCTIONS:
        return AttributeError(f"{head}; it is called privreg.{_FUNCTIONS[name]}.")
    if reason is not None:
        return AttributeError(f"{head}: {reason}.")
    if right is not None:
        return AttributeError(f"{head}; after res = model.fit(), write res.{right}.")
    hint = _nearest(name, known, "")
    return AttributeError(f"module 'privreg' has no attribute {name!r}{hint and f'; {hint}'}")
