"""What fits of noised sums take: a curator's beside statsmodels, two collectors' beside scikit-learn, in one run.

``python -m benchmarks.curator_speed [--quick] [--repeats R] [--out FILE]``

Every job runs once to warm up; then the jobs take turns. `seconds` and `processor` are medians of the time on the wall
and of the processors' time, and `ratio` and `processor_ratio` medians over turns of a job's time divided by that, in
the same turn, of the job it is `beside`. On a machine that others use the processors' time says more.

Data as in `benchmarks.speed`: independent covariates uniform on [−1, 1], p = 11 coefficients unless another p is shown,
μ = 1, models described and fitted with default options, results included.

side by side
    Frames in memory and Parquet files; statsmodels by formula with its standard errors, scikit-learn one pass of
    averaged SGD over arrays.
growth in n, growth in p
    A curator's fit of a frame, for a record.
start
    Seconds of the first fit, of 5,000 rows, in a fresh process: with loops compiled before, or not.
memory
    Rise of the process's peak over a fit of 5,000 rows, in MB. Of a Parquet file rows are held up to 4 GiB of them;
    `not held` is a fit for which that is 64 MiB, so that it reads the file again in each round.

Table curator_speed.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.speed import NUMBERS, NUMERIC, bounds, child, frame, of_frame, peak_kib, sklearn_pass
from benchmarks.store import save_table

OUT = Path(__file__).with_name("results") / "curator_speed.csv"
CHUNK = 1_000_000
RLM, LOGIT, PASS = "statsmodels RLM", "statsmodels Logit", "scikit-learn averaged Huber SGD, arrays"
FRAME, PARQUET = "DataFrame", "Parquet"
HUBER_LIMITS, YES_NO = (-8.0, 8.0), (0.0, 1.0)


class Row(NamedTuple):
    """One line of the table."""

    section: str
    job: str
    rows: int
    p: int
    unit: str
    seconds: float
    processor: float = math.nan
    beside: str = ""
    ratio: float = math.nan
    processor_ratio: float = math.nan


def fit(trust: str, family: str, data: Any, names: Sequence[str] = NUMBERS) -> Any:
    """A whole fit."""
    limits = YES_NO if family == "logistic" else HUBER_LIMITS
    formula = "y ~ " + " + ".join(names)
    model = pr.PrivateOnlineRegression.from_formula(
        formula, data, mu=1.0, family=family, bounds={**bounds(names), "y": limits}, trust=trust
    )
    return model.fit(progress=False)


def answers(data: pd.DataFrame) -> pd.DataFrame:
    """The same people's yes or no."""
    rng = np.random.Generator(np.random.SFC64(4))
    return data.assign(y=(rng.random(len(data)) < 1.0 / (1.0 + np.exp(-data["y"]))).astype(float))


def take_turns(section: str, jobs: Mapping[str, Callable[[], object]], n: int, p: int, repeats: int,
               beside: Mapping[str, str], each: float = 1.0) -> list[Row]:  # fmt: skip
    """Time the jobs in turn, after each has run once, over `each`; `beside` names the job that one is held against."""
    wall: dict[str, list[float]] = {name: [] for name in jobs}
    processor: dict[str, list[float]] = {name: [] for name in jobs}
    for run in jobs.values():
        run()
    for _ in range(repeats):
        for name, run in jobs.items():
            gc.collect()
            begin, used = time.perf_counter(), time.process_time()
            run()
            processor[name].append((time.process_time() - used) / each)
            wall[name].append((time.perf_counter() - begin) / each)
    out = []
    for name in jobs:
        unit, medians = "s" if each == 1.0 else "ns/record", [float(np.median(t[name])) for t in (wall, processor)]
        row = Row(section, name, n, p, unit, *medians)
        if other := beside.get(name):
            ratios = [float(np.median(np.array(t[name]) / t[other])) for t in (wall, processor)]
            row = row._replace(beside=other, ratio=ratios[0], processor_ratio=ratios[1])
        out.append(row)
    return out


def side_by_side(n: int, repeats: int, folder: Path) -> list[Row]:
    """Fits of frames and files, and other libraries."""
    import statsmodels.formula.api as smf

    people = frame(n)
    binary = answers(people)
    files = {"huber": folder / "people.parquet", "logistic": folder / "binary.parquet"}
    people.to_parquet(files["huber"])
    binary.to_parquet(files["logistic"])
    jobs: dict[str, Callable[[], object]] = {
        RLM: lambda: smf.rlm(NUMERIC, people).fit().bse,
        LOGIT: lambda: smf.logit(NUMERIC, binary).fit(disp=False).bse,
        PASS: sklearn_pass(*of_frame(people))[1],
        f"curator, Huber, {FRAME}": lambda: fit("central", "huber", people),
        f"curator, Huber, {PARQUET}": lambda: fit("central", "huber", files["huber"]),
        f"curator, logit, {FRAME}": lambda: fit("central", "logistic", binary),
        f"curator, logit, {PARQUET}": lambda: fit("central", "logistic", files["logistic"]),
        f"two collectors, Huber, {FRAME}": lambda: fit("two_collectors", "huber", people),
        f"two collectors, Huber, {PARQUET}": lambda: fit("two_collectors", "huber", files["huber"]),
    }
    others = {"curator, Huber": RLM, "curator, logit": LOGIT, "two collectors, Huber": PASS}
    beside = {name: other for name in jobs for what, other in others.items() if name.startswith(what)}
    return take_turns("side by side", jobs, n, 11, repeats, beside)


def growth(n: int, widths: Sequence[int], repeats: int) -> list[Row]:
    """Fits of frames by rows and by columns."""
    people, out = frame(n), list[Row]()
    for rows in (n // 50, n // 10, n):
        part = people.iloc[:rows]
        jobs = {"curator, Huber": lambda part=part: fit("central", "huber", part)}
        out += take_turns("growth in n", jobs, rows, 11, repeats, {}, rows * 1e-9)
    rng = np.random.default_rng(7)
    for p in widths:
        rows = n // 5
        names = [f"x{j}" for j in range(1, p)]
        data = pd.DataFrame(rng.uniform(-1.0, 1.0, (rows, p - 1)), columns=names)
        data["y"] = data.to_numpy() @ np.linspace(-0.5, 0.5, p - 1) / math.sqrt(p) + 0.3 * rng.standard_normal(rows)
        jobs = {"curator, Huber": lambda data=data, names=names: fit("central", "huber", data, names)}
        out += take_turns("growth in p", jobs, rows, p, repeats, {}, rows * 1e-9)
    return out


# --- in processes of their own ---------------------------------------------------------------------------


def first(trust: str) -> None:
    """Print the seconds of a process's first fit."""
    data = frame(5_000)
    begin = time.perf_counter()
    fit(trust, "huber", data)
    print(json.dumps({"s": time.perf_counter() - begin}))


def starts(repeats: int) -> list[Row]:
    """First fits, the first of each cache cold."""
    out = []
    for trust, name in (("central", "curator"), ("two_collectors", "two collectors")):
        code = f"from benchmarks.curator_speed import first; first({trust!r})"
        cold, warm = list[float](), list[float]()
        for _ in range(repeats):
            with tempfile.TemporaryDirectory(prefix="privreg-numba-") as cache:
                cold.append(child(code, NUMBA_CACHE_DIR=cache)["s"])
                warm.append(child(code, NUMBA_CACHE_DIR=cache)["s"])
        for what, times in (("cold", cold), ("warm", warm)):
            out.append(Row("start", f"{name}, {what}", 5_000, 11, "s", float(np.median(times))))
    return out


def written(path: Path, n: int) -> None:
    """Write rows to a Parquet file, part by part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(9), None
    for _ in range(0, n, CHUNK):
        rows = min(CHUNK, n)
        x = rng.uniform(-1.0, 1.0, (rows, len(NUMBERS)))
        y = x @ np.linspace(-0.4, 0.5, len(NUMBERS)) + 0.3 * rng.standard_normal(rows)
        table = pa.table({**{name: x[:, j] for j, name in enumerate(NUMBERS)}, "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def memory_of_fit(path: str, held: bool) -> None:
    """Print the seconds of a fit of a file, and the rise of the peak of this process, in MB."""
    from privreg.simulation import aggregate

    fit("central", "huber", frame(5_000))
    if not held:
        aggregate.HELD = 1 << 26  # type: ignore[misc]
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from the present size
    before, begin = peak_kib(), time.perf_counter()
    fit("central", "huber", Path(path))
    print(json.dumps({"MB": (peak_kib() - before) * 1024 / 1e6, "s": time.perf_counter() - begin}))


def memory(sizes: Sequence[int], folder: Path) -> list[Row]:
    """Memory of fits of files."""
    out = []
    for n in sizes:
        path = folder / f"{n}.parquet"
        written(path, n)
        for held in (True, False):
            name = f"curator, Huber, {PARQUET}, {'held' if held else 'not held'}"
            code = f"from benchmarks.curator_speed import memory_of_fit; memory_of_fit({str(path)!r}, {held})"
            found = child(code)
            out += [Row("memory", name, n, 11, "MB", found["MB"]), Row("memory", name, n, 11, "s", found["s"])]
        path.unlink()
    return out


def targets(rows: Sequence[Row]) -> list[str]:
    """What was aimed at, and whether it was met."""
    out = []
    for row in rows:
        most = {RLM: 2.0, LOGIT: 4.0, PASS: 4.0}.get(row.beside)
        if most is not None:
            met = " and ".join("met" if v <= most else "missed" for v in (row.ratio, row.processor_ratio))
            got = f"{row.ratio:.2f}, {row.processor_ratio:.2f} by the processors' time: {met}"
            out.append(f"target {row.job} / {row.beside}: at most {most:g} times, got {got}")
    peaks = {r.rows: r.seconds for r in rows if r.section == "memory" and r.unit == "MB" and "not held" in r.job}
    if peaks:
        out.append("peak of rows that aren't held: " + ", ".join(f"{n:,} rows {v:.0f} MB" for n, v in peaks.items()))
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.curator_speed", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="fewer rows and turns: a look, not a measurement")
    parser.add_argument("--repeats", type=int, help="turns (default 3)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the table is stored")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if importlib.util.find_spec("sklearn") is None:
        parser.exit(2, 'scikit-learn is missing; install the extra: pip install ".[bench]"\n')
    n, repeats, busy = 100_000 if given.quick else 1_000_000, given.repeats or 3, os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="privreg-speed-") as folder:
        rows = starts(1 if given.quick else 2)
        rows += memory((10 * n,) if given.quick else (n, 3 * n, 10 * n), Path(folder))
        rows += side_by_side(n, repeats, Path(folder))
        rows += growth(n, (3, 6, 11, 21, 41), repeats)
    words = " ".join(["python -m benchmarks.curator_speed", *(sys.argv[1:] if arguments is None else arguments)])
    others = ", ".join(f"{name} {version(name)}" for name in ("scikit-learn", "statsmodels"))
    lines = [
        f"further versions: {others}",
        f"processes that wanted a processor: {busy:.1f} before, {os.getloadavg()[0]:.1f} after",
        *targets(rows),
    ]
    table = pd.DataFrame(rows, columns=Row._fields).round(4)
    save_table(table, given.out, words, tuple(lines))
    print(table.to_string(index=False), *lines, sep="\n")


if __name__ == "__main__":
    main()
