"""Synthetic rows of two published examples, drawn in blocks of a fixed size, each from its own child seed; real ones.

A synthetic row i depends on the seed and on i alone: a DataFrame, a CSV file and a longer or shorter draw agree row by
row. The seeds here make data; they have nothing to do with the noise that protects people.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict

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


class Recipe(NamedTuple):
    """Recipe of one synthetic data set."""

    tag: int  # Separates its seeds
    draw: Callable[[np.random.Generator, int], Columns]
    declared: Callable[[str], Declarations]  # Declarations by coding
    provenance: str
    levels: Mapping[str, tuple[str, ...]]


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


def frame_of(recipe: Recipe, columns: Columns, coding: str = "labels") -> pd.DataFrame:
    """Drawn columns as a frame that carries where they are from and what is declared."""
    data: dict[str, Any] = dict(columns)
    for name, levels in recipe.levels.items():
        codes = columns[name]
        data[name] = (
            pd.Categorical.from_codes(codes, pd.Index(levels)) if coding == "labels" else codes.astype(np.int64)
        )
    frame = pd.DataFrame(data, copy=False)
    frame.attrs |= {"provenance": recipe.provenance, "privreg": carried(recipe.declared(coding))}
    return frame


def build(recipe: Recipe, n: object, seed: object, coding: str = "labels") -> pd.DataFrame:
    """The first `n` rows, of a user's seed."""
    rows, key = whole("n", n, 1), whole("seed", seed, 0)
    blocks = list(blocks_of(recipe, rows, key))
    return frame_of(recipe, {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}, coding)


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

EFFECTS: Final = {
    **dict.fromkeys(("medical_history", "family_medical_history"), (0.0, 1000.0, 2000.0, 5000.0)),
    "exercise_frequency": (0.0, 1000.0, 500.0, 2000.0),
    "occupation": (0.0, -500.0, 1000.0, 1500.0),
    "coverage_level": (0.0, 2000.0, 5000.0),
}


def _draw_us_insurance(rng: np.random.Generator, n: int) -> Columns:
    def code(name: str) -> np.ndarray:
        return rng.integers(0, len(LEVELS[name]), n, dtype=np.int8)

    c: Columns = {"age": rng.integers(18, 66, n), "gender": code("gender")}
    c |= {"bmi": np.round(rng.uniform(18.0, 50.0, n), 2), "children": rng.integers(0, 6, n)}
    c |= {name: code(name) for name in LEVELS if name != "gender"}
    mean = 3000.0 + 20.0 * c["age"] + 1000.0 * c["gender"] + 50.0 * c["bmi"] + 200.0 * c["children"]
    mean = mean + 5000.0 * c["smoker"]
    for name, effects in EFFECTS.items():
        mean = mean + np.array(effects)[c[name]]
    c["charges"] = np.round(mean + 430.0 * rng.standard_normal(n), 2)
    return c


def us_insurance(n: int = 1_000_000, *, seed: int = SEED, coding: str = "labels") -> pd.DataFrame:
    """Draw the reconstructed US insurance data.

    Every row is synthetic. The distribution of a row follows the public description of the data and the printed
    slopes: uniform, independent covariates, and ::

        charges = 3000 + 20 age + 1000 [male] + 50 bmi + 200 children + 5000 [smoker]
                  + medical history + family history + exercise + occupation + coverage + error

    with 0, 1000, 2000, 5000 for the four conditions (own and in the family); 0, 1000, 500, 2000 for exercise;
    0, -500, 1000, 1500 for occupation; 0, 2000, 5000 for coverage, each in the order of its levels. The region has no
    effect. The error is normal with standard deviation 430; the shape of the original error isn't known.

    `n` rows, 12 columns; a shorter draw is the beginning of a longer one with the same seed. `coding` "labels" gives
    factors as categorical columns of strings; "integers" gives their positions 0, 1, 2, ... in the order of
    :func:`us_insurance_schema`. That is the coding behind the published table: least squares on the standardised
    columns agrees with it. ``attrs["provenance"]`` says that this is a reconstruction, and ``attrs["privreg"]`` holds
    the declarations of :func:`us_insurance_schema`, which models use.

    A person without a condition has the level "none": "None" would be read back from a CSV file as a missing value by
    pandas. Values depend on NumPy's random streams, which are stable across its releases but not promised to be.

    See Xie, Shi, Jiang, Kong & He, arXiv 2505.08227, section 6.2 and Table 3.
    """
    return build(US_INSURANCE, n, seed, choose("coding", coding, ("labels", "integers")))


def us_insurance_schema(coding: str = "labels") -> Declarations:
    """Public bounds and levels of :func:`us_insurance` with that coding; pass as ``**us_insurance_schema()``.

    Without its error the formula is between 3,760 and 32,300, so that charges of 0 to 35,000 leave 6.2 error standard
    deviations or more: clamping does not matter. With "integers" every factor is a number with bounds.

    Examples
    --------
    >>> us_insurance_schema()["levels"]["smoker"]
    ['no', 'yes']
    """
    style = choose("coding", coding, ("labels", "integers"))
    bounds: dict[str, tuple[float, float]]
    bounds = {"age": (18, 65), "bmi": (18, 50), "children": (0, 5), "charges": (0, 35_000)}
    if style == "integers":
        bounds |= {name: (0, len(names) - 1) for name, names in LEVELS.items()}
        return {"bounds": bounds, "levels": {}}
    return {"bounds": bounds, "levels": {name: list(names) for name, names in LEVELS.items()}}


US_INSURANCE: Final = Recipe(
    tag=1,
    draw=_draw_us_insurance,
    declared=us_insurance_schema,
    provenance=(
        "reconstruction: synthetic rows drawn by privreg after the public description of the US "
        "insurance example in arXiv 2505.08227; not the original file and not real people"
    ),
    levels=LEVELS,
)


def _draw_ride_sharing(rng: np.random.Generator, n: int) -> Columns:
    c: Columns = {"distance": np.round(rng.uniform(1.0, 30.0, n), 2)}
    delay = rng.uniform(5.0, 45.0, n)
    c |= {"driver_rating": np.round(rng.uniform(3.0, 5.0, n), 1), "total_rides": rng.integers(0, 5001, n)}
    c |= {"vehicle_year": rng.integers(2010, 2025, n), "capacity": rng.integers(2, 8, n)}
    c["duration"] = np.round(c["distance"] + delay, 1)
    c["fare"] = np.round(5.0 + 1.2 * c["distance"] + 0.25 * c["duration"] + rng.standard_normal(n), 2)
    return c


def ride_sharing(n: int = 50_000, *, seed: int = SEED) -> pd.DataFrame:
    """Draw the reconstructed ride-sharing data.

    Every ride is synthetic, made in the spirit of the published example, whose distribution isn't printed. The fare is
    ``5 + 1.2 distance + 0.25 duration`` plus a standard normal error; the driver's rating and number of rides, the year
    of the vehicle and its capacity have no effect. A ride takes one minute per kilometre and 5 to 45 minutes of delay,
    so distance and duration are correlated (about 0.59).

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
    declared=lambda coding: ride_sharing_schema(),
    provenance=(
        "reconstruction: synthetic rides drawn by privreg in the spirit of the ride-sharing example in "
        "arXiv 2505.08227; its coefficients are privreg's own, not the original file and not real rides"
    ),
    levels={},
)
RECIPES: Final[dict[str, Recipe]] = {"us_insurance": US_INSURANCE, "ride_sharing": RIDE_SHARING}


def write(name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True) -> Path:
    """Write a synthetic data set, in constant memory; the rows are those of the function of the same name.

    A name that ends in .parquet or .pq makes it Parquet, with factors as dictionary columns and a row group for some
    65,000 rows; any other CSV. Rows go to a temporary file beside the target, which is renamed at the end: a run that
    fails or is interrupted leaves the target as it was. `name` is "us_insurance" or "ride_sharing"; hyphens are read as
    underscores. The `path` is returned; a file there is replaced. A progress bar is shown if standard error is a
    terminal.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from tqdm import tqdm

    key = name.replace("-", "_") if isinstance(name, str) else name
    recipe, target = RECIPES[choose("name", key, RECIPES)], Path(path)
    total = whole("rows", rows, 1)
    blocks = blocks_of(recipe, total, SEED if seed is None else whole("seed", seed, 0))
    if target.is_dir():
        raise DataError(f"{str(target)!r} is a folder; give the name of a file.")
    part, writer = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part"), None
    try:
        with part.open("xb") as out, ExitStack() as opened:  # an open writer would complain
            bar = opened.enter_context(tqdm(total=total, unit=" rows", unit_scale=True, disable=not progress or None))
            for columns in blocks:
                frame = frame_of(recipe, columns)
                if target.suffix.lower() in {".parquet", ".pq"}:
                    table = pa.Table.from_pandas(frame, preserve_index=False)
                    attrs = {b"PANDAS_ATTRS": json.dumps(frame.attrs).encode()}  # as pandas' own to_parquet has it
                    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **attrs})
                    if writer is None:
                        writer = opened.enter_context(pq.ParquetWriter(out, table.schema, write_page_checksum=True))
                    writer.write_table(table)
                else:
                    frame.to_csv(out, index=False, header=out.tell() == 0, lineterminator="\n")
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


def randhie() -> pd.DataFrame:
    """Load the RAND health insurance records that statsmodels carries: 20,190 real, long public observations.

    Columns are ``mdvis`` (visits to a doctor), ``lncoins`` (log coinsurance rate), ``idp`` (individual deductible
    plan), ``lpi`` (log participation payment), ``fmde`` (log maximum expenditure), ``physlm`` (physical limitation),
    ``disea`` (chronic diseases), ``hlthg``, ``hlthf``, ``hlthp`` (health rated good, fair, poor; excellent is left
    out). ``attrs["privreg"]`` holds the declarations of :func:`randhie_schema`, which models use.

    A row is a *person-year*, not a person: some 5,900 people took part for three or five years, and no column of the
    bundled table tells whose row is whose. A fit of all rows at μ protects each row by μ, and a person of five rows by
    √5·μ = 2.24·μ (by 5·ε if ε is pure), although what is printed counts every row as a person: it can't know. Where a
    column of your own data names the person, give it as ``id="person"`` with ``max_per_id=5``, which prints the
    guarantee per person, or with the default, 1, which uses one row of each. The source file beside the bundled one has
    such a column, in the same order; the vignette on these records reads it.

    See Cameron & Trivedi (2005), *Microeconometrics: Methods and Applications*; ``statsmodels.datasets.randhie``.
    """
    from statsmodels.datasets import randhie as bundled

    frame: pd.DataFrame = bundled.load_pandas().data.copy()
    provenance = "real records: RAND Health Insurance Experiment, as bundled with statsmodels"
    frame.attrs |= {"provenance": provenance, "privreg": carried(randhie_schema())}
    return frame


def randhie_schema() -> Declarations:
    """Public bounds of :func:`randhie`, from what the variables mean rather than from these rows.

    ``mdvis`` and ``disea``: 0 to 77 and to 58.6 in the published descriptions of these records, public facts since
    then. ``lncoins`` is ln(rate + 1) of a rate between 0 and 100 per cent. ``lpi`` is the log of a yearly payment, at
    least 1; 8 stands for about 3,000 dollars. ``fmde`` is the log of the maximum expenditure, of 1,000 dollars at most,
    divided by the coinsurance share, a quarter at least: ln 4000 < 8.5. ``physlm`` is 0 or 1, or a share between them
    where the source imputed it. The others are 0 or 1. Some are rare, and levels tell of rare values more than bounds.
    """
    logs = {"lncoins": (0.0, math.log(101)), "lpi": (0.0, 8.0), "fmde": (0.0, 8.5)}
    bounds = {"mdvis": (0, 77), "disea": (0, 60), "physlm": (0, 1), **logs}
    return {"bounds": bounds, "levels": {name: [0, 1] for name in ("idp", "hlthg", "hlthf", "hlthp")}}
