"""Numbers of Duan's thesis beside what its formulas give."""

import numpy as np
import pytest

import privreg as pr
from benchmarks.papers.duan import case_study, corrections
from privreg.privacy.scalar import number_mechanism

pytestmark = pytest.mark.reference

ONE, LAW = pr.Budget.declare(epsilon=1), np.arange(1, 11) / 10


def test_corrections_are_computed():
    table = corrections()
    assert table["corrected"].round(2).tolist() == [4.28, 4131.69, 904.25, 6536.5]
    assert table["printed"].tolist() == [27.08, 26_960.0, 26_960.0, 4_694.5]
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
