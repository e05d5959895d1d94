"""Coverage of 95% intervals of families whose rounds learn a parameter beside the coefficients.

``python -m benchmarks.extra_parameters [--reps R] [--cells TEXT …] [--keep FOLDER]``

A cell is a family, a trust model, a number of records and a design, at μ = 1; ``--cells central`` runs those whose name
has this text. Covariates are uniform on [−1, 1] and normal of sd 0.6, clipped at ±2. Counts up to 20 have the mean
exp(0.4 + 0.6 x − 0.5 z):

negative-binomial
    "right" of dispersion 0.6, "even" of 0.1; "zeros", of which three in ten are 0; "by x", of dispersion 0.2 where x is
    negative and 1.2 where it isn't; "curved", with 0.8 x² beside the predictor. "rare" has the constant −1.5 instead,
    one event for four people or so; "rare zeros", of which half are 0, and "rare wide", of dispersion 3, too.

tobit
    Responses of the latent mean 0.4 + 0.9 x − 0.6 z, censored at 0 (a third are) and with bounds up to 8. "right" has
    normal errors of sd 0.8, "both" is censored at 1, too; "skewed" has exponential errors of sd 0.8, "fanned" normal
    ones of sd 0.8 e^(x/2).

Estimates are compared with the coefficients under which records are drawn, or, where these are no log-linear mean up to
the largest count, or errors aren't normal of one variance, with the fit of a million records at μ = 1,000, which has
next to no noise and the same score.

Columns of `results/extra_parameters.csv`, one line a cell: replications; coverage, the share of unmarked intervals
that hold their coefficient, in %, pooled over coefficients, and its exact 99% limits low and high if all were
independent; marked, the share of intervals with a mark, in %; bias, the root mean square over coefficients of the mean
error over the sd of estimates; error_ratio, the sd of estimates over the mean standard error;
extra, the share of intervals that hold the parameter, where the model is right, its limits extra_low and extra_high,
and hidden, the share of fits that have no standard error of it, in %.
"""

from __future__ import annotations

import argparse
import math
import warnings
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from benchmarks.store import Runs, commit, read_table, save_table
from privreg.errors import PrivregWarning

RESULTS = Path(__file__).parent / "results" / "extra_parameters.csv"
SIZES = (1_000, 2_000, 5_000, 20_000)
LARGE = 1_000_000


class Design(NamedTuple):
    """A family, and how its responses are drawn of a predictor."""

    family: pr.families.Family
    draw: Callable[[np.random.Generator, np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # Of a generator, η, x, z
    truth: tuple[float, ...]
    extra: float = math.nan  # The parameter, if the model is right
    right: bool = True  # True if coefficients are those under which records are drawn
    bounds: tuple[float, float] | None = None  # Of the response


COUNTS, RARE = (0.4, 0.6, -0.5), (-1.5, 0.6, -0.5)
Y_MAX = 20.0


def counts(rng: np.random.Generator, mean: np.ndarray, alpha: float | np.ndarray) -> np.ndarray:
    """Negative binomial counts up to the largest one."""
    return np.minimum(rng.poisson(rng.gamma(1.0 / alpha, alpha * mean)), Y_MAX).astype(float)


NB = pr.NegativeBinomial(Y_MAX)
LATENT = (0.4, 0.9, -0.6)


def latent(errors: Callable[[np.random.Generator, np.ndarray], np.ndarray], **more: object) -> Design:
    """Responses with these errors of unit sd, times 0.8, of a generator and x."""
    family, ends = (pr.Tobit(0, 1), (0.0, 1.0)) if more.pop("both", False) else (pr.Tobit(0), (0.0, 8.0))
    return Design(family, lambda rng, eta, x, z: eta + 0.8 * errors(rng, x), LATENT, bounds=ends, **more)


DESIGNS = {
    "negative-binomial": {
        "right": Design(NB, lambda rng, eta, x, z: counts(rng, np.exp(eta), 0.6), COUNTS, 0.6),
        "even": Design(NB, lambda rng, eta, x, z: counts(rng, np.exp(eta), 0.1), COUNTS, 0.1),
        "zeros": Design(
            NB, lambda rng, eta, x, z: counts(rng, np.exp(eta) / 0.7, 0.6) * (rng.random(len(eta)) < 0.7), COUNTS
        ),
        "by x": Design(
            NB, lambda rng, eta, x, z: counts(rng, np.exp(eta), np.where(x < 0, 0.2, 1.2)), COUNTS, right=False
        ),
        "curved": Design(NB, lambda rng, eta, x, z: counts(rng, np.exp(eta + 0.8 * x**2), 0.6), COUNTS, right=False),
        "rare": Design(NB, lambda rng, eta, x, z: counts(rng, np.exp(eta), 0.6), RARE, 0.6),
        "rare zeros": Design(
            NB, lambda rng, eta, x, z: counts(rng, 2.0 * np.exp(eta), 0.6) * (rng.random(len(eta)) < 0.5), RARE
        ),
        "rare wide": Design(NB, lambda rng, eta, x, z: counts(rng, np.exp(eta), 3.0), RARE, 3.0),
    },
    "tobit": {
        "right": latent(lambda rng, x: rng.standard_normal(len(x)), extra=0.8),
        "both": latent(lambda rng, x: rng.standard_normal(len(x)), extra=0.8, both=True),
        "skewed": latent(lambda rng, x: rng.exponential(size=len(x)) - 1.0, right=False),
        "fanned": latent(lambda rng, x: np.exp(0.5 * x) * rng.standard_normal(len(x)), right=False),
    },
}
CELLS = {
    f"{family} {trust} {n} {name}": (family, trust, n, name)
    for family, designs in DESIGNS.items()
    for trust in ("central", "two_collectors")
    for name in designs
    for n in SIZES
}


def people(design: Design, n: int, rng: np.random.Generator) -> pd.DataFrame:
    x, z = rng.uniform(-1, 1, n), rng.normal(0, 0.6, n).clip(-2, 2)
    y = design.draw(rng, np.asarray(design.truth) @ np.array([np.ones(n), x, z]), x, z)
    return pd.DataFrame({"x": x, "z": z, "y": y})


def fit(design: Design, data: pd.DataFrame, trust: str, mu: float | None, seed: int | None = None):
    bounds = {"x": (-1, 1), "z": (-2, 2)} | ({} if design.bounds is None else {"y": design.bounds})
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z", data, family=design.family, mu=mu, trust=trust, bounds=bounds
    )
    return model.fit(progress=False, seed=seed)


@cache
def truth(family: str, name: str) -> np.ndarray:
    """Coefficients that intervals are to hold."""
    design = DESIGNS[family][name]
    if design.right:
        return np.array(design.truth)
    rng = np.random.default_rng([zlib.crc32(name.encode()), 7])
    return fit(design, people(design, LARGE, rng), "central", 1_000.0, 1).params.to_numpy()


def run(cell: str, replication: int) -> list[float]:
    """Estimates, standard errors, limits, marks, and the parameter with its limits, of one data set."""
    family, trust, n, name = CELLS[cell]
    design = DESIGNS[family][name]
    rng = np.random.default_rng([zlib.crc32(cell.encode()), replication])
    data = people(design, n, rng)
    res = fit(design, data, trust, 1.0, int(rng.integers(2**31)))
    line, found = res.tidy(), res.fit_measures.iloc[0]
    marked = (~line["reliable"].to_numpy(dtype=bool)).astype(float)
    extra = [found["estimate"], found["conf_low"], found["conf_high"]]
    return [*res.params, *res.bse, *res.conf_int().to_numpy().ravel(), *marked, *extra]


def limits(held: int, of: int) -> list[float]:
    """Share in %, with exact 99% limits."""
    if not of:
        return [math.nan] * 3
    low = beta.ppf(0.005, held, of - held + 1) if held else 0.0
    high = beta.ppf(0.995, held + 1, of - held) if held < of else 1.0
    return [round(100.0 * v, 1) for v in (held / of, low, high)]


def row(cell: str, reps: int, kept: Runs) -> dict[str, object]:
    """One line of the table."""
    family, _, _, name = CELLS[cell]
    got = np.array([kept.get(f"{cell.replace(' ', '_')}-{k}", lambda k=k: run(cell, k)) for k in range(reps)])
    d, design, right = 3, DESIGNS[family][name], truth(family, name)
    params, errors, ends = got[:, :d], got[:, d : 2 * d], got[:, 2 * d : 4 * d].reshape(-1, d, 2)
    marked, extra = got[:, 4 * d : 5 * d] > 0.5, got[:, 5 * d :]
    held = (ends[..., 0] <= right) & (right <= ends[..., 1])
    clear = ~np.isnan(extra[:, 1])
    within = (extra[clear, 1] <= design.extra) & (design.extra <= extra[clear, 2])
    coverage, low, high = limits(int(held[~marked].sum()), int((~marked).sum()))
    known = limits(int(within.sum()), len(within)) if math.isfinite(design.extra) else [math.nan] * 3
    bias = (params - right).mean(axis=0) / params.std(axis=0, ddof=1)
    ratio = params.std(axis=0, ddof=1) / errors.mean(axis=0)
    return {
        "cell": cell, "replications": reps, "coverage": coverage, "low": low, "high": high,
        "marked": round(100.0 * float(marked.mean()), 1), "bias": round(float(np.sqrt(np.mean(bias**2))), 2),
        "error_ratio": round(float(ratio.mean()), 2), "extra": known[0], "extra_low": known[1],
        "extra_high": known[2], "hidden": round(100.0 * float(1.0 - clear.mean()), 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=400)
    parser.add_argument("--cells", nargs="*", default=[""], metavar="TEXT")
    parser.add_argument("--keep", type=Path, help="folder of finished runs")
    asked, made_by = parser.parse_args(), commit()  # before the table is written, which git would see
    warnings.simplefilter("ignore", PrivregWarning)
    for name in (cell for cell in CELLS if any(text in cell for text in asked.cells)):
        made = pd.DataFrame([row(name, asked.reps, Runs(asked.keep))])
        old = read_table(RESULTS) if RESULTS.exists() else made.iloc[:0]
        table, order = pd.concat([old[old["cell"] != name], made]), {cell: k for k, cell in enumerate(CELLS)}
        table = table.sort_values("cell", key=lambda s: s.map(order))
        save_table(table, RESULTS, f"python -m benchmarks.extra_parameters --reps {asked.reps}", (made_by,))
        print(made.to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
