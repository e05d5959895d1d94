"""Fits of silos that keep their rows: errors and coverage beside pooled regression and meta-analysis of curators' fits.

``python -m benchmarks.silos [--cells NAME …] [--mu MU …] [--runs R] [--keep FOLDER] [--quick]``

Silos of fixed sizes hold people who differ from silo to silo by the design: not at all ("same"), in the mean of a
covariate and in the level of the response ("means"), in the prevalence of a rare level ("prevalence"), in a level that
one silo alone has ("level"). The response is a number (Huber) or yes and no (Logistic). One line for each cell and
coefficient, of the fits that don't mark it but for the last columns:

ratio
    Root mean squared error about the coefficient of the fit without privacy of a large population with the same shares
    of silos, over the standard error of the pooled fit of statsmodels (HC0, mean over runs).
length
    Median standard error over that one.
cover, low, high
    Share of 95% intervals that hold that coefficient, in %, with its exact 99% limits (Clopper and Pearson).
pooled, meta
    As ratio, of statsmodels' fit of all rows, which is what several silos get without privacy, and of a meta-analysis
    (fixed effects) of a curator's fit of each silo that has rows enough.
meta_cover, meta_silos
    Share of that meta-analysis' intervals that hold the coefficient, in %, and the mean number of silos in it.
marked, whole
    Share of fits that mark the coefficient, and of those that mark all, in %.
adders
    Variance of the noise in the sum of all silos over that of one curator's.

Table silos.csv. With --keep FOLDER finished cells are kept there, and a study goes on.
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
import statsmodels.formula.api as smf

import privreg as pr
from benchmarks.store import Runs, save_table
from benchmarks.sums import coverage
from privreg.errors import PrivregError

RESULTS: Final = Path(__file__).parent / "results" / "silos.csv"
Z: Final = 1.959963984540054

SIZES: Final = {
    "3, small": (200, 500, 800),
    "3": (2_000, 1_000, 500),
    "8, small": (200, 200, 300, 300, 500, 500, 1_000, 1_000),
    "8": (5_000, 4_000, 3_000, 2_000, 2_000, 2_000, 1_000, 1_000),
    "30": tuple(200 + 10 * k for k in range(30)),
    "30, large": tuple(500 + 150 * k for k in range(30)),
}
"""Records of silos."""

KINDS: Final = ("same", "means", "prevalence", "level")
FAMILIES: Final = ("huber", "logistic")
FORMULA: Final = "y ~ x + z + C(g)"
BOUNDS: Final = {"x": (-4.0, 4.0), "z": (-4.0, 4.0), "y": (-6.0, 8.0)}
LEVELS: Final = {"g": ["a", "b", "c"]}
POPULATION: Final = 400_000


def people(kind: str, family: str, sizes: Sequence[int], rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Made-up people by silo."""
    out = {}
    for s, n in enumerate(sizes):
        place = 2.0 * s / max(len(sizes) - 1, 1) - 1.0  # from -1 to 1
        x, z = np.clip(rng.normal(0.6 * place * (kind == "means"), 1.0, n), -4.0, 4.0), rng.normal(0.0, 1.0, n)
        rare = {"prevalence": 0.25 + 0.15 * place, "level": 0.3 * (s == 0)}.get(kind, 0.25)
        g = rng.choice(np.array(["a", "b", "c"]), n, p=[0.7 - rare / 2.0, 0.3 - rare / 2.0, rare])
        eta = 0.5 * x - 0.3 * z + 0.4 * (g == "b") + 0.6 * (g == "c") + 0.3 * place * (kind == "means")
        y = 1.0 + eta + rng.normal(0.0, 1.0, n)
        if family == "logistic":
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(eta - 0.3)))).astype(float)
        out[f"silo {s + 1}"] = pd.DataFrame({"x": x, "z": np.clip(z, -4.0, 4.0), "g": g, "y": y})
    return out


def fit(data: Any, family: str, mu: float, rng: np.random.Generator, trust: str) -> Any:
    """A private fit; its noise is drawn by a seed."""
    bounds = {k: v for k, v in BOUNDS.items() if k != "y" or family == "huber"}
    given: dict[str, Any] = {"bounds": bounds, "levels": LEVELS, "family": family, "mu": mu, "trust": trust}
    model = pr.PrivateOnlineRegression.from_formula(FORMULA, data, **given)
    return model.fit(seed=int(rng.integers(2**62)), progress=False)


def pooled(rows: pd.DataFrame, family: str) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and standard errors (HC0) of all rows without privacy."""
    if family == "logistic":
        found = smf.logit(FORMULA, rows).fit(disp=False, cov_type="HC0")
        return found.params.to_numpy(), found.bse.to_numpy()
    found = smf.rlm(FORMULA, rows).fit(cov="H1")
    return found.params.to_numpy(), found.bse.to_numpy()


@cache
def truth(kind: str, family: str, sizes: tuple[int, ...]) -> np.ndarray:
    """Coefficients of a large population with the same shares of silos."""
    times = POPULATION // sum(sizes)
    rng = np.random.default_rng([zlib.crc32(f"{kind} {family}".encode()), len(sizes)])
    return pooled(pd.concat(people(kind, family, [times * n for n in sizes], rng).values()), family)[0]


def cell(kind: str, family: str, sizes: tuple[int, ...], mu: float, runs: range) -> list[float]:
    """Errors, standard errors and marks by coefficient of each run, pooled and by meta-analysis, in one list."""
    out, true = list[float](), truth(kind, family, sizes)
    for run in runs:
        rng = np.random.default_rng([run, sum(sizes), len(sizes), zlib.crc32(f"{kind} {family}".encode())])
        data = people(kind, family, sizes, rng)
        pool, errors = pooled(pd.concat(data.values()), family)
        res = fit(data, family, mu, rng, "silos")
        table = res.tidy()
        out += [*(table["estimate"] - true), *table["std_error"], *(~table["reliable"]), *(pool - true), *errors]
        total, precision, count = np.zeros(len(true)), np.zeros(len(true)), 0
        for rows in data.values():
            try:
                each = fit(rows, family, mu, rng, "central").tidy()
            except PrivregError:  # too few rows
                continue
            part = np.where(each["reliable"], each["std_error"].to_numpy() ** -2.0, 0.0)
            total, precision = total + np.where(part > 0.0, part * each["estimate"], 0.0), precision + part
            count += 1
        with np.errstate(divide="ignore", invalid="ignore"):
            out += [*(total / precision - true), *(precision**-0.5), float(count)]
    return out


def lines(names: Sequence[str], numbers: Sequence[float], line: dict[str, object]) -> list[dict[str, object]]:
    """Lines of a cell, one a coefficient."""
    p = len(names)
    table = np.array(numbers).reshape(-1, 7 * p + 1)
    error, se, marked, pool, alone, meta, meta_se = (table[:, k * p : (k + 1) * p] for k in range(7))
    out = []
    for j, name in enumerate(names):
        kept, unit = marked[:, j] == 0.0, alone[:, j].mean()
        have = np.isfinite(meta[:, j])
        share, low, high = coverage(np.abs(error[kept, j]) < Z * se[kept, j])
        one = {"runs": len(table), "coefficient": name}
        if kept.any():
            one |= {"ratio": np.sqrt(np.mean(error[kept, j] ** 2)) / unit, "length": np.median(se[kept, j]) / unit}
        one |= {"cover": share, "low": low, "high": high, "pooled": np.sqrt(np.mean(pool[:, j] ** 2)) / unit}
        if have.any():
            one["meta"] = np.sqrt(np.mean(meta[have, j] ** 2)) / unit
            one["meta_cover"] = 100.0 * float(np.mean(np.abs(meta[have, j]) < Z * meta_se[have, j]))
        one |= {"meta_silos": table[:, -1].mean(), "marked": 100.0 * marked[:, j].mean()}
        out.append({**line, **one, "whole": 100.0 * (marked > 0.0).all(axis=1).mean()})
    return out


def adders(kind: str, family: str, sizes: tuple[int, ...], mu: float) -> tuple[list[str], float]:
    """Names of coefficients, and the variance of the noise of all silos over that of one."""
    from privreg.fits.aggregate import plan_of

    data = people(kind, family, [20] * len(sizes), np.random.default_rng(0))
    bounds = {k: v for k, v in BOUNDS.items() if k != "y" or family == "huber"}
    given: dict[str, Any] = {"bounds": bounds, "levels": LEVELS, "family": family, "mu": mu, "trust": "silos"}
    spec = pr.PrivateOnlineRegression.from_formula(FORMULA, data, **given)._spec
    return list(spec.coefficients), plan_of(spec, sum(sizes), silos=sizes)[0].noise.adders


def main(arguments: Sequence[str] | None = None) -> None:
    summary_text, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.silos", description=summary_text, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--cells", nargs="*", default=list(SIZES), choices=list(SIZES), metavar="NAME")
    parser.add_argument("--mu", nargs="*", type=float, default=[1.0])
    parser.add_argument("--runs", type=int, default=40, help="a cell")
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--quick", action="store_true", help="a look: 3 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept, table, runs = (
        Runs(None if args.quick else args.keep),
        list[dict[str, object]](),
        3 if args.quick else args.runs,
    )
    for mu in args.mu:
        for name in args.cells:
            for family in FAMILIES:
                for kind in KINDS:
                    sizes = SIZES[name]
                    made = partial(cell, kind, family, sizes, mu, range(runs))
                    numbers = kept.get(f"{name.replace(', ', '-')}-{family}-{kind}-{mu:g}-{runs}", made)
                    names, noise = adders(kind, family, sizes, mu)
                    line = {"silos": len(sizes), "n": sum(sizes), "least": min(sizes), "largest": max(sizes)}
                    line |= {"family": family, "people": kind, "mu": mu, "adders": noise}
                    table += lines(names, numbers, line)
                    print(f"{name}, {family}, {kind}, μ = {mu:g}: done", flush=True)
    found = pd.DataFrame(table).round(3)
    if not args.quick:
        what = "" if args.cells == list(SIZES) else " --cells " + " ".join(f'"{name}"' for name in args.cells)
        what += "" if args.mu == [1.0] else " --mu " + " ".join(f"{mu:g}" for mu in args.mu)
        save_table(found, RESULTS, f"python -m benchmarks.silos{what} --runs {args.runs}")
    by = found.groupby(["mu", "silos", "n", "family", "people"], sort=False)
    numbers = ["ratio", "length", "cover", "pooled", "meta", "meta_cover", "meta_silos", "marked", "whole", "adders"]
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 1_000):
        print(by[numbers].median().round(2).to_string())


if __name__ == "__main__":
    main()
