"""Hazard ratios of a real data set at its own size, by a curator and two collectors, beside statsmodels.

``python -m benchmarks.hazards_flchain [--fits F] [--arff PATH]``

7,874 residents of Olmsted County of age 50 or more, 2,169 of whom died within some 14 years: free light chains of
immunoglobulins, as scikit-survival ships them (Dispenzieri and others 2012, Mayo Clinic Proceedings 87, 517-523).
Deaths by age, sex and whether light chains are in the highest tenth, of intervals up to 2, 5 and 10 years. One line for
each trust model and coefficient, at μ = 1: statsmodels' Poisson fit of rows split at the cut points (estimate, and
standard error of the sandwich by person), the median estimate and standard error of F fits of the same people, the
root mean squared difference from statsmodels' over its standard error, of fits that don't mark the coefficient, and the
share in % that do.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.io import arff

import privreg as pr
from benchmarks.store import save_table
from privreg.errors import ReliabilityWarning

RESULTS: Final = Path(__file__).parent / "results" / "hazards_flchain.csv"
CUTS: Final = (2.0, 5.0, 10.0)
FORMULA: Final = f"Surv(years, death, {list(CUTS)}) ~ age + C(sex) + C(chains)"
PUBLIC: Final = {
    "bounds": {"age": (50, 100)},
    "levels": {"sex": ["F", "M"], "chains": ["others", "highest"], "death": ["alive", "dead"]},
}


def people(path: Path | None) -> pd.DataFrame:
    """The data, by scikit-survival's own copy by default."""
    if path is None:
        found = find_spec("sksurv")
        if found is None or found.origin is None:
            raise SystemExit("scikit-survival has the data: pip install scikit-survival, or give --arff flchain.arff")
        path = Path(found.origin).parent / "datasets" / "data" / "flchain.arff"
    rows = pd.DataFrame(arff.loadarff(path)[0])
    texts = {c: rows[c].str.decode("utf-8") for c in ("sex", "flc.grp", "death")}
    chains = np.where(texts["flc.grp"] == "10", "highest", "others")
    held = {"years": rows["futime"] / 365.25, "death": texts["death"], "age": rows["age"], "sex": texts["sex"]}
    return pd.DataFrame(held | {"chains": chains})


def poisson(rows: pd.DataFrame) -> Any:
    """Poisson fit by statsmodels of split rows, in the order of privreg's coefficients."""
    rows = rows[rows["years"] > 0.0].assign(age=rows["age"].clip(50, 100))
    parts = []
    for j, (a, b) in enumerate(zip((0.0, *CUTS), CUTS, strict=False)):
        here = rows[rows["years"] > a]
        made = {
            "event": (here["death"] == "dead") & (here["years"] <= b),
            "one": 1.0,
            "second": j == 1,
            "third": j == 2,
        }
        made |= {"male": here["sex"] == "M", "highest": here["chains"] == "highest", "age": here["age"]}
        parts.append(pd.DataFrame(made | {"time": here["years"].clip(upper=b) - a, "who": here.index}).astype(float))
    long = pd.concat(parts)
    x = long[["one", "second", "third", "male", "highest", "age"]]
    model = sm.GLM(long["event"], x, family=sm.families.Poisson(), offset=np.log(long["time"]))
    return model.fit(cov_type="cluster", cov_kwds={"groups": long["who"].to_numpy(), "use_correction": False})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=40)
    parser.add_argument("--arff", type=Path, help="flchain.arff, if scikit-survival isn't installed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    rows, lines = people(a.arff), []
    twin = poisson(rows)
    for trust in ("central", "two_collectors"):
        model = pr.PrivateOnlineRegression.from_formula(FORMULA, rows, mu=1, trust=trust, **PUBLIC)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)
            tables = [model.fit(seed=seed, progress=False).tidy() for seed in range(a.fits)]
        fine = np.array([t["reliable"] for t in tables])
        found = np.where(fine, np.array([t["estimate"] for t in tables]), np.nan)
        errors = np.where(fine, np.array([t["std_error"] for t in tables]), np.nan)
        off = np.sqrt(np.nanmean((found - twin.params.to_numpy()) ** 2, axis=0)) / twin.bse.to_numpy()
        held = {"estimate": np.nanmedian(found, axis=0), "std_error": np.nanmedian(errors, axis=0), "off": off}
        plain = {"statsmodels": twin.params.to_numpy(), "statsmodels_error": twin.bse.to_numpy()}
        numbers = pd.DataFrame(plain | held | {"marked": 100.0 * (1.0 - fine.mean(axis=0))}).round(4)
        numbers.insert(0, "coefficient", tables[0]["term"].to_numpy())
        lines.append(numbers.assign(trust=trust, fits=a.fits))
        print(lines[-1], flush=True)
    save_table(pd.concat(lines), a.out, f"python -m benchmarks.hazards_flchain --fits {a.fits}")


if __name__ == "__main__":
    main()
