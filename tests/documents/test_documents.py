"""The README's and the vignettes' Python runs as it stands there."""

import re
from pathlib import Path

import pandas as pd
import pytest

from privreg.federated.results import FederatedResults
from privreg.means.results import MeansResults
from privreg.planning.plan import StudyPlan
from privreg.results.comparison import Comparison
from privreg.results.results import PrivateResults

ROOT = Path(__file__).parents[2]
STORIES = [ROOT / "README.md", *sorted((ROOT / "vignettes").glob("*.md"))]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def blocks(path):
    """Python of fenced blocks and of a notebook's cells, without the cells' tags."""
    found = re.findall(r"^```(?:python|\{code-cell\}.*?)\n(.*?)^```", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"^:\w+:.*\n", "", code, flags=re.MULTILINE) for code in found]


def run(path):
    found = blocks(path)
    assert len(found) >= 2
    namespace = {}
    with pd.option_context("display.max_colwidth", pd.get_option("display.max_colwidth")):  # pages may widen tables
        for code in found:
            exec(compile(code, path.name, "exec"), namespace)
    return namespace


PRINTED = {
    "means_and_mechanisms.md": r"Private Means and Frequencies",
    "where_papers_are_wrong.md": r"printed 27\.08, with two slips 27\.08",
}


@pytest.mark.parametrize("path", STORIES, ids=lambda p: p.name)
def test_code_of_a_document_runs_in_order(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(path)
    wanted = PRINTED.get(path.name, r"Private (Online|Federated) Regression Results")
    assert re.search(wanted, capsys.readouterr().out)


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_a_guide_does_what_it_says_and_names_files_that_exist(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(path)
    if path.name == "add_family.md":
        limits = found["res"].conf_int(1e-6)
        assert ((limits[0] < [1, 2]) & (limits[1] > [1, 2])).all()
    if path.name == "add_mechanism.md":
        assert found["careless"].lower > found["mu"] >= found["honest"].lower
    named = re.findall(r"`((?:privreg|tests|benchmarks)/[\w/.]*)`", path.read_text())
    assert len(named) >= 3
    assert all((ROOT / name).exists() for name in named)


def test_the_readme_has_its_two_commands_of_one_line_each():
    text = (ROOT / "README.md").read_text()
    for what, end in (("run", "privreg fit"), ("test", "-m tests")):
        block = re.search(rf"<!-- newcomer: {what} -->\n```\w*\n(.*?)```", text, flags=re.DOTALL)
        assert block is not None
        (line,) = block.group(1).strip().splitlines()
        assert end in line


@pytest.fixture(autouse=True)
def _figures_are_closed_and_settings_restored():
    plt = pytest.importorskip("matplotlib.pyplot")
    with plt.rc_context():
        yield
    plt.close("all")


def test_every_plotting_method_has_a_picture():
    """The page of plots is where the reference takes its pictures from."""
    shown = {tag for tag in re.findall(r":tags: \[picture, ([\w.]+)\]", (ROOT / "docs" / "plots.md").read_text())}
    found = {"plot_benchmark", "privacy_curve"}
    for kind in (PrivateResults, Comparison, StudyPlan, MeansResults, FederatedResults):
        found |= {f"{kind.__name__}.{name}" for name in dir(kind) if name.startswith("plot")}
    assert shown == found
