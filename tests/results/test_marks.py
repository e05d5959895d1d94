"""A coefficient that is not to be relied on marks what depends on it, in every view, and nothing else."""

import dataclasses
from html import unescape

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.families import Huber, Logistic, Multinomial, Poisson
from privreg.results.results import PrivateResults
from privreg.results.several.comparison import Comparison
from privreg.tables.diagnostics import doubt
from tests.helpers import array_model
from tests.results.made import made

RIGHT = "x + z + x:z + g"
FITS = {
    "mean": (Huber(), "y"),
    "odds": (Logistic(), "won"),
    "rate": (Poisson(50), "y"),
    "classes": (Multinomial(), "w"),
}
ROWS = pd.DataFrame({"x": [0.0, 0.5, -1.0], "z": [1.0, 0.5, 2.0], "g": ["a", "b", "c"]})


@pytest.fixture(scope="module")
def base():
    return array_model(2000).fit(seed=1, progress=False)._fit


def marked(res, j):
    """The results with a doubt about coefficient j, and only that."""
    statement = dataclasses.replace(res.privacy, notes=(doubt("rare", "this one", [j]),))
    return PrivateResults(dataclasses.replace(res._fit, statement=statement))


def contrasts(res):
    """One coefficient, a difference of two, and a sum of two others."""
    p = len(res._fit.names)
    eye = np.eye(p)
    return res.t_test(np.array([eye[0], eye[1] - eye[2], eye[-1] + eye[-2]]))


VIEWS = {
    "tidy": lambda res: res.tidy(),
    "t_test": contrasts,
    "t_test_pairwise": lambda res: res.t_test_pairwise("g"),
    "get_prediction": lambda res: res.get_prediction(ROWS),
    "anova": lambda res: res.anova(),
    "wald_test_terms": lambda res: res.wald_test_terms(),
    "compare": lambda res: pr.compare([res]),
}
FRAMES = ("result_frame", "table", "frame", "summary_frame")


def frame_of(view):
    if isinstance(view, pd.DataFrame):
        return view
    found = getattr(view, next(name for name in FRAMES if hasattr(view, name)))
    frame = found if isinstance(found, pd.DataFrame) else found()
    return frame["(1)"] if isinstance(view, Comparison) else frame


def moved(view, res, j):
    """Which lines of the view change with coefficient j; of predictions for classes, whether any of the row's does."""
    fit, h = res._fit, 1e-4
    shifted = PrivateResults(dataclasses.replace(fit, params=fit.params + h * (np.arange(len(fit.params)) == j)))
    before, after = (frame_of(view(r)) for r in (res, shifted))
    value = next(c for c in ("estimate", "coef", "effect", "mean", "statistic", "chi2") if c in before)
    out = (before[value] - after[value]).abs() > 1e-9 * before[value].abs().max()
    return out.groupby(level=0).transform("any") if "level" in before and value == "mean" else out


@pytest.mark.some(1)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("kind", FITS)
def test_lines_are_marked_if_and_only_if_they_change_with_the_coefficient(base, kind, name):
    family, response = FITS[kind]
    cov = 1e-4 * np.eye(12 if response == "w" else 6)
    res, view = made(base, RIGHT, family, response=response, cov=cov), VIEWS[name]
    res = PrivateResults(dataclasses.replace(res._fit, statement=dataclasses.replace(res.privacy, notes=())))
    assert frame_of(view(res))["reliable"].all()
    seen = set()
    for j in sorted({0, 2, 5, len(res._fit.names) - 4}):  # the constant, a level, a slope and a level of the last class
        shown = view(marked(res, j))
        kept = frame_of(shown)["reliable"].astype(bool).to_numpy()
        np.testing.assert_array_equal(~kept, moved(view, res, j).to_numpy(), err_msg=res._fit.names[j])
        seen |= set(kept)
        if isinstance(shown, pd.DataFrame):
            continue
        lines = (~kept).sum()
        for text in (str(shown), *([unescape(shown._repr_html_())] if j == 2 else [])):
            assert text.count("†") >= lines
            assert ("†" in text) == (lines > 0)
            assert "this one" in text.replace("\n", " ") or not lines
    assert seen == {True, False} or name == "get_prediction"


@pytest.mark.parametrize("asked", ["x", "x, g", "x = z"])
def test_a_joint_test_is_marked_by_what_it_tests_alone(base, asked):
    res = made(base, RIGHT, Huber())
    names = list(res._fit.names)
    for j in range(len(names)):
        test = marked(res, j).wald_test(asked)
        tested = names[j] in {"x": ["x"], "x, g": ["x", "g[T.b]", "g[T.c]"], "x = z": ["x", "z"]}[asked]
        assert test.reliable is not tested
        assert ("†" in str(test)) is tested
