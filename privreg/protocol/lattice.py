"""Reports of whole numbers with rounded Gaussian noise: the one place where their sensitivity is computed.

A device sends r = a + round(2^m Z) for each number, Z standard normal and a an integer within a public radius R. As a
is an integer, this is round(a + 2^m Z): post-processing of the Gaussian mechanism, so that nothing is lost to rounding.
It is μ-GDP exactly if two reports before noise lie no farther apart than μ 2^m. With μ = p/q that is an inequality of
integers, which whoever builds a plan solves and every device checks.

See Dong, Roth & Su (2022), Gaussian differential privacy, Theorem 1 and Proposition 4 (post-processing).
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final, NamedTuple

BALL: Final = "ball"  # Σ a² ≤ R²: scores
JOINT: Final = "joint"  # A ball, and one number more in [0, R]

MOMENTS: Final = "moments"
"""Lower triangle of R Σ u uᵀ, Σ ‖u‖² ≤ 1, off-diagonal entries times √2, each truncated to an integer."""

BOX: Final = "box"  # Every number in [0, R]: indicators, and other numbers that lie in [0, 1]

UNIT: Final = "unit"
"""A vector of norm R at most, each number rounded; how far apart two are follows from the role: `sums.distance2`."""

PSD: Final = "psd"  # A positive semidefinite matrix in it, entries off the diagonal times √2

SWITCHES: Final = "switches"  # Every number between 0 and a largest one, whose squares sum to R²: indicators say
BLOCKS: Final = "blocks"  # Blocks of a table, whose distances, squared and added, are R² at most, see `tables`

FORMS: Final = (BALL, JOINT, MOMENTS, BOX, BLOCKS)
SUM_FORMS: Final = (UNIT, PSD, SWITCHES, BLOCKS)  # Forms of reports whose sums get the noise
BITS: Final = 20  # m of version 1: the noise of a number has the sd 2^m lattice steps
CLAMP: Final = 6  # A report's number is clamped to R + 6 · 2^m, which holds all but 2 in 10⁹ of those at the edge

SLACK: Final = 2
"""Lattice steps by which floating point, and of u rounding, may part two reports: of each by a step.

Σ ‖u‖² is at most 1 + 2⁻³⁰, which moves R u uᵀ by R 2⁻³⁰ at most, and R < 2³⁰; floating point by far less.
"""

FARTHEST: Final = Fraction(4)  # Squared distance of two vectors of norm 1, at most
LARGEST: Final = 1 << 30
LEAST_MU: Final = 1e-5
MOST_BITS: Final = 52  # Noise of a larger m isn't small beside 2⁶⁴, the modulus of two collectors' sums


class Mu(NamedTuple):
    """A budget μ = p/q per person."""

    p: int
    q: int


def fraction_of(value: float) -> Mu:
    """A budget μ of any size as a fraction, never more than its decimal digits say."""
    exact = Fraction(repr(float(value)))
    if exact.denominator > 10**6 and value >= LEAST_MU:
        exact = Fraction(int(exact * 10**6), 10**6)
    return Mu(exact.numerator, exact.denominator)


def is_private(form: str, numbers: int, radius: int, mu: Mu, bits: int = BITS, square: Fraction = FARTHEST) -> bool:
    """True if reports of this form, of `FORMS` or `SUM_FORMS`, and radius R are μ-GDP, in integers alone.

    That is, whether the largest ℓ2 distance of two reports of so many `numbers`, in lattice steps, is at most μ 2^m, m
    being `bits`.

    Distances: 2R (ball); √((2R)² + R²) (joint); √2 R + 2√D + 2 (moments: positive semidefinite matrices of trace R at
    most have a non-negative inner product, each of D entries is truncated by less than 1, see `SLACK`); √D R (box);
    R √(A/B) + √D + 2 (unit: A/B is `square`, the largest squared distance of two vectors before rounding over R²; psd:
    it is 2; each number is rounded by 1/2 at most); R (switches, blocks). A sum of reports is as far from one
    that differs in one.
    """
    p, q = mu
    if min(p, q, numbers, radius) < 1 or radius >= LARGEST or not 0 <= bits <= MOST_BITS:
        return False
    noise = p << bits  # q times μ 2^m
    if form == BALL:
        return 2 * q * radius <= noise
    if form == JOINT:
        return numbers >= 2 and 5 * (q * radius) ** 2 <= noise**2
    if form == BOX:
        return numbers * (q * radius) ** 2 <= noise**2
    if form in {SWITCHES, BLOCKS}:
        return q * radius <= noise
    if form not in {UNIT, PSD, MOMENTS}:
        return False
    a, b = square.as_integer_ratio() if form == UNIT else (2, 1)
    rounded = numbers * (4 if form == MOMENTS else 1)
    rest = noise - SLACK * q  # q R √(A/B) + q √D ≤ rest, squared twice
    left = b * rest**2 - q * q * (a * radius * radius + b * rounded)
    return rest >= 0 and left >= 0 and 4 * a * b * rounded * (q * q * radius) ** 2 <= left**2


def radius(form: str, numbers: int, mu: Mu, bits: int = BITS, square: Fraction = FARTHEST) -> int:
    """Largest radius by which reports of this form are μ-GDP, see `is_private`; 0 if there is none.

    Examples
    --------
    >>> [radius(form, d, Mu(1, 1)) for form, d in (("ball", 11), ("joint", 12), ("moments", 78), ("box", 4))]
    [524288, 468937, 741441, 524288]
    """
    low, high = 0, min((mu.p << bits) // max(mu.q, 1) + 1, LARGEST)
    while high - low > 1:
        middle = (low + high) // 2
        if is_private(form, numbers, middle, mu, bits, square):
            low = middle
        else:
            high = middle
    return low


def composed(parts: Iterable[Mu], mu: Mu) -> bool:
    """True if rounds of these budgets, all of the same rows, keep the budget μ together: Σ μ_k² ≤ μ², in fractions.

    No round is without a budget of its own, as its noise would be that of the whole one.
    """
    each = [Fraction(*one) for one in parts]
    return all(each) and sum(one**2 for one in each) <= Fraction(*mu) ** 2


def bits_of_sums(mu: Mu) -> int:
    """M of two collectors' noise: the least for which μ 2^m is 2²⁰ at least.

    Examples
    --------
    >>> [bits_of_sums(Mu(p, q)) for p, q in ((1, 1), (1, 2), (3, 1), (1, 100))]
    [20, 21, 19, 27]
    """
    m = 0
    while mu.p << m < mu.q << BITS:
        m += 1
    return m


def unit_of_sums(form: str, numbers: int, radius: int) -> float:
    """Lattice steps of a report's norm of 1, of switches that of all of them, less what rounding may add."""
    return radius - 0.5 * math.sqrt(numbers) * (form == SWITCHES)


def most(radius: int, bits: int = BITS) -> int:
    """Largest absolute value of a number of a report."""
    return radius + (CLAMP << bits)
