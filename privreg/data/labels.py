"""Names of columns, which are public: a formula and declarations are checked against them before a row is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from privreg.data.columns import missing
from privreg.data.sources.csv import PLAIN, Csv, check_commas, header_of
from privreg.data.sources.files import arrow_schema
from privreg.data.sources.source import check_labels
from privreg.data.sources.tables import labels_of_object
from privreg.errors import FormulaError, PrivregError, SchemaError, nearest

_QUOTED: Final = re.compile(r"""Q\(\s*(["']).*?\1\s*\)""")
_DECLARING: Final = ("bounds", "levels", "moments")
_LONGEST: Final = 4096
"""Characters of a path; a longer text is none."""


def check_columns(data: Any, columns: Collection[str]) -> list[Any] | None:
    """Refuse columns that the data don't have, and return the names of those they have.

    Names are known of DataFrames, mappings of arrays, tables of other libraries and single files; of a list of
    tables, its first counts. None where only reading, or opening, would tell them.

    Parameters
    ----------
    data : object
        Whatever a model takes as data, or None.
    columns : collection of str
        The columns that the model reads.

    Raises
    ------
    DataError
        If a column is missing.
    """
    import pandas as pd

    if isinstance(data, list | tuple):
        return check_columns(data[0], columns) if data and not isinstance(data[0], str | Path) else None
    if isinstance(data, str | Path):
        path = Path(data)
        return _of_file(path, columns) if len(str(data)) < _LONGEST and path.is_file() else None
    if isinstance(data, Csv):
        return _of_file(data.files, columns, data) if isinstance(data.files, Path) and data.files.is_file() else None
    if isinstance(data, pd.DataFrame | Mapping):
        labels = list(data)
        absent = next((c for c in columns if c not in labels), None)
        if absent is not None:
            raise missing(absent, labels, columns)
        return labels
    found = labels_of_object(data)
    if found is not None:
        check_labels(columns, found[1], f"the {found[0]}")
    return None if found is None else found[1]


def _of_file(path: Path, columns: Collection[str], how: Csv = PLAIN) -> list[Any] | None:
    try:
        held = arrow_schema(path.name, path)
        labels = header_of(path, how) if held is None else list(held.names)
    except PrivregError:  # said in full where the file is opened
        return None
    if held is None:
        check_commas(path, labels, columns)
    check_labels(columns, labels, path.name)
    return labels


def refuse_bare(formula: str, data: Any) -> None:
    """Refuse a column whose name is no word and stands in a formula as it is: asked where the formula was found wrong.

    Raises
    ------
    FormulaError
    """
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

    Raises
    ------
    SchemaError
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
