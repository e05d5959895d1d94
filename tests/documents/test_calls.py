"""The calls in the tables of all pages: those for newcomers and of the cheat sheet are run, others matched."""

import re

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from docs import calls, cells
from privreg.cli.app import main

ROOT = cells.ROOT
PAGES = [
    ROOT / "README.md",
    *(page for folder in ("docs", "vignettes") for page in sorted((ROOT / folder).rglob("*.md"))),
]
PAGES = [page for page in PAGES if "_build" not in page.parts]
SPANS = [
    span
    for page in PAGES
    for row in calls.rows(page.read_text("utf-8"))
    for c in row.values()
    for span in calls.code(c)
]
NAMES = {"pr": pr, "np": np, "pd": pd, **{name: getattr(pr, name) for name in pr.__all__}}


@pytest.fixture(autouse=True)
def _figures_are_closed():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield
    plt.close("all")


@pytest.mark.thorough
@pytest.mark.usefixtures("shared_rehearsals")
def test_calls_of_the_page_for_newcomers_run():
    """All of the page, whose last cells run its tables."""
    names, printed = cells.run(ROOT / "docs" / "coming_from.md")
    assert "for_marginaleffects" in printed
    assert list(names["res"].params.index) == ["Intercept", "g[T.b]", "g[T.c]", "x"]


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse_contours")
def test_calls_of_the_cheat_sheet_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)

    def drawn(n):
        table = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["a", "b", "x"]).assign(g=rng.choice(["a", "b"], n))
        return table.assign(y=(rng.random(n) < 0.3 + 0.4 * (table["g"] == "b")).astype(int))

    data, public = drawn(4_000), drawn(50)
    case = {"mu": 4, "bounds": {"a": (-1, 1), "b": (-1, 1), "x": (-1, 3)}, "levels": {"g": ["a", "b"]}}
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b + x + g", data, family="logistic", **case)
    res = model.fit(measures=0.2, progress=False)
    small = pr.PrivateOnlineRegression.from_formula("y ~ a + b + x", data, family="logistic", **case).fit(
        progress=False
    )
    names = {
        "pr": pr, "model": model, "res": res, "small": small, "large": res, "res1": small, "res2": res,
        "chunk": drawn(4_000), "new": public, "public_rows": public, "public_test": public,
        "path": tmp_path / "stream.privreg",
        "formula": "y ~ age", "data": data.assign(age=data["x"]), "family": "huber", "scale": 10.0, "mu": 4,
        "trust": "two_collectors",
        "bounds": {"age": (-1, 1), "y": (0, 1)}, "levels": {},
    }  # fmt: skip
    assert calls.run("cheat_sheet.md", names) > 40


@pytest.mark.some(1)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_calls_in_tables_fit_their_signatures(page):
    assert calls.faults(page.read_text("utf-8"), NAMES) == []


def test_calls_that_lead_nowhere_are_found():
    """What is found, and what a run refuses."""
    table = "| | privreg |\n|---|---|\n| one | `{}` |\n"
    for gone in ("pr.lost()", "pr.Huber(1.345, curved=2)", "pr.means.lost(1)", "Quantile(0.1, 0.2, 0.3)"):
        (found,) = calls.faults(table.format(gone), NAMES)
        assert found.startswith(gone)
    assert calls.faults(table.format("pr.Huber(1.345, scale=)"), NAMES) == []
    for gone in ("emmeans", 'which="linear"'):
        with pytest.raises((NameError, TypeError)):
            calls._run(gone, {})


@pytest.mark.some(1)
@pytest.mark.parametrize("span", sorted({span for span in SPANS if re.match(r"privreg \w+", span)}))
def test_commands_in_tables_have_their_verbs_and_options(span, capsys):
    verbs = re.match(r"privreg ((?:study|collector) [a-z-]+|\w+)", span)[1].split()
    options = set(re.findall(r"--[a-z][\w-]*", span))
    if span == "privreg fit --help":  # beside it stand the options of a fit
        options |= set(re.findall(r"--[a-z][\w-]*", (ROOT / "docs" / "cheat_sheet.md").read_text("utf-8")))
        assert len(options) > 8
    assert main([*verbs, "--help"]) == 0
    assert options - set(re.findall(r"--[\w-]+", capsys.readouterr().out)) == set()
