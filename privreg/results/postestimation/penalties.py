"""Penalised coefficients, from released estimates and their covariance: terms chosen by the adaptive lasso, a spline's
curve with a penalty on its roughness.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.errors import InferenceError, OptionError, choose, interval_level
from privreg.results.data import Frame
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.results.postestimation.hypothesis import Known, factors_of
from privreg.results.postestimation.terms import public_row
from privreg.tables import Paragraph, Part, View, diagnostics, estimates_table, noted, plain

_STEPS: Final = 100  # Penalties of the path
_SWEEPS: Final = 200
_NEAR: Final = 1e-14  # Square of a step at which a path's point is found, in standard errors
_Blocks = list[tuple[NDArray[np.intp], float]]  # Coefficients that enter and leave together, and their weight


@dataclass(frozen=True, repr=False)
class Selection(View):
    """Terms that were kept, and the path of penalties; see `PrivateResults.select`."""

    known: Known
    groups: dict[str, list[int]]  # Positions of each penalised term's coefficients
    penalties: Array  # Shape (m,), falling
    path: Array  # Coefficients at each penalty, shape (m, p)
    bic: Array  # Shape (m,)

    @property
    def best(self) -> int:
        """Position of the penalty of least BIC."""
        return int(self.bic.argmin())

    @property
    def kept(self) -> list[str]:
        """Penalised terms with coefficients other than 0, and what interactions among them are made of."""
        return _closed(self.groups, self.path[self.best])

    @property
    def dropped(self) -> list[str]:
        """Terms whose coefficients are 0."""
        return [t for t in self.groups if t not in self.kept]

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Coefficients of the smaller model.

        Index: coefficients; estimate, std_error, conf_low, conf_high (0, NaN, NaN, NaN of what is dropped), original
        (of the whole model), kept, reliable.
        """
        params, cov = self.known.fit.params.copy(), self.known.cov.copy()
        if out := [j for t in self.dropped for j in self.groups[t]]:  # given that these are 0
            gain = np.linalg.solve(cov[np.ix_(out, out)], cov[out])
            params, cov = params - params[out] @ gain, cov - cov[:, out] @ gain
            params[out] = cov[out] = cov[:, out] = 0.0
        error = np.sqrt(np.maximum(np.diag(cov), 0.0))
        kept, error = error > 0.0, np.where(error > 0.0, error, math.nan)
        half = self.known.pivot.critical(interval_level(alpha)) * error
        columns = {"estimate": np.where(kept, params, 0.0), "std_error": error}
        columns |= {"conf_low": params - half, "conf_high": params + half, "original": self.known.fit.params}
        columns |= {"kept": kept, "reliable": diagnostics.reliable(self.known.notes, len(params))}
        return Frame(columns, index=pd.Index(self.known.fit.names, name="term"))

    def _layout(self) -> list[Part]:
        frame = self.frame()
        table = estimates_table(frame[frame["kept"]], "Adaptive Lasso by Least Squares Approximation")
        said = f"Dropped: {', '.join(self.dropped)}." if self.dropped else "No term is dropped."
        why = (
            "Intervals are those of the smaller model as if it had been chosen beforehand. They hold where effects are "
            "either 0 or large beside their standard errors, and are too short otherwise: the fit's own summary has "
            "intervals that don't depend on the choice. Nothing was spent."
        )
        return [table, Paragraph(f"{said}\n{why}"), *noted(self.known.notes)]


def select(self: Any, *, method: str | None = None) -> Selection:
    """Choose terms by the adaptive lasso, from the released estimates and their covariance.

    ``kept`` and ``dropped`` terms, ``frame()`` with the smaller model's coefficients, ``path`` by ``penalties``. A
    factor's columns are kept or dropped together; the intercept stays, and so do the terms that a kept interaction is
    made of.

    Minimises (b − θ̂)' V⁻¹ (b − θ̂)/2 + λ Σ_g √d_g ‖b_g‖/‖θ̂_g‖ over b, V the covariance and g a term with d_g columns,
    each norm in the term's own standard errors; λ has the least (b − θ̂)' V⁻¹ (b − θ̂) + log(n) times the number of
    coefficients that are kept. Intervals are those of the smaller model as if it had been chosen beforehand.

    See Wang & Leng (2007), Unified lasso estimation by least squares approximation, JASA 102, 1039-1048; Wang & Leng
    (2008), A note on adaptive group lasso, Computational Statistics & Data Analysis 52, 5277-5286.
    """
    known, fit = self._known(method, "select"), self._fit
    groups = {t.name: fit.of_terms[t.name] for t in fit.design.terms if t.name not in style.CONSTANTS}
    if not groups:
        raise InferenceError("the only coefficient is the intercept, which is never dropped.")
    inverse, blocks, most = known.precision("select"), _Blocks(), 1e-12 / len(fit.params)
    for at in groups.values():
        size = float(fit.params[at] @ np.linalg.solve(known.cov[np.ix_(at, at)], fit.params[at]))
        blocks.append((np.array(at), math.sqrt(len(at)) / max(math.sqrt(size), 1e-300)))
        most = max(most, size / math.sqrt(len(at)))  # the latest that a term leaves the path: its size over its weight
    free = sorted({*range(len(fit.params))} - {j for at in groups.values() for j in at})
    blocks += [(np.array(free), 0.0)] * bool(free)
    penalties = np.geomspace(most * len(fit.params), most * len(fit.params) * 1e-5, _STEPS)
    # in c = L' b, with L L' = A_gg of each term, a term's columns are orthonormal: the choice then depends neither on
    # units nor on which level of a factor is the reference, and each block has its minimum in closed form
    there, back = np.zeros_like(inverse), np.zeros_like(inverse)
    for at, _ in blocks:
        there[np.ix_(at, at)] = root = np.linalg.cholesky(inverse[np.ix_(at, at)]).T
        back[np.ix_(at, at)] = np.linalg.inv(root)
    path, inner, target = np.empty((_STEPS, len(fit.params))), back.T @ inverse @ back, there @ fit.params
    c = target
    for i, penalty in enumerate(penalties):
        c = _lasso(target, inner, blocks, float(penalty), c)
        path[i] = back @ c
    off = path - fit.params
    loss = np.einsum("ij,jk,ik->i", off, inverse, off)
    used = [len(free) + sum(len(groups[t]) for t in _closed(groups, point)) for point in path]
    return Selection(known, groups, penalties, path, loss + math.log(fit.nobs) * np.array(used))


def _closed(groups: dict[str, list[int]], point: Array) -> list[str]:
    """Terms that are not 0 at a point of the path, and those that are part of an interaction that isn't."""
    there = [{*factors_of(t)} for t, at in groups.items() if point[at].any()]
    return [t for t in groups if any({*factors_of(t)} <= inside for inside in there)]


def _lasso(target: Array, a: Array, blocks: _Blocks, penalty: float, start: Array) -> Array:
    """Minimise ½ (c − t)' A (c − t) + Σ_g w_g ‖c_g‖ over c from `start`, with A_gg = I: sweeps of block descent, each
    with a step of Newton's on the terms that are not 0, without which collinear ones take thousands of sweeps.
    """
    c = start.copy()

    def rises(far: Array) -> float:
        """Rise of the criterion after a step."""
        longer = sum(w * (np.linalg.norm(c[at] + far[at]) - np.linalg.norm(c[at])) for at, w in blocks)
        return float(far @ a @ (c - target + 0.5 * far) + penalty * longer)

    for _ in range(_SWEEPS):
        before, gradient = c.copy(), a @ (c - target)  # anew: rounding doesn't add up
        for at, weight in blocks:
            alone = c[at] - gradient[at]  # minimum of the block alone
            length = float(np.linalg.norm(alone))
            new = alone * max(0.0, 1.0 - penalty * weight / length) if length > 0.0 else alone
            gradient += a[:, at] @ (new - c[at])
            c[at] = new
        moved = c - before
        if float(moved @ a @ moved) < _NEAR:
            break
        # Newton's: to the minimum of the second-order expansion over what is not 0, halved until it descends
        slope, bend, step, on = a @ (c - target), a.copy(), np.zeros(len(c)), np.flatnonzero(c)
        for at, weight in blocks:
            if weight and (length := float(np.linalg.norm(c[at]))) > 0.0:
                slope[at] += penalty * weight * c[at] / length
                turn = np.eye(len(at)) - np.outer(c[at], c[at]) / length**2
                bend[np.ix_(at, at)] += penalty * weight * turn / length
        step[on] = np.linalg.solve(bend[np.ix_(on, on)], -slope[on])
        c = next((c + by * step for by in 0.5 ** np.arange(8.0) if rises(by * step) < 0.0), c)
    return c


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
        """Points of the curve; index: the covariate; effect, std_error, conf_low, conf_high, unpenalised."""
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
        table = self.frame().iloc[::_SHOWN].rename(columns={"effect": "estimate"})
        title = f"Smooth Curve of {self.term} ({self.edf:.1f} effective of {self.columns} coefficients)"
        said = (
            "Effects are relative to their mean over the declared bounds. Bands are pointwise: they hold on average "
            "along the curve, less where it bends most. The penalty is estimated from the released coefficients; "
            "nothing was spent."
        )
        shown = estimates_table(table, title, first="effect", names=[f"{v:.6g}" for v in table.index])
        return [shown, Paragraph(said), *noted(self.known.notes)]


def smooth(self: Any, term: str | None = None, *, method: str | None = None) -> Smooth:
    """Smooth the curve of a spline, a term or its covariate, by a penalty on its roughness.

    ``frame()`` and ``plot()`` of the Smooth have the curve over the declared bounds, with pointwise bands, and ``edf``
    its effective number of coefficients. The penalty is λ ∫ f″², with λ of the largest marginal likelihood of θ̂ ~ N(θ,
    V) under the prior of which it is the logarithm (REML); bands are of that posterior (Nychka 1988, JASA 83,
    1134-1143).
    """
    from scipy.optimize import brute

    known, fit = self._known(method, "smooth"), self._fit
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
    basis = fit.design.encode_new(pd.DataFrame(public_row(fit) | {column: x}))[0][:, at]
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

    (log,) = brute(lambda s: -evidence(s[0]), [(-_WIDEST, _WIDEST)], Ns=121)
    cov = np.linalg.inv(precision + unit * math.exp(log) * penalty)
    centred = basis - basis.mean(axis=0)
    error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", centred, cov[np.ix_(at, at)], centred), 0.0))
    edf = float(np.trace((cov @ precision)[np.ix_(at, at)]))
    ok = bool(diagnostics.reliable(known.notes, len(fit.names))[at].all())
    effect = centred @ (cov @ pulled)[at]
    return Smooth(known, chosen.name, column, x, effect, error, centred @ fit.params[at], edf, len(at), ok)
