"""Survival curves by group: how often intervals and bands hold the true curves, and the log-rank test rejects.

``python -m benchmarks.survival [--runs R] [--cells NAME …] [--keep FOLDER]``

Two groups of people whose hazards are those of a Weibull distribution, or of others ("mixture": three in ten have a
mean of a tenth of the others'; "lognormal"), with censoring that doesn't depend on them. Of the second group all times
are longer by the factor e^effect. Times are rounded up to the cut points for Kaplan and Meier's curves, or as they are
for life tables. One line for each trust model, number of people, μ, shape of the hazard, method, effect and kind of
distribution. Shares in %, with exact 99% limits (Clopper and Pearson):

points
    95% intervals of all points that aren't marked; limits take those of one run for one.
worst
    Of the point that is covered least.
bands
    Simultaneous 95% bands that hold the whole curve of a group.
areas
    95% intervals of restricted mean survival times, and of their difference.
rejected
    Log-rank tests at 5%.
marked
    Points that are marked.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

import privreg as pr
from benchmarks.several import limits
from benchmarks.store import Runs, save_table
from privreg.errors import ReliabilityWarning

RESULTS: Final = Path(__file__).parent / "results" / "survival.csv"
CUTS: Final = 6.0 * np.arange(1.0, 9.0)
GRID: Final = 6.0  # Times are rounded up to it
SCALE: Final = 60.0


class Cell(NamedTuple):
    """A line of the study."""

    trust: str
    n: int
    mu: float
    shape: float = 1.0  # Of the Weibull distribution; above 1 hazards rise
    life: bool = False
    effect: float = 0.0
    kind: str = "weibull"

    @property
    def name(self) -> str:
        """Name of its runs."""
        return "-".join(map(str, self))


CELLS: Final = [
    *(Cell("central", n, mu) for n in (1_000, 5_000, 20_000) for mu in (0.5, 1.0)),
    *(Cell("central", n, 1.0, shape, life=True) for n in (1_000, 5_000, 20_000) for shape in (0.6, 1.0, 2.0)),
    *(Cell("central", n, 1.0, life=True, kind=kind) for n in (5_000, 20_000) for kind in ("mixture", "lognormal")),
    Cell("central", 1_000, 1.0, effect=0.3),
    *(Cell("two_collectors", n, 1.0, life=n > 1_000) for n in (1_000, 5_000, 20_000)),
    Cell("two_collectors", 1_000, 0.5, 2.0, life=True),
    Cell("two_collectors", 1_000, 1.0, effect=0.3),
    Cell("local", 20_000, 2.0, life=True),
]


def curve(times: np.ndarray, group: int, cell: Cell) -> np.ndarray:
    """True survival."""
    times = times / (SCALE * np.exp(cell.effect * group))
    if cell.kind == "mixture":
        return 0.3 * np.exp(-10.0 * times) + 0.7 * np.exp(-times)
    if cell.kind == "lognormal":
        with np.errstate(divide="ignore"):
            return ndtr(-np.log(times))
    return np.exp(-(times**cell.shape))


def drawn(cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Times of a distribution, relative to its scale."""
    if cell.kind == "mixture":
        return rng.exponential(np.where(rng.random(cell.n) < 0.3, 0.1, 1.0))
    return np.exp(rng.standard_normal(cell.n)) if cell.kind == "lognormal" else rng.weibull(cell.shape, cell.n)


def people(cell: Cell, rng: np.random.Generator) -> pd.DataFrame:
    """Records."""
    group = rng.integers(0, 2, cell.n)
    time = SCALE * np.exp(cell.effect * group) * drawn(cell, rng)
    until = rng.uniform(20.0, 100.0, cell.n)
    if not cell.life:
        time, until = np.ceil(time / GRID) * GRID, np.ceil(until / GRID) * GRID
    held = {"time": np.minimum(time, until), "event": (time <= until).astype(int)}
    return pd.DataFrame(held | {"arm": np.where(group, "new", "old")})


def once(cell: Cell, seed: int) -> list[float]:
    """Hits of each point, NaN if it is marked, of bands and of areas, and the test's p-value."""
    rows = people(cell, np.random.default_rng([seed, cell.n, round(10 * cell.shape), round(10 * cell.effect)]))
    formula = f"Surv(time, event, {CUTS.tolist()}) ~ C(arm)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        found = pr.means.survival(
            rows, formula, mu=cell.mu, trust=cell.trust, levels={"arm": ["old", "new"]}, seed=seed, progress=False,
            method="life_table" if cell.life else "kaplan_meier",
        )  # fmt: skip
    table = found.frame()
    true = np.concatenate([curve(CUTS, g, cell) for g in (0, 1)])
    points = np.where(table["reliable"], (table["conf_low"] <= true) & (true <= table["conf_high"]), np.nan)
    bands = ((table["band_low"] <= true) & (true <= table["band_high"])).to_numpy().reshape(2, -1).all(axis=1)
    ends, area = np.array([0.0, *CUTS]), []
    for g in (0, 1):
        line = curve(ends, g, cell)
        if cell.life:
            fine = np.linspace(0.0, CUTS[-1], 60_001)
            area.append(float(np.trapezoid(curve(fine, g, cell), fine)))
        else:
            area.append(float(line[:-1] @ np.diff(ends)))
    means = found.rmst()
    target = np.array([*area, area[1] - area[0]])
    areas = (means["conf_low"] <= target) & (target <= means["conf_high"])
    return [*points, *bands, *areas, found.test().pvalue]


def line(cell: Cell, runs: int, kept: Runs) -> dict[str, Any]:
    """One line of the table."""
    found = np.array([kept.get(f"{cell.name}-{s}", lambda s=s: once(cell, s)) for s in range(runs)])
    k = 2 * len(CUTS)
    points, bands, areas, p = found[:, :k], found[:, k : k + 2], found[:, k + 2 : k + 5], found[:, -1]
    each = np.nanmean(points, axis=1)
    worst = int(np.argmin(np.nanmean(points, axis=0)))
    known = points[~np.isnan(points[:, worst]), worst]
    out: dict[str, Any] = cell._asdict() | {"life": int(cell.life), "runs": runs}
    shares = {
        "points": (round(float(np.nansum(each))), int((~np.isnan(each)).sum())),
        "worst": (int(known.sum()), len(known)),
        "bands": (int(bands.sum()), bands.size),
        "areas": (int(areas.sum()), areas.size),
        "rejected": (int((p < 0.05).sum()), runs),
    }
    for name, (held, of) in shares.items():
        out |= dict(zip((name, f"{name}_low", f"{name}_high"), limits(held, of), strict=True))
    return out | {"marked": round(100.0 * float(np.isnan(points).mean()), 1)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--cells", nargs="*", help="names of cells, all by default")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    kept, lines = Runs(a.keep), []
    for cell in itertools.filterfalse(lambda c: a.cells and c.name not in a.cells, CELLS):
        lines.append(line(cell, a.runs, kept))
        print(lines[-1], flush=True)
        save_table(pd.DataFrame(lines), a.out, f"python -m benchmarks.survival --runs {a.runs}")


if __name__ == "__main__":
    main()
