"""Partial pooling: estimates of fits to different people, drawn towards each other by empirical Bayes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import optimize, stats
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.errors import choose, interval_level
from privreg.options.unknown import all_known_arguments, known_arguments
from privreg.results.data import Frame
from privreg.results.plots import style
from privreg.results.several.gathered import Gathered, gathered
from privreg.results.several.meta import restricted
from privreg.tables import Paragraph, Part, Table, View, cells, in_one_format, marked, plain, shorten

PULL: Final = "pull: share of the way from a fit's estimate to the fits' common mean, on average over τ."


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
        part = self.frame(alpha).loc[term]
        footer = f"{100 * (1 - alpha):.6g}% intervals; open: each fit by itself, filled: drawn towards the others"
        inks, at = style.inks_for(ax), np.arange(len(part), 0, -1.0)
        half = float(stats.norm.ppf(1.0 - alpha / 2.0)) * part["original_error"]
        ax.hlines(at + 0.12, part["original"] - half, part["original"] + half, color=inks.grey, linewidth=0.8)
        ax.plot(part["original"], at + 0.12, "o", color=inks.grey, markerfacecolor=style.ground(ax), markersize=4)
        ax.hlines(at - 0.12, part["conf_low"], part["conf_high"], color=inks[0], linewidth=1.0)
        ax.plot(part["estimate"], at - 0.12, "o", color=inks[0], markersize=4)
        ax.set_yticks(at, [*map(style.literal, shorten(map(str, part.index), 24))])
        ax.set_ylim(0.4, len(part) + 0.6)
        ax.set_xlabel(style.literal(plain(term)))
        return footer

    def _layout(self) -> list[Part]:
        frame = self.frame()
        tidy = frame[["estimate", "std_error", "conf_low", "conf_high"]]
        head, rows = cells(tidy, 0.05)
        original = in_one_format(frame["original"], 4, float(frame["original_error"].min()))
        rows = [[o, *row, f"{100 * p:.0f}%"] for o, row, p in zip(original, rows, frame["pull"], strict=True)]
        names = marked((fit for _, fit in frame.index), frame["reliable"])
        begins = np.cumsum([0, *(len(self.held.of(t.term)[0]) for t in self.towards)])
        blocks = {int(b): t.term for b, t in zip(begins, self.towards, strict=False)}
        title = f"Coefficients of {len(self.held.names)} Fits, Partially Pooled"
        table = Table(names, ["by itself", *head, "pull"], rows, title, blocks)
        return [table, Paragraph("\n".join([PULL, *self.held.notes]))]
