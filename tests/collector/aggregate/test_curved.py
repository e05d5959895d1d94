"""Scores that bend: secants between rounds, rounds of approach, rates, and what is predicted perfectly."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm
from statsmodels.miscmodels.ordinal_model import OrderedModel

import privreg as pr
from privreg.collector.aggregate.common import Parts, beta, leaning, on_the_way, secants, tilted
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.plan import State, rules_of
from privreg.fits.aggregate import plan_of
from privreg.fits.plan import to_user
from privreg.simulation.streaming.encoding import Encoder
from tests.reference import two_collectors as reference

BOUNDS = {"a": (-4.0, 4.0), "k": (0.0, 1.0), "t": (0.5, 4.0)}
COUNTS = pr.Poisson(y_max=10)


def state_of(d: int) -> State:
    return State(5, "main", np.eye(d), np.zeros(d), 0.0, 1.0, 1.0, 1.0)


def test_secants_of_a_quadratic_score_are_exact() -> None:
    """With slopes on a line in the coefficients, known without noise, no step is off."""
    rng, d = np.random.default_rng(1), 3
    bends = rng.normal(0.0, 0.05, (d, d, d))
    bends = sum(bends.transpose(p) for p in ([0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2])) / 6
    places = np.vstack([rng.normal(0.0, 0.3, (d, d)), np.zeros(d)])

    def slope(theta: np.ndarray) -> np.ndarray:
        return 0.3 * np.eye(d) + bends @ theta

    def score(theta: np.ndarray) -> np.ndarray:
        return 0.3 * theta + 0.5 * bends @ theta @ theta

    slopes = np.array([slope(one) for one in places])
    pooled = slopes.mean(axis=0)
    known, n = np.full(len(places), 1e-12), len(places)
    bent, unsure = secants(slopes, known, places, np.ones((n, n)), state_of(d), 1.0, pooled, pooled)
    theta = rng.normal(0.0, 0.2, d)
    more, there = bent(theta, np.full(n, 1.0 / n))
    off = more + (there - pooled) @ theta
    for place, one in zip(places, off, strict=True):
        np.testing.assert_allclose(pooled @ (theta - place) + one, score(theta) - score(place), atol=1e-6)
    np.testing.assert_allclose(there, slope(theta), atol=1e-6)
    assert unsure(theta).max() < 1e-10


def parts_of_rows(one: np.ndarray, *factors: np.ndarray, number: tuple[float, ...] = ()) -> Parts:
    """Factors' forms, and the last column as a number with these bounds."""
    low, high = np.array(number).reshape(2, -1) if number else np.zeros((2, 0))
    return Parts(one, list(factors), np.eye(len(one))[len(one) - len(low) :], low, high)


def test_a_step_of_an_exponential_mean_leaves_no_square_of_it() -> None:
    """One round at 0, of rows without a third moment about their mean."""
    d, move = 3, np.random.default_rng(4).normal(size=3)
    z = np.column_stack([np.ones(4), [0.8, 0.8, -0.4, -0.4], [0.4, -0.6, 0.4, -0.6]])
    slope, one = z.T @ z / len(z), np.eye(d)[0]
    known, alone = np.full(1, 1e-12), np.ones(1)
    places = np.zeros((1, d))
    tilt = partial(tilted, parts_of_rows(one))
    bent, _ = secants(slope[None], known, places, alone[None], state_of(d), 1.0, slope, slope, tilt)
    off = []
    for size in (0.02, 0.01):
        theta = size * move
        more, there = bent(theta, alone)
        found = slope @ theta + more[0] + (there - slope) @ theta
        off.append(np.abs(found - z.T @ np.expm1(z @ theta) / len(z)).max())
    assert off[1] < off[0] / 7.0  # of third order


@pytest.mark.parametrize("move", [[-0.6, 0.3, 0.0], [0.8, -0.2, 0.4]])
def test_slopes_of_an_exponential_mean_of_normal_rows_are_exact(move: list[float]) -> None:
    """E m z z' at the end, and its mean on the way, which leads to the score there; m = e^(z'θ), z of mean 1 and μ."""
    mean, about, move = np.array([1.0, 0.5, -0.3]), np.diag([0.0, 1.0, 0.5]), np.array(move)
    slope, one = 2.0 * (np.outer(mean, mean) + about), np.array([1.0, 0.0, 0.0])
    way, end = tilted(parts_of_rows(one), slope, np.zeros(3), move)
    at, size = mean + about @ move, 2.0 * np.exp(mean @ move + 0.5 * move @ about @ move)
    np.testing.assert_allclose(end, size * (np.outer(at, at) + about), rtol=1e-12)
    np.testing.assert_allclose(way @ move, size * at - 2.0 * mean, atol=1e-3)


@pytest.mark.parametrize("move", [[0.2, -1.5, 0.8, 1.2], [-0.3, 1.0, -0.7, -0.3]])
def test_slopes_of_an_exponential_mean_are_exact_in_cells_of_two_factors(move: list[float]) -> None:
    """Factors of three and two levels that go together, of six shares; as normal rows slopes were off by a tenth."""
    levels = np.array([[g == 1, g == 2, h] for g in range(3) for h in range(2)], dtype=float)
    z, shares = np.column_stack([np.ones(6), levels]), np.array([0.3, 0.05, 0.1, 0.25, 0.02, 0.28])
    one, step = np.eye(4)[0], np.array(move)
    factors = np.array([[1.0, -1, -1, 0], [0, 1, 0, 0], [0, 0, 1, 0]]), np.array([[1.0, 0, 0, -1], [0, 0, 0, 1]])
    slope, there = (z.T * shares) @ z, (z.T * (shares * np.exp(z @ step))) @ z
    way, end = tilted(parts_of_rows(one, *factors), slope, np.zeros(4), step)
    np.testing.assert_allclose(end, there, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(way @ step, z.T @ (shares * np.expm1(z @ step)), rtol=0.02)
    plain = tilted(parts_of_rows(one), slope, np.zeros(4), step)[1]
    assert np.abs(plain - there).max() > 0.1 * np.abs(there).max()


def test_half_of_a_slope_is_left_on_a_way_down() -> None:
    """Its mean to a level's rate that is e^-6 of the present one is a sixth of it: the step would have no end."""
    one, factor = np.eye(2)[0], np.array([[1.0, -1.0], [0.0, 1.0]])
    slope, down = np.array([[1.0, 0.2], [0.2, 0.2]]), np.array([0.0, -6.0])
    way, end = tilted(parts_of_rows(one, factor), slope, np.zeros(2), down)
    assert way[1, 1] == pytest.approx(0.5 * 0.2)
    assert end[1, 1] == pytest.approx(0.1 * 0.2)
    np.testing.assert_allclose([m @ [1.0, -1.0] @ [1.0, -1.0] for m in (way, end)], 0.8)  # others are as they were


@pytest.mark.parametrize(("near", "far"), [(1.7, 1.7), (3.0, 1.2), (0.9, 1.3), (1.0, 30.0), (60.0, 60.0)])
def test_three_points_have_five_moments_of_a_beta_variable(near: float, far: float) -> None:
    at, chances = beta(near, far)
    low, high = min(near, 50.0), min(far, 50.0)
    size = (low * high - 1.0) / (low + high)
    moments = [scipy.stats.beta(size * low, size * high, -low, low + high).moment(k) for k in range(1, 6)]
    np.testing.assert_allclose([chances @ at**k for k in range(1, 6)], moments, rtol=1e-5, atol=1e-4)
    assert at.min() > -low - 1e-9
    assert at.max() < high + 1e-9


def test_a_number_within_its_bounds_changes_slopes_as_its_third_moment_says() -> None:
    """Weights e^(1.6 x) of an even x, on the way to e^(2 x): normal rows would leave a tenth of the slope's change."""
    x = np.linspace(-1.0, 1.0, 4_001)
    z, weight = np.column_stack([np.ones_like(x), x]), np.exp(1.6 * x) / len(x)
    slope, step = (z.T * weight) @ z, np.array([-0.25, 0.4])
    score = z.T @ (weight * np.expm1(z @ step))
    bounded, normal = (
        tilted(parts_of_rows(np.eye(2)[0], number=bounds), slope, np.zeros(2), step)[0] @ step - score
        for bounds in ((-1.0, 1.0), ())
    )
    assert np.abs(bounded).max() < 0.4 * np.abs(normal).max()


@pytest.mark.parametrize("move", [[0.5, 0.0, 0.8], [-0.4, 0.2, -0.7], [0.3, -0.3, 0.6]])
def test_slopes_of_cut_points_change_as_their_shares_do(move: list[float]) -> None:
    """Of rows (covariate, its cut point): the mean slope leads to the score at the end, where a share is rare too."""
    rng, forms = np.random.default_rng(2), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    x, place = rng.normal(0.0, 0.3, 20_000), np.array([0.8, 0.5, -3.5])
    rows = np.zeros((2, len(x), 3))
    rows[:, :, 0], rows[0, :, 1], rows[1, :, 2] = x, 1.0, 1.0

    def there(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share = 1.0 / (1.0 + np.exp(-rows @ theta)) / 2.0
        size = share * (1.0 - 2.0 * share)
        return np.einsum("kn,knd->d", share, rows) / len(x), np.einsum("kn,knd,kne->de", size, rows, rows) / len(x)

    (before, slope), (after, end) = there(place), there(place + move)
    way, at = leaning(forms, slope, place, np.array(move))
    size = np.sqrt(np.outer(np.diag(end), np.diag(end)))
    assert np.abs((at - end) / size).max() < 0.07
    assert np.abs((slope - end) / size).max() > 0.1
    np.testing.assert_allclose(way @ move, after - before, atol=0.02 * np.abs(after - before).max())


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_a_slope_of_logits_follows_wide_predictors(factor: float) -> None:
    """Of predictors with an sd of 2, half normal and half two points, on the way to 0.7 or 1.4 times them."""
    rng = np.random.default_rng(4)
    rows = np.column_stack([np.ones(40_000), rng.normal(size=40_000), rng.choice([-0.6, 1.4], 40_000)])
    place = np.array([-1.0, 1.6, -1.3])

    def there(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share = 1.0 / (1.0 + np.exp(-rows @ theta))
        return share @ rows / len(rows), (rows.T * (share * (1.0 - share))) @ rows / len(rows)

    (before, slope), (after, end) = there(place), there(factor * place)
    way, at = leaning(np.eye(3)[:, :1], slope, place, (factor - 1.0) * place)
    size = np.sqrt(np.outer(np.diag(end), np.diag(end)))
    assert np.abs((at - end) / size).max() < 0.1
    assert np.abs((slope - end) / size).max() > 0.25
    np.testing.assert_allclose(way @ place * (factor - 1.0), after - before, atol=0.04 * np.abs(after - before).max())


@pytest.mark.parametrize(
    ("family", "shifted", "noisy", "known"),
    [
        (pr.Logistic(), False, True, True),
        (pr.Logistic(), True, True, False),  # predictors are not rows times coefficients alone
        (COUNTS, True, True, True),  # weights of rows say all
        (pr.Ordered(), False, True, True),
        (pr.Ordered(), False, False, False),  # slopes of gaps between cut points change otherwise
        (pr.Cloglog(), False, True, False),
        (pr.Huber(), False, True, False),
    ],
)
def test_slopes_on_a_way_are_known_of_logits_without_offsets_and_of_exponential_means(family, shifted, noisy, known):
    cuts = np.eye(2, 3, 1) if family.response == "ordinal" else np.empty((0, 3))
    rules = rules_of(family, 0.0, 10.0 if family == COUNTS else 2.0 if cuts.size else 1.0, noisy=noisy)
    slope = np.array([[0.2, 0.02, 0.01], [0.02, 0.1, 0.0], [0.01, 0.0, 0.1]])
    plan = SimpleNamespace(
        rules=rules, shifted=shifted, cuts=cuts, cells=(), numbers=[2], lows=-np.ones(3), highs=np.ones(3)
    )
    found = on_the_way(plan, np.eye(3), SimpleNamespace(variances=np.zeros((3, 3)), mean=slope))
    assert (found is not None) is known
    if found is not None:  # no way, no change
        for one in found(slope, np.array([0.3, -0.2, 0.1]), np.zeros(3)):
            np.testing.assert_allclose(one, slope, atol=1e-12)


# one cut and several bend by the same secants
@pytest.mark.thorough
@pytest.mark.parametrize("cuts", [[2.3], pytest.param([2.3, 5.3], marks=pytest.mark.thorough)])
def test_wide_predictors_do_not_shrink_coefficients(cuts: list[float]) -> None:
    """Of 20,000 people with two collectors whose predictors have an sd of 2, so that early states are too near to 0.

    By slopes that hardly change along a step coefficients were some 2% too small, half a standard error and more.
    """
    rng = np.random.default_rng(9)
    x, z = rng.uniform(-1.0, 1.0, 20_000), np.clip(rng.normal(0.0, 0.6, 20_000), -2.0, 2.0)
    score = 2.8 * x - 1.8 * z + rng.logistic(size=20_000)
    data = pd.DataFrame({"x": x, "z": z, "y": sum((score > cut).astype(int) for cut in cuts)})
    if len(cuts) == 1:
        family, made = pr.Logistic(), sm.Logit(data["y"], sm.add_constant(data[["x", "z"]]))
    else:
        family, made = pr.Ordered(), OrderedModel(data["y"], data[["x", "z"]], distr="logit")
    plain = made.fit(disp=0).params[["x", "z"]].to_numpy()
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z",
        data,
        family=family,
        mu=1,
        trust="two_collectors",
        bounds={"x": (-1, 1), "z": (-2, 2)},
        levels={"y": list(range(len(cuts) + 1))},
    )
    off = np.array([model.fit(seed=k, progress=False).params[["x", "z"]].to_numpy() - plain for k in range(24)])
    assert (np.abs(off.mean(axis=0)) < 3.3 * off.std(axis=0, ddof=1) / np.sqrt(24)).all()


@pytest.mark.thorough
@pytest.mark.parametrize("family", [pr.Poisson(y_max=10), pr.NegativeBinomial(10)])
def test_rates_of_rare_counts_are_not_biased(family: pr.families.Family) -> None:
    """Of 20,000 people with two collectors, nine in ten of whose counts are 0, so that states are far off.

    By slopes that hardly change with the predictor their rate was a quarter too large, 1.5 standard deviations or 5.2
    of the mean of 12.
    """
    rng = np.random.default_rng(8)
    x, more = rng.uniform(-1.0, 1.0, 20_000), (rng.random(20_000) < 0.2).astype(float)
    mean = np.exp(-2.6 + 0.4 * x + 0.5 * more)
    data = pd.DataFrame({"x": x, "more": more, "y": np.minimum(rng.poisson(mean), 10.0)})
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + more", data, family=family, mu=1, trust="two_collectors", bounds={"x": (-1, 1), "more": (0, 1)}
    )
    plain = sm.Poisson(data["y"], sm.add_constant(data[["x", "more"]])).fit(disp=0).params.to_numpy()
    off = np.array([model.fit(seed=k, progress=False).params.to_numpy() - plain for k in range(12)])
    assert (np.abs(off.mean(axis=0)) < 3.3 * off.std(axis=0, ddof=1) / np.sqrt(12)).all()


def test_one_round_alone_may_be_off_by_half_the_square_of_its_step() -> None:
    d, height = 4, 0.2
    slope = height * np.eye(d)
    one = np.ones(1)
    bent, unsure = secants(slope[None], 1e-4 * one, np.zeros((1, d)), one[None], state_of(d), 1.0, slope, slope)
    for step in (0.1, 0.5):
        theta = np.eye(d)[0] * step
        assert unsure(theta)[0] == pytest.approx((0.5 * height * step**2) ** 2 / d)
        np.testing.assert_allclose(bent(theta, one)[1], height * np.eye(d))


def test_the_slope_at_an_estimate_is_of_rounds_that_have_weight() -> None:
    """A state where next to nobody may answer otherwise says as much of the slope there as of the estimate: nothing."""
    d, forms = 3, np.eye(3)[:, :1]
    slopes = np.array([0.01 * np.eye(d), 0.25 * np.eye(d)])
    places, half = np.array([[6.0, 0.0, 0.0], np.zeros(d)]), 0.25 * np.eye(d)
    known = np.full(2, 1e-4)
    bent, _ = secants(slopes, known, places, np.eye(2), state_of(d), 1.0, half, half, partial(leaning, forms))
    theta = np.array([0.02, -0.01, 0.0])
    _, alone = bent(theta, np.array([0.0, 1.0]))
    np.testing.assert_allclose(alone, half, atol=0.01)
    _, both = bent(theta, np.array([0.5, 0.5]))
    assert np.abs(both - half).max() > 1.0


def test_rounds_whose_records_weigh_otherwise_keep_their_slopes() -> None:
    rng, d = np.random.default_rng(3), 3
    slopes = 0.3 * np.eye(d) + np.array([0.03 * (m + m.T) for m in rng.normal(size=(2, d, d))])
    pooled = slopes.mean(axis=0)
    places, half = np.zeros((2, d)), np.full(2, 0.5)
    bent, _ = secants(slopes, np.full(2, 1e-12), places, np.eye(2), state_of(d), 1.0, pooled, pooled)
    theta = 1e-6 * rng.normal(size=d)
    more, there = bent(theta, half)
    off = more + (there - pooled) @ theta
    for one, slope in zip(off, slopes, strict=True):
        np.testing.assert_allclose(pooled @ theta + one, slope @ theta, rtol=1e-4)
    np.testing.assert_allclose(there, pooled, rtol=1e-4, atol=1e-5)


def rows_of(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {"a": rng.standard_normal(n), "g": np.array(["n", "y"])[(rng.random(n) < 0.2).astype(int)],
         "k": (rng.random(n) < 0.2).astype(float), "t": np.exp(rng.uniform(np.log(0.5), np.log(4.0), n))}
    )  # fmt: skip


def planned(formula, family, data, **more):
    """A model of two collectors, its plan, and the encoded rows."""
    bounds = {k: v for k, v in BOUNDS.items() if k in formula or k in more.values()}
    bounds["y"] = (0.0, 1.0 if family == "logistic" else 10.0)
    levels = {"g": ["n", "y"]} if "g" in formula else None
    model = pr.PrivateOnlineRegression.from_formula(
        formula, data.head(20), family=family, mu=1.0, bounds=bounds, levels=levels,
        trust="two_collectors", **more,
    )  # fmt: skip
    plan, order = plan_of(model._spec, len(data))
    rows = Encoder(model._spec, order, None, by_column=True).encode(data)
    return model, plan, rows


def fitted(formula, family, data, seed, **more):
    """The plan of a fit with two collectors, its estimate, and the map to the user's coefficients."""
    model, plan, rows = planned(formula, family, data, **more)
    order = plan_of(model._spec, len(data))[1]
    progress = reference.play(plan, rows.y, rows.x, seed, rows.offset)
    return plan, estimate(plan, progress), to_user(model._spec, order)


CERTAIN = {
    "all 1": ("y ~ a + g", "logistic", lambda rng, x: np.ones(len(x))),
    "all 0": ("y ~ a", "logistic", lambda rng, x: np.zeros(len(x))),
    "a level's all 1": ("y ~ a + g", "logistic", lambda rng, x: np.where(x["g"] == "y", 1.0, rng.random(len(x)) < 0.5)),
    "all 0 at a bound": ("y ~ a + k", "logistic", lambda rng, x: np.where(x["k"] == 1, 0.0, rng.random(len(x)) < 0.5)),
    "no counts": ("y ~ a + g", COUNTS, lambda rng, x: np.zeros(len(x))),
    "a level's no counts": ("y ~ a + g", COUNTS, lambda rng, x: np.where(x["g"] == "y", 0, rng.poisson(2.0, len(x)))),
}
LIKELY = {
    "half": ("y ~ a + g", "logistic", lambda rng, x: (rng.random(len(x)) < 0.5).astype(float)),
    "most of a level": (
        "y ~ a + g", "logistic", lambda rng, x: (rng.random(len(x)) < np.where(x["g"] == "y", 0.9, 0.4)).astype(float)
    ),
    "counts": ("y ~ a + g", COUNTS, lambda rng, x: np.minimum(rng.poisson(np.exp(0.5 + 0.3 * x["a"])), 10)),
}  # fmt: skip


def doubtful(name: str, cases: dict, seed: int) -> bool:
    formula, family, answer = cases[name]
    rng = np.random.default_rng(seed)
    data = rows_of(rng, 20_000)
    data["y"] = np.asarray(answer(rng, data), dtype=float)
    _, found, user = fitted(formula, family, data, rng.bytes(32))
    return bool(
        (found.finite < 3.0).any()
        or max(found.moves.max(), found.wider) > 1.0
        or (found.blurred(user @ found.back) > 0.25).any()
    )


@pytest.mark.thorough
@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_predicted_perfectly_is_marked(name: str) -> None:
    assert all(doubtful(name, CERTAIN, seed) for seed in range(4))


@pytest.mark.thorough
@pytest.mark.parametrize("name", LIKELY)
def test_what_is_likely_is_not_marked(name: str) -> None:
    assert not any(doubtful(name, LIKELY, seed) for seed in range(4))


def test_a_start_of_counts_is_of_rates() -> None:
    """Of people with one exposure, far from the middle of what was declared, without noise: nearer to their mean than
    to that without exposures, by 4 sd of 16 means. Long rows are shortened, which takes a part of large counts away.
    """
    off = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        data = rows_of(rng, 20_000).assign(t=3.9)
        data["y"] = np.minimum(rng.poisson(3.9 * np.exp(-1.0 + 0.2 * data["a"])), 10).astype(float)
        _, plan, rows = planned("y ~ a", COUNTS, data, exposure="t")
        first = reference.play(plan, rows.y, rows.x, None, rows.offset).seen[0].state
        eta = rows.x @ first.rows.T @ first.theta + rows.offset
        off.append(np.log(np.exp(eta).mean() / data["y"].mean()))
        people = plan.sizes["moments"]
    spread = 1.0 / np.sqrt(people * data["y"].mean() * len(off))  # of a mean of counts, relative to it
    assert abs(np.mean(off)) + 4.0 * spread < 0.5 * plan.rate


@pytest.mark.thorough
def test_counts_of_a_wide_exposure_start_from_rates_and_hold_their_intervals() -> None:
    """Exposures differ 8-fold, the model is right: z² of three coefficients in 24 fits."""
    squares = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        data = rows_of(rng, 20_000)
        mean = data["t"] * np.exp(-1.0 + 0.4 * data["a"] + 0.5 * (data["g"] == "y"))
        data["y"] = np.minimum(rng.poisson(mean), 10).astype(float)
        plan, found, user = fitted("y ~ a + g", COUNTS, data, rng.bytes(32), exposure="t")
        assert plan.rate == pytest.approx(0.5 * np.log(0.5 * 4.0))
        if max(found.moves.max(), found.wider) > 1.0:
            continue
        at = user @ found.back
        error = at @ found.theta - [-1.0, 0.5, 0.4]
        squares.append(error**2 / np.diag(at @ found.cov @ at.T))
    assert len(squares) >= 18
    assert np.mean(squares) < 1.0 + 4.0 * np.sqrt(2.0 / np.size(squares))  # as independent normals: 4 sd
