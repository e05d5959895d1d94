"""Predictions of the mean with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privreg.errors import level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.families import Family
    from privreg.inference import Pivot

    Array = NDArray[np.float64]

__all__ = ["Prediction"]


@dataclass(frozen=True)
class Prediction:
    """Predictions of the mean.

    Parameters
    ----------
    linear, se : ndarray, shape (n,)
        Linear predictor and its standard error.
    pivot : Pivot
    family : Family
    index : Index
    """

    linear: Array
    se: Array
    pivot: Pivot
    family: Family
    index: pd.Index

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
        half = self.pivot.critical(level(alpha)) * self.se
        low, high = self.linear - half, self.linear + half
        return np.column_stack([self.family.inverse_link(low), self.family.inverse_link(high)])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns mean, mean_se, mean_ci_lower, mean_ci_upper."""
        limits = self.conf_int(alpha)
        columns = {"mean": self.predicted_mean, "mean_se": self.se_mean}
        columns |= {"mean_ci_lower": limits[:, 0], "mean_ci_upper": limits[:, 1]}
        return pd.DataFrame(columns, index=self.index)
