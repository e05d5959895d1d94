"""Two collectors: errors over those without privacy, and how many 95% intervals hold the estimand.

``python -m benchmarks.two_collectors [--designs NAME …] [--n N …] [--mu MU …] [--runs R …] [--table NAME]
[--keep FOLDER] [--quick]``
``python -m benchmarks.two_collectors --constants [--runs R] [--keep FOLDER]``

One line for each design, n, μ and coefficient:

ratio
    Root mean squared error over the standard error of the same estimator without privacy and weights.
bias
    Mean error over that standard error.
cover, low, high
    Share of 95% intervals that hold the estimand, in %, and its 99% limits (Clopper and Pearson), of fits that don't
    mark it: the estimand is the root of the fit's own weighted equation, that without weights on 2,000,000 other
    records, and how far weights move it on 50,000 more.
marked
    Share of fits that mark the coefficient, in %.
beyond
    Fits that are more than 8 standard errors off in any coefficient that is not marked.
far, wanders
    Mean and sd of the estimand less the root without weights, over the same standard error.

Table two_collectors.csv, or that of --table; with --constants two_collectors_constants.csv, one line for each constant
that is not derived, halved and doubled, one at a time, on four designs at n = 2,000, the same records and noise:
by how many % errors are larger (mean over coefficients) and its standard error, the median ratio, mean coverage, marks.
With --keep FOLDER finished cells are kept there, and a study that was killed goes on.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from benchmarks.designs import ANSWERS, DESIGNS
from benchmarks.store import Runs, save_table
from privreg.collector.aggregate import estimate as estimates
from privreg.collector.aggregate import plan as planned
from privreg.collector.aggregate import report, rounds
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.plan import Plan
from privreg.fits.aggregate import doubts, plan_of
from privreg.formula.spec import ModelSpec
from privreg.simulation.streaming.encoding import Encoder
from privreg.tables.diagnostics import reliable
from tests.reference import two_collectors as reference

KNOWN = DESIGNS | ANSWERS
RESULTS = Path(__file__).parent / "results" / "two_collectors.csv"
POPULATION, SAMPLES, TRIED, CHUNK = 200_000, 10, 50_000, 100
MOST = {1_000: 1_000, 2_000: 1_000, 5_000: 1_000, 20_000: 200}
"""Runs of a cell at most, by n; 20 of more people."""
NAMES = [
    "normal", "fanned", "quadratic", "lognormal", "incomes", "heaped", "two peaks", "binaries", "factors", "rare",
    "charges", "interaction", "mostly none", "correlated", "ten numbers", "ten levels", "skewed", "skewed, fanned",
    "heavy", "median", "yes, wrong link", "yes, by group", "yes, few far out", "counts, by group", *ANSWERS,
]  # fmt: skip
FOUR = ["normal", "binaries", "factors", "yes, wrong link"]
CONSTANTS = ["CHECKED", "SHARP", "LARGEST", "FARTHEST", "SCALE", "SPREAD", "WINDOWS", "FAR"]
SIZES = [1_000, 2_000, 5_000, 20_000, 200_000]


def prepared(name: str, n: int, mu: float) -> tuple[ModelSpec, Plan, Encoder]:
    """A design's public side."""
    design = KNOWN[name]
    rows = pd.DataFrame(design.make(np.random.default_rng(0), 1_000))
    model = pr.PrivateOnlineRegression.from_formula(
        design.formula, rows, family=design.family, bounds=design.bounds, levels=design.levels, mu=mu
    )
    plan, order = plan_of(model._spec, n)
    return model._spec, plan, Encoder(model._spec, order, None, by_column=True)


class Truth(NamedTuple):
    """What a design's fits without privacy and weights would estimate, and records on which weights are tried."""

    y: np.ndarray
    x: np.ndarray
    here: np.ndarray  # Root without weights on these records
    root: np.ndarray  # On far more
    errors: np.ndarray  # Standard errors of one record


@cache
def truth(name: str) -> Truth:
    """A design's truth, by simulation."""
    _, plan, encoder = prepared(name, 1_000, 1.0)
    found = list[tuple[np.ndarray, ...]]()
    for k in range(1, 2 + SAMPLES):
        rows = encoder.encode(pd.DataFrame(KNOWN[name].make(np.random.default_rng(k), TRIED if k == 1 else POPULATION)))
        y, x = rows.y, rows.x
        line = np.zeros(plan.size)
        if plan.rules.link in {"identity", "margin"}:
            line = np.linalg.lstsq(x, y if plan.rules.link == "identity" else 2.0 * y - 1.0, rcond=None)[0]
        start = found[0][2] if found else line
        here = reference.root(plan, y, x, np.ones(len(y)), start)
        found.append((y, x, here) if k == 1 else (here, reference.errors(plan, y, x, here)))
    root, errors = (np.mean([f[j] for f in found[1:]], axis=0) for j in (0, 1))
    return Truth(*found[0], root, errors)


def cell(name: str, n: int, mu: float, runs: range) -> list[float]:
    """Errors, standard errors, the estimand's distance, and doubts, of these runs in one list."""
    design, (spec, plan, encoder), true = KNOWN[name], prepared(name, n, mu), truth(name)
    alone = true.errors / np.sqrt(n)
    out, here = list[float](), true.here
    for run in runs:
        rng = np.random.default_rng([run, n, zlib.crc32(name.encode())])
        rows = encoder.encode(pd.DataFrame(design.make(rng, n)))
        progress = reference.play(plan, rows.y, rows.x, rng.bytes(32))
        found = estimate(plan, progress)
        assert found is not None
        here = reference.root(plan, true.y, true.x, reference.weight(plan, found, true.x), here)
        moved = here - true.here
        cov = found.back @ found.cov @ found.back.T
        errors = (found.back @ found.theta - true.root - moved) / alone
        marked = ~reliable(doubts(plan, progress, found, found.back, spec, encoder.order), plan.size)
        out += [*errors, *(np.sqrt(np.diag(cov)) / alone), *(moved / alone), *marked]
    return out


def lines(name: str, n: int, mu: float, numbers: Sequence[float] | np.ndarray) -> list[dict[str, object]]:
    """Lines of a cell, one a coefficient."""
    spec, plan, encoder = prepared(name, n, mu)
    d = plan.size
    names = [spec.design.names[j] for j in encoder.order]
    names = [f"{level}:{n}" for level in spec.baseline[1:] for n in names] if plan.rules.blocks > 1 else names
    table = np.array(numbers).reshape(-1, 4 * d)
    errors, widths, far, marked = np.split(table, 4, axis=1)
    held = marked == 0.0
    inside = np.abs(errors) < 1.959963984540054 * widths
    beyond = int(((np.abs(errors) > 8.0) & held).any(axis=1).sum())
    out: list[dict[str, object]] = []
    for j in range(d):
        k, some = int(inside[held[:, j], j].sum()), int(held[:, j].sum())
        out.append(
            {
                "design": name,
                "n": n,
                "mu": mu,
                "runs": len(table),
                "coefficient": names[j],
                "ratio": np.sqrt(np.mean(errors[:, j] ** 2)),
                "robust": 1.4826 * np.median(np.abs(errors[:, j])),
                "bias": errors[:, j].mean(),
                "length": np.median(widths[:, j]),
                "cover": 100.0 * k / some if some else np.nan,
                "low": 100.0 * beta.ppf(0.005, k, some - k + 1) if k else 0.0,
                "high": 100.0 * beta.ppf(0.995, k + 1, some - k) if k < some else 100.0,
                "marked": 100.0 * marked[:, j].mean(),
                "beyond": beyond,
                "far": far[:, j].mean(),
                "wanders": far[:, j].std(),
            }
        )
    return out


def changed(constant: str, factor: float, runs: int) -> list[float]:
    """Errors, standard errors and marks on the four designs, as `cell` gives them, with a constant times `factor`."""
    modules = [module for module in (planned, report, rounds, estimates) if hasattr(module, constant)]
    before, out = [getattr(module, constant) for module in modules], list[float]()
    try:
        for module in modules:
            value = getattr(module, constant)
            several = {k: v * factor for k, v in value.items()} if isinstance(value, dict) else None
            setattr(module, constant, np.multiply(value, factor) if several is None else several)
        for name in FOUR:
            out += cell(name, 2_000, 1.0, range(runs))
    finally:
        for module, value in zip(modules, before, strict=True):
            setattr(module, constant, value)
    return out


def larger(errors: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """By how many % errors of the same records are larger than before, and its standard error (jackknife).

    Mean over coefficients of the logarithm of root mean squares, errors of more than 8 counted as 8.
    """
    both = np.array([np.minimum(np.abs(e), 8.0) ** 2 for e in (errors, before)])
    sums, n = both.sum(axis=1), len(errors)

    def apart(parts: np.ndarray) -> float:
        return 50.0 * float(np.log(parts[0] / parts[1]).mean())

    without = np.array([apart(sums - both[:, k]) for k in range(n)])
    return apart(sums), float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


def constants(runs: int, kept: Runs) -> pd.DataFrame:
    """The table of `--constants`."""
    table, before = list[dict[str, object]](), list[np.ndarray]()
    sizes = [runs * 4 * prepared(name, 2_000, 1.0)[1].d for name in FOUR]
    for constant, factor in [("", 1.0), *((c, f) for c in CONSTANTS for f in (0.5, 2.0))]:
        found = kept.get(f"constant-{constant}-{factor:g}-{runs}", partial(changed, constant, factor, runs))
        parts = np.split(np.array(found), np.cumsum(sizes)[:-1])
        before = before or parts
        for name, part, was in zip(FOUR, parts, before, strict=True):
            d = prepared(name, 2_000, 1.0)[1].d
            each = pd.DataFrame(lines(name, 2_000, 1.0, part))
            more, sd = larger(part.reshape(runs, -1)[:, :d], was.reshape(runs, -1)[:, :d])
            line = {"constant": constant, "times": factor, "design": name, "runs": runs, "larger": more, "sd": sd}
            line |= {"ratio": each["ratio"].median(), "cover": each["cover"].mean(), "marked": each["marked"].mean()}
            table.append(line)
        print(constant or "as it is", factor, [round(float(line["larger"]), 1) for line in table[-4:]], flush=True)
    return pd.DataFrame(table).round(3)


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.two_collectors", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--designs", nargs="*", default=NAMES, choices=NAMES, metavar="NAME")
    parser.add_argument("--n", nargs="*", type=int, default=SIZES)
    parser.add_argument("--mu", nargs="*", type=float, default=[1.0])
    parser.add_argument(
        "--runs",
        nargs="+",
        type=int,
        default=[1_000],
        help="a cell, or a cell of each n; of 20,000 people at most 200, of more 20",
    )
    parser.add_argument("--table", default=RESULTS.stem, metavar="NAME", help="of the table, without .csv")
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--constants", action="store_true", help="vary constants instead, one at a time")
    parser.add_argument("--quick", action="store_true", help="a look: 10 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept, table = Runs(None if args.quick else args.keep), list[dict[str, object]]()
    if args.constants:
        found = constants(args.runs[0], kept)
        command = f"python -m benchmarks.two_collectors --constants --runs {args.runs[0]}"
        save_table(found, RESULTS.with_name("two_collectors_constants.csv"), command)
        return
    if len(args.runs) not in (1, len(args.n)):
        parser.error("--runs is one number, or one for each n")
    for n, most in zip(args.n, args.runs if len(args.runs) > 1 else args.runs * len(args.n), strict=True):
        for mu in args.mu:
            for name in args.designs:
                runs = range(10 if args.quick else min(most, MOST.get(n, 20)))
                chunks = [runs[a : a + CHUNK] for a in range(0, len(runs), CHUNK)]
                parts = [
                    kept.get(f"two-{name}-{n}-{mu:g}-{c.start}-{c.stop}", lambda a=(name, n, mu, c): cell(*a))
                    for c in chunks
                ]
                table += lines(name, n, mu, np.concatenate(parts))
                print(f"{name}, n = {n:,}, μ = {mu:g}: done", flush=True)
    found = pd.DataFrame(table).round(3)
    if not args.quick:
        what = "" if args.designs == NAMES else " --designs " + " ".join(f'"{name}"' for name in args.designs)
        what += "" if args.n == SIZES else " --n " + " ".join(map(str, args.n))
        what += "" if args.mu == [1.0] else " --mu " + " ".join(f"{mu:g}" for mu in args.mu)
        what += "" if args.table == RESULTS.stem else f" --table {args.table}"
        command = f"python -m benchmarks.two_collectors{what} --runs {' '.join(map(str, args.runs))}"
        save_table(found, RESULTS.with_name(f"{args.table}.csv"), command)
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 1_000):
        print(found.to_string(index=False))


if __name__ == "__main__":
    main()
