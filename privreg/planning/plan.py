"""Numbers of plans: what so many people at such a budget will show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from privreg.base.arrays import Array
from privreg.errors import InferenceError, OptionError, as_named, meant, plain_name, shown
from privreg.formula.spec import ModelSpec
from privreg.options.table import check
from privreg.planning.precision import FittedPrecision, Precision, precision_of
from privreg.planning.scenario import Assumed
from privreg.privacy.ledger import Budget
from privreg.tables import View

FEW: Final = 4_000  # First number of people of the search if noise falls on sums
BUDGETS: Final = (0.01, 100.0)
CLOSE_MU: Final = 6e-3  # Relative error of the search for μ, at most
TRUST: Final = {"local": "", "two_collectors": ", two collectors", "central": ", a trusted curator"}
"""Trust models of fits and of means, in words after a budget."""


@dataclass(frozen=True)
class Goal:
    """Goals of coefficients; user's units."""

    widths: dict[str, float]  # Widths of intervals, at most
    effects: dict[str, float]  # Sizes of coefficients that are to be told from zero
    power: float  # With what probability


@dataclass(frozen=True, repr=False)
class Planned(View):
    """Numbers of a planned regression, by people and budget; see `StudyPlan`."""

    spec: ModelSpec  # The model, with the budget
    n: int  # People
    asked: str  # Question: "people", "budget" or "precision"
    goal: Goal
    assumed: Assumed
    alpha: float  # One minus the level of intervals and tests
    # People from whom on intervals of the goal's coefficients can be relied on, of all without a goal; inf if no number
    # is enough
    reliable: float
    needed: int  # People that the goal alone would need; `n` where it was given
    _precision: Precision | FittedPrecision = field(repr=False, compare=False)

    @property
    def mu(self) -> float:
        """GDP parameter per person; inf without privacy."""
        return self.spec.budget.mu

    @property
    def budget(self) -> Budget:
        """Budget per person."""
        return self.spec.budget

    @property
    def critical(self) -> str:
        """The coefficient whose goal is hardest to reach; without a goal the one with the widest interval."""
        if hard := self._hardness(self._precision.std_errors(self.n)):
            return max(hard, key=lambda c: hard[c])
        table = self._table()
        slopes = table.drop(index="Intercept", errors="ignore")
        return str((slopes if len(slopes) else table)["width"].idxmax())

    @cached_property
    def skewed(self) -> Self | None:
        """Plan for exponential numbers, correlated by 0.5, where their spread is not known; None if all is."""
        assumed = self.assumed.unknown(self.spec)
        with suppress(InferenceError):
            if assumed is not None and not self.assumed.skewed:
                each = precision_of(self.spec, assumed, self._precision.asked)
                each.std_errors(self.n)
                return replace(self, assumed=assumed, _precision=each)
        return None

    @property
    def trusted(self) -> str:
        """Trusted parties in words after a budget; of silos with their number and records."""
        if not self.spec.silos:
            return TRUST[self.spec.trust]
        counts = self.spec.shared(self.n)
        some = f"{min(counts):,}" if len(set(counts)) == 1 else f"{min(counts):,} to {max(counts):,}"
        return f", {len(counts)} silo{'s' * (len(counts) > 1)} of {some}"

    @property
    def _z(self) -> float:
        return float(norm.isf(self.alpha / 2.0))

    def _table(self, se: Array | None = None) -> pd.DataFrame:
        """Precision of all coefficients, with other standard errors if they are given; see `table`."""
        se = self._precision.std_errors(self.n) if se is None else se
        index = pd.Index(self.spec.coefficients, name="coefficient")
        out = pd.DataFrame({"std_error": se, "width": 2.0 * self._z * se}, index=index)
        if self.goal.effects:
            out["effect"] = [self.goal.effects.get(name, math.nan) for name in index]
            out["power"] = power_of(np.abs(out["effect"]) / se, self._z)
        return out

    def _shift(self, power: Any) -> float:
        """Effect in standard errors that a test finds with this probability, above the test's level."""
        share = check("plan.formula", "power", power)
        if share <= self.alpha:
            raise OptionError(f"power={shown(power)} must be above alpha = {self.alpha:g}, which no effect has.")
        return shift_for(share, self._z)

    def _targets(self) -> dict[str, dict[float, str]]:
        """Mean widths that the goal allows, by coefficient; each with what it is for, in words."""
        out: dict[str, dict[float, str]] = {c: {w: f"target {w:,g}"} for c, w in self.goal.widths.items()}
        for c, e in self.goal.effects.items():
            width = 2.0 * self._z * abs(e) / self._shift(self.goal.power)
            out.setdefault(c, {})[width] = f"{100.0 * self.goal.power:g}% power"
        return out

    def _hardness(self, se: Array) -> dict[str, float]:
        """Standard errors relative to those that the goal allows, by coefficient of the goal."""
        by = dict(zip(self.spec.coefficients, se, strict=True))
        return {c: 2.0 * self._z * float(by[c]) / min(asked) for c, asked in self._targets().items()}

    def _people(self, errors: Callable[[float], Array]) -> int:
        """Least number of people who reach the goal by these errors. Raises InferenceError if none is enough."""
        start = START if self.spec.trust == "local" else FEW
        return people_for(lambda n: max(self._hardness(errors(n)).values()), start)

    def _at(self, spec: ModelSpec) -> Self:
        """Plan of another model that answers the same question."""
        return replace(self, spec=spec, _precision=precision_of(spec, self.assumed, self._precision.asked))

    def _answered(self) -> Self:
        """The plan with the people that its goal needs, where they are asked for, and from whom on fits can be relied
        on. Raises InferenceError if no number of people is enough.
        """
        asked, needed = (self.asked, self.n) if self.n else ("people", self._people(self._precision.std_errors))
        names = list(self.spec.coefficients)
        columns = {names.index(c) % len(self.spec.design.names) for c in self._targets() or names}
        found = least(lambda n: self._precision.reliable(n, columns))
        reliable, n = (math.inf, needed) if found > MOST_PEOPLE else (found, max(needed, found))
        return replace(self, n=n if asked == "people" else needed, asked=asked, needed=needed, reliable=reliable)

    def _with_least_budget(self) -> Self:
        """The plan with the least μ, to three digits, that reaches its goal with its people.
        Raises InferenceError if none does.
        """
        at = cache(lambda mu: self._at(replace(self.spec, budget=Budget.declare(mu))))

        @cache
        def apart(mu: float) -> float:
            each = at(mu)
            return max(each._hardness(each._precision.std_errors(self.n)).values())

        def near(mu: float) -> float:
            """Interpolate between powers of √2, but beside those where nothing is known."""
            low, share = divmod(round(2.0 * math.log2(mu), 9), 1.0)
            here, there = (apart(2.0 ** (0.5 * k)) for k in (low, low + (share > 0.0)))
            return here ** (1.0 - share) * there**share if max(here, there) < math.inf else apart(mu)

        found = reach(apart, 1.0, *BUDGETS, 1.0, CLOSE_MU, near)
        if found == math.inf:
            raise InferenceError(
                f"{self.n:,} records are too few for that even at mu = {BUDGETS[1]:g}; ask more people, or for less."
            )
        return replace(at(found), asked="budget")

    def table(
        self, n: Any = None, mu: Any = None, coef: str | None = None, *, epsilon: Any = None, power: Any = None
    ) -> pd.DataFrame:
        """Precision of every coefficient; or mean widths of one over numbers of people and budgets.

        Indexed by coefficient, with columns std_error, width (mean length of the interval) and, where effects were
        asked for, effect and power; with `power` detectable. Or indexed by n, with a column for each budget;
        ``attrs["reliable"]`` has by budget, for each n, whether a fit would let the interval be relied on.

        Parameters
        ----------
        n, mu, epsilon : sequence of numbers, optional
            People, and budgets μ per person or, in place of them, pure ones; one of them is enough.
        coef : str, optional
            Of the second form; by default the one with the most demanding goal.
        power : float, optional
            Show detectable effects, the least that tests tell from zero with this probability, in place of widths.
        """
        if mu is not None and epsilon is not None:
            raise OptionError("give mu= or epsilon=, not both.")
        if n is None and mu is None and epsilon is None:
            if coef is not None:
                raise OptionError("coef= is for tables over n= or mu=; leave it out, or give one of them.")
            all_ = self._table()
            return all_ if power is None else all_.assign(detectable=self._shift(power) * all_["std_error"])
        scale = 2.0 * self._z if power is None else self._shift(power)
        people = [self.n] if n is None else [check("plan.formula", "n", v) for v in _several(n)]
        label, given = ("mu", mu) if epsilon is None else ("epsilon", epsilon)
        made = [self.budget] if given is None else [Budget.declare(**{label: v}) for v in _several(given)]
        budgets: dict[float | str, Budget] = {str(b) if given is None else getattr(b, label): b for b in made}
        label = "budget" if given is None else label
        name = self._coef(coef)
        at, widths, trusted = list(self.spec.coefficients).index(name), {}, dict[float | str, list[bool]]()
        for key, budget in budgets.items():
            each = (self if budget == self.budget else self._at(replace(self.spec, budget=budget)))._precision
            widths[key] = [scale * float(each.std_errors(k)[at]) for k in people]
            trusted[key] = [each.reliable(k, {at % len(self.spec.design.names)}) for k in people]
        found = pd.DataFrame(widths, index=pd.Index(people, name="n")).rename_axis(columns=label)
        found.attrs |= {"coef": name, "reliable": trusted}
        return found

    def _nearby(self, people: list[int], budgets: list[float], coef: str, *, pure: bool) -> tuple[pd.DataFrame, Array]:
        """Mean widths as of `table`, and numbers of people from which on intervals can be relied on, by budget.

        But for a few percent, and for more where intervals can't be relied on: of as many people at this budget as are
        worth the same, rehearsed at few numbers of them.
        """
        at, worth = list(self.spec.coefficients).index(coef), self._precision.worth
        made = [Budget.declare(epsilon=b) if pure else Budget.declare(b) for b in budgets]
        more = np.array([worth(replace(self.spec, budget=budget)) / worth(self.spec) for budget in made])
        alike = np.outer(np.array(people, dtype=float), more)
        same = 1.0 if self.spec.trust == "local" else np.sqrt(more)  # people of sampling alone are worth as many
        errors = [self._precision.std_errors(float(n))[at] for n in alike.ravel()]
        widths = 2.0 * self._z * same * np.reshape(errors, alike.shape)
        columns = pd.Index(budgets, name="epsilon" if pure else "mu")
        return pd.DataFrame(widths, pd.Index(people, name="n"), columns), self.reliable / more

    def _coef(self, coef: str | None) -> str:
        """The coefficient of that name; by default the one with the most demanding goal."""
        return self.critical if coef is None else find(coef, self.spec.coefficients)[0]


def find(coef: object, names: Sequence[str], option: str = "coef") -> list[str]:
    """Coefficients of this name, or of the column of this name; `option` is what was given, for the message."""
    if isinstance(coef, str):
        if (named := as_named(coef, names)) in names:
            return [named]
        short = plain_name(coef)
        found = [c for c in names if plain_name(c).startswith((f"{short}[", f"C({short}"))]
        if found:
            return found
    hint = meant(coef, names) if isinstance(coef, str) else ""
    raise OptionError(
        f"{option}= names {shown(coef)}, which is no coefficient; they are {', '.join(map(repr, names))}.{hint}"
    )


def _several(values: Any) -> list[Any]:
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


# --- searches for the least number that is enough: of people, of a budget, of a difference; to three digits


FEWEST: Final = 100
MOST_PEOPLE: Final = 10**13
START: Final = 64_000  # First number of people of a search
CLOSE: Final = 1e-4  # Relative error of a search, at most


def reach(
    apart: Callable[[float], float], start: float, low: float, high: float, power: float, close: float, near: Any = None
) -> float:
    """Least number in [low, high], to three digits, at which `apart` is at most 1; inf if it is at none.

    `apart` falls about as its argument to the power −`power`; by steps of that size the number is enclosed, and found
    up to a part `close`: by `near`, if given, which is `apart` but for some percent.
    """

    @cache
    def log_apart(at: float) -> float:
        found = (near or apart)(math.exp(at))
        return math.log(max(found, 1e-9)) if found < 1e9 else math.log(1e9)  # where nothing is known, too

    ends, at = (math.log(low), math.log(high)), math.log(start)
    far, first = 2.0 * close, log_apart(at)
    while True:
        far *= 2.0
        step = max(1.1 * abs(log_apart(at)) / power, far)  # a little farther, as errors may fall more slowly
        to = min(max(at + math.copysign(step, first), ends[0]), ends[1])
        if to == at:
            return rounded_up(math.exp(at)) if first <= 0.0 else math.inf
        if (log_apart(to) <= 0.0) != (first <= 0.0):
            break
        at = to
    out = rounded_up(math.exp(float(brentq(log_apart, at, to, xtol=close))))
    while out < high and (left := apart(out)) > 1.0:
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


def people_for(apart: Callable[[float], float], start: float = START) -> int:
    """Least number of people for which `apart`, errors over those that are allowed, is at most 1; to three digits.
    Raises InferenceError if none is enough.
    """
    found = reach(apart, start, FEWEST, MOST_PEOPLE, 0.5, CLOSE)
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
