"""Auditing the mechanisms that estimates used, on made-up neighbours. Device side; nobody's row is there any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from privreg.audit.verification import Trial, claim_of
from privreg.base.arrays import Array
from privreg.means import device
from privreg.means.factors import FactorMechanism, factor_mechanism
from privreg.means.plan import Item, Plan, Sums, make_sums
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism
from privreg.privacy.noise import NoiseStream, fresh_key
from privreg.privacy.scalar import NumberMechanism, number_mechanism

WHOLE: Final = "whole report"


def described(group: str, plan: Plan) -> dict[str, Any]:
    """Describe a subgroup's plan by numbers and names, as `trials` reads it."""
    items = []
    for *place, _, size, how in plan.items:
        bit = getattr(how, "bit", None)
        made = how and [how.name, "duchi" if bit is None else bit.name, how.budget.form, list(how.budget.asked)]
        items.append([*place, size, made])
    return {
        "group": group,
        "asked": plan.asked,
        "budget": [plan.budget.form, *plan.budget.asked],
        "items": items,
        "vector": plan.vector is not None,
        "collectors": plan.collectors if isinstance(plan, Sums) else 0,
    }


def _plan(saved: Mapping[str, Any]) -> Plan:
    made, at = list[Item](), 0
    for kind, term, size, how in saved["items"]:
        made.append(Item(kind, term, at, size))
        at += size
        if how:
            name, bit, form, asked = how
            each = Budget.restore(form, tuple(asked))
            if kind == "factor":
                made[-1] = made[-1]._replace(mechanism=factor_mechanism(name, each, size, bit))
            else:
                low = 0.0 if kind == "answered" else -1.0
                made[-1] = made[-1]._replace(mechanism=number_mechanism(name, each, low))
    form, *asked = saved["budget"]
    spent, items = Budget.restore(form, tuple(asked)), tuple(made)
    if saved["collectors"]:
        return make_sums(items, spent, saved["collectors"])
    return Plan(items, saved["asked"], spent, Mechanism("privunit", spent) if saved["vector"] else None)


def _answers(m: NumberMechanism | FactorMechanism, n: int) -> tuple[Array, Array]:
    """Answers of two people at the largest distance."""
    stream = NoiseStream(fresh_key(), m.width)
    first, second = (0, 1) if isinstance(m, FactorMechanism) else (m.high, m.low)
    return m.randomise(np.full(n, first), stream.draw(n)), m.randomise(np.full(n, second), stream.draw(n))


def _people(plan: Plan) -> Iterator[tuple[str, list[Array], list[Array]]]:
    """Pairs of made-up people: all values at opposite ends; everything reported against nothing."""
    terms = 1 + max(item.term for item in plan.items)
    levels = {item.term: item.size for item in plan.items if item.kind == "factor"}
    high = [np.array(0 if t in levels else 1.0) for t in range(terms)]
    low = [np.array(1 if t in levels else -1.0) for t in range(terms)]
    yield "opposite ends", high, low
    if any(item.kind == "answered" for item in plan.items):
        none = [np.array(levels[t] - 1 if t in levels else np.nan) for t in range(terms)]
        yield "all reported, nothing to report", high, none


def _both(draw: Callable[[Any, int], Array], first: Any, second: Any, n: int) -> tuple[Array, Array]:
    return draw(first, n), draw(second, n)


def _whole(plan: Plan, values: Sequence[Array], n: int) -> Array:
    stream, out = NoiseStream(fresh_key(), max(plan.width, 1)), np.empty((n, plan.size))
    for a in range(0, n, 4096):
        k = min(4096, n - a)
        people = [np.full(k, v) for v in values]
        # an item that isn't asked says nothing; 0 for it keeps the projection defined
        out[a : a + k] = np.nan_to_num(device.reports(plan, people, stream.draw(k)))
    return out


def _released(plan: Sums, values: Sequence[Array], n: int) -> Array:
    """Sums that differ in one person, as others see them who know all else: a collector the noise it adds, too."""
    exact = device.total(plan, [np.full(1, v) for v in values])
    return replace(plan, collectors=1).noised(np.tile(exact, (n, 1)), fresh_key()) / plan.scales


def trials(mechanics: Sequence[Mapping[str, Any]], _: Budget) -> Iterator[Trial]:
    """Every kind of answer at its share of the budget, and whole reports at all of it."""
    for saved in mechanics:
        plan, of = _plan(saved), f", {saved['group']}" if saved["group"] else ""
        single = plan.items if plan.vector is None and not isinstance(plan, Sums) else ()
        for kind, m in dict.fromkeys((item.kind, item.mechanism) for item in single):
            yield Trial(f"{kind}, {m.title}{of}", "opposite ends", *claim_of(m.budget), partial(_answers, m))
        who, draw = WHOLE, partial(_whole, plan)
        if isinstance(plan, Sums):
            who = "sum" if plan.collectors == 1 else "sum, against either collector"
            draw = partial(_released, plan)
        for words, high, low in _people(plan):
            yield Trial(f"{who}{of}", words, *claim_of(plan.budget), partial(_both, draw, high, low))
