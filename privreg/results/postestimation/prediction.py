"""Predictions with their uncertainty: of a mean, and of the probabilities of several classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Pivot
from privreg.errors import OptionError, choose, interval_level, warn
from privreg.families.family import Family
from privreg.families.logistic import class_shares
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, ResultData
from privreg.results.postestimation.hypothesis import Known
from privreg.tables import Part, View, estimates_table, noted
from privreg.tables.diagnostics import Diagnostic, along


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
        with np.errstate(over="ignore"):
            alive = np.exp(-np.cumsum(np.exp(eta) * np.diff(fit.cuts, prepend=0.0), axis=1))
        shown = eta if which == "linear" else alive
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


def with_errors(known: Known, x: Array, offset: Array, index: pd.Index) -> Prediction:
    """Predictions with their errors at rows `x`, shape (n, p); see `PrivateResults.get_prediction`.

    Errors of K classes are those of the logits of their probabilities. That of class l is η_l − log Σ exp η over the
    others, so its gradient is 1 at η_l and minus the others' probabilities given that it isn't l: nothing is divided by
    a probability near 0.
    """
    fit, eta = known.fit, known.fit.predictors(x, offset)
    if not fit.classes:
        eta, se, back = eta[:, 0], known.errors(x), fit.family.inverse_link
        error, pivot = se * fit.family.inverse_link_derivative(eta), known.pivot.along(x)
        return Prediction(back(eta), error, eta, se, back, pivot, index, known.notes, along(known.notes, x))
    if fit.design.cuts is None:
        odds, (n, k) = eta, eta.shape
        by = np.einsum("kl,np->nklp", np.eye(k), x).reshape(n, k, -1)
        enters = by.sum(axis=1)
    else:
        odds, above = fit.family.scoring.log_odds(eta), fit.family.inverse_link(eta)
        slope = fit.family.inverse_link_derivative(eta)
        share = -np.diff(above, axis=1, prepend=1.0, append=0.0)  # of levels in order, shape (n, K)
        by = -np.diff(slope[:, :, None] * (x[:, None] + fit.design.cuts), axis=1, prepend=0.0, append=0.0)
        by = by[:, 1:] / share[:, 1:, None] - by[:, :1] / share[:, :1, None]  # of log-odds, shape (n, K − 1, p)
        enters = np.abs(by).sum(axis=1)
    etas, shares = _with_baseline(odds), class_shares(odds)
    one = np.eye(etas.shape[1])
    others = np.where(one == 1.0, -np.inf, etas[:, None, :])  # predictors of the classes but each in turn
    rest = np.asarray(logsumexp(others, axis=2))
    gradient = np.einsum("nlk,nkp->nlp", (one - np.exp(others - rest[:, :, None]))[:, :, 1:], by).reshape(rest.size, -1)
    se, pivot, ok = known.errors(gradient).reshape(rest.shape), known.pivot.along(gradient), along(known.notes, enters)
    error = shares * (1.0 - shares) * se
    return Prediction(shares, error, etas - rest, se, expit, pivot, index, known.notes, ok, fit.classes)


def _with_baseline(linear: Array) -> Array:
    """Linear predictors of all classes, shape (n, k + 1): the first class's is 0."""
    return np.column_stack([np.zeros(len(linear)), linear])


def note_outside(fit: ResultData, new: Any, where: str) -> None:
    """Warn of new rows that are outside bounds or can't be read: by column, without values or how many."""
    schema, said = fit.design.schema, list[str]()
    if unread := fit.design.unread(new):
        kinds = (schema.levels, "declared level"), (schema.dates, "date such as 2020-12-31")
        which = {c: next((what for of, what in kinds if c in of), "number") for c in unread}
        each = [f"{', '.join(c for c in which if which[c] == w)}: not a {w}" for w in dict.fromkeys(which.values())]
        said = [f"hold values that can't be read, and are NaN ({'; '.join(each)}). Write values as they were declared."]
    if names := fit.design.outside(new):
        listed = ", ".join("{} ({} to {})".format(n, *schema.bounds_text(n)) for n in names)
        said += [
            f"are outside the declared bounds of {listed}. The fit clamped what was outside and {where}() doesn't, so "
            "predictions there extrapolate."
        ]
    for text in said:
        warn(f"{where}(): new rows {text}")


SHOWN: Final = 30  # Lines of a printed table of predictions; summary_frame() has them all


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Prediction(View):
    """Predictions of the mean, or of what stands for it in the family, or of the probabilities of K classes."""

    predicted_mean: Array  # See `PrivateResults.predict`; shape (n,), or of classes (n, K), as all that follow
    se_mean: Array  # Standard errors (delta method)
    linear: Array  # Linear predictors, or logits of the probabilities
    se: Array  # Standard errors of these
    back: Callable[[Array], Array]  # Inverse link, or logistic function
    pivot: Pivot
    index: pd.Index
    notes: tuple[Diagnostic, ...]  # Whatever takes the limits back; shown with them
    reliable: NDArray[np.bool_]  # True for rows whose predictions no note takes back, shape (n,)
    levels: tuple[Any, ...] = ()  # The K classes

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Confidence limits, of predictors or logits through the inverse link; shape (n, 2), or (n, K, 2)."""
        half = np.reshape(self.pivot.critical(interval_level(alpha)) * self.se.ravel(), self.se.shape)
        return np.stack([self.back(self.linear - half), self.back(self.linear + half)], axis=-1)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns mean, mean_se, mean_ci_lower, mean_ci_upper, reliable (whether no note takes it back).

        Of classes it is long, one line for each row and class, and its first column is level.
        """
        k, (low, high) = max(len(self.levels), 1), self.conf_int(alpha).reshape(-1, 2).T
        columns: dict[str, Any] = {}
        if self.levels:
            columns["level"] = pd.Index(self.levels).take(np.tile(np.arange(k), len(self.index)))
        columns |= {"mean": self.predicted_mean.ravel(), "mean_se": self.se_mean.ravel()}
        columns |= {"mean_ci_lower": low, "mean_ci_upper": high, "reliable": np.repeat(self.reliable, k)}
        return Frame(columns, index=self.index.repeat(k))

    def _layout(self) -> list[Part]:
        rows, frame = len(self.index), self.summary_frame()
        if self.levels:
            frame = frame.set_index("level", append=True)
        title = f"Predictions for {rows:,} row{'' if rows == 1 else 's'} with 95% limits ({self.pivot.label})"
        if len(frame) > SHOWN:
            title += f": the first {SHOWN} of {len(frame):,} lines of summary_frame()"
        return [estimates_table(frame.head(SHOWN), title), *noted(self.notes)]
