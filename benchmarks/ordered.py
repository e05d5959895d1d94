"""Coverage of 95% intervals of `Ordered()` under each trust model, by records, levels and model.

``python -m benchmarks.ordered [--reps R] [--cells PATTERN …] [--keep FOLDER]``

A cell is a trust model with a budget μ, a number of records, K levels and a design. Covariates are x uniform on [−1,
1], z normal of sd 0.6 clipped at ±2, and g, 1 for 30% and else 0; P(y > k) = 1/(1 + exp(κ_k − η)) with η = 1.2 x − 0.8
z + 0.5 g ("usual"), cut points even on [−1.5, 1.5]. "rare": the cut points are moved by 2.5, so that the highest level
has one record in 30 or so; "few": by 3, one in 50. "wide": by 3.8 and slopes are 2.3 times as large, so that linear
predictors have a sd of 2 and the highest level one record in 30. "other": odds are not proportional, the slope of x
falls from 1.8 at the first cut point to 0.6 at the last, of which estimates are compared with the coefficients that a
fit's equation has on 400,000 other records (`estimand`), that is without noise. Estimates of all but "other" are
compared with the coefficients that records are drawn with.

Columns of `results/ordered.csv`, one line a cell: replications; coverage, the share of intervals that hold their
coefficient or cut point, in %, pooled; low_999, the share that exact intervals reach in 99.9% of such studies if
coefficients were independent; least, the lowest coverage of a coefficient, and least_999, which the lowest of so many
reaches in 99.9%, by Bonferroni; unmarked, coverage of those that no summary takes back; bias, the root mean square over
coefficients of the mean error over the sd of estimates; error_ratio, the sd of estimates over the mean standard error;
noted, the share of fits that take intervals back; last, the share whose last cut point isn't marked, and missed, that
of those whose interval does not hold it then, of "few"; crossed, those with cut points out of order; failed, fits that
were refused. ``--keep`` stores each run, so that a study can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

import privreg as pr
from benchmarks.store import Runs, commit, read_table, save_table
from privreg.errors import PrivregError

RESULTS = Path(__file__).parent / "results" / "ordered.csv"
SLOPES = np.array([0.5, 1.2, -0.8])  # Of g, x and z
BUDGETS = (("two_collectors", 1.0), ("central", 1.0))
CELLS = {
    f"{trust}-{mu:g}-{n}-{levels}-{design}": (trust, mu, n, levels, design)
    for trust, mu in BUDGETS
    for n in (1_000, 5_000, 20_000)
    for levels in (3, 4, 5)
    for design in ("usual", "rare", "other")
}
CELLS |= {f"two_collectors-1-{n}-3-few": ("two_collectors", 1.0, n, 3, "few") for n in (2_000, 3_000, 5_000, 20_000)}
CELLS |= {f"central-1-{n}-3-few": ("central", 1.0, n, 3, "few") for n in (2_000, 5_000, 20_000)}
CELLS |= {f"{t}-1-{n}-3-wide": (t, 1.0, n, 3, "wide") for t in ("two_collectors", "central") for n in (5_000, 20_000)}
MOVED = {"rare": 2.5, "few": 3.0, "wide": 3.8}  # Cut points, by design
STEEPER = {"wide": 2.3}  # Factor of slopes, by design


def truth(name: str) -> np.ndarray:
    """Slopes, then cut points, under which responses are drawn."""
    _, _, _, levels, design = CELLS[name]
    return np.append(SLOPES * STEEPER.get(design, 1.0), np.linspace(-1.5, 1.5, levels - 1) + MOVED.get(design, 0.0))


def people(name: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Records of a cell."""
    _, _, _, levels, design = CELLS[name]
    x, z = rng.uniform(-1, 1, n), rng.normal(0, 0.6, n).clip(-2, 2)
    g = (rng.uniform(size=n) < 0.3).astype(int)
    eta = np.repeat((np.array([g, x, z]).T @ truth(name)[:3])[:, None], levels - 1, axis=1)
    if design == "other":
        eta += x[:, None] * np.linspace(0.6, -0.6, levels - 1)
    above = 1.0 / (1.0 + np.exp(truth(name)[3:] - eta))
    return pd.DataFrame({"g": g, "x": x, "z": z, "y": (rng.uniform(size=n)[:, None] < above).sum(axis=1)})


def fitted(name: str, replication: int) -> pr.PrivateOnlineRegression:
    """Results of one data set."""
    trust, mu, n, levels, _ = CELLS[name]
    rng = np.random.Generator(np.random.PCG64([zlib.crc32(name.encode()), replication]))
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ C(g) + x + z", people(name, n, rng), family=pr.Ordered(), mu=mu, trust=trust,
        bounds={"x": (-1, 1), "z": (-2, 2)}, levels={"y": list(range(levels)), "g": [0, 1]},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(progress=False, seed=int(rng.integers(2**31)))


def run(name: str, replication: int) -> list[float]:
    """Estimates, standard errors, limits and marks of one data set, one after the other; none of one refused."""
    try:
        res = fitted(name, replication)
    except PrivregError:
        return []
    table = res.tidy()
    limits = res.conf_int().to_numpy().T
    return np.concatenate([res.params, res.bse, *limits, table["reliable"].astype(float)]).tolist()


@cache
def estimand(name: str) -> np.ndarray:
    """What is estimated: the truth, or what the equation of one fit has on many other records."""
    if CELLS[name][4] != "other":
        return truth(name)
    rng = np.random.Generator(np.random.PCG64([zlib.crc32(name.encode()), 1 << 32]))
    first = fitted(name, 1 << 20)
    return first.estimand(people(name, 400_000, rng)).to_numpy()


def row(name: str, reps: int, runs: Runs) -> dict[str, object]:
    """One line of the table."""
    made = [runs.get(f"{name}-{k}", lambda k=k: run(name, k)) for k in range(reps)]
    held_of = np.array([m for m in made if m])
    if not len(held_of):
        return {"cell": name, "replications": reps, "failed": 1.0}
    at, q = estimand(name), len(truth(name))
    params, errors, low, high, marks = held_of.reshape(len(held_of), 5, q).transpose(1, 0, 2)
    held, sd, fine = (low <= at) & (at <= high), params.std(axis=0, ddof=1), marks > 0.0
    return {
        "cell": name,
        "replications": reps,
        "coverage": round(100.0 * float(held.mean()), 1),
        "low_999": round(100.0 * float(binom.ppf(0.001, held.size, 0.95)) / held.size, 1),
        "least": round(100.0 * float(held.mean(axis=0).min()), 1),
        "least_999": round(100.0 * float(binom.ppf(0.001 / q, len(held), 0.95)) / len(held), 1),
        "unmarked": round(100.0 * float(held[fine].mean()), 1) if fine.any() else np.nan,
        "bias": round(float(np.sqrt(np.mean(((params.mean(axis=0) - at) / sd) ** 2))), 2),
        "error_ratio": round(float(np.mean(sd / errors.mean(axis=0))), 2),
        "noted": round(float((~fine).any(axis=1).mean()), 2),
        "last": round(float(fine[:, -1].mean()), 3) if CELLS[name][4] in {"few", "wide"} else np.nan,
        "missed": round(float((fine & ~held)[:, -1].mean()), 3) if CELLS[name][4] in {"few", "wide"} else np.nan,
        "crossed": round(float((np.diff(params[:, 3:], axis=1) <= 0.0).any(axis=1).mean()), 3),
        "failed": round(1.0 - len(held_of) / reps, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--cells", nargs="*", default=["*"])
    parser.add_argument("--keep", type=Path)
    asked, made_by = parser.parse_args(), commit()  # before the table is written, which git would see
    for name in [n for n in CELLS if any(fnmatch(n, pattern) for pattern in asked.cells)]:
        made = pd.DataFrame([row(name, asked.reps, Runs(asked.keep))])
        old = read_table(RESULTS) if RESULTS.exists() else made.iloc[:0]
        table = pd.concat([old[old["cell"] != name], made])
        order = {cell: k for k, cell in enumerate(CELLS)}
        table = table.sort_values("cell", key=lambda s: s.map(order))
        save_table(table, RESULTS, f"python -m benchmarks.ordered --reps {asked.reps}", (made_by,))
        print(made.to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
