"""Ordered logit: the likelihood's fit without noise, logits at all cut points with it, distances, refusals."""

import math
import warnings
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import binom
from statsmodels.miscmodels.ordinal_model import OrderedModel

import privreg as pr
from privreg.collector.aggregate import classes, report
from privreg.collector.aggregate.estimate import Estimated
from privreg.collector.aggregate.plan import Plan, Rules, State, rules_of
from privreg.collector.aggregate.report import noised, steps
from privreg.collector.design import Batch
from privreg.errors import FormulaError, InferenceError, OptionError, PrivregError, UnsupportedArgumentError
from privreg.families import scores
from privreg.families.logistic import class_shares
from privreg.families.ordered import NEAREST, OrderedScore
from privreg.fits.aggregate import _few
from privreg.fits.outcome import Senders
from privreg.protocol import codes
from privreg.protocol.plans import Persons
from privreg_field.collector import batches as chain
from privreg_field.device.report import answer, design, sums
from privreg_field.study.reading import shared
from privreg_field.wire import study
from privreg_field.wire.wire import MessageError
from tests.field.test_two_collectors import plan_of
from tests.studies import sum_ask, sum_plan

SLOPES = {"g[T.yes]": 0.5, "x": 1.2, "z": -0.8}
BOUNDS = {"x": (-1, 1), "z": (-2, 2)}
NAMES = ("none", "mild", "fair", "bad", "worst")
SCORE = scores.scoring_of(codes.ORDERED)


@cache
def people(n: int, levels: int, seed: int = 1, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z, g = rng.uniform(-1, 1, n), rng.normal(0, 0.6, n).clip(-2, 2), rng.uniform(size=n) < 0.3
    latent = np.array(list(SLOPES.values())) @ np.array([g, x, z]) + rng.logistic(size=n)
    y = (latent[:, None] > cuts(levels) + shift).sum(axis=1)
    return pd.DataFrame({"x": x, "z": z, "g": np.where(g, "yes", "no"), "y": np.array(NAMES)[y]})


def cuts(levels: int) -> np.ndarray:
    return np.linspace(-1.5, 1.5, levels - 1) if levels > 2 else np.zeros(1)


def declared(levels: int) -> dict:
    return {"y": list(NAMES[:levels]), "g": ["no", "yes"]}


def model(data, k, trust, mu, formula="y ~ g + x + z", **more):
    given = {"bounds": BOUNDS, "levels": declared(k)} | more
    return pr.PrivateOnlineRegression.from_formula(formula, data, family=pr.Ordered(), mu=mu, trust=trust, **given)


def fitted(data, levels, trust, mu, **more):
    keep = {k: more.pop(k) for k in ("seed", "measures") if k in more}
    return model(data, levels, trust, mu, **more).fit(progress=False, **keep)


def plain(data: pd.DataFrame, levels: int, columns=("g", "x", "z")) -> tuple[np.ndarray, np.ndarray, object]:
    """Slopes and cut points of statsmodels, and sandwich standard errors of the same."""
    x = np.column_stack([(data[c] == "yes").astype(float) if c == "g" else data[c] for c in columns])
    y = data.y.map({name: k for k, name in enumerate(NAMES)}).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = OrderedModel(y, x, distr="logit").fit(method="bfgs", disp=0, maxiter=500, gtol=1e-9)
    p, own = x.shape[1], np.asarray(found.params)
    turned = np.eye(len(own))
    turned[p:, p:] = np.tril(np.broadcast_to(np.append(1.0, np.exp(own[p + 1 :])), (levels - 1, levels - 1)))
    score = found.model.score_obs(own)
    bread = turned @ np.linalg.inv(-found.model.hessian(own))
    params = np.append(own[:p], found.model.transform_threshold_params(own)[1:-1])
    return params, np.sqrt(np.diag(bread @ score.T @ score @ bread.T)), found


# --- scores --------------------------------------------------------------------------------------------------


def likelihood(eta: np.ndarray, level: int) -> float:
    above = np.concatenate([[1.0], 1.0 / (1.0 + np.exp(-eta)), [0.0]])
    return -math.log(above[level] - above[level + 1])


@pytest.mark.some(1)
@pytest.mark.parametrize("levels", [2, 3, 5])
def test_scores_without_noise_are_the_slopes_of_the_likelihood_and_bend_as_it_does(levels):
    """Derivatives by the predictors at cut points: rows of predictors, and of their gaps."""
    rng, k, h = np.random.default_rng(2), levels - 1, 1e-4
    for _ in range(20):
        eta = np.sort(rng.normal(size=k) * 2.0)[::-1].copy()
        back = np.vstack([np.eye(k), np.eye(k)[:-1] - np.eye(k)[1:]])  # predictors and gaps by predictors
        for level in range(levels):
            y = (level > np.arange(k)).astype(float)
            score, slope = (part[0] for part in SCORE.cut(eta[None], y[None]))
            found = np.array(
                [(likelihood(eta + h * e, level) - likelihood(eta - h * e, level)) / (2 * h) for e in np.eye(k)]
            )
            np.testing.assert_allclose(back.T @ score, found, atol=2e-5 * max(1.0, np.abs(found).max()))
            ends = [(SCORE.cut((eta + s * e)[None], y[None])[0][0] @ back) for e in np.eye(k) for s in (h, -h)]
            hessian = np.array([(up - down) / (2 * h) for up, down in zip(ends[::2], ends[1::2], strict=True)])
            np.testing.assert_allclose(back.T @ np.diag(slope) @ back, hessian, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_log_odds_are_those_of_the_probabilities(levels):
    eta = np.sort(np.random.default_rng(3).normal(size=(50, levels - 1)) * 3.0, axis=1)[:, ::-1]
    share = class_shares(SCORE.log_odds(eta))
    for row, found in zip(eta, share, strict=True):
        np.testing.assert_allclose(found, np.exp([-likelihood(row, k) for k in range(levels)]), rtol=1e-9)


def test_a_level_between_cut_points_out_of_order_has_no_probability():
    share = class_shares(SCORE.log_odds(np.array([[1.0, 1.5, -1.0]])))
    assert share[0, 1] == 0.0
    assert math.isclose(share.sum(), 1.0)


def test_gaps_that_close_have_a_finite_score():
    score, slope = SCORE.gaps(np.array([[1.0, 1.0], [1.0, 2.0]]))
    assert np.isfinite(score).all()
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(score, -1.0 / math.expm1(NEAREST))


def test_starts_have_the_logit_of_each_cut_points_share_at_the_mean():
    levels, rng = 4, np.random.default_rng(4)
    beyond = np.column_stack([np.zeros((3, 2)), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])])
    x = np.column_stack([np.ones(4000), rng.normal(size=4000), np.zeros((4000, 2))])
    rows = np.eye(4) + 0.2 * rng.normal(size=(4, 4))
    cube = (x[:, None] + beyond) @ rows.T
    chance = np.array([0.8, 0.5, 0.03])
    y = (rng.uniform(size=(4000, 1)) < chance).astype(float)
    flat = cube.reshape(-1, 4)
    second, lines = flat.T @ flat / len(flat), np.linalg.lstsq(flat, y.reshape(-1), rcond=None)[0]
    theta, weighted, (slope, square) = classes.start_in_order(lines, second, beyond, rows)
    share = y.mean(axis=0)
    np.testing.assert_allclose(cube.mean(axis=0) @ theta, np.log(share / (1 - share)), atol=1e-6)
    parts = share * (1 - share)
    by_cut = np.einsum("nki,nkj,k->ij", cube, cube, parts / parts.mean()) / len(flat)
    np.testing.assert_allclose(weighted, by_cut, atol=1e-6)
    assert math.isclose(slope, parts.mean(), rel_tol=1e-6)
    assert math.isclose(square, float(np.var(y.mean(axis=1))), rel_tol=0.1)
    assert levels == len(beyond) + 1


# --- distances -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 4, 8])
def test_reports_of_adversarial_people_are_no_farther_apart_than_the_noise_is_for(rows):
    """People with rows as far out as they can be, at all cut points and both ends, and none at all."""
    d, k = 5, min(rows, 4)
    rules = rules_of(pr.Ordered(), 0.0, float(k), several=True)
    box = np.zeros(d, dtype=bool), np.full(d, -1e4), np.full(d, 1e4)
    plan = Plan(d, 5_000, 1.0, rules, 0.0, 1.0, *box, persons=Persons(rows, False, True, k))
    rng = np.random.default_rng(5)
    ends = np.concatenate([np.eye(d), -np.eye(d), rng.normal(size=(20, d))])
    ends *= plan.reach / np.linalg.norm(ends, axis=1, keepdims=True)
    ends = np.concatenate([ends, 0.3 * ends, 50.0 * ends])
    beyond = rng.normal(size=(rows, d))
    cube = np.concatenate(
        [np.repeat(ends[:, None], rows, axis=1), ends[:, None] + beyond, ends[:, None] * rng.normal(size=(1, rows, 1))]
    )
    most = 0.0
    for theta in (np.zeros(d), np.array([6.0, 0, 0, 0, 0]), rng.normal(size=d) * 4.0):
        state = State(9, "main", np.eye(d), theta, 0.0, 1.0, 1.0, 1.0)
        made = [
            report.vectors(plan, state, np.full((len(cube), rows), 1.0 * (np.arange(rows) % k < level)), cube)
            for level in range(k + 1)
        ]
        made = np.concatenate([*made, np.zeros((1, made[0].shape[1]))])
        assert (np.linalg.norm(made, axis=1) <= 1.0 + 1e-12).all()
        most = max(most, float(pdist(made, "sqeuclidean").max()))
    assert 1.5 < most <= float(plan.distance2("main", state))


# --- fits ----------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize(("n", "levels"), [(400, 3), (400, 5), (20_000, 4), (20_000, 2)])
def test_without_noise_it_is_statsmodels_fit(n, levels):
    data = people(n, levels)
    params, errors, found = plain(data, levels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = fitted(data, levels, "central", None)
    assert list(res.params.index) == [*SLOPES, *(f"{a}|{b}" for a, b in pairwise(NAMES[:levels]))]
    np.testing.assert_allclose(res.params, params, atol=1e-6)
    np.testing.assert_allclose(res.bse, errors, rtol=2e-3)
    at = pd.DataFrame({"x": [-0.9, 0.1, 0.7], "z": [0.3, -1.5, 0.2], "g": ["yes", "no", "yes"]})
    x = np.column_stack([at.g == "yes", at.x, at.z]).astype(float)
    np.testing.assert_allclose(res.predict(at), found.model.predict(found.params, x), atol=1e-6)
    np.testing.assert_allclose(res.predict(at, which="linear"), x @ params[:3], atol=1e-5)


@pytest.mark.thorough
def test_rare_and_uneven_levels_without_noise_are_statsmodels_fit():
    data = people(6_000, 5, seed=8, shift=3.5)
    few = data.drop(data.index[data.y == "fair"][12:])
    for rows in (data, few):
        res = fitted(rows, 5, "central", None)
        np.testing.assert_allclose(res.params, plain(rows, 5)[0], atol=2e-6)
    assert (data.y == "worst").sum() < 100


@pytest.mark.some(1)
@pytest.mark.parametrize(("trust", "mu"), [("two_collectors", 0.7), ("central", 0.3)])
@pytest.mark.parametrize("levels", [3, 5])
def test_other_trust_models_are_near_the_truth_in_standard_errors(trust, mu, levels):
    res = fitted(people(60_000, levels), levels, trust, mu, seed=4)
    truth = np.append(list(SLOPES.values()), cuts(levels))
    assert np.abs((res.params - truth) / res.bse).max() < 4.0
    assert (np.asarray(res.bse) < 0.3).all()
    assert "odds ratios of higher levels" in res.summary(details=True).as_text()


@pytest.mark.thorough
def test_silos_have_the_curators_fit():
    data = people(8_000, 4)
    parts = {"north": data.iloc[:3_000], "south": data.iloc[3_000:]}
    res = fitted(parts, 4, "silos", 2.0, seed=3)
    assert np.abs((res.params - np.append(list(SLOPES.values()), cuts(4))) / res.bse).max() < 4.0


@pytest.mark.thorough
def test_several_rows_of_a_person_without_noise_have_the_same_estimates_and_wider_errors():
    one = people(1_500, 4)
    data = pd.concat([one, one]).assign(who=np.tile(np.arange(1_500), 2))
    res = fitted(data, 4, "central", None, id="who", k_max=2)
    alone = fitted(one, 4, "central", None)
    np.testing.assert_allclose(res.params, alone.params, atol=1e-6)
    np.testing.assert_allclose(res.bse, alone.bse, rtol=1e-3)


def test_arrays_with_and_without_a_constant_have_the_formulas_fit():
    data = people(3_000, 3)
    y, x = data.y.map({name: k for k, name in enumerate(NAMES)}).to_numpy(), data[["x", "z"]].to_numpy()
    given = {"family": pr.Ordered(), "mu": None, "trust": "central", "bounds": BOUNDS, "levels": {"y": [0, 1, 2]}}
    names = {"endog_name": "y"}
    one = pr.PrivateOnlineRegression(y, x, exog_names=["x", "z"], **names, **given).fit(progress=False)
    two = pr.PrivateOnlineRegression(
        y, np.column_stack([np.ones(len(x)), x]), exog_names=["const", "x", "z"], **names, **given
    ).fit(progress=False)
    np.testing.assert_allclose(one.params, plain(data, 3, ("x", "z"))[0], atol=1e-6)
    np.testing.assert_allclose(two.params, one.params, atol=1e-9)
    assert list(two.params.index) == ["x", "z", "0|1", "1|2"]


# --- results -------------------------------------------------------------------------------------------------


def test_what_is_estimated_on_public_rows_is_the_truth_and_without_noise_another_fit():
    res = fitted(people(20_000, 4), 4, "two_collectors", 1.0, seed=6)
    public = people(200_000, 4, seed=9)
    np.testing.assert_allclose(res.estimand(public), [*SLOPES.values(), *cuts(4)], atol=0.04)
    exact = fitted(people(2_000, 4), 4, "central", None)
    with pytest.raises(InferenceError, match="without noise coefficients are the likelihood's"):
        exact.estimand(public)


def test_predictions_have_the_errors_of_the_delta_method():
    res = fitted(people(20_000, 4), 4, "central", 2.0, seed=6)
    at = pd.DataFrame({"x": [-0.4, 0.8], "z": [0.3, -1.0], "g": ["yes", "no"]})
    frame, cov, h = res.get_prediction(at).summary_frame(), np.asarray(res.cov_params()), 1e-6
    x = np.column_stack([at.g == "yes", at.x, at.z]).astype(float)

    def shares(params):
        above = 1.0 / (1.0 + np.exp(params[3:] - (x @ params[:3])[:, None]))
        return -np.diff(above, axis=1, prepend=1.0, append=0.0).reshape(-1)

    params = res.params.to_numpy()
    slope = np.array([(shares(params + h * e) - shares(params - h * e)) / (2 * h) for e in np.eye(6)]).T
    np.testing.assert_allclose(frame["mean"], shares(params), rtol=1e-9)
    np.testing.assert_allclose(frame["mean_se"], np.sqrt(np.diag(slope @ cov @ slope.T)), rtol=1e-5)
    assert list(frame["level"]) == [*NAMES[:4], *NAMES[:4]]
    assert (res.predict(at, which="class") == [NAMES[k] for k in shares(params).reshape(2, -1).argmax(axis=1)]).all()


@pytest.mark.thorough
def test_measures_are_those_of_probabilities_and_exponentials_odds_ratios():
    res = fitted(people(60_000, 4), 4, "central", 1.0, seed=4, measures=0.1)
    public = people(20_000, 4, seed=2)
    found, told = res.fit_measures.set_index("measure")["estimate"], res.evaluate(public).set_index("measure")["value"]
    for name in ("log-loss", "accuracy"):
        assert found[name] == pytest.approx(told[name], abs=0.02)
    share = np.asarray(res.predict(public))
    k = public.y.map({name: k for k, name in enumerate(NAMES)}).to_numpy()
    assert told["log-loss"] == pytest.approx(-np.log(share[np.arange(len(k)), k]).mean(), rel=1e-9)
    np.testing.assert_allclose(res.tidy(exponentiate=True)["estimate"], np.exp(res.params))


@pytest.mark.thorough
def test_anova_and_tests_leave_cut_points_out_and_results_come_back_from_a_file(tmp_path):
    res = fitted(people(20_000, 4), 4, "two_collectors", 2.0, seed=4)
    assert list(res.anova().index) == ["g", "x", "z"]
    res.save(tmp_path / "ordered.npz")
    again, at = pr.load(tmp_path / "ordered.npz"), pd.DataFrame({"x": [0.1], "z": [0.2], "g": ["no"]})
    pd.testing.assert_frame_equal(again.predict(at), res.predict(at))


@pytest.mark.parametrize(
    ("n", "shift", "fine"), [(2_000, 3.0, [0, 0]), (20_000, 0.0, [36, 36]), (20_000, 3.0, [36, 20])]
)
@pytest.mark.statistical
def test_a_cut_point_that_few_are_beyond_is_marked(n, shift, fine):
    """Of 40 fits at least so many have unmarked cut points, of which as many hold as exact 99.9% limits ask."""
    unmarked, held = np.zeros(2, dtype=int), np.zeros(2, dtype=int)
    for seed in range(40):
        res = fitted(people(n, 3, seed, shift), 3, "two_collectors", 1.0, seed=seed)
        ok, ends, at = res.tidy()["reliable"].to_numpy(dtype=bool)[-2:], res.conf_int().to_numpy()[-2:], cuts(3) + shift
        unmarked, held = unmarked + ok, held + (ok & (ends[:, 0] <= at) & (at <= ends[:, 1]))
    assert (unmarked >= fine).all()
    assert (held >= binom.ppf(0.001, unmarked, 0.95)).all()
    assert n > 2_000 or not unmarked[1]


def test_a_cut_point_of_few_is_marked_by_noise_and_by_the_step_to_it():
    plain = found_of(np.array([4.05, 0.1]))
    assert _few(plain, np.eye(2), 2).tolist() == [False, False]
    noisy = plain._replace(bread=np.eye(2) / 0.009)  # a third is noise
    assert _few(noisy, np.eye(2), 2).tolist() == [True, True]
    assert _few(found_of(np.array([4.3, 0.1])), np.eye(2), 2).tolist() == [True, False]  # 0.04
    even = found_of(np.array([4.3, 0.1]))._replace(bread=8.0 * np.eye(2))  # odds of 1: what is left is of δ³
    assert _few(even, np.eye(2), 2).tolist() == [False, False]
    assert _few(found_of(np.array([4.3, 0.1])), np.eye(2), 1).tolist() == [False]  # of a slope is none


def found_of(theta):
    """An estimate of the slope 0.02 and the error 0.1, by one round at (4, 0.1) with noise of the sd 0.003."""
    state = SimpleNamespace(rows=np.eye(2), theta=np.array([4.0, 0.1]))
    given = {"rows": np.eye(2), "theta": theta, "bread": 50.0 * np.eye(2), "root": 0.1 * np.eye(2)}
    asked = (SimpleNamespace(state=state, sds=(0.003,) * 5),)
    return Estimated(**{**dict.fromkeys(Estimated._fields), **given, "weights": np.ones(1), "rounds": asked})


def test_cut_points_out_of_order_are_marked_and_their_level_has_no_probability():
    data = people(3_000, 5, seed=7, shift=3.5)
    for seed in range(40):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            res = fitted(data, 5, "two_collectors", 0.15, seed=seed)
        back = np.flatnonzero(np.diff(res.params.to_numpy()[3:]) <= 0.0)
        if len(back):
            break
    assert len(back), "no fit of these has cut points out of order: give less budget"
    marked = ~res.tidy()["reliable"].to_numpy()[3:]
    assert marked[back].all()
    assert marked[back + 1].all()
    share = res.predict(pd.DataFrame({"x": [0.0], "z": [0.0], "g": ["no"]})).to_numpy()[0]
    assert share[back + 1] == pytest.approx(0.0)
    assert share.sum() == pytest.approx(1.0)


# --- what is refused -----------------------------------------------------------------------------------------


REFUSED = {
    "local": ({"trust": "local"}, UnsupportedArgumentError, "noise alone would ask for .* people or more"),
    "local without noise": ({"trust": "local", "mu": None}, UnsupportedArgumentError, "with trust='local'"),
    "weights": ({"score_weights": "likelihood"}, UnsupportedArgumentError, "a score of one predictor"),
    "levels of persons": (
        {"formula": "y ~ x | who", "id": None, "k_max": 2}, UnsupportedArgumentError, "of single rows",
    ),
    "levels in place of an intercept": ({"formula": "y ~ g + x - 1"}, FormulaError, "take the place of an intercept"),
    "no levels": ({"levels": {"g": ["no", "yes"]}}, PrivregError, "no declared levels"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_are_not_there_are_refused_before_there_are_rows(name):
    more, error, words = REFUSED[name]
    data = people(3_000, 4).assign(who=np.arange(3_000) // 2)
    with pytest.raises(error, match=words):
        model(data, 4, **({"trust": "two_collectors", "mu": 1.0} | more))


def test_published_algorithms_are_refused():
    with pytest.raises(PrivregError, match=r"none for Ordered\(\)"):
        model(people(3_000, 4), 4, "central", 1.0).fit(tuning="published", progress=False)


@pytest.mark.thorough
def test_an_intercept_may_be_left_out_as_cut_points_are():
    data = people(3_000, 3)
    one, two = (fitted(data, 3, "central", None, formula=f"y ~ x + z{more}") for more in ("", " - 1"))
    np.testing.assert_allclose(one.params, two.params, atol=1e-9)
    assert list(fitted(data, 3, "central", None, formula="y ~ 1").params.index) == ["none|mild", "mild|fair"]


@pytest.mark.usefixtures("one_fit", "unmarked")
def test_plans_take_levels_for_equally_frequent_and_cut_points_by_name():
    given = {"family": pr.Ordered(), "mu": 1.0, "trust": "two_collectors", "bounds": BOUNDS}
    given |= {"levels": {"y": list(NAMES[:4])}, "n": 5_000}
    plan = pr.plan("y ~ x + z", params={"x": 1.0}, **given)
    assert "none|mild = -1.09861" in str(plan)
    other = pr.plan("y ~ x + z", params={"x": 1.0, "fair|bad": 4.0}, **given)
    errors = [p.table().loc["fair|bad", "std_error"] for p in (plan, other)]
    assert errors[1] > 1.5 * errors[0]
    with pytest.raises(OptionError, match="no coefficient"):
        pr.plan("y ~ x + z", params={"bad|worst": 1.0}, **given)


def test_statsmodels_twin_is_in_natural_cut_points():
    data = people(5_000, 4)
    y = data.y.map({name: k for k, name in enumerate(NAMES)}).to_numpy()
    x = np.column_stack([data.g == "yes", data.x, data.z, np.tile([-1.0, 0.0, 0.0], (5_000, 1))]).astype(float)
    twin = OrderedScore().twin(None, pr.Ordered(), y, x)
    np.testing.assert_allclose(twin.params, plain(data, 4)[0], atol=1e-3)


# --- devices -------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("role", ["clamping", "location", "moments", "approach", "main"])
def test_a_device_reports_a_record_as_the_engine_does(role):
    plan = sum_plan("ordered")
    ask, of, count = sum_ask(plan, role), plan.sums, 60
    form, k, d = plan.roles[role]._replace(radius=ask.radius), len(of.cuts), plan.d
    shape, link = pr.Ordered().shape(), "logit"
    rules = Rules(shape, of.ratio, of.scaled, of.top, 1.0, 1.0, of.shares, of.fixed, link=link)
    dummies, ends = np.array([j not in of.numbers for j in range(d)]), (np.array(of.lows), np.array(of.highs))
    engine = Plan(
        d, 5_000, 1.0, rules, 0.0, 1.0, dummies, *ends, len(plan.clamping), persons=Persons(k, False, True, k)
    )
    state = State(0, role, np.array(ask.rows), np.array(ask.theta), *ask[4:8], longest=ask.reach)
    assert engine.distance2(role, state) == plan.distance2(role, ask)
    rng = np.random.default_rng(6)
    rows = [
        {"age": rng.uniform(0, 110), "bmi": rng.uniform(10, 60), "shift": rng.choice(["day", "night", "both"])}
        for _ in range(count)
    ]
    rows[3] = {"age": 40}
    whole = np.array([sums.whole(form, sums.of_person(plan, ask, answer.rows_of(plan, [row]))) for row in rows])
    held = [design.row_of(plan, row) for row in rows]
    x = np.array([r.x for r in held])[:, None] + np.array(of.cuts)
    y = np.array([r.y for r in held])[:, None]
    y = np.where(np.isfinite(y), y > np.arange(k), np.nan)
    flags = np.array([r.clamped for r in held])
    theirs = steps(engine, state).whole(report.vectors(engine, state, y, x, None, flags))
    assert np.abs(theirs - whole).max() <= 1
    assert (theirs != whole).mean() < 1e-2
    assert whole.any(axis=1).sum() > 0.8 * count


def test_plans_of_cut_points_that_no_report_is_made_of_are_refused():
    plan = sum_plan("ordered")
    assert study.read_plan(study.plan_payload(plan)) == plan
    for wrong in (plan._replace(sums=plan.sums._replace(cuts=())), sum_plan("logistic")._replace(family="ordered")):
        with pytest.raises(MessageError):
            study.read_plan(study.plan_payload(wrong))


@pytest.mark.thorough
def test_a_study_of_devices_and_two_collectors_gives_cut_points():
    plan = plan_of("ordered", rows=1_500, mu=10)
    held, rng = shared.chain_of(plan), np.random.default_rng(7)
    engine, closed, ends = held.plan, [], 0
    while ends is not None:
        state, ends = held.progress.state, held.ask.ends
        ask, n = chain.present_ask(held), 700 if ends is None else ends
        age = rng.uniform(18, 90, n)
        level = ((1.2 * (age - 54) / 36 + rng.logistic(size=n))[:, None] > [-1.0, 1.0]).sum(axis=1)
        rows = [{"age": a, "shift": ("day", "night", "both")[k]} for a, k in zip(age.tolist(), level, strict=True)]
        role = plan.role_of(ask)
        exact = np.array([sums.whole(role, sums.of_person(plan, ask, answer.rows_of(plan, [r]))) for r in rows]).sum(0)
        noise = tuple(rng.standard_normal((2, len(exact))))
        closed.append(Batch(n, noised(engine, state, exact, noise)))
        held = held.closed(closed[-1])
    res = shared.results(plan, shared.follow(plan, closed), Senders())
    assert list(res.params.index) == ["age", "day|night", "night|both"]
    truth = np.array([1.2 / 36, 1.2 * 54 / 36 - 1.0, 1.2 * 54 / 36 + 1.0])
    assert np.abs((res.params - truth) / res.bse).max() < 4.0
    assert res.bse["age"] < 0.006
