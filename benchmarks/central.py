"""A curator's published descent: sensitivities that are never exceeded, rates, peers, coverage.

``python -m benchmarks.central [pairs|rates|peers|coverage ...] [--peer PYTHON] [--quick] [--again]``

pairs
    Neighbouring runs with the same order of records: one record replaced by adversarial rows, all losses, α < 1 and
    α = 1, free and at the edge of the ball. `ratio` is the largest realised distance, of last iterates and of
    averages, over Δ(K); it must not exceed 1.
rates
    Excess risk of hinge and absolute loss as n grows, d = 5, (1, 1e-5), both perturbations with default options but
    one lane: 1,000 steps of gradient perturbation, n/4 passes of output perturbation. `slope` is that of the log mean
    excess risk on log n, its standard error from resampling seeds; the theory's bound falls like n^(−1/2) to n^(−1).
peers
    Logistic regression, n = 100,000, 10 covariates, (1, 1e-5): accuracy and excess risk on a public test set of
    200,000, of this package (lanes 1 and 8), of its descent without noise, of maximum likelihood, and of diffprivlib,
    which keeps pure ε = 1; `accuracy_less_peer` is the mean difference on the same records, with its standard error.
    diffprivlib 0.6.6 needs scikit-learn below 1.8, so it has an environment of its own:
    ``python -m venv peer && peer/bin/pip install "scikit-learn<1.8" diffprivlib==0.6.6``; --peer peer/bin/python.
coverage
    Share of 95% between-lane intervals (8 lanes) that hold the true coefficient, with Clopper-Pearson's 99% limits, for
    families that the model fits exactly. `bias` is the mean error over the mean standard error, worst coefficient;
    `doubted` the share of fits whose summary says not to rely on some interval.
Tables central_*.csv. With --keep FOLDER finished runs are kept there, and a study that was killed goes on from them.
A stored table is left alone; --again replaces it. --quick runs little and stores nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import beta

import privreg as pr
from benchmarks.store import Runs, save_table
from privreg.central import Absolute, CentralResults, QHinge, QNorm, Regression
from privreg.errors import PrivregWarning
from privreg.published.descent.kernels import walk
from privreg.published.descent.losses import Loss, resolve_loss
from privreg.published.descent.theory import constants, sensitivity
from tests.published.descent import twins

FAMILIES = {
    "hinge": pr.Hinge(),
    "absolute": Absolute(),
    "quantile 0.9": pr.Quantile(0.9),
    "q-hinge 1.2": QHinge(1.2),
    "q-hinge 1.5": QHinge(1.5),
    "q-hinge 2": QHinge(2.0),
    "q-norm 1.2": QNorm(1.2),
    "q-norm 1.5": QNorm(1.5),
    "q-norm 2": QNorm(2.0),
    "huber": pr.Huber(1.0, 0.3),
    "logistic": pr.Logistic(),
    "smoothed hinge": pr.SmoothedHinge(0.5),
}


# --- pairs -----------------------------------------------------------------------------------------------


def adversarial_pair(loss: Loss, binary: bool, rng: np.random.Generator) -> float:
    """Realised distance over Δ(K) of one pair of neighbouring runs."""
    n, p = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    reach = float(rng.choice([0.5, 1.0, 2.0]))
    x = rng.standard_normal((n, p))
    if rng.uniform() < 0.5:  # one direction: iterates hover about the kink, in step or out of step
        x = np.tile(x[:1], (n, 1)) * rng.choice([-1.0, 1.0], (n, 1))
    x *= reach / np.linalg.norm(x, axis=1, keepdims=True)
    y = rng.choice([0.0, 1.0], n) if binary else rng.choice([-1.0, 0.0, 0.3, 1.0], n)
    steps = int(rng.choice([1, 5, 30, 200]))
    grows = math.isinf(loss.slope)
    radius = float(rng.choice([0.05, 0.3, 2.0]))
    ball = radius if grows or rng.uniform() < 0.6 else None
    holder = loss.holder * reach ** (1.0 + loss.alpha)
    top = 2.0 / holder if loss.alpha == 1.0 else 1.0
    step = top * float(rng.choice([1.0, 0.5, 0.1, 0.01]))
    if grows and rng.uniform() < 0.3:
        ball, step = None, min(step, 1.0 / holder) if loss.alpha == 1.0 else step
    c = constants(loss, reach, ball, step, steps)
    order = rng.integers(0, n, steps)
    times = int((order == 0).sum())
    other_x, other_y = x.copy(), y.copy()
    other_x[0] = -x[0] if rng.uniform() < 0.3 else x[0]
    other_y[0] = 1.0 - y[0] if binary else -math.copysign(1.0, y[0])
    worst = 0.0
    for wait in (0, steps // 2, steps - 1):
        out = []
        for rows, seen in ((x, y), (other_x, other_y)):
            w, total = np.zeros(p), np.zeros(p)
            walk(rows, seen, order, (loss.code, loss.a, c.slope), step, ball or 0.0, w, total, wait)
            out.append(total / (steps - wait))
        worst = max(worst, float(np.linalg.norm(out[0] - out[1])))
    bound = sensitivity(times, c, step, steps)
    if bound == 0.0:
        return 0.0 if worst == 0.0 else math.inf
    return worst / bound


def pairs(quick: bool, _peer: str | None, _kept: Runs) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    each = 60 if quick else 1000
    rows = []
    for name, family in FAMILIES.items():
        loss = resolve_loss(family)
        ratios = np.array([adversarial_pair(loss, family.binary, rng) for _ in range(each)])
        over = int((ratios > 1.0 + 1e-9).sum())
        rows.append({"loss": name, "alpha": loss.alpha, "pairs": each, "exceeded": over, "ratio": ratios.max()})
    return pd.DataFrame(rows)


# --- rates -----------------------------------------------------------------------------------------------

D = 5
TRUE = np.array([0.2, 1.0, -0.8, 0.5, 0.0])


def people(kind: str, n: int, rng: np.random.Generator, d: int = D) -> tuple[np.ndarray, np.ndarray]:
    """Constant and d − 1 covariates, uniform on [−1, 1]; a 0/1 response, or one with Laplace errors, or normal ones."""
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, d - 1))])
    truth = np.resize(TRUE, d)
    eta = x @ truth
    if kind in {"hinge", "logistic"}:
        return x, (rng.uniform(size=n) < 1 / (1 + np.exp(-2.0 * eta))).astype(float)
    errors = rng.laplace(0, 0.3, n) if kind == "absolute" else rng.normal(0, 0.4, n)
    return x, np.clip(eta + errors, -4, 4)


def model(kind: str, x: np.ndarray, y: np.ndarray, **budget: float | None) -> Regression:
    names = ["const", *(f"x{j}" for j in range(1, x.shape[1]))]
    bounds = {n: (-1, 1) for n in names[1:]} | ({} if kind in {"hinge", "logistic"} else {"y": (-4, 4)})
    family = {"normal": pr.Huber(1.345, 0.4)}.get(kind, kind)
    return Regression(y, x, family=family, bounds=bounds, exog_names=names, **budget)


def fit(model: Regression, **options: Any) -> CentralResults:
    """Results of the published descent of a model."""
    return model.fit(tuning="published", progress=False, **options)


def risk(kind: str, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Mean loss on a public test set, user's units."""
    loss = resolve_loss({"hinge": pr.Hinge(), "logistic": pr.Logistic()}.get(kind, Absolute()))
    scale = 2.0 if kind == "absolute" else 1.0  # |y − η|, not half of it
    return scale * float(twins.loss_value(loss.code, loss.a, x @ theta, y).mean())


def best(kind: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minimiser of the mean loss on a test set, the kink rounded off over 0.01."""
    soft = resolve_loss({"hinge": pr.SmoothedHinge(0.01), "logistic": pr.Logistic()}.get(kind, pr.Huber(1.0, 0.01)))

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = x @ theta
        slope = twins.slope(soft.code, soft.a, math.inf, eta, y)
        return float(twins.loss_value(soft.code, soft.a, eta, y).mean()), slope @ x / len(y)

    scale = 1.0 if kind != "absolute" else 100.0  # Huber's loss with a small threshold is small
    return minimize(lambda t: tuple(scale * v for v in value(t)), np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x


def rates(quick: bool, _peer: str | None, runs_kept: Runs) -> pd.DataFrame:
    seeds, sizes = (3, (500, 1000, 2000)) if quick else (20, (500, 1000, 2000, 4000, 8000))
    rows = []
    for kind in ("hinge", "absolute"):
        test = people(kind, 100_000 if quick else 200_000, np.random.default_rng(99))
        least = risk(kind, best(kind, *test), *test)
        for way in ("gradient", "output"):
            table = np.empty((seeds, len(sizes)))
            for j, n in enumerate(sizes):
                for s in range(seeds):

                    def run(n: int = n, s: int = s, way: str = way, kind: str = kind) -> list[float]:
                        fitted = model(kind, *people(kind, n, np.random.default_rng([s, n])), epsilon=1, delta=1e-5)
                        res = fit(fitted, lanes=1, seed=s, perturbation=way)
                        return res.params.tolist()

                    theta = np.array(runs_kept.get(f"rates-{kind}-{way}-{n}-{s}", run))
                    table[s, j] = risk(kind, theta, *test) - least
            slope = _slope(sizes, table.mean(axis=0))
            rng = np.random.default_rng(5)
            again = [_slope(sizes, table[rng.integers(0, seeds, seeds)].mean(axis=0)) for _ in range(400)]
            for j, n in enumerate(sizes):
                mean, se = table[:, j].mean(), table[:, j].std(ddof=1) / math.sqrt(seeds)
                more = {"slope": slope, "slope_se": float(np.std(again))}
                rows.append({"loss": kind, "perturbation": way, "n": n, "excess": mean, "excess_se": se, **more})
    return pd.DataFrame(rows)


def _slope(sizes: Sequence[int], excess: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(excess, 1e-9)), 1)[0])


# --- peers -----------------------------------------------------------------------------------------------

DIFFPRIVLIB = "diffprivlib, pure epsilon = 1"
PEER = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
out = []
for path, seed in json.load(sys.stdin):
    rows = np.load(path)
    x, y = rows["x"][:, 1:], rows["y"]
    fit = LogisticRegression(epsilon=1.0, data_norm=float(np.sqrt(x.shape[1])), random_state=seed).fit(x, y)
    out.append([*fit.intercept_.tolist(), *fit.coef_[0].tolist()])
print(json.dumps(out))
"""


def peers(quick: bool, peer: str | None, runs_kept: Runs) -> pd.DataFrame:
    seeds, n, d = (2, 20_000, 11) if quick else (40, 100_000, 11)
    test = people("logistic", 200_000, np.random.default_rng(99), d)
    least = risk("logistic", best("logistic", *test), *test)
    rows: list[dict[str, object]] = []

    def note(who: str, seed: int, theta: np.ndarray) -> None:
        right = float(((test[0] @ theta > 0) == (test[1] > 0.5)).mean())
        rows.append({"who": who, "seed": seed, "accuracy": right, "excess": risk("logistic", theta, *test) - least})

    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for s in range(seeds):
            x, y = people("logistic", n, np.random.default_rng([s, 8]), d)  # defaults were chosen on [s, 7]
            private = model("logistic", x, y, epsilon=1, delta=1e-5)
            plain = model("logistic", x, y, mu=None)
            for who, (fitted, options) in {
                "privreg, gradient, 1 lane": (private, {"lanes": 1}),
                "privreg, gradient, 8 lanes": (private, {}),
                "privreg, output, 1 lane": (private, {"lanes": 1, "perturbation": "output"}),
                "without noise, SGD, 1 pass": (plain, {"lanes": 1, "perturbation": "output"}),
            }.items():

                def run(fitted: Regression = fitted, options: dict = options, s: int = s) -> list[float]:
                    return fit(fitted, seed=s, **options).params.tolist()

                note(who, s, np.array(runs_kept.get(f"peers-{who}-{n}-{s}", run)))
            note("maximum likelihood", s, best("logistic", x, y))
            path = f"{folder}/{s}.npz"
            np.savez(path, x=x, y=y)
            jobs.append((path, s))
        if peer is None:
            print("no --peer: diffprivlib is left out", file=sys.stderr)
        else:
            got = subprocess.run([peer, "-c", PEER], input=json.dumps(jobs), capture_output=True, text=True, check=True)
            for s, theta in enumerate(json.loads(got.stdout)):
                note(DIFFPRIVLIB, s, np.array(theta))
    table = pd.DataFrame(rows)
    beside = table[table["who"] == DIFFPRIVLIB].set_index("seed")["accuracy"]
    table["less_peer"] = table["accuracy"] - table["seed"].map(beside)
    out = table.groupby("who", sort=False)[["accuracy", "excess"]].agg(["mean", "min", "max"])
    out.columns = ["_".join(c) for c in out.columns]
    differences = table.groupby("who", sort=False)["less_peer"]
    out["accuracy_less_peer"], out["less_peer_se"] = differences.mean(), differences.std() / math.sqrt(seeds)
    return out.reset_index().assign(seeds=seeds, n=n)


# --- coverage --------------------------------------------------------------------------------------------


def coverage(quick: bool, _peer: str | None, runs_kept: Runs) -> pd.DataFrame:
    runs, cells = (10, [(4000, 1.0)]) if quick else (100, [(4000, 1.0), (20_000, 1.0), (20_000, 8.0), (100_000, 1.0)])
    rows = []
    for kind in ("logistic", "normal", "absolute"):
        truth = TRUE * (2.0 if kind == "logistic" else 1.0)
        for way in ("gradient", "output") if kind != "absolute" else ("gradient",):  # n/4 passes a lane take long
            for n, epsilon in cells if kind != "absolute" else cells[:1]:
                some = runs if n < 100_000 else max(3 * runs // 10, 5)
                inside, errors, ses, doubted = np.zeros(D), [], [], []
                for s in range(some):

                    def run(
                        kind: str = kind, way: str = way, n: int = n, epsilon: float = epsilon, s: int = s
                    ) -> list[float]:
                        x, y = people(kind, n, np.random.default_rng([s, n, 3]))
                        fitted = model(kind, x, y, epsilon=epsilon, delta=1e-6)
                        res = fit(fitted, seed=s, perturbation=way, lanes=8)
                        doubt = float(bool(res.privacy.doubts))
                        return [*res.params, *res.bse, *res.conf_int().to_numpy().ravel(), doubt]

                    got = np.array(runs_kept.get(f"coverage-{kind}-{way}-{n}-{epsilon:g}-{s}", run))
                    params, se, ci = got[:D], got[D : 2 * D], got[2 * D : 4 * D].reshape(D, 2)
                    doubted.append(got[-1])
                    inside += (ci[:, 0] <= truth) & (truth <= ci[:, 1])
                    errors.append(params - truth)
                    ses.append(se)
                bias = np.mean(errors, axis=0) / np.mean(ses, axis=0)
                j = int(np.argmin(inside))
                k = int(inside[j])
                rows.append(
                    {
                        "family": kind,
                        "perturbation": way,
                        "n": n,
                        "epsilon": epsilon,
                        "runs": some,
                        "mean_coverage": inside.mean() / some,
                        "worst_coverage": k / some,
                        "worst_low": beta.ppf(0.005, k, some - k + 1) if k else 0.0,
                        "worst_high": beta.ppf(0.995, k + 1, some - k) if k < some else 1.0,
                        "bias": bias[np.argmax(np.abs(bias))],
                        "mean_se": float(np.mean(ses)),
                        "doubted": float(np.mean(doubted)),
                    }
                )
    return pd.DataFrame(rows)


STUDIES = {
    "pairs": pairs,
    "rates": rates,
    "peers": peers,
    "coverage": coverage,
}


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.central", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; all by default")
    parser.add_argument("--peer", help="interpreter of an environment with diffprivlib")
    parser.add_argument("--keep", type=Path, help="folder of finished runs")
    parser.add_argument("--quick", action="store_true", help="a look: little is run, nothing stored")
    parser.add_argument("--again", action="store_true", help="run a stored table again and replace it")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where results are stored")
    args = parser.parse_args(arguments)
    wrong = [name for name in args.studies if name not in STUDIES]
    if wrong:
        parser.error(f"no study {wrong[0]!r}; choose of {', '.join(STUDIES)}")
    warnings.simplefilter("ignore", PrivregWarning)  # δ = 1e-5 at n = 100,000 is what peers are compared at
    for name in args.studies or STUDIES:
        path = args.out / f"central_{name}.csv"
        if path.exists() and not (args.again or args.quick):
            print(f"{path.name} is stored; --again replaces it", file=sys.stderr)
            continue
        table = STUDIES[name](args.quick, args.peer, Runs(None if args.quick else args.keep))
        if not args.quick:
            shown = f"python -m benchmarks.central {name}" + (" --peer PYTHON" if name == "peers" and args.peer else "")
            save_table(table.round(6), path, shown)
        with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 200):
            print(table.to_string(index=False))


if __name__ == "__main__":
    main()
