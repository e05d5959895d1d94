"""The figure of estimated means and frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from privreg.results.plots.style import COLUMN, MARKERS, add_footer, inks_for, literal, panels

if TYPE_CHECKING:
    import pandas as pd


def estimates(names: Sequence[str], shares: pd.DataFrame, told: str, ax: Any) -> Any:
    """Draw estimates with their intervals, each on its public range scaled to [0, 1].

    Parameters
    ----------
    names : sequence of str
    shares : DataFrame
        With columns estimate, conf_low and conf_high, so scaled.
    told : str
        Of level and privacy, below the figure.
    ax : Axes or None

    Returns
    -------
    Axes
    """
    middle, left, right = (shares[c] for c in ("estimate", "conf_low", "conf_high"))
    if ax is None:
        with panels(1, 1, (COLUMN, 0.9 + 0.2 * len(names))) as (_, axes):
            ax = axes[0, 0]
    at, inks = np.arange(len(names)), inks_for(ax)
    ax.errorbar(middle, at, xerr=[middle - left, right - middle], fmt=MARKERS[0], color=inks[0], ms=3, lw=1)
    ax.set_yticks(at, [literal(n) for n in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("share of the public range")
    ax.axvline(0.0, color=inks.grey, lw=0.5)
    ax.axvline(1.0, color=inks.grey, lw=0.5)
    add_footer(ax, told, COLUMN)
    return ax
