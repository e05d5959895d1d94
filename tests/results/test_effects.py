"""Marginal effects: against statsmodels at equal coefficients and covariance, and against changes of predictions."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from patsy import dmatrix
from statsmodels.discrete.discrete_model import Logit, MNLogit
from statsmodels.discrete.discrete_model import Poisson as PoissonModel

import privreg as pr
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.collector.inference.resampling import Bootstrap
from privreg.errors import DataError, InferenceError, NotPrivateError, OptionError, SchemaError
from privreg.families import Expectile, Hinge, Huber, Logistic, Multinomial, Poisson, Quantile, SmoothedHinge
from privreg.formula.arrays import array_design
from privreg.formula.design import formula_design
from privreg.results.postestimation.effects import MarginalEffects
from privreg.results.results import PrivateResults
from privreg.schema.declarations import Schema
from privreg.tables.diagnostics import doubt
from tests.helpers import array_model

BOUNDS = {"x": (-3, 3), "z": (0.5, 4), "y": (0, 50), "o": (-1, 1), "t": (0.5, 4)}
LEVELS = {"g": ["a", "b", "c"], "s": ["no", "yes"], "w": ["lo", "mid", "hi"]}


@pytest.fixture(scope="module")
def base():
    return array_model(2000).fit(seed=1, progress=False)._fit


@pytest.fixture(scope="module")
def public():
    rng = np.random.default_rng(4)
    n = 80
    return pd.DataFrame(
        {
            "x": rng.normal(0, 1, n).clip(-3, 3),
            "z": rng.uniform(0.5, 4, n),
            "g": rng.choice(["a", "b", "c"], n),
            "s": rng.choice(["no", "yes"], n),
            "o": rng.uniform(-1, 1, n),
            "t": rng.uniform(0.5, 4, n),
        },
        index=[f"r{i}" for i in range(n)],
    )


def covariance(p, seed=0):
    root = np.random.default_rng(seed).normal(0, 0.1, (p, p + 3))
    return root @ root.T


def made(base, right, family, params=None, cov=None, response="y", pivot=None, **design):
    """A result of a formula with given coefficients."""
    levels = {k: v for k, v in LEVELS.items() if k in right or k == response}
    bounds = {k: v for k, v in BOUNDS.items() if k not in levels}
    formula = formula_design(f"{response} ~ {right}", Schema.declare(bounds, levels), kind=family.kind, **design)
    names, baseline = tuple(formula.names), ()
    if family.kind == "levels":
        baseline = tuple(LEVELS[response])
        names = tuple(f"{level}:{n}" for level in baseline[1:] for n in formula.names)
    p = len(names)
    params = np.random.default_rng(1).normal(0, 0.5, p) if params is None else np.asarray(params, dtype=float)
    estimates = (Estimate("random_scaling", covariance(p) if cov is None else cov, pivot or RandomScaling()),)
    fields = {"design": formula, "family": family, "names": names, "params": params, "last": params}
    return PrivateResults(dataclasses.replace(base, **fields, estimates=estimates, baseline=baseline))


def moved(res, at, change, **more):
    """Numerical gradient of average predictions' change by the coefficients, and its delta-method error."""
    fit, h = res._fit, 1e-6
    cov = fit.estimates[0].cov

    def value(params):
        return change(PrivateResults(dataclasses.replace(fit, params=params)))

    gradient = [(value(fit.params + h * e) - value(fit.params - h * e)) / (2 * h) for e in np.eye(len(fit.params))]
    return value(fit.params), np.sqrt(np.array(gradient) @ cov @ np.array(gradient))


# --- statsmodels -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated():
    rng = np.random.default_rng(0)
    n = 500
    x = np.column_stack([np.ones(n), rng.normal(size=n).clip(-3, 3), rng.uniform(0.5, 4, n), rng.integers(0, 2, n)])
    eta = x @ np.array([-0.5, 0.8, 0.3, -0.4])
    logit = Logit((rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float), x).fit(disp=0)
    poisson = PoissonModel(rng.poisson(np.exp(eta)).astype(float), x).fit(disp=0)
    gumbel = rng.gumbel(size=(n, 3)) + np.column_stack([np.zeros(n), eta, -0.5 * eta])
    mnlogit = MNLogit(gumbel.argmax(axis=1), x).fit(disp=0)
    rows = pd.DataFrame(x[:, 1:3], columns=["x", "z"]).assign(s=np.where(x[:, 3] == 1, "yes", "no"))
    return x, {"logit": logit, "poisson": poisson, "mnlogit": mnlogit}, rows


CASES = {"logit": (Logistic(), "won"), "poisson": (Poisson(50), "y"), "mnlogit": (Multinomial(), "w")}


def as_arrays(base, fitted, family, response):
    names, levels = ["const", "x", "z", "v"], LEVELS["w"] if response == "w" else None
    schema = Schema.declare(
        {"x": (-3, 3), "z": (0.5, 4), "v": (0, 1), **({"y": (0, 50)} if response == "y" else {})},
        {"w": levels} if levels else None,
    )
    design = array_design(names, response, schema, kind=family.kind)
    flat = tuple(names) if not levels else tuple(f"{level}:{n}" for level in levels[1:] for n in names)
    params = np.asarray(fitted.params).T.reshape(-1)
    fields = {"design": design, "family": family, "names": flat, "params": params, "baseline": tuple(levels or ())}
    estimate = Estimate("random_scaling", np.asarray(fitted.cov_params()), Normal())
    return PrivateResults(dataclasses.replace(base, **fields, estimates=(estimate,)))


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CASES)
def test_arrays_agree_with_statsmodels(base, simulated, name):
    x, fits, _ = simulated
    fitted = fits[name]
    res = as_arrays(base, fitted, *CASES[name])
    found = res.marginal_effects(x)
    theirs = fitted.get_margeff(at="overall", method="dydx")
    want, se = theirs.margeff, theirs.margeff_se  # terms by levels for MNLogit
    np.testing.assert_allclose(found.effect, want.T.reshape(-1), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(found.se, se.T.reshape(-1), rtol=1e-5)
    np.testing.assert_allclose(found.pvalue, theirs.pvalues.T.reshape(-1), rtol=1e-4, atol=1e-12)
    terms = ["x", "z", "v"]
    wanted = [(level, t) for level in LEVELS["w"] for t in terms] if name == "mnlogit" else terms
    assert list(found.index) == wanted


@pytest.mark.parametrize("name", ["logit", "poisson"])  # MNLogit's own fail with dummy=True unless K = J
def test_two_level_factors_agree_with_statsmodels_dummies(base, simulated, name):
    _, fits, rows = simulated
    order = [0, 3, 1, 2]  # patsy puts the factor first
    params, cov = np.asarray(fits[name].params)[order], np.asarray(fits[name].cov_params())[np.ix_(order, order)]
    family, response = CASES[name]
    found = made(base, "x + z + s", family, params, cov, response, Normal()).marginal_effects(rows)
    assert list(found.index) == ["s[yes - no]", "x", "z"]
    theirs = fits[name].get_margeff(at="overall", method="dydx", dummy=True)
    by_term = [2, 0, 1]
    np.testing.assert_allclose(found.effect, theirs.margeff[by_term], rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(found.se, theirs.margeff_se[by_term], rtol=1e-5)


def test_one_row_agrees_with_statsmodels_at_means(base, simulated):
    x, fits, _ = simulated
    for name, (family, response) in CASES.items():
        res = as_arrays(base, fits[name], family, response)
        theirs = fits[name].get_margeff(at="mean")
        found = res.marginal_effects(x.mean(axis=0, keepdims=True))
        np.testing.assert_allclose(found.effect, theirs.margeff.T.reshape(-1), rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(found.se, theirs.margeff_se.T.reshape(-1), rtol=1e-5)


# --- through the formula ---------------------------------------------------------------------------------

FORMULAS = [
    "x + z",
    "x * z + g",
    "x + I(x**2) + np.log(z)",
    "g * x + s:z",
    "bs(z, knots=(1.5, 3), degree=3, lower_bound=0.5, upper_bound=4) + np.maximum(x - 1, 0)",
    "cr(x, knots=(-1, 0, 1), lower_bound=-3, upper_bound=3) + np.sqrt(z) - 1",
    "C(g, Sum) + C(s, Treatment('yes')) + x",
]
FAMILIES = [Huber(), Logistic(), Poisson(50), Multinomial()]
RESPONSES = {"Huber": "y", "Logistic": "won", "Poisson": "y", "Multinomial": "w"}


PAIRS = {(FORMULAS[1], family) for family in FAMILIES} | set(zip(FORMULAS, itertools.cycle(FAMILIES), strict=False))
"""Every formula, every family, and one formula with every family."""


@pytest.mark.some(1)
@pytest.mark.parametrize(("right", "family"), sorted(PAIRS, key=str), ids=str)
def test_effects_are_changes_of_predictions(base, public, right, family):
    res = made(base, right, family, response=RESPONSES[family.name])
    levels = res._fit.levels
    at = public.assign(x=public["x"].clip(-2.99, 2.99), z=public["z"].clip(0.51, 3.99)).head(30)
    found = res.marginal_effects(at)

    def mean(r, rows, level):
        out = r.predict(rows)
        return (out if level is None else out[level]).mean()

    h = 1e-4
    for label, effect, se in zip(found.index, found.effect, found.se, strict=True):
        level, term = label if levels else (None, label)
        if "[" in term:
            name, change = term[:-1].split("[")
            one, zero = change.split(" - ")

            def change_of(r, level=level, name=name, one=one, zero=zero):
                return mean(r, at.assign(**{name: one}), level) - mean(r, at.assign(**{name: zero}), level)

        else:

            def change_of(r, level=level, term=term):
                up, down = (at.assign(**{term: at[term] + k * h}) for k in (1, -1))
                return (mean(r, up, level) - mean(r, down, level)) / (2 * h)

        want, error = moved(res, at, change_of)
        assert effect == pytest.approx(want, rel=1e-4, abs=1e-6), label
        assert se == pytest.approx(error, rel=1e-3, abs=1e-7), label


@pytest.mark.some(2)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_rows_one_by_one_average_to_the_average(base, public, family):
    res = made(base, "x * z + g", family, response=RESPONSES[family.name])
    rows = res.marginal_effects(public, average=False).summary_frame()
    overall = res.marginal_effects(public)
    depth = 3 if res._fit.levels else 2
    assert rows.index.nlevels == depth
    assert list(rows.index.get_level_values(0).unique()) == list(public.index)
    inner = list(range(1, depth))
    means = rows["effect"].groupby(level=inner, sort=False).mean()
    np.testing.assert_allclose(means, overall.effect)
    assert list(means.index) == list(overall.index)
    first = res.marginal_effects(public.head(1))
    np.testing.assert_allclose(rows.loc["r0"].to_numpy(float), first.summary_frame().to_numpy(float))
    if res._fit.levels:  # probabilities sum to one
        sums = rows["effect"].groupby(level=[0, 2]).sum()
        np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_lines_have_their_coefficients_as_effects(base, public):
    for family in (Huber(), Quantile(0.9), Expectile(0.2)):
        res = made(base, "x + z + g", family)
        found = res.marginal_effects(public)
        assert list(found.index) == ["g[b - a]", "g[c - a]", "x", "z"]
        np.testing.assert_allclose(found.effect, res.params.iloc[1:], rtol=1e-9)
        np.testing.assert_allclose(found.se, res.bse.iloc[1:], rtol=1e-9)
        np.testing.assert_allclose(found.pvalue, res.pvalues.iloc[1:], rtol=1e-8)
        np.testing.assert_allclose(found.conf_int(0.1), res.conf_int(0.1).iloc[1:], rtol=1e-8)


def test_terms_that_hold_a_number_count_together(base):
    res = made(base, "x + I(x**2) + x:z", Huber(), params=[1.0, 2.0, -0.5, 0.25])
    at = {"x": [0.0, 1.0, 3.0, -3.0], "z": [1.0, 2.0, 4.0, 0.5]}
    found = res.marginal_effects(at, average=False).summary_frame()["effect"]
    x, z = np.array(at["x"]), np.array(at["z"])
    np.testing.assert_allclose(found.xs("x", level="term"), 2 - x + 0.25 * z, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.xs("z", level="term"), 0.25 * x, rtol=1e-8, atol=1e-9)


def test_derivatives_hold_at_the_ends_of_the_public_bounds(base):
    spline = "bs(z, knots=(1.5,), degree=3, lower_bound=0.5, upper_bound=4) + np.log(z - 0.499)"
    res = made(base, spline, Huber())
    inside = 1e-7
    found = res.marginal_effects({"z": [0.5, 4.0]}, average=False).effect
    near = res.marginal_effects({"z": [0.5 + inside, 4.0 - inside]}, average=False).effect
    np.testing.assert_allclose(found, near, rtol=1e-3)


def test_years_and_small_numbers_keep_their_digits(base):
    schema = Schema.declare({"year": (2019, 2024), "e": (1e-3, 1e3), "y": (0, 50)})
    design = formula_design("y ~ I((year - 2020)**2) + np.log(e)", schema)
    fields = {"design": design, "family": Huber(), "names": design.names, "params": np.array([0.0, 1.0, 1.0])}
    estimate = Estimate("random_scaling", np.eye(3), Normal())
    res = PrivateResults(dataclasses.replace(base, **fields, estimates=(estimate,)))
    at = {"year": [2019, 2020, 2022, 2024], "e": [0.01, 1.0, 10.0, 999.0]}
    found = res.marginal_effects(at, average=False).summary_frame()["effect"]
    np.testing.assert_allclose(found.xs("year", level="term"), [-2, 0, 4, 8], atol=1e-6)
    np.testing.assert_allclose(found.xs("e", level="term"), 1 / np.array(at["e"]), rtol=2e-3)


def test_the_reference_is_the_formulas(base, public):
    found = made(base, "C(g, Treatment('c')) + s", Huber()).marginal_effects(public)
    assert list(found.index) == ["g[a - c]", "g[b - c]", "s[yes - no]"]
    cells = made(base, "g - 1", Huber(), params=[1.0, 3.0, 7.0]).marginal_effects(public)
    assert list(cells.index) == ["g[b - a]", "g[c - a]"]
    np.testing.assert_allclose(cells.effect, [2.0, 6.0])


def test_offsets_and_exposures_scale_the_mean(base, public):
    plain, given = (made(base, "x + g", Poisson(50), offset=o, exposure=e) for o, e in ((None, None), ("o", "t")))
    found = given.marginal_effects(public, average=False).summary_frame()["effect"].xs("x", level="term")
    alone = plain.marginal_effects(public, average=False).summary_frame()["effect"].xs("x", level="term")
    np.testing.assert_allclose(found, alone * public["t"] * np.exp(public["o"]))
    assert list(given.marginal_effects(public).index) == ["g[b - a]", "g[c - a]", "x"]
    both = made(base, "x + t", Poisson(50), params=[0.1, 0.2, 0.3], exposure="t")  # t is a covariate as well
    effect = both.marginal_effects(public).summary_frame()["effect"]["t"]
    mean = both.predict(public)
    np.testing.assert_allclose(effect, (mean * (0.3 + 1 / public["t"])).mean(), rtol=1e-8)


# --- the result ------------------------------------------------------------------------------------------


def test_the_result_is_frozen_and_has_its_columns(base, public):
    found = made(base, "x + g", Logistic(), response="won", pivot=StudentT(7)).marginal_effects(public)
    assert isinstance(found, MarginalEffects)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.effect = None
    frame = found.summary_frame(0.1)
    assert list(frame.columns) == ["effect", "std err", "t", "P>|t|", "Conf. Int. Low", "Conf. Int. Upp.", "reliable"]
    np.testing.assert_allclose(found.tvalue, found.effect / found.se)
    np.testing.assert_allclose(found.pvalue, StudentT(7).two_sided(found.tvalue))
    half = StudentT(7).critical(0.1) * found.se
    np.testing.assert_allclose(found.conf_int(0.1), frame.iloc[:, 4:6])
    np.testing.assert_allclose(frame.iloc[:, 4:6], np.column_stack([found.effect - half, found.effect + half]))
    with pytest.raises(OptionError, match="alpha"):
        found.conf_int(2)


@pytest.mark.thorough
def test_views(base, public):
    res = made(base, "x + g", Logistic(), response="won")
    text = str(res.marginal_effects(public))
    words = " ".join(text.split())
    assert words.startswith("Marginal effects on P(won = 1), averaged over 80 public rows (random scaling (exact))")
    assert max(map(len, text.split("\n"))) <= 80
    assert "g[b - a]" in text
    assert repr(res.marginal_effects(public)) == text
    page = res.marginal_effects(public)._repr_html_()
    assert '<th scope="row">g[b - a] †</th>' in page  # of few people
    assert "P(won = 1), averaged over 80 public rows (random scaling (exact))</caption>" in page
    titles = {
        made(base, "x", f, response=r).marginal_effects(public.head(1)).title
        for f, r in ((Huber(), "y"), (Quantile(0.9), "y"), (Poisson(50), "y"), (Multinomial(), "w"), (Logistic(), "s"))
    }
    over = ", averaged over 1 public row"
    words = ["the mean of y", "the 0.9-quantile of y", "the probabilities of w", "P(s = yes)"]
    assert titles == {f"Marginal effects on {w}{over}" for w in words}
    page = made(base, "x", Multinomial(), response="w").marginal_effects(public, average=False)._repr_html_()
    assert '<th scope="row">r0, lo, x †</th>' in page


def test_doubts_are_shown_with_the_effects(base, public):
    few = doubt("few", "few people")
    statement = dataclasses.replace(base.statement, notes=(few,))  # of the fit, not of another method
    res = made(dataclasses.replace(base, statement=statement), "x", Huber())
    found = res.marginal_effects(public)
    assert found.notes == (few,)
    assert f"Note: {few}." in str(found)
    assert "Note: don&#x27;t rely" in found._repr_html_()


@pytest.mark.some(1)
@pytest.mark.parametrize("family", [Huber(), Poisson(50), Multinomial()], ids=lambda f: f.name)
def test_each_effect_has_its_own_bootstrap_law(base, public, family):
    response = RESPONSES[family.name]
    p = len(made(base, "x + g", family, response=response)._fit.params)
    moves = np.random.default_rng(3).normal(0, 0.02, (50, p)) * np.arange(1, p + 1)
    res = made(base, "x + g", family, cov=moves.T @ moves, response=response, pivot=Bootstrap(moves))
    for average in (True, False):
        found = res.marginal_effects(public.head(3), average=average)
        law = found.pivot
        assert law.moves.shape == (50, len(found.effect))
        np.testing.assert_allclose(np.sqrt((law.moves**2).sum(axis=0)), found.se, rtol=1e-6)
        half = law.critical(0.05) * found.se
        np.testing.assert_allclose(found.conf_int()[:, 1] - found.effect, half)
        assert found.summary_frame().notna().all(axis=None)
    if family.link == "identity":
        overall = res.marginal_effects(public)
        np.testing.assert_allclose(overall.conf_int(), res.conf_int().iloc[1:], rtol=1e-8)


def test_effects_that_are_always_zero_are_not_significant(base):
    res = made(base, "I(x**2)", Huber())
    found = res.marginal_effects({"x": [0.0]})
    assert found.effect[0] == found.se[0] == 0.0
    assert np.isnan(found.tvalue[0])
    assert np.isnan(found.pvalue[0])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:predict:privreg.errors.PrivregWarning")  # some of the public rows lie outside
def test_effects_of_fits_with_and_without_noise(public, tmp_path):
    rng = np.random.default_rng(0)
    n = 8000
    data = pd.DataFrame({"x": rng.uniform(-1, 1, n), "g": rng.choice(["a", "b", "c"], n)})
    data["won"] = (data["x"] + (data["g"] == "b") + rng.logistic(size=n) > 0).astype(float)
    for mu in (None, 2):
        model = pr.PrivateOnlineRegression.from_formula(
            "won ~ x + g", data, family=pr.Logistic(), mu=mu, bounds={"x": (-1, 1)}, levels={"g": ["a", "b", "c"]}
        )
        res = model.fit(seed=None if mu is None else 1, progress=False)
        found = res.marginal_effects(public)
        assert (found.se > 0).all()
        res.save(tmp_path / "r.privreg")
        again = pr.load(tmp_path / "r.privreg").marginal_effects(public)
        pd.testing.assert_frame_equal(again.summary_frame(), found.summary_frame())
        if mu is None:
            exog = dmatrix("g + x", data, return_type="dataframe")
            theirs = sm.Logit(data["won"], exog).fit(disp=0)
            shares = res.predict(public)
            want = (shares * (1 - shares)).mean() * res.params["x"]
            assert found.summary_frame()["effect"]["x"] == pytest.approx(want)
            np.testing.assert_allclose(res.params, theirs.params, atol=0.2)


# --- refusals --------------------------------------------------------------------------------------------


def test_rows_are_asked_for(base):
    res = made(base, "x", Huber())
    with pytest.raises(NotPrivateError, match="would average over the private data; give public covariate values"):
        res.marginal_effects()
    with pytest.raises(NotPrivateError, match=r"use res\.marginal_effects\(at\) with public rows"):
        res.get_margeff(at="overall")


@pytest.mark.parametrize("family", [Hinge(), SmoothedHinge(0.5)], ids=lambda f: f.name)
def test_margins_have_no_effects(base, public, family):
    with pytest.raises(OptionError, match=r"no mean and no probability.*Fit Logistic"):
        made(base, "x", family, response="won").marginal_effects(public)


def test_wrong_calls_are_refused(base, public):
    res = made(base, "x + g", Huber())
    with pytest.raises(OptionError, match="average='no' must be True or False"):
        res.marginal_effects(public, average="no")
    with pytest.raises(DataError, match="got no rows"):
        res.marginal_effects(public.head(0))
    with pytest.raises(DataError, match="'g' is missing"):
        res.marginal_effects({"x": [1.0]})
    with pytest.raises(SchemaError, match="not among its declared levels"):
        res.marginal_effects({"x": [1.0], "g": ["zz"]})
    with pytest.raises(InferenceError, match="this fit has no 'plug_in'"):
        res.marginal_effects(public, method="plug_in")
    with pytest.raises(OptionError, match="no covariates"):
        made(base, "1", Huber()).marginal_effects(public)
    variances = (Estimate("random_scaling", np.ones(4), Normal()),)
    with pytest.raises(InferenceError, match="marginal_effects needs the full covariance"):
        PrivateResults(dataclasses.replace(res._fit, estimates=variances)).marginal_effects(public)


def test_jumps_are_refused_where_they_are(base):
    res = made(base, "I(x > 1) + z", Huber())
    found = res.marginal_effects({"x": [0.5, 1.5], "z": [1.0, 1.0]})
    assert found.summary_frame()["effect"]["x"] == 0.0
    with pytest.raises(DataError, match=r"'I\(x > 1\).*jumps where a public row has its value of 'x'") as caught:
        res.marginal_effects({"x": [0.5, 1.0], "z": [1.0, 1.0]})
    assert str(caught.value).isprintable()


def test_the_users_rows_are_left_as_they_are(base, public):
    before = public.copy()
    made(base, "x * g + np.log(z)", Huber()).marginal_effects(public)
    pd.testing.assert_frame_equal(public, before)
    given = {"x": [1.0], "g": ["a"], "z": [2.0]}
    made(base, "x * g + np.log(z)", Huber()).marginal_effects(given)
    assert given == {"x": [1.0], "g": ["a"], "z": [2.0]}


@pytest.mark.thorough
def test_rows_of_other_types_are_taken(base):
    res = made(base, "x + g", Logistic(), response="won")
    plain = pd.DataFrame({"x": [1, 2], "g": ["a", "b"]})
    want = res.marginal_effects(plain).effect
    forms = [
        plain.astype({"x": "Int64", "g": "category"}),
        plain.astype({"x": "category", "g": "string"}),
        plain.assign(x=[True, 2]).astype({"x": object}),
        {"x": np.array([1, 2]), "g": np.array(["a", "b"])},
        plain.set_index(pd.MultiIndex.from_tuples([(1, 2), (3, 4)])),
        plain.assign(unused="?"),
    ]
    for form in forms[:2] + forms[3:]:
        np.testing.assert_allclose(res.marginal_effects(form).effect, want)
        assert len(res.marginal_effects(form, average=False).summary_frame()) == 6


def test_rows_of_a_private_fit_are_no_public_rows():
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, 3000), "b": rng.uniform(-1, 1, 3000)})
    data["y"] = data["a"] + 0.1 * rng.standard_normal(3000)
    bounds = {"a": (-1, 1), "b": (-1, 1), "y": (-2, 2)}
    res = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=1, bounds=bounds).fit(progress=False)
    with pytest.raises(NotPrivateError, match="fitted privately in this process"):
        res.marginal_effects(data)
    for call in (res.predict, res.get_prediction):
        with pytest.raises(NotPrivateError, match="fitted privately in this process"):
            call(data)
        call(data.head(3).copy())
    assert len(res.marginal_effects(data.head(3).copy()).summary_frame()) == 2
