"""What a record costs: noise, kernel and whole fits beside other libraries, memory and start, in one run.

``python -m benchmarks.speed [--quick] [--rows N] [--repeats R] [--out FILE]``

Clocks drift, so only ratios measured side by side mean anything. Every job runs once to warm up; then the jobs
take turns (A B C A B C …). The table shows median and minimum in ns per record, and the median over rounds of a
job's time divided, within the same round, by that of the noise alone and by that of scikit-learn's pass.

Data: independent covariates uniform on [−1, 1], a linear response with normal errors, Huber score, mu = 1,
p = 11 coefficients unless another p is shown.

noise alone
    As many standard normals as the kernel uses, from the same cipher stream, and nothing else.
kernel
    The published algorithm, `engine.Run.advance` over arrays in internal units that are already in memory; noise is
    drawn on the way.
fit()
    The whole of `fit` on a model that is already described: reading, checking, clamping, coding, scaling,
    noise, rounds, inference. Default options but for one thread.
threads
    fit() over arrays with one and with two threads, in turns; the estimates are compared to be the same.
scikit-learn
    One pass of averaged SGD with the Huber loss over arrays; no privacy, no standard errors.
statsmodels
    OLS from the same formula and frame, formula handling and its covariance included; no privacy.
NumPy loop
    The kernel's job (private averaged SGD with the full matrix) written as a loop over records.

Memory is the rise of the process's peak over a process that already holds the data and has fitted 1,000 rows.
Starts are timed inside fresh processes from their first statement on; cold means an empty cache of compiled
kernels.

Results go to benchmarks/results/speed.csv with the command, versions and date that made them.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import header
from privreg.collector import sgd
from privreg.files.archive import write_bytes
from privreg.privacy.noise import NoiseStream
from privreg.protocol import codes
from privreg.simulation.sgd import AveragedSGD

ROOT = Path(__file__).resolve().parents[1]
OUT = Path("benchmarks/results/speed.csv")
SD = 0.3
RANGE = 8.0
NUMBERS = [f"x{j}" for j in range(1, 11)]
FACTORS = {"a": ["no", "yes"], "b": ["left", "right"], "c": ["low", "mid", "high"], "d": ["x", "y", "z"]}
FEWER = NUMBERS[:4]  # with the factors' six dummies and the intercept: p = 11 again
NUMERIC = "y ~ " + " + ".join(NUMBERS)
MIXED = "y ~ " + " + ".join([*FEWER, *FACTORS])
NOISE, FULL, SKLEARN = "noise alone", "kernel, full matrix", "scikit-learn averaged Huber SGD, arrays"
FRAME = "fit(), DataFrame, 10 numeric columns"
KEY = bytes(32)

Job = tuple[int, Callable[[], object]]
"""Records and what to run over them."""


class Row(NamedTuple):
    """One line of the table; times in `unit`, the last two as ratios within a round."""

    section: str
    job: str
    rows: int
    p: int
    unit: str
    median: float
    minimum: float
    times_noise: float = math.nan
    times_sklearn: float = math.nan


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
    return {**dict.fromkeys(names, (-1.0, 1.0)), "y": (-RANGE, RANGE)}


def formula_model(formula: str, data: pd.DataFrame) -> pr.PrivateOnlineRegression:
    names = [c for c in data.columns if c in NUMBERS]
    levels = {c: FACTORS[c] for c in data.columns if c in FACTORS}
    return pr.PrivateOnlineRegression.from_formula(
        formula, data, mu=1.0, family=pr.Huber(scale=SD), bounds=bounds(names), levels=levels
    )


def array_model(y: np.ndarray, x: np.ndarray, score_weights: str | None = None) -> pr.PrivateOnlineRegression:
    names = ["const", *(f"x{j}" for j in range(1, x.shape[1]))]
    return pr.PrivateOnlineRegression(
        *(y, x),
        exog_names=names,
        endog_name="y",
        mu=1.0,
        family=pr.Huber(scale=SD),
        bounds=bounds(names[1:]),
        score_weights=score_weights,
    )


def fresh_run(model: pr.PrivateOnlineRegression, mode: int) -> AveragedSGD:
    made = model.start(tuning="published")._run
    assert isinstance(made, AveragedSGD)
    plan = made.plan._replace(scaling_mode=mode)
    state = sgd.init(np.zeros(made.to_user.shape[0]), plan, made.to_user[0])
    return AveragedSGD(plan, made.steps, state, made.to_user, KEY)


def kernel(n: int, p: int, mode: int) -> Job:
    y, x = arrays(n, p)
    model = array_model(y, x, "unit")
    inside = y / RANGE  # the covariates' bounds are (−1, 1): they are in internal units as they are
    return n, lambda: fresh_run(model, mode).advance(inside, x)


def noise(n: int, p: int) -> Job:
    def draw() -> None:
        stream, left = NoiseStream(KEY, p), n
        while left > 0:
            rows = stream.peek().shape[0]
            stream.advance(rows)
            left -= rows

    return n, draw


def fit(model: pr.PrivateOnlineRegression, n: int) -> Job:
    return n, lambda: model.fit(progress=False, threads=1)


def sklearn_pass(data: pd.DataFrame) -> Job:
    from sklearn.linear_model import SGDRegressor

    x, y = np.array(data[NUMBERS], order="C"), np.array(data["y"])  # writable, in its own order: nothing to convert

    def run() -> None:
        SGDRegressor(loss="huber", epsilon=SD, average=True, max_iter=1, shuffle=False, tol=None, penalty=None).fit(
            x, y
        )

    return len(data), run


def statsmodels_ols(data: pd.DataFrame) -> Job:
    import statsmodels.formula.api as smf

    return len(data), lambda: smf.ols(NUMERIC, data).fit().bse


def numpy_loop(n: int, p: int) -> Job:
    y, x = arrays(n, p)
    run = fresh_run(array_model(y, x, "unit"), codes.FULL)
    plan, steps, y = run.plan, run.steps.block(0, n), y / RANGE

    def loop() -> np.ndarray:
        rng = np.random.default_rng(0)
        theta, total, sums = np.zeros(p), np.zeros(p), np.zeros((p + 1, p + 1))
        path = np.zeros(p + 1)
        for i in range(n):
            row = x[i]
            size = np.sqrt(row @ row)
            r = y[i] - row @ theta
            factor = -min(max(r, -plan.c), plan.c) / size
            norm = abs(factor) * size
            if norm > plan.bound:
                factor *= plan.bound / norm
            theta = theta - steps[i] * (factor * row + plan.channel.scale * plan.bound * rng.standard_normal(p))
            total += theta
            path[:p], path[p] = total, i + 1
            sums += np.outer(path, path)
        return sums

    return n, loop


# --- timing --------------------------------------------------------------------------------------------


def take_turns(jobs: Mapping[str, Job], rounds: int) -> dict[str, np.ndarray]:
    """Time the jobs in turn; ns per record of each, shape (rounds,)."""
    out: dict[str, list[float]] = {name: [] for name in jobs}
    for _, run in jobs.values():
        run()
    for _ in range(rounds):
        for name, (n, run) in jobs.items():
            gc.collect()
            begin = time.perf_counter_ns()
            run()
            out[name].append((time.perf_counter_ns() - begin) / n)
    return {name: np.array(times) for name, times in out.items()}


def ratio(times: np.ndarray, reference: np.ndarray | None) -> float:
    return math.nan if reference is None else float(np.median(times / reference))


def side_by_side(n: int, rounds: int) -> list[Row]:
    data = frame(n)
    y, x = arrays(n, 11)
    small = frame(max(n // 5, 1000))
    words, categories = with_factors(data, as_category=False), with_factors(data, as_category=True)
    jobs = {
        NOISE: noise(n, 11),
        "kernel, no inference": kernel(n, 11, codes.NONE),
        "kernel, diagonal": kernel(n, 11, codes.DIAGONAL),
        FULL: kernel(n, 11, codes.FULL),
        "fit(), arrays": fit(array_model(y, x), n),
        FRAME: fit(formula_model(NUMERIC, data), n),
        "from_formula() and fit(), the same": (
            n,
            lambda: formula_model(NUMERIC, data).fit(progress=False, threads=1),
        ),
        "fit(), DataFrame, 4 numeric, 4 factors as strings": fit(formula_model(MIXED, words), n),
        "fit(), DataFrame, 4 numeric, 4 factors as categories": fit(formula_model(MIXED, categories), n),
        SKLEARN: sklearn_pass(data),
        "statsmodels OLS, formula and DataFrame": statsmodels_ols(small),
        "NumPy loop, private SGD with full matrix": numpy_loop(max(n // 100, 1000), 11),
    }
    times = take_turns(jobs, rounds)
    return [
        Row(
            "side by side",
            name,
            jobs[name][0],
            11,
            "ns/record",
            float(np.median(t)),
            float(t.min()),
            ratio(t, times[NOISE]),
            ratio(t, times[SKLEARN]),
        )
        for name, t in times.items()
    ]


def growth_in_rows(sizes: Sequence[int], rounds: int) -> list[Row]:
    data = frame(max(sizes))
    names = {n: f"{n:,} rows" for n in sizes}
    jobs = {names[n]: fit(formula_model(NUMERIC, data.iloc[:n]), n) for n in sizes}
    times = take_turns(jobs, rounds)
    return [
        Row("growth in n", FRAME, n, 11, "ns/record", float(np.median(t)), float(t.min()))
        for n, t in ((n, times[names[n]]) for n in sizes)
    ]


def growth_in_coefficients(n: int, widths: Sequence[int], rounds: int) -> list[Row]:
    out = []
    for p in widths:
        rows = max(n * 11 // max(p, 11), 1000)
        whole = fit(array_model(*arrays(rows, p)), rows)
        jobs = {NOISE: noise(rows, p), FULL: kernel(rows, p, codes.FULL), "fit(), arrays": whole}
        times = take_turns(jobs, rounds)
        out += [
            Row(
                "growth in p",
                name,
                rows,
                p,
                "ns/record",
                float(np.median(t)),
                float(t.min()),
                ratio(t, times[NOISE]),
            )
            for name, t in times.items()
        ]
    return out


def threads(n: int, rounds: int) -> list[Row]:
    """Whole fits with one and two threads, and the gain in records per second."""
    y, x = arrays(n, 11)
    model = array_model(y, x)
    one, two = (model.fit(progress=False, threads=t, seed=1).params for t in (1, 2))
    assert one.equals(two), "threads changed the estimates"
    jobs: dict[str, Job] = {
        f"fit(), arrays, {t} thread{'s' * (t > 1)}": (
            n,
            lambda t=t: model.fit(progress=False, threads=t),
        )
        for t in (1, 2)
    }
    times = take_turns(jobs, rounds)
    first, second = times.values()
    out = [Row("threads", name, n, 11, "ns/record", float(np.median(t)), float(t.min())) for name, t in times.items()]
    return [*out, Row("threads", GAIN, n, 11, "times", ratio(first, second), float((first / second).min()))]


# --- memory and start, in processes of their own -------------------------------------------------------


def child(code: str, cache: str | None = None) -> dict[str, float]:
    env = dict(os.environ) if cache is None else {**os.environ, "NUMBA_CACHE_DIR": cache}
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


def memory(sizes: Sequence[int], rounds: int) -> list[Row]:
    out = []
    for n in sizes:
        code = f"from benchmarks.speed import memory_of_fit; memory_of_fit({n})"
        rise = [child(code)["MB"] for _ in range(rounds)]
        out.append(Row("memory", "peak above 1,000 rows fitted", n, 11, "MB", float(np.median(rise)), min(rise)))
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
pr.PrivateOnlineRegression.from_formula(
    "y ~ " + " + ".join(names), data, mu=1, family=pr.Huber(scale=0.3),
    bounds={**dict.fromkeys(names, (-1, 1)), "y": (-8, 8)},
).fit(progress=False)
fitted = time.perf_counter()
print(json.dumps({"import": imported - begin, "everything": everything - begin, "fit": fitted - begin}))
"""
IMPORT, EVERYTHING = "import privreg", "import privreg and the model class"
GAIN = "records per second, two threads / one"
COLD, WARM = "import and first fit, cold cache", "import and first fit, warm cache"


def starts(colds: int, warms: int) -> list[Row]:
    cold, warm = [], []
    for _ in range(colds):
        with tempfile.TemporaryDirectory(prefix="privreg-numba-") as cache:
            cold.append(child(START, cache)["fit"])
            warm += [child(START, cache) for _ in range(warms)]
    times = {
        IMPORT: [w["import"] for w in warm],
        EVERYTHING: [w["everything"] for w in warm],
        WARM: [w["fit"] for w in warm],
        COLD: cold,
    }
    return [
        Row("start", name, 1000 if "fit" in name else 0, 11, "s", float(np.median(t)), min(t))
        for name, t in times.items()
    ]


# --- output --------------------------------------------------------------------------------------------


def targets(rows: Sequence[Row]) -> list[str]:
    def find(section: str, job: str) -> Row:
        return next(r for r in rows if r.section == section and r.job == job)

    full, whole = find("side by side", FULL), find("side by side", FRAME)
    peak = max(r.median for r in rows if r.section == "memory")
    checks = [
        ("kernel with noise and full matrix, p = 11, / noise alone", full.times_noise, 3.0, "times"),
        ("kernel with noise and full matrix, p = 11, / scikit-learn's pass", full.times_sklearn, 2.0, "times"),
        (
            "fit() from a DataFrame of ten columns / scikit-learn's pass over arrays",
            whole.times_sklearn,
            4.0,
            "times",
        ),
        ("peak memory above a process that has fitted 1,000 rows", peak, 64.0, "MB"),
        (IMPORT, find("start", IMPORT).median, 0.5, "s"),
        (WARM, find("start", WARM).median, 1.5, "s"),
    ]
    out = []
    for name, value, limit, unit in checks:
        verdict = "not measured" if math.isnan(value) else "met" if value <= limit else "missed"
        out.append(f"target {name}: at most {limit:g} {unit}, got {value:.2f}: {verdict}")
    gain = find("threads", GAIN)
    verdict = "met" if gain.median >= 1.6 else "missed"
    return [*out, f"target {GAIN}, {gain.rows:,} rows: at least 1.6 times, got {gain.median:.2f}: {verdict}"]


def text(rows: Sequence[Row]) -> str:
    width = max(len(r.job) for r in rows)
    lines = [f"{'':{width}} {'rows':>11} {'p':>4} {'median':>10} {'min':>10}             / noise  / sklearn"]
    section = ""
    for r in rows:
        if r.section != section:
            section = r.section
            lines += ["", section]
        ratios = " ".join(f"{'' if math.isnan(v) else f'{v:.2f}':>9}" for v in (r.times_noise, r.times_sklearn))
        digits = 1 if r.unit != "s" else 3
        times = f"{r.median:>10,.{digits}f} {r.minimum:>10,.{digits}f}"
        lines.append(f"{r.job:{width}} {f'{r.rows:,}' if r.rows else '':>11} {r.p:>4} {times} {r.unit:<10}{ratios}")
    return "\n".join(lines)


def store(rows: Sequence[Row], lines: Sequence[str], path: Path, command: str) -> None:
    others = ", ".join(f"{name} {version(name)}" for name in ("scikit-learn", "statsmodels", "cryptography"))
    out = io.StringIO()
    for line in [*header(command), f"further versions: {others}", *lines]:
        out.write(f"# {line}\n")
    pd.DataFrame(rows, columns=Row._fields).round(4).to_csv(out, index=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, out.getvalue().encode())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds: a look, not a measurement")
    parser.add_argument("--rows", type=int, help="records of the side-by-side jobs (default 1,000,000)")
    parser.add_argument("--repeats", type=int, help="rounds of the side-by-side jobs (default 9)")
    parser.add_argument("--out", type=Path, default=OUT, help=f"where the table is stored (default {OUT})")
    given = parser.parse_args(arguments)
    if importlib.util.find_spec("sklearn") is None:
        parser.exit(2, "scikit-learn is missing; install the extra: pip install 'privreg[bench]'\n")
    n = given.rows or (100_000 if given.quick else 1_000_000)
    rounds = given.repeats or (3 if given.quick else 9)
    few = 2 if given.quick else 3
    sizes = (100_000, 1_000_000) if given.quick else (100_000, 1_000_000, 10_000_000)
    rows = starts(1 if given.quick else 2, few)
    rows = side_by_side(n, rounds) + rows
    rows += threads(max(sizes), few)
    rows += growth_in_rows(sizes, few)
    rows += growth_in_coefficients(n, (3, 11, 30, 100), rounds)
    rows += memory(sizes[1:], few)
    lines = targets(rows)
    words = ["python -m benchmarks.speed", *(sys.argv[1:] if arguments is None else arguments)]
    store(rows, lines, given.out, " ".join(words))
    print("\n".join(header(" ".join(words))))
    print(text(rows))
    print("\n".join(["", *lines]))


if __name__ == "__main__":
    main()
