"""Fits of local reports by rounds have 100 coefficients at most: beyond, every door refuses, before it reads a row."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.cli.app import main
from privreg.collector.inference.methods import WIDE
from privreg.errors import OptionError, SavedFileError, StudyError
from privreg.simulation import tuning
from privreg.simulation.devices import MOST, NUMBERS, most
from privreg_field.study.declaring.declared import read
from privreg_field.study.declaring.plan import study_plan
from privreg_field.study.reading.collected import chain_of
from tests.studies import SERVER, public

REASON = "coefficients are too many for local reports by rounds, which go up to 100: .* 4 million people at mu = 1"
BOUNDS = {"y": (-9, 9)}
UNREADABLE = pd.DataFrame({"y": 1.0, "g": ["of no level"] * 300})


def declared(levels):
    return {"bounds": BOUNDS, "levels": {"g": [f"g{k}" for k in range(levels)]}}


def model(levels=WIDE + 1, data=None, **options):
    return pr.PrivateOnlineRegression.from_formula("y ~ g", data, **{**declared(levels), "mu": 3, **options})


def of_classes(classes, numbers):
    names = [f"x{j}" for j in range(numbers)]
    levels = {"y": list(range(classes))}
    bounds = dict.fromkeys(names, (-1, 1))
    made = pr.PrivateOnlineRegression.from_formula
    return made("y ~ " + " + ".join(names), None, family="multinomial", levels=levels, bounds=bounds, mu=3)


def of_arrays():
    names = [f"x{j}" for j in range(WIDE + 1)]
    rows = np.ones((300, len(names)))
    given = {"exog_names": names, "endog_name": "y", "bounds": BOUNDS | dict.fromkeys(names, (-1, 1)), "mu": 3}
    return pr.PrivateOnlineRegression(rows[:, 0], rows, **given)


DOORS = {
    "fit": lambda: model(data=UNREADABLE, missing="raise").fit(),  # of rows that would be refused
    "arrays": lambda: of_arrays().fit(),
    "stream": lambda: model().start(),
    "plan of a fit": lambda: model().plan(rows=10**7),
    "no privacy": lambda: model(mu=None).plan(rows=10**7),
    "classes": lambda: of_classes(11, 10).plan(rows=10**7),
    "rows of people": lambda: model(id="who", k_max=2).plan(rows=10**7),
    "sample size": lambda: pr.plan("y ~ g", n=10**7, mu=3, scale=1, **declared(WIDE + 1)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_more_and_says_why(door):
    with pytest.raises(OptionError, match=REASON):
        DOORS[door]()


def test_as_many_as_100_go():
    assert model(WIDE).plan(rows=10**6).settings.efficient is not None
    assert of_classes(11, 9).plan(rows=10**6).settings.efficient is not None


@pytest.mark.parametrize("options", [{"trust": "two_collectors"}, {"trust": "central"}, {"private": "response"}])
def test_sums_and_public_covariates_have_more(options):
    assert len(model(121, **options).plan(rows=10**6).spec.design.names) == 121


def test_the_published_chain_has_more():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"g": [f"g{k}" for k in rng.integers(0, 121, 3000)], "y": rng.normal(size=3000)})
    res = model(121, rows).fit(tuning="published", seed=1, progress=False)
    assert res.bse.notna().all()
    assert len(res.params) == 121


def test_the_shell_refuses_it_with_its_words(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("y,g\n" + "1,g1\n" * 300)
    levels = ",".join(declared(WIDE + 1)["levels"]["g"])
    assert main(["fit", "y ~ g", str(path), "--bounds", "y=-9:9", "--levels", f"g={levels}", "--mu", "3"]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert "101 coefficients are too many" in said
    assert "--tuning published" in said


def test_a_stream_saved_before_is_refused_by_name(tmp_path, monkeypatch):
    path = tmp_path / "wide.privreg"
    monkeypatch.setattr(tuning, "WIDE", 2 * WIDE)  # as an earlier version took them
    model(rows=10**6).start().save(path)
    monkeypatch.undo()
    with pytest.raises(SavedFileError, match="wide.privreg' can't be used: 101 " + REASON):
        pr.load(path)


STUDY = {
    "study": "s", "title": "S", "purpose": "Why.", "contact": "s@example.org", "opens": "2047-01-15",
    "closes": "2047-03-01", "questions": {"y": "How much?", "g": "Which?"}, "formula": "y ~ g", "mu": 1, "rows": 10**7,
}  # fmt: skip


def test_a_study_is_refused_when_it_is_declared_and_when_it_was_signed_before(tmp_path, monkeypatch):
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**STUDY, **declared(WIDE + 1)}))
    with pytest.raises(OptionError, match=REASON):
        read(path)
    monkeypatch.setattr(tuning, "WIDE", 2 * WIDE)
    about, fit = read(path)
    plan = study_plan(fit, fit.spec.design.trees(), about, [public(SERVER)])
    monkeypatch.undo()
    with pytest.raises(StudyError, match="a model that can't be fitted: 101 " + REASON):
        chain_of(plan)


def test_rows_of_many_columns_are_played_few_at_a_time():
    assert most(3) == MOST
    assert most(2000) * 2000 <= NUMBERS
