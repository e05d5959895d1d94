"""Declarations that data carry, ``attrs["privreg"]`` of DataFrames and of pandas' Parquet files; names of columns.

They are public statements of whoever made the data, and nothing here looks at a row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from keyword import iskeyword
from typing import Any, Final

import pandas as pd

from privreg.base.optional import comes_from
from privreg.data.sources.arrow import attrs_of, kind_of
from privreg.data.sources.open import table_of
from privreg.errors import FormulaError, SchemaError, nearest
from privreg.schema.declarations import Schema

KEY: Final = "privreg"  # Key of the declarations in a DataFrame's attrs
_EMPTY: Final = ("leaked", "leaked_columns", "private")
"""What `Schema.to_json` has beside declarations; here they must be empty."""


def completed(
    schema: Schema, data: Any, columns: Iterable[str], *, numbers: bool = True, factors: bool = True
) -> Schema:
    """A schema with what the data declare about those of the `columns` that it says nothing about.

    The user's own declarations take precedence column by column. A list of tables or files must agree as far as they
    carry anything. `numbers` and `factors` say whether bounds and moments, and levels, are wanted: not where the user
    said that they come from elsewhere.
    Raises SchemaError if what they carry is malformed, or differs among them; DataError if a file can't be read.
    """
    wanted = [c for c in dict.fromkeys(columns) if not schema.declares(c)]
    if not wanted or data is None:
        return schema
    attrs = ((where, _attrs(where, held)) for where, held in table_of(data).holders())
    found = [(where, _narrowed(_read(where, held[KEY]), wanted)) for where, held in attrs if KEY in held]
    if not found:
        return schema
    first, own = found[0]
    for where, other in found[1:]:
        if other != own:
            raise SchemaError(
                f"attrs[{KEY!r}] of {where} declares other bounds or levels than that of {first}; make them equal, or "
                "give schema= (or bounds= and levels=) for all."
            )
    bounds, moments = (own.bounds, own.moments_as_given()) if numbers else ({}, {})
    levels = own.levels if factors else {}
    correlations = {pair: rho for pair, rho in moments.items() if isinstance(pair, tuple)}
    return replace(
        schema,
        bounds={**schema.bounds, **bounds},
        dates=tuple(sorted({*schema.dates, *(n for n in own.dates if n in bounds)})),
        levels={**schema.levels, **levels},
        moments={**schema.moments, **{n: m for n, m in moments.items() if n not in correlations}},
        correlations=dict(sorted({**schema.correlations, **correlations}.items())),
        carried=tuple(n for n in wanted if n in bounds or n in levels or n in moments),
    )


def _narrowed(schema: Schema, names: Iterable[str]) -> Schema:
    kept = set(names)
    return Schema(
        {n: v for n, v in schema.bounds.items() if n in kept},
        {n: v for n, v in schema.levels.items() if n in kept},
        {n: v for n, v in schema.moments.items() if n in kept},
        correlations={pair: rho for pair, rho in schema.correlations.items() if kept.issuperset(pair)},
        dates=tuple(n for n in schema.dates if n in kept),
    )


def _read(where: str, doc: Any) -> Schema:
    """Declarations, checked like a user's own."""
    plain = {k: v for k, v in doc.items() if v or k not in _EMPTY} if isinstance(doc, Mapping) else doc
    try:
        return Schema.from_document(plain)
    except SchemaError as e:
        problem = SchemaError(f"attrs[{KEY!r}] of {where}: {e}")
    raise problem


def _attrs(where: str, held: Any) -> Mapping[str, Any]:
    arrow = comes_from(held, "pyarrow", "Schema")
    attrs = attrs_of(where, held.metadata) if arrow else getattr(held, "attrs", None)
    return attrs if isinstance(attrs, Mapping) else {}


def with_truth_values(schema: Schema, data: Any, columns: Iterable[str]) -> Schema:
    """A schema with levels False and True of undeclared columns that are truth values by Arrow's types.

    Such a type is public, and the same whether or not a cell is missing; that of pandas is not.
    """
    types = _types_of(data)
    own = [c for c in columns if types and not schema.declares(c) and all(_truth(held, c) for held in types)]
    return replace(schema, levels={**schema.levels, **dict.fromkeys(own, (False, True))}) if own else schema


def refuse_texts(schema: Schema, data: Any, name: str) -> None:
    """Refuse a response of yes and no without levels whose type holds no numbers: Arrow's texts, pandas' categories.

    Such types are public. Whether a column of pandas is one of texts depends on each of its cells, so that there only a
    note, made of reports, says that most records couldn't be used.
    """
    if schema.declares(name):
        return
    types = _types_of(data)
    text = any(held.names.count(name) == 1 and kind_of(held.field(name).type) == "text" for held in types)
    dtypes = getattr(data, "dtypes", None) if isinstance(data, pd.DataFrame) else None
    if text or (dtypes is not None and isinstance(dtypes.get(name), pd.CategoricalDtype)):
        raise SchemaError(
            f"the response {name!r} is a column of texts or categories, and no levels are declared for it; give "
            f"levels={{{name!r}: [...]}} with both, the one of interest last."
        )


def _types_of(data: Any) -> list[Any]:
    """Arrow's types of the data, where they have such."""
    return [held for _, held in table_of(data).holders() if comes_from(held, "pyarrow", "Schema")]


def _truth(types: Any, name: str) -> bool:
    return types.names.count(name) == 1 and kind_of(types.field(name).type) == "boolean"


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
