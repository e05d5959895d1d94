"""Tables of numbers print all their columns, whatever the terminal, and no option of pandas is changed for it."""

import csv
import re

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.base.optional import need
from privreg.results.data import Frame
from tests.helpers import array_model

ROWS = {"a": [0.1, 0.2], "b": [0.0, 0.0], "c": [0.5, 0.5], "const": [1.0, 1.0]}
FRAMES = {
    "tidy": lambda res: res.tidy(),
    "anova": lambda res: res.anova(),
    "glance": lambda res: res.glance(),
    "wald_test_terms": lambda res: res.wald_test_terms().table,
    "their headings": lambda res: res.wald_test_terms().summary_frame(),
    "t_test": lambda res: res.t_test("a = b, c").summary_frame(),
    "get_prediction": lambda res: res.get_prediction(pd.DataFrame(ROWS)).summary_frame(),
    "trajectory": lambda res: res.trajectory(),
    "rounds": lambda res: res.rounds,
}


@pytest.fixture(scope="module")
def res():
    return array_model(20_000).fit(seed=1, progress=False)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", FRAMES)
def test_all_columns_are_printed_in_a_terminal_of_80_columns(res, name):
    frame = FRAMES[name](res)
    with pd.option_context("display.max_columns", 0, "display.width", 80):  # as pandas has them in a terminal
        text = repr(frame)
        assert pd.get_option("display.max_columns") == 0
    assert "..." not in text
    assert "…" not in text
    assert all(str(column) in text for column in frame.columns)
    longest = max(len(str(v)) for v in frame.to_numpy().ravel())  # a note is one long cell
    assert max(map(len, text.split("\n"))) <= max(80, longest + 20)


def test_what_is_computed_from_a_table_is_printed_and_saved_as_one(res, tmp_path):
    made = [res.tidy().head(2), res.tidy()[["term"]], res.tidy().set_index("term"), res.tidy().query("estimate > 0")]
    assert {type(one) for one in made} == {Frame}
    made[2].save(tmp_path / "table.csv")
    assert pd.read_csv(tmp_path / "table.csv").shape == (4, 8)
    pd.testing.assert_frame_equal(pd.DataFrame(res.tidy()), res.tidy())
    pd.testing.assert_frame_equal(res.tidy(), pd.DataFrame(res.tidy()))


@pytest.mark.some(1)
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("ending", [".tex", ".docx", ".html", ".md", ".txt"])
def test_documents_have_the_decimals_to_which_a_table_was_rounded(res, name, ending, tmp_path):
    frame = FRAMES[name](res)
    path = tmp_path / f"table{ending}"
    frame.round(2).save(path)
    text = path.read_text() if ending != ".docx" else words_of(path)
    values = [v for c in frame for v in frame[c] if frame[c].dtype.kind == "f" and np.isfinite(v) and abs(v) >= 0.01]
    for value in values:
        assert re.search(rf"(?<![\d.]){abs(value):.2f}(?!\d)", text.replace(",", "")), value


def words_of(path):
    return " ".join(cell.text for table in need("docx", "docx", "").Document(path).tables for cell in table._cells)


def test_columns_are_rounded_one_by_one(res):
    shown = repr(res.tidy().round({"estimate": 1, "p_value": 2}))
    estimate, error = res.tidy()[["estimate", "std_error"]].iloc[0]
    assert f" {estimate:.1f} " in shown
    assert f" {error:.1f} " not in shown


P_VALUES = pd.DataFrame({"F": [3.2, 900.0], "df_denom": [13.0, np.inf], "PR(>F)": [0.0312, 1e-30]}, index=["a", "b"])


@pytest.mark.parametrize("ending", [".tex", ".docx", ".html", ".md", ".txt"])
def test_no_document_says_that_a_probability_is_0_or_a_number_inf(ending, tmp_path):
    path = tmp_path / f"table{ending}"
    Frame(P_VALUES).save(path)
    text = path.read_text() if ending != ".docx" else words_of(path)
    assert "inf" not in re.sub(r"\\infty|<style>.*</style>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\d)0\.000", text)
    assert "0.001" in text
    assert "0.031" in text


def test_no_name_is_cut_in_a_notebook():
    names = [f"C(region, Treatment('north'))[T.{'x' * 60}{i}]" for i in range(70)]
    table = Frame({"term": names, "estimate": 1.0, "std_error": 0.1})
    for shown in (table, table.head(5)):  # of which the first is too long for a screen
        assert all(name.split("[")[1] in shown._repr_html_() for name in shown["term"].head(3))


def test_comparisons_are_printed_whole(res):
    with pd.option_context("display.max_columns", 0, "display.width", 80):
        assert "..." not in repr(pr.compare([res, res]).frame())


NAMED = {
    "cells": Frame({"term": ["=1+1", "@x", "y"], "estimate": [1.0, -2.0, 3.0]}),
    "index": Frame({"-share": [1.0, -2.0]}, index=pd.Index(["+a", "b"], name="=q")),
    "levels": Frame({"n": [1, 2]}, index=pd.MultiIndex.from_tuples([("\tx", 1), ("b", 2)], names=["g", None])),
    "categories": Frame({"term": pd.Categorical(["=x", "y"]), "reliable": [True, False]}),
}


@pytest.mark.parametrize("frame", NAMED.values(), ids=NAMED)
def test_no_name_is_computed_by_a_spreadsheet(frame, tmp_path):
    frame.save(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert any(cell.startswith("'") for cell in cells)
    plain = [cell for cell in cells if cell[:1] in set("=+-@\t")]
    assert all(float(cell) < 0 for cell in plain)  # numbers stay numbers
    assert len(cells) == (len(frame) + 1) * (frame.shape[1] + frame.index.nlevels * (frame.index[0] != 0))


@pytest.mark.thorough
def test_ratios_say_whose_errors_stand_beside_them():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 20_000)
    data = pd.DataFrame({"x": x, "y": (rng.uniform(size=len(x)) < 0.5 + 0.2 * x).astype(int)})
    given = {"bounds": {"x": (-1, 1)}, "levels": {"y": [0, 1]}, "trust": "central", "mu": 1, "family": "logistic"}
    res = pr.PrivateOnlineRegression.from_formula("y ~ x", data, **given).fit(seed=1, progress=False)
    logs, ratios = res.tidy(), res.tidy(exponentiate=True)
    assert ratios["std_error"].tolist() == logs["std_error"].tolist()
    assert "scale of logs" in repr(ratios)
    assert "note" not in logs.attrs
    assert "scale of logs" in repr(ratios.round(2))
    assert f" {ratios['std_error'].iloc[1]:.2f} " in repr(ratios.round(2))


def test_what_is_not_known_is_an_empty_cell_of_a_document(res, tmp_path):
    frame = res.tidy()
    frame.loc[0, ["std_error", "conf_low"]] = np.nan
    for ending in ("txt", "md", "html", "tex"):
        frame.save(tmp_path / f"table.{ending}")
        assert "nan" not in (tmp_path / f"table.{ending}").read_text("utf-8").lower()


def few_with_a_rare_level():
    """Means of people of whom noise may hide one level, so that limits are beyond what a share can be."""
    data = pd.DataFrame({"g": np.where(np.arange(2000) < 10, "rare", "usual"), "x": np.linspace(0, 1, 2000)})
    declared = {"bounds": {"x": (0, 1)}, "levels": {"g": ["rare", "usual"]}, "trust": "central", "mu": 0.05}
    return pr.means.estimate(data, "x + C(g) ~ 1", seed=1, **declared)


def curated(**how):
    data = pd.DataFrame({"x": np.linspace(-1, 1, 2000), "y": np.linspace(-1, 1, 2000) ** 3})
    given = {"bounds": {"x": (-1, 1), "y": (-1, 1)}, "mu": 1}
    return data, given | how


def descended():
    data, given = curated()
    model = pr.central.Regression.from_formula("y ~ x", data, **given)
    return model.fit(tuning="published", seed=1, progress=False)


RESULTS = {
    "local": lambda: array_model(20_000).fit(seed=1, progress=False),
    "curator": lambda: pr.PrivateOnlineRegression.from_formula("y ~ x", *curated()[:1], **curated(trust="central")[1])
    .fit(seed=1, progress=False),
    "descent": descended,
    "means": few_with_a_rare_level,
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
@pytest.mark.parametrize("kind", RESULTS)
def test_limits_are_the_same_wherever_they_are_shown(kind):
    res = RESULTS[kind]()
    tidy = res.tidy()
    limits = tidy[["conf_low", "conf_high"]].to_numpy()
    np.testing.assert_array_equal(res.conf_int(), limits)
    summary = res.summary()
    for row, known in zip(summary.table.rows, limits, strict=True):
        np.testing.assert_allclose([float(cell) for cell in row[-2:]], known, rtol=5e-3, atol=6e-4)
    for text in (summary.as_text(), summary.as_html(), summary.as_markdown(), summary.as_latex().replace("$-$", "-")):
        assert all(cell in text for row in summary.table.rows for cell in row[-2:])


def test_limits_of_shares_end_where_shares_do():
    res = few_with_a_rare_level()
    half = 1.959964 * res.bse
    assert res.params["g[rare]"] - half["g[rare]"] < 0.0 < 1.0 < res.params["g[usual]"] + half["g[usual]"]
    assert res.tidy().set_index("term").loc["g[rare]", "conf_low"] == 0.0
    assert res.tidy().set_index("term").loc["g[usual]", "conf_high"] == 1.0
