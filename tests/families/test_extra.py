"""Families that learn a parameter beside coefficients: extreme designs, bad inputs at every door, noise in slopes."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import privreg as pr
from privreg.cli.app import main
from privreg.collector.aggregate.extra import Extra, tied
from privreg.errors import OptionError, PrivregError, SchemaError

N = 300


def counts(mean: float, alpha: float, y_max: float = 20.0):
    """Negative binomial counts, and what is true of their slope and dispersion."""

    def draw(rng, x):
        m = mean * np.exp(0.5 * x)
        return np.minimum(rng.poisson(rng.gamma(1.0 / alpha, alpha * m)), y_max).astype(float)

    return pr.NegativeBinomial(y_max), None, draw, 0.5, alpha


def censored(family, ends, sd, centre=0.0):
    """Normal responses censored at the ends, and what is true of their slope and sd."""
    return family, ends, lambda rng, x: np.clip(centre + 0.5 * x + sd * rng.standard_normal(len(x)), *ends), 0.5, sd


def same(family, ends, y: float):
    return family, ends, lambda rng, x: np.full(len(x), y), 0.0, None


DESIGNS = {
    "no count": same(pr.NegativeBinomial(20), None, 0.0),
    "counts of 3": same(pr.NegativeBinomial(20), None, 3.0),
    "largest counts": same(pr.NegativeBinomial(20), None, 20.0),
    "nearly no counts": counts(0.005, 1.0),
    "a huge dispersion": counts(2.0, 50.0),
    "hardly any dispersion": counts(5.0, 1e-6),
    "a vast largest count": counts(3.0, 1.0, 1e9),
    "0 or the largest": (pr.NegativeBinomial(20), None, lambda rng, x: 20.0 * (rng.random(len(x)) < 0.05), 0.0, None),
    "all at the lower limit": same(pr.Tobit(0), (0.0, 8.0), 0.0),
    "all at the upper limit": same(pr.Tobit(high=8), (0.0, 8.0), 8.0),
    "one response": same(pr.Tobit(0), (0.0, 8.0), 3.0),
    "nearly all at a limit": censored(pr.Tobit(0), (0.0, 8.0), 1.0, -2.3),
    "none at a limit": censored(pr.Tobit(0), (0.0, 8.0), 0.3, 4.0),
    "at either limit": censored(pr.Tobit(0, 1), (0.0, 1.0), 100.0),
    "a line": censored(pr.Tobit(0), (0.0, 8.0), 0.0, 2.0),
    "vast bounds": censored(pr.Tobit(0), (0.0, 1e9), 1.0, 4.0),
}


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
@pytest.mark.parametrize("trust", ["central", "two_collectors"])
@pytest.mark.parametrize("name", DESIGNS)
def test_extreme_designs_have_numbers_that_are_right_or_marked(name, trust):
    family, ends, draw, slope, extra = DESIGNS[name]
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, N)
    data = pd.DataFrame({"x": x, "y": draw(rng, x)})
    bounds = {"x": (-1, 1)} | ({} if ends is None else {"y": ends})
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, family=family, mu=1, bounds=bounds, trust=trust)
    res = model.fit(progress=False, seed=2)
    line, found = res.tidy().iloc[1], res.fit_measures.iloc[0]
    assert np.isfinite([*res.params, *res.bse, found["estimate"]]).all()
    assert (res.bse > 0.0).all()
    if line["reliable"]:
        assert abs(line["estimate"] - slope) < 4.5 * line["std_error"]
    if not math.isnan(found["std_error"]):
        assert extra is not None
        assert abs(found["estimate"] - extra) < 4.5 * found["std_error"]
    assert (
        name not in ("no count", "all at the lower limit", "nearly all at a limit") or not res.tidy()["reliable"].any()
    )


@pytest.mark.thorough
def test_a_likelihood_without_information_has_no_error():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, N), "y": np.repeat([0.0, 1.0], N // 2)})
    given = {"family": pr.Tobit(0, 1), "bounds": {"x": (-1, 1)}, "mu": None, "trust": "central"}
    res = pr.PrivateOnlineRegression.from_formula("y ~ x", data, **given).fit(progress=False)
    assert math.isnan(res.fit_measures["std_error"].iloc[0])


# --- bad inputs ----------------------------------------------------------------------------------------------

WRONG = {
    "no limit": lambda: pr.Tobit(),
    "equal": lambda: pr.Tobit(1, 1),
    "reversed": lambda: pr.Tobit(2, 1),
    "text": lambda: pr.Tobit("0"),
    "no number": lambda: pr.Tobit(math.nan),
    "no end": lambda: pr.Tobit(0, math.inf),
    "bool": lambda: pr.Tobit(True, 3),
    "a sequence": lambda: pr.Tobit([0]),
    "no largest count": lambda: pr.NegativeBinomial(),
    "a count of 0": lambda: pr.NegativeBinomial(0),
    "a negative count": lambda: pr.NegativeBinomial(-3),
    "a count without end": lambda: pr.NegativeBinomial(math.inf),
    "a count as text": lambda: pr.NegativeBinomial("20"),
}


@pytest.mark.parametrize("name", WRONG)
def test_families_refuse_wrong_limits_by_name(name):
    with pytest.raises(OptionError, match=r"give a limit|y_max="):
        WRONG[name]()


DOORS = ("central", "two_collectors", "silos", "stream")


def estimated(trust, data, family, ends, **more):
    """Coefficients by one of the doors."""
    bounds = {"x": (-1, 1)} | ({} if ends is None else {"y": ends})
    given = {"family": family, "mu": 2, "bounds": bounds, **more}
    if trust == "stream":
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", trust="two_collectors", rows=len(data), **given)
        stream = model.start(seed=5)
        stream.update(data)
        return stream.results().params
    source = {"a": data.iloc[::2], "b": data.iloc[1::2]} if trust == "silos" else data
    return (
        pr.PrivateOnlineRegression.from_formula("y ~ x", source, trust=trust, **given)
        .fit(seed=5, progress=False)
        .params
    )


@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
@pytest.mark.thorough
@pytest.mark.parametrize(("family", "ends"), [(pr.Tobit(0), (0, 4)), (pr.NegativeBinomial(4), None)], ids=repr)
@pytest.mark.parametrize("trust", DOORS)
def test_responses_beyond_limits_and_whole_numbers_are_what_they_are_within(trust, family, ends):
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.0, 1.0, 400)
    y = np.round(1.0 + x + 1.5 * rng.standard_normal(400))
    given = y.clip(0, 4), np.where(y > 4, 1e9, np.where(y < 0, -7.0, y)), y.clip(0, 4).astype(int)
    within, beyond, whole = (estimated(trust, pd.DataFrame({"x": x, "y": one}), family, ends) for one in given)
    np.testing.assert_array_equal(within, beyond)
    np.testing.assert_array_equal(within, whole)


@pytest.mark.parametrize("trust", DOORS)
@pytest.mark.parametrize(
    ("family", "ends"),
    [
        (pr.Tobit(0), None),
        (pr.Tobit(0), (-1, 4)),
        (pr.Tobit(0, 3), (0, 4)),
        (pr.Tobit(5), (0, 4)),
        (pr.Tobit(0), (3, 1)),
        (pr.NegativeBinomial(4), (0, 5)),
        (pr.NegativeBinomial(4), (1, 4)),
    ],
)
def test_bounds_that_do_not_suit_limits_are_refused_with_those_that_do(trust, family, ends):
    data = pd.DataFrame({"x": np.linspace(-1, 1, 400), "y": np.tile([0.0, 1.0, 2.0, 3.0], 100)})
    with pytest.raises(SchemaError, match="bounds") as found:
        estimated(trust, data, family, ends)
    assert "(5, 4)" not in str(found.value)  # bounds that are none


def test_local_reports_and_the_shell_refuse_them_by_name(tmp_path, capsys):
    data = pd.DataFrame({"x": np.linspace(-1, 1, 400), "y": np.tile([0.0, 1.0, 2.0, 3.0], 100)})
    for family, ends, name in ((pr.Tobit(0), (0, 4), "sigma"), (pr.NegativeBinomial(4), None, "alpha")):
        with pytest.raises(PrivregError, match=f"{name} is not learned"):
            estimated("local", data, family, ends)
    data.to_csv(tmp_path / "rows.csv", index=False)
    given = ["fit", "y ~ x", str(tmp_path / "rows.csv"), "--family", "tobit", "--mu", "1", "--trust", "central"]
    for more in (["--low", "2", "--high", "1"], ["--low", "1", "--high", "1"], [], ["--low", "a"]):
        assert main([*given, *more]) != 0
        assert "low" in capsys.readouterr().err


# --- noise in slopes -----------------------------------------------------------------------------------------


def test_bread_covariance_and_marks_are_those_of_both_equations():
    """Docs/sums.md (65), against the inverse of both slopes and errors that are drawn."""
    rng = np.random.default_rng(1)
    d, c = 2, np.array([[0.5, 0.1], [0.1, 0.7]])
    by, lean, noise = np.array([0.2, -0.1]), np.array([-0.8, 0.3]), (0.02**2, 0.05**2, 0.04**2)
    root = rng.normal(size=(3, 3)) * 0.1
    meat = root @ root.T  # of scores, and of γ at a known θ
    whole = np.linalg.inv(np.block([[c, by[:, None]], [-lean, np.ones((1, 1))]]))
    scores = np.diag([1.0, 1.0, -1.0])  # an error of γ moves it up, and one of a score θ down
    cov = whole @ scores @ meat @ scores.T @ whole.T
    bread = np.linalg.inv(c + np.outer(by, lean))
    own = Extra(by, lean, meat[:d, d] + meat[d, d] * by, float(meat[d, d]), noise)
    for found, right in zip(own.both(bread, cov[:d, :d]), (whole, cov), strict=True):
        np.testing.assert_allclose(found, right, atol=1e-12)
    m = 40_000
    drawn = np.zeros((m, 3, 3))
    drawn[:, :d, d] = rng.normal(size=(m, d)) * math.sqrt(noise[0])
    drawn[:, d, :d] = rng.normal(size=(m, d)) * math.sqrt(noise[1])
    drawn[:, d, d] = rng.normal(size=m) * math.sqrt(noise[2])
    each = np.einsum("qk,mkl,ql->qm", whole, drawn, cov)
    assert np.abs(each.var(axis=1) / own.unsure(whole, cov) - 1.0).max() < 5.0 * math.sqrt(2.0 / m)
    moved = np.einsum("mij,jk,mlk->il", drawn, cov, drawn) / m
    back = np.column_stack([np.eye(d), -by])  # what errors of both equations do to scores of θ
    np.testing.assert_allclose(own.widened(bread, cov[:d, :d]), back @ moved @ back.T, rtol=0.1, atol=2e-6)


def test_a_parameter_never_takes_all_of_the_curvature():
    c, by, lean = np.eye(2), np.array([3.0, 0.0]), np.array([-1.0, 0.0])
    np.testing.assert_allclose(np.linalg.eigvalsh(c + tied(c, by, lean, 0.25)), [0.25, 1.0])
    np.testing.assert_array_equal(tied(c, 0.1 * by, lean, 0.25), np.outer(0.1 * by, lean))


# --- measures of fit -----------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize(("trust", "mu"), [("central", None), ("two_collectors", 2.0), ("central", 1.0)])
def test_measures_of_a_censored_response_are_the_likelihoods(trust, mu):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 6_000)
    rows = pd.DataFrame({"x": x, "y": np.clip(0.5 + x + 0.8 * rng.standard_normal(len(x)), 0.0, 8.0)})
    given = {"family": pr.Tobit(0), "mu": mu, "bounds": {"x": (-1, 1), "y": (0, 8)}, "trust": trust}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, **given)
    res = model.fit(progress=False, seed=None if mu is None else 1, measures=0.3)
    found = res.fit_measures.set_index("measure")
    eta, zero = 0.5 + x, rows.y.to_numpy() <= 0.0
    log = np.where(zero, norm.logcdf(-eta / 0.8), norm.logpdf(rows.y, eta, 0.8))
    shares = {"mean log-likelihood": log, "share censored": zero, "share predicted censored": norm.cdf(-eta / 0.8)}
    for name, each in shares.items():
        sampled = np.std(each) / math.sqrt(len(x))
        assert abs(found.loc[name, "estimate"] - each.mean()) < 4.0 * math.hypot(found.loc[name, "std_error"], sampled)
    with pytest.raises(OptionError, match=r"measures=0\.1"):
        res.evaluate(rows.assign(x=rows.x * 0.99))
