"""Names of columns, which are public: a formula and declarations are checked against them before a row is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from keyword import iskeyword
from typing import Any, Final

from privreg.data.sources.open import table_of
from privreg.errors import FormulaError, SchemaError, nearest

_QUOTED: Final = re.compile(r"""Q\(\s*(["']).*?\1\s*\)""")
_DECLARING: Final = ("bounds", "levels", "moments")


def check_columns(data: Any, columns: Collection[str]) -> list[Any] | None:
    """Refuse columns that the data don't have, and return the names of those they have.

    Names are known of DataFrames, mappings of arrays, tables of other libraries and single files; of a list of
    tables, its first counts. None where only reading, or opening, would tell them.
    """
    return None if data is None else table_of(data).check(columns)


def refuse_bare(formula: str, data: Any) -> None:
    """Refuse a column whose name is no word and stands as it is in a formula that was found wrong."""
    text = " ".join(_QUOTED.sub("", formula).split())
    names = [c for c in check_columns(data, ()) or () if isinstance(c, str) and (not c.isidentifier() or iskeyword(c))]
    found = max((c for c in names if c.strip() and " ".join(c.split()) in text), key=len, default=None)
    if found is not None:
        mark = "'" if '"' in found else '"'
        raise FormulaError(
            f"the column {found!r} has a name that is no plain word; write Q({mark}{found}{mark}) in the formula."
        ) from None


def check_declared(asked: Mapping[str, Any], names: Collection[Any]) -> None:
    """Refuse bounds=, levels= or moments= of a column that isn't among the names.

    To be asked where columns are declared otherwise too, so that a misspelt name would change nothing, silently. A
    ``schema=`` may declare more: it is for several models, and for several tables.
    """
    for option in _DECLARING:
        for name in _named(asked.get(option)):
            if name not in names:
                near = nearest(name, names)
                raise SchemaError(
                    f"{option}= declares {name!r}, which is a column neither of the data nor of the model. "
                    + ("Mend the name, or leave it out." if near is None else f"Did you mean {near!r}?")
                )


def _named(declared: Any) -> Iterable[str]:
    """Columns of one kind of declaration; the key of a correlation names two."""
    for key in declared or ():
        yield from key if isinstance(key, tuple) else (key,)
