"""Notes that take intervals back are said wherever intervals are shown, and only there."""

import dataclasses
from html import unescape

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import privreg as pr
from privreg.diagnostics import Diagnostic, doubt
from privreg.inference.methods import Normal, RandomScaling, StudentT
from privreg.simulation.staged import findings, lanes
from tests.helpers import array_model
from tests.results.test_summary import check_latex, flat

DOUBT = "don't rely on"
NOTE = doubt("rare", "only some 1% of the people have the rarer value of g", [1])
OTHER = doubt("rare", "only some 1% of the people have the rarer value of h", [2])
ORDER = Diagnostic("remark", "the rows came in order")


def with_notes(res, *notes):
    """Results with these doubts and no others."""
    statement = dataclasses.replace(res.privacy, notes=notes)
    return pr.results.PrivateResults(dataclasses.replace(res._fit, statement=statement))


def with_pivot(res, pivot):
    first = dataclasses.replace(res._fit.estimates[0], pivot=pivot)
    return pr.results.PrivateResults(dataclasses.replace(res._fit, estimates=(first, *res._fit.estimates[1:])))


@pytest.fixture(scope="module")
def sound():
    return with_notes(array_model(20_000).fit(seed=1, progress=False), ORDER)


@pytest.fixture(scope="module")
def doubtful(sound):
    return with_notes(sound, ORDER, NOTE, OTHER)


def test_doubts_are_told_by_their_code_not_by_how_they_begin(sound, doubtful):
    assert sound.privacy.doubts == ()
    assert with_notes(sound, Diagnostic("remark", NOTE)).privacy.doubts == ()
    assert with_notes(sound, Diagnostic("few", "anything")).privacy.doubts == ("anything",)
    assert doubtful.privacy.doubts == (NOTE, OTHER)


def test_compared_results_repeat_their_doubts_by_name(sound, doubtful):
    c = pr.compare([sound, doubtful], names=["good", "bad_one"])
    for text in (flat(str(c)), unescape(flat(c.as_html()))):
        assert f"bad_one: {NOTE}." in text
        assert "rarer value of h." in text
        assert "good: " not in text
        assert "in order" not in text
    assert max(map(len, str(c).split("\n"))) <= 80
    assert r"bad\_one: don't rely on the intervals" in flat(c.as_latex())
    check_latex(c.as_latex())
    assert DOUBT not in str(pr.compare([sound]))


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        (StudentT(15), StudentT(15), False),
        (StudentT(15), StudentT(8), True),
        (RandomScaling(1), RandomScaling(8), True),
        (RandomScaling(8), RandomScaling(8), False),
        (StudentT(15), Normal(), True),
        (Normal(), Normal(), False),
    ],
)
def test_limit_laws_are_compared_by_kind_and_parameter(sound, first, second, differ):
    text = flat(str(pr.compare([with_pivot(sound, first), with_pivot(sound, second)])))
    assert ("different limit laws" in text) == differ


def test_tests_of_restrictions_carry_and_show_the_doubts(sound, doubtful):
    for test in (doubtful.t_test("a = 0, b = c"), doubtful.wald_test("a = 0, b = c")):
        assert test.notes == doubtful.privacy.doubts
        for text in (str(test), repr(test)):
            assert f"Note: {NOTE}." in flat(text)
            assert "rarer value of h." in flat(text)
            assert max(map(len, text.split("\n"))) <= 110
    for test in (sound.t_test("a = 0"), sound.wald_test("a = 0")):
        assert test.notes == ()
        assert "Note" not in str(test)
    assert str(doubtful.wald_test("a = 0")).startswith(str(sound.wald_test("a = 0")))


def test_coefficient_plots_say_so_in_their_caption(sound, doubtful):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")

    def words(ax):
        ax.figure.canvas.draw()
        return " ".join(t.get_text() for t in [*ax.texts, ax._right_title]).replace("\n", " ")

    _, mine = plt.subplots()
    for ax in (doubtful.plot_coef(), doubtful.plot_coef(ax=mine)):
        assert f"{DOUBT} hollow dots: see the notes" in words(ax)
        filled, hollow = ax.lines[:2]
        np.testing.assert_array_equal(hollow.get_ydata(), filled.get_ydata()[:2])  # a and b
        assert tuple(hollow.get_markerfacecolor()) == (1.0, 1.0, 1.0)
        assert hollow.get_markeredgecolor() == filled.get_color()
    several = pr.compare([sound, doubtful], names=["good", "bad"]).plot()
    assert f"{DOUBT} hollow dots: see the notes" in words(several)
    assert len([line for line in several.lines if len(line.get_ydata()) == 2 and line.get_marker() == "s"]) == 1
    assert DOUBT not in words(sound.plot_coef())
    bare = with_notes(array_model(2000).fit(seed=1, progress=False, inference=None), Diagnostic("rare", NOTE, [0]))
    assert DOUBT not in words(bare.plot_coef())  # the intercept is not in it
    assert f"{DOUBT} hollow dots" in words(bare.plot_coef(intercept=True))
    plt.close("all")


def rare_and_wide(n):
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"x": rng.standard_normal(n), "g": (rng.uniform(size=n) < 0.01).astype(int)})
    return data.assign(y=data["x"] + 0.5 * rng.standard_normal(n))


@pytest.mark.parametrize("bounds", [{"x": (-4, 4), "y": (-6, 6)}, {"x": (-400, 400), "y": (-6, 6)}])
def test_columns_that_spoil_intervals_are_named_once_there_are_intervals(bounds):
    n = 40_000
    data, levels = rare_and_wide(n), {"g": [0, 1]}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + C(g)", None, mu=1, bounds=bounds, levels=levels, rows=n)
    stream, early = model.start(seed=1), 0
    for a in range(0, n, 2000):
        stream.update(data.iloc[a : a + 2000])
        try:
            notes = stream.results().privacy.notes
        except pr.errors.InferenceError:
            continue
        codes = {n.code for n in notes}
        said, begun = bool(codes & {"rare", "wide"}), "early" not in codes
        early += not begun
        assert said == begun
    assert early
    assert begun


@pytest.mark.parametrize(("weights", "word"), [("unit", "scaled"), ("whitened", "whitened"), (None, "whitened")])
def test_the_score_bound_says_what_its_weights_are_of(weights, word):
    res = array_model(4000, score_weights=weights).fit(seed=1, progress=False)
    assert f"z the {word} covariates" in flat(str(res.privacy))


def test_a_search_among_nearly_separated_classes_does_not_run_away():
    rng = np.random.default_rng(3)
    n, p = 150_000, 10
    x = rng.standard_normal((n, p))
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-2.5 * x.sum(axis=1)))).astype(float)
    names = ["const", *(f"x{j}" for j in range(p))]
    model = pr.PrivateOnlineRegression(
        *(y, np.column_stack([np.ones(n), x])),
        exog_names=names,
        family=pr.Logistic(),
        mu=3,
        moments={k: (0, 1) for k in names[1:]},
    )
    for seed in range(3):
        res = model.fit(seed=seed, progress=False)
        slopes = res.params.to_numpy()[1:]
        assert 3.0 < np.linalg.norm(slopes) < 16.0  # 7.9 in truth
        assert np.corrcoef(x[:5000] @ slopes, x[:5000].sum(axis=1))[0, 1] > 0.95
        strong = np.linalg.norm(slopes) > 7.5
        assert any("effects seem so strong" in note for note in res.privacy.notes) or not strong


@pytest.mark.parametrize(("high", "sd", "doubted"), [(8, 5.0, True), (80, 5.0, False), (80, 0.05, False)])
def test_bounds_that_clamp_everybody_are_doubted_and_precise_responses_are_not(high, sd, doubted):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 60_000)})
    data["y"] = 30 + 5 * data["x"] + rng.normal(0, sd, len(data))
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, mu=1, bounds={"x": (0, 1), "y": (0, high)})
    notes = model.fit(seed=1, progress=False).privacy.doubts
    assert any("hardly varies inside its declared range" in note for note in notes) is doubted


def _sorted_people(by, family, n=30_000):
    rng = np.random.default_rng(3)
    x = np.clip(rng.normal(size=(n, 2)), -3, 3)
    data = pd.DataFrame(x, columns=["a", "b"])
    eta = x.sum(axis=1)
    data["y"] = 1 + eta + rng.normal(size=n)
    data["won"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float)
    response = "y" if family == "huber" else "won"
    data = data if by is None else data.sort_values(response, ignore_index=True)
    bounds = {"a": (-3, 3), "b": (-3, 3)} | ({"y": (-10, 12)} if family == "huber" else {})
    levels = {} if family == "huber" else {"won": [0, 1]}
    given = {"mu": 2, "bounds": bounds, "levels": levels, "family": family}
    model = pr.PrivateOnlineRegression.from_formula(f"{response} ~ a + b", data, **given)
    return model.fit(seed=4, progress=False).privacy.doubts


@pytest.mark.parametrize("family", ["huber", "logistic"])
def test_a_file_sorted_by_its_response_is_doubted_and_a_shuffled_one_is_not(family):
    assert any("people who came first tell other coefficients" in note for note in _sorted_people("response", family))
    assert not _sorted_people(None, family)


def test_a_yes_or_no_under_a_residual_family_is_noted():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(size=4000), "y": rng.integers(0, 2, 4000)})
    for bounds, family, noted in (((0, 1), "huber", True), ((0, 1), "squared", False), ((0, 2), "huber", False)):
        given = {"mu": 1, "bounds": {"x": (0, 1), "y": bounds}, "family": family}
        res = pr.PrivateOnlineRegression.from_formula("y ~ x", data, **given).fit(seed=1, progress=False)
        assert any("if it is a yes or no" in note for note in res.privacy.notes) is noted


def test_groups_that_tell_the_same_are_unlike_by_chance_as_often_as_said():
    """P-values are uniform when nothing changes: unequal weights, a map, and few groups included."""
    rng, to_user = np.random.default_rng(6), np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [-3.0, 1.0, 4.0]])
    weights = np.array([300.0, *rng.uniform(50, 150, 9)])
    found = []
    for _ in range(1500):
        groups = [lanes.GroupEstimate(int(w), w, rng.normal(size=3) / np.sqrt(w)) for w in weights]
        found.append(findings.unlike(groups[0], groups[1:], lambda moves: moves @ to_user.T))
    for p in np.array(found).T:
        assert kstest(p, "uniform").pvalue > 1e-3
    moved = groups[0]._replace(estimate=groups[0].estimate + 3.0)
    assert (findings.unlike(moved, groups[1:], lambda moves: moves @ to_user.T)[[0, 2]] < 1e-6).all()
    assert findings.CHANCE <= 1e-6
