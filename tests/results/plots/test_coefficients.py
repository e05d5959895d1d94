"""Coefficients on one honest axis: public steps, ratios, units, and names that stay inside the figure."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import OptionError
from privreg.privacy.ledger import Release
from privreg.results.plots import coefficients, style
from tests.results.plots.test_figures import nothing_is_clipped, words

plt = pytest.importorskip("matplotlib.pyplot")

FORMULA = "y ~ age + income + C(g) + I(age ** 2) + age:C(g) + used + score"
PUBLIC = {
    "bounds": {"age": (18, 65), "income": (0, 100_000), "used": (0, 1), "y": (-10, 10), "n": (0, 30)},
    "moments": {"score": (100, 15)},
    "levels": {"g": ["a", "b"], "s": ["no", "yes"]},
}
STEPS = {
    "age": 23.5,
    "income": 50_000,
    "C(g)[T.b]": 1,
    "I(age ** 2)": 1950,
    "age:C(g)[T.b]": 23.5,
    "used": 1,
    "score": 30,
}


def sizes(design, spreads=None):
    return np.array([step.size for step in coefficients.public_steps(design, spreads)])


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def rows(n=3000):
    rng = np.random.default_rng(1)
    data = pd.DataFrame(
        {"age": rng.uniform(18, 65, n), "income": rng.uniform(0, 1e5, n), "score": rng.normal(100, 15, n)}
    ).assign(g=rng.choice(["a", "b"], n), used=rng.integers(0, 2, n), s=rng.choice(["no", "yes"], n))
    return data.assign(y=data["age"] / 10 + rng.normal(size=n), n=rng.poisson(2, n))


def fit(formula, family="huber", n=3000, **more):
    given = PUBLIC | {"mu": 1, "family": family} | more
    return pr.PrivateOnlineRegression.from_formula(formula, rows(n), **given).fit(seed=1, progress=False)


@pytest.fixture(scope="module")
def res():
    return fit(FORMULA)


@pytest.fixture(scope="module")
def odds():
    return fit("s ~ age + used", "logistic")


def labels(ax):
    return [t.get_text().replace("\n", " ") for t in ax.get_yticklabels()]


def drawn(ax, at=0):
    return dict(zip([t.partition(", per ")[0] for t in labels(ax)], ax.lines[at].get_xdata(), strict=True))


def inside(ax):
    """Every label of the axes within its figure, and clear of other axes."""
    figure = ax.figure
    figure.canvas.draw()
    low, high = ax.get_xlim()
    ticks = [t for t in ax.get_xticklabels() if low <= t.get_position()[0] <= high]  # others are not drawn
    texts = [*ax.get_yticklabels(), *ticks, ax.xaxis.label, ax._right_title, ax._left_title, *ax.texts]
    for text in texts:
        box = text.get_window_extent()
        if text.get_text() and text.get_visible():
            assert box.x0 >= -1, text
            assert box.y0 >= -1, text
            assert box.x1 <= figure.bbox.width + 1, text
            assert box.y1 <= figure.bbox.height + 1, text
            for other in figure.axes:
                assert other is ax or not other.bbox.overlaps(box), text


# --- steps -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_small_effect_never_stands_right_of_a_large_one(res):
    """One axis for all rows: as numbers are ordered, so are dots."""
    ax = res.plot_coef(scaled=True)
    found = drawn(ax)
    want = {name: float(res.params[name]) * step for name, step in STEPS.items()}
    assert found == pytest.approx(want)
    ends = {tuple(s[:, 0]) for s in ax.collections[0].get_segments()}
    table = res.tidy().set_index("term")
    limits = {n: tuple(table.loc[n, ["conf_low", "conf_high"]].astype(float) * s) for n, s in STEPS.items()}
    np.testing.assert_allclose(sorted(ends), sorted(limits.values()))
    said = dict(label.partition(", per ")[::2] for label in labels(ax))
    assert said == {n: "" if s == 1 else f"{s:,g}" for n, s in STEPS.items()}
    assert ax.get_xlabel() == "change in y per step"
    assert "×" not in "".join(labels(ax))
    nothing_is_clipped(ax)


@pytest.mark.thorough
def test_steps_of_dates_have_their_unit():
    dates = {"bounds": PUBLIC["bounds"] | {"day": ("2020-01-01", "2020-12-31")}}
    data = rows().assign(day=pd.Timestamp("2020-06-01"))
    res = pr.PrivateOnlineRegression.from_formula("y ~ day", data, mu=1, **dates).fit(seed=1, progress=False)
    assert labels(res.plot_coef(scaled=True)) == ["day, per 182 days"]


@pytest.mark.thorough
def test_a_saved_figure_can_be_read(res):
    assert res.plot_coef(scaled=True).figure.dpi == 150
    with plt.rc_context({"figure.dpi": 300}):
        assert res.plot_coef(scaled=True).figure.dpi == 300


def test_coefficients_as_they_are_if_that_is_wanted(res):
    ax = res.plot_coef(intercept=True)
    assert labels(ax) == list(res.params.index)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), res.params)
    assert ax.get_xlabel() == "coefficient (y)"


def test_steps_are_those_of_the_schema_and_keep_through_files(res, tmp_path):
    assert dict(zip(res.params.index, sizes(res._fit.design), strict=True)) == STEPS | {"Intercept": 1.0}
    res.save(tmp_path / "r.privreg")
    again = pr.load(tmp_path / "r.privreg")
    assert drawn(again.plot_coef(scaled=True)) == drawn(res.plot_coef(scaled=True))


def test_all_columns_of_a_spline_have_a_step():
    rows = {"x": np.linspace(0, 9, 500), "y": np.zeros(500)}
    formula = "y ~ bs(x, knots=[3, 6], lower_bound=0, upper_bound=9)"
    model = pr.PrivateOnlineRegression.from_formula(formula, rows, mu=None, bounds={"x": (0, 9), "y": (-1, 1)})
    steps = sizes(model._spec.design)
    assert steps[0] == 1.0
    assert (steps[1:] <= 0.5).all()


@pytest.mark.thorough
def test_steps_learned_from_reports_where_nobody_declared_any(tmp_path):
    res = fit("y ~ age + C(g)", n=20_000, bounds={}, moments={}, scaling="private")
    steps = dict(zip(res.params.index, sizes(res._fit.design, res._fit.spreads), strict=True))
    assert steps["age"] == pytest.approx(2 * 47 / math.sqrt(12), rel=0.3)
    assert steps["C(g)[T.b]"] == 1.0
    assert np.isnan(sizes(res._fit.design)[list(res.params.index).index("age")])
    (label,) = [t for t in labels(res.plot_coef(scaled=True)) if t.startswith("age")]
    assert label == f"age, per {steps['age']:g}"
    res.save(tmp_path / "r.privreg")
    assert labels(pr.load(tmp_path / "r.privreg").plot_coef(scaled=True)) == labels(res.plot_coef(scaled=True))
    bare = pr.results.PrivateResults(dataclasses.replace(res._fit, spreads=None))  # as of an older file
    assert "age" in labels(bare.plot_coef(scaled=True))


@pytest.mark.thorough
def test_rows_alone_decide_no_step():
    """Other people under the same declarations: the same steps."""
    other = rows().assign(age=lambda d: d["age"] / 2 + 9, income=0.0)
    two = pr.PrivateOnlineRegression.from_formula(FORMULA, other, mu=1, **PUBLIC).fit(seed=3, progress=False)
    assert sizes(two._fit.design).tolist() == [STEPS.get(n, 1.0) for n in two.params.index]


def test_compared_models_share_the_step_of_the_first(res):
    other = fit("y ~ age + used", bounds=PUBLIC["bounds"] | {"age": (0, 100)})
    ax = pr.compare([other, res], names=["narrow", "wide"]).plot(scaled=True)
    assert labels(ax)[0] == "age, per 50"
    assert ax.lines[0].get_xdata()[0] == pytest.approx(50 * other.params["age"])
    wide = next(line for line in ax.lines if line.get_label() == "wide")
    assert 50 * res.params["age"] == pytest.approx(wide.get_xdata()[list(res.params.index[1:]).index("age")])
    assert set(t.partition(",")[0] for t in labels(ax)) == set(STEPS)


# --- ratios ------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("formula", "family", "word"),
    [
        ("s ~ age + used", "logistic", "odds ratio per step"),
        ("n ~ age + used", pr.Poisson(30), "rate ratio per step"),
        ("np.log(income + 1) ~ age + used", "huber", "ratio of income + 1 per step"),
    ],
)
def test_ratios_stand_on_a_logarithmic_axis(formula, family, word):
    res = fit(formula, family)
    ax = res.plot_coef(exponentiate=True, scaled=True)
    assert (ax.get_xscale(), ax.get_xlabel()) == ("log", word)
    assert drawn(ax)["age"] == pytest.approx(math.exp(23.5 * res.params["age"]))
    assert drawn(ax)["used"] == pytest.approx(math.exp(res.params["used"]))
    assert 1.0 in [line.get_xdata()[0] for line in ax.lines if len(set(line.get_xdata())) == 1]
    ax.figure.canvas.draw()
    ticks = [t.get_text() for t in ax.get_xticklabels() if t.get_text()]
    assert len(ticks) >= 2
    assert all("10^" not in t and float(t) > 0 for t in ticks)
    nothing_is_clipped(ax)


@pytest.mark.thorough
def test_axes_of_ratios_have_three_labels_or_more_one_of_them_at_no_effect():
    _, ax = plt.subplots()
    ax.set_xscale("log")
    for low in np.geomspace(1e-3, 2.0, 60):
        for high in low * np.geomspace(1.05, 1e6, 60):
            ax.set_xlim(low, high)
            style.log_axis(ax, "{:g}".format, *ax.get_xlim(), marked=1.0)
            ticks = ax.get_xticks()
            assert (1.0 in ticks) == (low <= 1.0 <= high)
            assert 3 <= len(ticks) <= 12
            assert ((low <= ticks) & (ticks <= high)).all()


def test_ratios_of_differences_are_refused(res):
    with pytest.raises(OptionError, match="exponentiate=True is for odds ratios"):
        res.plot_coef(exponentiate=True)
    with pytest.raises(OptionError, match="exponentiate="):
        res.plot_coef(exponentiate="yes")


@pytest.mark.thorough
def test_a_compared_table_of_ratios_is_drawn_as_ratios(odds):
    assert pr.compare([odds], exponentiate=True).plot().get_xscale() == "log"
    assert pr.compare([odds]).plot().get_xscale() == "linear"
    assert pr.compare([odds]).plot(exponentiate=True).get_xscale() == "log"


@pytest.mark.thorough
def test_wild_limits_stay_on_a_finite_axis(odds):
    wild = dataclasses.replace(odds._fit, params=odds._fit.params * 1e6)
    ax = pr.results.PrivateResults(wild).plot_coef(exponentiate=True)
    ax.figure.canvas.draw()
    assert np.isfinite(ax.get_xlim()).all()


# --- units -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_results_in_several_units_have_an_axis_each(res, odds):
    axes = pr.compare([res, odds], names=["y", "s"]).plot(scaled=True)
    assert [ax.get_xlabel() for ax in axes] == ["change in y per step", "change in log-odds per step"]
    assert [t.get_text() for ax in axes for t in ax.get_legend().get_texts()] == ["y", "s"]
    assert len(axes[0].lines[0].get_xdata()) == 7
    np.testing.assert_allclose(axes[1].lines[0].get_xdata(), odds.params[1:] * [23.5, 1])
    nothing_is_clipped(axes[0])
    _, given = plt.subplots(1, 2)
    assert pr.compare([res, odds]).plot(given).tolist() == given.tolist()
    with pytest.raises(
        OptionError, match=r"1 axes for results in 2 units \(coefficient \(y\), coefficient \(log-odds\)\)"
    ):
        pr.compare([res, odds]).plot(given[0])


# --- names in axes that are the user's ---------------------------------------------------------------------

LONG = [f"C(region_of_residence)[T.a rather long name {i}]" for i in range(20)]


def many(res, k, names=LONG):
    fit = res._fit
    keep = slice(0, k)
    design = dataclasses.replace(fit.design, names=tuple(names[:k]), probe=np.tile([[0.0], [1.0]], k))
    made = type("Made", (type(design),), {"bare": (None,) * k, "sources": (("g",),) * k})
    object.__setattr__(design, "__class__", made)
    reps = -(-k // len(fit.params))
    e = dataclasses.replace(fit.estimates[0], cov=np.diag(np.tile(fit.estimates[0].variances, reps)[keep]))
    return pr.results.PrivateResults(
        dataclasses.replace(
            fit, design=design, names=tuple(names[:k]), params=np.tile(fit.params, reps)[keep], estimates=(e,)
        )
    )


SIZES = [
    *itertools.product([(6.4, 4.8), (2.6, 6.0)], [3, 20], ["constrained"]),
    *itertools.product([(3.2, 2.4)], [3, 10], ["constrained", "tight"]),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "k", "layout"), SIZES)
def test_names_are_inside_a_figure_of_the_users(res, size, k, layout):
    _, ax = plt.subplots(figsize=size, layout=layout)
    results = many(res, k)
    assert results.plot_coef(ax=ax) is ax
    inside(ax)
    assert ax.get_position().width > 0.2
    assert ax.get_position().height > 0.2
    heights = [t.get_window_extent() for t in ax.get_yticklabels()]
    for a, b in itertools.pairwise(heights):
        assert b.y1 <= a.y0 + 0.35 * a.height  # lines may touch, not cover each other
    assert len(set(labels(ax))) == k


@pytest.mark.thorough
def test_names_stay_clear_of_the_axes_beside(res):
    _, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    many(res, 5).plot_coef(ax=axes[1, 1])
    inside(axes[1, 1])


def test_figures_of_figures_are_drawn_on(res):
    parts = plt.figure(figsize=(9, 3)).subfigures(1, 2)
    ax = parts[1].subplots()
    assert many(res, 4).plot_coef(ax=ax) is ax
    ax.figure.canvas.draw()


def test_a_figure_of_a_repeated_release_names_the_total(res):
    again = dataclasses.replace(res._fit.statement, release=Release(3, math.sqrt(3.0)))
    told = pr.results.PrivateResults(dataclasses.replace(res._fit, statement=again))
    assert "1.733-GDP per person in all 3 releases, this one 1-GDP" in " ".join(words(told.plot_coef()).split())
