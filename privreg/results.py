"""Results: statsmodels' names with private meanings, computed from reports and public state only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privreg import storage
from privreg.errors import InferenceError, NotPrivateError, OptionError, choose, shown
from privreg.errors import level as _level
from privreg.families import Family
from privreg.inference import EARLY, METHODS, Estimate, Normal, Pivot, RandomScaling, StudentT
from privreg.prediction import Prediction
from privreg.privacy import PrivacyStatement
from privreg.restrictions import ContrastTest, WaldTest, contrast_test, wald_test
from privreg.unavailable import refuse_arguments, unavailable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from privreg.summary import Summary

    Array = NDArray[np.float64]

__all__ = ["Fit", "Prediction", "PrivateResults"]


@dataclass(frozen=True)
class Fit:
    """Everything a result knows. Public numbers and randomised ones; no rows.

    Parameters
    ----------
    design : Design or ArrayDesign
        Public design, for predictions.
    family : Family
    title : tuple of (str, str)
        Header entries, in order.
    names : tuple of str
    params, last : ndarray, shape (p,)
        Averaged and last iterate, user's units.
    estimates : tuple of Estimate
        By method, the first being the default; empty if no inference was asked for.
    nobs : int
        People who sent a report.
    senders : int
        People who sent a score that entered an update.
    updates : int
    trail_n : ndarray of int, shape (m,)
    trail_params, trail_variances : ndarray, shape (m, p)
        Estimates on the way and their reported variances (NaN where not known).
    statement : PrivacyStatement
    """

    design: Any
    family: Family
    title: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    params: Array
    last: Array
    estimates: tuple[Estimate, ...]
    nobs: int
    senders: int
    updates: int
    trail_n: NDArray[np.int64]
    trail_params: Array
    trail_variances: Array
    statement: PrivacyStatement


class PrivateResults:
    """Results of a private online regression.

    Parameters
    ----------
    fit : Fit
        Frozen payload.

    Notes
    -----
    Holds parameters, randomised state and the public schema; never a row.
    """

    def __init__(self, fit: Fit) -> None:
        self._fit = fit

    def __getattr__(self, name: str) -> Any:
        raise unavailable(name)

    # --- estimates -------------------------------------------------------------------------------------

    @property
    def params(self) -> pd.Series:
        """Averaged estimates in the user's units, Series of shape (p,)."""
        return self._series(self._fit.params)

    @property
    def params_last(self) -> pd.Series:
        """Last iterate in the user's units; noisier than :attr:`params`."""
        return self._series(self._fit.last)

    @property
    def bse(self) -> pd.Series:
        """Standard errors of the default method; √(6 V̂ / n) under random scaling, so that t reads as usual."""
        return self._series(np.sqrt(self._estimate(None).variances))

    @property
    def tvalues(self) -> pd.Series:
        """Estimate over standard error."""
        return self.params / self.bse

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of zero coefficients, exact for the method's limit law."""
        return self._series(self._estimate(None).pivot.two_sided(self.tvalues.to_numpy()))

    @property
    def nobs(self) -> int:
        """People who sent a report."""
        return self._fit.nobs

    @property
    def privacy(self) -> PrivacyStatement:
        """The privacy statement."""
        return self._fit.statement

    @property
    def methods(self) -> tuple[str, ...]:
        """Inference methods at hand; the first is the default."""
        return tuple(e.method for e in self._fit.estimates)

    @property
    def family(self) -> Family:
        """The family that was fitted."""
        return self._fit.family

    def _series(self, values: Array) -> pd.Series:
        return pd.Series(np.array(values), index=pd.Index(self._fit.names), dtype=np.float64)

    def _estimate(self, method: str | None) -> Estimate:
        if not self._fit.estimates:
            early = next((note for note in self._fit.statement.notes if note.startswith(EARLY)), None)
            if early is not None:
                raise InferenceError(f"{early}; update the stream by more, or tell the model how many come by rows=.")
            raise InferenceError(
                "this fit was made with inference=None: only estimates; fit with inference='random_scaling'."
            )
        if method is None:
            return self._fit.estimates[0]
        choose("method", method, METHODS)
        for e in self._fit.estimates:
            if e.method == method:
                return e
        first, tuning = self.methods[0], METHODS[method].tuning
        together = "any" in {tuning, METHODS[first].tuning} or tuning == METHODS[first].tuning
        wanted = f"inference={(first, method) if together else method!r}"
        wanted = wanted if tuning == "any" else f"tuning={tuning!r}, {wanted}"
        raise InferenceError(
            f"this fit has no {method!r}; it has {', '.join(self.methods)}. Ask for it with fit({wanted})."
        )

    def _full_cov(self, method: str | None, what: str) -> tuple[Array, Pivot]:
        e = self._estimate(method)
        if e.cov.ndim == 1:
            raise InferenceError(
                f"{what} needs the full covariance, but only variances were kept; fit with inference='random_scaling'."
            )
        return e.cov, e.pivot

    def cov_params(self, method: str | None = None, **unknown: object) -> pd.DataFrame:
        """Covariance of the estimates on the scale of :attr:`bse`, DataFrame of shape (p, p).

        Raises
        ------
        InferenceError
            If the method was not asked for or keeps only variances.
        """
        refuse_arguments("cov_params", unknown)
        index = pd.Index(self._fit.names)
        return pd.DataFrame(self._full_cov(method, "cov_params")[0].copy(), index=index, columns=index)

    def conf_int(
        self, alpha: float = 0.05, cols: Any = None, *, method: str | None = None, **unknown: object
    ) -> pd.DataFrame:
        """Confidence intervals, one coefficient a row.

        Parameters
        ----------
        alpha : float
            One minus the level, in (0, 1).
        cols : list of str or int, optional
            Coefficients wanted; all by default.
        method : str, optional
            An inference method of this fit; its first by default.

        Returns
        -------
        DataFrame
            Columns 0 and 1: lower and upper limit.

        Raises
        ------
        OptionError
            If `alpha` is not in (0, 1).
        InferenceError
            If the method was not asked for.
        """
        refuse_arguments("conf_int", unknown)
        e = self._estimate(method)
        half = e.pivot.critical(_level(alpha)) * np.sqrt(e.variances)
        out = pd.DataFrame({0: self._fit.params - half, 1: self._fit.params + half}, index=pd.Index(self._fit.names))
        if cols is None:
            return out
        return out.iloc[self._places(cols)]

    def _places(self, cols: Any) -> list[int]:
        names = list(self._fit.names)
        wanted = (
            [cols] if isinstance(cols, str) else list(cols) if isinstance(cols, list | tuple | pd.Index) else [None]
        )
        found = [names.index(c) if isinstance(c, str) and c in names else c for c in wanted]
        places = [c for c in found if isinstance(c, int) and not isinstance(c, bool) and -len(names) <= c < len(names)]
        if len(places) < len(wanted):
            raise OptionError(
                f"cols must list coefficients by name ({', '.join(names)}) or by position, 0 to {len(names) - 1}."
            )
        return places

    def tidy(self, exponentiate: bool = False, *, alpha: float = 0.05, method: str | None = None) -> pd.DataFrame:
        """Build the one table that every view renders.

        Parameters
        ----------
        exponentiate : bool
            Report exp(estimate) and exp(limits), as for odds ratios; the standard error stays that of the
            estimate itself.
        alpha : float
            One minus the level of the intervals.
        method : str, optional

        Returns
        -------
        DataFrame
            term, estimate, std_error, statistic, p_value, conf_low, conf_high.
        """
        if not isinstance(exponentiate, bool):
            raise OptionError(f"exponentiate={shown(exponentiate)} must be True or False.")
        out = pd.DataFrame({"term": list(self._fit.names), "estimate": self._fit.params})
        if self._fit.estimates or method is not None:
            e = self._estimate(method)
            se = np.sqrt(e.variances)
            with np.errstate(divide="ignore", invalid="ignore"):
                t = self._fit.params / se
            half = e.pivot.critical(_level(alpha)) * se
            out = out.assign(std_error=se, statistic=t, p_value=e.pivot.two_sided(t))
            out = out.assign(conf_low=self._fit.params - half, conf_high=self._fit.params + half)
        if exponentiate:
            with np.errstate(over="ignore"):  # exp of a coefficient in thousands is inf, and means it
                for c in ("estimate", "conf_low", "conf_high"):
                    if c in out:
                        out[c] = np.exp(out[c])
        return out

    # --- tests -----------------------------------------------------------------------------------------

    def t_test(self, r_matrix: Any, *, method: str | None = None, **unknown: object) -> ContrastTest:
        """Test linear combinations one by one.

        Parameters
        ----------
        r_matrix : str, array of shape (q, p), or (array, values)
            As in statsmodels: ``"age = bmi"`` or ``"age - bmi, smoker[T.yes] = 0"``.
        method : str, optional

        Returns
        -------
        ContrastTest
            effect, sd, tvalue, pvalue of shape (q,), conf_int(alpha), summary_frame().
        """
        refuse_arguments("t_test", unknown)
        cov, pivot = self._full_cov(method, "t_test")
        return contrast_test(self._fit.names, self._fit.params, cov, pivot, r_matrix, self.privacy.doubts)

    def wald_test(self, r_matrix: Any, *, method: str | None = None, **unknown: object) -> WaldTest:
        """Test linear restrictions jointly, exactly for the method's limit law.

        Parameters
        ----------
        r_matrix
            As in :meth:`t_test`.
        method : str, optional

        Returns
        -------
        WaldTest
            statistic (formed with :meth:`cov_params`), pvalue, df_num.
        """
        refuse_arguments("wald_test", unknown)
        cov, pivot = self._full_cov(method, "wald_test")
        return wald_test(self._fit.names, self._fit.params, cov, pivot, r_matrix, self.privacy.doubts)

    # --- predictions -----------------------------------------------------------------------------------

    def _exog(self, exog: Any) -> tuple[Array, Array, pd.Index]:
        if exog is None:
            raise NotPrivateError("predict() without new rows would need the raw data; give public covariate values.")
        x, offset = self._fit.design.encode_new(exog)
        index = exog.index if isinstance(exog, pd.DataFrame) else pd.RangeIndex(x.shape[0])
        return x, offset, index

    def predict(self, exog: Any = None, *, which: str = "mean") -> pd.Series:
        """Mean response at new covariate values, on the response's scale.

        Parameters
        ----------
        exog : DataFrame, mapping of str to array, or array of shape (n, p) for array models
            Nothing is clamped to the declared bounds.
        which : "mean" or "linear"
            Mean response or linear predictor.

        Returns
        -------
        Series, shape (n,)
        """
        choose("which", which, ("mean", "linear"))
        x, offset, index = self._exog(exog)
        eta = x @ self._fit.params + offset
        return pd.Series(eta if which == "linear" else self._fit.family.inverse_link(eta), index=index)

    def get_prediction(self, exog: Any = None, *, method: str | None = None) -> Prediction:
        """Predictions with standard errors and confidence intervals of the mean.

        Parameters
        ----------
        exog
            As in :meth:`predict`.
        method : str, optional

        Returns
        -------
        Prediction
        """
        x, offset, index = self._exog(exog)
        cov, pivot = self._full_cov(method, "get_prediction")
        se = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", x, cov, x), 0.0))
        return Prediction(x @ self._fit.params + offset, se, pivot, self._fit.family, index)

    # --- views -----------------------------------------------------------------------------------------

    def trajectory(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates along the stream, at people counts that grow geometrically.

        Parameters
        ----------
        alpha : float
            One minus the level of the bands, pointwise.

        Returns
        -------
        DataFrame
            term, n, estimate, low, high. The bands are those of random scaling if it was asked for, else of
            between_lanes; NaN where there are none, as before the lanes begin.
        """
        m, p = self._fit.trail_params.shape
        estimate = self._fit.trail_params.reshape(-1)
        pivots = {e.method: e.pivot for e in self._fit.estimates}
        pivot = pivots.get("random_scaling") or pivots.get("between_lanes")
        level = _level(alpha)
        critical = np.nan if pivot is None else pivot.critical(level)
        half = critical * np.sqrt(self._fit.trail_variances.reshape(-1))
        return pd.DataFrame(
            {
                "term": list(self._fit.names) * m,
                "n": np.repeat(self._fit.trail_n, p),
                "estimate": estimate,
                "low": estimate - half,
                "high": estimate + half,
            }
        )

    def summary(self, alpha: float = 0.05, *, method: str | None = None) -> Summary:
        """Header, coefficients and privacy block, as text, HTML or LaTeX."""
        from privreg.summary import Summary

        return Summary(self, alpha, method)

    def plot_trajectory(self, terms: Any = None, *, alpha: float = 0.05, ax: Any = None) -> Axes | NDArray[Any]:
        """Draw estimates with their bands against the number of people; see `privreg.plots.trajectory`."""
        from privreg import plots

        return plots.trajectory(self, terms, alpha=alpha, ax=ax)

    def plot_coef(
        self, *, alpha: float = 0.05, intercept: bool = False, scaled: bool | None = None, ax: Any = None
    ) -> Axes:
        """Draw coefficients with their intervals; see `privreg.plots.coefficients`."""
        from privreg import plots

        return plots.coefficients([self], alpha=alpha, intercept=intercept, scaled=scaled, ax=ax)

    def plot_privacy(self, *, ax: Any = None) -> NDArray[Any]:
        """Draw the best attacker's ROC and the (ε, δ) curve of the guarantee; see `privreg.plots.privacy`."""
        from privreg import plots

        return plots.privacy(self.privacy, ax=ax)

    def __repr__(self) -> str:
        head = f"<PrivateResults: {self._fit.family.name}, {len(self._fit.names)} coefficients, n = {self.nobs:,}, "
        return head + f"{self._fit.statement.short}>"

    def __dir__(self) -> list[str]:
        return sorted(object.__dir__(self))

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    # --- storage ---------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Save as one file of arrays and JSON, atomically. No rows, no keys.

        Raises
        ------
        SavedFileError
            If the folder is missing or not writable.
        UnsupportedArgumentError
            If the name is that of a page, a text or a table.
        """
        storage.refuse_suffix(path)
        f = self._fit
        arrays = {"params": f.params, "last": f.last, "trail_n": f.trail_n, "trail_params": f.trail_params}
        arrays["trail_variances"] = f.trail_variances
        for i, e in enumerate(f.estimates):
            arrays[f"cov_{i}"] = e.cov
        document = {
            "design": f.design.to_json(),
            "family": [f.family.name, f.family.c, f.family.scale],
            "title": f.title,
            "estimates": [_estimate_json(e) for e in f.estimates],
            "counts": [f.nobs, f.senders, f.updates],
            "statement": f.statement.to_json(),
        }
        storage.write_archive(path, "results", document, arrays)


def from_saved(document: Mapping[str, Any], arrays: Mapping[str, Any], design: Any, family: Family) -> PrivateResults:
    """Rebuild results from what :meth:`PrivateResults.save` wrote."""
    estimates = tuple(
        Estimate(METHODS[e["method"]].name, arrays[f"cov_{i}"], _pivot(e["pivot"]), tuple(e["notes"]))
        for i, e in enumerate(document["estimates"])
    )
    nobs, senders, updates = (int(v) for v in document["counts"])
    p, m = len(design.names), len(arrays["trail_n"])
    wanted = {"params": (p,), "last": (p,), "trail_n": (m,), "trail_params": (m, p), "trail_variances": (m, p)}
    fit = all(arrays[k].shape == shape and arrays[k].dtype.kind in "fi" for k, shape in wanted.items())
    if not fit or any(e.cov.shape not in {(p, p), (p,)} or e.cov.dtype.kind != "f" for e in estimates):
        raise ValueError("saved arrays don't fit the design")  # load() says that the file is damaged
    return PrivateResults(
        Fit(
            design=design,
            family=family,
            title=tuple((str(a), str(b)) for a, b in document["title"]),
            names=tuple(design.names),
            params=arrays["params"],
            last=arrays["last"],
            estimates=estimates,
            nobs=nobs,
            senders=senders,
            updates=updates,
            trail_n=arrays["trail_n"],
            trail_params=arrays["trail_params"],
            trail_variances=arrays["trail_variances"],
            statement=PrivacyStatement.from_json(document["statement"]),
        )
    )


def _estimate_json(e: Estimate) -> dict[str, Any]:
    pivot: list[Any] = ["normal", 1]
    if isinstance(e.pivot, RandomScaling):
        pivot = ["random scaling", e.pivot.lanes]
    elif isinstance(e.pivot, StudentT):
        pivot = ["t", e.pivot.df]
    return {"method": e.method, "pivot": pivot, "notes": list(e.notes)}


def _pivot(saved: Any) -> Pivot:
    kind, number = saved
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError("not a positive whole number")  # load() says that the file is damaged
    kinds: dict[str, Pivot] = {"normal": Normal(), "random scaling": RandomScaling(number), "t": StudentT(number)}
    return kinds[kind]
