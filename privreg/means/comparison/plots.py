"""Plots of means and of the benchmark, in the house style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privreg.errors import OptionError
from privreg.results.plots.style import (
    COLUMN,
    DASHES,
    MARKERS,
    add_footer,
    guarantee,
    inks_for,
    literal,
    panels,
    pyplot,
)

if TYPE_CHECKING:
    import pandas as pd

    from privreg.means.results.results import MeansResults

__all__ = ["estimates", "plot_benchmark"]


def estimates(results: MeansResults, *, alpha: float = 0.05, ax: Any = None) -> Any:
    """Draw estimates with their intervals, each on its public range scaled to [0, 1].

    Parameters
    ----------
    results : MeansResults
    alpha : float
        One minus the level of the intervals.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    f = results._fit
    low, length = f.centres - f.halves, 2.0 * f.halves
    table = results.tidy(alpha=alpha)
    middle, left, right = ((table[c] - low) / length for c in ("estimate", "conf_low", "conf_high"))
    if ax is None:
        with panels(1, 1, (COLUMN, 0.9 + 0.2 * len(f.names))) as (_, axes):
            ax = axes[0, 0]
    at, inks = np.arange(len(f.names)), inks_for(ax)
    ax.errorbar(middle, at, xerr=[middle - left, right - middle], fmt=MARKERS[0], color=inks[0], ms=3, lw=1)
    ax.set_yticks(at, [literal(n) for n in f.names])
    ax.set_ylim(len(f.names) - 0.5, -0.5)
    ax.set_xlabel("share of the public range")
    ax.axvline(0.0, color=inks.grey, lw=0.5)
    ax.axvline(1.0, color=inks.grey, lw=0.5)
    add_footer(ax, f"{100 * (1 - alpha):.6g}% intervals; {guarantee([f.statement])}", COLUMN)
    return ax


def plot_benchmark(table: pd.DataFrame, *, ax: Any = None) -> Any:
    """Draw the mean squared error of mechanisms against the number of people.

    Parameters
    ----------
    table : DataFrame
        Of `privreg.means.benchmark`, with several n.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    OptionError
        If it is another table.
    """
    lacking = {"mechanism", "n", "mse"} - set(getattr(table, "columns", ()))
    if lacking:
        raise OptionError("plot_benchmark draws the table that privreg.means.benchmark returns.")
    pyplot()
    if ax is None:
        with panels(1, 1, (COLUMN, 2.6)) as (_, axes):
            ax = axes[0, 0]
    for i, (name, rows) in enumerate(table.groupby("mechanism", sort=False)):
        ax.plot(
            *(rows["n"], rows["mse"], DASHES[i % len(DASHES)]),
            color=inks_for(ax)[i],
            marker=MARKERS[i % len(MARKERS)],
            ms=3,
            lw=1,
            label=str(name).replace("_", " "),
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("records")
    ax.set_ylabel("mean squared error")
    ax.legend(fontsize="small", frameon=False)
    return ax
