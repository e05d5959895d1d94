"""Who is asked what: rounds in order, from public numbers alone.

Every record has one role. What a role needs in records grows with d² and 1/μ²; of a stream of known length each gets at
most a share. Main rounds are equal where the number of records is known; else each holds a quarter of those before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ROUNDS: Final = 20
LOCATIONS: Final = 8
"""Rounds on where columns lie whose scale nobody declared: a mean up to 10⁵ sd away from 0 is found."""

LOCATION: Final = 0.2

MOMENTS: Final = (0.2, 0.3, 0.5)  # Parts of those asked about second moments who are in each round
MEANS: Final = (400.0, 20.0)  # Records that report means and squares, for each column: in units of 1/μ², and besides

CENTRES: Final = 300.0
"""Records of a wide design who tell means of numbers, for each pair of them, in units of 1/μ². Errors of all means add
up: with fewer, steps of 110 numbers that lie off the middle of their bounds went too far, and fits diverged."""

MOST_MEANS: Final = 0.05

PILOTS: Final = 4  # Pilot rounds, each twice as long as the one before

LEAST_MOMENTS: Final = 0.01
MORE_MOMENTS: Final = 0.03
BESIDE: Final = 750.0
"""Records of each of two rounds, in units of d²/μ² or so, that take the place of the last where curvature depends on
coefficients: they ask beside a larger constant, see `moments.asked`, which lets noise weigh more. One round of as many
left scales with more than twice the sd, as a round corrects to first order."""

MOST_BESIDE: Final = 0.015
"""Share of the records who are in each of them, at most, where that is more than half of the last."""

PILOT: Final = 0.15  # Share of a stream of known length

FIRST: Final = 1000.0
"""Records, in units of d²/μ² or so, of the stream by which the first rounds are chosen where nobody knows how many will
come. They hold a third of these at most, so that intervals begin before a stream of known length has 600, the first
whose intervals carry no note of few records (`fits.findings`). What later intervals lose by it, beside first rounds as
large as wanted, is measured by `benchmarks.streams`."""

ENDLESS: Final = 1 << 62

QUARTER: Final = 0.25  # Records of a main round, relative to all before it, where nobody knows how many will come


CLAMPED: Final = 0.01  # Share of the records, at most, who tell whether bounds clamp them
FAINT: Final = 14.0  # Times as many as are asked may be wanted: with fewer, not even a share of a fifth would show


class Round(NamedTuple):
    """Records that answer one public state."""

    role: str  # "location", "moments", "pilot", "clamping", "main" or "measures"
    people: int  # How many records; −1 of a main round: an equal part of those left, or a quarter of those before
    optional: bool = False  # Whether it is held only if covariates turn out to be correlated


def schedule(
    *,
    d: int,  # Coefficients
    noise: float,  # Noise variance of a number of a score report of norm at most 1
    moment_noise: float,  # The same of a moment report
    rows: int | None,  # Records expected, if known
    rounds: int = ROUNDS,  # Of moments, pilot and main: moments count as three even where fewer or more are held
    label: bool = False,  # Whether covariates are public, so that their moments carry no noise
    varying: bool = False,  # Whether curvature depends on the coefficients
    declared: bool = False,  # Whether all covariates have declared moments and correlations
    numbers: bool = True,  # Whether there is anything to learn of covariates
    located: float = 0.0,  # Records in a round on location; 0 if all scales are declared
    wide: int | None = None,  # Columns that report means and squares, of so many that correlations aren't learned
    measured: float = 0.0,  # Share of the records, whose number must then be known, that tell how well the fit predicts
    clamped: int = 0,  # Records that it takes to learn what bounds clamp; 0 if nobody is asked
) -> tuple[Round, ...]:
    """Choose the rounds.

    Whether bounds clamp is asked before the main rounds, of `CLAMPED` of the records if that is fewer than `clamped`,
    but at least of a part 1/`FAINT` of these. Where nobody knows how many will come, it is asked between main rounds,
    as soon as they are at most `CLAMPED` of all before them: a short stream never comes so far.
    """
    # noise of a score in units of 4/μ²; without privacy its own variance, about 0.7/d, remains
    unit = max(d, 4) ** 2 * (noise / (4.0 * d if label else 4.0) + 0.7 / (4.0 * d))
    heavy = 1.0 if label or moment_noise == 0.0 else max(1.0, 2.0 * moment_noise / noise)
    known = FIRST * unit * (d / max(d, 4)) ** 2 if rows is None else float(rows)
    least = 0.0 if rows is None else known

    def held(role: str, wanted: float, most: float, *, optional: bool = False) -> Round:
        return Round(role, max(int(min(wanted, most * known)), 1), optional)

    out: list[Round] = []
    if located:
        out += [held("location", located, LOCATION / LOCATIONS)] * LOCATIONS
    if wide is not None:
        asked = d * (MEANS[0] * noise / 4.0 + MEANS[1]) + CENTRES * wide**2 * noise / 4.0
        out += [held("moments", asked, MOST_MEANS)] if wide else []
    elif numbers and label:
        out += [held("moments", 15.0 * max(d, 4) ** 2, 0.01), held("moments", 105.0 * max(d, 4) ** 2, 0.03)]
    elif numbers:
        total = max((150.0 if declared else 300.0) * unit * heavy, LEAST_MOMENTS * least)
        out += [held("moments", part * total, 0.1 * part) for part in MOMENTS]
        if varying and rows:
            each = max(out.pop().people // 2, min(BESIDE * unit * heavy, MOST_BESIDE * known))
            out += [held("moments", each, 1.0)] * 2
        out.append(held("moments", max(350.0 * unit * heavy, MORE_MOMENTS * least), 0.08, optional=True))
    pilots = min(PILOTS, max(rounds - len(MOMENTS) - 3, 1))
    total = max(2000.0 * unit, PILOT * least)
    whole = 2.0**pilots - 1.0
    out += [held("pilot", total * 2.0**k / whole, PILOT * 2.0**k / whole) for k in range(pilots)]
    if rows is None:
        return (*out, *_asked_late(tuple(out), clamped), Round("main", -1))
    few = min(clamped, int(CLAMPED * rows))
    if 0 < clamped <= FAINT * few:
        out.append(Round("clamping", few))
    out += [Round("main", -1)] * max(rounds - len(MOMENTS) - pilots, 1)
    told = int(measured * rows)
    return (*out, Round("measures", told)) if told else tuple(out)


def _asked_late(before: tuple[Round, ...], clamped: int) -> tuple[Round, ...]:
    """Main rounds of a stream of unknown length up to the one that asks what bounds clamp, and that round."""
    if not clamped:
        return ()
    sizes = tuple(0 if r.optional else r.people for r in before)
    main = (Round("main", -1),)
    out: tuple[Round, ...] = ()
    while clamped > CLAMPED * sum(sizes):
        sizes = (*sizes, people_of((*before, *out, *main), sizes, None))
        out += main
    return (*out, Round("clamping", clamped))


def people_of(rounds: tuple[Round, ...], held: tuple[int, ...], rows: int | None) -> int:
    """Records of the round after those `held`; the last of a stream of unknown length is held again and again.

    `rows` are records expected, if known. Those beyond belong to the last round.
    """
    number = len(held)
    here = rounds[min(number, len(rounds) - 1)]
    if rows is not None and number >= len(rounds) - 1:
        return ENDLESS
    if here.people >= 0:
        return here.people
    if rows is None:
        return max(int(QUARTER * sum(held)), 1)
    left = sum(r.role == "main" for r in rounds[number:])
    told = sum(r.people for r in rounds[number:] if r.role == "measures")
    return max((rows - told - sum(held)) // left, 1)
