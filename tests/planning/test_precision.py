"""Whether plans are right: against fits of as many rounds as there are, and against what is known of counts."""

import math

import numpy as np
import pytest

import privreg as pr
from tests.planning.test_plans import BOX, made, normals

SETTINGS = {
    "linear": lambda: made(n=100_000),
    "correlated": lambda: normals(3, 0.5, mu=2, n=100_000),
    "logistic": lambda: pr.plan(
        "y ~ x0 + x1", n=100_000, mu=1, family="logistic", bounds=BOX, levels={"y": [0, 1]}, params={"x0": 1}
    ),
    "quantile": lambda: pr.plan("y ~ 1", n=100_000, epsilon=1, family=pr.Quantile(0.9), scale=1, bounds={"y": (-6, 6)}),
    "expectile": lambda: pr.plan(
        "y ~ x0", n=100_000, mu=2, family=pr.Expectile(0.8), scale=1, bounds={"x0": (-2, 2), "y": (-6, 6)}
    ),
    "counts": lambda: pr.plan(
        "y ~ x0", n=100_000, mu=2, family=pr.Poisson(y_max=9), params={"Intercept": 0.5, "x0": 0.3}, bounds=BOX
    ),
    "levels": lambda: pr.plan(
        "y ~ x0", n=100_000, mu=2, family="multinomial", levels={"y": ["a", "b", "c"]}, bounds=BOX
    ),
    "squared": lambda: pr.plan(
        "y ~ x0", n=100_000, mu=2, family="squared", scale=1, bounds={"x0": (-2, 2), "y": (-6, 6)}
    ),
    "public covariates": lambda: pr.plan(
        "y ~ x0", n=100_000, mu=1, private="response", scale=1, bounds={"x0": (-2, 2), "y": (-6, 6)}
    ),
    "pure": lambda: pr.plan("y ~ x0", n=100_000, epsilon=2, scale=1, bounds={"x0": (-2, 2), "y": (-6, 6)}),
}


OFTEN = {"linear"}


@pytest.fixture(scope="module")
def few_rounds():
    """Plans and fits of as many as users get."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[] if k in OFTEN else [pytest.mark.statistical]) for k in SETTINGS]
)
def test_fits_of_made_up_people_are_as_precise_as_planned(name):
    """Seeded: the ratio of simulated to planned widths is 1 but for 10% and four of its standard errors."""
    found = SETTINGS[name]().check(8 if name in OFTEN else 16, seed=3, progress=False)
    assert (abs(found["ratio"] - 1.0) < 0.1 + 4.0 * found["ratio_se"]).all(), found
    assert (found["ratio_se"] < 0.2).all()
    assert (found["coverage"] >= found["at_least"]).all()


@pytest.mark.statistical
def test_power_is_how_often_an_effect_is_found():
    planned = made(n=60_000, effect={"age": 12.0}, params={"age": 12.0})
    power = float(planned.table().loc["age", "power"])
    assert 0.2 < power < 0.95
    found = planned.check(40, seed=5, progress=False).loc["age"]
    assert found["power"] == power
    assert abs(found["detected"] - power) < 4.0 * np.sqrt(power * (1 - power) / 40)


@pytest.mark.statistical
def test_counts_far_below_the_largest_want_more_people():
    """The score is (mean − y)/(y_max − mean), so that a count's curvature is its mean over the rest of the range."""

    def plan(y_max, mean):
        given = {"family": pr.Poisson(y_max), "params": {"Intercept": math.log(mean)}, "bounds": {"x0": (-1, 1)}}
        return pr.plan("y ~ x0", n=10**6, mu=2, **given)

    widths = [plan(y_max, 1.0).table().loc["x0", "width"] for y_max in (5, 20)]
    assert widths[1] / widths[0] == pytest.approx(19 / 4, rel=0.1)


@pytest.mark.statistical
def test_as_many_more_as_the_help_of_counts_says():
    wanted = [
        pr.plan(
            "y ~ x", mu=1, width={"x": 0.5}, family=pr.Poisson(y_max), bounds={"x": (-1, 1)}, params={"Intercept": 0.0}
        ).n
        for y_max in (5, 20)
    ]
    # some 20, as the family's help says: (19/4)², and a little more as of fewer people less is learned of curvature
    assert 0.9 * (19 / 4) ** 2 < wanted[1] / wanted[0] < 1.25 * (19 / 4) ** 2
