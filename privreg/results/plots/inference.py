"""How long the intervals of each inference method are, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from privreg.results.plots.style import COLUMN, drawing, guarantee, inks_for, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privreg.results.estimates import EstimatedResults


def plot_inference(self: EstimatedResults, *, alpha: float = 0.05, ax: Any = None) -> Axes:
    """Draw how long the intervals of every method are, relative to those of the first, a dot for each coefficient.

    It draws on `ax`, or on a figure that is made and saved by ``axes.figure.savefig(path)``.
    """
    self._estimate(None)  # says why there are no intervals
    table = self.inference_table(alpha)
    names = list(dict.fromkeys(table["method"]))
    length = table["length"].to_numpy().reshape(len(names), -1)
    noted = table["note"].to_numpy().reshape(len(names), -1)[:, 0] != ""
    footer = f"{100 * (1 - alpha):.6g}% intervals; {guarantee([self.privacy])}"
    if noted.any():
        footer += "\nhollow: don't rely on them, see the notes of the summary"
    with drawing(ax, (COLUMN, 0.9 + 0.26 * len(names)), footer) as on:
        inks = inks_for(on)
        on.axvline(1.0, color=inks.grey, linewidth=0.6, linestyle=":")
        for i, (row, hollow) in enumerate(zip(length / length[0], noted, strict=True)):
            face = "none" if hollow else inks[0]
            on.scatter(row, np.full(len(row), i), s=14, facecolors=face, edgecolors=inks[0], linewidths=0.8, zorder=3)
            on.plot([np.median(row)] * 2, [i - 0.3, i + 0.3], color=inks[1], linewidth=1.2)
        on.set_yticks(range(len(names)), [literal(n) for n in names])
        on.set_ylim(len(names) - 0.5, -0.5)
        on.set_xlim(left=0.0)
        on.set_xlabel(f"length, relative to {literal(names[0])}")
    return cast("Axes", on)
