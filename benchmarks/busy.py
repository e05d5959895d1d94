"""Linear algebra in one thread against as many as the library takes: whole fits while other processes are busy.

``python -m benchmarks.busy [--others K] [--repeats R]``

A fit of ``charges ~ …`` with all ten predictors of ``privreg data us-insurance`` and one of ten numeric columns, each
in a process of its own, warm, beside K processes that do nothing but count. Without the limit linear algebra takes the
threads that its library takes by itself. Stored, one line a fit and a number of busy processes: the median seconds of
both, and how many times as long it takes without the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.store import save_table

RESULTS = Path(__file__).with_name("results")
FIT = """
import contextlib, json, sys, time, warnings
import numpy as np, pandas as pd
import privreg as pr
from privreg.cli.verbs import DATA_SETS
from privreg.options import running
warnings.simplefilter("ignore")
what, limited, repeats = sys.argv[1], sys.argv[2] == "limited", int(sys.argv[3])
if not limited:
    class Free:
        def limit(self, **_): return contextlib.nullcontext()
    running._controller = lambda: Free()
if what == "insurance":
    formula, data = DATA_SETS["us-insurance"][1], pr.datasets.us_insurance(300_000)
    model = pr.PrivateOnlineRegression.from_formula(formula, data, mu=1)
else:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((1_000_000, 10)), columns=list("abcdefghij"))
    rows["y"] = rows.sum(axis=1) + rng.standard_normal(len(rows))
    bounds = {**{c: (-4, 4) for c in "abcdefghij"}, "y": (-15, 15)}
    model = pr.PrivateOnlineRegression.from_formula("y ~ " + " + ".join("abcdefghij"), rows, mu=1, bounds=bounds)
model.fit(progress=False)
out = []
for _ in range(repeats):
    began = time.perf_counter()
    model.fit(progress=False)
    out.append(time.perf_counter() - began)
print(json.dumps(out))
"""
BUSY = "\nwhile True: pass\n"


def seconds(what: str, limited: bool, repeats: int) -> float:
    """Median seconds of a fit."""
    env = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    arguments = [sys.executable, "-c", FIT, what, "limited" if limited else "free", str(repeats)]
    done = subprocess.run(arguments, env=env, check=True, capture_output=True, text=True)
    return float(pd.Series(json.loads(done.stdout)).median())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.busy", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--others", type=int, nargs="*", default=[0, 2, 4], help="busy processes; 0 2 4 by default")
    parser.add_argument("--repeats", type=int, default=5, help="5 by default")
    a = parser.parse_args(arguments)
    rows = []
    for others in a.others:
        busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(others)]
        try:
            for what in ("insurance", "ten numbers"):
                one, free = (seconds(what, limited, a.repeats) for limited in (True, False))
                rows.append({"busy": others, "fit": what, "one_thread": one, "free": free, "times": free / one})
                print(rows[-1], flush=True)
        finally:
            for process in busy:
                process.kill()
                process.wait()
    given = f"--others {' '.join(map(str, a.others))} --repeats {a.repeats}"
    save_table(pd.DataFrame(rows).round(3), RESULTS / "busy.csv", f"python -m benchmarks.busy {given}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
