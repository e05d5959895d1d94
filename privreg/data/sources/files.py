"""Rows of files: which kind a path is of, and several files as one source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from privreg.data.sources.csv import header_of, open_csv
from privreg.data.sources.parquet import open_parquet
from privreg.data.sources.source import Batch, Source, beyond, rows_of
from privreg.data.sources.tables import open_feather
from privreg.errors import DataError, UnsupportedArgumentError
from privreg.privacy.accounts import of_files

if TYPE_CHECKING:
    from privreg.schema.declarations import Schema

__all__ = ["FEATHER", "PARQUET", "files_of", "natural", "open_files"]

PARQUET: Final = frozenset({".parquet", ".pq"})
FEATHER: Final = frozenset({".feather", ".arrow", ".ipc"})
_OTHER: Final = frozenset(
    {".xlsx", ".xls", ".json", ".jsonl", ".duckdb", ".db", ".sqlite", ".orc", ".avro", ".dta", ".sav", ".pkl", ".h5"}
)


def open_files(
    given: Path | Sequence[Path], columns: tuple[str, ...], schema: Schema, verbatim: frozenset[str]
) -> Source:
    """Rows of a file, a folder of Parquet files, or several files of one kind, in their order."""
    files = files_of(given)
    factors = schema.levels.keys()
    kinds = {_kind(path) for path in files.values()}
    if len(kinds) > 1:
        raise UnsupportedArgumentError("the files are of several kinds; give CSV files only, or Parquet files only.")
    paths = list(files.values())
    if kinds == {"Parquet"}:
        return open_parquet(files, columns, factors, _words(given, paths))
    if len(paths) == 1:
        return _single(paths[0], columns, schema, verbatim, factors)
    if kinds == {"CSV"}:
        first = header_of(paths[0])
        for path in paths[1:]:
            if header_of(path) != first:
                raise DataError(
                    f"{path.name}: its header is not that of {paths[0].name}; all files need the same columns in the "
                    "same order."
                )
    return _chained([_single(path, columns, schema, verbatim, factors) for path in paths], paths)


def _single(
    path: Path, columns: tuple[str, ...], schema: Schema, verbatim: frozenset[str], factors: Collection[str]
) -> Source:
    if _kind(path) == "Feather":
        return open_feather(path, columns, factors)
    return replace(open_csv(path, columns, schema, verbatim), identity=of_files([path]))


def files_of(given: Path | Sequence[Path]) -> Mapping[str, Path]:
    """Files by the names that messages call them.

    Raises
    ------
    DataError
        If there are none, or one is given twice: its people would report twice.
    UnsupportedArgumentError
        If one is of a kind that can't be read.
    """
    if isinstance(given, Path):
        if given.is_dir():
            return _folder(given)
        files = {given.name: given}
    else:
        if not given:
            raise DataError("the list of files is empty; give at least one.")
        _refuse_twice(given, "the list of files names")
        names = [path.name for path in given]
        files = {p.name if names.count(p.name) == 1 else str(p): p for p in given}
    for path in files.values():
        if not path.is_file():
            raise DataError(f"there is no file {str(path)!r}.")
        _kind(path)
    return files


def _folder(folder: Path) -> Mapping[str, Path]:
    """Parquet files of a folder and those below it, numbers in their names by size: part-2 before part-10."""
    found = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.suffix.lower() in PARQUET and path.is_file() and not any(p[0] in "._" for p in inside.parts):
            found[inside.as_posix()] = path
    if not found:
        raise DataError(f"there is no file with Parquet rows ({', '.join(sorted(PARQUET))}) in {str(folder)!r}.")
    _refuse_twice(list(found.values()), f"{str(folder)!r} holds")
    return {name: found[name] for name in sorted(found, key=natural)}


def _refuse_twice(paths: Sequence[Path], what: str) -> None:
    """Refuse a file that comes twice, by links too: its people would report twice."""
    found = [path.stat() for path in paths if path.is_file()]
    places = {(stat.st_dev, stat.st_ino) for stat in found if stat.st_ino}
    if len({path.resolve() for path in paths}) < len(paths) or 0 < len(places) < len(found):
        raise DataError(f"{what} one twice, perhaps by a link; give each file once.")


def natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Key by which numbers in names are sorted by size."""
    parts = re.split(r"(\d+)", name)
    return [(int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts)], name


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in _OTHER:
        raise UnsupportedArgumentError(
            f"{path.name!r} is not a CSV, Parquet or Feather file; read it with pandas and give the DataFrame, or "
            "convert it. Databases are asked with privreg.sql(query, connection)."
        )
    return "Parquet" if suffix in PARQUET else "Feather" if suffix in FEATHER else "CSV"


def _words(given: Path | Sequence[Path], paths: Sequence[Path]) -> str:
    if len(paths) == 1:
        return f"Parquet file {paths[0].name}"
    folder = f" in {given.name}" if isinstance(given, Path) else ""
    return f"{len(paths)} Parquet files{folder}"


def _chained(sources: Sequence[Source], paths: Sequence[Path]) -> Source:
    """Several files one after the other."""

    def batches(skip: int) -> Iterator[Batch]:
        for source in sources:
            n = source.expected() if skip else 0
            if n is None:  # only reading it tells where it ends
                for batch in source.batches(0):
                    yield from beyond([batch], skip)
                    skip = max(skip - rows_of(batch), 0)
            elif n > skip or not skip:
                yield from source.batches(skip)
                skip = 0
            else:
                skip -= n

    def count() -> int | None:
        counts = [source.expected() for source in sources]
        return None if None in counts else sum(n for n in counts if n is not None)

    def stamp() -> list[object]:
        return [entry for source in sources for entry in source.stamp() or []]

    kind = f"{len(sources)} files, {sources[0].kind} first"
    return Source(kind, None, batches, of_files(paths), count, stamp)
