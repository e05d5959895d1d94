"""The public plan of a fit: all that is fixed before anybody reports, and nothing of any row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from privreg.families.family import Family
from privreg.fits.aggregate import lines_of_sums
from privreg.fits.plan import plan_of
from privreg.fits.settings import FitOptions, Settings, Summing
from privreg.formula.spec import CLAMPING, ModelSpec
from privreg.privacy.ledger import Budget, at_least
from privreg.protocol.schedule import ENDLESS, people_of
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
    """

    spec: ModelSpec = field(repr=False)
    asked: FitOptions
    start_params: Any
    rows: int | None
    settings: Settings = field(repr=False)

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
        if self.spec.noise.again:
            used = "all rows, " * several + "in all rounds"
        text = f"{self.budget}, for one person's {whole}, {used}"
        if self.spec.trust == "two_collectors":
            half = at_least(self.mu / math.sqrt(2.0), 4)
            text += f", against either collector; {half}-GDP against everybody else, none against both together"
        if self.spec.silos:
            text += ", against everybody outside the person's silo"
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
        if isinstance(self.settings.how, Summing):
            if self.rows is None:  # a curator counts them
                return pd.DataFrame([], columns=columns)
            lines = lines_of_sums(self.spec, self.rows, self.settings.how.measures, self.asked.like)
            return pd.DataFrame(lines, columns=columns).astype({"records": "Int64"})
        if self.settings.efficient is None:
            return pd.DataFrame([], columns=columns)
        plan, _ = plan_of(self.spec, self.settings, None)
        lines = []
        held: tuple[int, ...] = ()
        for k, one in enumerate(plan.rounds):
            people: Any = one.people if one.optional else people_of(plan.rounds, held, plan.rows)
            if people == ENDLESS:
                people = max((plan.rows or 0) - sum(held), 0)
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
        start = self.start_params
        if start is not None:
            options["start_params"] = dict(start) if isinstance(start, dict | pd.Series) else list(map(float, start))
        if self.asked.covariates is not None:
            options["covariates"] = self.asked.covariates.described
        out: dict[str, Any] = _plain(
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

    def _lines(self) -> list[tuple[str, str]]:
        out = [
            ("Formula", self.formula),
            *self.spec.added,
            ("Family", self.settings.score_text),
            ("Estimand", self.spec.estimand()),
            ("Guarantee", self.guarantee),
            ("Mechanism", self.mechanism),
            ("Records", "unknown" if self.rows is None else f"{self.rows:,}"),
            ("Groups", str(self.groups)),
        ]
        if self.asked.like is not None:
            out.append(("Target", "fixed, that of the fit in like="))
        if self.asked.covariates is not None:
            out.append(("Covariates", self.asked.covariates.words))
        table = self.rounds
        asked = int(table.loc[table["role"] == "clamping", "records"].sum())
        clamping = (
            CLAMPING[1] if not asked else f"values outside these bounds are clamped; {asked:,} records tell how many"
        )
        declared = [(n, clamping if (n, words) == CLAMPING else words) for n, words in self.spec.declared()]
        return [*out, *((f"Public: {name}", words) for name, words in declared)]

    def _layout(self) -> list[Part]:
        """Declarations, and rounds, equal ones in a line."""
        held: Any = self.rounds.to_dict(orient="records")
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
                why = {"pilot": "the start is far", "lengths": "some rows are long"}
                records += f" (if {why.get(one['role'], 'covariates are correlated')})"
            rows.append([one["role"], records, f"{one['noise_sd']:.4g}"])
        table = Table(names, ["role", "records", "noise sd"], rows, stub="round")
        out: list[Part] = [Paragraph("Plan of a private regression"), Pairs(self._lines())]
        return [*out, Lines(("",)), table] if rows else out


def _plain(value: Any) -> Any:
    """Only what JSON has: infinities by name."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.item() if hasattr(value, "item") else value
