"""What intervals cost: one pass with and without them, in one run.

``python -m benchmarks.inference_cost [--rows N] [--rounds R]``

fit() on arrays in memory, N people (10⁷ by default), intercept and ten normal covariates, μ = 1, one thread, default
tuning, the interval table included: without inference, with each free method alone, and with all of them. Every round
runs all of them after each other; printed are medians, and ratios to the same round's pass without inference.

State: numbers kept, and of those what blocks keep, after 10⁴ to 10⁷ people, for a stream of unknown length.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.intervals import model, people
from benchmarks.store import save_table

RESULTS = Path(__file__).parent / "results"
P = 10
FREE = (
    *("between_lanes", "random_scaling", "batch_means", "block_bootstrap", "block_bootstrap_t", "anytime", "plug_in"),
    "path_curvature",
)
WAYS: dict[str, tuple[str, ...] | None] = {"none": None, **{m: (m,) for m in FREE}, "all": FREE}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(arguments)
    command = " ".join(["python -m benchmarks.inference_cost", *(sys.argv[1:] if arguments is None else arguments)])
    y, x = people(args.rows, P, np.random.Generator(np.random.SFC64(1)))
    m = model(P, 1, y, x)
    model(P, 1, y[:50_000], x[:50_000]).fit(inference=FREE, progress=False, threads=1)  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(args.rounds):
        for name, methods in WAYS.items():
            begun = time.perf_counter()
            res = m.fit(inference=methods, lanes=16, progress=False, threads=1)
            for method in methods or ():
                res.conf_int(method=method)
            seconds[name].append(time.perf_counter() - begun)
    table = pd.DataFrame(seconds).T
    ratio = table / table.loc["none"]
    out = pd.DataFrame({"seconds": table.median(axis=1), "ratio": ratio.median(axis=1)})
    out["low"], out["high"], out["rows"], out["rounds"] = ratio.min(axis=1), ratio.max(axis=1), args.rows, args.rounds
    save_table(out.round(3).rename_axis("inference").reset_index(), RESULTS / "inference_cost.csv", command)
    print(out.round(3).to_string())
    stream, at, sizes = m.start(inference=("batch_means", "block_bootstrap", "anytime")), 0, []
    for n in (10**4, 10**5, 10**6, 10**7):
        if n <= args.rows:
            stream.update((y[at:n], x[at:n]))
            at = n
            arrays = stream._run.to_arrays()
            blocks = sum(a.size for k, a in arrays.items() if k.startswith("blocks_"))
            sizes.append({"people": n, "numbers": sum(np.asarray(a).size for a in arrays.values()), "blocks": blocks})
            sizes[-1]["blocks / (p + 1) / n^(1/4)"] = blocks / (P + 1) / n**0.25
    found = pd.DataFrame(sizes)
    save_table(found.round(3), RESULTS / "inference_state.csv", command)
    print(found.round(3).to_string())


if __name__ == "__main__":
    main()
