"""The answer to a question on sample size or power, which can be drawn and tried."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom, norm

from privreg.errors import BudgetError, InferenceError, OptionError, SchemaError, UnsupportedArgumentError, flag, whole
from privreg.families import Expectile, Family, Huber, Poisson, Squared
from privreg.formula.spec import ModelSpec
from privreg.options.progress import progress_bar
from privreg.options.table import check
from privreg.planning.fits import fit_of, plain_precision
from privreg.planning.plan import MOST_PEOPLE, Planned, find, people_for, reliable_from, table_of
from privreg.planning.precision import SEED, precision_of
from privreg.tables import Notes, Paragraph, Part, Table, View, in_one_format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes


USUAL: Final = 1.345  # Corner of Huber's and expectiles' scores in residual sd, where noise falls on sums
MOST_ROWS: Final = 10**8
SURE: Final = 0.999


@dataclass(frozen=True, repr=False)
class StudyPlan(Planned):
    """What a regression with so many people at such a budget will show. Made by :func:`privreg.plan`."""

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
        wanted, at = self.asked == "people", list(self.spec.coefficients).index(coef)
        half = float(norm.isf(self.alpha / 2.0))
        found, notes = _asked({t: _under(self, trust=t) for t in ("local", "two_collectors", "central")}, at)
        lines = {trust: (SEES[trust], *line) for trust, line in found.items()}
        plain = plain_precision(self.spec, self.assumed, SEED)
        if plain is not None:
            n = people_for(self, plain) if wanted else self.n
            error = float(plain.std_errors(n)[at])
            lines["no privacy"] = (SEES["no privacy"], n, error, 2.0 * half * error, True)
        table = pd.DataFrame.from_dict(lines, orient="index", columns=["sees_a_row", *COLUMNS]).astype(
            {"people": "Int64"}
        )
        return StudyTable(table, _title(self, coef), tuple(notes))

    def compare_families(self, coef: str | None = None) -> StudyTable:
        """Ask the same question of each family for such a response.

        Of numbers Huber(), Huber(1.345), Expectile(0.5) and Squared(); of counts Poisson(y_max), and the same with
        c = 1.5; and the plan's own.

        Parameters
        ----------
        coef : str, optional
            Whose precision is shown; by default the one with the most demanding goal.

        Returns
        -------
        StudyTable
            It prints as a table; ``table`` is the DataFrame.

        Raises
        ------
        OptionError
            If the response is neither a number nor a count.
        """
        own = self.spec.family
        if own.response == "count":
            families = [Poisson(own.y_max), Poisson(own.y_max, c=1.5)]
        elif own.scaled:
            families = [Huber(), Huber(1.345), Expectile(0.5), Squared()]
        else:
            raise OptionError(f"families are compared of numbers and counts, and this is a plan for {own!r}.")
        families += [own] if own not in families else []
        coef = self._coef(coef)
        at = list(self.spec.coefficients).index(coef)
        lines, notes = _asked({repr(family): _under(self, family=family) for family in families}, at)
        table = pd.DataFrame.from_dict(lines, orient="index", columns=COLUMNS).astype({"people": "Int64"})
        estimands = [f"{family!r}: {family.estimand}" for family in families]
        return StudyTable(table, _title(self, coef), (*estimands, *notes))

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
        reps = whole("reps", reps, 2)
        seed, spec, assumed, truth = check("local.fit", "seed", seed), self.spec, self.assumed, None
        if self.n * reps > MOST_ROWS:
            most = MOST_ROWS // self.n
            raise OptionError(
                f"{reps} fits of {self.n:,} records are more than {MOST_ROWS:,} rows; "
                + (f"give reps={most} at most." if most > 1 else "check a plan of fewer records with the same budget.")
            )
        widths, held, found = [], [], []
        with progress_bar(reps, progress) as bar:
            for k, state in enumerate(np.random.SeedSequence(seed).spawn(reps)):
                rng = np.random.Generator(np.random.SFC64(state))
                res, settings = fit_of(spec, assumed, self.n, rng, None if seed is None else (seed + k) % 2**63)
                efficient = settings.efficient
                if truth is None:
                    truth = assumed.truth(spec, USUAL if efficient is None else efficient.rules.ratio)
                low, high = res.conf_int(self.alpha).to_numpy().T
                widths.append(high - low)
                held.append((low <= truth) & (truth <= high))
                found.append((low > 0.0) | (high < 0.0))
                bar.update(1)
        assert truth is not None
        table = self.table()
        out = pd.DataFrame({"planned": table["width"], "simulated": np.mean(widths, axis=0)})
        out["ratio"] = out["simulated"] / out["planned"]
        out["ratio_se"] = np.std(widths, axis=0, ddof=1) / math.sqrt(reps) / out["planned"]
        out["coverage"] = np.where(np.isnan(truth), math.nan, np.mean(held, axis=0))
        low_, high_ = binom.interval(SURE, reps, 1.0 - self.alpha)
        out["at_least"], out["at_most"] = low_ / reps, high_ / reps
        if self.goal.effects:
            out["power"], out["told"] = table["power"], np.mean(found, axis=0)
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


SEES: Final = {
    "local": "nobody",
    "two_collectors": "nobody, if two don't collude",
    "central": "a curator",
    "no privacy": "who analyses",
}

SAID: Final = frozenset({"raised", "missed", "unreliable", "seldom", "rare"})
"""Notes of a plan that the comparison repeats."""


def answered(plan: StudyPlan) -> StudyPlan:
    """The plan with the people that its goal needs, where they are asked for, and from whom on fits can be relied on.
    Raises InferenceError if no number of people is enough.
    """
    out = plan
    if not plan.n:
        needed = people_for(plan, plan._precision)
        if needed > MOST_PEOPLE:
            raise InferenceError(f"even {MOST_PEOPLE:.0e} records would not do; raise the budget, or ask for less.")
        out = replace(plan, n=needed, asked="people", needed=needed)
    out = replace(out, reliable=reliable_from(out))
    raised = out.asked == "people" and out.reliable <= MOST_PEOPLE
    return replace(out, n=max(out.n, int(out.reliable))) if raised else out


COLUMNS: Final = ["people", "std_error", "width", "reliable"]


def _title(plan: StudyPlan, coef: str) -> str:
    what = f"{plan.budget} per person: " + ("people needed" if plan.asked == "people" else f"{plan.n:,} people")
    return f"{plan.spec.formula}, {what}; precision of {coef}"


def _asked(plans: Mapping[str, Callable[[], StudyPlan]], at: int) -> tuple[dict[str, tuple[Any, ...]], list[str]]:
    """Lines of a comparison, people and precision of the coefficient `at`, and what is to be said of them."""
    lines: dict[str, tuple[Any, ...]] = {}
    notes = []
    for name, make in plans.items():
        try:
            one = make()
        except (BudgetError, InferenceError, OptionError, SchemaError, UnsupportedArgumentError) as e:
            lines[name] = (None, math.nan, math.nan, False)
            notes.append(f"{name}: {e}")
            continue
        line = table_of(one, one.n, one._precision).iloc[at]
        lines[name] = (one.n, line["std_error"], line["width"], one.n >= one.reliable)
        notes += [f"{name}: {note}" for note in one.notes if note.code in SAID]
    return lines, notes


def _under(plan: StudyPlan, *, trust: str | None = None, family: Family | None = None) -> Callable[[], StudyPlan]:
    """The same question under another trust model, or of another family."""

    def make() -> StudyPlan:
        old = plan.spec
        if (trust or old.trust, family or old.family) == (old.trust, old.family):
            return plan
        mechanism = old.mechanism if trust is None else "auto"
        how = (old.score_weights, mechanism, old.private, old.people, trust or old.trust)
        spec = ModelSpec.declare(old.design, family or old.family, old.budget, *how)
        people = 0 if plan.asked == "people" else plan.n
        return answered(replace(plan, spec=spec, n=people, _precision=precision_of(spec, plan.assumed)))

    return make
