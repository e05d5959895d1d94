"""Reading of command lines: declarations, budgets, families, people. Needs the standard library only."""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from privreg.errors import BudgetError, OptionError, SchemaError, choose
from privreg.options.spelling import quoted
from privreg.options.table import BUDGET, accepted, find, of_verb
from privreg.options.unknown import TIMES

_FILES: Final = (".csv", ".parquet", ".pq", ".feather", ".arrow", ".ipc", ".gz", ".bz2", ".xz", ".zip", ".tsv")


def check_order(a: argparse.Namespace) -> None:
    """Refuse a file where the formula belongs."""
    formula, path = a.formula, getattr(a, "path", None)
    if "~" in formula or not (Path(formula).suffix.lower() in _FILES or "~" in (path or "") or Path(formula).exists()):
        return
    if path is None:
        raise OptionError(f"{formula!r} is no formula, and this reads no file; write one in quotes, such as 'y ~ x'.")
    raise OptionError(f"the formula comes first and the data second: privreg {a.verb} {quoted(path)} {quoted(formula)}")


def csv_of(a: argparse.Namespace, path: str) -> Any:
    """The file, as a CSV file if anything is said of how it is written; a tab may be written as a word."""
    from privreg.data.sources.csv import csv

    said = {name: getattr(a, name, None) for name in ("sep", "decimal", "dates", "encoding")}
    given = {name: text for name, text in said.items() if text is not None}
    if given.get("sep") in {"tab", "\\t"}:
        given["sep"] = "\t"
    return csv(path, **given) if given else path


_TIME: Final = r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?"
_TWO_TIMES: Final = re.compile(rf"({_TIME}):({_TIME})")
_DATED: Final = re.compile(r"\d+[-./]\d+[-./]\d+")
_SOME_DATES: Final = "2020-01-01:2020-12-31"


def floats(text: str, mark: str) -> list[float] | None:
    """Numbers with a mark between; None of anything else."""
    with suppress(ValueError):
        return [float(part) for part in text.split(mark)]
    return None


def numbers(option: str, given: Sequence[str], form: str) -> dict[str, tuple[float, ...]]:
    """Read lists of numbers such as ``smoker=0.8,0.2``; a column's name may hold an equals sign."""
    out: dict[str, tuple[float, ...]] = {}
    for item in given:
        name, _, value = item.rpartition("=")
        found = floats(value, ",")
        if not name or found is None:
            raise SchemaError(f"{option}: {item!r} must read {form}.")
        _once(option, name, out)
        out[name] = tuple(found)
    return out


def pairs(option: str, given: Sequence[str], form: str) -> dict[str, tuple[Any, Any]]:
    """Read declarations such as ``age=18:65`` or ``day=2020-01-01:2020-12-31``; a name may hold an equals sign.

    Dates may have times of day, as 2020-01-01T08:30.
    """
    out: dict[str, tuple[Any, Any]] = {}
    for item in given:
        name, _, value = item.rpartition("=")
        if re.search(r"=[^=]*:[^=]*[,\s][^=,]*$", name):
            raise SchemaError(
                f"{option}: {item!r} holds several declarations; put blanks between them and no quotes around all of "
                f"them, as in {option} age=18:65 income=0:90000."
            )
        times = _TWO_TIMES.fullmatch(value) if option == "--bounds" else None
        two = floats(value, ":") if times is None else times.groups()
        if not name or two is None or len(two) != 2:
            dates = option == "--bounds" and _DATED.search(value)
            example = f"{option} {name or 'day'}={_SOME_DATES}" if dates else f"{option} age=18:65"
            raise SchemaError(f"{option}: {item!r} must read {form}, without blanks, such as {example}.")
        _once(option, name, out)
        out[name] = (two[0], two[1])
    return out


_LEVEL: Final = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,"]*?))\s*(,|$)')
_READ: Final[dict[re.Pattern[str], Callable[[str], Any]]] = {
    re.compile(r"[-+]?[0-9]+"): int,
    re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"): float,
    re.compile("true|false", re.IGNORECASE): lambda text: text.lower() == "true",
}
"""Readers of levels, if all of them have this form; other levels are texts."""


def levels(given: Sequence[str]) -> dict[str, list[Any]]:
    """Read declarations such as ``smoker=no,yes``, typed as a CSV column of such cells is."""
    out: dict[str, list[Any]] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise SchemaError(f"--levels: {item!r} must read NAME=A,B,..., such as --levels smoker=no,yes.")
        _once("--levels", name, out)
        if re.match('[^",]*=', value):
            raise SchemaError(
                f"--levels: {item!r} has two '='; write a first level that has one in quotes, as in "
                "--levels 'g=\"1=a\",b'; a column whose name has one is declared in a file, --schema schema.yaml."
            )
        texts, at, more = list[str](), 0, True
        while more:
            if (found := _LEVEL.match(value, at)) is None or not (found[1] or found[2]):
                raise SchemaError(f"--levels: {item!r} has an empty or badly quoted level; write NAME=A,B,...")
            texts.append(found[2] if found[1] is None else found[1].replace('""', '"'))
            at, more = found.end(), bool(found[3])
        read = next((read for form, read in _READ.items() if all(map(form.fullmatch, texts))), str)
        out[name] = [read(t) for t in texts]
    return out


def _once(option: str, name: str, seen: Iterable[str]) -> None:
    if name in seen:
        raise SchemaError(f"{option} declares {name!r} twice; keep one.")


def budget(a: argparse.Namespace, *, needed: bool = True) -> dict[str, Any]:
    """Read the one form of budget, as keyword arguments of the model.
    Raises BudgetError if more than one form is given, or none though it is needed.
    """
    forms = ("mu", "mu_max", "epsilon", "epsilon_max", "delta", "rho")
    given = {n: getattr(a, n) for n in forms if vars(a).get(n) is not None}
    got = [f"--{n}" for n in ("mu", "epsilon", "rho") if n in given] + ["--no-privacy"] * a.no_privacy
    if len(got) > 1 or (needed and not got and "delta" not in given):
        raise BudgetError(
            f"give exactly one budget, got {' and '.join(got) or 'none'}: --mu 1, or --epsilon 1 --delta 1e-6, "
            "or --epsilon 1 alone for pure differential privacy, or --rho 0.5 (or --no-privacy)."
        )
    return {"mu": None} if a.no_privacy else given


OWN: Final = {
    name: tuple(o.name for o in of_verb("fit") if name in o.families.split())
    for name in find("local.formula", "family").choices
}
"""Families, and the options that are theirs."""

NEEDED: Final = {
    frozenset({"y_max"}): "the largest count anybody may have, a public number: --y-max 20, say",
    frozenset({"low", "high"}): "a limit at which responses are censored, a public number: --low 0, --high 9, or both",
}
"""Options of families one of which is needed, and what is said where none is given."""


def family(a: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Read the family's name, in lower case, and its own options, keywords of its constructor.
    Raises OptionError if there is no such family, an option belongs to another one, or one that it needs is lacking.
    """
    if (name := a.family.lower().replace("-", "_")) in TIMES.names:
        raise OptionError(f"--family {name} is not known: {TIMES.hint}.")
    choose("--family", name, OWN)
    given = {o.name: getattr(a, o.name) for o in of_verb(a.verb) if o.families and getattr(a, o.name) is not None}
    if others := [option for option in given if option not in OWN[name]]:
        owners = " or ".join(f"--family {n}" for n, constants in OWN.items() if others[0] in constants)
        raise OptionError(f"--{others[0].replace('_', '-')} belongs to {owners}, not to --family {name}.")
    for options, what in NEEDED.items():
        if options <= set(OWN[name]) and options.isdisjoint(given):
            raise OptionError(f"--family {name} needs {what}.")
    return name, given


def single(option: str, given: Sequence[str], form: str) -> dict[str, float]:
    """Read numbers such as ``age=20``."""
    found = numbers(option, given, form)
    if wrong := [name for name, values in found.items() if len(values) > 1]:
        raise SchemaError(f"{option}: {wrong[0]!r} has several numbers; it must read {form}.")
    return {name: values[0] for name, values in found.items()}


def given(a: argparse.Namespace, door: str) -> dict[str, Any]:
    """Options of a front door but its budget and its family, as keyword arguments, without those at their defaults.

    So a trust model is asked for nothing that the user didn't ask for, and says itself what it doesn't take.
    """
    taken, out = accepted(door), {}
    for o in of_verb(a.verb):
        value, option, form = getattr(a, o.dest), o.spelt, o.metavar or ""
        if taken.get(o.name) is not o or o.group == BUDGET or o.kind in {"family", "budgets"}:
            continue
        if value is None or value is False or value == [] or value == o.default:
            continue
        match o.kind:
            case "pairs":
                value = pairs(option, value, form)
            case "levels":
                value = levels(value)
            case "numbers":
                value = numbers(option, value, form)
            case "coefficients":
                value = single(option, value, form)
            case "sizes":  # by name, or one for all
                found = floats(value[0], ",") if len(value) == 1 else None
                by_name = f"NAME=NUMBER, such as {option} age=20"
                value = found[0] if found and len(found) == 1 else single(option, value, by_name)
            case "names":
                value = {"none": None, "auto": "auto"}.get(value, tuple(name.strip() for name in value.split(",")))
            case "counts":
                if (found := floats(value, ",")) is None:
                    raise OptionError(f"{option} {quoted(value)} must read {form}, such as 2000,500,800.")
                counts = [int(v) if v.is_integer() else v for v in found]
                value = counts if len(counts) > 1 else counts[0]
            case "texts":
                value = tuple(value)
        out[o.name] = value
    return out
