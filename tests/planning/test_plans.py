"""Plans: against the asymptotics of a known design, against fits, and against themselves."""

import math
import pickle
import random
import re
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import privreg as pr
from privreg.cli.app import main
from privreg.errors import (
    BudgetError,
    DataError,
    InferenceError,
    NotPrivateError,
    OptionError,
    PrivregError,
    SchemaError,
)
from privreg.planning import precision
from privreg.planning.plan import StudyPlan
from privreg.planning.precision import ASKED
from privreg.planning.rehearsal import enough_in_main
from privreg.planning.search import least, reach
from privreg.simulation.streaming.stream import begin

INSURED = {
    "bounds": {"age": (18, 65), "bmi": (18, 50), "charges": (0, 35_000)},
    "levels": {"smoker": ["no", "yes"]},
}
FORMULA = "charges ~ age + bmi + smoker"
FIT = {"tuning": ASKED.tuning, "progress": False}
BOX = {"x0": (-2, 2), "x1": (-2, 2)}


@pytest.fixture(autouse=True)
def _rehearsals(request):
    """Shared, but by tests of rehearsing itself, which are marked."""
    if "anew" not in request.fixturenames:
        request.getfixturevalue("shared_rehearsals")


@pytest.fixture
def anew(monkeypatch):
    """Every plan of this test is made, and rehearses its own fits."""
    monkeypatch.setitem(globals(), "insured", made)


def made(**more):
    return pr.plan(FORMULA, **{"mu": 1, "scale": 2500, **INSURED, **more})


@cache
def _once(given, *_):
    return made(**pickle.loads(given))


def insured(**more):
    """A plan, which nothing changes: made once for all tests of this file."""
    return _once(pickle.dumps(more), precision.TIMES)


def normals(p, rho=0.0, **more):
    names = [f"x{j}" for j in range(p)]
    moments = {c: (0, 1) for c in names} | {"y": (0, 3)}
    moments |= {(names[i], names[j]): rho ** abs(i - j) for i in range(p) for j in range(i) if rho}
    return pr.plan("y ~ " + " + ".join(names), **{"mu": 1, "n": 200_000, "moments": moments, "scale": 1, **more})


# --- against what is known ---------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_label_that_nobody_declared_is_0_or_1():
    asked = {"mu": 1, "n": 10**5, "family": "logistic", "bounds": {"x0": (-2, 2)}}
    declared = pr.plan("y ~ x0", levels={"y": [0, 1]}, **asked).table()
    pd.testing.assert_frame_equal(pr.plan("y ~ x0", **asked).table(), declared)


@pytest.mark.thorough
def test_power_of_large_and_small_effects():
    table = insured(n=10**6, effect={"age": 1e4, "bmi": 1e-9}).table()
    assert table.loc["age", "power"] == pytest.approx(1.0)
    assert table.loc["bmi", "power"] == pytest.approx(0.05, abs=1e-6)
    assert np.isnan(table.loc["Intercept", "power"])
    shift = 2.0
    se = table.loc["age", "std_error"]
    power = insured(n=10**6, effect={"age": shift * se}).table().loc["age", "power"]
    assert power == pytest.approx(norm.sf(norm.isf(0.025) - shift) + norm.cdf(-norm.isf(0.025) - shift))


# --- against itself ----------------------------------------------------------------------------------------


def test_the_people_that_are_found_reach_the_goal_and_few_less_do_not():
    found = insured(width={"age": 10})
    assert found.asked == "people"
    assert found.table().loc["age", "width"] <= 10
    assert insured(n=int(0.98 * found.n)).table().loc["age", "width"] > 10
    assert found.critical == "age"
    both = insured(width={"age": 10, "bmi": 5})
    assert both.n > found.n
    assert both.critical == "bmi"


@pytest.mark.thorough
def test_the_budget_that_is_found_reaches_the_goal_and_a_little_less_does_not():
    found = pr.plan(FORMULA, n=200_000, width={"age": 20}, scale=2500, **INSURED)
    assert found.asked == "budget"
    assert found.table().loc["age", "width"] <= 20
    assert insured(n=200_000, mu=0.97 * found.mu).table().loc["age", "width"] > 20
    assert "budget of" in str(found)


@pytest.mark.thorough
def test_effects_are_found_with_the_power_that_was_asked_for():
    found = insured(effect=40, coef="age", power=0.9)
    assert found.table().loc["age", "power"] >= 0.9
    assert found.goal.effects == {"age": 40.0}
    if found.needed == found.n:
        assert insured(n=int(0.97 * found.n), effect={"age": 40}).table().loc["age", "power"] < 0.9


@pytest.mark.thorough
def test_so_few_that_intervals_could_not_be_relied_on_are_raised_and_said():
    found = insured(width={"age": 1e6})
    assert found.n == found.reliable > found.needed
    assert any(f"{found.needed:,} records would do" in note for note in found.notes)
    few = insured(n=found.reliable // 2)
    assert any(note.startswith("don't rely") for note in few.notes)
    assert not any(note.startswith("don't rely") for note in insured(n=2 * found.reliable).notes)


@pytest.mark.thorough
def test_the_number_from_which_a_plan_relies_on_intervals_is_the_fits_own():
    found = insured(n=50_000)
    people = pr.datasets.us_insurance(found.reliable + 2_000, seed=1)

    def doubts(n):
        model = pr.PrivateOnlineRegression.from_formula(FORMULA, people.iloc[:n], mu=1, **INSURED)
        return any("records are few for 4 coefficients" in note for note in model.fit(seed=1, **FIT).privacy.notes)

    assert doubts(found.reliable - 1_000)
    assert not doubts(found.reliable + 2_000)


@pytest.mark.thorough
@pytest.mark.usefixtures("anew")
def test_widths_of_one_coefficient_over_people_and_budgets():
    found = insured(width={"age": 20})
    table = found.table(n=[10**5, 10**6], mu=[0.5, 1, 2])
    assert table.index.tolist() == [10**5, 10**6]
    assert table.columns.tolist() == [0.5, 1, 2]
    assert table.attrs["coef"] == "age"
    assert (np.diff(table.to_numpy(), axis=1) < 0).all()
    assert table.loc[10**5, 1] == insured(n=10**5).table().loc["age", "width"]
    assert found.table(n=10**5, coef="bmi").attrs["coef"] == "bmi"
    pure = pr.plan(FORMULA, epsilon=1, n=10**5, scale=2500, **INSURED)
    own = float(pure.table().loc["age", "width"])
    assert pure.table(n=10**5, coef="age").iloc[0, 0] == own
    assert pure.table(epsilon=[1, 2], coef="age").loc[10**5, 1] == own
    assert pure.table(mu=[1], coef="age").loc[10**5, 1] == table.loc[10**5, 1]


@pytest.mark.thorough
def test_a_scale_that_nobody_gave_is_a_quarter_of_the_range_and_said():
    found = pr.plan(FORMULA, mu=1, n=10**5, **INSURED)
    assert found.assumed.scale == 8750
    assert any("8,750 is a quarter of the declared range of charges" in note for note in found.notes)
    declared = pr.plan(FORMULA, mu=1, n=10**5, family=pr.Huber(scale=2500), **INSURED)
    assert declared.assumed.scale == 2500
    assert not any("quarter" in note for note in declared.notes)


@pytest.mark.thorough
def test_responses_beyond_their_range_are_said():
    inside = {"bounds": {"x0": (-1, 1), "y": (0, 10)}, "mu": 2, "n": 60_000, "scale": 2}
    beyond = pr.plan("y ~ x0", params={"Intercept": 1, "x0": 3}, **inside)
    assert any("% of the responses, as assumed, lie outside the declared range" in note for note in beyond.notes)
    assert not any("lie outside" in note for note in pr.plan("y ~ x0", params={"x0": 1}, **inside).notes)
    counts = {"mu": 2, "n": 60_000, "family": pr.Poisson(y_max=4), "bounds": {"x0": (-1, 1)}}
    assert any("lie outside" in note for note in pr.plan("y ~ x0", params={"Intercept": 1.3}, **counts).notes)
    assert not any("lie outside" in note for note in pr.plan("y ~ x0", params={"Intercept": -1}, **counts).notes)


@pytest.mark.thorough
@pytest.mark.usefixtures("anew")
def test_the_same_question_has_the_same_answer_and_no_global_random_numbers():
    before = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert insured(width={"age": 10}).n == insured(width={"age": 10}).n
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


@pytest.mark.thorough
def test_public_rows_shares_and_strong_effects_change_precision():
    rows = pr.datasets.us_insurance(4000)
    plain = insured(n=10**5)
    same = insured(n=10**5, covariates=rows)
    ratio = same.table()["std_error"] / plain.table()["std_error"]
    assert ((ratio > 0.9) & (ratio < 1.1)).all()
    rare = insured(n=10**5, shares={"smoker": [9, 1]})
    assert rare.table().loc["smoker[T.yes]", "width"] > 1.5 * plain.table().loc["smoker[T.yes]", "width"]
    assert ("smoker", "shares 90%, 10%") in rare.assumed.words(rare.spec)
    assert ("covariates", "drawn from 4,000 public rows") in same.assumed.words(same.spec)

    def logit(**params):
        return pr.plan(
            "y ~ x0", n=10**5, mu=1, family="logistic", bounds=BOX, levels={"y": [0, 1]}, params=params or None
        )

    assert logit(x0=3.0).table().loc["x0", "width"] > 2 * logit().table().loc["x0", "width"]


@pytest.mark.thorough
@pytest.mark.parametrize("n", [20_000, 300_000])
def test_records_in_main_rounds_are_those_that_a_fit_would_have(n):
    found = insured(n=n)
    model = pr.PrivateOnlineRegression.from_formula(FORMULA, pr.datasets.us_insurance(n, seed=2), mu=1, **INSURED)
    stream = begin(model._spec, ASKED, None, 1, n)
    for batch in model._source.batches(0):
        stream.update(batch)
    run = stream._run
    held = [*run.progress.held, run.people - sum(run.progress.held)]
    main = sum(k for k, r in zip(held, run.plan.rounds, strict=True) if r.role == "main")
    each = found._precision
    assert enough_in_main(each.plan(n)[0], each.people, each._begun, main)
    assert not enough_in_main(each.plan(n)[0], each.people, each._begun, main + 1)


def test_least_finds_the_first_number_to_three_digits():
    for wanted in (1, 100, 101, 12_345, 98_765_432):
        found = least(lambda n, w=wanted: n >= w)
        assert found >= wanted
        assert found <= max(100, 1.011 * wanted)
    assert least(lambda n: False) > 10**13


@pytest.mark.parametrize("start", [1.0, 300.0, 1e6])
@pytest.mark.parametrize(
    ("apart", "wanted"),
    [
        (lambda x: (12_345 / x) ** 0.5, 12_400),
        (lambda x: math.nan if x < 900 else 0.9, 900),  # too few for standard errors
        (lambda x: 1.02 + 1e-9 / x, math.inf),
        (lambda x: 0.98 + 2.0 / x, 100),
        (lambda x: 0.5, 1.0),
        (lambda x: (5_000 / x) ** 3, 5_000),
    ],
)
def test_what_reaches_a_goal_is_the_least_number_of_three_digits(apart, wanted, start):
    found = reach(apart, start, 1.0, 1e7, 0.5, 1e-4)
    assert found == math.inf or apart(found) <= 1.0
    assert wanted <= found <= 1.011 * wanted


# --- what people see ---------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_plan_prints_pickles_and_shows():
    found = insured(width={"age": 20}, effect={"bmi": 30})
    text = str(found)
    assert repr(found) == text == str(found.summary())
    assert f"{found.n:,} records are needed" in text
    assert "residuals normal with sd 2,500" in text
    assert max(map(len, text.splitlines())) <= 80
    html = found._repr_html_()
    assert html.count("<tr>") == 5
    assert f"{found.n:,}" in html
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == text
    assert isinstance(again, StudyPlan)


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse_contours")
def test_contours_are_drawn_on_axes_of_ones_own():
    plt = pytest.importorskip("matplotlib.pyplot")
    found = insured(width={"age": 20})
    _, own = plt.subplots()
    assert found.plot("bmi", ax=own) is own
    assert "bmi" in own.get_title(loc="left")
    assert "ε" in pr.plan(FORMULA, epsilon=1, n=10**5, scale=2500, **INSURED).plot("age").get_xlabel()
    ax = found.plot()
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert "age" in ax.get_title(loc="left")
    plt.close("all")


@pytest.mark.thorough
def test_contours_are_near_the_table_and_show_from_where_on_intervals_can_be_relied_on():
    plt = pytest.importorskip("matplotlib.pyplot")
    found = insured(width={"age": 20})
    widths, reliable = found._nearby([found.n, 4 * found.n], [1.0, 2.0], "age", pure=False)
    exact = found.table(n=[found.n, 4 * found.n], coef="age")
    np.testing.assert_allclose(widths[1.0], exact.iloc[:, 0], rtol=0.05)
    assert reliable[0] == pytest.approx(found.reliable)
    assert reliable[1] < 0.5 * reliable[0]
    ax = found.plot()
    (line,) = [line for line in ax.lines if line.get_linestyle() == "--"]
    budgets, people = line.get_data()
    assert np.interp(1.0, budgets, np.log(people)) == pytest.approx(np.log(found.reliable), abs=0.05)
    assert "don't rely" in [t.get_text() for t in ax.texts]
    plt.close("all")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("goal", "coef", "words"),
    [({"width": {"age": 20}}, "age", "target 20"), ({"effect": {"smoker[T.yes]": 3000}}, "smoker[T.yes]", "80% power")],
)
def test_contours_show_the_goal_and_their_labels_are_apart(goal, coef, words):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = insured(**goal).plot(coef)
    labels = [t for t in ax.texts if type(t) is not plt.Annotation and t.get_text() != "don't rely"]
    assert words in [t.get_text() for t in labels]
    assert len(labels) > 4
    assert words not in [t.get_text() for t in insured(**goal).plot("bmi").texts]
    assert nearest(labels) > 0.5  # heights of the text between the middle lines of any two
    plt.close("all")


def nearest(labels):
    """Least distance between points of the middle lines of rotated labels, in heights of the text."""
    lines = []
    for t in labels:
        upright = t.get_rotation()
        t.set_rotation(0.0)
        half = 0.5 * t.get_window_extent().width
        t.set_rotation(upright)
        angle = np.deg2rad(upright)
        middle = t.get_transform().transform(t.get_position())
        lines.append(middle + np.linspace(-half, half, 41)[:, None] * [np.cos(angle), np.sin(angle)])
    height = labels[0].get_fontsize() * labels[0].figure.dpi / 72.0
    gaps = [np.hypot(*(a[:, None] - b[None]).transpose(2, 0, 1)).min() for a, b in combinations(lines, 2)]
    return min(gaps) / height


@pytest.mark.thorough
def test_labels_of_contours_never_run_into_each_other():
    plt = pytest.importorskip("matplotlib.pyplot")
    for size in np.geomspace(3, 3000, 24):
        ax = insured(effect={"age": size}).plot()
        assert nearest([t for t in ax.texts if type(t) is not plt.Annotation and t.get_text() != "don't rely"]) > 0.5
        plt.close("all")


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse_contours")
def test_a_long_coefficient_has_a_line_of_the_title():
    plt = pytest.importorskip("matplotlib.pyplot")
    name = "a_column_of_a_registry_of_patients"
    found = pr.plan(f"y ~ {name}", n=10**5, mu=1, bounds={"y": (0, 1), name: (0, 1)})
    assert found.plot(name).get_title(loc="left") == f"mean width of 95% intervals,\n{name}"
    plt.close("all")


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse_contours")
def test_the_command_says_what_the_function_says(capsys, tmp_path):
    public = ["--bounds", "age=18:65", "bmi=18:50", "charges=0:35000", "--levels", "smoker=no,yes", "--scale", "2500"]
    assert main(["plan", FORMULA, "--mu", "1", "--width", "age=20", *public]) == 0
    said = " ".join(str(insured(width={"age": 20})).split())
    assert " ".join(capsys.readouterr().out.split()) == said.replace("Give pilot=", "Give --pilot")
    picture = tmp_path / "plan.png"
    given = ["--n", "1e5", "--at-n", "1e5,1e6", "--at-mu", "0.5,1", "--coef", "age", "--plot", str(picture)]
    assert main(["plan", FORMULA, "--mu", "1", *given, *public]) == 0
    out = capsys.readouterr().out
    assert "mean width of the intervals of age" in out
    assert "†" not in out
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert main(["plan", FORMULA, "--mu", "1", "--width", "age=x", *public]) == 2
    assert "--width: 'age=x' must read NAME=NUMBER" in capsys.readouterr().err
    assert main(["plan", FORMULA, "--mu", "1", "--n", "1e5", "--plot", "plan.gif", *public]) == 2
    assert "named .png, .pdf, .svg" in capsys.readouterr().err


# --- bad input ---------------------------------------------------------------------------------------------

WRONG = {
    "nothing asked": (lambda: insured(), OptionError, "give n="),
    "no budget": (lambda: pr.plan(FORMULA, n=1000, **INSURED), BudgetError, "it can be left out to be found"),
    "two budgets": (lambda: insured(epsilon=1, n=1000), BudgetError, "exactly one"),
    "mu": (lambda: insured(mu=-1, n=1000), BudgetError, "mu"),
    "n": (lambda: insured(n=0.5), OptionError, "whole number of records"),
    "width": (lambda: insured(width=-1), OptionError, "positive"),
    "width of nothing": (lambda: insured(width={"age": "x"}), OptionError, "must be a number other than 0"),
    "no such coefficient": (lambda: insured(width={"agee": 1}), OptionError, "they are 'Intercept', 'smoker"),
    "coef alone": (lambda: insured(n=1000, coef="age"), OptionError, "give one of them"),
    "coef twice": (lambda: insured(width={"age": 1}, coef="age"), OptionError, "leave coef= out"),
    "power": (lambda: insured(effect=1, power=1.5), OptionError, r"power=1.5 must be a number in \(0, 1\)"),
    "power alone": (lambda: insured(n=1000, power=0.8), OptionError, "give effect= too"),
    "scale": (lambda: insured(n=1000, scale=0), OptionError, "scale=0 must be a positive"),
    "scale by row": (
        lambda: insured(n=1000, scale=[1, 2]),
        OptionError,
        "or one number for each row of covariates=",
    ),
    "scale by a column of nothing": (lambda: insured(n=1000, scale="sd"), OptionError, "of covariates=: none"),
    "scale by no column": (
        lambda: insured(n=1000, covariates=pr.datasets.us_insurance(10), scale="sd"),
        OptionError,
        "scale='sd' is no number, and names no column of covariates=: 'age', ",
    ),
    "covariates with a gap": (
        lambda: insured(n=1000, covariates=pr.datasets.us_insurance(10).assign(bmi=np.nan)),
        DataError,
        "drop or fill such rows: new rows need every value",
    ),
    "few covariates": (
        lambda: insured(n=1000, covariates=pr.datasets.us_insurance(3)),
        InferenceError,
        "3 rows, too few to determine 4 coefficients",
    ),
    "scale of a row": (
        lambda: insured(n=1000, covariates=pr.datasets.us_insurance(10), scale=[1] * 9 + [0]),
        OptionError,
        "scale= by row must be positive",
    ),
    "scale of a logit": (
        lambda: pr.plan("y ~ x0", n=10, mu=1, family="logistic", levels={"y": [0, 1]}, bounds=BOX, scale=1),
        OptionError,
        "has none; leave it out",
    ),
    "shares": (lambda: insured(n=1000, shares={"smoker": [1]}), OptionError, "2 positive numbers"),
    "shares of a number": (lambda: insured(n=1000, shares={"age": [1, 2]}), OptionError, "has no levels"),
    "params": (lambda: insured(n=1000, params={"agee": 1}), OptionError, "no coefficient"),
    "params short": (lambda: insured(n=1000, params=[1, 2]), OptionError, "4 finite numbers"),
    "covariates": (lambda: insured(n=1000, covariates=pd.DataFrame({"age": [20, 30]})), DataError, "no column"),
    "covariates as array": (lambda: insured(n=1000, covariates=np.ones((3, 3))), OptionError, "give a DataFrame"),
    "both": (
        lambda: insured(n=1000, covariates=pr.datasets.us_insurance(10), shares={"smoker": [1, 2]}),
        OptionError,
        "give one of them",
    ),
    "alpha": (lambda: insured(n=1000, alpha=2), OptionError, "alpha=2"),
    "undeclared": (lambda: pr.plan("y ~ x", mu=1, n=10, bounds={"y": (0, 1)}), PrivregError, "'x' is not declared"),
    "unbounded": (
        lambda: pr.plan("y ~ x", mu=1, n=10, bounds={"y": (0, 1), "x": (0, np.inf)}),
        SchemaError,
        "x",
    ),
    "hinge": (
        lambda: pr.plan("y ~ x0", n=10, mu=1, family="hinge", levels={"y": [0, 1]}, bounds=BOX),
        OptionError,
        "needs a model of the response",
    ),
    "an option": (lambda: insured(n=1000, wdth=1), PrivregError, "Did you mean 'width'"),
    "too few": (
        lambda: pr.plan(FORMULA, n=500, width={"age": 1e-9}, scale=2500, **INSURED),
        InferenceError,
        "too few for that",
    ),
    "too much": (lambda: insured(width={"age": 1e-9}), InferenceError, "would not do"),
    "reps": (lambda: insured(n=1000).check(1), OptionError, "reps=1"),
    "rows": (lambda: insured(n=10**9).check(2), OptionError, "more than 100,000,000 rows"),
    "expression": (
        lambda: pr.plan(
            "np.log(charges) ~ age", mu=1, n=1000, scale=1, bounds={"age": (18, 65), "charges": (1, 9)}
        ).check(2, progress=False),
        OptionError,
        "is an expression",
    ),
    "two tables": (lambda: insured(n=1000).table(mu=1, epsilon=1), OptionError, "not both"),
    "table": (lambda: insured(n=1000).table(coef="age"), OptionError, "give one of them"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_questions_are_explained(what):
    call, error, words = WRONG[what]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.statistical
def test_precision_of_many_coefficients_comes_to_an_end():
    names = [f"x{j}" for j in range(99)]  # the most that local reports by rounds have, with the intercept
    found = pr.plan(
        "y ~ " + " + ".join(names),
        n=10**6,
        mu=5,
        scale=1,
        bounds={c: (-1, 1) for c in names} | {"y": (-9, 9)},
    )
    table = found.table()
    assert len(table) == 100
    assert np.isfinite(table.to_numpy()).all()


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("share", [0.03, 0.25])
def test_rare_levels_are_told_as_the_fit_tells_them(share):
    declared = {"bounds": {"y": (-2, 2)}, "levels": {"g": ["a", "b"]}, "mu": 2}
    found = pr.plan("y ~ g", n=100_000, scale=0.3, shares={"g": [1 - share, share]}, **declared)
    rng = np.random.default_rng(1)
    rows = {"y": 0.3 * rng.normal(size=found.n), "g": np.where(rng.random(found.n) < share, "b", "a")}
    res = pr.PrivateOnlineRegression.from_formula("y ~ g", rows, **declared).fit(seed=1, **FIT)
    told = any("don't rely on the intervals" in note for note in res.privacy.notes)
    assert (found.n < found.reliable) is told
    assert any("don't rely" in note for note in found.notes) is told
    if share == 0.03:
        wanted = pr.plan("y ~ g", width={"g": 0.3}, scale=0.3, shares={"g": [1 - share, share]}, **declared)
        assert wanted.n == wanted.needed
        assert any("with any number of records: a level that they depend on is too rare" in n for n in wanted.notes)
        assert "No number of records is enough to rely on the intervals of g[T.b]" in str(wanted)
        assert wanted.reliable == math.inf


@pytest.mark.thorough
def test_a_rare_level_does_not_keep_other_coefficients_from_being_planned_for():
    declared = {"bounds": {"y": (-4, 4), "x": (-1, 1)}, "levels": {"g": ["a", "b", "c"]}, "mu": 1, "scale": 1}
    found = pr.plan("y ~ x + g", width={"x": 0.2}, shares={"g": [0.7, 0.28, 0.02]}, **declared)
    assert found.n == found.needed > found.reliable
    (told,) = [note for note in found.notes if note.code == "rare"]
    assert "the intervals of g[T.c], with any number" in told
    of_reference = pr.plan("y ~ x + g", width={"x": 0.2}, shares={"g": [0.02, 0.5, 0.48]}, **declared)
    (told,) = [note for note in of_reference.notes if note.code == "rare"]
    assert "the intervals of Intercept, g[T.b], g[T.c], with any number" in told
    shares = {"g": [0.7, 0.2, 0.1]}
    few = pr.plan("y ~ x + g", n=60_000, shares=shares, **declared)
    (told,) = [note for note in few.notes if note.code == "seldom"]
    assert "the intervals of g[T.c] with so few records" in told
    would = int(re.search(r"([\d,]+) records would do", told)[1].replace(",", ""))
    assert few.reliable == would
    enough = pr.plan("y ~ x + g", n=would, shares=shares, **declared)
    assert not [note for note in enough.notes if "rely" in note]
    grid = found.table(n=[1000, 10**6], coef="g[T.c]")
    assert grid.attrs["reliable"] == {str(found.budget): [False, False]}
    assert found.table(n=[1000, 10**6], mu=[1], coef="x").attrs["reliable"] == {1.0: [False, True]}
    even = pr.plan("y ~ x + g", width={"x": 0.2}, **declared)
    assert not [note for note in even.notes if "don't rely" in note]


@pytest.mark.thorough
def test_what_so_many_records_do_not_reach_is_said():
    given = {"n": 10**5, "bounds": {"x": (-1, 1), "y": (-4, 4)}, "mu": 1, "scale": 1}
    (told,) = [note for note in pr.plan("y ~ x", width={"x": 0.01}, **given).notes if note.code == "missed"]
    assert "the width of x was to be 0.01 at most" in told
    (told,) = [note for note in pr.plan("y ~ x", effect={"x": 0.01}, **given).notes if note.code == "missed"]
    assert "the power for x was to be 0.8" in told
    for reached in ({"width": {"x": 1}}, {"effect": {"x": 1}}, {}):
        assert not [note for note in pr.plan("y ~ x", **reached, **given).notes if note.code == "missed"]


@pytest.mark.thorough
def test_a_guessed_scale_is_no_reason_for_a_wider_range():
    for high in (100, 10_000):
        found = pr.plan("y ~ x", mu=1, n=10**5, bounds={"x": (-1, 1), "y": (0, high)})
        assert {"clamped", "scale_assumed"} & {note.code for note in found.notes} == {"scale_assumed"}


@pytest.mark.thorough
def test_the_command_takes_public_rows(capsys, tmp_path):
    rows = pd.DataFrame({"x": np.random.default_rng(0).lognormal(size=3000).clip(0, 20)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    given = ["--mu", "1", "--n", "1e5", "--bounds", "x=0:20", "y=-9:9", "--scale", "1"]
    assert main(["plan", "y ~ x", *given, "--covariates", str(tmp_path / "rows.csv")]) == 0
    own = pr.plan("y ~ x", mu=1, n=10**5, bounds={"x": (0, 20), "y": (-9, 9)}, scale=1, covariates=rows)
    assert " ".join(capsys.readouterr().out.split()) == " ".join(str(own).split())
    assert main(["plan", "y ~ x", *given, "--covariates", "rows.txt"]) == 2
    assert "named .csv or .parquet" in capsys.readouterr().err
    assert main(["plan", "y ~ x", *given, "--at-n", "1000,1e6"]) == 0
    assert re.search(r"1000 .* †\n1000000 [^†]*\n† a fit would say", capsys.readouterr().out)


@pytest.mark.thorough
def test_levels_of_several_types_are_planned_for():
    found = pr.plan("y ~ g", n=100_000, mu=1, bounds={"y": (0, 1)}, levels={"g": [1, "b"]})
    assert found.table().shape == (2, 2)


@pytest.mark.parametrize(
    "more",
    [
        {"covariates": pd.DataFrame({"x0": [0.5] * 9})},
        {"family": "logistic", "bounds": {"x0": (-1, 1)}, "levels": {"y": [0, 1]}, "params": {"Intercept": 1e6}},
    ],
)
def test_people_who_determine_nothing_are_told(more):
    with pytest.raises(InferenceError, match="don't determine the coefficients"):
        pr.plan("y ~ x0", **{"n": 100_000, "mu": 1, "bounds": {"x0": (-1, 1), "y": (-2, 2)}, **more})


def test_lanes_are_told_to_be_an_option_of_fits():
    with pytest.raises(PrivregError, match="lanes= is an option of PrivateOnlineRegression"):
        insured(n=100_000, lanes=16)


SPREAD = pd.DataFrame({"x0": np.linspace(-2, 2, 801)}).assign(sd=lambda rows: 0.2 * np.exp(rows["x0"]))


@pytest.mark.thorough
def test_spread_of_residuals_by_row():
    given = {"n": 200_000, "mu": 2, "bounds": {"x0": (-2, 2), "y": (-9, 9)}, "covariates": SPREAD}
    named, listed = (pr.plan("y ~ x0", scale=s, **given) for s in ("sd", SPREAD["sd"].tolist()))
    pd.testing.assert_frame_equal(named.table(), listed.table())
    assert "residuals normal with sd 0.02707 to 1.478, by row" in " ".join(str(named).split())
    middle = float(SPREAD["sd"].median())
    assert named.table().loc["x0", "width"] > 1.2 * pr.plan("y ~ x0", scale=middle, **given).table().loc["x0", "width"]
    assert str(pickle.loads(pickle.dumps(named))) == str(named)


@pytest.mark.statistical
def test_fits_are_as_precise_as_planned_where_spread_varies():
    given = {"n": 200_000, "mu": 2, "bounds": {"x0": (-2, 2), "y": (-9, 9)}, "covariates": SPREAD}
    found = pr.plan("y ~ x0", scale="sd", **given).check(10, seed=3, progress=False)
    assert (abs(found["ratio"] - 1.0) < 0.1 + 4.0 * found["ratio_se"]).all(), found


@pytest.mark.thorough
def test_covariates_that_were_made_up_are_said():
    assert any("Skewed and related ones need more records: widths" in note for note in insured(n=10**5).notes)
    assert not any("Skewed and related" in note for note in normals(2).notes)
    rows = pr.datasets.us_insurance(100)
    assert not any("Skewed and related" in note for note in insured(n=10**5, covariates=rows).notes)


def test_rows_that_were_fitted_privately_are_no_public_rows():
    rng = np.random.default_rng(1)
    held = pd.DataFrame({"x0": rng.uniform(-1, 1, 3000), "y": rng.uniform(-1, 1, 3000)})
    public = {"bounds": {"x0": (-1, 1), "y": (-2, 2)}, "mu": 3}
    pr.plan("y ~ x0", n=100_000, covariates=held, scale=1, **public)
    pr.PrivateOnlineRegression.from_formula("y ~ x0", held, **public).fit(progress=False, inference=None)
    with pytest.raises(NotPrivateError, match="fitted privately in this process"):
        pr.plan("y ~ x0", n=100_000, covariates=held, scale=1, **public)


@pytest.mark.thorough
@pytest.mark.parametrize("times", [1.06, 0.94])
def test_a_budget_is_found_near_what_none_reaches(times):
    """Where people differ so much that noise hardly counts: steps by what a record is worth crept, and gave up."""
    asked = {"trust": "two_collectors", "n": 2000, "scale": 20, "bounds": {"x": (0, 10), "y": (0, 100)}}
    least = pr.plan("y ~ x", mu=100, **asked).table().loc["x", "width"]
    if times < 1.0:
        with pytest.raises(InferenceError, match="too few for that even at mu = 100"):
            pr.plan("y ~ x", width={"x": times * least}, **asked)
        return
    found = pr.plan("y ~ x", width={"x": times * least}, **asked)
    assert found.table().loc["x", "width"] <= times * least
    assert "two collectors" in str(found)
    half = pr.plan("y ~ x", mu=0.5 * found.spec.budget.mu, **asked).table().loc["x", "width"]
    assert half > times * least


def piloted(n=4000, seed=4):
    """Skewed, related numbers and errors, as in people who would be asked."""
    rng = np.random.default_rng(seed)
    x0 = np.minimum(rng.exponential(1.5, n), 20.0)
    x1 = np.clip(0.6 * x0 + rng.standard_normal(n), -4, 16)
    y = np.clip(1 + 0.3 * x0 - 0.2 * x1 + 0.8 * (rng.standard_exponential(n) - 1), -9, 30)
    return pd.DataFrame({"x0": x0, "x1": x1, "y": y})


PILOTED = {"mu": 4, "n": 4000, "trust": "two_collectors", "bounds": {"x0": (0, 20), "x1": (-4, 16), "y": (-9, 30)}}


@pytest.mark.thorough
@pytest.mark.usefixtures("unmarked")
@pytest.mark.parametrize("trust", ["two_collectors", "local"])
def test_plans_with_a_pilot_are_near_fits_whose_numbers_are_skewed_and_related(trust):
    given = {**PILOTED, "trust": trust, "n": 4000 if trust == "two_collectors" else 40_000}
    n, how = given.pop("n"), {k: given[k] for k in ("mu", "trust", "bounds")}
    fits = [pr.PrivateOnlineRegression.from_formula("y ~ x0 + x1", piloted(n, s), **how).fit(seed=s) for s in (1, 2, 3)]
    seen = np.median([np.ptp(res.conf_int(), axis=1)[1:] for res in fits], axis=0)
    rows = piloted(seed=5)
    line = np.linalg.lstsq(np.column_stack([np.ones(len(rows)), rows[["x0", "x1"]]]), rows["y"], rcond=None)[0]
    left = rows["y"] - line[0] - rows[["x0", "x1"]] @ line[1:]
    mad = 1.4826 * float(np.median(np.abs(left - left.median())))
    numbers = {
        "sd": rows[["x0", "x1"]].std().to_dict(),
        "correlations": {("x0", "x1"): rows["x0"].corr(rows["x1"])},
        "residual_sd": mad,
    }

    def apart(found):
        return np.abs(np.log(found.table()["width"].to_numpy()[1:] / seen))

    plans = {"rows": {"pilot": rows}, "numbers": {"pilot": numbers}, "nothing": {"scale": mad}}
    far = {name: apart(pr.plan("y ~ x0 + x1", n=n, **how, **more)).max() for name, more in plans.items()}
    assert far["rows"] < 0.25
    assert far["numbers"] < 0.5
    assert far["nothing"] > 1.0  # as was promised: less than a third of what fits have
    without = pr.plan("y ~ x0 + x1", n=n, **how, scale=mad)
    assert apart(without.skewed).max() < far["nothing"]


@pytest.mark.parametrize(
    ("pilot", "error", "said"),
    [
        (3, OptionError, "pilot is of type int"),
        (piloted(1), DataError, "fewer than two rows"),
        (piloted(9)[["x0"]], DataError, "pilot has no column 'x1'"),
        (piloted(9).assign(x0=np.nan), DataError, "'x0'"),
        ({"sds": {"x0": 1}}, OptionError, "pilot= of numbers is"),
        ({"sd": {"x9": 1}}, OptionError, "x0, 'x1'|'x0', 'x1'"),
        ({"sd": {"y": 1}}, OptionError, "sds of numbers that have bounds"),
        ({"sd": 3}, OptionError, "pilot= of numbers is"),
        ({"sd": {"x0": -1}}, SchemaError, "x0"),
        ({"sd": {"x0": 10}}, OptionError, "sd 10 of 'x0'"),
        ({"sd": {"x0": 1}, "correlations": {("x0", "x1"): 0.5}}, SchemaError, "x1"),
        ({"sd": {"x0": 1, "x1": 1}, "correlations": {("x0", "x1"): 2}}, SchemaError, "above -1 and below 1"),
        ({"sd": {"x0": 1, "x1": 1}, "correlations": [["x0", "x1"]]}, SchemaError, "list of"),
        ({"residual_sd": 0}, OptionError, "positive number"),
    ],
)
def test_pilots_that_tell_nothing_are_refused(pilot, error, said):
    with pytest.raises(error, match=said):
        pr.plan("y ~ x0 + x1", pilot=pilot, **PILOTED)


@pytest.mark.usefixtures("unmarked")
def test_a_pilot_is_in_place_of_covariates_and_gives_way_to_scale_and_params():
    with pytest.raises(OptionError, match="give one of them"):
        pr.plan("y ~ x0 + x1", pilot=piloted(), covariates=piloted(), **PILOTED)
    told = pr.plan("y ~ x0 + x1", pilot=piloted(), **PILOTED).assumed
    assert told.answered
    given = pr.plan("y ~ x0 + x1", pilot=piloted(), scale=2, params=[1, 2, 3], **PILOTED).assumed
    assert (given.scale, given.params.tolist(), given.answered) == (2, [1, 2, 3], False)
    bare = pr.plan("y ~ x0 + x1", pilot=piloted()[["x0", "x1"]], **PILOTED)
    assert bare.assumed.usual
    fitted = pr.PrivateOnlineRegression.from_formula(
        "y ~ x0 + x1", rows := piloted(seed=8), mu=1, bounds=PILOTED["bounds"]
    )
    fitted.fit()
    with pytest.raises(NotPrivateError, match="fitted privately"):
        pr.plan("y ~ x0 + x1", pilot=rows, **PILOTED)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("family", "response"),
    [
        ("logistic", lambda d: (d["y"] > 1).astype(int)),
        (pr.Poisson(9), lambda d: d["y"].clip(0, 9).round()),
        ("multinomial", lambda d: np.where(d["y"] > 2, "c", np.where(d["y"] > 1, "b", "a"))),
        ("squared", lambda d: d["y"]),
        (pr.Quantile(0.7), lambda d: d["y"]),
        (pr.Expectile(0.7), lambda d: d["y"]),
    ],
)
def test_pilots_of_every_family_tell_coefficients(family, response):
    rows = piloted(2000)
    rows = rows.assign(y=response(rows))
    named = (isinstance(family, str) and family != "squared") or family == pr.Poisson(9)
    given = {c: b for c, b in PILOTED["bounds"].items() if c != "y" or not named}
    more = {"levels": {"y": ["a", "b", "c"]}} if family == "multinomial" else {}
    found = pr.plan("y ~ x0 + x1", family=family, pilot=rows, n=40_000, mu=4, bounds=given, **more)
    assert np.isfinite(found.table()["width"]).all()
    assert np.abs(found.assumed.params).min() > 0.0


@pytest.mark.parametrize(
    "rows",
    [
        piloted(200).assign(y=lambda d: (d["x0"] > 1).astype(int)),
        piloted(200).assign(y=1),
        piloted(200).assign(x1=lambda d: d["x0"], y=lambda d: (d["y"] > 1).astype(int)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_pilots_that_can_not_be_fitted_are_refused(rows):
    bounds = {"x0": (0, 20), "x1": (-4, 20)}
    with pytest.raises(InferenceError, match=r"pilot can't be fitted|don't determine the coefficients"):
        pr.plan("y ~ x0 + x1", family="logistic", pilot=rows, n=40_000, mu=4, bounds=bounds)


def test_the_shell_reads_pilots(tmp_path, capsys):
    asked = ["plan", "y ~ x0 + x1", "--mu", "4", "--n", "4000", "--bounds", "x0=0:20", "x1=-4:16", "y=-9:30", "--pilot"]
    rows, numbers = tmp_path / "pilot.csv", tmp_path / "pilot.yaml"
    piloted().to_csv(rows, index=False)
    numbers.write_text("sd: {x0: 1.5, x1: 1.4}\ncorrelations: [[x0, x1, 0.7]]\nresidual_sd: 0.8\n")
    told = {"sd": {"x0": 1.5, "x1": 1.4}, "correlations": {("x0", "x1"): 0.7}, "residual_sd": 0.8}
    for path, pilot in ((rows, pd.read_csv(rows)), (numbers, told)):
        assert main([*asked, str(path)]) == 0
        out = capsys.readouterr().out
        plan = pr.plan("y ~ x0 + x1", pilot=pilot, **{**PILOTED, "trust": "local"})
        assert str(plan).partition("Assumed")[0].strip() in out
    assert main([*asked, str(tmp_path / "pilot.txt")]) == 2
    assert "--pilot" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.usefixtures("unmarked")
def test_the_sd_of_a_pilot_is_that_of_the_people_made_up():
    sd = {"x0": 3.0, "x1": 1.0}
    found = pr.plan("y ~ x0 + x1", pilot={"sd": sd, "correlations": {("x0", "x1"): 0.5}}, **PILOTED)
    x = pd.DataFrame(found.assumed.rows(found.spec, 40_000, np.random.default_rng(1))[0])
    np.testing.assert_allclose(x[["x0", "x1"]].std(), list(sd.values()), rtol=0.03)
    assert x["x0"].corr(x["x1"]) == pytest.approx(0.5, abs=0.03)
    skewed = pd.DataFrame(found.skewed.assumed.rows(found.spec, 40_000, np.random.default_rng(1))[0])
    np.testing.assert_allclose(skewed[["x0", "x1"]].std(), list(sd.values()), rtol=0.05)
    assert (skewed[["x0", "x1"]].skew() > 1.3).all()
    assert "if skewed" in str(found)
    assert found.skewed.skewed is None


@pytest.mark.thorough
def test_what_matters_most_is_said():
    def told(**more):
        found = pr.plan("y ~ x0 + x1", **{**PILOTED, "trust": "local"}, **more)
        return " ".join(str(next(n for n in found.notes if n.code == "covariates_assumed")).split())

    assert "is the residual sd, to which all widths are proportional, and then a skewed x" in told()
    # exponential with the upper bound log(1000) sds above the lower: 6.9/√12 = 2.0 times less spread than uniform
    assert "assumed is a skewed x1: without noise some intervals would be 2.0" in told(pilot={"sd": {"x0": 2}}, scale=1)
    assert "assumed is correlations of 0.5: without noise some intervals would be 1.2 times" in told(
        pilot={"sd": {"x0": 2.8, "x1": 2.8}, "residual_sd": 1}  # 1/√(1 − 0.5²)
    )
    assert "covariates_assumed" not in {n.code for n in pr.plan("y ~ x0 + x1", pilot=piloted(), **PILOTED).notes}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
@pytest.mark.usefixtures("unmarked")
@pytest.mark.parametrize("trust", ["central", "two_collectors"])
def test_plans_of_overdispersed_counts_have_the_errors_of_their_fits(trust, monkeypatch):
    monkeypatch.setattr("privreg.planning.precision.MOST_FITS", 16)
    n, alpha, bounds = 2_000, 1.2, {"x": (-1, 1)}
    given = {"family": pr.NegativeBinomial(20), "mu": 1, "bounds": bounds, "trust": trust}
    found = pr.plan("y ~ x", n=n, params=[0.4, 0.6], pilot={"dispersion": alpha}, **given)
    assert ("dispersion", "alpha = 1.2: counts vary by m + alpha m² at the mean m") in found.assumed.words(found.spec)
    errors = []  # which vary by some 15%: medians of 13, and of the plan's 16 at most, by 7% in their ratio
    for seed in range(13):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, n)
        mean = np.exp(0.4 + 0.6 * x)
        y = np.minimum(rng.poisson(rng.gamma(1 / alpha, alpha * mean)), 20.0)
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", pd.DataFrame({"x": x, "y": y}), **given)
        errors.append(model.fit(seed=seed, progress=False).bse.to_numpy())
    ratio = found.table()["std_error"].to_numpy() / np.median(errors, axis=0)
    assert np.abs(np.log(ratio)).max() < math.log(1.25)


@pytest.mark.usefixtures("unmarked")
def test_a_pilots_rows_tell_the_dispersion_and_nobody_who_says_nothing():
    rng, given = np.random.default_rng(1), {"family": pr.NegativeBinomial(40), "mu": 1, "bounds": {"x": (-1, 1)}}
    x = rng.uniform(-1, 1, 4_000)
    rows = pd.DataFrame({"x": x, "y": np.minimum(rng.poisson(rng.gamma(1 / 0.7, 0.7 * np.exp(0.5 + x))), 40.0)})
    assumed = pr.plan("y ~ x", n=600, trust="central", pilot=rows, params=[0.5, 1.0], **given).assumed
    assert assumed.alpha == pytest.approx(0.7, abs=0.1)
    assert assumed.dispersion == 1.0
    assert pr.plan("y ~ x", n=600, trust="central", **given).assumed.alpha == 1.0
    drawn = assumed.responses(
        pr.plan("y ~ x", n=600, trust="central", **given).spec, np.ones((200_000, 2)), np.ones(1), rng
    )
    mean = math.exp(1.5)
    assert drawn.var() == pytest.approx(mean + assumed.alpha * mean**2, rel=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["local", "two_collectors", "central"])
def test_a_column_between_0_and_1_is_suggested_as_levels(trust) -> None:
    given = {"mu": 1, "n": 5_000, "trust": trust, "bounds": {"y": (0, 10), "x": (0, 1), "z": (0, 2)}}
    (said,) = (n for n in pr.plan("y ~ x + z", **given).notes if n.code == "share_assumed")
    assert said.startswith("x may be anything between 0 and 1 here")
    assert "levels={'x': [0, 1]}" in said
    assert "shares={'x': [0.9, 0.1]}" in said
    declared = given | {"bounds": {"y": (0, 10), "z": (0, 2)}, "levels": {"x": [0, 1]}}
    assert "share_assumed" not in {n.code for n in pr.plan("y ~ x + z", **declared).notes}
    known = given | {"pilot": pd.DataFrame({"x": [0.0, 1.0] * 40, "z": np.linspace(0, 2, 80)})}
    assert "share_assumed" not in {n.code for n in pr.plan("y ~ x + z", **known).notes}
