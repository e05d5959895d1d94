"""Common part of all results: estimates with the precision that is known of them, doubts about them, and views."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.collector.inference.methods import METHODS, WIDE, Estimate
from privreg.collector.inference.resampling import joint_critical
from privreg.errors import InferenceError, NotPrivateError, choose, flag, interval_level, warn
from privreg.options.unknown import MEASURES, unavailable
from privreg.privacy.ledger import refuse_fitted
from privreg.results.data import Frame
from privreg.results.postestimation.hypothesis import Known
from privreg.results.postestimation.prediction import of_intervals
from privreg.results.statement import PrivacyStatement
from privreg.tables import View, diagnostics


class Results(ABC):
    """Estimates and the privacy statement they come with; what is known of their precision is for subclasses to show.

    Holds randomised numbers and public declarations; never a row.
    """

    def __init__(self, fit: Any) -> None:
        self._fit = fit

    @property
    def params(self) -> pd.Series | pd.DataFrame:
        """Estimates in the user's units, Series of shape (p,).

        Of a multinomial fit a DataFrame, terms by levels, as in statsmodels' MNLogit; but the columns are the levels
        themselves, without the baseline. So are the last iterate, standard errors, t-statistics and p-values.
        """
        shaped: pd.Series | pd.DataFrame = self._fit.shaped(self._fit.params)
        return shaped

    def coef(self) -> pd.Series | pd.DataFrame:
        """R's name of :attr:`params`."""
        return self.params

    @property
    def privacy(self) -> PrivacyStatement:
        """The privacy statement."""
        stated: PrivacyStatement = self._fit.statement
        return stated

    @abstractmethod
    def summary(self) -> View:
        """Header, estimates and privacy block, as text, HTML or LaTeX."""

    def _estimate(self, method: str | None = None) -> Estimate:
        """Estimate of a method, or of the first; else an error with the reason why there is none."""
        found: dict[str, Estimate] = {e.method: e for e in self._fit.estimates}
        first = next(iter(found), None)
        if first is None:
            for early in self.privacy.waiting:
                more = "" if early.methods else ", or tell the model how many come by rows="
                raise InferenceError(f"{early}; update the stream by more{more}.")
            raise InferenceError(
                "this fit was made with inference=None: only estimates; fit with inference='random_scaling'."
            )
        if method is None or choose("method", method, METHODS) in found:
            return found[method or first]
        for early in self.privacy.waiting:
            if method in early.methods:
                raise InferenceError(f"{early}; update the stream by more, or use {first!r}.")
        here, there = METHODS[first].tuning, METHODS[method].tuning
        wanted = f"inference={(first, method) if 'any' in {here, there} or here == there else method!r}"
        wanted = wanted if there == "any" else f"tuning={there!r}, {wanted}"
        raise InferenceError(f"this fit has no {method!r}; it has {', '.join(found)}. Ask for it with fit({wanted}).")

    def _errors(self, method: str | None = None) -> Array:
        return np.sqrt(self._estimate(method).variances)

    def _ratios(self, method: str | None = None) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self._fit.params / self._errors(method))

    def _known(self, method: str | None, what: str) -> Known:
        """Estimates with the covariance that `what` needs of all of them."""
        e = self._estimate(method)
        if e.cov.ndim == 1:
            raise InferenceError(
                f"{what} needs the full covariance, and with more than {WIDE} coefficients {e.method} keeps variances "
                "only (intervals and tests of single coefficients have them); fit with inference="
                "'batch_means', and choose it by method=."
            )
        return Known(self._fit, e.cov, e.pivot, self._doubts(method))

    def _covariance(self, method: str | None = None) -> pd.DataFrame:
        cov, index = self._known(method, "cov_params").cov.copy(), self._fit.index
        return pd.DataFrame(cov, index=index, columns=index)

    def _half(self, alpha: float, method: str | None = None, simultaneous: bool = False, at: Any = None) -> Array:
        """Half the lengths of the intervals, or of those at positions `at`."""
        e = self._estimate(method)
        pivot, cov = e.pivot, e.cov
        if at is not None:
            pivot, cov = pivot.along(np.eye(len(cov))[at]), cov[at] if cov.ndim == 1 else cov[np.ix_(at, at)]
        joint = flag("simultaneous", simultaneous)
        critical = joint_critical(pivot, cov, interval_level(alpha)) if joint else pivot.critical(interval_level(alpha))
        return np.asarray(critical * self._errors(method)[slice(None) if at is None else at])

    def _table(self, alpha: float = 0.05, method: str | None = None, simultaneous: bool = False) -> pd.DataFrame:
        """The one table that every view renders: estimates, and their precision if it is known."""
        fit, out = self._fit, self._fit.labels().assign(estimate=self._fit.params)
        if fit.estimates or method is not None:
            t, half = self._ratios(method), self._half(alpha, method, simultaneous)
            out = out.assign(std_error=self._errors(method), statistic=t)
            out = out.assign(p_value=self._estimate(method).pivot.two_sided(t))
            out = out.assign(conf_low=fit.params - half, conf_high=fit.params + half)
        return Frame(out.assign(reliable=diagnostics.reliable(self._doubts(method), len(out))))

    def _doubts(self, method: str | None = None) -> tuple[diagnostics.Diagnostic, ...]:
        """Whatever takes back the intervals of a method: not what weakens others that were asked for beside it."""
        estimates = self._fit.estimates
        wanted = self._estimate(method).notes if estimates else ()
        others = {note for e in estimates for note in e.notes} - set(wanted)
        return tuple(note for note in self.privacy.doubts if note not in others)

    def _caution(self) -> bool:
        """Warn if there are rows that should not be relied on; return whether there are."""
        what = "the intervals of" if self._fit.estimates else "the estimates of"
        return diagnostics.caution(self._fit.names, self._doubts(), what=what)

    def _exog(self, exog: Any, where: str) -> tuple[Array, Array, pd.Index]:
        if exog is None:
            raise NotPrivateError("predict() without new rows would need the raw data; give public covariate values.")
        self._fit.refuse_levels("a prediction", hazards=False)
        for part in exog if isinstance(exog, tuple) else (exog,):
            refuse_fitted(part, "predictions for them", simulated=self.privacy.seeded)
        exog = of_intervals(self._fit, exog) if self._fit.cuts else exog
        design, schema = self._fit.design, self._fit.design.schema
        rows, labels = design.read_new(exog)
        x, offset = design.encode_new(rows, gaps=True)
        if unread := design.unread(rows):  # by column, without values or how many
            kinds = (schema.levels, "declared level"), (schema.dates, "date such as 2020-12-31")
            which = {c: next((what for of, what in kinds if c in of), "number") for c in unread}
            each = (f"{', '.join(c for c in which if which[c] == w)}: not a {w}" for w in dict.fromkeys(which.values()))
            unreadable = f"hold values that can't be read, and are NaN ({'; '.join(each)})"
            warn(f"{where}(): new rows {unreadable}. Write values as they were declared.")
        if names := design.outside(rows):
            listed = ", ".join("{} ({} to {})".format(n, *schema.bounds_text(n)) for n in names)
            warn(
                f"{where}(): new rows are outside the declared bounds of {listed}. The fit clamped what was outside "
                f"and {where}() doesn't, so predictions there extrapolate."
            )
        return x, offset, pd.RangeIndex(len(x)) if labels is None else labels

    def __getattr__(self, name: str) -> Any:
        raise unavailable(name, dir(type(self)), measures=self._measured_by())

    def _measured_by(self) -> str:
        """Option that asks for measures of fit; "" if there is none."""
        return MEASURES

    def __dir__(self) -> list[str]:
        return sorted(object.__dir__(self))

    def _repr_html_(self) -> str:
        return self.summary().as_html()
