"""Plans: what so many people at such a budget will show, and the searches behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import binom, norm

from privreg.arrays import Array
from privreg.diagnostics import Diagnostic
from privreg.errors import (
    BudgetError,
    InferenceError,
    OptionError,
    SchemaError,
    UnsupportedArgumentError,
    flag,
    meant,
    shown,
    whole,
)
from privreg.families import Expectile, Family, Huber, Poisson, Squared
from privreg.formula.spec import ModelSpec
from privreg.options.progress import progress_bar
from privreg.options.table import check
from privreg.planning.fits import FittedPrecision, PlainPrecision, fit_of, plain_precision
from privreg.planning.precision import ASKED, SEED, Precision, precision_of, worth
from privreg.planning.scenario import Assumed
from privreg.privacy.ledger import Budget
from privreg.tables import Lines, Notes, Paragraph, Part, Table, View, in_one_format

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    AnyPrecision = Precision | FittedPrecision | PlainPrecision

FEWEST: Final = 100
MOST_PEOPLE: Final = 10**13
START, FEW = 64_000, 4_000  # Where the search for a number of people begins, of local reports and of others
BUDGETS: Final = (0.01, 100.0)
CLOSE, CLOSE_MU = 1e-4, 6e-3  # By what part searches for people and for μ may miss
TRUST: Final = {"local": "", "two_collectors": ", two collectors", "central": ", a trusted curator"}
SEES: Final = {
    "local": "nobody",
    "two_collectors": "nobody, if two don't collude",
    "central": "a curator",
    "no privacy": "who analyses",
}
USUAL: Final = 1.345  # Corner of Huber's and expectiles' scores in residual sd, where noise falls on sums
MOST_ROWS: Final = 10**8
SURE: Final = 0.999
COLUMNS: Final = ["people", "std_error", "width", "reliable"]
SAID: Final = frozenset({"raised", "missed", "unreliable", "seldom", "rare"})
"""Notes of a plan that comparisons repeat."""


# --- searches --------------------------------------------------------------------------------------------


def reach(apart: Callable[[float], float], start: float, low: float, high: float, power: float, close: float) -> float:
    """Least number in [low, high], but for a part `close`, at which `apart` is at most 1; inf if it is at none.

    `apart` falls about as its argument to the power −`power`: by steps of that size it is enclosed.
    """
    known: dict[float, float] = {}

    def log_apart(at: float) -> float:
        if at not in known:
            found = apart(math.exp(at))
            known[at] = math.log(max(found, 1e-9)) if found < 1e9 else math.log(1e9)  # where nothing is known, too
        return known[at]

    ends, at = (math.log(low), math.log(high)), math.log(start)
    far, first = 2.0 * close, log_apart(at)
    while True:
        far = max(1.1 * abs(log_apart(at)) / power, 2.0 * far)  # a little farther, as errors may fall more slowly
        to = min(max(at + math.copysign(far, first), ends[0]), ends[1])
        if to == at:
            return math.exp(at) if first <= 0.0 else math.inf
        if (log_apart(to) <= 0.0) != (first <= 0.0):
            break
        at = to
    root = float(brentq(log_apart, at, to, xtol=close))
    return math.exp(root if log_apart(root) <= 0.0 else root + close)


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
    Above `MOST_PEOPLE` if none is enough.
    """
    found = reach(apart, start, FEWEST, MOST_PEOPLE, 0.5, CLOSE)
    out = int(rounded_up(min(found, MOST_PEOPLE + 1)))
    while out <= MOST_PEOPLE and apart(out) > 1.0:
        out = int(rounded_up(out * 1.002))
    return out


def enough(people: int) -> int:
    """Refuse more people than there ever are."""
    if people > MOST_PEOPLE:
        raise InferenceError(f"even {MOST_PEOPLE:.0e} records would not do; raise the budget, or ask for less.")
    return people


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


# --- the plan --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """What is asked of coefficients; user's units."""

    widths: dict[str, float]  # Of intervals, at most
    effects: dict[str, float]  # Sizes of coefficients that are to be told from zero
    power: float  # With what probability


@dataclass(frozen=True, repr=False)
class StudyPlan(View):
    """What a regression with so many people at such a budget will show. Made by :func:`privreg.plan`."""

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

    @property
    def critical(self) -> str:
        """The coefficient whose goal is hardest to reach; without a goal the one with the widest interval."""
        hard = self._hardness(self.n)
        if hard:
            return max(hard, key=lambda c: hard[c])
        table = self._table()
        slopes = table.drop(index="Intercept", errors="ignore")
        return str((slopes if len(slopes) else table)["width"].idxmax())

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

    # --- precision -------------------------------------------------------------------------------------

    @property
    def _z(self) -> float:
        return float(norm.isf(self.alpha / 2.0))

    def _table(self, n: int | None = None, each: AnyPrecision | None = None) -> pd.DataFrame:
        """Precision of all coefficients with `n` people, of this plan or of another one's `each`; see `table`."""
        se = (each or self._precision).std_errors(self.n if n is None else n)
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

    def _hardness(self, n: float, each: AnyPrecision | None = None) -> dict[str, float]:
        """Standard errors with `n` people, relative to those that the goal allows, by coefficient of the goal."""
        se = dict(zip(self.spec.coefficients, (each or self._precision).std_errors(n), strict=True))
        return {c: 2.0 * self._z * float(se[c]) / min(asked) for c, asked in self._targets().items()}

    def _people(self, each: AnyPrecision) -> int:
        """Least number of people that reach the goal."""
        start = START if self.spec.trust == "local" else FEW
        return people_for(lambda n: max(self._hardness(n, each).values()), start)

    def _at(self, spec: ModelSpec) -> Self:
        """The same question of another model."""
        return replace(self, spec=spec, _precision=precision_of(spec, self.assumed))

    def _answered(self) -> Self:
        """The plan with the people that its goal needs, where they are asked for, and from whom on fits can be relied
        on. Raises InferenceError if no number of people is enough.
        """
        out = self
        if not self.n:
            needed = enough(self._people(self._precision))
            out = replace(self, n=needed, asked="people", needed=needed)
        names = list(self.spec.coefficients)
        columns = {names.index(c) % len(self.spec.design.names) for c in self._targets() or names}
        found = least(lambda n: self._precision.reliable(n, columns))
        raised = out.asked == "people" and found <= MOST_PEOPLE
        return replace(
            out, n=max(out.n, found) if raised else out.n, reliable=found if found <= MOST_PEOPLE else math.inf
        )

    def _with_least_budget(self) -> Self:
        """The plan with the least μ, to three digits, that reaches its goal with its people.
        Raises InferenceError if none does.
        """

        def apart(mu: float) -> float:
            return max(self._hardness(self.n, precision_of(with_mu(self.spec, mu), self.assumed)).values())

        found = reach(apart, 1.0, *BUDGETS, 1.0, CLOSE_MU)
        if found > BUDGETS[1] * (1.0 + CLOSE_MU):
            raise InferenceError(
                f"{self.n:,} records are too few for that even at mu = {BUDGETS[1]:g}; ask more people, or for less."
            )
        return replace(self._at(with_mu(self.spec, rounded_up(found))), asked="budget")

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
            all_ = self._table()
            return all_ if power is None else all_.assign(detectable=self._shift(power) * all_["std_error"])
        scale = 2.0 * self._z if power is None else self._shift(power)
        people = [self.n] if n is None else [read_people(v) for v in _several(n)]
        label, given = ("mu", mu) if epsilon is None else ("epsilon", epsilon)
        budgets: dict[float | str, Budget]
        if given is None:
            label, budgets = "budget", {str(self.budget): self.budget}
        else:
            budgets = {getattr(b, label): b for b in (Budget.declare(**{label: v}) for v in _several(given))}
        name = self._coef(coef)
        at, widths, trusted = list(self.spec.coefficients).index(name), {}, dict[float | str, list[bool]]()
        for key, budget in budgets.items():
            each = self if budget == self.budget else self._at(replace(self.spec, budget=budget))
            widths[key] = [scale * float(each._precision.std_errors(k)[at]) for k in people]
            trusted[key] = [each._precision.reliable(k, {at % len(self.spec.design.names)}) for k in people]
        found = pd.DataFrame(widths, index=pd.Index(people, name="n"))
        found.columns.name = label
        found.attrs |= {"coef": name, "reliable": trusted}
        return found

    def _nearby(self, people: list[int], budgets: list[float], coef: str, *, pure: bool) -> tuple[pd.DataFrame, Array]:
        """Mean widths as of `table`, and numbers of people from which on intervals can be relied on, by budget.

        But for a few percent, and for more where intervals can't be relied on: of as many people at this budget as are
        worth the same, rehearsed at few numbers of them.
        """
        at, own = list(self.spec.coefficients).index(coef), worth(self.spec, self._precision)
        made = [Budget.declare(epsilon=b) if pure else Budget.declare(b) for b in budgets]
        more = np.array([worth(replace(self.spec, budget=budget), self._precision) / own for budget in made])
        alike = np.outer(np.array(people, dtype=float), more)
        same = 1.0 if self.spec.trust == "local" else np.sqrt(more)  # people of sampling alone are worth as many
        widths = 2.0 * self._z * same * self._errors(alike, at)
        found = pd.DataFrame(widths, index=pd.Index(people, name="n"), columns=budgets)
        found.columns.name = "epsilon" if pure else "mu"
        return found, self.reliable / more

    def _errors(self, people: Array, coef: int) -> Array:
        """Standard errors of one coefficient with these numbers of people, same shape."""
        found = [self._precision.std_errors(float(n))[coef] for n in people.ravel()]
        return np.array(found).reshape(people.shape)

    def _coef(self, coef: str | None) -> str:
        """The coefficient of that name; by default the one with the most demanding goal."""
        return self.critical if coef is None else find(coef, self.spec.coefficients)[0]

    # --- views -----------------------------------------------------------------------------------------

    def summary(self) -> Self:
        """The plan itself, which prints as a table."""
        return self

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """What to know about the answer."""
        from privreg.planning import wording

        return wording.notes(self)

    def _layout(self) -> list[Part]:
        from privreg.planning import wording

        table = self._table()
        columns = [["" if v == "nan" else v for v in in_one_format(table[c], 3)] for c in table.columns]
        heads = [str(c).replace("_", " ") for c in table.columns]
        if self.skewed is not None:
            heads, columns = [*heads, "if skewed"], [*columns, in_one_format(self.skewed._table()["width"], 3)]
        shown = Table([str(i) for i in table.index], heads, list(zip(*columns, strict=True)))
        model = "Assumed: " + "; ".join(f"{a} {b}" for a, b in self.assumed.words(self.spec))
        head, space = Paragraph(f"Plan: {self.spec.formula}"), Lines(("",))
        return [head, space, Paragraph(wording.answer(self)), shown, space, Paragraph(model), Notes(self.notes)]

    def plot(self, coef: str | None = None, *, power: bool = False, ax: Axes | None = None) -> Axes:
        """Contours of an interval's mean width over budget and people; or the power of tests over people.

        Parameters
        ----------
        coef : str, optional
            By default the one with the most demanding goal; of powers all that effects were given for.
        power : bool
            Draw the probability that tests tell the effects from zero.
        ax : Axes, optional

        Raises
        ------
        OptionError
            If powers are to be drawn, and the plan has no effect of the coefficient.
        """
        from privreg.planning import plots

        if flag("power", power):
            wanted = list(self.goal.effects) if coef is None else find(coef, self.spec.coefficients)
            return plots.powers(self, wanted, ax=ax)
        return plots.contours(self, self._coef(coef), ax=ax)

    # --- the same question otherwise -------------------------------------------------------------------

    def compare_trust(self, coef: str | None = None) -> StudyTable:
        """Ask the same question under each trust model, and without privacy.

        Parameters
        ----------
        coef : str, optional
            Whose precision is shown; by default the one with the most demanding goal.

        Returns
        -------
        StudyTable
            It prints as a table; ``table`` is the DataFrame.
        """
        coef = self._coef(coef)
        found = self._compared({t: {"trust": t} for t in TRUST}, coef)
        table, plain = found.table, plain_precision(self.spec, self.assumed, SEED)
        if plain is not None:
            n = self._people(plain) if self.asked == "people" else self.n
            table = pd.concat([table, self._table(n, plain).loc[[coef]].assign(people=n, reliable=True)[COLUMNS]])
            table.index = pd.Index([*found.table.index, "no privacy"])
        table.insert(0, "sees_a_row", [SEES[str(trust)] for trust in table.index])
        return replace(found, table=table)

    def compare_families(self, coef: str | None = None) -> StudyTable:
        """Ask the same question of each family for such a response.

        Of numbers Huber(), Huber(1.345), Expectile(0.5) and Squared(); of counts Poisson(y_max), and the same with
        c = 1.5; and the plan's own. `coef` and the table are as of :meth:`compare_trust`.

        Raises
        ------
        OptionError
            If the response is neither a number nor a count.
        """
        own, families = self.spec.family, list[Family]()
        if own.response == "count":
            families = [Poisson(own.y_max), Poisson(own.y_max, c=1.5)]
        elif own.scaled:
            families = [Huber(), Huber(1.345), Expectile(0.5), Squared()]
        else:
            raise OptionError(f"families are compared of numbers and counts, and this is a plan for {own!r}.")
        families += [own] if own not in families else []
        found = self._compared({repr(family): {"family": family} for family in families}, self._coef(coef))
        return replace(found, notes=(*(f"{family!r}: {family.estimand}" for family in families), *found.notes))

    def _compared(self, asked: Mapping[str, Mapping[str, Any]], coef: str) -> StudyTable:
        """The same question under other trust models or of other families: people, and precision of `coef`."""
        lines, notes = dict[str, Sequence[Any]](), list[str]()
        for name, other in asked.items():
            try:
                one = self._under(**other)
            except (BudgetError, InferenceError, OptionError, SchemaError, UnsupportedArgumentError) as e:
                lines[name] = (None, math.nan, math.nan, False)
                notes.append(f"{name}: {e}")
                continue
            line = one._table().loc[coef]
            lines[name] = (one.n, line["std_error"], line["width"], one.n >= one.reliable)
            notes += [f"{name}: {note}" for note in one.notes if note.code in SAID]
        table = pd.DataFrame.from_dict(lines, orient="index", columns=COLUMNS).astype({"people": "Int64"})
        what = "people needed" if self.asked == "people" else f"{self.n:,} people"
        title = f"{self.spec.formula}, {self.budget} per person: {what}; precision of {coef}"
        return StudyTable(table, title, tuple(notes))

    def _under(self, trust: str | None = None, family: Family | None = None) -> Self:
        """The same question under another trust model, or of another family."""
        old, trust = self.spec, trust or self.spec.trust
        if (trust, family or old.family) == (old.trust, old.family):
            return self
        how = (old.score_weights, old.mechanism if family else "auto", old.private, old.people, trust)
        spec = ModelSpec.declare(old.design, family or old.family, old.budget, *how)
        return replace(self._at(spec), n=0 if self.asked == "people" else self.n)._answered()

    def check(self, reps: int = 20, *, seed: int | None = None, progress: bool | None = None) -> pd.DataFrame:
        """Simulate people as assumed, fit them, and compare.

        Parameters
        ----------
        reps : int
            Replications; each is a fit of `n` made-up people.
        seed : int, optional
            For the same numbers again.
        progress : bool, optional

        Returns
        -------
        DataFrame
            Indexed by coefficient: planned and simulated mean width, their ratio with its standard error, and how often
            intervals held the truth, with exact 99.9% limits of that share if they hold at their level. Where effects
            were asked for, how often they were told from zero.

        Raises
        ------
        OptionError
            If the response is an expression, or there are more than 10⁸ rows to fit.
        """
        reps, seed = whole("reps", reps, 2), check("local.fit", "seed", seed)
        if self.n * reps > MOST_ROWS:
            most = MOST_ROWS // self.n
            raise OptionError(
                f"{reps} fits of {self.n:,} records are more than {MOST_ROWS:,} rows; "
                + (f"give reps={most} at most." if most > 1 else "check a plan of fewer records with the same budget.")
            )
        limits = []
        with progress_bar(reps, progress) as bar:
            for k, state in enumerate(np.random.SeedSequence(seed).spawn(reps)):
                rng, noise = np.random.Generator(np.random.SFC64(state)), None if seed is None else (seed + k) % 2**63
                res, settings = fit_of(self.spec, self.assumed, self.n, rng, noise)
                limits.append(res.conf_int(self.alpha).to_numpy().T)
                bar.update(1)
        low, high = np.swapaxes(limits, 0, 1)
        truth = self.assumed.truth(self.spec, USUAL if settings.efficient is None else settings.efficient.rules.ratio)
        table, widths = self._table(), high - low
        out = pd.DataFrame({"planned": table["width"], "simulated": widths.mean(axis=0)})
        out["ratio"] = out["simulated"] / out["planned"]
        out["ratio_se"] = widths.std(axis=0, ddof=1) / math.sqrt(reps) / out["planned"]
        held = ((low <= truth) & (truth <= high)).mean(axis=0)
        out["coverage"] = np.where(np.isnan(truth), math.nan, held)
        few, many = binom.interval(SURE, reps, 1.0 - self.alpha)
        out["at_least"], out["at_most"] = few / reps, many / reps
        if self.goal.effects:
            out["power"], out["told"] = table["power"], ((low > 0.0) | (high < 0.0)).mean(axis=0)
        return out


@dataclass(frozen=True, repr=False)
class StudyTable(View):
    """The same study under each trust model and without noise, or with each family.

    Parameters
    ----------
    table : DataFrame
        Indexed by "local", "two_collectors", "central" and "no privacy", or by family: who sees a row (of trust
        models), people (needed, or given), the coefficient's standard error and mean width of its interval, and whether
        a fit lets it be relied on.
    title : str
    notes : tuple of str
        What each family estimates; what a line means that misses the goal, exceeds it, or has no numbers.
    """

    table: pd.DataFrame
    title: str
    notes: tuple[str, ...] = ()

    def _layout(self) -> list[Part]:
        shown = self.table.assign(people=["-" if pd.isna(n) else f"{n:,}" for n in self.table["people"]])
        for name in ("std_error", "width"):
            shown[name] = ["-" if v in {"nan", "inf"} else v for v in in_one_format(shown[name].to_numpy(), 3)]
        shown["reliable"] = ["yes" if v else "no" for v in shown["reliable"]]
        heads = [name.replace("_", " ") for name in shown.columns]
        table = Table(list(shown.index), heads, list(shown.itertuples(index=False)))
        return [Paragraph(self.title), table, Notes(self.notes)]


def find(coef: object, names: Sequence[str], option: str = "coef") -> list[str]:
    """Coefficients of this name, or of the column of this name; `option` is what was given, for the message."""
    if isinstance(coef, str):
        if coef in names:
            return [coef]
        found = [c for c in names if c.startswith((f"{coef}[", f"C({coef}"))]
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
