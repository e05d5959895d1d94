"""Searches for the least number that is enough, of people, of a budget or of a difference: to three digits."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from scipy.optimize import brentq
from scipy.stats import norm

from privreg.errors import InferenceError

TRUST: Final = {"local": "", "two_collectors": ", two collectors", "central": ", a trusted curator"}
"""Trust models of fits and of means, in words after a budget."""

SEES: Final = {
    "local": "nobody",
    "two_collectors": "nobody, if two don't collude",
    "silos": "each silo its people's",
    "central": "a curator",
    "no privacy": "who analyses",
}
"""Parties that see a row, by trust model."""

FEWEST: Final = 100
MOST_PEOPLE: Final = 10**13
START: Final = 64_000  # First number of people of a search
CLOSE: Final = 1e-4  # Relative error of a search, at most


def reach(
    ratio: Callable[[float], float], start: float, low: float, high: float, power: float, close: float, near: Any = None
) -> float:
    """Least number in [low, high], to three digits, at which `ratio` is at most 1; inf if it is at none.

    `ratio` falls about as its argument to the power −`power`; by steps of that size the number is enclosed, and found
    up to a part `close`: by `near`, if given, which is `ratio` but for some percent.
    """

    @cache
    def log_ratio(at: float) -> float:
        found = (near or ratio)(math.exp(at))
        return math.log(max(found, 1e-9)) if found < 1e9 else math.log(1e9)  # where nothing is known, too

    ends, at = (math.log(low), math.log(high)), math.log(start)
    far, first = 2.0 * close, log_ratio(at)
    while True:
        far *= 2.0
        step = max(1.1 * abs(log_ratio(at)) / power, far)  # a little farther, as errors may fall more slowly
        to = min(max(at + math.copysign(step, first), ends[0]), ends[1])
        if to == at:
            return rounded_up(math.exp(at)) if first <= 0.0 else math.inf
        if (log_ratio(to) <= 0.0) != (first <= 0.0):
            break
        at = to
    out = rounded_up(math.exp(float(brentq(log_ratio, at, to, xtol=close))))
    while out < high and (left := ratio(out)) > 1.0:
        out = rounded_up(out * max(1.0 + close, left ** (1.0 / power)))
    return out


def least(enough: Callable[[int], bool]) -> int:
    """Least number of people for which something holds, to three digits; it is taken to hold from there on."""
    low, high = math.log(FEWEST), math.log(MOST_PEOPLE)
    if enough(FEWEST):
        return FEWEST
    if not enough(MOST_PEOPLE):
        return MOST_PEOPLE + 1
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(int(math.exp(middle))) else (middle, high)
    return int(rounded_up(math.exp(high)))


def people_for(ratio: Callable[[float], float], start: float = START) -> int:
    """Least number of people for which `ratio`, errors over those that are allowed, is at most 1; to three digits.
    Raises InferenceError if none is enough.
    """
    found = reach(ratio, start, FEWEST, MOST_PEOPLE, 0.5, CLOSE)
    if found > MOST_PEOPLE:
        raise InferenceError(f"even {MOST_PEOPLE:.0e} records would not do; raise the budget, or ask for less.")
    return int(found)


def rounded_up(value: float) -> float:
    """Up to three digits."""
    digits = 2 - math.floor(math.log10(value))
    return round(math.ceil(value * 10.0**digits - 1e-9) / 10.0**digits, digits)


def power_of(shift: Any, crit: float) -> Any:
    """Power of the two-sided test of an effect of `shift` standard errors."""
    return norm.sf(crit - shift) + norm.cdf(-crit - shift)


def shift_for(power: float, crit: float) -> float:
    """Effect in standard errors that the two-sided test finds with this probability."""
    return float(brentq(lambda v: power_of(v, crit) - power, 0.0, 60.0))
