"""Survival curves by group: how often intervals and bands hold the true curves, and the log-rank test rejects.

``python -m benchmarks.survival [--wide] [--runs R] [--cells NAME …] [--keep FOLDER]``

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
held
    95% intervals of the points that are marked because cut points are far from each other; limits take each for one.

With ``--wide`` cells have only each second or fourth cut point (`every`), or people are seen from a time on, if they
have had no event before (`late`); `results/survival_wide.csv`.
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
    every: int = 1  # Only each of so many cut points
    late: bool = False

    @property
    def cuts(self) -> np.ndarray:
        """Cut points."""
        return CUTS[self.every - 1 :: self.every]

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
WIDE: Final = [
    *(Cell("central", n, 1.0, s, life=True, every=k) for k in (2, 4) for n in (1_000, 20_000) for s in (0.6, 1.0, 2.0)),
    *(Cell("central", n, 1.0, life=life, late=True) for n in (1_000, 20_000) for life in (False, True)),
    Cell("two_collectors", 5_000, 1.0, late=True),
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
    n, cell = cell.n, cell._replace(n=2 * cell.n) if cell.late else cell  # hardly a third have left before they enter
    group = rng.integers(0, 2, cell.n)
    time = SCALE * np.exp(cell.effect * group) * drawn(cell, rng)
    until = rng.uniform(20.0, 100.0, cell.n)
    start = np.maximum(rng.uniform(-20.0, 30.0, cell.n), 0.0) if cell.late else np.zeros(cell.n)
    if not cell.life:
        time, until, start = (np.ceil(x / GRID) * GRID for x in (time, until, start))
    held = {"time": np.minimum(time, until), "event": (time <= until).astype(int), "start": start}
    made = pd.DataFrame(held | {"arm": np.where(group, "new", "old")})
    return made[made["time"] > made["start"]].iloc[:n]


def once(cell: Cell, seed: int) -> list[float]:
    """Hits of each point, of bands and of areas, NaN if they are marked, the test's p-value, and hits of points that
    are marked because cut points are far from each other, NaN of others.
    """
    rows = people(cell, np.random.default_rng([seed, cell.n, round(10 * cell.shape), round(10 * cell.effect)]))
    formula = f"Surv({'start, ' * cell.late}time, event, {cell.cuts.tolist()}) ~ C(arm)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        found = pr.means.survival(
            rows, formula, mu=cell.mu, trust=cell.trust, levels={"arm": ["old", "new"]}, seed=seed, progress=False,
            method="life_table" if cell.life else "kaplan_meier",
        )  # fmt: skip
    table = found.frame()
    true, reliable = np.concatenate([curve(cell.cuts, g, cell) for g in (0, 1)]), table["reliable"].to_numpy()
    hits = ((table["conf_low"] <= true) & (true <= table["conf_high"])).to_numpy()
    points, far = np.where(reliable, hits, np.nan), np.full(len(true), np.nan)
    for note in found.notes:
        if note.code == "between":
            far[list(note.rows)] = hits[list(note.rows)]
    bands = ((table["band_low"] <= true) & (true <= table["band_high"])).to_numpy().reshape(2, -1).all(axis=1)
    bands = np.where(reliable.reshape(2, -1).all(axis=1), bands, np.nan)
    ends, area = np.array([0.0, *cell.cuts]), []
    for g in (0, 1):
        line = curve(ends, g, cell)
        if cell.life:
            fine = np.linspace(0.0, cell.cuts[-1], 60_001)
            area.append(float(np.trapezoid(curve(fine, g, cell), fine)))
        else:
            area.append(float(line[:-1] @ np.diff(ends)))
    means = found.rmst()
    target = np.array([*area, area[1] - area[0]])
    areas = np.where(means["reliable"], (means["conf_low"] <= target) & (target <= means["conf_high"]), np.nan)
    return [*points, *bands, *areas, found.test().pvalue, *far]


def line(cell: Cell, runs: int, kept: Runs) -> dict[str, Any]:
    """One line of the table."""
    found = np.array([kept.get(f"{cell.name}-{s}", lambda s=s: once(cell, s)) for s in range(runs)])
    k = 2 * len(cell.cuts)
    points, bands, areas, p, far = np.split(found, [k, k + 2, k + 5, k + 6], axis=1)
    some = points[~np.isnan(points).all(axis=1)]
    some = np.nanmean(some, axis=1)
    shown = [points[~np.isnan(points[:, j]), j] for j in range(k) if not np.isnan(points[:, j]).all()]
    known = min(shown, key=np.mean, default=np.empty(0))
    out: dict[str, Any] = cell._asdict() | {"life": int(cell.life), "late": int(cell.late), "runs": runs}
    shares = {
        "points": (round(float(some.sum())), len(some)),
        "worst": (int(known.sum()), len(known)),
        "bands": (int(np.nansum(bands)), int((~np.isnan(bands)).sum())),
        "areas": (int(np.nansum(areas)), int((~np.isnan(areas)).sum())),
        "rejected": (int((p < 0.05).sum()), runs),
        "held": (int(np.nansum(far)), int((~np.isnan(far)).sum())),
    }
    for name, (held, of) in shares.items():
        each = limits(held, of) if of else (np.nan,) * 3
        out |= dict(zip((name, f"{name}_low", f"{name}_high"), each, strict=True))
    return out | {"marked": round(100.0 * float(np.isnan(points).mean()), 1)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--cells", nargs="*", help="names of cells, all by default")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    parser.add_argument("--wide", action="store_true", help="few cut points, and late entry")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args(arguments)
    kept, lines = Runs(a.keep), []
    out = a.out or (RESULTS.with_stem("survival_wide") if a.wide else RESULTS)
    for cell in itertools.filterfalse(lambda c: a.cells and c.name not in a.cells, WIDE if a.wide else CELLS):
        lines.append(line(cell, a.runs, kept))
        print(lines[-1], flush=True)
        save_table(pd.DataFrame(lines), out, f"python -m benchmarks.survival {'--wide ' * a.wide}--runs {a.runs}")


if __name__ == "__main__":
    main()
