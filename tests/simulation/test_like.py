"""Fits whose estimand is that of an earlier one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.cli.app import main
from privreg.errors import OptionError
from privreg.results.data import Target
from privreg.results.results import PrivateResults

BOUNDS = {"x": (0, 8), "w": (-4, 6), "y": (-5, 40)}


def _people(n: int, seed: int) -> pd.DataFrame:
    """Synthetic records of a curved model with skewed errors."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, 1.0, n).clip(0, 8)
    w = (rng.normal(size=n) + 0.3 * x).clip(-4, 6)
    y = 1.0 + x + 0.12 * x**2 + 0.5 * w + rng.exponential(1.0 + 0.5 * x)
    return pd.DataFrame({"x": x, "w": w, "y": y.clip(-5, 40), "b": (y > 4).astype(float)})


def _model(data: object, formula: str = "y ~ x + w", **given: object) -> pr.PrivateOnlineRegression:
    given = {"family": pr.Huber(), "mu": 2, "bounds": BOUNDS, **given}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **given)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return _people(20_000, 1)


@pytest.fixture(scope="module")
def first(data: pd.DataFrame) -> PrivateResults:
    return _model(data).fit(seed=1)


@pytest.mark.thorough
def test_target_is_that_of_the_earlier_fit(data, first):
    own, like = _model(data).fit(seed=2), _model(data).fit(seed=2, like=first)
    kept = like._fit.equation
    np.testing.assert_array_equal(kept.rows, first._fit.equation.rows)
    assert {*kept.c} == {first._fit.equation.c[-1]}  # pilot rounds with another c don't count
    assert not np.array_equal(own._fit.equation.rows, kept.rows)
    # intervals of both are for the same numbers; what is left is of pilot rounds of the first
    rows = _people(100_000, 2)
    a, b, c = (r.estimand(rows) for r in (first, like, own))
    assert (np.abs(a - b) < 0.1 * first.bse).all()
    assert np.abs(a - b).max() < 0.5 * np.abs(a - c).max()


def test_results_carry_it_through_a_file_a_plan_and_a_second_fit(data, first, tmp_path):
    like = _model(data).fit(seed=2, like=first)
    first.save(tmp_path / "first.res")
    loaded = pr.load(tmp_path / "first.res")
    plan = _model(data).plan(like=first)
    assert "fixed" in str(plan)
    for source in (loaded, plan, like):
        again = _model(data).fit(seed=2, like=source)
        np.testing.assert_array_equal(again.params, like.params)
    assert plan.to_dict()["options"]["like"]["c"] == plan.asked.like.c


def test_a_saved_stream_goes_on_with_it(data, first, tmp_path):
    stream = _model(None, rows=len(data)).start(seed=3, like=first)
    stream.update(data[:300])  # within the rounds on moments: the map comes after
    stream.save(tmp_path / "half.stream")
    stream = pr.load(tmp_path / "half.stream")
    stream.update(data[300:])
    found = stream.results()._fit.equation
    np.testing.assert_array_equal(found.rows, first._fit.equation.rows)
    assert {*found.c} == {first._fit.equation.c[-1]}


def test_budget_and_rounds_are_those_without(data, first):
    own, like = _model(data).plan(), _model(data).plan(like=first)
    assert own.mu == like.mu
    pd.testing.assert_frame_equal(own.rounds, like.rounds)


@pytest.mark.some(1)
@pytest.mark.parametrize("family", [pr.Logistic(), pr.Quantile(0.8), pr.Expectile(0.7)])
def test_other_families(family, data):
    formula = "b ~ x + w" if family.kind == "binary" else "y ~ x + w"
    model = _model(data, formula, family=family)
    first = model.fit(seed=1)
    like = model.fit(seed=2, like=first)
    np.testing.assert_array_equal(first._fit.equation.rows, like._fit.equation.rows)
    z = (like.params - first.params) / np.hypot(like.bse, first.bse)
    assert (np.abs(z) < 4.5).all()  # normal: 6 in a million
    assert "fixed" in str(like.summary(details=True))


@pytest.mark.thorough
def test_summary_and_comparison_say_whether_it_is_fixed(data, first):
    own, like = _model(data).fit(seed=2), _model(data).fit(seed=2, like=first)
    assert "fixed" not in str(own.summary(details=True))
    assert "the target is fixed" in " ".join(str(like.summary(details=True)).split())
    assert "fit(like=)" in " ".join(str(pr.compare([first, own])).split())
    assert "fit(like=)" not in " ".join(str(pr.compare([first, like])).split())


@pytest.mark.parametrize(
    ("formula", "given", "words"),
    [
        ("y ~ x", {}, "columns"),
        ("b ~ x + w", {"bounds": BOUNDS | {"b": (0, 1)}}, "response"),
        ("y ~ x + w", {"bounds": BOUNDS | {"x": (0, 9)}}, "bounds of 'x'"),
        ("y ~ x + w", {"bounds": BOUNDS | {"y": (-5, 41)}}, "bounds of 'y'"),
        ("y ~ x + w", {"family": pr.Quantile(0.5)}, "family"),
        ("y ~ x + w", {"private": "response"}, "covariates"),
        ("y ~ x + w", {"trust": "two_collectors"}, "trust='local'"),
    ],
)
def test_another_design_is_refused(data, first, formula, given, words):
    with pytest.raises(OptionError, match=words):
        _model(data, formula, **given).plan(like=first)


COUNTED = {
    "offset": ({"offset": "o"}, {}),
    "weights": ({"weights": "o"}, {}),
    "personal budgets": ({"mu": "o", "mu_max": 2.0}, {}),
    "per_person": ({"id": "p", "k_max": 4, "per_person": "mean"}, {"id": "p", "k_max": 4}),
    "levels of persons": ({"k_max": 4, "formula": "y ~ x + w | p"}, {"id": "p", "k_max": 4}),
    "k_max": ({"id": "p", "k_max": 4, "trust": "two_collectors"}, {"trust": "two_collectors"}),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("what", COUNTED)
def test_records_that_count_otherwise_have_another_estimand(what, data):
    rows = data[:8000].assign(o=1.0, p=np.arange(8000) // 4)
    made = []
    for given in COUNTED[what]:
        more = {"bounds": BOUNDS | {"o": (0.5, 1.0)}} if {"offset", "weights"} & set(given) else {}
        made.append(_model(rows, **{"formula": "y ~ x + w"} | more | given))
    fits = [one.fit(seed=1) for one in made]
    for one, other in zip(made, fits[::-1], strict=True):
        with pytest.raises(OptionError, match=f"its {what} "):
            one.plan(like=other)
    assert made[0].plan(like=fits[0]).asked.like is not None


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("change", [np.nan, 0.0, 1e200, 1e-300])
def test_a_target_that_no_fit_makes_is_refused(trust, change, data):
    res = _model(data[:8000], trust=trust).fit(seed=1)
    equation = res._fit.equation
    for changed in ({"rows": equation.rows * change}, {"c": equation.c * change}):
        object.__setattr__(res._fit, "equation", replace(equation, **changed))
        with pytest.raises(OptionError, match="of no fit"):
            _model(data[:8000], trust=trust).plan(like=res)


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["huber", "expectile", "quantile", "logistic"])
def test_two_collectors_take_over_map_threshold_and_length(family, data, tmp_path):
    formula = "b ~ x + w" if family == "logistic" else "y ~ x + w"
    model = _model(data[:4000], formula, family=family, trust="two_collectors")
    first = model.fit(seed=1)
    first.save(tmp_path / "first.res")
    own, like = model.fit(seed=2), model.fit(seed=2, like=pr.load(tmp_path / "first.res"))
    found, kept = like._fit.equation, first._fit.equation
    np.testing.assert_allclose(found.rows, kept.rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.caps, np.broadcast_to(kept.caps[-1], found.caps.shape), rtol=1e-9, atol=1e-12)
    if family in {"huber", "expectile"}:
        assert (found.ratio, *found.c) == (None, *kept.c)
        assert "fixed by like=" in str(like.summary(details=True))
    assert "the target is fixed" in " ".join(str(like.summary(details=True)).split())
    # all rounds count with the last map and length; of the first fit early ones have others
    other = model.fit(seed=5, like=first)
    a, b, e = (r.estimand(_people(50_000, 2)) for r in (first, like, other))
    assert (np.abs(b - e) < 0.01 * first.bse).all()  # fits that are like one have one target
    assert (np.abs(a - b) < 0.5 * first.bse).all()
    assert (like.bse < 1.5 * own.bse).all()
    again = model.fit(seed=2, like=model.plan(like=like))
    np.testing.assert_allclose(again.params, like.params, rtol=1e-9)


def test_targets_belong_to_a_trust_model(data, first):
    model = _model(data[:2000], trust="two_collectors")
    with pytest.raises(OptionError, match="trust='two_collectors'"):
        _model(data).plan(like=model.fit(seed=1))
    with pytest.raises(OptionError, match="redraw"):
        model.fit(like=model.fit(seed=1))
    with pytest.raises(OptionError, match="without privacy"):
        model.plan(like=_model(data[:2000], trust="two_collectors", mu=None).fit(seed=1))
    plain = _model(data[:2000], trust="two_collectors", score_weights="likelihood")
    with pytest.raises(OptionError, match="score weights"):
        plain.plan(like=model.fit(seed=1))
    assert plain.plan(like=plain.fit(seed=1)).asked.like is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": [[1.0, 0.0], [1.0, 0.0]]},
        {"reach": 0.5},
        {"reach": np.inf},
        {"c": -1.0},
        {"rows": [[1.0]]},
        {"rows": None},
        {"c": "c"},
    ],
)
def test_a_malformed_target_of_two_collectors_is_refused(wrong):
    with pytest.raises(ValueError, match="no target"):
        Target.from_json({"rows": [[1.0, 2.0], [0.5, 3.0]], "c": 1.0, "reach": 2.0, **wrong}, 2)


def test_a_target_learned_without_noise_is_refused(data):
    without = _model(data, mu=None).fit(seed=1)
    with pytest.raises(OptionError, match="without privacy"):
        _model(data).plan(like=without)
    plan = _model(data, mu=None).plan(like=without)
    with pytest.raises(OptionError, match="without privacy"):
        _model(data).plan(like=plan)


def test_what_holds_no_target_is_refused(data, first):
    with pytest.raises(OptionError, match="type DataFrame"):
        _model(data).plan(like=data)
    with pytest.raises(OptionError, match="no target"):
        _model(data).plan(like=_model(data).plan())
    with pytest.raises(OptionError, match="published"):
        _model(data).plan(like=first, tuning="published")
    with pytest.raises(OptionError, match="no target"):
        _model(data).plan(like=_model(data).fit(seed=1, tuning="published"))


@pytest.mark.thorough
def test_the_shell_takes_it_from_a_file(data, first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first.save("first.privreg")
    data[["x", "w", "y"]].to_csv("rows.csv", index=False)
    bounds = [f"{name}={low}:{high}" for name, (low, high) in BOUNDS.items()]
    words = ["fit", "y ~ x + w", "rows.csv", "--mu", "2", "--bounds", *bounds, "--seed", "2", "--quiet"]
    assert main([*words, "--like", "first.privreg", "--out", "second.privreg"]) == 0
    np.testing.assert_array_equal(pr.load("second.privreg")._fit.equation.rows, first._fit.equation.rows)


def test_a_seeded_target_is_for_seeded_fits(data, first):
    with pytest.raises(OptionError, match="redraw"):
        _model(data).fit(like=first)
