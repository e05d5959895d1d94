"""Two-valued and wide columns of the staged fit: what is brought in, what is said."""

import os

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector import curvature
from privreg.collector.reference import moment_diagonal, two_point_length, two_point_share
from privreg.data.sources.csv import _count_lines
from privreg.device.sampler import NoiseStream
from privreg.errors import OptionError, StreamError
from privreg.families.constants import ChainRules
from privreg.protocol.codes import HUBER
from privreg.protocol.plans import Shape


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_share_is_found_from_the_gap_at_which_its_moment_is_that_of_a_normal_coordinate(share):
    rng = np.random.default_rng(1)
    z = np.column_stack([np.ones(400_000), rng.standard_normal((400_000, 3))])
    on = rng.uniform(size=400_000) < share
    low, high = 0.5, 400.0
    for _ in range(40):  # the gap whose simulated E u² is the normal one
        gap = (low * high) ** 0.5
        z[:, 3] = (on - share) * gap
        moment = np.mean(z[:, 3] ** 2 / (z**2).sum(axis=1))
        low, high = (gap, high) if moment < moment_diagonal(4, True)[3] else (low, gap)
    assert two_point_share(gap, 4, True) == pytest.approx(share, rel=0.03)  # sd of the moment is below 0.3%
    length = np.mean(z[:, 3] ** 2 / np.sqrt((z**2).sum(axis=1)))
    normal = rng.standard_normal((400_000, 3))
    usual = np.mean(normal[:, 2] ** 2 / np.sqrt(1 + (normal**2).sum(axis=1)))
    assert two_point_length(share, gap, 4, True) == pytest.approx(length / usual, rel=0.02)


def test_stretched_two_valued_columns_are_brought_in_and_others_left_alone():
    rows = np.diag([1.0, 12.0, 2.0, 30.0])
    out, shares = curvature.bring_in(rows, (0.0, 2.0, 0.5, 0.0), constant=True)
    np.testing.assert_allclose(np.diag(out), [1.0, curvature.FARTHEST / 2, 2.0, 30.0])
    assert np.isnan(shares[[0, 3]]).all()
    assert shares[1] < 0.05
    assert shares[2] == 0.5


def test_rare_and_wide_columns_are_named():
    rules = ChainRules(Shape(HUBER, 0.0, 0.0, 0), 0.5, True, 0.383, 0.383, 0.352, moving=False)
    shares = np.array([np.nan, 0.02, 0.3, np.nan])
    assert curvature.rare(shares, rules, 1.0, 10**6) == [1]
    assert curvature.rare(shares, rules, 1.0, 2_000) == [1, 2]
    assert curvature.rare(np.full(4, np.nan), rules, 1.0, 10) == []
    assert curvature.wide(np.diag([1.0, 50.0, 4.0, 50.0]), (0.0, 0.0, 0.0, 2.0), (), True) == [(1, 100.0)]


def test_summary_says_so_for_a_rare_level_wide_bounds_and_more_people_than_said():
    rng = np.random.default_rng(2)
    n = 40_000
    data = pd.DataFrame({"x": rng.standard_normal(n), "g": (rng.uniform(size=n) < 0.01).astype(int)})
    data["y"] = data["x"] + 0.5 * rng.standard_normal(n)
    given = {"mu": 1, "bounds": {"x": (-4, 4), "y": (-6, 6)}, "levels": {"g": [0, 1]}}
    notes = " ".join(pr.PrivateOnlineRegression.from_formula("y ~ x + C(g)", data, **given).fit(seed=1).privacy.notes)
    assert "don't rely on the intervals: too few people at this budget seem" in notes
    assert "the smaller group of C(g)[T.1] (some " in notes
    given = {"mu": 1, "bounds": {"x": (-400, 400), "y": (-6, 6)}}
    notes = " ".join(pr.PrivateOnlineRegression.from_formula("y ~ x", data, **given).fit(seed=1).privacy.notes)
    assert "the bounds of x span" in notes
    given["bounds"]["x"] = (-4, 4)
    stream = pr.PrivateOnlineRegression.from_formula("y ~ x", None, **given, rows=10_000).start(seed=1)
    assert "rows=10,000 was said and 40,000 people came" in " ".join(stream.update(data).results().privacy.notes)


def test_records_are_counted_not_line_ends_inside_cells(tmp_path):
    path = tmp_path / "people.csv"
    for text in ('a,b\n1,"x\ny\n"\n2,z\n', "a,b\r\n1,x\r\n2,z", 'a,b\r1,"x\r"\r2,z\r'):
        path.write_bytes(text.encode())
        assert _count_lines(path) == 2


@pytest.mark.parametrize("c", [0.01, 2.5, 50])
def test_a_corner_that_cannot_find_the_scale_is_refused(c):
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x", None, mu=1, bounds={"x": (0, 1), "y": (0, 1)}, family=pr.Huber(c=c)
    )
    with pytest.raises(OptionError, match=r"declare it, as in Huber\(c="):
        model.start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_cannot_hand_out_the_noise_by_saving(monkeypatch):
    stream = NoiseStream(bytes(32), 3)
    stream.peek()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StreamError, match="another process"):
        stream.secret_state()
