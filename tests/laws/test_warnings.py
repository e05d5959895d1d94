"""Warnings name the line that called the package, however deep inside the reason is found."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg as pr

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("privreg/**/*.py"), *ROOT.glob("packages/field/privreg_field/**/*.py")])
MU = {"mu": 1, "bounds": {"x": (-1, 1), "y": (-4, 4)}}
FEW = {"mu": 0.05, "trust": "central", "progress": False, "seed": 1}


def rows(n=300):
    rng = np.random.default_rng(1)
    x, time = rng.uniform(-1, 1, n), rng.exponential(50, n)
    out = pd.DataFrame({"x": x, "y": x + rng.normal(size=n), "time": np.minimum(time, 100), "event": time < 100})
    return out.assign(g=np.where(np.arange(n) == 0, "a", "b"), event=out["event"].astype(int))


def model(**options):
    return pr.PrivateOnlineRegression.from_formula("y ~ x", rows(), **{**MU, **options})


def streamed():
    stream = pr.means.PrivateMeans(["g"], mu=8, levels={"g": ["a", "b"]}).start(seed=1)
    stream.update(rows())
    return stream.results()


def taken_twice(folder):
    stream = pr.PrivateOnlineRegression.from_formula("y ~ x", **MU).start()
    stream.update(rows())
    stream.save(folder / "stream")
    pr.load(folder / "stream")
    return pr.load(folder / "stream")


CURVES = "Surv(time, event, [20, 40, 60, 80]) ~ 1"
CASES = {
    "means": lambda _: pr.means.estimate(rows(), "C(g)", mu=8, levels={"g": ["a", "b"]}, progress=False, seed=1),
    "fit of means": lambda _: pr.means.PrivateMeans(["g"], rows(), mu=8, levels={"g": ["a", "b"]}).fit(seed=1),
    "stream of means": lambda _: streamed(),
    "table one": lambda _: pr.table_one(rows(), "C(g)", mu=8, levels={"g": ["a", "b"]}, progress=False, seed=1),
    "curves": lambda _: pr.survival(rows(30), CURVES, **FEW),
    "curves of a method": lambda _: pr.means.survival(rows(30), CURVES, method="kaplan_meier", **FEW),
    "curves among means": lambda _: pr.means.estimate(rows(30), CURVES, **FEW),
    "levels": lambda _: pr.Schema.declare(levels={"g": ["a", "a "]}),
    "levels of means": lambda _: pr.means.PrivateMeans(["g"], rows(), mu=1, levels={"g": ["a", "b", "b "]}),
    "levels of a model": lambda _: pr.PrivateOnlineRegression.from_formula(
        "y ~ g", rows(), **MU, levels={"g": ["a", "b", "b "]}
    ),
    "steps": lambda _: model().fit(step=1.0, progress=False, inference=None),
    "regression": lambda _: model(mu=0.01).fit(progress=False, seed=1),
    "stream": lambda folder: taken_twice(folder),
    "score": lambda _: pr.families.custom("steep", lambda eta, y: 2.0 * np.tanh(eta - y), 1.0),
    "outside": lambda _: model(mu=20).fit(progress=False, seed=1).predict(pd.DataFrame({"x": [3.0]})),
    "level": lambda _: model(mu=20).fit(progress=False, seed=1).conf_int(alpha=0.9),
}


@pytest.mark.parametrize("case", CASES)
def test_a_warning_names_the_line_that_called(case, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CASES[case](tmp_path)
    ours = [w for w in caught if issubclass(w.category, pr.errors.PrivregWarning | pr.errors.PrivacyLeakWarning)]
    assert ours
    assert {w.filename for w in ours} == {__file__}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_one_function_warns(source):
    text = source.read_text()
    tree = ast.parse(text if "warn" in text else "")  # a call of that name has it as it stands
    calls = [ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)]
    known = source == ROOT / "privreg/errors.py"
    assert calls.count("warnings.warn") == known
    assert not [call for call in calls if call == "warnings.warn_explicit"]
