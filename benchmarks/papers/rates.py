"""Errors of LDP-SGD along a stream, SXJKH (arXiv 2507.07041), Figures 2 to 6: step exponents, budgets, noise.

Linear regressions estimate the scale jointly, with errors of sd 2 (section 5.1 there). Parameter distance is the mean
of ‖θ − θ0‖², θ without the scale, loss distance that of the squared excess loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.papers.bounds import rates
from benchmarks.papers.designs import THRESHOLD, Design, chunks, truth
from benchmarks.papers.engine import described, seeds
from benchmarks.papers.figures import distance_figure, order_figure, rate_figure
from benchmarks.papers.simulation import EDGE, along
from benchmarks.papers.summaries import failed, first_error, rounded
from privreg.base.arrays import Array
from privreg.doors.regression import PrivateOnlineRegression
from privreg.families import Huber, Logistic
from privreg.families.residuals import clipped_square
from privreg.fits.published import numbers
from privreg.fits.settings import FitOptions, Settings
from privreg.published.chain import collector
from privreg.published.chain.plans import Steps
from privreg.simulation.streaming.stream import Stream
from privreg.simulation.tuning import resolve_tuning

ALPHAS: Final = {"1/3": 1 / 3, "1/2": 0.5, "2/3": 2 / 3, "1": 1.0}
ORDERS: Final = {f"{k / 20:g}": k / 20 for k in range(1, 20)} | {"1/3": 1 / 3, "2/3": 2 / 3}
STEP: Final = 0.2
LATE: Final = 30_000  # People from whom on exponents are estimated
MEASURES: Final = ("square", "loss")  # Parameter distance, loss distance
JUDGES: Final = 20_000  # Records by which a loss is measured, the same for all runs


def start(model: PrivateOnlineRegression, alpha: float | None, step: float, seed: int, guess: Any = None) -> Stream:
    """Begin a stream of estimates only: of the published chain, α in (0, 1], or if that is None of the default tuning.

    `fit` and `start` refuse α = 1, since the rate then depends on an eigenvalue nobody knows; the sources' figures have
    it all the same. So the steps are put into the settings of another α here, behind the back of the options. `guess`,
    internal units, is where the chain starts, zero by default.
    """
    if alpha is None:
        return model.start(inference=None, seed=seed)
    asked = FitOptions("published", None, alpha=alpha if alpha < 1.0 else 0.75, step=step)
    settings: Settings = resolve_tuning(asked, model._spec)
    settings = replace(settings, how=replace(numbers(settings), steps=Steps(step, alpha, 0.0)))
    return Stream(model._spec, settings, {}, seed=seed, start=guess)


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
    design: Design
    budget: str  # "mu=1", "eps=1" of Laplace noise, "Unif(1, 2)" of personal μ, or "none"
    alpha: str  # Key of `ALPHAS`, or "efficient" for the package's default
    step: float
    sizes: tuple[int, ...]

    @property
    def exponent(self) -> float | None:
        """Of the steps; None under the default."""
        return ALPHAS.get(self.alpha)


def _model(cell: Cell) -> PrivateOnlineRegression:
    d, (kind, _, value) = cell.design, cell.budget.partition("=")
    names, binary = d.names[1:], d.family == "logistic"
    budget: dict[str, Any] = {"mu": None} if kind == "none" else {"mu": "budget", "mu_max": 2.0}
    if value:
        budget = {"mu": float(value)} if kind == "mu" else {"epsilon": float(value), "mechanism": "laplace"}
    public: dict[str, Any] = {"moments": dict.fromkeys(names if binary else [*names, "y"], (0.0, 1.0))}
    loss = Logistic() if binary else Huber(THRESHOLD, scale="joint")
    if cell.alpha == "efficient":
        mean, sd = d.response
        ends = {} if binary else {"y": (mean - EDGE * sd, mean + EDGE * sd)}
        public, loss = {"bounds": dict.fromkeys(names, (-EDGE, EDGE)) | ends}, Logistic() if binary else Huber()
    rows = cell.sizes[-1] if cell.alpha == "efficient" else None
    right = " + ".join(names)
    return PrivateOnlineRegression.from_formula(f"y ~ {right}", None, family=loss, rows=rows, **public, **budget)


@lru_cache(maxsize=4)
def _judge(design: Design) -> Callable[[Array, float], float]:
    """Excess of the mean weighted loss over that at the truth, of coefficients and a residual scale.

    The log-loss, or Huber's with its scale σ: σ ρ_c(r/σ) + κ σ/2, κ = E min(Z², c²).
    """
    y, x = design.draw(JUDGES, np.random.Generator(np.random.SFC64(4_321)))
    weight, kappa = np.minimum(1.0, 2.0 / (x**2).sum(axis=1)), clipped_square(THRESHOLD)

    def loss(theta: Array, scale: float) -> float:
        eta = x @ theta
        if design.family == "logistic":
            return float((weight * (np.logaddexp(0.0, eta) - y * eta)).mean())
        u = np.abs(y - eta) / scale
        rho = np.where(u <= THRESHOLD, 0.5 * u * u, THRESHOLD * (u - 0.5 * THRESHOLD))
        return float((weight * scale * (rho + 0.5 * kappa)).mean())

    least = loss(truth(design, THRESHOLD), design.sd)
    return lambda theta, scale: loss(theta, scale) - least


def _replicate(cell: Cell, replication: int) -> list[dict[str, Any]]:
    source, design = seeds(cell.name, replication), cell.design
    right, rng, (seed,) = truth(design, THRESHOLD), source.rows(), source.fits(1)
    stream = start(_model(cell), cell.exponent, cell.step, seed)

    def batch(y: Array, x: Array) -> dict[str, Array]:
        return {"y": y, "budget": rng.uniform(1.0, 2.0, len(y)), **dict(zip(design.names[1:], x[:, 1:].T, strict=True))}

    out = []
    for n, res in along(stream, ((n, batch(y, x)) for n, y, x in chunks(design, cell.sizes, rng)), cell.sizes):
        for iterate, params, scale in zip(
            ("average", "last"), (res.params, res.params_last), _scales(cell, stream), strict=True
        ):
            theta = params.to_numpy()
            row = {"n": n, "iterate": iterate, "square": float(((theta - right) ** 2).sum())}
            out.append(row | ({"loss": _judge(design)(theta, scale) ** 2} if scale > 0.0 else {}))
    return out


def _scales(cell: Cell, stream: Stream) -> tuple[float, float]:
    """Residual scales of the average and of the last iterate: 1 of logistic regression, NaN where θ has none."""
    if cell.design.family == "logistic":
        return 1.0, 1.0
    if cell.exponent is None:
        return math.nan, math.nan
    run: Any = stream._run
    chain = collector.final(run.state, run.plan)  # internal units are the response's here
    return float(chain.mean[-1]), float(chain.last[-1])


# --- tables --------------------------------------------------------------------------------------------


def _tables(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    """Means with 99.9% limits, exponents of the errors beside those of the bounds, and the distances of each run."""
    given, rows, slopes = {c.name: c for c in cells}, [], []
    good = runs[~failed(runs)]
    kinds = [k for k in MEASURES if k in good]
    for (name, iterate), group in good.groupby(["cell", "iterate"], sort=False):
        c, there = given[str(name)], runs[runs["cell"] == name]
        head = {"d": c.design.p, "budget": c.budget, "alpha": c.alpha, "iterate": iterate}
        lost = {"failures": int(failed(there).sum()), "first_error": first_error(there)}
        by = group.groupby("n")
        means = by[kinds].mean()
        half = 3.2905 * by[kinds].std() / math.sqrt(group["replication"].nunique())
        ends = pd.concat([means, (means - half).add_suffix("_low"), (means + half).add_suffix("_high")], axis=1)
        counts, people = by.size().tolist(), np.array(means.index, dtype=np.float64)
        for n, many, line in zip(people.tolist(), counts, ends.to_dict("records"), strict=True):
            values = {str(k): float(f"{v:.5g}") for k, v in line.items()}
            rows.append(head | {"n": int(n)} | values | {"replications": many} | lost)
        late = people >= (LATE if people[-1] > LATE else people[len(people) // 2])
        square = means["square"].to_numpy(dtype=np.float64)
        slope = float(np.polyfit(np.log(people[late]), np.log(square[late]), 1)[0]) if late.sum() > 1 else math.nan
        theory = 1.0 if c.exponent is None else rate(c.exponent, iterate == "average")
        slopes.append(head | {"slope": round(slope, 3), "rate": round(-theory, 4), "from_n": int(people[late][0])})
    return {"": pd.DataFrame(rows), "slopes": pd.DataFrame(slopes)}


def _distances(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    """The same, and the distance of each run at μ = 2 by the number of people."""
    boxed = [c for c in cells if c.budget == "mu=2"]
    sizes = boxed[0].sizes[::3] if boxed else ()
    there = runs[~failed(runs) & runs["cell"].isin([c.name for c in boxed]) & runs["n"].isin(sizes)]
    each = there[["replication", "n", "iterate", "square"]].reset_index(drop=True)
    return _tables(runs, cells) | {"boxes": rounded(each, 5, ["square"])}


def _cells(family: str, sizes: Sequence[int], budgets: Sequence[str], alphas: Sequence[str], quick: bool) -> list[Cell]:
    people = tuple(int(round(v, -2)) for v in np.geomspace(1_000, *((20_000, 5) if quick else (300_000, 16))))
    sizes, budgets, alphas = (sizes[:1], [budgets[0], budgets[-1]], alphas[:2]) if quick else (sizes, budgets, alphas)
    return [
        Cell(
            f"d{d}-{budget}-alpha{alpha}".replace("/", "o").replace(", ", "-"),
            Design(family, d, sd=2.0), budget, alpha, STEP, people,
        )
        for d in sizes for budget in budgets for alpha in alphas
    ]  # fmt: skip


# --- the orders of Figure 3 ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """An exponent of the steps."""

    name: str
    alpha: float


def _orders(quick: bool) -> list[Order]:
    return [Order(f"alpha{key}".replace("/", "o"), alpha) for key, alpha in ORDERS.items()]


def _order(cell: Order, replication: int) -> list[dict[str, Any]]:
    """Relative orders of the average over the last iterate: lim −log_n of the ratio of their bounds."""
    found, out = rates(cell.alpha), {"alpha": cell.alpha}
    loss = math.nan if found.bar_Delta_n is None else found.bar_Delta_n - (found.Delta_n or 0.0)  # exponent 0 at 1/3
    return [out | {"parameter": found.bar_delta_n - found.delta_n, "loss": loss}]


def _order_table(runs: pd.DataFrame, cells: Sequence[Order]) -> dict[str, pd.DataFrame]:
    return {"": runs[["alpha", "parameter", "loss"]].sort_values("alpha", ignore_index=True).round(6)}


_FOUR: Final = [*ALPHAS, "efficient"]
_BUDGETS: Final = ["mu=0.5", "mu=1", "mu=2", "mu=3", "none"]
RATES: Final = (
    described(
        "sxjkh-fig2", partial(_cells, "huber", [5], ["mu=1", "mu=2", "Unif(1, 2)"], ["1/2"]), _replicate, _distances,
        lambda tables: distance_figure(tables[""], tables["boxes"]),
    ),
    described("sxjkh-fig3", _orders, _order, _order_table, lambda tables: order_figure(tables[""])),
    described(
        "sxjkh-fig4", partial(_cells, "huber", [5, 10], ["mu=1", "eps=1", "eps=2", "eps=3"], ["1/2"]), _replicate,
        _tables, lambda tables: rate_figure(tables[""], "square"),
    ),
    described(
        "sxjkh-fig5", partial(_cells, "huber", [5, 10, 20], _BUDGETS, _FOUR), _replicate, _tables,
        lambda tables: rate_figure(tables[""], "square"),
    ),
    described(
        "sxjkh-fig6", partial(_cells, "logistic", [5, 10, 20], _BUDGETS, _FOUR), _replicate, _tables,
        lambda tables: rate_figure(tables[""], "loss"),
    ),
)  # fmt: skip
"""The figures of errors."""
