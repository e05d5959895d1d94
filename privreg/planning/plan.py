"""Plans: what so many people at such a budget will show, and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from privreg.arrays import Array
from privreg.diagnostics import Diagnostic
from privreg.errors import InferenceError, OptionError, meant, shown
from privreg.fits.notes import unweighted
from privreg.fits.results import of_many_rows
from privreg.formula.spec import ModelSpec
from privreg.options.table import check
from privreg.planning.fits import MOST, FittedPrecision, PlainPrecision
from privreg.planning.precision import ASKED, Precision, precision_of, worth
from privreg.planning.scenario import Assumed
from privreg.privacy.ledger import Budget
from privreg.tables import Lines, Notes, Paragraph, Part, Table, View, in_one_format

MOST_PEOPLE: Final = 10**13
FEWEST: Final = 100
START: Final = 64_000
TRIALS: Final = 30
CLOSE: Final = 1e-4  # Where the search for a number of people begins, how often it goes on at most, and when it ends
TRUST: Final = {"local": "", "two_collectors": ", two collectors", "central": ", a trusted curator"}
MOST_OUTSIDE: Final = 0.02  # Share of responses beyond their declared range from which on a plan warns


@dataclass(frozen=True)
class Goal:
    """What is asked of coefficients; user's units."""

    widths: dict[str, float]  # Of intervals, at most
    effects: dict[str, float]  # Sizes of coefficients that are to be told from zero
    power: float  # With what probability


@dataclass(frozen=True, repr=False)
class Planned(View):
    """What a regression with so many people at such a budget will show: its numbers and words; see `StudyPlan`."""

    spec: ModelSpec  # The model, with the budget
    n: int  # People
    asked: str  # What was asked for: "people", "budget" or "precision"
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

    # --- what it says ----------------------------------------------------------------------------------

    @cached_property
    def skewed(self) -> Self | None:
        """The same plan for exponential numbers, correlated by 0.5, where their spread is not known; None if all is."""
        assumed = self.assumed.unknown(self.spec)
        if assumed is None or self.assumed.skewed:
            return None
        try:
            each = precision_of(self.spec, assumed, getattr(self._precision, "asked", ASKED))
            each.std_errors(self.n)
        except InferenceError:
            return None
        return replace(self, assumed=assumed, _precision=each)

    def table(
        self, n: Any = None, mu: Any = None, coef: str | None = None, *, epsilon: Any = None, power: Any = None
    ) -> pd.DataFrame:
        """Precision of every coefficient; or mean widths of one over numbers of people and budgets.

        Parameters
        ----------
        n, mu : sequence of numbers, optional
            People and budgets μ per person; one of them is enough.
        coef : str, optional
            Of the second form; by default the one with the most demanding goal.
        epsilon : sequence of numbers, optional
            Pure budgets per person, in place of `mu`.
        power : float, optional
            Show detectable effects, the least that tests tell from zero with this probability, in place of widths.

        Returns
        -------
        DataFrame
            Indexed by coefficient, with columns std_error, width (mean length of the interval) and, where effects were
            asked for, effect and power; with `power` detectable. Or indexed by n, with a column for each budget;
            ``attrs["reliable"]`` has by budget, for each n, whether a fit would let the interval be relied on.

        Raises
        ------
        OptionError, BudgetError
            If a number of people, a budget or a coefficient is none.
        """
        if mu is not None and epsilon is not None:
            raise OptionError("give mu= or epsilon=, not both.")
        if n is None and mu is None and epsilon is None:
            if coef is not None:
                raise OptionError("coef= is for tables over n= or mu=; leave it out, or give one of them.")
            all_ = table_of(self, self.n, self._precision)
            return all_ if power is None else all_.assign(detectable=shift_for(self, power) * all_["std_error"])
        scale = 1.0 if power is None else shift_for(self, power) / (2.0 * float(norm.isf(self.alpha / 2.0)))
        people = [self.n] if n is None else [read_people(v) for v in _several(n)]
        budgets: dict[float | str, Budget]
        if mu is not None:
            label, budgets = "mu", {b.mu: b for b in map(Budget.declare, _several(mu))}
        elif epsilon is not None:
            label, budgets = "epsilon", {b.epsilon: b for b in (Budget.declare(epsilon=e) for e in _several(epsilon))}
        else:
            label, budgets = "budget", {str(self.budget): self.budget}
        name = self._coef(coef)
        column = list(self.spec.coefficients).index(name) % len(self.spec.design.names)
        out, trusted = {}, dict[float | str, list[bool]]()
        for key, budget in budgets.items():
            own = budget == self.budget
            each = self._precision if own else precision_of(replace(self.spec, budget=budget), self.assumed)
            out[key] = [scale * _value(table_of(self, k, each), name, "width") for k in people]
            trusted[key] = [each.reliable(k, {column}) for k in people]
        found = pd.DataFrame(out, index=pd.Index(people, name="n"))
        found.columns.name = label
        found.attrs |= {"coef": name, "reliable": trusted}
        return found

    def _nearby(self, people: list[int], budgets: list[float], coef: str, *, pure: bool) -> tuple[pd.DataFrame, Array]:
        """Mean widths as of `table`, and numbers of people from which on intervals can be relied on, by budget.

        But for a few percent, and for more where intervals can't be relied on: of as many people at this budget as are
        worth the same, rehearsed at few numbers of them.
        """
        at = list(self.spec.coefficients).index(coef)
        twice, own = 2.0 * float(norm.isf(self.alpha / 2.0)), worth(self.spec, self._precision)
        made = [Budget.declare(epsilon=b) if pure else Budget.declare(b) for b in budgets]
        more = np.array([worth(replace(self.spec, budget=budget), self._precision) / own for budget in made])
        alike = np.outer(np.array(people, dtype=float), more)
        same = 1.0 if self.spec.trust == "local" else np.sqrt(more)  # people of sampling alone are worth as many
        widths = twice * same * self._precision.smooth_errors(alike, at)
        found = pd.DataFrame(widths, index=pd.Index(people, name="n"), columns=budgets)
        found.columns.name = "epsilon" if pure else "mu"
        return found, self.reliable / more

    @property
    def critical(self) -> str:
        """The coefficient whose goal is hardest to reach; without a goal the one with the widest interval."""
        hard = _hardness(self, self.n, self._precision)
        if hard:
            return str(max(hard, key=lambda c: hard[c]))
        table = table_of(self, self.n, self._precision)
        slopes = table.drop(index="Intercept", errors="ignore")
        return str((slopes if len(slopes) else table)["width"].idxmax())

    def _coef(self, coef: str | None) -> str:
        """The coefficient of that name; by default the one with the most demanding goal."""
        return self.critical if coef is None else find(coef, self.spec.coefficients)[0]

    def summary(self) -> Self:
        """The plan itself, which prints as a table."""
        return self

    def _layout(self) -> list[Part]:
        table = table_of(self, self.n, self._precision)
        columns = [["" if v == "nan" else v for v in in_one_format(table[c], 3)] for c in table.columns]
        heads = [str(c).replace("_", " ") for c in table.columns]
        if self.skewed is not None:
            widths = table_of(self.skewed, self.n, self.skewed._precision)["width"]
            heads, columns = [*heads, "if skewed"], [*columns, in_one_format(widths, 3)]
        rows = list(zip(*columns, strict=True))
        shown = Table([str(i) for i in table.index], heads, rows)
        model = "Assumed: " + "; ".join(f"{a} {b}" for a, b in self._assumptions())
        head, space = Paragraph(f"Plan: {self.spec.formula}"), Lines(("",))
        return [head, space, Paragraph(self._answer()), shown, space, Paragraph(model), Notes(self.notes)]

    def _answer(self) -> str:
        what = f"{self.spec.family!r}, {self.spec.budget} per person{TRUST[self.spec.trust]}"
        k = self.spec.people.k_max
        asked = f"{self.n:,} records" if k is None else f"{self.n:,} people, {k:,} rows each,"
        if self.asked == "people" and self._rows:
            return f"{asked} are needed, of which no fit lets intervals be relied on ({what})."
        if self.asked == "people" and self.reliable > MOST_PEOPLE:
            never = self._named(self._precision.rare(MOST_PEOPLE))
            rare = f"No number of records is enough to rely on the intervals of {never}: a level is too rare."
            rare = (
                rare if never else f"Most fits of up to {MOST:,} made-up people, the most that were tried, mark some."
            )
            return f"{rare} Below: {asked.rstrip(',')} ({what})."
        if self.asked == "people":
            return f"{asked} are needed ({what})."
        asked = asked.rstrip(",")
        if self.asked == "budget":
            how = f"{self.spec.family!r}{TRUST[self.spec.trust]}"
            return f"A budget of {self.spec.budget} per person is needed with {asked} ({how})."
        return f"{asked} ({what})."

    def _named(self, columns: Collection[int]) -> str:
        """Coefficients of these columns of the design."""
        names = self.spec.coefficients
        return ", ".join(c for k, c in enumerate(names) if k % len(self.spec.design.names) in columns)

    @property
    def _rows(self) -> str:
        """Why no number of people is enough to rely on any interval; empty if one is."""
        return of_many_rows(self.spec) if self.spec.trust == "local" else ""

    def _doubts(self) -> dict[str, str]:
        """Why a fit of so many people would say not to rely on intervals."""
        out, each = dict[str, str](), self._precision
        if self._rows:
            return {"rows": f"don't rely on intervals: {self._rows}"}
        enough = least(lambda n: each.reliable(n, ()))
        if self.n < enough:
            more = f"with so few records: {enough:,} are needed for that"
            never_enough = f"as most fits of up to {MOST:,} made-up people, the most that were tried, mark some"
            out["unreliable"] = f"don't rely on intervals {more if enough <= MOST_PEOPLE else never_enough}"
        never = each.rare(MOST_PEOPLE)
        few = each.rare(self.n) - never
        if few:
            would = least(lambda n: each.rare(n).isdisjoint(few))
            out["seldom"] = (
                f"don't rely on the intervals of {self._named(few)} with so few records: too few have a level that "
                f"they depend on; {would:,} records would do"
            )
        if never:
            out["rare"] = (
                f"don't rely on the intervals of {self._named(never)}, with any number of records: a level that they "
                "depend on is too rare; merge levels, compare with a common one, or leave it out"
            )
        return out

    def _missed(self) -> str:
        """Which goals so many people don't reach, in words."""
        table, out = table_of(self, self.n, self._precision), []
        for name, most in self.goal.widths.items():
            if _value(table, name, "width") > most * (1.0 + CLOSE):
                out.append(f"the width of {name} was to be {most:g} at most")
        for name in self.goal.effects:
            if _value(table, name, "power") < self.goal.power - CLOSE:
                out.append(f"the power for {name} was to be {self.goal.power:g}")
        return ", ".join(out)

    def _assumptions(self) -> list[tuple[str, str]]:
        out = self.assumed.words(self.spec)
        if not self.spec.family.scaled:
            names = self.spec.coefficients
            model = [f"{c} = {v:g}" for c, v in zip(names, self.assumed.params, strict=True) if v]
            rest = " and 0 otherwise" if len(model) < len(names) else ""
            out.append(("coefficients", ", ".join(model) + rest if model else "0"))
        return out

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """What to know about the answer."""
        low = f"{100.0 * (1.0 - self.alpha):g}%"
        out = {"widths": f"widths are {_WIDTHS[self.spec.trust == 'local'].format(low)}"}
        if self.goal.effects:
            out["power"] = f"power is that of the two-sided test of each coefficient at level {self.alpha:g}"
        if self.asked == "people" and self.needed < self.n:
            out["raised"] = (
                f"{self.needed:,} records would do for that precision, but intervals can be relied on from "
                f"{self.reliable:,} on"
            )
        if self.asked == "precision" and (missed := self._missed()):
            out["missed"] = f"so many records at this budget don't reach what was asked for: {missed}"
        out |= self._doubts()
        if self.spec.unweighted:
            usual = precision_of(replace(self.spec, score_weights=None), self.assumed)
            times = float(np.mean((self._precision.std_errors(self.n) / usual.std_errors(self.n)) ** 2))
            out["unweighted"] = str(unweighted(times))
        rows = self.spec.people.k_max
        if rows is not None:
            larger = f"{rows:,}/m" if self.spec.people.effect is None else f"{rows - 1:,}/(m - 1)"
            out["rows_assumed"] = (
                f"records are people here, with {rows:,} rows each. Where people have fewer, noise makes standard "
                f"errors up to about {larger} times as large, with m the mean number of rows that count"
            )
        guessed = self.spec.family.scaled and self.assumed.usual  # from the range itself
        outside = self.assumed.outside(self.spec)
        if outside > MOST_OUTSIDE and not guessed:
            out["clamped"] = (
                f"some {100.0 * outside:.0f}% of the responses, as assumed, lie outside the declared range and would "
                "be clamped: that moves estimates, so that fits mark them. Declare a wider range, or mend params="
            )
        worst = self.assumed.unknown(self.spec)
        if worst is not None:
            name, times = worst.matters(self.spec)
            how = "correlations of 0.5" if name == "correlations" else f"a skewed {name}"
            most = "the residual sd, to which all widths are proportional, and then " if guessed else ""
            known = "of the sds that were given" if self.assumed.moments.moments else "even"
            out["covariates_assumed"] = (
                f"covariates are taken for independent and {known}, as no public rows of them were given. Skewed and "
                f"related ones need more records: widths are then near the last column. What matters most of all that "
                f"is assumed is {most}{how}: some intervals would be {times:.1f} times as wide. Give pilot=, rows like "
                "theirs or their sds"
            )
        if guessed:
            (low_, high), name = self.spec.design.endog_limits, self.spec.design.endog_name
            whose = f"a quarter of the declared range of {name}, {low_:,.10g} to {high:,.10g}"
            whose = whose if math.isfinite(high - low_) else f"the declared sd of {name}"
            out["scale_assumed"] = (
                f"the residual sd was not given: {self.assumed.spread} is {whose}; widths go with it. Give scale= if "
                "it is known"
            )
        return tuple(Diagnostic(code, text) for code, text in out.items())


_WIDTHS: Final = (
    "usual lengths of {} intervals in fits of made-up people",
    "mean lengths of {} intervals by the default method, of fits rehearsed on what the assumed records would report on "
    "average; the rounds before the main ones are counted in",
)
"""By whether reports are local."""


# --- precision -------------------------------------------------------------------------------------------


def table_of(plan: Planned, n: int, each: Precision | FittedPrecision) -> pd.DataFrame:
    """Precision of all coefficients with `n` people; see `Planned.table`."""
    names = list(plan.spec.coefficients)
    se = each.std_errors(n)
    crit = float(norm.isf(plan.alpha / 2.0))
    out = pd.DataFrame({"std_error": se, "width": 2.0 * crit * se}, index=pd.Index(names, name="coefficient"))
    if plan.goal.effects:
        effects = np.array([plan.goal.effects.get(name, math.nan) for name in names])
        out["effect"] = effects
        out["power"] = power_of(np.abs(effects) / se, crit)
    return out


def shift_for(plan: Planned, power: Any) -> float:
    """Effect in standard errors that a test finds with this probability, above the test's level."""
    share, crit = check("plan.formula", "power", power), float(norm.isf(plan.alpha / 2.0))
    if share <= plan.alpha:
        raise OptionError(f"power={shown(power)} must be above alpha = {plan.alpha:g}, which no effect has.")
    return float(brentq(lambda v: power_of(v, crit) - share, 0.0, 60.0))


def power_of(shift: Any, crit: float) -> Any:
    """Power of the two-sided test of an effect of `shift` standard errors."""
    return norm.sf(crit - shift) + norm.cdf(-crit - shift)


def distance(plan: Planned, n: float, each: Precision | FittedPrecision | PlainPrecision) -> float:
    """Standard errors with `n` people, relative to those that the plan's goal allows; the hardest one's."""
    hard = _hardness(plan, n, each)
    return max(hard.values())


def _hardness(plan: Planned, n: float, each: Precision | FittedPrecision | PlainPrecision) -> dict[str, float]:
    se = dict(zip(plan.spec.coefficients, each.std_errors(n), strict=True))
    crit = float(norm.isf(plan.alpha / 2.0))
    return {c: 2.0 * crit * float(se[c]) / min(asked) for c, asked in targets(plan).items()}


def targets(plan: Planned) -> dict[str, dict[float, str]]:
    """Mean widths that the plan's goal allows, by coefficient; each with what it is for, in words."""
    out: dict[str, dict[float, str]] = {c: {w: f"target {w:,g}"} for c, w in plan.goal.widths.items()}
    if plan.goal.effects:
        crit = float(norm.isf(plan.alpha / 2.0))
        shift = shift_for(plan, plan.goal.power)
        for c, e in plan.goal.effects.items():
            words = f"{100.0 * plan.goal.power:g}% power"
            out.setdefault(c, {})[2.0 * crit * abs(e) / shift] = words
    return out


def people_for(plan: Planned, each: Precision | FittedPrecision | PlainPrecision) -> int:
    """Least number of people that reach the plan's goal, to three digits; above `MOST_PEOPLE` if none does."""
    n, low, high = float(START), float(FEWEST), 2.0 * MOST_PEOPLE
    for trial in range(TRIALS):
        apart = distance(plan, n, each)
        if apart > 1.0:
            low = max(low, n)
        else:
            high = min(high, n)
        if abs(apart - 1.0) < CLOSE or low >= 2.0 * MOST_PEOPLE or high <= FEWEST:
            break
        step = min(max(n * apart**2, FEWEST), 2.0 * MOST_PEOPLE)
        # few people's errors fall faster than by their square root, so that such a step goes too far
        # and one from either side of a steep curve may go to and fro: then their middle
        direct = (low < step < high and trial < 8) or (step == high == 2.0 * MOST_PEOPLE)
        n = step if direct else math.sqrt(low * high)
    out = _rounded(n)
    while out <= MOST_PEOPLE and distance(plan, out, each) > 1.0:
        out = _rounded(out * 1.002)
    return out


def _rounded(n: float) -> int:
    """Up to three digits."""
    unit = 10.0 ** max(math.floor(math.log10(n)) - 2, 0)
    return int(math.ceil(n / unit) * unit)


def _value(table: pd.DataFrame, name: str, column: str) -> float:
    return float(table[column].to_numpy()[table.index.get_loc(name)])


def reliable_from(plan: Planned) -> float:
    """People from whom on the fit doesn't say that intervals of the goal's coefficients can't be relied on; or inf."""
    names = list(plan.spec.coefficients)
    goal = {*plan.goal.widths, *plan.goal.effects} or names
    columns = {names.index(c) % len(plan.spec.design.names) for c in goal}
    found = least(lambda n: plan._precision.reliable(n, columns))
    return found if found <= MOST_PEOPLE else math.inf


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
    return _rounded(math.exp(high))


def find(coef: object, names: Sequence[str], option: str = "coef") -> list[str]:
    """Coefficients of this name, or of the column of this name; `option` is what was given, for the message."""
    if isinstance(coef, str):
        if coef in names:
            return [coef]
        found = [c for c in names if c.startswith(f"{coef}[") or c.startswith(f"C({coef}")]
        if found:
            return found
    hint = meant(coef, names) if isinstance(coef, str) else ""
    raise OptionError(
        f"{option}= names {shown(coef)}, which is no coefficient; they are {', '.join(map(repr, names))}.{hint}"
    )


def _several(values: Any) -> list[Any]:
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def read_people(n: Any) -> int:
    """Check a number of people; one written as 1e6 will do."""
    return int(check("plan.formula", "n", n))


def with_mu(spec: ModelSpec, mu: float) -> ModelSpec:
    """The same model at another budget."""
    return replace(spec, budget=Budget.declare(None if math.isinf(mu) else mu))
