"""The applications of XSJKH (arXiv 2505.08227) on reconstructed records: coefficients, test errors and paths."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.papers.engine import Experiment, described, seeds
from benchmarks.papers.figures import coefficient_figure, path_figure
from benchmarks.papers.simulation import along, at_hand
from benchmarks.papers.store import printed
from benchmarks.papers.summaries import failed, first_error, rounded
from privreg import datasets
from privreg.base.arrays import Array
from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import PrivacyLeakWarning
from privreg.families import Huber

TEN: Final = (
    *("age", "gender", "bmi", "children", "smoker", "medical_history", "family_medical_history"),
    *("exercise_frequency", "occupation", "coverage_level"),
)
"""Covariates of the insurance records, in the order of the printed table."""
RIDES: Final = ("distance", "driver_rating", "total_rides", "vehicle_year", "capacity", "duration")
TRAIN: Final = 800_000
BATCH: Final = 10_000
METHODS: Final = {
    "published": ("random_scaling", "batch_means", "block_bootstrap", "plug_in"),
    "efficient": ("sandwich", "random_scaling", "batch_means", "block_bootstrap"),
}


@dataclass(frozen=True)
class Cell:
    """One analysis."""

    name: str
    data: str  # "us_insurance" or "ride_sharing"
    # Records in all, and those that are fitted; the others test
    rows: int
    train: int
    sizes: tuple[int, ...]  # People at which results are taken
    methods: tuple[tuple[str, tuple[str, ...]], ...]  # Inference methods of each tuning
    mu: float = 1.0

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns."""
        return TEN if self.data == "us_insurance" else RIDES

    @property
    def response(self) -> str:
        """Column."""
        return "charges" if self.data == "us_insurance" else "fare"

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Public facts."""
        insurance_ = self.data == "us_insurance"
        found = datasets.us_insurance_schema("integers") if insurance_ else datasets.ride_sharing_schema()
        return {name: found["bounds"][name] for name in (*self.covariates, self.response)}


@lru_cache(maxsize=2)
def _records_of(data: str, rows: int) -> pd.DataFrame:
    if data == "us_insurance":
        return datasets.us_insurance(rows, coding="integers")[[*TEN, "charges"]].astype(float)
    return datasets.ride_sharing(rows)[[*RIDES, "fare"]].astype(float)


def insurance(rows: int = 1_000_000) -> pd.DataFrame:
    """Reconstructed insurance records in integer coding: the ten covariates and charges."""
    return _records_of("us_insurance", rows)


def _model(cell: Cell, train: pd.DataFrame, tuning: str) -> PrivateOnlineRegression:
    """Model of a tuning. The published one standardises by the data's mean and sd, as its source does."""
    formula = f"{cell.response} ~ {' + '.join(cell.covariates)}"
    common: dict[str, Any] = {"family": Huber(), "mu": cell.mu}
    if tuning == "efficient":
        return PrivateOnlineRegression.from_formula(formula, None, bounds=cell.bounds, rows=len(train), **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return PrivateOnlineRegression.from_formula(formula, train, allow_leak=("scale",), **common)


def _replicate(cell: Cell, replication: int) -> list[dict[str, Any]]:
    """Least squares and both tunings on one permutation; coefficients of standardised columns."""
    source, everybody = seeds(cell.name, replication), _records_of(cell.data, cell.rows)
    order = source.rows().permutation(len(everybody))
    train, test = everybody.iloc[order[: cell.train]], everybody.iloc[order[cell.train :]]
    terms, y = list(cell.covariates), train[cell.response].to_numpy()
    sd = train.std()
    unit = (sd[terms] / sd[cell.response]).to_numpy()
    x = np.column_stack([np.ones(len(train)), train[terms].to_numpy()])
    least = np.linalg.lstsq(x, y, rcond=None)[0]

    def rows_of(tuning: str, method: str, n: int, params: Array, limits: Array | None) -> list[dict[str, Any]]:
        head = {"tuning": tuning, "method": method, "n": n}
        out: list[dict[str, Any]] = []
        for j, term in enumerate(terms):
            row = {"term": term, "truth": least[1 + j] * unit[j], "estimate": params[1 + j] * unit[j]}
            if limits is not None:
                row |= {"low": limits[1 + j, 0] * unit[j], "high": limits[1 + j, 1] * unit[j]}
            out.append(head | row)
        worst = np.abs((params[1:] - least[1:]) * unit).max()
        out.append(head | {"term": "worst_error", "estimate": worst})
        if len(test):
            fitted = params[0] + test[terms].to_numpy() @ params[1:]
            mse = (((test[cell.response].to_numpy() - fitted) / sd[cell.response]) ** 2).mean()
            out.append(head | {"term": "test_mse", "estimate": mse})
        return out

    records = rows_of("OLS", "none", len(train), least, None)
    for (tuning, methods), seed in zip(cell.methods, source.fits(len(cell.methods)), strict=True):
        stream = _model(cell, train, tuning).start(tuning=tuning, inference=methods or None, seed=seed)
        stops = sorted({0, *cell.sizes, *range(BATCH, cell.train, BATCH)})
        for n, res in along(stream, ((b, train.iloc[a:b]) for a, b in pairwise(stops)), cell.sizes):
            params = res.params[["Intercept", *terms]].to_numpy()
            for method in res.methods or ("none",):
                limits = None if method == "none" else res.conf_int(method=method).loc[["Intercept", *terms]].to_numpy()
                records += rows_of(tuning, method, n, params, limits)
    return records


# --- tables --------------------------------------------------------------------------------------------


def _path_tables(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    wanted = ["cell", "replication", "tuning", "method", "n", "term", "truth", "estimate", "low", "high"]
    table = runs.reindex(columns=wanted).dropna(subset=["low"]).reset_index(drop=True)
    table["n"] = table["n"].astype(np.int64)
    return {"": rounded(table, 5, ("truth", "estimate", "low", "high"))}


def _table3(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    """Medians over permutations beside the printed numbers."""
    bad = failed(runs)
    good = runs[~bad]
    default = good.groupby("tuning")["method"].transform("first")  # one line a coefficient: estimates don't differ
    last = good[(good["method"] == default) & (good["n"] == good["n"].max())]
    grouped = last.groupby(["tuning", "term"], sort=False)["estimate"]
    tidy = grouped.agg(median="median", low="min", high="max", replications="count").reset_index()
    covered = good[good["low"].notna()].assign(hit=lambda t: (t.low <= t.truth) & (t.truth <= t.high))
    covered = covered.assign(length=covered["high"] - covered["low"])
    intervals = covered.groupby(["tuning", "method"], sort=False).agg(
        covers_ols=("hit", "mean"), length=("length", "mean"), replications=("replication", "nunique")
    )
    tidy["failures"] = int(runs.loc[bad, "replication"].nunique())
    tidy["first_error"] = first_error(runs)
    wide = tidy.pivot_table(index="term", columns="tuning", values="median", sort=False)
    paper = printed("xsjkh_table3")
    table = pd.DataFrame(index=[*TEN, "worst_error", "test_mse"])
    table["published_ols"] = pd.Series(dict(zip(paper["coefficients"], paper["OLS"], strict=True)))
    table["published_ldp_sgd"] = pd.Series(dict(zip(paper["coefficients"], paper["LDP_SGD"], strict=True)))
    table.loc["worst_error"] = [0.0, float((table["published_ldp_sgd"] - table["published_ols"]).abs().max())]
    table.loc["test_mse"] = [paper["test_mse"]["OLS"], paper["test_mse"]["LDP_SGD"]]
    for tuning, name in (("OLS", "ols"), ("published", "published_tuning"), ("efficient", "efficient")):
        table[name] = wide[tuning].reindex(table.index) if tuning in wide else np.nan
    table["remark"] = "ours on reconstructed records, medians over permutations"
    return {
        "": tidy.round(5),
        "compared": table.round(4).rename_axis("term").reset_index(),
        "intervals": intervals.round(5).reset_index(),
    }


def _cell(name: str, rows: int, train: int, sizes: Sequence[int]) -> list[Cell]:
    methods = tuple((tuning, at_hand(names, tuning)) for tuning, names in METHODS.items())
    return [Cell(name, name.replace("-", "_"), rows, train, tuple(sizes), methods)]


def _table3_cells(quick: bool) -> list[Cell]:
    rows, train = (60_000, 50_000) if quick else (1_000_000, TRAIN)
    return _cell("us-insurance", rows, train, [train])


def _path_cells(name: str, first: int, rows: int, quick: bool) -> list[Cell]:
    rows = 50_000 if quick else rows
    return _cell(name, rows, rows, [int(round(v, -2)) for v in np.geomspace(first, rows, 12 if quick else 40)])


def _paths(name: str, data: str, first: int, rows: int) -> Experiment:
    words = "reconstructed records; dotted: least squares on all of them"
    cells = partial(_path_cells, data, first, rows)
    return described(name, cells, _replicate, _path_tables, lambda t: path_figure(t[""], "tuning", footer=words))


APPLICATIONS: Final = (
    described("xsjkh-table3", _table3_cells, _replicate, _table3, lambda t: coefficient_figure(t["compared"], t[""])),
    _paths("xsjkh-fig4", "ride-sharing", 1_000, 50_000),
    _paths("xsjkh-fig5", "us-insurance", 2_000, TRAIN),
)
"""The applications."""
