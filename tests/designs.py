"""Declarations, rows and functions that the tests of designs share."""

from __future__ import annotations

import traceback

import numpy as np
import pandas as pd

from privreg.formula.language.rowwise import rowwise
from privreg.schema.declarations import Schema

LEVELS = {
    "smoker": ("no", "yes"),
    "region": ("north", "east", "south"),
    "children": (0, 1, 2, 3),
    "member": (False, True),
}
BOUNDS = {
    "y": (0.5, 100),
    "age": (18, 65),
    "bmi": (18, 50),
    "z": (-2, 3),
    "my col": (0, 1),
    "np": (0, 1),
    "year": (1990, 2020),
}
SCHEMA = Schema.declare(BOUNDS, LEVELS)
SENTINEL = 987654.321

RIGHT_SIDES = [
    "1",
    "age",
    "age + bmi - 1",
    "smoker",
    "smoker - 1",
    "smoker + region + children + member",
    "0 + smoker + region",
    "0 + age + region",
    "smoker*region",
    "smoker:region",
    "0 + smoker:region",
    "age*smoker",
    "age:smoker",
    "(age + bmi + smoker)**2",
    "age + age:region + smoker:region:bmi",
    "children/smoker",
    "I(age**2) + age + I(age**3 / 1000)",
    "np.log(age) + numpy.sqrt(bmi)",
    "np.exp(z) + np.sin(z) + np.tanh(z)",
    "np.where(age > 40, z, -1) + np.clip(bmi, 20, 30)",
    "np.maximum(age, 40) + np.power(z, 3) + np.hypot(age, bmi)",
    "I(age > 40) + I((age > 30) & ~(bmi < 25))",
    "np.round(age, 1) + np.floor(bmi / 5)",
    "I(smoker == 'yes') + I(region != 'south') + I(children == 2)",
    "C(region, Treatment('south')) + C(children, Treatment(2))",
    "C(region, Sum) + age",
    "C(region, Sum(omit='north'))",
    "C(children, Poly) + C(smoker, Helmert)",
    "C(children, Diff):age + C(region, contrast=Helmert)",
    "C(children, Poly(scores=[0, 1, 2, 5]))",
    "bs(age, knots=[30, 50], lower_bound=18, upper_bound=65)",
    "bs(age, knots=[40], degree=2, lower_bound=18, upper_bound=65, include_intercept=True) - 1",
    "cr(age, knots=[30, 40, 50], lower_bound=18, upper_bound=65) - 1",
    "cc(bmi, knots=[25, 35], lower_bound=18, upper_bound=50) - 1",
    "smoker:bs(age, knots=[40], degree=1, lower_bound=18, upper_bound=65)",
    'Q("my col") + age',
    "year + I(year**2)",
]


def frame(n: int = 400, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = {name: rng.uniform(low, high, n) for name, (low, high) in BOUNDS.items()}
    for name, levels in LEVELS.items():
        data[name] = np.array(levels, dtype=object)[rng.integers(0, len(levels), n)]
    return pd.DataFrame(data)


def for_patsy(data: pd.DataFrame) -> pd.DataFrame:
    coded = {name: pd.Categorical(data[name], categories=list(levels)) for name, levels in LEVELS.items()}
    return data.drop(columns="np").assign(**coded)  # patsy would take it for the module


def ramp(x):
    return np.maximum(x - 30, 0)


FUNCTIONS = {"ramp": rowwise(ramp)}


def shown(error: BaseException) -> str:
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return "".join(traceback.format_exception(error))


def fails(x):
    if (x == 2.5).any():
        raise ValueError(f"SECRETLEVEL {SENTINEL} {x}")
    return x
