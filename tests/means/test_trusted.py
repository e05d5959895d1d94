"""Noise on sums: means by a trusted curator, and by two collectors that don't collude."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2

import privreg as pr
from privreg.errors import BudgetError, OptionError, UnsupportedArgumentError
from privreg.means import device, verification
from privreg.means.plan import UNIT, Item, Sums, make_plan, make_sums
from privreg.means.terms import Term
from privreg.privacy.ledger import LEDGER
from privreg.privacy.mechanisms import square_sensitivity

WAYS = {"central": 1, "two_collectors": 2}
BOTH = pytest.mark.parametrize("trust", list(WAYS))
FORMULA = "age + income + C(sector) ~ 1"
PUBLIC = {
    "bounds": {"age": (18, 70), "income": (0, 5)},
    "levels": {"sector": ["a", "b", "c"], "group": ["east", "west"]},
}
TERMS = (Term("age", 18, 70), Term("income", 0, 5), Term("sector", levels=("a", "b", "c")))


def people(n=2000, seed=0, gaps=0.0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 50, n)
    return pd.DataFrame(
        {
            "age": np.where(rng.uniform(size=n) < gaps, np.nan, age),
            "income": rng.beta(2, 3, n) * 5,
            "sector": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
            "group": rng.choice(["east", "west"], n, p=[0.3, 0.7]),
            "id": np.arange(n),
        }
    )


LAW = np.array([35.0, 2.0, 0.5, 0.3, 0.2])


def estimate(data, trust, **options):
    options = {**PUBLIC, "progress": False, "mu": 1, **options}
    return pr.means.estimate(data, FORMULA, trust=trust, **options)


# --- the one sensitivity ----------------------------------------------------------------------------------


def test_blocks_of_numbers_are_no_further_apart_with_squares_than_without():
    """Over a grid, whose step moves a distance by less than 1e-3."""
    t = np.linspace(-1, 1, 401)
    some = np.column_stack([np.ones(401), t, math.sqrt(2) * t**2])
    some = np.vstack([some, np.zeros(3)])
    apart = np.linalg.norm(some[:, None] - some[None], axis=2)
    assert apart.max() == pytest.approx(square_sensitivity(), abs=1e-12)
    larger = np.vstack([some * [1, 1, 1.21], np.zeros(3)])  # any more of them would cost
    assert np.linalg.norm(larger[:, None] - larger[None], axis=2).max() > square_sensitivity() + 1e-3


@BOTH
@pytest.mark.parametrize("nonresponse", [False, True])
def test_no_two_records_are_further_apart_than_the_noise_hides(trust, nonresponse):
    """Sums of one record each, at ends, in the middle and at random, differ by mu · sd at most; some come near it."""
    plan = make_plan(TERMS, pr.Budget.declare(mu=0.7), nonresponse=nonresponse, trust=trust)
    rng = np.random.default_rng(1)
    numbers = [-1.0, 1.0, 0.0, 0.382, *rng.uniform(-1, 1, 8), *([np.nan] if nonresponse else [])]
    codes = range(4 if nonresponse else 3)
    rows = [(x, y, c) for x in numbers for y in numbers for c in codes]
    sums = np.array([device.total(plan, [np.full(1, v) for v in row]) for row in rows]).astype(float)
    square = np.einsum("ij,ij->i", sums, sums)
    largest = math.sqrt((square[:, None] + square[None] - 2 * sums @ sums.T).max())
    assert largest <= plan.sd * 0.7
    assert largest > 0.99999 * UNIT


@BOTH
def test_noise_has_the_variance_that_is_stated_and_is_never_left_out(trust):
    plan = make_plan(TERMS, pr.Budget.declare(mu=0.5), trust=trust)
    exact, runs = np.zeros((20_000, len(plan.scales)), dtype=np.int64), 20_000
    drawn = plan.noised(exact, bytes(32)) / plan.scales
    ratio = (drawn**2).sum(axis=0) / plan.variances(1)
    assert ((ratio > chi2.ppf(1e-7, runs)) & (ratio < chi2.ppf(1 - 1e-7, runs))).all()
    assert plan.variances(1)[0] == pytest.approx(WAYS[trust] * (1.0 / (0.5 * plan.weights[0])) ** 2, rel=1e-4)
    # people whose sums are 0, too
    middle = pd.DataFrame({"x": np.full(50, 0.5)})
    found = [
        pr.means.estimate(middle, "x", mu=1, bounds={"x": (0, 1)}, missing="raise", trust=trust, progress=False)
        for _ in range(2)
    ]
    assert len({0.5, *(float(res.params["x"]) for res in found)}) == 3


def test_sums_are_taken_modulo_two_to_the_64():
    sums = make_sums((Item("number", 0, 0, 1),), pr.Budget.declare(mu=None), 2)
    near = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    noisy = replace(sums, budget=pr.Budget.declare(mu=1)).noised(near, bytes(32))
    assert (np.abs(noisy) > 2**62).all()


def test_weights_have_the_least_sum_of_relative_variances():
    items = Item("number", 0, 0, 1), Item("answered", 0, 1, 1), Item("factor", 1, 2, 2), Item("factor", 2, 4, 40)
    sums = make_sums(items, pr.Budget.declare(mu=1), 1)
    assert sums.weights[0] == sums.weights[1]
    cost, apart = np.array([3.0, 4.0, 1600 / 39]), np.array([2.0, math.sqrt(2), math.sqrt(2)])
    best = np.array(sums.weights)[[0, 2, 3]]
    assert np.sum((best * apart) ** 2) == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = best * np.exp(0.1 * rng.normal(size=3))
        other /= math.sqrt(np.sum((other * apart) ** 2))
        assert np.sum(cost / other**2) >= np.sum(cost / best**2)


# --- estimates --------------------------------------------------------------------------------------------


@BOTH
def test_without_privacy_it_is_the_arithmetic(trust):
    data = people(gaps=0.3)
    res = estimate(data, trust, mu=None)
    shares = data["sector"].value_counts(normalize=True)
    want = [data["age"].mean(), data["income"].mean(), *(shares[k] for k in "abc")]
    np.testing.assert_allclose(res.params, want, rtol=1e-5)
    some = data["age"].dropna()
    errors = [some.std(ddof=0) / len(some) ** 0.5, data["income"].std(ddof=0) / 2000**0.5]
    errors += [math.sqrt(shares[k] * (1 - shares[k]) / 2000) for k in "abc"]
    np.testing.assert_allclose(res.bse, errors, rtol=1e-4)
    assert "NOT PRIVATE" in str(res.summary())
    cov = res.cov_params()
    assert cov.loc["sector[a]", "sector[b]"] == pytest.approx(-shares["a"] * shares["b"] / 2000, rel=1e-4)
    assert np.isnan(cov.loc["age", "income"])


@pytest.mark.statistical
@BOTH
@pytest.mark.parametrize("options", [{"missing": "raise"}, {"gaps": 0.3}, {"mu": 0.2, "n": 300}, {"by": "group"}])
def test_intervals_hold_their_level(trust, options):
    """Exact binomial limits of 1e-4 in all; of age, whose ratio of two noised sums is the hardest, and of the rest."""
    options = dict(options)
    gaps, n, runs = options.pop("gaps", 0.0), options.pop("n", 1000), 1000
    inside = np.zeros(5)
    for k in range(runs):
        res = estimate(people(n, seed=k, gaps=gaps), trust, seed=k, **options)
        limits = res.conf_int().to_numpy()
        inside += (limits[:, 0] < LAW) & (limits[:, 1] > LAW)
    low, high = binom.ppf([1e-5, 1 - 1e-5], runs, 0.95)
    assert ((low <= inside) & (inside <= high)).all()


@BOTH
def test_estimates_are_where_their_errors_say_and_collectors_add_twice_the_noise(trust):
    res = estimate(people(20_000, seed=3, gaps=0.1), trust, seed=1)
    assert (np.abs(res.params - LAW) < 5 * res.bse).all()
    sums = make_plan(TERMS, pr.Budget.declare(mu=1), nonresponse=True, trust=trust)
    noise = sums.variances(20_000)[2]
    exact = LAW[1] * 0 + 25 * 2 * 3 / (5**2 * 6)  # of a beta law with parameters 2 and 3, times 5
    # of income, all of whom answer: (half the range)² times noise of number and of the share, beside sampling
    half, mean = 2.5, (2.0 - 2.5) / 2.5
    want = exact / 20_000 + half**2 * noise * (1 + mean**2)
    assert res.bse["income"] ** 2 == pytest.approx(want, rel=0.05)


def test_far_fewer_people_are_enough_than_with_local_noise():
    data = people(2000)
    errors = {trust: estimate(data, trust, seed=1).bse.to_numpy() for trust in ("local", *WAYS)}
    assert (errors["two_collectors"] < errors["local"] / 5).all()
    assert (errors["central"] < errors["two_collectors"]).all()


@pytest.mark.some(1)
@BOTH
def test_batches_and_subgroups(trust):
    data = people(3000)
    own = {"seed": 2, "by": "group", "by_budget": {"east": 0.5}}
    whole = estimate(data, trust, **own)
    same = estimate(iter([data.iloc[a : a + 700] for a in range(0, 3000, 700)]), trust, **own)
    pd.testing.assert_frame_equal(whole.tidy(), same.tidy())
    pd.testing.assert_frame_equal(whole.by_group(), same.by_group())
    assert (np.abs(whole.by_group()["estimate"].to_numpy() - np.tile(LAW, 2)) < 5 * whole.by_group()["std_error"]).all()


@BOTH
def test_a_thousand_levels_cost_no_rows_times_levels(trust):
    plan = make_plan([Term("k", levels=tuple(range(1000))), Term("x", 0, 1)], pr.Budget.declare(mu=1), trust=trust)
    assert plan.width == 0
    people = [np.arange(5000) % 1000, np.zeros(5000)]
    assert (device.total(plan, people)[:1000] == 5 * round(plan.scales[0])).all()


# --- what is said, kept and counted -----------------------------------------------------------------------


def test_the_statement_names_who_is_trusted(tmp_path):
    one, two = (estimate(people(), trust) for trust in WAYS)
    words = {res: " ".join(str(res.privacy).split()) for res in (one, two)}
    assert "trusted curator: whoever runs this sees all rows" in words[one]
    assert "The curator sees every record." in words[one]
    assert "1-GDP, hence (4.89, 1e-06)-DP against either collector" in words[two]
    assert "Everybody else: at most 0.7072-GDP of this release" in words[two]
    assert "Both together: no guarantee" in words[two]
    assert "Trust: central" in " ".join(str(one.summary()).split())
    assert (one.privacy.short, two.privacy.short) == ("1-GDP, central", "1-GDP, two collectors")
    assert one.privacy.total_mu == two.privacy.total_mu == 1.0
    for name, res in {"one": one, "two": two}.items():
        res.save(tmp_path / f"{name}.privreg")
        back = pr.load(tmp_path / f"{name}.privreg")
        assert str(back.privacy) == str(res.privacy)
        assert str(back.summary()) == str(res.summary())
        pd.testing.assert_frame_equal(back.cov_params(), res.cov_params())
        assert back.privacy.verify(2000).passed


@BOTH
def test_an_audit_finds_noise_that_is_a_fifth_too_small(trust, monkeypatch):
    res = estimate(people(), trust)
    assert res.privacy.verify().passed
    held = Sums.sd.fget
    monkeypatch.setattr(verification.Sums, "sd", property(lambda self: 0.8 * held(self)))
    assert not res.privacy.verify().passed


@BOTH
def test_budgets_are_entered_before_anything_is_released(trust, monkeypatch):
    data = people()
    res = [estimate(data, trust) for _ in range(2)]
    assert [r.privacy.release.number for r in res] == [1, 2]
    assert LEDGER.spent(data) == pytest.approx(math.sqrt(2))
    seen = []
    held = Sums.noised
    monkeypatch.setattr(Sums, "noised", lambda *a: seen.append(LEDGER.spent(data)) or held(*a))
    estimate(data, trust)
    assert seen == [pytest.approx(math.sqrt(3))]
    pr.limit_spending(1.8)
    try:
        with pytest.raises(BudgetError, match="release 4"):
            estimate(data, trust)
    finally:
        pr.limit_spending(None)


@BOTH
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"mu": 1e-12}, BudgetError, "beyond 64-bit sums"),
        ({"mechanism": "laplace"}, OptionError, "mechanism= is about people's reports"),
        ({"frequencies": "oue"}, OptionError, "frequencies= is about people's reports"),
        ({"m": 1}, OptionError, "m= is about people's reports"),
        ({"missing": "drop"}, OptionError, "use 'noise'"),
        ({"id": "id", "max_per_id": 3}, OptionError, "use max_per_id=1"),
    ],
)
def test_what_has_no_place_is_refused(trust, options, error, words):
    with pytest.raises(error, match=words):
        estimate(people(20), trust, **options)


@BOTH
def test_forms_of_budgets(trust):
    data, public = people(500), {**PUBLIC, "progress": False, "trust": trust}
    with pytest.raises(BudgetError, match="give mu= or rho=, or delta=1e-6"):
        pr.means.estimate(data, FORMULA, epsilon=1, **public)
    assert pr.means.estimate(data, FORMULA, rho=0.5, **public).privacy.total_mu == pytest.approx(1.0)
    assert pr.means.estimate(data, FORMULA, epsilon=1, delta=1e-6, **public).privacy.budget.form == "epsilon, delta"
    with pytest.raises(UnsupportedArgumentError, match=r"fit\(\) takes rows"):
        pr.means.PrivateMeans(["age"], mu=1, trust=trust, **PUBLIC).start()


def test_further_rows_of_a_person_count_for_nothing():
    data = people(3000).assign(id=np.arange(3000) // 3)
    res = estimate(data, "central", mu=None, id="id")
    np.testing.assert_allclose(res.params["income"], data["income"].iloc[::3].mean(), rtol=1e-5)


def test_skewed_counts_that_noise_does_not_hide_are_marked():
    data = {"c": np.repeat(["a", "b", "z"], [3, 500, 497])}
    options = {"levels": {"c": ["a", "b", "z"]}, "trust": "central", "seed": 0, "progress": False}
    assert pr.means.estimate(data, "C(c) ~ 1", mu=20, **options).privacy.doubts
    assert not pr.means.estimate(data, "C(c) ~ 1", mu=0.5, **options).privacy.doubts
