"""The privacy plot draws the guarantee, and says so where there is none."""

import builtins
import sys

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import norm

from privreg.errors import MissingExtraError, OptionError
from privreg.privacy.conversions import dp_tradeoff
from privreg.privacy.ledger import Budget, Release
from privreg.results.plots.privacy import privacy_curve
from tests.results.test_statement import VARIANTS, pure, statement

mpl.use("Agg")
declare = Budget.declare


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def curve(ax, label):
    (line,) = [one for one in ax.lines if one.get_label().startswith(label)]
    return line.get_data()


def words(figure):
    (key,) = figure.legends
    return [t.get_text() for t in key.get_texts()]


@pytest.mark.thorough
def test_gaussian_curves():
    tradeoff, roc = privacy_curve(statement())
    one, two = curve(tradeoff, "1-GDP")
    np.testing.assert_allclose(two[1:-1], norm.cdf(norm.isf(one[1:-1]) - 1), atol=1e-12)
    false, true = curve(roc, "1-GDP")
    np.testing.assert_allclose(true, 1 - two)
    np.testing.assert_array_equal(false, one)
    marks = roc.lines[-1].get_data()
    np.testing.assert_allclose(marks[0], [0.01, 0.05])
    np.testing.assert_allclose(marks[1], norm.sf(norm.isf([0.01, 0.05]) - 1))
    assert words(roc.figure) == ["blind guessing: 1% and 5%", "1-GDP: 9.3% and 26%"]


def test_pure_curves_have_their_corner():
    tradeoff, _ = privacy_curve(pure(2.0))
    one, two = curve(tradeoff, "2-DP (pure)")
    corner = 1 / (1 + np.exp(2))
    assert two[np.flatnonzero(np.isclose(one, corner))[0]] == pytest.approx(corner)
    np.testing.assert_allclose(two, np.maximum(1 - np.exp(2) * one, np.exp(-2) * (1 - one)), atol=1e-12)


def test_a_budget_with_delta_is_drawn_as_granted():
    tradeoff, _ = privacy_curve(declare(epsilon=1, delta=0.05))
    at, granted = curve(tradeoff, "(1, 0.05)-DP by Gaussian noise")
    assert (granted >= dp_tradeoff(1, 0.05, at) - 1e-9).all()


@pytest.mark.thorough
def test_totals_are_drawn_and_no_privacy_says_so():
    _, roc = privacy_curve(VARIANTS["rows"])
    _, true = curve(roc, "≤ 2-GDP")
    np.testing.assert_allclose(true[1:-1], norm.cdf(norm.ppf(curve(roc, "≤")[0][1:-1]) + 2), atol=1e-9)
    for none in (VARIANTS["none"], declare(mu=None)):
        tradeoff, roc = privacy_curve(none)
        np.testing.assert_array_equal(curve(tradeoff, "NOT PRIVATE")[1], 0)
        assert "NOT PRIVATE: 100% and 100%" in words(roc.figure)
        assert any("NOT PRIVATE" in t.get_text() for t in roc.texts)
    _, roc = privacy_curve(VARIANTS["seeded"])
    assert any("NOT PRIVATE AS RUN" in t.get_text() for t in roc.texts)


def test_several_are_overlaid_and_told_apart():
    given = [statement(), pure(), declare(rho=2), declare(mu=None)]
    tradeoff, roc = privacy_curve(given)
    assert len(words(roc.figure)) == 5
    assert "2-GDP" in words(roc.figure)[3]
    drawn = [one for one in tradeoff.lines if not one.get_label().startswith("_")]
    assert len({(one.get_color(), one.get_linestyle()) for one in drawn}) == len(given)
    _, roc = privacy_curve(given[:2], labels=["a$b", "c"])
    assert words(roc.figure)[1].startswith(r"a\$b: ")


@pytest.mark.parametrize(("mu", "together"), [(3.0, "3-GDP"), (np.inf, "NOT PRIVATE")])
def test_all_releases_of_the_same_people_are_drawn_beside_the_last(mu, together):
    tradeoff, roc = privacy_curve(statement(release=Release(2, mu)))
    assert [text.split(": ")[0] for text in words(roc.figure)[1:]] == [
        "1-GDP, this release alone", f"{together}, all 2 releases",
    ]  # fmt: skip
    at, missed = curve(tradeoff, together)
    np.testing.assert_allclose(missed[1:-1], norm.cdf(norm.ppf(1 - at[1:-1]) - mu), atol=1e-9)


@pytest.mark.thorough
def test_nothing_overlaps_or_is_cut_off():
    axes = privacy_curve([statement(), pure(), declare(epsilon=1, delta=1e-6), declare(mu=3), declare(mu=None)])
    figure = axes[0].figure
    figure.canvas.draw()
    page = figure.bbox
    boxes = [figure.legends[0].get_window_extent(), *(ax.get_tightbbox() for ax in axes)]
    for box in boxes:
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_given_axes_are_drawn_on():
    import matplotlib.pyplot as plt

    _, given = plt.subplots(1, 2)
    out = privacy_curve(VARIANTS["seeded"], ax=given)
    assert list(out) == list(given)
    assert given[1].get_legend() is not None
    assert "NOT PRIVATE AS RUN" in given[1].get_title(loc="right")


def test_bad_calls_are_named():
    for bad in ([], "1-GDP", 1.0, [statement(), 1.0]):
        with pytest.raises(OptionError, match=r"res\.privacy"):
            privacy_curve(bad)
    for labels in (["a", "b"], "a"):
        with pytest.raises(OptionError, match="labels for 1 guarantees"):
            privacy_curve(statement(), labels=labels)
    with pytest.raises(OptionError, match="1 axes for two panels"):
        privacy_curve(statement(), ax=[privacy_curve(statement())[0]])


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [m for m in sys.modules if m == "matplotlib" or m.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtraError, match=r"\.\[plot\]"):
        privacy_curve(statement())
