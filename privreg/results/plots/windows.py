"""Estimates of windows of a stream against the number of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privreg.results.plots import style

if TYPE_CHECKING:
    import pandas as pd

    from privreg.results.data import ResultData


def draw(fit: ResultData, table: pd.DataFrame, alpha: float, places: list[int], ax: Any, title: str | None) -> Any:
    """One panel a coefficient: a line over each window, its interval about it, the whole fit's estimate dotted."""
    p = len(fit.names)
    named = {fit.names[j]: j for j in places}
    footer = f"{100 * (1 - alpha):.6g}% intervals, each by itself; {style.guarantee([fit.statement])}"

    def one(name: str, panel: Any) -> str:
        one, inks = table.iloc[named[name] :: p], style.inks_for(panel)
        for low, high, begin, end in one[["conf_low", "conf_high", "begin", "end"]].to_numpy():
            panel.fill_between([begin, end], low, high, color=inks[0], alpha=0.2, linewidth=0)
        panel.hlines(one["estimate"], one["begin"], one["end"], color=inks[0], linewidth=1.2)
        panel.axhline(fit.params[named[name]], color=inks.grey, linewidth=0.7, linestyle=":")
        panel.set_ylabel(style.literal(name))
        panel.set_xlabel("records")
        return footer if name == fit.names[places[-1]] else ""

    return style.each_drawn(one, list(named), title, ax, (style.COLUMN, 1.9))
