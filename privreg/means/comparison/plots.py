"""Plots of means and of the benchmark, in the house style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privreg.errors import OptionError
from privreg.results.plots.style import (
    COLUMN,
    DASHES,
    MARKERS,
    inks_for,
    panels,
    pyplot,
)

if TYPE_CHECKING:
    import pandas as pd


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
