"""The US insurance data of arXiv 2505.08227, reconstructed."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from privreg.datasets.drawing import SEED, Columns, Declarations, Recipe, build
from privreg.errors import choose

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
