"""Results that version 0.1 saved load, with the numbers they had. The files were made by 0.1 on simulated rows."""

import json
from pathlib import Path

import pandas as pd
import pytest

import privreg as pr

SAVED = Path(__file__).with_name("saved_by_0_1")
TOLD = json.loads((SAVED / "tidy.json").read_text())


@pytest.mark.parametrize("name", TOLD)
def test_results_of_version_0_1_load_with_their_numbers(name):
    res = pr.load(SAVED / f"{name}.privreg")
    table = res.tidy()
    pd.testing.assert_frame_equal(table[list(TOLD[name])], pd.DataFrame(TOLD[name]), check_dtype=False, rtol=1e-12)
    assert res.privacy.guarantee.split(",")[0] in " ".join(res.summary().as_text().split())


@pytest.mark.parametrize("name", ["huber", "logistic"])
def test_they_go_on_as_results_of_this_version_do(name, tmp_path):
    res = pr.load(SAVED / f"{name}.privreg")
    res.save(tmp_path / "again.privreg")
    again = pr.load(tmp_path / "again.privreg")
    pd.testing.assert_frame_equal(again.tidy(), res.tidy())
    rows = pd.DataFrame({"a": [0.0, 0.5], "g": ["u", "v"]})
    pd.testing.assert_series_equal(again.predict(rows), res.predict(rows))


@pytest.mark.parametrize("name", ["means", "curves"])
def test_means_that_were_saved_without_terms_load_with_their_numbers(name, tmp_path):
    """Between 0.1 and 0.2 files had names of estimates, and places of tables, products, classes and curves."""
    res = pr.load(SAVED.with_name("saved_before_terms") / f"{name}.privreg")
    res.save(tmp_path / "again.privreg")
    assert str(pr.load(tmp_path / "again.privreg").summary()) == str(res.summary())
    known = json.loads((SAVED.with_name("saved_before_terms") / f"{name}.json").read_text())
    views = {view: getattr(res, view) for view in known} | {
        "histogram": lambda: res.histogram("b"),
        "crosstab": lambda: res.crosstab().proportions(),
    }
    for view, wanted in known.items():
        shown = views[view]()
        found = shown if isinstance(shown, pd.DataFrame) else shown.frame()
        table = pd.DataFrame(wanted)
        if name == "curves":  # limits of shares end at 0 now
            table["conf_low"] = table["conf_low"].clip(lower=0.0)
        found = found.reset_index(drop=True)[list(table)]
        pd.testing.assert_frame_equal(found, table, check_dtype=False, rtol=2e-3)
