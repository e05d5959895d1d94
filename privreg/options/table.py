"""The table of all options, `table.json`: what each is called, what it may be, who takes it, what it is for.

Front doors of Python and verbs of the command line take their names, ranges, choices, hints and help from it, and
docstrings what `parameters.toml` says of them. Needs the standard library only, so that ``--help`` answers at once.
"""

import json
import math
import re
import tomllib
from collections.abc import Callable
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from privreg.errors import OptionError, choose, real, shown

DOORS: Final = {
    "local.arrays": "PrivateOnlineRegression",
    "local.formula": "from_formula",
    "local.start": "start",
    "local.fit": "fit",
    "curator.fit": "fit",
    "means.arrays": "PrivateMeans",
    "means.formula": "from_formula",
    "means.start": "start",
    "means.fit": "fit",
    "silos.formula": "FederatedRegression.from_formula",
    "silos.fit": "FederatedRegression.fit",
    "plan.formula": "plan",
}
"""Front doors, as a product and a stage, with what messages call them."""


class Option(NamedTuple):
    """One option, as `table.json` has it, but for what is as here; other libraries' names are in `elsewhere.json`."""

    name: str
    # Products whose models take it; with .arrays or .formula one stage, with .run start() and fit(), with .fit fit()
    doors: str = ""
    verbs: str = ""  # Verbs of the command line that take it, and "study" of a study's file
    kind: str = "text"  # Kind of value: choice, number, whole, count and flag are checked here
    default: Any = None  # In Python; that of the command line is equal, or left to Python
    choices: tuple[str, ...] = ()  # For the family: names on the command line; not all front doors have them all
    low: float = 0.0  # Lower end: of a number not itself allowed, of a whole number allowed
    high: float = math.inf  # Not itself allowed of a number unless `closed`
    closed: bool = False
    what: str = ""  # Words for what it must be, after "must be"
    group: str = ""  # Title in the help of verbs
    metavar: str | None = None
    help: str = ""
    shell: str = ""  # Its name on the command line, if that is another
    families: str = ""  # Families that it belongs to
    curator: str = ""  # Why a curator's published descent has none; in the table a name of its "reasons", or the text

    def takes(self, door: str) -> bool:
        """True if a front door takes it."""
        product, _, stage = door.partition(".")
        wide = "run" if stage in {"start", "fit"} else ""
        return bool({door, f"{product}.{wide}".rstrip(".")} & set(self.doors.split()))

    def of(self, product: str) -> bool:
        """True if any front door of a product takes it."""
        return any(d.partition(".")[0] == product for d in self.doors.split())

    @property
    def spelt(self) -> str:
        """Its name on the command line; of a word without dashes as it is."""
        return self.name if self.kind.startswith("word") else f"--{self.shell or self.name.replace('_', '-')}"

    @property
    def dest(self) -> str:
        """Its attribute of what argparse returns."""
        return (self.shell or self.name).replace("-", "_")

    def check(self, value: Any, called: str = "", high: int | None = None) -> Any:
        """Return a value that is among the choices, or in the range; None and "auto" where they are the default.

        `called` is its name in front of the value in messages, that of Python by default, and `high` the largest whole
        number, where that depends on the data.
        """
        if value is self.default or (isinstance(value, str) and value == "auto" == self.default):
            return value
        if self.kind == "choice":
            return choose(self.name, value, self.choices)
        top = self.high if high is None else high
        if self.kind == "flag" and isinstance(value, bool):
            return value
        if self.kind == "count" and isinstance(value, float) and value.is_integer():  # as 1e6
            value = int(value)
        if self.kind in {"whole", "count"}:
            if not isinstance(value, bool) and isinstance(value, Integral) and self.low <= int(value) <= top:
                return int(value)
        elif self.kind == "number":
            number = real(value)
            if number is not None and self.low < number and (number < top or (self.closed and number == top)):
                return number
        allowed = self.what.format(low=self.low, high=top)
        raise OptionError(f"{called or f'{self.name}='}{shown(value)} must be {allowed}.")


BUDGET: Final = "budget per person (exactly one form)"  # Title of a group in help


_DOCUMENT: Final = json.loads(Path(__file__).with_name("table.json").read_text("utf-8"))
_RECORDS: Final = [record for of_one_kind in _DOCUMENT["options"].values() for record in of_one_kind]
for _record in _RECORDS:
    _record |= {key: tuple(value) for key, value in _record.items() if isinstance(value, list)}
    if "curator" in _record:
        _record["curator"] = _DOCUMENT["reasons"].get(_record["curator"], _record["curator"])

TABLE: Final = tuple(Option(**record) for record in _RECORDS)
"""Every option of `table.json`, in the order in which help and messages list them."""


@cache
def accepted(door: str) -> dict[str, Option]:
    """Options of a front door, by name."""
    return {o.name: o for o in TABLE if o.takes(door)}


@cache
def of_verb(verb: str) -> tuple[Option, ...]:
    """Options of a verb of the command line."""
    return tuple(o for o in TABLE if verb in o.verbs.split())


def find(door: str, name: str) -> Option:
    """The option of a name that a front door takes."""
    return accepted(door)[name]


def check(door: str, name: str, value: Any, high: int | None = None) -> Any:
    """Return what a front door was given for an option, if it may be that; see `Option.check`."""
    return accepted(door)[name].check(value, high=high)


# --- documentation -----------------------------------------------------------------------------------------------

_T = TypeVar("_T", bound=Callable[..., Any])


@cache
def _parameters() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("parameters.toml").read_text("utf-8"))


def described(door: str, name: str) -> tuple[str, str]:
    """Type and description of an option, as a front door's docstring has them.
    Raises KeyError if `parameters.toml` has none.
    """
    tables = (_parameters().get(table, {}) for table in (door, door.partition(".")[0], "local"))
    found = next((table[name] for table in tables if name in table), None)
    if found is None:
        raise KeyError(f"{name} of {door}")
    kind, _, text = found.partition("\n")
    return kind, text


def documented(door: str) -> Callable[[_T], _T]:
    """Fill in the parameters of a front door, its keywords in their order, where its docstring has ``**options``."""

    def fill(target: _T) -> _T:
        from inspect import signature
        from textwrap import indent

        names = [p.name for p in signature(target).parameters.values() if p.kind is p.KEYWORD_ONLY]
        found = ((name, *described(door, name)) for name in names)
        text = "\n".join(f"{name} : {kind}\n{indent(said, '    ')}" for name, kind, said in found)
        if target.__doc__ is not None:  # as it is under python -OO
            target.__doc__ = re.sub(r"(?m)^( *)\*\*options : .*$", lambda at: indent(text, at[1]), target.__doc__)
        return target

    return fill
