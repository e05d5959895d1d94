"""Coefficients of rare levels or values, with too few records for their intervals to be relied on. Reports only."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.covariates import factors as cells
from privreg.collector.covariates import whitening
from privreg.collector.covariates.factors import Cells
from privreg.collector.covariates.points import FARTHEST
from privreg.collector.plan import Crossed, Plan, Progress

OF_FEW: Final = 0.25  # Part of a coefficient's variance by levels that few have from which on it is marked

FEW: Final = 6.0
"""Error of the predictor of people with a rare value, in units of c, is to be at most one by this: with fewer of them
intervals cover less than some 92% (`benchmarks.rare_levels`)."""

SMALLEST_SHARE: Final = 0.035  # Shares below it can't be distinguished by as many rounds of moments as are held


class Rare(NamedTuple):
    """Columns with rare values, by their places in the design."""

    columns: tuple[int, ...] = ()  # Columns whose rarest value is rare
    # Columns that compare levels one of which is rare, as the reference level may be; the constant alone, if no column
    # does
    compared: tuple[int, ...] = ()
    share: float = math.nan  # Share of the records with the rarest of those levels
    crossed: tuple[int, ...] = ()  # Products of such columns with numbers
    about: tuple[int, ...] = ()  # The constant and main slopes, if they hold at such a value

    @property
    def any(self) -> bool:
        """True if there are any."""
        return bool(self.columns or self.compared)


def needed(plan: Plan, progress: Progress, people: int) -> float:
    """Least share of the records that a value must have."""
    curvature = 0.25 if plan.rules.from_predictor else plan.rules.curvature
    effective = plan.effective_mu(progress.state.longest) * progress.scatter.answering
    far = math.sqrt(1.0 + (plan.d - 1) / FARTHEST**2)
    share = FEW * 2.0 * far / (curvature * effective * math.sqrt(max(people, 1)))
    return min(max(share, SMALLEST_SHARE), 0.5)  # that of the rarer of two values at most


def found(plan: Plan, progress: Progress, people: int, to_user: Array) -> Rare:
    """Columns whose coefficients are about few records by the reports; none before scales are known.

    `people` have reported. `to_user`, shape (d, d), is the linear part of the map from internal to the user's
    coefficients, both in the order inside.
    """
    if progress.shares is None or progress.tied is None:
        return Rare()
    usual, tied = needed(plan, progress, people), progress.tied
    least = np.full(plan.d, usual)
    for group in plan.cells:
        least[group.columns] = max(usual, min(whitening.least_share(plan, group), 0.5))
    low = np.nan_to_num(progress.shares, nan=1.0) < least
    few, beside, share = low.copy(), set[int](), math.inf
    whole, rare = np.zeros((2, plan.d))  # variances of coefficients, of all cells and of those that too few have
    for group, p in zip(plan.cells, cells.shrunk(plan.cells, progress.scatter.shares), strict=True):
        seldom = p < least[group.columns[0]]
        share = min(share, float(p[seldom].min(initial=math.inf)))
        # coefficients of cells are sums of cells' means, whose variances are inverse to their shares
        each, at_zero = (m**2 / p for m in _means(group, len(p), to_user, constant=plan.layout.constant))
        whole += each.sum(axis=1)
        rare += each[:, seldom].sum(axis=1)
        if at_zero[seldom].sum() > OF_FEW * at_zero.sum():
            beside |= {k for c in plan.crossed if set(group.columns.tolist()) & set(c.levels) for k in c.numbers}
    coded = {int(j) for g in plan.cells for j in g.columns}
    mine = rare > OF_FEW * whole
    for j in coded:
        few[j] = low[j] if tied[j] else mine[j]
    about = {0} if plan.layout.constant and mine[0] else set[int]()
    if plan.layout.constant and few.any():
        mean = np.linalg.inv(progress.scatter.rows[: plan.d, : plan.d])[:, 0]  # inside, where two values are at ±1
        for j in np.flatnonzero(few & ~tied & (mean > 0.0)).tolist():
            if j not in coded:
                about.add(0)
                beside |= {k for c in plan.crossed if j in c.levels for k in c.numbers}
    crossed = tuple(c.column for c in plan.crossed if few[_levels(plan, c)].any())
    others = few.copy()
    others[list(crossed)] = False
    others[0] |= bool(about) and not others.any()
    return Rare(
        tuple(np.flatnonzero(others & (low | tied)).tolist()),
        tuple(np.flatnonzero(others & ~low & ~tied).tolist()),
        share,
        crossed,
        tuple(sorted(about | beside)),
    )


def _means(group: Cells, c: int, to_user: Array, *, constant: bool) -> tuple[Array, Array]:
    """Map from means of a group's cells to the user's coefficients, (d, c), and to the mean at columns 0, (c,)."""
    if len(group.columns) == c:
        return to_user[:, group.columns] @ np.linalg.inv(group.values), np.zeros(c)
    inverse, at = np.linalg.inv(np.column_stack([np.ones(c), group.values])), np.concatenate([[0], group.columns])
    if not constant:
        return to_user[:, group.columns] @ inverse[1:], inverse[0]
    return to_user[:, at] @ inverse, to_user[0, at] @ inverse


def _levels(plan: Plan, one: Crossed) -> list[int]:
    """Columns of the levels that a crossed column is about: its level's, if there is one for each, else all."""
    like = [c.column for c in plan.crossed if (c.levels, c.numbers) == (one.levels, one.numbers)]
    if len(like) == len(one.levels):
        return [one.levels[like.index(one.column)]]
    return list(one.levels)
