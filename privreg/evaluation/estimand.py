"""What a fit's intervals are for: the coefficients that its equation gives on *public or simulated* rows.

The rows given here are used as they are: nothing is randomised. A fit by rounds solves Σ w_k n_kg E Ψ_k(θ + δ_kg) = 0
with the row map, thresholds, offsets and weights that this very run has learned; where the model is wrong or errors
are skewed, another run solves another equation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.collector.covariates.whitening import inside
from privreg.data.participants import Participants, texts_of
from privreg.data.sources.open import public_batches
from privreg.errors import InferenceError, OptionError
from privreg.families import scores
from privreg.families.weights import SCORE_WEIGHTS, omega
from privreg.formula.units import public_units
from privreg.options.threads import one_thread
from privreg.protocol import codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privreg.arrays import Array
    from privreg.results.data import Equation, ResultData

NUMBERS: Final = 1 << 15
"""Predictors, of rows by offsets, that are looked at together: so few that they stay in a processor's cache."""

WINDOW: Final = {codes.QUANTILE: 0.3, codes.HINGE: 0.3, codes.CUSTOM: 0.3}
"""Half-width, in units of c, over which a score with jumps has its slope; only on the way, not of the root."""

NARROW: Final = 1e-3
WIDER: Final = (1.0, 8.0, 64.0)  # Half-widths that are tried where no step comes nearer
CLIPPED: Final = frozenset({codes.HUBER, codes.EXPECTILE})  # Families whose scores are clipped at a threshold
NARROWER: Final = 4.0
"""What thresholds are divided by, time and again, where steps from the estimate find no root: with the widest, that no
residual reaches, it is the root of least squares, and the others are near one another."""

EVERY: Final = 8  # Of so many chunks of rows one is enough to come near the root
MEDIAN: Final = 0.6744897501960817  # Median absolute value of a standard normal
TURNS: Final = 100
HALVINGS: Final = 12
KEPT: Final = 0.0  # Stands for the slope of the last step
CONVERGED: Final = 1e-9  # Length of a step, in units of c, after which the root is found
CONVERGED_JUMPS: Final = 3e-6  # The same of scores with jumps: single records move their root by as much
CONVERGED_PART: Final = 1e-4  # The same of the root on a part of the rows
NEAR: Final = 1e-3  # The longest that a step may be where no step comes nearer


class _Rows(NamedTuple):
    """Public rows in the coordinates of the equation."""

    z: Array  # shape (n, d)
    weighted: Array  # ω z, times the record's weight; shape (n, d)
    y: Array  # shape (n,)
    offset: Array | None  # shape (n,)


@one_thread()
def estimand(fit: ResultData, rows: Any) -> Array:
    """Coefficients, user's units, shape (p,), that solve the fit's equation there; see `PrivateResults.estimand`."""
    equation = fit.equation
    fit.refuse_levels("the equation on other rows")
    if equation is None:
        raise InferenceError(
            "these results hold no equation: they are of an earlier version, or "
            "main rounds had not begun; fit again, with more people."
        )
    function = fit.family.tame
    if equation.shape[0] == codes.CUSTOM and function is None:
        raise InferenceError(
            "the score of a family of your own is code, which is never saved; use the results that fit() returned."
        )
    held = _encoded(fit, equation, rows)
    theta = _root(equation, held, function)
    for _ in range(TURNS if equation.ratio is not None else 0):  # c follows the residuals
        near = replace(equation, theta=theta, c=np.array([_threshold(equation, held, theta)]))
        before, theta = theta, _root(near, held, function)
        if np.abs(theta - before).max() <= CONVERGED * near.c[0]:
            break
    inner = inside(theta.reshape(-1, len(equation.order)), equation.rows) * equation.y_scale
    if equation.constant:
        inner[0, 0] += equation.y_centre
    units, out = public_units(fit.design, scale_response=fit.family.scaled), np.empty_like(inner)
    out[:, equation.order] = inner
    return np.concatenate([units.params_outside(block) for block in out])


# --- rows ------------------------------------------------------------------------------------------------------


def _encoded(fit: ResultData, equation: Equation, rows: Any) -> list[_Rows]:
    """Rows in the coordinates of the equation, in chunks."""
    units = public_units(fit.design, scale_response=fit.family.scaled)
    people = None if equation.budgets is None else Participants(*equation.budgets, id=None)
    people = people if equation.people is None else Participants.from_json(equation.people)
    together: list[tuple[Array, Array, Array | None, Any, Array | None]] = []
    most = max(NUMBERS // max(len(equation.weights), len(equation.order)), 1)
    out: list[_Rows] = []
    what, more = "the coefficients that its equation has there", () if people is None else people.columns
    for batch in public_batches(rows, fit.design, what, more, simulated=fit.statement.seeded):
        given = fit.design.encode(batch)
        weight = None if people is None else people.weights(batch)
        x = np.array(given.exog, dtype=np.float64, order="C")
        units.rows_inside(x)
        x = x[:, equation.order]
        y = (units.response_inside(given.endog) - equation.y_centre) / equation.y_scale
        offset = None if given.offset is None else given.offset / (units.y_scale * equation.y_scale)
        z = _mapped(equation.rows, x)
        if people is not None and people.gathered:
            limits = (0.0, 1.0) if people.weight is None else fit.design.schema.limits(people.weight)
            survey = people.survey_weights(batch, limits[1], limits[0])
            together.append((z, y, offset, texts_of(people.ids(batch)) if people.id else np.arange(len(y)), survey))
            continue
        weighted = z * _weights(equation, z)[:, None]
        weighted = weighted if weight is None else weighted * weight[:, None]
        for a in range(0, len(y), most):
            here = slice(a, a + most)
            out.append(_Rows(z[here], weighted[here], y[here], None if offset is None else offset[here]))
    if people is not None and together:
        out = _of_people(equation, people, together, most)
    if sum(len(r.y) for r in out) <= len(equation.theta):
        raise OptionError(f"rows are too few to determine {len(equation.theta)} coefficients.")
    return out


def _of_people(equation: Equation, people: Participants, batches: Sequence[Any], most: int) -> list[_Rows]:
    """Rows of people, of whom the first count: each by its part of the report, equation (41) of docs/estimator.md."""
    held: list[Any] = [None if c[0] is None else np.concatenate(c) for c in zip(*batches, strict=True)]
    z, y, offset, ids, survey = held
    person = np.arange(len(y)) if people.id is None else pd.factorize(ids)[0]
    order = np.argsort(person, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(person[order]) != 0])
    have = np.diff(np.r_[first, len(order)])
    kept = np.sort(order[np.arange(len(order)) - np.repeat(first, have) < people.rows])
    z, y, person = z[kept], y[kept], person[kept]
    have = np.bincount(person)
    part = 1.0 / have[person] if people.per_person == "mean" else np.full(len(y), 1.0 / people.rows)
    if survey is not None:
        part *= (np.bincount(person, survey[kept]) / have)[person]
    weighted = z * (part * _weights(equation, z, person))[:, None]
    offset = None if offset is None else offset[kept]
    cuts = [slice(a, a + most) for a in range(0, len(y), most)]
    return [_Rows(z[c], weighted[c], y[c], None if offset is None else offset[c]) for c in cuts]


def _weights(equation: Equation, z: Array, person: Any = None) -> Array:
    """Score weights ω(z), shape (n,); with two collectors the least of a `person`'s rows."""
    if equation.weighing == "likelihood":
        return np.ones(len(z))
    if equation.weighing in SCORE_WEIGHTS:
        return omega(SCORE_WEIGHTS[equation.weighing], z)
    lengths = np.array([np.square(z @ cap.T).sum(axis=1) for cap in equation.caps])
    if person is not None:
        longest = np.zeros((len(lengths), int(person.max()) + 1))
        for most, each in zip(longest, lengths, strict=True):
            np.maximum.at(most, person, each)
        lengths = longest[:, person]
    return np.asarray(equation.shares @ np.minimum(1.0, 1.0 / np.maximum(lengths, 1e-300)))


def _mapped(rows: Array, x: Array) -> Array:
    if len(rows) == x.shape[1]:
        return np.asarray(x @ rows.T)
    return np.asarray(x * rows[0] + x[:, :1] * rows[1])


def _threshold(equation: Equation, rows: list[_Rows], theta: Array) -> float:
    """The threshold c of the residuals: a multiple of their normal-consistent median absolute size."""
    assert equation.ratio is not None
    far = [np.abs(r.y - r.z @ theta - (0.0 if r.offset is None else r.offset)) for r in rows]
    return equation.ratio * float(np.median(np.concatenate(far))) / MEDIAN


# --- the root --------------------------------------------------------------------------------------------------


def _root(equation: Equation, rows: list[_Rows], function: Any) -> Array:
    """The root on a part of the rows, where they are many, and from there that on all."""
    found: tuple[Array, Array] | None = None
    shortest = CONVERGED_JUMPS if equation.shape[0] in WINDOW else CONVERGED
    parts = [(rows[::EVERY], CONVERGED_PART)] if len(rows) >= EVERY**2 else []
    for some, enough in [*parts, (rows, shortest)]:
        theta, inverse = (equation.theta, None) if found is None else found
        found = _solved(equation, some, theta, inverse, function, enough)
        if found is None and equation.shape[0] in CLIPPED:
            found = _by_thresholds(equation, some, function)
    if found is None:
        raise InferenceError(
            "the fit's equation has no root on these rows: covariates may not vary, or classes may be predicted "
            "without error; give more rows, like those of the people who reported."
        )
    return found[0]


def _by_thresholds(equation: Equation, rows: list[_Rows], function: Any) -> tuple[Array, Array] | None:
    """The root by way of wider thresholds, as where all scores of a rare level are clipped at the estimate."""
    found: tuple[Array, Array] | None = equation.theta, np.zeros((0, 0))
    farthest = max(float(np.max(np.abs(r.z @ equation.theta - r.y), initial=0.0)) for r in rows)
    times = math.ceil(math.log(max(farthest / float(equation.c.min()), 1.0), NARROWER))
    for k in range(times, -1, -1):
        if found is not None:
            near = replace(equation, c=NARROWER**k * equation.c)
            found = _solved(near, rows, found[0], None, function, CONVERGED)
    return found


def _solved(
    equation: Equation, rows: list[_Rows], theta: Array, inverse: Array | None, function: Any, shortest: float
) -> tuple[Array, Array] | None:
    """The root and the inverse of the slope there; None if none is found.

    Damped Newton steps, from the `inverse` of a slope if there is one, until a step is shorter than `shortest`, in
    units of c. The value is exact; the slope is that of all groups' mean state, over a window for jumps, and is taken
    anew only where it did badly: each step corrects it along itself. Where no step comes nearer wider windows are
    tried, unless scores are clipped.

    See Broyden, A class of methods for solving nonlinear simultaneous equations, 1965.
    """
    family = equation.shape[0]
    unit = float(equation.weights @ equation.c) if family in {*CLIPPED, codes.QUANTILE} else 1.0
    usual = WINDOW.get(family, NARROW)
    windows = (usual,) if family in CLIPPED else (usual, *WIDER)
    near = NEAR if family in WINDOW else math.sqrt(CONVERGED)
    a, value = equation.weights, _value(equation, rows, theta, function)
    mean: Any = {"c": (a @ equation.c)[None], "offsets": (a @ equation.offsets)[None]}
    one = replace(equation, weights=np.ones(1), **mean)  # as if all groups had answered their mean state
    for _ in range(TURNS):
        kept = inverse is not None
        for window in (*(KEPT,) * kept, *windows):
            if window != KEPT:
                inverse = _inverse(_slope(one, rows, theta, window * unit, function))
            assert inverse is not None
            step = -inverse @ value
            length = float(np.linalg.norm(step))
            if window <= usual and length <= shortest * unit:
                return theta, inverse
            most, tries = 3.0 * max(window, 1.0) * unit, 1 if window == KEPT else HALVINGS
            nearer = _nearer(equation, rows, theta, step, inverse, min(1.0, most / length), tries, function)
            if nearer is not None:
                new, there = nearer
                moved, left = new - theta, inverse @ there
                change = left + step
                theta, value = new, there
                inverse = inverse + np.outer(moved - change, moved @ inverse) / (moved @ change)
                if left @ left <= shortest * unit * length:  # what one more step will leave
                    return theta - inverse @ value, inverse
                break
            if window == usual and length <= near * unit:
                return theta, inverse
        else:
            break
    return None


def _nearer(
    equation: Equation, rows: list[_Rows], theta: Array, step: Array, inverse: Array, share: float, tries: int,
    function: Any,
) -> tuple[Array, Array] | None:  # fmt: skip
    """Coefficients that a share of a step, or of its halves, brings nearer to the root, and the value there."""
    length = float(np.linalg.norm(step))
    for _ in range(tries):
        new = theta + share * step
        there = _value(equation, rows, new, function)
        if float(np.linalg.norm(inverse @ there)) < (1.0 - 0.25 * share) * length:
            return new, there
        share *= 0.5
    return None


def _inverse(slope: Array) -> Array:
    u, values, v = np.linalg.svd(slope)
    return np.asarray((v.T / np.maximum(values, 1e-9 * float(values[0]) or 1e-100)) @ u.T)


def _by_class(eta: Array, y: Array, *, balanced: bool) -> Array:
    """Multinomial scores, shape (b, n, m) as the predictors; balanced ones: see `families.scores.multinomial`."""
    top = np.maximum(eta.max(axis=0), 0.0)
    share = np.exp(eta - top)
    share /= share.sum(axis=0) + np.exp(-top)
    observed = y - 1.0 == np.arange(len(eta))[:, None]
    if not balanced:
        return np.asarray(share - observed[:, :, None])
    square = (share**2).sum(axis=0)
    largest = np.sqrt(np.maximum(square, square + 1.0 - 2.0 * share.min(axis=0)))  # of ‖π − e_k‖
    return np.asarray((share - observed[:, :, None]) / largest)


def _value(equation: Equation, rows: list[_Rows], theta: Array, function: Any) -> Array:
    """Mean weighted score, shape (b d,)."""
    total = sum(_psi(equation, r, theta, 0.0, function).T @ r.weighted for r in rows)
    return np.asarray(total).reshape(-1) / sum(len(r.y) for r in rows) - equation.bend


def _slope(equation: Equation, rows: list[_Rows], theta: Array, h: float, function: Any) -> Array:
    """Its derivative by the coefficients, shape (b d, b d), of scores' differences over η ± h."""
    d = len(equation.order)
    b = len(theta) // d
    out = np.zeros((b, d, b, d))
    for r in rows:
        for j in range(b):
            move = np.zeros(b)
            move[j] = h
            up = _psi(equation, r, theta, move, function) - _psi(equation, r, theta, -move, function)
            for i in range(b):
                out[i, :, j] += (r.weighted * (up[:, i] / (2.0 * h))[:, None]).T @ r.z
    return out.reshape(b * d, b * d) / sum(len(r.y) for r in rows)


def _psi(equation: Equation, r: _Rows, theta: Array, move: Any, function: Any) -> Array:
    """Scores of the rows, averaged over offsets, at predictors moved by `move`; shape (n, b)."""
    d = r.z.shape[1]
    b = len(theta) // d
    at = (theta + equation.offsets).reshape(-1, b, d)
    if equation.shape[0] == codes.MULTINOMIAL:
        etas = np.array([r.z @ at[:, k].T for k in range(b)]) + np.reshape(move, (-1, 1, 1))
        return np.asarray((_by_class(etas, r.y, balanced=equation.weighing != "capped") @ equation.weights).T)
    eta = r.z @ at[:, 0].T + (move if np.ndim(move) == 0 else move[0])
    eta = eta if r.offset is None else eta + r.offset[:, None]
    y = np.broadcast_to(r.y[:, None], eta.shape)
    if equation.shape[0] == codes.CUSTOM:
        values = scores.unit(equation.score, 1.0, eta.ravel(), y.ravel(), function).reshape(eta.shape)
    else:
        values = scores.unit(equation.score, equation.c, eta, y)
    return np.asarray(values @ equation.weights)[:, None]
