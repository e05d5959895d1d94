"""Rows of files: of Parquet, also folders and lists of them, by row groups, and several CSV files."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from glob import glob
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from privreg.base.optional import recent
from privreg.data.sources.arrow import batches_of, kind_of
from privreg.data.sources.csv import PLAIN, Csv, header_of, open_csv
from privreg.data.sources.source import (
    CHUNK,
    Batch,
    Piece,
    Source,
    Wanted,
    ahead,
    beyond,
    chained,
    check_labels,
    dealt_pieces,
    file_mark,
    held_rows,
    of_pieces,
    summed,
)
from privreg.errors import DataError, UnsupportedArgumentError, quietly
from privreg.privacy.accounts import of_files


class _File(NamedTuple):
    """Content of a file's footer."""

    path: Path
    name: str
    mark: list[Any]  # See `file_mark`
    footer: Any  # Arrow's metadata, with which the file is opened again for little
    groups: tuple[int, ...]
    kinds: Mapping[str, str]
    folders: Mapping[str, str | None]  # Columns that it hasn't, which the folders' names give


def partitions(path: Path) -> dict[str, str | None]:
    """Columns that the names of a file's folders give, as in ``year=2020/month=1``; None stands for a missing value."""
    parts = (part.partition("=") for part in path.parent.parts)
    texts = {unquote(name): unquote(text) for name, equals, text in parts if name and equals}
    return {name: None if text == "__HIVE_DEFAULT_PARTITION__" else text for name, text in texts.items()}


def open_parquet(files: Mapping[str, Path], wanted: Wanted, kind: str) -> Source:
    """Rows of Parquet files that exist, in their order; `files` are by the names that messages call them."""
    from pyarrow import parquet

    def read(name: str, path: Path) -> _File:
        damaged = DataError(f"{name}: {DAMAGED}")
        mark, footer = quietly(lambda: (file_mark(path), parquet.read_metadata(path)), damaged)
        schema = quietly(footer.schema.to_arrow_schema, damaged)
        kinds = quietly(lambda: {f.name: kind_of(f.type) for f in schema if f.name in wanted.columns}, damaged)
        folders = {c: text for c, text in partitions(path).items() if c in wanted.columns and c not in schema.names}
        check_labels(wanted.columns, [*schema.names, *folders], name)
        groups = tuple(footer.row_group(g).num_rows for g in range(footer.num_row_groups))
        return _File(path, name, mark, footer, groups, kinds | dict.fromkeys(folders, "empty"), folders)

    held, found = [read(name, path) for name, path in files.items()], dict[str, tuple[str, str]]()
    for file in held:
        for column, is_ in file.kinds.items():  # one without any value in a file goes with all kinds
            want, where = (is_, file.name) if is_ == "empty" else found.setdefault(column, (is_, file.name))
            if is_ != want:
                raise DataError(
                    f"{file.name}: column {column!r} is {is_} here and {want} in {where}; write the files again with "
                    "the same types."
                )

    def pieces(most: int = CHUNK) -> list[Piece]:
        opened = lru_cache(1)(lambda place: _open(held[place], wanted))  # for row groups that follow one another
        return [
            Piece(n, partial(_group, partial(opened, i), file, k, wanted, most))
            for i, file in enumerate(held)
            for k, n in enumerate(file.groups)
        ]

    dealt = dealt_pieces(lambda: pieces(held_rows(len(wanted.columns))), wanted)
    paths, blocks = list(files.values()), tuple(n for file in held for n in file.groups)
    return Source(
        kind,
        sum(blocks),
        lambda skip: ahead(chained(pieces(), skip)),
        of_files(paths),
        stamp=lambda: [file_mark(path) for path in paths],
        part=lambda skip, rows: beyond(chained(pieces(), skip), 0, rows),
        dealt=lambda key: lambda skip: ahead(dealt(key)(skip)),
        blocks=blocks,
    )


def _open(file: _File, wanted: Wanted) -> Any:
    """A file whose footer says what it said before."""
    from pyarrow import parquet

    damaged = DataError(f"{file.name}: {DAMAGED}")
    # its footer is read anew only if the file was touched: of a thousand row groups that takes as long as one of these
    same = quietly(
        lambda: file_mark(file.path) == file.mark or parquet.read_metadata(file.path).equals(file.footer), damaged
    )
    if not same:
        raise DataError(f"{file.name} was changed after it was opened; build the model again.")
    coded = [c for c in wanted.columns if c in wanted.coded and file.kinds[c] == "text"]
    # pages come through a small buffer; whole columns of a row group, or a mapped file, would be held in memory
    how: dict[str, Any] = {"memory_map": False, "pre_buffer": False, "buffer_size": 1 << 16, "metadata": file.footer}
    # checksums, where the file has them: a flipped bit in a number can't be found otherwise
    how |= {"read_dictionary": coded, "page_checksum_verification": True}
    return quietly(lambda: parquet.ParquetFile(file.path, **how), damaged)


def _group(opened: Callable[[], Any], file: _File, group: int, wanted: Wanted, most: int, skip: int) -> Iterator[Batch]:
    """Batches of a row group, after so many rows."""
    where, read = f"{file.name}, row group {group}", 0
    broken, held = DataError(f"{where}: it is damaged; write or download the file again."), opened()
    columns = [c for c in wanted.columns if c not in file.folders]
    # by batches in one thread: reading costs a tenth of a fit, and threads hold more of a row group at a time
    how = {"row_groups": [group], "columns": columns, "use_threads": most > CHUNK}
    parts = quietly(lambda: held.iter_batches(most, **how), broken)
    while (part := quietly(lambda: next(parts, None), broken)) is not None:
        n = part.num_rows
        if read + n > skip:
            some = part.slice(max(skip - read, 0))
            codes = pa.array(np.zeros(some.num_rows, dtype=np.int32))
            for name, text in file.folders.items():
                some = some.append_column(name, pa.DictionaryArray.from_arrays(codes, pa.array([text], pa.string())))
            yield from batches_of(some, wanted, where, most)
        read += n
    if read != file.groups[group]:
        raise broken


PARQUET: Final = frozenset({".parquet", ".pq"})
_OTHER: Final = frozenset({
    ".xlsx", ".xls", ".json", ".jsonl", ".duckdb", ".db", ".sqlite", ".orc", ".avro", ".dta", ".sav", ".pkl", ".h5",
    ".feather", ".arrow", ".ipc",
})  # fmt: skip
DAMAGED: Final = "not a readable Parquet file (cut off, damaged, or of another kind); write or download it again."


def open_files(given: Path | Sequence[Path], wanted: Wanted, how: Csv = PLAIN) -> Source:
    """Rows of a file, a folder of Parquet files, or several files of one kind, in their order."""
    recent("pyarrow")
    files = files_of(given)
    paths, parquet = list(files.values()), {_is_parquet(path) for path in files.values()}
    if len(parquet) > 1:
        raise UnsupportedArgumentError("the files are of several kinds; give CSV files only, or Parquet files only.")
    if True in parquet:
        if how is not PLAIN:
            raise UnsupportedArgumentError("pr.csv() is for CSV files; give the path of another file alone.")
        folder = f" in {given.name}" if isinstance(given, Path) else ""
        words = f"Parquet file {paths[0].name}" if len(paths) == 1 else f"{len(paths)} Parquet files{folder}"
        return open_parquet(files, wanted, words)
    if len(paths) == 1:
        return open_csv(paths[0], wanted, how)
    first = header_of(paths[0], how)
    for path in paths[1:]:
        if header_of(path, how) != first:
            raise DataError(
                f"{path.name}: its header is not that of {paths[0].name}; all files need the same columns in the same "
                "order."
            )
    sources = [open_csv(path, wanted, how) for path in paths]

    def stamp() -> list[Any] | None:
        stamps = [source.stamp() for source in sources]
        return None if None in stamps else [mark for some in stamps for mark in some or []]

    kind = f"{len(sources)} files, {sources[0].kind} first"
    whole = Source(
        *(kind, None, sources[0].batches, of_files(paths)), lambda: summed(s.expected() for s in sources), stamp
    )
    return of_pieces(whole, lambda: (Piece(source.expected(), source.batches) for source in sources), wanted)


def arrow_schema(name: str, path: Path) -> Any:
    """Names, types and metadata of a Parquet file's columns, or folders' names'; None of a CSV file."""
    if not _is_parquet(path):
        return None

    def read() -> Any:
        held = import_module("pyarrow.parquet").read_schema(path)
        more = [pa.field(name, pa.null()) for name in partitions(path) if name not in held.names]
        return pa.schema([*held, *more], metadata=held.metadata)

    return quietly(read, DataError(f"{name}: {DAMAGED}"))


def files_of(given: Path | Sequence[Path]) -> Mapping[str, Path]:
    """Files by the names that messages call them.
    Raises DataError if there are none, or one is given twice: its people would report twice; UnsupportedArgumentError
    if one is on the network.
    """
    if isinstance(given, Path) and given.is_dir():  # its Parquet files and those below it
        here = {path.relative_to(given): path for path in given.rglob("*") if path.suffix.lower() in PARQUET}
        shown = [name for name in here if here[name].is_file() and not any(part[0] in "._" for part in name.parts)]
        files = {name.as_posix(): here[name] for name in sorted(shown, key=lambda name: _natural(name.as_posix()))}
        paths, what = list(files.values()), f"{str(given)!r} holds"
        none = f"there is no file with Parquet rows ({', '.join(sorted(PARQUET))}) in {str(given)!r}."
    else:
        paths, what = [given] if isinstance(given, Path) else list(given), "the list of files names"
        names, none = [path.name for path in paths], "the list of files is empty; give at least one."
        files = {p.name if names.count(p.name) == 1 else str(p): p for p in paths}
    if not files:
        raise DataError(none)
    stats = [path.stat() for path in paths if path.is_file()]
    places = {(stat.st_dev, stat.st_ino) for stat in stats if stat.st_ino}
    try:
        resolved = {path.resolve() for path in paths}
    except (ValueError, RuntimeError, OSError):  # a NUL, or links in a circle
        raise DataError(f"there is no file {str(paths[0])!r}, or a link leads to itself.") from None
    if len(resolved) < len(paths) or 0 < len(places) < len(stats):
        raise DataError(f"{what} one twice, perhaps by a link; give each file once.")
    for path in paths:
        address = re.match(
            r"(https?|ftp|s3|gs|abfss?|hdfs):/", path.as_posix(), re.IGNORECASE
        )  # a path keeps one slash
        if address is not None:
            raise UnsupportedArgumentError(
                f"files on the network ({address[1]}:) are not read; download it first, and give its path."
            )
        if not path.is_file():
            raise DataError(f"there is no file {str(path)!r}.")
    return files


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Key by which numbers in names are sorted by size."""
    return [(int(p), "") if i % 2 else (-1, p) for i, p in enumerate(re.split(r"(\d+)", name))], name


def _is_parquet(path: Path) -> bool:
    """True of Parquet files, False of CSV files, which may have any ending but those of other kinds."""
    if (suffix := path.suffix.lower()) in _OTHER:
        raise UnsupportedArgumentError(
            f"{path.name!r} is not a CSV or Parquet file; read it with pandas and give the DataFrame, or convert it. "
            "Databases are asked with privreg.sql(query, connection)."
        )
    return suffix in PARQUET


# --- Dask DataFrames: which files they stand for; their partitions are never asked for rows -------------------


def paths_of(frame: Any) -> Path | list[Path]:
    """Files of a Dask DataFrame that is what ``read_parquet`` gave, perhaps with fewer columns.
    Raises UnsupportedArgumentError if it is anything else: its rows would have to be made, and sent, to be read.
    """
    recent("dask")
    node, texts = getattr(frame, "expr", None), list[str]()
    while type(node).__name__ == "Projection":
        node = getattr(node, "frame", None)
    if node is not None and type(node).__name__.startswith("ReadParquet"):
        away = {"filters", "_partitions", "storage_options"}  # by which rows are left out, or files are elsewhere
        given = node.operand("path")
        if all(node.operand(name) is None for name in away.intersection(node._parameters)):
            texts = [str(one) for one in ([given] if isinstance(given, str | Path) else given)]
    if not texts or any("://" in text for text in texts):
        raise UnsupportedArgumentError(
            "workers are told the names of Parquet files, never rows, and this Dask DataFrame is more than "
            "read_parquet(...) of local files; write it once, ddf.to_parquet('folder'), and give "
            "dask.dataframe.read_parquet('folder')."
        )
    names = [sorted(glob(text), key=_natural) if set(text) & set("*?[") else [text] for text in texts]
    # one path may be a folder
    return Path(texts[0]) if names == [texts] else [Path(name) for some in names for name in some]
