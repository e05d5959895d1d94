"""The robust score of counts: the standard library's functions alone.

Devices call it as it is, compiled loops compile it, so that both give the same bits.
"""

import math
from typing import Final

FARTHEST: Final = 300.0  # Size of a linear predictor beyond which its score no longer changes

LARGE: Final = 4.0
"""Linear predictor above which the correction is its Edgeworth expansion: there it is off by 3e-4 at c = 1.5, which
moves the linear predictor by 5e-5, and by less the larger the mean."""


def unit(c: float, eta: float, y: float) -> float:
    """Clipped Pearson residual less its mean under the Poisson law, over the largest size; in [−1, 1], rising in η.

    With m = exp(η) and ψ(y) = min(max((y − m)/√m, −c), c) it is {a(m) − ψ(y)}/{c + abs a(m)}, a(m) = E ψ(Y), Y Poisson
    of mean m. The divisor depends on the predictor alone, so that a right model's mean score is 0. It is not a number
    if an argument is none, or c is not positive and finite.

    See Cantoni and Ronchetti, Robust inference for generalized linear models, 2001, without their factor √m.
    """
    if not (0.0 < c < math.inf) or math.isnan(eta) or math.isnan(y):
        return math.nan
    eta = min(max(eta, -FARTHEST), FARTHEST)
    root = math.exp(0.5 * eta)
    mean = root * root
    seen = min(max(y / root - root, -c), c)
    if eta > LARGE:
        a = -c * math.exp(-0.5 * c * c) / (3.0 * math.sqrt(2.0 * math.pi) * root)
        return (a - seen) / (c + abs(a))
    a, total, p, k = 0.0, 0.0, math.exp(-mean), 0.0
    last = mean + min(c * root, 8.0 * root + 16.0)  # all beyond are clipped, or have a probability below 1e-15
    while k <= last:
        a += min(max((k - mean) / root, -c), c) * p
        total += p
        k += 1.0
        p *= mean / k
    a += c * (1.0 - total)
    return (a - seen) / (c + abs(a))
