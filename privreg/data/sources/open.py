"""Sources of rows of any kind; nothing here computes anything from a value.

Declarations in ``attrs["privreg"]`` of DataFrames and Parquet files are public statements of whoever made the data.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg import errors
from privreg.data.columns import check_mapping, column_of
from privreg.data.sources.arrow import kind_of
from privreg.data.sources.csv import PLAIN, Csv, check_commas, header_of
from privreg.data.sources.database import Sql, open_sql
from privreg.data.sources.files import PARQUET, arrow_schema, files_of, open_files, paths_of
from privreg.data.sources.source import (
    CHUNK,
    Batch,
    Source,
    Wanted,
    beyond,
    check_labels,
    chunk_of,
    file_mark,
    pieces,
    refuse_few,
    rows_of,
    summed,
)
from privreg.data.sources.tables import Table, foreign, open_arrays, open_frame, open_frames, open_mapping
from privreg.privacy.accounts import comes_from
from privreg.privacy.ledger import refuse_fitted
from privreg.schema.declarations import Schema

__all__ = [
    "CHUNK", "SILO", "Batch", "Silos", "Source", "as_frame", "chunk_of", "file_mark",
    "open_arrays", "open_table", "pieces", "public_batches", "refuse_few", "rows_of", "table_of",
]  # fmt: skip

_QUERY: Final = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)


def table_of(data: Any) -> Table:
    """The table that data of any supported kind are; nothing is opened yet. Dask's stand for their Parquet files."""
    arrow = comes_from(data, "pyarrow", "Table", "RecordBatch", "RecordBatchReader", "Dataset")

    def holders() -> Iterable[tuple[str, Any]]:
        return [("the data", data.schema if arrow else data)]

    if isinstance(data, Silos):
        return Table(partial(_refuse, "rows of several silos are fitted with trust='silos'."), data.check, data.holders)
    if isinstance(data, pd.DataFrame):
        return Table(partial(open_frame, data), partial(check_labels, labels=list(data)), holders)
    if isinstance(data, str) and _QUERY.match(data) and not Path(data[:255]).exists():
        words = "a string is the path of a file; an SQL query is given as pr.sql(query, connection)."
        return Table(partial(_refuse, words))
    several = isinstance(data, list | tuple)
    if isinstance(data, str | Path) or (several and data and all(isinstance(path, str | Path) for path in data)):
        paths = Path(data) if isinstance(data, str | Path) else [Path(path) for path in data]
        return Table(partial(open_files, paths), partial(_check_file, paths, PLAIN), partial(_holders_of_files, paths))
    if isinstance(data, Csv):
        return Table(lambda wanted: open_files(data.files, wanted, data), partial(_check_file, data.files, data))
    if isinstance(data, Sql):
        return Table(partial(open_sql, data))
    if comes_from(data, "dask", "DataFrame", "FrameBase") or comes_from(data, "dask_expr", "FrameBase"):
        return Table(
            lambda wanted: replace(open_files(paths_of(data), wanted), kind="Dask DataFrame", parts=True),
            holders=lambda: _holders_of_files(paths_of(data)),
        )
    single = isinstance(data, np.ndarray | pd.Series | pd.Index | str) or comes_from(data, "polars", "Series")
    found = None if single else foreign(data)
    if found is not None:
        return found._replace(holders=holders)
    if isinstance(data, Mapping):
        if data and all(isinstance(part, pd.DataFrame) for part in data.values()):
            words = "a mapping of names to tables is data by silo: a regression of them is fitted with trust='silos'."
            return Table(
                partial(_refuse, words + " For anything else give one table, as by pd.concat(tables.values()).")
            )
        return Table(partial(open_mapping, data), partial(check_labels, labels=list(data)), holders)
    read = partial(open_frames, data)
    if several:

        def each() -> Iterator[tuple[str, Any]]:
            for i, item in enumerate(data, 1):
                for where, held in table_of(item).holders():
                    yield f"item {i}" if where == "the data" else where, held

        named = bool(data) and not isinstance(data[0], str | Path)  # as its first is
        check = {"check": table_of(data[0]).check} if named else {}
        return Table(read, **check, holders=each)
    if isinstance(data, Iterable) and not single:
        return Table(read, holders=holders)
    words = (
        f"data of type {type(data).__name__} can't be read; give a DataFrame (pandas or polars), a mapping of arrays, "
        "the path of a CSV file or of Parquet files, an Arrow or DuckDB table, pr.sql(query, connection), or an "
        "iterable of DataFrames. Rows one by one are made a DataFrame by pd.DataFrame(list(rows))."
    )
    return Table(partial(_refuse, words), holders=holders)


SILO: Final = "silo"  # Column that says which silo holds a row; not one of its own columns


def of_silo(batch: Batch, place: int, names: Sequence[str], columns: Iterable[str]) -> Batch:
    """Columns of a batch of rows that one silo holds, with its name in the column `SILO`."""
    held = {c: column_of(batch, c) for c in columns if c != SILO}
    for c, column in held.items():  # rows of a Series have labels, not places
        if isinstance(column, pd.Series):
            held[c] = column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array
    return held | {SILO: pd.Categorical.from_codes(np.full(rows_of(batch), place), pd.Index(names))}


class Silos:
    """Data by silo, each of any kind that data may be.

    `datasets` are names of their people by silo, see `privreg.privacy.accounts.named`, or one for all, or None.
    Raises DataError if `data` are no mapping of names to data, OptionError if `datasets` are of other silos.
    """

    def __init__(self, data: Any, datasets: Any = None) -> None:
        tables = isinstance(data, Mapping) and not isinstance(data, pd.DataFrame)
        if not tables or not data or not all(isinstance(name, str) and name.strip() for name in data):
            raise errors.DataError(
                "with trust='silos' the data are a mapping of silos' names to their data, as in "
                "{'north': people, 'south': 'south.parquet'}."
            )
        self.parts = dict(data)
        for (one, part), (other, again) in combinations(self.parts.items(), 2):
            paths = isinstance(part, str | os.PathLike) and isinstance(again, str | os.PathLike)
            if part is again or (paths and os.fspath(part) == os.fspath(again)):
                raise errors.DataError(
                    f"silos {one!r} and {other!r} are the same data; a person is in one silo: give each once."
                )
        if isinstance(datasets, Mapping) and set(datasets) - set(self.parts):
            raise errors.OptionError("dataset= has names of people by silo, and one that is no silo of the data.")
        self.datasets = datasets if isinstance(datasets, Mapping) else dict.fromkeys(self.parts, datasets)

    def check(self, columns: Collection[str]) -> list[Any] | None:
        """Refuse columns that a silo doesn't have, and return the names of those that all have; see `Table.check`."""
        found = list[list[Any] | None]()
        for name, part in self.parts.items():
            with errors.located(f"silo {name!r}"):
                found.append(labels := table_of(part).check([c for c in columns if c != SILO]))
            if labels is not None and SILO in labels and SILO in columns:
                raise errors.DataError(
                    f"silo {name!r} has a column {SILO!r}, which says here whose rows they are; rename it."
                )
        known = [labels for labels in found if labels is not None]
        return [SILO, *(c for c in known[-1] if all(c in k for k in known))] if len(known) == len(found) else None

    def holders(self) -> Iterator[tuple[str, Any]]:
        """Each silo's holders of declarations, see `Table.holders`."""
        for name, part in self.parts.items():
            with errors.located(f"silo {name!r}"):
                found = list(table_of(part).holders())
            yield from ((f"silo {name!r}" if where == "the data" else where, held) for where, held in found)

    def open(self, rows: Callable[[Any], Source], columns: Sequence[str]) -> Source:
        """All rows of these columns, silo by silo, with the column `SILO`; `rows` opens those of one."""
        sources = dict[str, Source]()
        for name, part in self.parts.items():
            with errors.located(f"silo {name!r}"):
                sources[name] = rows(part).of(self.datasets.get(name))
        each, names = list(sources.values()), list(sources)

        def batches() -> Iterator[Batch]:
            for place, (name, source) in enumerate(sources.items()):
                with errors.located(f"silo {name!r}"):
                    yield from (of_silo(batch, place, names, columns) for batch in source.batches(0))

        def stamp() -> list[Any] | None:
            stamps = [source.stamp() for source in each]
            return None if None in stamps else [names, *stamps]

        return Source(
            f"{len(names)} silos",
            summed(source.rows for source in each),
            lambda skip: beyond(batches(), skip),
            [source.identity for source in each],
            count=lambda: summed(source.expected() for source in each),
            stamp=stamp,
            repeatable=all(source.repeatable for source in each),
            gathered=all(source.gathered for source in each),
        )


def open_table(data: Any, columns: tuple[str, ...], schema: Schema, text: Iterable[str] = ()) -> Source:
    """Rows of data of any supported kind; only `columns` are read, `text` ones off CSV as they are written.
    Raises DataError, MissingExtraError if a package is needed, or UnsupportedArgumentError with the kinds there are.
    """
    return table_of(data).rows(Wanted(columns, schema, frozenset(text)))


def _refuse(words: str, wanted: Wanted) -> Source:
    raise errors.UnsupportedArgumentError(words)


def _check_file(given: Any, how: Csv, columns: Collection[str]) -> list[Any] | None:
    """Declarations of a single file; its faults are said in full where it is opened."""
    if not isinstance(given, Path) or len(str(given)) >= 4096 or not given.is_file():  # a longer text is no path
        return None
    try:
        held = arrow_schema(given.name, given)
        labels = header_of(given, how) if held is None else list(held.names)
    except errors.PrivregError:
        return None
    if held is None:
        check_commas(given, labels, columns)
    return check_labels(columns, labels, given.name)


def _holders_of_files(given: Path | Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """Declarations of Parquet files; a CSV file carries nothing."""
    for path in [given] if isinstance(given, Path) else given:
        if path.suffix.lower() in PARQUET or os.path.isdir(path):  # which takes any text
            yield from ((name, arrow_schema(name, file)) for name, file in files_of(path).items())


def as_frame(data: Any, columns: tuple[str, ...] | None = None, schema: Schema | None = None) -> Any:
    """A table of another library as a DataFrame of these columns, all by default; anything else as it is.

    Raises DataError if a mapping has single values, or unlike indexes, in these columns.
    """
    if isinstance(data, Mapping) and columns is not None:
        check_mapping(data, columns)
    found = foreign(data)
    if isinstance(data, pd.DataFrame | Mapping | tuple) or len(getattr(data, "shape", (0, 0))) == 1 or found is None:
        return data
    columns = tuple(found.check(()) or ()) if columns is None else columns
    parts = [pd.DataFrame(part) for part in found.rows(Wanted(columns, schema or Schema())).batches(0)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({c: [] for c in columns})


def public_batches(rows: Any, design: Any, what: str, more: Iterable[str] = (), *, simulated: bool = False) -> Any:
    """Rows that a user calls public, in the batches that a design encodes, with `more` columns; `what` tells of them.
    Raises NotPrivateError if there are none, or they were fitted privately in this process (unless with a seed, in a
    simulation); DataError if rows of an array model are no tuple of arrays, or those of a formula can't be read.
    """
    if rows is None:
        raise errors.NotPrivateError(
            "a fit keeps no rows; give public ones, such as a public test set, with the response."
        )
    if design.formula is not None:
        source = open_table(rows, (*design.columns, *more), design.schema)
        refuse_fitted(source.identity, what, simulated=simulated)
        return source.batches(0)
    if not isinstance(rows, tuple):
        raise errors.DataError(
            "the rows or test set of an array model is (endog, exog), a tuple, with offset and exposure if it has "
            "them; a file has columns for a formula."
        )
    for part in rows:
        refuse_fitted(part, what, simulated=simulated)
    return iter([rows])


KEY: Final = "privreg"  # Key of the declarations in a DataFrame's attrs


def completed(
    schema: Schema, data: Any, columns: Iterable[str], *, numbers: bool = True, factors: bool = True
) -> Schema:
    """A schema with what the data declare about those of the `columns` that it says nothing about.

    `numbers` and `factors` say whether bounds and moments, and levels, are wanted: not where they come from elsewhere.
    Raises SchemaError if what tables or files carry is malformed, or differs among them; DataError if one is unread.
    """
    if not (wanted := [c for c in dict.fromkeys(columns) if not schema.declares(c)]) or data is None:
        return schema
    found = list[tuple[str, Schema]]()
    for where, held in table_of(data).holders():
        attrs = getattr(held, "attrs", None)
        if comes_from(held, "pyarrow", "Schema"):  # of a DataFrame: as pandas keeps them, else as Arrow does
            metadata: Mapping[bytes, bytes] = held.metadata or {}
            wrong = errors.SchemaError(f"{where}: its attrs are not readable as JSON; write it again.")
            text = metadata.get(b"PANDAS_ATTRS", metadata.get(b"pandas", b"{}"))
            attrs = errors.quietly(partial(json.loads, text), wrong)
            if b"PANDAS_ATTRS" not in metadata:
                attrs = attrs.get("attributes") if isinstance(attrs, Mapping) else None
        if not isinstance(attrs, Mapping) or KEY not in attrs:
            continue
        doc = attrs[KEY]
        if isinstance(doc, Mapping):  # beside declarations, `Schema.to_json` has entries that must be empty here
            doc = {k: v for k, v in doc.items() if v or k not in {"leaked", "leaked_columns", "private"}}
        with errors.located(f"attrs[{KEY!r}] of {where}"):
            whole = Schema.from_document(doc)
        plain, named = set(wanted if numbers else ()), set(wanted if factors else ())
        declared = Schema(
            {n: v for n, v in whole.bounds.items() if n in plain},
            {n: v for n, v in whole.levels.items() if n in named},
            {n: v for n, v in whole.moments.items() if n in plain},
            correlations={pair: rho for pair, rho in whole.correlations.items() if plain.issuperset(pair)},
            dates=tuple(n for n in whole.dates if n in plain),
        )
        found.append((where, declared))
        if declared != found[0][1]:
            raise errors.SchemaError(
                f"attrs[{KEY!r}] of {where} declares other bounds or levels than that of {found[0][0]}; make them "
                "equal, or give schema= (or bounds= and levels=) for all."
            )
    if not found:
        return schema
    declared = found[0][1]
    both: dict[str, Any] = {k: {**getattr(schema, k), **getattr(declared, k)} for k in ("bounds", "levels", "moments")}
    both["correlations"] = dict(sorted({**schema.correlations, **declared.correlations}.items()))
    carried, dates = tuple(n for n in wanted if declared.declares(n)), tuple(sorted({*schema.dates, *declared.dates}))
    return replace(schema, **both, dates=dates, carried=carried)


def with_truth_values(schema: Schema, data: Any, columns: Iterable[str]) -> Schema:
    """A schema with levels False and True of undeclared columns that are truth values by Arrow's types.

    Such a type is public, and the same whether or not a cell is missing; that of pandas is not.
    """
    booleans = [c for c, found in _kinds(data, columns).items() if not schema.declares(c) and found == {"boolean"}]
    return replace(schema, levels={**schema.levels, **dict.fromkeys(booleans, (False, True))}) if booleans else schema


def refuse_texts(schema: Schema, data: Any, name: str) -> None:
    """Refuse a response of yes and no without levels whose type holds no numbers: Arrow's texts, pandas' categories.

    Such types are public. Whether a column of pandas is one of texts depends on each cell: there a note tells of it.
    """
    if schema.declares(name):
        return
    text = "text" in _kinds(data, [name])[name]
    dtypes = getattr(data, "dtypes", None) if isinstance(data, pd.DataFrame) else None
    if text or (dtypes is not None and isinstance(dtypes.get(name), pd.CategoricalDtype)):
        raise errors.SchemaError(
            f"the response {name!r} is a column of texts or categories, and no levels are declared for it; give "
            f"levels={{{name!r}: [...]}} with both, the one of interest last."
        )


def _kinds(data: Any, columns: Iterable[str]) -> dict[str, set[str]]:
    """Kinds of columns by the data's types of Arrow's, if they have such; "" of one that is absent, or there twice."""
    types = [held for _, held in table_of(data).holders() if comes_from(held, "pyarrow", "Schema")]
    return {c: {kind_of(held.field(c).type) if held.names.count(c) == 1 else "" for held in types} for c in columns}


_QUOTED: Final = re.compile(r"""Q\(\s*(["']).*?\1\s*\)""")


def check_columns(data: Any, columns: Collection[str]) -> list[Any] | None:
    """Refuse columns that the data don't have, and return the names of those they have; see `Table.check`."""
    return None if data is None else table_of(data).check(columns)


def refuse_bare(formula: str, data: Any) -> None:
    """Refuse a column whose name is no word and stands as it is in a formula that was found wrong."""
    text = " ".join(_QUOTED.sub("", formula).split())
    names = [c for c in check_columns(data, ()) or () if isinstance(c, str) and (not c.isidentifier() or iskeyword(c))]
    found = max((c for c in names if c.strip() and " ".join(c.split()) in text), key=len, default=None)
    if found is not None:
        mark = "'" if '"' in found else '"'
        raise errors.FormulaError(
            f"the column {found!r} has a name that is no plain word; write Q({mark}{found}{mark}) in the formula."
        ) from None


def check_declared(asked: Mapping[str, Any], names: Collection[Any]) -> None:
    """Refuse bounds=, levels= or moments= of a column that isn't among the names.

    A misspelt name would change nothing, silently. ``schema=`` may declare more: it is for several models and tables.
    """
    for option in ("bounds", "levels", "moments"):
        for key in asked.get(option) or ():  # that of a correlation names two
            for name in (name for name in (key if isinstance(key, tuple) else (key,)) if name not in names):
                near = errors.nearest(name, names)
                raise errors.SchemaError(
                    f"{option}= declares {name!r}, which is a column neither of the data nor of the model. "
                    + ("Mend the name, or leave it out." if near is None else f"Did you mean {near!r}?")
                )
