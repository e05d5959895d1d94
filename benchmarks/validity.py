"""Whether intervals hold: fits of designs in which models are wrong, against what each fit estimates.

``python -m benchmarks.validity [--designs NAME …] [--methods NAME …] [--n N] [--mu MU] [--reps R] [--processes K]``

Designs are in `benchmarks.designs`. A replication draws new records, fits them once with all methods of inference, and
asks `res.estimand` on populations of other records what the fit estimates. Its noise is that of no other replication
of any design. One line for each design, method, n, μ and coefficient:

covered, trials, coverage
    95% intervals that hold the estimand; all; in %.
low_999, high_999, inside
    Between which a share with exactly this level lies in 99.9% of such studies, and whether it does.
unmarked
    Coverage, in %, of the coefficients that no note takes back.
marked
    Share of fits in which a note takes the coefficient back.
length, sd, bias
    Mean length of intervals; standard deviation of errors; mean error in units of it.
enough
    Records in main rounds, in units of 10,000 d²/μ²: with fewer than 1 little tells the curvature.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom
from tqdm import tqdm

import privreg as pr
from benchmarks.designs import DESIGNS
from benchmarks.store import read_table, save_table

RESULTS: Final = Path(__file__).parent / "results" / "validity.csv"
POPULATION: Final = 1_000_000
POPULATIONS: Final = 59
KEYS: Final = ["design", "method", "n", "mu"]


def made(name: str, n: int, *seed: int) -> pd.DataFrame:
    """Records of a design."""
    rng = np.random.Generator(np.random.SFC64([*seed, sum(map(ord, name))]))
    return pd.DataFrame(DESIGNS[name].make(rng, n))


@cache
def population(name: str, n: int, mu: float) -> pd.DataFrame:
    """Records on which each fit's estimand is computed."""
    return others(name, n, mu, 0)


def others(name: str, n: int, mu: float, number: int) -> pd.DataFrame:
    """One population, of μ/2 times as many records.

    At μ = 1 the noise of reports gives a fit some forty times the variance that its records alone would, at μ = 3 some
    five times: the chance of a population is a quarter or a third of a standard error, of which `truth_of` leaves a
    fiftieth.
    """
    several = DESIGNS[name].family == "multinomial"  # whose noise is so much larger that fewer do, and they cost more
    return made(name, int(min(0.5 * n * max(mu, 1), POPULATION)) // (4 if several else 1), 1, number)


CHANCE: Final[dict[tuple[str, int, float], np.ndarray]] = {}


def truth_of(res: Any, name: str, n: int, mu: float) -> np.ndarray:
    """What a fit estimates: its estimand on a population, less what is chance of that one.

    Chance is about the same for all fits of a design: it is found once, for the first, from `POPULATIONS` others. A
    seventh of a standard error would cost a quarter of a percent of coverage, where by chance it is more, a whole one.
    Between fits of a design it differs by a hundredth of a standard error or two.
    """
    found = np.ravel(res.estimand(population(name, n, mu)), order="F")
    if (name, n, mu) not in CHANCE:
        more = [np.ravel(res.estimand(others(name, n, mu, 1 + k)), order="F") for k in range(POPULATIONS)]
        CHANCE[name, n, mu] = found - np.mean([found, *more], axis=0)
    return np.asarray(found - CHANCE[name, n, mu])


def one(name: str, methods: Sequence[str], n: int, mu: float, replication: int) -> list[dict[str, Any]]:
    """Fit one data set, with every method."""
    design = DESIGNS[name]
    model = pr.PrivateOnlineRegression.from_formula(
        design.formula, made(name, n, replication, n), family=design.family, mu=mu, bounds=design.bounds,
        **({"levels": design.levels} if design.levels else {}), **(design.more or {}),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
        seed = zlib.crc32(f"{name} {n} {mu} {replication}".encode())
        res = model.fit(seed=seed, progress=False, threads=1, inference=tuple(methods))
    truth = truth_of(res, name, n, mu)
    main = float(res.rounds.loc[res.rounds["role"] == "main", "reports"].sum())
    enough = main * mu**2 / (1e4 * len(truth) ** 2)
    out = []
    for method in methods:
        table = res.tidy(method=method)
        terms = table["term"] if "level" not in table else table["level"].astype(str) + ": " + table["term"]
        for j, term in enumerate(terms):
            row = table.iloc[j]
            low, high, error = row["conf_low"], row["conf_high"], row["estimate"] - truth[j]
            out.append(
                {"design": name, "method": method, "n": n, "mu": mu, "coefficient": str(term), "enough": enough}
                | {"covered": bool(low <= truth[j] <= high), "length": float(high - low), "error": float(error)}
                | {"marked": not bool(row["reliable"])}
            )
    return out


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each design, method and coefficient."""
    cells = rows.groupby([*KEYS, "coefficient"], sort=False)
    table = cells.agg(
        covered=("covered", "sum"), trials=("covered", "size"), marked=("marked", "mean"), enough=("enough", "mean"),
        length=("length", "mean"), sd=("error", "std"), bias=("error", "mean"),
    ).reset_index()  # fmt: skip
    table["bias"] /= table["sd"]
    table["coverage"] = 100 * table["covered"] / table["trials"]
    table["low_999"] = 100 * binom.ppf(0.0005, table["trials"], 0.95) / table["trials"]
    table["high_999"] = 100 * binom.ppf(0.9995, table["trials"], 0.95) / table["trials"]
    table["inside"] = table["coverage"].between(table["low_999"], table["high_999"])
    kept = rows[~rows["marked"]].groupby([*KEYS, "coefficient"], sort=False)["covered"].mean().rename("unmarked")
    return table.merge(100 * kept, how="left", on=[*KEYS, "coefficient"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", nargs="*", choices=DESIGNS, default=list(DESIGNS), metavar="NAME")
    parser.add_argument("--methods", nargs="*", default=["sandwich"], metavar="NAME")
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--mu", type=float, default=1.0)
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    command = f"python -m benchmarks.validity --reps {a.reps}" + (
        "" if (a.n, a.mu) == (200_000, 1.0) else f" --n {a.n} --mu {a.mu:g}"
    )
    with ProcessPoolExecutor(a.processes) as pool:
        for name in a.designs:
            work = partial(one, name, a.methods, a.n, a.mu)
            found = list(tqdm(pool.map(work, range(a.reps)), total=a.reps, desc=name))
            table = summary(pd.DataFrame([row for rows in found for row in rows]))
            old = read_table(a.out) if a.out.exists() else pd.DataFrame(columns=KEYS)
            kept = old.merge(table[KEYS].drop_duplicates(), how="left", on=KEYS, indicator="mine")
            old = old[(kept.pop("mine") == "left_only").to_numpy()] if len(old) else old
            save_table(pd.concat([old, table]).round(5), a.out, command)
            shown = ["coefficient", "trials", "coverage", "unmarked", "marked", "inside", "length", "bias", "enough"]
            print(table[["design", "method", *shown]].round(3).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
