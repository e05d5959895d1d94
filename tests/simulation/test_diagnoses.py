"""What notes name as the cause: collinear columns, values that are no 0 or 1, records without a usable value."""

import warnings

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.estimation import coordinates, reference
from privreg.errors import ReliabilityWarning
from tests.kinds import KINDS
from tests.rounds import plan_by_rounds

N = 60_000
BOUNDS = {"x": (-1, 1), "u": (-1, 1), "w": (-2, 2), "y": (-6, 6)}


def fitted(data, formula, **more):
    given = {"mu": 8, "bounds": BOUNDS, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        return pr.PrivateOnlineRegression.from_formula(formula, data, **given).fit(seed=1, progress=False)


def rows(apart, sum_=True, n=N):
    rng = np.random.default_rng(0)
    x, u = rng.uniform(-1, 1, (2, n))
    w = ((x + u) / 2 if sum_ else x) + apart * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "u": u, "w": w, "y": x + 0.5 * w + 0.5 * rng.standard_normal(n)})


@pytest.mark.thorough
@pytest.mark.parametrize(("sum_", "others", "marked"), [(True, "x and u", "xuw"), (False, "x", "xw")])
def test_collinear_columns_are_called_so_and_not_blamed_on_bounds(sum_, others, marked):
    res = fitted(rows(0.01, sum_), "y ~ x + u + w")
    notes = {note.code: note for note in res.privacy.notes}
    assert f"hardly anything is left of w beside {others};" in notes["collinear"]
    assert "wide" not in notes
    table = res.tidy().set_index("term")["reliable"]
    assert not table[list(marked)].any()
    assert table["u"] or "u" in marked


@pytest.mark.thorough
def test_bounds_that_are_far_too_wide_are_still_blamed():
    res = fitted(rows(0.5), "y ~ x + u + w", bounds={**BOUNDS, "x": (-90, 90)})
    notes = {note.code: note for note in res.privacy.notes}
    assert "collinear" not in notes
    assert "bounds of x span" in notes["wide"]


def test_what_is_collinear_follows_from_the_map():
    """Of exact second moments: the third column is the sum of both before it, the fourth is narrow by itself."""
    rng = np.random.default_rng(2)
    v = rng.standard_normal((4_000, 4)) * [0.5, 0.5, 1.0, 1e-3]
    v[:, 2] = v[:, 0] + v[:, 1] + 0.01 * v[:, 2]
    cov = np.cov(v.T)
    rows_ = np.eye(5)
    rows_[1:, 1:] = np.linalg.inv(np.linalg.cholesky(cov))
    plan = plan_by_rounds(KINDS["huber"], d=5, strength=1.0)._replace(unscaled=())
    assert [j for j, _ in coordinates.wide(plan, rows_)] == [3, 4]
    assert coordinates.collinear(rows_, [3, 4], True) == {3: [1, 2]}


@pytest.mark.some(1)
@pytest.mark.parametrize("bounds", [{"x": (-1, 1)}, {"x": (-1, 1), "y": (0, 1)}])
@pytest.mark.parametrize("arrays", [False, True])
def test_a_response_of_1_and_2_is_no_yes_or_no(bounds, arrays):
    """A 2 is not clamped to 1, declared bounds or not, so that half of the records are seen to be unusable."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, N)
    data = pd.DataFrame({"x": x, "y": 1 + (rng.random(N) < 0.5)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        if arrays:
            model = pr.PrivateOnlineRegression(
                data["y"], data[["x"]].assign(const=1.0), endog_name="y", family="logistic", bounds=bounds, mu=8
            )
        else:
            model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, family="logistic", bounds=bounds, mu=8)
        res = model.fit(seed=1, progress=False)
    said = dict(res._fit.title)
    assert said["No. Observations"] == f"{N:,}"
    assert said["Unusable"].startswith(("49%", "50%", "51%"))
    assert [c.name for c in model._spec.clamps] == ["x"]
    rows_ = (data["y"].to_numpy(), np.column_stack([x, np.ones(N)])) if arrays else data
    design = model._spec.design
    np.testing.assert_array_equal(np.isnan(design.encode(rows_, "noise").endog), data["y"] == 2)


def test_bounds_of_a_response_other_than_0_and_1_are_refused_still():
    with pytest.raises(pr.errors.FormulaError, match="a binary response is 0 or 1"):
        pr.PrivateOnlineRegression.from_formula("y ~ x", rows(0.1), family="logistic", bounds=BOUNDS, mu=1)


@pytest.mark.thorough
def test_values_that_few_have_are_not_called_rare_where_they_are_not():
    rng = np.random.default_rng(1)
    n = 20_000
    data = pd.DataFrame({"g": rng.choice(["a", "b"], n, p=[0.75, 0.25]), "y": rng.normal(size=n)})
    res = fitted(data, "y ~ g", mu=0.5, levels={"g": ["a", "b"]})
    (note,) = (n for n in res.privacy.notes if n.code == "rare")
    assert "rarest" not in note
    assert "have the least frequent value of g[T.b] (about " in note


def test_dates_that_are_declared_numbers_are_refused_before_anything_is_spent_where_a_table_has_types(tmp_path):
    data = rows(0.5, n=200).assign(x=pd.date_range("2020-01-01", periods=200))
    data.to_parquet(tmp_path / "rows.parquet")
    given = {"mu": 1, "bounds": BOUNDS}
    with pytest.raises(pr.errors.DataError, match="holds dates and is declared a number"):
        pr.PrivateOnlineRegression.from_formula("y ~ x", tmp_path / "rows.parquet", **given).fit()


SPLINE = "y ~ bs(age, knots=[30, 45], lower_bound={}, upper_bound={}) + C(g) + x"


def ages(low, high, n=N):
    rng = np.random.default_rng(3)
    age, x = low + (high - low) * rng.random(n), rng.standard_normal(n)
    y = 2 + np.sin(age / 12) + 0.5 * x + 0.7 * rng.standard_normal(n)
    return pd.DataFrame({"age": age, "x": x, "g": rng.choice(["a", "b"], n), "y": y})


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("ends", "said"), [((16, 95), "the upper bound of age"), ((0, 69), "the lower bound of age"), ((16, 69), None)]
)
def test_splines_that_reach_beyond_the_data_are_marked_and_the_bound_is_named(ends, said):
    low, high = (16, 69) if said != "the lower bound of age" else (25, 69)
    bounds = {"age": ends, "x": (-4, 4), "y": (-4, 8)}
    res = fitted(ages(low, high), SPLINE.format(*ends), mu=2, bounds=bounds, levels={"g": ["a", "b"]})
    notes = {note.code: note for note in res.privacy.notes}
    reliable = res.tidy().set_index("term")["reliable"]
    spline = reliable.index.str.startswith("bs(")
    if said is None:
        assert "empty" not in notes
        assert reliable[spline].all()
    else:
        assert f"near {said}, to which a spline reaches" in notes["empty"]
        assert not reliable[spline].any()
        assert reliable["x"]
        assert bool(reliable["Intercept"]) == (said == "the upper bound of age")  # its value at the lower one


def test_rows_at_a_bound_are_those_of_the_design():
    bounds = {"age": (16, 70), "x": (-4, 4), "y": (-4, 8)}
    formula = SPLINE.format(16, 70)
    model = pr.PrivateOnlineRegression.from_formula(formula, None, mu=1, bounds=bounds, levels={"g": ["a", "b"]})
    design = model._spec.design
    at = design.at("age", np.array([16.0, 70.0]))
    frame = pd.DataFrame({"age": [16.0, 70.0], "x": 0.0, "g": "a"})
    np.testing.assert_allclose(at, design.encode_exog(frame, clamp=True))


@pytest.mark.parametrize(
    ("share", "people", "noted"), [(0.42, 20_000, False), (0.60, 20_000, True), (0.60, 300, False)]
)
def test_a_heap_is_more_than_the_fit_expects_and_more_than_noise(share, people, noted):
    said = reference.reference_of(plan_by_rounds(KINDS["huber"]).rules, np.ones((1, 1)))
    last = reference.Observed(np.zeros(1), 0.55, np.zeros(1), share, 1.0, 5.25 / people)
    assert reference.heaped(said, last, 1.0) == noted  # of which 2 Φ(0.55) − 1 = 0.418 are expected
    assert not reference.heaped(said, last._replace(number=None), 1.0)


@pytest.mark.thorough
@pytest.mark.parametrize(("zeros", "noted"), [(0.65, True), (0.0, False)])
def test_responses_that_are_mostly_one_value_are_noted_and_what_to_use_is_said(zeros, noted):
    rng = np.random.default_rng(5)
    x, u = rng.uniform(-1, 1, (2, N))
    y = np.where(rng.random(N) < zeros, 0, rng.poisson(np.exp(1.5 + 0.3 * x)))
    data = pd.DataFrame({"x": x, "u": u, "y": np.minimum(y, 20)})
    res = fitted(data, "y ~ x + u", mu=2, bounds={**BOUNDS, "y": (0, 20)})
    notes = {note.code: note for note in res.privacy.notes}
    assert ("heaped" in notes) == noted
    if noted:
        assert "nearer to a conditional median than to a mean" in notes["heaped"]
        assert notes["heaped"].severity == "caution"
