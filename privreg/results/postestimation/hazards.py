"""Hazards and survival curves of covariates, of a fit of ``Surv()``: predictions with their uncertainty."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.collector.inference.simultaneous import joint_critical
from privreg.collector.levels import BIAS
from privreg.errors import DataError, interval_level
from privreg.families.hazards import AT_RISK, INTERVAL
from privreg.results.data import Frame, ResultData
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.results.postestimation.hypothesis import Known
from privreg.tables import Part, Table, View, marked, noted
from privreg.tables.diagnostics import along


def of_intervals(fit: ResultData, new: Any) -> pd.DataFrame:
    """New rows with one for each interval, of which nobody's time at risk is read."""
    new = new.to_pandas() if hasattr(new, "to_pandas") else new
    if not isinstance(new, pd.DataFrame | Mapping):
        raise DataError(f"new rows come as a DataFrame or a mapping of arrays, got {type(new).__name__}.")
    frame, labels = pd.DataFrame(new), np.array(fit.design.schema.levels[INTERVAL], dtype=object)
    made: dict[str, Any] = {INTERVAL: np.tile(labels, len(frame)), AT_RISK: 1.0}
    return frame.iloc[np.repeat(np.arange(len(frame)), len(labels))].assign(**made)


def baseline(fit: ResultData) -> Array:
    """Rows of the design, one an interval, of people whose other columns are 0; shape (J, p)."""
    out = np.zeros((len(fit.cuts), len(fit.design.names)))
    out[:, fit.design.names.index("Intercept")] = 1.0
    for term in (t for t in fit.design.terms if t.reads == (INTERVAL,)):
        out[np.arange(1, len(out)), list(term.columns)] = 1.0
    return out


@dataclass(frozen=True, repr=False)
class HazardPrediction(View):
    """Hazards by interval and survival curves at values of covariates. Made by ``res.hazards(new)``.

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
        eta, rows = self.exog @ fit.params, self.exog.reshape(-1, p)
        each = np.exp(eta) * np.diff(fit.cuts, prepend=0.0)
        upto = np.cumsum(each, axis=1)
        gradient = np.cumsum(each[:, :, None] * self.exog, axis=1) / upto[:, :, None]
        se, wide = (self.known.errors(x.reshape(-1, p)).reshape(n, j) for x in (rows, gradient))
        half, covs = pivot.critical(level), np.einsum("njp,pq,nkq->njk", gradient, self.known.cov, gradient)
        joint = np.array([joint_critical(pivot, cov, level) for cov in covs])[:, None]
        out: dict[str, Any] = {} if n == 1 else {"row": self.index.repeat(j)}
        out |= {"start": np.tile([0.0, *fit.cuts[:-1]], n), "stop": np.tile(fit.cuts, n)}
        out |= {"hazard": np.exp(eta), "std_error": np.exp(eta) * se}
        out |= {"conf_low": np.exp(eta - half * se), "conf_high": np.exp(eta + half * se)}
        out |= {"survival": np.exp(-np.exp(np.log(upto)))}
        for name, by in (("survival", half * wide), ("band", joint * wide)):
            out |= {
                f"{name}_{end}": np.exp(-np.exp(np.log(upto) + s * by)) for end, s in (("low", 1.0), ("high", -1.0))
            }
        fine, known = (
            along([n for n in self.known.notes if whole or not n.ways], rows).reshape(n, j) for whole in (True, False)
        )
        small = np.cumsum(np.where(fine, 0.0, each), axis=1) <= BIAS * wide * upto
        fine &= np.logical_and.accumulate(known, axis=1) & small
        return Frame({k: np.ravel(v) for k, v in out.items()} | {"reliable": fine.ravel()})

    def plot(self, *, alpha: float = 0.05, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw survival curves with their bands, of level 1 − `alpha`, on `ax` or a figure of their own."""
        cuts, table = self.known.fit.cuts, self.frame(alpha=alpha)
        times, curves = np.linspace(0.0, cuts[-1], 201), table[["survival", "band_low", "band_high"]].to_numpy()
        logs = np.log(np.maximum(curves, 1e-300)).reshape(len(self.index), len(cuts), 3)
        lines = [  # between cut points cumulative hazards, and so logarithms of the curves, are straight
            [np.exp(np.interp(times, [0.0, *cuts], [0.0, *line])) for line in some.T] for some in logs
        ]
        said = 1.0 - alpha, style.guarantee([self.known.fit.statement]), self.known.notes
        return style.curves(times, list(map(str, self.index)), lines, said, ("time", "row"), title, ax)

    def _layout(self) -> list[Part]:
        table, j = self.frame(), len(self.known.fit.cuts)
        shown = ["hazard", "conf_low", "conf_high", "survival", "survival_low", "survival_high"]
        rows = [[f"{v:.4g}" for v in line] for line in table[shown].to_numpy()]
        names = marked(
            [f"{a:g} to {b:g}" for a, b in zip(table["start"], table["stop"], strict=True)], table["reliable"]
        )
        blocks = {k * j: f"row {name}" for k, name in enumerate(self.index)} if len(self.index) > 1 else {}
        head = ("hazard", "2.5%", "97.5%", "survival", "2.5%", "97.5%")
        return [Table(names, head, rows, "Hazards, and survival until their end", blocks), *noted(self.known.notes)]
