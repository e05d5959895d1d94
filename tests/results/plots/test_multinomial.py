"""Plots of multinomial results: coefficients below their levels, trajectories level beside level."""

import numpy as np
import pytest

import privreg as pr
from privreg.errors import InferenceError, OptionError
from tests.families.test_multinomial import FLAT, TERMS, made, model, people


@pytest.fixture(scope="module")
def fitted():
    return model(people(6000)).fit(seed=1, progress=False)


@pytest.fixture
def plt():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    import matplotlib.pyplot as pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.thorough
def test_coefficients_are_drawn_below_their_levels(fitted, plt):
    ax = fitted.plot_coef(intercept=True)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["g = mid", *TERMS, "g = hi", *TERMS]
    bold = [t.get_fontweight() == "bold" for t in ax.get_yticklabels()]
    assert bold == [True, False, False, False] * 2
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), fitted._fit.params)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1, 2, 3, 5, 6, 7])
    assert [t.get_text() for t in fitted.plot_coef().get_yticklabels()] == ["g = mid", *TERMS[1:], "g = hi", *TERMS[1:]]
    assert any("baseline g = lo" in t.get_text() for t in ax.texts)
    fitted.plot_coef().figure.canvas.draw()
    made(fitted, ["$a^$", "b$", "c"]).plot_coef().figure.canvas.draw()
    with pytest.raises(InferenceError, match="intercept=True"):
        made(fitted, terms=1).plot_coef()


def test_plain_coefficients_stand_above_the_levels(fitted, plt):
    logistic = pr.PrivateOnlineRegression.from_formula(
        "s ~ age", people(3000), family="logistic", mu=1, bounds={"age": (-1, 1)}, levels={"s": ["no", "yes"]}
    ).fit(seed=3, progress=False)
    ax = pr.compare([fitted, logistic]).plot()
    labels = [t.get_text().partition(", per ")[0] for t in ax.get_yticklabels()]
    assert labels == ["age", "g = mid", *TERMS[1:], "g = hi", *TERMS[1:]]


def check_panels(axes, fit, titles):
    assert [a._left_title.get_text().removesuffix(" †") for a in axes] == titles
    path = fit._fit.flat(fit.trajectory())
    for ax, title in zip(axes, titles, strict=True):
        curve = path[path["term"] == title.replace(": ", ":")]
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve["estimate"])


@pytest.mark.thorough
def test_two_levels_of_a_trajectory_stand_side_by_side(fitted, plt):
    axes = fitted.plot_trajectory()
    check_panels(axes, fitted, [n.replace(":", ": ") for n in FLAT])
    assert len(axes[0].figure.axes) == 6
    axes[0].figure.canvas.draw()
    for left, right in zip(axes[:3], axes[3:], strict=True):
        assert left.get_ylim() == right.get_ylim()
        assert left.get_position().y0 == pytest.approx(right.get_position().y0)
    check_panels(fitted.plot_trajectory("age"), fitted, ["mid: age", "hi: age"])
    check_panels(fitted.plot_trajectory(["hi:age", "mid:age"]), fitted, ["hi: age", "mid: age"])
    one = fitted.plot_trajectory("hi:age")
    check_panels([one], fitted, ["hi: age"])
    _, ax = plt.subplots()
    fitted.plot_trajectory("age", ax=ax)
    assert [t.get_text().removesuffix(" †") for t in ax.get_legend().get_texts()] == ["mid: age", "hi: age"]
    for bad in ("lo:age", [["age"]], [30]):
        with pytest.raises(OptionError, match="terms="):
            fitted.plot_trajectory(bad)


@pytest.mark.thorough
def test_many_levels_of_a_trajectory_have_a_row_each(fitted, plt):
    results = made(fitted, list("abcdef"), terms=2)
    axes = results.plot_trajectory()
    check_panels(axes, results, [f"{v}: {t}" for v in "bcdef" for t in ("Intercept", "x1")])
    axes[0].figure.canvas.draw()
    assert axes[0].get_position().y0 == pytest.approx(axes[1].get_position().y0)
    assert axes[1].get_position().y0 > axes[2].get_position().y0
