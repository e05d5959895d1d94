"""Tests of linear restrictions, from estimates, a covariance and a pivot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg.diagnostics import Diagnostic
from privreg.errors import FormulaError, InferenceError, OptionError, flag, level, nearest, shown
from privreg.inference.simultaneous import joint_critical
from privreg.options.unknown import all_known_arguments
from privreg.tables import Paragraph, View, estimates_table, noted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privreg.inference.methods import Pivot
    from privreg.tables import Part

    Array = NDArray[np.float64]

__all__ = ["ContrastTest", "WaldTest", "contrast_test", "wald_test"]

_TITLE: Final = "Tests of linear combinations"


@all_known_arguments
@dataclass(frozen=True, repr=False)
class ContrastTest(View):
    """Linear combinations tested one by one.

    Parameters
    ----------
    effect, sd : ndarray, shape (q,)
        Combination minus its hypothesised value plus that value, and its standard error.
    value : ndarray, shape (q,)
        Hypothesised values.
    pivot : Pivot
    labels : tuple of str
    notes : tuple of Diagnostic
        Whatever takes these tests back; shown with them.
    cov : ndarray, shape (q, q), optional
        Covariance of the combinations.
    """

    effect: Array
    sd: Array
    value: Array
    pivot: Pivot
    labels: tuple[str, ...]
    notes: tuple[Diagnostic, ...] = ()
    cov: Array | None = None

    @property
    def tvalue(self) -> Array:
        """(effect − value) / sd, shape (q,)."""
        return (self.effect - self.value) / self.sd

    @property
    def pvalue(self) -> Array:
        """Two-sided p-values, shape (q,)."""
        return self.pivot.two_sided(self.tvalue)

    def conf_int(self, alpha: float = 0.05, *, simultaneous: bool = False) -> Array:
        """Confidence limits of the combinations, shape (q, 2).

        Parameters
        ----------
        alpha : float
            One minus the level, in (0, 1).
        simultaneous : bool
            Whether all q intervals are to hold together at that level; see `privreg.inference.simultaneous`.

        Raises
        ------
        OptionError
            If `alpha` is not in (0, 1).
        """
        if flag("simultaneous", simultaneous):
            critical = joint_critical(self.pivot, self.sd**2 if self.cov is None else self.cov, level(alpha))
        else:
            critical = self.pivot.critical(level(alpha))
        half = critical * self.sd
        return np.column_stack([self.effect - half, self.effect + half])

    def summary_frame(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Columns coef, std err, t, P>|t| (of each alone), Conf. Int. Low, Conf. Int. Upp.; see :meth:`conf_int`."""
        limits = self.conf_int(alpha, simultaneous=simultaneous)
        return pd.DataFrame(
            {
                "coef": self.effect,
                "std err": self.sd,
                "t": self.tvalue,
                "P>|t|": self.pvalue,
                "Conf. Int. Low": limits[:, 0],
                "Conf. Int. Upp.": limits[:, 1],
            },
            index=pd.Index(self.labels),
        )

    def _layout(self) -> list[Part]:
        return [estimates_table(self.summary_frame(), f"{_TITLE} ({self.pivot.label})"), *noted(self.notes)]


@dataclass(frozen=True, repr=False)
class WaldTest(View):
    """Linear restrictions tested jointly.

    Parameters
    ----------
    statistic : float
        (Rθ̄ − r)ᵀ (R cov Rᵀ)⁻¹ (Rθ̄ − r) with the reported covariance.
    pvalue : float
    df_num : int
        Restrictions.
    law : str
        Of the statistic, if the restrictions hold.
    notes : tuple of Diagnostic
        Whatever takes this test back; shown with it.
    """

    statistic: float
    pvalue: float
    df_num: int
    law: str
    notes: tuple[Diagnostic, ...] = ()

    def _layout(self) -> list[Part]:
        numbers = f"statistic={self.statistic:.4g}, p-value={self.pvalue:.4g}, df={self.df_num}"
        return [Paragraph(f"<Wald test: {numbers},\nlaw: {self.law}>"), *noted(self.notes)]


_UNREADABLE: Final = "(),=+-*/"
"""What patsy takes for something else at the beginning of a name."""


def _from_text(names: Sequence[str], text: str | Sequence[str]) -> tuple[Array, Array]:
    """Restrictions such as "age = bmi" as (R, r), shapes (q, p) and (q,), by patsy's grammar for them."""
    from patsy import DesignInfo, PatsyError

    reason = "it is not a linear equation"
    try:
        found = DesignInfo(list(names)).linear_constraint(text if isinstance(text, str) else list(text))
    except PatsyError as e:
        reason = (str(e).splitlines() or [reason])[0]
    except Exception:
        pass  # patsy's parser raises many kinds; none of them is passed on
    else:
        return np.asarray(found.coefs, dtype=np.float64), np.asarray(found.constants, dtype=np.float64).reshape(-1)
    got = shown(text) if isinstance(text, str) else f"in a list of {len(text)}"
    odd = next((n for n in names if n[:1] in _UNREADABLE), None)
    by_array = f" A name such as {odd!r} can't be written in a string: give an array of shape (q, {len(names)})."
    told = _unknown(names, text) if isinstance(text, str) else None  # a list may be a column by mistake
    why, fix = told or (reason, f"write it as {_example(names)}.")
    raise FormulaError(
        f"the restriction {got} can't be read: {why}; {fix} Coefficients of this fit are {', '.join(names)}."
        f"{by_array if odd is not None else ''}"
    )


def _example(names: Sequence[str]) -> str:
    name = next((n for n in reversed(names) if n[:1] not in _UNREADABLE), "x")
    return repr(f"{name} = 0")


_WORD: Final = re.compile(r"(?<![\w.])[^\W\d][\w.]*(?:\[[^\]]*\]|\([^()]*\))*")


def _unknown(names: Sequence[str], text: str) -> tuple[str, str] | None:
    """What is wrong with the first name that is no coefficient, and what to write; None if there is no such name."""
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.\[(])", " ", text)
    found = _WORD.search(text)
    if found is None:
        return None
    word, said = found[0], shown(found[0])
    bare = re.sub(r"^C\(\s*(\w+).*\)$", r"\1", word)
    levels = [n for n in names if re.match(rf"(?:.*:)?(?:C\()?{re.escape(bare)}(?:,[^\]]*)?\)?\[[^:]*$", n)]
    if levels:
        joint = ", ".join(f"{n} = 0" for n in levels)
        return f"{said} is a factor with the coefficients {', '.join(levels)}", f"for all of them write {joint!r}."
    near = nearest(word, names)
    return f"{said} is no coefficient", f"write it as {_example(names)}." if near is None else f"did you mean {near!r}?"


def _read(names: Sequence[str], restrictions: Any) -> tuple[Array, Array, tuple[str, ...]]:
    labels: tuple[str, ...] = ()
    values: Array
    if isinstance(restrictions, str | list) and len(restrictions) and all(isinstance(r, str) for r in restrictions):
        matrix, values = _from_text(names, restrictions)
        parts = restrictions.split(",") if isinstance(restrictions, str) else restrictions
        labels = tuple(s.strip() for s in parts)
    else:
        given = None
        if isinstance(restrictions, tuple) and len(restrictions) == 2:
            restrictions, given = restrictions
        try:
            matrix = np.atleast_2d(np.asarray(restrictions, dtype=np.float64))
            values = np.zeros(len(matrix)) if given is None else np.atleast_1d(np.asarray(given, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            raise OptionError(
                f"restrictions must be a string such as {_example(names)}, an array of shape (q, {len(names)}), or "
                "(array, values)."
            ) from None
    if matrix.ndim != 2 or matrix.shape[1] != len(names) or values.shape != (len(matrix),):
        raise OptionError(
            f"restrictions of shape {matrix.shape} with {values.size} value(s) don't fit {len(names)} coefficients."
        )
    if not (np.isfinite(matrix).all() and np.isfinite(values).all()):
        raise OptionError("restrictions hold a NaN or infinite number; all must be finite.")
    return matrix, values, labels if len(labels) == len(matrix) else tuple(f"c{i}" for i in range(len(matrix)))


def contrast_test(
    names: Sequence[str], params: Array, cov: Array, pivot: Pivot, restrictions: Any, notes: tuple[Diagnostic, ...] = ()
) -> ContrastTest:
    """Test each row of R θ = r on its own; see `PrivateResults.t_test`."""
    matrix, values, labels = _read(names, restrictions)
    joint = matrix @ cov @ matrix.T
    return ContrastTest(matrix @ params, np.sqrt(np.diag(joint)), values, pivot.along(matrix), labels, notes, joint)


def wald_test(
    names: Sequence[str], params: Array, cov: Array, pivot: Pivot, restrictions: Any, notes: tuple[Diagnostic, ...] = ()
) -> WaldTest:
    """Test R θ = r jointly; see `PrivateResults.wald_test`.

    Raises
    ------
    InferenceError
        If the restrictions are redundant.
    """
    matrix, values, _ = _read(names, restrictions)
    q = len(matrix)
    if np.linalg.matrix_rank(matrix) < q:
        raise InferenceError(f"the {q} restrictions are redundant or zero; leave out those implied by the others.")
    gap = matrix @ params - values
    try:
        statistic = float(gap @ np.linalg.solve(matrix @ cov @ matrix.T, gap))
    except np.linalg.LinAlgError:
        raise InferenceError(
            f"the covariance of the {q} restrictions is singular; test fewer at once, or rescale their coefficients."
        ) from None
    return WaldTest(statistic, pivot.along(matrix).joint_sf(statistic, q), q, pivot.joint_label(q), notes)
