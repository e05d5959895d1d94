"""Designs of up to 2,000 coefficients: whole fits beside the noise that they can't do without, in one run.

``python -m benchmarks.big_designs [--rows N] [--rounds R] [--columns P …]``

Every case is a process of its own, one thread, μ = 3, and reports the median over rounds of seconds of processor time
measured in turns, and ratios within a round:

dense
    An array model: intercept, p − 1 columns uniform on [−1, 1], normal errors. N people, fewer where p is large.
factor
    ``y ~ x + C(g)`` with p − 1 declared levels.
full
    The dense one with the whole matrix of random scaling, `inference="random_scaling_full"`.
noise
    Seconds in which as many normals as the scores take are drawn from the same cipher stream, and nothing else.
model
    Seconds to describe the model: probe rows, rank, units; once.
fit, times_noise
    fit() with the default tuning, or the published one, and that over the noise.
kernel_times_noise
    For the published tuning, the chain's `advance` over rows in internal units that are in memory, over the noise.
encode_times_noise
    Rows to internal units, over the noise.
without
    Of a factor, seconds of the same fit with its levels as columns of zeros and ones over those with one column of
    numbers; the estimates have the same bits. Of the whole matrix, seconds with it over those with variances alone.
memory
    Rise of the process's peak, MB, over one that holds the data.
covered, length, rmse
    Share of 95% intervals that hold their coefficient, their mean length and the root mean square error of the
    estimates; `noted` says whether a note takes the intervals back.

Lines of `joint`: share of joint tests of 5 restrictions that reject what is true at level 5%, by random scaling,
150,000 people a fit, noise small beside the people's own scatter; `tests` of them, over groups of five coefficients and
`rounds` times 4 fits, and the exact 99% limits of such a share, low and high.
Lines of `gram` compare ways to Σ s sᵀ over a block of updates: seconds of the loop that is used up to 100 coefficients
over those of BLAS, which is used beyond.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.stats import binom

import privreg as pr
from benchmarks.store import save_table
from privreg.collector.covariates.diagonal import WIDE
from privreg.formula.units import Units
from privreg.privacy.noise import NoiseStream
from privreg.protocol import codes
from privreg.published.chain import kernels
from privreg.published.chain.collector import fold

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
COLUMNS = (10, 50, 100, 200, 500, 1000, 2000)
LEVELS = (130, 500, 2000)
NUMBERS = 40_000_000
"""Numbers in the covariates of a case, at most."""
MU, KEY = 3.0, bytes(32)


def _people(p: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.Generator(np.random.SFC64(p))
    x, beta = np.ones((n, p)), np.zeros(p)
    for a in range(0, n, 1000):
        x[a : a + 1000, 1:] = rng.uniform(-1, 1, (len(x[a : a + 1000]), p - 1))
    beta[:5] = 1.0
    return x @ beta + rng.standard_normal(n), x, beta


def _dense(p: int, n: int) -> tuple[Callable[[int], pr.PrivateOnlineRegression], object, np.ndarray]:
    y, x, beta = _people(p, n)
    names = ["const", *(f"x{j}" for j in range(1, p))]
    bounds = {name: (-1, 1) for name in names[1:]} | {"y": (-10, 10)}
    return lambda m: pr.PrivateOnlineRegression(y[:m], x[:m], exog_names=names, bounds=bounds, mu=MU), (y, x), beta


def _factor(p: int, n: int) -> tuple[Callable[[int], pr.PrivateOnlineRegression], object, np.ndarray]:
    rng, levels = np.random.Generator(np.random.SFC64(p)), [f"g{k:04d}" for k in range(p - 1)]
    code, effect = rng.integers(0, p - 1, n), rng.standard_normal(p - 1)
    x = rng.uniform(-1, 1, n)
    data = pd.DataFrame({"y": 1 + x + effect[code] - effect[0], "x": x, "g": np.array(levels)[code]})
    data["y"] += 0.5 * rng.standard_normal(n)
    beta = np.concatenate([[1.0], effect[1:] - effect[0], [1.0]])
    how = {"bounds": {"y": (-10, 10), "x": (-1, 1)}, "levels": {"g": levels}, "mu": MU}
    made = pr.PrivateOnlineRegression.from_formula
    return lambda m: made("y ~ x + C(g)", data.iloc[:m], **how), data, beta


def _seconds(job: Callable[..., object], *given: object) -> float:
    begun = time.process_time()
    job(*given)
    return time.process_time() - begun


def _draw(width: int, rows: int) -> None:
    stream, done = NoiseStream(KEY, width), 0
    while done < rows:
        take = min(len(stream.peek()), rows - done)
        stream.advance(take)
        done += take


def _other(design: str, m: pr.PrivateOnlineRegression, first: pr.PrivateResults, **how: object) -> float:
    """Seconds of the fit that a case is compared with."""
    begun = time.process_time()
    if design == "full":
        m.fit(**how, inference="random_scaling").conf_int()
        return time.process_time() - begun
    with patch.object(Units, "keeps_levels", lambda units, place: False):
        res = m.fit(**how)
        res.conf_int()
    seconds = time.process_time() - begun
    if res.params.to_numpy().tobytes() != first.params.to_numpy().tobytes():
        raise RuntimeError("levels as one column of numbers gave other bits")
    return seconds


def case(design: str, p: int, tuning: str, n: int, rounds: int) -> dict:
    _, small, _ = _dense(5, 3000)
    y, x = small
    bounds = {f"x{j}": (-1, 1) for j in range(1, 5)} | {"y": (-10, 10)}
    names = ["const", *(f"x{j}" for j in range(1, 5))]
    pr.PrivateOnlineRegression(y, x, exog_names=names, bounds=bounds, mu=MU).fit(tuning=tuning, progress=False)
    make, data, beta = (_factor if design == "factor" else _dense)(p, n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    m = make(n)
    described = time.process_time() - begun
    found: dict[str, list[float]] = {"noise": [], "fit": [], "kernel": [], "encode": [], "other": []}
    how = {"tuning": tuning, "seed": 1, "progress": False, "threads": 1}
    inference = {}
    if design == "full":
        inference = {"inference": "random_scaling_full"}
    res = None
    for _ in range(rounds):
        found["noise"].append(_seconds(_draw, p, n))
        begun = time.process_time()
        res = m.fit(**how, **inference)
        ci = res.conf_int()
        found["fit"].append(time.process_time() - begun)
        if len(found["fit"]) == 1:
            memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        if design != "dense":
            found["other"].append(_other(design, m, res, **how))
        if design == "full":
            continue
        some = max(min(n, (1 << 22) // p), 1)
        stream = m.start(tuning=tuning, seed=1)
        batch = (data[0][:some], data[1][:some]) if design == "dense" else data.iloc[:some]
        rows = stream._encoder.encode(batch)
        found["encode"].append(_seconds(stream._encoder.encode, batch) * n / some)
        if tuning == "published":
            found["kernel"].append(_seconds(stream._run.advance, rows.endog, rows.exog) * n / some)
    assert res is not None
    beta_by = beta if design == "dense" else pd.Series(beta, [*res.params.index]).to_numpy()
    held = (ci.iloc[:, 0].to_numpy() <= beta_by) & (beta_by <= ci.iloc[:, 1].to_numpy())

    def ratio(name: str, over: str = "noise") -> float:
        if not found[name] or not found[over]:
            return float("nan")
        return float(np.median(np.array(found[name]) / np.array(found[over])))

    return {
        "design": design,
        "p": p,
        "tuning": tuning,
        "rows": n,
        "rounds": rounds,
        "model": round(described, 2),
        "noise": round(float(np.median(found["noise"])), 3),
        "fit": round(float(np.median(found["fit"])), 3),
        "times_noise": round(ratio("fit"), 2),
        "kernel_times_noise": round(ratio("kernel"), 2),
        "encode_times_noise": round(ratio("encode"), 2),
        "without": round(ratio("fit", "other") if design == "full" else ratio("other", "fit"), 2),
        "memory": round(memory),
        "covered": round(float(held.mean()), 3),
        "length": float(f"{np.mean(ci.iloc[:, 1] - ci.iloc[:, 0]):.4g}"),
        "rmse": float(f"{np.sqrt(np.mean((res.params.to_numpy() - beta_by) ** 2)):.4g}"),
        "noted": bool(res.privacy.doubts),
    }


def gram(p: int, rounds: int) -> dict:
    """The package's loop and BLAS over a block of updates of `p` numbers, in turns."""
    lines, out = np.random.Generator(np.random.SFC64(1)).standard_normal((p, codes.LINE)), np.zeros((p, p))
    kernels.add_gram(lines, codes.BLOCK, out)
    fold(lines[:, : codes.BLOCK], out)
    ratios = []
    for _ in range(max(rounds, 5)):
        own = _seconds(lambda: kernels.add_gram(lines, codes.BLOCK, out))
        ratios.append(own / _seconds(lambda: fold(lines[:, : codes.BLOCK], out)))
    return {"design": "gram", "p": p, "rounds": rounds, "times_blas": round(float(np.median(ratios)), 2)}


def joint(p: int, fits: int) -> dict:
    """How often joint tests reject true restrictions."""
    q, n, found = 5, 150_000, []
    for seed in range(fits):
        rng = np.random.Generator(np.random.SFC64(seed))
        x, beta = rng.uniform(-1, 1, (n, p)), np.zeros(p)
        x[:, 0], beta[:5] = 1.0, 1.0
        names = ["const", *(f"x{j}" for j in range(1, p))]
        bounds = {name: (-1, 1) for name in names[1:]} | {"y": (-10, 10)}
        y = x @ beta + rng.standard_normal(n)
        m = pr.PrivateOnlineRegression(y, x, exog_names=names, bounds=bounds, mu=1000.0)
        res = m.fit(inference="random_scaling_full", seed=seed, progress=False, threads=1)
        tested = [np.eye(p)[a : a + q] for a in range(1, p - q + 1, q)]
        found += [res.wald_test((rows, rows @ beta)).pvalue < 0.05 for rows in tested]
    low, high = binom.interval(0.99, len(found), 0.05)
    out = {"design": "joint", "p": p, "tuning": "efficient", "rows": n, "rounds": fits // 4, "tests": len(found)}
    share = [float(v) / len(found) for v in (sum(found), low, high)]
    return out | dict(zip(("rejected", "low", "high"), np.round(share, 4).tolist(), strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--columns", type=int, nargs="+", default=list(COLUMNS))
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are stored")
    parser.add_argument("--case", nargs=4, metavar=("DESIGN", "P", "TUNING", "ROWS"), help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.case:
        design, p, tuning, n = args.case
        if design == "joint":
            out = joint(int(p), 4 * args.rounds)
        else:
            out = gram(int(p), args.rounds) if design == "gram" else case(design, int(p), tuning, int(n), args.rounds)
        print(json.dumps(out))
        return
    command = " ".join(["python -m benchmarks.big_designs", *(sys.argv[1:] if arguments is None else arguments)])
    cases = [("dense", p, tuning) for p in args.columns for tuning in ("efficient", "published")]
    cases += [("factor", p + 1, "efficient") for p in LEVELS if p <= max(args.columns)]
    cases += [("full", p, tuning) for p in args.columns if p > WIDE for tuning in ("efficient", "published")]
    cases += [("joint", 151, "efficient")] if max(args.columns) > WIDE else []
    cases += [("gram", p, "published") for p in args.columns]
    lines = []
    for design, p, tuning in cases:
        n = max(min(args.rows, NUMBERS // p), 2 * p)
        given = ["--rounds", str(args.rounds), "--case", design, str(p), tuning, str(n)]
        told = subprocess.run(
            [sys.executable, "-m", "benchmarks.big_designs", *given],
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            check=True,
            capture_output=True,
            text=True,
        )
        lines.append(json.loads(told.stdout.splitlines()[-1]))
        print(lines[-1], flush=True)
        save_table(pd.DataFrame(lines), args.out / "big_designs.csv", command)


if __name__ == "__main__":
    main()
