"""Synthetic data as files, of any number of rows in constant memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from privreg.data.writing import write_frames
from privreg.datasets.drawing import SEED, Recipe, blocks_of, frame_of
from privreg.datasets.insurance import US_INSURANCE
from privreg.datasets.rides import RIDE_SHARING
from privreg.errors import choose, whole

RECIPES: Final[dict[str, Recipe]] = {"us_insurance": US_INSURANCE, "ride_sharing": RIDE_SHARING}


def write_csv(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True
) -> Path:
    """Write a synthetic data set as CSV, in constant memory; the rows are those of the function of the same name.

    They go to a temporary file beside the target, which is renamed at the end: a run that fails or is interrupted
    leaves the target as it was.

    Parameters
    ----------
    name : {"us_insurance", "ride_sharing"}
        Which data; hyphens are read as underscores.
    path : path-like
        The file to write, which is returned; it is replaced if it exists.
    rows : int
    seed : int, optional
        Seed of the synthetic data; the data set's own default if not given.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Raises
    ------
    OptionError
        If the name, the number of rows or the seed isn't allowed.
    DataError
        If the file can't be written there.
    """
    return _written(name, path, rows, seed, progress, parquet=False)


def write_parquet(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True
) -> Path:
    """Write a synthetic data set as Parquet, factors as dictionary columns; as :func:`write_csv` otherwise.

    Raises
    ------
    MissingExtraError
        If pyarrow is not installed (``pip install privreg[arrow]``).
    """
    return _written(name, path, rows, seed, progress, parquet=True)


def _written(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None, progress: bool, *, parquet: bool
) -> Path:
    key = name.replace("-", "_") if isinstance(name, str) else name
    recipe = RECIPES[choose("name", key, RECIPES)]
    total = whole("rows", rows, 1)
    blocks = blocks_of(recipe, total, SEED if seed is None else whole("seed", seed, 0))
    frames = (frame_of(recipe, columns, labels=True) for columns in blocks)
    return write_frames(frames, Path(path), total, parquet=parquet, progress=progress)
