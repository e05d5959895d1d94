"""Two collectors: how often tests of terms reject what is true.

``python -m benchmarks.two_collectors_tests [--nulls NAME …] [--n N …] [--runs R] [--keep FOLDER] [--quick]``

Twelve nulls, each a term that has no effect on the response beside others that have: Wald's test of the term at 5%. One
line for each null and n: how often it rejects, in %, with exact 99% limits (Clopper and Pearson), of fits that are not
marked, and how many are. Table two_collectors_tests.csv, of some nulls only
two_collectors_tests_some.csv. With --keep FOLDER finished cells are kept there.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from benchmarks.store import Runs, save_table

RESULTS = Path(__file__).parent / "results" / "two_collectors_tests.csv"
LEVEL = 0.05
PUBLIC = {
    "bounds": {"x": (-4, 4), "z": (0, 12), "y": (-8, 10)},
    "levels": {"g": ["a", "b", "c"], "h": list("uvwxyz"), "k": ["no", "yes"], "b": [0, 1]},
}


class Null(NamedTuple):
    """A term that has no effect, and what the responses are like."""

    formula: str
    term: str
    family: str = "huber"
    errors: str = "normal"  # Of numbers: "normal", "skewed", or "fanned" (wider where z is large)


NULLS = {
    "number": Null("y ~ x + k", "x"),
    "skewed number": Null("y ~ z + k", "z"),
    "two levels": Null("y ~ k + x", "k"),
    "three levels": Null("y ~ g + x", "g"),
    "six levels": Null("y ~ h + x", "h"),
    "interaction": Null("y ~ x * k", "x:k"),
    "skewed errors": Null("y ~ g + x", "g", errors="skewed"),
    "fanned errors": Null("y ~ z + x", "z", errors="fanned"),
    "median": Null("y ~ x + k", "x", "quantile"),
    "logit, number": Null("b ~ x + k", "x", "logistic"),
    "logit, levels": Null("b ~ g + z", "g", "logistic"),
    "logit, skewed": Null("b ~ z + k", "z", "logistic"),
}


def rows(null: Null, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """People in whom the term has no effect: what else is in the formula has."""
    out = pd.DataFrame({"x": rng.normal(0, 1, n), "z": np.minimum(rng.exponential(2.0, n), 12.0)})
    out["g"] = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    out["h"] = rng.choice(list("uvwxyz"), n)
    out["k"] = rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    eta = 1.0 + sum(
        0.5 * effect
        for name, effect in {"x": out["x"], "z": out["z"] / 2.0 - 1.0, "k": 1.0 * (out["k"] == "yes")}.items()
        if name in null.formula.partition("~")[2] and name != null.term
    )
    error = {"normal": rng.normal(0, 1, n), "skewed": rng.exponential(1.0, n) - 1.0, "fanned": rng.normal(0, 1, n)}
    wide = 0.5 + 0.25 * out["z"] if null.errors == "fanned" else 1.0
    out["y"] = np.clip(eta + wide * error[null.errors], -8, 10)
    out["b"] = (rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - eta))).astype(int)
    return out


def cell(name: str, n: int, runs: int) -> list[float]:
    """p-values of all runs; NaN of fits that are marked."""
    null, out = NULLS[name], []
    for run in range(runs):
        people = rows(null, n, np.random.default_rng([run, n, list(NULLS).index(name)]))
        model = pr.PrivateOnlineRegression.from_formula(
            null.formula, people, family=null.family, mu=1, trust="two_collectors", **PUBLIC
        )
        res = model.fit(progress=False)
        p = float(res.anova().loc[null.term, "PR(>F)"])
        out.append(p if res.tidy()["reliable"].all() else np.nan)
    return out


def line(name: str, n: int, values: Sequence[float]) -> dict[str, object]:
    """What is shown of a cell."""
    p = np.array(values)
    held = p[~np.isnan(p)]
    k, some = int((held < LEVEL).sum()), len(held)
    return {
        "null": name,
        "n": n,
        "runs": len(p),
        "marked": 100.0 * float(np.isnan(p).mean()),
        "rejected": 100.0 * k / some if some else np.nan,
        "low": 100.0 * beta.ppf(0.005, k, some - k + 1) if k else 0.0,
        "high": 100.0 * beta.ppf(0.995, k + 1, some - k) if k < some else 100.0,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.two_collectors_tests", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--nulls", nargs="*", default=list(NULLS), choices=list(NULLS), metavar="NAME")
    parser.add_argument("--n", nargs="*", type=int, default=[2_000, 10_000])
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--quick", action="store_true", help="a look: 20 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    runs, kept = 20 if args.quick else args.runs, Runs(None if args.quick else args.keep)
    found = []
    for n in args.n:
        for name in args.nulls:
            values = kept.get(f"tests-{name}-{n}-{runs}", lambda a=(name, n, runs): cell(*a))
            found.append(line(name, n, values))
            print(f"{name}, n = {n:,}: done", flush=True)
    table = pd.DataFrame(found).round(2)
    if not args.quick:
        all_of_them = args.nulls == list(NULLS)
        what = "" if all_of_them else "--nulls " + " ".join(f'"{name}"' for name in args.nulls) + " "
        command = f"python -m benchmarks.two_collectors_tests {what}--n {' '.join(map(str, args.n))} --runs {args.runs}"
        path = RESULTS if all_of_them else RESULTS.with_name("two_collectors_tests_some.csv")
        save_table(table, path, command)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
