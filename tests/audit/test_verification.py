"""`res.privacy.verify()`: the audit of the mechanisms that a fit used."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.audit import reports as audited
from privreg.errors import BudgetError, OptionError
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import MECHANISMS, Mechanism
from privreg.results.statement import PrivacyStatement
from tests.kinds import KINDS

N = 6_000


def fitted(family="huber", seed=2, rows=N, **options):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    y = x @ [0.5, 1.0, -1.0] + 0.5 * rng.normal(size=rows)
    bounds = {"a": (-4, 4), "b": (-4, 4), "y": (-8, 9)}
    tuning = {k: options.pop(k) for k in ("tuning", "measures", "inference") if k in options}
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
    "clamped": {"mu": 3, "rows": 120_000},
    "plug_in": {"mu": 1, "tuning": "published", "inference": "plug_in"},
    "plug_in, PrivUnit": {"epsilon": 2, "tuning": "published", "inference": "plug_in"},
    "curator": {"mu": 1, "tuning": "published", "inference": "plug_in_central"},
}


ONE_EACH = {"default", "quantile, Laplace", "PrivUnit", "response only, flipped", "curator"}
"""A way with each mechanism; the others are audited by `-m statistical`."""


def others_are_statistical(ways, usual):
    return [pytest.param(way, marks=[] if way in usual else [pytest.mark.statistical]) for way in ways]


@pytest.mark.some(1)
@pytest.mark.parametrize("way", others_are_statistical(WAYS, ONE_EACH))
def test_no_mechanism_loses_more_than_its_claim(way):
    found = fitted(**WAYS[way]).privacy.verify(20_000)
    assert found.passed
    assert found.n == 20_000
    assert found.table["distance"].max() <= 1 + 1e-9
    assert (found.table["lower"] > 0.4 * found.table["claimed"]).any()  # it does tell neighbours apart


BELOW = ("default", "PrivUnit", "response only", "response only, flipped", "published")


@pytest.mark.some(1)
@pytest.mark.parametrize("way", others_are_statistical(BELOW, {"default", "response only, flipped"}))
def test_a_claim_a_fifth_below_the_truth_is_caught(way):
    """Reports of a budget of 1.25 times the claim; Laplace noise is told apart too badly by projections."""
    options = WAYS[way]
    form = "mu" if "mu" in options else "epsilon"
    statement = fitted(**{**options, form: 1.25 * options[form]}).privacy
    found = dataclasses.replace(statement, budget=Budget.declare(**{form: options[form]})).verify(20_000)
    too_far = set(found.table["report"][found.table["lower"] > found.table["claimed"]])
    if form == "epsilon":  # reports of two numbers and more, on scales and joint ones, are told apart less well
        assert too_far & {"score", "score, main"}
    else:
        assert too_far == set(found.table["report"])


def personal():
    rng = np.random.default_rng(4)
    a = rng.normal(size=N)
    frame = pd.DataFrame({"a": a, "y": 1 + a + 0.5 * rng.normal(size=N), "m": np.where(a > 0, 1.0, 0.5)})
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a", frame, mu="m", mu_max=1, bounds={"a": (-4, 4), "y": (-9, 9)}
    )
    return model.fit(progress=False, measures=0.2)


def weakened(statement, factor, which=""):
    """Statement of a fit whose reports, those with this in their name, carried less noise than it says."""
    doc = json.loads(json.dumps(statement.to_json()))
    for m in doc["mechanics"]:
        if which not in m["report"]:
            continue
        for part in m["plan"]:
            if isinstance(part, list) and len(part) == 4 and not isinstance(part[3], int):
                part[1] *= factor
        if "sds" in m:
            m["sds"] = [factor * sd for sd in m["sds"]]
    return PrivacyStatement.from_json(doc)


WEAK = {
    "moments": ("default", "moments"),
    "measures of fit": ("measured", "measures of fit"),
    "location": ("response only", "location"),
    "pilot": ("default", "score, pilot"),
    "clamping": ("clamped", "clamping"),
    "main": ("response only", "score, main"),
    "single chain": ("published", "score"),
    "curvature": ("plug_in", "curvature"),
    "curator": ("curator", "curator's release"),
}


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "kind", others_are_statistical(WEAK, {"moments", "measures of fit", "clamping", "main", "curvature"})
)
def test_noise_a_fifth_too_small_is_caught_in_every_kind_of_report(kind):
    way, report = WEAK[kind]
    found = weakened(fitted(**WAYS[way]).privacy, 0.8, report).verify(20_000)
    too_far = found.table["lower"] > found.table["claimed"]
    assert set(found.table["report"][too_far]) == {report}


@pytest.mark.statistical
def test_half_the_budget_is_audited_by_itself():
    statement = personal().privacy
    found = statement.verify(20_000)
    assert found.passed
    half = found.table["report"].str.endswith(", 0.5 of the budget")
    assert (found.table["claimed"] == np.where(half, 0.5, 1.0)).all()
    assert set(found.table["report"][half]) == {f"{r}, 0.5 of the budget" for r in found.table["report"][~half]}
    assert found.table["distance"].max() <= 1 + 1e-9
    which = "score, main, 0.5 of the budget"
    alone = dataclasses.replace(statement, mechanics=tuple(m for m in statement.mechanics if m["report"] == which))
    assert alone.verify(100_000).passed
    assert not weakened(alone, 0.8).verify(100_000).passed


def less(method):
    return lambda *given: 0.8 * method(*given)


MUTANTS = {
    "joint reports": (Mechanism, "joint_radius", "default", {"score, pilot", "score, main"}),
    "curvature": (Mechanism, "curvature_radius", "plug_in", {"curvature"}),
    "curator": (Mechanism, "central_sd", "curator", {"curator's release"}),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_library_that_adds_too_little_noise_is_caught(name, monkeypatch):
    where, method, way, reports = MUTANTS[name]
    monkeypatch.setattr(where, method, less(getattr(where, method)))
    found = fitted(**WAYS[way]).privacy.verify(20_000)
    assert set(found.table["report"][found.table["lower"] > found.table["claimed"]]) == reports


def test_a_curator_who_adds_too_little_noise_is_caught(monkeypatch):
    released = audited.released
    monkeypatch.setattr(audited, "released", lambda raw, sds, noise: released(raw, sds, 0.8 * noise))
    assert not fitted(**WAYS["curator"]).privacy.verify(20_000).passed


FAMILIES = {
    "huber": pr.Huber(c=1, scale=1),
    "expectile": pr.families.Expectile(0.3, 1, 1),
    "quantile": pr.Quantile(0.8),
    "squared": pr.families.Squared(),
    "logistic": pr.Logistic(),
    "poisson": pr.families.Poisson(20),
    "hinge": pr.families.Hinge(),
    "smoothed hinge": pr.families.SmoothedHinge(0.5),
    "custom": KINDS["custom"].family,
    "multinomial": pr.Multinomial(),
}
SHAPES = {
    "by rounds": ("y ~ a + b", {}, {}),
    "labels": ("y ~ a + b", {"private": "response"}, {}),
    "alone": ("y ~ 1", {}, {}),
    "published": ("y ~ a + b", {}, {"tuning": "published"}),
    "published, alone": ("y ~ 1", {}, {"tuning": "published"}),
}


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("family", "shape"),
    [(k, s) for k in FAMILIES for s in SHAPES if "alone" not in s or k in {"huber", "quantile", "logistic", "poisson"}],
)
def test_no_two_made_up_rows_lie_farther_apart_than_claimed(family, shape):
    rng, n = np.random.default_rng(5), 1_500
    frame = pd.DataFrame(rng.uniform(-1, 1, (n, 2)), columns=["a", "b"])
    kind, (formula, options, tuning) = FAMILIES[family].response, SHAPES[shape]
    y = frame["a"] + rng.normal(size=n)
    coded = {"binary": (y > 0) * 1, "count": np.clip(np.round(2 + y), 0, 20), "levels": np.digitize(y, [-0.5, 0.5])}
    options = {"bounds": {"a": (-1, 1), "b": (-1, 1)}, **options}
    if kind == "number":
        options["bounds"]["y"] = (-5, 5)
    if kind == "levels":
        options["levels"] = {"y": [0, 1, 2]}
        if shape == "labels":
            pytest.skip("a multinomial score is several numbers")
    frame["y"] = coded.get(kind, y)
    tried = 0
    for name in MECHANISMS:
        several = kind == "levels" or shape in {"by rounds", "published"}
        if name == "randomized_response" and several:
            continue
        budget = {"mu": 1} if name == "gaussian" else {"epsilon": 2}
        model = pr.PrivateOnlineRegression.from_formula(
            formula, frame, family=FAMILIES[family], mechanism=name, **budget, **options
        )
        # seeded: few people now and then lose a response's location, and beyond its range no report tells anything
        for m in model.fit(progress=False, inference=None, seed=3, **tuning).privacy.mechanics:
            distances = [pair[-1] for pair in audited._pairs(audited._rebuilt(m))]
            assert distances
            assert max(distances) <= 1 + 1e-9, (name, m["report"])
            tried += 1
    assert tried >= 3


@pytest.mark.parametrize("family", [pr.Quantile(0.8), pr.families.Expectile(0.3, 1, 1), pr.Huber(c=1, scale=1)])
def test_a_published_fit_of_the_constant_alone_passes(family):
    y = np.random.default_rng(6).normal(size=4_000)
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ 1", pd.DataFrame({"y": y}), mu=1, bounds={"y": (-5, 5)}, family=family
    )
    found = model.fit(progress=False, tuning="published").privacy.verify(20_000)
    assert found.passed
    assert found.table["distance"].max() == pytest.approx(1)
    assert found.table["lower"].max() > 0.75


def test_every_kind_of_report_is_tried_with_somebody_silent():
    table = fitted(mu=1, measures=0.2).privacy.verify(1_000).table
    assert list(dict.fromkeys(table["report"])) == [
        "moments",
        "score, pilot",
        "score, main",
        "measures of fit",
    ]
    for _, lines in table.groupby("report"):
        assert lines["neighbours"].str.contains("noise only").any()


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
    with pytest.raises(OptionError, match=r"n=10 must be a whole number, 1,000 to"):
        res.privacy.verify(10)
    with pytest.raises(OptionError, match=r"alpha=2\.0 must lie in"):
        res.privacy.verify(1_000, alpha=2.0)
    with pytest.raises(BudgetError, match="asked for no privacy"):
        fitted(mu=None).privacy.verify(1_000)


def test_half_the_laplace_noise_of_several_numbers_is_caught(monkeypatch):
    rng = np.random.default_rng(4)
    data = pd.DataFrame({name: rng.random(4000) for name in ("y", "a", "b", "c")})
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a + b + c", data, epsilon=1.0, mechanism="laplace", bounds=dict.fromkeys(data, (0, 1))
    )
    assert model.fit(progress=False).privacy.verify().passed
    channel = Mechanism.channel
    monkeypatch.setattr(Mechanism, "channel", lambda m, size: (c := channel(m, size))._replace(scale=0.5 * c.scale))
    assert not model.fit(progress=False).privacy.verify().passed
