"""Hazard regression: how often intervals hold hazard ratios, hazards by interval and survival curves.

``python -m benchmarks.hazards [--runs R] [--cells NAME …] [--keep FOLDER]``

People have a number and an arm of two; hazards by three public intervals. One line for each design, trust model and
number of people, at μ = 1. Designs: "right", "few" events, one in eight, "skewed", where one in seventeen has one
and the number is exponential, "early", where nineteen in twenty have one, most of them before the last interval, and
"large" effects, log ratios of 2; of wrong models "changing", where the arm's effect changes with time, "weibull", whose
hazard rises within intervals, and "frail", where people differ in what isn't seen, so that hazards aren't proportional.
Shares in %, with exact 99% limits (Clopper and Pearson), of intervals that aren't marked:

ratios
    95% intervals of the logarithms of both hazard ratios, of the fit's own estimand: that of people who are followed
    as long as in that fit, of 2,000,000 people without noise (between the lengths at which it was computed).
whole
    The same of statsmodels' estimand, of people who are followed to the end.
hazards, curves
    Hazards of the three intervals, and survival until their ends, at the middle of the number in the first arm.
marked
    Coefficients that are marked.
bias
    Largest mean error of a hazard ratio's logarithm, in standard errors.
error, wide
    Root mean squared error of the hazard ratios' logarithms, and median standard error, over those of statsmodels'
    Poisson fit of split rows.
events
    People with an event.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.several import limits
from benchmarks.store import Runs, save_table
from privreg.errors import ReliabilityWarning
from privreg.families.hazards import followed
from privreg.fits.settings import FitOptions
from privreg.simulation.streaming.stream import begin

RESULTS: Final = Path(__file__).parent / "results" / "hazards.csv"
CUTS: Final = np.array([6.0, 12.0, 24.0])
BEGIN: Final = np.array([0.0, 6.0, 12.0])
FORMULA: Final = f"Surv(time, event, {CUTS.tolist()}) ~ x + C(arm)"
PUBLIC: Final = {"bounds": {"x": (-1, 1)}, "levels": {"arm": ["old", "new"]}}
MANY: Final = 2_000_000  # People of whom estimands are computed: their error is a tenth of one of 20,000 people
WHOLE: Final = 1_000.0  # Cumulative hazard that nobody has
UNTIL: Final = (0.4, 0.7, 1.0, 1.5, 1.99, 2.0, 2.5, 3.2, 4.5, 7.0, 16.0)  # Cumulative hazards at which they are
USUAL: Final = {"right": 0.03, "few": 0.005, "changing": 0.03, "weibull": 0.03, "frail": 0.03}  # Of all sizes
RATES: Final = USUAL | {"skewed": 0.0033, "early": 0.2, "large": 0.007}
EFFECTS: Final = {  # Of the number and of the new arm
    one: np.array({"skewed": [1.0, 0.5], "large": [2.0, 2.0]}.get(one, [0.6, 0.5])) for one in RATES
}
BASE: Final = np.log([1.0, 1.5, 0.8])  # Hazards of the intervals over the first


class Cell(NamedTuple):
    """A line of the study."""

    design: str
    trust: str
    n: int

    @property
    def name(self) -> str:
        """Name of its runs."""
        return "-".join(map(str, self))


SIZES: Final = {"central": (1_000, 5_000, 20_000), "two_collectors": (1_000, 5_000, 20_000)}
CELLS: Final = [Cell(design, trust, n) for trust, sizes in SIZES.items() for n in sizes for design in USUAL]
CELLS += [Cell("right", "silos", 5_000), *(Cell("skewed", trust, n) for trust in SIZES for n in (20_000, 100_000))]
CELLS += [Cell(design, trust, n) for design in ("early", "large") for trust in SIZES for n in (5_000, 20_000)]


def people(design: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Records."""
    x, arm, effects = rng.uniform(-1.0, 1.0, n), rng.integers(0, 2, n), EFFECTS[design]
    if design == "skewed":
        x = np.minimum(-0.5 * np.log(0.5 - 0.5 * x) - 1.0, 1.0)
    by = np.repeat(effects[0] * x[:, None] + effects[1] * arm[:, None], 3, axis=1)
    if design == "changing":
        by = effects[0] * x[:, None] + arm[:, None] * np.array([1.0, 0.4, -0.4])
    if design == "frail":
        by = by + rng.normal(0.0, 1.0, (n, 1))
    left = rng.exponential(size=n)
    if design == "weibull":  # hazards rise from 0
        time = 25.0 * (left * np.exp(-by[:, 0])) ** (1.0 / 1.6)
    else:
        each = RATES[design] * np.exp(BASE + by)
        upto = np.cumsum(each * np.diff(CUTS, prepend=0.0), axis=1)
        before = np.hstack([np.zeros((n, 1)), upto[:, :-1]])
        inside = BEGIN + (left[:, None] - before) / each
        time = np.where(
            left > upto[:, -1], 99.0, inside[np.arange(n), np.minimum((left[:, None] > upto).sum(axis=1), 2)]
        )
    until = rng.uniform(3.0, 40.0, n)
    held = {"time": np.minimum(time, until), "event": (time <= until).astype(int), "x": x}
    return pd.DataFrame(held | {"arm": np.where(arm, "new", "old")})


def split(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Events, covariates, logarithms of times at risk, and whether at risk, by person and interval."""
    time = rows["time"].to_numpy()[:, None]
    at_risk = np.minimum(time, CUTS) - BEGIN
    here = at_risk > 0.0
    event = (rows["event"].to_numpy()[:, None] == 1) & here & (time <= CUTS)
    x = np.empty((len(rows), 3, 5))
    x[:, :, 0], x[:, :, 1:3] = 1.0, np.eye(3)[:, 1:]
    x[:, :, 3] = (rows["arm"] == "new").to_numpy(float)[:, None]
    x[:, :, 4] = rows["x"].to_numpy()[:, None]
    return event.astype(float), x, np.log(np.where(here, at_risk, 1.0)), here


def poisson(rows: pd.DataFrame, most: float = WHOLE, start: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Root of the mean score of people who are followed until a cumulative hazard, and its sandwich's errors."""
    y, x, offset, here = split(rows)
    theta = np.array([np.log(y.sum() / np.exp(offset)[here].sum()), 0.0, 0.0, 0.0, 0.0]) if start is None else start
    for _ in range(100):
        score, slope = followed(x @ theta + offset, y, here, most)
        each = np.einsum("nj,njp->np", score, x)
        bread = np.linalg.inv(np.einsum("nj,njp,njq->pq", slope, x, x, optimize=True))
        step = bread @ each.sum(axis=0)
        theta = theta - step
        if np.abs(step).max() < 1e-4:
            break
    return theta, np.sqrt(np.diag(bread @ (each.T @ each) @ bread))


@cache
def known(design: str, most: float) -> np.ndarray:
    """Estimand at one of the numbers between which those of others are."""
    longer = [one for one in (*UNTIL, WHOLE) if one > most]
    start = known(design, longer[0]) if longer else None
    return poisson(people(design, MANY, np.random.default_rng([7, len(design)])), most, start)[0]


@cache
def target(design: str, most: float) -> np.ndarray:
    """Estimand of people who are followed until this cumulative hazard."""
    if design in {"right", "few", "skewed", "early", "large"}:
        return np.array([np.log(RATES[design]), *BASE[1:], EFFECTS[design][1], EFFECTS[design][0]])
    if most == WHOLE:
        return known(design, most)
    tried = [known(design, one) for one in UNTIL]
    place = np.interp(-1.0 / most, [-1.0 / one for one in UNTIL], np.arange(len(UNTIL)))
    after = tried[min(int(place) + 1, len(tried) - 1)]
    return tried[int(place)] + (place % 1.0) * (after - tried[int(place)])


def once(cell: Cell, seed: int) -> list[float]:
    """Whether intervals hold what they are for, which coefficients are marked, errors and events."""
    rows = people(cell.design, cell.n, np.random.default_rng([seed, cell.n, len(cell.design), ord(cell.design[0])]))
    given: Any = {"a": rows[: cell.n // 4], "b": rows[cell.n // 4 :]} if cell.trust == "silos" else rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        model = pr.PrivateOnlineRegression.from_formula(FORMULA, given, mu=1, trust=cell.trust, **PUBLIC)
        if cell.trust == "silos":
            res = model.fit(seed=seed, progress=False)
            most = float(res.summary(details=True).as_text().split("reaches")[1].split(";")[0])
        else:
            stream = begin(model._spec, FitOptions(), None, seed, cell.n)
            stream.update(rows)
            res, most = stream.results(), stream._run.progress.state.most
    table, own, whole = res.tidy(), target(cell.design, most), target(cell.design, WHOLE)
    fine = table["reliable"].to_numpy()

    def held(truth: np.ndarray, low: Any, high: Any, good: Any) -> np.ndarray:
        return np.where(good, (np.asarray(low) <= truth) & (truth <= np.asarray(high)), np.nan)

    curve = res.hazards(pd.DataFrame({"x": [0.0], "arm": ["old"]})).frame()
    hazard = np.exp(own[0] + np.array([0.0, *own[1:3]]))
    alive = np.exp(-np.cumsum(hazard * np.diff(CUTS, prepend=0.0)))
    good, (theta, errors) = curve["reliable"], poisson(rows)
    off = np.where(fine, table["estimate"] - own, np.nan)[3:]
    return [
        *held(own, table["conf_low"], table["conf_high"], fine)[3:],
        *held(whole, table["conf_low"], table["conf_high"], fine)[3:],
        *held(hazard, curve["conf_low"], curve["conf_high"], good),
        *held(alive, curve["survival_low"], curve["survival_high"], good),
        *off, *np.where(fine, table["std_error"], np.nan)[3:], *errors[3:], *(theta - whole)[3:],
        1.0 - fine.mean(), rows["event"].mean(), most,
    ]  # fmt: skip


def line(cell: Cell, runs: int, kept: Runs) -> dict[str, Any]:
    """One line of the table."""
    found = np.array([kept.get(f"{cell.name}-{s}", lambda s=s: once(cell, s)) for s in range(runs)])
    parts = dict(zip(("ratios", "whole", "hazards", "curves"), np.split(found, [2, 4, 7, 10], axis=1)[:4], strict=True))
    out: dict[str, Any] = cell._asdict() | {"runs": runs}
    for name, hits in parts.items():
        each, known = np.nanmean(hits) if np.isfinite(hits).any() else np.nan, int(np.isfinite(hits).any(axis=1).sum())
        shares = limits(round(float(each * known)), known) if known else (np.nan,) * 3
        out |= dict(zip((name, f"{name}_low", f"{name}_high"), shares, strict=True))
    off, wide, errors, plain = np.split(found[:, 10:18], 4, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of means of nothing
        out["marked"] = round(100.0 * float(found[:, 18].mean()), 1)
        spread = np.sqrt(np.nanmean(off**2, axis=0)) / np.sqrt(np.mean(plain**2, axis=0))
        out["bias"] = round(float(np.abs(np.nanmean(off / wide, axis=0)).max()), 2)
        out["error"] = round(float(np.mean(spread)), 2)
        out["wide"] = round(float(np.nanmedian(wide / errors)), 2)
    return out | {"events": round(100.0 * float(found[:, 19].mean()), 1), "until": round(float(found[:, 20].mean()), 2)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--cells", nargs="*", help="names of cells, all by default")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    kept, lines = Runs(a.keep), []
    command = f"python -m benchmarks.hazards --runs {a.runs}" + "".join(
        [" --cells ", " ".join(a.cells)] if a.cells else []
    )
    for cell in itertools.filterfalse(lambda c: a.cells and c.name not in a.cells, CELLS):
        lines.append(line(cell, a.runs, kept))
        print(lines[-1], flush=True)
        save_table(pd.DataFrame(lines), a.out, command)


if __name__ == "__main__":
    main()
