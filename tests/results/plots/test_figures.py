"""Plots draw what the results hold, in their own style, and leave matplotlib's settings alone."""

import builtins
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import privreg as pr
from privreg.errors import InferenceError, MissingExtraError, OptionError, PrivregError
from tests.helpers import array_model, people
from tests.results.test_summary import wide

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

from privreg.results.plots import coefficients  # noqa: E402
from privreg.results.plots.privacy import privacy_curve  # noqa: E402


@pytest.fixture(scope="module", params=["efficient", "published"])
def fitted(request):
    return array_model(3000).fit(seed=1, progress=False, tuning=request.param)


@pytest.fixture(scope="module")
def other():
    return array_model(3000, mu=2).fit(seed=2, progress=False, inference=None)


@pytest.fixture(autouse=True)
def _figures_are_closed_and_settings_untouched():
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def words(ax):
    ax.figure.canvas.draw()
    return " ".join(t.get_text() for t in [*ax.texts, ax.title, ax._left_title, ax._right_title])


def nothing_is_clipped(ax):
    figure = ax.figure
    figure.canvas.draw()
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert box.x0 >= -0.02
    assert box.y0 >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02


def check_curve(line, band, path):
    np.testing.assert_array_equal(line.get_xdata(), path["n"])
    np.testing.assert_array_equal(line.get_ydata(), path["estimate"])
    edge = band.get_paths()[0].vertices
    drawn = path.dropna()  # there is no band before main rounds begin
    assert len(drawn) > 2
    assert set(drawn["low"]) | set(drawn["high"]) <= set(edge[:, 1])
    assert np.isfinite(edge).all()
    assert set(edge[:, 0]) == set(drawn["n"])


@pytest.mark.thorough
def test_trajectory_draws_trajectory(fitted):
    ax = coefficients.plot_trajectory(fitted, "a", alpha=0.1)
    path = fitted.trajectory(0.1)
    check_curve(ax.lines[0], ax.collections[0], path[path["term"] == "a"])
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "records"
    assert "90% bands" in words(ax)
    assert "1-GDP per person" in " ".join(words(ax).split())
    nothing_is_clipped(ax)


@pytest.mark.thorough
@pytest.mark.some(1)
def test_several_terms_get_a_panel_each_on_one_people_axis(fitted):
    axes = fitted.plot_trajectory()
    assert [a._left_title.get_text() for a in axes] == [f"{name} †" for name in fitted.params.index]
    path = fitted.trajectory()
    for ax, term in zip(axes, fitted.params.index, strict=True):
        check_curve(ax.lines[0], ax.collections[0], path[path["term"] == term])
        assert ax.get_xlim() == axes[0].get_xlim()
    nothing_is_clipped(axes[0])
    assert len(axes[0].figure.axes) == 4
    assert len(coefficients.plot_trajectory(wide(fitted, 4), None)[0].figure.axes) == 4


@pytest.mark.thorough
def test_a_long_title_is_folded(fitted):
    name = "medical_history[T.High blood pressure, as a doctor said]"
    res = type(fitted)(dataclasses.replace(fitted._fit, names=(name, *fitted._fit.names[1:])))
    title = res.plot_trajectory()[0]._left_title.get_text()
    assert "\n" in title
    assert title.replace("\n", "").removesuffix(" †") == name


@pytest.mark.some(1)
def test_trajectory_draws_on_given_axes(fitted):
    _, ax = plt.subplots()
    assert coefficients.plot_trajectory(fitted, ["a", "b"], ax=ax) is ax
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a †", "b †"]
    _, pair = plt.subplots(1, 2)
    out = coefficients.plot_trajectory(fitted, ["b", "a"], ax=pair)
    assert [a._left_title.get_text() for a in out] == ["b †", "a †"]
    with pytest.raises(OptionError, match="2 axes for 3 terms"):
        coefficients.plot_trajectory(fitted, ["a", "b", "c"], ax=pair)


@pytest.mark.some(1)
def test_the_end_of_a_trajectory_is_seen(fitted):
    path = fitted.trajectory()
    path = path[path["term"] == "a"].assign(n=lambda d: np.arange(1, len(d) + 1) * 100)
    half = np.full(len(path), 1.0)
    half[0] = 400.0
    curve = path.assign(estimate=5.0, low=5.0 - half, high=5.0 + half)
    _, ax = plt.subplots()
    coefficients._curve(ax, curve, 0, None, curve)
    low, high = ax.get_ylim()
    assert low <= 4.0
    assert high >= 6.0
    assert 2.0 / (high - low) > 0.1  # share of the last band
    _, ax = plt.subplots()
    coefficients._curve(ax, near := curve.assign(low=4.5, high=5.5), 0, None, near)
    assert ax.get_ylim() == pytest.approx((4.45, 5.55))


@pytest.mark.thorough
def test_a_curators_trajectory_of_one_point_has_its_interval():
    res = array_model(3000, trust="central").fit(seed=1, progress=False)
    ax, end = coefficients.plot_trajectory(res, "a"), res.trajectory().iloc[0]
    bar, dot = ax.lines[:2]
    assert [*bar.get_ydata(), *dot.get_ydata()] == [end["low"], end["high"], end["estimate"]]
    low, high = ax.get_xlim()
    assert low < end["n"] < high


def test_trajectory_without_bands_claims_none(other):
    ax = coefficients.plot_trajectory(other, "a")
    assert "band" not in words(ax)
    assert "2-GDP" in words(ax)


@pytest.mark.thorough
def test_results_taken_before_main_rounds_are_drawn_without_bands():
    x, y = people(3000)
    early = array_model(rows=3000).start().update((y[:600], x[:600])).results()
    for ax in (early.plot_trajectory("a"), early.plot_coef()):
        assert "band" not in words(ax)
        assert "interval" not in words(ax)
        nothing_is_clipped(ax)


@pytest.mark.parametrize("terms", ["d", ["a", "zz"], [], 4, 2.5])
def test_unknown_terms_are_refused(fitted, terms):
    with pytest.raises(OptionError, match="terms"):
        coefficients.plot_trajectory(fitted, terms)


@pytest.mark.thorough
def test_coefficients_draws_tidy(fitted):
    ax = coefficients.plot_coef(fitted, alpha=0.1, intercept=True)
    table = fitted.tidy(alpha=0.1)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), table["estimate"])
    ends = np.array([s[:, 0] for s in ax.collections[0].get_segments()])
    np.testing.assert_array_equal(ends, table[["conf_low", "conf_high"]])
    assert [t.get_text() for t in ax.get_yticklabels()] == list(table["term"])
    assert "90% intervals" in words(ax)
    nothing_is_clipped(ax)
    steps = [t.get_text().partition(", per ") for t in fitted.plot_coef(scaled=True).get_yticklabels()]
    assert [name for name, _, _ in steps] == ["a", "b", "c"]


@pytest.mark.some(1)
def test_several_results_stand_apart(fitted, other):
    ax = coefficients.plot_coef(
        coefficients.Side([fitted, other, fitted], ["one $x", "a second, rather long label", "three"])
    )
    lines = ax.lines[:3]
    assert len({line.get_marker() for line in lines}) == 3
    assert len({line.get_color() for line in lines}) == 3
    heights = np.concatenate([line.get_ydata() for line in lines])
    assert len(set(heights)) == len(heights) == 9
    assert sum(hasattr(c, "get_segments") for c in ax.collections) == 2  # no whiskers without inference
    assert "per person: 1-GDP (seeded), 2-GDP (seeded)" in words(ax)
    nothing_is_clipped(ax)


@pytest.mark.some(1)
def test_a_term_one_result_lacks_is_left_out_there(fitted):
    fewer = wide(fitted, 2, names=("a", "new"))
    ax = pr.compare([fitted, fewer]).plot()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c", "new"]
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), fewer.params)


@pytest.mark.thorough
def test_dollar_signs_in_names_are_letters(fitted):
    ax = coefficients.plot_coef(wide(fitted, 2, names=("$a^$", "b$")))
    nothing_is_clipped(ax)  # would fail to parse as a formula
    coefficients.plot_trajectory(fitted, "a").figure.canvas.draw()


@pytest.mark.thorough
def test_a_fit_without_privacy_says_so():
    free = array_model(mu=None).fit(progress=False)
    assert "NOT PRIVATE" in words(coefficients.plot_coef(free))
    assert "NOT PRIVATE" in words(coefficients.plot_trajectory(free, "a"))


@pytest.mark.some(1)
def test_given_axes_are_drawn_on(fitted):
    _, ax = plt.subplots()
    assert coefficients.plot_coef(fitted, ax=ax) is ax
    assert len(plt.get_fignums()) == 1


def test_coefficients_refuses_what_it_cannot_draw(fitted):
    for bad in ("yes", None):
        with pytest.raises(OptionError, match="scaled"):
            coefficients.plot_coef(fitted, scaled=bad)
    with pytest.raises(InferenceError, match="intercept=True"):
        coefficients.plot_coef(wide(fitted, 1, names=("const",)))


@pytest.mark.some(1)
def test_without_matplotlib_the_extra_is_named(fitted, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [m for m in sys.modules if m == "matplotlib" or m.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, name)
    for draw in (
        lambda: coefficients.plot_trajectory(fitted),
        lambda: coefficients.plot_coef(fitted),
    ):
        with pytest.raises(MissingExtraError, match=r"\.\[plot\]") as caught:
            draw()
        assert isinstance(caught.value, ImportError)
        assert isinstance(caught.value, PrivregError)


@pytest.mark.some(1)
def test_the_privacy_plot_of_results_is_that_of_their_statement(fitted):
    tradeoff, roc = fitted.plot_privacy()
    false, true = roc.lines[0].get_data()
    np.testing.assert_allclose(true[1:-1], norm.cdf(norm.ppf(false[1:-1]) + 1.0))
    assert (true[0], true[-1]) == (0, 1)
    np.testing.assert_array_equal(tradeoff.lines[0].get_ydata(), 1 - true)
    with pytest.raises(OptionError, match="1 axes for two panels"):
        fitted.plot_privacy(ax=[roc])


@pytest.mark.some(1)
@pytest.mark.parametrize(("per_id", "what"), [(1, "two records of one person"), (3, "two sets of a person's rows")])
def test_a_privacy_plot_says_what_is_distinguished(fitted, per_id, what):
    axes = privacy_curve(dataclasses.replace(fitted.privacy, per_id=per_id))
    said = " ".join(text.get_text() for text in axes[0].figure.findobj(mpl.text.Text))
    assert f"distinguishing {what}, knowing" in " ".join(said.split())


@pytest.mark.thorough
def test_drawing_leaves_a_notebooks_interactive_mode_on(tmp_path):
    """A notebook's backend turns it on where it is loaded; off, only the first figure would be seen."""
    backend = "import matplotlib\nfrom matplotlib.backends.backend_agg import *\nmatplotlib.interactive(True)\n"
    (tmp_path / "a_notebook.py").write_text(backend)
    code = "import matplotlib, privreg as pr\nfrom privreg.results.plots.privacy import privacy_curve\n"
    code += "privacy_curve(pr.Budget.declare(mu=1))\nprint(matplotlib.is_interactive())"
    paths = os.pathsep.join([str(tmp_path), str(Path(pr.__file__).parents[1])])
    env = {**os.environ, "MPLBACKEND": "module://a_notebook", "PYTHONPATH": paths}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "True"


# --- the user's own style ---------------------------------------------------------------------------------


def lightness(colour):
    return float(np.array(mpl.colors.to_rgb(colour)) @ (0.299, 0.587, 0.114))


def drawn(figure):
    """What is drawn on a figure's axes, and its texts, each with the lightness of its colour."""
    figure.canvas.draw()
    out = []
    for ax in figure.axes:
        lines = [line for line in ax.lines if line.get_linestyle() != "None" or line.get_marker() != "None"]
        out += [(line, line.get_color()) for line in lines]
        out += [(c, colour) for c in ax.collections for colour in c.get_edgecolor()]
        axis = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
        texts = [*ax.texts, *axis, ax.title, ax._left_title, ax._right_title]
        out += [(t, t.get_color()) for t in texts if t.get_text()]
        out += [(s, s.get_edgecolor()) for s in ax.spines.values() if s.get_visible()]
    return [(what, lightness(colour)) for what, colour in out]


PLOTS = {
    "coefficients": lambda res: res.plot_coef(),
    "several": lambda res: pr.compare([res] * 6).plot(),
    "trajectory": lambda res: res.plot_trajectory(["a", "b"])[0],
    "privacy": lambda res: res.plot_privacy()[0],
    "plan": lambda _: pr.plan("y ~ x", mu=1, n=20_000, scale=1, bounds={"x": (0, 1), "y": (0, 1)}).plot("x"),
}


@pytest.mark.some(1)
@pytest.mark.usefixtures("coarse_contours")
@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_plots_are_read_on_light_and_on_dark_grounds(fitted, style, plot):
    with plt.style.context(style):
        figure = PLOTS[plot](fitted).figure
        ground = lightness(figure.get_facecolor())
        found = drawn(figure)
    assert len(found) > 5
    assert ground == (0.0 if style == "dark_background" else pytest.approx(1.0))
    for what, light in found:
        assert abs(light - ground) > 0.25, what


@pytest.mark.some(1)
def test_given_axes_say_what_ground_there_is(fitted):
    _, ax = plt.subplots()
    ax.set_facecolor("#202020")
    fitted.plot_coef(ax=ax)
    assert lightness(ax._right_title.get_color()) < 0.5  # stands on the figure, which is white
    assert min(lightness(line.get_color()) for line in ax.lines) > 0.5


@pytest.mark.thorough
def test_labels_of_contours_stand_apart_and_on_the_axes():
    ax = pr.plan("y ~ x", mu=1, n=20_000, width={"x": 0.2}, scale=1, bounds={"x": (0, 1), "y": (0, 1)}).plot("x")
    ax.figure.canvas.draw()
    boxes = [t.get_window_extent() for t in ax.texts if t.get_text()]
    assert len(boxes) >= 4
    for i, box in enumerate(boxes):
        assert ax.bbox.contains(*box.min)
        assert ax.bbox.contains(*box.max)
        middle = (box.min + box.max) / 2
        assert all(not other.contains(*middle) for j, other in enumerate(boxes) if j != i)


DRAWN = {
    "plot_coef": lambda res, ax: res.plot_coef(ax=ax),
    "plot_trajectory": lambda res, ax: res.plot_trajectory(ax=ax),
    "plot_privacy": lambda res, ax: res.plot_privacy(ax=ax),
    "windows": lambda res, ax: res.windows(1_000).plot("a", ax=ax),
}


@pytest.mark.some
@pytest.mark.parametrize("ax", [3, "x", [3, 4], object()], ids=repr)
@pytest.mark.parametrize("name", DRAWN)
def test_what_is_no_axes_is_refused(name, ax):
    res = array_model(3_000).fit(seed=1, progress=False, order="position")
    with pytest.raises(OptionError, match=r"^ax"):
        DRAWN[name](res, ax)
