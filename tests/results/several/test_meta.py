"""Fits to different people, pooled and drawn towards each other."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

import privreg as pr
from privreg.errors import InferenceError, OptionError
from privreg.results.several.meta import pooled_robustly, tau2_reml
from tests.federated.test_fits import model as federated
from tests.helpers import array_model

# rows of a textbook's table would do as well: effects and variances without any pattern
Y = np.array([0.12, 0.55, -0.10, 0.80, 0.41, 0.03])
V = np.array([0.02, 0.05, 0.01, 0.09, 0.03, 0.02])


def estimates(values: dict[str, float], error: float) -> SimpleNamespace:
    """Estimates as another library's results have them."""
    params = pd.Series(values)
    bse = pd.Series(error, index=params.index)
    half = 1.959964 * error
    limits = pd.DataFrame({0: params - half, 1: params + half})
    p = pd.Series(2 * stats.norm.sf(np.abs(params / bse)), index=params.index)
    return SimpleNamespace(params=params, bse=bse, pvalues=p, nobs=100, conf_int=lambda alpha=0.05: limits)


@pytest.fixture
def fits() -> dict[str, SimpleNamespace]:
    return {f"fit {i}": estimates({"x": y}, v**0.5) for i, (y, v) in enumerate(zip(Y, V, strict=True))}


@pytest.fixture(scope="module")
def private() -> list:
    return [array_model(3000, seed=s, trust="two_collectors").fit(seed=s, progress=False) for s in (1, 2, 3)]


@pytest.mark.parametrize("test", ["hartung_knapp", "normal"])
def test_moments_pool_as_statsmodels_does(fits, test) -> None:
    ours = pr.meta_analysis(fits, method="dl", test=test).frame().loc["x"]
    theirs = combine_effects(Y, V, method_re="dl", use_t=test == "hartung_knapp")
    assert ours.estimate == pytest.approx(theirs.mean_effect_re, rel=1e-6)
    assert ours.tau**2 == pytest.approx(theirs.tau2, rel=1e-6)
    assert ours.q == pytest.approx(theirs.q, rel=1e-6)
    error = theirs.sd_eff_w_re_hksj if test == "hartung_knapp" else theirs.sd_eff_w_re
    assert ours.std_error == pytest.approx(max(error, theirs.sd_eff_w_re), rel=1e-6)
    critical = stats.t.ppf(0.975, 5) if test == "hartung_knapp" else 1.959964
    assert ours.conf_high - ours.conf_low == pytest.approx(2 * critical * ours.std_error, rel=1e-6)


def test_the_median_of_means_of_two_is_hodges_and_lehmanns(fits) -> None:
    ours = pr.meta_analysis(fits, method="hodges_lehmann").frame().loc["x"]
    pairs = [(a + b) / 2 for i, a in enumerate(Y) for b in Y[i:]]
    assert ours.estimate == pytest.approx(np.median(pairs))
    assert ours.tau == 0.0
    same = {name: estimates({"x": y}, 0.2) for name, y in zip(fits, Y, strict=True)}
    error = pr.meta_analysis(same, method="hodges_lehmann").frame().loc["x"].std_error
    assert error == pytest.approx(0.2 * np.sqrt(np.pi / 3 / len(Y)))
    assert "Hodges-Lehmann" in str(pr.meta_analysis(fits, method="hodges_lehmann"))


@pytest.mark.some(1)
@pytest.mark.parametrize("claimed", [1e-6, 0.2, 1e6])
@pytest.mark.parametrize("value", [-1e9, 1e9])
def test_a_fit_that_may_be_anything_hardly_moves_it(value, claimed) -> None:
    rng, shifts = np.random.default_rng(4), []
    for _ in range(200):
        y, v = rng.normal(0.0, 0.2, 16), np.full(16, 0.04)
        y[3], v[3] = value, claimed**2
        found = pooled_robustly("x", y, v)
        shifts.append(found.estimate / found.error)
        assert 0.9 < found.error / (0.2 * np.sqrt(np.pi / 3 / 16)) < 1.2
    shift = abs(np.mean(shifts))
    assert shift < np.sqrt(3.0 / 16) + 4.0 / np.sqrt(200)  # four standard errors of 200 ratios, whose sd is near 1


def test_the_common_effect_is_the_precision_weighted_mean(fits) -> None:
    ours = pr.meta_analysis(fits, random=False).frame().loc["x"]
    theirs = combine_effects(Y, V, method_re="dl")
    assert ours.estimate == pytest.approx(theirs.mean_effect_fe, rel=1e-6)
    assert ours.std_error == pytest.approx(theirs.sd_eff_w_fe, rel=1e-6)
    assert "tau" in ours
    assert "pred_low" not in ours


def test_restricted_likelihood_solves_its_equation() -> None:
    """Σ w² ((y − m)² − v) + Σ w² ... = the derivative of the restricted log-likelihood is 0 (Viechtbauer, 2005)."""
    tau2 = tau2_reml(Y, V)
    w = 1 / (V + tau2)
    m = w @ Y / w.sum()
    assert tau2 > 0
    assert tau2 == pytest.approx(w**2 @ ((Y - m) ** 2 - V) / (w**2).sum() + 1 / w.sum(), rel=1e-3)
    assert tau2_reml(np.array([1.0, 1.01, 0.99]), np.ones(3)) == 0.0


def test_hartung_and_knapps_interval_is_never_shorter_than_the_variance_allows() -> None:
    alike = [estimates({"x": v}, 1.0) for v in (1.0, 1.001, 0.999)]
    row = pr.meta_analysis(alike).frame().loc["x"]
    assert row.std_error == pytest.approx(3**-0.5, rel=1e-6)


def test_fits_that_lack_a_coefficient_are_left_out_of_it() -> None:
    some = [estimates({"x": 1.0, "z": 2.0}, 0.1), estimates({"x": 1.2}, 0.1), estimates({"x": 0.9, "w": 0.0}, 0.1)]
    found = pr.meta_analysis(some)
    assert found.frame().index.tolist() == ["x"]
    assert "left out: z, w" in str(found)
    assert found.weights().loc["(2)", "x"] == pytest.approx(1 / 3)


def test_private_fits_are_pooled_at_no_cost(private) -> None:
    found = pr.meta_analysis(private, names=["a", "b", "c"])
    frame = found.frame()
    each = np.array([r.bse for r in private])
    assert (
        frame["std_error"].to_numpy() < each.min(axis=0) * 1.01 * np.maximum(1, frame["std_error"] / each.min())
    ).all()
    said = " ".join(str(found).split())
    assert "1-GDP per person at most" in said
    assert "1.733-GDP" in said  # of whoever is in all three
    assert "not the first fit" not in said
    assert "<table" in found.as_html()
    axes = found.plot()
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b", "c", "pooled"]
    # the first coefficient but the constant
    assert axes.get_xlabel() == next(t for t in frame.index if t != "const")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: pr.meta_analysis(p[0]), "at least 2 results"),
        (lambda p: pr.meta_analysis(p[:1]), "at least 2 results"),
        (lambda p: pr.shrink(p[:2]), "at least 3 results"),
        (lambda p: pr.meta_analysis([*p, "x"]), "not results"),
        (lambda p: pr.meta_analysis([*p, p[0]]), "results of one fit"),
        (lambda p: pr.meta_analysis(p, names=["a", "a", "b"]), "different names"),
        (lambda p: pr.meta_analysis(p, names=5), "different names"),
        (lambda p: pr.meta_analysis(p, names="abc"), "different names"),
        (lambda p: pr.meta_analysis(p, terms="aa"), "Did you mean"),
        (lambda p: pr.meta_analysis(p, terms=3), "terms must be"),
        (lambda p: pr.shrink(p, terms=[]), "terms must be"),
        (lambda p: pr.meta_analysis([p[0], p[0]]), "one fit"),
        (lambda p: pr.shrink([p[0], p[1], pickle.loads(pickle.dumps(p[0]))]), "one fit"),
        (lambda p: pr.meta_analysis(p, method="ml"), "reml"),
        (lambda p: pr.meta_analysis(p).plot("zz"), "term"),
    ],
)
def test_what_cant_be_pooled_is_refused_by_name(private, call, message) -> None:
    with pytest.raises(OptionError, match=message):
        call(private)


def test_fits_of_the_same_data_are_pointed_out() -> None:
    """Their people are counted twice, and pay twice."""
    rows = pr.datasets.us_insurance(4000)
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age", rows, mu=1, trust="two_collectors")
    said = " ".join(str(pr.meta_analysis([model.fit(progress=False), model.fit(progress=False)])).split())
    assert "(2): not the first fit of its data" in said


def test_estimates_without_errors_are_refused_with_what_to_do(private) -> None:
    bare = array_model(2000).fit(seed=3, progress=False, inference=None)
    with pytest.raises(InferenceError, match="without standard errors"):
        pr.meta_analysis([bare, *private])
    silos = federated().fit(seed=1, progress=False)
    with pytest.raises(InferenceError, match="pool federated fits alone"):
        pr.meta_analysis([silos, *private])
    with pytest.raises(InferenceError, match="Fit each silo's rows by themselves"):
        pr.shrink([silos, *private])


def test_fits_are_drawn_towards_each_other_the_noisier_the_more() -> None:
    fits = [estimates({"x": y}, e) for y, e in zip([0.0, 2.0, 4.0, 10.0], [1.0, 1.0, 1.0, 5.0], strict=True)]
    frame = pr.shrink(fits).frame().loc["x"]
    assert frame["pull"].iloc[3] > frame["pull"].iloc[0]
    assert (frame["std_error"] < frame["original_error"] * 1.05).all()
    middle = frame["estimate"].mean()
    assert (np.abs(frame["estimate"] - middle) <= np.abs(frame["original"] - middle) + 0.5).all()
    assert (frame["conf_low"] < frame["estimate"]).all()
    assert (frame["estimate"] < frame["conf_high"]).all()


@pytest.mark.statistical
@pytest.mark.parametrize("tau", [0.0, 1.0, 3.0])
def test_shrunken_intervals_hold_on_average_over_fits(tau) -> None:
    """95% on average, by exact limits at 1e-3 of 8 fits in 150 studies; errors within a study are near independent."""
    rng, held = np.random.default_rng(5), []
    for _ in range(150):
        error = rng.choice([0.5, 1.0, 2.0], size=8)
        true = 1.0 + tau * rng.standard_normal(8)
        y = true + error * rng.standard_normal(8)
        frame = pr.shrink([estimates({"x": a}, b) for a, b in zip(y, error, strict=True)]).frame()
        held += [*((frame["conf_low"].to_numpy() < true) & (true < frame["conf_high"].to_numpy()))]
    # flat prior of tau: never too short, and too long where there is nothing between fits
    assert stats.binomtest(sum(held), len(held), 0.95, alternative="less").pvalue > 1e-3


def test_targets_that_differ_are_said() -> None:
    both = [array_model(2000, family=f).fit(seed=1, progress=False) for f in (pr.Huber(1.345, 1.0), pr.Huber(0.5, 1.0))]
    assert "different quantities" in " ".join(str(pr.compare(both)).split())
    assert "different quantities" in " ".join(str(pr.meta_analysis(both)).split())
    learned = [array_model(2000, seed=s).fit(seed=s, progress=False) for s in (1, 2)]
    assert "learned its threshold" in " ".join(str(pr.meta_analysis(learned)).split())
    assert "learned its threshold" not in " ".join(str(pr.compare(both[:1])).split())


@pytest.mark.some(1)
@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e6])
def test_units_of_coefficients_dont_count(fits, unit) -> None:
    other = {name: estimates({"x": y * unit}, v**0.5 * unit) for name, y, v in zip(fits, Y, V, strict=True)}
    for pool in (pr.meta_analysis, pr.shrink):
        one, two = pool(fits).frame(), pool(other).frame()
        for name in {"estimate", "std_error", "conf_low", "conf_high", "tau"} & {*one}:
            np.testing.assert_allclose(two[name] / unit, one[name], rtol=1e-6)


def factors(g: list[str], seed: int, formula: str = "y ~ z + C(g)", c: str = "pq") -> Any:
    rng, n = np.random.default_rng(seed), 2000
    rows = {"z": rng.uniform(-1, 1, n), "g": rng.choice(["a", "b", "c"], n), "y": rng.normal(size=n)}
    rows["c"] = rng.choice(["p", "q"], n)
    family = {"family": "multinomial"} if formula.startswith("c ") else {}
    return pr.PrivateOnlineRegression.from_formula(
        formula, rows, bounds={"y": (-4, 4), "z": (-1, 1)}, levels={"g": g, "c": list(c)}, mu=1,
        trust="two_collectors", **family).fit(seed=seed, progress=False)  # fmt: skip


@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
def test_coefficients_relative_to_other_levels_are_not_pooled() -> None:
    both = [factors(["a", "b", "c"], 1), factors(["b", "a", "c"], 2)]
    with pytest.raises(OptionError, match=r"put Intercept, C\(g\)\[T.b\].*a in \(1\), b in \(2\)"):
        pr.meta_analysis(both)
    assert pr.meta_analysis(both, terms="z").frame().index.tolist() == ["z"]
    crossed = [factors(["a", "b", "c"], 1, "y ~ z * C(g)"), factors(["b", "a", "c"], 2, "y ~ z * C(g)")]
    with pytest.raises(OptionError, match="put z together"):  # of the reference level
        pr.meta_analysis(crossed, terms="z")
    classes = [factors(["a", "b", "c"], 1, "c ~ z"), factors(["a", "b", "c"], 2, "c ~ z", "qp")]
    with pytest.raises(OptionError, match="baselines"):
        pr.meta_analysis(classes)


def test_means_are_no_fits_of_a_model() -> None:
    rows = {"z": np.random.default_rng(0).uniform(-1, 1, 500)}
    means = [pr.means.estimate(rows, ["z"], bounds={"z": (-1, 1)}, mu=1, seed=s, progress=False) for s in (1, 2)]
    with pytest.raises(OptionError, match="MeansResults"):
        pr.meta_analysis(means)


@pytest.mark.thorough
def test_a_terms_name_is_all_its_coefficients() -> None:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"y": rng.uniform(size=900), "g": rng.choice(["a", "b", "c"], 900)})
    model = pr.PrivateOnlineRegression.from_formula
    declared = {"bounds": {"y": (0, 1)}, "levels": {"g": ["a", "b", "c"]}, "mu": 2, "trust": "two_collectors"}
    fits = [model("y ~ C(g)", rows, **declared).fit(seed=s, progress=False) for s in range(3)]
    own = ["C(g)[T.b]", "C(g)[T.c]"]
    for term in ("C(g)", "g"):
        meta, drawn = pr.meta_analysis(fits, terms=term), pr.shrink(fits, terms=term)
        assert list(meta.frame().index) == own
        assert [t.term for t in drawn.towards] == own
        for view in (meta, pr.meta_analysis(fits)):
            assert [ax.get_xlabel() for ax in view.plot(term)] == own
    beside = [c for c in meta.plot(own[0]).child_axes if len(c.get_yticks()) == 4]
    row = meta.frame().iloc[0]
    written = [float(v.strip("[,]")) for v in beside[0].get_yticklabels()[-1].get_text().split()]
    assert written == pytest.approx([row.estimate, row.conf_low, row.conf_high], abs=0.06 * row.std_error)
    with pytest.raises(OptionError, match="2 coefficients"):
        meta.plot("g", ax=meta.plot(own[0]))
    with pytest.raises(OptionError, match="Did you mean 'g'"):
        pr.shrink(fits, terms="gg")
    assert "pull: share of the way" in str(drawn)


def test_a_fits_own_estimate_is_written_as_what_it_becomes() -> None:
    fits = [estimates({"x": 11489.897 + 100 * i}, 40.0) for i in range(3)]
    assert "e+" not in str(pr.shrink(fits))


# --- federated fits --------------------------------------------------------------------------------------


def of_silos(seed, k=6, **options):
    rng, silos = np.random.default_rng(seed), []
    for _ in range(k):
        x = rng.uniform(-1, 1, 20)
        silos.append(pd.DataFrame({"x": x, "y": (rng.uniform(size=20) < 1 / (1 + np.exp(-x))).astype(int)}))
    given = {"mu": 4, "rounds": 3, "bounds": {"x": (-1, 1)}, **options}
    model = pr.federated.FederatedRegression.from_formula("y ~ x", silos, **given)
    return model.fit(seed=seed, progress=False)


@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
def test_federated_fits_have_standard_errors_by_their_spread() -> None:
    """Of equal groups of silos: Student's interval of a mean."""
    fits = [of_silos(seed) for seed in range(4)]
    frame = pr.meta_analysis(fits).frame()
    y = np.array([f.params["x"] for f in fits])
    expected = stats.ttest_1samp(y, 0.0)
    row = frame.loc["x"]
    np.testing.assert_allclose(
        [row["estimate"], row["statistic"], row["p_value"]], [y.mean(), expected.statistic, expected.pvalue]
    )
    np.testing.assert_allclose([row["conf_low"], row["conf_high"]], expected.confidence_interval(0.95))
    pooled = pr.meta_analysis([*fits[:3], of_silos(9, k=12)])
    np.testing.assert_allclose(pooled.weights()["x"], [0.2, 0.2, 0.2, 0.4])
    assert "Student's t" in str(pooled)
    assert "per silo" in str(pooled)
    assert pooled.plot("x").get_xlabel() == "x"


@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
def test_federated_fits_that_settle_elsewhere_are_not_pooled() -> None:
    one = of_silos(0)
    for options, what in (({"rounds": 4}, "rounds"), ({"clip": 0.1}, "clip"), ({"mu": 3}, "budget")):
        with pytest.raises(OptionError, match=what):
            pr.meta_analysis([one, of_silos(1, **options)])
