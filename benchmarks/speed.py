"""What a record costs: whole fits beside other libraries, their growth, memory and start, in one run.

``python -m benchmarks.speed [--quick] [--repeats R] [--out FILE]``

Clocks drift, so only ratios measured side by side mean anything. Every job runs once to warm up; then the jobs
take turns (A B C A B C …). The table shows median and minimum in ns per record, and the median over rounds of a
job's time divided, within the same round, by that of what it is beside.

Data: independent covariates uniform on [−1, 1], a linear response with normal errors, Huber score, mu = 1,
p = 11 coefficients unless another p is shown.

noise alone
    A standard normal for each coefficient of each record, from the cipher stream of the published algorithm.
fit()
    The whole of `fit` on a model that is already described: reading, checking, clamping, coding, scaling, noise,
    rounds, inference. Default options, thus as many threads as processors, unless it says how many.
published
    The same with `tuning="published"`, a report at a time.
scikit-learn
    One pass of averaged SGD with the Huber loss over arrays; no privacy, no standard errors.
statsmodels
    OLS from the same formula and frame, formula handling and its covariance included; no privacy.

Memory is the rise of the process's peak over a process that already holds the data and has fitted 1,000 rows.
Starts are timed inside fresh processes; cold means an empty cache of compiled kernels.

Results go to benchmarks/results/speed.csv with the command, versions and date that made them.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import save_table
from privreg.privacy.noise import NoiseStream

ROOT = Path(__file__).resolve().parents[1]
OUT = Path(__file__).with_name("results") / "speed.csv"
SD = 0.3
RANGE = 8.0
NUMBERS = [f"x{j}" for j in range(1, 11)]
FACTORS = {"a": ["no", "yes"], "b": ["left", "right"], "c": ["low", "mid", "high"], "d": ["x", "y", "z"]}
FEWER = NUMBERS[:4]  # with the factors' six dummies and the intercept: p = 11 again
NUMERIC = "y ~ " + " + ".join(NUMBERS)
MIXED = "y ~ " + " + ".join([*FEWER, *FACTORS])
NOISE, SKLEARN = "noise alone", "scikit-learn averaged Huber SGD, arrays"
FRAME = "fit(), DataFrame, 10 numeric columns"
ONE, TWO = "fit(), one thread", "fit(), two threads"
KEY = bytes(32)

Job = tuple[int, Callable[[], object]]
"""Records and what to run over them."""


class Row(NamedTuple):
    """One line of the table; times in `unit`, the ratio within a round."""

    section: str
    job: str
    rows: int
    p: int
    unit: str
    median: float
    minimum: float
    beside: str = ""
    ratio: float = math.nan


# --- jobs ----------------------------------------------------------------------------------------------


def arrays(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Response and covariates with their column of ones, shapes (n,) and (n, p)."""
    rng = np.random.Generator(np.random.SFC64(p))
    x = rng.uniform(-1.0, 1.0, (n, p))
    x[:, 0] = 1.0
    y = x @ np.linspace(-0.5, 0.5, p) + SD * rng.standard_normal(n)
    return y, x


def frame(n: int) -> pd.DataFrame:
    """Ten numeric columns and the response, each in an array of its own, as read from a file."""
    rng = np.random.Generator(np.random.SFC64(1))
    out = {name: rng.uniform(-1.0, 1.0, n) for name in NUMBERS}
    y = SD * rng.standard_normal(n)
    for j, name in enumerate(NUMBERS):
        y += (0.1 * j - 0.5) * out[name]
    return pd.DataFrame({**out, "y": y}, copy=False)


def with_factors(data: pd.DataFrame, as_category: bool) -> pd.DataFrame:
    """Four numeric columns and four factors."""
    rng = np.random.Generator(np.random.SFC64(2))
    out = {name: data[name] for name in [*FEWER, "y"]}
    for name, levels in FACTORS.items():
        codes = rng.integers(len(levels), size=len(data))
        if as_category:
            out[name] = pd.Categorical.from_codes(codes, levels)
        else:
            out[name] = pd.Series(np.array(levels, dtype=object)[codes]).astype("str")
    return pd.DataFrame(out, copy=False)


def bounds(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Declared bounds, shared by all covariates."""
    return {**dict.fromkeys(names, (-1.0, 1.0)), "y": (-RANGE, RANGE)}


def formula_model(formula: str, data: pd.DataFrame) -> pr.PrivateOnlineRegression:
    """A model of a frame."""
    names = [c for c in data.columns if c in NUMBERS]
    levels = {c: FACTORS[c] for c in data.columns if c in FACTORS}
    return pr.PrivateOnlineRegression.from_formula(
        formula, data, mu=1.0, family=pr.Huber(scale=SD), bounds=bounds(names), levels=levels
    )


def array_model(y: np.ndarray, x: np.ndarray) -> pr.PrivateOnlineRegression:
    """A model of arrays."""
    names = ["const", *(f"x{j}" for j in range(1, x.shape[1]))]
    return pr.PrivateOnlineRegression(
        y, x, exog_names=names, endog_name="y", mu=1.0, family=pr.Huber(scale=SD), bounds=bounds(names[1:])
    )


def noise(n: int, p: int) -> Job:
    """Noise and nothing else."""

    def draw() -> None:
        stream, left = NoiseStream(KEY, p), n
        while left > 0:
            rows = stream.peek().shape[0]
            stream.advance(rows)
            left -= rows

    return n, draw


def fit(model: pr.PrivateOnlineRegression, n: int, **more: object) -> Job:
    """A whole fit."""
    return n, lambda: model.fit(progress=False, **more)


def sklearn_pass(y: np.ndarray, x: np.ndarray) -> Job:
    """Scikit-learn's pass over C-ordered arrays of its own: nothing to convert."""
    from sklearn.linear_model import SGDRegressor

    how = {"loss": "huber", "epsilon": SD, "average": True, "max_iter": 1, "shuffle": False}
    return len(y), lambda: SGDRegressor(**how, tol=None, penalty=None).fit(x, y)


def of_frame(data: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Response and covariates of a frame, writable and C-ordered."""
    return np.array(data["y"]), np.array(data[NUMBERS], order="C")


def statsmodels_ols(data: pd.DataFrame) -> Job:
    """OLS by formula."""
    import statsmodels.formula.api as smf

    return len(data), lambda: smf.ols(NUMERIC, data).fit().bse


# --- timing --------------------------------------------------------------------------------------------


def take_turns(section: str, jobs: Mapping[str, Job], p: int, rounds: int, beside: str = "") -> list[Row]:
    """Time the jobs in turn, after each has run once."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _, run in jobs.values():
        run()
    for _ in range(rounds):
        for name, (n, run) in jobs.items():
            gc.collect()
            begin = time.perf_counter_ns()
            run()
            times[name].append((time.perf_counter_ns() - begin) / n)
    out = []
    for name, t in times.items():
        ratio = float(np.median(np.array(t) / times[beside])) if beside else math.nan
        out.append(Row(section, name, jobs[name][0], p, "ns/record", float(np.median(t)), min(t), beside, ratio))
    return out


def side_by_side(n: int, rounds: int) -> list[Row]:
    """Forms of records, and other libraries."""
    data = frame(n)
    words, categories = with_factors(data, as_category=False), with_factors(data, as_category=True)
    jobs = {
        NOISE: noise(n, 11),
        "fit(), arrays": fit(array_model(*arrays(n, 11)), n),
        FRAME: fit(formula_model(NUMERIC, data), n),
        "from_formula() and fit(), the same": (n, lambda: formula_model(NUMERIC, data).fit(progress=False)),
        "fit(), DataFrame, 4 numeric, 4 factors as strings": fit(formula_model(MIXED, words), n),
        "fit(), DataFrame, 4 numeric, 4 factors as categories": fit(formula_model(MIXED, categories), n),
        "fit(), published, arrays": fit(array_model(*arrays(n, 11)), n, tuning="published"),
        SKLEARN: sklearn_pass(*of_frame(data)),
        "statsmodels OLS, formula and DataFrame": statsmodels_ols(frame(max(n // 5, 1000))),
    }
    return take_turns("side by side", jobs, 11, rounds, SKLEARN)


def growth_in_rows(sizes: Sequence[int], rounds: int) -> list[Row]:
    """Fits of a frame with one thread and two, beside scikit-learn's pass; the estimates must be the same."""
    data, out = frame(max(sizes)), []
    for n in sizes:
        part = data.iloc[:n]
        model = formula_model(NUMERIC, part)
        one, two = (model.fit(progress=False, threads=t, seed=1).params for t in (1, 2))
        assert one.equals(two), "threads changed the estimates"
        jobs = {ONE: fit(model, n, threads=1), TWO: fit(model, n, threads=2), SKLEARN: sklearn_pass(*of_frame(part))}
        out += take_turns("growth in n", jobs, 11, rounds, SKLEARN)
    return out


def growth_in_coefficients(n: int, widths: Sequence[int], rounds: int) -> list[Row]:
    """Fits of arrays beside scikit-learn's pass, by coefficients."""
    out = []
    for p in widths:
        rows = max(n * 11 // max(p, 11), 1000)
        y, x = arrays(rows, p)
        jobs = {"fit(), arrays": fit(array_model(y, x), rows), SKLEARN: sklearn_pass(y, x)}
        out += take_turns("growth in p", jobs, p, rounds, SKLEARN)
    return out


# --- memory and start, in processes of their own -------------------------------------------------------


def child(code: str, **more: str) -> dict[str, float]:
    """What a fresh process prints."""
    env = {**os.environ, **more}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, check=True, capture_output=True, text=True)
    out: dict[str, float] = json.loads(done.stdout)
    return out


def peak_kib() -> float:
    """Peak resident size of this process so far; NaN where the system doesn't tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return math.nan
    return next((float(line.split()[1]) for line in lines if line.startswith("VmHWM")), math.nan)


def memory_of_fit(n: int) -> None:
    """Print the rise of the peak of this process, in MB; run in a process of its own."""
    data = frame(n)
    formula_model(NUMERIC, data.iloc[:1000]).fit(progress=False)
    gc.collect()
    before = math.nan
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from the present size
        before = peak_kib()
    except OSError:
        pass
    formula_model(NUMERIC, data).fit(progress=False)
    print(json.dumps({"MB": (peak_kib() - before) * 1024 / 1e6}))


PEAK = "peak above 1,000 rows fitted"


def memory(sizes: Sequence[int], rounds: int) -> list[Row]:
    """Memory above the data."""
    out = []
    for n in sizes:
        code = f"from benchmarks.speed import memory_of_fit; memory_of_fit({n})"
        rise = [child(code)["MB"] for _ in range(rounds)]
        out.append(Row("memory", PEAK, n, 11, "MB", float(np.median(rise)), min(rise)))
    return out


START = """
import time
begin = time.perf_counter()
import privreg as pr
imported = time.perf_counter()
pr.PrivateOnlineRegression
everything = time.perf_counter()
import json
import numpy as np
import pandas as pd
rng = np.random.default_rng(0)
names = [f"x{j}" for j in range(1, 11)]
data = pd.DataFrame(rng.uniform(-1, 1, (1000, 10)), columns=names)
data["y"] = data["x1"] + 0.3 * rng.standard_normal(1000)
before = time.perf_counter()
pr.PrivateOnlineRegression.from_formula(
    "y ~ " + " + ".join(names), data, mu=1, family=pr.Huber(scale=0.3),
    bounds={**dict.fromkeys(names, (-1, 1)), "y": (-8, 8)},
).fit(progress=False)
end = time.perf_counter()
print(json.dumps({"import": imported - begin, "everything": everything - begin, "fit": end - before,
                  "whole": end - begin}))
"""
IMPORT, EVERYTHING = "import privreg", "import privreg and the model class"
COLD, WARM = "first fit after import, cold cache", "first fit after import, warm cache"
WHOLE = "import and first fit, warm cache"


def starts(colds: int, warms: int) -> list[Row]:
    """Fresh processes, the first of each cache cold."""
    cold, warm = [], []
    for _ in range(colds):
        with tempfile.TemporaryDirectory(prefix="privreg-numba-") as cache:
            cold.append(child(START, NUMBA_CACHE_DIR=cache)["fit"])
            warm += [child(START, NUMBA_CACHE_DIR=cache) for _ in range(warms)]
    times = {
        IMPORT: [w["import"] for w in warm],
        EVERYTHING: [w["everything"] for w in warm],
        WHOLE: [w["whole"] for w in warm],
        WARM: [w["fit"] for w in warm],
        COLD: cold,
    }
    return [
        Row("start", name, 1000 if "fit" in name else 0, 11, "s", float(np.median(t)), min(t))
        for name, t in times.items()
    ]


# --- output --------------------------------------------------------------------------------------------


def targets(rows: Sequence[Row]) -> list[str]:
    """What was aimed at, and whether it was met."""

    def find(section: str, job: str, n: int | None = None) -> Row | None:
        return next((r for r in rows if r.section == section and r.job == job and n in (None, r.rows)), None)

    checks: list[tuple[str, float, float, str]] = []
    for n, most in ((10**6, 1.6), (10**7, 1.0)):
        if found := find("growth in n", TWO, n):
            checks.append((f"fit of {n:,} rows of 10 columns / scikit-learn's pass", found.ratio, most, "times"))
    one, two = find("growth in n", ONE, 10**7), find("growth in n", TWO, 10**7)
    if one and two:  # in the same rounds, so that the pass between cancels
        checks.append(("two threads' time for 10,000,000 rows / one's", two.ratio / one.ratio, 1 / 1.7, "times"))
    peak = max(r.median for r in rows if r.section == "memory")
    checks.append(("peak memory above a process that has fitted 1,000 rows", peak, 64.0, "MB"))
    for job, most in ((IMPORT, 0.5), (WHOLE, 1.5), (COLD, 1.5)):
        if found := find("start", job):
            checks.append((job, found.median, most, "s"))
    out = []
    for name, value, limit, unit in checks:
        verdict = "not measured" if math.isnan(value) else "met" if value <= limit else "missed"
        out.append(f"target {name}: at most {limit:.3g} {unit}, got {value:.2f}: {verdict}")
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds: a look, not a measurement")
    parser.add_argument("--repeats", type=int, help="rounds of the side-by-side jobs (default 5)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the table is stored")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)  # of intervals that nobody looks at
    if importlib.util.find_spec("sklearn") is None:
        parser.exit(2, 'scikit-learn is missing; install the extra: pip install ".[bench]"\n')
    n = 100_000 if given.quick else 1_000_000
    rounds = given.repeats or (2 if given.quick else 5)
    few = 2 if given.quick else 3
    sizes = (100_000, 1_000_000) if given.quick else (100_000, 1_000_000, 10_000_000)
    busy = os.getloadavg()[0]
    rows = starts(1 if given.quick else 2, few)
    rows += side_by_side(n, rounds)
    rows += growth_in_rows(sizes, few)
    rows += growth_in_coefficients(n, (3, 6, 11, 21, 41, 81), few)
    rows += memory(sizes[1:], few)
    words = " ".join(["python -m benchmarks.speed", *(sys.argv[1:] if arguments is None else arguments)])
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
