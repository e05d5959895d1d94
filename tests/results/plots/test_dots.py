"""Tables of estimates draw themselves: a dot and an interval for each row, or curves over numbers."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from privreg.errors import OptionError
from privreg.families.builtin import Huber, Logistic, Multinomial
from tests.helpers import array_model
from tests.results.test_effects import made
from tests.results.test_marks import ROWS, marked

VIEWS = {
    "marginal_means": lambda res: res.marginal_means("g"),
    "their differences": lambda res: res.marginal_means("g").pairwise(),
    "t_test_pairwise": lambda res: res.t_test_pairwise("g"),
    "t_test": lambda res: res.t_test("x = z, g[T.b] = 0"),
    "marginal_effects": lambda res: res.marginal_effects(ROWS),
    "effects of rows": lambda res: res.marginal_effects(ROWS, average=False),
    "get_prediction": lambda res: res.get_prediction(ROWS),
}
ZERO = {"marginal_means": False, "get_prediction": False}


@pytest.fixture(scope="module")
def base():
    return array_model(2000).fit(seed=1, progress=False)._fit


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def dots(ax):
    """Centres and whiskers that are drawn, in the order of the rows."""
    whiskers = [s[:, 0] for c in ax.collections if hasattr(c, "get_segments") for s in c.get_segments()]
    return ax.lines[0].get_xdata(), np.array(whiskers)


@pytest.mark.some(5)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize(("family", "response"), [(Huber(), "y"), (Logistic(), "won")])
def test_dots_and_whiskers_are_the_numbers_of_the_table(base, family, response, name):
    view = VIEWS[name](marked(made(base, "x + z + g", family, response=response), 0))
    frame, ax = view.summary_frame(0.1), view.plot(alpha=0.1)
    middle, whiskers = dots(ax)
    np.testing.assert_allclose(middle, frame.iloc[:, 0])
    np.testing.assert_allclose(whiskers, frame.iloc[:, -3:-1])
    labels = [t.get_text() for t in ax.get_yticklabels()]
    last = [str(i[-1] if isinstance(i, tuple) else i) for i in frame.index]
    assert [label for label in labels if label in last] == last
    hollow = [line.get_xdata() for line in ax.lines[1:] if line.get_marker() == "o"]
    assert sum(map(len, hollow)) == (~frame["reliable"]).sum()
    words = " ".join(t.get_text() for t in ax.texts)
    assert "90% intervals" in words
    assert ("hollow" in words) == (not frame["reliable"].all())
    lines = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert len(lines) == ZERO.get(name, True)  # a line at no effect, and none for means


def test_levels_of_the_response_are_headings(base):
    res = made(base, "x + g", Multinomial(), response="w")
    ax = res.marginal_means("g").plot(title="by level")
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels == ["lo", "a", "b", "c", "mid", "a", "b", "c", "hi", "a", "b", "c"]
    assert ax.figure._suptitle.get_text() == "by level"


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("family", "response", "levels"), [(Logistic(), "won", [""]), (Multinomial(), "w", "lo mid hi")]
)
def test_predictions_over_numbers_are_curves_with_bands(base, family, response, levels):
    res = made(base, "x + g", family, response=response)
    rows = pd.DataFrame({"x": [1.0, -1.0, 0.0, 2.0] * 20, "g": "a"})  # more than there is room for dots
    found = res.get_prediction(rows)
    own = plt.figure().add_subplot()
    ax = found.plot(rows["x"], ax=own)
    assert ax is own
    assert ax.get_xlabel() == "x"
    curves = [line for line in ax.lines if line.get_marker() != "o"]
    frame = found.summary_frame()
    for i, line in enumerate(curves):
        part = frame[frame["level"] == levels.split()[i]] if response == "w" else frame
        assert (np.diff(line.get_xdata()) >= 0).all()
        np.testing.assert_allclose(np.sort(line.get_ydata()), np.sort(part["mean"]))
    assert len(curves) == len(ax.collections) == (3 if response == "w" else 1)
    with pytest.raises(OptionError, match="more than the 60 that have room; draw them over x="):
        found.plot()
    with pytest.raises(OptionError, match="x must be a column of 80 numbers"):
        found.plot(rows["x"].head(3))


def test_ends_of_short_intervals_are_seen_beside_their_dots(base):
    ax = made(base, "x + g", Huber(), cov=1e-9 * np.eye(4)).marginal_means("g").plot()
    (ends,) = [c for c in ax.collections if not hasattr(c, "get_segments")]
    assert len(ends.get_offsets()) == 2 * 3
    assert np.sqrt(ends.get_sizes()[0]) > ax.lines[0].get_markersize()  # taller than a dot
