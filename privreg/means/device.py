"""Devices of people: from a batch of raw columns to randomised reports. Device side.

Beside `stream`, which reads the columns, the only module of this sub-package that sees a raw value.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr

from privreg.base.arrays import Array, Ints
from privreg.means.plan import Plan, Sums
from privreg.means.terms import Followed, Term
from privreg.privacy.mechanisms import randomised


def inside(terms: Sequence[Term], raw: dict[str, NDArray[Any]], silent: NDArray[np.bool_] | bool) -> list[Array]:
    """Values of each term as devices take them, each of shape (n,), of columns as `data.columns.prepare` reads them.

    Numbers on [-1, 1] by the range of the people's subgroup, NaN if missing; codes of levels, one beyond the last
    if missing. Who is `silent` has nothing to report, whatever their row says.
    """
    out = []
    for term in terms:
        if term.levels:
            at, missing = np.zeros(1, dtype=np.intp), np.asarray(silent)
            for part in term.parts if len(term.parts) > 1 else (term,):
                codes = raw[part.columns[0]]
                if part.edges:  # classes of a number
                    classes = np.searchsorted(part.edges[1:-1], np.nan_to_num(codes), side="right")
                    codes = np.where(np.isnan(codes), -1, classes)
                at, missing = np.asarray(at * len(part.levels) + codes), missing | (codes < 0)
            if isinstance(term, Followed):
                stop, entry = raw[term.times.columns[0]], term.entry
                start = np.zeros(1) if entry is None else raw[entry.columns[0]]
                missing = missing | ~((start >= 0.0) & ((start <= stop) if entry is None else (start < stop)))
            out.append(np.where(missing, len(term.levels), at))
            continue
        values = np.ones(1) if term.parts else np.clip(raw[term.column], term.low, term.high)
        for part in term.parts:
            values = values * (np.clip(raw[part.column], part.low, part.high) - part.middle)
        out.append(np.where(silent, np.nan, np.clip((values - term.middle) / term.half, -1.0, 1.0)))
    return out


def chosen(plan: Plan, normals: Array) -> NDArray[np.intp]:
    """Which items each person is asked, shape (n, asked): by chance alone, each set being as likely as any other."""
    n, d = len(normals), len(plan.items)
    if plan.asked == d:
        return np.tile(np.arange(d), (n, 1))
    if plan.asked == 1:
        return np.asarray(np.minimum((ndtr(normals[:, :1]) * d).astype(np.intp), d - 1))
    return np.asarray(np.argpartition(normals[:, :d], plan.asked, axis=1)[:, : plan.asked])


def reports(plan: Plan, values: Sequence[Array], normals: Array) -> Array:
    """Let every person's device answer what it is asked, shape (n, len(plan.columns)).

    `values`, by term, are those of :func:`inside`; `normals`, shape (n, width), are standard ones, each row drawn for
    one person and never used again. Reports are NaN where a person was not asked, 0 for `late` factors that were.
    Unless the mechanism is a biased one, they are unbiased for numbers times whether there is one, for whether there is
    one, and for indicators of levels.
    """
    if plan.vector is not None:  # a vector in the ball about the public centre
        out, centre = np.empty((len(normals), plan.size)), np.zeros(plan.size)
        for item in plan.items:
            given, here = values[item.term], item.here
            factor = item.kind == "factor"
            exact = np.equal.outer(given, np.arange(item.size)) if factor else np.nan_to_num(given)[:, None]
            centre[here] = {"factor": 1.0 / item.size, "answered": 0.5, "number": 0.0}[item.kind]
            out[:, here] = (~np.isnan(given)[:, None] if item.kind == "answered" else exact) - centre[here]
        return randomised(plan.vector.channel(plan.size), out, plan.radius, normals) + centre
    out = np.full((len(normals), len(plan.columns)), np.nan)
    asked = chosen(plan, normals).ravel()
    order = np.argsort(asked, kind="stable")
    ends = np.searchsorted(asked[order], np.arange(len(plan.items) + 1))
    for j, item in enumerate(plan.items):
        who, slot = np.divmod(order[ends[j] : ends[j + 1]], plan.asked)
        at = plan.places[j]
        if j in plan.late:
            out[who, at] = 0.0
            continue
        first, given = plan.selection + slot * plan.slot, values[item.term][who]
        given = ~np.isnan(given) if item.kind == "answered" else given
        made = item.mechanism.randomise(given, normals[who[:, None], first[:, None] + np.arange(item.mechanism.width)])
        out[who, at : at + item.size] = made.reshape(-1, item.size)
    return out


def waiting(plan: Plan, values: Sequence[Array], j: int, made: Array) -> Array:
    """Products of what is beside a late factor, of those who were asked it, with its levels and with itself: raw.

    Beside it are the items that they were asked and, where these are several, their reports, as they were `made`. Shape
    (r, levels + r). Whoever holds it hands it to nobody.
    """
    who = np.flatnonzero(~np.isnan(made[:, plan.places[j]]))
    there = ~np.isnan(made[who])
    asked = there[:, plan.places].astype(np.float64)
    beside = asked[:, [j]] if plan.asked == 1 else np.hstack([asked, np.where(there, made[who], 0.0)])
    codes = values[plan.items[j].term][who].astype(np.intp)
    levels = csr_array((np.ones(len(who)), codes, np.arange(len(who) + 1)), shape=(len(who), plan.items[j].size))
    return np.hstack([(levels.T @ beside).T, beside.T @ beside])


def total(plan: Sums, values: Sequence[Array]) -> Ints:
    """Sum of people's reports in whole numbers, shape (width,), before any noise: raw; see `privreg.means.plan`."""
    scales, out = plan.scales, np.zeros(len(plan.scales), dtype=np.int64)
    for item in plan.items:
        given, scale = values[item.term], scales[item.at]
        if item.kind == "factor":
            out[item.here] = np.bincount(given.astype(np.intp), minlength=item.size) * np.rint(scale).astype(np.int64)
        else:
            report = ~np.isnan(given) if item.kind == "answered" else np.nan_to_num(given)
            out[item.at] = np.rint(scale * report).astype(np.int64).sum()
    for at, j in enumerate(plan.squared, plan.size):
        square = np.nan_to_num(values[plan.items[j].term]) ** 2
        out[at] = np.rint(scales[at] * square).astype(np.int64).sum()
    return out
