"""Tests of linear restrictions, from estimates whose covariance and pivot are known."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Normal, Pivot, StudentT
from privreg.collector.inference.resampling import joint_critical
from privreg.errors import (
    FormulaError,
    InferenceError,
    OptionError,
    as_named,
    flag,
    interval_level,
    nearest,
    plain_name,
    shown,
)
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, ResultData
from privreg.tables import MARK, Paragraph, Part, View, estimates_table, noted
from privreg.tables.diagnostics import Diagnostic, along, doubts, entered


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


@all_known_arguments
@dataclass(frozen=True, repr=False)
class ContrastTest(View):
    """Linear combinations tested one by one; `effect` holds the combinations, `value` what they are tested against."""

    effect: Array  # Numbers, shape (q,)
    se: Array  # Their standard errors, shape (q,)
    pivot: Pivot  # Law of their t-ratios
    index: pd.Index  # Their names
    notes: tuple[Diagnostic, ...]  # Whatever takes them back; shown with them
    reliable: NDArray[np.bool_]  # Which of them no note takes back, shape (q,)
    value: Array | float = 0.0  # Hypothesised values
    cov: Array | None = None  # Covariance of the numbers, shape (q, q), if it is known

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

        `simultaneous` ones hold all together at that level, see `privreg.collector.inference.resampling`; by
        Bonferroni's inequality where no covariance is known.
        """
        joint, level = flag("simultaneous", simultaneous), interval_level(alpha)
        cov = self.se**2 if self.cov is None else self.cov
        half = (joint_critical(self.pivot, cov, level) if joint else self.pivot.critical(level)) * self.se
        return np.column_stack([self.effect - half, self.effect + half])

    def summary_frame(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Columns coef, std err, t, P>|t| (of each alone), Conf. Int. Low, Conf. Int. Upp., reliable.

        The last says whether no note takes a line back. The limits are those of :meth:`conf_int`.
        """
        limits = self.conf_int(alpha, simultaneous=simultaneous)
        columns = {"coef": self.effect, "std err": self.se, "t": self.tvalue, "P>|t|": self.pvalue}
        columns |= {"Conf. Int. Low": limits[:, 0], "Conf. Int. Upp.": limits[:, 1]}
        return Frame(columns | {"reliable": self.reliable}, index=self.index)

    @property
    def sd(self) -> Array:
        """Standard errors, as statsmodels calls them, shape (q,)."""
        return self.se

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the combinations."""
        return tuple(self.index)

    def _layout(self) -> list[Part]:
        title = f"Tests of linear combinations ({self.pivot.label})"
        return [estimates_table(self.summary_frame(), title), *noted(self.notes)]


@dataclass(frozen=True, repr=False)
class WaldTest(View):
    """Linear restrictions tested jointly."""

    statistic: float  # (Rθ̄ − r)ᵀ (R cov Rᵀ)⁻¹ (Rθ̄ − r) with the reported covariance
    pvalue: float
    df_num: int  # Restrictions
    law: str  # Distribution of the statistic, if the restrictions hold
    notes: tuple[Diagnostic, ...] = ()  # Whatever takes this test back; shown with it
    fvalue: float = math.nan  # Statistic as an F ratio, by `df_num` and `df_denom`; NaN where its distribution is no F
    df_denom: float = math.nan  # Infinite for normal limits, where `df_num` × F is χ²; Hotelling's for Student's t
    about: str = ""  # Hypothesis, in words; "" for restrictions that the caller wrote

    @property
    def reliable(self) -> bool:
        """True if no note takes the test back."""
        return not doubts(self.notes)

    @property
    def citation(self) -> str:
        """The test as reports cite it: "F(3, 13) = 4.21, p = 0.028", "χ²(3) = 12.6, p = 0.006" of normal limits, and
        "Wald(3) = 31.2, p = 0.041" of a distribution that is neither.
        """
        if math.isnan(self.df_denom):
            head = f"Wald({self.df_num}) = {self.statistic:.4g}"
        elif math.isinf(self.df_denom):
            head = f"χ²({self.df_num}) = {self.statistic:.4g}"
        else:
            head = f"F({self.df_num}, {self.df_denom:g}) = {self.fvalue:.4g}"
        return f"{head}, p {'< 0.001' if self.pvalue < 0.001 else f'= {self.pvalue:.3f}'}"

    def _layout(self) -> list[Part]:
        about = [Paragraph(self.about)] if self.about else []
        ratio = f"F({self.df_num}, ∞) = {self.fvalue:.4g}, " if math.isinf(self.df_denom) else ""
        exact = f"Statistic {self.statistic:.4g}, {ratio}p-value {self.pvalue:.4g} by {self.law}"
        mark = "" if self.reliable else f" {MARK}"
        return [*about, Paragraph(f"Wald test: {self.citation}{mark}\n{exact}"), *noted(self.notes)]


_BETWEEN: Final = re.compile(r"\s*:\s*(?![^\[(]*[\])])")
"""Mark between the factors of an interaction, not within brackets."""


def factors_of(name: str) -> tuple[str, ...]:
    """Factors of an interaction in alphabetical order, "C(g)" as "g"."""
    return tuple(sorted(re.sub(r"\bC\(\s*(\w+)[^()]*\)", r"\1", part) for part in _BETWEEN.split(name.strip())))


_NUMBER: Final = re.compile(r"[\d.]+(?:[eE][+-]?\d+)?")
_COMMA: Final = re.compile(r",(?![^(\[]*[)\]])")  # A comma between names, and none within brackets


def _parts(text: str, names: Sequence[str]) -> list[str]:
    """Restrictions that commas separate, but for commas within names."""
    for name in names:
        text = text.replace(name, name.replace(",", "\0"))
    return [part.replace("\0", ",") for part in _COMMA.split(text)]


def _read(fit: ResultData, restrictions: Any) -> tuple[Array, Array, tuple[str, ...]]:
    """Restrictions as R, r and labels, shapes (q, p), (q,) and (q,), by patsy's `DesignInfo.linear_constraint`.

    A term's name stands for all its coefficients.
    """
    from patsy import DesignInfo

    names = fit.names
    plain = plain_name if len({*map(plain_name, names)}) == len(names) else str
    if isinstance(restrictions, tuple | pd.Index) and all(isinstance(r, str) for r in restrictions):
        restrictions = list(restrictions)
    listed = restrictions if isinstance(restrictions, list) else [restrictions]
    text, asked = bool(listed) and all(isinstance(r, str) and r for r in listed), restrictions
    labels = tuple[str, ...]()
    if text:
        known = {plain(name): [j] for j, name in enumerate(names)}
        known |= {plain(name): list(at) for name, at in fit.of_terms.items()}
        alone, asked = listed is not restrictions and plain(restrictions) not in known, list(map(plain, listed))
        words = _parts(asked[0], list(known)) if alone else asked
        if all(word in known for word in words):
            chosen = list(dict.fromkeys(j for word in words for j in known[word]))
            return np.eye(len(names))[chosen], np.zeros(len(chosen)), tuple(names[j] for j in chosen)
        labels = tuple(word.strip() for word in (_parts(restrictions, names) if alone else listed))
        if any(map(_NUMBER.fullmatch, names)):  # patsy would take them for numbers
            raise _unreadable(fit, restrictions, "")
    elif isinstance(restrictions, dict):
        labels = tuple(f"{name} = {value}" for name, value in restrictions.items())
        asked = {plain(str(name)): value for name, value in restrictions.items()}
    given = restrictions[0] if isinstance(restrictions, tuple) and restrictions else restrictions
    try:
        if not isinstance(given, str | list | tuple | dict | np.ndarray) or np.iscomplexobj(np.asarray(given)):
            raise TypeError  # a table's columns may come in another order than the coefficients
        found = DesignInfo(list(map(plain, names))).linear_constraint(asked)
        matrix, values = np.asarray(found.coefs, np.float64), np.asarray(found.constants, np.float64).reshape(-1)
    except Exception as e:  # patsy's parser raises many kinds; none of them is passed on
        if text:
            raise _unreadable(fit, restrictions, str(e).partition("\n")[0]) from None
        what = f"of shape {restrictions.shape} " if isinstance(restrictions, np.ndarray) else ""
        raise OptionError(
            f"restrictions {what}don't fit {len(names)} coefficients: give a string such as '{names[-1]} = 0', numbers "
            f"by name, a NumPy array of shape (q, {len(names)}), or (array, values)."
        ) from None
    if not (np.isfinite(matrix).all() and np.isfinite(values).all()):
        raise OptionError("restrictions hold a NaN or infinite number; all must be finite.")
    return matrix, values, labels if len(labels) == len(matrix) else tuple(f"c{i}" for i in range(len(matrix)))


_WORD: Final = re.compile(r"[^\W\d](?:[\w.:]|\[[^\]]*\]|\([^()]*\))*")


def _unreadable(fit: ResultData, given: str | list[str], reason: str) -> FormulaError:
    """Error for restrictions such as "age = bmi" that patsy can't read for this reason, with the name that is meant."""
    names, terms = fit.names, fit.of_terms
    words = _WORD.findall(given) if isinstance(given, str) else []
    word = as_named(next((w for w in words if as_named(w, names) not in names), ""), terms)
    why, fix = reason or "it is not a linear equation", f"write it as {names[-1] + ' = 0'!r}."
    typed = plain_name(given) if isinstance(given, str) else ""
    calculated = {n: plain_name(n)[2:-1] for n in names if n[:2] == "I(" and plain_name(n) not in typed}
    if name := next((n for n, inner in calculated.items() if inner in typed), None):
        why, fix = f"{calculated[name]} is called {name!r} there", f"write '{name} = 0'."
    elif word in terms:
        joint, many = ", ".join(f"{names[j]} = 0" for j in terms[word]), len(terms[word]) > 1
        why = f"{shown(word)} is a term of {'several coefficients' if many else 'one coefficient, which has a level'}"
        fix = f"{'for all of them ' * many}write {joint!r}."
    elif word:  # a list may be a column by mistake, and is never shown
        turned = next((n for n in (*names, *terms) if factors_of(n) == factors_of(word)), None)
        near = turned or nearest(word, [n for n in (*names, *terms) if ":" in n or ":" not in word])
        why = f"{shown(word)} is no coefficient{' and no term' if terms else ''}"
        fix = fix if near is None else f"did you mean {near!r}?"
    if odd := next((n for n in names if _NUMBER.fullmatch(n) or n[:1] in "(),=+-*/"), None):  # patsy's grammar
        why = f"no string can hold a name such as {odd!r}"
        fix = f"give a NumPy array of shape (q, {len(names)})."
    got = f"in a list of {len(given)}" if isinstance(given, list) else shown(given)
    return FormulaError(
        f"the restriction {got} can't be read: {why}; {fix} Coefficients of this fit are {', '.join(names)}."
    )


def contrast_test(known: Known, restrictions: Any) -> ContrastTest:
    """Test each row of R θ = r on its own; see `PrivateResults.t_test`."""
    matrix, values, labels = _read(known.fit, restrictions)
    joint, ok, pivot = matrix @ known.cov @ matrix.T, along(known.notes, matrix), known.pivot.along(matrix)
    effect, se = matrix @ known.fit.params, np.sqrt(np.diag(joint))
    notes = tuple(note for note in known.notes if entered(note, matrix).any())
    return ContrastTest(effect, se, pivot, pd.Index(labels), notes, ok, values, joint)


def wald_test(known: Known, restrictions: Any, about: str = "") -> WaldTest:
    """Test R θ = r jointly; see `PrivateResults.wald_test`.
    Raises InferenceError if the restrictions are redundant.
    """
    matrix, values, _ = _read(known.fit, restrictions)
    q, pivot = len(matrix), known.pivot
    if np.linalg.matrix_rank(matrix) < q:
        raise InferenceError(f"the {q} restrictions are redundant or zero; leave out those implied by the others.")
    gap = matrix @ known.fit.params - values
    try:
        statistic = float(gap @ np.linalg.solve(matrix @ known.cov @ matrix.T, gap))
    except np.linalg.LinAlgError:
        raise InferenceError(
            f"the covariance of the {q} restrictions is singular; test fewer at once, or rescale their coefficients."
        ) from None
    p, f, df = pivot.along(matrix).joint_sf(statistic, q), math.nan, math.nan  # of a distribution that is no F
    if isinstance(pivot, Normal):
        f, df = statistic / q, math.inf
    elif isinstance(pivot, StudentT):
        df = float(pivot.df - q + 1)
        f = statistic * df / (q * pivot.df)
    notes = tuple(note for note in known.notes if entered(note, matrix).any())
    return WaldTest(statistic, p, q, pivot.joint_label(q), notes, f, df, about)
