"""Predictions with their uncertainty: of a mean, of the probabilities of several classes, of hazards and survival."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Pivot
from privreg.collector.inference.resampling import joint_critical
from privreg.collector.levels import BIAS
from privreg.errors import DataError, OptionError, choose, interval_level
from privreg.families.hazards import AT_RISK, INTERVAL
from privreg.families.logistic import class_shares
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, ResultData
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.results.postestimation.hypothesis import Known
from privreg.tables import Part, Table, View, estimates_table, marked, noted
from privreg.tables.diagnostics import Diagnostic, along


def predicted(self: Any, exog: Any, which: str) -> pd.Series | pd.DataFrame:
    """Predictions of results at new rows; see `PrivateResults.predict`."""
    fit, family = self._fit, self._fit.family
    classed = family.scoring.classed or (family.response == "binary" and family.link in {"logit", "margin"})
    if not classed and isinstance(which, str) and which == "class":  # an NA would not compare
        raise OptionError(
            f"which='class' needs a family of classes, such as Logistic(), Multinomial() or Hinge(), and this is "
            f"{family!r}; choose one of 'mean', 'linear'."
        )
    which = choose("which", which, ("mean", "linear", *["class"] * classed))
    x, offset, index = self._exog(exog, "predict")
    if fit.cuts:
        eta = (x @ fit.params + offset).reshape(-1, len(fit.cuts))
        with np.errstate(over="ignore"):
            alive = np.exp(-np.cumsum(np.exp(eta) * np.diff(fit.cuts, prepend=0.0), axis=1))
        shown = eta if which == "linear" else alive
        return pd.DataFrame(shown, index=index[:: len(fit.cuts)], columns=pd.Index(fit.cuts, name="time"))
    if which == "linear" and not fit.levels:
        return pd.Series(fit.slopes(x) @ fit.params + offset, index=index)
    eta = fit.predictors(x, offset)
    eta = family.scoring.log_odds(eta) if family.scoring.classed else eta
    if which == "class":
        etas, levels = np.column_stack([np.zeros(len(eta)), eta]), fit.design.endog_levels  # the first class's is 0
        values = pd.Index([0, 1] if levels is None else list(levels))
        likeliest = pd.Series(values.take(etas.argmax(axis=1)), index=index)  # the first class wins a tie
        return likeliest.mask(np.asarray(np.isnan(etas).any(axis=1)))
    if fit.classes:
        shown, levels = (eta, fit.levels[1:]) if which == "linear" else (class_shares(eta), fit.classes)
        return pd.DataFrame(shown, index=index, columns=pd.Index(levels, name=fit.design.endog_name))
    return pd.Series(family.inverse_link(x @ fit.params + offset), index=index)


def get_prediction(self: Any, exog: Any = None, *, method: str | None = None) -> "Prediction | HazardPrediction":
    """Predictions with standard errors and confidence intervals of the mean.

    A Prediction: predicted_mean, se_mean, conf_int(alpha), summary_frame(alpha), notes (which take limits back); "mean"
    is what `PrivateResults.predict` gives. Limits are those of the linear predictor through the inverse link. Of a
    multinomial fit, or of levels in order, probabilities, rows by levels; the frame is long, one line for each row and
    level, and limits are those of the logit of each probability, so that they stay in (0, 1). A HazardPrediction of a
    fit of ``Surv()``, see `PrivateResults.hazards`.

    Predictions for private rows are not protected; see `PrivateResults.predict`. There are no prediction intervals of
    single responses, which need their spread; fits with ``Quantile(0.025)`` and ``Quantile(0.975)``, two more releases,
    estimate such limits.
    """
    # Errors of K classes are those of the logits of their probabilities. That of class l is η_l − log Σ exp η over the
    # others, so its gradient is 1 at η_l and minus the others' probabilities given that it isn't l: nothing is divided
    # by a probability near 0.
    if self._fit.cuts:
        made: HazardPrediction = self.hazards(exog, method=method)
        return made
    x, offset, index = self._exog(exog, "get_prediction")
    known: Known = self._known(method, "get_prediction")
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
    etas, shares = np.column_stack([np.zeros(len(odds)), odds]), class_shares(odds)  # the first class's predictor is 0
    one = np.eye(etas.shape[1])
    others = np.where(one == 1.0, -np.inf, etas[:, None, :])  # predictors of the classes but each in turn
    rest = np.asarray(logsumexp(others, axis=2))
    gradient = np.einsum("nlk,nkp->nlp", (one - np.exp(others - rest[:, :, None]))[:, :, 1:], by).reshape(rest.size, -1)
    se, pivot, ok = known.errors(gradient).reshape(rest.shape), known.pivot.along(gradient), along(known.notes, enters)
    error = shares * (1.0 - shares) * se
    return Prediction(shares, error, etas - rest, se, expit, pivot, index, known.notes, ok, fit.classes)


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
        frame = frame.set_index("level", append=True) if self.levels else frame
        title = f"Predictions for {rows:,} row{'' if rows == 1 else 's'} with 95% limits ({self.pivot.label})"
        if len(frame) > SHOWN:
            title += f": the first {SHOWN} of {len(frame):,} lines of summary_frame()"
        return [estimates_table(frame.head(SHOWN), title), *noted(self.notes)]


# --- hazards and survival curves of covariates, of a fit of ``Surv()`` ---------------------------------------------


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
            out |= {f"{name}_{end}": np.exp(-np.exp(np.log(upto) + s * by)) for end, s in (("low", 1), ("high", -1))}
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
        names = marked([f"{a:g} to {b:g}" for a, b in table[["start", "stop"]].to_numpy()], table["reliable"])
        blocks = {k * j: f"row {name}" for k, name in enumerate(self.index)} if len(self.index) > 1 else {}
        head = ("hazard", "2.5%", "97.5%", "survival", "2.5%", "97.5%")
        of = dict(self.known.fit.title)["Dep. Variable"]
        title = f"Hazards of {of}, and survival by them alone until their end"
        return [Table(names, head, rows, title, blocks), *noted(self.known.notes)]
