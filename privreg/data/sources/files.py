"""Rows of files: which kind a path is of, and several files as one source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from privreg.data.sources.arrow import DAMAGED
from privreg.data.sources.csv import PLAIN, Csv, header_of, open_csv
from privreg.data.sources.parquet import open_feather, open_parquet, partitions
from privreg.data.sources.source import Piece, Source, Wanted, chained, dealt_pieces
from privreg.errors import DataError, UnsupportedArgumentError, quietly
from privreg.privacy.accounts import of_files

PARQUET: Final = frozenset({".parquet", ".pq"})
FEATHER: Final = frozenset({".feather", ".arrow", ".ipc"})
_OTHER: Final = frozenset(
    {".xlsx", ".xls", ".json", ".jsonl", ".duckdb", ".db", ".sqlite", ".orc", ".avro", ".dta", ".sav", ".pkl", ".h5"}
)


def open_files(given: Path | Sequence[Path], wanted: Wanted, how: Csv = PLAIN) -> Source:
    """Rows of a file, a folder of Parquet files, or several files of one kind, in their order."""
    files = files_of(given)
    kinds = {_kind(path) for path in files.values()}
    if len(kinds) > 1:
        raise UnsupportedArgumentError("the files are of several kinds; give CSV files only, or Parquet files only.")
    if how is not PLAIN and kinds != {"CSV"}:
        raise UnsupportedArgumentError("pr.csv() is for CSV files; give the path of another file alone.")
    paths = list(files.values())
    if kinds == {"Parquet"}:
        folder = f" in {given.name}" if isinstance(given, Path) else ""
        words = f"Parquet file {paths[0].name}" if len(paths) == 1 else f"{len(paths)} Parquet files{folder}"
        return open_parquet(files, wanted, words)
    if kinds == {"CSV"} and len(paths) > 1:
        first = header_of(paths[0], how)
        for path in paths[1:]:
            if header_of(path, how) != first:
                raise DataError(
                    f"{path.name}: its header is not that of {paths[0].name}; all files need the same columns in the "
                    "same order."
                )
    sources = [open_csv(p, wanted, how) if kinds == {"CSV"} else open_feather(p, wanted) for p in paths]
    return sources[0] if len(sources) == 1 else _chained(sources, paths, wanted)


def arrow_schema(name: str, path: Path) -> Any:
    """Names, types and metadata of a Parquet or Feather file's columns, or folders' names'; None of a CSV file."""
    kind = _kind(path)
    if kind == "CSV":
        return None

    def read() -> Any:
        if kind == "Parquet":
            held = import_module("pyarrow.parquet").read_schema(path)
            more = [pa.field(name, pa.null()) for name in partitions(path) if name not in held.names]
            return pa.schema([*held, *more], metadata=held.metadata)
        with pa.ipc.open_file(str(path)) as opened:
            return opened.schema

    return quietly(read, DataError(f"{name}: {DAMAGED[kind]}"))


def files_of(given: Path | Sequence[Path]) -> Mapping[str, Path]:
    """Files by the names that messages call them.
    Raises DataError if there are none, or one is given twice: its people would report twice; UnsupportedArgumentError
    if one is of a kind that can't be read.
    """
    if isinstance(given, Path):
        if given.is_dir():  # its Parquet files and those below it, numbers in their names by size: part-2, part-10
            found = {}
            for path in given.rglob("*"):
                inside = path.relative_to(given)
                if path.suffix.lower() in PARQUET and path.is_file() and not any(p[0] in "._" for p in inside.parts):
                    found[inside.as_posix()] = path
            if not found:
                raise DataError(f"there is no file with Parquet rows ({', '.join(sorted(PARQUET))}) in {str(given)!r}.")
            _refuse_twice(list(found.values()), f"{str(given)!r} holds")
            return {name: found[name] for name in sorted(found, key=_natural)}
        files = {given.name: given}
    else:
        if not given:
            raise DataError("the list of files is empty; give at least one.")
        _refuse_twice(given, "the list of files names")
        names = [path.name for path in given]
        files = {p.name if names.count(p.name) == 1 else str(p): p for p in given}
    for path in files.values():
        address = _ADDRESS.match(path.as_posix())
        if address is not None:
            raise UnsupportedArgumentError(
                f"files on the network ({address[1]}:) are not read; download it first, and give its path."
            )
        if not path.is_file():
            raise DataError(f"there is no file {str(path)!r}.")
        _kind(path)
    return files


_ADDRESS: Final = re.compile(r"(https?|ftp|s3|gs|abfss?|hdfs):/", re.IGNORECASE)
"""The beginning of a URL, of whose two slashes a path keeps one."""


def _refuse_twice(paths: Sequence[Path], what: str) -> None:
    """Refuse a file that comes twice, by links too: its people would report twice."""
    found = [path.stat() for path in paths if path.is_file()]
    places = {(stat.st_dev, stat.st_ino) for stat in found if stat.st_ino}
    if len({path.resolve() for path in paths}) < len(paths) or 0 < len(places) < len(found):
        raise DataError(f"{what} one twice, perhaps by a link; give each file once.")


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
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


def _chained(sources: Sequence[Source], paths: Sequence[Path], wanted: Wanted) -> Source:
    """Several files one after the other."""

    def pieces() -> Iterator[Piece]:
        return (Piece(source.expected(), source.batches) for source in sources)

    def count() -> int | None:
        counts = [source.expected() for source in sources]
        return None if None in counts else sum(n for n in counts if n is not None)

    def stamp() -> list[object] | None:
        stamps = [source.stamp() for source in sources]
        return None if None in stamps else [entry for some in stamps for entry in some or []]

    kind = f"{len(sources)} files, {sources[0].kind} first"
    dealt = dealt_pieces(pieces, wanted)
    return Source(kind, None, lambda skip: chained(pieces(), skip), of_files(paths), count, stamp, dealt=dealt)


# --- Dask DataFrames: which files they stand for; their partitions are never asked for rows -------------------

_OPERANDS: Final = ("filters", "_partitions", "storage_options")
"""Operands of read_parquet by which rows are left out, or files are elsewhere."""


def paths_of(frame: Any) -> Path | list[Path]:
    """Files of a Dask DataFrame that is what ``read_parquet`` gave, perhaps with fewer columns.
    Raises UnsupportedArgumentError if it is anything else: its rows would have to be made, and sent, to be read.
    """
    refusal = UnsupportedArgumentError(
        "workers are told the names of Parquet files, never rows, and this Dask DataFrame is more than "
        "read_parquet(...) of local files; write it once, ddf.to_parquet('folder'), and give "
        "dask.dataframe.read_parquet('folder')."
    )
    node = getattr(frame, "expr", None)
    while type(node).__name__ == "Projection":
        node = getattr(node, "frame", None)
    if node is None or not type(node).__name__.startswith("ReadParquet"):
        raise refusal
    if any(node.operand(name) is not None for name in node._parameters if name in _OPERANDS):
        raise refusal
    given = node.operand("path")
    if isinstance(given, str | Path) and not _pattern(str(given)):
        given = str(given)
        if "://" in given:
            raise refusal
        return Path(given)
    out: list[Path] = []
    for one in [given] if isinstance(given, str | Path) else list(given):
        text = str(one)
        if "://" in text:
            raise refusal
        out += [Path(name) for name in sorted(glob(text), key=_natural)] if _pattern(text) else [Path(text)]
    return out


def _pattern(text: str) -> bool:
    return any(c in text for c in "*?[")
