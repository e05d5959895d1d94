"""The table that opens a paper: means with standard deviations, shares, tests that public subgroups are alike."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2

import privreg as pr
from privreg.privacy.ledger import LEDGER
from privreg.results.statement import ROUNDED

TRUSTS = ["local", "two_collectors", "central"]
PUBLIC = {
    "bounds": {"age": (18, 90), "dose": (0, 1)},
    "levels": {"k": ["a", "b", "c"], "arm": ["new", "old", "none"]},
    "progress": False,
}
FORMULA = "age + dose + C(k)"


def people(n=6000, seed=0, gaps=0.0, shift=0.0):
    rng = np.random.default_rng(seed)
    arm = rng.choice(["new", "old", "none"], n, p=[0.4, 0.4, 0.2])
    age = rng.normal(50, 9, n) + shift * (arm == "new")
    return pd.DataFrame(
        {
            "age": np.where(rng.uniform(size=n) < gaps, np.nan, np.clip(age, 18, 90)),
            "dose": rng.beta(2, 3, n),
            "k": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
            "arm": arm,
        }
    )


def table(data, **options):
    budget = {} if "epsilon" in options else {"mu": 1}
    return pr.table_one(data, FORMULA, **{**PUBLIC, "by": "arm", **budget, **options})


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_without_privacy_it_is_the_arithmetic(trust):
    data = people(gaps=0.2, shift=1.0)
    found = table(data, trust=trust, mu=None).frame().set_index(["group", "variable"]).sort_index(kind="stable")
    for group, part in [("All", data), *data.groupby("arm")]:
        assert found.loc[(group, "age"), "people"].item() == len(part)
        for name in ("age", "dose"):
            assert found.loc[(group, name), "estimate"].item() == pytest.approx(part[name].mean(), rel=1e-5)
            assert found.loc[(group, name), "sd"].item() == pytest.approx(part[name].std(ddof=0), rel=1e-4)
        assert found.loc[(group, "k"), "count"].tolist() == pytest.approx(
            [(part["k"] == level).sum() for level in "abc"], rel=1e-4
        )
    parts = [part["age"].dropna() for _, part in data.groupby("arm")]
    weights = np.array([len(x) / x.var(ddof=0) for x in parts])
    means = np.array([x.mean() for x in parts])
    q = np.sum(weights * (means - np.average(means, weights=weights)) ** 2)
    assert found.loc[("All", "age"), "p_value"].item() == pytest.approx(chi2.sf(q, 2), rel=1e-2)


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", TRUSTS)
def test_it_says_what_the_results_say(trust):
    data = people(gaps=0.1)
    res = pr.means.estimate(data, FORMULA, by="arm", mu=1, trust=trust, seed=3, **PUBLIC)
    found = res.table_one().frame()
    everybody, groups = found[found["group"] == "All"], found[found["group"] != "All"]
    np.testing.assert_array_equal(everybody["estimate"], res.params)
    np.testing.assert_array_equal(everybody["std_error"], res.bse)
    np.testing.assert_array_equal(groups["estimate"], res.by_group()["estimate"])
    assert found["sd"].notna().sum() == (0 if trust == "local" else 8)  # two numbers, everybody and three subgroups
    if trust != "local":
        z = (found["sd"] / found["variable"].map({"age": 9.0, "dose": 0.2}) - 1.0).dropna()
        assert (z.abs() < 0.15).all()


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", TRUSTS)
def test_each_person_pays_once_and_it_is_kept_and_shown(trust, tmp_path):
    data = people()
    shown = table(data, trust=trust)
    assert LEDGER.spent(data) == pytest.approx(1.0)
    assert max(map(len, shown.as_text().splitlines())) <= 80
    kind = "SE" if trust == "local" else "SD"
    for text in (shown.as_text(), shown.as_html(), shown.as_latex(), shown.as_markdown()):
        assert f"age, mean ({kind})" in text
        assert "each person is in one subgroup" in " ".join(text.split())
    assert '<th scope="row" class="inside">' in shown.as_html()
    assert "| &emsp;" in shown.as_markdown()
    assert r"\quad " in shown.as_latex()
    for ending in ("docx", "md", "html"):
        shown.save(tmp_path / f"table.{ending}")
    res = pr.means.estimate(data, FORMULA, by="arm", mu=1, trust=trust, **PUBLIC)
    res.save(tmp_path / "res.privreg")
    assert str(pr.load(tmp_path / "res.privreg").table_one()) == str(res.table_one())


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "options"),
    [
        (1500, {"trust": "central", "gaps": 0.2}),
        (1500, {"trust": "two_collectors"}),
        (600, {"trust": "two_collectors", "mu": 0.3}),
        (6000, {"trust": "local"}),
        (6000, {"trust": "local", "epsilon": 2}),
    ],
)
def test_subgroups_that_are_alike_are_told_apart_as_often_as_it_says(n, options):
    """Exact binomial limits of 1e-4 in all."""
    options, runs = dict(options), 600
    gaps = options.pop("gaps", 0.0)
    p = []
    for s in range(runs):
        found = table(people(n, s, gaps=gaps), seed=s, **options).frame()
        p.append(found.groupby("variable")["p_value"].first().to_numpy())
    low, high = binom.ppf([1e-5, 1 - 1e-5], runs, 0.05)
    assert ((np.array(p) < 0.05).sum(axis=0) >= low).all()
    assert ((np.array(p) < 0.05).sum(axis=0) <= high).all()


def test_subgroups_that_differ_are_told_apart():
    found = table(people(shift=3.0), trust="two_collectors", seed=1).frame().groupby("variable")["p_value"].first()
    assert found["age"] < 1e-4
    assert found["dose"] > 1e-3


def test_without_subgroups_it_describes_everybody():
    shown = pr.table_one(people(), "age + C(k)", trust="central", mu=1, **PUBLIC)
    assert shown.frame()["group"].unique().tolist() == ["All"]
    assert "p-value" not in str(shown)


@pytest.mark.some
@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("mu", [3, None])
def test_people_without_a_value_are_counted_apart(trust, mu):
    data, n = people(8000, gaps=0.2), 8000
    data.loc[np.random.default_rng(1).uniform(size=n) < 0.3, "k"] = None
    shown = table(data, trust=trust, mu=mu, seed=4)
    frame = shown.frame().set_index(["group", "variable"])
    res = pr.means.estimate(data, FORMULA, by="arm", trust=trust, mu=mu, seed=4, **PUBLIC)
    for j, group in enumerate(["All", "new", "old", "none"]):
        part = data if j == 0 else data[data["arm"] == group]
        for t, name in enumerate(("age", "dose", "k")):
            rows, (share, error) = frame.loc[[(group, name)]], res._fit.missing[j, t]
            assert abs(share - part[name].isna().mean()) <= 4.5 * error + ROUNDED
            np.testing.assert_allclose(rows["missing"], share * len(part))
        assert rows["count"].sum() + share * len(part) == pytest.approx(len(part), rel=1e-3)
    lines = str(shown).splitlines()
    for name in ("age", "dose", "k"):  # one row of each variable, after its others
        at = next(k for k, line in enumerate(lines) if line.startswith(f"{name}, "))
        assert lines[at + (4 if name == "k" else 1)].startswith("  missing ")
    assert "-0 " not in str(shown)
    if mu is None and trust != "local":
        assert rows["count"].tolist() == pytest.approx([(part["k"] == level).sum() for level in "abc"], rel=1e-3)


def test_where_nobody_is_asked_nobody_is_missing(tmp_path):
    res = pr.means.estimate(people(), FORMULA, by="arm", mu=1, trust="central", missing="raise", **PUBLIC)
    shown = res.table_one()
    assert "missing" not in str(shown)
    assert shown.frame()["missing"].isna().all()
    factor = shown.frame().dropna(subset="count").groupby("group")["count"].sum()
    assert factor["All"] == pytest.approx(6000, rel=0.02)
    res = pr.means.estimate(people(gaps=0.2), FORMULA, by="arm", mu=1, trust="central", **PUBLIC)
    res.save(tmp_path / "res.privreg")
    assert str(pr.load(tmp_path / "res.privreg").table_one()) == str(res.table_one())


@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_no_number_of_people_is_shown_below_0_and_estimates_stay(trust):
    shown = pr.table_one(people(60), "C(k)", mu=0.05, trust=trust, seed=1, **PUBLIC)
    frame = shown.frame()
    assert (frame["count"] < 0).any() or (frame["missing"] < 0).any()  # unbiased, as inference takes them
    shares = re.findall(r"(-?[\d,]+) \((-?[\d.]+)%\)", str(shown))
    assert len(shares) == 4
    assert min(float(n.replace(",", "")) for n, _ in shares) == min(float(p) for _, p in shares) == 0.0
    assert "and 0 if noise makes it less" in " ".join(str(shown).split())


def test_every_view_says_what_all_releases_cost():
    data = people(2000)
    formula = "age + dose + age:dose + cut(age, 5) + C(k):C(arm)"
    for k in (1, 2):
        res = pr.means.estimate(data, formula, mu=1, trust="central", **PUBLIC)
        for view in (res.table_one(), res.crosstab(), res.histogram(), res.corr()):
            assert (f"in all {k} releases, this one 1-GDP" in " ".join(str(view).split())) == (k > 1)


def test_a_subgroup_may_be_called_as_the_column_of_everybody():
    data = people(300).assign(arm=lambda d: d["arm"].replace({"new": "All"}))
    levels = {**PUBLIC["levels"], "arm": ["All", "old", "none"]}
    found = pr.table_one(data, "age", by="arm", trust="central", mu=1, **{**PUBLIC, "levels": levels}).frame()
    assert found["group"].tolist() == ["(All)", "All", "old", "none"]
