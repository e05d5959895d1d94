"""What other libraries call things, and what to write here in their place: the tables of `elsewhere.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

WORDS: Final[dict[str, Any]] = json.loads(files("privreg.options").joinpath("elsewhere.json").read_text("utf-8"))
"""Of attributes of results and of the package, arguments of methods and of plots, terms of formulas."""

TEXTS: Final[dict[str, str]] = WORDS["texts"]
"""Texts that several tables have, by what these call them."""


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Turn a table of names by text, several in one string, into texts by name.

    Examples
    --------
    >>> by_name({"use log": "ln logn"})
    {'ln': 'use log', 'logn': 'use log'}
    """
    return {name: TEXTS.get(text, text) for text, names in table.items() for name in names.split()}


MODELS: Final = by_name(WORDS["package"]["models"])
"""The family that stands for a model or family of statsmodels, R or scikit-learn."""
