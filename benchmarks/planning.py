"""Plans beside fits of real data, where noise falls on sums: standard errors that plans name, over those of fits.

``python -m benchmarks.planning [--trust central two_collectors] [--designs NAME …] [--n N …] [--runs R] [--keep FOLDER]
[--quick]``

One line for each trust model, design, number of people, what is known before, and coefficient:

known
    "facts": means, sds and correlations of numbers, shares of levels, and the residual sd, or the coefficients and
    dispersion, as a pilot's publication has them. "rows": the data set is the pilot.
planned, fits
    The plan's usual standard error, and the median of fits of rows drawn from the data set, by lengths of intervals.
ratio
    Of these, fits over plan.
marked, expected
    Share of fits that mark the coefficient, in %, and whether the plan says that most do.

Table planning.csv. With --keep FOLDER finished cells are kept there, and a study goes on.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.real_designs import REAL, TUNED, population
from benchmarks.store import Runs, save_table
from benchmarks.sums import KNOWN
from privreg.formula.spec import ModelSpec
from privreg.planning.plan import StudyPlan
from privreg.planning.precision import USUAL, plain_model

NAMES: Final = [
    "two years", "panel of wages", "births", "wages, men", "hours", "employed", "worked", "in work", "visits", "kids",
]  # fmt: skip
"""Designs on which nothing was chosen: of numbers, of 0 and 1, and of counts."""

SIZES: Final = [1_000, 2_000, 5_000, 20_000]
RESULTS: Final = Path(__file__).parent / "results" / "planning.csv"


def declared(name: str, trust: str) -> dict[str, Any]:
    """Declarations of a design."""
    design = KNOWN[name]
    return {"family": design.family, "bounds": design.bounds, "levels": design.levels, "mu": 1.0, "trust": trust}


@cache
def facts(name: str) -> dict[str, Any]:
    """Summaries of a data set, as options of `privreg.plan`."""
    design: Any = KNOWN[name]
    rows = population(*design.make.args)
    response = design.formula.partition("~")[0].strip()
    levels = design.levels or {}
    numbers = [c for c in design.bounds if c != response]
    spec: ModelSpec = pr.plan(design.formula, n=1_000, **declared(name, "central"), covariates=rows).spec
    y, x, *_ = spec.design.encode(rows)
    fitted = plain_model(spec, y, x, robust=True)
    related = [*numbers, *(c for c in levels if c != response)]  # factors have two levels, 0 and 1
    pairs = {(a, b): float(rows[a].corr(rows[b])) for i, a in enumerate(related) for b in related[:i]}
    moments = rows[numbers].agg(["std", "mean"]).T
    pilot: dict[str, Any] = {"sd": moments["std"].to_dict(), "mean": moments["mean"].to_dict(), "correlations": pairs}
    shares = {c: [float((rows[c] == v).mean()) for v in levels[c]] for c in levels if c != response}
    if spec.family.scaled:
        return {"pilot": pilot | {"residual_sd": float(fitted.scale)}, "shares": shares}
    if spec.family.response == "count":
        mean = fitted.predict()
        pilot["dispersion"] = float(((y - mean) ** 2 / mean).mean())
    return {"pilot": pilot, "shares": shares, "params": np.asarray(fitted.params)}


def planned(name: str, trust: str, n: int, known: str) -> StudyPlan:
    """The plan of so many people."""
    design: Any = KNOWN[name]
    given = facts(name) if known == "facts" else {"pilot": population(*design.make.args)}
    return pr.plan(design.formula, n=n, **declared(name, trust), **given)


def cell(trust: str, name: str, n: int, runs: int) -> list[float]:
    """Standard errors of fits by coefficient, then whether they are marked, a fit after the other."""
    out, design = list[float](), KNOWN[name]
    for run in range(runs):
        rng = np.random.default_rng([run, n, zlib.crc32(name.encode())])
        rows = pd.DataFrame(design.make(rng, n))
        model: Any = pr.PrivateOnlineRegression.from_formula(design.formula, rows, **declared(name, trust))
        table = model.fit(seed=int(rng.integers(2**63)), progress=False).tidy(conf_level=0.95)
        own = (table["conf_high"] - table["conf_low"]).to_numpy(dtype=np.float64) / USUAL
        out += [*np.where(np.isfinite(own), own, np.inf), *(~table["reliable"].to_numpy(dtype=bool))]
    return out


def lines(trust: str, name: str, n: int, numbers: list[float]) -> list[dict[str, object]]:
    """Lines of a cell, for both kinds of knowledge."""
    out = list[dict[str, object]]()
    for known in ("facts", "rows"):
        plan = planned(name, trust, n, known)
        table, p = plan.table(), len(plan.spec.coefficients)
        seen = np.array(numbers).reshape(-1, 2, p)
        fits, marked = np.median(seen[:, 0], axis=0), 100.0 * seen[:, 1].mean(axis=0)
        for j, coefficient in enumerate(table.index):
            one = float(table["std_error"].iloc[j])
            line = {"trust": trust, "design": name, "n": n, "known": known, "coefficient": coefficient}
            line |= {"planned": one, "fits": fits[j], "ratio": fits[j] / one, "marked": marked[j]}
            out.append(line | {"expected": not plan._precision.reliable(n, {j})})
    return out


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Ratios by trust model, number of people and knowledge: their least and largest, and how many are within 25%."""
    by = found.groupby(["trust", "known", "n"])
    within = by["ratio"].agg(lambda r: 100.0 * float(((r >= 0.8) & (r <= 1.25)).mean()))
    said = by.apply(lambda c: 100.0 * float(((c["marked"] > 50.0) == c["expected"]).mean()), include_groups=False)
    return by["ratio"].agg(["min", "median", "max"]).assign(**{"within 25%": within, "marks as planned": said})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trust", nargs="*", default=["central", "two_collectors"])
    parser.add_argument("--designs", nargs="*", default=NAMES, choices=[*REAL, *TUNED], metavar="NAME")
    parser.add_argument("--n", nargs="*", type=int, default=SIZES)
    parser.add_argument("--runs", type=int, default=20, help="fits of a cell")
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--quick", action="store_true", help="a look, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept, table = Runs(args.keep), list[dict[str, object]]()
    for trust in args.trust:
        for name in args.designs:
            for n in args.n:
                numbers = kept.get(f"{trust}-{name}-{n}-{args.runs}", partial(cell, trust, name, n, args.runs))
                table += lines(trust, name, n, numbers)
            print(f"{trust}, {name}: done", flush=True)
    found = pd.DataFrame(table)
    with pd.option_context("display.width", 200, "display.max_rows", 500):
        print(summary(found).round(2).to_string())
        if args.quick:
            far = found[(found["ratio"] < 0.8) | (found["ratio"] > 1.25)]
            print(far.round(3).to_string())
    if not args.quick:
        found = found.round({"ratio": 3, "marked": 1})
        save_table(found, RESULTS, f"python -m benchmarks.planning --runs {args.runs}")


if __name__ == "__main__":
    main()
