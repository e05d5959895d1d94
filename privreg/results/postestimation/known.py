"""Estimates with their covariance, by which they are tested and predicted from, and views of what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Pivot
from privreg.collector.inference.simultaneous import joint_critical
from privreg.errors import InferenceError, flag, interval_level
from privreg.results.data import Frame, ResultData
from privreg.tables import Part, View, estimates_table, noted
from privreg.tables.diagnostics import Diagnostic


class Known(NamedTuple):
    """Estimates with their precision by one method."""

    fit: ResultData
    cov: Array  # Shape (p, p), on the scale of standard errors
    pivot: Pivot  # Distribution of the t-ratios
    notes: tuple[Diagnostic, ...]  # Whatever takes these estimates back

    def precision(self, what: str) -> Array:
        """Inverse of the covariance, which `what` needs, in a symmetric matrix.
        Raises InferenceError if some combination of the coefficients has no positive variance.
        """
        # of correlations: whether they are of full rank has nothing to do with units
        scale = np.sqrt(np.diag(self.cov)) if (np.diag(self.cov) > 0.0).all() else np.full(len(self.cov), math.nan)
        if np.isfinite(self.cov).all() and np.isfinite(scale).all():
            values, vectors = np.linalg.eigh(self.cov / np.outer(scale, scale))
            if values[0] > len(scale) * np.finfo(float).eps * values[-1]:
                return np.asarray((vectors / values) @ vectors.T / np.outer(scale, scale))
        raise InferenceError(
            f"{what}() needs a covariance under which every combination of coefficients has a variance, and this one "
            "has not; fit with more people, a larger budget or fewer terms, or choose another method=."
        )

    def errors(self, gradient: Array) -> Array:
        """Standard errors of what has these gradients by the coefficients, shape (q, p); shape (q,)."""
        return np.asarray(np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gradient, self.cov, gradient), 0.0)))


class Estimated(View):
    """Estimates with standard errors and limits, a line each: those of the first column of their frame."""

    pivot: Pivot
    title: str
    notes: tuple[Diagnostic, ...]

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the numbers of the table; the last three columns are limits, and whether no note takes a line back."""
        raise NotImplementedError

    def _layout(self) -> list[Part]:
        return [estimates_table(self.summary_frame(), f"{self.title} ({self.pivot.label})"), *noted(self.notes)]


@dataclass(frozen=True, repr=False)
class Tested(Estimated):
    """Numbers tested one by one, with limits evenly about them."""

    effect: Array  # Numbers, shape (q,)
    se: Array  # Their standard errors, shape (q,)
    pivot: Pivot  # Law of their t-ratios
    index: pd.Index  # Their names
    title: str
    notes: tuple[Diagnostic, ...]  # Whatever takes them back; shown with them
    reliable: NDArray[np.bool_]  # Which of them no note takes back, shape (q,)
    value: Array | float = 0.0  # Hypothesised values
    cov: Array | None = None  # Covariance of the numbers, shape (q, q), if it is known
    _called: ClassVar = "effect"

    @property
    def tvalue(self) -> Array:
        """(effect − value) over its standard error, shape (q,); NaN for what is 0 whatever the coefficients."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((self.effect - self.value) / self.se)

    @property
    def pvalue(self) -> Array:
        """Two-sided p-values, shape (q,)."""
        return self.pivot.two_sided(self.tvalue)

    def conf_int(self, alpha: float = 0.05, *, simultaneous: bool = False) -> Array:
        """Confidence limits, shape (q, 2).

        Parameters
        ----------
        alpha : float
            One minus the level, in (0, 1).
        simultaneous : bool
            Whether all q intervals are to hold together at that level, see `privreg.collector.inference.simultaneous`;
            of marginal effects by Bonferroni's inequality.

        Raises
        ------
        OptionError
            If `alpha` is not in (0, 1).
        """
        joint, level = flag("simultaneous", simultaneous), interval_level(alpha)
        cov = self.se**2 if self.cov is None else self.cov
        half = (joint_critical(self.pivot, cov, level) if joint else self.pivot.critical(level)) * self.se
        return np.column_stack([self.effect - half, self.effect + half])

    def summary_frame(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Columns coef or effect, std err, t, P>|t| (of each alone), Conf. Int. Low, Conf. Int. Upp., reliable.

        The last says whether no note takes a line back. The limits are those of :meth:`conf_int`.
        """
        limits = self.conf_int(alpha, simultaneous=simultaneous)
        columns = {self._called: self.effect, "std err": self.se, "t": self.tvalue, "P>|t|": self.pvalue}
        columns |= {"Conf. Int. Low": limits[:, 0], "Conf. Int. Upp.": limits[:, 1]}
        return Frame(columns | {"reliable": self.reliable}, index=self.index)


def means_frame(mean: Array, se: Array, limits: Array, reliable: NDArray[np.bool_], index: pd.Index) -> pd.DataFrame:
    """Columns mean, mean_se, mean_ci_lower, mean_ci_upper, reliable, of any shape flattened."""
    low, high = limits.reshape(-1, 2).T
    columns = {"mean": mean.ravel(), "mean_se": se.ravel(), "mean_ci_lower": low, "mean_ci_upper": high}
    return Frame(columns | {"reliable": reliable}, index=index)
