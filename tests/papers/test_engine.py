"""Experiments: seeds, resumption, failures, tables, figures and the command."""

import dataclasses
import json
import math
import operator
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import privreg as pr
from benchmarks.papers import EXPERIMENTS, Experiment, find, run
from benchmarks.papers.__main__ import _in_short, main
from benchmarks.papers.engine import seeds
from benchmarks.papers.store import printed, read_runs, read_table, write_runs
from benchmarks.papers.summaries import clopper_pearson, summarise
from privreg.cli.app import main as privreg
from privreg.errors import MissingExtraError, OptionError, SavedFileError


@dataclasses.dataclass(frozen=True)
class Toy:
    name: str
    fails: int = 0


def toy_cells(quick):
    return [Toy("a"), Toy("b", fails=2)]


def toy(cell, replication):
    if replication == cell.fails:
        raise OptionError("on purpose, " + "x" * 500)
    value = float(seeds(cell.name, replication).rows().standard_normal())
    return [{"method": "m", "n": 10, "alpha": 0.05, "truth": 0.0, "estimate": value, "low": value - 1.96,
             "high": value + 1.96, "seconds": 0.1}]  # fmt: skip


def toy_tables(runs, cells):
    return {"": summarise(runs, ["cell", "method", "n"])}


def toy_figure(tables):
    from matplotlib.figure import Figure

    return Figure()


def a_toy(replicate=toy):
    return Experiment("toy", toy_cells, replicate, toy_tables, toy_figure, "a toy", "nowhere", "", 5)


# --- the engine -------------------------------------------------------------------------------------------


def test_seeds_follow_from_name_and_number_and_rows_never_share_them_with_noise():
    first, again, other = seeds("cell", 1), seeds("cell", 1), seeds("cell", 2)
    assert first.fits(3) == again.fits(3)
    assert first.rows().random() == again.rows().random()
    assert not set(first.fits(3)) & set(other.fits(3))
    assert first.data.spawn_key != first.noise.spawn_key
    assert first.data.generate_state(1)[0] != first.noise.generate_state(1)[0]


@pytest.mark.thorough
def test_a_rerun_adds_what_is_missing_and_nothing_changes(tmp_path):
    calls = []

    def counted(cell, replication):
        calls.append((cell.name, replication))
        return toy(cell, replication)

    experiment = a_toy(counted)
    run(experiment, 3, out=tmp_path, progress=False)
    assert len(calls) == 6
    run(experiment, 5, out=tmp_path, progress=False)
    assert len(calls) == 10
    resumed = run(experiment, 5, out=tmp_path, progress=False)
    assert len(calls) == 10
    at_once = run(a_toy(), 5, progress=False)
    pd.testing.assert_frame_equal(resumed, at_once, check_exact=False, rtol=1e-8)
    run(experiment, 5, out=tmp_path, again=True, cells=["a"], progress=False)
    assert len(calls) == 15
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]  # no temporary file is left


def test_an_interrupted_run_keeps_what_it_has_done(tmp_path):
    def interrupted(cell, replication):
        if cell.name == "b":
            raise KeyboardInterrupt
        return toy(cell, replication)

    with pytest.raises(KeyboardInterrupt):
        run(a_toy(interrupted), 4, out=tmp_path, progress=False)
    assert read_runs(tmp_path / "runs/toy", Toy("a"))["replication"].tolist() == [1, 2, 3, 4]
    assert not (tmp_path / "toy.csv").exists()


@pytest.mark.thorough
def test_failures_are_counted_and_named(tmp_path):
    table = run(a_toy(), 5, out=tmp_path, progress=False)
    lost = table[table.failures > 0]
    assert lost.cell.tolist() == ["b"]
    assert lost.first_error.tolist() == ["OptionError"]
    assert table[(table.cell == "b") & (table.failures == 0)].replications.tolist() == [4]
    text = (tmp_path / "toy.csv").read_text()
    assert text.startswith("# command: python -m benchmarks.papers toy --reps 5\n# date: ")
    assert all(word in text for word in ("# commit: ", "# versions: privreg ", "python ", "numpy ", "# package: "))
    assert len(read_table(tmp_path / "toy.csv")) == len(table)
    assert (tmp_path / "toy.png").stat().st_size > 0


def test_runs_of_other_settings_are_not_mixed(tmp_path):
    write_runs(tmp_path, Toy("c"), pd.DataFrame({"replication": [1], "error": ['a # b, "c"']}))
    assert read_runs(tmp_path, Toy("c"))["error"].tolist() == ['a # b, "c"']
    with pytest.raises(SavedFileError, match=r"other settings.*--again"):
        read_runs(tmp_path, Toy("c", fails=1))


@pytest.mark.thorough
def test_processes_give_the_same_as_one(tmp_path):
    pytest.importorskip("joblib")
    code = (
        "from tests.papers.test_engine import a_toy; from benchmarks.papers import run\n"
        "if __name__ == '__main__':\n"
        "    one, two = (run(a_toy(), 3, jobs=j, progress=False) for j in (1, 2))\n"
        "    assert one.equals(two), (one, two)\n"
    )
    script = tmp_path / "two.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": "."})  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_without_joblib_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(MissingExtraError, match="pip install joblib"):
        run(a_toy(), 1, jobs=2, progress=False)
    assert len(run(a_toy(), 1, progress=False)) == 2


@pytest.mark.parametrize(("options", "words"), [
    ({"reps": 0}, "reps=0"), ({"jobs": True}, "jobs=True"), ({"cells": ["z"]}, "no cell is called 'z'; there are a, b"),
])  # fmt: skip
def test_wrong_options(options, words):
    with pytest.raises(OptionError, match=words):
        run(a_toy(), progress=False, **options)


# --- numbers ----------------------------------------------------------------------------------------------


def test_exact_limits():
    for hits, trials in ((0, 10), (3, 10), (10, 10), (761, 800)):
        low, high = clopper_pearson(hits, trials, 0.01)
        if hits:
            assert binom.sf(hits - 1, trials, low) == pytest.approx(0.01)
        if hits < trials:
            assert binom.cdf(hits, trials, high) == pytest.approx(0.01)
    assert clopper_pearson(0, 10)[0] == 0.0
    assert clopper_pearson(10, 10)[1] == 1.0


def test_summary_by_hand():
    runs = pd.DataFrame(
        {
            "cell": "c",
            "replication": [1, 1, 2, 2, 3],
            "alpha": 0.1,
            "truth": [0.0, 1.0, 0.0, 1.0, math.nan],
            "estimate": [0.5, 1.0, -0.5, 3.0, math.nan],
            "low": [0.0, 0.0, -1.0, 2.0, math.nan],
            "high": [1.0, 2.0, 0.0, 4.0, math.nan],
            "seconds": 1.0,
            "error": [None, None, None, None, "DataError: something"],
        }
    )
    (row,) = summarise(runs, ["cell"]).to_dict("records")
    assert (row["replications"], row["failures"], row["first_error"]) == (3, 1, "DataError")
    assert row["bias"] == pytest.approx(0.5)
    assert row["rmse"] == pytest.approx(math.sqrt(4.5 / 4))
    assert row["coverage"] == 75.0
    assert row["length"] == pytest.approx(1.5)
    half = 3.2905267314919255 * 0.0
    assert (row["length_low"], row["length_high"]) == pytest.approx((1.5 - half, 1.5 + half))
    least, most = binom.ppf([0.0005, 0.9995], 4, 0.9)
    assert (row["low_999"], row["high_999"]) == (25 * least, 25 * most)
    assert row["inside"]


# --- the command ---------------------------------------------------------------------------------------------


def test_every_experiment_says_what_it_is_and_has_cells_that_can_be_stored():
    assert len(EXPERIMENTS) == 18
    for name, experiment in EXPERIMENTS.items():
        assert find(name) is experiment
        for quick in (False, True):
            cells = experiment.cells(quick)
            assert len({c.name for c in cells}) == len(cells) > 0
            assert all(set(c.name).isdisjoint("/\\ *?") for c in cells)
            json.dumps([dataclasses.asdict(c) for c in cells])
            hash(tuple(cells))
        assert experiment.replications >= 1
        assert experiment.about.endswith((".", "datasets."))
        assert "arXiv" in repr(experiment)
    with pytest.raises(OptionError, match="Did you mean 'xsjkh-table1'"):
        find("xsjkh-table-1")


def test_the_list(capsys):
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    assert all(f"{name}: " in out for name in EXPERIMENTS)
    assert "1 cell × 20 replications" in out
    assert main(["dg-table2", "--list"]) == 0
    assert "are our choice" in " ".join(capsys.readouterr().out.split())


@pytest.mark.thorough
def test_the_command_writes_tables_and_a_figure(tmp_path, capsys):
    words = ["sxjkh-fig2", "--quick", "--reps", "2", "--cells", "*Unif*", "--out"]
    assert main([*words, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "square" in said
    assert "Rows are of 2 runs." in said
    found = read_table(tmp_path / "quick/sxjkh-fig2.csv")
    assert set(found.budget) == {"Unif(1, 2)"}
    assert (tmp_path / "quick/sxjkh-fig2-slopes.csv").exists()
    assert (tmp_path / "quick/sxjkh-fig2.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("words", [[], ["no-such"], ["dg-table1", "--reps", "0"], ["dg-table1", "--cells", "x"]])
def test_what_the_command_refuses(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err


def test_a_long_table_is_printed_in_short():
    long = pd.DataFrame({"mu": 1, "n": np.repeat([10, 20], 40), "remark": ["", "odd"] * 40, "x": np.arange(80.0)})
    text = _in_short(long)
    assert text.splitlines()[0] == "mu 1, n 20"
    assert "24 of 80 rows, those of most people" in text
    assert text.count("odd") == 1


@pytest.mark.thorough
def test_experiments_print_what_a_reader_needs(tmp_path, capsys):
    assert main(["xsjkh-table3", "--quick", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out.replace(str(tmp_path), "folder")
    assert len(out.splitlines()) < 35
    assert max(map(len, out.splitlines())) <= 110
    assert out.count("reconstructed records") == 1


def test_printed_tables_are_complete():
    one, three = printed("xsjkh_table1"), printed("xsjkh_table3")
    assert one["n"] == [40_000, 80_000, 120_000, 160_000, 200_000]
    for setting, methods in {"non_private": "PI BM RS", "mu_1": "PPI PBM PRS", "mu_2": "PPI PBM PRS"}.items():
        assert set(one[setting]) == set(methods.split())
        for cell in one[setting].values():
            assert {key: len(row) for key, row in cell.items()} == {"CP": 5, "AL": 5}
    assert len(three["coefficients"]) == len(three["OLS"]) == len(three["LDP_SGD"]) == 10
    assert "2505.08227" in one["source"]
    assert "2505.08227" in three["source"]


# --- names that have gone ---------------------------------------------------------------------------------

GONE = {
    "experiments": "python -m benchmarks.papers NAME",
    "rates": "benchmarks.papers.bounds",
    "theory": "benchmarks.papers.bounds",
    "datasets.published": "python -m benchmarks.papers NAME",
    "means.corrections": "python -m benchmarks.papers.duan",
    "means.plot_benchmark": "plot(loglog=True)",
}


@pytest.mark.parametrize("name", GONE)
def test_names_that_have_gone_say_where(name):
    with pytest.raises(AttributeError, match=re.escape(GONE[name])):
        operator.attrgetter(name)(pr)


@pytest.mark.parametrize("name", ["experiments", "theory"])
@pytest.mark.parametrize("words", ["import privreg.{}", "from privreg import {}", "from privreg.{} import omega"])
def test_imports_that_have_gone_say_where(words, name):
    with pytest.raises(ImportError, match=re.escape(GONE[name])):
        exec(words.format(name), {})


def test_the_verb_that_has_gone_says_where(capsys):
    assert privreg(["experiment", "xsjkh-table1"]) == 2
    assert "python -m benchmarks.papers NAME" in capsys.readouterr().err
