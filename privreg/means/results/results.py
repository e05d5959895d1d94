"""Results: estimates, intervals, tables and files, from reports and public state only."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privreg.base import archive
from privreg.collector.inference.pivots import Normal
from privreg.errors import InferenceError, NotPrivateError, OptionError, choose, interval_level, level
from privreg.means.results.fit import ChiSquareTest, Correlations, MeansFit, Moved, limits, parts, seconds
from privreg.means.results.shares import Crosstab, Histogram, TableOne
from privreg.means.results.survival import SurvivalCurves
from privreg.means.terms import Followed, Term
from privreg.options.unknown import NEEDS_ROWS, all_known_arguments
from privreg.published.shrinking.rules import shrink
from privreg.results.base import Results
from privreg.results.data import Frame
from privreg.results.summary import Summary
from privreg.tables import Paragraph, Table, cells, diagnostics, marked
from privreg.tables.diagnostics import Diagnostic


@all_known_arguments
class MeansResults(Results):
    """Results of a private estimation of means and frequencies.

    `params` are means in the user's units and frequencies of levels, shape (p,). A frequency may come out below 0 or
    above 1: it is unbiased as it stands. `alpha` is one minus the level of intervals, in (0, 1), else an OptionError;
    what was not asked for, such as a table, subgroups or squares, is an InferenceError that says how to.
    """

    _fit: MeansFit

    @property
    def bse(self) -> pd.Series | pd.DataFrame:
        """Standard errors about the population's means: mechanism, choice of items and people, together."""
        return self._fit.shaped(self._errors())

    @property
    def nobs(self) -> int:
        """People who sent a report."""
        return self._fit.nobs

    @property
    def header(self) -> tuple[tuple[str, str], ...]:
        """Entries of the summary's header."""
        return self._fit.header

    @property
    def by(self) -> str | None:
        """Column of the public subgroups, if there are any."""
        return self._fit.by

    @property
    def biased(self) -> bool:
        """True if the estimates are biased by the mechanism ("square_wave_biased"), and no means therefore."""
        return any(note.code == "biased" for note in self.privacy.notes)

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the estimates, DataFrame of shape (p, p).

        Where noise falls on sums it is NaN between columns, as no products of columns are released.
        """
        return self._covariance()

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Normal confidence intervals of the population's means and frequencies, lower and upper limit: columns 0, 1.

        They end where numbers are no longer possible: a share's at 0 and 1, a mean's at the declared bounds.
        With r = nm/d people asked, the variance is that of the reports as they came: E Var(report)/r of the mechanism,
        (1 − m/d) Var(t)/r of asking m of d items, which LDPTube leaves out, and Var(t)/n of people, which the mean of
        the very people who reported does not need.
        """
        low, high = limits(self._fit.params, self._errors(), alpha, *self._fit.ends).values()
        return pd.DataFrame({0: low, 1: high}, index=self._fit.index)

    def tidy(self, *, alpha: float = 0.05) -> pd.DataFrame:
        """Build the one table that every view renders.

        term, estimate, std_error, conf_low, conf_high (as of :meth:`conf_int`), reliable (whether no note takes the row
        back).
        """
        within = limits(self._fit.params, self._errors(), alpha, *self._fit.ends)
        return Frame(self._table(alpha).drop(columns=["statistic", "p_value"]).assign(**within))

    def by_group(self, *, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates of every public subgroup.

        group, people (public, as the column is), term, estimate, std_error, conf_low, conf_high, reliable; NaN where a
        subgroup has too few people.
        """
        f = self._fit
        if f.by is None:
            raise InferenceError("there are no subgroups; fit with by='column', whose levels are declared and public.")
        p, se, estimate = len(f.names), np.sqrt(f.group_variances).ravel(), f.group_params.ravel()
        columns = {"group": np.repeat(list(f.groups), p), "people": np.repeat(list(f.group_people), p)}
        columns |= {"term": np.array(f.names * len(f.groups)), "estimate": estimate, "std_error": se}
        columns |= limits(estimate, se, alpha, *(np.tile(end, len(f.groups)) for end in f.ends))
        return Frame(columns | {"reliable": f.group_reliable.ravel() & ~np.isnan(se)})

    def crosstab(self, table: str | None = None) -> Crosstab:
        """Two-way table of the shares of pairs of levels, with margins, standard errors and a test of independence.

        The first by default; another by its name, as "smoker:region".
        """
        terms = {k: t for k, t in enumerate(self._fit.terms) if type(t) is Term and len(t.parts) == 2}
        named = {t.column: k for k, t in terms.items() if t.levels}
        none = "there is no two-way table; estimate one, as in 'C(smoker):C(region) ~ 1'."
        return Crosstab(*self._shares(named, "table", table, none))

    def histogram(self, column: str | None = None) -> Histogram:
        """Histogram of a number that was cut into classes, ``cut(age, 20)`` in the formula; the first by default."""
        named = {t.columns[0]: k for k, t in enumerate(self._fit.terms) if t.edges}
        none = "no number was cut into classes; estimate their shares, as in 'cut(age, 20) ~ 1'."
        return Histogram(*self._shares(named, "column", column, none))

    def survival(self, *, method: str = "life_table") -> SurvivalCurves:
        """Survival curves of a ``Surv()`` in the formula, by its groups. Free post-processing.

        Parameters
        ----------
        method : {"life_table", "kaplan_meier"}
            "life_table" takes those who enter or are censored between two cut points as at risk half of the time, and
            curves as continuous: for times that are spread between cut points. "kaplan_meier" takes times as if they
            were rounded up to the next cut point: exact where all are cut points, and biased where they are not.
        """
        life = choose("method", method, ("life_table", "kaplan_meier")) == "life_table"
        named = {t.column: k for k, t in enumerate(self._fit.terms) if isinstance(t, Followed)}
        none = "there are no survival curves; estimate them, as in 'Surv(time, event, [30, 60, 90]) ~ C(arm)'."
        return replace(SurvivalCurves(*self._shares(named, "", None, none)), life=life)

    def _shares(self, named: dict[str, int], option: str, asked: str | None, none: str) -> tuple[Any, ...]:
        """Fields of a view of a term's shares, the first of those `named` by default; an error if there is `none`."""
        if not named:
            raise InferenceError(none)
        f, k = self._fit, named[next(iter(named)) if asked is None else choose(option, asked, named)]
        at = slice(f.firsts[k], f.firsts[k + 1])
        doubts = tuple(n for n in f.statement.doubts if not n.rows or any(at.start <= j < at.stop for j in n.rows))
        return f.terms[k], f.params[at], f.cov[at, at], f.nobs, f.statement, doubts, *f.missing[0, k].tolist()

    def sd(self, *, alpha: float = 0.05) -> pd.DataFrame:
        """Standard deviations of numbers: estimate, std_error, conf_low, conf_high, reliable, by column.

        With noise on sums of every number; with ``trust="local"`` of those whose square is in the formula, as in
        ``age + I(age**2)``. Limits are normal ones of log sd. Local reports tell all variances; with noise on sums the
        sampling variance of s² is taken as 2 s⁴/n, as of normal numbers, to which the noise's exact one is added.
        """
        released = seconds(self._fit)
        if not released.at:
            raise InferenceError("no squares were released; with trust='local' ask for them: 'age + I(age**2) ~ 1'.")
        at, found = list(released.at.values()), Moved(released.variances, released.values, released.cov)
        sd = np.sqrt(found.values)
        error = np.sqrt(found.errors**2 + 2.0 * found.values**2 / released.people[at]) / (2.0 * sd)
        of_log = limits(0.0, error / sd, alpha).items()
        columns = {"estimate": sd, "std_error": error} | {name: sd * np.exp(limit) for name, limit in of_log}
        columns["reliable"] = self.tidy()["reliable"].to_numpy()[at] & np.isfinite(sd)
        return Frame(columns, index=pd.Index(list(released.at), name="column"))

    def corr(self, *, alpha: float = 0.05) -> Correlations:
        """Correlations of the numbers whose product is in the formula, as in ``age + bmi + age:bmi``.

        With ``trust="local"`` squares are needed as well, ``I(age**2) + I(bmi**2)``. Limits are Fisher's, normal for
        artanh r with standard error s/(1 − r²). s has the noise's exact variance; that of sampling comes with local
        reports from the reports, with noise on sums it is (1 − r²)²/n, as of normal pairs.
        """
        released, reliable, alpha = seconds(self._fit), self.tidy()["reliable"].to_numpy(), level(alpha)
        if not released.pairs:
            raise InferenceError(
                "a correlation needs both means and the mean product, as in 'age + bmi + age:bmi ~ 1'; with "
                "trust='local' the squares, too: '+ I(age**2) + I(bmi**2)'."
            )
        names, both = list(released.at), list(released.pairs.values())
        one, other = np.array([[names.index(name) for name in pair] for pair in released.pairs]).T

        def correlations(t: Any) -> Any:
            variance = released.variances(t)
            products = t[..., 2 * len(names) :] - t[..., one] * t[..., other]
            return products / np.sqrt(variance[..., one] * variance[..., other])

        found, at = Moved(correlations, released.values, released.cov), np.array(list(released.at.values()))
        r = np.where(np.abs(found.values) < 1.0, found.values, np.nan)
        error = np.hypot(found.errors, (1.0 - r**2) / np.sqrt(released.people[both]))
        ok = reliable[at[one]] & reliable[at[other]] & reliable[both] & np.isfinite(error)
        return Correlations(tuple(released.pairs), r, error, ok, alpha, self.privacy.headline, self.privacy.doubts)

    def compare_groups(self, column: str | None = None, *, alpha: float = 0.05) -> pd.DataFrame:
        """Two-sample tests of means and of shares between all pairs of subgroups of ``by=``, as Welch's.

        term, group, other, difference (group − other), std_error, statistic, df, p_value, conf_low, conf_high,
        reliable; of one `column`, or all by default. Each interval holds by itself.

        Subgroups are other people with other noise. Student's t with Welch and Satterthwaite's degrees of freedom, from
        the whole variances; noise of known size has more, so that tests reject no more often than they say.
        """
        f, alpha = self._fit, interval_level(alpha)
        if f.by is None or len(f.groups) < 2:
            raise InferenceError("there are no two subgroups; fit with by='column', whose levels are declared.")
        from scipy.stats import t

        names = f.each([term.column for term in f.terms])
        wanted = column is None or names == choose("column", column, tuple(dict.fromkeys(names.tolist())))
        pairs = np.array(list(combinations(range(len(f.groups)), 2)))
        at = np.repeat(np.flatnonzero(np.broadcast_to(wanted, names.shape)), len(pairs))
        one, other = np.tile(pairs, (len(at) // len(pairs), 1)).T
        v, w = f.group_variances[one, at], f.group_variances[other, at]
        difference, error = f.group_params[one, at] - f.group_params[other, at], np.sqrt(v + w)
        lost = np.nan_to_num(f.each(f.missing[1:, :, 0], axis=1))
        free = np.maximum(np.array(f.group_people)[:, None] * (1.0 - lost) - 1.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = (v + w) ** 2 / (v**2 / free[one, at] + w**2 / free[other, at])
            ratio = difference / error
        half = t.ppf(1.0 - alpha / 2.0, df) * error
        columns = {"term": np.take(f.names, at), "group": np.take(f.groups, one), "other": np.take(f.groups, other)}
        columns |= {"difference": difference, "std_error": error, "statistic": ratio, "df": df}
        columns |= {"p_value": 2.0 * t.sf(np.abs(ratio), df)}
        columns |= {"conf_low": difference - half, "conf_high": difference + half}
        ok = f.group_reliable[one, at] & f.group_reliable[other, at]
        return Frame(columns | {"reliable": ok & np.isfinite(error)})

    def _curves(self) -> tuple[list[Diagnostic], list[SurvivalCurves]]:
        """The notes but those on cells of curves alone, and the curves."""
        cells_of = self._fit.cells
        notes = [n for n in self.privacy.notes if not (n.rows and cells_of.issuperset(n.rows))]
        return notes, [self.survival()] if cells_of else []

    def _caution(self) -> bool:
        notes, curves = self._curves()
        said = [diagnostics.caution(self._fit.names, notes)]
        said += [diagnostics.caution(c.names, c.notes, what="the curves at") for c in curves]
        return any(said)

    def test_independence(self, table: str | None = None) -> ChiSquareTest:
        """Test that the two factors of a two-way table are independent; see :meth:`crosstab`.

        Wald's test by the covariance of the shares, which holds the noise: ``statistic``, ``df``, ``pvalue``.
        """
        return self.crosstab(table).test

    def table_one(self) -> TableOne:
        """Describe the people: means (with standard deviations, where noise is on sums) and shares.

        Of everybody and of each subgroup of ``by=``, with p-values of tests that subgroups are alike.
        """
        from scipy.stats import chi2

        f = self._fit
        everybody = self.tidy().assign(group="(All)" if "All" in f.groups else "All", people=f.nobs)
        table = everybody if f.by is None else pd.concat([everybody, self.by_group()], ignore_index=True)
        lines, k = [(term.column, level) for term in f.terms for level in term.labels or (None,)], 1 + len(f.groups)
        table["variable"], table["level"] = [name for name, _ in lines] * k, [level for _, level in lines] * k
        # noise of a mean makes its square too large, on average by its variance
        means = np.vstack([f.params, f.group_params]) - f.centres
        table["sd"] = np.sqrt(np.maximum(f.moments[:, 0] + f.moments[:, 1] - means**2, 0.0)).ravel()
        table["p_value"] = np.tile(f.each(chi2.sf(*f.group_tests.T)), k)
        table["missing"] = f.each(f.missing[:, :, 0], axis=1).ravel() * table["people"]
        table["count"] = table["estimate"] * (table["people"] - table["missing"].fillna(0.0))
        table["count"] = table["count"].where(table["level"].notna())
        columns = [
            "variable", "level", "group", "people", "estimate", "std_error", "sd", "count", "missing", "p_value",
            "reliable",
        ]  # fmt: skip
        return TableOne(table[columns], f.by, f.statement.headline, self.privacy.doubts)

    def shrunk(self, method: str = "sure") -> pd.Series | pd.DataFrame:
        """Estimates shrunk towards the middles of their ranges, for many dimensions and small budgets.

        They are biased, and have no intervals. `method` is "sure", "james_stein" or "hdr4me"; see
        `privreg.means.shrink`. Not of a biased mechanism's estimates.
        """
        f = self._fit
        if self.biased:
            raise OptionError("estimates of a biased mechanism are not shrunk; fit with mechanism='square_wave'.")
        sd = np.sqrt(np.diag(f.cov)) / f.halves
        return f.shaped(f.centres + f.halves * shrink((f.params - f.centres) / f.halves, sd, method))

    def __getattr__(self, name: str) -> Any:
        if name in NEEDS_ROWS:
            raise NotPrivateError(f"{name!r} needs the raw rows; means have params, bse and conf_int().")
        return super().__getattr__(name)

    def summary(self, alpha: float = 0.05, *, details: bool = False) -> Summary:
        """Estimates and guarantee, as text, HTML or LaTeX; with `details` all of the header, and every note.

        Of a ``Surv()`` the curves are shown, and not the cells that they are made of.
        """
        notes, curves = self._curves()
        table = self.tidy(alpha=alpha).drop(index=list(self._fit.cells))
        statement = replace(self.privacy, notes=tuple(dict.fromkeys([*notes, *(n for c in curves for n in c.notes)])))
        reliable = pd.concat([table, *(c.frame(alpha=alpha) for c in curves)])
        said = f"normal limits, within bounds; {100 * (1 - alpha):.6g}% critical value {Normal().critical(alpha):.3f}"
        said += "; THESE ARE NOT MEANS: see the notes" * self.biased
        means = Table(marked(table["term"], table["reliable"]), *cells(table, alpha, "estimate", 4))
        parts: list[Any] = [means, Paragraph(said)] * bool(len(table))
        parts += [part for c in curves for part in c._layout(alpha)[:2]]
        below = tuple(parts[1:])
        made = Summary("Private Means and Frequencies", self.header, parts[0], below, statement, slim=not details)
        return made.cautioned(reliable)

    def __repr__(self) -> str:
        f = self._fit
        return f"<MeansResults: {len(f.names)} estimates, {f.nobs:,} records, {f.statement.short}>"

    def save(self, path: str | Path) -> None:
        """Save as one file of arrays and JSON, atomically, read by ``privreg.load``. No rows, no keys."""
        archive.refuse_suffix(path)
        archive.write_archive(path, "means", *parts(self._fit))
