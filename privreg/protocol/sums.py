"""Reports to two collectors: what they are made of, how wide they are, and what a state asks.

A device makes a vector of whole numbers, and shares it out: uniform words to one collector, the vector less these
words to the other, modulo 2⁶⁴. Noise is added to the collectors' sums. Standard library only.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from typing import Final, NamedTuple

from . import codes, lattice

ROLES: Final = ("clamping", "location", "moments", "approach", "closing", "main")  # With two collectors

LEAST: Final = 2.0**-60  # Least length L and slope: products of smaller ones would lose digits

LETTERS: Final = ("a", "b")  # Collectors by their place in the plan; the first leads
MOST_NUMBERS: Final = 5_900  # Numbers of a report, at most: a share of 64 KB holds them

SUMMED: Final = 24  # Groups of clusters at most whose sums two collectors publish

FORMAT: Final = 3
"""Format of plans and states with sums. In 1 all rounds had the length of the plan; in 2 any two reports of scores were
as far from each other as the ball is wide."""

FAMILIES: Final = (
    "huber", "expectile", "quantile", "squared", "logistic", "ordered", "poisson", "negative_binomial", "tobit",
    "hazards",
)  # fmt: skip
"""Scores with a slope that a report holds."""

MEDIAN: Final = 0.6744897501960817  # Median absolute value of a standard normal

FALLS: Final = 2.0
"""Cumulative hazards over which the weight of time at risk falls to 0 at last, where people are followed so long, and
slopes are those of scores in any model; a shorter follow-up ends at once: Equation (54). Two is the least width with
which no score is larger than that of who is followed to the end."""

SQUARED: Final = 1.665  # Factor of t² beside t: 1.665² ≤ φ⁵/4, so that t² adds nothing to the distance

Shares = tuple[float, float, float, float, float]
"""Squared norms in a report of scores: of score, slope, squared score, score beyond the threshold, and scale number;
0: none."""

SHARES: Final[dict[str, Shares]] = {
    "cornered": (0.455, 0.455, 0.046, 0.015, 0.0232), "cornered, again": (0.54, 0.275, 0.1, 0.02, 0.052),
    "window": (0.47, 0.455, 0.046, 0.0, 0.0232), "window, again": (0.56, 0.275, 0.1, 0.0, 0.052),
    "plain": (0.48, 0.32, 0.2, 0.0, 0.0), "logistic": (0.83, 0.5, 0.17, 0.0, 0.0),
    "classes": (0.94, 0.26, 0.06, 0.0, 0.0), "followed": (0.48, 0.32, 0.2, 0.0, 0.0),
    "cornered, persons": (0.5225, 0.247, 0.152, 0.0285, 0.04), "window, persons": (0.551, 0.247, 0.152, 0.0, 0.04),
    "plain, persons": (0.58, 0.26, 0.16, 0.0, 0.0), "logistic, persons": (0.84, 0.6, 0.16, 0.0, 0.0),
}  # fmt: skip
"""Shares by the score: with a residual scale, and a threshold or a window of slopes; of rows that answer every round
`again`, whose intervals need squared scores; without a scale; of several predictors; of several rows of a person."""

APART: Final = {"cornered": 24278, "cornered, again": 27350, "window": 24510, "window, again": 27750, "plain": 22400}
"""Largest squared distances of two reports of scores, in 1/10,000, whatever scores, slopes and scale numbers: (46)."""

ODDS: Final = (
    (0.25, 16215), (1.0, 17169), (2.25, 17964), (4.0, 18765), (6.25, 19613), (9.0, 20501), (12.25, 21404),
    (16.0, 22295), (20.25, 23152), (25.0, 23957), (30.25, 24701), (36.0, 25379), (49.0, 26545), (64.0, 27487),
    (100.0, 28866), (144.0, 29795), (256.0, 30924), (400.0, 31559), (900.0, 32324), (math.inf, 33266),
)  # fmt: skip
"""Largest squared distances of logistic scores, by squared length of coefficients times that of rows: (47)."""


def longest2(located: int, persons: bool) -> float:
    """Squared length of (t, 1.665 t²) of so many numbers at most, of persons with a 1 beside: Equation (1)."""
    return located * (1.0 + SQUARED * SQUARED) + float(persons)


def farthest(most: float) -> tuple[float, float]:
    """Largest score and slope of a person of length 1, who is followed until a cumulative hazard `most`: (54)."""
    if most < FALLS:
        return math.sqrt(1.0 + most * most), most
    half = 0.5 * (most + 1.0)
    return most - 0.5 * FALLS, max(most - FALLS, half) * min(FALLS + 1.0, half) / FALLS


def distance2(
    role: str,
    shares: Shares,
    family: int,  # See `codes`
    rows: int,  # Rows of a person that count, at most; 0 where a report is a row that counts whole
    located: int,  # Numbers of which a report on location is
    at: tuple[Iterable[float], float] | None = None,  # Coefficients and length L of a state; None: any, or an offset
    *,
    scaled: bool,  # True if scores have a residual scale
) -> Fraction:
    """Largest squared distance of reports whose norms are 1 at most: (45) to (47), (56) and (57) of docs/sums.md."""
    if family == codes.HAZARDS and role == "location":
        return Fraction(4 * located + 3) / (located * (Fraction(str(SQUARED)) ** 2 + 1) + 2)
    if family == codes.HAZARDS and role in {"approach", "closing", "main"}:
        p1, p2, p3 = (Fraction(str(p)) for p in shares[:3])
        return 4 * p1 + 2 * p2 if 2 * p3 <= p1 else Fraction(4)
    if role == "location":
        whole = located * (Fraction(str(SQUARED)) ** 2 + 1) + int(rows > 0)
        return max(Fraction(4 * located), whole * (rows > 0)) / whole
    if role not in {"approach", "closing", "main"}:
        return Fraction(2)
    # from the first to the last, so that all who add them up get the same bits
    square = math.inf if at is None else reduce(lambda sum_, v: sum_ + v * v, at[0], 0.0) * (at[1] * at[1])
    odds = next((odd for most, odd in ODDS if square <= most), 40_000)
    kinds = [k for k in APART if scaled == (k != "plain") and family != codes.LOGISTIC]
    kinds += ["logistic"] * (family == codes.LOGISTIC and not scaled)  # (47) has no scale number
    kind = next((k for k in kinds if SHARES[k] == shares and rows < 2 and family != codes.MULTINOMIAL), "")
    kind = kind.replace("cornered", "window") if family == codes.TOBIT else kind  # (63)
    return Fraction({**APART, "logistic": odds}.get(kind, 40_000), 10_000)


class Sums(NamedTuple):
    """Public numbers that a report is made with: a plan's and its rules', as far as devices need them.

    Equations (1) to (3) of docs/sums.md. Columns and response are in internal units.
    """

    shares: Shares
    ratio: float  # Threshold in residual scales
    scaled: bool  # True if the threshold follows the residual scale
    top: float  # Largest slope of the unit score, times the threshold
    fixed: float  # The threshold where it doesn't follow
    lows: tuple[float, ...]  # Limits of the columns
    highs: tuple[float, ...]
    y_low: float
    y_high: float
    numbers: tuple[int, ...]  # Columns that aren't indicators
    binary: bool  # True if the response is 0 or 1
    rate: float = 0.0  # Offset at which second moments have counts, of a log link: the middle of its public limits
    cuts: tuple[tuple[float, ...], ...] = ()  # Rows at each cut point of levels, or interval of time, less the first
    edges: tuple[float, ...] = ()  # Ends of these intervals, from 0 on; none of levels

    @property
    def cornered(self) -> bool:
        """True if the score has a threshold, beyond which it is constant."""
        return self.shares[3] > 0.0

    @property
    def located(self) -> int:
        """Numbers of which a report on location is: columns that aren't indicators, and a response that is one."""
        return len(self.numbers) + int(not self.binary)


class SumAsk(NamedTuple):
    """Questions of a state to every token."""

    role: str
    below: int  # 2³²: of every token
    rows: tuple[tuple[float, ...], ...]  # z = rows · x; shape (d, d)
    theta: tuple[float, ...]  # Coefficients of z; shape (d,)
    y_centre: float
    scale: float
    window: float
    ball: float
    reach: float  # Length of covariates beyond which a record's weight falls
    radius: int  # Whole number for a report's norm of 1: as large as the distance of two reports allows
    most: float = 0.0  # Cumulative hazard up to which people are followed; 0 of other scores


def width(
    role: str,
    *,
    d: int,  # Coefficients of a linear predictor
    bounded: int = 0,  # Columns of which records may report whether bounds clamp them
    located: int = 0,  # Numbers of which a report on location is
    cornered: bool = False,  # True if the score has a threshold
    scaled: bool = False,  # True if it follows a residual scale: squares are of score and scale then
    blocks: int = 1,  # Linear predictors
    persons: bool = False,  # True of several rows, or weighted: how much of one a report holds is reported, too
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


def summed_groups(clusters: int) -> int:
    """Random groups whose sums two collectors publish: each sum has its noise, so that they are few."""
    return min(SUMMED, clusters // 2)


def form_of(role: str) -> str:
    """Form of a role's reports, see `lattice`: vectors of norm 1 by default. Bins of lengths are a diagonal matrix."""
    matrices = dict.fromkeys(("moments", "directions", "lengths"), lattice.PSD)
    switches = dict.fromkeys(("clamping", "measures"), lattice.SWITCHES)
    return {**matrices, **switches, "table": lattice.BLOCKS}.get(role, lattice.UNIT)
