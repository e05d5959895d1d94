"""Several rows of a person in one report: how many 95% intervals hold, and what a report of all rows is worth.

``python -m benchmarks.persons [--trust TRUST …] [--cells NAME …] [--runs R …] [--keep FOLDER] [--quick]``
``python -m benchmarks.persons --price [--runs R]``
``python -m benchmarks.persons --speed [--rounds R] [--rows N]``

One line for each design, kind of trust and coefficient:

cover, low, high
    Share of 95% intervals that hold the truth, in %, and its 99% limits (Clopper and Pearson).
bias, ratio
    Mean error, and root mean square of standard errors, both over the errors' standard deviation.
width
    Mean length of intervals.
marked
    Share of fits whose intervals are taken back by a note, in %. They count in no other column but "all".
all
    Share of intervals that hold the truth of all fits, marked ones too.

Made-up people: y = 1 + x/2 + 0.3 [second wave] + error, x with a part in common to all rows of a person, errors with
intra-person correlation `icc`. Within persons the common parts of x and y are the same number: levels go with x.
"weights": people were drawn with a probability that rises with their level, and weights undo it. "clusters": levels
and slopes of clusters of unequal size vary; the truth is their mean. Reports are local (20,000 people, μ = 4) or of
two collectors (4,000, μ = 2). Table persons.csv; with --price persons_price.csv: median standard errors of local
reports, one of all rows at μ, as many reports of single rows, √k μ in all, and one of one row, and the share of fits
that mark them, in %. With --speed persons_speed.csv: times of whole fits of people with ten rows each, together or
anyhow, and of as many people as rows, in turns in one process; `ratio` is to the latter. With --keep FOLDER finished
runs are kept there, and a study that was killed goes on.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import beta

import privreg as pr
from benchmarks.store import Runs, save_table

RESULTS = Path(__file__).parent / "results" / "persons.csv"
PEOPLE = {"local": (20_000, 4.0), "two_collectors": (4_000, 2.0)}
BOUNDS = {"x": (-6, 6), "y": (-11, 13), "w": (0, 5)}
CHUNK = 10


class Cell(NamedTuple):
    """A design."""

    low: int = 1  # Rows of a person, uniform from `low` to `high`
    high: int = 5
    icc: float = 0.5
    effect: str = ""  # What the formula has after its terms
    mean: bool = False
    weights: bool = False
    clusters: int = 0


CELLS = {
    "pooled, icc 0": Cell(icc=0.0),
    "pooled, icc .5": Cell(),
    "pooled, icc .9": Cell(icc=0.9),
    "people alike, icc .9": Cell(icc=0.9, mean=True),
    "within, icc 0": Cell(2, icc=0.0, effect=" | person"),
    "within, icc .5": Cell(2, effect=" | person"),
    "within, icc .9": Cell(2, icc=0.9, effect=" | person"),
    "within, 2 rows": Cell(2, 2, effect=" | person"),
    "within, 2 to 20 rows": Cell(2, 20, effect=" | person"),
    "differences": Cell(2, effect=" | diff(person)"),
    "weights": Cell(1, 3, weights=True),
    "20 clusters": Cell(1, 2, clusters=20),
    "200 clusters": Cell(1, 2, clusters=200),
    "2,000 clusters": Cell(1, 2, clusters=2_000),
}


def rows(cell: Cell, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of n people, those of one together."""
    level, w = rng.standard_normal(n), np.ones(n)
    if cell.weights:
        many = rng.standard_normal(6 * n)
        kept = 0.2 + 0.6 * ndtr(many)
        drawn = np.flatnonzero(rng.uniform(size=len(many)) < kept)[:n]
        level, w = many[drawn], 1.0 / kept[drawn]
    k = rng.integers(cell.low, cell.high + 1, n)
    who = np.repeat(np.arange(n), k)
    wave = np.arange(len(who)) - np.repeat(np.cumsum(k) - k, k)
    common = level if cell.effect else rng.standard_normal(n)
    x = 0.6 * common[who] + 0.8 * rng.standard_normal(len(who))
    error = np.sqrt(cell.icc) * level[who] + np.sqrt(1.0 - cell.icc) * rng.standard_normal(len(who))
    slope, school = 0.5, np.zeros(n, dtype=np.int64)
    if cell.clusters:
        size = rng.gamma(4.0, size=cell.clusters)
        school = rng.choice(cell.clusters, n, p=size / size.sum())
        error = error + (0.3 * rng.standard_normal(cell.clusters))[school][who]
        slope = (0.5 + 0.15 * rng.standard_normal(cell.clusters))[school][who]
    second = (wave == 1).astype(int)
    y = 1.0 + slope * x + 0.3 * second + error
    return pd.DataFrame({"person": who, "x": x, "second": second, "y": y, "w": w[who], "school": school[who]})


def asked(cell: Cell) -> dict[str, Any]:
    """Options of a fit."""
    out: dict[str, Any] = {"id": "person", "k_max": cell.high, "per_person": "mean" if cell.mean else "sum"}
    levels: dict[str, list[int]] = {"second": [0, 1]}
    if cell.clusters:
        levels["school"] = list(range(cell.clusters))
        out["cluster"] = "school"
    return {**out, "levels": levels, "bounds": BOUNDS} | ({"weights": "w"} if cell.weights else {})


def run(name: str, trust: str, number: int) -> list[float]:
    """Errors, standard errors and both ends of intervals less the truth, of slope and wave, and their marks."""
    cell, (n, mu) = CELLS[name], PEOPLE[trust]
    data = rows(cell, n, np.random.default_rng([number, list(CELLS).index(name)]))
    made = pr.PrivateOnlineRegression.from_formula(
        f"y ~ x + second{cell.effect}", data, **asked(cell), trust=trust, mu=mu
    )
    res = made.fit(seed=number, progress=False)
    names, truth = ["x", next(n for n in res.params.index if n.startswith("second"))], np.array([0.5, 0.3])
    ends = res.conf_int().loc[names].to_numpy() - truth[:, None]
    # the note on many rows aside, which this study is the reason for
    doubts = [d for d in res._doubts() if d.code != "rows"]
    places = [list(res.params.index).index(name) for name in names]
    marked = [any(not d.rows or at in d.rows for d in doubts) for at in places]
    return [*(res.params[names] - truth), *res.bse[names], *ends[:, 0], *ends[:, 1], *marked]


def lines(name: str, trust: str, found: np.ndarray) -> list[dict[str, object]]:
    """Lines of a cell, from runs of 10 numbers each."""
    out = []
    for j, term in enumerate(("x", "second")):
        each = found.reshape(-1, 5, 2)[:, :, j]
        every = ((each[:, 2] < 0) & (each[:, 3] > 0)).mean()
        error, se, low, high, _ = each[each[:, 4] == 0.0].T
        hits, m = int(((low < 0) & (high > 0)).sum()), len(error)
        ends = beta.ppf([0.005, 0.995], [hits, hits + 1], [m - hits + 1, m - hits])
        sure = np.nan_to_num(ends, nan=1.0) if hits else np.array([0.0, ends[1]])
        sd = error.std(ddof=1)
        out.append(
            {
                "design": name, "trust": trust, "term": term, "runs": len(each),
                "cover": 100 * hits / max(m, 1), "low": 100 * sure[0],
                "high": 100 * sure[1], "bias": error.mean() / sd, "ratio": np.sqrt((se**2).mean()) / sd,
                "width": (high - low).mean(), "marked": 100 * (1 - m / len(each)), "all": 100 * every,
            }
        )  # fmt: skip
    return out


def price(runs: int) -> pd.DataFrame:
    """Standard errors of the slope of x, of local reports: one of k rows, k of one row each, and one of one row."""
    table, names = [], ("one report", "k reports", "one row")
    for k in (2, 5, 10):
        for icc in (0.0, 0.5, 0.9):
            for mu in (1.0, 4.0):
                found, marked = np.zeros((runs, 3)), np.zeros((runs, 3))
                for r in range(runs):
                    data = rows(Cell(k, k, icc), 20_000, np.random.default_rng([r, k]))
                    ways = {"id": "person", "k_max": k}, {"id": "person", "max_per_id": k}, {"id": "person"}
                    for j, way in enumerate(ways):
                        model = pr.PrivateOnlineRegression.from_formula(
                            "y ~ x + second",
                            data.groupby("person").sample(1, random_state=r) if j == 2 else data,
                            bounds=BOUNDS,
                            levels={"second": [0, 1]},
                            mu=mu,
                            **way,
                        )
                        res = model.fit(seed=r, progress=False)
                        at = list(res.params.index).index("x")
                        found[r, j] = res.bse["x"]
                        marked[r, j] = any(d.code != "rows" and (not d.rows or at in d.rows) for d in res._doubts())
                line = dict(zip(names, np.median(found, axis=0), strict=True))
                doubts = {f"{name}, marked": m for name, m in zip(names, 100 * marked.mean(axis=0), strict=True)}
                table.append({"k": k, "icc": icc, "mu": mu, **line, **doubts})
    return pd.DataFrame(table)


def speed(n: int, rounds: int) -> pd.DataFrame:
    """Times of fits of n rows, of people with one row and with ten."""
    from benchmarks.speed import take_turns

    cell, lines = Cell(10, 10), []
    data = rows(cell, n // 10, np.random.default_rng(1))
    ways = {
        "people of one row": (data, {**asked(cell), "id": None, "k_max": None}),
        "people of ten rows, together": (data, asked(cell)),
        "people of ten rows, anyhow": (data.sample(frac=1, random_state=1, ignore_index=True), asked(cell)),
    }
    for trust, (_, mu) in PEOPLE.items():

        def whole(data: pd.DataFrame, options: dict[str, Any], trust: str = trust, mu: float = mu) -> None:
            made = pr.PrivateOnlineRegression.from_formula("y ~ x + second", data, trust=trust, mu=mu, **options)
            made.fit(progress=False)

        jobs = {name: (n, lambda way=way: whole(*way)) for name, way in ways.items()}
        lines += take_turns(trust, jobs, 3, rounds, next(iter(ways)))
    return pd.DataFrame(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.persons", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--trust", nargs="*", default=list(PEOPLE), choices=list(PEOPLE))
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS), metavar="NAME")
    parser.add_argument("--runs", nargs="+", type=int, default=[1_000], help="a cell, or a cell of each kind of trust")
    parser.add_argument("--keep", type=Path, help="folder of finished runs")
    parser.add_argument("--price", action="store_true", help="standard errors instead")
    parser.add_argument("--speed", action="store_true", help="times instead")
    parser.add_argument("--rounds", type=int, default=3, help="turns of --speed")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of --speed")
    parser.add_argument("--quick", action="store_true", help="a look: 3 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept = Runs(None if args.quick else args.keep)
    each = dict(zip(args.trust, args.runs if len(args.runs) > 1 else args.runs * len(args.trust), strict=True))
    if args.speed:
        found = speed(args.rows, args.rounds).round(3)
        command = f"python -m benchmarks.persons --speed --rounds {args.rounds} --rows {args.rows}"
        save_table(found, RESULTS.with_name("persons_speed.csv"), command)
        print(found.to_string(index=False))
        return
    if args.price:
        found = price(args.runs[0]).round(5)
        save_table(
            found,
            RESULTS.with_name("persons_price.csv"),
            f"python -m benchmarks.persons --price --runs {args.runs[0]}",
        )
        print(found.to_string(index=False))
        return
    table: list[dict[str, object]] = []
    for trust in args.trust:
        for name in args.cells:
            numbers = range(3 if args.quick else each[trust])
            made = [kept.get(f"{trust}-{name}-{k}", lambda a=(name, trust, k): run(*a)) for k in numbers]
            table += lines(name, trust, np.array(made))
            print(f"{name}, {trust}: done", flush=True)
    found = pd.DataFrame(table).round(3)
    if not args.quick:
        what = "" if args.trust == list(PEOPLE) else " --trust " + " ".join(args.trust)
        what += "" if args.cells == list(CELLS) else " --cells " + " ".join(f'"{name}"' for name in args.cells)
        command = f"python -m benchmarks.persons{what} --runs {' '.join(map(str, args.runs))}"
        save_table(found, RESULTS, command)
    print(found.to_string(index=False))


if __name__ == "__main__":
    main()
