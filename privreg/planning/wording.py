"""Words of a plan beside its numbers: the question, the answer, notes on it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np

from privreg.fits.notes import unweighted
from privreg.fits.outcome import of_many_rows
from privreg.planning.fits import MOST
from privreg.planning.plan import Planned
from privreg.planning.precision import precision_of
from privreg.planning.search import CLOSE, MOST_PEOPLE, least
from privreg.tables.diagnostics import Diagnostic

MOST_OUTSIDE: Final = 0.02  # Share of responses beyond their declared range from which on a plan warns
NEVER: Final = f"ost fits of up to {MOST:,} made-up people, the most that were tried, mark some"

_WIDTHS: Final = (
    "usual lengths of {} intervals in fits of made-up people",
    "mean lengths of {} intervals by the default method, of fits rehearsed on what the assumed records would report on "
    "average; the rounds before the main ones are counted in",
)
"""Words on widths, by whether reports are local."""


def answer(plan: Planned) -> str:
    """Question in a sentence or two."""
    trust, k = plan.trusted, plan.spec.people.k_max
    what = f"{plan.spec.family!r}, {plan.budget} per person{trust}"
    records = f"{plan.n:,} records" if k is None else f"{plan.n:,} people, {k:,} rows each"
    if plan.asked == "budget":
        return f"A budget of {plan.budget} per person is needed with {records} ({plan.spec.family!r}{trust})."
    if plan.asked != "people":
        return f"{records} ({what})."
    needed = f"{records}{',' * (k is not None)} are needed"
    if _rows(plan):
        return f"{needed}, of which no fit lets intervals be relied on ({what})."
    if plan.reliable <= MOST_PEOPLE:
        return f"{needed} ({what})."
    never = _named(plan, plan._precision.rare(MOST_PEOPLE))
    rare = f"No number of records is enough to rely on the intervals of {never}: a level is too rare."
    return f"{rare if never else f'M{NEVER}.'} Below: {records} ({what})."


def _named(plan: Planned, columns: Collection[int]) -> str:
    """Coefficients of these columns of the design."""
    width = len(plan.spec.design.names)
    return ", ".join(c for k, c in enumerate(plan.spec.coefficients) if k % width in columns)


def _rows(plan: Planned) -> str:
    """Why no number of people is enough to rely on any interval; empty if one is."""
    return of_many_rows(plan.spec) if plan.spec.trust == "local" else ""


def _doubts(plan: Planned) -> dict[str, str]:
    """Why a fit of so many people would say not to rely on intervals."""
    out, each = dict[str, str](), plan._precision
    if rows := _rows(plan):
        return {"rows": f"don't rely on intervals: {rows}"}
    enough = least(lambda n: each.reliable(n, ()))
    if plan.n < enough:
        width = len(plan.spec.design.names)
        bad = {j for j in range(width) if not each.reliable(plan.n, {j})}
        which = "intervals" if len(bad) == width else f"the intervals of {_named(plan, bad)}"
        more = f"with so few records: {enough:,} are needed for that"
        out["unreliable"] = f"don't rely on {which} {more if enough <= MOST_PEOPLE else f'as m{NEVER}'}"
    never = each.rare(MOST_PEOPLE)
    few = each.rare(plan.n) - never
    if few:
        would = least(lambda n: each.rare(n).isdisjoint(few))
        out["seldom"] = (
            f"don't rely on the intervals of {_named(plan, few)} with so few records: too few have a level that they "
            f"depend on; {would:,} records would do"
        )
    if never:
        out["rare"] = (
            f"don't rely on the intervals of {_named(plan, never)}, with any number of records: a level that they "
            "depend on is too rare; merge levels, compare with a common one, or leave it out"
        )
    return out


def _missed(plan: Planned) -> str:
    """Which goals so many people don't reach, in words."""
    table, goal = plan._table().to_dict("index"), plan.goal
    wide = [c for c, most in goal.widths.items() if table[c]["width"] > most * (1.0 + CLOSE)]
    weak = [c for c in goal.effects if table[c]["power"] < goal.power - CLOSE]
    out = [f"the width of {c} was to be {goal.widths[c]:g} at most" for c in wide]
    return ", ".join(out + [f"the power for {c} was to be {goal.power:g}" for c in weak])


def notes(plan: Planned) -> tuple[Diagnostic, ...]:
    """Notes on the answer."""
    spec, assumed, local = plan.spec, plan.assumed, plan.spec.trust == "local"
    out = {"widths": f"widths are {_WIDTHS[local].format(f'{100.0 * (1.0 - plan.alpha):g}%')}"}
    if plan.goal.effects:
        out["power"] = f"power is that of the two-sided test of each coefficient at level {plan.alpha:g}"
    if plan.asked == "people" and plan.needed < plan.n:
        out["raised"] = (
            f"{plan.needed:,} records would do for that precision, but intervals can be relied on from "
            f"{plan.reliable:,} on"
        )
    if plan.asked == "precision" and (missed := _missed(plan)):
        out["missed"] = f"so many records at this budget don't reach what was asked for: {missed}"
    out |= _doubts(plan)
    if spec.unweighted:
        usual = precision_of(replace(spec, score_weights=None), assumed)
        times = float(np.mean((plan._precision.std_errors(plan.n) / usual.std_errors(plan.n)) ** 2))
        out["unweighted"] = str(unweighted(times))
    rows = spec.people.k_max
    if rows is not None:
        larger = f"{rows:,}/m" if spec.people.effect is None else f"{rows - 1:,}/(m - 1)"
        out["rows_assumed"] = (
            f"records are people here, with {rows:,} rows each. Where people have fewer, noise makes standard errors "
            f"up to about {larger} times as large, with m the mean number of rows that count"
        )
    guessed, outside = spec.family.scaled and assumed.usual, assumed.outside(spec)
    if outside > MOST_OUTSIDE and not guessed:
        out["clamped"] = (
            f"some {100.0 * outside:.0f}% of the responses, as assumed, lie outside the declared range and would be "
            "clamped: that moves estimates, so that fits mark them. Declare a wider range, or mend params="
        )
    if (worst := assumed.unknown(spec)) is not None:
        name, times = worst.matters(spec)
        how = "correlations of 0.5" if name == "correlations" else f"a skewed {name}"
        most = "the residual sd, to which all widths are proportional, and then " if guessed else ""
        known = "of the sds that were given" if assumed.moments.moments else "even"
        out["covariates_assumed"] = (
            f"covariates are taken for independent and {known}, as no public rows of them were given. Skewed and "
            "related ones need more records: widths are then near the last column. What matters most of all that is "
            f"assumed is {most}{how}: some intervals would be {times:.1f} times as wide. Give pilot=, rows like theirs "
            "or their sds"
        )
    if guessed:  # from the range itself
        (low, high), name = spec.design.endog_limits, spec.design.endog_name
        whose = f"a quarter of the declared range of {name}, {low:,.10g} to {high:,.10g}"
        whose = whose if math.isfinite(high - low) else f"the declared sd of {name}"
        out["scale_assumed"] = (
            f"the residual sd was not given: {assumed.spread} is {whose}; widths go with it. Give scale= if it is known"
        )
    return tuple(Diagnostic(code, text) for code, text in out.items())
