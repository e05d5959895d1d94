"""Terms chosen, and curves smoothed, from released estimates alone."""

import dataclasses
import types

import numpy as np
import pandas as pd
import patsy
import pytest
from scipy import optimize

import privreg as pr
from privreg.collector.inference.pivots import Normal
from privreg.errors import InferenceError, OptionError
from privreg.formula.encoding import DesignTerm
from privreg.results.postestimation.hypothesis import Known
from privreg.results.postestimation.penalties import select, smooth
from tests.helpers import array_model

SPLINE = "bs(x, knots=(2, 4, 6, 8), lower_bound=0, upper_bound=10)"


@pytest.fixture(scope="module")
def fitted() -> pr.PrivateOnlineRegression:
    rng = np.random.default_rng(0)
    n = 6000
    frame = pd.DataFrame({"x": rng.uniform(0, 10, n), "g": rng.choice(list("abc"), n), "z": rng.uniform(-1, 1, n)})
    frame["y"] = np.sin(frame["x"]) + 0.5 * rng.standard_normal(n)
    return pr.PrivateOnlineRegression.from_formula(
        f"y ~ {SPLINE} + z + C(g)", frame, mu=1, trust="two_collectors",
        bounds={"y": (-4, 4), "x": (0, 10), "z": (-1, 1)}, levels={"g": list("abc")},
    ).fit(seed=1, progress=False)  # fmt: skip


def replaced(res, params, cov):
    """What is known of other estimates of the same model."""
    known = res._known(None, "select")
    return known._replace(
        fit=dataclasses.replace(known.fit, params=np.asarray(params, dtype=float)), cov=np.asarray(cov)
    )


def results(known):
    """Results of which this is known."""
    return types.SimpleNamespace(_fit=known.fit, _known=lambda *_: known)


def test_terms_without_effect_are_dropped_together(fitted) -> None:
    found = fitted.select()
    assert found.dropped == ["C(g)", "z"]
    frame = found.frame()
    assert frame.loc["z", "estimate"] == 0.0
    assert not frame.loc["z", "kept"]
    assert np.isnan(frame.loc["z", "std_error"])
    assert (frame.loc[frame["kept"], "std_error"] <= fitted.bse[frame["kept"]] * (1 + 1e-9)).all()
    assert "Dropped: C(g), z" in str(found)


def test_the_smaller_model_is_the_estimate_given_that_the_rest_is_zero(fitted) -> None:
    """Against least squares in the metric of the covariance, minimised over what is kept."""
    found, cov = fitted.select(), fitted.cov_params().to_numpy()
    inverse, kept = np.linalg.inv(cov), found.frame()["kept"].to_numpy()
    direct = np.linalg.solve(inverse[np.ix_(kept, kept)], (inverse @ fitted.params.to_numpy())[kept])
    np.testing.assert_allclose(found.frame().loc[kept, "estimate"], direct, rtol=1e-6)


@pytest.mark.thorough
def test_the_path_minimises_its_criterion() -> None:
    """One penalty of the path against a general minimiser on the criterion as it is written in the docstring."""
    res = array_model(2000, trust="two_collectors").fit(seed=1, progress=False)
    known = replaced(res, [0.5, 0.3, -0.05, 0.0], 0.01 * np.array(
        [[1, 0.3, 0.1, 0], [0.3, 1.2, 0.2, 0.1], [0.1, 0.2, 0.8, 0.1], [0, 0.1, 0.1, 1.0]]))  # fmt: skip
    found, inverse = select(results(known)), np.linalg.inv(known.cov)
    k = int(np.argmin(np.abs(found.penalties - 1.0)))
    size = {
        t: np.sqrt(known.fit.params[at] @ np.linalg.solve(known.cov[np.ix_(at, at)], known.fit.params[at]))
        for t, at in found.groups.items()
    }

    def criterion(b):
        off = b - known.fit.params
        pulls = (
            np.sqrt(b[at] @ inverse[np.ix_(at, at)] @ b[at]) * len(at) ** 0.5 / max(size[t], 1e-300)
            for t, at in found.groups.items()
        )
        return 0.5 * off @ inverse @ off + found.penalties[k] * sum(pulls)

    best = min(
        (
            optimize.minimize(criterion, start, method="Powell", options={"xtol": 1e-10, "ftol": 1e-14})
            for start in (known.fit.params, found.path[k])
        ),
        key=lambda o: o.fun,
    )
    assert criterion(found.path[k]) <= best.fun + 1e-6 * abs(best.fun)


def made_up(names, params, information) -> Known:
    """What is known of a model of these terms, a coefficient each, after an intercept."""
    design = types.SimpleNamespace(names=tuple(names), endog_name="y", terms=[
        DesignTerm(name, slice(i, i + 1), (name,)) for i, name in enumerate(names)])  # fmt: skip
    fit = array_model(2000, trust="two_collectors").fit(seed=1, progress=False)._fit
    fit = dataclasses.replace(fit, names=tuple(names), design=design, params=np.asarray(params, dtype=float))
    return Known(fit, np.linalg.inv(information), Normal(), ())


@pytest.mark.thorough
def test_the_parts_of_a_kept_interaction_stay() -> None:
    names = ["Intercept", "x", "z", "w", "x:z", "z:w", "x:z:w"]
    found = select(results(made_up(names, [1.0, 0.01, 0.0, 0.01, 2.0, 0.0, 0.01], 1000.0 * np.eye(7))))
    assert found.kept == ["x", "z", "x:z"]
    assert found.frame()["kept"].tolist() == [True, True, True, False, True, False, False]
    every = select(results(made_up(names, [1.0, 0.01, 0.0, 0.01, 0.0, 0.0, 2.0], 1000.0 * np.eye(7))))
    assert every.dropped == []


@pytest.mark.thorough
def test_collinear_terms_take_few_sweeps(monkeypatch) -> None:
    """The path meets its first-order conditions after 30 sweeps a point; block descent alone does not."""
    monkeypatch.setattr("privreg.results.postestimation.penalties._SWEEPS", 30)
    p = 30
    rng, correlated = np.random.default_rng(0), 0.98 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    names, information = ["Intercept", *(f"x{i}" for i in range(1, p))], 400.0 * correlated
    params = 0.5 * (np.arange(p) % 8 == 1) + np.linalg.cholesky(np.linalg.inv(information)) @ rng.standard_normal(p)
    known = made_up(names, params, information)
    found = select(results(known))
    own = np.sqrt(np.diag(information))  # a term's norm is its size times this
    size = np.abs(known.fit.params) / np.sqrt(np.diag(known.cov))
    for penalty, b in zip(found.penalties, found.path, strict=True):
        slope = information @ (b - known.fit.params)
        pull = np.where(np.arange(p) > 0, penalty * own / size, 0.0)
        on = b != 0.0
        assert np.abs(slope + pull * np.sign(b))[on].max() < 1e-5 * own[0]
        assert (np.abs(slope) <= pull * (1 + 1e-6) + 1e-5 * own[0])[~on].all()


def test_a_curve_is_drawn_over_the_declared_bounds(fitted) -> None:
    curve = fitted.smooth("x")
    frame = curve.frame()
    assert (frame.index.min(), frame.index.max()) == (0.0, 10.0)
    basis = np.asarray(patsy.dmatrix(SPLINE, {"x": frame.index.to_numpy()}))  # with a constant
    sine = basis @ np.linalg.lstsq(basis, np.sin(frame.index.to_numpy()), rcond=None)[0]
    off = np.abs(frame["effect"] - (sine - sine.mean()))
    assert (off < 4.5 * frame["std_error"] + 0.02).all()  # 0.02: least squares on records, not on the grid
    assert 3 < curve.edf <= 7
    assert curve.plot().get_xlabel() == "x"
    assert "Smooth Curve" in str(curve)


def test_a_line_needs_few_coefficients(fitted) -> None:
    """Estimates of a straight line, with noise as large as the fit's times 20."""
    known = replaced(fitted, fitted.params, 400 * fitted.cov_params().to_numpy())
    rng = np.random.default_rng(1)
    at = [i for i, name in enumerate(known.fit.names) if name.startswith("bs(")]
    knots = np.array([0, 0, 0, 0, 2, 4, 6, 8, 10, 10, 10, 10], dtype=float)
    averages = np.array([knots[i + 1 : i + 4].mean() for i in range(1, 8)])  # a spline with these coefficients is x
    params = np.zeros(len(known.fit.names))
    params[at] = averages
    params += 20 * np.linalg.cholesky(fitted.cov_params().to_numpy()) @ rng.standard_normal(len(params))
    straight = smooth(results(replaced(fitted, params, known.cov)), "x")
    assert straight.edf < 3
    bends = np.diff(straight.effect, 2)
    assert np.abs(bends).max() < 0.5 * np.abs(np.diff(straight.raw, 2)).max()


def test_what_is_no_curve_is_refused(fitted) -> None:
    with pytest.raises(OptionError, match="term"):
        fitted.smooth("z")
    with pytest.raises(OptionError, match=r"bs\(age"):
        array_model(2000).fit(seed=1, progress=False).smooth()


@pytest.mark.parametrize("wrong", [0.0, np.nan, -1e-3])
def test_a_covariance_without_an_inverse_chooses_nothing(fitted, wrong) -> None:
    cov = fitted.cov_params().to_numpy().copy()
    cov[3], cov[:, 3] = 0.0, 0.0
    cov[3, 3] = wrong
    for ask in (select, lambda known: smooth(known, "x")):
        with pytest.raises(InferenceError, match="larger budget"):
            ask(results(replaced(fitted, fitted.params, cov)))


@pytest.mark.thorough
def test_the_choice_does_not_depend_on_units(fitted) -> None:
    unit = np.geomspace(1e-9, 1e9, len(fitted.params))
    cov = fitted.cov_params().to_numpy() * np.outer(unit, unit)
    found = select(results(replaced(fitted, fitted.params * unit, cov)))
    assert found.kept == fitted.select().kept
    np.testing.assert_allclose(found.frame()["estimate"] / unit, fitted.select().frame()["estimate"], rtol=1e-5)
