"""How much hangs on each constant of `privreg/collector/tuning.toml`: halved and doubled, one at a time.

``python -m benchmarks.sensitivity [--constants PATH …] [--groups NAME …] [--designs NAME …] [--runs R] [--n N]
[--keep FOLDER] [--quick] [--screen]``

Designs are those of `benchmarks.conditional` whose models are wrong: `DESIGNS`. Both fits of a pair have the same
people and the same seed. μ = 1. Whole numbers stay whole. A line for each constant, factor and design, and
for all designs:

reached
    Share of the runs in which an estimate, a standard error or a mark has other bits. At 0 the constant is "not
    reached" by the design, and other columns are empty; one that can't be changed while it runs says where it is read.
se
    Ratio of median standard errors, the mean over coefficients of its logarithm.
rmse
    Ratio of root mean square errors about `res.estimand`, in the same way.
coverage
    Change of the share of 95% intervals that hold `res.estimand`, in points; coverage_sd is its standard error.
marked
    Change of the share of coefficients that a note takes back, in points.
failed
    Runs that raised an error with the other value: they count nowhere else.

With --screen every constant goes through the fits of `benchmarks.exercises` that are meant for its group, until one
shows a change that is *large*: estimates move by 0.1 standard errors (root mean square over coefficients), or standard
errors by 1% (mean of their logarithms), a mark changes, or a fit fails. A line for each constant, factor and fit has

moved, length
    These numbers.
marked, notes
    How many marks are others, and in how many runs notes are.
large
    Whether any of it is large.

It tells which constants change nothing anywhere that they were looked for, and nothing of coverage.

Table sensitivity_pairs.csv, of the screen sensitivity.csv. With --keep FOLDER finished cells are kept there, by hashes
of all constants and of the source, and a study that was killed goes on. With --quick, three constants, if none are
named, and 2 runs of 20,000 records; nothing is stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks import exercises
from benchmarks.conditional import FAMILIES, NUMBERS, one
from benchmarks.papers.store import code_hash
from benchmarks.store import Runs, save_table
from benchmarks.tuning import changed, frozen, rows, tuning, tuning_hash

RESULTS: Final = Path(__file__).parent / "results"
DESIGNS: Final = (
    "quadratic", "lognormal", "charges", "two peaks", "interaction", "binaries", "yes, wrong link", "yes, by group",
    "yes, mostly none", "yes, few far out", "counts, wrong link", "counts, by group", "counts, dispersed",
    "counts, skewed",
)  # fmt: skip
QUICK: Final = tuple(
    f"privreg.{path}"
    for path in ("collector.rounds:OFFSET", "collector.estimation.curvature:GAIN", "fits.findings:SHOWN")
)
FACTORS: Final = (0.5, 2.0)
MOVED, LENGTH = 0.1, 0.01  # Of estimates in standard errors, and of the logarithm of these: from here on large
KEPT: Final = 4  # Columns of a run's coefficient: marked, covered, error, standard error


def times(value: Any, factor: float) -> Any:
    """A constant times a factor: each number of several, and whole ones rounded, 1 at least."""
    if isinstance(value, dict):
        return {key: times(v, factor) for key, v in value.items()}
    if isinstance(value, tuple):
        return tuple(times(v, factor) for v in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def family_of(name: str) -> str:
    """The family whose designs have this one."""
    return next(family for family, designs in FAMILIES.items() if name in designs)


def runs_of(name: str, n: int, runs: int, values: dict[str, Any]) -> list[float]:
    """Numbers of all runs of a design with other constants, (runs, coefficients, `KEPT`) raveled; NaN: it failed."""
    design, out = FAMILIES[family_of(name)][name], list[np.ndarray | None]()
    with changed(values), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in range(runs):
            try:
                out.append(one(name, design, n, run)[1][:, [NUMBERS.index(k) for k in NUMBERS[:KEPT]]])
            except (pr.errors.PrivregError, ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError):
                out.append(None)
    shape = next((a.shape for a in out if a is not None), (1, KEPT))
    return np.ravel([np.full(shape, np.nan) if a is None else a for a in out]).tolist()


def compared(new: np.ndarray, old: np.ndarray) -> dict[str, float]:
    """What a change did to a design: arrays of shape (runs, coefficients, `KEPT`)."""
    if new.shape != old.shape:  # every run failed
        return {"reached": 1.0, "failed": len(old)}
    good = np.isfinite(new).all((1, 2)) & np.isfinite(old).all((1, 2))
    failed = int((~np.isfinite(new).all((1, 2))).sum())
    # equal bits, NaN beside NaN: what both fits fail at is no change
    reached = float(np.mean([a.tobytes() != b.tobytes() for a, b in zip(new, old, strict=True)]))
    if reached == 0.0 or not good.any():
        return {"reached": reached, "failed": failed}
    new, old = new[good], old[good]
    with np.errstate(divide="ignore", invalid="ignore"):
        se = np.log(np.median(new[..., 3], 0) / np.median(old[..., 3], 0))
        rmse = np.log((new[..., 2] ** 2).mean(0) / (old[..., 2] ** 2).mean(0)) / 2.0
    held = 100.0 * (new[..., 1] - old[..., 1]).mean(1)
    return {
        "reached": reached, "failed": failed, "se": float(np.exp(se.mean())), "rmse": float(np.exp(rmse.mean())),
        "coverage": float(held.mean()),
        "coverage_sd": float(held.std(ddof=1) / np.sqrt(len(held))) if len(held) > 1 else np.nan,
        "marked": 100.0 * float((new[..., 0] - old[..., 0]).mean()),
    }  # fmt: skip


def together(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The line of a constant and factor over all designs that it reached."""
    table = pd.DataFrame(lines)
    out: dict[str, Any] = {"reached": table["reached"].mean(), "failed": table["failed"].sum()}
    if "se" in table and (some := table[table["se"].notna()]).size:
        out |= {k: np.exp(np.log(some[k]).mean()) for k in ("se", "rmse")}
        out |= {k: some[k].mean() for k in ("coverage", "marked")}
        out["coverage_sd"] = np.sqrt((some["coverage_sd"] ** 2).sum()) / len(some)
    return out


def study(paths: Sequence[str], designs: Sequence[str], n: int, runs: int, kept: Runs) -> pd.DataFrame:
    """The table."""
    values, stamp, table = tuning(), f"{tuning_hash()}-{code_hash()}", list[dict[str, Any]]()

    def numbers(name: str, path: str, factor: float) -> np.ndarray:
        given = {path: times(values[path], factor)} if path else {}
        cell = f"{stamp}-{path.replace(':', '.') or 'as it is'}-{factor:g}-{name}-{n}-{runs}"
        found = np.array(kept.get(cell, lambda: runs_of(name, n, runs, given)))
        return found.reshape(runs, -1, KEPT)

    before = {name: numbers(name, "", 1.0) for name in designs}
    for path in paths:
        if where := frozen(path):
            table.append({"constant": path, "note": f"not varied: read in {where}"})
            continue
        for factor in FACTORS:
            head = {"constant": path, "times": factor}
            if repr(times(values[path], factor)) == repr(values[path]):
                table.append(head | {"note": "not varied: the same whole number"})
                continue
            begin = time.monotonic()
            lines = [head | {"design": name} | compared(numbers(name, path, factor), before[name]) for name in designs]
            lines = [line | ({} if line["reached"] else {"note": "not reached"}) for line in lines]
            every = head | {"design": "all"} | together(lines)
            table += [*lines, every | ({} if every["reached"] else {"note": "not reached"})]
            print(
                f"{path} × {factor:g}: reached {every['reached']:.2f}, se {every.get('se', np.nan):.3f}, rmse "
                f"{every.get('rmse', np.nan):.3f}, coverage {every.get('coverage', np.nan):+.1f}, marked "
                f"{every.get('marked', np.nan):+.1f}; {(time.monotonic() - begin) / len(designs):.1f} s a cell",
                flush=True,
            )
    return pd.DataFrame(table).round(4)


def changes(new: np.ndarray, old: np.ndarray) -> dict[str, float]:
    """What a change did to fits, arrays of shape (runs, k + 1, 3), as `exercises.played` gives each; NaN: it failed."""
    failed = int(np.isnan(new[:, -1, 0]).sum())
    same = [a.tobytes() == b.tobytes() for a, b in zip(new, old, strict=True)]
    out = {"reached": 1.0 - float(np.mean(same)), "failed": failed, "large": float(failed > 0)}
    if all(same) or failed:
        return out
    (mark, theta, se), (marked, before, sd) = (np.moveaxis(a[:, :-1], 2, 0) for a in (new, old))
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = float(np.sqrt(np.nanmean(((theta - before) / sd) ** 2)))
        length = float(np.nanmean(np.log(se / sd)))
    others = int((mark != marked).sum())
    large = moved >= MOVED or abs(length) >= LENGTH or others > 0
    notes = int((new[:, -1, 0] != old[:, -1, 0]).sum())
    return out | {"moved": moved, "length": length, "marked": others, "notes": notes, "large": float(large)}


def screen(paths: Sequence[str], n: int, runs: int, kept: Runs) -> pd.DataFrame:
    """The table of `--screen`."""
    listed = rows().set_index("path")["group"]
    values, stamp, table = tuning(), f"{tuning_hash()}-{code_hash()}", list[dict[str, Any]]()

    def fits(name: str, path: str, factor: float) -> np.ndarray:
        def made() -> list[float]:
            out = list[np.ndarray]()
            with changed({path: times(values[path], factor)} if path else {}):
                for run in range(runs):
                    try:
                        out.append(exercises.played(name, n, run))
                    except (pr.errors.PrivregError, ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError):
                        out.append(np.full((1, 3), np.nan))
            shape = max(a.shape for a in out)
            return np.ravel([np.full(shape, np.nan) if a.shape != shape else a for a in out]).tolist()

        cell = f"{stamp}-screen-{path.replace(':', '.') or 'as it is'}-{factor:g}-{name}-{n}-{runs}"
        return np.array(kept.get(cell, made)).reshape(runs, -1, 3)

    for path in paths:
        if where := frozen(path):
            table.append({"constant": path, "note": f"not varied: read in {where}"})
            continue
        for name in exercises.SCREENED[listed[path]]:
            old, lines = fits(name, "", 1.0), list[dict[str, Any]]()
            for factor in FACTORS:
                line = {"constant": path, "times": factor, "design": name}
                if repr(times(values[path], factor)) == repr(values[path]):
                    lines.append(line | {"note": "not varied: the same whole number"})
                    continue
                new = fits(name, path, factor)
                new = new if new.shape == old.shape else np.full(old.shape, np.nan)
                lines.append(line | changes(new, old))
            table += lines
            if any(line.get("large") for line in lines):
                break
        print(path, table[-1], flush=True)
    return pd.DataFrame(table).round(4)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sensitivity", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    listed = rows()
    every = [path for path in listed["path"] if ".aggregate" not in path]  # those of two collectors: `two_collectors`
    every = listed["path"].tolist() if "--screen" in (arguments or sys.argv) else every
    names = [name for designs in FAMILIES.values() for name in designs]
    parser.add_argument("--constants", nargs="*", choices=every, metavar="PATH", help='"module:NAME"')
    parser.add_argument("--groups", nargs="*", choices=sorted(set(listed["group"])), metavar="NAME")
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS), choices=names, metavar="NAME")
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="folder of finished cells")
    parser.add_argument("--quick", action="store_true", help="a look at three constants; nothing stored")
    parser.add_argument("--screen", action="store_true", help="which constants change nothing; few runs are enough")
    args = parser.parse_args(arguments)
    paths = args.constants or (list(QUICK) if args.quick and not args.groups else every)
    if args.groups:
        inside = set(listed["path"][listed["group"].isin(args.groups)])
        paths = [path for path in paths if path in inside]
    if args.screen:
        found = screen(paths, args.n, args.runs, Runs(args.keep))
        command = f"python -m benchmarks.sensitivity --screen --n {args.n} --runs {args.runs}"
        save_table(found, RESULTS / "sensitivity.csv", command)
        return
    n, runs = (20_000, 2) if args.quick else (args.n, args.runs)
    table = study(paths, args.designs, n, runs, Runs(args.keep))
    if args.quick:
        print(table.to_string(index=False))
        return
    command = f"python -m benchmarks.sensitivity --n {n} --runs {runs}"
    command += f" --constants {' '.join(args.constants)}" if args.constants else ""
    command += f" --groups {' '.join(args.groups)}" if args.groups else ""
    command += f" --designs {' '.join(map(repr, args.designs))}" if args.designs != list(DESIGNS) else ""
    some = "_some" if paths != every or args.designs != list(DESIGNS) else ""
    save_table(table, RESULTS / f"sensitivity_pairs{some}.csv", command)


if __name__ == "__main__":
    main()
