"""The answer to a question on sample size or power: its numbers, its words, pictures of it, and fits that try it."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from scipy.stats import binom, norm

from privreg.base.arrays import Array
from privreg.errors import InferenceError, OptionError, PrivregError, as_named, flag, meant, plain_name, shown, whole
from privreg.families import Expectile, Family, Huber, Poisson, Squared
from privreg.fits.notes import listed
from privreg.fits.outcome import of_many_rows
from privreg.formula.spec import ModelSpec
from privreg.options.running import progress_bar, waiting
from privreg.options.table import check
from privreg.planning import search
from privreg.planning.precision import FittedPrecision, Precision, fit_of, plain_errors, precision_of
from privreg.planning.scenario import Assumed
from privreg.privacy.ledger import Budget
from privreg.results.plots.style import COLUMN, DASHES, SMALL, Axes, drawing, inks_for, literal
from privreg.tables import Lines, Notes, Paragraph, Part, Table, View, in_one_format, shorten
from privreg.tables.diagnostics import Diagnostic, doubt, note

POINTS: Final = (41, 41)  # Points of pictures, over budgets and people
AROUND: Final = (0.1, 10.0)  # Reach of the axes about the plan's own numbers
EDGE: Final = 0.1  # No label is nearer to the edge of the axes
TITLE: Final = 46  # Characters of a line of the title, at most
FEW: Final = 4_000  # First number of people of the search if noise falls on sums
BUDGETS: Final = (0.01, 100.0)
CLOSE_MU: Final = 6e-3  # Relative error of the search for μ, at most
USUAL: Final = 1.345  # Corner of Huber's and expectiles' scores in residual sd, where noise falls on sums
MOST_ROWS: Final = 10**8
SURE: Final = 0.999
COLUMNS: Final = ["people", "std_error", "width", "reliable"]
REHEARSED: Final = "rehearsing fits of made-up people"
MOST_OUTSIDE: Final = 0.02  # Share of responses beyond their declared range from which on a plan warns
NEVER: Final = "ost fits of up to {:,} made-up people, the most that were tried, mark some"
SAID: Final = frozenset({"raised", "missed", "unreliable", "seldom", "rare"})
"""Notes of a plan that comparisons repeat."""


@dataclass(frozen=True)
class Goal:
    """Goals of coefficients; user's units."""

    widths: dict[str, float]  # Widths of intervals, at most
    effects: dict[str, float]  # Sizes of coefficients that are to be detected
    power: float  # With what probability


@dataclass(frozen=True, repr=False)
class StudyPlan(View):
    """Precision of a regression with so many people at such a budget. Made by :func:`privreg.plan`."""

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
    def _z(self) -> float:
        return float(norm.isf(self.alpha / 2.0))

    def _table(self, se: Array | None = None) -> pd.DataFrame:
        """Precision of all coefficients, with other standard errors if they are given; see `table`."""
        se = self._precision.std_errors(self.n) if se is None else se
        index = pd.Index(self.spec.coefficients, name="coefficient")
        out = pd.DataFrame({"std_error": se, "width": 2.0 * self._z * se}, index=index)
        if self.goal.effects:
            out["effect"] = [self.goal.effects.get(name, math.nan) for name in index]
            out["power"] = search.power_of(np.abs(out["effect"]) / se, self._z)
        return out

    def _shift(self, power: Any) -> float:
        """Effect in standard errors that a test finds with this probability, above the test's level."""
        share = check("plan.formula", "power", power)
        if share <= self.alpha:
            raise OptionError(f"power={shown(power)} must be above alpha = {self.alpha:g}, which no effect has.")
        return search.shift_for(share, self._z)

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
        start = search.START if self.spec.trust == "local" else FEW
        return search.people_for(lambda n: max(self._hardness(errors(n)).values()), start)

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
        found = search.least(lambda n: self._precision.reliable(n, columns))
        reliable, n = (math.inf, needed) if found > search.MOST_PEOPLE else (found, max(needed, found))
        return replace(self, n=n if asked == "people" else needed, asked=asked, needed=needed, reliable=reliable)

    def _with_least_budget(self) -> Self:
        """The plan with the least μ, to three digits, that reaches its goal with its people.
        Raises InferenceError if none does.
        """
        at = cache(lambda mu: self._at(replace(self.spec, budget=Budget.declare(mu))))

        @cache
        def hardest(mu: float) -> float:
            each = at(mu)
            return max(each._hardness(each._precision.std_errors(self.n)).values())

        def near(mu: float) -> float:
            """Interpolate between powers of √2, but beside those where nothing is known."""
            low, share = divmod(round(2.0 * math.log2(mu), 9), 1.0)
            here, there = (hardest(2.0 ** (0.5 * k)) for k in (low, low + (share > 0.0)))
            return here ** (1.0 - share) * there**share if max(here, there) < math.inf else hardest(mu)

        found = search.reach(hardest, 1.0, *BUDGETS, 1.0, CLOSE_MU, near)
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
        people = [self.n] if n is None else [check("plan.formula", "n", v) for v in np.ravel(np.asarray(n, object))]
        label, given = ("mu", mu) if epsilon is None else ("epsilon", epsilon)
        asked: Any = [] if given is None else np.ravel(np.asarray(given, object))
        made = [Budget.declare(**{label: v}) for v in asked] or [self.budget]
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

    def summary(self) -> Self:
        """The plan itself, which prints as a table."""
        return self

    @cached_property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Notes on the answer."""
        spec, assumed, local = self.spec, self.assumed, self.spec.trust == "local"
        schema, design = spec.design.schema, spec.design
        out = [note(f"widths.{'local' if local else 'sums'}", level=f"{100.0 * (1.0 - self.alpha):g}%")]
        if self.goal.effects:
            out.append(note("power", alpha=self.alpha))
        if self.asked == "people" and self.needed < self.n:
            names = listed(self._targets())
            out.append(note("raised", needed=self.needed, reliable=self.reliable, names=names))
        table, goal = self._table(), self.goal
        missed = [
            f"the width of {c} was to be {w:g} at most"
            for c, w in goal.widths.items()
            if table["width"][c] > w * (1.0 + search.CLOSE)
        ]
        weak = [c for c in goal.effects if table["power"][c] < goal.power - search.CLOSE]
        missed += [f"the power for {c} was to be {goal.power:g}" for c in weak]
        if self.asked == "precision" and missed:
            out.append(note("missed", missed=", ".join(missed)))
        out += _doubts(self)
        if spec.unweighted:
            usual = precision_of(replace(spec, score_weights=None), assumed)
            times = float(np.mean((self._precision.std_errors(self.n) / usual.std_errors(self.n)) ** 2))
            out.append(note("unweighted", times=times))
        if (rows := spec.people.k_max) is not None:
            larger = f"{rows:,}/m" if spec.people.effect is None else f"{rows - 1:,}/(m - 1)"
            out.append(note("rows_assumed", count=rows, larger=larger))
        guessed, outside = spec.family.scaled and assumed.usual, assumed.outside(spec)
        if outside > MOST_OUTSIDE and not guessed:
            out.append(note("clamped", percent=100.0 * outside))
        if (worst := assumed.unknown(spec)) is not None:
            name, times = worst.matters(spec)
            how = ["the residual sd, to which all widths are proportional"] * guessed
            if f"{times:.1f}" != "1.0":
                what = "correlations of 0.5" if name == "correlations" else f"a skewed {name}"
                how.append(f"{what}: without noise some intervals would be {times:.1f} times as wide")
            most = f" What matters most of all that is assumed is {', and then '.join(how)}." if how else ""
            sds = bool(assumed.moments.moments)
            known, better = ("of the sds that were given", "") if sds else ("even", " or their sds")
            out.append(note("covariates_assumed", known=known, most=most, better=better))
        flags = [c for c in design.covariates if schema.bounds.get(c) == (0.0, 1.0)]
        if flags and assumed.covariates is None:
            out.append(note("share_assumed", columns=listed(flags), first=flags[0]))
        if guessed:  # from the range itself
            (low, high), name = design.endog_limits, design.endog_name
            whose = f"a quarter of the declared range of {name}, {low:,.10g} to {high:,.10g}"
            whose = whose if math.isfinite(high - low) else f"the declared sd of {name}"
            out.append(note("scale_assumed", spread=assumed.spread, whose=whose))
        if spec.silos:
            out.append(note("in_several"))
            with suppress(PrivregError):
                other, name = self._under("two_collectors"), self.critical
                theirs = other._table(other._precision.std_errors(self.n))
                times = float((self._table()["width"] / theirs["width"])[name])
                more = "more" if (self.n > other.n if self.asked == "people" else times > 1.0) else "no more"
                if self.asked == "people":
                    out.append(note("collectors.people", more=more, other=other.n, n=self.n))
                elif math.isfinite(times):
                    out.append(note("collectors.width", more=more, name=name, times=times))
        return tuple(out)

    def _layout(self) -> list[Part]:
        trust, k = search.TRUST.get(self.spec.trust), self.spec.people.k_max
        if self.spec.silos:
            counts = self.spec.shared(self.n)
            some = f"{min(counts):,}" if len(set(counts)) == 1 else f"{min(counts):,} to {max(counts):,}"
            trust = f", {len(counts)} silo{'s' * (len(counts) > 1)} of {some}"
        what = f"({self.spec.family!r}, {self.budget} per person{trust})"
        records = f"{self.n:,} records" if k is None else f"{self.n:,} people, {k:,} rows each"
        answer = f"{records} {what}."
        if self.asked == "budget":
            answer = f"A budget of {self.budget} per person is needed with {records} ({self.spec.family!r}{trust})."
        elif self.asked == "people" and (of_many_rows(self.spec) or self.reliable <= search.MOST_PEOPLE):
            none = ", of which no fit lets intervals be relied on" if of_many_rows(self.spec) else ""
            answer = f"{records}{',' * (k is not None)} are needed{none} {what}."
        elif self.asked == "people":
            never = _named(self, self._precision.rare(search.MOST_PEOPLE))
            rare = f"No number of records is enough to rely on the intervals of {never}: a level is too rare."
            answer = f"{rare if never else f'M{NEVER.format(self._precision.most)}.'} Below: {answer}"
        table = self._table()
        columns = [["" if v == "nan" else v for v in in_one_format(table[c], 3)] for c in table.columns]
        heads = [str(c).replace("_", " ") for c in table.columns]
        with waiting(REHEARSED):
            skewed = self.skewed
        if skewed is not None:
            heads, columns = [*heads, "if skewed"], [*columns, in_one_format(skewed._table()["width"], 3)]
        shown = Table([str(i) for i in table.index], heads, list(zip(*columns, strict=True)))
        model = "Assumed: " + "; ".join(f"{a} {b}" for a, b in self.assumed.words(self.spec))
        if self.spec.people.followed is not None:
            model += f"; {self.n * self.assumed.events(self.spec):,.0f} events"
        head, space = Paragraph(f"Plan: {self.spec.formula}"), Lines(("",))
        return [head, space, Paragraph(answer), shown, space, Paragraph(model), Notes(self.notes)]

    def plot(self, coef: str | None = None, *, power: bool = False, ax: Axes | None = None) -> Axes:
        """Contours of an interval's mean width over budget and people; or the power of tests over people.

        `coef` is by default the one with the most demanding goal; with `power` all that effects were given for, and the
        probability that tests tell them from zero is drawn, where it is grey a fit would say not to rely.
        """
        if not flag("power", power):
            return self._contours(self._coef(coef), ax)
        coefs = list(self.goal.effects) if coef is None else find(coef, self.spec.coefficients)
        if (missing := [c for c in coefs if c not in self.goal.effects]) or not coefs:
            whose = f" of {missing[0]}" if missing else ""
            raise OptionError(f"power is that of finding an effect, and this plan has none{whose}: give it an effect.")
        n = np.unique(np.geomspace(AROUND[0] * self.n, AROUND[1] * self.n, POINTS[1]).astype(int))
        errors = np.array([self._precision.std_errors(float(k)) for k in n])
        footer, few = f"{self.budget} per person; tests at level {self.alpha:g}", self.reliable > n[0]
        footer += "\ngrey: so few records that a fit would say not to rely on its intervals" if few else ""
        with drawing(ax, (COLUMN, 0.8 * COLUMN), footer) as on:
            inks = inks_for(on)
            for i, c in enumerate(coefs):
                at = list(self.spec.coefficients).index(c)
                power_of = search.power_of(abs(self.goal.effects[c]) / errors[:, at], self._z)
                label = literal(f"{shorten([c], 24)[0]} = {self.goal.effects[c]:g}")
                on.plot(n, power_of, DASHES[i % 4], color=inks[i], label=label)
            if few:
                on.axvspan(n[0], min(self.reliable, n[-1]), color=inks.grey, alpha=0.15, linewidth=0, zorder=0)
            on.axhline(self.goal.power, color=inks.grey, linewidth=0.7, linestyle=":")
            on.axvline(self.n, color=inks.grey, linewidth=0.7, linestyle=":")
            on.set(xscale="log", xlim=(n[0], n[-1]), ylim=(0.0, 1.02), xlabel="records", ylabel="power")
            on.legend(frameon=False, fontsize=SMALL)
        return on  # type: ignore[no-any-return]

    def _contours(self, coef: str, ax: Any) -> Axes:
        """Mean width of a coefficient's interval over budget and people; the plan itself and its goal are marked.

        Below the dashed line people are so few that a fit would say not to rely on its intervals.
        """
        pure = math.isfinite(self.budget.epsilon)
        at = self.budget.epsilon if pure else self.mu
        middle = at if math.isfinite(at) else 1.0
        budgets = np.geomspace(AROUND[0] * middle, AROUND[1] * middle, POINTS[0])
        n = np.unique(np.geomspace(AROUND[0] * self.n, AROUND[1] * self.n, POINTS[1]).astype(int))
        table, reliable = self._nearby(n.tolist(), budgets.tolist(), coef, pure=pure)
        width = np.ma.masked_invalid(table.to_numpy())  # no lines where people are too few for standard errors
        if not width.count():
            raise InferenceError(f"no number of records about {self.n:,} is enough for an interval; plan a larger n=.")
        kept = width[n[:, None] >= reliable].compressed()
        low, high = math.log10(width.min()), math.log10(width.max())
        targets = {w: words for w, words in self._targets().get(coef, {}).items() if width.min() < w < width.max()}
        marks = [m * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for m in (1.0, 2.0, 5.0)]
        # beyond what can be relied on widths grow so fast that only powers of ten have room
        top = kept.max() if kept.size else width.max()
        marks = [m for m in marks if width.min() < m < width.max() and (m < top or math.log10(m).is_integer())]
        marks = [m for m in marks if m not in targets]
        with drawing(ax, (COLUMN, 0.8 * COLUMN), "") as on:
            inks = inks_for(on)
            lines = on.contour(budgets, n, width, levels=marks, colors=inks[0], linewidths=0.8)
            drawn = [(lines, {m: f"{m:,.0f}" if m >= 1.0 else f"{m:g}" for m in marks})]
            on.set(xscale="log", yscale="log", ylabel="records", xlabel=f"budget {'ε' if pure else 'μ'} per person")
            if targets:
                lines = on.contour(budgets, n, width, levels=sorted(targets), colors=inks[1], linewidths=1.6)
                drawn.insert(0, (lines, targets))
            box = {"facecolor": on.get_facecolor(), "edgecolor": "none", "pad": 0.5}
            ends = np.log([[axis[0], axis[-1]] for axis in (budgets, n)]).T
            for label in [
                text for one, words in drawn for text in on.clabel(one, fmt=words, fontsize=SMALL, inline=False)
            ]:
                label.set_bbox(box)
                place = (np.log(label.get_position()) - ends[0]) / (ends[1] - ends[0])
                if np.abs(place - 0.5).max() > 0.5 - EDGE:
                    label.remove()
            few, most = float(n.min()), float(n.max())
            on.fill_between(
                budgets, few, np.clip(reliable, few, most), color=inks.grey, alpha=0.15, linewidth=0, zorder=0
            )
            on.set_ylim(few, most)
            inside = (reliable > few) & (reliable < most)
            if inside.any():
                on.plot(budgets[inside], reliable[inside], color=inks.grey, linestyle="--", linewidth=1.0, zorder=2)
                on.text(0.02, 0.02, "don't rely", transform=on.transAxes, fontsize=SMALL, color=inks.grey, zorder=4)
            if math.isfinite(at):
                on.plot(at, self.n, "o", color=inks[1], markersize=5, zorder=4)
                beside = {"xytext": (6, 3), "textcoords": "offset points", "fontsize": SMALL, "bbox": box, "zorder": 3}
                on.annotate(f"{self.n:,}", (at, self.n), **beside)
            head = f"mean width of {100.0 * (1.0 - self.alpha):g}% intervals,"
            name = shorten([coef], TITLE)[0]
            on.set_title(literal(f"{head}{' ' if len(head) + len(name) < TITLE else chr(10)}{name}"), loc="left")
        return on  # type: ignore[no-any-return]

    def compare_trust(self, coef: str | None = None) -> "StudyTable":
        """Ask the same question under each trust model, and without privacy; show the precision of `coef`.

        By default that with the most demanding goal. It prints as a table; ``table`` is the DataFrame.
        """
        coef = self._coef(coef)
        trusts = [*search.TRUST] if not self.spec.silos else ["local", "two_collectors", "silos", "central"]
        found = self._compared({t: {"trust": t} for t in trusts}, coef)
        table, root = found.table, plain_errors(self.spec, self.assumed)
        if root is not None:
            n = self._people(lambda n: root / math.sqrt(n)) if self.asked == "people" else self.n
            line = self._table(root / math.sqrt(n)).loc[[coef]].assign(people=n, reliable=True)
            table = pd.concat([table, line[COLUMNS]])
            table.index = pd.Index([*found.table.index, "no privacy"])
        table.insert(0, "sees_a_row", [search.SEES[str(trust)] for trust in table.index])
        return replace(found, table=table)

    def compare_families(self, coef: str | None = None) -> "StudyTable":
        """Ask the same question of each family for such a response.

        Of numbers Huber(), Huber(1.345), Expectile(0.5) and Squared(); of counts Poisson(y_max), and the same with
        c = 1.5; and the plan's own. `coef` and the table are as of :meth:`compare_trust`. Of another response it is an
        OptionError.
        """
        asked = self.spec.family
        if not (asked.scaled or asked.response == "count"):
            raise OptionError(f"families are compared of numbers and counts, and this is a plan for {asked!r}.")
        families: list[Family] = [Huber(), Huber(1.345), Expectile(0.5), Squared()]
        if asked.response == "count":
            families = [Poisson(asked.y_max), Poisson(asked.y_max, c=1.5)]
        families += [asked] if asked not in families else []
        found = self._compared({repr(family): {"family": family} for family in families}, self._coef(coef))
        return replace(found, notes=(*(f"{family!r}: {family.estimand}" for family in families), *found.notes))

    def _compared(self, asked: Mapping[str, Mapping[str, Any]], coef: str) -> "StudyTable":
        """Table of other trust models or families: people, and precision of `coef`."""
        lines, notes = dict[str, Sequence[Any]](), list[str]()
        for name, other in asked.items():
            try:
                with waiting(REHEARSED):
                    one = self._under(**other)
            except PrivregError as e:
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
        """Plan under another trust model, or of another family, for the same question."""
        old, trust = self.spec, trust or self.spec.trust
        if (trust, family or old.family) == (old.trust, old.family):
            return self
        how = (old.score_weights, old.mechanism if family else "auto", old.private, old.people, trust)
        silos = (old.silos, old.sizes) if trust == "silos" else ((), ())
        spec = ModelSpec.declare(old.design, family or old.family, old.budget, *how, *silos)
        return replace(self._at(spec), n=0 if self.asked == "people" else self.n)._answered()

    def check(self, reps: int = 20, *, seed: int | None = None, progress: bool | None = None) -> pd.DataFrame:
        """Simulate people as assumed, fit them, and compare.

        Replications, `reps`, are fits of `n` made-up people; a `seed` gives the same numbers again.

        Indexed by coefficient: planned and simulated mean width, their ratio with its standard error, and how often
        intervals held the truth, with exact 99.9% limits of that share if they hold at their level. Where effects were
        asked for, how often they were detected. An OptionError if the response is an expression, or there are
        more than 10⁸ rows to fit.
        """
        reps, seed = whole("reps", reps, 2), check("local.fit", "seed", seed)
        if self.n * reps > MOST_ROWS:
            most = f"give reps={MOST_ROWS // self.n} at most, or check a plan of fewer records with the same budget"
            raise OptionError(f"{reps} fits of {self.n:,} records are more than {MOST_ROWS:,} rows; {most}.")
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
        out["coverage"] = np.where(np.isnan(truth), math.nan, ((low <= truth) & (truth <= high)).mean(axis=0))
        few, many = binom.interval(SURE, reps, 1.0 - self.alpha)
        out["at_least"], out["at_most"] = few / reps, many / reps
        if self.goal.effects:
            out["power"], out["detected"] = table["power"], ((low > 0.0) | (high < 0.0)).mean(axis=0)
        return out


@dataclass(frozen=True, repr=False)
class StudyTable(View):
    """Study under each trust model and without noise, or with each family."""

    # Indexed by "local", "two_collectors", "silos" (of a plan with silos), "central" and "no privacy", or by family:
    # who sees a row (of trust models), people (needed, or given), the coefficient's standard error and mean width of
    # its interval, and whether a fit lets it be relied on
    table: pd.DataFrame
    title: str
    # Estimands by family; meaning of a line that misses the goal, exceeds it, or has no numbers
    notes: tuple[str, ...] = ()

    def _layout(self) -> list[Part]:
        shown = self.table.assign(people=["-" if pd.isna(n) else f"{n:,}" for n in self.table["people"]])
        for name in ("std_error", "width"):
            shown[name] = ["-" if v in {"nan", "inf"} else v for v in in_one_format(shown[name].to_numpy(), 3)]
        shown["reliable"] = ["yes" if v else "no" for v in shown["reliable"]]
        heads = [name.replace("_", " ") for name in shown.columns]
        table = Table(list(shown.index), heads, list(shown.itertuples(index=False)))
        return [Paragraph(self.title), table, Notes(self.notes)]


def _named(plan: StudyPlan, columns: Collection[int]) -> str:
    """Coefficients of these columns of the design."""
    return ", ".join(c for k, c in enumerate(plan.spec.coefficients) if k % len(plan.spec.design.names) in columns)


def _doubts(plan: StudyPlan) -> list[Diagnostic]:
    """Why a fit of so many people would say not to rely on intervals."""
    out, each = list[Diagnostic](), plan._precision
    if rows := of_many_rows(plan.spec):
        return [doubt("rows", rows, of="intervals")]
    enough = search.least(lambda n: each.reliable(n, ()))
    if plan.n < enough:
        width = len(plan.spec.design.names)
        bad = {j for j in range(width) if not each.reliable(plan.n, {j})}
        which = "intervals" if len(bad) in (0, width) else f"the intervals of {_named(plan, bad)}"
        more = f"with so few records: {enough:,} are needed for that"
        if plan.spec.trust == "local" and plan.spec.summable:
            more += ", and with trust='two_collectors' far fewer are enough"
        why = more if enough <= search.MOST_PEOPLE else f"as m{NEVER.format(each.most)}"
        out.append(note("unreliable", which=which, why=why))
    never = each.rare(search.MOST_PEOPLE)
    few = each.rare(plan.n) - never
    if few:
        would = search.least(lambda n: each.rare(n).isdisjoint(few))
        out.append(note("seldom", columns=_named(plan, few), would=would))
    if never:
        of = f"the intervals of {_named(plan, never)}, with any number of records"
        fix = "merge levels, compare with a common one, or leave it out"
        out.append(doubt("rare", f"a level that they depend on is too rare; {fix}", of=of))
    return out


def find(coef: object, names: Sequence[str], option: str = "coef") -> list[str]:
    """Coefficients of this name, or of the column of this name; `option` is what was given, for the message."""
    text = coef if isinstance(coef, str) else ""
    named, short = as_named(text, names), plain_name(text)
    found = [named] if named in names else [c for c in names if plain_name(c).startswith((f"{short}[", f"C({short}"))]
    if not found:
        known = f"they are {', '.join(map(repr, names))}.{meant(text, names) if text else ''}"
        raise OptionError(f"{option}= names {shown(coef)}, which is no coefficient; {known}")
    return found
