"""Auditing the mechanisms that estimates used, on made-up neighbours. Device side; nobody's row is there any more."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from privreg.audit.neighbours import Trial, claim_of
from privreg.base.arrays import Array
from privreg.means import device
from privreg.means.mechanisms import FactorMechanism, factor_mechanism
from privreg.means.plan import Item, Plan, Sums, make_sums
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism
from privreg.privacy.noise import NoiseStream, fresh_key
from privreg.privacy.scalar import NumberMechanism, number_mechanism


def described(group: str, plan: Plan) -> dict[str, Any]:
    """Describe a subgroup's plan by numbers and names, as `trials` reads it."""
    items = []
    for *place, _, size, how in plan.items:
        bit = getattr(how, "bit", None)
        made = how and [how.name, "duchi" if bit is None else bit.name, how.budget.form, list(how.budget.asked)]
        items.append([*place, size, made])
    out = {"group": group, "asked": plan.asked, "budget": [plan.budget.form, *plan.budget.asked], "items": items}
    return out | {"vector": plan.vector is not None, "collectors": getattr(plan, "collectors", 0)}


def _answers(m: NumberMechanism | FactorMechanism, n: int) -> tuple[Array, Array]:
    """Answers of two people at the largest distance."""
    stream = NoiseStream(fresh_key(), m.width)
    first, second = (0, 1) if isinstance(m, FactorMechanism) else (m.high, m.low)
    return m.randomise(np.full(n, first), stream.draw(n)), m.randomise(np.full(n, second), stream.draw(n))


def _sent(plan: Plan, people: Sequence[Sequence[Array]], n: int) -> tuple[Array, Array]:
    """Reports of two people, `n` times each; or sums that differ in one person, as others see them who know all
    else: a collector the noise that it adds, too.
    """
    out = []
    for values in people:
        if isinstance(plan, Sums):
            exact = np.tile(device.total(plan, [np.full(1, v) for v in values]), (n, 1))
            out.append(replace(plan, collectors=1).noised(exact, fresh_key()) / plan.scales)
            continue
        stream, sizes = NoiseStream(fresh_key(), max(plan.width, 1)), (min(4096, n - a) for a in range(0, n, 4096))
        made = [device.reports(plan, [np.full(k, v) for v in values], stream.draw(k)) for k in sizes]
        out.append(np.nan_to_num(np.concatenate(made)))  # what isn't asked says nothing; 0 keeps the projection defined
    return out[0], out[1]


def trials(mechanics: Sequence[Mapping[str, Any]], _: Budget) -> Iterator[Trial]:
    """Every kind of answer at its share of the budget, and whole reports at all of it."""
    for saved in mechanics:
        of, items = f", {saved['group']}" if saved["group"] else "", list[Item]()
        for kind, term, size, how in saved["items"]:
            mechanism: Any = None
            if how:
                name, bit, form, asked = how
                each, lowest = Budget.restore(form, tuple(asked)), 0.0 if kind == "answered" else -1.0
                factor = kind == "factor"
                mechanism = factor_mechanism(name, each, size, bit) if factor else number_mechanism(name, each, lowest)
            items.append(Item(kind, term, sum(item.size for item in items), size, mechanism))
        form, *asked = saved["budget"]
        spent, vector = Budget.restore(form, tuple(asked)), saved["vector"]
        plan = Plan(tuple(items), saved["asked"], spent, Mechanism("privunit", spent) if vector else None)
        plan = make_sums(plan.items, spent, saved["collectors"]) if saved["collectors"] else plan
        single = plan.items if plan.vector is None and not isinstance(plan, Sums) else ()
        for kind, m in dict.fromkeys((item.kind, item.mechanism) for item in single):
            yield Trial(f"{kind}, {m.title}{of}", "opposite ends", *claim_of(m.budget), partial(_answers, m))
        who = {0: "whole report", 1: "sum"}.get(saved["collectors"], "sum, against either collector") + of
        levels = [*{i.term: i.size * (i.kind == "factor") for i in plan.items}.values()]  # by term; 0 of a number
        high, low = [np.array(0 if k else 1.0) for k in levels], [np.array(1 if k else -1.0) for k in levels]
        yield Trial(who, "opposite ends", *claim_of(plan.budget), partial(_sent, plan, [high, low]))
        if plan.answered:
            none = [np.array(k - 1 if k else np.nan) for k in levels]
            words = "all reported, nothing to report"
            yield Trial(who, words, *claim_of(plan.budget), partial(_sent, plan, [high, none]))
