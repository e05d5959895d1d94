"""A factor's levels compared: pairwise differences of its coefficients, and marginal means with their contrasts.

Nothing here reads private rows: all of it follows from released coefficients, public declarations and public rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Pivot
from privreg.errors import DataError, OptionError, choose, interval_level, quietly, shown
from privreg.families.logistic import class_shares
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, ResultData
from privreg.results.postestimation.hypothesis import TITLE, ContrastTest, contrast_test
from privreg.results.postestimation.known import Estimated, Known, means_frame
from privreg.results.postestimation.prediction import estimand_words, in_order, note_outside
from privreg.schema.declarations import iso
from privreg.tables import Part, Table, cells, estimates_table, marked, noted
from privreg.tables.diagnostics import Diagnostic, along, note

ADJUSTMENTS: Final = {
    "holm": "h", "bonferroni": "b", "sidak": "s", "holm-sidak": "hs", "simes-hochberg": "sh", "hommel": "ho",
    "fdr_bh": "fdr_bh", "fdr_by": "fdr_by", "fdr_tsbh": "fdr_tsbh", "fdr_tsbky": "fdr_tsbky",
}  # fmt: skip
"""Ways of adjusting p-values, by the names and short names of statsmodels' `multipletests`."""

LARGEST: Final = 700.0  # Logarithm of a number, at most

_GRID: Final = 10_000  # Rows of a reference grid, at most


@all_known_arguments
@dataclass(frozen=True, repr=False)
class PairwiseTests(Estimated):
    """Differences between the levels of a factor, with p-values adjusted for their number."""

    tests: ContrastTest  # Each difference by itself
    method: str  # Method by which p-values were adjusted
    # Probability of a false rejection (a false discovery rate of the ``fdr`` methods); one minus the intervals' level
    alpha: float
    title: str

    @property
    def pvalue(self) -> Array:
        """Two-sided p-values, each by itself, shape (q,)."""
        return self.tests.pvalue

    @property
    def pvalue_adjusted(self) -> Array:
        """P-values adjusted for the number of differences, shape (q,); NaN where there is none."""
        return self._adjusted()[1]

    @property
    def reject(self) -> NDArray[np.bool_]:
        """Which differences are distinguished from 0 at level `alpha`, all differences counted, shape (q,)."""
        return self._adjusted()[0]

    @property
    def result_frame(self) -> pd.DataFrame:
        """Frame of statsmodels' `t_test_pairwise`: summary_frame() of the tests, pvalue-METHOD, reject-METHOD.

        The last column, reliable, says whether no note takes a difference back. The limits are those of each difference
        alone; ``tests.conf_int(simultaneous=True)`` has wider ones.
        """
        reject, adjusted = self._adjusted()
        frame = self.tests.summary_frame(self.alpha)
        kept = frame.pop("reliable")
        frame = frame.assign(**{f"pvalue-{self.method}": adjusted, f"reject-{self.method}": reject})
        return Frame(frame.assign(reliable=kept))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return each difference by itself."""
        return self.tests.summary_frame(alpha)

    def _adjusted(self) -> tuple[NDArray[np.bool_], Array]:
        from statsmodels.stats.multitest import multipletests  # slow to import

        p = self.tests.pvalue
        known = np.isfinite(p)
        reject, adjusted = np.zeros(len(p), dtype=np.bool_), np.full(len(p), np.nan)
        if known.any():
            reject[known], adjusted[known], *_ = multipletests(p[known], self.alpha, ADJUSTMENTS[self.method])
        return reject, adjusted

    def _layout(self) -> list[Part]:
        columns = ["estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "reliable"]
        frame = self.tests.summary_frame(self.alpha).set_axis(columns, axis=1).assign(p_value=self.pvalue_adjusted)
        head, rows = cells(frame, self.alpha)
        head[3] = f"P {self.method}"
        title = f"{self.title} ({self.tests.pivot.label}; p-values adjusted for {len(rows)}, limits not)"
        names = marked(self.tests.labels, frame["reliable"])
        return [Table(names, head, rows, title), *noted(self.tests.notes)]


def check_adjustment(method: str) -> str:
    """Return the full name of a way of adjusting p-values, given by it or by its short name."""
    short = {s: name for name, s in ADJUSTMENTS.items()}
    if isinstance(method, str) and method in short:
        return short[method]
    return str(choose("method", method, tuple(ADJUSTMENTS)))


def factor_of(fit: ResultData, factor: Any) -> str:
    """Column of a factor of the model, given by its name or by that of its term; None is the only one.
    Raises OptionError if it is no such factor; the message lists those there are.
    """
    design = fit.design
    known = [c for c in dict.fromkeys(c for t in design.terms for c in t.reads) if c in design.schema.levels]
    terms = {**{f"C({c})": c for c in known}, **{t.name: t.reads[0] for t in design.terms if t.levels}}
    if isinstance(factor, str) and (factor in terms or factor in known):
        return str(terms.get(factor, factor))
    if not known:
        raise OptionError(
            "this model has no factor whose levels could be compared; declare one by levels= and name it in a formula. "
            "get_prediction(new) has means at values of numbers."
        )
    if factor is None:
        if len(known) > 1:
            raise OptionError(f"this model has several factors; name one of {', '.join(map(repr, known))}.")
        return str(known[0])
    numbers = [c for t in design.terms for c in t.reads if c not in known]
    if isinstance(factor, str) and factor in numbers:
        raise OptionError(
            f"{factor!r} is a number and has no levels; t_test({factor!r}) tests its slope, and get_prediction(new) "
            "has means at values of it, given a row of public values for each. Factors are "
            f"{', '.join(map(repr, known))}."
        )
    return str(choose("the factor", factor, known))


def factors_of(fit: ResultData, factor: Any) -> tuple[str, ...]:
    """Columns of a factor, or of several whose levels are crossed, given in a list or as "g:h"; see `factor_of`."""
    crossed = isinstance(factor, str) and ":" in factor and factor not in fit.design.columns
    several = factor.split(":") if crossed else factor if isinstance(factor, list | tuple) and factor else [factor]
    return tuple(dict.fromkeys(factor_of(fit, one) for one in several))


def pairwise(known: Known, factor: Any, method: str, alpha: float) -> PairwiseTests:
    """Test the differences between a factor's levels; see `PrivateResults.t_test_pairwise`."""
    fit = known.fit
    column, how = ":".join(factors_of(fit, factor)), check_adjustment(method)
    term = next((t for t in fit.design.terms if t.levels and t.reads == (column,)), None)
    if term is None:
        raise OptionError(
            f"{column!r} has no term of its own, only with others; marginal_means({column!r}).pairwise() compares its "
            "levels at public covariates."
        )
    width, responses = len(fit.design.names), fit.baseline[1:] or ("",)
    rows, labels = [], []
    for k, response in enumerate(responses):
        for i, j in itertools.combinations(range(len(term.levels)), 2):
            row = np.zeros(len(fit.names))
            row[[k * width + c for c in term.columns]] = term.coding[j] - term.coding[i]
            rows.append(row)
            labels.append(f"{response}: " * bool(response) + f"{term.levels[j]}-{term.levels[i]}")
    tests = contrast_test(known, np.array(rows))
    title, notes = f"Differences between levels of {column}", tests.notes
    more = [t for t in fit.design.terms if column in t.reads and t.name != term.name]
    if more:
        title += f" {_where(fit, column, more)}"
        by = ", ".join(_partners(column, more))
        said = f"{column} is in {', '.join(t.name for t in more)} too: its differences depend on {by}; "
        said += f"marginal_means({column!r}).pairwise() averages them over levels and has numbers at public covariates"
        notes = (*notes, Diagnostic("remark", said))
    return PairwiseTests(replace(tests, index=pd.Index(labels), notes=notes), how, interval_level(alpha), title)


def _partners(column: str, terms: Sequence[Any]) -> list[str]:
    """Columns that a factor is multiplied by in some terms."""
    return [c for c in dict.fromkeys(c for t in terms for c in t.reads) if c != column]


def _where(fit: ResultData, column: str, terms: Sequence[Any]) -> str:
    """At which values of the columns it is multiplied by a factor's coefficients are its levels' differences."""
    at, over = list[str](), list[str]()
    for name in _partners(column, terms):
        main = next((t for t in fit.design.terms if t.levels and t.reads == (name,)), None)
        if name not in fit.design.schema.levels and all(name in t.name.split(":") for t in terms if name in t.reads):
            at.append(f"{name} = 0")
        elif main is not None and main.reference is not None:
            at.append(f"{name} = {main.reference}")
        elif main is not None and np.allclose(main.coding.mean(axis=0), 0.0):
            over.append(name)
        else:
            return f"where what {column} is multiplied by is 0"
    said = [f"at {', '.join(at)}"] * bool(at) + [f"averaged over levels of {', '.join(over)}"] * bool(over)
    return ", ".join(said)


# --- marginal means --------------------------------------------------------------------------------------


@all_known_arguments
@dataclass(frozen=True, repr=False)
class MarginalMeans(Estimated):
    """Means at each level of a factor; see `PrivateResults.marginal_means`."""

    mean: Array  # Shape (q,)
    se: Array  # Standard errors (delta method), shape (q,)
    gradient: Array  # Derivatives of the means by the coefficients, shape (q, p)
    known: Known  # Estimates of the coefficients
    pivot: Pivot  # Distribution of the means' t-ratios
    index: pd.Index  # Levels; of a multinomial fit the level of the response before them
    title: str
    notes: tuple[Diagnostic, ...]  # Whatever takes the standard errors back; shown with them
    reliable: NDArray[np.bool_]  # Which means no note takes back, shape (q,)
    scale: str = "identity"  # Or "logit" or "log": on which limits are evenly about the mean, so that they are possible

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Confidence limits of the means, shape (q, 2)."""
        half = self.pivot.critical(interval_level(alpha)) * self.se
        if self.scale == "identity":
            return np.column_stack([self.mean - half, self.mean + half])
        tiny = np.finfo(np.float64).tiny
        mean, rest = np.maximum(self.mean, tiny), np.maximum(1.0 - self.mean, tiny)
        with np.errstate(over="ignore"):  # of a mean that is hardly known a limit may be infinite
            if self.scale == "log":
                return np.column_stack([mean * np.exp(-half / mean), mean * np.exp(half / mean)])
            away = np.minimum(half / (mean * rest), LARGEST)
        return np.column_stack([mean / (mean + rest * np.exp(away)), mean / (mean + rest * np.exp(-away))])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns mean, mean_se, mean_ci_lower, mean_ci_upper, reliable (no note takes it back); a line a level."""
        return means_frame(self.mean, self.se, self.conf_int(alpha), self.reliable, self.index)

    def pairwise(self, method: str = "holm", *, alpha: float = 0.05) -> PairwiseTests:
        """Compare the means of every two levels.

        Parameters
        ----------
        method : str
            How p-values are adjusted; see `PrivateResults.t_test_pairwise`.
        alpha : float
            One minus the level of the limits.

        Returns
        -------
        PairwiseTests
            Differences of means, later less earlier level (delta method). They are marked where limits evenly about a
            mean would be impossible; R's emmeans tests linear predictors, as ``which="linear"`` does here.
        """
        how, size = check_adjustment(method), len(self.index.unique(self.index.names[-1]))
        pairs = [(i, j) for i, j in itertools.combinations(range(len(self.mean)), 2) if i // size == j // size]
        at, to = np.array(pairs, dtype=int).T
        g = self.gradient[to] - self.gradient[at]
        joint = g @ self.known.cov @ g.T
        names = [(*map(str, i),) if isinstance(i, tuple) else (str(i),) for i in self.index]
        labels = pd.Index([": ".join((*names[i][:-1], f"{names[j][-1]}-{names[i][-1]}")) for i, j in pairs])
        effect, se = self.mean[to] - self.mean[at], np.sqrt(np.maximum(np.diag(joint), 0.0))
        ok, notes = along(self.notes, g), self.notes
        if self.scale != "identity":
            half = self.pivot.critical(interval_level(alpha)) * self.se
            far = half > (np.minimum(self.mean, 1.0 - self.mean) if self.scale == "logit" else self.mean)
            ok &= ~(far[at] | far[to])
            notes += (note("boundary"),) * bool(far.any())
        pivot, title = self.known.pivot.along(g), f"Differences of {self.title[0].lower()}{self.title[1:]}"
        tests = ContrastTest(effect, se, pivot, labels, TITLE, notes, ok, np.zeros(len(pairs)), joint)
        return PairwiseTests(tests, how, interval_level(alpha), title)

    def _layout(self) -> list[Part]:
        shown = self.summary_frame()
        if self.scale == "identity":  # nobody asks whether a probability or a mean count is 0
            with np.errstate(divide="ignore", invalid="ignore"):
                t = self.mean / self.se
            shown.insert(2, "t", t)
            shown.insert(3, "p", self.pivot.two_sided(t))
        return [estimates_table(shown, f"{self.title} ({self.pivot.label})"), *noted(self.notes)]


def marginal_means(known: Known, factor: Any, at: Any, which: str) -> MarginalMeans:
    """Means at each level of a factor, averaged over public rows; see `PrivateResults.marginal_means`.

    See Searle, Speed & Milliken (1980), Population marginal means in the linear model, American Statistician 34,
    216-221.
    """
    fit, design = known.fit, known.fit.design
    fit.refuse_levels("a mean at a level")
    columns = factors_of(fit, factor)
    column = ":".join(columns)
    choose("which", which, ("mean", "linear"))
    if which == "mean" and fit.family.link == "margin":
        raise OptionError(f"{fit.family!r} has a margin, which is no mean; ask for which='linear'.")
    held, over = _completed(design, columns, None if at is None else _public_rows(at, columns, design))
    if at is not None:
        note_outside(fit, held, design.encode_new(held)[0], "marginal_means", stacklevel=4)

    names, made = list[Any](), list[list[Means]]()
    for each in itertools.product(*(design.schema.levels[c] for c in columns)):
        here = {c: np.full(len(held), level, object) for c, level in zip(columns, each, strict=True)}
        names.append(":".join(map(str, each)) if each[1:] else each[0])
        made.append((_means if which == "mean" else _linear)(fit, *design.encode_new(held.assign(**here))))
    by_response = [one for same in zip(*made, strict=True) for one in same]  # levels of a response
    value, gradient = (np.array([part.mean(axis=0) for part in parts]) for parts in zip(*by_response, strict=True))
    index = pd.Index(names, name=column)
    responses = list(fit.classes if which == "mean" else fit.levels[1:])
    if responses:
        index = pd.MultiIndex.from_product([responses, names], names=[design.endog_name, column])
    what = estimand_words(fit) if which == "mean" else "the linear predictor"
    title = f"Marginal means of {what.removeprefix('the mean of ')} by {column}, {'; '.join(over)}"
    scale = "identity" if which != "mean" else "logit" if fit.classes else fit.family.link
    pivot, ok = known.pivot.along(gradient), along(known.notes, gradient)
    return MarginalMeans(value, known.errors(gradient), gradient, known, pivot, index, title, known.notes, ok, scale)


class Means(NamedTuple):
    """One mean at each row: of the response, of one class's probability, or a linear predictor."""

    value: Array  # Shape (n,)
    gradient: Array  # Derivatives by the coefficients, shape (n, p)


def _means(fit: ResultData, x: Array, offset: Array) -> list[Means]:
    """Means at encoded rows: of the response, or of each class's probability."""
    if fit.design.cuts is not None:
        share, by = in_order(fit, x, offset)
        return [Means(share[:, k], by[:, k]) for k in range(share.shape[1])]
    if not fit.levels:
        eta = x @ fit.params + offset
        return [Means(fit.family.inverse_link(eta), fit.family.inverse_link_derivative(eta)[:, None] * x)]
    shares = class_shares(x @ fit.params.reshape(len(fit.levels) - 1, -1).T)
    same = np.eye(len(fit.levels))
    tilts = [share[:, None] * (same[k] - shares)[:, 1:] for k, share in enumerate(shares.T)]  # by the predictors
    each = zip(shares.T, tilts, strict=True)
    return [Means(share, (tilt[:, :, None] * x[:, None, :]).reshape(len(share), -1)) for share, tilt in each]


def _public_rows(at: Any, factors: Sequence[str], design: Any) -> pd.DataFrame:
    """Rows at which means are wanted.
    Raises OptionError if it is no table of covariates, has one that the model doesn't, or the factor, which takes all
    of its levels.
    """
    if not isinstance(at, Mapping | pd.DataFrame):
        if isinstance(at, str) and at in design.schema.levels:
            why = f"means by two factors are those of marginal_means({':'.join((*factors, at))!r})"
        elif isinstance(at, str) and at in {"mean", "means", "overall", "average", "median"}:
            why = "means of the records are private, and no fit releases them"
        else:
            why = "columns have names"
        name = next((c for c in design.columns if c not in factors and c not in design.endog_sources), "age")
        raise OptionError(
            f"marginal_means({':'.join(factors)!r}, at) takes public values of others, as in {{{name!r}: ...}} "
            f"or a DataFrame, got {shown(at)}: {why}. Without at it takes the middle of what is declared."
        )
    given = next((c for c in factors if c in at), None)
    if given is not None and isinstance(at, Mapping):
        raise OptionError(
            f"at= has {given!r} itself, of which every level gets a mean; leave it out. get_prediction(new) has the "
            "means at rows of your own."
        )
    design.read_new(at)  # refuses columns that are not of one table
    if isinstance(at, pd.DataFrame):
        return at
    for name in at:
        if name not in design.columns:
            choose("the covariate", name, dict.fromkeys(c for t in design.terms for c in t.reads if c not in factors))
    single = not any(np.ndim(v) for v in at.values())
    unlike = DataError("the columns of at differ in length; give one value a row, or the same for all.")
    return quietly(lambda: pd.DataFrame(dict(at), index=[0] if single else None), unlike)


def _linear(fit: ResultData, x: Array, offset: Array) -> list[Means]:
    """Linear predictors; of a multinomial fit those of all levels but the baseline."""
    k, x = max(len(fit.levels) - 1, 1), fit.slopes(x)
    etas = x @ fit.params.reshape(k, -1).T + offset[:, None]
    return [Means(etas[:, i], np.kron(np.eye(k)[i], x)) for i in range(k)]


def reference_grid(design: Any) -> pd.DataFrame:
    """Covariates of what is declared; see `PrivateResults.reference_grid`."""
    return _completed(design, (), None)[0]


def _completed(design: Any, factors: Sequence[str], at: pd.DataFrame | None) -> tuple[pd.DataFrame, list[str]]:
    """Public rows with a reference grid of what they lack, and in words what is averaged over.

    Of what is lacking, numbers are at the middle of what is declared, and factors take every combination of levels.
    Raises OptionError if a number's scale is private, or there are too many combinations.
    """
    schema, read = design.schema, list(dict.fromkeys(c for t in design.terms for c in t.reads))
    given_columns = [] if at is None else [c for c in design.columns if c in at and c not in factors]
    lacking, factor = [c for c in read if c not in given_columns and c not in factors], ":".join(factors)
    private = [c for c in lacking if c in schema.private]
    if private:
        raise OptionError(
            f"nothing public is known of {', '.join(private)}; give public covariate values, as in "
            f"marginal_means({factor or 'factor'!r}, {{{private[0]!r}: [...]}})."
        )
    given = pd.DataFrame(index=[0]) if at is None or not given_columns else at[given_columns]
    n, others = len(given), [c for c in lacking if c in schema.levels]
    if not n:
        raise DataError("marginal_means() got no rows; give at least one row of public covariate values.")
    m = math.prod(len(schema.levels[c]) for c in others)
    if m * n > _GRID and others:
        of = "" if n == 1 else f", for each of {n:,} rows"
        raise OptionError(
            f"the levels of {', '.join(others)} have {m:,} combinations{of}; give public rows to average over, as in "
            f"marginal_means({factor!r}, pd.DataFrame({{...}}))."
        )
    at_one = f"at {', '.join(f'{c} = {given[c].iloc[0]}' for c in given_columns)}"
    words = [f"averaged over {n:,} public rows" if n > 1 else at_one] * bool(given_columns)
    new: dict[str, Any] = {c: schema.scale(c)[0] for c in lacking if c not in schema.levels}
    if new:
        middle = ", ".join(f"{c} = {_middle(schema, c)}" for c in new)
        words.append(f"at the middle of what is declared, {middle}")
    for title, name, value in (("offset", design.offset, 0.0), ("exposure", design.exposure, 1.0)):
        if name is not None and name not in given_columns:
            words.append(f"{title} {name} = {value:g}")
            new[name] = value
    combined = list(itertools.product(*(schema.levels[c] for c in others))) * n
    new |= {c: np.array([row[i] for row in combined], dtype=object) for i, c in enumerate(others)}
    if others:
        words.append(f"equal weights of the levels of {', '.join(others)}")
    held = given.iloc[np.repeat(np.arange(n), m)]
    return held.assign(**new, **{c: schema.levels[c][0] for c in factors}), words or ["the only covariate"]


def _middle(schema: Any, name: str) -> str:
    value = schema.scale(name)[0]
    return iso(value) if name in schema.dates else f"{value:.6g}"
