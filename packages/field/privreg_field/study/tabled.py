"""Tables of respondents in the field: what their reports are made of, and results of their sums. No row comes near.

A table is that of `privreg.means` where noise falls on sums: the same reports, in whole numbers, and the same
estimates. Where devices add the noise its variance in a sum is that of one report times the people.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.data.participants import Participants
from privreg.errors import FormulaError, InferenceError, OptionError, StudyError
from privreg.fits.outcome import Senders
from privreg.means import collector
from privreg.means.plan import Spec, Sums, declared
from privreg.means.results.results import MeansResults
from privreg.means.stream import MeansStream
from privreg.means.terms import Followed, declared_terms, read_formula
from privreg.privacy.ledger import Budget, Release
from privreg.protocol import lattice
from privreg.schema.declarations import Schema
from privreg_field.collector.chain import Tabled
from privreg_field.wire import tables
from privreg_field.wire.analyses import mu_of
from privreg_field.wire.roles import TABLE, Role
from privreg_field.wire.study import PublicPlan
from privreg_field.wire.tables import Block
from privreg_field.wire.trees import Column

FEWEST: Final = 2  # People of whom there are results


@dataclass(frozen=True)
class FieldSums(Sums):
    """Sums of reports in whole numbers, as devices make them; `collectors` is 0 where devices add the noise."""

    weights: tuple[int, ...] = ()  # Weights of blocks by item, in whole numbers
    bits: int = lattice.BITS

    unit: ClassVar = 1.0

    def variances(self, people: int) -> Array:
        """Variances of the noise in means over so many people, by number of a report; shape (width,)."""
        return np.asarray((self.collectors or people) * (2.0**self.bits / (self.scales * people)) ** 2)


@dataclass(frozen=True)
class TableFit:
    """A declared table, and the expected people."""

    spec: Spec
    rows: int | None
    trust: str

    @property
    def formula(self) -> str:
        """Formula of the table."""
        return self.spec.formula.removesuffix(" ~ 1")

    @property
    def guarantee(self) -> str:
        """The budget per person."""
        return str(self.spec.budget)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it asks about."""
        return self.spec.columns


def table_fit(asked: dict[str, Any], schema: Schema, missing: str) -> TableFit:
    """A table as a study declares it: table (a formula, or columns), mu, rows, trust.

    `missing` is "noise" or "refuse", as the study says.
    """
    given = asked["table"]
    text = " + ".join(given) if isinstance(given, list) and all(isinstance(v, str) for v in given) else given
    if not isinstance(text, str) or "~" in text:
        raise FormulaError(
            "'table' of a study holds columns such as age + C(smoker) + C(smoker):C(region): numbers, factors, pairs."
        )
    described = read_formula(f"{text} ~ 1")
    for term in declared_terms(described, schema):
        # devices know neither classes of a number nor products
        if term.edges or isinstance(term, Followed) or term.is_product:
            raise FormulaError(
                "'table' of a study has means of numbers, shares of factors and pairs of factors, as in age + "
                "C(smoker) + C(smoker):C(region); cut(), Surv(), products and squares of numbers can't be had yet. Ask "
                "for classes as a factor, with levels."
            )
    people = Participants.declare(missing="noise" if missing == "noise" else "raise")
    budget = Budget.declare(mu=asked["mu"])
    trust = asked.get("trust") or "local"
    spec = declared(described, budget, schema, people, None, None, trust="two_collectors")
    return TableFit(spec, asked.get("rows"), trust)


def blocks_of(fit: TableFit, columns: Sequence[Column]) -> tuple[tuple[Block, ...], Role, int]:
    """Blocks of a table's reports, their role, and the noise's bits.

    Weights are those of `privreg.means.plan.make_sums`, as large as the budget allows.
    Raises OptionError if the budget is too small for so many estimates.
    """
    plan, known, mu = fit.spec.plans[0], {c.name: c for c in columns}, mu_of(fit.spec.budget.mu)
    assert isinstance(plan, Sums)  # of every table
    first = {item.term: w for item, w in zip(reversed(plan.items), reversed(plan.weights), strict=True)}
    bits = lattice.BITS if fit.trust == "local" else lattice.bits_of_sums(mu)
    radius = lattice.radius(lattice.BLOCKS, 1, mu, bits)
    for whole in range(radius, 0, -1):  # rounding takes a few steps
        made = tuple(Block(t.columns, int(first[k] * whole)) for k, t in enumerate(fit.spec.terms))
        if all(b.weight for b in made) and tables.distance2(made, known) <= radius**2:
            gaps = fit.spec.people.missing == "noise"
            return made, Role(lattice.BLOCKS, tables.width(made, known, gaps=gaps), radius, 1), bits
        if not all(b.weight for b in made):
            break
    raise OptionError(f"mu = {mu.p}/{mu.q} is too small for {len(fit.spec.terms)} descriptions; ask for more.")


def engine_of(plan: PublicPlan, fit: TableFit) -> Tabled:
    """The collector's round before the first report.
    Raises StudyError if the plan asks devices for other reports than the table is made of.
    """
    blocks, role, bits = blocks_of(fit, plan.columns)
    if (plan.table, dict(plan.roles), plan.bits) != (blocks, {TABLE: role}, bits):
        raise StudyError("the plan asks devices for other reports than its table is made of; sign it anew.")
    return Tabled(role, bits, fit.rows)


def spec_of(fit: TableFit, blocks: Sequence[Block], bits: int, times: int = 1) -> Spec:
    """The table with sums as devices' reports add up to them, to which two collectors have added noise so often."""
    plan = fit.spec.plans[0]
    assert isinstance(plan, Sums)  # of every table
    weights = tuple(blocks[item.term].weight for item in plan.items)
    who = 0 if fit.trust == "local" else 2 * times
    sums = FieldSums(plan.items, plan.asked, plan.budget, collectors=who, weights=weights, bits=bits)
    return replace(fit.spec, plans=(sums,))


def results(
    plan: PublicPlan, fit: TableFit, people: int, total: Any, senders: Senders, added: Sequence[tuple[str, str]],
    sums: int = 1,
) -> MeansResults:  # fmt: skip
    """Results of a table's sums: `total`, shape (numbers,), is that of the people's reports.

    `senders` are who randomised, as the privacy statement says it, `added` entries of the summary's header, and `sums`
    how many two collectors have published, each with their noise.
    Raises InferenceError before two people have answered, or, with two collectors, before their sum is published.
    """
    if people < FEWEST:
        raise InferenceError("there are no estimates yet: a table begins with its first reports' sum.")
    stream = MeansStream(spec_of(fit, plan.table, plan.bits, sums), None)
    nothing = np.zeros((0, 0))
    stream._held = [(collector.State(people, nothing, np.asarray(total, dtype=np.float64), nothing), {})]
    made = stream.released(Release(0, plan.mu.p / plan.mu.q))._fit
    local = fit.trust == "local"
    head = [(a, b) for a, b in made.header if not (local and a in {"Trust", "Mechanism"})]
    head = [*head[:2], ("Mechanism", senders.mechanism), *head[2:]] if local else head
    notes = [note for note in made.statement.notes if note.code != "rounding"]
    statement = replace(
        made.statement,
        setting="means" if local else "collectors' means",
        trust="devices",
        mechanism=senders.mechanism or "",
        noise=senders.noise or "",
        operators=senders.operators,
        notes=(*notes, *(senders.notes or ())),
        mechanics=tuple({**m, "collectors": 1 if local else 2} for m in made.statement.mechanics),
    )
    return MeansResults(replace(made, header=(*head, *added), statement=statement))


def half_widths(
    fit: TableFit, blocks: Sequence[Block], bits: int, people: int, sds: Mapping[str, float]
) -> list[tuple[str, float, float]]:
    """Names of estimates, half their 95% intervals at so many people, and the noise's variance over that of sampling.

    User's units; of numbers with these sds or evenly spread, and levels that are equally frequent.
    """
    spec = spec_of(fit, blocks, bits)
    plan = spec.plans[0]
    assert isinstance(plan, Sums)  # of every table
    noise, out = plan.variances(people), []
    for item in plan.items:
        if item.kind == "answered":
            continue
        term = spec.terms[item.term]
        n = len(term.levels)
        sampling = (1.0 - 1.0 / n) / n if n else (sds.get(term.column, term.half / math.sqrt(3.0)) / term.half) ** 2
        unit = 1.96 * (1.0 if n else term.half)
        for k, name in enumerate(term.names):
            of_noise = float(noise[item.at + k]) * (1.0 - 1.0 / n if n else 1.0)  # shares add up to 1, and keep to it
            out.append((name, unit * math.sqrt(sampling / people + of_noise), of_noise * people / sampling))
    return out
