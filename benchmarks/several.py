"""Several fits together: how often intervals of pooled and of shrunken coefficients hold the true ones.

``python -m benchmarks.several [--runs R]``

One line for each number of fits, standard deviation τ of true coefficients between them, and whether fits are as
precise (1) or differ (standard errors of √0.2, 1 and √5 at random). Shares in %, with 99% limits (Clopper and Pearson):

reml, dl
    Intervals of the mean coefficient by `pr.meta_analysis` and its method.
normal
    By test="normal", which is too short with few fits.
common
    Without random effects, right at τ = 0 only.
shrunk
    Intervals of each fit's coefficient by `pr.shrink`, of all fits; limits take those of one study for independent.

Standard errors are known, as those of private fits nearly are, since their noise is.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from scipy.stats import beta

from benchmarks.store import save_table
from privreg.results.several.meta import pooled
from privreg.results.several.shrinkage import Towards, posterior

RESULTS: Final = Path(__file__).parent / "results" / "several.csv"
WAYS: Final = {
    "reml": (True, "reml", "hartung_knapp"), "dl": (True, "dl", "hartung_knapp"),
    "normal": (True, "reml", "normal"), "common": (False, "reml", "normal"),
}  # fmt: skip


def limits(held: int, of: int) -> tuple[float, float, float]:
    """Share in %, and its exact 99% limits."""
    low = beta.ppf(0.005, held, of - held + 1) if held else 0.0
    high = beta.ppf(0.995, held + 1, of - held) if held < of else 1.0
    return tuple(round(100.0 * float(v), 1) for v in (held / of, low, high))


def cell(k: int, tau: float, even: bool, runs: int) -> dict[str, object]:
    """One line."""
    rng = np.random.default_rng([k, round(10 * tau), even])
    held, each = dict.fromkeys(WAYS, 0), 0
    for _ in range(runs):
        v = np.ones(k) if even else rng.choice([0.2, 1.0, 5.0], size=k)
        true = tau * rng.standard_normal(k)
        y = true + np.sqrt(v) * rng.standard_normal(k)
        for name, how in WAYS.items():
            one = pooled("x", y, v, *how)
            held[name] += abs(one.estimate) < one.critical(0.05) * one.error
        below = Towards("x", *posterior(y, v)).below(true)  # limits are quantiles of this law
        each += int(((below > 0.025) & (below < 0.975)).sum())
    out: dict[str, object] = {"fits": k, "tau": tau, "even": int(even), "runs": runs}
    for name, count in (*((n, limits(c, runs)) for n, c in held.items()), ("shrunk", limits(each, runs * k))):
        out |= dict(zip((name, f"{name}_low", f"{name}_high"), count, strict=True))
    return out


def meta(runs: int) -> None:
    """Intervals of pooled and of shrunken coefficients."""
    lines = []
    for k, tau, even in itertools.product((3, 5, 10, 20), (0.0, 0.5, 1.0, 2.0), (True, False)):
        lines.append(cell(k, tau, even, runs))
        print(lines[-1], flush=True)
    save_table(pd.DataFrame(lines), RESULTS, f"python -m benchmarks.several meta --runs {runs}")


PARTS: Final = {"meta": meta}


def main() -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all by default")
    parser.add_argument("--runs", type=int, default=1000)
    a = parser.parse_args()
    for part in a.parts or PARTS:
        PARTS[part](a.runs)


if __name__ == "__main__":
    main()
