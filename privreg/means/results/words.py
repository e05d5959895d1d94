"""Words beside estimates: header, privacy statement, notes. Public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from privreg.collector.levels import SURE
from privreg.formula.spec import CLAMPING, UNUSABLE
from privreg.means import verification
from privreg.means.factors import FactorMechanism
from privreg.means.spec import Spec
from privreg.means.sums import UNIT
from privreg.privacy.ledger import Release
from privreg.results.statement import PrivacyStatement
from privreg.results.wording import MATCH, Unusable, closing_notes, opening_notes, repeated_notes, whole_records
from privreg.schema.declarations import EPOCH_TEXT
from privreg.tables.diagnostics import Diagnostic, note

WITHIN: Final = (
    "one person's whole record, used once, but for the subgroup, whose members are public; neighbours replace one "
    "record"
)


def is_biased(spec: Spec) -> bool:
    """True if numbers go through a mechanism whose bias stays."""
    return any(
        not isinstance(i.mechanism, FactorMechanism) and not i.mechanism.unbiased for p in spec.plans for i in p.items
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
    if any(one.sure for one in unusable):
        out.append(("Unusable", "; ".join(_shares(spec, unusable))))
    if spec.by is not None:
        out.append(("Subgroups", f"{spec.by}, {len(spec.groups)} (by_group())"))
    out.append(("Asked", _asked(spec)))
    return tuple(out)


def _shares(spec: Spec, unusable: Sequence[Unusable]) -> list[str]:
    return [f"{one} of {t.column}" for t, one in zip(spec.terms, unusable, strict=False) if one.sure]


def silent(unusable: Sequence[Unusable]) -> frozenset[int]:
    """Terms of which hardly any record has a usable value, or too few for ratios to their share."""
    return frozenset(k for k, one in enumerate(unusable) if one.gone or 1.0 - one.share < SURE * one.error)


def _unusable(spec: Spec, unusable: Sequence[Unusable]) -> list[Diagnostic]:
    shares, few = "; ".join(_shares(spec, unusable)), silent(unusable)
    if few:
        columns = ", ".join(spec.terms[k].column for k in sorted(few))
        return [note("nonresponse.columns", np.flatnonzero(spec.concerned(few)), columns=columns, match=MATCH)]
    text = f"by the reports no use could be made of {shares}; estimates are of the other records"
    return list(max((one for one in unusable if one.sure), default=Unusable(0.0, 0.0)).noted(text))


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
        if plan.sums is not None:
            by = "the sum" if plan.sums.collectors == 1 else "each collector's sum of shares"
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


def _declared(spec: Spec) -> tuple[tuple[str, str], ...]:
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
    notes += _unusable(spec, unusable)
    if is_biased(spec):
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
        declared=_declared(spec),
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
