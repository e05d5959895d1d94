"""Smooth curves: a spline's coefficients with a roughness penalty, from released estimates alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, interval_level
from privreg.results.data import Frame, ResultData
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.results.postestimation.known import Known
from privreg.tables import Paragraph, Part, Table, View, cells, diagnostics, noted, plain

_GRID: Final = 101  # Points of a curve, over the declared bounds
_SHOWN: Final = 10  # Lines of the table are this many points from each other
_WIDEST: Final = 30.0  # Logarithm of the largest ratio of a penalty to the estimates' precision, either way


@dataclass(frozen=True, repr=False)
class Smooth(View):
    """A curve with pointwise bands; see `PrivateResults.smooth`."""

    known: Known
    term: str
    column: str
    x: Array  # Shape (m,)
    effect: Array  # Less its mean over x, shape (m,)
    error: Array  # Shape (m,)
    raw: Array  # Curve without a penalty, shape (m,)
    edf: float  # Effective number of the term's coefficients
    columns: int  # Their number
    reliable: bool

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Points of the curve.

        Returns
        -------
        DataFrame
            Index: the covariate; effect, std_error, conf_low, conf_high, unpenalised.
        """
        half = self.known.pivot.critical(interval_level(alpha)) * self.error
        columns = {"effect": self.effect, "std_error": self.error, "conf_low": self.effect - half}
        columns |= {"conf_high": self.effect + half, "unpenalised": self.raw}
        return Frame(columns, index=pd.Index(self.x, name=self.column))

    def plot(self, *, alpha: float = 0.05, title: str | None = None, ax: Any = None) -> Axes:
        """Draw the curve with its band, and dotted the curve without a penalty."""
        table = self.frame(alpha)
        footer = f"{100 * (1 - alpha):.6g}% pointwise band; {self.edf:.1f} effective of {self.columns} coefficients"
        footer += "; dotted: without penalty" + ("" if self.reliable else "\ndon't rely on it: see the summary's notes")
        with style.drawing(ax, (style.COLUMN, 0.75 * style.COLUMN), footer, title) as on:
            inks = style.inks_for(on)
            on.fill_between(self.x, table["conf_low"], table["conf_high"], color=inks[0], alpha=0.2, linewidth=0)
            on.plot(self.x, self.effect, color=inks[0])
            on.plot(self.x, self.raw, ":", color=inks.grey, linewidth=0.8)
            on.axhline(0.0, color=inks.grey, linewidth=0.6)
            on.set_xlabel(style.literal(plain(self.column)))
            on.set_ylabel(f"effect of {style.literal(plain(self.column))}")
        return cast("Axes", on)

    def _layout(self) -> list[Part]:
        table = self.frame().iloc[::_SHOWN]
        head, rows = cells(table.rename(columns={"effect": "estimate"}).iloc[:, :4], 0.05, "effect")
        title = f"Smooth Curve of {self.term} ({self.edf:.1f} effective of {self.columns} coefficients)"
        said = (
            "Effects are relative to their mean over the declared bounds. Bands are pointwise: they hold on average "
            "along the curve, less where it bends most. The penalty is estimated from the released coefficients; "
            "nothing was spent."
        )
        return [Table([f"{v:.6g}" for v in table.index], head, rows, title), Paragraph(said), *noted(self.known.notes)]


def smooth(known: Known, term: Any) -> Smooth:
    """Penalise the roughness of a term's curve; see `PrivateResults.smooth`."""
    from scipy.optimize import minimize_scalar

    fit = known.fit
    if fit.levels:
        raise OptionError("smooth() draws one curve, and a multinomial fit has one for each level of the response.")
    found = {t.name: t for t in fit.design.terms if len(t.columns) > 2 and len(set(t.reads)) == 1 and not t.levels}
    if not found:
        raise OptionError(
            "smooth() needs a term of one number with three or more columns, such as "
            "bs(age, knots=(30, 40, 50), lower_bound=18, upper_bound=65)."
        )
    named = {t.reads[0]: name for name, t in found.items()} | {name: name for name in found}
    if term is None and len(found) > 1:
        raise OptionError(f"name a term: {', '.join(found)}.")
    chosen = found[named[choose("term", term, named)] if term is not None else next(iter(found))]
    at, column = list(chosen.columns), chosen.reads[0]
    low, high = fit.design.schema.limits(column)
    x = np.linspace(low, high, _GRID)
    basis = fit.design.encode_new(_along(fit, column, x))[0][:, at]
    if not np.isfinite(basis).all():
        raise OptionError(
            f"{chosen.name} is not finite everywhere between {low:g} and {high:g}, the bounds of {column}."
        )
    bends = np.diff(basis, 2, axis=0) * (_GRID - 1.0) ** 1.5  # of a covariate over (0, 1)
    penalty, precision = np.zeros_like(known.cov), known.precision("smooth")
    penalty[np.ix_(at, at)] = bends.T @ bends
    values = np.linalg.eigvalsh(penalty)
    rank = int((values > 1e-9 * values[-1]).sum())
    pulled = precision @ fit.params
    unit = float(np.trace(precision[np.ix_(at, at)]) / max(np.trace(penalty), 1e-300))

    def evidence(log: float) -> float:
        joint = precision + unit * math.exp(log) * penalty
        return float(rank * log - np.linalg.slogdet(joint)[1] + pulled @ np.linalg.solve(joint, pulled))

    steps = np.linspace(-_WIDEST, _WIDEST, 121)
    best = int(np.argmax([evidence(s) for s in steps]))
    ends = (steps[max(best - 1, 0)], steps[min(best + 1, 120)])
    log = float(minimize_scalar(lambda s: -evidence(s), bounds=ends, method="bounded").x)
    cov = np.linalg.inv(precision + unit * math.exp(log) * penalty)
    centred = basis - basis.mean(axis=0)
    inner = cov[np.ix_(at, at)]
    error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", centred, inner, centred), 0.0))
    edf = float(np.trace((cov @ precision)[np.ix_(at, at)]))
    ok = bool(diagnostics.reliable(known.notes, len(fit.names))[at].all())
    effect = centred @ (cov @ pulled)[at]
    raw = centred @ fit.params[at]
    return Smooth(known, chosen.name, column, x, effect, error, raw, edf, len(at), ok)


def _along(fit: ResultData, column: str, x: Array) -> pd.DataFrame:
    """Public rows in which one covariate moves, and others don't."""
    design, schema = fit.design, fit.design.schema
    rows: dict[str, Any] = {}
    for name in dict.fromkeys(c for t in design.terms for c in t.reads):
        fixed = schema.levels[name][0] if name in schema.levels else schema.scale(name)[0]
        rows[name] = x if name == column else np.full(len(x), fixed, object if name in schema.levels else np.float64)
    rows |= {name: np.full(len(x), v) for name, v in ((design.offset, 0.0), (design.exposure, 1.0)) if name is not None}
    return pd.DataFrame(rows)
