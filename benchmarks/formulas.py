"""Whether default intervals hold in formulas with factors, powers, logarithms and splines, and what notes then say.

``python -m benchmarks.formulas [--reps R] [--processes P] [--cells NAME …] [--tuning NAME] [--out FOLDER]``

People are made up from public laws (`people`): age uniform on 18 to 65, income lognormal within wide bounds, factors
of two, four and ten levels with the stated shares. The response is a sum of terms of the formula plus normal errors, so
that the truth is known for every coefficient; for a logistic response it is the log-odds, for counts the log of the
mean.
Where people are silent, that share of the responses is missing. Default settings throughout.
Every line of the table is one formula, family, number of people and budget:

coverage, low_999, high_999, inside
    Share of 95% intervals that hold their coefficient, in %, over replications and coefficients; exact 99.9% limits as
    if these were independent; whether coverage is between them.
least, term
    Coverage of the coefficient that is covered least, and which it is.
noted
    Share of fits with a note that says not to rely on the intervals.
unnoted
    Coverage in the fits without such a note, in %.
length, rmse
    Geometric means, over coefficients, of the mean length and of the root mean square error.

Lines are stored as they are made.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from patsy import dmatrix
from scipy.stats import binom

import privreg as pr
from benchmarks.store import read_table, save_table

BOUNDS = {"age": (18.0, 65.0), "income": (1_000.0, 300_000.0), "z": (-3.0, 3.0), "y": (-20.0, 20.0)}
SHARES: dict[str, dict[str, float]] = {
    "sex": {"f": 0.5, "m": 0.5},
    "smoker": {"no": 0.85, "yes": 0.15},
    "region": {"n": 0.25, "e": 0.25, "s": 0.25, "w": 0.25},
    "job": {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1},
    "state": {f"s{k}": 0.1 for k in range(10)},
}
LEVELS = {name: list(shares) for name, shares in SHARES.items()}
EFFECT = 0.4
"""Of every level but the first, by turns with both signs; of numbers per half of their range."""


MOST = 20
"""Counts, at most."""

PERCENT = ["coverage", "low_999", "high_999", "least", "noted", "unnoted"]
KEY = ["formula", "family", "people", "mu", "silent"]
"""Columns of the table that tell its lines apart."""


@dataclass(frozen=True)
class Cell:
    """A formula's right side, and the true coefficients of its columns that aren't levels or the intercept."""

    right: str
    slopes: dict[str, float] = field(default_factory=dict)
    family: str = "huber"
    n: int = 200_000
    mu: float = 1.0
    silent: float = 0.0

    @property
    def name(self) -> str:
        """As the table and --cells have it."""
        silent = f", {self.silent:.0%} silent" if self.silent else ""
        return f"{self.family}: {self.right}; n = {self.n:,}, mu = {self.mu:g}{silent}"


AGE, LOG, Z = {"age": 0.02}, {"np.log(income)": 0.5}, {"z": 0.3}
SQUARE = {"age": 0.1, "I(age ** 2)": -0.001}
DESIGNS: tuple[tuple[str, dict[str, float]], ...] = (
    ("age + z", AGE | Z),
    ("age + sex + smoker", AGE),
    ("region", {}),
    ("job", {}),
    ("state", {}),
    ("age + z + region + job", AGE | Z),
    ("age + sex + state", AGE),
    ("age + np.log(income) + sex + region", AGE | LOG),
    ("age + I(age ** 2) + sex + region", SQUARE),
    ("age + I(age ** 2) + I(age ** 3) + smoker", SQUARE | {"I(age ** 3)": 2e-6}),
    ("bs(age, knots=[35, 50], degree=3, lower_bound=18, upper_bound=65) + sex", {}),
    ("age * sex + z", AGE | Z | {"age:sex[T.m]": 0.01}),
    ("sex * region", {}),
)
USUAL = (("huber", 20_000, 2.0), ("huber", 200_000, 1.0), ("huber", 200_000, 2.0), ("logistic", 200_000, 2.0))
CELLS = (
    *(Cell(right, slopes, family, n, mu) for right, slopes in DESIGNS for family, n, mu in USUAL),
    *(Cell("z", Z, "poisson", n, 2.0) for n in (100_000, 400_000)),
    Cell("age + z + region", AGE | Z, "poisson", 100_000, 2.0),
    Cell("age + z + region + job", AGE | Z, "poisson", 100_000, 2.0),
    Cell("smoker", {}, "huber", 100_000, 1.0, silent=0.3),
    Cell("job", {}, "huber", 200_000, 1.0, silent=0.3),
    Cell("state", {}, "huber", 100_000, 2.0, silent=0.1),
    Cell("state", {}, "huber", 100_000, 2.0, silent=0.3),
    Cell("age + z + region", AGE | Z, "huber", 100_000, 2.0, silent=0.3),
    Cell("smoker", {}, "huber", 100_000, 1.0, silent=0.1),
    Cell("age + z + region", AGE | Z, "logistic", 200_000, 2.0, silent=0.1),
    Cell("age + z + region", AGE | Z, "logistic", 200_000, 2.0, silent=0.3),
    Cell("z", Z, "poisson", 400_000, 2.0, silent=0.3),
)


def people(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Made-up people, covariates only."""
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 65, n),
            "income": np.clip(rng.lognormal(10.5, 0.6, n), *BOUNDS["income"]),
            "z": np.clip(rng.normal(size=n), *BOUNDS["z"]),
        }
    )
    for name, shares in SHARES.items():
        codes = rng.choice(len(shares), n, p=list(shares.values()))
        frame[name] = pd.Categorical.from_codes(codes, categories=list(shares))
    return frame


def truth(cell: Cell, names: Sequence[str]) -> np.ndarray:
    """Coefficients, shape (p,)."""
    own = [cell.slopes.get(name, EFFECT * (-1) ** j / (1 + name.count(":"))) for j, name in enumerate(names)]
    return np.array(own)


def fit(cell: Cell, tuning: str, rep: int) -> pd.DataFrame:
    """One fit: what each interval did."""
    seed = zlib.crc32(f"{cell.name} {rep}".encode())
    rng = np.random.default_rng(seed)
    data = people(cell.n, rng)
    logistic, number = cell.family == "logistic", cell.family == "huber"
    x = dmatrix(cell.right, data)
    names = list(x.design_info.column_names)
    x, beta = np.asarray(x), truth(cell, names)
    if logistic:  # the middle of the log-odds at 0, so that both answers are given
        beta[0] -= float(np.mean(x[:10_000] @ beta))
        data["y"] = (rng.uniform(size=cell.n) < 1.0 / (1.0 + np.exp(-(x @ beta)))).astype(np.int64)
    elif number:
        data["y"] = x @ beta + rng.normal(size=cell.n)
    else:  # about one on average
        beta[0] -= float(np.mean(x[:10_000] @ beta))
        data["y"] = np.minimum(rng.poisson(np.exp(x @ beta)), MOST)
    if cell.silent:
        data["y"] = data["y"].where(rng.uniform(size=cell.n) >= cell.silent)
    res = pr.PrivateOnlineRegression.from_formula(
        f"y ~ {cell.right}",
        data,
        family=pr.Poisson(y_max=MOST) if cell.family == "poisson" else cell.family,
        mu=cell.mu,
        bounds={c: b for c, b in BOUNDS.items() if c in cell.right or (c == "y" and number)},
        levels={c: v for c, v in LEVELS.items() if c in cell.right} | ({"y": [0, 1]} if logistic else {}),
    ).fit(tuning=tuning, seed=seed, progress=False, threads=1)
    assert list(res.params.index) == names
    low, high = res.conf_int().to_numpy().T
    return pd.DataFrame(
        {
            "cell": cell.name,
            "rep": rep,
            "term": names,
            "held": (low <= beta) & (beta <= high),
            "length": high - low,
            "square": (res.params.to_numpy() - beta) ** 2,
            "noted": bool(res.privacy.doubts),
        }
    )


def line(cell: Cell, rows: pd.DataFrame) -> dict[str, object]:
    """A line of the table."""
    trials = len(rows)
    low, high = (100 * float(binom.ppf(q, trials, 0.95)) / trials for q in (0.0005, 0.9995))
    terms = rows.groupby("term")
    held = 100 * terms["held"].mean()
    coverage, quiet = float(100 * rows["held"].mean()), rows.loc[~rows["noted"], "held"]
    return {
        "formula": cell.right,
        "family": cell.family,
        "people": cell.n,
        "mu": cell.mu,
        "silent": cell.silent,
        "replications": rows["rep"].nunique(),
        "coverage": coverage,
        "low_999": low,
        "high_999": high,
        "inside": low <= coverage <= high,
        "least": float(held.min()),
        "term": held.idxmin(),
        "noted": float(100 * rows.groupby("rep")["noted"].first().mean()),
        "unnoted": float(100 * quiet.mean()) if len(quiet) else float("nan"),
        "length": float(np.exp(np.log(terms["length"].mean()).mean())),
        "rmse": float(np.exp(0.5 * np.log(terms["square"].mean()).mean())),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--cells", nargs="+", default=["*"], help="names with * and ?; other stored lines are kept")
    parser.add_argument("--tuning", default="efficient", help="of the fits")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    a = parser.parse_args(arguments)
    cells = [c for c in CELLS if any(fnmatch(c.name, pattern) for pattern in a.cells)]
    path, order = a.out / "formulas.csv", {(c.right, c.family, c.n, c.mu, c.silent): k for k, c in enumerate(CELLS)}
    command = " ".join(["python -m benchmarks.formulas", *(sys.argv[1:] if arguments is None else arguments)])
    with ProcessPoolExecutor(a.processes) as pool:
        for cell in cells:
            rows = pd.concat(pool.map(partial(fit, cell, a.tuning), range(a.reps)))
            table = pd.DataFrame([line(cell, rows)]).round({c: 2 for c in PERCENT})
            print(*table.iloc[0], sep=" | ", flush=True)
            if path.exists():
                table = pd.concat([table, read_table(path)]).drop_duplicates(KEY)
            place = [order.get(tuple(key), len(order)) for key in table[KEY].itertuples(index=False)]
            save_table(table.iloc[np.argsort(place, kind="stable")], path, command)


if __name__ == "__main__":
    main()
