"""Two notes on designs whose intervals are too short: how often they are said there, and where all is right.

``python -m benchmarks.notes [--designs NAME …] [--n N …] [--reps R]``

Half of the designs have a response that is mostly one value, or a spline that reaches beyond the data; of the others
none is to be noted in more than 5% of fits. One line for each design and n:

right
    Whether the note is not wanted.
noted, low, high
    Share of fits with the note "heaped" or "empty", in %, and its 95% limits (Clopper and Pearson).
covered
    Coverage of 95% intervals over all coefficients, in %, of the worst of them in `worst`; of the estimand on 200,000
    other records, whose chance is a sixth of a standard error or less. Of designs that are to be noted.
marked
    Share of all coefficients that some note takes back, in %, and covered of the others in `unmarked`.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from benchmarks.store import read_table, save_table

RESULTS: Final = Path(__file__).parent / "results" / "notes.csv"
Generator = np.random.Generator
FAR: Final = (-4.0, 4.0)
AB: Final = {"a": FAR, "b": FAR}


class Design(NamedTuple):
    """A formula, and records for it."""

    formula: str
    make: Callable[[Generator, int], dict[str, Any]]
    bounds: dict[str, tuple[float, float]]
    right: bool
    levels: dict[str, list[str]] | None = None


def _zeros(share: float) -> Callable[[Generator, int], dict[str, Any]]:
    def make(rng: Generator, n: int) -> dict[str, Any]:
        a, b = rng.standard_normal((2, n))
        some = 1 + rng.poisson(np.exp(0.7 + 0.3 * a + 0.2 * b))
        return {"a": a, "b": b, "y": np.minimum(np.where(rng.random(n) < share, 0, some), 30)}

    return make


def _amounts(rng: Generator, n: int) -> dict[str, Any]:
    a, b = rng.standard_normal((2, n))
    some = np.exp(2 + 0.3 * b + 0.6 * rng.standard_normal(n))
    return {"a": a, "b": b, "y": np.minimum(np.where(rng.random(n) < 1 / (1 + np.exp(1 - 0.6 * a)), some, 0), 100)}


def _line(errors: Callable[[Generator, int], Any], fan: float = 0.0) -> Callable[[Generator, int], dict[str, Any]]:
    def make(rng: Generator, n: int) -> dict[str, Any]:
        a, b = rng.standard_normal((2, n))
        return {"a": a, "b": b, "y": 1 + a + 0.5 * b + np.exp(fan * a) * errors(rng, n)}

    return make


def _rare(rng: Generator, n: int) -> dict[str, Any]:
    g, a = rng.random(n) < 0.06, rng.standard_normal(n)
    return {"g": np.where(g, "y", "n"), "a": a, "y": 1 + a + g + rng.standard_normal(n)}


def _counts(rng: Generator, n: int) -> dict[str, Any]:
    a, b = rng.standard_normal((2, n))
    return {"a": a, "b": b, "y": np.minimum(rng.poisson(np.exp(1.6 + 0.3 * a + 0.2 * b)), 30)}


def _aged(age: Callable[[Generator, int], Any]) -> Callable[[Generator, int], dict[str, Any]]:
    def make(rng: Generator, n: int) -> dict[str, Any]:
        years, x = age(rng, n), rng.standard_normal(n)
        return {"age": years, "x": x, "y": 2 + np.sin(years / 12) + 0.5 * x + 0.7 * rng.standard_normal(n)}

    return make


def _spline(low: int, high: int, right: bool, age: Callable[[Generator, int], Any]) -> Design:
    formula = f"y ~ bs(age, knots=[30, 45], lower_bound={low}, upper_bound={high}) + x"
    return Design(formula, _aged(age), {"age": (low, high), "x": FAR, "y": (-4.0, 8.0)}, right)


def _to_69(rng: Generator, n: int) -> Any:
    return 16 + 53 * rng.beta(1.5, 2.5, n)


Y: Final = {"y": (-10.0, 20.0)}
DESIGNS: Final = {
    "60% zeros": Design("y ~ a + b", _zeros(0.6), AB | {"y": (0.0, 30.0)}, False),
    "75% zeros": Design("y ~ a + b", _zeros(0.75), AB | {"y": (0.0, 30.0)}, False),
    "amounts, mostly 0": Design("y ~ a + b", _amounts, AB | {"y": (0.0, 100.0)}, False),
    "spline to 80": _spline(16, 80, False, _to_69),
    "spline to 95": _spline(16, 95, False, _to_69),
    "spline from 0": _spline(0, 70, False, lambda rng, n: 20 + 50 * rng.random(n)),
    "normal": Design("y ~ a + b", _line(lambda rng, n: rng.standard_normal(n)), AB | Y, True),
    "skewed": Design("y ~ a + b", _line(lambda rng, n: np.exp(rng.standard_normal(n))), AB | Y, True),
    "fanned": Design("y ~ a + b", _line(lambda rng, n: 0.7 * rng.standard_normal(n), 0.7), AB | Y, True),
    "rare level": Design("y ~ C(g) + a", _rare, {"a": FAR} | Y, True, {"g": ["n", "y"]}),
    "counts, few zeros": Design("y ~ a + b", _counts, AB | {"y": (0.0, 30.0)}, True),
    "spline within the data": _spline(16, 70, True, lambda rng, n: 16 + 54 * rng.random(n)),
}


def one(name: str, n: int, replication: int, population: pd.DataFrame) -> dict[str, Any]:
    """Fit one data set."""
    design, key = DESIGNS[name], zlib.crc32(name.encode())
    data = pd.DataFrame(design.make(np.random.Generator(np.random.SFC64([key, n, replication])), n))
    more = {"levels": design.levels} if design.levels else {}
    model = pr.PrivateOnlineRegression.from_formula(design.formula, data, mu=1.0, bounds=design.bounds, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
        res = model.fit(seed=zlib.crc32(f"{name} {n} {replication}".encode()), progress=False, threads=1)
    table = res.tidy()
    covered = np.full(len(table), np.nan)
    if not design.right:
        truth = np.ravel(res.estimand(population))
        covered = ((table["conf_low"] <= truth) & (truth <= table["conf_high"])).to_numpy(dtype=np.float64)
    noted = any(note.code in {"heaped", "empty"} for note in res.privacy.notes)
    return {"noted": noted, "covered": covered, "marked": ~table["reliable"].to_numpy(dtype=np.bool_)}


def line(name: str, n: int, reps: int) -> dict[str, Any]:
    """What is stored of a design."""
    population = pd.DataFrame(DESIGNS[name].make(np.random.Generator(np.random.SFC64(0)), 200_000))
    fits = [one(name, n, k, population) for k in range(reps)]
    noted = sum(fit["noted"] for fit in fits)
    covered, marked = (np.array([fit[what] for fit in fits]) for what in ("covered", "marked"))
    low, high = beta.ppf([0.025, 0.975], [noted, noted + 1], [reps - noted + 1, reps - noted])
    out = {"design": name, "n": n, "fits": reps, "right": DESIGNS[name].right, "noted": 100 * noted / reps}
    out |= {"low": 100 * np.nan_to_num(low), "high": 100 * (1.0 if np.isnan(high) else high)}
    out |= {"covered": 100 * covered.mean(), "worst": 100 * covered.mean(axis=0).min(), "marked": 100 * marked.mean()}
    return out | {"unmarked": 100 * covered[~marked].mean() if (~marked).any() else np.nan}


def main() -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", nargs="*", choices=DESIGNS, default=list(DESIGNS), metavar="NAME")
    parser.add_argument("--n", type=int, nargs="*", default=[50_000, 200_000])
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    for n in a.n:
        for name in a.designs:
            found = line(name, n, a.reps)
            print(found, flush=True)
            old = read_table(a.out) if a.out.exists() else pd.DataFrame(columns=["design", "n"])
            old = old[(old["design"] != name) | (old["n"] != n)]
            save_table(
                pd.concat([old, pd.DataFrame([found])]).round(2), a.out, f"python -m benchmarks.notes --reps {a.reps}"
            )


if __name__ == "__main__":
    main()
