"""Declarations before a row is read: terms, subgroups, budgets, and who is asked what. Public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from privreg.collector.levels import SURE
from privreg.data.participants import Participants
from privreg.errors import BudgetError, OptionError, SchemaError, real, shown
from privreg.formula.spec import CLAMPING, UNUSABLE
from privreg.means import verification
from privreg.means.plan import UNIT, Plan, Sums, make_plan
from privreg.means.terms import Asked, Term, declared_terms, flat
from privreg.privacy.ledger import Budget, Release
from privreg.results.statement import (
    MATCH,
    PrivacyStatement,
    Unusable,
    closing_notes,
    opening_notes,
    repeated_notes,
    whole_records,
)
from privreg.schema.declarations import EPOCH_TEXT, Schema
from privreg.tables.diagnostics import note


@dataclass(frozen=True)
class Spec:
    """Declarations of estimates."""

    formula: str
    terms: tuple[Term, ...]
    schema: Schema
    budget: Budget  # Budget as asked for
    people: Participants
    by: str | None  # Column of public subgroups
    groups: tuple[Any, ...]  # Their levels; one nameless subgroup if there is no such column
    plans: tuple[Plan, ...]  # Plans by subgroup

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that hold what is estimated, and the subgroup."""
        estimated = dict.fromkeys(c for t in self.terms for c in t.columns)
        return (*estimated, *([] if self.by is None else [self.by]))

    @property
    def trust(self) -> str:
        """Parties that people have to trust: "local" for none, "two_collectors", "central"."""
        plan = self.plans[0]
        return "local" if not isinstance(plan, Sums) else "central" if plan.collectors == 1 else "two_collectors"

    @property
    def nonresponse(self) -> bool:
        """True if there may be nothing to tell."""
        return self.people.missing == "noise" or self.people.id is not None

    @property
    def spent(self) -> Budget:
        """Largest budget that anybody spends on one row."""
        return max((p.budget for p in self.plans), key=lambda b: b.mu)

    def concerned(self, terms: frozenset[int]) -> NDArray[np.bool_]:
        """Which of the estimates are of some of the `terms`, given by their positions, shape (p,)."""
        return np.array([k in terms for k, term in enumerate(self.terms) for _ in term.names], dtype=np.bool_)

    @property
    def total_mu(self) -> float:
        """GDP parameter per person of a release, all rows of a person together."""
        return math.sqrt(self.people.max_per_id) * self.spent.mu


def declared(
    asked: Sequence[Asked],
    budget: Budget,
    schema: Schema,
    people: Participants,
    by: Any,
    by_budget: Any,
    **how: Any,
) -> Spec:
    """Check declarations and plan who is asked what; `how` goes to `privreg.means.plan.make_plan`."""
    terms, names = declared_terms(asked, schema), flat(asked)
    people.check_columns(names)
    trust = how.get("trust", "local")
    if people.max_per_id > 1 and trust != "local":
        raise OptionError(
            f"max_per_id={people.max_per_id}: with trust={trust!r} all rows of a person would be in one sum, whose "
            "noise hides one; use max_per_id=1, or trust='local'."
        )
    if people.missing == "drop" and trust != "local":
        raise OptionError(
            f"missing='drop' tells how many rows can be used, which is not public with trust={trust!r}; use 'noise'."
        )
    if by is None and by_budget is not None:
        raise OptionError("by_budget= is by subgroup; name their public column too, by='column'.")
    if by is not None and not isinstance(by, str):
        raise OptionError(f"by={shown(by)} must be the name of a column of public subgroups.")
    if by is not None and by not in schema.levels:
        raise SchemaError(f"by={by!r} needs its public levels; give levels={{{by!r}: [...]}} with all of them.")
    if by in {*names, *people.columns}:
        raise SchemaError(f"by={by!r} is public, so nothing about it is to be estimated; take it out of the rest.")
    groups = (None,) if by is None else schema.levels[by]
    budgets = read_budgets(budget, groups, by_budget)
    nonresponse = people.missing == "noise" or people.id is not None
    most = max(budgets, key=lambda b: b.mu)  # all keep the kind of guarantee that suits it best
    kind = make_plan(terms, most, nonresponse=nonresponse, **how).budget.pure
    plans = tuple(make_plan(terms, b, nonresponse=nonresponse, pure=kind, **how) for b in budgets)
    right = f"C({group})" if (group := getattr(terms[0], "group", "")) else "1"
    formula = f"{' + '.join(t.written for t in terms)} ~ {right}"
    return Spec(formula, terms, schema, budget, people, by, groups, plans)


def read_budgets(budget: Budget, groups: Sequence[Any], given: Any) -> list[Budget]:
    """Budget of every subgroup, in the form of the model's."""
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(f"by_budget must be a mapping from subgroups, got {type(given).__name__}.")
    if given and not budget.private:
        raise BudgetError("by_budget= needs a budget of the model, the largest of all, and mu=None is none.")
    out = dict.fromkeys(groups, budget)
    for name, asked in (given or {}).items():
        group, value = normalize("NFC", name) if isinstance(name, str) else name, real(asked)
        if group not in groups:
            listed = ", ".join(map(repr, groups))
            raise OptionError(f"by_budget names {shown(group)}, which is no subgroup; they are {listed}.")
        if value is None or not 0.0 < value <= budget.asked[0]:
            raise BudgetError(
                f"by_budget[{group!r}] is {shown(asked)}; it must be a number above 0 and at most the model's budget, "
                f"{budget.asked[0]:g}."
            )
        out[group] = Budget.restore(budget.form, (value, *budget.asked[1:]))
    return list(out.values())


WITHIN: Final = (
    "one person's whole record, used once, but for the subgroup, whose members are public; neighbours replace one "
    "record"
)


def _titles(spec: Spec) -> str:
    """Names of the mechanisms, each once."""
    if spec.trust != "local":
        return "Gaussian, on sums"
    each = [[item.mechanism for item in plan.items] if plan.vector is None else [plan.vector] for plan in spec.plans]
    return "; ".join(dict.fromkeys(how.title for some in each for how in some))


def header(spec: Spec, people: int, unusable: Sequence[Unusable] = ()) -> tuple[tuple[str, str], ...]:
    """Entries of the summary's header, in order; `unusable` are the shares of values of no use, by term."""
    out = [("Formula", spec.formula), ("No. Observations", f"{people:,}"), ("Mechanism", _titles(spec))]
    if spec.trust != "local":
        out.append(("Trust", spec.trust.replace("_", " ")))
    if shares := _shares(spec, unusable):
        out.append(("Unusable", shares))
    if spec.by is not None:
        out.append(("Subgroups", f"{spec.by}, {len(spec.groups)} (by_group())"))
    out.append(("Asked", _asked(spec)))
    return tuple(out)


def _shares(spec: Spec, unusable: Sequence[Unusable]) -> str:
    return "; ".join(f"{one} of {t.column}" for t, one in zip(spec.terms, unusable, strict=False) if one.sure)


def silent(unusable: Sequence[Unusable]) -> frozenset[int]:
    """Terms of which hardly any record has a usable value, or too few for ratios to their share."""
    return frozenset(k for k, one in enumerate(unusable) if one.gone or 1.0 - one.share < SURE * one.error)


def _asked(spec: Spec) -> str:
    d = len(spec.plans[0].items)
    asked = sorted({p.asked for p in spec.plans})
    if asked == [d]:
        return f"everybody, all {d} items" if d > 1 else "everybody, the one item"
    words = str(asked[0]) if len(asked) == 1 else f"{asked[0]} to {asked[-1]}"
    return f"everybody, {words} of {d} items, drawn at random"


def _words(spec: Spec) -> str:
    said = []
    for plan in spec.plans:
        if isinstance(plan, Sums):
            by = "the sum" if plan.collectors == 1 else "each collector's sum of shares"
            said.append(
                f"noise sd 1 / mu on {by}, where two reports are at most at distance 1; rounded to {1 / UNIT:.2g}"
            )
        elif plan.vector is not None:
            said.append(plan.vector.words(plan.radius, plan.size))
        else:
            said += [f"{item.mechanism.title}: {item.mechanism.words()}" for item in plan.items]
    said = list(dict.fromkeys(said))
    more = f"; and {len(said) - 6} more" if len(said) > 6 else ""
    return "numbers on [-1, 1]. " + "; ".join(said[:6]) + more


def _public(spec: Spec) -> tuple[tuple[str, str], ...]:
    out = []
    for t in dict.fromkeys(leaf for term in spec.terms for leaf in term.leaves):
        levels = "levels " + ", ".join(map(str, t.levels))
        out.append((t.column, levels if t.is_factor else "bounds {} to {}".format(*spec.schema.bounds_text(t.column))))
        if t.column in spec.schema.dates:
            out[-1] = (t.column, f"{out[-1][1]}; read as days since {EPOCH_TEXT}")
    if spec.by is not None:
        out.append((spec.by, "who belongs to which: " + ", ".join(map(str, spec.groups))))
    out += spec.schema.source_words(spec.columns)
    if any(not t.is_factor for t in spec.terms):
        out.append(CLAMPING)
    people = spec.people
    if people.id is not None:
        rows = "one row" if people.max_per_id == 1 else f"{people.max_per_id:,} rows"
        out.append((people.id, f"identifies people; {rows} of each count, further ones send noise only"))
    said = UNUSABLE | {"noise": "whether a value can be used is randomised too; means of those who have one"}
    out.append(("unusable", said[people.missing]))
    return tuple(out)


def statement(
    spec: Spec,
    release: Release,
    *,
    seeded: bool,
    people: int,
    few: frozenset[int] = frozenset(),
    unusable: Sequence[Unusable] = (),
    alike: float = 1.0,
) -> PrivacyStatement:
    """Make the privacy statement of a release.

    `few` are the terms of which too few people gave some answer, `unusable` the shares of values of no use, by term;
    `alike` is what people's rows may do to errors.
    """
    budget = spec.spent
    carries = "the reports carry no noise" if spec.trust == "local" else "the sums carry no noise"
    notes = opening_notes(budget, seeded=seeded, missing=spec.people.missing, carries=carries)
    if few:
        notes.append(note("answers.cells", np.flatnonzero(spec.concerned(few))))
    if gone := silent(unusable):
        columns = ", ".join(spec.terms[k].column for k in sorted(gone))
        of = np.flatnonzero(spec.concerned(gone))
        notes.append(note("nonresponse.columns", of, columns=columns, match=MATCH))
    else:
        text = f"by the reports no use could be made of {_shares(spec, unusable)}; estimates are of the other records"
        notes += max((one for one in unusable if one.sure), default=Unusable(0.0, 0.0)).noted(text)
    if any(plan.biased.any() for plan in spec.plans):
        notes.append(note("biased.means"))
    notes += repeated_notes(spec.people.max_per_id, alike)
    notes += closing_notes(spec.budget, budget, whole=spec.trust != "local")
    return PrivacyStatement(
        setting={"local": "means", "central": "curator's means"}.get(spec.trust, "collectors' means"),
        budget=budget,
        release=release,
        trust="curator" if spec.trust == "central" else "simulated",
        protects=whole_records(spec.people.max_per_id) if spec.by is None else WITHIN,
        noise_sd=0.0,
        bound=1.0,
        curvature="",
        neighbours=verification.trials,
        mechanism=_titles(spec),
        noise=_words(spec),
        weights=_asked(spec),
        declared=_public(spec),
        notes=tuple(notes),
        seeded=seeded and budget.private,
        mu_max=len({p.budget.mu for p in spec.plans}) > 1,
        per_id=spec.people.max_per_id,
        people=people,
        mechanics=tuple(
            verification.described("" if spec.by is None else f"{spec.by}={g}", plan)
            for g, plan in zip(spec.groups, spec.plans, strict=True)
            if budget.private
        ),
    )
