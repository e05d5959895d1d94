"""Files of means of earlier versions, which kept names of estimates in place of terms, in today's form."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from privreg.base import archive


def _term(column: str, low: float = 0.0, high: float = 1.0, levels: Any = (), parts: Any = (), edges: Any = ()) -> Any:
    """A term as `Term.to_json` represents it."""
    return [column, float(low), float(high), list(levels), list(parts), list(edges)]


def _classes(column: str, labels: list[str], ends: list[float], *, upper: bool = False) -> Any:
    """Classes of a number between such ends, which hold their lower ends, or their `upper` ones."""
    inner = np.nextafter(ends[1:-1], np.inf).tolist() if upper else ends[1:-1]
    whole = _term(column, ends[0], ends[-1])
    return _term(f"cut({column})", levels=labels, parts=[whole], edges=[ends[0], *inner, ends[-1]])


def today(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A document and arrays in today's form. Raises ValueError if the arrays don't fit each other."""
    names, g = list(map(str, document["names"])), len(document["groups"])
    variables = [(str(v), list(map(str, levels))) for v, levels in document.get("variables", ())]
    if not variables:  # of version 0.1: neighbours with one name before the bracket are of a factor
        found = groupby(names, lambda n: n.partition("[")[0] if n.endswith("]") else n)
        variables = [(head, [n[len(head) + 1 : -1] for n in group if n != head]) for head, group in found]
    p, t, sizes = len(names), len(variables), [max(len(levels), 1) for _, levels in variables]
    middles, halves = (arrays[k] for k in ("centres", "halves"))
    archive.expect(middles.shape == halves.shape == (p,), p == sum(sizes))
    curves: dict[str, list[float]] = {}  # cut points of times, by column
    for _, time, cuts, _, _, _, _, *start in document.get("curves", ()):
        curves |= {str(column): list(map(float, cuts)) for column in (time, *start) if column}
    classes = {int(k): (str(column), list(map(float, ends))) for column, k, ends in document.get("cuts", ())}
    products = {int(k) for *_, k in document.get("products", ())}
    crossed, terms = {int(k) for k, *_ in document.get("tables", ())}, []
    for (name, levels), (k, end) in zip(variables, pairwise(np.cumsum([0, *sizes]).tolist()), strict=True):
        low, high = middles[k] - halves[k], middles[k] + halves[k]
        if k in classes:
            terms.append(_classes(classes[k][0], levels, classes[k][1]))
        elif k in products:  # columns and the middles of their ranges
            of = re.findall(r"\((.+?) - (-?[\d.]+(?:e[+-]?\d+)?)\)", names[k])
            half, of = math.sqrt(high), of * (3 - len(of))
            numbers = [_term(c, float(middle) - half, float(middle) + half) for c, middle in of]
            terms.append(_term(name, low, high, parts=numbers))
        elif k in crossed or name.startswith("Surv("):
            each = [re.findall(r"(?:^|(?<=\]:))(.+?)\[(.*?)\](?=:|$)", n) for n in names[k:end]]
            parts = []
            for made in zip(*each, strict=True):
                column, labels = made[0][0], list(dict.fromkeys(level for _, level in made))
                if (known := curves.get(column)) is None:
                    parts.append(_term(column, levels=labels))
                    continue
                entry = [0.0] * (len(labels) > len(known) + 1)  # of entry, of which time 0 is a class
                parts.append(_classes(column, labels, [0.0, *entry, *known, 2.0 * known[-1]], upper=True))
            terms.append(_term(name, parts=parts))
        else:
            terms.append(_term(name, levels=levels) if levels else _term(name, low, high))
    held = {name: arrays[name] for name in ("params", "cov", "group_params", "group_variances")}
    reliable = np.full((g, p), not document["statement"].get("notes"))
    held |= {"group_reliable": arrays.get("group_reliable", reliable)}
    held |= {"group_tests": arrays.get("group_tests", np.full((t, 2), np.nan))}
    held |= {"missing": arrays.get("missing", np.full((1 + g, t, 2), np.nan))}
    held["moments"] = np.full((1 + g, 5, p), np.nan)
    if "moments" in arrays and "sds" in arrays:  # subgroups' mean squares, but for noise, follow from their sds
        held["moments"][0] = arrays["moments"]
        held["moments"][1:, 0] = arrays["sds"][1:] ** 2 + (arrays["group_params"] - middles) ** 2
        held["moments"][1:, 1] = 0.0
    return {**document, "terms": terms}, held
