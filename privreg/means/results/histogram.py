"""Histogram of a bounded number, and its quantiles, from shares of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pandas as pd

from privreg.arrays import Array
from privreg.diagnostics import Diagnostic
from privreg.errors import OptionError, interval_level, real, shown
from privreg.inference.pivots import Normal
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame
from privreg.results.plots import style
from privreg.tables import Paragraph, Part, Table, View, cells, noted, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Histogram(View):
    """Shares of a number's classes. Made by :meth:`MeansResults.histogram`."""

    column: str
    edges: tuple[float, ...]  # Shape (k + 1,)
    shares: Array  # Unbiased, shape (k,): noise may take one below 0
    cov: Array  # Shape (k, k), of sampling and of noise
    people: int
    guarantee: str
    notes: tuple[Diagnostic, ...] = ()

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """One class a row: low, high (its ends), share, std_error, conf_low, conf_high, density (share over length).

        Parameters
        ----------
        alpha : float
            One minus the level of the normal limits, each by itself.
        """
        error, low, high = np.sqrt(np.maximum(np.diag(self.cov), 0.0)), self.edges[:-1], self.edges[1:]
        half = Normal().critical(interval_level(alpha)) * error
        columns = {"low": low, "high": high, "share": self.shares, "std_error": error}
        limits = {"conf_low": self.shares - half, "conf_high": self.shares + half}
        return Frame(columns | limits | {"density": self.shares / np.diff(self.edges)})

    def quantile(self, q: float | Sequence[float] = 0.5, *, alpha: float = 0.05) -> pd.DataFrame:
        """Quantiles, by a smooth curve through the cumulated shares of classes.

        Parameters
        ----------
        q : float or sequence of float
            In (0, 1).
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        DataFrame
            Index q; estimate, conf_low, conf_high.

        Raises
        ------
        OptionError
            If a `q` is not in (0, 1).

        Notes
        -----
        The estimate is where a monotone cubic curve (Fritsch and Butland's) through the cumulative shares, made to rise
        by least squares, reaches q; limits are where the curves of their normal band do (Woodruff 1952, JASA 47,
        635-646). Nothing tells how numbers are spread within a class, so that classes should be narrow where the
        density bends.
        """
        from scipy.optimize import isotonic_regression  # slow to import

        given = [real(v) for v in (q if isinstance(q, Sequence | np.ndarray) else [q])]
        asked = [v for v in given if v is not None and 0.0 < v < 1.0]
        if not asked or len(asked) < len(given):
            raise OptionError(f"q={shown(q)} must be one or more numbers in (0, 1), such as 0.5 or [0.25, 0.75].")
        up = np.tril(np.ones((len(self.shares), len(self.shares))))
        below = up @ self.shares
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", up, self.cov, up), 0.0))
        half = Normal().critical(interval_level(alpha)) * error
        curves = (
            isotonic_regression(np.clip(below[:-1], 0.0, 1.0)).x,
            np.maximum.accumulate((below + half)[:-1]),
            np.minimum.accumulate((below - half)[:-1][::-1])[::-1],
        )
        ways: tuple[Literal["left", "right"], ...] = ("left", "left", "right")
        found = [self._reached(curve, asked, way) for curve, way in zip(curves, ways, strict=True)]
        columns = ["estimate", "conf_low", "conf_high"]
        return Frame(np.transpose(found), columns=columns, index=pd.Index(asked, name="q"))

    def _reached(self, rising: Array, q: Sequence[float], side: Literal["left", "right"]) -> Array:
        """Where a rising curve over the inner edges first reaches each q, or is last at most q."""
        from scipy.interpolate import PchipInterpolator  # slow to import

        values = np.concatenate([[0.0], np.clip(rising, 0.0, 1.0), [1.0]])
        at = np.linspace(self.edges[:-1], self.edges[1:], 65, axis=1)[:, :-1].ravel()
        at = np.append(at, self.edges[-1])
        curve = np.maximum.accumulate(PchipInterpolator(self.edges, values)(at))
        j = np.clip(np.searchsorted(curve, q, side=side), 1, len(at) - 1)
        rise = curve[j] - curve[j - 1]
        part = np.where(rise > 0.0, (np.asarray(q) - curve[j - 1]) / np.where(rise > 0.0, rise, 1.0), 0.5)
        return np.asarray(at[j - 1] + np.clip(part, 0.0, 1.0) * (at[j] - at[j - 1]))

    def plot(self, *, alpha: float = 0.05, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the density with intervals of each class.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.
        title : str, optional
        ax : Axes, optional
            Where to draw; without it a figure is made.
        """
        frame, lengths = self.frame(alpha), np.diff(self.edges)
        footer = f"{100 * (1 - alpha):.6g}% intervals; {self.guarantee}"
        footer += f"\n{self.notes[0]}" if self.notes else ""
        with style.drawing(ax, (1.2 * style.COLUMN, 0.8 * style.COLUMN), footer, title) as on:
            inks = style.inks_for(on)
            on.bar(frame["low"], frame["density"], lengths, align="edge", color=inks[0], alpha=0.45, edgecolor=inks[0])
            middles = frame["low"] + lengths / 2.0
            on.vlines(middles, frame["conf_low"] / lengths, frame["conf_high"] / lengths, color=inks[0], linewidth=1.2)
            on.axhline(0.0, color=inks.grey, linewidth=0.7)
            on.set_xlim(self.edges[0], self.edges[-1])
            on.set_xlabel(style.literal(plain(self.column)))
            on.set_ylabel("density")
        return cast("Axes", on)

    def _layout(self) -> list[Part]:
        frame = self.frame()
        shown = frame.rename(columns={"share": "estimate"})[["estimate", "std_error", "conf_low", "conf_high"]]
        head, rows = cells(shown, 0.05, "share")
        names = [f"{a:.6g} to {b:.6g}" for a, b in zip(frame["low"], frame["high"], strict=True)]
        middle = self.quantile(0.5).iloc[0]
        far = math.log10(max(self.edges[-1] - self.edges[0], 1e-300))
        digits = max(3 - math.floor(far), 0)
        said = (
            f"Median {middle['estimate']:.{digits}f}, 95% interval {middle['conf_low']:.{digits}f} to "
            f"{middle['conf_high']:.{digits}f}; quantile() has others."
        )
        below = f"{said}\n{self.people:,} records; {self.guarantee}."
        return [Table(names, head, rows, f"Histogram of {plain(self.column)}"), Paragraph(below), *noted(self.notes)]
