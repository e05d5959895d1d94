"""Whether intervals hold whatever their length: coverage by fifths of the standard error, and of the marked ones.

``python -m benchmarks.conditional [--families NAME …] [--designs NAME …] [--n N …] [--runs R] [--keep FOLDER]``

Designs of Huber's loss are those of `benchmarks.designs`, of logistic and Poisson regressions those and further ones
of `benchmarks.conditional_designs`. A design has 20,000 rows; a run draws n of them with replacement, so that
`res.estimand` of these rows is what it estimates. μ = 1. With --keep FOLDER finished blocks of runs are kept there, and
gone on from; with --quick 20 runs a cell are shown, and nothing is stored.

Table conditional.csv has a line for each design, n and coefficient:

coverage, unmarked, marked_coverage, marked
    95% intervals that hold the estimand, in %: all, and by whether a note takes the coefficient back; how many are.
cv, largest
    Of the standard error: sd over mean, and the largest unmarked one over the median.
length, rmse, bias
    Median length of intervals; root mean square error; mean error in units of it.

Table conditional_fifths.csv has lines for each family and n, which pool all designs. Standard errors are divided by
their median in the design and coefficient, and unmarked intervals ordered by that:

fifth
    0 for all, 1 for the shortest.
coverage, low, high
    In %, with exact 99% limits of a share as large (Clopper and Pearson; intervals of a fit count as independent).
at
    Median of the standard errors, in units of their design's.
student
    Coverage, in %, of that fifth of Student's intervals for a normal mean whose standard errors have as large an sd of
    their logarithm. They are exact over all; the shorter ones hold less often.

and of Wald's tests of the estimand, of single coefficients and of all slopes: how often they reject, in %.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm
from scipy.stats import t as students

import privreg as pr
from benchmarks.central_designs import limits
from benchmarks.conditional_designs import COUNTS, HUBER, YES
from benchmarks.designs import Design
from benchmarks.store import Runs, save_table

RESULTS: Final = Path(__file__).parent / "results"
FAMILIES: Final[dict[str, dict[str, Design]]] = {"huber": HUBER, "logistic": YES, "poisson": COUNTS}
ROWS: Final = 20_000
BLOCK: Final = 20  # Runs that are kept together
NUMBERS: Final = ["marked", "covered", "error", "se", "length", "p", "joint"]


def seeded(name: str, *more: int) -> np.random.Generator:
    """A stream of its own for each design."""
    return np.random.Generator(np.random.SFC64([*more, zlib.crc32(name.encode())]))


@cache
def population(name: str) -> pd.DataFrame:
    """Rows of a design from which people are drawn."""
    design = next(designs[name] for designs in FAMILIES.values() if name in designs)
    return pd.DataFrame(design.make(seeded(name, 1, 0), ROWS))


def one(name: str, design: Design, n: int, run: int) -> tuple[list[str], np.ndarray]:
    """Terms of a fit, and of each `NUMBERS`."""
    rows = population(name)
    people = rows.take(seeded(name, run, n).integers(0, ROWS, n)).reset_index(drop=True)
    model = pr.PrivateOnlineRegression.from_formula(
        design.formula, people, family=design.family, mu=1.0, bounds=design.bounds,
        **({"levels": design.levels} if design.levels else {}), **(design.more or {}),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
        res = model.fit(seed=zlib.crc32(f"{name} {n} {run}".encode()), progress=False, threads=1)
        truth, table = np.ravel(res.estimand(rows)), res.tidy()
        each = np.eye(len(truth))
        p = [float(res.wald_test((row[None], [t])).pvalue) for row, t in zip(each, truth, strict=True)]
        joint = float(res.wald_test((each[1:], truth[1:])).pvalue)
    low, high = table["conf_low"].to_numpy(float), table["conf_high"].to_numpy(float)
    numbers = np.column_stack(
        [
            ~table["reliable"].to_numpy(bool), (low <= truth) & (truth <= high), table["estimate"] - truth,
            table["std_error"], high - low, p, np.full(len(p), joint),
        ]
    )  # fmt: skip
    return table["term"].tolist(), numbers.astype(float)


def runs_of(kept: Runs, family: str, name: str, n: int, runs: int) -> pd.DataFrame:
    """All runs of a cell, a line for each coefficient."""
    design, out = FAMILIES[family][name], []
    terms, _ = one(name, design, 20_000, 0)

    def block(start: int) -> list[float]:
        return np.ravel([one(name, design, n, run)[1] for run in range(start, start + BLOCK)]).tolist()

    for start in range(0, runs, BLOCK):
        found = kept.get(f"{name}-{n}-{start}", lambda a=start: block(a))
        out.append(np.reshape(found, (BLOCK, len(terms), len(NUMBERS))))
    numbers = np.concatenate(out)
    table = pd.DataFrame(numbers.reshape(-1, len(NUMBERS)), columns=NUMBERS)
    table["run"], table["term"] = np.repeat(np.arange(len(numbers)), len(terms)), np.tile(terms, len(numbers))
    return table.assign(family=family, design=name, n=n)


def by_coefficient(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each design, n and coefficient."""
    out = []
    for (family, design, n, term), cell in rows.groupby(["family", "design", "n", "term"], sort=False):
        free, rmse = cell["marked"] == 0.0, float(np.sqrt((cell["error"] ** 2).mean()))
        held = cell["covered"]
        out.append(
            {"family": family, "design": design, "n": n, "term": term, "runs": len(cell)}
            | {"coverage": 100 * held.mean(), "unmarked": 100 * held[free].mean()}
            | {"marked_coverage": 100 * held[~free].mean(), "marked": 100 * (~free).mean()}
            | {"cv": cell["se"].std() / cell["se"].mean(), "largest": cell["se"][free].max() / cell["se"].median()}
            | {"length": cell["length"].median(), "rmse": rmse, "bias": cell["error"].mean() / rmse}
        )
    return pd.DataFrame(out)


def of_student(spread: float) -> np.ndarray:
    """Coverage of Student's intervals in fifths by their length, shape (5,); `spread` is its logarithm's sd."""
    freedom = 0.5 / spread**2
    length = np.sqrt(chi2.ppf((np.arange(1000) + 0.5) / 1000, freedom) / freedom)
    return (2.0 * norm.cdf(students.ppf(0.975, freedom) * length) - 1.0).reshape(5, -1).mean(axis=1)


def by_fifths(rows: pd.DataFrame) -> pd.DataFrame:
    """Lines for each family and n: unmarked intervals by fifths of the standard error, marked ones, and tests."""
    relative = rows["se"] / rows.groupby(["family", "design", "n", "term"])["se"].transform("median")
    out: list[dict[str, Any]] = []

    def add(at: dict[str, Any], what: str, fifth: int, held: pd.Series, where: float, student: float = np.nan) -> None:
        k, m = int(held.sum()), len(held)
        low, high = limits(k, m) if m else (np.nan, np.nan)
        out.append(
            at | {"what": what, "fifth": fifth, "trials": m, "share": 100 * k / max(m, 1)}
            | {"low": 100 * low, "high": 100 * high, "at": where, "student": 100 * student}
        )  # fmt: skip

    for (family, n), cell in rows.assign(relative=relative).groupby(["family", "n"], sort=False):
        at: dict[str, Any] = {"family": family, "n": n, "designs": cell["design"].nunique()}
        free = cell[cell["marked"] == 0.0]
        fifth = 1 + np.minimum((5 * free["relative"].rank(method="first", pct=True)).astype(int), 4)
        student = of_student(float(np.log(free["relative"]).std()))
        add(at, "unmarked coverage", 0, free["covered"], free["relative"].median(), 0.95)
        for k in range(1, 6):
            some = free[fifth == k]
            add(at, "unmarked coverage", k, some["covered"], some["relative"].median(), student[k - 1])
        marked = cell[cell["marked"] > 0.0]
        add(at, "marked coverage", 0, marked["covered"], marked["relative"].median())
        each = cell.groupby(["design", "run"])
        whole = each["joint"].first()[each["marked"].max() == 0.0]
        for level in (0.05, 0.01):
            add(at, f"single tests at {100 * level:g}%", 0, free["p"] < level, np.nan)
            add(at, f"joint tests at {100 * level:g}%", 0, whole < level, np.nan)
    return pd.DataFrame(out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.conditional", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = [name for designs in FAMILIES.values() for name in designs]
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES), metavar="NAME")
    parser.add_argument("--designs", nargs="*", default=names, choices=names, metavar="NAME")
    parser.add_argument("--n", nargs="*", type=int, default=[50_000, 200_000])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="folder of finished blocks of runs")
    parser.add_argument("--quick", action="store_true", help="a look: 20 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    runs, kept = BLOCK if args.quick else -(-args.runs // BLOCK) * BLOCK, Runs(None if args.quick else args.keep)
    found = []
    for n in args.n:
        for family in args.families:
            for name in (name for name in FAMILIES[family] if name in args.designs):
                found.append(runs_of(kept, family, name, n, runs))
                print(by_coefficient(found[-1]).round(3).to_string(index=False, header=len(found) == 1), flush=True)
    rows = pd.concat(found)
    fifths = by_fifths(rows).round(3)
    print(fifths.to_string(index=False))
    if not args.quick:
        some = args.designs != names or args.families != list(FAMILIES)
        what = "".join(f' "{name}"' for name in args.designs) if args.designs != names else ""
        command = "python -m benchmarks.conditional" + (f" --designs{what}" if what else "")
        command += f" --families {' '.join(args.families)}" if args.families != list(FAMILIES) else ""
        command += f" --n {' '.join(map(str, args.n))} --runs {runs}"
        end = "_some" if some else ""
        save_table(by_coefficient(rows).round(4), RESULTS / f"conditional{end}.csv", command)
        save_table(fifths, RESULTS / f"conditional_fifths{end}.csv", command)


if __name__ == "__main__":
    main()
