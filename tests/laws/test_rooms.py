"""Each folder says what it is for, and what every file in it does; docstrings name things; no imports in a circle."""

import ast
import re
from pathlib import Path

import grimp
import pytest

from tests.documents.citations import module, texts

REPO = Path(__file__).resolve().parents[2]
CORE, KIT = ROOTS = REPO / "privreg", REPO / "packages" / "field" / "privreg_field"
FOLDERS = sorted(p.parent for root in ROOTS for p in root.rglob("__init__.py") if p.parent != CORE)
PLAIN = (
    *("audit", "base", "cli", "collector", "collector/aggregate", "collector/covariates", "collector/estimation"),
    *("collector/inference", "data", "data/sources", "datasets", "doors", "errors.py", "families"),
    *("federated.py", "fits"),
    *("formula", "formula/language", "formula/trees", "privacy", "published", "published/chain", "published/descent"),
    "published/federated",
    *("means", "means/results", "options", "planning", "protocol", "published/shrinking", "schema", "simulation"),
    "simulation/streaming",
    *("results/plots", "results/postestimation", "results/several"),
    "results",
    "tables",
)
"""Folders and files of the package whose docstrings and comments on fields name the thing first; of the kit all."""
PLACES = [*(CORE / place for place in PLAIN), *(folder for folder in FOLDERS if folder.is_relative_to(KIT))]
WITHOUT_COMMENTS = {CORE / "collector/aggregate"}
VAGUE = re.compile(r"(?:#\s*)?(What|Whether|Of|The same|By|How|Who|Whom|Whose|Where|Those|As)\b")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(REPO)))
def test_a_folder_names_every_file_in_it(folder):
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    said = set(re.findall(r"`(\w+)`", text))
    there = {p.stem for p in folder.glob("*.py")} | {p.name for p in folder.iterdir() if (p / "__init__.py").exists()}
    assert there - {"__init__"} <= said
    assert said <= there | {p.name for root in ROOTS for p in [root, *root.iterdir()] if p.is_dir()}


@pytest.mark.parametrize("place", PLACES, ids=lambda p: str(p.relative_to(REPO)))
def test_a_docstring_names_the_thing_first(place):
    """A noun of the field, or of functions an imperative verb."""
    files = sorted(place.glob("*.py")) if place.is_dir() else [place]
    read = (lambda file: module(file).docstrings) if place in WITHOUT_COMMENTS else texts
    said = [(file.name, text) for file in files for text in read(file)]
    assert said
    assert [(name, text) for name, text in said if VAGUE.match(text)] == []


@pytest.mark.parametrize(
    ("text", "vague"),
    [("Whether it is", True), ("# Of the rounds", True), ("The same but", True), ("Offsets of groups", False)],
)
def test_what_a_docstring_may_begin_with(text, vague):
    assert bool(VAGUE.match(text)) is vague


def test_the_published_algorithm_is_reached_from_few_places():
    """Where tuning is resolved, where a fit is begun, by its settings and its audits; where means are shrunk.

    Silos' updates are randomised there.
    """
    graph, room = grimp.build_graph("privreg", cache_dir=None), "privreg.published"
    inside = {room, *graph.find_descendants(room)}
    doors = {
        (file, found)
        for found in inside
        for file in graph.find_modules_that_directly_import(found) - inside - {"privreg"}
    }
    assert doors == {
        ("privreg.fits.settings", f"{room}.chain.plans"),
        *(
            ("privreg.fits.published", f"{room}.chain.{name}")
            for name in ("path", "collector", "kernels", "plans", "run")
        ),
        *(("privreg.audit.reports", f"{room}.chain.{name}") for name in ("plans", "collector", "kernels")),
        *(("privreg.audit.descent", f"{room}.descent.{name}") for name in ("descent", "kernels", "losses", "plan")),
        ("privreg.means", f"{room}.shrinking.rules"),
        ("privreg.means.results.results", f"{room}.shrinking.rules"),
        ("privreg.doors.regression", f"{room}.descent"),
        *(("privreg.doors.loading", f"{room}.descent.{name}") for name in ("losses", "results")),
        ("privreg.doors.regression", f"{room}.descent.losses"),
    }


def test_no_files_import_each_other_in_a_circle():
    """Also where an import is for types alone."""
    graph = grimp.build_graph("privreg", "privreg_field", cache_dir=None)
    left = {file: graph.find_modules_directly_imported_by(file) for file in graph.modules}
    assert len(left) > 300
    while ready := [file for file, imports in left.items() if not imports & left.keys()]:
        for file in ready:
            del left[file]
    # what is left imports what is left: the circles, and who imports them
    assert {file: sorted(imports & left.keys()) for file, imports in left.items()} == {}
