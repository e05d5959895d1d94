"""Two groups compared: how many people, against fits and against textbook numbers."""

import math

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import power_proportions_2indep

import privreg as pr
from privreg.errors import BudgetError, InferenceError, OptionError

SHARES = {"share": 0.4, "difference": 0.05}
MEANS = {"mean": 50, "sd": 12, "bounds": (18, 90), "difference": 2}


@pytest.mark.some(3)
@pytest.mark.parametrize("trust", ["local", "two_collectors", "central"])
@pytest.mark.parametrize("missing", ["noise", "raise"])
@pytest.mark.parametrize("asked", [SHARES, MEANS], ids=["share", "mean"])
def test_the_planned_error_is_that_of_estimates(asked, trust, missing) -> None:
    """Standard errors of estimates differ from fit to fit by the sampling of squares and shares: a few per cent."""
    plan = pr.plan_two_groups(**asked, mu=1, trust=trust, missing=missing)
    a, b = plan.people
    rng = np.random.default_rng(1)
    if "share" in asked:
        y, kind = (
            np.where(np.r_[rng.random(a) < 0.4, rng.random(b) < 0.45], "yes", "no"),
            {"levels": {"y": ["no", "yes"]}},
        )
    else:
        y, kind = np.r_[rng.normal(50, 12, a), rng.normal(52, 12, b)].clip(18, 90), {"bounds": {"y": (18, 90)}}
    kind.setdefault("levels", {})["g"] = ["a", "b"]
    data = pd.DataFrame({"y": y, "g": np.repeat(["a", "b"], [a, b])})
    form = "C(y)" if "share" in asked else "y"
    res = pr.means.estimate(data, form, by="g", mu=1, trust=trust, missing=missing, progress=False, seed=1, **kind)
    table = res.by_group()
    table = table[table["term"].isin(["y", "y[yes]"]) & table["group"].isin(["a", "b"])]
    assert len(table) == 2
    assert math.sqrt((table["std_error"] ** 2).sum()) == pytest.approx(plan.std_error(), rel=0.05)


def test_without_privacy_it_is_the_textbook_number() -> None:
    plan = pr.plan_two_groups(**SHARES, mu=None)
    assert power_proportions_2indep(0.05, 0.4, plan.n / 2, ratio=1, alternative="two-sided").power == pytest.approx(
        0.8, abs=0.01
    )
    means = pr.plan_two_groups(**MEANS, mu=None)
    assert NormalIndPower().power(2 / 12, means.people[0], 0.05) == pytest.approx(0.8, abs=0.01)


def test_numbers_power_and_difference_go_round() -> None:
    plan = pr.plan_two_groups(**SHARES, mu=1, trust="two_collectors", power=0.9)
    reached, missed = (
        pr.plan_two_groups(**SHARES, n=n, mu=1, trust="two_collectors").power for n in (plan.n, int(0.98 * plan.n))
    )
    assert reached >= 0.9 > missed
    assert reached == pytest.approx(0.9, abs=0.01)
    back = pr.plan_two_groups(share=0.4, n=plan.n, power=0.9, mu=1, trust="two_collectors")
    assert back.difference == pytest.approx(0.05, rel=0.02)
    uneven = pr.plan_two_groups(**SHARES, mu=1, ratio=3)
    assert uneven.people[1] == pytest.approx(3 * uneven.people[0], abs=3)
    assert uneven.n > pr.plan_two_groups(**SHARES, mu=1).n


def test_trust_models_are_compared() -> None:
    plan = pr.plan_two_groups(**SHARES, mu=1)
    people = plan.compare_trust()["people"]
    assert people["local"] > 4 * people["two_collectors"]
    assert people["two_collectors"] >= people["central"] >= people["no privacy"]
    assert pd.isna(pr.plan_two_groups(**SHARES, epsilon=1).compare_trust().loc["central", "people"])
    assert "records" in plan.as_html()


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"share": 0.4, "difference": 0.05}, BudgetError, "mu="),
        ({"share": 1.4, "difference": 0.05, "mu": 1}, OptionError, "share"),
        ({"share": 0.4, "difference": 0.7, "mu": 1}, OptionError, "difference"),
        ({"share": 0.4, "mu": 1}, OptionError, "difference= "),
        ({"difference": 0.1, "mu": 1}, OptionError, "share="),
        ({"share": 0.4, "sd": 1, "difference": 0.1, "mu": 1}, OptionError, "one or the other"),
        ({"sd": 1, "bounds": (0, 0), "difference": 0.1, "mu": 1}, OptionError, "bounds"),
        ({"sd": 9, "bounds": (0, 10), "difference": 0.1, "mu": 1}, OptionError, "sd=9"),
        ({"share": 0.4, "difference": 0.1, "mu": 1, "trust": "both"}, OptionError, "trust"),
        ({"share": 0.4, "difference": 0.1, "mu": 1, "power": 0.01}, OptionError, "power"),
        ({"share": 0.4, "difference": 0.1, "mu": 1, "alpha": 0.9}, OptionError, "power=0.8"),
        ({"share": 0.4, "difference": 0.1, "mu": 1, "n": 1}, OptionError, "groups of 0 and 1 records"),
        ({"share": 0.4, "n": 20, "mu": 0.01}, InferenceError, "no difference"),
    ],
)
def test_what_cant_be_planned_says_why(asked, error, message) -> None:
    with pytest.raises(error, match=message):
        pr.plan_two_groups(**asked)


@pytest.mark.usefixtures("shared_rehearsals")
def test_plans_draw_powers_and_list_detectable_effects() -> None:
    plan = pr.plan(
        "y ~ x + z", mu=1, effect={"x": 0.5}, trust="two_collectors", scale=1.0,
        bounds={"x": (0, 1), "z": (0, 1), "y": (0, 5)},
    )  # fmt: skip
    axes = plan.plot(power=True)
    assert axes.get_ylabel() == "power"
    said = " ".join(" ".join(t.get_text() for t in axes.texts).split())
    assert ("not to rely" in said) == (plan.reliable > axes.get_xlim()[0])
    curve = axes.get_lines()[0]
    at = np.interp(np.log(plan.n), np.log(curve.get_xdata()), curve.get_ydata())
    assert at == pytest.approx(plan.table().loc["x", "power"], abs=0.02)
    with pytest.raises(OptionError, match="give it an effect"):
        plan.plot("z", power=True)
    table = plan.table(power=0.8)
    assert table.loc["x", "detectable"] == pytest.approx(2.8016 * table.loc["x", "std_error"], rel=1e-3)
    wide = plan.table(n=[plan.n], coef="x", power=0.8)
    assert wide.iloc[0, 0] == pytest.approx(table.loc["x", "detectable"], rel=1e-9)


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("more", [{"n": 5000}, {"n": 4321, "difference": 0.08}, {"difference": 0.05}])
def test_the_table_of_trust_models_has_the_plans_own_records(trust, more) -> None:
    plan = pr.plan_two_groups(share=0.4, mu=1, trust=trust, **more)
    assert plan.compare_trust().loc[trust, "people"] == plan.n


@pytest.mark.usefixtures("shared_rehearsals")
def test_few_people_whose_errors_fall_steeply_are_found() -> None:
    """Steps by the square root's law go to and fro where errors fall faster: the least number was missed tenfold."""
    found = pr.plan(
        "y ~ x", mu=1, width={"x": 0.7}, trust="two_collectors", scale=1.0, bounds={"x": (0, 1), "y": (0, 5)}
    )
    assert found.table().loc["x", "width"] == pytest.approx(0.7, rel=0.02)
    assert found.n < 3_000
