"""Regressions of the insurance charges along a stream, SXJKH (arXiv 2507.07041), Figures 7 to 9, reconstructed records.

Charges are cut at 14,626 and 18,596, the 0.33 and 0.66 quantiles of the reconstruction (from 4,000,000 synthetic
records with other seeds: public numbers). Multinomial: low (the baseline), middle, high, 33%, 33% and 34%. Linear:
charges, standardised. Covariates are the ten, as section 6 there codes them: age, bmi and children standardised, by
mean and sd of their distribution (where the source takes those of the data), the others their integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.papers.applications import TEN, TRAIN, insurance
from benchmarks.papers.engine import described, seeds
from benchmarks.papers.figures import stream_figure
from benchmarks.papers.rates import ALPHAS, start
from benchmarks.papers.simulation import along
from benchmarks.papers.summaries import failed, rounded
from privreg import datasets
from privreg.base.arrays import Array
from privreg.doors.regression import PrivateOnlineRegression
from privreg.families import Huber, Multinomial

CUTS: Final = (14_626.0, 18_596.0)
CHARGES: Final = (16_742.0, 4_421.0)  # Mean and sd of charges in the reconstruction
LEVELS: Final = ("low", "middle", "high")
MUS: Final = (0.5, 1.0, 2.0, 3.0, None)
STEP: Final = 0.5
EVERY: Final = 10_000
KEYS: Final = ["family", "tuning", "alpha", "mu", "iterate"]


@dataclass(frozen=True)
class Cell:
    """One stream."""

    name: str
    family: str  # "linear" or "multinomial"
    # Key of `rates.ALPHAS`; "own" for efficient tuning; "-" for what is not private: least squares or maximum
    # likelihood, and what means or shares alone give
    alpha: str
    mu: float | None
    # Records in all, and those of the stream
    rows: int
    train: int

    @property
    def tuning(self) -> str:
        """For tables."""
        return {"own": "efficient", "-": "not private"}.get(self.alpha, "published")


def _moments() -> dict[str, tuple[float, float]]:
    """Centres and units of the covariates."""

    def whole(low: int, high: int) -> tuple[float, float]:
        return (low + high) / 2, math.sqrt(((high - low + 1) ** 2 - 1) / 12)

    declared = datasets.us_insurance_schema("integers")["bounds"]
    standardised = {name: whole(*map(int, declared[name])) for name in ("age", "children")}
    return dict.fromkeys(TEN, (0.0, 1.0)) | standardised | {"bmi": (34.0, 32.0 / math.sqrt(12.0))}


@lru_cache(maxsize=1)
def _people(rows: int) -> pd.DataFrame:
    frame = insurance(rows).copy()
    frame["class"] = np.searchsorted(CUTS, frame["charges"].to_numpy())
    frame["level"] = np.array(LEVELS, dtype=object)[frame["class"]]
    return frame


def _model(cell: Cell) -> PrivateOnlineRegression:
    right = " + ".join(TEN)
    common: dict[str, Any] = {"mu": cell.mu, "moments": _moments(), "rows": cell.train}
    if cell.family == "linear":
        common["moments"]["charges"] = CHARGES
        loss = Huber() if cell.tuning == "efficient" else Huber(1.345, scale=CHARGES[1])
        return PrivateOnlineRegression.from_formula(f"charges ~ {right}", None, family=loss, **common)
    levels = {"level": list(LEVELS)}
    return PrivateOnlineRegression.from_formula(f"level ~ {right}", None, family=Multinomial(), levels=levels, **common)


def _design(frame: pd.DataFrame) -> Array:
    return np.column_stack([np.ones(len(frame)), frame[list(TEN)].to_numpy()])


# --- measuring -----------------------------------------------------------------------------------------


def measure(params: Array, x: Array, test: pd.DataFrame, family: str) -> tuple[Array, Array]:
    """Mean test loss and accuracy of many coefficient vectors, shape (k,).

    The loss is the log-loss and accuracy the share of rows whose class is the most likely one; for linear models the
    mean square error of standardised charges, and NaN. `params` have shape (k, blocks · (p + 1)), `test` has columns
    class and charges.
    """
    p, classes, charges = x.shape[1], test["class"].to_numpy(), test["charges"].to_numpy()
    losses, rights = np.zeros(len(params)), np.zeros(len(params))
    for i in range(0, len(x), 20_000):
        rows, here = x[i : i + 20_000], classes[i : i + 20_000]
        if family == "linear":
            losses += (((charges[i : i + 20_000][:, None] - rows @ params.T) / CHARGES[1]) ** 2).sum(axis=0)
            continue
        wanted = here[:, None]
        etas = [rows @ params[:, j : j + p].T for j in range(0, params.shape[1], p)]
        top = np.maximum(0.0, np.max(etas, axis=0))
        total = top + np.log(np.exp(-top) + sum(np.exp(eta - top) for eta in etas))
        losses += (total - sum(eta * (wanted == j + 1) for j, eta in enumerate(etas))).sum(axis=0)
        rights += (np.argmax([np.zeros_like(top), *etas], axis=0) == wanted).sum(axis=0)
    if family == "linear":
        rights[:] = math.nan
    return np.asarray(losses / len(x)), np.asarray(rights / len(x))


def _maximum_likelihood(x: Array, train: pd.DataFrame, family: str) -> Array:
    """Coefficients by Newton's method, shape (1, blocks · (p + 1))."""
    if family == "linear":
        return np.asarray(np.linalg.lstsq(x, train["charges"].to_numpy(), rcond=None)[0][None])
    from statsmodels.discrete.discrete_model import MNLogit  # slow to import

    scale, truth = np.abs(x).max(axis=0), train["class"].to_numpy()
    found = MNLogit(truth, x / scale).fit(method="newton", disp=0)
    return np.asarray((found.params.T / scale).reshape(1, -1))


def _replicate(cell: Cell, replication: int) -> list[dict[str, Any]]:
    everybody = _people(cell.rows)
    order = seeds("permutation", replication).rows().permutation(len(everybody))  # the same for every cell
    train, test = everybody.iloc[order[: cell.train]], everybody.iloc[order[cell.train :]]
    x, found = _design(test), []
    if cell.tuning == "not private":
        full = _design(train)
        for name, p in (("likelihood", x.shape[1]), ("alone", 1)):  # with all covariates, and with none
            fitted = _maximum_likelihood(full[:, :p], train, cell.family)
            (loss,), (right,) = measure(fitted, x[:, :p], test, cell.family)
            found.append({"iterate": name, "n": cell.train, "loss": float(loss), "accuracy": float(right)})
        return found
    source, model = seeds(cell.name, replication), _model(cell)
    (seed,) = source.fits(1)
    guess = source.rows().random(len(model._spec.coefficients))  # internal units; the default has no use of it
    stops = [*range(0, cell.train, min(EVERY, cell.train // 2)), cell.train]
    batches = ((b, train.iloc[a:b]) for a, b in pairwise(stops))
    at, found_params = [], []
    for n, res in along(start(model, ALPHAS.get(cell.alpha), STEP, seed, guess), batches, stops):
        at.append(n)
        found_params.append([np.asarray(v).T.ravel() for v in (res.params, res.params_last)])  # level by level
    paths = np.array(found_params).transpose(1, 0, 2)
    losses, rights = measure(paths.reshape(-1, paths.shape[2]), x, test, cell.family)
    names = np.repeat(["average", "last"], len(at))
    return [
        {"iterate": str(k), "n": n, "loss": float(a), "accuracy": float(b)}
        for k, n, a, b in zip(names, [*at, *at], losses, rights, strict=True)
    ]


# --- cells and tables ----------------------------------------------------------------------------------


def _cells(families: Sequence[str], quick: bool) -> list[Cell]:
    rows, train = (60_000, 40_000) if quick else (1_000_000, TRAIN)
    mus = (1.0, None) if quick else MUS
    out = []
    for family in families:
        for alpha in [*ALPHAS, "own"]:
            for mu in mus:
                words = f"alpha{alpha.replace('/', 'o')}" if alpha != "own" else "efficient"
                budget = "none" if mu is None else f"{mu:g}"
                out.append(Cell(f"{family}-{words}-mu{budget}", family, alpha, mu, rows, train))
        out.append(Cell(f"{family}-not-private", family, "-", None, rows, train))
    return out


def _tables(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    given = {c.name: c for c in cells}
    of_runs = [given[name] for name in runs["cell"]]
    head = pd.DataFrame({what: [getattr(c, what) for c in of_runs] for what in ("family", "tuning", "alpha")})
    head["mu"] = ["none" if c.mu is None else f"{c.mu:g}" for c in of_runs]
    table = pd.concat([head, runs.reset_index(drop=True)], axis=1)
    bad = failed(table)
    broken = table[bad].groupby("cell")["replication"].nunique()
    out = table[~bad].groupby(["cell", *KEYS, "n"], sort=False).agg(
        loss=("loss", "mean"),
        loss_low=("loss", "min"),
        loss_high=("loss", "max"),
        accuracy=("accuracy", "mean"),
        replications=("loss", "count"),
    ).reset_index()  # fmt: skip
    out["failures"] = out["cell"].map(broken).fillna(0).astype(int)
    along = rounded(out, 4, ("loss", "loss_low", "loss_high", "accuracy")).drop(columns="cell")
    return {"": along, "final": along[along["n"] == along["n"].max()].reset_index(drop=True)}


CLASSES: Final = (
    described(
        "sxjkh-figs7-9",
        partial(_cells, ["linear", "multinomial"]),
        _replicate,
        _tables,
        lambda tables: stream_figure(tables[""], tables["final"]),
    ),
)
"""The insurance stream."""
