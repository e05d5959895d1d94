"""The answer to a question on sample size or power, which can be drawn and tried."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from scipy.stats import binom

from privreg.errors import OptionError, PrivregError, flag, whole
from privreg.families import Expectile, Family, Huber, Poisson, Squared
from privreg.fits.notes import listed
from privreg.fits.outcome import of_many_rows
from privreg.formula.spec import ModelSpec
from privreg.options.running import progress_bar, waiting
from privreg.options.table import check
from privreg.planning.plan import CLOSE, MOST_PEOPLE, TRUST, Planned, find, least
from privreg.planning.precision import fit_of, plain_errors, precision_of
from privreg.results.plots.style import Axes
from privreg.tables import Lines, Notes, Paragraph, Part, Table, View, in_one_format
from privreg.tables.diagnostics import Diagnostic, doubt, note

SEES: Final = {
    "local": "nobody",
    "two_collectors": "nobody, if two don't collude",
    "silos": "each silo its people's",
    "central": "a curator",
    "no privacy": "who analyses",
}
USUAL: Final = 1.345  # Corner of Huber's and expectiles' scores in residual sd, where noise falls on sums
MOST_ROWS: Final = 10**8
SURE: Final = 0.999
COLUMNS: Final = ["people", "std_error", "width", "reliable"]
REHEARSED: Final = "rehearsing fits of made-up people"
SAID: Final = frozenset({"raised", "missed", "unreliable", "seldom", "rare"})
"""Notes of a plan that comparisons repeat."""


@dataclass(frozen=True, repr=False)
class StudyPlan(Planned):
    """Precision of a regression with so many people at such a budget. Made by :func:`privreg.plan`."""

    def summary(self) -> Self:
        """The plan itself, which prints as a table."""
        return self

    @property
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
            if table["width"][c] > w * (1.0 + CLOSE)
        ]
        weak = [c for c in goal.effects if table["power"][c] < goal.power - CLOSE]
        missed += [f"the power for {c} was to be {goal.power:g}" for c in weak]
        if self.asked == "precision" and missed:
            out.append(note("missed", missed=", ".join(missed)))
        out += _doubts(self)
        if spec.unweighted:
            usual = precision_of(replace(spec, score_weights=None), assumed)
            times = float(np.mean((self._precision.std_errors(self.n) / usual.std_errors(self.n)) ** 2))
            out.append(note("unweighted", times=times))
        rows = spec.people.k_max
        if rows is not None:
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
            known, better = "even", " or their sds"
            if assumed.moments.moments:
                known, better = "of the sds that were given", ""
            out.append(note("covariates_assumed", known=known, most=most, better=better))
        flags = [c for c in design.covariates if schema.bounds.get(c) == (0.0, 1.0)]
        if flags and assumed.covariates is None:
            out.append(note("share_assumed", columns=listed(flags), first=flags[0]))
        if guessed:  # from the range itself
            (low, high), name = design.endog_limits, design.endog_name
            whose = f"a quarter of the declared range of {name}, {low:,.10g} to {high:,.10g}"
            whose = whose if math.isfinite(high - low) else f"the declared sd of {name}"
            out.append(note("scale_assumed", spread=assumed.spread, whose=whose))
        return (*out, *self._of_silos)

    @cached_property
    def _of_silos(self) -> tuple[Diagnostic, ...]:
        """Notes on silos: people who are in several of them, and how two collectors compare."""
        out = [note("in_several")] if self.spec.silos else []
        with suppress(PrivregError):
            if self.spec.silos:
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
        trust, k = self.trusted, self.spec.people.k_max
        what = f"({self.spec.family!r}, {self.budget} per person{trust})"
        records = f"{self.n:,} records" if k is None else f"{self.n:,} people, {k:,} rows each"
        answer = f"{records} {what}."
        if self.asked == "budget":
            answer = f"A budget of {self.budget} per person is needed with {records} ({self.spec.family!r}{trust})."
        elif self.asked == "people" and (of_many_rows(self.spec) or self.reliable <= MOST_PEOPLE):
            none = ", of which no fit lets intervals be relied on" if of_many_rows(self.spec) else ""
            answer = f"{records}{',' * (k is not None)} are needed{none} {what}."
        elif self.asked == "people":
            never = _named(self, self._precision.rare(MOST_PEOPLE))
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
        probability that tests tell them from zero is drawn.
        """
        from privreg.planning import plots

        if flag("power", power):
            wanted = list(self.goal.effects) if coef is None else find(coef, self.spec.coefficients)
            return plots.powers(self, wanted, ax=ax)
        return plots.contours(self, self._coef(coef), ax=ax)

    # --- the same question otherwise -------------------------------------------------------------------

    def compare_trust(self, coef: str | None = None) -> StudyTable:
        """Ask the same question under each trust model, and without privacy; show the precision of `coef`.

        By default that with the most demanding goal. It prints as a table; ``table`` is the DataFrame.
        """
        coef = self._coef(coef)
        trusts = [*TRUST] if not self.spec.silos else ["local", "two_collectors", "silos", "central"]
        found = self._compared({t: {"trust": t} for t in trusts}, coef)
        table, root = found.table, plain_errors(self.spec, self.assumed)
        if root is not None:
            n = self._people(lambda n: root / math.sqrt(n)) if self.asked == "people" else self.n
            line = self._table(root / math.sqrt(n)).loc[[coef]].assign(people=n, reliable=True)
            table = pd.concat([table, line[COLUMNS]])
            table.index = pd.Index([*found.table.index, "no privacy"])
        table.insert(0, "sees_a_row", [SEES[str(trust)] for trust in table.index])
        return replace(found, table=table)

    def compare_families(self, coef: str | None = None) -> StudyTable:
        """Ask the same question of each family for such a response.

        Of numbers Huber(), Huber(1.345), Expectile(0.5) and Squared(); of counts Poisson(y_max), and the same with
        c = 1.5; and the plan's own. `coef` and the table are as of :meth:`compare_trust`. Of another response it is an
        OptionError.
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
        asked for, how often they were told from zero. An OptionError if the response is an expression, or there are
        more than 10⁸ rows to fit.
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


# --- words of a plan beside its numbers -----------------------------------------------------------


MOST_OUTSIDE: Final = 0.02  # Share of responses beyond their declared range from which on a plan warns
NEVER: Final = "ost fits of up to {:,} made-up people, the most that were tried, mark some"


def _named(plan: Planned, columns: Collection[int]) -> str:
    """Coefficients of these columns of the design."""
    width = len(plan.spec.design.names)
    return ", ".join(c for k, c in enumerate(plan.spec.coefficients) if k % width in columns)


def _doubts(plan: Planned) -> list[Diagnostic]:
    """Why a fit of so many people would say not to rely on intervals."""
    out, each = list[Diagnostic](), plan._precision
    if rows := of_many_rows(plan.spec):
        return [doubt("rows", rows, of="intervals")]
    enough = least(lambda n: each.reliable(n, ()))
    if plan.n < enough:
        width = len(plan.spec.design.names)
        bad = {j for j in range(width) if not each.reliable(plan.n, {j})}
        which = "intervals" if len(bad) in (0, width) else f"the intervals of {_named(plan, bad)}"
        more = f"with so few records: {enough:,} are needed for that"
        if plan.spec.trust == "local" and plan.spec.summable:
            more += ", and with trust='two_collectors' far fewer are enough"
        out.append(
            note("unreliable", which=which, why=more if enough <= MOST_PEOPLE else f"as m{NEVER.format(each.most)}")
        )
    never = each.rare(MOST_PEOPLE)
    few = each.rare(plan.n) - never
    if few:
        would = least(lambda n: each.rare(n).isdisjoint(few))
        out.append(note("seldom", columns=_named(plan, few), would=would))
    if never:
        of = f"the intervals of {_named(plan, never)}, with any number of records"
        fix = "merge levels, compare with a common one, or leave it out"
        out.append(doubt("rare", f"a level that they depend on is too rare; {fix}", of=of))
    return out
