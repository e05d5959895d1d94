"""Rounds in order and who is asked in each, from public numbers alone.

Every record has one role. What a role needs in records grows with d² and 1/μ²; of a stream of known length each gets at
most a share. Main rounds are equal where the number of records is known; else each holds a quarter of those before it.
"""

from typing import Final, NamedTuple

ROUNDS: Final = 20  # On moments, counted as three, of the pilot, and main ones: `fit(rounds=)`
LOCATIONS: Final = 8
"""Rounds on where columns lie whose scale nobody declared: a mean up to 10⁵ sd away from 0 is found."""

MOMENTS: Final = (0.2, 0.3, 0.5)  # Parts of those asked about second moments who are in each round
PILOTS: Final = 4  # Pilot rounds, each twice as long as the one before

WANTED: Final = {
    "moments": 300.0, "declared": 150.0, "beside": 750.0, "correlated": 350.0, "pilot": 2000.0,
    "sizes": 15.0, "public": 105.0, "location": 800.0,
}  # fmt: skip
"""Records that roles want, in units of d²/μ² or so (`schedule`).

"moments": of all rounds on second moments, "declared": where scales and correlations are. "beside": of each of two
rounds that take the place of the last where curvature depends on coefficients: they ask beside a larger constant, see
`moments.asked`, which lets noise weigh more; one round of as many left scales with more than twice the sd, as a round
corrects to first order. "correlated": of the optional round. "sizes" and "public": of the two rounds on public
covariates, in units of d². "location": of a round on where columns lie, for each, in units of 1/μ² or more."""

LEAST: Final = {"moments": 0.01, "correlated": 0.03, "pilot": 0.15}
"""Shares of the records that they have at least where the number of records is known; the pilot no more, either."""

MOST: Final = {
    "location": 0.2, "moments": 0.1, "beside": 0.015, "correlated": 0.08, "sizes": 0.01, "public": 0.03,
    "clamping": 0.01,
}  # fmt: skip
"""Shares that they have at most: "beside" each of its rounds, where that is more than half of the last."""

FIRST: Final = 1000.0
"""Records, in units of d²/μ² or so, of the stream by which the first rounds are chosen where nobody knows how many will
come. They hold a third of these at most, so that intervals begin before a stream of known length has 600, the first
whose intervals carry no note of few records (`fits.findings`). What later intervals lose by it, beside first rounds as
large as wanted, is measured by `benchmarks.streams`."""

ENDLESS: Final = 1 << 62

QUARTER: Final = 0.25  # Records of a main round, relative to all before it, where nobody knows how many will come
FAINT: Final = 14.0  # Times as many as are asked may be wanted: with fewer, not even a share of a fifth would show


class Round(NamedTuple):
    """Records that answer one public state."""

    role: str  # "location", "moments", "pilot", "clamping", "main" or "measures"
    people: int  # Number of records; −1 of a main round: an equal part of those left, or a quarter of those before
    optional: bool = False  # True if it is held only if covariates turn out to be correlated


def schedule(
    *,
    d: int,  # Coefficients
    noise: float,  # Noise variance of a number of a score report of norm at most 1
    moment_noise: float,  # Noise variance of a number of a moment report
    rows: int | None,  # Records expected, if known
    rounds: int = ROUNDS,  # Rounds of moments, pilot and main: moments count as three even where fewer or more are held
    label: bool = False,  # True if covariates are public, so that their moments carry no noise
    varying: bool = False,  # True if curvature depends on the coefficients
    declared: bool = False,  # True if all covariates have declared moments and correlations
    numbers: bool = True,  # True if there is anything to learn of covariates
    located: float = 0.0,  # Records in a round on location; 0 if all scales are declared
    measured: float = 0.0,  # Share of the records, whose number must then be known, that tell how well the fit predicts
    clamped: int = 0,  # Records that it takes to learn what bounds clamp; 0 if nobody is asked
) -> tuple[Round, ...]:
    """Choose the rounds.

    Whether bounds clamp is asked before the main rounds, of `MOST` of the records if that is fewer than `clamped`,
    but at least of a part 1/`FAINT` of these. Where nobody knows how many will come, it is asked between main rounds,
    as soon as they are at most `MOST` of all before them: a short stream never comes so far.
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
        out += [held("location", located, MOST["location"] / LOCATIONS)] * LOCATIONS
    if numbers and label:
        out += [held("moments", WANTED[part] * max(d, 4) ** 2, MOST[part]) for part in ("sizes", "public")]
    elif numbers:
        total = max(WANTED["declared" if declared else "moments"] * unit * heavy, LEAST["moments"] * least)
        out += [held("moments", part * total, MOST["moments"] * part) for part in MOMENTS]
        if varying and rows:
            each = max(out.pop().people // 2, min(WANTED["beside"] * unit * heavy, MOST["beside"] * known))
            out += [held("moments", each, 1.0)] * 2
        more = max(WANTED["correlated"] * unit * heavy, LEAST["correlated"] * least)
        out.append(held("moments", more, MOST["correlated"], optional=True))
    pilots = min(PILOTS, max(rounds - len(MOMENTS) - 3, 1))
    total = max(WANTED["pilot"] * unit, LEAST["pilot"] * least)
    whole = 2.0**pilots - 1.0
    out += [held("pilot", total * 2.0**k / whole, LEAST["pilot"] * 2.0**k / whole) for k in range(pilots)]
    main = Round("main", -1)
    if rows is None:  # main rounds up to the one that asks what bounds clamp, and that round
        sizes = tuple(0 if r.optional else r.people for r in out)
        while clamped > MOST["clamping"] * sum(sizes):
            sizes = (*sizes, people_of((*out, main), sizes, None))
            out.append(main)
        return (*out, *[Round("clamping", clamped)] * (clamped > 0), main)
    few = min(clamped, int(MOST["clamping"] * rows))
    if 0 < clamped <= FAINT * few:
        out.append(Round("clamping", few))
    out += [main] * max(rounds - len(MOMENTS) - pilots, 1)
    last = int(measured * rows)
    return (*out, Round("measures", last)) if last else tuple(out)


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
    last = sum(r.people for r in rounds[number:] if r.role == "measures")
    return max((rows - last - sum(held)) // left, 1)
