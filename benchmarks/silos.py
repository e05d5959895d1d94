"""Fits of silos that keep their rows: errors and coverage beside pooled regression and meta-analysis of curators' fits.

``python -m benchmarks.silos [--cells NAME …] [--mu MU …] [--runs R] [--keep FOLDER] [--quick]``

Silos of fixed sizes hold people who differ from silo to silo by the design: not at all ("same"), in the mean of a
covariate and in the level of the response ("means"), in the prevalence of a rare level ("prevalence"), in a level that
one silo alone has ("level"). The response is a number (Huber) or yes and no (Logistic). One line for each cell and
coefficient, of the fits that don't mark it but for the last columns:

ratio
    Root mean squared error about the coefficient of the population with the same shares of silos, over the standard
    error of the pooled fit of statsmodels (HC0, mean over runs). The population is integrated, not drawn.
length
    Median standard error over that one.
cover, low, high
    Share of 95% intervals that hold the coefficient of that population with records weighted by their silo's size,
    docs/sums.md, (49), in %, with its exact 99% limits (Clopper and Pearson).
equal, shift
    Share of them that hold the coefficient of equal weights, and how far the two are apart in pooled standard errors.
    They differ in people of kind "means" alone, whose responses differ between silos beyond the covariates.
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
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy.optimize import brentq
from scipy.special import roots_hermitenorm
from scipy.stats import norm

import privreg as pr
from benchmarks.store import Runs, save_table
from benchmarks.sums import coverage
from privreg.collector.aggregate.plan import Noise
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
NODES: Final = 24  # Of the integral over each covariate


def shares(kind: str, place: float, first: bool) -> tuple[float, float, float, float]:
    """Mean of x, and shares of the levels of g, in the silo at a place from -1 to 1."""
    rare = {"prevalence": 0.25 + 0.15 * place, "level": 0.3 * first}.get(kind, 0.25)
    return 0.6 * place * (kind == "means"), 0.7 - rare / 2.0, 0.3 - rare / 2.0, rare


def eta(kind: str, place: float, x: np.ndarray, z: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Linear predictor, without its constant, of levels 0, 1 and 2 of g."""
    return np.asarray(0.5 * x - 0.3 * z + 0.4 * (g == 1) + 0.6 * (g == 2) + 0.3 * place * (kind == "means"))


def people(kind: str, family: str, sizes: Sequence[int], rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Made-up people by silo."""
    out = {}
    for s, n in enumerate(sizes):
        place = 2.0 * s / max(len(sizes) - 1, 1) - 1.0  # from -1 to 1
        mean, *parts = shares(kind, place, s == 0)
        x, z = np.clip(rng.normal(mean, 1.0, n), -4.0, 4.0), rng.normal(0.0, 1.0, n)
        g = rng.choice(3, n, p=parts)
        at = eta(kind, place, x, z, g)
        y = 1.0 + at + rng.normal(0.0, 1.0, n)
        if family == "logistic":
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(at - 0.3)))).astype(float)
        out[f"silo {s + 1}"] = pd.DataFrame({"x": x, "z": np.clip(z, -4.0, 4.0), "g": np.array(list("abc"))[g], "y": y})
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


def truth(kind: str, family: str, sizes: Sequence[float] | np.ndarray) -> np.ndarray:
    """Coefficients of a population of silos of these sizes, by Newton's method on integrals over normal covariates.

    Numbers beyond four standard deviations, which bounds clamp, are 6 in 100,000 and left out of account. Huber's scale
    is the median absolute residual over 0.6745, as statsmodels' is.
    """
    (at, by), parts = roots_hermitenorm(NODES), list[np.ndarray]()
    by = by / by.sum()
    for s, n in enumerate(sizes):
        place = 2.0 * s / max(len(sizes) - 1, 1) - 1.0
        mean, *levels = shares(kind, place, s == 0)
        x, z, g = np.meshgrid(mean + at, at, np.arange(3), indexing="ij")
        weight = n * by[:, None, None] * by[:, None] * np.array(levels)
        parts.append(np.stack([x, z, g, weight, eta(kind, place, x, z, g)]).reshape(5, -1))
    x, z, g, weight, mean = np.concatenate(parts, axis=1)
    rows = np.column_stack([np.ones(len(x)), g == 1, g == 2, x, z]).astype(float)
    beta = np.linalg.solve((rows.T * weight) @ rows, (rows.T * weight) @ (1.0 + mean) * (family == "huber"))
    for _ in range(100):
        if family == "logistic":
            p = 1.0 / (1.0 + np.exp(-rows @ beta))
            psi, slope = 1.0 / (1.0 + np.exp(-(mean - 0.3))) - p, p * (1.0 - p)
        else:  # of normal errors about d the mean of min(max(e, -c), c) and of its slope
            d = 1.0 + mean - rows @ beta
            scale = brentq(lambda r, d=d: weight @ (norm.cdf(r - d) - norm.cdf(-r - d) - 0.5), 0.01, 9.0)
            c = 1.345 * scale / norm.ppf(0.75)
            low, high = -c - d, c - d
            slope = norm.cdf(high) - norm.cdf(low)
            psi = c * (norm.sf(high) - norm.cdf(low)) + d * slope + norm.pdf(low) - norm.pdf(high)
        step = np.linalg.solve((rows.T * (weight * slope)) @ rows, (rows.T * weight) @ psi)
        beta = beta + step
        if np.abs(step).max() < 1e-12:
            return beta
    raise ArithmeticError("Newton's method goes on")


def cell(kind: str, family: str, sizes: tuple[int, ...], mu: float, runs: range) -> list[float]:
    """Estimates, standard errors and marks by coefficient of each run, pooled and by meta-analysis, in one list."""
    out = list[float]()
    for run in runs:
        rng = np.random.default_rng([run, sum(sizes), len(sizes), zlib.crc32(f"{kind} {family}".encode())])
        data = people(kind, family, sizes, rng)
        pool, errors = pooled(pd.concat(data.values()), family)
        table = fit(data, family, mu, rng, "silos").tidy()
        out += [*table["estimate"], *table["std_error"], *(~table["reliable"]), *pool, *errors]
        total, precision, count = np.zeros(len(pool)), np.zeros(len(pool)), 0
        for rows in data.values():
            try:
                each = fit(rows, family, mu, rng, "central").tidy()
            except PrivregError:  # too few rows
                continue
            part = np.where(each["reliable"], each["std_error"].to_numpy() ** -2.0, 0.0)
            total, precision = total + np.where(part > 0.0, part * each["estimate"], 0.0), precision + part
            count += 1
        with np.errstate(divide="ignore", invalid="ignore"):
            out += [*(total / precision), *(precision**-0.5), float(count)]
    return out


def lines(
    names: Sequence[str], numbers: Sequence[float], line: dict[str, object], true: np.ndarray, weighted: np.ndarray
) -> list[dict[str, object]]:
    """Lines of a cell, one a coefficient, of true ones with equal and with silos' weights."""
    p = len(names)
    table = np.array(numbers).reshape(-1, 7 * p + 1)
    found, se, marked, pool, alone, meta, meta_se = (table[:, k * p : (k + 1) * p] for k in range(7))
    out = []
    for j, name in enumerate(names):
        kept, unit = marked[:, j] == 0.0, alone[:, j].mean()
        have = np.isfinite(meta[:, j])
        errors, reach = found[kept, j] - true[j], Z * se[kept, j]
        share, low, high = coverage(np.abs(found[kept, j] - weighted[j]) < reach)
        one = {"runs": len(table), "coefficient": name}
        if kept.any():
            one |= {"ratio": np.sqrt(np.mean(errors**2)) / unit, "length": np.median(se[kept, j]) / unit}
        one |= {"cover": share, "low": low, "high": high, "equal": coverage(np.abs(errors) < reach)[0]}
        one |= {"shift": abs(weighted[j] - true[j]) / unit}
        one["pooled"] = np.sqrt(np.mean((pool[:, j] - true[j]) ** 2)) / unit
        if have.any():
            one["meta"] = np.sqrt(np.mean((meta[have, j] - true[j]) ** 2)) / unit
            one["meta_cover"] = 100.0 * float(np.mean(np.abs(meta[have, j] - true[j]) < Z * meta_se[have, j]))
        one |= {"meta_silos": table[:, -1].mean(), "marked": 100.0 * marked[:, j].mean()}
        out.append({**line, **one, "whole": 100.0 * (marked > 0.0).all(axis=1).mean()})
    return out


def noise_of(kind: str, family: str, sizes: tuple[int, ...], mu: float) -> tuple[list[str], Noise]:
    """Names of coefficients, and the noise of all silos with their records' weights."""
    from privreg.fits.aggregate import plan_of

    data = people(kind, family, [20] * len(sizes), np.random.default_rng(0))
    bounds = {k: v for k, v in BOUNDS.items() if k != "y" or family == "huber"}
    given: dict[str, Any] = {"bounds": bounds, "levels": LEVELS, "family": family, "mu": mu, "trust": "silos"}
    spec = pr.PrivateOnlineRegression.from_formula(FORMULA, data, **given)._spec
    return list(spec.coefficients), plan_of(spec, sum(sizes), silos=sizes)[0].noise


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
                    names, noise = noise_of(kind, family, sizes, mu)
                    line: dict[str, object] = {
                        "silos": len(sizes),
                        "n": sum(sizes),
                        "least": min(sizes),
                        "largest": max(sizes),
                    }
                    line |= {"family": family, "people": kind, "mu": mu, "adders": noise.adders}
                    targets = truth(kind, family, sizes), truth(kind, family, noise.weights * sizes)
                    table += lines(names, numbers, line, *targets)
                    print(f"{name}, {family}, {kind}, μ = {mu:g}: done", flush=True)
    found = pd.DataFrame(table).round(3)
    if not args.quick:
        what = "" if args.cells == list(SIZES) else " --cells " + " ".join(f'"{name}"' for name in args.cells)
        what += "" if args.mu == [1.0] else " --mu " + " ".join(f"{mu:g}" for mu in args.mu)
        save_table(found, RESULTS, f"python -m benchmarks.silos{what} --runs {args.runs}")
    by = found.groupby(["mu", "silos", "n", "family", "people"], sort=False)
    columns = ["ratio", "length", "cover", "equal", "shift", "pooled", "meta", "meta_cover", "meta_silos", "marked"]
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 1_000):
        print(by[[*columns, "whole", "adders"]].median().round(2).to_string())


if __name__ == "__main__":
    main()
