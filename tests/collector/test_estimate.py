"""Which rounds an estimate is made of, what stands for records, and what of its covariance is the residual scale's."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import chi2

import privreg as pr
from benchmarks.designs import DESIGNS
from privreg.collector import rounds
from privreg.collector.covariates import moments, whitening
from privreg.collector.estimation import coordinates, estimate, reference
from privreg.collector.estimation.coordinates import AT_BOUND
from privreg.collector.plan import SAMPLED
from privreg.fits.plan import plan_of
from privreg.planning.precision import ASKED
from privreg.simulation.tuning import resolve_tuning

SPLINE = "bs(a, knots=[1], lower_bound=0, upper_bound=2)"


def played(tau, mu=1.0):
    """A quantile fit of an even covariate."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, 20_000)
    rows = pd.DataFrame({"x": x, "y": x + rng.standard_normal(20_000)})
    bounds = {"x": (-1.0, 1.0), "y": (-5.0, 5.0)}
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x", rows, family=pr.families.Quantile(tau), mu=mu, bounds=bounds, rows=len(rows)
    )
    return model.start(seed=1).update(rows)._run


def estimated(tau, *, scale_known):
    """Estimate of a quantile and of a slope, as if the pilot had told the residual scale exactly or as it did."""
    run = played(tau)
    progress = run.held().progress
    cov = np.array(progress.fitted.cov)
    if scale_known:
        cov[-1] = cov[:, -1] = 0.0
    return estimate.estimate(run.plan, progress._replace(fitted=progress.fitted._replace(cov=cov)))


@pytest.mark.thorough
def test_the_scale_s_own_error_is_in_the_covariance_of_an_outer_quantile():
    known, told = (estimated(0.9, scale_known=given) for given in (True, False))
    assert np.array_equal(known.theta, told.theta)
    more = told.cov - known.cov
    assert more[0, 0] > 0.01 * known.cov[0, 0]
    assert np.linalg.matrix_rank(more, tol=1e-9 * np.trace(more)) == 1
    np.testing.assert_allclose(told.unknown - known.unknown, more, atol=1e-12 * np.trace(told.cov))


@pytest.mark.thorough
def test_a_median_has_no_bend_and_asks_for_no_scale():
    known, told = (estimated(0.5, scale_known=given) for given in (True, False))
    assert np.array_equal(known.cov, told.cov)


def test_quantiles_but_the_median_are_estimated_from_main_rounds_alone():
    outer, median = (estimated(tau, scale_known=False).carried for tau in (0.9, 0.5))
    assert len(outer.rounds) == outer.main
    assert len(median.rounds) == median.main + 2


def test_an_even_covariate_s_stand_ins_keep_within_its_bounds():
    run = played(0.5)
    inside = run.progress.points @ np.linalg.inv(run.progress.state.rows).T
    assert 0.95 < np.abs(inside[:, 1]).max() < 1.02  # normal ones would lie as far out as 2


@pytest.mark.parametrize(("mu", "parts"), [(8.0, 8), (8.0, 1), (0.5, 8)])
def test_how_reports_scatter_is_in_the_covariance_as_far_as_the_law_may_be_wrong(mu, parts):
    run = played(0.5, mu)
    plan, progress, rng, times = run.plan, run.held().progress, np.random.default_rng(5), 4.0
    law = estimate.estimate(plan, progress).carried
    seen, cells, back = [], 0, np.linalg.inv(law.local.map).T
    for one in progress.scored:
        if one.state.role == "main":
            weight = np.full((parts, 16), 300.0)
            line = (one.state.theta + one.state.offsets) @ law.root
            mean = line + rng.multivariate_normal(np.zeros(2), times * law.noise / 300.0, (parts, 16))
            one, cells = one._replace(weight=weight, score=300.0 * mean @ back), cells + 16 * parts - 1
        seen.append(one)
    frame = law._replace(rounds=[one._replace(weight=np.full(16, 300.0 * parts)) for one in law.rounds])
    found = estimate.scattered(plan, progress._replace(scored=tuple(seen)), frame, np.eye(2))
    prior = 2.0 / ((1.0 - reference.MODELLED) * 0.25 * SAMPLED / plan.d * plan.effective_mu(0.0) ** 2) ** 2
    expected = (prior + times * (cells - 1.5)) / (prior + cells - 1.5)
    assert 1.0 < expected < (1.1 if mu < 1.0 else times)
    error = times * np.sqrt(2.0 / cells) * cells / (prior + cells)
    np.testing.assert_allclose(np.diag(np.linalg.solve(law.noise, found)), expected, atol=4.0 * error)
    none = progress._replace(scored=tuple(one._replace(score=0.0 * one.score) for one in seen))
    assert np.linalg.eigvalsh(estimate.scattered(plan, none, frame, np.zeros((2, 2))) - law.noise)[0] > -1e-9


def a_model(right, family="logistic", **more):
    used = {"a": (0.0, 2.0), "b": (-3.0, 3.0), "y": (0.0, 9.0)}
    bounds = {k: v for k, v in used.items() if k in right or (k == "y" and family == "huber")}
    levels = {"g": list("uvw")} if "g" in right else None
    return pr.PrivateOnlineRegression.from_formula(
        f"y ~ {right}", None, family=family, mu=3, bounds=bounds, levels=levels, **more
    )


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("right", "products"),
    [
        ("a + b", []),
        ("a * b", ["a:b"]),
        ("a + I(a ** 2) + I(a ** 3)", ["I(a ** 2)", "I(a ** 3)"]),
        ("g * a", ["g[T.v]:a", "g[T.w]:a"]),
        ("g * a * b", ["a:b", "g[T.v]:a", "g[T.v]:a:b", "g[T.v]:b", "g[T.w]:a", "g[T.w]:a:b", "g[T.w]:b"]),
        ("(g + a + b) ** 2", ["a:b", "g[T.v]:a", "g[T.v]:b", "g[T.w]:a", "g[T.w]:b"]),
        ("g:a", []),
        ("a + g:a", []),
        ("a + np.exp(a)", []),
        ("g + I(b ** 2)", []),
    ],
)
def test_columns_that_are_products_of_others_are_made_of_them(right, products):
    spec = a_model(right)._spec
    plan, order = plan_of(spec, resolve_tuning(ASKED, spec, 1000), None)
    names = [spec.design.names[j] for j in order]
    assert sorted(names[m.column] for m in plan.columns.made) == products
    rng = np.random.default_rng(1)
    fresh = pd.DataFrame({"a": rng.uniform(0, 2, 300), "b": rng.uniform(-3, 3, 300), "g": rng.choice(list("uvw"), 300)})
    v = spec.units.probe_inside(spec.design.encode_exog(fresh))[:, order]
    v = v if plan.columns.mix is None else v @ np.linalg.inv(plan.columns.mix).T
    for m in plan.columns.made:
        np.testing.assert_allclose(m.parts(v) @ m.by, v[:, m.column], atol=1e-8)


@pytest.mark.parametrize(
    ("right", "bases"),
    [(SPLINE, True), ("a + np.exp(a)", True), ("a + I(a ** 2)", False), ("g * a", False), ("a * b", False)],
)
def test_splines_are_told_by_directions(right, bases):
    """Beside a larger constant, intervals of right logistic models were half as long and covered 81%."""
    spec = a_model(right)._spec
    plan, _ = plan_of(spec, resolve_tuning(ASKED, spec, 100_000), None)
    assert plan.columns.bases == bases
    assert (coordinates.constant2(plan, rounds.begin(plan), 2) == 1.0) == bases


def test_the_law_s_records_have_products_that_are_products():
    rng = np.random.default_rng(2)
    n = 4000
    rows = pd.DataFrame({"a": rng.uniform(0, 2, n), "g": rng.choice(list("uvw"), n), "y": rng.integers(0, 2, n)})
    run = a_model("g * a", rows=n).start(seed=1).update(rows)._run
    assert run.plan.columns.mix is not None
    v = run.progress.points @ np.linalg.inv(run.progress.state.rows @ run.plan.columns.mix).T
    assert len(run.plan.columns.made) == 2
    for m in run.plan.columns.made:
        np.testing.assert_allclose(m.parts(v) @ m.by, v[:, m.column], atol=1e-8)


@pytest.mark.parametrize(
    ("right", "products"),
    [
        ("a * b", []),
        ("g * (a + I(a ** 2))", ["g[T.v]:I(a ** 2)", "g[T.v]:a", "g[T.w]:I(a ** 2)", "g[T.w]:a"]),
        (f"g * {SPLINE}", [f"g[T.{u}]:{SPLINE}[{k}]" for u in "vw" for k in range(4)]),
        ("a + g:a", []),
    ],
)
def test_a_law_of_residuals_has_products_with_levels_alone(right, products):
    """Of others reports tell the curvature, and intervals of a square were longer by a fifth with them."""
    spec = a_model(right, "huber")._spec
    plan, order = plan_of(spec, resolve_tuning(ASKED, spec, 1000), None)
    assert sorted(spec.design.names[order[m.column]] for m in plan.columns.made) == products


@pytest.mark.parametrize(
    ("right", "shares", "length2"),
    [
        ("g + a", [0.2, 0.3, 0.5], 0.0),
        ("a * b", [1.0], 0.0),
        ("g * a", [0.7, 0.2, 0.1], 2 / 0.1),  # a level's column and its product, of a tenth of the records
        ("g * a", [0.1, 0.7, 0.2], 2 / 0.1),  # the level that the others are compared with has no column
        ("g * (a + I(a ** 2))", [0.3, 0.3, 0.4], 3 / 0.3),
    ],
)
def test_rows_are_as_long_as_their_rarest_level_needs(right, shares, length2):
    spec = a_model(right, "huber")._spec
    plan, _ = plan_of(spec, resolve_tuning(ASKED, spec, 10_000_000), None)
    scatter = rounds.begin(plan).scatter
    if "g" in right:
        scatter = scatter._replace(shares=whitening.Shares(np.array(shares), np.zeros(3), 1e6))
    assert coordinates._needed(plan, scatter) == pytest.approx(length2)


@pytest.mark.statistical
def test_slopes_of_levels_are_told_with_few_in_one_of_them():
    """By directions alone 38% of intervals of the rarest level were marked, and they were 2.4 times as long."""
    inside, runs, level = 0, 8, np.array([0.0, 1.0, -1.0])
    for seed in range(runs):
        rng, n = np.random.default_rng([7, seed]), 60_000
        g, a = rng.choice(3, n, p=[0.6, 0.25, 0.15]), np.minimum(2 * rng.standard_exponential(n), 10.0)
        y = 1 + level[g] + np.array([0.5, 1.0, 2.0])[g] * a + rng.standard_normal(n)
        model = pr.PrivateOnlineRegression.from_formula(
            "y ~ g * a", pd.DataFrame({"g": np.array(list("uvw"))[g], "a": a, "y": y}), mu=5,
            bounds={"a": (0, 10), "y": (-10, 30)}, levels={"g": list("uvw")},
        )  # fmt: skip
        told = model.fit(seed=seed, progress=False).tidy()
        assert told.reliable.all()
        assert (told.conf_high - told.conf_low).iloc[-1] < 0.12
        truth = [1.0, 1.0, -1.0, 0.5, 0.5, 1.5]
        inside += ((told.conf_low <= truth) & (truth <= told.conf_high)).to_numpy()
    assert inside.min() >= 6  # of 8; fewer happen to one of 95% in 6 of 1,000


@pytest.mark.parametrize("widened", [1.0, 2.5])
def test_a_stretched_column_is_brought_to_a_width_that_reports_tell(widened):
    scatter = moments.start_from(np.array([[1.0, 0.0, 0.0], [0.3, 60.0, 0.0], [-0.2, 5.0, 2.0]]))
    near = moments.drawn_in(scatter, [1], widened)
    # the widths of bounds in sd: 2 over the sd of the column that the map W takes its covariance to be
    widths = 2.0 / np.linalg.norm(np.linalg.inv(near.rows)[1:, 1:], axis=1)
    assert widths[0] == pytest.approx(moments.DRAWN_IN * widened)
    assert near.drawn_in
    assert near.weight == 0.0


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.15, 0.07])
def test_a_number_that_is_mostly_0_is_drawn_in(share):
    """By directions alone nine of ten fits of these right models were marked; now few are."""
    inside, marked, runs = 0, 0, 8
    for seed in range(runs):
        rng, n = np.random.default_rng([9, seed]), 60_000
        on, b = rng.random(n) < share, rng.standard_normal(n)
        a = on * (np.minimum(rng.gamma(2.0, 1.0, n), 10.0) if share > 0.1 else 10.0)
        rows = pd.DataFrame({"a": a, "b": b, "y": 1 + 0.5 * a + b + 0.7 * rng.standard_normal(n)})
        model = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + b", rows, mu=5, bounds={"a": (0, 10), "b": (-4, 4), "y": (-10, 30)}
        )
        res = model.fit(seed=seed, progress=False)
        told = res.tidy()
        marked += not told.reliable.all()
        inside += ((told.conf_low <= [1.0, 0.5, 1.0]) & (told.conf_high >= [1.0, 0.5, 1.0])).to_numpy()
    assert inside.min() >= 6  # of 8; fewer happen to one of 95% in 6 of 1,000
    assert marked <= 2


@pytest.mark.parametrize(
    ("right", "alone"), [("a + b", ["a", "b"]), ("a + I(a ** 2) + b", ["b"]), ("a * b", []), ("g * a + b", ["b"])]
)
def test_numbers_that_nothing_else_is_made_of(right, alone):
    spec = a_model(right, "huber")._spec
    plan, order = plan_of(spec, resolve_tuning(ASKED, spec, 1000), None)
    assert sorted(spec.design.names[order[j]] for j in plan.columns.alone) == alone


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["a slope by group", "mostly none"])
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_intervals_hold_where_most_records_lie_in_a_plane(family, kind):
    """By directions alone, coverage of some coefficients was 10 to 70%."""
    inside, runs = 0, 16
    for seed in range(runs):
        rng, n = np.random.default_rng([7, seed]), 60_000
        if kind == "mostly none":
            x, right, truth = {"a": np.where(rng.random(n) < 0.8, 0.0, 2 * rng.random(n))}, "a", [0.0, 0.7]
            eta = 0.7 * x["a"]
        else:
            g, x, right = rng.random(n) < 0.3, {"a": 2 * rng.random(n)}, "g * a"
            eta, truth = 0.3 * x["a"] + g * (0.8 + 0.2 * x["a"]), [0.0, 0.8, 0.3, 0.2]
            x["g"] = np.where(g, "v", "u")
        y = rng.random(n) < expit(eta) if family == "logistic" else np.minimum(rng.poisson(np.exp(eta)), 30)
        levels = {"g": ["u", "v"]} if "g" in x else None
        model = pr.PrivateOnlineRegression.from_formula(
            f"y ~ {right}", pd.DataFrame({**x, "y": y.astype(int)}), mu=5, bounds={"a": (0, 2)}, levels=levels,
            family=family if family == "logistic" else pr.families.Poisson(y_max=30),
        )  # fmt: skip
        told = model.fit(seed=seed, progress=False).tidy()
        inside += ((told.conf_low <= truth) & (truth <= told.conf_high)).to_numpy()
    assert inside.min() >= 13  # of 16; fewer happen to one of 95% in 7 of 1,000


def far_for_few(n, seed, share):
    rng = np.random.default_rng(seed)
    a, b = np.where(rng.random(n) < share, rng.uniform(0.0, 10.0, n), 0.0), rng.standard_normal(n)
    return pd.DataFrame({"a": a, "b": b, "y": 1.0 + 0.5 * a + b + rng.standard_normal(n)})


def few_have_it(n, mu, seed, share=0.05):
    bounds = {"a": (0, 10), "b": (-4, 4), "y": (-10, 15)}
    return pr.PrivateOnlineRegression.from_formula(
        "y ~ a + b", far_for_few(n, seed, share), mu=mu, bounds=bounds, rows=n
    )


@pytest.mark.some(1)
@pytest.mark.parametrize(("share", "short"), [(0.05, True), (1.0, False)])
def test_groups_answer_less_far_apart_along_a_number_that_most_records_have_at_a_bound(share, short):
    run = few_have_it(40_000, 3, 1, share).start(seed=1).update(far_for_few(40_000, 1, share))._run
    progress = run.held().progress
    assert progress.stretch is not None
    first, last = (one.state.offsets.std(axis=0) for one in (progress.main[0], progress.main[-1]))
    one, a, b = first / first[0]
    assert (one, b) == pytest.approx((1.0, 1.0))
    assert a == pytest.approx(AT_BOUND if short else 1.0)
    assert (last[1] <= AT_BOUND * last[0] * (1.0 + 1e-9)) == short


@pytest.mark.statistical
def test_intervals_hold_for_a_number_that_few_records_have():
    """With offsets of full length, whatever most records have, z-scores have a mean square of 2.1."""
    z = []
    for seed in range(16):
        line = few_have_it(20_000, 8, seed).fit(seed=seed, progress=False).tidy().set_index("term").loc["a"]
        z.append((line["estimate"] - 0.5) / line["std_error"])
    assert np.mean(np.square(z)) < chi2.isf(0.05, 16) / 16


@pytest.mark.statistical
def test_intervals_hold_where_few_records_lie_far_out():
    """By second moments alone curvature is taken for far too large, and z-scores have a mean square of 4.7."""
    design = DESIGNS["yes, few far out"]
    public, z = pd.DataFrame(design.make(np.random.default_rng(777), 20_000)), []
    for seed in range(12):
        rows = pd.DataFrame(design.make(np.random.default_rng(seed), 15_000))
        res = pr.PrivateOnlineRegression.from_formula(
            design.formula, rows, family=design.family, mu=8, bounds=design.bounds
        ).fit(seed=seed, progress=False)
        z.append((res.params["a"] - res.estimand(public)["a"]) / res.bse["a"])
    assert np.mean(np.square(z)) < chi2.isf(0.05, 12) / 12


@pytest.mark.thorough
def test_answers_vary_where_the_law_s_mean_lies_outside_the_range_of_scores():
    rows = pd.DataFrame({"w": np.ones(2000), "y": 0.5 * np.linspace(-1, 1, 2000)})
    public = {"bounds": {"w": (1, 2), "y": (-1, 1)}, "epsilon": 1.0, "private": "response", "offset": "w"}
    model = pr.PrivateOnlineRegression.from_formula("y ~ 1", rows, **public)
    assert (model.fit(seed=74, progress=False).bse > 0).all()  # whose location is learned to be the least of the range


def strongly(kind: str, seed: int, n: int = 100_000) -> pd.DataFrame:
    """Eight columns whose linear predictor has an sd of some 10, a quarter of that for counts."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 8))
    eta = x @ np.array([12.0, -12.0, 9.0, -9.0, 6.0, 6.0, -6.0, 3.0])
    out = pd.DataFrame(x, columns=list("abcdefgh"))
    if kind == "multinomial":
        both = np.column_stack([np.zeros(n), eta, 2.0 * eta - 4.0])
        return out.assign(y=np.array(["u", "v", "w"])[(both + rng.gumbel(size=both.shape)).argmax(axis=1)])
    if kind == "poisson":
        return out.assign(y=np.minimum(rng.poisson(np.exp(np.minimum(0.25 * eta, 3.0))), 20.0))
    chance = 1.0 / (1.0 + np.exp(-eta)) if kind == "logistic" else -np.expm1(-np.exp(np.minimum(eta, 5.0)))
    return out.assign(y=(rng.uniform(size=n) < chance).astype(float))


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["logistic", "multinomial", "poisson", "cloglog"])
def test_a_larger_budget_does_not_send_strong_effects_far_off(kind: str) -> None:
    family = {"multinomial": pr.Multinomial(), "logistic": pr.Logistic(), "cloglog": pr.Cloglog()}
    how = {"bounds": dict.fromkeys("abcdefgh", (-1, 1)), "family": family.get(kind, pr.Poisson(20))}
    how |= {"levels": {"y": ["u", "v", "w"]}} if kind == "multinomial" else {}
    public, explained = strongly(kind, 99, 20_000), []
    for mu in (0.5, 3.0):
        model = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + b + c + d + e + f + g + h", strongly(kind, 1), mu=mu, **how
        )
        res = model.fit(seed=1, progress=False)
        explained.append(res.evaluate(public.copy()).set_index("measure")["value"]["deviance explained"])
        held = any(note.code == "moving" for note in res.privacy.notes)
        assert not (held and res.tidy()["reliable"].any())
        assert held or kind in {"poisson", "cloglog"}
    assert 0.2 < explained[0] < explained[1]
    assert explained[1] > 0.5
