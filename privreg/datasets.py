"""Data to try things on: two labelled reconstructions of published examples, and one set of real records.

The reconstructions are synthetic. They are drawn in blocks of a fixed size, each from its own child seed,
so row i depends on the seed and on i alone: a DataFrame, a CSV file and a longer or shorter draw agree row
by row. The seeds here make data; they have nothing to do with the noise that protects people.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from privreg.data.writing import write_frames
from privreg.errors import OptionError, choose
from privreg.unavailable import public_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Declarations",
    "published",
    "randhie",
    "randhie_schema",
    "ride_sharing",
    "ride_sharing_schema",
    "us_insurance",
    "us_insurance_schema",
    "write_csv",
    "write_parquet",
]

__dir__, __getattr__ = public_names(__name__, __all__)

_SEED = 2025
_BLOCK = 1 << 16  # rows per child seed; changing it changes the data
_CONDITIONS = ("none", "High blood pressure", "Diabetes", "Heart disease")

_Columns = dict[str, np.ndarray]


class Declarations(TypedDict):
    """Public facts about a data set, ready to pass on as ``**declarations``."""

    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[str]]


@dataclass(frozen=True)
class _Recipe:
    """How one synthetic data set is drawn: a tag to separate its seeds, the law of a row, and its labels."""

    tag: int
    draw: Callable[[np.random.Generator, int], _Columns]
    provenance: str
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _draw_us_insurance(rng: np.random.Generator, n: int) -> _Columns:
    def code(levels: int) -> np.ndarray:
        return rng.integers(0, levels, n, dtype=np.int8)

    c: _Columns = {
        "age": rng.integers(18, 66, n),
        "gender": code(2),
        "bmi": np.round(rng.uniform(18.0, 50.0, n), 2),
        "children": rng.integers(0, 6, n),
        "smoker": code(2),
        "region": code(4),
        "medical_history": code(4),
        "family_medical_history": code(4),
        "exercise_frequency": code(4),
        "occupation": code(4),
        "coverage_level": code(3),
    }
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


def _draw_ride_sharing(rng: np.random.Generator, n: int) -> _Columns:
    distance = np.round(rng.uniform(1.0, 30.0, n), 2)
    delay = rng.uniform(5.0, 45.0, n)
    c: _Columns = {
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


_RECIPES: dict[str, _Recipe] = {
    "us_insurance": _Recipe(
        tag=1,
        draw=_draw_us_insurance,
        provenance=(
            "reconstruction: synthetic rows drawn by privreg after the public description of the US "
            "insurance example in arXiv 2505.08227; not the original file and not real people"
        ),
        levels={
            "gender": ("female", "male"),
            "smoker": ("no", "yes"),
            "region": ("northeast", "northwest", "southeast", "southwest"),
            "medical_history": _CONDITIONS,
            "family_medical_history": _CONDITIONS,
            "exercise_frequency": ("Never", "Occasionally", "Rarely", "Frequently"),
            "occupation": ("Student", "Unemployed", "Blue collar", "White collar"),
            "coverage_level": ("Basic", "Standard", "Premium"),
        },
    ),
    "ride_sharing": _Recipe(
        tag=2,
        draw=_draw_ride_sharing,
        provenance=(
            "reconstruction: synthetic rides drawn by privreg in the spirit of the ride-sharing example in "
            "arXiv 2505.08227; its coefficients are privreg's own, not the original file and not real rides"
        ),
    ),
}


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise OptionError(f"{name}={value!r} is not allowed; give a whole number, {least} or more.")
    return int(value)


def _blocks(recipe: _Recipe, n: int, seed: int) -> Iterator[_Columns]:
    """Yield the first `n` rows, at most ``_BLOCK`` at a time; a block is always drawn whole, then cut."""
    for number, start in enumerate(range(0, n, _BLOCK)):
        sequence = np.random.SeedSequence(seed, spawn_key=(recipe.tag, number))
        columns = recipe.draw(np.random.Generator(np.random.SFC64(sequence)), _BLOCK)
        yield {name: values[: n - start] for name, values in columns.items()}


def _carried(public: Declarations) -> dict[str, Any]:
    """Public declarations as plain JSON values, which Parquet keeps: what models take where they are given nothing."""
    bounds = {name: [low, high] for name, (low, high) in public["bounds"].items()}
    return {"bounds": bounds, "levels": {name: list(levels) for name, levels in public["levels"].items()}}


def _frame(recipe: _Recipe, columns: _Columns, labels: bool) -> pd.DataFrame:
    import pandas as pd

    data: dict[str, Any] = {}
    for name, values in columns.items():
        if name not in recipe.levels:
            data[name] = values
        elif labels:
            data[name] = pd.Categorical.from_codes(values, pd.Index(recipe.levels[name]))
        else:
            data[name] = values.astype(np.int64)
    frame = pd.DataFrame(data, copy=False)
    coding = "labels" if labels else "integers"
    public = us_insurance_schema(coding) if recipe is _RECIPES["us_insurance"] else ride_sharing_schema()
    frame.attrs |= {"provenance": recipe.provenance, "privreg": _carried(public)}
    return frame


def _build(name: str, n: object, seed: object, labels: bool = True) -> pd.DataFrame:
    rows, key = _whole("n", n, 1), _whole("seed", seed, 0)
    recipe = _RECIPES[name]
    blocks = list(_blocks(recipe, rows, key))
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return _frame(recipe, columns, labels)


def us_insurance(n: int = 1_000_000, *, seed: int = _SEED, coding: str = "labels") -> pd.DataFrame:
    """Draw the reconstructed US insurance data.

    Every row is synthetic. The law of a row follows the public description of the data and the printed
    slopes: uniform, independent covariates, and ::

        charges = 3000 + 20 age + 1000 [male] + 50 bmi + 200 children + 5000 [smoker]
                  + medical history + family history + exercise + occupation + coverage + error

    with 0, 1000, 2000, 5000 for the four conditions (own and in the family); 0, 1000, 500, 2000 for
    exercise; 0, -500, 1000, 1500 for occupation; 0, 2000, 5000 for coverage, each in the order of its
    levels. The region has no effect. The error is normal with standard deviation 430; the shape of the
    original error isn't known.

    Parameters
    ----------
    n : int
        Number of rows. A shorter draw is the beginning of a longer one with the same seed.
    seed : int
        Seed of the synthetic data.
    coding : {"labels", "integers"}
        "labels" gives factors as categorical columns of strings; "integers" gives their positions 0, 1,
        2, ... in the order of :func:`us_insurance_schema`. That is the coding behind the published table:
        least squares on the standardised columns agrees with it.

    Returns
    -------
    pandas.DataFrame
        `n` rows, 12 columns; ``attrs["provenance"]`` says that this is a reconstruction, and ``attrs["privreg"]`` holds
        the declarations of :func:`us_insurance_schema`, which models use.

    Raises
    ------
    OptionError
        If `n` isn't a positive whole number, `seed` is negative, or `coding` is unknown.

    Notes
    -----
    A person without a condition has the level "none" in lower case: "None" would be read back from a CSV
    file as a missing value by pandas. Values depend on NumPy's random streams, which are stable across its
    releases but not promised to be.

    References
    ----------
    Xie, Shi, Jiang, Kong & He, arXiv 2505.08227, section 6.2 and Table 3.

    Examples
    --------
    >>> us_insurance(3).shape
    (3, 12)
    """
    style = choose("coding", coding, ("labels", "integers"))
    return _build("us_insurance", n, seed, style == "labels")


def us_insurance_schema(coding: str = "labels") -> Declarations:
    """Public bounds and levels of :func:`us_insurance`.

    Without its error the formula lies between 3,760 and 32,300. Declared charges of 0 to 35,000 therefore
    leave 6.2 error standard deviations at the upper end and 8.7 at the lower: clamping does not matter.

    Parameters
    ----------
    coding : {"labels", "integers"}
        The coding the data were drawn with. With "integers" every factor is a number with bounds.

    Returns
    -------
    dict
        ``bounds`` and ``levels``; pass as ``**us_insurance_schema()``.

    Raises
    ------
    OptionError
        If `coding` is unknown.

    Examples
    --------
    >>> us_insurance_schema()["levels"]["smoker"]
    ['no', 'yes']
    """
    style = choose("coding", coding, ("labels", "integers"))
    bounds: dict[str, tuple[float, float]] = {
        "age": (18, 65),
        "bmi": (18, 50),
        "children": (0, 5),
        "charges": (0, 35_000),
    }
    levels = _RECIPES["us_insurance"].levels
    if style == "integers":
        bounds |= {name: (0, len(names) - 1) for name, names in levels.items()}
        return {"bounds": bounds, "levels": {}}
    return {"bounds": bounds, "levels": {name: list(names) for name, names in levels.items()}}


def ride_sharing(n: int = 50_000, *, seed: int = _SEED) -> pd.DataFrame:
    """Draw the reconstructed ride-sharing data.

    Every ride is synthetic, made in the spirit of the published example, whose own law isn't printed. The
    fare is ``5 + 1.2 distance + 0.25 duration`` plus a standard normal error; the driver's rating and number
    of rides, the year of the vehicle and its capacity have no effect. A ride takes one minute per kilometre
    and 5 to 45 minutes of delay, so distance and duration are correlated (about 0.59).

    Parameters
    ----------
    n : int
        Number of rides. A shorter draw is the beginning of a longer one with the same seed.
    seed : int
        Seed of the synthetic data.

    Returns
    -------
    pandas.DataFrame
        `n` rows, 7 columns; ``attrs["provenance"]`` says that this is a reconstruction, and ``attrs["privreg"]`` holds
        the declarations of :func:`ride_sharing_schema`, which models use.

    Raises
    ------
    OptionError
        If `n` isn't a positive whole number or `seed` is negative.

    References
    ----------
    Xie, Shi, Jiang, Kong & He, arXiv 2505.08227, section 6.

    Examples
    --------
    >>> list(ride_sharing(2))
    ['distance', 'driver_rating', 'total_rides', 'vehicle_year', 'capacity', 'duration', 'fare']
    """
    return _build("ride_sharing", n, seed)


def ride_sharing_schema() -> Declarations:
    """Public bounds of :func:`ride_sharing`; it has no factors.

    Without its error the fare lies between 7.70 and 59.75, seven error standard deviations inside 0 to 70.

    Returns
    -------
    dict
        ``bounds`` and ``levels``; pass as ``**ride_sharing_schema()``.
    """
    return {
        "bounds": {
            "distance": (1, 30),
            "driver_rating": (3, 5),
            "total_rides": (0, 5000),
            "vehicle_year": (2010, 2024),
            "capacity": (2, 7),
            "duration": (6, 75),
            "fare": (0, 70),
        },
        "levels": {},
    }


def randhie() -> pd.DataFrame:
    """Load the RAND health insurance records that statsmodels carries: 20,190 real, long public observations.

    Returns
    -------
    pandas.DataFrame
        20,190 rows and 10 columns: ``mdvis`` (visits to a doctor), ``lncoins`` (log coinsurance rate),
        ``idp`` (individual deductible plan), ``lpi`` (log participation payment), ``fmde`` (log maximum
        expenditure), ``physlm`` (physical limitation), ``disea`` (chronic diseases), ``hlthg``, ``hlthf``,
        ``hlthp`` (health rated good, fair, poor; excellent is left out). ``attrs["privreg"]`` holds the declarations of
        :func:`randhie_schema`, which models use.

    Notes
    -----
    A row is a *person-year*, not a person: some 5,900 people took part for three or five years, and no column of the
    bundled table tells whose row is whose. A fit of all rows at μ protects each row by μ, and a person of five rows by
    √5·μ = 2.24·μ (by 5·ε if ε is pure), although what is printed counts every row as a person: it can't know. Where a
    column of your own data names the person, give it as ``id="person"`` with ``max_per_id=5``, which prints the
    guarantee per person, or with the default ``max_per_id=1``, which uses one row of each. The source file beside the
    bundled one has such a column, in the same order; the vignette on these records reads it.

    References
    ----------
    Cameron & Trivedi (2005), *Microeconometrics: Methods and Applications*; ``statsmodels.datasets.randhie``.
    """
    from statsmodels.datasets import randhie as bundled

    frame: pd.DataFrame = bundled.load_pandas().data.copy()
    provenance = "real records: RAND Health Insurance Experiment, as bundled with statsmodels"
    frame.attrs |= {"provenance": provenance, "privreg": _carried(randhie_schema())}
    return frame


def randhie_schema() -> Declarations:
    """Public bounds of :func:`randhie`, from what the variables mean rather than from these rows.

    Returns
    -------
    dict
        ``bounds`` and ``levels``; pass as ``**randhie_schema()``.

    Notes
    -----
    * ``mdvis``: 0 to 77, the range in the published descriptions of these records, a public fact since then.
    * ``lncoins`` is ln(rate + 1) of a rate between 0 and 100 per cent: 0 to ln 101.
    * ``lpi`` is the log of a yearly payment, at least 1; 8 stands for about 3,000 dollars.
    * ``fmde`` is the log of the maximum expenditure divided by the coinsurance share. The plans capped the
      first at 1,000 dollars and the smallest positive share was a quarter, so ln 4000 < 8.5.
    * ``disea`` counts chronic diseases; 50 is a round cap, and larger counts are clamped on the device.
    * The others are indicators, or shares between 0 and 1 where the source imputed them.
    """
    return {
        "bounds": {
            "mdvis": (0, 77),
            "lncoins": (0, math.log(101)),
            "idp": (0, 1),
            "lpi": (0, 8),
            "fmde": (0, 8.5),
            "physlm": (0, 1),
            "disea": (0, 50),
            "hlthg": (0, 1),
            "hlthf": (0, 1),
            "hlthp": (0, 1),
        },
        "levels": {},
    }


def published(name: str) -> dict[str, Any]:
    """Read printed numbers of a published table, for comparison with what privreg computes.

    Parameters
    ----------
    name : {"xsjkh_table1", "xsjkh_table3", "dette_graw"}
        Simulated coverage and lengths, or the US insurance coefficients, of arXiv 2505.08227; or coverage and
        lengths of arXiv 2405.12553.

    Returns
    -------
    dict
        The table; ``source`` says where it is printed and ``about`` what its numbers are.

    Raises
    ------
    OptionError
        If `name` is unknown.

    Examples
    --------
    >>> published("xsjkh_table3")["test_mse"]["OLS"]
    0.0607
    """
    table = choose("name", name, ("xsjkh_table1", "xsjkh_table3", "dette_graw"))
    text = resources.files("privreg").joinpath("experiments", "published", f"{table}.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def write_csv(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True
) -> Path:
    """Write a synthetic data set as CSV, in constant memory.

    The rows are those of the function of the same name. They go to a temporary file beside the target,
    which is renamed at the end: a run that fails or is interrupted leaves the target as it was.

    Parameters
    ----------
    name : {"us_insurance", "ride_sharing"}
        Which data; hyphens are read as underscores.
    path : path-like
        The file to write; it is replaced if it exists.
    rows : int
        Number of rows.
    seed : int, optional
        Seed of the synthetic data; the data set's own default if not given.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Returns
    -------
    pathlib.Path
        The file written.

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
    """Write a synthetic data set as Parquet, in constant memory; as :func:`write_csv` otherwise.

    Factors are written as dictionary columns. Needs pyarrow (``pip install privreg[arrow]``).

    Parameters
    ----------
    name, path, rows, seed, progress
        As for :func:`write_csv`.

    Returns
    -------
    pathlib.Path
        The file written.

    Raises
    ------
    OptionError, DataError
        As :func:`write_csv` does.
    MissingExtraError
        If pyarrow is not installed.
    """
    return _written(name, path, rows, seed, progress, parquet=True)


def _written(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None, progress: bool, *, parquet: bool
) -> Path:
    key = name.replace("-", "_") if isinstance(name, str) else name
    recipe = _RECIPES[choose("name", key, _RECIPES)]
    total = _whole("rows", rows, 1)
    blocks = _blocks(recipe, total, _SEED if seed is None else _whole("seed", seed, 0))
    frames = (_frame(recipe, columns, labels=True) for columns in blocks)
    return write_frames(frames, Path(path), total, parquet=parquet, progress=progress)
