"""Plots of plans, in the house style. Matplotlib is imported on use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.plots import COLOURS, COLUMN, GREY, SMALL, _literal, _panels
from privreg.tables import shorten

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from privreg.plan_results import Plan

__all__ = ["contours"]

POINTS: Final = (17, 17)
AROUND: Final = (0.1, 10.0)
"""How far the axes reach about the plan's own numbers."""


def contours(plan: Plan, coef: str, *, ax: Any = None) -> Axes:
    """Mean width of a coefficient's interval over budget and people; the plan itself is marked.

    Parameters
    ----------
    plan : Plan
    coef : str
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    pure = math.isfinite(plan.budget.epsilon)
    at = plan.budget.epsilon if pure else plan.mu
    middle = at if math.isfinite(at) else 1.0
    budgets = np.geomspace(AROUND[0] * middle, AROUND[1] * middle, POINTS[0]).tolist()
    n = np.unique(np.geomspace(AROUND[0] * plan.n, AROUND[1] * plan.n, POINTS[1]).astype(int)).tolist()
    table = plan.table(n=n, coef=coef, **{"epsilon" if pure else "mu": budgets})
    if ax is not None:
        return _draw(ax, plan, coef, table, at)
    with _panels(1, 1, (COLUMN, 0.8 * COLUMN)) as (_, axes):
        return _draw(axes[0, 0], plan, coef, table, at)


def _draw(ax: Any, plan: Plan, coef: str, table: pd.DataFrame, at: float) -> Axes:
    width = table.to_numpy()
    low, high = math.log10(width.min()), math.log10(width.max())
    marks = [m * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for m in (1.0, 2.0, 5.0)]
    goal = plan.goal.widths.get(coef, 0.0)
    marks = [m for m in marks if width.min() < m < width.max() and m != goal]
    grid = table.columns.to_numpy(float), table.index.to_numpy(float)
    lines = ax.contour(*grid, width, levels=marks, colors=COLOURS[0], linewidths=0.8)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=f"budget {'ε' if table.columns.name == 'epsilon' else 'μ'} per person",
        ylabel="people",
    )
    ax.clabel(lines, fmt=lambda v: f"{v:g}", fontsize=SMALL, inline_spacing=2)
    if width.min() < goal < width.max():
        ax.contour(*grid, width, levels=[goal], colors=COLOURS[1], linewidths=1.6)
    if math.isfinite(at):
        ax.plot(at, plan.n, "o", color=COLOURS[1], markersize=5)
        ax.annotate(f"{plan.n:,}", (at, plan.n), xytext=(5, 4), textcoords="offset points", fontsize=SMALL, color=GREY)
    level = f"{100.0 * (1.0 - plan.alpha):g}%"
    ax.set_title(_literal(f"mean width of {level} intervals, {shorten([coef], 28)[0]}"), loc="left")
    return ax  # type: ignore[no-any-return]
