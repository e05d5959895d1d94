"""Marginal effects on the mean at public covariate values, with standard errors by the delta method.

Nothing here reads private rows: effects are functions of the released coefficients and of rows the user calls public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.resampling import Bootstrap
from privreg.errors import DataError, NotPrivateError, OptionError
from privreg.families.logistic import class_shares
from privreg.options.unknown import all_known_arguments
from privreg.results.data import ResultData
from privreg.results.postestimation.known import Known, Tested
from privreg.results.postestimation.prediction import estimand_words, in_order
from privreg.tables.diagnostics import along

_STEP: Final = 6e-6  # About the third root of the rounding unit: best for central differences
_TINY: Final = 2.0**-300  # Step along the imaginary axis, whose square is nothing
_FLOOR: Final = 1e-4  # The step of a number near 0, in steps of its public scale: logarithms bend there
_JUMP: Final = 1e-3  # Share of its range on the public box by which no continuous design column moves in such a step


@all_known_arguments
class MarginalEffects(Tested):
    """Effects of covariates on the mean; see `PrivateResults.marginal_effects`.

    They are called by their term, before it the level for multinomial fits, before these the row if effects are not
    averaged.
    """


def marginal_effects(known: Known, at: Any, average: bool) -> MarginalEffects:
    """Effects at public rows, by the covariance of all coefficients; see `PrivateResults.marginal_effects`.

    The derivative of the mean h(xᵀβ) by a raw number takes that of the design by differences of public rows through the
    formula, so that polynomials, splines, logarithms and interactions count, and the rest by complex steps. A factor's
    effect is the mean at a level less that at its reference, other columns as they are in the row.

    See Bartus (2005), Estimation of marginal effects using margeff, Stata Journal 5, 309-329.
    """
    fit = known.fit
    if fit.family.link == "margin":
        raise OptionError(
            f"{fit.family!r} has a margin, which is no mean and no probability, and so no marginal effects; its "
            "coefficients are the margin's. Fit Logistic() for effects on a probability."
        )
    if at is None:
        raise NotPrivateError(
            "marginal_effects() without rows would average over the private data; give public covariate values, as in "
            "marginal_effects(pd.DataFrame({...}))."
        )
    if fit.family.link != "identity":
        fit.refuse_levels("an effect on a probability")
    at, labels = fit.design.read_new(at)
    x, offset = fit.design.encode_new(at)
    if not len(x):
        raise DataError("marginal_effects() got no rows; give at least one row of public covariate values.")
    # the only distribution that differs from effect to effect
    found = stacked(known, _changes(fit, at, x, offset), average, keep=isinstance(known.pivot, Bootstrap))
    if not found.names:
        raise OptionError("the model has no covariates, so there are no marginal effects; predict() gives its mean.")
    pivot = known.pivot if found.gradient is None else known.pivot.along(found.gradient)
    rows = pd.RangeIndex(len(x)) if labels is None else labels.to_flat_index()
    over = f", averaged over {len(x):,} public row{'s' * (len(x) > 1)}" if average else ""
    index = _index(fit, found.names, None if average else rows)
    title = f"Marginal effects on {estimand_words(fit)}{over}"
    return MarginalEffects(found.value, found.se, pivot, index, title, known.notes, found.reliable)


def _index(fit: ResultData, terms: list[str], rows: pd.Index | None) -> pd.Index:
    """Labels of the effects."""
    labels: list[Any] = [*([] if rows is None else [rows]), *([list(fit.classes)] if fit.classes else []), terms]
    names = [*([] if rows is None else ["row"]), *([fit.design.endog_name] if fit.classes else []), "term"]
    if len(labels) == 1:
        return pd.Index(terms)
    made: pd.Index = pd.MultiIndex.from_product(labels, names=names)
    return made


# --- the mean's change, and its gradient -----------------------------------------------------------------


class Effect(NamedTuple):
    """Change of one mean at each row: of the response, or of one class's probability."""

    value: Array  # Shape (n,)
    gradient: Array  # Derivatives by the coefficients, shape (n, q)


class Stacked(NamedTuple):
    """Numbers in the order of their table: terms of a level, levels of a row."""

    names: list[Any]  # Names of the terms
    value: Array  # Shape (q,)
    se: Array
    reliable: NDArray[np.bool_]
    gradient: Array | None  # Derivatives by the coefficients, shape (q, p), if they are kept


def stacked(known: Known, changes: Iterable[tuple[Any, list[Effect]]], average: bool, *, keep: bool) -> Stacked:
    """Changes of the means, those of a term together, with their errors; averaged over rows, or row by row."""
    names, terms, gradients = list[Any](), [], []
    for name, change in changes:
        names.append(name)
        if average:
            change = [Effect(*(a.mean(axis=0, keepdims=True) for a in part)) for part in change]
        terms.append([(v, known.errors(g), along(known.notes, g)) for v, g in change])
        gradients.append([g for _, g in change if keep])
    value, se, reliable = (np.array([[part[k] for part in term] for term in terms]).T.reshape(-1) for k in range(3))
    g = np.array(gradients).transpose(2, 1, 0, 3) if keep and terms else None
    return Stacked(names, value, se, reliable, None if g is None else g.reshape(-1, g.shape[3]))


class Rows(NamedTuple):
    """Encoded rows, or their derivative by a raw number."""

    x: Array
    offset: Array


def means_at(fit: ResultData, rows: Rows) -> list[Effect]:
    """Means at the rows: of the response, or of each class's probability."""
    if fit.design.cuts is not None:
        share, by = in_order(fit, *rows)
        return [Effect(share[:, k], by[:, k]) for k in range(share.shape[1])]
    if not fit.levels:
        eta = rows.x @ fit.params + rows.offset
        return [Effect(fit.family.inverse_link(eta), fit.family.inverse_link_derivative(eta)[:, None] * rows.x)]
    shares = class_shares(rows.x @ fit.params.reshape(len(fit.levels) - 1, -1).T)
    same = np.eye(len(fit.levels))
    tilts = [share[:, None] * (same[k] - shares)[:, 1:] for k, share in enumerate(shares.T)]  # by the predictors
    return [
        Effect(share, (tilt[:, :, None] * rows.x[:, None, :]).reshape(len(share), -1))
        for share, tilt in zip(shares.T, tilts, strict=True)
    ]


def _slope(fit: ResultData, rows: Rows, by: Rows) -> list[Effect]:
    """Derivatives of the means, if the rows move by `by`: by a step along the imaginary axis, exact to rounding.

    See Squire & Trapp (1998), Using complex variables to estimate derivatives of real functions, SIAM Review 40, 110.
    """
    moved: Any = means_at(fit, Rows(rows.x + 1j * _TINY * by.x, rows.offset + 1j * _TINY * by.offset))
    return [Effect(value.imag / _TINY, gradient.imag / _TINY) for value, gradient in moved]


def _difference(fit: ResultData, rows: Rows, base: Rows) -> list[Effect]:
    """Means at `rows` less those at `base`."""
    both = zip(means_at(fit, rows), means_at(fit, base), strict=True)
    return [Effect(one.value - zero.value, one.gradient - zero.gradient) for one, zero in both]


# --- what moves ------------------------------------------------------------------------------------------


def _changes(fit: ResultData, at: Any, x: Array, offset: Array) -> Iterator[tuple[str, list[Effect]]]:
    """Each effect's name, and the changes of the means."""
    design, rows = fit.design, Rows(x, offset)
    if design.formula is None:
        for j in np.flatnonzero(np.ptp(design.probe, axis=0) > 0.0):
            by = np.zeros_like(x)
            by[:, j] = 1.0
            yield design.names[j], _slope(fit, rows, Rows(by, np.zeros(len(x))))
        return
    held = pd.DataFrame({c: at[c] for c in design.columns if c in at})
    for name in dict.fromkeys(c for made_of in design.sources for c in made_of):
        if name not in design.schema.levels:
            yield name, _slope(fit, rows, _derivative(design, held, name))
            continue
        levels = design.schema.levels[name]
        at_levels = [Rows(*design.encode_new(held.assign(**{name: np.full(len(x), v, object)}))) for v in levels]
        reference = _reference(design, name, at_levels)
        for v, there in zip(levels, at_levels, strict=True):
            if v is not levels[reference]:
                label = f"{name}[{v} - {levels[reference]}]"
                yield label, _difference(fit, there, at_levels[reference])


def _reference(design: Any, name: str, at_levels: list[Rows]) -> int:
    """Position of the level whose own design columns are all 0, as the formula codes it; 0 if it isn't one level."""
    alone = [j for j, made_of in enumerate(design.sources) if made_of == (name,)]
    zero = [i for i, rows in enumerate(at_levels) if alone and not rows.x[:, alone].any()]
    return zero[0] if len(zero) == 1 else 0


def _derivative(design: Any, held: Any, name: str) -> Rows:
    """Derivative of the encoded rows by a raw number: of the parabola through three points about each value.

    The points stay within the public bounds if the value does, so that splines and logarithms can be computed there.
    """
    value = design.values_of(held, name)
    size = design.schema.scale(name)[1]
    if name in design.schema.private:  # has no public scale
        size = np.abs(value).max() or 1.0
    low, high = design.schema.limits(name)
    low, high = np.where(value < low, -np.inf, low), np.where(value > high, np.inf, high)
    step = np.minimum(_STEP * np.clip(np.abs(value), _FLOOR * size, size), (high - low) / 2)
    middle = np.clip(value, low + step, high - step)
    t0, t1, t2 = (np.clip(middle + k * step, low, high) for k in (-1, 0, 1))
    before, centre, after = (Rows(*design.encode_new(held.assign(**{name: t}))) for t in (t0, t1, t2))
    span = np.ptp(design.probe, axis=0)
    moved = np.maximum(np.abs(before.x - centre.x), np.abs(after.x - centre.x)).max(axis=0)
    jumping = moved > _JUMP * np.where(span > 0, span, 1.0)
    if jumping.any():
        term = design.names[int(np.argmax(jumping))]
        raise DataError(
            f"the design column {term!r} jumps where a public row has its value of {name!r}, so there is no "
            "derivative; give rows away from the jump, or take differences of predict()."
        )
    left = (2 * value - t1 - t2) / ((t0 - t1) * (t0 - t2))
    right = (2 * value - t0 - t1) / ((t2 - t0) * (t2 - t1))
    return Rows(
        left[:, None] * (before.x - centre.x) + right[:, None] * (after.x - centre.x),
        left * (before.offset - centre.offset) + right * (after.offset - centre.offset),
    )
