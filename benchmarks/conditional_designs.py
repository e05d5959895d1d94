"""Further designs of logistic and Poisson regressions: right models, strong and weak, and resampled survey data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Final

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.special import expit

import privreg as pr
from benchmarks.designs import DESIGNS, FAR, Design, Generator, Rows

__all__ = ["COUNTS", "HUBER", "YES"]


def _answers(rows: Callable[[Generator, int], Rows], rng: Generator, n: int) -> Rows:
    """Yes or no by a right link."""
    x = rows(rng, n)
    return x | {"y": (rng.random(n) < expit(x.pop("eta"))).astype(int)}


def _events(rows: Callable[[Generator, int], Rows], rng: Generator, n: int) -> Rows:
    """Counts by a right link."""
    x = rows(rng, n)
    return x | {"y": np.minimum(rng.poisson(np.exp(x.pop("eta"))), 20)}


def _dispersed(rows: Callable[[Generator, int], Rows], rng: Generator, n: int) -> Rows:
    """Counts by a right link whose variance is twice to three times their mean."""
    x = rows(rng, n)
    return x | {"y": np.minimum(rng.poisson(np.exp(x.pop("eta")) * rng.gamma(1.0, 1.0, n)), 20)}


def _abc(constant: float, slope: float, rng: Generator, n: int) -> Rows:
    """Three independent normal covariates."""
    a, b, c = rng.standard_normal((3, n))
    return {"a": a, "b": b, "c": c, "eta": constant + slope * (a + 0.5 * b - 0.5 * c)}


def _nothing(constant: float, rng: Generator, n: int) -> Rows:
    """No effect of anything."""
    return _abc(constant, 0.0, rng, n)


def _related(constant: float, slope: float, rng: Generator, n: int) -> Rows:
    """Two covariates of correlation 0.8, and a third."""
    a, e, c = rng.standard_normal((3, n))
    b = 0.8 * a + 0.6 * e
    return {"a": a, "b": b, "c": c, "eta": constant + slope * (a - b + c)}


def _rare_level(constant: float, slope: float, rng: Generator, n: int) -> Rows:
    """A level that 6% of the records have, and a number."""
    g, a = rng.random(n) < 0.06, rng.standard_normal(n)
    return {"g": np.where(g, "y", "n"), "a": a, "eta": constant + slope * (a + g)}


def _skewed(constant: float, slope: float, rng: Generator, n: int) -> Rows:
    """A skewed covariate and a factor of three levels."""
    a, g = np.minimum(rng.standard_exponential(n), 5.0), rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return {"a": a, "g": np.array(list("uvw"))[g], "eta": constant + slope * (a + np.array([0.0, 0.5, -0.5])[g])}


@cache
def _fair() -> pd.DataFrame:
    data = sm.datasets.fair.load_pandas().data
    merged = np.maximum(data["rate_marriage"], 3.0).astype(int).astype(str)
    return pd.DataFrame(
        {
            "affair": (data["affairs"] > 0).astype(int),
            "rm": merged,
            "age": data["age"],
            "yrs_married": data["yrs_married"],
            "religious": data["religious"],
        }
    )


@cache
def _visits() -> pd.DataFrame:
    data = sm.datasets.randhie.load_pandas().data
    return data.assign(mdvis=np.minimum(data["mdvis"], 20))


def _resampled(table: Callable[[], pd.DataFrame], rng: Generator, n: int) -> Rows:
    """Rows of a data set, drawn with replacement."""
    data = table()
    return dict(data.take(rng.integers(0, len(data), n)).reset_index(drop=True))


_THREE = {"a": FAR, "b": FAR, "c": FAR}
_YES = {"g": ["n", "y"]}
_UVW = {"g": ["u", "v", "w"]}
_FAIR = {"age": (17.5, 42.0), "yrs_married": (0.5, 23.0), "religious": (1.0, 4.0)}
_FIVE = {"lncoins": (0.0, 4.62), "idp": (0.0, 1.0), "physlm": (0.0, 1.0), "disea": (0.0, 58.6)}
_POISSON = pr.families.Poisson(y_max=20)


def _logistic(formula: str, rows: Callable[[Generator, int], Rows], bounds: dict[str, tuple[float, float]],
              levels: dict[str, list[str]] | None = None) -> Design:  # fmt: skip
    return Design(formula, partial(_answers, rows), bounds, levels, "logistic")


def _poisson(formula: str, make: Callable[[Generator, int], Rows], bounds: dict[str, tuple[float, float]],
             levels: dict[str, list[str]] | None = None) -> Design:  # fmt: skip
    return Design(formula, make, bounds, levels, _POISSON)


_ABC, _GA = "y ~ a + b + c", "y ~ g + a"
_OF = DESIGNS
YES: Final = {
    "yes, even": _logistic(_ABC, partial(_abc, 0.0, 0.5), _THREE),
    "yes, strong": _logistic(_ABC, partial(_abc, 0.0, 1.5), _THREE),
    "yes, nothing": _logistic(_ABC, partial(_nothing, 0.0), _THREE),
    "yes, seldom": _logistic(_ABC, partial(_abc, -3.0, 0.5), _THREE),
    "yes, seldom, nothing": _logistic(_ABC, partial(_nothing, -2.5), _THREE),
    "yes, related": _logistic(_ABC, partial(_related, -1.0, 0.5), _THREE),
    "yes, rare level": _logistic(_GA, partial(_rare_level, -0.5, 0.5), {"a": FAR}, _YES),
    "yes, skewed": _logistic(_GA, partial(_skewed, -1.5, 0.6), {"a": (0.0, 5.0)}, _UVW),
    "yes, fair": Design(
        "affair ~ C(rm, Treatment('4')) + age + yrs_married + religious", partial(_resampled, _fair), _FAIR,
        {"rm": ["3", "4", "5"]}, "logistic",
    ),
    **{name: _OF[name] for name in ("yes, wrong link", "yes, by group", "yes, mostly none", "yes, few far out")},
}  # fmt: skip
"""Logistic regressions."""

COUNTS: Final = {
    "counts, even": _poisson(_ABC, partial(_events, partial(_abc, 0.5, 0.3)), _THREE),
    "counts, strong": _poisson(_ABC, partial(_events, partial(_abc, 0.5, 0.6)), _THREE),
    "counts, nothing": _poisson(_ABC, partial(_events, partial(_nothing, 0.5)), _THREE),
    "counts, few": _poisson(_ABC, partial(_events, partial(_abc, -1.0, 0.3)), _THREE),
    "counts, dispersed": _poisson(_ABC, partial(_dispersed, partial(_abc, 0.7, 0.3)), _THREE),
    "counts, related": _poisson(_ABC, partial(_events, partial(_related, 0.5, 0.3)), _THREE),
    "counts, rare level": _poisson(_GA, partial(_events, partial(_rare_level, 0.5, 0.4)), {"a": FAR}, _YES),
    "counts, ordinary": _poisson(_GA, partial(_events, partial(_skewed, 0.3, 0.3)), {"a": (0.0, 5.0)}, _UVW),
    "counts, randhie": Design(
        "mdvis ~ lncoins + idp + physlm + disea", partial(_resampled, _visits), _FIVE, None, _POISSON
    ),
    **{name: _OF[name] for name in ("counts, wrong link", "counts, by group", "counts, skewed")},
}  # fmt: skip
"""Poisson regressions."""

HUBER: Final = {
    name: one
    for name, one in DESIGNS.items()
    if one.family == "huber" and name not in {"response", "valley", "ten levels"}
}
"""Huber's loss with a learned scale."""
