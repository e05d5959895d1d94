"""The Python of the README and of the guides to extending runs as it stands there."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from docs import cells
from privreg.means.results.results import MeansResults
from privreg.planning.plan import StudyPlan
from privreg.results.results import PrivateResults
from privreg.results.several.comparison import Comparison

ROOT = Path(__file__).parents[2]
PAGES = cells.pages()
GUIDES = [path for path in PAGES if path.parent.name == "extending"]


README = cells.blocks(ROOT / "README.md")


@pytest.mark.some(1)
@pytest.mark.parametrize("case", range(len(README)))
def test_each_block_of_the_readme_runs_by_itself(case, capsys):
    """That of the other pages is run by ``python -m docs``."""
    exec(compile(README[case], "README.md", "exec"), {})
    assert "Private Online Regression Results" in capsys.readouterr().out


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(README) == 4  # a case each
    assert text.count("\n") <= 120
    assert len(text.encode()) < 12_000


@pytest.mark.some(1)
@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_code_of_a_page_is_python(path):
    found = cells.blocks(path)
    assert found
    for code in found:
        compile(code, path.name, "exec")


def test_a_page_leaves_the_next_neither_figures_nor_its_style(tmp_path):
    page, before = tmp_path / "page.md", plt.rcParams["font.size"]
    cell = "```{code-cell} ipython3\nimport matplotlib.pyplot as plt\nopen_now = plt.get_fignums()\n%s\n```\n"
    drawing, looking = 'plt.rcParams["font.size"] = 3.0\nplt.figure()', 'size = plt.rcParams["font.size"]'
    page.write_text(cell % drawing + cell % looking)
    names, _ = cells.run(page)
    assert (names["size"], names["open_now"], plt.get_fignums()) == (3.0, [], [])
    assert plt.rcParams["font.size"] == before


@pytest.mark.thorough
@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_a_guide_does_what_it_says_and_names_files_that_exist(path):
    found, _ = cells.run(path)
    if path.name == "add_family.md":
        limits = found["res"].conf_int(1e-6)
        assert ((limits[0] < [1, 2]) & (limits[1] > [1, 2])).all()
    if path.name == "add_mechanism.md":
        assert found["careless"].lower > found["mu"] >= found["honest"].lower
    named = re.findall(r"`((?:privreg|tests|benchmarks)/[\w/.]*)`", path.read_text())
    assert len(named) >= 3
    assert all((ROOT / name).exists() for name in named)


def test_the_readme_is_short_and_what_it_links_to_exists():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.encode()) < 12_000
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert len(linked) > 20
    assert [name for name in linked if not (ROOT / name).exists()] == []


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
    others = "MetaAnalysis Smooth Histogram SurvivalCurves HazardPrediction"
    found = {"privacy_curve", *(f"{name}.plot" for name in others.split())}
    for kind in (PrivateResults, Comparison, StudyPlan, MeansResults):
        found |= {f"{kind.__name__}.{name}" for name in dir(kind) if name.startswith("plot")}
    assert shown == found
