"""Reports to two collectors: what they are made of, how wide they are, and what a state asks.

A device makes a vector of whole numbers, and shares it out: uniform words to one collector, the vector less these
words to the other, modulo 2⁶⁴. Noise is added to the collectors' sums. Standard library only.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from . import lattice

ROLES: Final = ("clamping", "location", "moments", "approach", "closing", "main")  # Of rounds with two collectors

LETTERS: Final = ("a", "b")  # Collectors by their place in the plan; the first leads
MOST_NUMBERS: Final = 5_900  # Numbers of a report, at most: a share of 64 KB holds them

FORMAT: Final = 2
"""Of what plans and states say of sums. In 1, of privreg 0.1 and 0.2, all rounds had the length of the plan."""

FAMILIES: Final = ("huber", "expectile", "quantile", "squared", "logistic", "poisson")
"""Scores with a slope that a report holds."""


MEDIAN: Final = 0.6744897501960817  # Median absolute value of a standard normal
SCALE: Final = 0.2  # Norm of a report's number on the residual scale (the scale number), where the family has one


class Sums(NamedTuple):
    """What a report is made of, all of it public: a plan's and its rules', as far as devices need them.

    Equations (1) to (3) of docs/sums.md. Columns and response are in internal units.
    """

    shares: tuple[float, ...]  # Squared norms of score, slope, squared score, score beyond the threshold; 0: none
    ratio: float  # Threshold in residual scales
    scaled: bool  # Whether the threshold follows the residual scale
    top: float  # Largest slope of the unit score, times the threshold
    fixed: float  # The threshold where it doesn't follow
    lows: tuple[float, ...]  # Limits of the columns
    highs: tuple[float, ...]
    y_low: float
    y_high: float
    numbers: tuple[int, ...]  # Columns that aren't indicators
    binary: bool  # Whether the response is 0 or 1
    rate: float = 0.0  # Of a log link the offset at which second moments have counts: the middle of its public limits

    @property
    def cornered(self) -> bool:
        """Whether the score has a threshold, beyond which it is constant."""
        return self.shares[3] > 0.0

    @property
    def located(self) -> int:
        """Numbers of which a report on location is: columns that aren't indicators, and a response that is one."""
        return len(self.numbers) + int(not self.binary)


class SumAsk(NamedTuple):
    """What a state asks of every token."""

    role: str
    below: int  # 2³²: of every token
    rows: tuple[tuple[float, ...], ...]  # z = rows · x; shape (d, d)
    theta: tuple[float, ...]  # Coefficients of z; shape (d,)
    y_centre: float
    scale: float
    window: float
    ball: float
    reach: float  # Length of covariates beyond which a record's weight falls


def width(
    role: str,
    *,
    d: int,  # Coefficients of a linear predictor
    bounded: int = 0,  # Columns of which records may report whether bounds clamp them
    located: int = 0,  # Numbers of which a report on location is
    cornered: bool = False,  # Whether the score has a threshold
    scaled: bool = False,  # Whether it follows a residual scale: squares are of score and scale then
    blocks: int = 1,  # Linear predictors
    persons: bool = False,  # Of several rows, or weighted: how much of one a report holds is reported, too
) -> int:
    """Numbers of a report."""
    if role == "clamping":
        return bounded + 1
    if role == "location":
        return 2 * located + int(persons)
    if role == "moments":
        return (d + blocks) * (d + blocks + 1) // 2
    products = blocks * (blocks + 1) // 2 * d * (d + 1)
    return blocks * d * (1 + 2 * int(cornered)) + products + int(scaled) * (d + 3 + int(persons))


def form_of(role: str) -> str:
    """Form of a role's reports: see `lattice`."""
    return {"moments": lattice.PSD, "clamping": lattice.SWITCHES, "table": lattice.BLOCKS}.get(role, lattice.BALL)
