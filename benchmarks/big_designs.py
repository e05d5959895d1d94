"""Designs of up to 2,000 coefficients: whole fits beside the noise that they can't do without, in one run.

``python -m benchmarks.big_designs [--rows N] [--rounds R] [--columns P …]``

Every case is a process of its own, one thread, μ = 3, and reports the median over rounds of seconds of processor time
measured in turns, and ratios within a round:

dense
    An array model: intercept, p − 1 columns uniform on [−1, 1], normal errors. N people, fewer where p is large.
noise
    Seconds in which as many normals as the scores take are drawn from the same cipher stream, and nothing else.
model
    Seconds to describe the model: probe rows, rank, units; once.
fit, times_noise
    fit() with the default tuning, of up to 100 coefficients, or the published one, and that over the noise.
kernel_times_noise
    For the published tuning, the chain's `advance` over rows in internal units that are in memory, over the noise.
encode_times_noise
    Rows to internal units, over the noise.
memory
    Rise of the process's peak, MB, over one that holds the data.
covered, length, rmse
    Share of 95% intervals that hold their coefficient, their mean length and the root mean square error of the
    estimates; `noted` says whether a note takes the intervals back.

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

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import save_table
from privreg.collector.inference.methods import WIDE
from privreg.privacy.noise import NoiseStream

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
COLUMNS = (10, 50, 100, 200, 500, 1000, 2000)
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


def case(design: str, p: int, tuning: str, n: int, rounds: int) -> dict:
    _, small, _ = _dense(5, 3000)
    y, x = small
    bounds = {f"x{j}": (-1, 1) for j in range(1, 5)} | {"y": (-10, 10)}
    names = ["const", *(f"x{j}" for j in range(1, 5))]
    pr.PrivateOnlineRegression(y, x, exog_names=names, bounds=bounds, mu=MU).fit(tuning=tuning, progress=False)
    make, data, beta = _dense(p, n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    m = make(n)
    described = time.process_time() - begun
    found: dict[str, list[float]] = {"noise": [], "fit": [], "kernel": [], "encode": []}
    how = {"tuning": tuning, "seed": 1, "progress": False, "threads": 1}
    res = None
    for _ in range(rounds):
        found["noise"].append(_seconds(_draw, p, n))
        begun = time.process_time()
        res = m.fit(**how)
        ci = res.conf_int()
        found["fit"].append(time.process_time() - begun)
        if len(found["fit"]) == 1:
            memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        some = max(min(n, (1 << 22) // p), 1)
        stream = m.start(tuning=tuning, seed=1)
        batch = (data[0][:some], data[1][:some])
        rows = stream._encoder.encode(batch)
        found["encode"].append(_seconds(stream._encoder.encode, batch) * n / some)
        if tuning == "published":
            found["kernel"].append(_seconds(stream._run.advance, rows.y, rows.x) * n / some)
    assert res is not None
    held = (ci.iloc[:, 0].to_numpy() <= beta) & (beta <= ci.iloc[:, 1].to_numpy())

    def ratio(name: str) -> float:
        if not found[name]:
            return float("nan")
        return float(np.median(np.array(found[name]) / np.array(found["noise"])))

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
        "memory": round(memory),
        "covered": round(float(held.mean()), 3),
        "length": float(f"{np.mean(ci.iloc[:, 1] - ci.iloc[:, 0]):.4g}"),
        "rmse": float(f"{np.sqrt(np.mean((res.params.to_numpy() - beta) ** 2)):.4g}"),
        "noted": bool(res.privacy.doubts),
    }


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
        print(json.dumps(case(design, int(p), tuning, int(n), args.rounds)))
        return
    command = " ".join(["python -m benchmarks.big_designs", *(sys.argv[1:] if arguments is None else arguments)])
    cases = [("dense", p, tuning) for p in args.columns for tuning in ("efficient", "published")]
    cases = [(design, p, tuning) for design, p, tuning in cases if p <= WIDE or tuning == "published"]
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
