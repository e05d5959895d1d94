"""Means and frequencies end to end: estimates, intervals, subgroups, missing values, sources, ledger, files."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

import privreg as pr
from privreg.errors import BudgetError, DataError, InferenceError, NotPrivateError, SavedFileError
from privreg.means import collector, device
from privreg.means import stream as stream_module
from privreg.means.plan import make_plan
from privreg.means.terms import Term
from privreg.privacy.ledger import LEDGER, compose
from tests.helpers import unmarked

FORMULA = "age + income + C(sector) ~ 1"
PUBLIC = {
    "bounds": {"age": (18, 70), "income": (0, 5)},
    "levels": {"sector": ["a", "b", "c"], "group": ["east", "west"]},
}
QUIET = {"progress": False}


def people(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["east", "west"], n, p=[0.3, 0.7])
    return pd.DataFrame(
        {
            "age": np.where(group == "east", rng.uniform(40, 70, n), rng.uniform(20, 50, n)),
            "income": rng.beta(2, 3, n) * 5,
            "sector": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
            "group": group,
            "id": np.arange(n),
        }
    )


def truth(data):
    shares = data["sector"].value_counts(normalize=True)
    return pd.Series(
        {
            "age": data["age"].mean(),
            "income": data["income"].mean(),
            **{f"sector[{k}]": shares[k] for k in ("a", "b", "c")},
        }
    )


def estimate(data, columns=FORMULA, **options):
    return pr.means.estimate(
        data, columns, **{**PUBLIC, **QUIET, **({} if "mu" in options else {"epsilon": 1}), **options}
    )


WAYS = {
    "auto": {},
    "m": {"m": 2, "epsilon": 2},
    "laplace": {"mechanism": "laplace", "frequencies": "histogram", "epsilon": 3},
    "wave": {"mechanism": "square_wave", "frequencies": "oue"},
    "gaussian": {"mu": 1, "mechanism": "gaussian", "frequencies": "gaussian"},
    "privunit": {"mechanism": "privunit", "epsilon": 4},
    "mu": {"mu": 1},
    "open": {"mu": None},
    "approximate": {"epsilon": 1, "delta": 1e-6},
    "ids": {"id": "id", "epsilon": 4},
    "noise": {"missing": "noise", "epsilon": 4},
    "by": {"by": "group", "epsilon": 2, "by_budget": {"east": 1.0}},
}


@pytest.mark.some(1)
@pytest.mark.parametrize("way", WAYS)
def test_estimates_are_where_their_errors_say(way):
    data = people()
    res = estimate(data, seed=5, **WAYS[way])
    z = (res.params - truth(data)) / res.bse
    assert list(res.params.index) == list(truth(data).index)
    assert (np.abs(z) < 4.5).all()  # five normal numbers, 3e-5 in all
    assert (res.bse > 0).all()
    if way == "open":
        np.testing.assert_allclose(res.params, truth(data), rtol=1e-12)
        np.testing.assert_allclose(res.bse["age"], data["age"].std() / len(data) ** 0.5, rtol=1e-9)


@pytest.mark.thorough
def test_the_class_the_formula_and_the_function_are_one():
    data = people(3000)
    a = pr.means.PrivateMeans(["age", "income", "sector"], data, epsilon=1, **PUBLIC).fit(seed=3, **QUIET)
    b = pr.means.PrivateMeans.from_formula(FORMULA, data, epsilon=1, **PUBLIC).fit(seed=3, **QUIET)
    named = pr.means.estimate(data, formula=FORMULA, epsilon=1, seed=3, **PUBLIC, **QUIET)
    assert named.params.equals(b.params)
    c = estimate(data, seed=3)
    for other in (b, c):
        pd.testing.assert_frame_equal(a.tidy(), other.tidy())
    assert estimate(data, seed=4).params["age"] != a.params["age"]
    assert estimate(data).params["age"] != estimate(data).params["age"]  # secret noise is fresh


@pytest.mark.thorough
def test_rows_give_the_same_results_from_every_source(tmp_path):
    data = people(40_000)
    data.to_csv(tmp_path / "people.csv", index=False)
    data.to_parquet(tmp_path / "people.parquet", index=False)
    expected = estimate(data, seed=1).tidy()
    batches = (data.iloc[a : a + 7_001] for a in range(0, len(data), 7_001))
    for source in (
        tmp_path / "people.csv",
        tmp_path / "people.parquet",
        batches,
        {c: data[c].to_numpy() for c in data},
    ):
        got = estimate(source, seed=1).tidy()
        pd.testing.assert_frame_equal(got, expected, rtol=1e-9)
    stream = pr.means.PrivateMeans.from_formula(FORMULA, epsilon=1, **PUBLIC).start(seed=1)
    for a in range(0, len(data), 333):
        stream.update(data.iloc[a : a + 333])
    pd.testing.assert_frame_equal(stream.results().tidy(), expected, rtol=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("options", "runs"), [({"epsilon": 2, "m": 1}, 250), ({"epsilon": 4, "missing": "noise"}, 200), (WAYS["by"], 200)]
)
def test_intervals_hold_their_level(options, runs):
    """The number of 95% intervals that hold the law's mean is within exact binomial limits, at 1e-6 a cell."""
    hits = np.zeros(2)
    for k in range(runs):
        data = people(1500, seed=[9, k])
        if "missing" in options:
            data.loc[np.random.default_rng([8, k]).uniform(size=1500) < 0.2, "income"] = np.nan
        table = estimate(data, ["age", "income"], seed=k, **options).conf_int()
        hits += (table[0] <= [41.0, 2.0]) & (table[1] >= [41.0, 2.0])
    low, high = binom.ppf([5e-7, 1 - 5e-7], runs, 0.95)
    assert ((low <= hits) & (hits <= high)).all()


@pytest.mark.thorough
def test_sampling_of_items_adds_its_term():
    """Without noise, the variance over draws is (1 − m/d) Var(t)/r about the people's own mean; the source omits it."""
    plan = make_plan([Term("x", -1, 1), Term("y", -1, 1)], pr.Budget.declare(mu=None), m=1)
    rng = np.random.default_rng(0)
    values, reps = np.linspace(-1, 0.6, 400) ** 3, 4000
    found = []
    for _ in range(reps):
        told = device.reports(plan, [values, values], rng.standard_normal((400, plan.width)))
        found.append(np.nanmean(told[:, 0]) - values.mean())
    expected = 0.5 * values.var() / 200
    assert np.mean(np.square(found)) == pytest.approx(expected, rel=5 * np.sqrt(2 / reps))


def test_the_covariance_is_that_of_the_reports():
    """Against a direct computation, with everybody asked everything."""
    rng = np.random.default_rng(1)
    told = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3))
    terms = [Term(c, -1, 1) for c in "abc"]
    plan = make_plan(terms, pr.Budget.declare(mu=None), m=3)  # these reports carry no noise
    half = collector.update(plan, collector.init(plan), told[:200])
    whole = collector.update(plan, half, told[200:])
    got = collector.estimates(terms, [plan], [whole])
    np.testing.assert_allclose(got.params, told.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(got.cov, np.cov(told.T) / 500, rtol=1e-9, atol=1e-12)


def test_missing_values_as_noise_give_means_of_those_who_answer():
    data = people(60_000)
    gone = data["age"] > 55  # not at random: what is told about is who has a value
    data.loc[gone, "income"] = np.nan
    data.loc[data["group"] == "east", "sector"] = None
    res = estimate(data, ["income", "sector"], epsilon=6, missing="noise", seed=0)
    seen = data["sector"].value_counts(normalize=True)
    expected = [data["income"].mean(), *(seen[k] for k in "abc")]
    assert (np.abs((res.params - expected) / res.bse) < 4.5).all()
    dropped = estimate(data.assign(sector="a"), ["income"], missing="drop", seed=0)
    assert dropped.nobs == int((~gone).sum())
    assert any("reveals who answered" in note for note in dropped.privacy.notes)


def test_further_rows_of_a_person_tell_nothing():
    data = people(30_000)
    twice = pd.concat([data, data.assign(age=18.0)], ignore_index=True)
    res = estimate(twice, ["age"], id="id", epsilon=6, seed=0)
    assert abs(res.params["age"] - data["age"].mean()) < 4.5 * res.bse["age"]
    both = estimate(twice, ["age"], id="id", max_per_id=2, epsilon=6, seed=0)
    assert abs(both.params["age"] - twice["age"].mean()) < 4.5 * both.bse["age"]
    assert both.privacy.total.epsilon == 12.0


@pytest.mark.some(2)
@pytest.mark.parametrize(("mu", "column", "times"), [(None, "x", 2.0), (6, "x", 1.67), (6, "c", 2.0), (1, "x", 1.06)])
def test_rows_of_a_person_that_may_be_alike_are_noted_by_what_they_do_to_errors(mu, column, times):
    """√(1 + 3 v/(v + s²)) times, v the variance of values and s² that of noise: 2/μ², as a bit is sent, too."""
    x = np.tile(np.linspace(-1.0, 1.0, 1001), 40)
    data = pd.DataFrame({"x": x, "c": np.where(x > 0.0, "a", "b"), "id": np.arange(len(x)) // 4})
    given = {"bounds": {"x": (-1.0, 1.0)}, "levels": {"c": ["a", "b"]}, "progress": False}
    res = pr.means.estimate(data, [column], mu=mu, id="id", max_per_id=4, seed=1, **given)
    (note,) = (note for note in res.privacy.notes if note.code in {"alike", "repeated"})
    assert float(re.search(r"up to ([\d.]+) times", note)[1]) == pytest.approx(times, abs=0.06)
    assert (note.code == "alike") == (times > 1.3)


def test_without_privacy_it_is_the_arithmetic(tmp_path):
    data = people(5000)
    data.loc[data["age"] > 50, "income"] = np.nan
    data.loc[::7, "sector"] = None
    res = estimate(data, ["income", "sector"], mu=None, missing="noise", by="group")
    shares = data["sector"].value_counts(normalize=True)
    np.testing.assert_allclose(res.params, [data["income"].mean(), *(shares[k] for k in "abc")], rtol=1e-12)
    np.testing.assert_allclose(
        res.bse["sector[b]"] ** 2, shares["b"] * (1 - shares["b"]) / data["sector"].count(), rtol=2e-3
    )
    apart = res.by_group().set_index(["group", "term"])["estimate"]
    assert apart["east", "income"] == pytest.approx(data.query("group == 'east'")["income"].mean())


@pytest.mark.thorough
def test_large_batches_are_cut_and_give_the_same():
    data = people(40_000)
    model = pr.means.PrivateMeans(["age"], epsilon=1, **PUBLIC)
    whole, parts = model.start(seed=2), model.start(seed=2)
    whole.update(data)
    for a in range(0, len(data), 999):
        parts.update(data.iloc[a : a + 999])
    assert whole.results().params["age"] == pytest.approx(parts.results().params["age"], rel=1e-12)
    assert whole.nobs == 40_000


def test_subgroups_have_budgets_of_their_own():
    data = people(40_000)
    res = estimate(data, ["age", "income"], seed=2, **WAYS["by"])
    table = res.by_group().set_index(["group", "term"])
    means = data.groupby("group")[["age", "income"]].mean()
    for (group, term), row in table.iterrows():
        assert abs(row["estimate"] - means.loc[group, term]) < 4.5 * row["std_error"]
        assert row["people"] == (data["group"] == group).sum()
    assert table.loc[("east", "income"), "std_error"] > 1.5 * table.loc[("west", "income"), "std_error"]
    assert "at most 2-DP" in res.privacy.guarantee
    with pytest.raises(InferenceError, match="no subgroups"):
        estimate(data).by_group()


@pytest.mark.parametrize("way", [w for w in WAYS if w not in {"open", "by", "approximate"}])
def test_nobody_spends_more_than_the_budget(way):
    """The parts that a person may be asked, composed, imply the budget asked for."""
    options = {"epsilon": 1, **WAYS[way]} if "mu" not in WAYS[way] else WAYS[way]
    model = pr.means.PrivateMeans.from_formula(FORMULA, **{**PUBLIC, **options})
    asked = pr.Budget.declare(mu=options["mu"]) if "mu" in options else pr.Budget.declare(epsilon=options["epsilon"])
    for plan in model.plans:
        assert plan.budget <= asked or plan.budget.mu <= asked.mu
        if plan.vector is not None:
            assert plan.vector.budget == asked
            continue
        costly = sorted((i.mechanism.budget for i in plan.items), key=lambda b: b.mu)[-plan.asked :]
        whole = pr.Budget.declare(mu=compose(b.mu for b in costly))
        if all(b.pure for b in costly):
            whole = pr.Budget.declare(epsilon=sum(b.epsilon for b in costly))
        assert whole.mu <= asked.mu * (1 + 1e-9)
        if asked.pure:
            assert whole.epsilon <= asked.epsilon * (1 + 1e-9)


@pytest.mark.thorough
def test_the_plan_asks_as_many_as_give_the_least_noise():
    terms = [Term(f"x{j}", -1, 1) for j in range(10)]
    asked = [make_plan(terms, pr.Budget.declare(epsilon=e)).asked for e in (0.5, 2, 8, 30)]
    assert asked[0] == 1
    assert asked == sorted(asked)
    assert asked[-1] > 3
    assert make_plan(terms, pr.Budget.declare(mu=1), mechanism="gaussian").asked == 10
    # under (ε, δ) pure mechanisms at ε have far less noise than Gaussian noise
    assert make_plan(terms, pr.Budget.declare(epsilon=1, delta=1e-6)).budget.pure


@pytest.mark.thorough
def test_every_set_of_items_is_as_likely():
    from scipy.stats import chisquare

    for m in (1, 2):
        plan = make_plan([Term(f"x{j}", -1, 1) for j in range(4)], pr.Budget.declare(epsilon=1), m=m)
        chosen = device.chosen(plan, np.random.default_rng(m).standard_normal((60_000, plan.width)))
        sets = pd.Series([tuple(row) for row in np.sort(chosen, axis=1).tolist()]).value_counts()
        assert len(sets) == {1: 4, 2: 6}[m]
        assert chisquare(sets).pvalue > 1e-6


def test_releases_are_counted_with_those_of_regressions():
    data = people(3000)
    first = estimate(data, mu=1)
    assert (first.privacy.release.number, LEDGER.spent(data)) == (1, pytest.approx(first.privacy.total_mu))
    pr.PrivateOnlineRegression.from_formula("income ~ age", data, mu=1, bounds=PUBLIC["bounds"]).fit(**QUIET)
    third = estimate(data, mu=1)
    assert third.privacy.release.number == 3
    assert "release 3 from these data" in str(third.privacy)
    assert "in all 3 releases from these data so far" in " ".join(str(third.summary()).split())
    for text in (str(third.summary()), unmarked(third.summary().as_html()), third.summary().as_latex()):
        assert "1.733-GDP in all 3 releases from these data so far" in " ".join(text.split())
    assert "all 3 releases" in third.privacy.in_words
    pr.limit_spending(LEDGER.spent(data) + 0.01)
    try:
        with pytest.raises(BudgetError, match="release 4"):
            estimate(data, mu=1)
        with pytest.raises(BudgetError, match="no source to count by"):
            pr.means.PrivateMeans(["age"], mu=1, **PUBLIC).start()
    finally:
        pr.limit_spending(None)
    assert estimate(data, mu=1).privacy.release.number == 4  # the refused one cost nothing


@pytest.mark.some(1)
@pytest.mark.parametrize("way", ["auto", "by", "privunit", "open"])
def test_results_keep_through_files_and_pickles(way, tmp_path):
    res = estimate(people(3000), seed=1, **WAYS[way])
    res.save(tmp_path / "res.privreg")
    for again in (pr.load(tmp_path / "res.privreg"), pickle.loads(pickle.dumps(res))):
        pd.testing.assert_frame_equal(again.tidy(), res.tidy())
        pd.testing.assert_frame_equal(again.cov_params(), res.cov_params())
        assert again.summary().as_text() == res.summary().as_text()
        if way == "by":
            pd.testing.assert_frame_equal(again.by_group(), res.by_group())
    content = (tmp_path / "res.privreg").read_bytes()
    (tmp_path / "half.privreg").write_bytes(content[: len(content) // 2])
    with pytest.raises(SavedFileError):
        pr.load(tmp_path / "half.privreg")
    with pytest.raises(pr.errors.UnsupportedArgumentError, match=r"summary\(\)\.save"):
        res.save(tmp_path / "res.html")


def test_summaries_say_what_matters():
    res = estimate(people(3000))
    text, page, tex = (getattr(res.summary(0.1, details=True), f"as_{k}")() for k in ("text", "html", "latex"))
    for shown in (text, page, tex):
        for words in ("Private Means and Frequencies", "sector", "1-DP, pure", "Guarantee", "bounds 18 to 70"):
            assert words in unmarked(shown.replace(r"\allowbreak{}", ""))
    assert max(map(len, text.splitlines())) <= 80
    assert "[0.05" in text
    assert res._repr_html_() == res.summary().as_html()
    assert "NOT PRIVATE AS RUN" in str(estimate(people(3000), seed=1).summary(details=True))
    assert "NOT PRIVATE" in str(estimate(people(3000), mu=None).summary(details=True))
    biased = estimate(people(3000), mechanism="square_wave_biased")
    assert "THESE ARE NOT MEANS" in str(biased.summary(details=True))
    assert repr(res).startswith("<MeansResults: 5 estimates, 3,000 records, 1-DP")
    with pytest.raises(NotPrivateError, match="conf_int"):
        _ = res.resid
    with pytest.raises(AttributeError, match="dir"):
        _ = res.nonsense


@pytest.mark.some(2)
@pytest.mark.parametrize("way", [w for w in WAYS if w != "open"])
def test_a_statement_audits_what_was_used(way, tmp_path):
    res = estimate(people(2000), **WAYS[way])
    res.save(tmp_path / "res.privreg")
    found = pr.load(tmp_path / "res.privreg").privacy.verify(2000)
    assert found.passed
    assert found.table["report"].str.startswith("whole report").any()
    assert (found.table["lower"] > 0).any()
    assert "no limit exceeds the claim" in str(found)
    # the same reports under a claim of a fifth of it are found out
    for group in res.privacy.mechanics:
        for *_, (*_, asked) in group["items"]:
            asked[0] *= 5
        group["budget"][1] *= 5
    louder = res.privacy.verify(20_000).table
    assert (louder["lower"] > louder["claimed"] / 5).any()
    with pytest.raises(pr.errors.OptionError, match="n="):
        res.privacy.verify(10)
    with pytest.raises(BudgetError, match="no mechanism to audit"):
        estimate(people(100), mu=None).privacy.verify()


def test_biased_square_wave_estimates_its_line():
    data = people(60_000)
    res = estimate(data, ["income"], mechanism="square_wave_biased", epsilon=1, seed=0)
    m = (
        pr.means.PrivateMeans(["income"], epsilon=1, mechanism="square_wave_biased", **PUBLIC)
        .plans[0]
        .items[0]
        .mechanism
    )
    inside = data["income"].to_numpy() / 2.5 - 1
    expected = 2.5 + 2.5 * float(np.mean(inside + m.bias(inside)))
    assert abs(res.params["income"] - expected) < 4.5 * res.bse["income"]
    assert abs(res.params["income"] - data["income"].mean()) > 10 * res.bse["income"]
    with pytest.raises(pr.errors.OptionError, match="square_wave"):
        res.shrunk()


def test_shrunk_estimates_stay_on_their_ranges_sides():
    res = estimate(people(3000), epsilon=0.2, seed=0)
    for method in ("sure", "james_stein", "hdr4me"):
        got = res.shrunk(method)
        middle = pd.Series([44.0, 2.5, 0.5, 0.5, 0.5], index=got.index)
        assert (np.abs(got - middle) <= np.abs(res.params - middle) + 1e-12).all()


def test_exact_limits_are_those_of_clopper_and_pearson():
    """The benchmark's coverage table uses the beta form; it is scipy's exact interval."""
    from scipy.stats import binomtest

    ci = binomtest(93, 100).proportion_ci(0.999, "exact")
    assert (beta.ppf(0.0005, 93, 8), beta.ppf(0.9995, 94, 7)) == pytest.approx((ci.low, ci.high))


# --- what must not leak ----------------------------------------------------------------------------------

SECRETS = (31.4159265, 2.718281828)


def test_nothing_raw_is_in_what_is_shown_or_kept(tmp_path):
    data = people(2000)
    data.loc[0, ["age", "income"]] = SECRETS
    data["sector"] = pd.Categorical(data["sector"], categories=["a", "b", "c", "SECRET-LEVEL"])
    data["unused"] = "SECRET-ROW"
    model = pr.means.PrivateMeans.from_formula(FORMULA, data, epsilon=1, **PUBLIC)
    stream = model.start()
    stream.update(data)
    res = model.fit(**QUIET)
    res.save(tmp_path / "r.privreg")
    shown = [repr(model), repr(stream), repr(res), str(res.summary()), res._repr_html_(), repr(res.privacy)]
    kept = [pickle.dumps(model), pickle.dumps(res), (tmp_path / "r.privreg").read_bytes()]
    raw = [data["age"].mean(), data["income"].mean(), data["age"].std(), data["age"].max(), data["income"].min()]
    for text in shown:
        assert "SECRET" not in text
        assert not any(f"{v:.7g}" in text for v in (*SECRETS, *raw))
    for content in kept:
        assert b"SECRET" not in content
        assert not any(np.float64(v).tobytes() in content for v in (*SECRETS, *raw))
    with pytest.raises(TypeError, match="secret key"):
        pickle.dumps(stream)


def test_all_that_depends_on_rows_is_what_was_randomised():
    """Two different tables with the same noise: public parts are equal, and only estimates differ."""
    a, b = (estimate(people(2000, seed=s), seed=1) for s in (1, 3))
    assert str(a.privacy) == str(b.privacy)
    assert a.header == b.header
    assert (a.params != b.params).all()


def test_errors_quote_no_value():
    data = people(100)
    cases = [
        data.assign(age=["SECRET-31.4159"] * 100),
        data.assign(sector=["SECRET-LEVEL"] * 100),
        data.assign(age=[np.inf, *data["age"][1:]]),
        data.assign(age=[np.nan, *data["age"][1:]]),
    ]
    for bad in cases:
        with pytest.raises(pr.errors.PrivregError) as caught:
            estimate(bad, missing="raise")
        assert "SECRET" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or "SECRET" not in str(caught.value.__context__)


@pytest.mark.some(1)
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("way", ["grr", "oue", "histogram"])
def test_answers_that_are_all_alike_have_an_error_still(epsilon, way):
    """A level that nobody has, or everybody: limits are never of length 0 or NaN, and a note says what they are."""
    data = {"c": np.repeat("a", 40), "x": np.ones(40)}
    options = {"epsilon": epsilon, "frequencies": way, "levels": {"c": ["a", "b", "z"]}, "bounds": {"x": (0, 1)}}
    options["missing"] = "raise"  # else 40 people may be too few to see that anybody has an answer
    for seed in range(5):
        res = pr.means.estimate(data, ["c", "x"], seed=seed, progress=False, mechanism="duchi", **options)
        assert (res.bse > 0).all()
    if epsilon == 8.0:
        assert any("fewer than 10 records" in note for note in res.privacy.doubts)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["duchi", "piecewise", "square_wave", "laplace"])
def test_the_least_variance_of_reports_is_no_more_than_theirs(name):
    one = pr.Budget.declare(epsilon=2.0)
    plan = make_plan([Term("x", -1.0, 1.0), Term("c", levels=("a", "b", "z"))], one, mechanism=name, m=1)
    rng = np.random.default_rng(1)
    values = rng.beta(0.3, 0.7, 100_000) * 2 - 1
    law = np.array([0.2, 0.75, 0.05])
    theta = np.append(values.mean(), law)
    number, factor = (item.mechanism for item in plan.items)
    own, other = factor.variances()
    exact = np.append(np.mean(number.variance(values)) + values.var(), law * own + (1 - law) * other + law * (1 - law))
    least = np.append(collector._noise(plan, theta)[0], np.diag(factor.covariance(law)))
    assert (least <= exact * (1 + 1e-12)).all()
    assert np.allclose(least[1:], exact[1:])
    assert name != "duchi" or least[0] == pytest.approx(exact[0])


@pytest.mark.parametrize("silence", [False, True])
def test_whole_records_at_the_corners_come_out_unbiased(silence):
    """The radius is that of the longest record: a shorter one would pull such records in."""
    terms = [Term("x", -1.0, 1.0), Term("y", -1.0, 1.0), Term("c", levels=("a", "b", "z"))]
    plan = make_plan(terms, pr.Budget.declare(epsilon=6.0), mechanism="privunit", nonresponse=silence)
    n = 40_000
    values = [np.ones(n), -np.ones(n), np.zeros(n, dtype=int)]
    reports = device.reports(plan, values, np.random.default_rng(2).standard_normal((n, plan.width)))
    want = [1.0, 1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 0.0] if silence else [1.0, -1.0, 1.0, 0.0, 0.0]
    z = (reports.mean(axis=0) - want) / (reports.std(axis=0) / n**0.5)
    assert (np.abs(z) < 4.5).all()


def test_enough_people_are_not_doubted():
    data = {"c": np.repeat(["a", "b", "z"], [300, 300, 400])}
    res = pr.means.estimate(data, ["c"], epsilon=1, levels={"c": ["a", "b", "z"]}, seed=0, progress=False)
    assert not res.privacy.doubts


def test_several_rows_of_a_person_are_charged_for():
    data = pd.DataFrame({"x": np.linspace(0, 1, 60), "who": np.arange(60) // 4})
    options = {"bounds": {"x": (0, 1)}, "id": "who", "max_per_id": 4, "progress": False}
    for count in (1, 2):
        res = pr.means.estimate(data, ["x"], mu=0.5, seed=count, **options)
        assert (res.privacy.release.number, res.privacy.release.total_mu) == (count, pytest.approx(count**0.5))
    model = pr.means.PrivateMeans(["x"], data, epsilon=0.5, **{k: v for k, v in options.items() if k != "progress"})
    pr.limit_spending(1.6)
    try:
        with pytest.raises(BudgetError, match="release 3"):
            model.fit(progress=False)
    finally:
        pr.limit_spending(None)


def test_subgroups_that_lie_apart_count_in_the_error_of_all():
    rng = np.random.default_rng(0)
    part = rng.choice(["u", "v"], 20_000, p=[0.3, 0.7])
    x = np.where(part == "u", 0.1, 0.9) + rng.uniform(-0.05, 0.05, len(part))
    options = {"mu": None, "bounds": {"x": (0, 1)}, "levels": {"g": ["u", "v"]}, "by": "g", "progress": False}
    res = pr.means.estimate({"x": x, "g": part}, ["x"], **options)
    assert res.bse["x"] == pytest.approx(x.std() / len(x) ** 0.5, rel=1e-3)


def test_too_few_people():
    with pytest.raises(DataError, match="2 or more"):
        estimate(people(1))
    with pytest.raises(DataError, match="2 or more"):
        estimate(iter([people(3).iloc[:0]]))
    with pytest.raises(InferenceError, match="fewer than 2"):
        estimate(people(3), m=1)
    with pytest.raises(DataError, match="no data"):
        pr.means.PrivateMeans(["age"], epsilon=1, **PUBLIC).fit()


def test_an_interrupt_leaves_no_subgroup_of_a_batch_counted(monkeypatch):
    rows = {"x": np.linspace(0, 1, 40), "g": np.array(["u", "v"] * 20)}
    public = {"bounds": {"x": (0, 1)}, "levels": {"g": ["u", "v"]}}
    stream = pr.means.PrivateMeans.from_formula("x ~ 1", None, by="g", mu=1, **public).start()
    held = stream_module.collector.update
    calls = []

    def interrupted(plan, state, reports):
        calls.append(len(calls))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return held(plan, state, reports)

    with monkeypatch.context() as m:
        m.setattr(stream_module.collector, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.update(rows)
    assert stream.nobs == 0
    stream.update(rows)
    assert stream.nobs == 40
