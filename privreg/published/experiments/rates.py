"""Errors of private SGD against the number of people, SXJKH (arXiv 2507.07041): step exponents, budgets, dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.fits.settings import FitOptions, Settings
from privreg.published.chain.numbers import Steps
from privreg.published.experiments import simulation
from privreg.published.experiments.designs import CORNER, Design, chunks, truth
from privreg.published.experiments.engine import Experiment, seeds
from privreg.published.experiments.figures import rate_figure
from privreg.published.experiments.summaries import failed, first_error
from privreg.published.fit.report import numbers
from privreg.published.theory import rates
from privreg.regression import PrivateOnlineRegression
from privreg.simulation.streaming.stream import Stream
from privreg.simulation.tuning import resolve_tuning

ALPHAS: Final = {"1/3": 1 / 3, "1/2": 0.5, "2/3": 2 / 3, "1": 1.0}
MUS: Final = (0.5, 1.0, 2.0, 3.0)
DIMENSIONS: Final = (5, 10, 20)
SIZES: Final = tuple(int(round(v, -2)) for v in np.geomspace(1_000, 1_000_000, 19))
QUICK_SIZES: Final = tuple(int(round(v, -2)) for v in np.geomspace(1_000, 20_000, 5))
STEP: Final = 0.5
FROM: Final = 100_000
"""People from whom on slopes are fitted."""


def start(model: PrivateOnlineRegression, alpha: float | None, step: float, seed: int) -> Stream:
    """Begin a stream of estimates only: of the published chain, α in (0, 1], or if that is None of the default tuning.

    `fit` and `start` refuse α = 1, since the rate then depends on an eigenvalue nobody knows; the sources' figures have
    it all the same. So the steps are put into the settings of another α here, behind the back of the options.
    """
    if alpha is None:
        return model.start(inference=None, seed=seed)
    if alpha < 1.0:
        return model.start(tuning="published", alpha=alpha, step=step, inference=None, seed=seed)
    settings: Settings = resolve_tuning(FitOptions("published", None, alpha=0.75, step=step), model._spec)
    settings = replace(settings, how=replace(numbers(settings), steps=Steps(step, 1.0, 0.0)))
    return Stream(model._spec, settings, {}, seed=seed, start=None)


def rate(alpha: float, average: bool) -> float:
    """Exponent r of the bound n^−r on the mean square error; NaN at α = 1, where it depends on an eigenvalue."""
    if alpha >= 1.0:
        return math.nan
    found = rates(alpha)
    return found.bar_delta_n if average else found.delta_n


@dataclass(frozen=True)
class Cell:
    """One situation."""

    name: str
    d: int  # Coefficients, the constant among them
    mu: float
    alpha: str  # Key of `ALPHAS`, or "efficient" for the package's default
    sizes: tuple[int, ...]

    @property
    def design(self) -> Design:
        """Population."""
        return Design("huber", self.d - 1)


def _cells(varied: Sequence[tuple[int, float]], quick: bool) -> list[Cell]:
    sizes = QUICK_SIZES if quick else SIZES
    varied = varied[:1] if quick else varied
    return [
        Cell(f"d{d}-mu{mu:g}-alpha{alpha.replace('/', 'o')}", d, mu, alpha, sizes)
        for d, mu in varied
        for alpha in [*ALPHAS, "efficient"]
    ]


def _replicate(cell: Cell, replication: int) -> list[dict[str, Any]]:
    source, right = seeds(cell.name, replication), truth(cell.design, CORNER)
    (seed,) = source.fits(1)
    setting = "efficient" if cell.alpha == "efficient" else "stated"
    model = simulation.model(simulation.Cell("", cell.design, setting, cell.sizes, (), cell.mu), cell.sizes[-1])
    stream = start(model, ALPHAS.get(cell.alpha), STEP, seed)
    batches = ((n, (y, x)) for n, y, x in chunks(cell.design, cell.sizes, source.rows()))
    return [
        {"n": n, "iterate": iterate, "square": float(((params.to_numpy() - right) ** 2).sum())}
        for n, res in simulation.along(stream, batches, cell.sizes)
        for iterate, params in (("average", res.params), ("last", res.params_last))
    ]


def _tables(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    given = {c.name: c for c in cells}
    rows, slopes = [], []
    for (name, iterate), own in runs[~failed(runs)].groupby(["cell", "iterate"], sort=False):
        c = given[str(name)]
        head = {"d": c.d, "mu": c.mu, "alpha": c.alpha, "iterate": iterate}
        there = runs[runs["cell"] == name]
        means = []
        for n, at in own.groupby("n"):
            square = at["square"].to_numpy()
            mean, k = float(square.mean()), len(square)
            half = 3.2905 * float(square.std(ddof=1)) / math.sqrt(k) if k > 1 else math.nan
            ends = {"mse": mean, "mse_low": mean - half, "mse_high": mean + half}
            numbers = {key: float(f"{v:.5g}") for key, v in ends.items()}
            errors = {"replications": k, "failures": int(failed(there).sum()), "first_error": first_error(there)}
            rows.append(head | {"n": int(str(n))} | numbers | errors)
            means.append((float(str(n)), mean))
        n_, mse = np.array(means).T
        late = n_ >= (FROM if n_[-1] > FROM else n_[len(n_) // 2])
        slope = float(np.polyfit(np.log(n_[late]), np.log(mse[late]), 1)[0]) if late.sum() > 1 else math.nan
        theory = -1.0 if c.alpha == "efficient" else -rate(ALPHAS[c.alpha], iterate == "average")
        bound = "n^-1" if c.alpha == "efficient" else "depends on γλ" if math.isnan(theory) else f"n^{theory:.3g}"
        slopes.append(
            head | {"slope": round(slope, 3), "rate": round(theory, 4), "bound": bound, "from_n": int(n_[late][0])}
        )
    return {"": pd.DataFrame(rows), "slopes": pd.DataFrame(slopes)}


_ABOUT: Final = (
    "Linear regression with intercept, standard normal covariates, all coefficients 1, normal errors of sd 0.5; "
    "published weights, Huber with c = 1.345, steps 0.5 k^−alpha with alpha = 1/3, 1/2, 2/3, 1 (refused outside "
    "experiments), and the package's default. Mean square error of average and last iterate, up to 1,000,000 people; "
    "slopes of its log from 100,000 people on beside the exponents of the bounds. The split over the printed figures "
    "is ours. Varied: "
)


def _experiment(number: str, what: str, varied: Sequence[tuple[int, float]], panel: str, words: str) -> Experiment:
    return Experiment(
        name=f"sxjkh-fig{number}",
        title=f"error against the number of people by step exponent and {what}",
        source=f"SXJKH, arXiv 2507.07041, Figure {number} and Table 1",
        about=_ABOUT + what + ".",
        replications=100,
        cells=partial(_cells, varied),
        replicate=_replicate,
        tabulate=_tables,
        draw=lambda tables: rate_figure(tables[""], panel, words),
    )


RATES: Final = (
    _experiment("2", "iterate", [(5, 1.0)], "mu", "μ = "),
    _experiment("5", "budget", [(5, mu) for mu in MUS], "mu", "μ = "),
    _experiment("6", "dimension", [(d, 1.0) for d in DIMENSIONS], "d", "d = "),
)
"""The figures of errors."""
