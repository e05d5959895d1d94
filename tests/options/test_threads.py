"""Linear algebra takes one thread inside a fit, and as many as before outside."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

import privreg as pr
from privreg.collector import rounds
from privreg.options.running import one_thread

ROOT = Path(__file__).parents[2]


def taken():
    """Threads of each library of linear algebra."""
    return [x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]


@pytest.fixture
def usual():
    """What linear algebra takes here by itself."""
    np.linalg.inv(np.eye(2))
    found = taken()
    if max(found) == 1:
        pytest.skip("linear algebra takes one thread here anyway; the last test of this file gives it two")
    return found


def test_one_inside_and_as_many_as_before_outside(usual):
    with one_thread():
        assert set(taken()) == {1}
        with one_thread():
            assert set(taken()) == {1}
        assert set(taken()) == {1}
    assert taken() == usual


def test_whoever_ends_first_leaves_the_others_alone(usual):
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def long():
        with one_thread():
            inside.set()
            go_on.wait(10)
            seen.append(set(taken()))

    thread = threading.Thread(target=long)
    thread.start()
    assert inside.wait(10)
    with one_thread():
        pass
    assert set(taken()) == {1}
    go_on.set()
    thread.join(10)
    assert seen == [{1}]
    assert taken() == usual


def test_an_error_gives_them_back(usual):
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert taken() == usual


def test_a_fit_takes_one_and_gives_them_back(usual, monkeypatch):
    seen, own = [], rounds.moments.learn
    monkeypatch.setattr(rounds.moments, "learn", lambda *a, **k: (seen.append(set(taken())), own(*a, **k))[1])
    rng = np.random.default_rng(1)
    rows = {"x": rng.uniform(-1, 1, 2000), "y": rng.uniform(-1, 1, 2000)}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, mu=2, bounds={"x": (-1, 1), "y": (-1, 1)})
    model.fit(seed=1, progress=False)
    assert seen
    assert all(one == {1} for one in seen)
    assert taken() == usual


@pytest.mark.thorough
def test_all_of_this_in_a_process_whose_linear_algebra_takes_two():
    """Among others that run beside one another it takes one, or there is one processor."""
    np.linalg.inv(np.eye(2))
    if max(taken()) > 1:
        pytest.skip("the tests above have run")
    if len(os.sched_getaffinity(0)) == 1 if hasattr(os, "sched_getaffinity") else os.cpu_count() == 1:
        pytest.skip("one processor")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not all_of_this", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
    assert "skipped" not in done.stdout
