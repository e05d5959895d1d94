"""Seeded replications of the cells of an experiment: in parallel, resumable, each failure counted and none hidden."""

from __future__ import annotations

import time
import tomllib
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.papers.store import code_hash, commit, read_runs, save_table, write_runs
from privreg.errors import MissingExtraError, OptionError, shown, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLUSH: Final = 5.0  # Seconds between writes of the runs: what a killed process loses at most, beside runs in progress
QUICK: Final = 2  # Replications of a quick look
_SAID: Final = tomllib.loads(Path(__file__).with_name("experiments.toml").read_text("utf-8"))


class Seeds(NamedTuple):
    """Where the random numbers of one replication come from."""

    # Of the rows, and of the noise that protects them: never the same
    data: np.random.SeedSequence
    noise: np.random.SeedSequence

    def rows(self) -> np.random.Generator:
        """Return a generator of rows."""
        return np.random.Generator(np.random.SFC64(self.data))

    def fits(self, k: int) -> list[int]:
        """Return seeds of the noise of `k` fits."""
        return [int(v) for v in self.noise.generate_state(k, np.uint64)]


def seeds(cell: str, replication: int) -> Seeds:
    """Seeds of a replication, from the cell's name and the replication's number, from 1 on, alone."""
    data, noise = np.random.SeedSequence([zlib.crc32(cell.encode()), replication]).spawn(2)
    return Seeds(data, noise)


@dataclass(frozen=True)
class Experiment:
    """One published table or figure, run again. Call it to run it."""

    name: str  # Of the verb, such as "xsjkh-table1"
    # Frozen cells, each with a `name`; the smaller ones of a quick look if the argument is True
    cells: Callable[[bool], Sequence[Any]]
    replicate: Callable[[Any, int], list[dict[str, Any]]]  # Records of one replication of a cell; in other processes
    # From all runs, which have columns `cell` and `replication`, to tables by suffix; "" is the tidy one
    tabulate: Callable[[pd.DataFrame, Sequence[Any]], Mapping[str, pd.DataFrame]]
    draw: Callable[[Mapping[str, pd.DataFrame]], Figure]  # From those tables to a figure
    title: str  # In one line
    source: str  # Paper and place
    about: str  # What is run, what is published and what is not known
    replications: int  # As many as published

    def __call__(self, reps: int | None = None, **options: Any) -> pd.DataFrame:
        """Run it; see :func:`benchmarks.papers.run` for the options."""
        return run(self, reps, **options)

    def __repr__(self) -> str:
        return f"<experiment {self.name}: {self.title}; {self.source}>"


def described(name: str, *how: Any) -> Experiment:
    """An experiment of `cells`, `replicate`, `tabulate` and `draw`; what is said of it is in `experiments.toml`."""
    return Experiment(name, *how, **_SAID[name])


def run(
    experiment: Experiment,
    reps: int | None = None,
    *,
    jobs: int = 1,
    out: str | Path | None = None,
    quick: bool = False,
    cells: Sequence[str] = (),
    again: bool = False,
    plot: bool = True,
    progress: bool | None = None,
    command: str | None = None,
) -> pd.DataFrame:
    """Run an experiment, or what is missing of it.

    Parameters
    ----------
    experiment : Experiment
    reps : int, optional
        Replications; as many as published by default (at most 2 in a quick look).
    jobs : int
        Processes. More than one need joblib: ``pip install joblib``.
    out : path-like, optional
        Folder of the results: tables as NAME.csv, the figure as NAME.png, and the single runs in runs/NAME, from which
        a stopped experiment goes on. Nothing is stored without it. A quick look goes to its sub-folder quick.
    quick : bool
        A look: few replications of small cells.
    cells : sequence of str
        Names of cells to run; * and ? stand for others. All by default. The tables hold all that have been run.
    again : bool
        Replace stored runs.
    plot : bool
        Whether to draw the figure, with `out`.
    progress : bool, optional
        Show a progress bar; by default at a terminal.
    command : str, optional
        What the tables say they were made by.

    Returns
    -------
    DataFrame
        The tidy table; further tables of the experiment are under ``attrs["tables"]``.

    Raises
    ------
    OptionError
        If an option is out of range or no cell has such a name.
    SavedFileError
        If the runs that are stored are of other settings.
    MissingExtraError
        If joblib (for several jobs) or matplotlib (for the figure) is not installed.
    """
    usual = min(QUICK, experiment.replications) if quick else experiment.replications
    wanted, jobs = whole("reps", usual if reps is None else reps, 1), whole("jobs", jobs, 1)
    every = list(experiment.cells(quick))
    chosen = _chosen(every, cells)
    folder = None if out is None else Path(out) / ("quick" if quick else "")
    runs_of = None if folder is None else folder / "runs" / experiment.name
    held = {c.name: read_runs(None if again and c in chosen else runs_of, c) for c in every}
    done = {name: set(frame["replication"]) for name, frame in held.items()}
    todo = [(cell, r) for cell in chosen for r in range(1, wanted + 1) if r not in done[cell.name]]
    _work(experiment, todo, held, runs_of, jobs, progress, total=wanted * len(chosen))
    runs = pd.concat([frame.assign(cell=name) for name, frame in held.items() if len(frame)], ignore_index=True)
    tables = dict(experiment.tabulate(runs, [c for c in every if len(held[c.name])]))
    if folder is not None:
        words = ["python -m benchmarks.papers", experiment.name, f"--reps {wanted}", *(["--quick"] if quick else [])]
        said = command or " ".join([*words, *(f"--cells {c!r}" for c in cells)])
        _publish(experiment, tables, runs, folder, said, plot)
    table = tables.pop("")
    table.attrs["tables"] = tables
    return table


def _chosen(every: list[Any], patterns: Sequence[str]) -> list[Any]:
    names = [c.name for c in every]
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise OptionError(f"no cell is called {shown(pattern)}; there are {', '.join(names)}.")
    return [c for c in every if not patterns or any(fnmatch(c.name, pattern) for pattern in patterns)]


# --- running -------------------------------------------------------------------------------------------


def _one(
    replicate: Callable[[Any, int], list[dict[str, Any]]], cell: Any, replication: int
) -> tuple[str, list[dict[str, Any]]]:
    """Run one replication: its cell, and its records or one that says what went wrong."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seeds, opt-outs and few people are what a study is made of
        try:
            records = replicate(cell, replication)
        except Exception as e:  # a study tells which cells break, whatever it is that breaks
            records = [{"error": _named(e)}]
    spent = time.perf_counter() - begin
    return cell.name, [{"replication": replication, **r, "wall": spent, "code": code_hash()} for r in records]


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _results(
    experiment: Experiment, todo: list[tuple[Any, int]], jobs: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if jobs == 1:
        yield from (_one(experiment.replicate, cell, r) for cell, r in todo)
        return
    try:
        from joblib import Parallel, delayed, parallel_config
    except ImportError:
        raise MissingExtraError(
            "several jobs need joblib, which is not installed: pip install joblib. One job needs nothing."
        ) from None
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        yield from pool(delayed(_one)(experiment.replicate, cell, r) for cell, r in todo)


def _work(
    experiment: Experiment,
    todo: list[tuple[Any, int]],
    held: dict[str, pd.DataFrame],
    folder: Path | None,
    jobs: int,
    progress: bool | None,
    total: int,
) -> None:
    """Run what is to be done, adding to the runs that are held and, now and then, to their files in a folder."""
    from tqdm import tqdm

    cells = {cell.name: cell for cell, _ in todo}
    fresh: dict[str, list[dict[str, Any]]] = {}
    written, pause = time.perf_counter(), FLUSH

    def flush() -> None:
        for name in list(fresh):
            parts = [held[name], pd.DataFrame(fresh.pop(name))]
            frame = pd.concat([p for p in parts if len(p)], ignore_index=True)
            held[name] = frame.sort_values("replication", kind="stable", ignore_index=True)
            if folder is not None:
                write_runs(folder, cells[name], held[name])

    bar_options: dict[str, Any] = {"desc": experiment.name, "unit": " runs", "smoothing": 0.05}
    bar_options["disable"] = None if progress is None else not progress
    with tqdm(total=total, initial=total - len(todo), **bar_options) as bar:
        try:
            for name, records in _results(experiment, todo, jobs):
                fresh.setdefault(name, []).extend(records)
                bar.update()
                if time.perf_counter() - written > pause:
                    begin = time.perf_counter()
                    flush()
                    written = time.perf_counter()
                    pause = max(FLUSH, 10.0 * (written - begin))  # of long tables, writing stays a tenth of the work
        finally:
            flush()


def _publish(
    experiment: Experiment, tables: dict[str, pd.DataFrame], runs: pd.DataFrame, folder: Path, command: str, plot: bool
) -> None:
    code = ", ".join(sorted(set(runs["code"].astype(str))))
    more = (commit(), f"source: {experiment.source}", f"package: {code} (hash of the source that made the runs)")
    for suffix, table in tables.items():
        save_table(table, folder / f"{experiment.name}{suffix and '-'}{suffix}.csv", command, more)
    if plot:
        from benchmarks.papers.figures import save_figure

        save_figure(experiment.draw(tables), folder / f"{experiment.name}.png")
