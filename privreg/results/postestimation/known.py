"""Estimates with their covariance, by which they are tested and predicted from, and views of what follows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Pivot
from privreg.errors import InferenceError
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


def means_frame(mean: Array, se: Array, limits: Array, reliable: NDArray[np.bool_], index: pd.Index) -> pd.DataFrame:
    """Columns mean, mean_se, mean_ci_lower, mean_ci_upper, reliable, of any shape flattened."""
    low, high = limits.reshape(-1, 2).T
    columns = {"mean": mean.ravel(), "mean_se": se.ravel(), "mean_ci_lower": low, "mean_ci_upper": high}
    return Frame(columns | {"reliable": reliable}, index=index)
