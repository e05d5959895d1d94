"""Mean regression of skewed outcomes by noised sums: which road leads to least squares' coefficients?

``python -m benchmarks.mean_regression [--trust central two_collectors] [--designs NAME …] [--n N …] [--roads ROAD …]
[--table NAME] [--runs R] [--keep FOLDER] [--quick]``

Roads: squared loss, whose score is bounded by the response's range (``family="gaussian"``); the same without score
weights; and Huber's score with thresholds of 1.345 to 12 residual scales. One line for each trust model, design, n and
road, medians over coefficients and their worst:

ratio, worst
    Root mean squared error of least squares' coefficient (of all records of the data set), over its standard error
    (HC0) of n records, of all fits.
bias
    Largest absolute mean error over that standard error.
cover, low, high
    Share of 95% intervals that hold it, in %, of coefficients that aren't marked, and its exact 99% limits (Clopper and
    Pearson) by fits.
marked
    Share of coefficients that are marked, in %.
beyond
    Share of residuals of least squares that are more than 3 residual scales from 0, in %: the outcome's tail.

Table mean_regression.csv, or that of --table; with --keep FOLDER finished cells are kept there, and a study goes on.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from benchmarks.designs import DESIGNS, Design
from benchmarks.real_designs import REAL, TUNED, population
from benchmarks.store import Runs, save_table
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.plan import Plan
from privreg.fits.aggregate import doubts, plan_of
from privreg.formula.spec import ModelSpec
from privreg.simulation.aggregate import AggregateRun, CuratorRun
from privreg.simulation.streaming.encoding import Encoder
from privreg.tables.diagnostics import reliable

RESULTS = Path(__file__).parent / "results" / "mean_regression.csv"
MADE_ROWS = 2_000_000


def _incomes(rng: np.random.Generator, n: int) -> dict[str, Any]:
    a, z = rng.uniform(-1.0, 1.0, n), rng.normal(size=n).clip(-4.0, 4.0)
    g = rng.choice(["u", "v"], n, p=[0.7, 0.3])
    y = 0.5 * a + 0.3 * (g == "v") + 0.3 * z + np.exp(rng.normal(size=n))
    return {"a": a, "g": g, "z": z, "y": y.clip(-4.0, 40.0)}


INCOMES = Design(
    "y ~ a + g + z", _incomes, {"a": (-1.0, 1.0), "z": (-4.0, 4.0), "y": (-4.0, 40.0)}, {"g": ["u", "v"]}, "huber"
)
KNOWN = {
    "log-normal errors": INCOMES,
    "charges": DESIGNS["charges"],
    "wealth": TUNED["wealth"],
    "wages": TUNED["card"],
    "births": REAL["births"],
    "hours": REAL["hours"],
    "income, family": REAL["income, family"],
}
ROADS: dict[str, tuple[Any, str | None]] = {
    "squared": (pr.Squared(), None),
    "squared, no weights": (pr.Squared(), "likelihood"),
    **{f"Huber, c = {c:g}": (pr.Huber(c=c), None) for c in (1.345, 3.0, 6.0, 12.0)},
}


@cache
def prepared(trust: str, name: str, n: int, road: str) -> tuple[ModelSpec, Plan, Encoder]:
    """A design's public side."""
    design, (family, weights) = KNOWN[name], ROADS[road]
    rows = pd.DataFrame(design.make(np.random.default_rng(0), 2_000))
    model: Any = pr.PrivateOnlineRegression.from_formula(
        design.formula, rows, family=family, bounds=design.bounds, levels=design.levels, mu=1.0, trust=trust,
        score_weights=weights,
    )  # fmt: skip
    plan, order = plan_of(model._spec, n)
    return model._spec, plan, Encoder(model._spec, order, None, by_column=True)


@cache
def truth(name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Least squares' coefficients of a population, HC0 standard errors of one record, and the share in the tail."""
    design: Any = KNOWN[name]
    made = name in DESIGNS or design is INCOMES
    rows = design.make(np.random.default_rng(1), MADE_ROWS) if made else population(*design.make.args)
    encoded = prepared("central", name, 2_000, "squared")[2].encode(pd.DataFrame(rows))
    y, x = encoded.y, encoded.x
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    left, bread = y - x @ theta, np.linalg.inv(x.T @ x / len(y))
    meat = (x * left[:, None] ** 2).T @ x / len(y)
    scale = float(np.median(np.abs(left))) / 0.6744897501960817
    return theta, np.sqrt(np.diag(bread @ meat @ bread)), float((np.abs(left) > 3.0 * scale).mean())


def cell(trust: str, name: str, n: int, road: str, runs: range) -> list[float]:
    """Errors, standard errors and marks by coefficient, over least squares' standard errors, of runs in one list."""
    spec, plan, encoder = prepared(trust, name, n, road)
    theta, errors, _ = truth(name)
    alone, out = errors / np.sqrt(n), list[float]()
    for run in runs:
        rng = np.random.default_rng([run, n, zlib.crc32(name.encode())])
        rows = encoder.encode(pd.DataFrame(KNOWN[name].make(rng, n)))
        played = (CuratorRun if trust == "central" else AggregateRun)(plan, rng.bytes(32))
        played.advance(rows.y, rows.x, rows.offset)
        played.close()
        found = estimate(played.plan, played.progress)
        assert found is not None
        said = doubts(played.plan, played.progress, found, found.back, spec, encoder.order)
        marked = ~reliable(said, plan.size)
        ses = np.sqrt(np.diag(found.back @ found.cov @ found.back.T))
        out += [*((found.back @ found.theta - theta) / alone), *(ses / alone), *marked]
    return out


def line(trust: str, name: str, n: int, road: str, numbers: Sequence[float]) -> dict[str, object]:
    """The line of a cell."""
    d = len(truth(name)[0])
    errors, ses, marked = np.split(np.array(numbers).reshape(-1, 3 * d), 3, axis=1)
    held, ratio = marked == 0.0, np.sqrt(np.mean(errors**2, axis=0))
    inside = held & (np.abs(errors) < 1.959963984540054 * ses)
    share = inside.sum() / held.sum() if held.any() else np.nan
    k, some = (round(share * len(errors)), len(errors)) if held.any() else (0, 0)
    out: dict[str, object] = {"trust": trust, "design": name, "n": n, "road": road, "runs": len(errors)}
    out |= {"beyond": 100.0 * truth(name)[2], "ratio": np.median(ratio), "worst": ratio.max()}
    out |= {"bias": np.abs(errors.mean(axis=0)).max(), "cover": 100.0 * share}
    out |= {"low": 100.0 * beta.ppf(0.005, k, some - k + 1) if k else 0.0}
    out |= {"high": 100.0 * beta.ppf(0.995, k + 1, some - k) if k < some else 100.0}
    return out | {"marked": 100.0 * marked.mean()}


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mean_regression", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    both = ["central", "two_collectors"]
    parser.add_argument("--trust", nargs="*", default=both, choices=both)
    parser.add_argument("--designs", nargs="*", default=list(KNOWN), choices=list(KNOWN), metavar="NAME")
    parser.add_argument("--n", nargs="*", type=int, default=[2_000, 20_000])
    parser.add_argument("--roads", nargs="*", default=list(ROADS), choices=list(ROADS), metavar="ROAD")
    parser.add_argument("--table", default=RESULTS.stem, metavar="NAME", help="of the table, without .csv")
    parser.add_argument("--runs", type=int, default=60, help="a cell")
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--quick", action="store_true", help="a look: 5 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept, table = Runs(None if args.quick else args.keep), list[dict[str, object]]()
    for trust in args.trust:
        for name in args.designs:
            for n in args.n:
                for road in args.roads:
                    runs = range(5 if args.quick else args.runs)
                    made = partial(cell, trust, name, n, road, runs)
                    table.append(line(trust, name, n, road, kept.get(f"{trust}-{name}-{n}-{road}-{len(runs)}", made)))
                print(f"{trust}, {name}, n = {n:,}: done", flush=True)
    found = pd.DataFrame(table).round(2)
    if not args.quick:
        what = "" if args.roads == list(ROADS) else " --roads " + " ".join(f'"{road}"' for road in args.roads)
        what += "" if args.table == RESULTS.stem else f" --table {args.table}"
        command = f"python -m benchmarks.mean_regression --n {' '.join(map(str, args.n))}{what} --runs {args.runs}"
        save_table(found, RESULTS.with_name(f"{args.table}.csv"), command)
    with pd.option_context("display.width", 200, "display.max_columns", 30, "display.max_rows", 1_000):
        print(found.to_string(index=False))


if __name__ == "__main__":
    main()
