"""Estimates of fits to different people: pooled term by term, with how much fits differ, or drawn towards another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, stats
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, flag, interval_level
from privreg.options.unknown import all_known_arguments, known_arguments
from privreg.results.data import Frame
from privreg.results.plots import style
from privreg.results.plots.coefficients import Drawn, Row, Unit, draw
from privreg.results.several.gathered import Gathered, gathered
from privreg.tables import Paragraph, Part, Table, View, estimates_table, formatted, in_one_format, plain, shorten

METHODS: Final = {"reml": "REML", "dl": "DerSimonian-Laird", "hodges_lehmann": "Hodges-Lehmann"}
TESTS: Final = {"hartung_knapp": "Hartung-Knapp", "normal": "normal"}
SPREAD: Final = (
    "Federated fits release no standard errors: these are from the spread between the fits, with Student's t of one "
    "degree of freedom less than fits. They count noise and the choice of silos, not by how much clipping and local "
    "steps move the limit of the rounds."
)


@known_arguments
def meta_analysis(
    results: Any,
    *,
    names: Sequence[str] | None = None,
    terms: str | Sequence[str] | None = None,
    random: bool = True,
    method: str = "reml",
    test: str = "hartung_knapp",
) -> MetaAnalysis:
    """Pool the estimates of fits to different people, such as silos, years or countries.

    Parameters
    ----------
    results : sequence or mapping of str to results
        Two or more, of the same model fitted to *different people*, with any trust model; results of other libraries
        to public data may stand among them. Fits that lack a coefficient are left out of it. Or federated fits with the
        same options, each of other silos, which have no standard errors: see Notes.
    names : sequence of str, optional
        Names of the fits; "(1)", "(2)", … by default.
    terms : str or sequence of str, optional
        Coefficients to pool, or terms such as a factor's column, which are all of its coefficients; all by
        default. Those of a multinomial fit are called "level:term".
    random : bool
        Whether true coefficients may differ between fits (random effects), with variance τ²; without, all fits have
        one true coefficient (common effect).
    method : {"reml", "dl", "hodges_lehmann"}
        How τ² is estimated: by restricted maximum likelihood, or DerSimonian and Laird's moments. "hodges_lehmann" is
        of a common effect, and robust: the median of all means of two fits' estimates. All fits count the same, and
        fewer than 29% of them may be anything.
    test : {"hartung_knapp", "normal"}
        Intervals of random effects: Hartung and Knapp's, with Student's t of k − 1 degrees of freedom and never
        narrower than the normal variance allows (Knapp and Hartung's q is at least 1), or normal ones, which are too
        short with few fits.

    A result without standard errors is an InferenceError; fewer than two, one that is given twice, other models, or
    factors that are compared with other levels are an OptionError.

    Notes
    -----
    With estimates y_i, standard errors s_i and weights w_i = 1/(s_i² + τ²) the pooled estimate is Σ w_i y_i / Σ w_i,
    of variance q / Σ w_i, where q = max(1, Σ w_i (y_i − ŷ)²/(k − 1)). s_i counts the privacy noise of a fit, so that
    noisier fits weigh less. Each coefficient is pooled by itself.

    The median of means of two has the variance 1/(12 k J²), where J is the mean of {2π (s_i² + s_j²)}^−½ over pairs
    of fits, and s_i not below their median. It is π/3 times that of the mean where all s_i are the same. A fit that is
    wrong by any amount moves it by about √3/√k of its standard error.

    Of federated fits weights are their numbers of silos n_i, and the variance is Σ n_i (y_i − ŷ)²/{(k − 1) Σ n_i}, with
    Student's t of k − 1 degrees of freedom: options about random effects don't count. It holds whatever the fits'
    errors, if these are independent and have one mean and variances in proportion to 1/n_i.

    References
    ----------
    DerSimonian & Laird (1986), Controlled Clinical Trials 7, 177-188; Hodges & Lehmann (1963), Annals of Mathematical
    Statistics 34, 598-611; Viechtbauer (2005), J. Educ. Behav. Stat. 30,
    261-293; Knapp & Hartung (2003), Statistics in Medicine 22, 2693-2710.
    """
    choose("method", method, METHODS)
    choose("test", test, TESTS)
    random = flag("random", random) and method != "hodges_lehmann"
    held = gathered(results, names, terms, "meta_analysis", 2)
    few = [t for t in held.terms if len(held.of(t)[0]) < 2]
    if len(few) == len(held.terms):
        raise OptionError(f"no coefficient is in two of these fits: {', '.join(few)}.")
    if held.relative:
        held.notes.insert(0, SPREAD)
        test = "spread"
    found = tuple(pooled(t, *held.of(t)[1:], random, method, test) for t in held.terms if t not in few)
    return MetaAnalysis(held, found, random and not held.relative, method, test, tuple(few))


class Pooled(NamedTuple):
    """One coefficient of several fits."""

    term: str
    estimate: float
    error: float
    df: float  # Degrees of freedom of Student's t; infinite for normal limits
    tau2: float  # Variance of true coefficients between fits
    i2: float  # Share of the variance of estimates that is between fits
    q: float  # Cochran's statistic of no such variance, χ² with k − 1 degrees of freedom
    weights: Array  # Shares of the fits, shape (k,)

    def critical(self, alpha: float) -> float:
        """Half an interval in standard errors."""
        return float(stats.t.ppf(1.0 - alpha / 2.0, self.df))


def restricted(tau2: Array, y: Array, v: Array) -> Array:
    """Restricted log-likelihood of variances between fits, each of shape (m,)."""
    w = 1.0 / (v + tau2[:, None])
    mean = (w @ y) / w.sum(axis=1)
    spread = (w * (y - mean[:, None]) ** 2).sum(axis=1)
    return np.asarray(0.5 * (np.log(w).sum(axis=1) - np.log(w.sum(axis=1)) - spread))


def tau2_reml(y: Array, v: Array) -> float:
    """Restricted maximum likelihood estimate of the variance between fits."""
    unit = float(v.max())  # the search ends by an absolute tolerance: coefficients' units must not count
    y, v = y / math.sqrt(unit), v / unit
    grid = np.concatenate([[0.0], np.geomspace(1e-4 * v.min(), 10.0 * (np.var(y) * len(y) + v.max()), 200)])
    best = int(restricted(grid, y, v).argmax())
    if best == 0:
        return 0.0
    ends = (grid[best - 1], grid[min(best + 1, len(grid) - 1)])
    found = optimize.minimize_scalar(lambda t: -restricted(np.array([t]), y, v)[0], bounds=ends, method="bounded")
    return unit * float(found.x)


def pooled(term: str, y: Array, v: Array, random: bool, method: str, test: str) -> Pooled:
    """Pool estimates y with variances v, shape (k,); options as of :func:`meta_analysis`."""
    k, fixed = len(y), 1.0 / v
    if test == "spread":  # variances are in proportion to v; the factor is estimated, too
        mean = float(fixed @ y / fixed.sum())
        error = math.sqrt(float(fixed @ (y - mean) ** 2) / (k - 1) / fixed.sum())
        return Pooled(term, mean, error, k - 1.0, math.nan, math.nan, math.nan, fixed / fixed.sum())
    if method == "hodges_lehmann":
        return pooled_robustly(term, y, v)
    q = float(fixed @ (y - fixed @ y / fixed.sum()) ** 2)
    apart = float(fixed.sum() - fixed @ fixed / fixed.sum())
    moments = max(0.0, (q - k + 1.0) / apart)  # DerSimonian and Laird's
    tau2 = 0.0 if not random else tau2_reml(y, v) if method == "reml" else moments
    w = 1.0 / (v + tau2)
    mean = float(w @ y / w.sum())
    t = random and test == "hartung_knapp"
    inflated = max(1.0, float(w @ (y - mean) ** 2) / (k - 1)) if t else 1.0
    error, df = math.sqrt(inflated / w.sum()), k - 1.0 if t else math.inf
    return Pooled(term, mean, error, df, tau2, tau2 / (tau2 + (k - 1.0) / apart), q, w / w.sum())


def pooled_robustly(term: str, y: Array, v: Array) -> Pooled:
    """Pool estimates y with variances v, shape (k,), by the median of means of two, an estimate with itself included.

    Variances below their median count as that: a fit that may be anything can't claim to be precise.
    """
    k, v = len(y), np.maximum(v, np.median(v))
    i, j = np.triu_indices(k)
    mean = float(np.median(0.5 * (y[i] + y[j])))
    a, b = np.triu_indices(k, 1)
    error = (12.0 * k) ** -0.5 / float(np.mean((2.0 * math.pi * (v[a] + v[b])) ** -0.5))
    return Pooled(term, mean, error, math.inf, 0.0, 0.0, float(((y - mean) ** 2 / v).sum()), np.full(k, 1.0 / k))


@all_known_arguments
@dataclass(frozen=True, repr=False)
class MetaAnalysis(View):
    """Pooled coefficients. Made by :func:`meta_analysis`."""

    held: Gathered
    pooled: tuple[Pooled, ...]
    random: bool
    method: str
    test: str
    left_out: tuple[str, ...]  # Coefficients that one fit has

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Pooled estimates, one coefficient a row.

        `alpha` is one minus the level of the intervals.

        Index term; estimate, std_error, statistic, p_value, conf_low, conf_high; with random effects pred_low and
        pred_high, between which the true coefficient of another such fit would be; k (fits), tau, i2 (share of the
        variance of estimates that is between fits), q, q_p_value (of no differences between fits), reliable (whether no
        fit's summary takes its estimate back).
        """
        alpha, each = interval_level(alpha), pd.DataFrame(self.pooled).set_index("term")
        k, estimate, error = each["weights"].map(len), each["estimate"], each["error"]
        half = error * [one.critical(alpha) for one in self.pooled]
        out = pd.DataFrame({"estimate": estimate, "std_error": error, "statistic": estimate / error})
        out["p_value"] = 2.0 * stats.t.sf(out["statistic"].abs(), each["df"])
        out = out.assign(conf_low=estimate - half, conf_high=estimate + half)
        if self.random:
            far = stats.t.ppf(1.0 - alpha / 2.0, k - 1) * np.hypot(error, np.sqrt(each["tau2"]))
            out = out.assign(pred_low=estimate - far, pred_high=estimate + far)
        out = out.assign(k=k, tau=np.sqrt(each["tau2"]), i2=each["i2"], q=each["q"])
        ok = self.held.reliable[:, [self.held.terms.index(term) for term in each.index]]
        return Frame(out.assign(q_p_value=stats.chi2.sf(each["q"], k - 1), reliable=np.asarray(ok.all(axis=0))))

    def weights(self) -> pd.DataFrame:
        """Share of each fit in the pooled estimates: fits by terms; 0 where a fit lacks the term."""
        columns = {one.term: dict(zip(self.held.of(one.term)[0], one.weights, strict=True)) for one in self.pooled}
        return Frame(pd.DataFrame(columns).reindex(self.held.names).fillna(0.0))

    def plot(self, term: str | None = None, *, alpha: float = 0.05, title: str | None = None, ax: Any = None) -> Any:
        """Draw a forest plot: each fit's estimate with its interval, and the pooled one as a diamond.

        Squares are as large as the fits' weights; at the right are estimates and limits. Hollow ones should not be
        relied on. A thin line behind the diamond is the interval of another fit's true coefficient.
        """
        found = [p.term for p in self.pooled]
        size = (1.6 * style.COLUMN, 0.9 + 0.22 * (len(self.held.names) + 1))
        return style.each_drawn(partial(self._drawn, alpha), self.held.meant(term, found), title, ax, size)

    def _drawn(self, alpha: float, term: str, ax: Any) -> str:
        """Draw the forest plot of one coefficient; gives its footer."""
        one = next(p for p in self.pooled if p.term == term)
        names, y, v = self.held.of(term)
        half = float(stats.norm.ppf(1.0 - interval_level(alpha) / 2.0)) * np.sqrt(v) * (not self.held.relative)
        row, words = self.frame(alpha).loc[term], "random effects" if self.random else "common effect"
        ok = self.held.reliable[[self.held.names.index(n) for n in names], self.held.terms.index(term)]
        footer = f"{100 * (1 - alpha):.6g}% intervals; {words}, τ = {math.sqrt(one.tau2):.3g}, I² = {100 * row.i2:.0f}%"
        if self.held.relative:
            footer = f"{100 * (1 - alpha):.6g}% interval by the spread between fits"
        footer += "" if ok.all() else "\ndon't rely on hollow squares: see the summaries of their fits"
        inks = style.inks_for(ax)
        at = np.arange(len(names), 0, -1.0)
        ax.hlines(at, y - half, y + half, color=inks[0], linewidth=1.0)
        face = [inks[0] if fine else tuple(style.ground(ax)) for fine in ok]
        ax.scatter(y, at, s=20.0 + 120.0 * one.weights, marker="s", color=face, edgecolor=inks[0], zorder=3)
        if self.random:
            ax.hlines(0.0, row.pred_low, row.pred_high, color=inks.grey, linewidth=1.0)
        ends = [(row.conf_low, 0.0), (one.estimate, 0.3), (row.conf_high, 0.0), (one.estimate, -0.3)]
        ax.fill(*zip(*ends, strict=True), color=inks[1], zorder=3)
        ax.axvline(one.estimate, color=inks[1], linewidth=0.7, linestyle=":")
        low, high = ax.get_xlim()
        if low < 0.0 < high:
            ax.axvline(0.0, color=inks.grey, linewidth=0.7)
        ax.set_yticks([*at, 0.0], [*map(style.literal, shorten(names, 24)), "pooled"])
        ax.set_ylim(-0.7, len(names) + 0.7)
        ax.set_xlabel(style.literal(plain(term)))
        numbers = np.column_stack([[*y, one.estimate], [*(y - half), row.conf_low], [*(y + half), row.conf_high]])
        shown = zip(*(in_one_format(column, 0, one.error) for column in numbers.T), strict=True)
        alone = len(names) if self.held.relative else 0  # Labels without limits
        beside = ax.secondary_yaxis("right")
        beside.set_yticks([*at, 0.0], [m if i < alone else f"{m} [{a}, {b}]" for i, (m, a, b) in enumerate(shown)])
        beside.tick_params(length=0, labelsize=style.SMALL)
        return footer

    def _layout(self) -> list[Part]:
        frame = self.frame()
        kind = f"random effects, {METHODS[self.method]}, {TESTS.get(self.test)} intervals"
        if not self.random:
            kind = "common effect" + f", {METHODS[self.method]}" * (self.method == "hodges_lehmann")
        kind = "by the spread between fits" if self.held.relative else kind
        pooled = estimates_table(frame, f"Meta-Analysis of {len(self.held.names)} Fits ({kind})")
        shown = frame.assign(i2=[f"{100 * v:.0f}%" for v in frame["i2"]])
        shown = shown.rename(columns={"k": "fits", "tau": "τ", "i2": "I²", "q": "Q", "q_p_value": "P>Q"})
        columns = formatted(shown[["fits", *(["τ", "I²"] * self.random), "Q", "P>Q"]])
        rows = list(zip(*columns.values(), strict=True))
        between = Table(pooled.names, list(columns), rows, "Differences between Fits")
        notes = list(self.held.notes)
        if self.left_out:
            notes.insert(0, f"In one fit only, and left out: {', '.join(self.left_out)}.")
        if not frame["reliable"].all():
            doubtful = [n for i, n in enumerate(self.held.names) if not self.held.reliable[i].all()]
            notes.insert(0, f"Marked rows hold estimates that their fits' summaries take back: {', '.join(doubtful)}.")
        return [pooled, *([] if self.held.relative else [between]), Paragraph("\n".join(notes))]


@known_arguments
def shrink(results: Any, *, names: Sequence[str] | None = None, terms: str | Sequence[str] | None = None) -> Shrunken:
    """Draw the coefficients of fits to different people towards their common mean, the noisier the more.

    Parameters
    ----------
    results : sequence or mapping of str to results
        Three or more, of the same model fitted to *different people*, as for :func:`privreg.meta_analysis`.
    names, terms : sequence of str, optional
        As there; all terms that three fits have by default.

    Notes
    -----
    True coefficients are taken to be normal with mean m and sd τ. Given τ, a fit's estimate y with standard error s
    becomes (1 − B) y + B m̂ with B = s²/(s² + τ²). τ is not plugged in but averaged over its posterior under a flat
    prior, so that intervals count that it is hardly known from few fits; they hold on average over fits, not for a fit
    that is unlike all others.

    References
    ----------
    Efron & Morris (1975), JASA 70, 311-319; Gelman (2006), Bayesian Analysis 1, 515-534, on the flat prior of τ.
    """
    held = gathered(results, names, terms, "shrink", 3)
    usable = [t for t in held.terms if len(held.of(t)[0]) >= 3]
    for t in held.terms if not usable or terms is not None else ():
        if t not in usable:
            choose("terms", t, usable)
    return Shrunken(held, tuple(Towards(t, *posterior(*held.of(t)[1:])) for t in usable))


@dataclass(frozen=True)
class Towards:
    """One coefficient of k fits: posterior given each of m values of τ."""

    term: str
    share: Array  # Posterior of the values of τ, shape (m,)
    tau: Array  # Shape (m,)
    mean: Array  # Shape (m, k)
    sd: Array  # Shape (m, k)

    @property
    def estimate(self) -> Array:
        """Posterior means of the fits, shape (k,)."""
        return self.share @ self.mean

    @property
    def error(self) -> Array:
        """Posterior standard deviations of the fits, shape (k,)."""
        return np.sqrt(self.share @ (self.sd**2 + (self.mean - self.estimate) ** 2))

    def limit(self, p: float) -> Array:
        """Posterior quantiles of the fits, shape (k,)."""
        middle, spread = self.estimate, self.error
        out = np.empty(len(middle))
        for i in range(len(out)):
            # in standard deviations, since the search ends by an absolute tolerance
            z = optimize.brentq(lambda z, i=i: self.below(middle[i] + z * spread[i], i) - p, -60.0, 60.0)
            out[i] = middle[i] + z * spread[i]
        return out

    def below(self, x: Any, i: Any = slice(None)) -> Any:
        """Posterior probabilities that true coefficients of the fits, or of fit i, are below x; shape (k,)."""
        return self.share @ ndtr((x - self.mean[:, i]) / self.sd[:, i])


def posterior(y: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    """Posterior shares of values of τ, these values, and means and sds of the true coefficients given each."""
    widest = 20.0 * (np.std(y) + np.sqrt(v.max()))  # beyond it the likelihood is as good as nothing from 4 fits on
    tau = np.linspace(0.0, 1.0, 400) ** 2 * widest
    log = restricted(tau**2, y, v)
    share = np.exp(log - log.max()) * np.gradient(tau)
    w = 1.0 / (v + tau[:, None] ** 2)
    centre = (w @ y / w.sum(axis=1))[:, None]
    pull = v * w
    mean = (1.0 - pull) * y + pull * centre
    sd = np.sqrt((1.0 - pull) * v + pull**2 / w.sum(axis=1)[:, None])
    return share / share.sum(), tau, mean, sd


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Shrunken(View):
    """Coefficients of several fits, each drawn towards the others. Made by :func:`shrink`."""

    held: Gathered
    towards: tuple[Towards, ...]

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Coefficients of each fit.

        Index (term, fit); estimate, std_error, conf_low, conf_high (posterior mean, sd and quantiles, `alpha` being one
        minus the level), original (the fit's estimate), original_error, pull (share of the way to the common mean, 0
        to 1), reliable.
        """
        alpha, parts = interval_level(alpha), []
        for one in self.towards:
            names, y, v = self.held.of(one.term)
            pull = one.share @ (v / (v + one.tau[:, None] ** 2))
            at = [self.held.names.index(n) for n in names]
            columns: dict[str, Any] = {"estimate": one.estimate, "std_error": one.error}
            columns |= {"conf_low": one.limit(alpha / 2.0), "conf_high": one.limit(1.0 - alpha / 2.0)}
            columns |= {"original": y, "original_error": np.sqrt(v), "pull": pull}
            columns["reliable"] = self.held.reliable[at, self.held.terms.index(one.term)]
            index = pd.MultiIndex.from_product([[one.term], names], names=["term", "fit"])
            parts.append(pd.DataFrame(columns, index=index))
        return Frame(pd.concat(parts))

    def plot(self, term: str | None = None, *, alpha: float = 0.05, title: str | None = None, ax: Any = None) -> Any:
        """Draw each fit's estimate and what it becomes, of one coefficient or of a term with a panel for each."""
        found = [t.term for t in self.towards]
        size = (1.2 * style.COLUMN, 0.9 + 0.26 * len(self.held.names))
        return style.each_drawn(partial(self._drawn, alpha), self.held.meant(term, found), title, ax, size)

    def _drawn(self, alpha: float, term: str, ax: Any) -> str:
        """Draw one coefficient; gives the footer."""
        part = self.frame(alpha).loc[term].rename(index=str)
        half = float(stats.norm.ppf(1.0 - alpha / 2.0)) * part["original_error"]
        alone = part.assign(estimate=part["original"], reliable=False)  # which are drawn hollow
        alone = alone.assign(conf_low=part["original"] - half, conf_high=part["original"] + half)
        rows = [Row(fit, label) for fit, label in zip(part.index, shorten(part.index, 24), strict=True)]
        unit = Unit(plain(term), plain(term))
        drawn = Drawn(
            [alone, part.assign(reliable=True)], rows, ["", ""], [unit] * 2, exponentiate=False, effects=False
        )
        draw(ax, drawn, unit, 1.2 * style.COLUMN)
        return f"{100 * (1 - alpha):.6g}% intervals; open: each fit by itself, filled: drawn towards the others"

    def _layout(self) -> list[Part]:
        frame = self.frame()
        table = estimates_table(frame, names=frame.index.get_level_values("fit"))
        original = in_one_format(frame["original"], 4, float(frame["original_error"].min()))
        rows = [[o, *row, f"{100 * p:.0f}%"] for o, row, p in zip(original, table.rows, frame["pull"], strict=True)]
        begins = np.cumsum([0, *(len(self.held.of(t.term)[0]) for t in self.towards)])
        blocks = {int(b): t.term for b, t in zip(begins, self.towards, strict=False)}
        title = f"Coefficients of {len(self.held.names)} Fits, Partially Pooled"
        head = ["by itself", *table.head, "pull"]
        pull = "pull: share of the way from a fit's estimate to the fits' common mean, on average over τ."
        return [Table(table.names, head, rows, title, blocks), Paragraph("\n".join([pull, *self.held.notes]))]
