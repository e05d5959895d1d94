"""Numbers of the engine that decide something statistical are listed, with a reason."""

import ast
import contextlib
import importlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg.audit.reports
import privreg.collector.covariates.moments
import privreg.collector.levels
import privreg.results.statement
from benchmarks import exercises, sensitivity, store, tuning
from docs import cells

ROOT = Path(__file__).parents[2]
KIT = ROOT / "packages" / "field"
PLACES = (
    *sorted((ROOT / "privreg/collector").rglob("*.py")),
    *sorted((KIT / "privreg_field" / "collector").rglob("*.py")),
    *(
        file
        for file in sorted((ROOT / "privreg/families").glob("*.py"))
        if file.stem not in {"logistic", "measures", "poisson", "residuals", "scores", "squared"}  # of the papers
    ),
    *(file for file in sorted((ROOT / "privreg/fits").glob("*.py")) if file.stem != "published"),
    *(
        ROOT / f"privreg/{name}.py"
        for name in ("simulation/tuning", "protocol/codes", "protocol/rounds", "protocol/schedule")
    ),
)
EARLIER = "of an earlier tuning"


def _is_number(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | frozenset):
        return bool(value) and all(_is_number(v) for v in value)
    return isinstance(value, int | float | np.ndarray) and not isinstance(value, bool) and np.size(value) > 0


def _named(text):
    """Names that a module gives to values."""
    body = [node for node in ast.parse(text).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    found = [node.targets if isinstance(node, ast.Assign) else [node.target] for node in body]
    return [n.id for targets in found for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]


def _found():
    out = set()
    for file in PLACES:
        module = ".".join(
            file.relative_to(KIT if file.is_relative_to(KIT) else ROOT).with_suffix("").parts
        ).removesuffix(".__init__")
        names = _named(file.read_text("utf-8"))
        out |= {f"{module}:{name}" for name in names if _is_number(getattr(importlib.import_module(module), name))}
    return out


def _listed():
    rest = [path for paths in tuning.listed()["not_statistical"].values() for path in paths]
    return [*tuning.tuning(), *rest]


@pytest.mark.thorough
def test_every_number_of_the_engine_is_listed_once_and_exists():
    listed = _listed()
    assert sorted(listed) == sorted(set(listed))
    assert sorted(_found() - set(listed)) == [], (
        "give them a row in privreg/collector/tuning.toml, or a place in its not_statistical"
    )
    assert sorted(set(listed) - _found()) == [], "no such constant"


@pytest.mark.parametrize("text", ["X: Final = 0.3", "X: Final[float] = 0.3", "X = 0.3", "X, = (0.3,)"])
def test_a_new_number_would_be_found(text):
    assert _named(text) == ["X"]
    assert _is_number(0.3)
    assert _is_number((1, 2.0))
    assert _is_number({"a": 1})
    assert not _is_number("0.3")
    assert not _is_number({"a": "b"})


def _wrong(row, root):
    """What is wrong with the reason of a row."""
    kind, _, what = row["reason"].partition(": ")
    if kind not in tuning.REASONS or not what:
        return "no reason of the kinds that there are"
    if kind == "study" and not (root / what).is_file():
        return f"{what} is not stored"
    return "" if all(row.get(part) for part in ("path", "group", "meaning", "unit")) else "a part is empty"


def test_reasons_are_of_the_kinds_there_are_and_studies_are_stored():
    assert {row["path"]: wrong for row in tuning.listed()["constant"] if (wrong := _wrong(row, ROOT))} == {}
    row = {"path": "a:B", "group": "g", "meaning": "m", "unit": "u"}
    assert _wrong(row | {"reason": "study: benchmarks/results/none_such.csv"}, ROOT)
    assert _wrong(row | {"reason": "because"}, ROOT)


@pytest.mark.thorough
def test_a_change_arrives_wherever_the_name_was_imported_and_is_taken_back():
    path = "privreg.collector.levels:SURE"
    before = tuning.tuning_hash()
    with tuning.changed({path: 7.0}):
        assert privreg.collector.covariates.moments.SURE == privreg.collector.levels.SURE == 7.0
        assert privreg.results.statement.SURE == 7.0
        assert tuning.tuning_hash() != before
    assert privreg.collector.covariates.moments.SURE == privreg.results.statement.SURE == 3.0
    with contextlib.suppress(ZeroDivisionError), tuning.changed({"privreg.protocol.codes:LEVER2": 1.0}):
        assert privreg.audit.reports.LEVER2 == 1.0
        raise ZeroDivisionError
    assert privreg.audit.reports.LEVER2 == 64.0
    assert tuning.tuning_hash() == before


@pytest.mark.parametrize("path", ["privreg.protocol.schedule:ROUNDS", "privreg.collector.inference.resampling:FIRST"])
def test_a_change_that_would_not_arrive_is_refused(path):
    with pytest.raises(ValueError, match="can't be changed"), tuning.changed({path: 4}):
        pass


def test_numbers_of_compiled_loops_are_known():
    assert "compiled loop" in tuning.frozen("privreg.protocol.codes:TINY")
    with pytest.raises(KeyError), tuning.changed({"privreg.protocol.codes:TINY": 1.0}):
        pass


def test_a_stored_table_names_commit_and_tuning_once(tmp_path):
    for more in ((), ("commit: of another",)):
        store.save_table(pd.DataFrame({"a": [1]}), tmp_path / "t.csv", "python -m benchmarks.none", more)
        text = (tmp_path / "t.csv").read_text()
        assert text.count("# commit: ") == 1
        assert text.count(f"# tuning: {tuning.tuning_hash()}\n") == 1
        assert store.read_table(tmp_path / "t.csv")["a"].tolist() == [1]


def _tables(text):
    """Names of stored tables that a page shows."""
    names = re.findall(r'stored\(\s*"([\w-]+)"', text) + re.findall(r"benchmarks/results/([\w*-]+)\.csv", text)
    return {file for name in names for file in (ROOT / "benchmarks/results").glob(f"{name}.csv")}


def _old(text):
    """Stored tables of a page that are of another tuning than today's, if it doesn't say so."""
    today = f"# tuning: {tuning.tuning_hash()}\n"
    return [] if EARLIER in text else sorted(f.name for f in _tables(text) if today not in f.read_text("utf-8"))


def _pages():
    return [page for place in ("docs", "vignettes") for page in sorted((ROOT / place).rglob("*.md"))]


@pytest.mark.some(1)
@pytest.mark.parametrize("page", _pages(), ids=lambda p: p.name)
def test_pages_say_which_tables_are_of_an_earlier_tuning(page):
    assert _old(page.read_text("utf-8")) == [], f'say "{EARLIER}" on {page.name}'


def test_a_page_that_does_not_say_so_would_be_found():
    assert _old('stored("validity")') == ["validity.csv"]
    assert _old("see `benchmarks/results/notes.csv`") == ["notes.csv"]
    assert _old(f"all {EARLIER}: benchmarks/results/notes.csv") == []


@pytest.mark.thorough
def test_the_page_of_constants_runs():
    found, printed = cells.run(ROOT / "docs/tuning.md")
    assert printed.startswith(f"{len(tuning.tuning())} constants")
    assert set(found["table"]["path"]) == set(tuning.tuning())


def test_sensitivity_tells_a_change_that_reached_from_one_that_did_not():
    old = np.array([[[0.0, 1.0, 0.1, 1.0]], [[1.0, 0.0, 0.4, 2.0]], [[0.0, 1.0, -0.2, 1.5]]])
    assert sensitivity.compared(old.copy(), old) == {"reached": 0.0, "failed": 0}
    new = old * [1.0, 1.0, 3.0, 2.0]
    new[1, :, :2] = 0.0, 1.0
    found = sensitivity.compared(new, old)
    assert found["reached"] == 1.0
    assert found["se"] == pytest.approx(2.0)
    assert found["rmse"] == pytest.approx(3.0)
    assert found["coverage"] == pytest.approx(100 / 3)
    assert found["marked"] == pytest.approx(-100 / 3)
    assert found["coverage_sd"] == pytest.approx(100 / 3)
    new[2] = np.nan
    assert sensitivity.compared(new, old)["failed"] == 1
    nothing = np.full((3, 1, 4), np.nan)
    assert sensitivity.compared(nothing, old)["failed"] == 3
    assert sensitivity.compared(nothing, nothing.copy())["reached"] == 0.0


def test_a_screen_tells_a_large_change_from_a_small_one():
    old = np.array([[[0.0, 1.0, 0.5], [0.0, 2.0, 1.0], [7.0, 7.0, 7.0]]])
    assert sensitivity.changes(old.copy(), old) == {"reached": 0.0, "failed": 0, "large": 0.0}
    small = old.copy()
    small[0, :2, 1] += old[0, :2, 2] * [0.05, -0.05]
    found = sensitivity.changes(small, old)
    assert (found["reached"], found["large"], found["marked"]) == (1.0, 0.0, 0)
    assert found["moved"] == pytest.approx(0.05)
    for change in ([[0.0, 0.1, 0.0], [0.0, 0.2, 0.0]], [[0.0, 0.0, 0.01], [0.0, 0.0, 0.02]], [[1.0, 0.0, 0.0]] * 2):
        assert sensitivity.changes(old + np.array([[*change, [0.0] * 3]]), old)["large"] == 1.0
    assert sensitivity.changes(np.full(old.shape, np.nan), old) == {"reached": 1.0, "failed": 1, "large": 1.0}


def test_every_group_of_constants_has_fits_that_exercise_it():
    assert set(exercises.SCREENED) == set(tuning.rows()["group"])
    assert {name for names in exercises.SCREENED.values() for name in names} <= set(exercises.EXERCISES)


def test_halves_and_doubles_keep_the_kind_of_a_constant():
    assert sensitivity.times(3, 0.5) == 2
    assert sensitivity.times(1, 0.5) == 1
    assert sensitivity.times((1.0, 4), 2.0) == (2.0, 8)
    assert sensitivity.times({"a": 0.1}, 2.0) == {"a": 0.2}
    for path, value in tuning.tuning().items():
        for factor in sensitivity.FACTORS:
            assert type(sensitivity.times(value, factor)) is type(value), path
