"""What a factor's shares cost by its number of levels.

``python -m benchmarks.mean_levels [--n N] [--reps R]``

One line for each formula, budget and number of levels: the least processor time of R estimates, in seconds, and that
relative to 10 levels. A factor by itself takes one pass over the records, whatever the number of levels, and then sums
alone. Beside a number each person's bits are drawn, as products with the number's reports are wanted.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import save_table

RESULTS: Final = Path(__file__).parent / "results" / "mean_levels.csv"


def main() -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--reps", type=int, default=3)
    a = parser.parse_args()
    out = []
    for formula, (form, budget) in itertools.product(("C(g) ~ 1", "C(g) + x ~ 1"), (("mu", 1.0), ("epsilon", 1.0))):
        base = None
        for many in (10, 100, 1000):
            rng = np.random.Generator(np.random.SFC64(many))
            levels = [f"level {k}" for k in range(many)]
            code = (rng.random(a.n) ** 2 * many).astype(int)
            data = pd.DataFrame({"g": np.array(levels)[code], "x": rng.random(a.n)})
            public = {"levels": {"g": levels}, "bounds": {"x": (0.0, 1.0)}, form: budget}
            seconds = []
            for seed in range(a.reps + 1):  # the first also imports and compiles
                begun = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
                    pr.means.estimate(data, formula, seed=seed, progress=False, **public)
                seconds.append(time.process_time() - begun)
            least = min(seconds[1:])
            base = least if base is None else base
            out.append({"formula": formula, "budget": f"{form}={budget:g}", "levels": many, "n": a.n, "cpu_s": least})
            out[-1]["ratio"] = least / base
            print(out[-1], flush=True)
    save_table(pd.DataFrame(out).round(3), RESULTS, f"python -m benchmarks.mean_levels --n {a.n} --reps {a.reps}")


if __name__ == "__main__":
    main()
