"""Synthetic rows of two published examples, drawn in blocks of a fixed size, each from its own child seed.

Row i depends on the seed and on i alone: a DataFrame, a CSV file and a longer or shorter draw agree row by row. The
seeds here make data; they have nothing to do with the noise that protects people.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict

import numpy as np
import pandas as pd

from privreg.errors import DataError, choose, whole

SEED: Final = 2025
BLOCK: Final = 1 << 16  # Rows per child seed; changing it changes the data
Columns = dict[str, np.ndarray]


class Declarations(TypedDict):
    """Public facts about a data set, ready to pass on as ``**declarations``."""

    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[str] | list[int]]


@dataclass(frozen=True)
class Recipe:
    """Recipe of one synthetic data set.

    A tag to separate its seeds, the distribution of a row, what is declared of it (with or without labels), and its
    labels.
    """

    tag: int
    draw: Callable[[np.random.Generator, int], Columns]
    declared: Callable[[bool], Declarations]
    provenance: str
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def blocks_of(recipe: Recipe, n: int, seed: int) -> Iterator[Columns]:
    """Yield the first `n` rows, at most ``BLOCK`` at a time; a block is always drawn whole, then cut."""
    for number, start in enumerate(range(0, n, BLOCK)):
        sequence = np.random.SeedSequence(seed, spawn_key=(recipe.tag, number))
        columns = recipe.draw(np.random.Generator(np.random.SFC64(sequence)), BLOCK)
        yield {name: values[: n - start] for name, values in columns.items()}


def carried(public: Declarations) -> dict[str, Any]:
    """Public declarations as plain JSON values, which Parquet keeps: what models take where they are given nothing."""
    bounds = {name: [low, high] for name, (low, high) in public["bounds"].items()}
    return {"bounds": bounds, "levels": {name: list(levels) for name, levels in public["levels"].items()}}


def frame_of(recipe: Recipe, columns: Columns, labels: bool) -> pd.DataFrame:
    """Drawn columns as a frame that carries where they are from and what is declared."""
    data: dict[str, Any] = {}
    for name, values in columns.items():
        if name not in recipe.levels:
            data[name] = values
        elif labels:
            data[name] = pd.Categorical.from_codes(values, pd.Index(recipe.levels[name]))
        else:
            data[name] = values.astype(np.int64)
    frame = pd.DataFrame(data, copy=False)
    frame.attrs |= {"provenance": recipe.provenance, "privreg": carried(recipe.declared(labels))}
    return frame


def build(recipe: Recipe, n: object, seed: object, labels: bool = True) -> pd.DataFrame:
    """The first `n` rows, of a user's seed."""
    rows, key = whole("n", n, 1), whole("seed", seed, 0)
    blocks = list(blocks_of(recipe, rows, key))
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return frame_of(recipe, columns, labels)


# --- the us insurance data of arxiv 2505 ----------------------------------------------------------


CONDITIONS: Final = ("none", "High blood pressure", "Diabetes", "Heart disease")
LEVELS: Final = {
    "gender": ("female", "male"),
    "smoker": ("no", "yes"),
    "region": ("northeast", "northwest", "southeast", "southwest"),
    "medical_history": CONDITIONS,
    "family_medical_history": CONDITIONS,
    "exercise_frequency": ("Never", "Occasionally", "Rarely", "Frequently"),
    "occupation": ("Student", "Unemployed", "Blue collar", "White collar"),
    "coverage_level": ("Basic", "Standard", "Premium"),
}


def _draw_us_insurance(rng: np.random.Generator, n: int) -> Columns:
    def code(name: str) -> np.ndarray:
        return rng.integers(0, len(LEVELS[name]), n, dtype=np.int8)

    c: Columns = {"age": rng.integers(18, 66, n), "gender": code("gender")}
    c |= {"bmi": np.round(rng.uniform(18.0, 50.0, n), 2), "children": rng.integers(0, 6, n)}
    c |= {name: code(name) for name in LEVELS if name != "gender"}
    condition = np.array([0.0, 1000.0, 2000.0, 5000.0])
    mean = (
        3000.0
        + 20.0 * c["age"]
        + 1000.0 * c["gender"]
        + 50.0 * c["bmi"]
        + 200.0 * c["children"]
        + 5000.0 * c["smoker"]
        + condition[c["medical_history"]]
        + condition[c["family_medical_history"]]
        + np.array([0.0, 1000.0, 500.0, 2000.0])[c["exercise_frequency"]]
        + np.array([0.0, -500.0, 1000.0, 1500.0])[c["occupation"]]
        + np.array([0.0, 2000.0, 5000.0])[c["coverage_level"]]
    )
    c["charges"] = np.round(mean + 430.0 * rng.standard_normal(n), 2)
    return c


def us_insurance(n: int = 1_000_000, *, seed: int = SEED, coding: str = "labels") -> pd.DataFrame:
    """Draw the reconstructed US insurance data.

    Every row is synthetic. The distribution of a row follows the public description of the data and the printed
    slopes: uniform, independent covariates, and ::

        charges = 3000 + 20 age + 1000 [male] + 50 bmi + 200 children + 5000 [smoker]
                  + medical history + family history + exercise + occupation + coverage + error

    with 0, 1000, 2000, 5000 for the four conditions (own and in the family); 0, 1000, 500, 2000 for
    exercise; 0, -500, 1000, 1500 for occupation; 0, 2000, 5000 for coverage, each in the order of its
    levels. The region has no effect. The error is normal with standard deviation 430; the shape of the
    original error isn't known.

    `n` rows, 12 columns; a shorter draw is the beginning of a longer one with the same seed. `coding` "labels" gives
    factors as categorical columns of strings; "integers" gives their positions 0, 1, 2, ... in the order of
    :func:`us_insurance_schema`. That is the coding behind the published table: least squares on the standardised
    columns agrees with it. ``attrs["provenance"]`` says that this is a reconstruction, and ``attrs["privreg"]`` holds
    the declarations of :func:`us_insurance_schema`, which models use.

    Notes
    -----
    A person without a condition has the level "none" in lower case: "None" would be read back from a CSV
    file as a missing value by pandas. Values depend on NumPy's random streams, which are stable across its
    releases but not promised to be.

    References
    ----------
    Xie, Shi, Jiang, Kong & He, arXiv 2505.08227, section 6.2 and Table 3.
    """
    style = choose("coding", coding, ("labels", "integers"))
    return build(US_INSURANCE, n, seed, style == "labels")


def us_insurance_schema(coding: str = "labels") -> Declarations:
    """Public bounds and levels of :func:`us_insurance` with that coding; pass as ``**us_insurance_schema()``.

    Without its error the formula is between 3,760 and 32,300. Declared charges of 0 to 35,000 therefore
    leave 6.2 error standard deviations at the upper end and 8.7 at the lower: clamping does not matter.
    With "integers" every factor is a number with bounds.

    Examples
    --------
    >>> us_insurance_schema()["levels"]["smoker"]
    ['no', 'yes']
    """
    style = choose("coding", coding, ("labels", "integers"))
    bounds: dict[str, tuple[float, float]] = {"age": (18, 65), "bmi": (18, 50), "children": (0, 5)}
    bounds["charges"] = (0, 35_000)
    if style == "integers":
        bounds |= {name: (0, len(names) - 1) for name, names in LEVELS.items()}
        return {"bounds": bounds, "levels": {}}
    return {"bounds": bounds, "levels": {name: list(names) for name, names in LEVELS.items()}}


US_INSURANCE: Final = Recipe(
    tag=1,
    draw=_draw_us_insurance,
    declared=lambda labels: us_insurance_schema("labels" if labels else "integers"),
    provenance=(
        "reconstruction: synthetic rows drawn by privreg after the public description of the US "
        "insurance example in arXiv 2505.08227; not the original file and not real people"
    ),
    levels=LEVELS,
)


# --- rides in the spirit of the ride-sharing example of arxiv 2505 --------------------------------


def _draw_ride_sharing(rng: np.random.Generator, n: int) -> Columns:
    distance = np.round(rng.uniform(1.0, 30.0, n), 2)
    delay = rng.uniform(5.0, 45.0, n)
    c: Columns = {
        "distance": distance,
        "driver_rating": np.round(rng.uniform(3.0, 5.0, n), 1),
        "total_rides": rng.integers(0, 5001, n),
        "vehicle_year": rng.integers(2010, 2025, n),
        "capacity": rng.integers(2, 8, n),
        "duration": np.round(distance + delay, 1),
    }
    mean = 5.0 + 1.2 * c["distance"] + 0.25 * c["duration"]
    c["fare"] = np.round(mean + rng.standard_normal(n), 2)
    return c


def ride_sharing(n: int = 50_000, *, seed: int = SEED) -> pd.DataFrame:
    """Draw the reconstructed ride-sharing data.

    Every ride is synthetic, made in the spirit of the published example, whose distribution isn't printed. The
    fare is ``5 + 1.2 distance + 0.25 duration`` plus a standard normal error; the driver's rating and number
    of rides, the year of the vehicle and its capacity have no effect. A ride takes one minute per kilometre
    and 5 to 45 minutes of delay, so distance and duration are correlated (about 0.59).

    A shorter draw is the beginning of a longer one with the same seed. ``attrs["provenance"]`` says that this is a
    reconstruction, and ``attrs["privreg"]`` holds the declarations of :func:`ride_sharing_schema`, which models use.

    References
    ----------
    Xie, Shi, Jiang, Kong & He, arXiv 2505.08227, section 6.

    Examples
    --------
    >>> list(ride_sharing(2))
    ['distance', 'driver_rating', 'total_rides', 'vehicle_year', 'capacity', 'duration', 'fare']
    """
    return build(RIDE_SHARING, n, seed)


def ride_sharing_schema() -> Declarations:
    """Public bounds of :func:`ride_sharing`, which has no factors; pass as ``**ride_sharing_schema()``.

    Without its error the fare is between 7.70 and 59.75, seven error standard deviations inside 0 to 70.
    """
    of_rides = {"distance": (1, 30), "duration": (6, 75), "fare": (0, 70)}
    of_drivers = {"driver_rating": (3, 5), "total_rides": (0, 5000), "vehicle_year": (2010, 2024), "capacity": (2, 7)}
    return {"bounds": {**of_rides, **of_drivers}, "levels": {}}


RIDE_SHARING: Final = Recipe(
    tag=2,
    draw=_draw_ride_sharing,
    declared=lambda labels: ride_sharing_schema(),
    provenance=(
        "reconstruction: synthetic rides drawn by privreg in the spirit of the ride-sharing example in "
        "arXiv 2505.08227; its coefficients are privreg's own, not the original file and not real rides"
    ),
)


# --- files, of any number of rows in constant memory ----------------------------------------------


RECIPES: Final[dict[str, Recipe]] = {"us_insurance": US_INSURANCE, "ride_sharing": RIDE_SHARING}


def write_csv(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True
) -> Path:
    """Write a synthetic data set as CSV, in constant memory; the rows are those of the function of the same name.

    They go to a temporary file beside the target, which is renamed at the end: a run that fails or is interrupted
    leaves the target as it was. `name` is "us_insurance" or "ride_sharing"; hyphens are read as underscores. The `path`
    is returned; a file there is replaced. A progress bar is shown if standard error is a terminal.
    """
    return _write(name, path, rows, seed, progress, _csv)


def write_parquet(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True
) -> Path:
    """Write a synthetic data set as Parquet, factors as dictionary columns; as :func:`write_csv` otherwise."""
    return _write(name, path, rows, seed, progress, _parquet)


def _write(name: str, path: str | os.PathLike[str], rows: int, seed: int | None, progress: bool, made: Any) -> Path:
    """Frames one after the other as one file that is `made` so."""
    from tqdm import tqdm

    key = name.replace("-", "_") if isinstance(name, str) else name
    recipe, target = RECIPES[choose("name", key, RECIPES)], Path(path)
    total = whole("rows", rows, 1)
    blocks = blocks_of(recipe, total, SEED if seed is None else whole("seed", seed, 0))
    if target.is_dir():
        raise DataError(f"{str(target)!r} is a folder; give the name of a file.")
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        with (
            made(part) as write,
            tqdm(total=total, unit=" rows", unit_scale=True, disable=None if progress else True) as bar,
        ):
            for columns in blocks:
                write(frame := frame_of(recipe, columns, labels=True))
                bar.update(len(frame))
        part.replace(target)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(
            f"can't write {str(target)!r} ({reason}); give a file in a folder that can be written."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return target


@contextmanager
def _csv(part: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    with part.open("x", encoding="utf-8", newline="") as out:
        yield lambda frame: frame.to_csv(out, index=False, header=out.tell() == 0, lineterminator="\n")


@contextmanager
def _parquet(part: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A row group a frame: few enough rows that a reader holds little."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, opened = None, ExitStack()  # which also ends a run that failed: an open writer would complain

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer
        table = pa.Table.from_pandas(frame, preserve_index=False)
        attrs = {b"PANDAS_ATTRS": json.dumps(frame.attrs).encode()}  # as pandas' own to_parquet has it
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **attrs})
        writer = writer or opened.enter_context(pq.ParquetWriter(out, table.schema, write_page_checksum=True))
        writer.write_table(table)

    with part.open("xb") as out, opened:
        yield write
