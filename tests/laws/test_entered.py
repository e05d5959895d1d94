"""A fit enters few files of the package at run time, so that it can be followed."""

import inspect
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg as pr

HOME = str(Path(pr.__file__).parent)


def entered(trust: str) -> list[str]:
    """Files of functions that are called by a default fit, from the formula to the results."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"x": rng.uniform(-1, 1, 4_000), "z": rng.uniform(-1, 1, 4_000)})
    people["y"] = 1 + 0.5 * people["x"] - 0.3 * people["z"] + rng.normal(0, 0.5, 4_000)
    found: set[str] = set()

    def noted(frame, event, _):
        code = frame.f_code
        called = event == "call" and code.co_flags & inspect.CO_OPTIMIZED  # no body of a module or class
        if called and code.co_filename.startswith(HOME):
            found.add(code.co_filename)

    model, before = pr.PrivateOnlineRegression, sys.getprofile()  # which is imported
    threading.setprofile(noted)
    sys.setprofile(noted)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bounds = {"y": (-4, 4), "x": (-1, 1), "z": (-1, 1)}
            made = model.from_formula("y ~ x + z", people, trust=trust, mu=1.0, bounds=bounds)
            made.fit(seed=1, progress=False)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return sorted(found)


@pytest.mark.parametrize(("trust", "most"), [("local", 60), ("two_collectors", 60), ("central", 60)])
def test_a_fit_enters_few_files(trust, most):
    files = entered(trust)
    assert f"{HOME}/doors/regression.py" in files
    assert len(files) <= most, files
