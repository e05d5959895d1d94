"""Fits by rounds on designs where the reference law is right, and where it is wrong.

``python -m benchmarks.rounds [--designs NAME …] [--tunings NAME …] [--n N] [--mu MU] [--reps R] [--processes K]``

Each design is one formula on made-up data whose coefficients are known: spread that grows along a covariate, curved
effects, skewed covariates and errors, factors with rare levels, correlation, medians and upper quantiles, yes or no,
counts and classes. One line for each design, tuning and coefficient:

covered, trials, coverage
    95% intervals that hold the coefficient; all; in %.
low_999, high_999, inside
    Between which a share with exactly this level lies in 99.9% of such studies, and whether it does.
length, rmse, bias
    Mean length; root mean square error; mean error in units of the errors' sd.
marked
    Share of fits in which a note takes the coefficient back.

Coefficients that errors which are not symmetric move (the intercept of `skewed`) are left out.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom
from tqdm import tqdm

import privreg as pr
from benchmarks.store import read_table, save_table

RESULTS = Path(__file__).parent / "results"
SD = 0.5
FAR = (-4.0, 4.0)
NAN = float("nan")

Rows = dict[str, Any]
Maker = Callable[[np.random.Generator, int], Rows]


class Design(NamedTuple):
    """A formula, data for it, and the coefficients behind them."""

    formula: str
    make: Maker
    truth: tuple[float, ...]
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[str]] | None = None
    family: Any = "huber"
    more: dict[str, Any] | None = None


def _normal(rng: np.random.Generator, n: int, names: str = "abc") -> Rows:
    return dict(zip(names, rng.standard_normal((len(names), n)), strict=True))


def _plain(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + SD * rng.standard_normal(n)}


def _fanned(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + SD * np.exp(x["a"] / 2) * rng.standard_normal(n)}


def _tenfold(rng: np.random.Generator, n: int) -> Rows:
    a, b = rng.random(n), rng.standard_normal(n)
    return {"a": a, "b": b, "y": 1 + a + b + 0.25 * (1 + 9 * a) * rng.standard_normal(n)}


def _quadratic(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n, "ab")
    return x | {"y": 1 + x["a"] + x["a"] ** 2 + x["b"] + SD * rng.standard_normal(n)}


def _bent(rng: np.random.Generator, n: int) -> Rows:
    a = np.where(rng.random(n) < 0.5, 0.2 * rng.random(n), rng.random(n))
    b = rng.standard_normal(n)
    return {"a": a, "b": b, "y": 4 * a**2 + 0.2 * b + (0.05 + a) * rng.standard_normal(n)}


def _lognormal(rng: np.random.Generator, n: int) -> Rows:
    a, b = np.minimum(np.exp(rng.standard_normal(n)), 20.0), rng.standard_normal(n)
    return {"a": a, "b": b, "y": 1 + a + b + SD * rng.standard_normal(n)}


def _binaries(rng: np.random.Generator, n: int) -> Rows:
    a, b, c = (rng.random((n, 3)) < [0.5, 0.3, 0.2]).T.astype(float)
    d = rng.standard_normal(n)
    return {"a": a, "b": b, "c": c, "d": d, "y": 1 + a + b + c + d + SD * rng.standard_normal(n)}


def _factors(rng: np.random.Generator, n: int) -> Rows:
    g, a = rng.choice(5, n, p=[0.3, 0.25, 0.2, 0.15, 0.1]), (rng.random(n) < 0.5).astype(int)
    y = 1 + np.array([0, 1, -1, 0.5, 2])[g] + a + SD * rng.standard_normal(n)
    return {"g": np.array(list("uvwxz"))[g], "a": np.array(["n", "y"])[a], "y": y}


def _rare(rng: np.random.Generator, n: int) -> Rows:
    g, x = (rng.random(n) < 0.05).astype(int), _normal(rng, n, "ab")
    return x | {"g": np.array(["n", "y"])[g], "y": 1 + g + x["a"] + x["b"] + SD * rng.standard_normal(n)}


def _correlated(rng: np.random.Generator, n: int) -> Rows:
    root = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(range(5), range(5))))
    x = rng.standard_normal((n, 5)) @ root.T
    return dict(zip("abcde", x.T, strict=True)) | {"y": 1 + x.sum(axis=1) + SD * rng.standard_normal(n)}


def _skewed(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + rng.standard_exponential(n)}


def _heavy(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + SD * rng.standard_t(2, n)}


def _yes(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": (rng.random(n) < 1 / (1 + np.exp(-1 - x["a"] - x["b"] - x["c"]))).astype(int)}


def _counts(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n, "ab")
    return x | {"y": np.minimum(rng.poisson(np.exp(0.5 + 0.3 * x["a"] + 0.2 * x["b"])), 20)}


def _classes(rng: np.random.Generator, n: int) -> Rows:
    x = _normal(rng, n, "ab")
    share = np.exp(np.column_stack([np.zeros(n), 0.5 + x["a"], -0.5 + x["b"]]))
    share /= share.sum(axis=1, keepdims=True)
    return x | {"y": np.array(list("uvw"))[(rng.random(n)[:, None] > share.cumsum(axis=1)).sum(axis=1)]}


_THREE = {"a": FAR, "b": FAR, "c": FAR}
_Y = {"y": (-8.0, 10.0)}
_ONES = (1.0,) * 4
DESIGNS: Final = {
    "normal": Design("y ~ a + b + c", _plain, _ONES, _THREE | _Y),
    "fanned": Design("y ~ a + b + c", _fanned, _ONES, _THREE | _Y),
    "tenfold": Design("y ~ a + b", _tenfold, (1.0,) * 3, {"a": (0.0, 1.0), "b": FAR} | _Y),
    "quadratic": Design("y ~ a + I(a**2) + b", _quadratic, _ONES, {"a": FAR, "b": FAR, "y": (-8.0, 12.0)}),
    "bent": Design(
        "y ~ a + I(a**2) + b", _bent, (0.0, 0.0, 4.0, 0.2), {"a": (0.0, 1.0), "b": FAR, "y": (-4.0, 10.0)}
    ),
    "lognormal": Design("y ~ a + b", _lognormal, (1.0,) * 3, {"a": (0.0, 20.0), "b": FAR, "y": (-5.0, 25.0)}),
    "binaries": Design(
        "y ~ a + b + c + d", _binaries, (1.0,) * 5, dict.fromkeys("abc", (0.0, 1.0)) | {"d": FAR, "y": (-4.0, 8.0)}
    ),
    "factors": Design(
        "y ~ g + a", _factors, (1.0, 1.0, -1.0, 0.5, 2.0, 1.0), {"y": (-4.0, 8.0)},
        {"g": list("uvwxz"), "a": ["n", "y"]},
    ),
    "rare": Design("y ~ g + a + b", _rare, _ONES, {"a": FAR, "b": FAR, "y": (-6.0, 8.0)}, {"g": ["n", "y"]}),
    "correlated": Design(
        "y ~ a + b + c + d + e", _correlated, (1.0,) * 6, dict.fromkeys("abcde", FAR) | {"y": (-17.0, 19.0)}
    ),
    "skewed": Design("y ~ a + b + c", _skewed, (NAN, 1.0, 1.0, 1.0), _THREE | _Y),
    "heavy": Design("y ~ a + b + c", _heavy, _ONES, _THREE | _Y),
    "median": Design("y ~ a + b + c", _fanned, _ONES, _THREE | _Y, family=pr.families.Quantile(0.5)),
    "upper": Design(
        "y ~ a + b + c", _plain, (1.0 + SD * 1.2815515655446004, 1.0, 1.0, 1.0), _THREE | _Y,
        family=pr.families.Quantile(0.9),
    ),
    "response": Design("y ~ a + b + c", _fanned, _ONES, _THREE | _Y, more={"private": "response"}),
    "yes": Design("y ~ a + b + c", _yes, _ONES, _THREE, family="logistic"),
    "counts": Design("y ~ a + b", _counts, (0.5, 0.3, 0.2), {"a": FAR, "b": FAR}, family=pr.families.Poisson(y_max=20)),
    "classes": Design(
        "y ~ a + b", _classes, (0.5, 1.0, 0.0, -0.5, 0.0, 1.0), {"a": FAR, "b": FAR}, {"y": list("uvw")},
        family="multinomial",
    ),
}  # fmt: skip


def _name(row: pd.Series) -> str:
    """Term, after the class that it is of."""
    return f"{row['level']}: {row['term']}" if "level" in row else str(row["term"])


def one(name: str, tunings: Sequence[str], n: int, mu: float, replication: int) -> list[dict[str, Any]]:
    """Fit one data set by every tuning."""
    design = DESIGNS[name]
    rng = np.random.Generator(np.random.SFC64([replication, n, sum(map(ord, name))]))
    data = pd.DataFrame(design.make(rng, n))
    levels = {"levels": design.levels} if design.levels else {}
    model = pr.PrivateOnlineRegression.from_formula(
        design.formula, data, family=design.family, mu=mu, bounds=design.bounds, **levels, **(design.more or {})
    )
    out = []
    for tuning in tunings:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
            res = model.fit(tuning=tuning, seed=replication, progress=False, threads=1)
        table = res.tidy()
        reliable = np.asarray(table["reliable"])
        for j, truth in enumerate(design.truth):
            if np.isnan(truth):
                continue
            row = table.iloc[j]
            estimate, low, high = float(row["estimate"]), float(row["conf_low"]), float(row["conf_high"])
            out.append(
                {"design": name, "tuning": tuning, "n": n, "mu": mu, "coefficient": _name(row)}
                | {"covered": low <= truth <= high, "length": high - low, "error": estimate - truth}
                | {"marked": not bool(reliable[j])}
            )
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", nargs="*", choices=DESIGNS, default=list(DESIGNS), metavar="NAME")
    parser.add_argument("--tunings", nargs="*", default=["efficient"], metavar="NAME")
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--mu", type=float, default=1.0)
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    path, keys = a.out / "rounds.csv", ["design", "tuning", "n", "mu"]
    command = f"python -m benchmarks.rounds --reps {a.reps}"
    with ProcessPoolExecutor(a.processes) as pool:
        for name in a.designs:
            work = partial(one, name, a.tunings, a.n, a.mu)
            found = list(tqdm(pool.map(work, range(a.reps)), total=a.reps, desc=name))
            rows = pd.DataFrame([row for rows in found for row in rows])
            cells = rows.groupby([*keys, "coefficient"], sort=False)
            table = cells.agg(
                covered=("covered", "sum"), trials=("covered", "size"), length=("length", "mean"),
                sd=("error", "std"), bias=("error", "mean"), marked=("marked", "mean"),
            ).reset_index()  # fmt: skip
            table["rmse"] = np.sqrt(cells["error"].apply(lambda e: float((e**2).mean())).to_numpy())
            table["bias"] = table.bias / table.pop("sd")
            table["coverage"] = 100 * table.covered / table.trials
            table["low_999"] = 100 * binom.ppf(0.0005, table.trials, 0.95) / table.trials
            table["high_999"] = 100 * binom.ppf(0.9995, table.trials, 0.95) / table.trials
            table["inside"] = table.coverage.between(table.low_999, table.high_999)
            old = read_table(path) if path.exists() else pd.DataFrame(columns=keys)
            kept = old.merge(table[keys].drop_duplicates(), how="left", on=keys, indicator="mine")
            old = old[(kept.pop("mine") == "left_only").to_numpy()] if len(old) else old
            save_table(pd.concat([old, table]).round(5), path, command)
            print(table.drop(columns=["n", "mu", "covered"]).round(3).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
