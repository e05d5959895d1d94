"""The figure of a federated fit, in the house style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import OptionError, choose, shown
from privreg.plots import COLOURS, COLUMN, DASHES, GREY, _corner, _footer, _literal, _panels, _pyplot
from privreg.tables import plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privreg.federated.results import FederatedResults

__all__ = ["over_rounds"]

MOST: Final = 12
"""Curves drawn unless terms are named: more can't be told apart."""


def over_rounds(results: FederatedResults, terms: Any, ax: Any) -> Axes:
    """Draw coefficients against rounds; see `FederatedResults.plot`."""
    _pyplot()
    known = list(results._fit.names)
    wanted = known[:MOST] if terms is None else [terms] if isinstance(terms, str) else terms
    if not isinstance(wanted, Sequence) or not wanted:
        raise OptionError(f"terms={shown(terms)} must be the name of a coefficient or several: {', '.join(known)}.")
    places = [known.index(choose("terms", t, known)) for t in wanted]
    values = results._outside[:, places]
    footer = results.privacy.short + ("" if len(places) == len(known) else f"; {len(places)} of {len(known)} terms")
    if ax is not None:
        _curves(ax, values, [known[j] for j in places])
        _corner(ax, footer)
        given: Axes = ax
        return given
    with _panels(1, 1, (COLUMN, 2.6)) as (_, grid):
        made: Axes = grid[0, 0]
        _curves(made, values, [known[j] for j in places])
        _footer(made, footer, COLUMN)
    return made


def _curves(ax: Any, values: Any, names: list[str]) -> None:
    for i, (name, column) in enumerate(zip(shorten(map(plain, names), 24), values.T, strict=True)):
        style = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // len(COLOURS) % len(DASHES)]}
        ax.plot(np.arange(len(column)), column, linewidth=1.2, label=_literal(name), **style)
    ax.axhline(0, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("rounds")
    ax.set_ylabel("coefficient")
    if len(names) > 1:
        ax.legend(frameon=False)
