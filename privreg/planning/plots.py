"""Plots of plans, in the house style. Matplotlib is imported on use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import InferenceError, OptionError
from privreg.planning.plan import Planned, power_of
from privreg.results.plots.style import COLUMN, DASHES, SMALL, Axes, drawing, inks_for, literal
from privreg.tables import shorten

POINTS: Final = (41, 41)
AROUND: Final = (0.1, 10.0)  # Reach of the axes about the plan's own numbers
EDGE: Final = 0.1  # No label is nearer to the edge of the axes
TITLE: Final = 46  # Characters of a line of the title, at most


def contours(plan: Planned, coef: str, *, ax: Any = None) -> Axes:
    """Mean width of a coefficient's interval over budget and people; the plan itself and its goal are marked.

    Below the dashed line people are so few that a fit would say not to rely on its intervals.
    """
    pure = math.isfinite(plan.budget.epsilon)
    at = plan.budget.epsilon if pure else plan.mu
    middle = at if math.isfinite(at) else 1.0
    budgets = np.geomspace(AROUND[0] * middle, AROUND[1] * middle, POINTS[0]).tolist()
    n = np.unique(np.geomspace(AROUND[0] * plan.n, AROUND[1] * plan.n, POINTS[1]).astype(int)).tolist()
    table, reliable = plan._nearby(n, budgets, coef, pure=pure)
    width = np.ma.masked_invalid(table.to_numpy())  # no lines where people are too few for standard errors
    if not width.count():
        raise InferenceError(f"no number of records about {plan.n:,} is enough for an interval; plan for a larger n=.")
    with drawing(ax, (COLUMN, 0.8 * COLUMN), "") as on:
        _draw(on, plan, coef, (table.columns.to_numpy(float), table.index.to_numpy(float)), width, reliable, at)
        on.set_xlabel(f"budget {'ε' if pure else 'μ'} per person")
    return on  # type: ignore[no-any-return]


def powers(plan: Planned, coefs: Sequence[str], *, ax: Any = None) -> Axes:
    """Power of each coefficient's test over people at the plan's budget; where it is grey a fit would say not to rely.
    Raises OptionError if a coefficient has no effect that is asked for.
    """
    missing = [c for c in coefs if c not in plan.goal.effects]
    if missing or not coefs:
        whose = f" of {missing[0]}" if missing else ""
        raise OptionError(f"power is that of finding an effect, and this plan has none{whose}: give it an effect.")
    at = [list(plan.spec.coefficients).index(c) for c in coefs]
    n = np.unique(np.geomspace(AROUND[0] * plan.n, AROUND[1] * plan.n, POINTS[1]).astype(int))
    crit = plan._z
    footer = f"{plan.budget} per person; tests at level {plan.alpha:g}"
    footer += "\ngrey: so few records that a fit would say not to rely on its intervals" if plan.reliable > n[0] else ""
    with drawing(ax, (COLUMN, 0.8 * COLUMN), footer) as on:
        inks = inks_for(on)
        for i, (c, j) in enumerate(zip(coefs, at, strict=True)):
            error = np.array([plan._precision.std_errors(float(k))[j] for k in n])
            label = literal(f"{shorten([c], 24)[0]} = {plan.goal.effects[c]:g}")
            on.plot(n, power_of(abs(plan.goal.effects[c]) / error, crit), DASHES[i % 4], color=inks[i], label=label)
        if plan.reliable > n[0]:
            on.axvspan(n[0], min(plan.reliable, n[-1]), color=inks.grey, alpha=0.15, linewidth=0, zorder=0)
        on.axhline(plan.goal.power, color=inks.grey, linewidth=0.7, linestyle=":")
        on.axvline(plan.n, color=inks.grey, linewidth=0.7, linestyle=":")
        on.set(xscale="log", xlim=(n[0], n[-1]), ylim=(0.0, 1.02), xlabel="records", ylabel="power")
        on.legend(frameon=False, fontsize=SMALL)
    return on  # type: ignore[no-any-return]


def _draw(ax: Any, plan: Planned, coef: str, grid: tuple[Array, Array], width: Any, reliable: Array, at: float) -> None:
    kept = width[grid[1][:, None] >= reliable].compressed()
    low, high = math.log10(width.min()), math.log10(width.max())
    wanted = {w: words for w, words in plan._targets().get(coef, {}).items() if width.min() < w < width.max()}
    marks = [m * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for m in (1.0, 2.0, 5.0)]
    # beyond what can be relied on widths grow so fast that only powers of ten have room
    top = kept.max() if kept.size else width.max()
    marks = [m for m in marks if width.min() < m < width.max() and (m < top or math.log10(m).is_integer())]
    marks = [m for m in marks if m not in wanted]
    inks = inks_for(ax)
    lines = ax.contour(*grid, width, levels=marks, colors=inks[0], linewidths=0.8)
    ax.set(xscale="log", yscale="log", ylabel="records")
    drawn = [(lines, {m: f"{m:,.0f}" if m >= 1.0 else f"{m:g}" for m in marks})]
    if wanted:
        drawn.insert(0, (ax.contour(*grid, width, levels=sorted(wanted), colors=inks[1], linewidths=1.6), wanted))
    box = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5}
    ends = np.log([[axis[0], axis[-1]] for axis in grid]).T
    for label in [text for one, words in drawn for text in ax.clabel(one, fmt=words, fontsize=SMALL, inline=False)]:
        label.set_bbox(box)
        place = (np.log(label.get_position()) - ends[0]) / (ends[1] - ends[0])
        if np.abs(place - 0.5).max() > 0.5 - EDGE:
            label.remove()
    few, most = float(grid[1].min()), float(grid[1].max())
    ax.fill_between(grid[0], few, np.clip(reliable, few, most), color=inks.grey, alpha=0.15, linewidth=0, zorder=0)
    ax.set_ylim(few, most)
    inside = (reliable > few) & (reliable < most)
    if inside.any():
        ax.plot(grid[0][inside], reliable[inside], color=inks.grey, linestyle="--", linewidth=1.0, zorder=2)
        ax.text(0.02, 0.02, "don't rely", transform=ax.transAxes, fontsize=SMALL, color=inks.grey, zorder=4)
    if math.isfinite(at):
        ax.plot(at, plan.n, "o", color=inks[1], markersize=5, zorder=4)
        own, beside = (at, plan.n), {"xytext": (6, 3), "textcoords": "offset points"}
        ax.annotate(f"{plan.n:,}", own, **beside, fontsize=SMALL, bbox=box, zorder=3)
    level = f"{100.0 * (1.0 - plan.alpha):g}%"
    head, name = f"mean width of {level} intervals,", shorten([coef], TITLE)[0]
    gap = " " if len(head) + len(name) < TITLE else "\n"
    ax.set_title(literal(f"{head}{gap}{name}"), loc="left")
