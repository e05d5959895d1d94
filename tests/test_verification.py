"""`res.privacy.verify()`: the audit of the mechanisms that a fit used."""

import dataclasses
import json

import numpy as np
import pytest

import privreg as pr
from privreg.errors import BudgetError, OptionError
from privreg.privacy import PrivacyStatement

N = 6_000


def fitted(family="huber", seed=2, rows=N, **options):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    y = x @ [0.5, 1.0, -1.0] + 0.5 * rng.normal(size=rows)
    bounds = {"a": (-4, 4), "b": (-4, 4), "y": (-8, 9)}
    tuning = {k: options.pop(k) for k in ("tuning", "measures") if k in options}
    if getattr(family, "binary", False):
        y = (y > 0) * 1.0
        bounds.pop("y")
    model = pr.PrivateOnlineRegression(
        y, x, exog_names=["const", "a", "b"], endog_name="y", bounds=bounds, family=family, **options
    )
    return model.fit(progress=False, **tuning)


WAYS = {
    "default": {"mu": 1},
    "logistic": {"family": pr.Logistic(), "mu": 2},
    "hinge": {"family": pr.Hinge(), "mu": 1},
    "quantile, Laplace": {"family": pr.Quantile(0.8), "epsilon": 2, "mechanism": "laplace"},
    "PrivUnit": {"epsilon": 2},
    "response only": {"mu": 1, "private": "response"},
    "response only, flipped": {"epsilon": 2, "private": "response"},
    "published": {"mu": 1, "tuning": "published"},
    "published, PrivUnit": {"epsilon": 2, "tuning": "published"},
    "measured": {"mu": 1, "measures": 0.2},
}


@pytest.mark.parametrize("way", WAYS)
def test_no_mechanism_loses_more_than_its_claim(way):
    found = fitted(**WAYS[way]).privacy.verify(2_000)
    assert found.passed
    assert found.n == 2_000
    assert found.table["distance"].max() <= 1 + 1e-9
    assert (found.table["lower"] > 0.2 * found.table["claimed"]).any()  # it does tell neighbours apart


def weakened(statement, factor):
    """Statement of a fit whose reports carried less noise than it says."""
    doc = json.loads(json.dumps(statement.to_json()))
    for m in doc["mechanics"]:
        parts = m["plan"] if m["kind"] in {"lanes", "chain"} else [m["plan"]]
        for part in parts:
            if isinstance(part, list) and isinstance(part[0], int) and len(part) == 4 and not isinstance(part[3], int):
                part[1] *= factor
            elif isinstance(part, list) and isinstance(part[0], list):
                part[0][1] *= factor
    return PrivacyStatement.from_json(doc)


@pytest.mark.parametrize("way", ["default", "published", "response only"])
def test_noise_a_fifth_too_small_is_caught(way):
    statement = fitted(**WAYS[way]).privacy
    assert weakened(statement, 1.0).verify(20_000).passed
    assert not weakened(statement, 0.8).verify(20_000).passed


def test_every_kind_of_report_is_tried_with_somebody_silent():
    table = fitted(mu=1, measures=0.2).privacy.verify(1_000).table
    assert list(dict.fromkeys(table["report"])) == ["moments", "measures of fit", "joint score", "score"]
    for _, lines in table.groupby("report"):
        assert lines["neighbours"].str.contains("silent").any()


def test_the_audit_reads_well_and_survives_a_file(tmp_path):
    res = fitted(mu=1)
    found = res.privacy.verify(1_000)
    assert "no limit exceeds the claim" in str(found)
    assert "<table" in found._repr_html_()
    res.save(tmp_path / "r.privreg")
    assert pr.load(tmp_path / "r.privreg").privacy.verify(1_000).passed
    wrong = dataclasses.replace(found, table=found.table.assign(claimed=0.0))
    assert not wrong.passed
    assert "EXCEEDED" in str(wrong)


def test_audits_that_make_no_sense_are_refused():
    res = fitted(mu=1)
    with pytest.raises(OptionError, match=r"n=10 must be a whole number of reports"):
        res.privacy.verify(10)
    with pytest.raises(OptionError, match=r"alpha=2\.0 must be a number in"):
        res.privacy.verify(1_000, alpha=2.0)
    with pytest.raises(BudgetError, match="asked for no privacy"):
        fitted(mu=None).privacy.verify(1_000)
