"""Files of means of earlier versions, which kept names of estimates in place of terms, in today's form."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np

from privreg.base import archive

Json = list[Any]  # A term as `Term.to_json` represents it

_MIDDLE: Final = re.compile(r"\((.+?) - (-?[\d.]+(?:e[+-]?\d+)?)\)")
"""A number in the name of a product, and the middle of its range."""


def _term(column: str, low: float = 0.0, high: float = 1.0, levels: Any = (), parts: Any = (), edges: Any = ()) -> Json:
    return [column, float(low), float(high), list(levels), list(parts), list(edges)]


def _variables(names: list[str]) -> list[tuple[str, list[str]]]:
    """Columns and their levels, of version 0.1: neighbours with one name before the bracket are of a factor."""
    found = groupby(names, lambda n: n.partition("[")[0] if n.endswith("]") else n)
    return [(head, [n[len(head) + 1 : -1] for n in group if n != head]) for head, group in found]


def _classes(column: str, labels: list[str], ends: list[float], *, upper: bool = False) -> Json:
    """Classes of a number between such ends, which hold their lower ends, or their `upper` ones."""
    inner = np.nextafter(ends[1:-1], np.inf).tolist() if upper else ends[1:-1]
    whole = _term(column, ends[0], ends[-1])
    return _term(f"cut({column})", levels=labels, parts=[whole], edges=[ends[0], *inner, ends[-1]])


def _crossed(name: str, names: list[str], curves: Mapping[str, list[float]]) -> Json:
    """Factors, and classes of the times of `curves` with their cut points, whose levels make up these names."""
    each = [re.findall(r"(?:^|(?<=\]:))(.+?)\[(.*?)\](?=:|$)", n) for n in names]
    levels = [list(dict.fromkeys(level for _, level in column)) for column in zip(*each, strict=True)]
    parts = []
    for (column, _), labels in zip(each[0], levels, strict=True):
        cuts = curves.get(column)
        starts = [0.0] * (cuts is not None and len(labels) > len(cuts) + 1)  # of entry, of which time 0 is a class
        ends = [0.0, *starts, *(cuts or ()), math.inf]
        parts.append(_term(column, levels=labels) if cuts is None else _classes(column, labels, ends, upper=True))
    return _term(name, parts=parts)


def today(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A document and arrays in today's form. Raises ValueError if the arrays don't fit each other."""
    names, g = list(map(str, document["names"])), len(document["groups"])
    variables = [(str(v), list(map(str, levels))) for v, levels in document.get("variables", ())] or _variables(names)
    p, t = len(names), len(variables)
    middles, halves = (arrays[k] for k in ("centres", "halves"))
    archive.expect(middles.shape == halves.shape == (p,), p == sum(max(len(levels), 1) for _, levels in variables))
    curves: dict[str, list[float]] = {}
    for _, time, cuts, _, _, _, _, *start in document.get("curves", ()):
        curves |= {str(column): list(map(float, cuts)) for column in (time, *start) if column}
    classes = {int(k): (str(column), list(map(float, ends))) for column, k, ends in document.get("cuts", ())}
    products = {int(k) for *_, k in document.get("products", ())}
    crossed = {int(k) for k, *_ in document.get("tables", ())}
    terms, firsts = [], [0, *np.cumsum([max(len(levels), 1) for _, levels in variables]).tolist()]
    for (name, levels), (k, end) in zip(variables, pairwise(firsts), strict=True):
        low, high = middles[k] - halves[k], middles[k] + halves[k]
        if k in classes:
            terms.append(_classes(classes[k][0], levels, classes[k][1]))
        elif k in products:
            found = [(column, float(middle)) for column, middle in _MIDDLE.findall(names[k])]
            numbers = [_term(c, m - math.sqrt(high), m + math.sqrt(high)) for c, m in found * (3 - len(found))]
            terms.append(_term(name, low, high, parts=numbers))
        elif k in crossed or name.startswith("Surv("):
            terms.append(_crossed(name, names[k:end], curves))
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
