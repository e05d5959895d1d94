"""Streams larger than memory: what a fit to a file costs beside reading it, its memory, and Dask workers against one.

``python -m benchmarks.long_streams parquet [--rows N] [--folder F]``
``python -m benchmarks.long_streams csv [--rows N] [--folder F]``
``python -m benchmarks.long_streams dask [--rows N] [--folder F]``

The people are those of ``privreg data us-insurance``, all ten predictors. Every job is a process of its own, whose peak
resident memory is the operating system's figure; jobs alternate, and the smallest time of each is taken.

parquet, csv: the whole call of the user against a bare read of the same columns, by pyarrow in batches or by pandas in
chunks, and the same fit to encoded arrays in memory (a part of the rows, its time per row taken times all), which is
the engine with its noise. dask: 16 Parquet files, a cluster with one worker, with two and with four, a thread each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import save_table
from privreg.cli.verbs import DATA_SETS

FORMULA = DATA_SETS["us-insurance"][1]
IN_MEMORY = 2_000_000
FILES = 16


def columns() -> list[str]:
    """Columns of the formula."""
    return list(model(None)._spec.design.columns)


def model(data: Any) -> pr.PrivateOnlineRegression:
    """The model that every job fits."""
    public = pr.datasets.us_insurance_schema()
    return pr.PrivateOnlineRegression.from_formula(FORMULA, data, mu=1, **public)


# --- jobs, each in a process of its own ----------------------------------------------------------------------


def read_parquet(path: str) -> int:
    """Read the columns in batches, and do nothing with them."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return sum(len(batch) for batch in file.iter_batches(65_536, columns=columns()))


def read_csv(path: str) -> int:
    """The same by pandas, text as text."""
    return sum(len(chunk) for chunk in pd.read_csv(path, usecols=columns(), chunksize=65_536))


def fit(path: str) -> int:
    """The user's call."""
    return int(model(path).fit(progress=False).nobs)


def fit_with_one_thread(path: str) -> int:
    """The same with one thread."""
    return int(model(path).fit(progress=False, threads=1).nobs)


def _encoded() -> tuple[Any, Any, Any]:
    described = model(pr.datasets.us_insurance(IN_MEMORY))
    source, design = described._source, described._spec.design
    assert source is not None
    parts = [design.encode(batch, "raise") for batch in source.batches(0)]
    y, x = np.concatenate([p.endog for p in parts]), np.concatenate([p.exog for p in parts])
    return described, y, x


def encode(_: str) -> int:
    """Encode rows in memory."""
    described = model(pr.datasets.us_insurance(IN_MEMORY))
    source = described._source
    assert source is not None
    begin = time.perf_counter()
    for batch in source.batches(0):
        described._spec.design.encode(batch, "raise")
    raise Timed(time.perf_counter() - begin, IN_MEMORY)


def kernel(_: str) -> int:
    """The engine with its noise, one thread, on encoded rows in memory."""
    described, y, x = _encoded()
    stream = described.start(threads=1)
    units = described._spec.units
    run = stream._run
    inside = np.array(x)
    units.rows_inside(inside)
    inside = np.ascontiguousarray(inside[:, stream._encoder.order])
    response = units.response_inside(y)
    run.advance(response[:100_000], inside[:100_000])  # compiled, and through the lead
    begin = time.perf_counter()
    run.advance(response[100_000:], inside[100_000:])
    raise Timed(time.perf_counter() - begin, IN_MEMORY - 100_000)


class Timed(Exception):
    """A job that has timed itself, on so many rows."""

    def __init__(self, seconds: float, rows: int) -> None:
        super().__init__(seconds, rows)
        self.seconds, self.rows = seconds, rows


def dask(path: str, workers: int) -> int:
    """Fit on a cluster of so many workers, a thread each."""
    import distributed

    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        files = sorted(map(str, Path(path).glob("*.parquet")))
        model(files[:1]).fit(client=client, progress=False)  # imports and compiled code, in every worker
        described = model(files)
        begin = time.perf_counter()
        res = described.fit(client=client, progress=False, seed=1)
        seconds = time.perf_counter() - begin
    print(res.params.to_numpy().tobytes().hex(), file=sys.stderr)
    raise Timed(seconds, int(res.nobs))


JOBS: dict[str, Callable[[str], int]] = {
    "read_parquet": read_parquet,
    "read_csv": read_csv,
    "fit": fit,
    "fit_with_one_thread": fit_with_one_thread,
    "encode": encode,
    "kernel": kernel,
    "one_worker": lambda path: dask(path, 1),
    "two_workers": lambda path: dask(path, 2),
    "four_workers": lambda path: dask(path, 4),
}


def job(name: str, path: str) -> None:
    """Run a job and print what it took."""
    begin = time.perf_counter()
    try:
        rows = JOBS[name](path)
        seconds = time.perf_counter() - begin
    except Timed as t:
        rows, seconds = t.rows, t.seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"job": name, "rows": rows, "seconds": seconds, "peak_mb": peak}))


def timed(name: str, path: Path) -> dict[str, Any]:
    """A job in a process of its own."""
    given = [sys.executable, "-m", "benchmarks.long_streams", "job", name, str(path)]
    out = subprocess.run(given, capture_output=True, text=True, check=False)
    if out.returncode:
        raise RuntimeError(out.stderr[-2000:])
    found: dict[str, Any] = json.loads(out.stdout.strip().splitlines()[-1])
    found["bits"] = out.stderr.strip().splitlines()[-1][:32] if name.endswith(("worker", "workers")) else ""
    print(found, flush=True)
    return found


# --- studies -------------------------------------------------------------------------------------------------


def data(folder: Path, rows: int, suffix: str) -> Path:
    """The people's file, made by the command line if it isn't there."""
    path = folder / f"us-insurance-{rows}{suffix}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "privreg", "data", "us-insurance", str(path), "--rows", str(rows)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return path


def pieces(folder: Path, rows: int) -> Path:
    """The same people in 16 files."""
    import pyarrow.parquet as pq

    out = folder / f"us-insurance-{rows}-pieces"
    if not out.exists():
        source = data(folder, rows, ".parquet")
        part = out.with_name(out.name + "~")
        part.mkdir(parents=True, exist_ok=True)
        with pq.ParquetFile(source) as file:
            each, writer, written, number = -(-rows // FILES), None, 0, 0
            for batch in file.iter_batches(131_072):
                if writer is None:
                    writer = pq.ParquetWriter(part / f"{number:02d}.parquet", batch.schema)
                writer.write_batch(batch)
                written += len(batch)
                if written >= each:
                    writer.close()
                    writer, written, number = None, 0, number + 1
            if writer is not None:
                writer.close()
        part.rename(out)
    return out


def study(what: str, rows: int, folder: Path, rounds: int) -> pd.DataFrame:
    """Run the jobs of a study; a row a job, its smallest time, and ratios."""
    if what == "dask":
        path, names = pieces(folder, rows), ["one_worker", "two_workers", "four_workers"]
    else:
        path = data(folder, rows, ".parquet" if what == "parquet" else ".csv")
        names = [f"read_{what}", "fit", "fit_with_one_thread", "encode", "kernel"]
    found = pd.DataFrame([timed(name, path) for _ in range(rounds) for name in names])
    found["seconds"] *= rows / found["rows"]
    best = found.groupby("job", sort=False).agg({"seconds": "min", "peak_mb": "max", "bits": "first"}).reset_index()
    best.insert(1, "rows", rows)
    seconds = best.set_index("job")["seconds"]
    if what == "dask":
        best["one_over"] = seconds["one_worker"] / best["seconds"]
        best["same_bits"] = found["bits"].nunique() == 1
    else:
        best["over_read"] = best["seconds"] / seconds[f"read_{what}"]
        best["over_read_and_kernel"] = best["seconds"] / (seconds[f"read_{what}"] + seconds["kernel"])
    best["ns_a_row"] = best["seconds"] / rows * 1e9
    return best.round(
        {"seconds": 2, "peak_mb": 0, "over_read": 3, "over_read_and_kernel": 3, "ns_a_row": 1, "one_over": 3}
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["parquet", "csv", "dask", "job"])
    parser.add_argument("job", nargs="*")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/people"), help="for the people's files")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    a = parser.parse_args(arguments)
    if a.what == "job":
        job(*a.job)
        return
    rows = a.rows or {"parquet": 100_000_000, "csv": 5_000_000, "dask": 50_000_000}[a.what]
    table = study(a.what, rows, a.folder, a.rounds)
    save_table(
        table,
        a.out / f"long_{a.what}.csv",
        f"python -m benchmarks.long_streams {a.what} --rows {rows} --rounds {a.rounds}",
    )
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
