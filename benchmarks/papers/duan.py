"""Printed numbers of Duan's thesis that don't follow from its formulas, computed anew.

``python -m benchmarks.papers.duan``
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd

from privreg.means import break_even, moments
from privreg.privacy.ledger import Budget, gdp_mu
from privreg.privacy.scalar import number_mechanism


def corrections() -> pd.DataFrame:
    """Printed numbers of the source that don't follow from its formulas, computed anew: where, printed, corrected, why.

    Examples
    --------
    >>> corrections()[["printed", "corrected"]].round(2).values.tolist()
    [[27.08, 4.28], [26960.0, 4131.69], [26960.0, 904.25], [4694.5, 6536.5]]
    """
    values = np.arange(1, 11) / 10
    one = Budget.declare(epsilon=1)
    wave = partial(break_even, "square_wave_biased", "piecewise", values, epsilon=1, bounds=(0, 1))
    wide = moments(number_mechanism("piecewise", one, -1.0, 1.0), values)
    slip = math.exp(0.5 + 3.0)  # where e^{1/2} + 3 was meant
    third = 3.0 * math.expm1(0.5) ** 2
    first_power = float(np.mean(values)) / math.expm1(0.5)  # the values' mean where that of their squares was meant
    rows = [
        (
            "eq. 4.32, Piecewise variance, epsilon = 1, values 0.1, ..., 1.0",
            27.08,
            wide.variance,
            "e^(1/2 + 3) was evaluated for e^(1/2) + 3, and it seems that the values' mean was taken for that of their "
            f"squares: both give {first_power + slip / third:.2f}",
        ),
        (
            "eq. 4.32, break-even of Square wave on [0, 1] and Piecewise on [-1, 1]",
            26_960.0,
            wave(second_bounds=(-1, 1)),
            "follows from the variance",
        ),
        (
            "the same with both mechanisms on [0, 1]",
            26_960.0,
            wave(),
            "on the range the values have, Piecewise needs half the noise; section 6.1.4 halves variances without "
            "naming the range",
        ),
        (
            "eq. 6.29, 400 log(1.25/delta), delta = 1e-7",
            4_694.5,
            400.0 * math.log(1.25 / 1e-7),
            f"the printed number belongs to delta = 1e-5 ({400.0 * math.log(1.25 / 1e-5):,.1f})",
        ),
    ]
    return pd.DataFrame(rows, columns=["where", "printed", "corrected", "why"])


def case_study() -> pd.DataFrame:
    """Printed numbers of Duan's case study (NaN where nothing is) beside what the formulas give, with the reason.

    Notes
    -----
    The printed variance is 400 ln(1.25/δ), that is 2 ln(1.25/δ) R²/ε² with R²/ε² = 200. The case study doesn't name the
    range R: with ε = 0.1 it is the variance for [−1, 1] (R²/ε² = 400), halved. R and ε are inferred from the number.

    References
    ----------
    Duan (2025), PhD thesis, section 6.1.4 and eq. 6.29. Balle & Wang (2018) for the exact calibration.
    """
    stated, meant, ratio = 1e-7, 1e-5, 200.0

    def classical(delta: float, squared_ratio: float) -> float:
        return 2.0 * math.log(1.25 / delta) * squared_ratio

    wide, exact = classical(stated, 2 * ratio), (2.0 / gdp_mu(0.1, stated)) ** 2
    rows = [
        ("eq. 6.29, Gaussian variance at the stated delta 1e-7", 4694.5, classical(stated, ratio), "delta differs"),
        ("the same at delta 1e-5", 4694.5, classical(meant, ratio), "what is printed, but for its rounding"),
        ("not halved: range [-1, 1], epsilon 0.1, delta 1e-7", math.nan, wide, "range inferred"),
        ("the same, calibrated exactly", math.nan, exact, "smallest noise that keeps it"),
    ]
    return pd.DataFrame(rows, columns=["quantity", "printed", "computed", "reason"])


if __name__ == "__main__":
    for row in corrections().itertuples():
        print(f"{row.where}\n    printed {row.printed:,.2f} | corrected {row.corrected:,.2f} | {row.why}")
