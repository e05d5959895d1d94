"""What studies with two collectors have beside: the collectors, what a share is made of, and what a state asks.

A device makes a vector of whole numbers, and shares it out: uniform words to one collector, the vector less these
words to the other, modulo 2⁶⁴. Noise is added to the collectors' sums. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from . import lattice
from .wire import KEY, MessageError, Record

ROLES: Final = ("clamping", "location", "moments", "approach", "closing", "main")  # Of rounds with two collectors

MECHANISM: Final = "sums"
LETTERS: Final = ("a", "b")  # Collectors by their place in the plan; the first leads
MOST_NUMBERS: Final = 5_900  # Numbers of a report, at most: a share of 64 KB holds them

FAMILIES: Final = ("huber", "expectile", "quantile", "squared", "logistic", "poisson")
"""Scores with a slope that a report holds."""


MEDIAN: Final = 0.6744897501960817  # Median absolute value of a standard normal
SCALE: Final = 0.2  # Norm of a report's number on the residual scale (the scale number), where the family has one


class Collector(NamedTuple):
    """One of the two who add up shares."""

    name: str  # Operator
    url: str  # Address of the server
    contact: str
    key: bytes  # Public Ed25519 key, by which states, lists and sums are verified
    seal: bytes  # Public X25519 key, to which shares are sealed


class Sums(NamedTuple):
    """What a report is made of, all of it public: a plan's and its rules', as far as devices need them.

    Equations (1) to (3) of docs/two_collectors.md. Columns and response are in internal units.
    """

    shares: tuple[float, ...]  # Squared norms of score, slope, squared score, score beyond the threshold; 0: none
    ratio: float  # Threshold in residual scales
    scaled: bool  # Whether the threshold follows the residual scale
    top: float  # Largest slope of the unit score, times the threshold
    fixed: float  # The threshold where it doesn't follow
    reach: float  # Length of covariates beyond which a record's weight falls
    lows: tuple[float, ...]  # Limits of the columns
    highs: tuple[float, ...]
    y_low: float
    y_high: float
    numbers: tuple[int, ...]  # Columns that aren't indicators
    binary: bool  # Whether the response is 0 or 1

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


def read_collectors(record: Record, keys: tuple[bytes, ...]) -> tuple[Collector, ...]:
    """The collectors that a plan names; none of a plan without them.

    Raises
    ------
    MessageError
        If they are not two, one plays both, or states aren't signed by both.
    """
    if not record.has("collectors"):
        return ()
    out = []
    for one in record.items("collectors", count=len(LETTERS)):
        each = Record(one, "a collector")
        made = Collector(
            each.text("name", 200),
            each.text("url", 500),
            each.text("contact", 1000),
            each.binary("key", KEY),
            each.binary("seal", KEY),
        )
        each.done()
        parts = urlsplit(made.url)
        if parts.scheme not in {"https", "http"} or not parts.hostname or parts.query or parts.fragment:
            raise MessageError("'url' of a collector must be an address such as https://study.example.org.")
        out.append(made)
    for what in range(len(Collector._fields)):
        if what != Collector._fields.index("contact") and out[0][what] == out[1][what]:
            raise MessageError(f"the plan's two collectors have the same {Collector._fields[what]}: they are one.")
    if keys != tuple(c.key for c in out):
        raise MessageError("'keys' of the plan must be those of its two collectors, in order.")
    return tuple(out)


def read_sums(record: Record, d: int) -> Sums:
    """Read what reports to two collectors are made of."""
    sums = record.object("sums")
    out = Sums(
        shares=sums.reals("shares", 4),
        ratio=sums.real("ratio"),
        scaled=sums.flag("scaled"),
        top=sums.real("top"),
        fixed=sums.real("fixed"),
        reach=sums.real("reach"),
        lows=sums.reals("lows", d),
        highs=sums.reals("highs", d),
        y_low=sums.real("y_low"),
        y_high=sums.real("y_high"),
        numbers=sums.integers("numbers", 0, d - 1),
        binary=sums.flag("binary"),
    )
    sums.done()
    positive = (out.ratio, out.top, out.fixed, out.reach)
    if min(out.shares) < 0.0 or min(positive) <= 0.0 or out.y_low >= out.y_high:
        raise MessageError("'sums' of the plan has numbers that no report is made of.")
    if any(a > b for a, b in zip(out.lows, out.highs, strict=True)) or len(set(out.numbers)) != len(out.numbers):
        raise MessageError("'sums' of the plan has limits or columns that no report is made of.")
    return out


def read_ask(record: Record, roles: Mapping[str, Any], d: int, words: int) -> SumAsk:
    """Read what a state asks."""
    role = record.choice("role", (*ROLES, "table"))
    if role not in roles:
        raise MessageError("the state asks for a role that the plan doesn't describe.")
    flat = record.reals("rows", d * d)
    out = SumAsk(
        role,
        record.integer("below", words, words),
        tuple(flat[j * d : (j + 1) * d] for j in range(d)),
        record.reals("theta", d),
        record.real("y_centre"),
        record.real("scale"),
        record.real("window"),
        record.real("ball"),
    )
    record.done()
    if min(out.scale, out.window, out.ball) <= 0.0:
        raise MessageError("scale, window and ball of a state must be positive.")
    return out
