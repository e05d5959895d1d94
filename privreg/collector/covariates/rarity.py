"""Which coefficients are about records of a kind that too few have for intervals to be relied on. Reports only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector.covariates import factors as cells
from privreg.collector.covariates import leads
from privreg.collector.covariates.whitening import FARTHEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.collector.covariates.factors import Cells
    from privreg.collector.plan import Crossed, Plan, Progress

    Array = NDArray[np.float64]

__all__ = ["Rare", "found", "needed"]

FEW: Final = 6.0
"""Error of the predictor of people with a rare value, in units of c, is to be at most one by this: with fewer of them
intervals cover less than some 92% (benchmarks/rare_levels)."""

SMALLEST_SHARE: Final = 0.035
"""Shares below it can't be told apart by as many rounds of moments as are held."""

MOST_SHARE: Final = 0.35
"""A value that more people have isn't called rare, however few they are in all."""

MOST_OF_IT: Final = 0.5
"""Part of a coefficient's variance from which on it is about the levels that bring it."""


class Rare(NamedTuple):
    """Columns by their places inside."""

    columns: tuple[int, ...] = ()  # Whose own rarest value too few records have
    # Others that are about levels one of which too few have, as if that is the reference level; the constant alone, if
    # no column is
    compared: tuple[int, ...] = ()
    share: float = math.nan  # Of the records, the rarest of those levels
    crossed: tuple[int, ...] = ()  # Products of such columns with numbers
    about: tuple[int, ...] = ()  # The constant, and slopes by themselves, if they are about such a value

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.columns or self.compared)


def needed(plan: Plan, progress: Progress, people: int) -> float:
    """Least share of the records that is enough."""
    curvature = 0.25 if plan.rules.from_predictor else plan.rules.curvature
    effective = plan.effective_mu * progress.scatter.answering
    far = math.sqrt(1.0 + (plan.d - 1) / FARTHEST**2)
    share = FEW * 2.0 * far / (curvature * effective * math.sqrt(max(people, 1)))
    return min(max(share, SMALLEST_SHARE), MOST_SHARE)


def found(plan: Plan, progress: Progress, people: int, to_user: Array) -> Rare:
    """Coefficients that are about few records, as far as reports tell.

    Parameters
    ----------
    plan : Plan
    progress : Progress
        With scales known.
    people : int
        Records that have reported.
    to_user : ndarray, shape (d, d)
        Linear part of the map from internal to the user's coefficients, both in the order inside.
    """
    if progress.shares is None or progress.tied is None:
        return Rare()
    usual, tied = needed(plan, progress, people), progress.tied
    least = np.full(plan.d, usual)
    for group in plan.cells:
        least[group.columns] = max(usual, min(leads.least_share(plan, group), MOST_SHARE))
    low = np.nan_to_num(progress.shares, nan=1.0) < least
    few, about, share, alone = low.copy(), set[int](), math.inf, False
    for group, p in zip(plan.cells, cells.shrunk(plan.cells, progress.scatter.shares), strict=True):
        rows = _variances(group, p, to_user, constant=plan.layout.constant)
        mine = rows[:, p < least[group.columns[0]]].sum(axis=1) > MOST_OF_IT * rows.sum(axis=1)
        own = len(mine) - len(group.columns)  # where columns' begin
        few[group.columns] = np.where(tied[group.columns], low[group.columns], mine[own:])
        if mine.any():
            share = min(share, float(p.min()))
        if mine[:own].any():
            about |= _beside(plan, group.columns.tolist())
            alone |= not mine[own:].any()
    told = {int(j) for g in plan.cells for j in g.columns}
    if plan.layout.constant and few.any():
        mean = np.linalg.inv(progress.scatter.rows[: plan.d, : plan.d])[:, 0]  # inside, where two values are at ±1
        for j in np.flatnonzero(few & ~tied & (mean > 0.0)).tolist():
            about |= _beside(plan, [j]) if j not in told else set()
    crossed = tuple(c.column for c in plan.crossed if few[_levels(plan, c)].any())
    others = few.copy()
    others[0] |= alone and plan.layout.constant
    others[list(crossed)] = False
    return Rare(
        tuple(np.flatnonzero(others & (low | tied)).tolist()),
        tuple(np.flatnonzero(others & ~low & ~tied).tolist()),
        share,
        crossed,
        tuple(sorted(about)),
    )


def _variances(group: Cells, p: Array, to_user: Array, *, constant: bool) -> Array:
    """What each cell brings to the variance of each coefficient: of the constant, if cells need one, and the columns.

    Cells' coefficients are sums of cells' means, whose variances are inverse to their shares.
    """
    whole = len(group.columns) == len(p)
    coded = group.values if whole else np.column_stack([np.ones(len(p)), group.values])
    linear = np.eye(len(p))
    at = group.columns if whole or not constant else np.concatenate([[0], group.columns])
    linear[len(p) - len(at) :, len(p) - len(at) :] = to_user[np.ix_(at, at)]
    return np.asarray((linear @ np.linalg.inv(coded)) ** 2 / p)


def _beside(plan: Plan, levels: list[int]) -> set[int]:
    """What holds where these columns are 0: the constant, or the levels that stand for it, and slopes by themselves."""
    slopes = {k for c in plan.crossed if set(levels) & set(c.levels) for k in c.numbers}
    if plan.layout.constant:
        return {0, *slopes}
    return slopes | {int(j) for g in plan.cells if len(g.columns) == len(g.values) for j in g.columns}


def _levels(plan: Plan, one: Crossed) -> list[int]:
    """Of the factor that a column crosses, the level's own column, if there is one for each."""
    like = [c.column for c in plan.crossed if (c.levels, c.numbers) == (one.levels, one.numbers)]
    if len(like) == len(one.levels):
        return [one.levels[like.index(one.column)]]
    return list(one.levels)
