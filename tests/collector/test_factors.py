"""Factors in an efficient fit: what is certain of their moments, shares of levels, and coordinates made of both."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import privreg as pr
from privreg.collector.covariates import moments, whitening
from privreg.collector.covariates.whitening import LEAST_LEVEL
from privreg.fits.plan import order_of
from privreg.formula.design import formula_design
from privreg.schema.declarations import combined

BOUNDS = {"x": (-2.0, 2.0), "y": (-20.0, 20.0)}
SHARES = {"f": [0.7, 0.3], "g": [0.2, 0.5, 0.3], "h": [0.1, 0.2, 0.3, 0.15, 0.25]}
LEVELS = {name: list("abcde"[: len(p)]) for name, p in SHARES.items()}


def people(n, seed=0, dependent=False):
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(size=n), -2, 2)
    out = {"x": x}
    for name, p in SHARES.items():
        u = rng.uniform(size=n)
        if dependent and name == "g":  # mostly told by f
            u = np.where(rng.uniform(size=n) < 0.6, 0.9 * (out["f"] == "b") + 0.05, u)
        codes = np.minimum(np.searchsorted(np.cumsum(p), u), len(p) - 1)
        out[name] = pd.Categorical.from_codes(codes, LEVELS[name])
    return pd.DataFrame(out)


def made(right, **more):
    used = {k: v for k, v in LEVELS.items() if k in right}
    bounds = {k: v for k, v in BOUNDS.items() if k in right or k == "y"}
    return pr.PrivateOnlineRegression.from_formula(f"y ~ {right}", None, mu=1, bounds=bounds, levels=used, **more)


def inner(right, frame):
    """Rows as the pipeline has them on moments, and the groups there."""
    spec = made(right)._spec
    order, some = order_of(spec, factors=True)
    rows = spec.units.probe_inside(spec.design.encode_exog(frame))[:, order]
    extra = int(spec.units.constant_column(spec.design.probe) is None)
    v = np.column_stack([*[np.ones(len(rows))] * extra, rows])
    return v, tuple(g._replace(columns=g.columns + extra) for g in some)


def a_map(d, seed=1):
    rng = np.random.default_rng(seed)
    rows = np.tril(0.3 * rng.normal(size=(d, d))) + np.diag(rng.uniform(0.5, 2.0, d))
    rows[0] = np.eye(d)[0]
    return rows


def mean_report(v, rows):
    z = v @ rows.T
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    at = np.tril_indices(len(rows))
    return ((u.T @ u) / len(u))[at] * np.where(at[0] == at[1], 1.0, np.sqrt(2.0))


FORMULAS = pytest.mark.parametrize(
    ("right", "sizes"),
    [
        ("g", [3]),
        ("x + g + f", [3, 2]),
        ("f * g", [6]),
        ("f * g + h + x", [6, 5]),
        ("0 + g + x", [3]),
        ("f:g - 1", [6]),
        ("C(g, Poly) + x", [3]),
        ("g + g:x", [3]),
        ("g:x + I(x > 0)", []),
    ],
)


@pytest.mark.some(1)
@FORMULAS
def test_columns_of_factors_are_grouped_and_lead(right, sizes):
    v, some = inner(right, people(500))
    assert sorted((len(g.values) for g in some), reverse=True) == sizes
    led = np.concatenate([np.zeros(1, dtype=int), *(g.columns for g in some)])
    assert sorted(led) == list(range(len(led)))
    for g in some:
        seen = np.unique(v[:, g.columns], axis=0)
        assert {tuple(row) for row in seen.round(9)} <= {tuple(row) for row in g.values.round(9)}


@pytest.mark.some(1)
@FORMULAS
def test_what_is_taken_out_is_noise_alone(right, sizes):
    """Whoever the people are, the mean of their reports stays as it is; numbers that can't vary are gone."""
    for dependent in (False, True):
        v, some = inner(right, people(400, 2, dependent))
        if not some:
            continue
        rows = a_map(v.shape[1])
        space = whitening.certain(some, rows)
        told = mean_report(v, rows)
        np.testing.assert_allclose(space.project(told), told, atol=1e-10)
        noise = np.random.default_rng(3).normal(size=(2000, len(told)))
        left = np.array([space.project(row) for row in noise])
        np.testing.assert_allclose((left**2).mean(axis=0), space.left(len(told)), atol=0.2)
    if right == "f * g + h + x":
        # 10 leading columns' 55 numbers: 1 + 5 + 4 free shares, and 20 products across
        assert space.basis.shape == (55, 1 + 5 + 4 + 5 * 4)


@pytest.mark.some(1)
@pytest.mark.parametrize(("silent", "lead"), [(0.0, 1.0), (0.3, 1.0), (0.0, 8.0), (0.3, 8.0)])
@pytest.mark.parametrize("right", ["g", "x + g + f", "f * g", "0 + g + x", "C(g, Poly) + x", "f"])
def test_shares_are_learned_from_reports(right, silent, lead):
    """However many have nothing to tell, and beside whatever constant was asked."""
    frame = people(60_000, 4)
    v, some = inner(right, frame)
    d = v.shape[1]
    scatter = moments.start_even(np.eye(d), some)
    for _ in range(4):
        total = (1.0 - silent) * len(v) * mean_report(v, moments.asked(scatter.rows, lead))
        known, layout = {"constant2": lead, "nonresponse": silent > 0.0}, moments.Layout(True, False)
        scatter = moments.learn(scatter, total, len(v), 0.0, layout, some, **known)
    assert scatter.answering == pytest.approx(1.0 - silent)
    for g, p in zip(some, whitening.shrunk(some, scatter.shares), strict=True):
        same = (v[:, None, g.columns] == g.values[None]).all(axis=2)
        np.testing.assert_allclose(p, same.mean(axis=0), atol=0.01)
    z = v @ scatter.rows.T
    lead = 1 + sum(len(g.columns) for g in some)
    np.testing.assert_allclose(np.cov(z[:, 1:lead].T), np.eye(lead - 1), atol=0.06)


@pytest.mark.thorough
def test_noise_alone_leaves_shares_equal():
    _, some = inner("h", people(100))
    rng, sd, n = np.random.default_rng(5), 1.0, 500
    begun = moments.start_even(np.eye(5), some)
    space = whitening.certain(some, begun.rows)
    even = np.repeat(some[0].values, 20, axis=0)
    told = mean_report(np.column_stack([np.ones(len(even)), even]), begun.rows)
    errors, kept = [], 0
    for _ in range(300):
        noisy = told + sd / np.sqrt(n) * rng.normal(size=len(told))
        shares = whitening.update(some, begun.shares, space, space.project(noisy), n, sd, begun.rows)
        errors.append(shares.reported - 0.2)
        kept += bool(np.ptp(whitening.shrunk(some, shares)[0]))
    spread = np.std(errors, axis=0)
    drawn = np.sqrt(0.2 * 0.8 / n)
    np.testing.assert_allclose(np.sqrt(shares.variance), np.sqrt(spread**2 + drawn**2), rtol=0.25)
    assert kept < 60  # believed in one of five, if ever


def test_stand_ins_are_white_and_in_the_levels():
    v, some = inner("x + g + h", people(50))
    p = [np.array([0.05, 0.9, 0.05]) if len(g.values) == 3 else np.full(5, 0.2) for g in some]
    rows = whitening.whiten(some, p, a_map(v.shape[1]))
    size = np.linspace(1.0, 0.5, len(rows))
    two = np.full(len(rows), np.nan)
    z, where = whitening.stand_ins(some, p, rows, size, two, constant=True)
    np.testing.assert_array_equal(z[:, 0], 1.0)
    np.testing.assert_allclose(np.cov(z[:, 1:].T, bias=True), np.diag(size[1:] ** 2), atol=1e-9)
    for share, cell in zip(p, where, strict=True):
        np.testing.assert_allclose(np.bincount(cell, minlength=len(share)) / len(cell), share, atol=0.002)
    two[-1] = 0.1
    z, _ = whitening.stand_ins(some, p, rows, size, two, constant=True)
    assert len(np.unique(z[:, -1].round(6))) > 2  # the constant's and others' share is taken out of it
    rare = z[:, -1] > 1.0
    assert 0.08 < rare.mean() < 0.12


@pytest.mark.thorough
@pytest.mark.parametrize("right", ["x + g + h", "h + g + x", "0 + h + x + g", "f * g + x", "0 + g:f + x"])
def test_every_coefficient_is_its_own(right):
    """Columns have an order of their own inside; names must find their numbers again."""
    frame = people(30_000, 6)
    model = made(right)
    x = model._spec.design.encode_exog(frame)
    beta = np.linspace(-2, 2, x.shape[1])
    frame["y"] = x @ beta + 0.1 * np.random.default_rng(7).normal(size=len(frame))
    used = {"bounds": model.schema.bounds, "levels": {k: v for k, v in LEVELS.items() if k in right}}
    res = pr.PrivateOnlineRegression.from_formula(model.formula, frame, mu=None, **used).fit(progress=False)
    np.testing.assert_allclose(res.params, beta, atol=0.05)


def test_cells_that_formulas_do_not_show_are_left_alone():
    """More combinations than probe rows, or columns that don't tell them apart: nothing is certain then."""
    rng = np.random.default_rng(0)
    levels = {"a": list(range(3)), "b": list(range(2))}
    shown = np.array([[0.0], [1.0], [0.0]])
    assert whitening.groups([("a",)], levels, shown) == ()  # two of three levels look alike
    assert whitening.groups([("a",), ("a",)], levels, rng.integers(0, 2, (2, 2)).astype(float)) == ()
    assert whitening.groups([(), ("x",)], levels, rng.normal(size=(9, 2))) == ()
    design = formula_design("y ~ g", combined(None, {"y": (0, 1)}, {"g": LEVELS["g"]}, None), functions={})
    assert len(whitening.groups(design.sources, design.schema.levels, design.probe)) == 1


# --- factors that go together --------------------------------------------------------------------------------


def agreeing(n, agree, seed, levels=2):
    """Two factors that are the same for `agree` of the people, and by chance for others."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, levels, n)
    b = np.where(rng.uniform(size=n) < agree, a, rng.integers(0, levels, n))
    y = 0.4 - 0.4 * (a == 1) + 0.4 * (b == 1) + rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "y": y})


def fitted(frame, seed, right="a + b", levels=2):
    given = {name: list(range(levels)) for name in "ab"}
    model = pr.PrivateOnlineRegression.from_formula(
        f"y ~ {right}", frame, mu=2.0, bounds={"y": BOUNDS["y"]}, levels=given
    )
    stream = model.start(seed=seed).update(frame)
    return stream.results(), stream._run


def test_no_column_is_stretched_without_end_where_factors_go_together():
    """Directions in a plane can't be made even: rounds must not try ever harder."""
    v, some = inner("f + g", people(5000))
    half = np.arange(5000) % 2
    codes = np.where(np.arange(5000) % 10 == 0, 2, half)
    for g in some:
        v[:, g.columns] = g.values[np.minimum(codes, len(g.values) - 1)]
    scatter = moments.start_even(np.eye(v.shape[1]), some)
    for _ in range(12):
        total = len(v) * mean_report(v, scatter.rows)
        scatter = moments.learn(scatter, total, len(v), 0.0, moments.Layout(True, False), some)
    shares = whitening.shrunk(some, scatter.shares)
    alone = whitening.whiten(some, shares, np.eye(v.shape[1]))
    ratio = np.diag(scatter.rows) / np.diag(alone)
    np.testing.assert_allclose(ratio.max(), whitening.FARTHEST)
    tied = whitening.tied(some, shares, scatter.rows)
    assert tied.tolist() == [False, False, False, True]  # f and the second level tell the third
    assert not whitening.tied(some, shares, alone).any()


@pytest.mark.statistical
@pytest.mark.parametrize("agree", [0.6, 0.9])
def test_intervals_hold_where_factors_are_dependent(agree):
    """Coverage of 95% intervals of two factors of two levels; with a correlation of 0.9 a note may say not to rely."""
    held = []
    for seed in range(8):
        res, _ = fitted(agreeing(60_000, agree, seed), seed)
        # one fit of twenty is marked for its curvature, by chance
        assert agree > 0.8 or not [n for n in res.privacy.doubts if "near the model's line" not in n]
        low, high = res.conf_int().to_numpy().T
        held.append((low <= [0.4, -0.4, 0.4]) & (high >= [0.4, -0.4, 0.4]))
    assert np.sum(held) >= binom.ppf(0.001, np.size(held), 0.95)


@pytest.mark.some(1)
@pytest.mark.parametrize(("levels", "agree"), [(2, 0.98), (2, 1.0), (3, 0.95)])
def test_factors_that_nearly_repeat_each_other_are_doubted(levels, agree):
    res, run = fitted(agreeing(60_000, agree, 1, levels), 1, "C(a) + C(b)", levels)
    doubts = [note for note in res.privacy.doubts if "go together" in note]
    assert len(doubts) == 1
    assert "C(b)[T.1]" in doubts[0]
    assert "C(a)" not in doubts[0]
    assert not any("least frequent value" in note for note in res.privacy.doubts)
    assert run.progress.tied.tolist() == [False] * levels + [True] * (levels - 1)


@pytest.mark.thorough
def test_what_ties_factors_is_saved(tmp_path):
    frame = agreeing(60_000, 1.0, 2)
    given = {"bounds": {"y": BOUNDS["y"]}, "levels": {"a": [0, 1], "b": [0, 1]}}
    stream = pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, mu=2.0, rows=len(frame), **given).start(seed=2)
    stream.update(frame.iloc[:40_000])
    assert stream._run.progress.tied.any()
    stream.save(tmp_path / "s")
    again = pr.load(tmp_path / "s")
    assert again._run.progress.tied.tolist() == stream._run.progress.tied.tolist()
    for s in (stream, again):
        s.update(frame.iloc[40_000:])
    assert again.results().privacy.doubts == stream.results().privacy.doubts
    assert again.results().params.equals(stream.results().params)


# --- what noise can have made -------------------------------------------------------------------------------


def test_less_than_chance_makes_of_noise_is_not_believed():
    """A group of ten numbers that exceeds its noise by less than 1.5 sd of the noise's size is taken for noise."""
    noise2 = np.full(10, 0.5)
    line = 5.0 * (1.0 + 1.5 * np.sqrt(2.0 / 10.0))
    assert whitening.keep(np.full(10, np.sqrt(0.99 * line / 10)), noise2) == 0.0
    assert whitening.keep(np.full(10, np.sqrt(2.0 * line / 10)), noise2) == pytest.approx(0.5)
    assert whitening.keep(np.full(2, np.sqrt(2.0 * 1.0 / 2)), np.full(2, 0.5)) == pytest.approx(0.5)  # two: no margin
    bits = np.array([0.5, 0.5, 1e-15])  # left by a projection of what is known: no third degree of freedom
    assert whitening.keep(np.array([1.0, 1.0, 0.0]), bits) == pytest.approx(0.5)
    # one that is much noisier than the others has most of the sum to itself
    assert whitening.keep(np.array([2.0, 0.0, 0.0]), np.array([1.0, 0.01, 0.01])) == pytest.approx(1.0 - 1.02 / 4.0)


def test_no_level_is_believed_to_be_empty():
    _, some = inner("h", people(100))
    told = np.array([0.7, 0.4, -0.2, 0.05, 0.05])
    shares = whitening.Shares(told, np.full(5, 1e-12), 1e6)
    p = whitening.shrunk(some, shares)[0]
    assert p.sum() == pytest.approx(1.0)
    assert p[2] == pytest.approx(LEAST_LEVEL / 5 / 1.21)
    assert p.min() > 0.0


def test_a_level_is_unsure_below_ten_standard_errors():
    assert whitening.unsure(np.array([0.5, 0.099]), np.full(2, 1e-4))
    assert not whitening.unsure(np.array([0.5, 0.101]), np.full(2, 1e-4))


def test_the_rarest_value_is_found_whichever_it_is():
    _, some = inner("x + f + g", people(50))
    p = {2: np.array([0.2, 0.8]), 3: np.array([0.1, 0.2, 0.7])}
    share = whitening.rarer(some, [p[len(g.values)] for g in some], 5)
    own = {k: share[g.columns] for g in some for k in [len(g.values)]}
    np.testing.assert_allclose(own[2], [0.2])
    high = [float(p[3][v == v.max()].sum()) for g in some if len(g.values) == 3 for v in g.values.T]
    np.testing.assert_allclose(own[3], [min(h, 1 - h) for h in high])
    assert max(high) > 0.5
    assert np.isnan(share).sum() == 2
    (three,) = (g for g in some if len(g.values) == 3)
    coded = three._replace(values=np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]))  # as patsy's Sum
    np.testing.assert_allclose(whitening.rarer([coded], [np.array([0.6, 0.3, 0.1])], 5)[three.columns], 0.1)
