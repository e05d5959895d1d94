"""Families and options of fits of noised sums: does a 95% interval hold the coefficient, where the model is right?

``python -m benchmarks.sums_options [--trust central two_collectors] [--cells NAME …] [--n N] [--runs R] [--keep FOLDER]
[--quick]``

Whole fits by the front door, of 5,000 made-up rows (people, where they have several), μ = 1. One line for each trust
model, cell and coefficient: share of intervals that hold it, in %, of fits whose row isn't marked, and its exact 99%
limits (Clopper and Pearson); rmse over the mean standard error; share of fits whose row is marked. Cells "exposure" and
"sure" have exposures of a wide range, and a level that always answers yes. Table sums_options.csv; with --keep FOLDER
finished cells are kept there, and a study goes on.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from benchmarks.store import Runs, save_table

RESULTS = Path(__file__).parent / "results" / "sums_options.csv"
Rows = dict[str, Any]
LINE = {"Intercept": 1.0, "g[T.1]": -0.3, "x": 0.5}
LOG = {"Intercept": 0.2, "g[T.1]": -0.3, "x": 0.3}
SCHOOLS, LOW = 60, -1.2815515655446004  # The 0.1 quantile of a normal error


class Cell(NamedTuple):
    """A model of made-up rows, whose coefficients are known."""

    make: Callable[[np.random.Generator, int], Rows]
    truth: dict[str, float]
    family: Any = "huber"
    formula: str = "y ~ x + g"
    more: dict[str, Any] = {}  # noqa: RUF012  # Of the model, never changed
    fit: dict[str, Any] = {}  # noqa: RUF012


def _design(rng: np.random.Generator, n: int) -> tuple[Rows, np.ndarray, np.ndarray]:
    x, g = rng.standard_normal(n).clip(-3, 3), rng.integers(0, 2, n)
    return {"x": x, "g": g}, 1.0 - 0.3 * g + 0.5 * x, 0.2 - 0.3 * g + 0.3 * x


def _nothing(_: np.random.Generator, __: int) -> Rows:
    return {}


def _line(rng: np.random.Generator, n: int, added: Callable[[np.random.Generator, int], Rows] = _nothing) -> Rows:
    rows, eta, _ = _design(rng, n)
    more = added(rng, n)
    shift = more.get("offset", 0.0) + more.get("effect", 0.0)
    return rows | more | {"y": eta + shift + rng.standard_normal(n)}


def _skewed(rng: np.random.Generator, n: int) -> Rows:
    rows, eta, _ = _design(rng, n)
    return rows | {"y": eta + np.exp(0.8 * rng.standard_normal(n))}


def _yes(rng: np.random.Generator, n: int) -> Rows:
    rows, eta, _ = _design(rng, n)
    return rows | {"y": (rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - eta))).astype(int)}


def _sure(rng: np.random.Generator, n: int) -> Rows:
    rows = _yes(rng, n)
    return rows | {"y": np.where(rows["g"] == 1, 1, rows["y"])}


def _counts(rng: np.random.Generator, n: int) -> Rows:
    rows, _, eta = _design(rng, n)
    return rows | {"y": rng.poisson(np.exp(eta)).clip(0, 10)}


def _exposed(rng: np.random.Generator, n: int) -> Rows:
    rows, _, eta = _design(rng, n)
    time = np.exp(rng.uniform(np.log(0.5), np.log(4.0), n))
    return rows | {"time": time, "y": rng.poisson(time * np.exp(eta - 0.2)).clip(0, 20)}


def _classes(rng: np.random.Generator, n: int) -> Rows:
    rows, eta, _ = _design(rng, n)
    odds = np.column_stack([np.zeros(n), eta - 1.0, 0.3 * rows["x"]])
    return rows | {"y": np.array(list("abc"))[(odds + rng.gumbel(size=(n, 3))).argmax(axis=1)]}


def _people(rng: np.random.Generator, n: int, *, level: bool) -> Rows:
    who = np.repeat(np.arange(n), 3)
    rows, eta, _ = _design(rng, 3 * n)
    effect = level * rng.standard_normal(n)[who]
    return rows | {"who": who, "y": eta + effect + rng.standard_normal(3 * n)}


def _offset(rng: np.random.Generator, n: int) -> Rows:
    return {"offset": rng.uniform(-1, 1, n)}


def _weights(rng: np.random.Generator, n: int) -> Rows:
    return {"w": rng.uniform(0.2, 1.0, n)}


def _schools(rng: np.random.Generator, n: int) -> Rows:
    school = rng.integers(0, SCHOOLS, n)
    return {"school": school, "effect": 0.3 * rng.standard_normal(SCHOOLS)[school]}


Y = {"y": (-8.0, 10.0)}
CELLS = {
    "huber": Cell(_line, LINE),
    "expectile": Cell(_line, LINE, pr.Expectile(0.5)),
    "quantile": Cell(_line, LINE, pr.Quantile(0.5)),
    "quantile 0.1": Cell(_line, LINE | {"Intercept": 1.0 + LOW}, pr.Quantile(0.1)),
    "quantile 0.9": Cell(_skewed, LINE | {"Intercept": 1.0 + float(np.exp(-0.8 * LOW))}, pr.Quantile(0.9)),
    "squared": Cell(_line, LINE, pr.Squared()),
    "custom": Cell(
        _line, LINE, pr.families.custom("tanh", lambda eta, y: float(np.tanh(eta - y)), bound=1.0, slope=1.0)
    ),
    "logistic": Cell(_yes, LINE | {"Intercept": 0.0}, "logistic"),
    "sure": Cell(_sure, {"x": 0.5}, "logistic"),
    "poisson": Cell(_counts, LOG, pr.Poisson(y_max=10)),
    "multinomial": Cell(
        _classes,
        {"b:Intercept": 0.0, "b:g[T.1]": -0.3, "b:x": 0.5, "c:Intercept": 0.0, "c:g[T.1]": 0.0, "c:x": 0.3},
        "multinomial",
    ),
    "offset": Cell(partial(_line, added=_offset), LINE, more={"offset": "offset"}),
    "exposure": Cell(_exposed, LOG | {"Intercept": 0.0}, pr.Poisson(y_max=20), more={"exposure": "time"}),
    "weights": Cell(partial(_line, added=_weights), LINE, more={"weights": "w"}),
    "cluster": Cell(partial(_line, added=_schools), LINE, more={"cluster": "school"}),
    "rows of people": Cell(partial(_people, level=False), LINE, more={"id": "who", "k_max": 3}),
    "within people": Cell(
        partial(_people, level=True),
        {"g[T.1]": -0.3, "x": 0.5},
        formula="y ~ x + g | who",
        more={"id": "who", "k_max": 3},
    ),
    "measures": Cell(_line, LINE, fit={"measures": 0.1}),
    "likelihood": Cell(_line, LINE, more={"score_weights": "likelihood"}),
    "like": Cell(_line, LINE),
}
BOUNDS = {"x": (-3.0, 3.0), "offset": (-1.0, 1.0), "w": (0.0, 1.0), "time": (0.5, 4.0)}


def cell(trust: str, name: str, n: int, runs: range) -> list[float]:
    """Errors over standard errors, standard errors and marks of each run, one coefficient after the other."""
    one, out = CELLS[name], list[float]()
    counts = {"poisson": (0.0, 10.0), "exposure": (0.0, 20.0)}
    y = {"y": counts[name]} if name in counts else {} if one.family in ("logistic", "multinomial") else Y
    levels = {"g": [0, 1], "school": list(range(SCHOOLS))}
    levels |= {"y": list("abc")} if one.family == "multinomial" else {"y": [0, 1]} if one.family == "logistic" else {}

    def model(seed: int, rows: Rows) -> Any:
        del seed
        return pr.PrivateOnlineRegression.from_formula(
            one.formula, pd.DataFrame(rows), family=one.family, mu=1, trust=trust, bounds=BOUNDS | y, levels=levels,
            **one.more,
        )  # fmt: skip

    like: Any = None
    for run in runs:
        rng = np.random.default_rng([run, zlib.crc32(name.encode())])
        if name == "like" and like is None:
            like = model(0, one.make(np.random.default_rng(99), n)).fit(progress=False)
        fit = one.fit | ({"like": like} if like is not None else {})
        res = model(run, one.make(rng, n)).fit(progress=False, **fit)
        tidy = res.tidy()
        tidy.index = [":".join(map(str, k)) for k in tidy[[c for c in ("level", "term") if c in tidy]].to_numpy()]
        for term, value in one.truth.items():
            se = float(tidy.loc[term, "std_error"])
            out += [(float(tidy.loc[term, "estimate"]) - value) / se, se, float(not tidy.loc[term, "reliable"])]
    return out


def lines(trust: str, name: str, n: int, numbers: Sequence[float]) -> list[dict[str, object]]:
    """Lines of a cell, one a coefficient."""
    terms = list(CELLS[name].truth)
    table, out = np.array(numbers).reshape(-1, len(terms), 3), list[dict[str, object]]()
    for j, term in enumerate(terms):
        z, se, marked = table[:, j].T
        held = marked == 0.0
        k, some = int((np.abs(z[held]) < 1.959963984540054).sum()), int(held.sum())
        line: dict[str, object] = {"trust": trust, "cell": name, "n": n, "runs": len(table), "coefficient": term}
        line |= {"cover": 100.0 * k / some if some else np.nan}
        line |= {"low": 100.0 * beta.ppf(0.005, k, some - k + 1) if k else 0.0}
        line |= {"high": 100.0 * beta.ppf(0.995, k + 1, some - k) if k < some else 100.0}
        rms = np.sqrt(np.mean(z[held] ** 2)) if some else np.nan
        out.append(line | {"rms": rms, "se": np.median(se), "marked": 100.0 * marked.mean()})
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sums_options", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    both = ["central", "two_collectors"]
    parser.add_argument("--trust", nargs="*", default=both, choices=both)
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS), metavar="NAME")
    parser.add_argument("--n", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=200, help="a cell")
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--quick", action="store_true", help="a look: 5 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept, table = Runs(None if args.quick else args.keep), list[dict[str, object]]()
    for trust in args.trust:
        for name in args.cells:
            runs = range(5 if args.quick else args.runs)
            made = partial(cell, trust, name, args.n, runs)
            table += lines(trust, name, args.n, kept.get(f"{trust}-{name}-{args.n}-{len(runs)}", made))
            print(f"{trust}, {name}: done", flush=True)
    found = pd.DataFrame(table).round(3)
    if not args.quick:
        what = "" if args.cells == list(CELLS) else " --cells " + " ".join(f'"{name}"' for name in args.cells)
        command = (
            f"python -m benchmarks.sums_options --trust {' '.join(args.trust)}{what} --n {args.n} --runs {args.runs}"
        )
        save_table(found, RESULTS, command)
    with pd.option_context("display.width", 200, "display.max_columns", 30, "display.max_rows", 1_000):
        print(found.to_string(index=False))


if __name__ == "__main__":
    main()
