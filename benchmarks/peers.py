"""A curator's fits beside other mechanisms that release a regression of the same rows at the same budget.

``python -m benchmarks.peers [--designs NAME …] [--n N …] [--runs R] [--peer PYTHON] [--keep FOLDER] [--quick]``

All have the same rows, the same public bounds, to which they clip, and μ = 1 for a person who is replaced, n being
public. Covariates and response are in units of their bounds, from −1 to 1, for all of them.

curator
    ``trust="central"``, default options: Huber, or logit; with ``family="squared"`` where it says so.
sufficient statistics
    Gaussian mechanism on X'X and X'y in one release, whose distance is √2 (‖x‖² + y²) at the corners of the bounds, so
    that no budget is split. `solved` as they come; `floored` with eigenvalues of X'X of at least σ √(2d), the edge of
    the noise's spectrum.
AdaSSP
    Wang (2018), Algorithm 2, with the Gaussian mechanism and a third of μ² for each of the least eigenvalue, X'X and
    X'y, and its constants: log(6/δ) at δ = 10⁻⁶, ρ = 0.05. `published` has the noise as printed, at δ = 10⁻⁶ and the ε
    of μ = 1, for a person who is added or removed, which is a weaker guarantee.
diffprivlib
    LinearRegression and LogisticRegression (C = 1) of diffprivlib 0.6.6, which keep pure ε. `as strong`: with the
    largest ε that implies μ = 1, log Φ(½)/Φ(−½) = 0.81. `at delta`: with the ε that μ = 1 has at δ = 10⁻⁶, 4.9, which
    is the same at that δ alone and a much weaker guarantee elsewhere. Needs scikit-learn below 1.8, so it has an
    environment of its own: ``python -m venv peer && peer/bin/pip install "scikit-learn<1.8" diffprivlib==0.6.6``;
    --peer peer/bin/python. Without it these lines are left out.
without privacy
    Least squares or logit of the same rows.

One line for each design, n, method and target, the coefficients of statsmodels' RLM (`huber`), OLS (`squared`) or Logit
of all records of the data set:

median, worst
    Root mean squared error over the standard error (HC0) of the target's method for n records, over coefficients; of
    all fits, marked or not.
intervals, cover, low, high
    Whether there are 95% intervals, how many hold the target, in %, over coefficients, and the worst coefficient's
    exact 99% limits (Clopper and Pearson), of fits that don't mark it.
marked
    Share of coefficients of fits that are marked, in %.

Table peers.csv. With --keep FOLDER finished cells are kept there, and a study that was killed goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta, norm

import privreg as pr
from benchmarks.designs import DESIGNS
from benchmarks.real_designs import REAL, population
from benchmarks.store import Runs, save_table
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.plan import Plan
from privreg.fits.aggregate import doubts, plan_of
from privreg.privacy.conversions import gdp_epsilon
from privreg.simulation.aggregate import CuratorRun, least
from privreg.simulation.streaming.encoding import Encoder
from privreg.tables.diagnostics import reliable
from tests.reference import two_collectors as reference

KNOWN: Final = {"normal": DESIGNS["normal"]} | REAL
NAMES: Final = ["normal", "two years", "wages, men", "wages, looks", "worked", "in work"]
SIZES: Final = [1_000, 2_000, 5_000, 20_000]
RESULTS: Final = Path(__file__).parent / "results" / "peers.csv"
MU, DELTA, RHO = 1.0, 1e-6, 0.05
MADE_ROWS, CHUNK, Z = 400_000, 25, 1.959963984540054
PEER: Final = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
warnings.simplefilter("ignore")
job = json.load(sys.stdin)
rows, out = np.load(job["path"]), []
for k, (x, y) in enumerate(zip(rows["x"], rows["y"])):
    how = {"epsilon": job["epsilon"], "random_state": job["seed"] + k}
    if job["logit"]:
        fit = LogisticRegression(data_norm=job["norm"], **how).fit(x, y)
        out.append([float(fit.intercept_[0]), *fit.coef_[0].tolist()])
    else:
        fit = LinearRegression(bounds_X=(job["low"], job["high"]), bounds_y=(-1.0, 1.0), **how).fit(x, y)
        out.append([float(fit.intercept_), *fit.coef_.tolist()])
print(json.dumps(out))
"""

EPSILONS: Final = {
    "diffprivlib, as strong": float(norm.logcdf(0.5 * MU) - norm.logcdf(-0.5 * MU)),
    "diffprivlib, at delta": gdp_epsilon(MU, DELTA),
}

Pair = tuple[np.ndarray, np.ndarray]
"""Covariates with their column of ones, shape (n, d), and responses, shape (n,)."""


def logit(name: str) -> bool:
    """Whether a design's response is binary."""
    return KNOWN[name].family == "logistic"


@cache
def prepared(name: str, family: str, n: int) -> tuple[Plan, Encoder]:
    """A design's public side, of a family."""
    design = KNOWN[name]
    rows = pd.DataFrame(design.make(np.random.default_rng(0), max(n, 2_000)))
    model: Any = pr.PrivateOnlineRegression.from_formula(
        design.formula, rows, family=family, bounds=design.bounds, levels=design.levels, mu=MU, trust="central"
    )
    plan, order = plan_of(model._spec, n)
    return plan, Encoder(model._spec, order, None, by_column=True)


def own(name: str) -> str:
    """The design's family, which the curator has by default."""
    return str(KNOWN[name].family)


class Truth(NamedTuple):
    """Coefficients of all records, and their standard errors of one record."""

    root: np.ndarray
    errors: np.ndarray


@cache
def truth(name: str, family: str) -> Truth:
    """What statsmodels would estimate of a design's population, by a family."""
    plan, encoder = prepared(name, family, 2_000)
    design: Any = KNOWN[name]
    rows = design.make(np.random.default_rng(1), MADE_ROWS) if name in DESIGNS else population(*design.make.args)
    encoded = encoder.encode(pd.DataFrame(rows))
    y, x = encoded.y, np.ascontiguousarray(encoded.x)
    if family == "squared":
        return Truth(*least_squares(x, y))
    start = np.zeros(plan.size) if logit(name) else np.linalg.lstsq(x, y, rcond=None)[0]
    root = reference.root(plan, y, x, np.ones(len(y)), start)
    return Truth(root, reference.errors(plan, y, x, root))


def least_squares(x: np.ndarray, y: np.ndarray) -> Pair:
    """OLS, and its HC0 standard errors of one record."""
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    bread, score = np.linalg.inv(x.T @ x / len(y)), x * (y - x @ theta)[:, None]
    return theta, np.sqrt(np.diag(bread @ (score.T @ score / len(y)) @ bread))


def drawn(name: str, n: int, run: int) -> tuple[Any, np.random.Generator]:
    """Rows of a run, which are the same for every method, and what its noise is drawn from."""
    rng = np.random.default_rng([run, n, zlib.crc32(name.encode())])
    _, encoder = prepared(name, own(name), n)
    return encoder.encode(pd.DataFrame(KNOWN[name].make(rng, n))), rng


# --- mechanisms: coefficients of clipped rows ----------------------------------------------------------


def symmetric(rng: np.random.Generator, d: int) -> np.ndarray:
    """A symmetric matrix of standard normals."""
    upper = np.triu(rng.standard_normal((d, d)))
    return upper + np.triu(upper, 1).T


def square_bound(plan: Plan) -> float:
    """Largest squared norm of a row within the bounds."""
    return float(np.maximum(plan.lows**2, plan.highs**2).sum())


def noised_moments(plan: Plan, rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> tuple[Pair, float]:
    """X'X and X'y in one release, and its noise sd.

    Stacked with √2 off the diagonal, uu' of u = (x, y) is √2 (‖x‖² + 1) from another; so X'y counts twice, squared.
    """
    sd = np.sqrt(2.0) * (square_bound(plan) + 1.0) / MU
    d = x.shape[1]
    noise = symmetric(rng, d) * np.where(np.eye(d) > 0.0, 1.0, np.sqrt(0.5))
    return (x.T @ x + sd * noise, x.T @ y + sd * np.sqrt(0.5) * rng.standard_normal(d)), float(sd)


def solved(plan: Plan, rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Noised sufficient statistics as they come."""
    (square, cross), _ = noised_moments(plan, rng, x, y)
    return np.linalg.solve(square, cross)


def floored(plan: Plan, rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Noised sufficient statistics, with a floor for eigenvalues at the edge of those of the noise."""
    (square, cross), sd = noised_moments(plan, rng, x, y)
    values, vectors = np.linalg.eigh(square)
    return vectors @ (vectors.T @ cross / np.maximum(values, sd * np.sqrt(2.0 * x.shape[1])))


def adassp(plan: Plan, rng: np.random.Generator, x: np.ndarray, y: np.ndarray, published: bool = False) -> np.ndarray:
    """Wang (2018), Algorithm 2: ridge regression of noised moments, the penalty by the noised least eigenvalue."""
    d, most = x.shape[1], square_bound(plan)
    log = np.log(6.0 / DELTA)
    if published:
        value = matrix = most * np.sqrt(log) / (gdp_epsilon(MU, DELTA) / 3.0)
        vector = np.sqrt(most) * np.sqrt(log) / (gdp_epsilon(MU, DELTA) / 3.0)
    else:  # distances of a person who is replaced
        value, matrix, vector = np.sqrt(3.0) / MU * np.array([most, np.sqrt(2.0) * most, 2.0 * np.sqrt(most)])
    square, cross = x.T @ x, x.T @ y
    smallest = np.linalg.eigvalsh(square)[0] + value * (rng.standard_normal() - np.sqrt(log))
    penalty = max(0.0, np.sqrt(d * np.log(2.0 * d**2 / RHO)) * matrix - max(smallest, 0.0))
    noised = square + matrix * symmetric(rng, d) + penalty * np.eye(d)
    return np.linalg.solve(noised, cross + vector * rng.standard_normal(d))


LINEAR: Final = {
    "sufficient statistics, solved": solved,
    "sufficient statistics, floored": floored,
    "AdaSSP": adassp,
    "AdaSSP, published": partial(adassp, published=True),
}


def clipped(plan: Plan, rows: Any) -> Pair:
    """Rows within the public bounds."""
    return np.clip(rows.x, plan.lows, plan.highs), np.clip(rows.y, plan.y_low, plan.y_high)


def by_statistics(method: str, name: str, n: int, runs: range) -> list[float]:
    """Estimates of runs by a mechanism of sufficient statistics."""
    plan, out = prepared(name, own(name), n)[0], list[float]()
    for run in runs:
        rows, rng = drawn(name, n, run)
        out += [*LINEAR[method](plan, rng, *clipped(plan, rows))]
    return out


def by_curator(family: str, name: str, n: int, runs: range) -> list[float]:
    """Estimates and standard errors of runs, and whether they are marked."""
    (plan, encoder), out = prepared(name, family, n), list[float]()
    for run in runs:
        rows, rng = drawn(name, n, run)
        played = CuratorRun(plan, rng.bytes(32))
        played.advance(rows.y, rows.x, rows.offset)
        played.close()
        found = estimate(played.plan, played.progress)
        assert found is not None
        cov = found.back @ found.cov @ found.back.T
        said = doubts(played.plan, played.progress, found, found.back, encoder._spec, encoder.order)
        marked = ~reliable(said, plan.size)
        out += [*(found.back @ found.theta), *np.sqrt(np.diag(cov)), *marked]
    return out


def without_privacy(name: str, n: int, runs: range) -> list[float]:
    """Estimates and HC0 standard errors of runs, none of them marked."""
    plan, out = prepared(name, own(name), n)[0], list[float]()
    for run in runs:
        x, y = clipped(plan, drawn(name, n, run)[0])
        if logit(name):
            theta = reference.root(plan, y, x, np.ones(n), np.zeros(plan.size))
            errors = reference.errors(plan, y, x, theta)
        else:
            theta, errors = least_squares(x, y)
        out += [*theta, *(errors / np.sqrt(n)), *np.zeros(plan.size)]
    return out


def by_peer(peer: str, epsilon: float, name: str, n: int, runs: range) -> list[float]:
    """Estimates of runs by diffprivlib, in its own environment, with an intercept that it adds itself."""
    plan = prepared(name, own(name), n)[0]
    pairs = [clipped(plan, drawn(name, n, run)[0]) for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.npz"
        np.savez(path, x=np.array([x[:, 1:] for x, _ in pairs]), y=np.array([y for _, y in pairs]))
        job = {"path": path, "logit": logit(name), "epsilon": epsilon, "seed": runs.start}
        job |= {"low": plan.lows[1:].tolist(), "high": plan.highs[1:].tolist()}
        job |= {"norm": float(np.sqrt(square_bound(plan) - 1.0))}
        got = subprocess.run([peer, "-c", PEER], input=json.dumps(job), capture_output=True, text=True, check=True)
    return [float(v) for one in json.loads(got.stdout) for v in one]


# --- the table -------------------------------------------------------------------------------------------


def line(name: str, n: int, method: str, target: str, numbers: np.ndarray, with_intervals: bool) -> dict[str, object]:
    """A line of the table, of numbers by run: estimates, and if there are intervals standard errors and marks."""
    true, d = truth(name, target), prepared(name, own(name), n)[0].size
    alone = true.errors / np.sqrt(n)
    table = numbers.reshape(-1, 3 * d if with_intervals else d)
    errors = (table[:, :d] - true.root) / alone
    ratio = np.sqrt(np.mean(errors**2, axis=0))
    out: dict[str, object] = {"design": name, "n": n, "d": d, "method": method, "target": target, "runs": len(table)}
    out |= {"median": np.median(ratio), "worst": ratio.max(), "intervals": "yes" if with_intervals else "no"}
    if with_intervals:
        kept = table[:, 2 * d :] == 0.0
        inside = kept & (np.abs(errors) < Z * table[:, d : 2 * d] / alone)
        out["marked"] = 100.0 * (1.0 - kept.mean())
        if kept.any():
            out["cover"] = 100.0 * inside.sum() / kept.sum()
            shares = inside.sum(axis=0) / np.maximum(kept.sum(axis=0), 1)
            worst = int(np.where(kept.any(axis=0), shares, 1.0).argmin())
            k, held = int(kept[:, worst].sum()), int(inside[:, worst].sum())
            out["low"] = 100.0 * beta.ppf(0.005, held, k - held + 1) if held else 0.0
            out["high"] = 100.0 * beta.ppf(0.995, held + 1, k - held) if held < k else 100.0
    return out


def methods(name: str, n: int, peer: str | None) -> dict[str, tuple[partial, list[str], bool]]:
    """Of each method how its runs are made, the targets it is held against, and whether it has intervals."""
    linear, out = not logit(name), dict[str, tuple[partial, list[str], bool]]()
    target = "squared" if linear else own(name)
    if n >= least(prepared(name, own(name), n)[0].size, MU):  # else it refuses
        out["curator"] = partial(by_curator, own(name)), list(dict.fromkeys([own(name), target])), True
        if linear:
            out["curator, squared"] = partial(by_curator, "squared"), [target], True
    if linear:
        out |= {one: (partial(by_statistics, one), [target], False) for one in LINEAR}
    if peer is not None:
        out |= {one: (partial(by_peer, peer, epsilon), [target], False) for one, epsilon in EPSILONS.items()}
    return out | {"without privacy": (partial(without_privacy), [target], True)}


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--designs", nargs="*", default=NAMES, choices=list(KNOWN), metavar="NAME")
    parser.add_argument("--n", nargs="*", type=int, default=SIZES)
    parser.add_argument("--runs", type=int, default=100, help="a cell")
    parser.add_argument("--peer", help="interpreter of an environment with diffprivlib")
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--quick", action="store_true", help="a look: 10 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    if args.peer is None:
        print("no --peer: diffprivlib is left out", file=sys.stderr)
    warnings.simplefilter("ignore")
    kept, table = Runs(None if args.quick else args.keep), list[dict[str, object]]()
    runs = range(10 if args.quick else args.runs)
    chunks = [runs[a : a + CHUNK] for a in range(0, len(runs), CHUNK)]
    for n in args.n:
        for name in args.designs:
            for method, (make, targets, with_intervals) in methods(name, n, args.peer).items():
                parts = [kept.get(f"{method}-{name}-{n}-{c.start}-{c.stop}", partial(make, name, n, c)) for c in chunks]
                numbers = np.concatenate(parts)
                table += [line(name, n, method, target, numbers, with_intervals) for target in targets]
            print(f"{name}, n = {n:,}: done", flush=True)
    found = pd.DataFrame(table).round(3)
    if not args.quick:
        what = "" if args.designs == NAMES else " --designs " + " ".join(f'"{name}"' for name in args.designs)
        what += "" if args.n == SIZES else f" --n {' '.join(map(str, args.n))}"
        what += f" --runs {args.runs}" + (" --peer PYTHON" if args.peer else "")
        save_table(found, RESULTS, f"python -m benchmarks.peers{what}")
    with pd.option_context("display.width", 200, "display.max_rows", None):
        print(found.to_string(index=False))


if __name__ == "__main__":
    main()
