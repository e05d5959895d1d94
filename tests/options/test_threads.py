"""Linear algebra takes one thread inside a fit, and as many as before outside."""

import threading

import numpy as np
import pytest
import threadpoolctl

import privreg as pr
from privreg.collector import rounds
from privreg.options.threads import one_thread


def taken():
    """Threads of each library of linear algebra."""
    return [x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]


@pytest.fixture
def usual():
    """What linear algebra takes here by itself."""
    np.linalg.inv(np.eye(2))
    found = taken()
    if max(found) == 1:
        pytest.skip("linear algebra takes one thread here anyway: one processor, or OMP_NUM_THREADS=1")
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
