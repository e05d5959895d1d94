"""Hazards and survival curves of covariates, of a fit of ``Surv()``: predictions with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.collector.inference.simultaneous import joint_critical
from privreg.collector.levels import BIAS
from privreg.errors import DataError, OptionError, interval_level
from privreg.families.hazards import AT_RISK, INTERVAL
from privreg.results.data import Frame, ResultData
from privreg.results.plots import style
from privreg.results.postestimation.hypothesis import Known
from privreg.tables import Part, Table, View, noted
from privreg.tables.diagnostics import along

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES: Final = 8  # Curves of one figure


def of_intervals(fit: ResultData, new: Any) -> pd.DataFrame:
    """New rows with one for each interval, of which nobody's time at risk is read."""
    new = new.to_pandas() if hasattr(new, "to_pandas") else new
    if not isinstance(new, pd.DataFrame | Mapping):
        raise DataError(f"new rows come as a DataFrame or a mapping of arrays, got {type(new).__name__}.")
    frame, labels = pd.DataFrame(new), np.array(fit.design.schema.levels[INTERVAL], dtype=object)
    out = frame.iloc[np.repeat(np.arange(len(frame)), len(labels))]
    made: dict[str, Any] = {INTERVAL: np.tile(labels, len(frame)), AT_RISK: 1.0}
    return out.assign(**made)


def baseline(fit: ResultData) -> Array:
    """Rows of the design, one an interval, of people whose other columns are 0; shape (J, p)."""
    out = np.zeros((len(fit.cuts), len(fit.design.names)))
    out[:, fit.design.names.index("Intercept")] = 1.0
    of = next((term.columns for term in fit.design.terms if term.reads == (INTERVAL,)), ())
    out[np.arange(1, len(out)), list(of)] = 1.0
    return out


def survival(fit: ResultData, eta: Array) -> Array:
    """Survival until the end of each interval, of log hazards of shape (n, J)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-np.cumsum(np.exp(eta) * np.diff(fit.cuts, prepend=0.0), axis=1)))


@dataclass(frozen=True, repr=False)
class HazardPrediction(View):
    """Hazards by interval and survival curves at values of covariates. Made by ``res.hazards(new)``.

    Notes
    -----
    Limits of hazards are those of their logarithms, and of survival those of the logarithm of the cumulative hazard
    H = Σ w_j λ_j, whose gradient is Σ w_j λ_j x_j/H (delta method); bands hold for whole curves.
    """

    known: Known
    exog: Array  # Rows of the design, shape (n, J, p)
    index: pd.Index  # Names of the n rows

    def frame(self, *, alpha: float = 0.05) -> pd.DataFrame:
        """Hazards and survival, one interval of one row of covariates a line.

        row (if there are several), start, stop, hazard, std_error, conf_low, conf_high, survival (until `stop`),
        survival_low, survival_high (each by itself), band_low, band_high (of the whole curve together), reliable.
        `alpha` is one minus the level of intervals and bands. An interval of which nothing is known takes back later
        lines, too, as survival goes through it, unless its hazard moves the curve by little; where it has no events.
        """
        level, fit, pivot = interval_level(alpha), self.known.fit, self.known.pivot
        n, j, p = self.exog.shape
        eta = self.exog @ fit.params
        each = np.exp(eta) * np.diff(fit.cuts, prepend=0.0)
        upto = np.cumsum(each, axis=1)
        logs, gradient = np.log(upto), np.cumsum(each[:, :, None] * self.exog, axis=1) / upto[:, :, None]
        se = self.known.errors(self.exog.reshape(-1, p)).reshape(n, j)
        half, wide = pivot.critical(level) * se, self.known.errors(gradient.reshape(-1, p)).reshape(n, j)
        covs = np.einsum("njp,pq,nkq->njk", gradient, self.known.cov, gradient)
        joint = np.array([joint_critical(pivot, cov, level) for cov in covs])[:, None] * wide
        out: dict[str, Any] = {} if n == 1 else {"row": self.index.repeat(j)}
        out |= {"start": np.tile([0.0, *fit.cuts[:-1]], n), "stop": np.tile(fit.cuts, n)}
        hazard = {"hazard": np.exp(eta), "std_error": np.exp(eta) * se}
        hazard |= {"conf_low": np.exp(eta - half), "conf_high": np.exp(eta + half)}
        curve = {"survival": np.exp(-np.exp(logs))}
        for name, by in (("survival", pivot.critical(level) * wide), ("band", joint)):
            curve |= {f"{name}_low": np.exp(-np.exp(logs + by)), f"{name}_high": np.exp(-np.exp(logs - by))}
        fine, known = (
            along([n for n in self.known.notes if whole or not n.ways], self.exog.reshape(-1, p)).reshape(n, j)
            for whole in (True, False)
        )
        small = np.cumsum(np.where(fine, 0.0, each), axis=1) <= BIAS * wide * upto
        fine &= np.logical_and.accumulate(known, axis=1) & small
        flat = {k: v.ravel() for k, v in (hazard | curve).items()}
        return Frame(out | flat | {"reliable": fine.ravel()})

    def plot(self, *, alpha: float = 0.05, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw survival curves with their bands, of level 1 − `alpha`, on `ax` or a figure of their own.

        Raises
        ------
        OptionError
            If there are more than eight rows.
        """
        if len(self.exog) > MOST_LINES:
            raise OptionError(f"a figure has up to {MOST_LINES} curves; give fewer rows.")
        cuts, table = self.known.fit.cuts, self.frame(alpha=alpha)
        times, curves = np.linspace(0.0, cuts[-1], 201), table[["survival", "band_low", "band_high"]].to_numpy()
        logs = np.log(np.maximum(curves, 1e-300)).reshape(len(self.index), len(cuts), 3)
        lines = [  # between cut points cumulative hazards, and so logarithms of the curves, are straight
            [np.exp(np.interp(times, [0.0, *cuts], [0.0, *line])) for line in some.T] for some in logs
        ]
        said = 1.0 - alpha, style.guarantee([self.known.fit.statement]), self.known.notes
        return style.curves(times, list(map(str, self.index)), lines, said, ("time", "row"), title, ax)

    def _layout(self) -> list[Part]:
        table = self.frame()
        shown = ["hazard", "conf_low", "conf_high", "survival", "survival_low", "survival_high"]
        rows = [[f"{v:.4g}" for v in line] for line in table[shown].to_numpy()]
        ends = zip(table["start"], table["stop"], table["reliable"], strict=True)
        names = [f"{a:g} to {b:g}" + " †" * (not ok) for a, b, ok in ends]
        j = len(self.known.fit.cuts)
        blocks = {k * j: f"row {name}" for k, name in enumerate(self.index)} if len(self.index) > 1 else {}
        head = ("hazard", "2.5%", "97.5%", "survival", "2.5%", "97.5%")
        return [Table(names, head, rows, "Hazards, and survival until their end", blocks), *noted(self.known.notes)]
