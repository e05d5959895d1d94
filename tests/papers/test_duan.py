"""Numbers of Duan's thesis beside what its formulas give."""

import numpy as np
import pytest

import privreg as pr
from benchmarks.papers.duan import RESULTS, case_study, corrections, deviations, table_4_2
from benchmarks.papers.store import read_table
from privreg.privacy.scalar import number_mechanism

pytestmark = pytest.mark.reference

ONE, LAW = pr.Budget.declare(epsilon=1), np.arange(1, 11) / 10


def test_corrections_are_computed():
    table = corrections()
    assert table["corrected"][:4].round(2).tolist() == [4.28, 4131.69, 904.25, 6536.5]
    assert table["printed"][:4].tolist() == [27.08, 26_960.0, 26_960.0, 4_694.5]
    later = [-0.049975, 3.3303e-5, 0.5017, 0.02691, 70_340]  # see tests/reference/test_papers.py
    assert table["corrected"][4:].tolist() == pytest.approx(later, rel=1e-3)
    wave = pr.means.moments(number_mechanism("square_wave_biased", ONE, 0, 1), LAW)
    assert round((27.08 - wave.variance) / wave.bias**2, -1) == 26_960  # the printed break-even follows from 27.08
    assert "27.08" in table["why"][0]


def test_case_study_beside_the_printed_numbers():
    table = case_study().set_index("quantity")
    computed = table["computed"].to_numpy()
    assert computed[0] == pytest.approx(6536.5, abs=0.05)
    assert computed[1] == pytest.approx(4694.5, abs=0.1)
    assert computed[2] == 2 * computed[0]
    assert (table["printed"].dropna() == 4694.5).all()


def test_tails_of_table_4_2_are_not_rounded_to_nothing():
    """As recomputed from equations 4.22 and 4.23."""
    found = table_4_2().set_index("mechanism").loc["Square wave", "computed"]
    assert found.tolist() == pytest.approx([1.01e-17, 2.15e-12, 0.502, 1.0], rel=5e-3)


def test_stored_deviations_follow_the_normal_law():
    """Of eight: none is rejected at 1 in 1,000, and sds are within four standard errors of those predicted."""
    stored = read_table(RESULTS / "duan-figs4.3-4.5.csv")
    assert len(stored) == 8
    assert stored["p"].min() > 1e-3
    assert (stored["sd_ratio"] - 1).abs().max() < 4 / np.sqrt(2 * 1_000)


@pytest.mark.thorough
def test_fewer_deviations_follow_it_too():
    found = deviations(40)
    assert found["p"].min() > 1e-4
    assert (found["sd_ratio"] - 1).abs().max() < 5 / np.sqrt(2 * 40)
