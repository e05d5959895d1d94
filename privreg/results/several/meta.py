"""Estimates of fits to different people: pooled term by term, with how much fits differ, or drawn towards another."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, stats
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.errors import InferenceError, OptionError, as_named, choose, flag, interval_level, refuse
from privreg.options.unknown import all_known_arguments, known_arguments
from privreg.privacy.ledger import compose, within
from privreg.results.base import Results
from privreg.results.data import Frame
from privreg.results.plots import style
from privreg.results.several.comparison import alike, labelled, references, targets
from privreg.tables import Paragraph, Part, Table, View, estimates_table, formatted, in_one_format, plain, shorten

METHODS: Final = {"reml": "REML", "dl": "DerSimonian-Laird", "hodges_lehmann": "Hodges-Lehmann"}
TESTS: Final = {"hartung_knapp": "Hartung-Knapp", "normal": "normal"}
SPREAD: Final = (
    "Federated fits release no standard errors: these are from the spread between the fits, with Student's t of one "
    "degree of freedom less than fits. They count noise and the choice of silos, not by how much clipping and local "
    "steps move the limit of the rounds."
)
_NORMAL: Final = 1.959964  # Critical value of 95% limits of normal ones


class Gathered(NamedTuple):
    """Estimates of several fits with their standard errors."""

    names: list[str]  # Names of the fits
    terms: list[str]
    each: pd.DataFrame  # Index fit, term; estimate, error (half a 95% interval over 1.96, whatever the pivot), reliable
    notes: list[str]
    terms_of: dict[str, list[str]]  # Coefficients of a model's terms, such as "region"
    relative: bool = False  # True if errors of federated fits are known up to a factor only, 1/√silos

    def of(self, term: str) -> pd.DataFrame:
        """Estimates of the fits that have a term, by their names."""
        return self.each[self.each.index.get_level_values("term") == term].droplevel("term")

    def meant(self, asked: str | None, found: Sequence[str]) -> list[str]:
        """Coefficients of `found` that a name of one or of a term means; the first but the intercept by default."""
        if asked is None:
            return [next((t for t in found if t not in style.CONSTANTS), found[0])]
        named = as_named(asked, [*found, *self.terms_of]) if isinstance(asked, str) else asked
        meant = [] if named in found else self.terms_of.get(named, [])
        return [t for t in found if t in meant] or [choose("term", asked, found)]


def gathered(results: Any, names: Sequence[str] | None, terms: Any, caller: str, least: int) -> Gathered:
    """Read the results that are given to `caller`, which needs `least` fits.
    Raises OptionError if there are too few results, one of them is none, names or terms don't match, or responses or
    links differ; InferenceError if a result has no standard errors.
    """
    if isinstance(results, Mapping):
        names, results = list(results) if names is None else names, list(results.values())
    if isinstance(results, str | pd.DataFrame) or not isinstance(results, Sequence) or len(results) < least:
        raise OptionError(
            f"{caller}() takes at least {least} results of fits to different people, in a list or by name, such as "
            f"{caller}({{'north': res1, 'south': res2, …}})."
        )
    labels = labelled(names, len(results))
    named = [(name, r) for name, r in zip(labels, results, strict=True) if isinstance(r, Results)]
    tables, label = alike([_table(r, name, caller) for name, r in zip(labels, results, strict=True)])
    known, of = list(dict.fromkeys(t for table in tables for t in table.index)), dict[str, list[str]]()
    for _, r in named:
        for term, at in getattr(r._fit, "of_terms", {}).items():
            of[term] = list(dict.fromkeys([*of.get(term, []), *(label(r._fit.names[j]) for j in at)]))
    single = getattr(terms, "shape", None) == () or not isinstance(terms, Iterable)  # an array may have no dimension
    if terms is not None and (single or not len(list(terms))):
        raise OptionError(f"terms must be one or more names of coefficients, such as {known[:2]}.")
    asked = known if terms is None else [terms] if isinstance(terms, str) else list(map(str, terms))
    asked = [as_named(t, [*known, *of]) for t in asked]
    wanted = list(dict.fromkeys(c for t in asked for c in ([label(t)] if label(t) in known else of.get(t, [t]))))
    if unknown := [t for t in wanted if t not in known]:
        if isinstance(terms, str):
            choose("terms", unknown[0], dict.fromkeys([*known, *of]))
        # a list may be a column by mistake, and is never shown
        raise OptionError(f"no result has what terms= lists; choose some of {', '.join(map(repr, known))}.")
    _refuse(named, len(results), wanted, caller)
    each = pd.concat([table.reindex(wanted) for table in tables], keys=labels, names=["fit", "term"])
    each["error"] = (each["conf_high"] - each["conf_low"]) / (2.0 * _NORMAL)
    each = each[np.isfinite(each["error"]) & (each["error"] > 0.0) & np.isfinite(each["estimate"])]
    each = each[["estimate", "error", "reliable"]].astype({"reliable": bool})
    private = [r for _, r in named]
    notes, by_spread = targets(private) if private else [], any(map(_silos, private))
    mus = {r._fit.origin: r.privacy.total_mu for r in private}
    if mus and all(map(math.isfinite, mus.values())):  # cost to a person who is in one of these fits, or in several
        every, one = ("every silo", "silo") if by_spread else ("everybody", "person")
        notes.append(
            f"Computed from released estimates, at no cost. If {every} is in one of these fits only, they cost "
            f"{within(max(mus.values()), 4)}-GDP per {one} at most; whoever is in all of them, "
            f"{within(compose(mus.values()), 4)}-GDP."
        )
        if again := [name for name, r in named if r.privacy.release.number > 1]:
            notes.append(
                f"{', '.join(again)}: not the first fit of its data. Fits that share people are pooled with standard "
                "errors that are too small."
            )
    else:
        some = "at least one of these results was fitted with mu=None" if mus else "none of these results is"
        notes.append(f"NOT PRIVATE: {some}.")
    return Gathered(labels, wanted, each, notes, of, by_spread)


def _table(r: Any, name: str, caller: str) -> pd.DataFrame:
    """Estimates and limits of a result by term."""
    if not isinstance(r, Results) and all(hasattr(r, n) for n in ("params", "bse", "conf_int")):  # to public data
        low, high = np.asarray(r.conf_int(0.05), dtype=np.float64).T
        columns = {"estimate": np.asarray(r.params), "conf_low": low, "conf_high": high, "reliable": True}
        terms = r.params.index if isinstance(r.params, pd.Series) else r.model.exog_names
        return pd.DataFrame(columns, index=pd.Index([str(term) for term in terms], name="term"))
    if not isinstance(r, Results) or not hasattr(r._fit, "design"):  # means have none
        raise OptionError(
            f"{name} is of type {type(r).__name__}, not results; {caller}() takes what fit() returns, or what has "
            "params, bse and conf_int(), as statsmodels' results to public data have."
        )
    table: pd.DataFrame = r._fit.flat(r._table()).set_index("term")
    if silos := _silos(r):
        half = _NORMAL / math.sqrt(silos)
        return table.assign(conf_low=table["estimate"] - half, conf_high=table["estimate"] + half)
    if "conf_low" not in table:
        raise InferenceError(f"{name} has estimates without standard errors; fit with inference='auto'.")
    return table


def _silos(r: Any) -> int:
    """Silos of a federated fit, which has no standard errors; else 0."""
    return int(r.silos) if not r._fit.estimates and hasattr(type(r), "silos") else 0


def _refuse(named: Sequence[tuple[str, Any]], fits: int, wanted: Sequence[str], caller: str) -> None:
    """Refuse fits that are not alike, one that is given twice, as it would count as two, and names with other meanings.

    Federated fits converge elsewhere by their options, and their spread tells their error where budgets are the same.
    """
    silos = [dict(r._fit.title) | {"Budget": r.privacy.budget} for _, r in named if _silos(r)]
    wrong = {
        f"{caller}() needs standard errors, which federated fits don't have. Fit each silo's rows by themselves, with "
        "PrivateOnlineRegression or privreg.central, and give these results": silos and caller != "meta_analysis",
        "federated fits have no standard errors, so that nothing tells their weight beside fits that have; pool "
        "federated fits alone, whose spread tells their error": silos and len(silos) < fits,
    }
    refuse(wrong, InferenceError)
    options = ("Rounds", "Local steps", "Update clip", "Family", "Budget")
    facts = {f"options {what.lower()}": [one[what] for one in silos] for what in options if silos}
    fitted = [r._fit for _, r in named]
    facts |= {"responses": [fit.design.endog_name for fit in fitted], "links": [fit.family.link for fit in fitted]}
    facts["baselines of the response"] = ["".join(map(str, fit.baseline[:1])) for fit in fitted]
    for what, values in facts.items():
        if len(set(values)) > 1:
            found = ", ".join(f"{value} in {name}" for (name, _), value in zip(named, values, strict=True) if value)
            raise OptionError(
                f"{caller}() takes fits of one model to different people, with the same options, and their {what} "
                f"differ: {found}; give all fits the same."
            )
    for i, (name, r) in enumerate(named):
        for other, s in named[:i]:
            if r._fit.origin == s._fit.origin or np.array_equal(r._fit.params, s._fit.params):
                raise OptionError(
                    f"{other} and {name} are results of one fit; {caller}() takes fits to different people, each once."
                )
    for column, by in references(named).items():
        for fit in fitted:
            over = [{*term.reads} for term in fit.design.terms if column in term.reads]
            moved = [j for t in fit.design.terms if any({*t.reads} <= s for s in over) for j in t.columns]
            labels = [
                f"{level}:" * bool(level) + fit.design.names[j] for level in fit.baseline[1:] or ("",) for j in moved
            ]
            if hit := [t for t in wanted if t in labels]:
                found = ", ".join(f"{level} in {name}" for level, name in by.items())
                raise OptionError(
                    f"{caller}() can't put {', '.join(hit)} together: {column} is compared with {found}. Give all fits "
                    "the same first level, or the same Treatment(), or choose other coefficients by terms=."
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
) -> "MetaAnalysis":
    """Pool the estimates of fits to different people, such as silos, years or countries.

    A result without standard errors is an InferenceError; fewer than two, one that is given twice, other models, or
    factors that are compared with other levels are an OptionError.

    Parameters
    ----------
    results : sequence or mapping of str to results
        Two or more, of one model fitted to *different people*, with any trust model; results of other libraries to
        public data may be among them. Fits that lack a coefficient are left out of it. Or federated fits with the same
        options, each of other silos: these have no standard errors, and the spread between the fits tells them.
    names : sequence of str, optional
        Names of the fits; "(1)", "(2)", … by default.
    terms : str or sequence of str, optional
        Coefficients ("level:term" of multinomial fits), or terms such as a factor; all by default.
    random : bool
        Whether true coefficients may differ between fits (random effects), with variance τ²; else they have a common
        one.
    method : {"reml", "dl", "hodges_lehmann"}
        Restricted maximum likelihood, or DerSimonian and Laird's moments, for τ². "hodges_lehmann", of a common effect,
        is the median of all means of two fits' estimates: all fits count the same, and fewer than 29% may be anything.
    test : {"hartung_knapp", "normal"}
        Hartung and Knapp's intervals, by Student's t of k − 1 degrees of freedom, or normal ones, too short with few
        fits.

    Notes
    -----
    With estimates y_i, standard errors s_i, privacy noise included, and weights w_i = 1/(s_i² + τ²) the pooled estimate
    is Σ w_i y_i / Σ w_i, of variance q / Σ w_i with q = max(1, Σ w_i (y_i − ŷ)²/(k − 1)).

    The median of means of two has the variance 1/(12 k J²), where J is the mean of {2π (s_i² + s_j²)}^−½ over pairs of
    fits, and s_i not below their median: π/3 times that of the mean where all s_i are the same.

    Of federated fits weights are their numbers of silos n_i, and the variance is Σ n_i (y_i − ŷ)²/{(k − 1) Σ n_i}, with
    Student's t: right if errors are independent and have one mean and variances in proportion to 1/n_i.

    References
    ----------
    DerSimonian & Laird (1986), Controlled Clinical Trials 7, 177-188; Hodges & Lehmann (1963), Annals of Mathematical
    Statistics 34, 598-611; Viechtbauer (2005), J. Educ. Behav. Stat. 30, 261-293; Knapp & Hartung (2003), Statistics in
    Medicine 22, 2693-2710.
    """
    choose("method", method, METHODS)
    choose("test", test, TESTS)
    random = flag("random", random) and method != "hodges_lehmann"
    held = gathered(results, names, terms, "meta_analysis", 2)
    few = [t for t in held.terms if len(held.of(t)) < 2]
    if len(few) == len(held.terms):
        raise OptionError(f"no coefficient is in two of these fits: {', '.join(few)}.")
    if held.relative:
        held.notes.insert(0, SPREAD)
        test = "spread"
    values = {t: (one["estimate"].to_numpy(), one["error"].to_numpy() ** 2) for t in held.terms for one in [held.of(t)]}
    found = tuple(pooled(t, *values[t], random, method, test) for t in held.terms if t not in few)
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
    scale = float(fixed.sum() - fixed @ fixed / fixed.sum())
    moments = max(0.0, (q - k + 1.0) / scale)  # DerSimonian and Laird's
    tau2 = 0.0 if not random else tau2_reml(y, v) if method == "reml" else moments
    w = 1.0 / (v + tau2)
    mean = float(w @ y / w.sum())
    t = random and test == "hartung_knapp"
    inflated = max(1.0, float(w @ (y - mean) ** 2) / (k - 1)) if t else 1.0
    error, df = math.sqrt(inflated / w.sum()), k - 1.0 if t else math.inf
    return Pooled(term, mean, error, df, tau2, tau2 / (tau2 + (k - 1.0) / scale), q, w / w.sum())


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
        """Pooled estimates, one coefficient a row; `alpha` is one minus the level of the intervals.

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
        reliable = [bool(self.held.of(term)["reliable"].all()) for term in each.index]
        return Frame(out.assign(q_p_value=stats.chi2.sf(each["q"], k - 1), reliable=reliable))

    def weights(self) -> pd.DataFrame:
        """Share of each fit in the pooled estimates: fits by terms; 0 where a fit lacks the term."""
        columns = {one.term: pd.Series(one.weights, self.held.of(one.term).index) for one in self.pooled}
        return Frame(pd.DataFrame(columns).reindex(self.held.names).rename_axis(None).fillna(0.0))

    def plot(self, term: str | None = None, *, alpha: float = 0.05, title: str | None = None, ax: Any = None) -> Any:
        """Draw a forest plot: each fit's estimate with its interval, the pooled one as a diamond.

        Squares are as large as the fits' weights; hollow ones should not be relied on. A thin line behind the diamond
        is the interval of another fit's true coefficient.
        """
        frame, of = self.frame(alpha), {p.term: p for p in self.pooled}
        level, words = f"{100 * (1 - alpha):.6g}%", "random effects" if self.random else "common effect"

        def drawn(term: str, ax: Any) -> str:
            one, held, row = of[term], self.held.of(term), frame.loc[term]
            names, y, ok = list(held.index), held["estimate"].to_numpy(), held["reliable"].to_numpy()
            half = stats.norm.ppf(1.0 - alpha / 2.0) * held["error"].to_numpy() * (not self.held.relative)
            footer = f"{level} intervals; {words}, τ = {math.sqrt(one.tau2):.3g}, I² = {100 * row.i2:.0f}%"
            footer = f"{level} interval by the spread between fits" if self.held.relative else footer
            footer += "" if ok.all() else "\ndon't rely on hollow squares: see the summaries of their fits"
            inks, at = style.inks_for(ax), np.arange(len(names), 0, -1.0)
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
            numbers = [*y, one.estimate], [*(y - half), row.conf_low], [*(y + half), row.conf_high]
            shown = zip(*(in_one_format(column, 0, one.error) for column in numbers), strict=True)
            alone = len(names) if self.held.relative else 0  # Labels without limits
            beside = ax.secondary_yaxis("right")
            beside.set_yticks([*at, 0.0], [m if i < alone else f"{m} [{a}, {b}]" for i, (m, a, b) in enumerate(shown)])
            beside.tick_params(length=0, labelsize=style.SMALL)
            return footer

        size = (1.6 * style.COLUMN, 0.9 + 0.22 * (len(self.held.names) + 1))
        return style.each_drawn(drawn, self.held.meant(term, list(of)), title, ax, size)

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
            ok = self.held.each["reliable"]
            doubtful = list(dict.fromkeys(ok[~ok].index.get_level_values("fit")))
            notes.insert(0, f"Marked rows hold estimates that their fits' summaries take back: {', '.join(doubtful)}.")
        return [pooled, *([] if self.held.relative else [between]), Paragraph("\n".join(notes))]


@known_arguments
def shrink(results: Any, *, names: Sequence[str] | None = None, terms: str | Sequence[str] | None = None) -> "Shrunken":
    """Draw the coefficients of fits to different people towards their common mean, the noisier the more.

    Takes what :func:`privreg.meta_analysis` does, of three fits or more; all terms that three fits have by default.

    True coefficients are taken to be normal with mean m and sd τ. Given τ, a fit's estimate y with standard error s
    becomes (1 − B) y + B m̂ with B = s²/(s² + τ²) (Efron & Morris 1975, JASA 70, 311-319). τ is averaged over its
    posterior under a flat prior (Gelman 2006, Bayesian Analysis 1, 515-534), so that intervals count that few fits
    hardly tell it; they hold on average over fits, not for one that is unlike all others.
    """
    held = gathered(results, names, terms, "shrink", 3)
    found = {t: held.of(t) for t in held.terms}
    usable = [t for t in held.terms if len(found[t]) >= 3]
    for t in held.terms if not usable or terms is not None else ():
        if t not in usable:
            choose("terms", t, usable)
    values = {t: (found[t]["estimate"].to_numpy(), found[t]["error"].to_numpy() ** 2) for t in usable}
    return Shrunken(held, tuple(Towards(t, *posterior(*of)) for t, of in values.items()))


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

        Index (term, fit); estimate, std_error, conf_low, conf_high (posterior mean, sd and quantiles at `alpha`/2),
        original (the fit's estimate), original_error, pull (share of the way to the common mean, 0 to 1), reliable.
        """
        alpha, parts = interval_level(alpha), []
        for one in self.towards:
            held = self.held.of(one.term)
            pull = one.share @ (held["error"].to_numpy() ** 2 / (held["error"].to_numpy() ** 2 + one.tau[:, None] ** 2))
            columns: dict[str, Any] = {"estimate": one.estimate, "std_error": one.error}
            columns |= {"conf_low": one.limit(alpha / 2.0), "conf_high": one.limit(1.0 - alpha / 2.0)}
            columns |= {"original": held["estimate"].to_numpy(), "original_error": held["error"].to_numpy()}
            columns |= {"pull": pull, "reliable": held["reliable"].to_numpy()}
            index = pd.MultiIndex.from_product([[one.term], held.index], names=["term", "fit"])
            parts.append(pd.DataFrame(columns, index=index))
        return Frame(pd.concat(parts))

    def _layout(self) -> list[Part]:
        frame = self.frame()
        table = estimates_table(frame, names=frame.index.get_level_values("fit"))
        original = in_one_format(frame["original"], 4, float(frame["original_error"].min()))
        rows = [[o, *row, f"{100 * p:.0f}%"] for o, row, p in zip(original, table.rows, frame["pull"], strict=True)]
        begins = np.cumsum([0, *(t.mean.shape[1] for t in self.towards)])
        blocks = {int(b): t.term for b, t in zip(begins, self.towards, strict=False)}
        title = f"Coefficients of {len(self.held.names)} Fits, Partially Pooled"
        head = ["by itself", *table.head, "pull"]
        pull = "pull: share of the way from a fit's estimate to the fits' common mean, on average over τ."
        return [Table(table.names, head, rows, title, blocks), Paragraph("\n".join([pull, *self.held.notes]))]
