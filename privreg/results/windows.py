"""Windows of a stream: estimates from the reports of some of the records, a test of change, a table, a figure."""

from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri

from privreg.base.arrays import Array
from privreg.collector.inference.methods import OF_CHAIN, Steps, of_chain
from privreg.errors import InferenceError, OptionError, ReliabilityWarning, level, number, warn
from privreg.results.data import Frame, ResultData
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.tables import MARK, Paragraph, Part, View, diagnostics, estimates_table, marked


class Windowed(NamedTuple):
    """Estimates of windows."""

    begin: NDArray[np.int64]  # Records before the window; shape (w,)
    end: NDArray[np.int64]  # Records up to its end; shape (w,)
    estimate: Array  # shape (w, p)
    cov: Array  # Joint covariance of all windows; shape (w, p, w, p)


def windowed(steps: Steps, weights: Array) -> Windowed:
    """Averages of runs by `weights`, shape (w, m), of which each window has one above 0."""
    share = weights * steps.weight
    share = share / share.sum(axis=1, keepdims=True)
    squares = (share**2 / steps.weight) @ np.ones(len(steps.weight))
    groups = share @ (steps.group[:, None] == np.arange(steps.unknown.shape[1]))
    shared = np.einsum("wk,rkp->rwp", groups, steps.unknown)
    cov = np.einsum("rwp,rvq->wpvq", shared, shared)
    for w, square in enumerate(squares):
        cov[w, :, w, :] += square * steps.each
    inside = weights > 0.0
    begin = [steps.begin[one].min() for one in inside]
    end = [steps.ends[one].max() for one in inside]
    return Windowed(np.rint(begin).astype(np.int64), np.rint(end).astype(np.int64), share @ steps.estimate, cov)


def equal(steps: Steps, by: float) -> Array:
    """Weights of windows of `by` records, shape (w, m): a run belongs to that in which its middle is."""
    place = np.floor(0.5 * (steps.begin + steps.ends) / by)
    return np.asarray(place == np.unique(place)[:, None], dtype=np.float64)


def forgetting(steps: Steps, half: float) -> Array:
    """Weights of one window that halve with every `half` records back, shape (1, m)."""
    return np.asarray(0.5 ** ((steps.ends[-1] - 0.5 * (steps.begin + steps.ends)) / half))[None]


def change(found: Windowed, cols: list[int]) -> tuple[float, int, float]:
    """Test that the coefficients `cols` are the same in all windows: Wald's χ² of differences, its degrees, its p.
    Raises InferenceError if there is one window only.
    """
    w, p = len(found.estimate), len(cols)
    if w < 2:
        raise InferenceError("a change takes two windows or more, and there is one; give a smaller by=, or wait.")
    cov = found.cov[:, cols][..., cols].reshape(w * p, w * p)
    turn = np.kron(np.diff(np.eye(w), axis=0), np.eye(p))
    move = turn @ found.estimate[:, cols].reshape(-1)
    chi2 = float(move @ np.linalg.solve(turn @ cov @ turn.T, move))
    return chi2, (w - 1) * p, float(chdtrc((w - 1) * p, chi2))


@dataclass(frozen=True, repr=False)
class Windows(View):
    """Estimates of windows of a stream. Made by ``res.windows()``."""

    fit: ResultData
    found: Windowed
    alpha: float
    doubts: tuple[diagnostics.Diagnostic, ...] = ()  # Whatever takes back the fit's intervals takes back a window's

    @property
    def unseen(self) -> str:
        """Why a change before the first window isn't seen; empty if windows begin with the first main round."""
        before = list(takewhile(lambda r: r.role != "main", self.fit.rounds))
        begin = int(self.found.begin.min())
        if len(before) == len(self.fit.rounds) or begin <= sum(r.records for r in before):
            return ""
        return (
            f"the fit left out main rounds before record {begin:,}, in which estimates were far from where they ended: "
            "if coefficients changed before, these windows and their test don't show it"
        )

    @property
    def frame(self) -> pd.DataFrame:
        """One row a window and coefficient.

        term (before it the level for multinomial fits), begin and end (records before the window, and with it),
        estimate, std_error, conf_low, conf_high, reliable (whether no note of the fit's summary takes the intervals
        back).
        """
        w, p = self.found.estimate.shape
        estimate, error = self.found.estimate.reshape(-1), np.sqrt(np.einsum("wpwp->wp", self.found.cov)).reshape(-1)
        half = float(ndtri(1.0 - 0.5 * self.alpha)) * error
        edges = {"begin": np.repeat(self.found.begin, p), "end": np.repeat(self.found.end, p)}
        numbers = {"estimate": estimate, "std_error": error, "conf_low": estimate - half, "conf_high": estimate + half}
        return Frame(self.fit.labels(w).assign(**edges, **numbers, reliable=np.tile(self._reliable, w)))

    @property
    def _reliable(self) -> NDArray[np.bool_]:
        """Which coefficients no note takes back."""
        return diagnostics.reliable(self.doubts, len(self.fit.names))

    def test_change(self, cols: Any = None) -> pd.DataFrame:
        """Test that coefficients are the same in all windows.

        Wald's χ² (chi2, df, p_value) of each coefficient in `cols`, of all by default, and, in the last row, of all of
        them together; of one window only it is an InferenceError. A ReliabilityWarning says that intervals can't be
        relied on, or that a change at the beginning isn't seen, as the fit left out its first main rounds.
        """
        names, chosen = list(self.fit.names), self.fit.places(cols)
        if self.unseen:
            warn(self.unseen, ReliabilityWarning)
        if not self._reliable[chosen].all():
            diagnostics.caution(names, self.doubts, what="windows of")
        rows = {names[j]: change(self.found, [j]) for j in chosen}
        if len(chosen) > 1:
            rows["all"] = change(self.found, chosen)
        return Frame(pd.DataFrame.from_dict(rows, orient="index", columns=["chi2", "df", "p_value"]))

    def plot(self, terms: Any = None, *, title: str | None = None, ax: Any = None) -> Axes | NDArray[Any]:
        """Draw windows' estimates with their intervals against the number of records.

        Coefficients in `terms`, of all by default, have a panel each, and `ax` is one Axes of each.
        """
        fit, table = self.fit, self.frame
        named = {fit.names[j]: j for j in fit.places(terms, "terms")}
        footer = f"{100 * (1 - self.alpha):.6g}% intervals, each by itself; {style.guarantee([fit.statement])}"
        if not (reliable := self._reliable)[list(named.values())].all():
            footer += f"\n{MARK} don't rely on it: see the notes of the summary"

        from matplotlib.ticker import FuncFormatter, MaxNLocator

        def one(name: str, panel: Any) -> str:
            one, inks = table.iloc[named[name] :: len(fit.names)], style.inks_for(panel)
            for low, high, begin, end in one[["conf_low", "conf_high", "begin", "end"]].to_numpy():
                panel.fill_between([begin, end], low, high, color=inks[0], alpha=0.2, linewidth=0)
            panel.hlines(one["estimate"], one["begin"], one["end"], color=inks[0], linewidth=1.2)
            panel.axhline(fit.params[named[name]], color=inks.grey, linewidth=0.7, linestyle=":")
            panel.set_ylabel(*map(style.literal, marked([name], [reliable[named[name]]])))
            panel.set_xlabel("records")
            panel.xaxis.set_major_locator(MaxNLocator(5))
            panel.xaxis.set_major_formatter(FuncFormatter(lambda v, _: style.compact(v)))
            return footer if name == list(named)[-1] else ""

        out: Axes | NDArray[Any] = style.each_drawn(one, list(named), title, ax, (style.COLUMN, 1.9))
        return out

    def _layout(self) -> list[Part]:
        table, p = self.frame, len(self.fit.names)  # of which each coefficient has a part
        rows = [f"{b:,} to {e:,}" for b, e in zip(self.found.begin.tolist(), self.found.end.tolist(), strict=True)]
        out: list[Part] = [
            estimates_table(table.iloc[j::p], f"{name}, by records", self.alpha, names=rows)
            for j, name in enumerate(self.fit.names)
        ]
        if len(rows) > 1:
            chi2, df, p_value = change(self.found, list(range(p)))
            said = f"chi2({df}) = {chi2:.2f}, p = {p_value:.3g}"
            out.append(Paragraph(f"All coefficients the same in all windows: {said}"))
        alone = "Each interval holds by itself; reports are those of the fit: no further budget"
        notes = [alone, self.unseen[:1].upper() + self.unseen[1:], *(f"{MARK} {note}" for note in self.doubts)]
        return [*out, *(Paragraph(f"{note}.") for note in notes if note)]


def windows(self: Any, by: Any = None, *, forget: Any = None, alpha: float = 0.05) -> Windows:
    """Estimate windows of the stream from the same reports: no further budget.

    Windows of `by` records, about, as they begin and end with parts of rounds; or with `forget` the present alone,
    where a report counts half after so many records. Records are in the order in which they came: of a stream, or
    ``fit(order="position")``. By default `fit` takes rows in random order, whose windows are alike whatever changed.

    A window's estimate is the mean of its parts' one-step estimates; with ``tuning="published"`` that of its iterates,
    of which the first sixteenth, where they come from the start, is in no window. Covariates are taken to be
    distributed alike in all windows: second moments were learned at the beginning.
    """
    if (by is None) == (forget is None):
        raise OptionError(
            "windows() takes by=, the records of a window, or forget=, the records after which a report counts half; "
            f"got {'neither' if by is None else 'both'}."
        )
    name, value = ("by", by) if forget is None else ("forget", forget)
    size = number(name, value, "be a number of records, 1 or more", 1.0, closed=True)
    fit, steps = self._fit, self._fit.steps.value
    if steps is None or not len(steps.ends):
        raise InferenceError(
            "these results hold no estimates along the stream: windows are there once main rounds have begun, of "
            "records in the order in which they came, start() or fit(order='position'), for designs whose correlations "
            "are learned, without cluster=, with trust='local', and with "
            f"tuning='published' beside inference={', '.join(map(repr, OF_CHAIN[:-1]))} or "
            f"{OF_CHAIN[-1]!r}."
        )
    weights: Array = equal(steps, size) if forget is None else forgetting(steps, size)
    used = None if fit.rounds else of_chain(fit.estimates)
    doubts = tuple(n for n in self._doubts(None if used is None else used.method) if n.code != "changing")
    return Windows(fit, windowed(steps, weights), level(alpha), doubts)
