"""Declarations before a row is read: terms, subgroups, budgets, and who is asked what. Public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from privreg.data.participants import Participants
from privreg.errors import BudgetError, OptionError, SchemaError, real, shown
from privreg.means.plan import Plan, make_plan
from privreg.means.terms import Column, Term, declared_terms, flat
from privreg.privacy.ledger import Budget
from privreg.schema.declarations import Schema


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
        sums = self.plans[0].sums
        return "local" if sums is None else "central" if sums.collectors == 1 else "two_collectors"

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
    columns: Sequence[Column],
    factors: Sequence[str],
    budget: Budget,
    schema: Schema,
    people: Participants,
    by: Any,
    by_budget: Any,
    **how: Any,
) -> Spec:
    """Check declarations and plan who is asked what; `how` goes to `privreg.means.plan.make_plan`."""
    terms = declared_terms(columns, factors, schema)
    names = flat(columns)
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
    groups = read_groups(by, schema, [*names, *people.columns])
    if by is None and by_budget is not None:
        raise OptionError("by_budget= is by subgroup; name their public column too, by='column'.")
    budgets = read_budgets(budget, groups, {} if by_budget is None else _by_group(by_budget, groups))
    nonresponse = people.missing == "noise" or people.id is not None
    most = max(budgets, key=lambda b: b.mu)  # all keep the kind of guarantee that suits it best
    kind = make_plan(terms, most, nonresponse=nonresponse, **how).budget.pure
    plans = tuple(make_plan(terms, b, nonresponse=nonresponse, pure=kind, **how) for b in budgets)
    formula = f"{' + '.join(t.written for t in terms)} ~ {terms[0].right}"
    return Spec(formula, terms, schema, budget, people, by, groups, plans)


def read_groups(by: Any, schema: Schema, private: Sequence[str]) -> tuple[Any, ...]:
    """Levels of the public column of subgroups, none of the `private` ones; one nameless subgroup if there is none."""
    if by is None:
        return (None,)
    if not isinstance(by, str):
        raise OptionError(f"by={shown(by)} must be the name of a column of public subgroups.")
    if by not in schema.levels:
        raise SchemaError(f"by={by!r} needs its public levels; give levels={{{by!r}: [...]}} with all of them.")
    if by in private:
        raise SchemaError(f"by={by!r} is public, so nothing about it is to be estimated; take it out of the rest.")
    return schema.levels[by]


def _by_group(given: Any, groups: Sequence[Any]) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise OptionError(f"by_budget must be a mapping from subgroups, got {type(given).__name__}.")
    named = {normalize("NFC", name) if isinstance(name, str) else name: value for name, value in given.items()}
    for name in named:
        if name not in groups:
            listed = ", ".join(map(repr, groups))
            raise OptionError(f"by_budget names {shown(name)}, which is no subgroup; they are {listed}.")
    return named


def read_budgets(budget: Budget, groups: Sequence[Any], given: Mapping[Any, Any]) -> list[Budget]:
    """Budget of every subgroup, in the form of the model's."""
    if given and not budget.private:
        raise BudgetError("by_budget= needs a budget of the model, the largest of all, and mu=None is none.")
    out = dict.fromkeys(groups, budget)
    for name, asked in given.items():
        value = real(asked)
        if value is None or not 0.0 < value <= budget.asked[0]:
            raise BudgetError(
                f"by_budget[{name!r}] is {shown(asked)}; it must be a number above 0 and at most the model's budget, "
                f"{budget.asked[0]:g}."
            )
        out[name] = Budget.restore(budget.form, (value, *budget.asked[1:]))
    return list(out.values())
