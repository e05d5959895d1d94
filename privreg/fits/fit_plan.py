"""The public plan of a fit, fixed before anybody reports, which tells nothing of any row; an earlier fit's target."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.collector.plan import longest_row
from privreg.errors import OptionError
from privreg.families.family import Family
from privreg.fits.aggregate import lines_of_sums
from privreg.fits.plan import extremes_of, order_of, plan_of
from privreg.fits.settings import FitOptions, Settings, Summing
from privreg.formula.spec import CLAMPING, ModelSpec
from privreg.formula.units import public_units
from privreg.privacy.ledger import Budget, at_least
from privreg.protocol.schedule import ENDLESS, people_of
from privreg.results.data import Target, of_results
from privreg.results.results import PrivateResults
from privreg.tables import Lines, Pairs, Paragraph, Part, Table, View

FORMAT: Final = 1  # Version of the form that `FitPlan.to_dict` returns


@dataclass(frozen=True, repr=False)
class FitPlan(View):
    """Public plan of a fit, fixed before the first record; made by ``model.plan()``, played by `privreg.simulate`.

    Parameters
    ----------
    spec : ModelSpec
    start_params : mapping or sequence or None
        A public first guess, user's units.
    rows : int or None
        Records expected, if known.
    settings : Settings
        What follows from these.
    dataset : str or list of str, optional
        Names of the people, as the model has them.
    """

    spec: ModelSpec = field(repr=False)
    asked: FitOptions
    start_params: Any
    rows: int | None
    settings: Settings = field(repr=False)
    dataset: Any = field(default=None, repr=False)

    @property
    def formula(self) -> str:
        """The formula, or the names of an array model."""
        return self.spec.formula

    @property
    def family(self) -> Family:
        """The family."""
        return self.spec.family

    @property
    def budget(self) -> Budget:
        """Budget of one report; the largest, where records have budgets of their own."""
        return self.spec.budget

    @property
    def mu(self) -> float:
        """GDP parameter of the whole release, per person; infinite without privacy."""
        return self.settings.total_mu(self.spec.people.max_per_id)

    @property
    def guarantee(self) -> str:
        """The guarantee to each person, in words."""
        if not self.budget.private:
            return str(self.budget)
        whole = "response" if self.spec.private == "response" else "record"
        several = self.spec.people.k_max is not None
        used = "all rows, in one report" if several else "used once"
        used = "all rows, " * several + "in all rounds" if self.spec.noise.again else used
        text = f"{self.budget}, for one person's {whole}, {used}"
        if self.spec.trust == "two_collectors":
            half = at_least(self.mu / math.sqrt(2.0), 4)
            text += f", against either collector; {half}-GDP against everybody else, none against both together"
        text += ", against everybody outside the person's silo" if self.spec.silos else ""
        if self.spec.people.max_per_id > 1 or self.settings.parts > 1:
            text = f"{at_least(self.mu, 4)}-GDP, for all that a person sends; {self.budget} for each report"
        return text

    @property
    def mechanism(self) -> str:
        """Mechanism of a score report and its noise, in words."""
        return self.settings.noise_text(self.spec.covariates, personal=self.spec.personal)

    @property
    def noise_sd(self) -> float:
        """Noise sd of a number of a score report of a main round, relative to the score's bound."""
        return self.settings.noise_sd(self.spec.covariates)

    @property
    def groups(self) -> int:
        """Random groups of records, each asked at slightly different coefficients; 1 of a single chain."""
        return self.settings.efficient.groups if self.settings.efficient else 1

    @property
    def rounds(self) -> pd.DataFrame:
        """Rounds in order, one a row.

        Returns
        -------
        DataFrame
            round; role; records (expected; none where each holds a quarter of those before it, as of a stream of
            unknown length); optional (whether it is held only if covariates turn out to be correlated, or with two
            collectors if the start is far, so that main rounds are the shorter); numbers (in a report); noise_sd (of
            each of them, relative to a report's bound). No rows with ``tuning="published"``.
        """
        columns = ["round", "role", "records", "optional", "numbers", "noise_sd"]
        how = self.settings.how
        if isinstance(how, Summing) and self.rows is not None:
            lines = lines_of_sums(how.plan, private=self.budget.private)
            return pd.DataFrame(lines, columns=columns).astype({"records": "Int64"})
        if self.settings.efficient is None:  # of a single chain, or of a curator who counts the records
            return pd.DataFrame([], columns=columns)
        plan, _ = plan_of(self.spec, self.settings, None)
        lines = []
        held: tuple[int, ...] = ()
        for k, one in enumerate(plan.rounds):
            people: Any = one.people if one.optional else people_of(plan.rounds, held, plan.rows)
            people = max((plan.rows or 0) - sum(held), 0) if people == ENDLESS else people
            held = (*held, 0 if one.optional else people)
            people = pd.NA if plan.rows is None and one.role == "main" else people
            public = plan.label and one.role == "moments"  # of covariates, which are public
            numbers, sd = (0, 0.0) if public else (plan.numbers(one.role), plan.sd(one.role))
            lines.append((k + 1, one.role, people, one.optional, numbers, sd))
        return pd.DataFrame(lines, columns=columns).astype({"records": "Int64"})

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON: texts, numbers, lists and dictionaries.

        Returns
        -------
        dict
            format, formula, design (columns, declarations and terms), family, budget, guarantee, mechanism, noise_sd,
            private, people (what is declared of them), rows, options (of the fit), groups, rounds. A term's or a
            family's own code is named, never stored; of public rows as `covariates` their number and a digest.
        """
        spec, table = self.spec, self.rounds
        table["records"] = table["records"].astype(object).where(table["records"].notna(), None)
        options = self.asked.plain([m.name for m in self.settings.methods])
        if (start := self.start_params) is not None:
            options["start_params"] = dict(start) if isinstance(start, dict | pd.Series) else list(map(float, start))
        if self.asked.covariates is not None:
            options["covariates"] = self.asked.covariates.described
        out: dict[str, Any] = plain(
            {
                "format": FORMAT,
                "formula": self.formula,
                "design": spec.design.to_json(),
                "family": spec.family.to_json(),
                "budget": {"form": self.budget.form, "asked": list(self.budget.asked), "mu": self.mu},
                "guarantee": self.guarantee,
                "mechanism": {"name": self.settings.mechanism.name, "words": self.mechanism, "sd": self.noise_sd},
                "private": spec.private,
                "people": spec.people.to_json(),
                "rows": self.rows,
                "options": options,
                "groups": self.groups,
                "rounds": table.to_dict(orient="records"),
            }
        )
        return out

    def _layout(self) -> list[Part]:
        """Declarations, and rounds, equal ones in a line."""
        table = self.rounds
        asked = int(table.loc[table["role"] == "clamping", "records"].sum())
        clamping = (
            CLAMPING[1] if not asked else f"values outside these bounds are clamped; {asked:,} records tell how many"
        )
        pairs = [
            ("Formula", self.formula),
            *self.spec.added,
            ("Family", self.settings.score_text),
            ("Estimand", self.spec.estimand()),
            ("Guarantee", self.guarantee),
            ("Mechanism", self.mechanism),
            ("Records", "unknown" if self.rows is None else f"{self.rows:,}"),
            ("Groups", str(self.groups)),
            *([] if self.asked.like is None else [("Target", "fixed, that of the fit in like=")]),
            *([] if self.asked.covariates is None else [("Covariates", self.asked.covariates.words)]),
        ]
        for name, words in self.spec.declared():
            pairs.append((f"Public: {name}", clamping if (name, words) == CLAMPING else words))
        held: Any = table.to_dict(orient="records")
        lines: list[dict[str, Any]] = []
        for one in held:
            if lines and lines[-1]["role"] == one["role"] == "main":
                lines[-1]["to"] = one["round"]
            else:
                lines.append({**one, "to": one["round"]})
        names, rows = [], []
        for one in lines:
            names.append(str(one["round"]) if one["to"] == one["round"] else f"{one['round']}-{one['to']}")
            records = "a quarter of those before" if pd.isna(one["records"]) else f"{one['records']:,}"
            if one["optional"]:
                why = {"pilot": "coefficients are far off", "lengths": "some rows are long"}
                records += f" (if {why.get(one['role'], 'covariates are correlated')})"
            rows.append([one["role"], records, f"{one['noise_sd']:.4g}"])
        out: list[Part] = [Paragraph("Plan of a private regression"), Pairs(pairs)]
        return [*out, Lines(("",)), Table(names, ["role", "records", "noise sd"], rows, stub="round")] if rows else out


def plain(value: Any) -> Any:
    """Only what JSON has: tuples as lists, infinities by name."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.item() if hasattr(value, "item") else value


# --- the target of an earlier fit of the same design, whose estimand a fit is to share -------------------------


def target_of(spec: ModelSpec, like: Any, *, seeded: bool = False) -> Target:
    """The target of an earlier fit: of its results, or of a plan that has one.

    The target of a signed plan was checked before it was signed. `seeded` says that this fit's noise can be redrawn.
    Raises OptionError if `like` holds no target, or that of another design, or the model has no use for it. Public
    grounds alone.
    """
    if isinstance(like, Target):
        return like
    if isinstance(like, FitPlan | PrivateResults):
        earlier = like.budget if isinstance(like, FitPlan) else like.privacy.budget
        if spec.budget.private and not earlier.private:
            raise OptionError(
                "like= is of a fit without privacy, whose map and threshold were learned of rows without noise, and "
                "this fit would publish them; fit the earlier one with mu=, epsilon= or rho=."
            )
    if isinstance(like, FitPlan):
        if like.asked.like is None:
            raise OptionError("this plan holds no target, as no like= was given to it; give an earlier fit's results.")
        target: Target = like.asked.like
        _refuse_other(spec, like.spec.design, like.family, target, _weighing(like.spec), like.spec.people.to_json())
        return target
    if not isinstance(like, PrivateResults):
        raise OptionError(
            f"like= is of type {type(like).__name__}; give the results of an earlier fit, what pr.load() made of their "
            "file, or a plan made with like=."
        )
    if spec.budget.private and like._fit.statement.seeded and not seeded:
        raise OptionError(
            "like= is of a fit with seed=, whose noise anybody can redraw, and this fit would publish its map; give a "
            "fit without seed=, or seed= here, too, in a simulation."
        )
    fit = like._fit
    if (found := of_results(fit)) is None:
        raise OptionError(
            "these results hold no target: they are of tuning='published', or of a fit whose main rounds had not "
            "begun; give results of a fit by rounds of local reports, of two collectors or of a curator."
        )
    try:
        Target.from_json(found.to_json(), len(fit.design.names))
    except ValueError:
        raise OptionError("the target of these results is of no fit: their file was changed; save them anew.") from None
    assert fit.equation is not None
    people = fit.equation.people or {"mu": fit.equation.budgets and fit.equation.budgets[0]}
    _refuse_other(spec, fit.design, fit.family, found, fit.equation.weighing, people)
    return found


def _counted(people: Mapping[str, Any], trust: str) -> dict[str, Any]:
    """Weighting of a person's records in an equation, by option: in sums they have one weight."""
    together = trust != "local" or people.get("effect") is not None
    return {
        "levels of persons": people.get("effect"),
        "per_person": people.get("per_person", "sum"),
        "weights": people.get("weight"),
        "personal budgets": people.get("mu"),
        "k_max": people.get("k_max") if together else None,
    }


def _weighing(spec: ModelSpec) -> str:
    """Score weights, as an equation has them."""
    if spec.summed:
        return "capped"
    return "leverage" if spec.scalar else "likelihood" if spec.unweighted else "unit"


def _refuse_other(
    spec: ModelSpec, design: Any, family: Any, target: Target, weighing: str, people: Mapping[str, Any]
) -> None:
    """Refuse the target of another design, and name what differs."""
    if spec.summed != (target.reach is not None):
        trust = "'local'" if target.reach is None else "'two_collectors' or 'central'"
        raise OptionError(
            f"like= is of a fit with trust={trust}, and this one has trust={spec.trust!r}, which weighs records in "
            "another way; give a fit of the same trust."
        )
    if target.reach is not None and spec.unweighted:
        farthest = longest_row(extremes_of(spec, order_of(spec, factors=False)[0]), target.map)
        if farthest > target.reach * (1.0 + 1e-9):
            raise OptionError(
                "like= is of a fit with score weights, and this one has score_weights='likelihood', that is none; give "
                "a fit of the same score_weights."
            )
    fitted = spec.design
    pairs: list[tuple[str, Any, Any]] = [
        ("columns", tuple(fitted.names), tuple(design.names)),
        ("response", fitted.endog_name, design.endog_name),
        ("family", repr(spec.family), repr(family)),
        ("public covariates", spec.scalar, weighing == "leverage"),
        ("score weights", _weighing(spec), weighing),
        ("offset", fitted.offset, design.offset),
        ("exposure", fitted.exposure, design.exposure),
    ]
    counted = _counted(people, spec.trust)
    pairs += [(what, mine, counted[what]) for what, mine in _counted(spec.people.to_json(), spec.trust).items()]
    for name in fitted.columns:
        pairs += [
            (f"levels of {name!r}", fitted.schema.levels.get(name), design.schema.levels.get(name)),
            (f"bounds of {name!r}", fitted.schema.bounds.get(name), design.schema.bounds.get(name)),
        ]
    for what, mine, theirs in pairs:
        if mine != theirs:
            raise OptionError(f"like= is of another design: its {what} {theirs!r}, here {mine!r}; declare the same.")
    theirs, mine = (public_units(d, scale_response=spec.family.scaled) for d in (design, fitted))
    if not np.array_equal(theirs.matrix, mine.matrix) or theirs.y_scale != mine.y_scale:
        raise OptionError("like= is of another design: other moments, or a scale that is learned; declare the same.")
