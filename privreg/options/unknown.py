"""Refusing what a front door or a method doesn't take: what was meant, where it belongs, or the nearest there is."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Final, ParamSpec, TypeVar

from privreg.errors import OptionError, UnsupportedArgumentError, choose, meant, shown
from privreg.options.elsewhere import OPTIONS, WORDS, by_name
from privreg.options.table import DOORS, TABLE, Option, accepted

MODELS: Final = ("arrays", "formula")  # Stages at which a model is described; at the others it is fitted
NO_COLUMN: Final = "names a column, and arrays have none for it; put the rows in a DataFrame and use from_formula"


def refuse_unknown(door: str, unknown: Iterable[str], called: str = "") -> None:
    """Refuse options that a front door doesn't take, or a method `called` otherwise that takes all others of it."""
    where, unknown = called or DOORS[door], list(unknown)
    known = [name for name in accepted(door) if name not in unknown]
    for name in unknown:
        hint = _misplaced(door, name, where) or (_goal(door, name) if where == "plan" else None)
        hint = hint or _meant(door, name) or _of_others(door, name) or _goal(door, name)
        if hint is not None:
            raise UnsupportedArgumentError(f"{where}() has no {name!r}: {hint}.")
        try:
            choose(f"{where}() option", name, known)
        except OptionError as e:
            raise UnsupportedArgumentError(str(e)) from None


def _meant(door: str, name: str) -> str | None:
    """What another library's name stands for, in options that the product has."""
    product = door.partition(".")[0]
    there = {o.name for o in TABLE if o.of(product)}
    meant = [o for o in OPTIONS if name in o.names and (o.option or not o.products or product in o.products)]
    for o in sorted(meant, key=lambda o: bool(o.option) and product not in o.products):
        text = o.hint or f"it is called {o.option}="
        if set(re.findall(r"\b([a-z_]+)=", re.sub(r"\([^()]*\)", "", text))) <= there:
            return text
    return None


def _goal(door: str, name: str) -> str | None:
    """Where a study's size is planned."""
    if door == "plan.formula" or name not in accepted("plan.formula"):
        return None
    return f"{name}= is an option of privreg.plan(formula, ...), which says how many people a study needs"


def _misplaced(door: str, name: str, where: str) -> str | None:
    """Where an option of the same product belongs."""
    product, _, stage = door.partition(".")
    found = {d.partition(".")[2] for d in DOORS if d.startswith(product) and name in accepted(d)}
    if found and stage not in MODELS:
        whose = "the model" if set(MODELS) & found else "fit()"
        return f"{name}= belongs to {whose}, not to {where}()"
    if found and set(MODELS).isdisjoint(found):
        hints = [o.hint for o in OPTIONS if o.option == name and name in o.names and product in o.products]
        return hints[0] if hints else f"{name}= belongs to fit(), not to the model"
    if "arrays" in found:
        return f"{name}= belongs to the model of arrays, not to {where}()"
    if name == "schema":
        return f"{name}= belongs to from_formula(), not to {where}()"
    if found:
        return f"{name}= {NO_COLUMN}"
    return None


def _of_others(door: str, name: str) -> str | None:
    """Why the option of another product is not here."""
    product = door.partition(".")[0]
    local: Option | None = next((o for o in TABLE if o.name == name and o.of("local")), None)
    if local is None:
        return None
    if product == "curator" and local.curator:
        return f"{name}= {local.curator}"
    whose = "its model" if any(name in accepted(f"local.{m}") for m in MODELS) else "its fit()"
    return f"{name}= is an option of PrivateOnlineRegression, of {whose}; here there are {', '.join(accepted(door))}"


def refuse_positional(more: Sequence[object], call: str) -> None:
    """Refuse what is given without a name after the formula and the data; `call` is how the call begins."""
    if more:
        raise UnsupportedArgumentError(
            f"after the formula and the data, options are given by name, as in {call}, mu=1); got {shown(more[0])}."
        )


def same(value: object, default: object) -> bool:
    """Whether an option, which may be anything, has its default."""
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
_NESTED: Final = "It tests the terms of these results; privreg.anova(small, large) tests nested fits"
_PAIRS: Final = (
    "It compares two fits, or tests the terms of one; of several, test each with the next: privreg.anova(m1, m2), "
    "privreg.anova(m2, m3)"
)
_LIMITS: Final = ("t_test", "marginal_means", "marginal_effects", "get_prediction")  # Methods whose views have limits


def _refuse(where: str, name: str, known: Sequence[str]) -> UnsupportedArgumentError:
    """Error for an argument that a method does not take, with those that it takes."""
    hint = _OF_METHODS.get((where, name))
    if name in ("level", "conf_level") and "alpha" in known:
        hint = "Give alpha=, one minus the level: alpha=0.1 for 90%"
    elif where in _LIMITS and name in ("alpha", "level", "conf_level"):
        hint = f"It belongs to what comes back: {where}(...).conf_int(alpha=0.1)"
    elif where.startswith("plot"):
        hint = _PLOTS.get(name, hint)
    elif hint is None and name.startswith("cov"):
        hint = "The covariance is a sandwich already; choose another by fit(inference=...)"
    said = f" {hint}." if hint else meant(name, known)
    takes = f"It takes {', '.join(f'{k}=' for k in known)}." if known else "It takes none."
    return UnsupportedArgumentError(f"{where}() has no argument {name!r}.{said} {takes}")


_FIGURES: Final = (".png", ".pdf", ".svg", ".eps", ".jpg", ".jpeg", ".tif", ".tiff")

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def known_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse keywords that it does not have with the list of those that it has.

    Examples
    --------
    >>> @known_arguments
    ... def table(alpha=0.05):
    ...     return alpha
    >>> table(alhpa=0.1)
    Traceback (most recent call last):
        ...
    privreg.errors.UnsupportedArgumentError: table() has no argument 'alhpa'. Did you mean 'alpha'? It takes alpha=.
    """
    parameters = inspect.signature(function).parameters
    known = [name for name, p in parameters.items() if name != "self" and p.kind is not p.VAR_POSITIONAL]
    most = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
    most = len(known) if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()) else most
    plots = function.__name__.startswith("plot")
    taken = ", ".join(f"{k}=" for k in known) or "no arguments"
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [(at, k) for at, (k, p) in enumerate(parameters.items()) if p.default is p.empty and p.kind not in free]
    why = _PLOTS["path"] if plots else {"TestedResults.anova": _NESTED, "anova": _PAIRS}.get(function.__qualname__)

    @functools.wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            raise _refuse(function.__name__, unknown, known)
        figure = any(isinstance(a, PurePath) or (isinstance(a, str) and a.lower().endswith(_FIGURES)) for a in args)
        if len(args) > most or (plots and figure):
            said = f" {why}." if why else ""
            raise UnsupportedArgumentError(f"{function.__name__}() takes {taken}, by name.{said}")
        lacking = next((k for at, k in needed if at >= len(args) and k not in given), None)
        if lacking is not None:
            raise UnsupportedArgumentError(f"{function.__name__}() needs {lacking}=. It takes {taken}.")
        return function(*args, **given)

    return checked


def all_known_arguments(cls: C) -> C:
    """The same for every public method that a class has, unless its parent's does so already."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and not hasattr(method, "__wrapped__"):
            setattr(cls, name, known_arguments(method))
    return cls
