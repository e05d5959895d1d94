"""Declarations, rows and functions that the tests of designs share."""

from __future__ import annotations

import traceback

import numpy as np
import pandas as pd

from privreg.formula.parse import rowwise
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
