"""What reading and encoding cost beside the fit, other readers and another library's pass, in one run.

``python -m benchmarks.reading [--rows N] [--repeats R] [--files] [--out FILE]``

The insurance formula of the README, 20 coefficients, from a frame with categories and with strings, CSV and Parquet.
Jobs take turns, as in `benchmarks.speed`; the table has medians, and medians over rounds of ratios within a round.

rows
    Reading and encoding alone: batches of rows in internal units, nobody asked.
fit
    The whole of `from_formula` and `fit`.
pass
    Reading, encoding and playing all devices, without the time of the thread in which the collector computes between
    rounds and at the end: a fifth of a second or so with 20 coefficients, however many records there are. Meanwhile
    other threads encode.
scikit-learn
    One pass of averaged SGD with the Huber loss over an array of as many columns; no privacy, no standard errors.

With ``--files`` there are only fits of files and of a DataFrame of ten columns of numbers, beside pandas' reading of
the file, in seconds and as time of all processors; they go to benchmarks/results/reading_files.csv.

Results go to benchmarks/results/reading.csv with the command, versions and date that made them.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.speed import Job
from benchmarks.store import save_table
from privreg.collector import rounds
from privreg.data.sources.open import open_arrays

OUT = Path("benchmarks/results/reading.csv")
FILES = OUT.with_name("reading_files.csv")
FORMULA = (
    "charges ~ age + gender + bmi + children + smoker + medical_history + family_medical_history + exercise_frequency"
    " + occupation + coverage_level"
)
SKLEARN = "scikit-learn averaged Huber SGD, arrays"
PANDAS, ARROW = "pandas read_csv", "pyarrow read_table"
FORMS = ("categories", "strings", "CSV", "Parquet")
TARGETS = (
    ("categories", SKLEARN, 2.5),
    ("strings", SKLEARN, 5.0),
    ("CSV", PANDAS, 3.0),
    ("Parquet", f"{ARROW} and fit, arrays", 2.0),
)


OF_FILES = (("fit of the CSV file", PANDAS, 2.5), ("fit of the Parquet file", "fit of the DataFrame", 1.2))
"""Pairs timed in one run, with the largest ratio asked."""


class Row(NamedTuple):
    """One line of the table."""

    section: str
    job: str
    rows: int
    p: int
    unit: str
    median: float
    minimum: float
    beside: str = ""  # What the ratio is to
    ratio: float = math.nan


class Aside:
    """Time that the collector took for itself."""

    def __init__(self) -> None:
        self.ns = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Take the time of what advances rounds."""
        before = rounds.advance

        def timed(*args: Any) -> Any:
            begin = time.perf_counter_ns()
            try:
                return before(*args)
            finally:
                self.ns += time.perf_counter_ns() - begin

        rounds.advance = timed
        try:
            yield
        finally:
            rounds.advance = before


ASIDE = Aside()


def turns(jobs: Mapping[str, Job], repeats: int) -> dict[str, np.ndarray]:
    """Time the jobs in turn; ns per record of each, shape (repeats,), without what was put aside."""
    out: dict[str, list[float]] = {name: [] for name in jobs}
    for k in range(repeats + 1):
        for name, (n, run) in jobs.items():
            gc.collect()
            ASIDE.ns, begin = 0, time.perf_counter_ns()
            run()
            if k:  # the first time warms up
                out[name].append((time.perf_counter_ns() - begin - ASIDE.ns) / n)
    return {name: np.array(times) for name, times in out.items()}


def play(model: pr.PrivateOnlineRegression, source: Any) -> None:
    """All devices of a model, and no results."""
    stream = model.start()
    with ASIDE.kept():
        for _ in stream._update_all(stream.read(source), 2):
            pass


class Forms:
    """The same records in every form."""

    def __init__(self, n: int, folder: Path) -> None:
        rows = pr.datasets.us_insurance(n)
        self.n, self.schema = n, rows.attrs["privreg"]
        texts = [c for c in rows if rows[c].dtype.kind not in "biuf"]
        rows.to_csv(folder / f"{n}.csv", index=False)
        rows.to_parquet(folder / f"{n}.parquet", index=False)
        self.held: dict[str, Any] = {
            "categories": rows.astype(dict.fromkeys(texts, "category")),
            "strings": rows.astype(dict.fromkeys(texts, "str")),
            "Parquet": folder / f"{n}.parquet",
            "CSV": folder / f"{n}.csv",
        }

    def model(self, form: str) -> pr.PrivateOnlineRegression:
        """The model of a form."""
        declared = {key: self.schema[key] for key in ("bounds", "levels")}
        return pr.PrivateOnlineRegression.from_formula(
            FORMULA, self.held[form], mu=1.0, family=pr.Huber(scale=2500), rows=self.n, **declared
        )

    def fit(self, form: str) -> Job:
        """A whole fit."""

        def run() -> None:
            self.model(form).fit(progress=False)

        return self.n, run

    def play(self, form: str) -> Job:
        """A pass."""
        model = self.model(form)

        def run() -> None:
            play(model, model._spec.open(self.held[form]))

        return self.n, run

    def read(self, form: str) -> Job:
        """Reading and encoding alone."""
        encode = _encoding(self.model(form), self.held[form])

        def run() -> None:
            encode()

        return self.n, run


def arrays(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Response and covariates, shapes (n,) and (n, p), the first column ones."""
    rng = np.random.Generator(np.random.SFC64(p))
    x = rng.uniform(-1.0, 1.0, (n, p))
    x[:, 0] = 1.0
    return x @ np.linspace(-0.5, 0.5, p) + 0.3 * rng.standard_normal(n), x


def array_jobs(y: np.ndarray, x: np.ndarray) -> dict[str, Job]:
    names = ["const", *(f"x{j}" for j in range(1, x.shape[1]))]
    bounds = {**dict.fromkeys(names[1:], (-1.0, 1.0)), "y": (-8.0, 8.0)}
    model = pr.PrivateOnlineRegression(
        y, x, exog_names=names, endog_name="y", mu=1.0, family=pr.Huber(scale=0.3), bounds=bounds
    )
    return {
        "fit, arrays": (len(y), lambda: model.fit(progress=False)),
        "pass, arrays": (len(y), lambda: play(model, open_arrays((y, x, None, None)))),
    }


def sklearn_pass(y: np.ndarray, x: np.ndarray) -> Job:
    from sklearn.linear_model import SGDRegressor

    how = {"loss": "huber", "epsilon": 0.3, "average": True, "max_iter": 1, "shuffle": False}
    return len(y), lambda: SGDRegressor(**how, tol=None, penalty=None).fit(x, y)


def forms(n: int, repeats: int, folder: Path) -> tuple[list[Row], list[str]]:
    """All forms beside what they are held against."""
    import pyarrow.parquet as pq

    held = Forms(n, folder)
    y, x = arrays(n, 20)
    jobs: dict[str, Job] = {
        SKLEARN: sklearn_pass(y, x),
        **array_jobs(y, x),
        PANDAS: (n, lambda: pd.read_csv(folder / f"{n}.csv")),
        ARROW: (n, lambda: pq.read_table(folder / f"{n}.parquet")),
    }
    for form in FORMS:
        jobs[f"rows, {form}"] = held.read(form)
        jobs[f"pass, {form}"] = held.play(form)
        jobs[f"fit, {form}"] = held.fit(form)
    times = turns(jobs, repeats)
    for what in ("fit", "pass"):
        times[f"{ARROW} and {what}, arrays"] = times[ARROW] + times[f"{what}, arrays"]
    beside = {form: against for form, against, _ in TARGETS}
    out = []
    for name, t in times.items():
        what, _, form = name.partition(", ")
        against = beside.get(form, "")
        if against and form == "Parquet":
            against = f"{ARROW} and {'pass' if what == 'pass' else 'fit'}, arrays"
        ratio = float(np.median(t / times[against])) if against else math.nan
        out.append(Row("forms", name, n, 20, "ns/record", float(np.median(t)), float(t.min()), against, ratio))
    found = {row.job: row for row in out}
    lines = []
    for form, _, most in TARGETS:
        for what in ("fit", "pass", "rows"):
            row = found[f"{what}, {form}"]
            lines.append(f"{what}, {form}, by {row.beside}: {row.ratio:.2f} (target of a fit: at most {most:g})")
    return out, lines


def of_files(n: int, repeats: int, folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Fits of a file and of a DataFrame, and pandas' reading, in turn: medians, and medians of ratios in a round."""
    y, x = arrays(n, 10)
    names = [f"x{j}" for j in range(1, 10)]
    rows = pd.DataFrame(x[:, 1:], columns=names).assign(y=y)
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet", index=False)
    public = {"bounds": {**dict.fromkeys(names, (-1, 1)), "y": (-8, 8)}, "mu": 1.0, "family": pr.Huber(scale=0.3)}

    def fit(data: object) -> None:
        pr.PrivateOnlineRegression.from_formula("y ~ " + " + ".join(names), data, **public).fit(progress=False)

    jobs = {
        PANDAS: lambda: pd.read_csv(folder / "rows.csv"),
        "fit of the DataFrame": lambda: fit(rows),
        "fit of the CSV file": lambda: fit(folder / "rows.csv"),
        "fit of the Parquet file": lambda: fit(folder / "rows.parquet"),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for k in range(repeats + 1):
        for name, run in jobs.items():
            gc.collect()
            begin = time.perf_counter(), time.process_time()
            run()
            if k:  # the first time warms up
                times[name].append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    took = {name: np.array(some) for name, some in times.items()}
    beside, most = {job: b for job, b, _ in OF_FILES}, {job: m for job, _, m in OF_FILES}
    table, lines = [], []
    for name, seconds in took.items():
        ratios = np.median(seconds / took[beside[name]], axis=0) if name in beside else np.full(2, math.nan)
        table.append((name, n, *np.median(seconds, axis=0), beside.get(name, ""), *ratios))
        if name in beside:
            lines.append(
                f"{name}, by {beside[name]}: {ratios[0]:.2f}, of processors {ratios[1]:.2f} (target {most[name]:g})"
            )
    columns = ["job", "rows", "seconds", "processor", "beside", "ratio", "processor_ratio"]
    return pd.DataFrame(table, columns=columns), lines


def growth(n: int, repeats: int) -> list[Row]:
    """Encoding a frame by numbers of columns and of factors with four levels."""
    rng = np.random.default_rng(1)
    numbers = {f"x{j}": rng.uniform(-1, 1, n) for j in range(40)}
    factors = {f"f{j}": pd.Categorical.from_codes(rng.integers(4, size=n), list("abcd")) for j in range(16)}
    data = pd.DataFrame({**numbers, **factors, "y": rng.uniform(-1, 1, n)})
    bounds, levels = dict.fromkeys([*numbers, "y"], (-1, 1)), {name: list("abcd") for name in factors}
    kinds = {"numbers": (list(numbers), (5, 10, 20, 40)), "factors": (list(factors), (2, 4, 8, 16))}
    jobs: dict[str, Job] = {}
    wide = {}
    for kind, (names, counts) in kinds.items():
        for k in counts:
            model = pr.PrivateOnlineRegression.from_formula(
                "y ~ " + " + ".join(names[:k]), data, mu=1, bounds=bounds, levels=levels
            )
            jobs[f"{k} {kind}"] = (n, _encoding(model, data))
            wide[f"{k} {kind}"] = len(model.start()._spec.design.names)
    times = turns(jobs, repeats)
    return [
        Row("rows of a frame", name, n, wide[name], "ns/record", float(np.median(t)), float(t.min()))
        for name, t in times.items()
    ]


def _encoding(model: pr.PrivateOnlineRegression, data: pd.DataFrame) -> Callable[[], None]:
    stream = model.start()

    def run() -> None:
        for batch in stream.read(stream._spec.open(data)):
            stream._encoder.encode(batch)

    return run


def workers(n: int, repeats: int, folder: Path) -> list[Row]:
    """Fits of Parquet files by one Dask worker and by two."""
    from distributed import Client, LocalCluster

    held = Forms(n, folder)
    jobs: dict[str, Job] = {}
    open_ones: list[Any] = []
    for k in (1, 2):
        cluster = LocalCluster(n_workers=k, threads_per_worker=1, dashboard_address=None)
        client = Client(cluster)
        open_ones += [client, cluster]
        jobs[f"{k} worker{'s' * (k > 1)}"] = (
            n,
            lambda client=client: held.model("Parquet").fit(client=client, progress=False),
        )
    times = turns(jobs, repeats)
    for one in open_ones:
        one.close()
    first, second = times.values()
    rows = [Row("Dask", name, n, 20, "ns/record", float(np.median(t)), float(t.min())) for name, t in times.items()]
    gain = float(np.median(first / second))
    return [*rows, Row("Dask", "gain of a second worker", n, 20, "times", gain, float((first / second).min()))]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="records (default 1,000,000)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--dask", type=int, default=0, help="records of the fits by Dask workers, none by default")
    parser.add_argument("--files", action="store_true", help="fits of files of ten columns only")
    parser.add_argument("--out", type=Path, help=f"where the table is stored (default {OUT}, or {FILES})")
    given = parser.parse_args(arguments)
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        if given.files:
            table, lines = of_files(given.rows, given.repeats, Path(folder))
        else:
            rows, lines = forms(given.rows, given.repeats, Path(folder))
            rows += growth(given.rows, given.repeats)
            if given.dask:
                rows += workers(given.dask, max(given.repeats // 2, 1), Path(folder))
            table = pd.DataFrame(rows, columns=Row._fields)
    lines.append(f"processes that wanted a processor: {busy:.1f} before, {os.getloadavg()[0]:.1f} after")
    words = " ".join(["python -m benchmarks.reading", *(sys.argv[1:] if arguments is None else arguments)])
    save_table(table.round(3), given.out or (FILES if given.files else OUT), words, tuple(lines))
    print(table.round(3).to_string(index=False), *lines, sep="\n")


if __name__ == "__main__":
    main()
