"""What other libraries call things, and what to write here in their place: the tables of `elsewhere.json`.

Their keys are what is said, mostly, and their values the names it is said of, several in one string. "signs" of
formulas are regular expressions, whose groups the text takes in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

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
