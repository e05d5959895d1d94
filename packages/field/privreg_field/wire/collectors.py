"""The two collectors that a plan names, and what their states ask, as messages have it. Standard library only."""

from itertools import pairwise
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from privreg.protocol import lattice
from privreg.protocol.sums import FORMAT, LEAST, LETTERS, ROLES, SHARES, Shares, SumAsk, Sums

from .wire import KEY, MessageError, Record

MOST_CUTS: Final = 49  # Cut points of levels in order

MECHANISM: Final = "sums"
EARLIER: Final = "the {} is of two collectors of an earlier version of privreg, with which its study has to end."


class Collector(NamedTuple):
    """One of the two who add up shares."""

    name: str  # Operator
    url: str  # Address of the server
    contact: str
    key: bytes  # Public Ed25519 key, by which states, lists and sums are verified
    seal: bytes  # Public X25519 key, to which shares are sealed


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
    if not sums.has("format") or sums.integer("format", 1, FORMAT) != FORMAT:
        raise MessageError(EARLIER.format("plan"))
    cuts = sums.items("cuts", most=MOST_CUTS) if sums.has("cuts") else []
    out = Sums(
        shares=cast(Shares, sums.reals("shares", len(SHARES["plain"]))),
        ratio=sums.real("ratio"),
        scaled=sums.flag("scaled"),
        top=sums.real("top"),
        fixed=sums.real("fixed"),
        lows=sums.reals("lows", d),
        highs=sums.reals("highs", d),
        y_low=sums.real("y_low"),
        y_high=sums.real("y_high"),
        numbers=sums.integers("numbers", 0, d - 1),
        binary=sums.flag("binary"),
        rate=sums.real("rate"),
        cuts=tuple(Record({"row": row}, "'cuts' of 'sums'").reals("row", d) for row in cuts),
        edges=sums.reals("edges", len(cuts) + 1) if sums.has("edges") else (),
    )
    sums.done()
    positive = (out.ratio, out.fixed)
    if min(out.shares) < 0.0 or min(positive) <= 0.0 or out.y_low >= out.y_high or out.top < LEAST:
        raise MessageError("'sums' of the plan has numbers that no report is made of.")
    if any(a > b for a, b in zip(out.lows, out.highs, strict=True)) or len(set(out.numbers)) != len(out.numbers):
        raise MessageError("'sums' of the plan has limits or columns that no report is made of.")
    if out.edges and (out.edges[0] != 0.0 or any(a >= b for a, b in pairwise(out.edges)) or not out.cuts):
        raise MessageError("'edges' of the plan's 'sums' must rise from 0.")
    return out


def read_ask(record: Record, plan: Any, words: int) -> SumAsk:
    """Read what a state of a `PublicPlan` asks; refuse a radius that doesn't keep the budget."""
    d, role = plan.d, record.choice("role", (*ROLES, "table"))
    if role not in plan.roles:
        raise MessageError("the state asks for a role that the plan doesn't describe.")
    if not record.has("reach") or not record.has("radius"):
        raise MessageError(EARLIER.format("state"))
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
        record.real("reach"),
        record.integer("radius", 1, lattice.LARGEST - 1),
        record.real("most") if record.has("most") else 0.0,
    )
    record.done()
    if min(out.scale, out.window, out.ball) <= 0.0 or out.reach < LEAST:
        raise MessageError("scale, window, ball and reach of a state must be positive.")
    if (out.most >= LEAST) != bool(plan.sums and plan.sums.edges):
        raise MessageError("a state says up to which cumulative hazard people are followed, of hazards alone.")
    of, square = plan.roles[role], plan.distance2(role, out)
    if not lattice.is_private(of.form, of.numbers, out.radius, plan.mu, plan.bits, square):
        raise MessageError("the radius of the state breaks the budget: the noise would be too small.")
    return out
