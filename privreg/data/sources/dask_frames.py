"""Dask DataFrames: which files they stand for. Their partitions are never asked for rows."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Any, Final

from privreg.data.sources.files import natural
from privreg.errors import UnsupportedArgumentError
from privreg.files.optional import comes_from

__all__ = ["is_dask", "paths_of"]

_OTHERS: Final = ("filters", "_partitions", "storage_options")
"""Operands of read_parquet by which rows are left out, or files lie elsewhere."""


def is_dask(data: object) -> bool:
    """Whether this is a Dask DataFrame."""
    return comes_from(data, "dask", "DataFrame", "FrameBase") or comes_from(data, "dask_expr", "FrameBase")


def paths_of(frame: Any) -> Path | list[Path]:
    """Files of a Dask DataFrame that is what ``read_parquet`` gave, perhaps with fewer columns.

    Raises
    ------
    UnsupportedArgumentError
        If it is anything else: its rows would have to be made, and sent, to be read.
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
    if any(node.operand(name) is not None for name in node._parameters if name in _OTHERS):
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
        out += [Path(name) for name in sorted(glob(text), key=natural)] if _pattern(text) else [Path(text)]
    return out


def _pattern(text: str) -> bool:
    return any(c in text for c in "*?[")
