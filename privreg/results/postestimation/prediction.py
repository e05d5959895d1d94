"""Predictions with their uncertainty: of a mean, and of the probabilities of several classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Pivot
from privreg.collector.inference.resampling import Bootstrap
from privreg.errors import OptionError, choose, interval_level, warn
from privreg.families.family import Family
from privreg.families.logistic import class_shares
from privreg.options.unknown import all_known_arguments
from privreg.results.data import ResultData
from privreg.results.postestimation.hazards import survival
from privreg.results.postestimation.hypothesis import Estimated, Known, means_frame
from privreg.tables import Part, estimates_table, noted
from privreg.tables.diagnostics import Diagnostic, along

# --- which -----------------------------------------------------------------------------------------------


def check_which(which: str, family: Family) -> str:
    """Return `which` if `family` has such predictions."""
    if family.scoring.classed or (family.response == "binary" and family.link in {"logit", "margin"}):
        return choose("which", which, ("mean", "linear", "class"))
    if isinstance(which, str) and which == "class":  # an NA would not compare
        raise OptionError(
            f"which='class' needs a family of classes, such as Logistic(), Multinomial() or Hinge(), and this is "
            f"{family!r}; choose one of 'mean', 'linear'."
        )
    return choose("which", which, ("mean", "linear"))


def predicted(fit: ResultData, x: Array, offset: Array, index: pd.Index, which: str) -> pd.Series | pd.DataFrame:
    """Predictions at rows `x`, shape (n, p); see `PrivateResults.predict`."""
    if fit.cuts:
        eta = (x @ fit.params + offset).reshape(-1, len(fit.cuts))
        shown = eta if which == "linear" else survival(fit, eta)
        return pd.DataFrame(shown, index=index[:: len(fit.cuts)], columns=pd.Index(fit.cuts, name="time"))
    if which == "linear" and not fit.levels:
        return pd.Series(fit.slopes(x) @ fit.params + offset, index=index)
    eta = fit.predictors(x, offset)
    if fit.family.scoring.classed:
        eta = fit.family.scoring.log_odds(eta)
    if which == "class":
        etas, levels = _with_baseline(eta), fit.design.endog_levels
        values = pd.Index([0, 1] if levels is None else list(levels))
        likeliest = pd.Series(values.take(etas.argmax(axis=1)), index=index)  # the first class wins a tie
        return likeliest.mask(np.asarray(np.isnan(etas).any(axis=1)))
    if fit.classes:
        shown, levels = (eta, fit.levels[1:]) if which == "linear" else (class_shares(eta), fit.classes)
        return pd.DataFrame(shown, index=index, columns=pd.Index(levels, name=fit.design.endog_name))
    return pd.Series(fit.family.inverse_link(x @ fit.params + offset), index=index)


def with_errors(known: Known, x: Array, offset: Array, index: pd.Index) -> Prediction | ClassPrediction:
    """Predictions with their errors at rows `x`, shape (n, p); see `PrivateResults.get_prediction`."""
    fit, eta = known.fit, known.fit.predictors(x, offset)
    if fit.design.cuts is not None:
        above, slope = fit.family.inverse_link(eta), fit.family.inverse_link_derivative(eta)
        share = -np.diff(above, axis=1, prepend=1.0, append=0.0)  # of levels in order, shape (n, K)
        by = -np.diff(slope[:, :, None] * (x[:, None] + fit.design.cuts), axis=1, prepend=0.0, append=0.0)
        by = by[:, 1:] / share[:, 1:, None] - by[:, :1] / share[:, :1, None]  # of log-odds
        covs, ok = np.einsum("ikp,pq,ilq->ikl", by, known.cov, by), along(known.notes, np.abs(by).sum(axis=1))
        odds = fit.family.scoring.log_odds(eta)
        return ClassPrediction(odds, covs, known.pivot, fit.classes, index, x, known.notes, ok)
    if fit.levels:
        k, p = eta.shape[1], x.shape[1]
        covs = np.einsum("ia,jakb,ib->ijk", x, known.cov.reshape(k, p, k, p), x)
        ok = along(known.notes, np.tile(x, (1, k)))
        return ClassPrediction(eta, covs, known.pivot, fit.levels, index, x, known.notes, ok)
    ok = along(known.notes, x)
    return Prediction(eta[:, 0], known.errors(x), known.pivot.along(x), fit.family, index, known.notes, ok)


def _with_baseline(linear: Array) -> Array:
    """Linear predictors of all classes, shape (n, k + 1): the first class's is 0."""
    return np.column_stack([np.zeros(len(linear)), linear])


def note_outside(fit: ResultData, new: Any, x: Array, where: str) -> None:
    """Warn of new rows that are outside bounds or can't be read: by column, without values or how many."""
    unread = fit.design.unread(new)
    if unread:
        kinds = (fit.design.schema.levels, "declared level"), (fit.design.schema.dates, "date such as 2020-12-31")
        which = {c: next((what for of, what in kinds if c in of), "number") for c in unread}
        said = [f"{', '.join(c for c in which if which[c] == w)}: not a {w}" for w in dict.fromkeys(which.values())]
        warn(
            f"{where}(): new rows hold values that can't be read, and are NaN ({'; '.join(said)}). Write "
            "values as they were declared.",
        )
    names = fit.design.outside(new)
    if not names:
        return
    text = fit.design.schema.bounds_text
    listed = ", ".join("{} ({} to {})".format(n, *text(n)) for n in names)
    warn(
        f"{where}(): new rows are outside the declared bounds of {listed}. The fit clamped what was outside and "
        f"{where}() doesn't, so predictions there extrapolate.",
    )


# --- with their uncertainty ------------------------------------------------------------------------------


SHOWN: Final = 30  # Lines of a printed table of predictions; summary_frame() has them all


class _Predicted(Estimated):
    """A table of predictions, as a view."""

    index: pd.Index
    title = "Predictions"

    def _layout(self) -> list[Part]:
        rows, frame = len(self.index), self.summary_frame()
        if "level" in frame:
            frame = frame.set_index("level", append=True)
        title = f"Predictions for {rows:,} row{'' if rows == 1 else 's'} with 95% limits ({self.pivot.label})"
        if len(frame) <= SHOWN:
            return [estimates_table(frame, title), *noted(self.notes)]
        ends = pd.concat([frame.head(SHOWN // 2), frame.tail(SHOWN // 2)])
        table = estimates_table(ends, f"{title}; summary_frame() has all {len(frame):,} lines")
        names, cells = list(table.names), list(table.rows)
        names.insert(SHOWN // 2, "…")
        cells.insert(SHOWN // 2, ["…"] * len(table.head))
        return [replace(table, names=names, rows=cells), *noted(self.notes)]


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Prediction(_Predicted):
    """Predictions of the mean, or of what stands for it in the family; see `PrivateResults.predict`."""

    linear: Array  # Linear predictor, shape (n,)
    se: Array  # Its standard error, shape (n,)
    pivot: Pivot
    family: Family
    index: pd.Index
    notes: tuple[Diagnostic, ...]  # Whatever takes the limits back; shown with them
    reliable: NDArray[np.bool_]  # Which predictions no note takes back, shape (n,)

    @property
    def predicted_mean(self) -> Array:
        """Mean response, shape (n,)."""
        return self.family.inverse_link(self.linear)

    @property
    def se_mean(self) -> Array:
        """Standard error of the mean response (delta method), shape (n,)."""
        return self.se * self.family.inverse_link_derivative(self.linear)

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Confidence limits of the mean, shape (n, 2): the linear predictor's, through the inverse link."""
        half = self.pivot.critical(interval_level(alpha)) * self.se
        low, high = self.linear - half, self.linear + half
        return np.column_stack([self.family.inverse_link(low), self.family.inverse_link(high)])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns mean, mean_se, mean_ci_lower, mean_ci_upper, reliable (whether no note takes it back)."""
        return means_frame(self.predicted_mean, self.se_mean, self.conf_int(alpha), self.reliable, self.index)


@all_known_arguments
@dataclass(frozen=True, repr=False)
class ClassPrediction(_Predicted):
    """Predictions of the probabilities of all classes of a multinomial response, or of levels in order."""

    linear: Array  # Log-odds of all classes but the first against it, shape (n, k)
    cov: Array  # Their covariances, row by row, shape (n, k, k)
    pivot: Pivot
    levels: tuple[Any, ...]  # The k + 1 classes, the first being the baseline
    index: pd.Index
    exog: Array  # Shape (n, p)
    notes: tuple[Diagnostic, ...]  # Whatever takes the limits back; shown with them
    reliable: NDArray[np.bool_]  # True for rows whose predictions no note takes back, shape (n,)

    @property
    def predicted_mean(self) -> Array:
        """Probabilities, shape (n, k + 1)."""
        return class_shares(self.linear)

    @property
    def se_mean(self) -> Array:
        """Standard errors of the probabilities (delta method), shape (n, k + 1)."""
        shares = self.predicted_mean
        return shares * (1.0 - shares) * self._logits()[1]

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Confidence limits of the probabilities, shape (n, k + 1, 2): those of their logits, mapped back."""
        (logit, se), critical = self._logits(), self.pivot.critical(interval_level(alpha))
        if isinstance(self.pivot, Bootstrap):
            rows = np.einsum("ilk,ip->ilkp", self._gradients(), self.exog).reshape(se.size, -1)
            critical = np.reshape(self.pivot.along(rows).critical(alpha), se.shape)
        half = critical * se
        return np.stack([expit(logit - half), expit(logit + half)], axis=-1)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Long form, one line for each row and class: level, mean, mean_se, mean_ci_lower, mean_ci_upper, reliable."""
        n, limits = len(self.levels), self.conf_int(alpha)
        ok, rows = np.repeat(self.reliable, n), self.index.repeat(n)
        frame = means_frame(self.predicted_mean, self.se_mean, limits, ok, rows)
        frame.insert(0, "level", pd.Index(self.levels).take(np.tile(np.arange(n), len(self.index))))
        return frame

    def _logits(self) -> tuple[Array, Array]:
        """Logit of each probability and its standard error, shapes (n, k + 1).

        The logit of class l is η_l − log Σ exp η over the others, so its gradient is 1 at η_l and minus the others'
        probabilities given that it isn't l: nothing is divided by a probability near 0.
        """
        _, rest = self._others()
        g = self._gradients()
        se = np.sqrt(np.maximum(np.einsum("ilj,ijk,ilk->il", g, self.cov, g), 0.0))
        return _with_baseline(self.linear) - rest, se

    def _gradients(self) -> Array:
        """Derivatives of those logits by linear predictors, shape (n, k + 1, k); the first class's is known."""
        others, rest = self._others()
        return np.asarray((np.eye(others.shape[1]) - np.exp(others - rest[:, :, None]))[:, :, 1:])

    def _others(self) -> tuple[Array, Array]:
        """Predictors of the classes but each in turn, whose own is −∞, shape (n, k + 1, k + 1); and log Σ exp."""
        etas = _with_baseline(self.linear)
        others = np.where(np.eye(etas.shape[1], dtype=np.bool_), -np.inf, etas[:, None, :])
        return others, np.asarray(logsumexp(others, axis=2))
