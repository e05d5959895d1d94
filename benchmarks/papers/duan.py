"""Printed numbers of Duan's thesis that don't follow from its formulas, computed anew.

``python -m benchmarks.papers.duan``
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd

from privreg.means import break_even, moments
from privreg.privacy.ledger import Budget
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


if __name__ == "__main__":
    for row in corrections().itertuples():
        print(f"{row.where}\n    printed {row.printed:,.2f} | corrected {row.corrected:,.2f} | {row.why}")
