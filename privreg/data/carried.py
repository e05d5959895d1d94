"""Declarations that data carry: ``attrs["privreg"]`` of DataFrames, and of the Parquet files that pandas made of them.

They are public statements of whoever made the data, and nothing here looks at a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from privreg.data.sources.arrow import attrs_of, kind_of
from privreg.data.sources.open import table_of
from privreg.errors import SchemaError
from privreg.files.optional import comes_from
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

    Raises
    ------
    SchemaError
        If what they carry is malformed, or differs among them.
    DataError
        If a file can't be read.
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
