"""What a reader chooses of a figure: terms, a title; and labels of the axis of records that have room."""

import itertools

import matplotlib.pyplot as plt
import pytest

import privreg as pr
from privreg.errors import OptionError
from privreg.results.plots.style import ticks


@pytest.fixture(scope="module")
def res():
    people = pr.datasets.us_insurance(8_000)
    formula = "charges ~ age + bmi + children + smoker + region + gender"
    return pr.PrivateOnlineRegression.from_formula(formula, people, mu=4).fit(seed=1, progress=False)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def drawn(ax):
    return [label.get_text().partition(",")[0] for label in ax.get_yticklabels()]


REGION = ["region[T.northwest]", "region[T.southeast]", "region[T.southwest]"]


@pytest.mark.thorough
def test_coefficients_are_chosen_by_their_names_or_terms(res):
    assert drawn(res.plot_coef(["age", "region"])) == [*REGION, "age"]
    assert drawn(res.plot_coef("C(smoker)")) == ["smoker[T.yes]"]
    assert drawn(res.plot_coef("Intercept")) == ["Intercept"]
    with pytest.raises(OptionError, match="Did you mean 'age'"):
        res.plot_coef("agee")


@pytest.mark.thorough
def test_so_are_trajectories(res):
    assert [ax.get_title(loc="left") for ax in res.plot_trajectory("region")] == REGION
    assert len(res.plot_trajectory(["age", "age", "region"])) == 4


@pytest.mark.some(1)
@pytest.mark.parametrize("plot", ["plot_coef", "plot_trajectory"])
def test_a_title_stands_above(res, plot):
    axes = getattr(res, plot)(title="Charges in $")
    figure = (axes if plot == "plot_coef" else axes[0]).figure
    assert figure.get_suptitle() == r"Charges in \$"
    one = plt.figure().subplots()
    getattr(res, plot)(["age", "bmi"], title="mine", ax=one)
    assert one.get_title(loc="left") == "mine"
    with pytest.raises(OptionError, match="title=3 must be a text"):
        getattr(res, plot)(title=3)


def test_several_axes_have_titles_of_their_own(res):
    with pytest.raises(OptionError, match="set_title"):
        res.plot_trajectory(["age", "bmi"], title="mine", ax=plt.figure().subplots(2))


@pytest.mark.some(30)
@pytest.mark.parametrize("ratio", [1.2, 1.5, 2, 3, 4, 6, 10, 30, 100, 1000])
@pytest.mark.parametrize("most", [700, 60_000, 150_000, 999_999, 3_000_000])
@pytest.mark.parametrize("inches", [1.1, 2.5, 5.0])
def test_labels_of_records_are_several_and_apart(ratio, most, inches):
    import math

    found = ticks(most / ratio, most, inches)
    assert 2 <= len(found) <= 6
    assert all(most / ratio <= n <= most for n in found)
    gaps = [inches * math.log(b / a) / math.log(ratio) for a, b in itertools.pairwise(found)]
    assert min(gaps) > 0.25


def test_of_one_number_of_records_there_is_one_label():
    assert ticks(500, 500, 2.0) == [500]
