"""What a fit's intervals are for: the root of its own equation on public rows."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linprog, root

import privreg as pr
from privreg.doors.estimand import _by_class, _root, _Rows, estimand
from privreg.errors import DataError, InferenceError, NotPrivateError, OptionError, PrivregWarning, SchemaError
from privreg.families.logistic import multinomial
from privreg.protocol import codes
from privreg.results.data import Equation

BOUNDS = {"a": (-4, 4), "b": (-4, 4), "y": (-8, 12)}

YEARS = {"t": (0.5, 2)}


def bent(n, seed=0):
    """A wrong model with skewed errors."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n)
    b = 0.6 * a + 0.8 * rng.standard_normal(n)
    y = 1 + a + 0.5 * b + 0.3 * a**2 + rng.standard_exponential(n)
    eta = 0.2 * a + 0.3 * b + 0.2 * a * b
    out = pd.DataFrame({"a": a, "b": b, "y": np.clip(y, -8, 12), "t": rng.uniform(0.5, 2.0, n)})
    out["yes"] = (rng.random(n) < 1 / (1 + np.exp(-2 * eta))).astype(int)
    out["count"] = np.minimum(rng.poisson(out["t"] * np.exp(0.3 + eta)), 15)
    share = np.exp(np.column_stack([np.zeros(n), eta, 0.5 - b]))
    share /= share.sum(axis=1, keepdims=True)
    out["kind"] = np.array(list("uvw"))[(rng.random(n)[:, None] > share.cumsum(axis=1)).sum(axis=1)]
    out["m"] = np.where(a > 0, 2.0, 1.0)
    return out


def model(formula="y ~ a + b", rows=None, **more):
    given = {"mu": None, "bounds": BOUNDS} if "epsilon" not in more else {"bounds": BOUNDS}
    return pr.PrivateOnlineRegression.from_formula(formula, bent(60_000) if rows is None else rows, **{**given, **more})


def half(eta, y):
    return max(min(eta - y, 2.0), -1.0)


CASES = {
    "huber": {},
    "declared": {"family": pr.Huber(c=1.0, scale=1.0)},
    "scaling": {"scaling": "private", "bounds": None},
    "expectile": {"family": pr.Expectile(0.8)},
    "quantile": {"family": pr.Quantile(0.75)},
    "squared": {"family": "squared"},
    "logistic": {"formula": "yes ~ a + b", "family": "logistic"},
    "hinge": {"formula": "yes ~ a + b", "family": "hinge"},
    "smoothed": {"formula": "yes ~ a + b", "family": "smoothed_hinge"},
    "poisson": {"formula": "count ~ a + b", "family": pr.Poisson(15), "exposure": "t", "bounds": BOUNDS | YEARS},
    "robust poisson": {
        "formula": "count ~ a + b", "family": pr.Poisson(15, c=1.5), "exposure": "t", "bounds": BOUNDS | YEARS
    },
    "multinomial": {"formula": "kind ~ a + b", "family": "multinomial", "levels": {"kind": list("uvw")}},
    "response": {"private": "response"},
    "offset": {"formula": "y ~ a", "offset": "b"},
    "budgets": {"mu": "m", "mu_max": 2.0},
    "own": {"family": pr.families.custom("half", half, 2.0)},
    "mean": {"formula": "y ~ 1"},
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CASES)
def test_without_noise_estimates_solve_their_own_equation(name):
    """On the fitted rows: what is left is that rounds and groups have different records."""
    res = model(**CASES[name]).fit(seed=1, progress=False)
    found = res.estimand(bent(60_000))
    assert found.index.equals(res.params.index)
    apart = np.asarray((res.params - found) / res.bse)
    assert np.abs(apart).max() < 3.5


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["huber", "logistic", "poisson", "robust poisson", "multinomial", "squared"])
def test_the_published_chain_has_its_own(name):
    """Begun there, as its first steps are not forgotten soon."""
    made, rows = model(**CASES[name]), bent(60_000)
    first = made.fit(seed=1, progress=False, tuning="published").estimand(rows)
    res = made.fit(seed=1, progress=False, tuning="published", start_params=np.asarray(first).ravel(order="F"))
    assert np.allclose(res.estimand(rows), first, atol=1e-6)
    apart = np.asarray((res.params - first) / res.bse)
    assert np.abs(apart).max() < 6  # t-ratios of random scaling, which have long tails


@pytest.mark.thorough
def test_it_is_the_root_of_the_equation_as_it_is_written():
    rows = bent(4000, seed=3)
    res = model(rows=bent(30_000), mu=4).fit(seed=1, progress=False)
    e = res._fit.equation
    assert e.weights.sum() == pytest.approx(1.0)
    # bounds at ±4 are internal units ±1; the response's −8 to 12 are ±1
    x = np.column_stack([np.ones(len(rows)), rows[["a", "b"]].clip(-4, 4) / 4])[:, e.order]
    z = x @ e.rows.T
    y = ((rows["y"].to_numpy() - 2) / 10 - e.y_centre) / e.y_scale

    def mean(theta):
        total = np.zeros(3)
        for weight, c, offset in zip(e.weights, e.c, e.offsets, strict=True):
            psi = -np.clip((y - z @ (theta + offset)) / c, -1, 1)
            total += weight * (psi / np.linalg.norm(z, axis=1)) @ z / len(y)
        return total

    found = root(mean, e.theta, tol=1e-13)
    assert found.success
    own = found.x @ e.rows * e.y_scale
    own[0] += e.y_centre
    inside = np.empty(3)
    inside[e.order] = own
    slopes = inside[1:] * 10 / 4
    assert np.allclose(res.estimand(rows), [inside[0] * 10 + 2, *slopes], atol=1e-7)


@pytest.mark.statistical
def test_the_mean_of_private_fits_is_near_their_estimands():
    """Skewed errors and a wrong model: 12 fits, each with an equation of its own."""
    population, apart, errors = bent(200_000, seed=99), [], []
    for seed in range(12):
        res = model(rows=bent(60_000, seed), mu=4).fit(seed=seed, progress=False)
        apart.append(res.params - res.estimand(population))
        errors.append(res.bse)
    z = np.mean(apart, axis=0) / (np.mean(errors, axis=0) * np.sqrt(1 / 12 + 60_000 / 200_000 * 0.2))
    assert np.abs(z).max() < 4


def test_the_balanced_score_is_that_of_the_devices():
    rng = np.random.default_rng(0)
    eta, y = 3 * rng.standard_normal((3, 50, 4)), rng.integers(0, 4, 50).astype(float)
    for j in range(4):
        here = _by_class(eta, y, balanced=True)[:, :, j].T
        assert np.allclose(here, multinomial(np.eye(3), eta[:, :, j].T, y), atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("usual_rounds")
def test_it_is_found_where_noise_has_put_a_rare_level_far_out():
    """There the scores of all who have it are at their bounds, and the equation is flat."""

    def some(n, seed):
        rng = np.random.default_rng([seed, 11])
        g = np.where(rng.random(n) < 0.008, "r", np.where(rng.random(n) < 0.5, "p", "o"))
        x = rng.standard_normal(n)
        return pd.DataFrame({"g": g, "x": x, "y": 1 + 0.8 * (g == "r") - 0.4 * (g == "p") + 0.5 * x}).assign(
            y=lambda d: d["y"] + rng.standard_normal(n)
        )

    fitted = pr.PrivateOnlineRegression.from_formula(
        "y ~ g + x", some(200_000, 1), mu=1, bounds={"x": (-4, 4), "y": (-6, 8)}, levels={"g": ["o", "p", "r"]}
    ).fit(seed=18, progress=False)
    assert fitted.params["g[T.r]"] > 4.0
    found = fitted.estimand(some(100_000, 2))
    np.testing.assert_allclose(found, [1.0, -0.4, 0.8, 0.5], atol=5 * 0.045)  # 800 have the level: se .045
    equation = fitted._fit.equation
    for far in ([0.0, 0.0, 1e3, 0.0], [1e4, -1e4, 1e3, 30.0]):
        away = replace(equation, theta=equation.theta + far)
        other = estimand(replace(fitted._fit, equation=away), some(100_000, 2))
        np.testing.assert_allclose(other, found, atol=1e-6)


@pytest.mark.thorough
def test_saved_results_keep_their_equation_and_rounds(tmp_path):
    res = model(rows=bent(30_000), mu=4).fit(seed=1, progress=False)
    res.save(tmp_path / "r.privreg")
    again = pr.load(tmp_path / "r.privreg")
    pd.testing.assert_frame_equal(again.rounds, res.rounds)
    assert again.estimand(bent(2000, 5)).equals(res.estimand(bent(2000, 5)))
    assert list(res.rounds) == ["round", "role", "records", "reports", "moved"]
    assert f"efficient: {len(res.rounds)} rounds;" in str(res.summary(details=True))
    moved = res.rounds.set_index("role")["moved"]
    assert moved["moments"].isna().all()
    assert (moved[["pilot", "main"]] >= 0).all()
    published = model(rows=bent(5000), mu=4).fit(seed=1, progress=False, tuning="published")
    assert published.rounds.empty


def test_rows_must_be_public_whole_and_enough():
    rows = bent(30_000)
    res = model(rows=rows, mu=1).fit(progress=False)
    with pytest.raises(NotPrivateError, match="fitted privately"):
        res.estimand(rows)
    with pytest.raises(NotPrivateError, match="public"):
        res.estimand(None)
    public = bent(500, 1)
    assert np.isfinite(res.estimand(public)).all()
    with pytest.raises(DataError, match="'a'"):
        res.estimand(public.assign(a=np.nan))
    with pytest.raises(DataError, match="'b'"):
        res.estimand(public.drop(columns="b"))
    with pytest.raises(OptionError, match="too few"):
        res.estimand(public.iloc[:3])
    seeded = model(rows=rows, mu=1).fit(seed=1, progress=False)
    with pytest.raises(NotPrivateError, match="fitted privately"):  # with secret noise, before
        seeded.estimand(rows)
    simulated = bent(30_000, 2)
    assert np.isfinite(model(rows=simulated, mu=1).fit(seed=1, progress=False).estimand(simulated)).all()
    kinds = model(**CASES["multinomial"]).fit(seed=1, progress=False)
    with pytest.raises(SchemaError):
        kinds.estimand(public.assign(kind="x"))


ENDLESS = {
    "logistic": lambda d: d.assign(yes=1),
    "poisson": lambda d: d.assign(count=0),
    "robust poisson": lambda d: d.assign(count=0),
    "multinomial": lambda d: d.assign(kind="w"),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("name", ENDLESS)
def test_rows_on_which_there_is_no_root_are_refused(name, trust):
    if trust == "two_collectors" and name == "robust poisson":
        pytest.skip("two collectors don't fit it")
    fit = model(rows=bent(6_000), **CASES[name], trust=trust).fit(seed=1, progress=False)._fit
    plain = replace(fit, equation=replace(fit.equation, bend=0.0 * fit.equation.bend))  # with offsets there may be one
    with pytest.raises(InferenceError, match="no root"):
        estimand(plain, ENDLESS[name](bent(300, 1)))


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CASES)
def test_rows_that_do_not_tell_coefficients_apart_are_refused(name):
    if name in {"mean", "offset"}:
        pytest.skip("no two slopes")
    res = model(rows=bent(6_000), **CASES[name]).fit(seed=1, progress=False)
    rows = bent(300, 1)
    with pytest.raises(InferenceError, match="don't determine the coefficients"):
        res.estimand(rows.assign(b=rows["a"]))


@pytest.mark.some(1)
@pytest.mark.parametrize("tau", [0.01, 0.25, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["few", "zeros", "whole", "tails", "one"])
@pytest.mark.parametrize("n", [20, 1000])
def test_quantiles_have_the_least_loss_that_there_is(tau, kind, n):
    """That of a linear programme."""
    rng = np.random.default_rng([int(100 * tau), n, len(kind)])
    x = np.column_stack([np.ones(n), rng.standard_normal(n), rng.random(n) < 0.5])
    y = x @ [1.0, 0.5, -1.0] + rng.standard_exponential(n)
    y = {
        "few": y, "zeros": np.where(rng.random(n) < 0.5, 0.0, y), "whole": np.round(y),
        "tails": rng.standard_cauchy(n), "one": np.zeros(n),
    }[kind]  # fmt: skip
    weight = 1.0 / np.linalg.norm(x, axis=1)
    start = rng.choice([0.0, 1000.0]) * rng.standard_normal(3)
    equation = Equation(
        shape=(codes.QUANTILE, tau, max(tau, 1.0 - tau)), weighing="unit", rows=np.eye(3), order=np.arange(3),
        constant=True, c=np.array([0.3]), offsets=np.zeros((1, 3)), bend=np.zeros(3), theta=start,
    )  # fmt: skip
    theta, _ = _root(equation, [_Rows(x, x * weight[:, None], y, None)], None)

    def loss(at):
        r = y - x @ at
        return float(weight @ np.maximum(tau * r, (tau - 1.0) * r)) / n

    both = sparse.hstack([x, sparse.eye(n), -sparse.eye(n)], format="csc")
    costs, free = np.concatenate([np.zeros(3), tau * weight, (1.0 - tau) * weight]), [(None, None)] * 3
    best = linprog(costs, A_eq=both, b_eq=y, bounds=free + [(0.0, None)] * (2 * n)).fun / n
    assert best - 1e-9 <= loss(theta) <= best + 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("family", [pr.Quantile(0.05), pr.Quantile(0.9), pr.Expectile(0.99), pr.Huber()])
@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
def test_there_is_one_of_every_family_for_few_rows_and_many_zeros(trust, family):
    def rows(m, seed):
        rng = np.random.default_rng(seed)
        out = bent(m, seed)
        return out.assign(y=np.where(rng.random(m) < 0.4, 0.0, out["y"].clip(0)))

    res = model(rows=rows(20_000, 1), family=family, trust=trust).fit(seed=1, progress=False)
    many = res.estimand(rows(20_000, 1))
    for n in (300, 3000):
        assert np.abs((res.estimand(rows(n, 2)) - many) / (res.bse * np.sqrt(20_000 / n))).max() < 5.0


def test_it_says_where_several_are_as_good():
    """The median of two responses that are far from each other is all between them."""
    res = model("y ~ 1", family=pr.Quantile(0.5), trust="two_collectors").fit(seed=1, progress=False)
    rows = pd.DataFrame({"y": np.repeat([-7.0, 11.0], 50)})
    with pytest.warns(PrivregWarning, match="several coefficients"):
        found = res.estimand(rows)
    assert -7.0 <= found["Intercept"] <= 11.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert res.estimand(rows.assign(y=np.repeat([-7.0, 0.5, 11.0], [33, 34, 33]))).item() == pytest.approx(0.5)


@pytest.mark.some(1)
@pytest.mark.parametrize("start", [1e-3, 0.3, 100.0])
def test_the_threshold_is_that_of_the_residuals(start):
    """From any other c."""
    res = model(trust="two_collectors").fit(seed=1, progress=False)
    fit, rows = res._fit, bent(3000, 5)
    away = replace(fit, equation=replace(fit.equation, c=start * fit.equation.c))
    np.testing.assert_allclose(estimand(away, rows), res.estimand(rows), atol=1e-6)
    with pytest.raises(InferenceError, match="have no scale"):
        res.estimand(rows.assign(y=2.0))


@pytest.mark.thorough
def test_of_a_curator_it_is_that_of_its_own_rows_but_for_noise():
    rows = bent(5000)
    res = model(rows=rows, mu=4, trust="central").fit(progress=False)
    again = bent(5000)  # the same records, as public ones
    assert (np.abs(res.estimand(again) - res.params) < 5.0 * res.bse).all()
    plain = model(rows=rows, mu=None, trust="central").fit(progress=False)
    assert (np.abs(plain.estimand(again) - plain.params) < 0.1 * plain.bse).all()


def test_before_main_rounds_there_is_no_equation():
    made = pr.PrivateOnlineRegression.from_formula("y ~ a", None, mu=1, bounds=BOUNDS, rows=10**5)
    stream = made.start(seed=1).update(bent(12_000))
    res = stream.results()
    with pytest.raises(InferenceError, match="main rounds"):
        res.estimand(bent(100, 1))


def test_arrays():
    rows = bent(20_000)
    x = np.column_stack([np.ones(len(rows)), rows["a"], rows["b"]])
    made = pr.PrivateOnlineRegression(rows["y"], x, exog_names=["const", "a", "b"], mu=None, bounds=BOUNDS)
    res = made.fit(seed=1, progress=False)
    found = res.estimand((rows["y"].to_numpy(), x))
    assert np.abs((res.params - found) / res.bse).max() < 3.5
    with pytest.raises(DataError, match="tuple"):
        res.estimand(rows)
