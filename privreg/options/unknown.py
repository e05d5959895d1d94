"""Refusals of names that nobody has: what was meant, where it belongs, or the nearest there is.

Names of other libraries are in the tables of `elsewhere.json`. Their keys are messages, mostly, and their values the
names that they are for, several in one string. "signs" of formulas are regular expressions, whose groups the text takes
in.
"""

import functools
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from pathlib import PurePath
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from privreg.errors import NotPrivateError, UnsupportedArgumentError, meant, nearest, shown
from privreg.options.table import DOORS, TABLE, accepted

WORDS: Final[dict[str, Any]] = json.loads(files("privreg.options").joinpath("elsewhere.json").read_text("utf-8"))
"""Tables of names: attributes of results, views and the package, arguments of methods and of plots, options, terms."""


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Turn a table of names by text, several in one string, into texts by name."""
    return {name: text for text, names in table.items() for name in names.split()}


class Meant(NamedTuple):
    """An option that other libraries call otherwise."""

    names: frozenset[str]
    option: str  # Its name here; empty if there is none
    products: frozenset[str]  # That have it; of what is no option, those of which this is said, all if empty
    hint: str  # Text to write, if that is more than its name


OPTIONS: Final = tuple(
    Meant(frozenset(o["names"].split()), o.get("option", ""), frozenset(o.get("of", "").split()), o.get("hint", ""))
    for o in WORDS["options"]
)
"""In the order in which they are tried."""

TIMES: Final = next(o for o in OPTIONS if "coxph" in o.names)
"""Names of models of times until an event, and of their columns: ``Surv()`` in the formula."""

MODELS: Final = by_name(WORDS["package"]["models"])
"""The family that stands for a model or family of statsmodels, R or scikit-learn."""

_CALLED, _NONE = by_name(WORDS["results"]["called"]), by_name(WORDS["results"]["absent"])
NEEDS_ROWS: Final = {name: why for why in WORDS["results"]["private"] for name in why["names"].split()}
"""Names of what needs rows: why it can't be had, and what there is in its place, the first that the results have."""

_FUNCTIONS, _ABSENT = (by_name(WORDS["package"][kind]) for kind in ("called", "absent"))
"""Functions of other packages, by ours, and those that there are none of."""

MEASURES: Final = "fit(measures=0.05)"  # Option that asks for measures of fit


def called(name: str, have: Collection[str] | None = None) -> str | None:
    """Name here of another library's name; None if it is not such a name, or not among those there are."""
    right = _CALLED.get(name)
    return right if right is None or have is None or re.split(r"\W", right)[0] in have else None


def _reason(name: str, have: Collection[str] | None = None) -> str | None:
    """Why there is nothing of a name, with the first there is in its place; None if no name is known as that."""
    if name not in NEEDS_ROWS:
        return _NONE.get(name)
    why, ways = NEEDS_ROWS[name]["why"], NEEDS_ROWS[name]["instead"].items()
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
    if name in NEEDS_ROWS:
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


def public_names(module: str, names: Iterable[str]) -> tuple[Callable[[], list[str]], Callable[[str], Any]]:
    """``__dir__`` and ``__getattr__`` of a module that shows `names` only, and says which of them was meant."""
    known = sorted(names)

    def refused(name: str) -> Any:
        gone = _ABSENT.get(f"{module.removeprefix('privreg.')}.{name}")
        family = MODELS.get(name) if module == "privreg.families" else None
        fix = f"it is called {family}." if family else _nearest(name, known, f"see dir({module}).")
        raise AttributeError(f"{module} has no {name!r}{f': {gone}.' if gone else f'; {fix}'}")

    return lambda: list(known), refused


def stub_names(module: str) -> tuple[list[str], Callable[[], list[str]], Callable[[str], Any]]:
    """``__all__``, ``__dir__`` and ``__getattr__`` of a module, whose stub imports the names: loaded on first use."""
    parent, _, stem = module.rpartition(".")
    stub = files(parent).joinpath(f"{stem}.pyi").read_text("utf-8")
    homes = {found[3]: found.group(1, 2) for found in re.finditer(r"^from (\S+) import (\w+) as (\w+)", stub, re.M)}
    listed, refused = public_names(module, homes)

    def found(name: str) -> Any:
        if name not in homes:
            refused(name)
        home, original = homes[name]
        held = import_module(home)
        return getattr(held, original) if hasattr(held, original) else import_module(f"{home}.{original}")

    return sorted(homes), listed, found


def no_such_name(name: str, known: Iterable[str]) -> AttributeError:
    """Error for a name that the package doesn't have: what to write for a model of statsmodels, R or scikit-learn."""
    right = called(name) or next((r for r in _CALLED.values() if re.split(r"\W", r)[0] == name), None)
    if name in MODELS:
        said = f": write PrivateOnlineRegression.from_formula(formula, data, family={MODELS[name]}, mu=1, ...)."
    elif name in _FUNCTIONS:
        said = f"; it is called privreg.{_FUNCTIONS[name]}."
    elif reason := _ABSENT.get(name) or _reason(name):
        said = f": {reason}."
    elif right is not None:
        said = f"; after res = model.fit(), write res.{right}."
    else:
        said = f"; {_nearest(name, known, 'see dir(privreg).')}"
    return AttributeError(f"privreg has no {name!r}{said}")


STAGES: Final = ("arrays", "formula")  # Stages at which a model is described; at the others it is fitted
NO_COLUMN: Final = "names a column, and arrays have none for it; put the rows in a DataFrame and use from_formula"


def refuse_unknown(door: str, unknown: Iterable[str], called: str = "", also: Sequence[str] = ()) -> None:
    """Refuse options that a front door doesn't take, or one `called` otherwise that takes those of it, and `also`."""
    where, unknown = called or DOORS[door], list(unknown)
    known = [*also, *(name for name in accepted(door) if name not in unknown)]
    for name in unknown:
        hint = _hint(door, name, where)
        takes = f".{meant(name, known)} It takes {', '.join(f'{k}=' for k in known)}"
        raise UnsupportedArgumentError(f"{where}() has no {name!r}{takes if hint is None else f': {hint}'}.")


def _hint(door: str, name: str, where: str) -> str | None:
    """Place where an option belongs, or the meaning of another library's name; None if nothing is known of it."""
    product, _, stage = door.partition(".")
    found = {d.partition(".")[2] for d in DOORS if d.startswith(product) and name in accepted(d)}
    if found and stage not in STAGES:
        return f"{name}= belongs to {'the model' if set(STAGES) & found else 'fit()'}, not to {where}()"
    if found and set(STAGES).isdisjoint(found):
        hints = [o.hint for o in OPTIONS if o.option == name and name in o.names and product in o.products]
        return hints[0] if hints else f"{name}= belongs to fit(), not to the model"
    if "arrays" in found or name == "schema":
        whose = "the model of arrays" if "arrays" in found else "from_formula()"
        return f"{name}= belongs to {whose}, not to {where}()"
    if found:
        return f"{name}= {NO_COLUMN}"
    goal = None
    if name in accepted("plan.formula"):
        goal = f"{name}= is an option of privreg.plan(formula, ...), which says how many people a study needs"
        if where == "plan":
            return goal
    there = {o.name for o in TABLE if o.of(product)}
    meant = [o for o in OPTIONS if name in o.names and (o.option or not o.products or product in o.products)]
    for o in sorted(meant, key=lambda o: bool(o.option) and product not in o.products):
        text = o.hint or f"it is called {o.option}="
        if set(re.findall(r"\b([a-z_]+)=", re.sub(r"\([^()]*\)", "", text))) <= there:
            return text
    local = next((o for o in TABLE if o.name == name and o.of("local")), None)
    if local is None:
        return goal
    if product == "curator" and local.curator:
        return f"{name}= {local.curator}"
    whose = "its model" if any(name in accepted(f"local.{m}") for m in STAGES) else "its fit()"
    return f"{name}= is an option of PrivateOnlineRegression, of {whose}; here there are {', '.join(accepted(door))}"


def refuse_positional(more: Sequence[object], call: str) -> None:
    """Refuse what is given without a name after the formula and the data; `call` is how the call begins."""
    if more:
        raise UnsupportedArgumentError(
            f"after the formula and the data, options are given by name, as in {call}, mu=1); got {shown(more[0])}."
        )


def same(value: object, default: object) -> bool:
    """True if an option, which may be anything, has its default."""
    return value is default or (isinstance(value, str | int | float | tuple) and value == default)


# --- keywords of methods -------------------------------------------------------------------------------------

_OF_METHODS: Final = {
    (method, name): text
    for text, of in WORDS["methods"].items()
    for methods, names in of.items()
    for method in methods.split()
    for name in names.split()
}
_PLOTS: Final = by_name(WORDS["plots"])  # Arguments of any plot
_SEVERAL: Final = {
    "PrivateResults.anova": "It tests the terms of these results; privreg.anova(small, large) tests nested fits",
    "anova": "It compares two fits, or tests the terms of one; of several, test each with the next",
}
_LIMITS: Final = ("t_test", "get_prediction")  # Methods whose views have limits
_FIGURES: Final = (".png", ".pdf", ".svg", ".eps", ".jpg", ".jpeg", ".tif", ".tiff")

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def known_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse keywords that it does not have with the list of those that it has."""
    parameters, where = inspect.signature(function).parameters, function.__name__
    known = [name for name, p in parameters.items() if name != "self" and p.kind is not p.VAR_POSITIONAL]
    most = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
    most = len(known) if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()) else most
    plots = where.startswith("plot")
    taken = ", ".join(f"{k}=" for k in known) or "no arguments"
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [(at, k) for at, (k, p) in enumerate(parameters.items()) if p.default is p.empty and p.kind not in free]
    why = _PLOTS["path"] if plots else _SEVERAL.get(function.__qualname__)

    @functools.wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        for name in (name for name in given if name not in known):
            hint = _OF_METHODS.get((where, name))
            if name in ("level", "conf_level") and "alpha" in known:
                hint = "Give alpha=, one minus the level: alpha=0.1 for 90%"
            elif where in _LIMITS and name in ("alpha", "level", "conf_level"):
                hint = f"It belongs to what comes back: {where}(...).conf_int(alpha=0.1)"
            elif plots:
                hint = _PLOTS.get(name, hint)
            elif hint is None and name.startswith("cov"):
                hint = "The covariance is a sandwich already; choose another by fit(inference=...)"
            said = f" {hint}." if hint else meant(name, known)
            raise UnsupportedArgumentError(f"{where}() has no argument {name!r}.{said} It takes {taken}.")
        figure = any(isinstance(a, PurePath) or (isinstance(a, str) and a.lower().endswith(_FIGURES)) for a in args)
        if len(args) > most or (plots and figure):
            said = f" {why}." if why else ""
            raise UnsupportedArgumentError(f"{where}() takes {taken}, by name.{said}")
        lacking = next((k for at, k in needed if at >= len(args) and k not in given), None)
        if lacking is not None:
            raise UnsupportedArgumentError(f"{where}() needs {lacking}=. It takes {taken}.")
        return function(*args, **given)

    return checked


def all_known_arguments(cls: C) -> C:
    """Let every public method of a class refuse unknown keywords, unless its parent's does so already."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and not hasattr(method, "__wrapped__"):
            setattr(cls, name, known_arguments(method))
    return cls
