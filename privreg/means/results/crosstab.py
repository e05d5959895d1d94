"""Two-way tables of estimated shares, and the test that two factors are independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from privreg.arrays import Array
from privreg.diagnostics import Diagnostic
from privreg.errors import choose, interval_level
from privreg.inference.pivots import Normal
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame
from privreg.tables import Paragraph, Part, Table, View, noted


class Crossed(NamedTuple):
    """Where a two-way table is among the estimates, row by row, and what its rows and columns are called."""

    first: int
    row: str
    rows: tuple[str, ...]
    column: str
    columns: tuple[str, ...]

    @property
    def here(self) -> slice:
        """Positions of its cells."""
        return slice(self.first, self.first + len(self.rows) * len(self.columns))


@dataclass(frozen=True, repr=False)
class IndependenceTest(View):
    """Test that two factors are independent. Made by :meth:`MeansResults.test_independence`.

    Notes
    -----
    The statistic is h'(J V J')⁻¹h, h the differences s p_ij − r_i c_j of shares p, their sum s and margins r, c; J the
    slopes of h at independence, V the covariance of the shares: of sampling and of noise. Noise that is independent and
    alike in all cells leaves h unbiased. χ² is the limit for many people, as of Pearson's test without noise.
    Wald (1943), *Transactions of the American Mathematical Society* 54.
    """

    statistic: float
    df: int  # (rows − 1)(columns − 1)
    pvalue: float  # By χ² with so many degrees of freedom
    of: str  # The two factors
    notes: tuple[Diagnostic, ...] = ()  # Whatever takes the test back

    @property
    def words(self) -> str:
        """The test in one line."""
        return f"chi-square {self.statistic:.4g} with {self.df} degrees of freedom, p-value {self.pvalue:.3f}"

    def _layout(self) -> list[Part]:
        return [Paragraph(f"Independence of {self.of}, noise accounted for: {self.words}"), *noted(self.notes)]


def independence(shares: Array, cov: Array, of: str, notes: Sequence[Diagnostic] = ()) -> IndependenceTest:
    """Test independence of estimated shares, shape (a, b), with covariance of shape (ab, ab)."""
    from scipy.stats import chi2

    a, b = shares.shape
    row, column, whole = shares.sum(axis=1), shares.sum(axis=0), shares.sum()
    product = np.outer(row, column)
    slopes = np.einsum("ij,k,l->ijkl", product / whole, np.ones(a), np.ones(b))
    slopes += np.einsum("ik,jl->ijkl", whole * np.eye(a), np.eye(b))
    slopes -= np.einsum("j,ik,l->ijkl", column, np.eye(a), np.ones(b))
    slopes -= np.einsum("i,k,jl->ijkl", row, np.ones(a), np.eye(b))
    used, df = slopes[:-1, :-1].reshape(-1, a * b), (a - 1) * (b - 1)
    differences = (whole * shares - product)[:-1, :-1].ravel()
    if not np.isfinite(differences).all():
        return IndependenceTest(math.nan, df, math.nan, of, tuple(notes))
    statistic = float(differences @ np.linalg.pinv(used @ cov @ used.T, hermitian=True) @ differences)
    return IndependenceTest(statistic, df, float(chi2.sf(statistic, df)), of, tuple(notes))


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Crosstab(View):
    """A two-way table of shares. Made by :meth:`MeansResults.crosstab`."""

    table: Crossed
    estimates: Array  # Shares of all records that have both values; shape (a, b)
    cov: Array  # shape (ab, ab)
    people: int  # Records
    guarantee: str
    notes: tuple[Diagnostic, ...] = ()  # Whatever takes its cells back
    missing: float = math.nan  # Share of the records that lack one of the values; NaN where it isn't asked
    missing_error: float = math.nan  # Its standard error

    @property
    def shares(self) -> pd.DataFrame:
        """Shares, with their sums in the last row and column; they may come out below 0, being unbiased."""
        return self._framed(self._sums() @ self.estimates.ravel())

    @property
    def std_errors(self) -> pd.DataFrame:
        """Standard errors of the shares and of their sums, of sampling and of noise."""
        sums = self._sums()
        return self._framed(np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", sums, self.cov, sums), 0.0)))

    @property
    def counts(self) -> pd.DataFrame:
        """Shares times the number of records that have both values."""
        return self.shares * (self.people * (1.0 - float(np.nan_to_num(self.missing))))

    def proportions(self, margin: str = "rows", *, alpha: float = 0.05) -> pd.DataFrame:
        """Shares within rows or columns, as R's ``prop.table(table, 1)``.

        Parameters
        ----------
        margin : {"rows", "columns"}
            Within which shares add up to 1.
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        DataFrame
            Index: row and column level; share, std_error, conf_low, conf_high, normal limits by the delta method. NaN
            of a row whose share came out as 0 or less. ``["share"].unstack()`` is the table.
        """
        rows = choose("margin", margin, ("rows", "columns")) == "rows"
        a, b = self.estimates.shape
        same = np.kron(np.eye(a), np.ones((b, b))) if rows else np.kron(np.ones((a, a)), np.eye(b))
        whole = same @ self.estimates.ravel()
        whole = np.where(whole > 0.0, whole, math.nan)
        share = self.estimates.ravel() / whole
        slopes = (np.eye(a * b) - share[:, None] * same) / whole[:, None]
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slopes, self.cov, slopes), 0.0))
        half = Normal().critical(interval_level(alpha)) * error
        t = self.table
        index = pd.MultiIndex.from_product([t.rows, t.columns], names=[t.row, t.column])
        columns = {"share": share, "std_error": error, "conf_low": share - half, "conf_high": share + half}
        return Frame(columns, index=index)

    def conf_int(self, alpha: float = 0.05) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Lower and upper normal limits of every share, each by itself; `alpha` is in (0, 1)."""
        half = Normal().critical(interval_level(alpha)) * self.std_errors
        return self.shares - half, self.shares + half

    @property
    def test(self) -> IndependenceTest:
        """Test that the two factors are independent."""
        return independence(self.estimates, self.cov, f"{self.table.row} and {self.table.column}", self.notes)

    def _sums(self) -> Array:
        """Cells, and sums of rows and columns, as combinations of cells; shape ((a + 1)(b + 1), ab)."""
        a, b = self.estimates.shape
        return np.asarray(np.kron(np.vstack([np.eye(a), np.ones(a)]), np.vstack([np.eye(b), np.ones(b)])), np.float64)

    def _framed(self, values: Array) -> pd.DataFrame:
        t = self.table
        index, columns = ([*some, "All"] for some in (t.rows, t.columns))
        values = values.reshape(len(index), len(columns))
        return pd.DataFrame(values, pd.Index(index, name=t.row), pd.Index(columns, name=t.column))

    def _layout(self) -> list[Part]:
        t, both = self.table, zip(self.shares.to_numpy(), self.std_errors.to_numpy(), strict=True)
        *rows, last = [[f"{p:.4f}\n({e:.4f})" for p, e in zip(*row, strict=True)] for row in both]
        title = f"Joint shares of {t.row} (rows) and {t.column} (columns), of records that have both"
        lost = f"{self.missing:.4f} ({self.missing_error:.4f}) of the records lack a value of one of them, or both."
        below = "\n".join(
            (
                "Standard errors of sampling and noise in brackets.",
                f"Independence, noise accounted for: {self.test.words}.",
                *([] if math.isnan(self.missing) else [f"Missing: {lost}"]),
                f"{self.people:,} records; {self.guarantee}.",
            )
        )
        shown = Table(t.rows, (*t.columns, "All"), rows, title, facts=[("All", [v.replace("\n", " ") for v in last])])
        return [shown, Paragraph(below), *noted(self.notes)]
