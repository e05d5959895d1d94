"""Windows of streams that are steady and that drift, early intervals, and what early intervals cost later.

``python -m benchmarks.streams [windows | first] [--reps R] [--jobs K] [--cells CELL …] [--quick]``

Responses are 0.5 + b x + e, x and e/0.5 standard normal, or 0/1 with these log-odds, at μ = 1. The slope b is 1
("steady"), goes from 1 to 2 evenly ("drift"), or is 2 from the middle on ("jump"). Streams are of known or unknown
length, read in 20 pieces. A stopped run goes on.

windows: eight windows of the stream; of each coefficient the share of 95% intervals that hold the mean of its values
over the window's records, with exact 99.9% limits of a right level, intervals of one run taken as independent; the mean
length; and how often the test of change is below 5%. With them the intervals of the whole stream at the looks of a
stream of unknown length, if it is steady ("so far").

first: four coefficients of three covariates correlated 0.5^|j−k|, 400,000 records: mean length of intervals and root
mean square error by `privreg.protocol.schedule.FIRST`, and the records at the first of 100 looks that has intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.stats import binom

import privreg as pr
from benchmarks.papers.engine import Experiment, run, seeds
from privreg.protocol import schedule

RESULTS: Final = Path(__file__).parent / "results"
WINDOWS: Final = 8
PIECES: Final = 20
LOOKS: Final = (0, 1, 4, 9)  # Pieces after which the intervals of the whole stream are looked at
MANY: Final = 1e9  # Of `FIRST`: first rounds are as large as wanted


@dataclass(frozen=True)
class Cell:
    """A stream."""

    name: str
    family: str
    kind: str  # "steady", "drift" or "jump"
    known: bool
    n: int
    first: float = schedule.FIRST


def _slope(kind: str, n: int) -> Any:
    t = (np.arange(n) + 0.5) / n
    return {"steady": np.ones(n), "drift": 1.0 + t, "jump": 1.0 + (t > 0.5)}[kind]


def _windows(cell: Cell, replication: int) -> list[dict[str, Any]]:
    source = seeds(cell.name, replication)
    rng, slope = source.rows(), _slope(cell.kind, cell.n)
    x = rng.standard_normal(cell.n)
    eta = 0.5 + slope * x
    logistic = cell.family == "logistic"
    y = rng.random(cell.n) < 1.0 / (1.0 + np.exp(-eta)) if logistic else eta + 0.5 * rng.standard_normal(cell.n)
    frame = pd.DataFrame({"y": y.astype(float), "x": x})
    public: dict[str, Any] = {"bounds": {"x": (-4, 4)} if logistic else {"x": (-4, 4), "y": (-8, 9)}}
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x", None, family=cell.family, mu=1, rows=cell.n if cell.known else None, **public
    )
    stream, out = model.start(seed=source.fits(1)[0]), list[dict[str, Any]]()
    for k in range(PIECES):
        stream.update(frame[k * cell.n // PIECES : (k + 1) * cell.n // PIECES])
        if cell.known or cell.kind != "steady" or k not in LOOKS:
            continue
        try:
            res = stream.results()
        except pr.errors.InferenceError:
            continue
        if res.methods:
            limits = res.conf_int().to_numpy()
            out += _lines("so far", f"{stream.nobs}", limits, [0.5, 1.0])
    res = stream.results()
    found = res.windows(cell.n / WINDOWS)
    table = found.frame
    for k in range(len(table) // 2):
        begin, end = table[["begin", "end"]].iloc[2 * k]
        right = [0.5, float(slope[begin:end].mean())]
        out += _lines("window", f"{k + 1}", table[["conf_low", "conf_high"]].to_numpy()[2 * k : 2 * k + 2], right)
    p = found.test_change()["p_value"]
    return [*out, *({"what": "test", "at": "", "term": name, "p": value} for name, value in p.items())]


def _lines(what: str, at: str, limits: Any, right: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {"what": what, "at": at, "term": term, "hit": bool(low <= value <= high), "length": high - low}
        for term, (low, high), value in zip(("Intercept", "x"), limits, right, strict=True)
    ]


def _coverages(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    given, rows = {c.name: c for c in cells}, []
    good = runs[runs["what"].notna()]
    for (name, what, at), own in good.groupby(["cell", "what", "at"], sort=False, dropna=False):
        c = given[str(name)]
        head = {"family": c.family, "kind": c.kind, "length known": c.known, "n": c.n, "what": what, "at": at}
        head["runs"] = own["replication"].nunique()
        if what == "test":
            for term, each in own.groupby("term", sort=False):
                rows.append(head | {"at": term, "rejected": round(100 * float((each["p"] < 0.05).mean()), 1)})
            continue
        hits, trials = int(own["hit"].sum()), len(own)
        low, high = binom.ppf([0.0005, 0.9995], trials, 0.95)
        share = {"coverage": round(100 * hits / trials, 2), "low_999": round(100 * low / trials, 2)}
        share |= {"high_999": round(100 * high / trials, 2), "mean_length": round(float(own["length"].mean()), 4)}
        rows.append(head | share)
    return {"": pd.DataFrame(rows)}


def _first(cell: Cell, replication: int) -> list[dict[str, Any]]:
    source = seeds("first", replication)
    rng, j = source.rows(), np.arange(3)
    x = rng.standard_normal((cell.n, 3)) @ np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(j, j))).T
    y = 1.0 + x.sum(axis=1) + 0.5 * rng.standard_normal(cell.n)
    frame = pd.DataFrame({"y": y, **{f"x{k}": x[:, k] for k in range(3)}})
    bounds = {"y": (-11, 13), **dict.fromkeys(("x0", "x1", "x2"), (-4, 4))}
    with patch.object(schedule, "FIRST", cell.first):
        model = pr.PrivateOnlineRegression.from_formula(
            "y ~ x0 + x1 + x2", None, mu=1, rows=cell.n if cell.known else None, bounds=bounds
        )
        stream, since = model.start(seed=source.fits(1)[0]), 0
        for k in range(100):
            stream.update(frame[k * cell.n // 100 : (k + 1) * cell.n // 100])
            if not since:
                try:
                    since = stream.nobs if stream.results().methods else 0
                except pr.errors.InferenceError:
                    continue
        res = stream.results()
    length = float(np.ptp(res.conf_int().to_numpy(), axis=1).mean())
    return [{"since": since, "length": length, "square": float(((res.params - 1.0) ** 2).mean())}]


def _costs(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    by = runs.groupby("cell", sort=False)
    table = by.agg(runs=("replication", "nunique"), since=("since", "mean"), length=("length", "mean"))
    table["length_se"] = by["length"].std() / np.sqrt(table["runs"])
    table["rmse"] = by["square"].mean() ** 0.5
    return {"": table.round(5).reset_index()}


def _window_cells(quick: bool) -> list[Cell]:
    n = 40_000 if quick else 200_000
    return [
        Cell(f"{family}-{kind}-{'known' if known else 'unknown'}", family, kind, known, n)
        for family in ("huber", "logistic")
        for kind in ("steady", "drift", "jump")
        for known in (True, False)
    ]


def _first_cells(quick: bool) -> list[Cell]:
    n, firsts = 40_000 if quick else 400_000, {"600": 600.0, "1000": 1000.0, "as wanted": MANY}
    unknown = [Cell(f"first {words}", "huber", "steady", False, n, value) for words, value in firsts.items()]
    return [Cell("length known", "huber", "steady", True, n), *unknown]


def _no_figure(tables: Any) -> Any:
    raise NotImplementedError


STUDIES: Final = {
    "windows": Experiment(
        "streams", _window_cells, _windows, _coverages, _no_figure, "windows of streams", "ours", __doc__ or "", 400
    ),
    "first": Experiment(
        "streams_first", _first_cells, _first, _costs, _no_figure, "first rounds", "ours", __doc__ or "", 100
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=STUDIES, default="windows")
    parser.add_argument("--reps", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cells", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true")
    a = parser.parse_args(arguments)
    study = STUDIES[a.study]
    reps = a.reps or (2 if a.quick else study.replications)
    table = run(
        study, reps, jobs=a.jobs, out=RESULTS, quick=a.quick, cells=a.cells, plot=False,
        command=f"python -m benchmarks.streams {a.study} --reps {reps}",
    )  # fmt: skip
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
