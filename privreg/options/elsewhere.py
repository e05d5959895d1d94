"""What other libraries call things, or privacy can't give, and what to write instead: the tables of `elsewhere.json`.

Their keys are what is said, mostly, and their values the names it is said of, several in one string. "signs" of
formulas are regular expressions, whose groups the text takes in.
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

TEXTS: Final[dict[str, str]] = WORDS["texts"]  # Texts that several tables have, by what these call them


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Turn a table of names by text, several in one string, into texts by name.

    Examples
    --------
    >>> by_name({"use log": "ln logn"})
    {'ln': 'use log', 'logn': 'use log'}
    """
    return {name: TEXTS.get(text, text) for text, names in table.items() for name in names.split()}


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


_RESULTS: Final = WORDS["results"]
_CALLED: Final = by_name(_RESULTS["called"])  # Other libraries' names of what there is
_ELSEWHERE: Final = by_name(_RESULTS["absent"])  # Names of which there is nothing, with the reason
_INSTEAD: Final = {name: why for why in _RESULTS["private"] for name in why["names"].split()}
"""Names of what needs rows: why it can't be had, and what there is in its place, the first that the results have."""

_FUNCTIONS, _ABSENT = (by_name(WORDS["package"][kind]) for kind in ("called", "absent"))
"""Of the package: functions by ours, and those that there are none of."""


def called(name: str) -> str | None:
    """What another library's name is called here; None if it is not such a name.

    Examples
    --------
    >>> called("coef_"), called("confint"), called("resid")
    ('params', 'conf_int()', None)
    """
    return _CALLED.get(name)


def needs_rows(name: str) -> bool:
    """Whether a name of statsmodels or R stands for something made of the raw rows."""
    return name in _INSTEAD


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """A question whether the nearest public name was meant, or what to do where none is near."""
    near = None if name.startswith("_") else nearest(name, [n for n in known if n[:1] != "_"])
    return otherwise if near is None else f"did you mean {near!r}?"


MEASURES: Final = "fit(measures=0.05)"  # How measures of fit are asked for


def unavailable(name: str, have: Collection[str], *, measures: str = MEASURES) -> AttributeError:
    """Error for an attribute that results don't have: what it is called here, or why it can't be had.

    Nothing is suggested that is not among the names they `have`, nor measures of fit unless `measures` says how to ask
    for them.
    """
    right = called(name)
    if right is not None and re.split(r"\W", right)[0] in have:
        return AttributeError(f"results have no {name!r}; it is called {right}.")
    if name in _ELSEWHERE:
        return AttributeError(f"results have no {name!r}: {_ELSEWHERE[name]}.")
    if needs_rows(name):
        needed = _needed(name, set(have) - (set() if measures else {"fit_measures"})).replace(MEASURES, measures)
        return NotPrivateError(f"{name!r} is not private: {needed}.")
    return AttributeError(f"results have no attribute {name!r}; {_nearest(name, have, 'see dir(res).')}")


def _needed(name: str, have: Collection[str] | None = None) -> str:
    """Why a name that needs rows can't be had, and the first there is in its place."""
    why, ways = _INSTEAD[name]["why"], _INSTEAD[name]["instead"].items()
    return next((f"{why}; {TEXTS.get(text, text)}" for key, text in ways if have is None or key in have), str(why))


def not_fitted(name: str, model: type, results: type) -> AttributeError:
    """Error for an attribute that a class of models doesn't have: what its `results` have, or the nearest there is."""
    head, public, have = f"a model has no {name!r}", not name.startswith("_"), set(dir(results))
    right = called(name)
    if name in have:
        right = f"{name}()" if callable(getattr(results, name)) else name
    if name == "update":
        return AttributeError(f"{head}: {_ELSEWHERE[name]}.")
    if public and right is not None and re.split(r"\W", right)[0] in have:
        return AttributeError(f"{head} before it is fitted: res = model.fit(), then res.{right}.")
    if needs_rows(name):
        return AttributeError(f"{head}: {_needed(name, have)}.")
    if name in _ELSEWHERE and _ELSEWHERE[name] != TEXTS["model"]:
        return AttributeError(f"{head}: {_ELSEWHERE[name]}.")
    return AttributeError(f"{head}; {_nearest(name, dir(model), 'see dir(model).')}")


def no_rows_in(name: str) -> AttributeError:
    """Error for an attribute of a fitted model that results, which keep its names only, can't have."""
    if name in ("data", "endog", "exog", "exposure", "offset", "weights", "wendog", "wexog"):
        return NotPrivateError(
            f"res.model has no {name!r}: rows are private, and results keep names only, endog_names, exog_names and "
            "formula."
        )
    return AttributeError(
        f"res.model has no {name!r}: results keep only endog_names, exog_names and formula; keep the model that you "
        "fitted."
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
        fix = _nearest(name, known, f"see dir({module}).")
        if name in MODELS and module == "privreg.families":
            fix = f"it is called {MODELS[name]}."
        gone = _ABSENT.get(f"{module.removeprefix('privreg.')}.{name}")
        raise AttributeError(f"{module} has no {name!r}{f': {gone}.' if gone else f'; {fix}'}")

    return lambda: list(known), refused


def no_such_name(name: str, known: Iterable[str]) -> AttributeError:
    """Error for a name that the package doesn't have: what to write for a model of statsmodels, R or scikit-learn."""
    family = MODELS.get(name)
    if family is not None:
        return AttributeError(
            f"privreg has no {name!r}: write PrivateOnlineRegression.from_formula(formula, data, family={family}, "
            "mu=1, ...), or PrivateOnlineRegression(endog, exog, ...) for arrays."
        )
    if name in _FUNCTIONS:
        return AttributeError(f"privreg has no {name!r}; it is called privreg.{_FUNCTIONS[name]}.")
    if name in _ABSENT:
        return AttributeError(f"privreg has no {name!r}: {_ABSENT[name]}.")
    if needs_rows(name):
        return AttributeError(f"privreg has no {name!r}: {_needed(name)}.")
    right = called(name) or next((r for r in _CALLED.values() if re.split(r"\W", r)[0] == name), None)
    if right is not None:
        return AttributeError(f"privreg has no {name!r}; after res = model.fit(), write res.{right}.")
    hint = _nearest(name, known, "")
    return AttributeError(f"module 'privreg' has no attribute {name!r}{hint and f'; {hint}'}")
