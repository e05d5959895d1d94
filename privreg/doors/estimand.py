"""Estimand of a fit: the coefficients that its equation gives on *public or simulated* rows.

The rows given here are used as they are: nothing is randomised. A fit by rounds solves Σ w_k n_kg E Ψ_k(θ + δ_kg) = 0
with the row map, thresholds, offsets and weights that this very run has learned; where the model is wrong or errors
are skewed, another run solves another equation.
"""

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq, root

from privreg.base.arrays import Array
from privreg.collector.aggregate.report import parts_of
from privreg.collector.covariates.whitening import inside
from privreg.data.participants import Participants, texts_of
from privreg.data.sources.open import public_batches
from privreg.errors import InferenceError, OptionError, warn
from privreg.families import scores
from privreg.families.logistic import class_shares, farthest
from privreg.families.scores import SCORE_WEIGHTS, omega
from privreg.formula.spec import units_of
from privreg.formula.units import Units
from privreg.options.running import one_thread
from privreg.protocol.plans import Persons
from privreg.results.data import Equation, ResultData
from privreg.simulation.streaming.encoding import Block, Gatherer, joined

NUMBERS: Final = 1 << 15
"""Predictors, of rows by offsets, that are looked at together: so few that they stay in a processor's cache."""

EVERY: Final = 8  # One of so many chunks of rows is used to come near the root
MEDIAN: Final = 0.6744897501960817  # Median absolute value of a standard normal
TURNS: Final = 100
CELL, NARROWEST = 0.25, 1e-6  # Widths of cells in which scores are straight, units of c: at first, and at last
NARROWER: Final = 8.0  # Cells narrow by it, step by step, where scores have jumps
CONVERGED: Final = 1e-9  # Length of a step, in units of c, after which the root is found
LITTLE: Final = 1e-6  # Curvature, of 1/c, that is added to each step; below it there is none
STEP: Final = 1e-5  # Step of predictors, over which slopes of scores are computed
FARTHEST: Final = 2.0**80  # Steps are at most so many times as long, and at least such a part


class _Rows(NamedTuple):
    """Public rows in the coordinates of the equation."""

    z: Array  # shape (n, d)
    weighted: Array  # ω z, times the record's weight; shape (n, d)
    y: Array  # shape (n,)
    offset: Array | None  # shape (n,)


@one_thread()
def estimand(fit: ResultData, rows: Any) -> Array:
    """Coefficients, user's units, shape (p,), that solve the fit's equation there; see `PrivateResults.estimand`."""
    if fit.cuts:
        fit.refuse_levels("estimand()")
    equation, function = fit.equation, fit.family.compiled
    if equation is None:
        raise InferenceError(
            "these results hold no equation: they are of an earlier version, or main rounds had not begun; fit again, "
            "with more people. Of a curator's descent fit these rows with mu=None, which has no noise."
        )
    scoring = scores.scoring_of(equation.shape[0])
    if scoring.stacked and equation.shape[1]:
        raise InferenceError(
            "without noise coefficients are the likelihood's: what it estimates on these rows are the params of the "
            "same fit of them."
        )
    if scoring.custom and function is None:
        raise InferenceError(
            "the score of a family of your own is code, which is never saved; use the results that fit() returned."
        )
    people = None if equation.budgets is None else Participants(*equation.budgets, id=None)
    people = people if equation.people is None else Participants.from_json(equation.people)
    units = units_of(fit.design, fit.family, people)
    held = _encoded(fit, equation, rows, people, units)
    theta, flat = _root(equation, held, function)
    for turn in range(TURNS if equation.ratio is not None else 0):  # c follows the residuals' median absolute size
        far = [np.abs(r.y - r.z @ theta - (0.0 if r.offset is None else r.offset)) for r in held]
        c = float(equation.ratio or 0.0) * float(np.median(np.concatenate(far))) / MEDIAN
        if not c > CONVERGED * equation.c[0] or turn == TURNS - 1:
            raise InferenceError("residuals of these rows have no scale for the threshold c: most are 0, or too few.")
        before = theta
        theta, flat = _root(replace(equation, theta=theta, c=np.array([c])), held, function)
        if np.abs(theta - before).max() <= CONVERGED * c:
            break
    if flat:
        warn(
            "several coefficients solve the fit's equation on these rows, as no response is near the prediction; these "
            "are those that steps from the estimate reach. More rows, like those of people who reported, tell which."
        )
    inner = inside(theta.reshape(-1, len(equation.order)), equation.rows) * equation.y_scale
    if equation.constant:
        inner[0, 0] += equation.y_centre
    out = np.empty_like(inner)
    out[:, equation.order] = inner
    return np.concatenate([units.params_outside(block) for block in out])


def evaluated(fit: ResultData, public_test: Any) -> pd.DataFrame:
    """Predictions of a fit compared with the responses of public rows; see `PrivateResults.evaluate`."""
    if fit.family.scoring.censored:
        raise OptionError(
            f"{fit.family!r} predicts the uncensored response, and test rows have it where it isn't censored alone; "
            "fit(measures=0.1) compares shares that are censored with those predicted, and has the log-likelihood."
        )
    fit.refuse_levels("a prediction")
    rows = [fit.design.encode(batch) for batch in public_batches(public_test, fit.design, "measures of prediction")]
    y = np.concatenate([some.endog for some in rows]) if rows else np.zeros(0)
    if not len(y):
        raise OptionError("the public test set has no rows.")
    eta = [fit.predictors(some.exog, 0.0 if some.offset is None else some.offset) for some in rows]
    out = {"rows": float(len(y)), **fit.family.scoring.compared(fit.family, y, np.concatenate(eta))}
    return pd.DataFrame({"measure": list(out), "value": list(out.values())})


# --- rows ------------------------------------------------------------------------------------------------------


def _encoded(fit: ResultData, equation: Equation, rows: Any, people: Participants | None, units: Units) -> list[_Rows]:
    """Rows in the coordinates of the equation, in chunks."""
    held: list[Block] = []
    what, more = "the coefficients that its equation has there", () if people is None else people.columns
    for batch in public_batches(rows, fit.design, what, more, simulated=fit.statement.seeded):
        given = fit.design.encode(batch)
        x = units.probe_inside(given.exog)
        y, offset = units.response_inside(given.endog), None if given.offset is None else given.offset / units.y_scale
        weight, ids = None if people is None else people.weights(batch), None
        if people is not None and people.gathered:
            limits = (0.0, 1.0) if people.weight is None else fit.design.schema.limits(people.weight)
            weight, ids = people.survey_weights(batch, limits[1], limits[0]), people.ids(batch)
        held.append(Block(y, x[:, equation.order], offset, weight, hashes=None if ids is None else texts_of(ids)))
    made = joined(held)
    y, x, offset, parts = made.y, made.x, made.offset, made.weight
    person, times = None, 1.0
    cuts = None if fit.design.cuts is None else (fit.design.cuts @ units.matrix)[:, equation.order]
    if people is not None and (people.gathered or cuts is not None):
        hashes = np.arange(len(y)) if made.hashes is None else pd.factorize(made.hashes)[0]
        made = made._replace(hashes=hashes.astype(np.uint64) + np.uint64(1))
        made = Gatherer(people, binary=fit.family.binary, cuts=cuts).together(made)
        usable = np.isfinite(made.y) & np.isfinite(made.x).all(axis=2)
        rows = people.reports * (1 if cuts is None else len(cuts))
        share = parts_of(Persons(rows, people.per_person == "mean"), usable, made.weight)
        person, times = np.nonzero(usable)[0], usable.sum() / len(usable)
        y, x, parts = made.y[usable], made.x[usable], share[usable]
        offset = None if made.offset is None else made.offset[usable]
    row_map = equation.rows
    z = x @ row_map.T if len(row_map) == x.shape[1] else x * row_map[0] + x[:, :1] * row_map[1]
    y, offset = (y - equation.y_centre) / equation.y_scale, None if offset is None else offset / equation.y_scale
    one = people is not None and people.effect is not None  # all rows of a person have one weight
    weighted = z * (times * _weights(equation, z, person, one=one) * (1.0 if parts is None else parts))[:, None]
    if len(y) <= len(equation.theta):
        raise OptionError(f"rows are too few to determine {len(equation.theta)} coefficients.")
    most = max(NUMBERS // max(len(equation.weights), len(equation.order)), 1)
    cuts = [slice(a, a + most) for a in range(0, len(y), most)]
    return [_Rows(z[c], weighted[c], y[c], None if offset is None else offset[c]) for c in cuts]


def _weights(equation: Equation, z: Array, person: Any = None, *, one: bool = False) -> Array:
    """Score weights ω(z), shape (n,); with two collectors, or `one` for all, the least of a `person`'s rows."""
    if equation.weighing == "likelihood":
        return np.ones(len(z))
    if equation.weighing in SCORE_WEIGHTS:
        each = omega(SCORE_WEIGHTS[equation.weighing], z)
        if one:
            least = np.full(int(person.max()) + 1, np.inf)
            np.minimum.at(least, person, each)
            each = least[person]
        return each
    lengths = np.array([np.square(z @ cap.T).sum(axis=1) for cap in equation.caps])
    if person is not None:
        longest = np.zeros((len(lengths), int(person.max()) + 1))
        for most, each in zip(longest, lengths, strict=True):
            np.maximum.at(most, person, each)
        lengths = longest[:, person]
    return np.asarray(equation.shares @ np.minimum(1.0, 1.0 / np.maximum(lengths, 1e-300)))


# --- the root --------------------------------------------------------------------------------------------------


NO_ROOT: Final = (
    "the fit's equation has no root on these rows, as where classes are predicted without error or a level has no "
    "count; give more rows, like those of the people who reported."
)


def _root(equation: Equation, rows: list[_Rows], function: Any) -> tuple[Array, bool]:
    """The root, and whether others are as good; where rows are many, that on a part of them comes first.

    Most scores rise with the predictor, so that they are the gradient of a convex loss, whose minimum is the root. The
    balanced scores of several classes are no gradient, those of counts with c need not rise: of theirs the root that
    steps from the estimate reach is taken, or from the minimum of the likelihood's loss.
    """
    moment = np.sum([r.weighted.T @ r.z for r in rows], axis=0) / sum(len(r.y) for r in rows)
    values = np.linalg.eigvalsh(moment)
    if not values[0] > CONVERGED * values[-1]:
        raise InferenceError(
            "these rows don't determine the coefficients: a column doesn't vary there, or is made of others; give more "
            "rows, like those of the people who reported."
        )
    scoring = scores.scoring_of(equation.shape[0])
    robust, several = scoring.pearson, scoring.multiple and len(equation.theta) > len(moment)
    plain = not robust and not (several and equation.weighing != "capped")
    found = None if plain else _solved(equation, rows, equation.theta, function)
    if found is not None:
        return found, False
    near, convex = equation.theta, equation
    if not plain:
        convex = replace(equation, shape=scoring.convex(equation.shape), weighing="capped", bend=np.zeros_like(near))
    if len(rows) >= EVERY**2:
        with suppress(InferenceError):  # a part may lack a level
            near, _ = _minimum(convex, rows[::EVERY], near, moment, function)
    near, flat = _minimum(convex, rows, near, moment, function)
    if not plain and (found := _solved(equation, rows, near, function)) is None:
        raise InferenceError(NO_ROOT)
    return near if found is None else found, flat


def _solved(equation: Equation, rows: list[_Rows], start: Array, function: Any) -> Array | None:
    """The root that steps from `start` reach; None if they reach none, or scores only fall towards 0 far away."""
    field = partial(_field, equation, rows, function)
    tried = root(field, start, jac=True, options={"xtol": CONVERGED})
    found = bool(tried.success) and np.linalg.svd(field(tried.x)[1], compute_uv=False)[-1] > LITTLE
    return np.asarray(tried.x) if found else None


def _minimum(equation: Equation, rows: list[_Rows], theta: Array, moment: Array, function: Any) -> tuple[Array, bool]:
    """The minimum of a convex loss, and whether it has others, farther than `CELL` away.

    Newton steps, whose length is such that the slope along them nearly ends: they can't fail, as the loss is convex
    and its gradient is made continuous, by cells in which scores are straight. Of scores with jumps cells narrow from
    one minimum to the next. The Hessian has a little of the second `moment` of rows, shape (d, d), added.

    Raises InferenceError if there is none: the loss falls for ever.
    """
    scoring, blocks = scores.scoring_of(equation.shape[0]), len(theta) // len(moment)
    unit = float(equation.weights @ equation.c) if scoring.residual else 1.0
    added = np.kron(np.eye(blocks), moment) * (LITTLE / unit)
    length = np.linalg.cholesky(np.kron(np.eye(blocks), moment)).T
    cells = [CELL, NARROWEST]
    if scoring.jumps:
        cells = np.geomspace(CELL, NARROWEST, 1 + math.ceil(math.log(CELL / NARROWEST, NARROWER))).tolist()
    for cell in cells:
        field = partial(_field, equation, rows, function, cell=cell * unit)
        enough = unit * (0.1 * cell if scoring.jumps or cell > NARROWEST else CONVERGED)
        value, slope = field(theta)
        for _ in range(TURNS):
            step = -np.asarray(np.linalg.solve(0.5 * (slope + slope.T) + added, value), dtype=np.float64)
            if float(np.linalg.norm(length @ step)) <= enough:
                break

            def rise(part: float, field: Any = field, theta: Array = theta, step: Array = step) -> float:
                """Slope of the loss along the step, after a part of it."""
                return float(field(theta + part * step)[0] @ step)

            part, first, at = 1.0, float(value @ step), rise(1.0)
            while at < 0.25 * first:  # until the loss hardly falls any more
                part *= 2.0
                if part > FARTHEST:
                    raise InferenceError(NO_ROOT)
                at = rise(part)
            if at > -0.25 * first:
                part = float(brentq(rise, 0.0, part, xtol=1.0 / FARTHEST, rtol=0.1))
            theta = theta + part * step
            value, slope = field(theta)
        else:
            if not scoring.jumps:
                raise InferenceError(NO_ROOT)
    _, slope = _field(equation, rows, function, theta, CELL * unit)
    inverse = np.linalg.inv(length)
    flat = not float(np.linalg.eigvalsh(inverse.T @ (0.5 * (slope + slope.T)) @ inverse)[0]) > LITTLE / unit
    if flat and scoring.separable:
        raise InferenceError(NO_ROOT)
    return theta, flat


def _by_class(eta: Array, y: Array, *, balanced: bool) -> Array:
    """Multinomial scores, shape (b, n, m) as the predictors; balanced ones: see `families.logistic`."""
    share = class_shares(eta.reshape(len(eta), -1).T)
    observed = y - 1.0 == np.arange(len(eta))[:, None]
    score = share[:, 1:].T.reshape(eta.shape) - observed[:, :, None]
    return np.asarray(score / farthest(share).reshape(eta.shape[1:]) if balanced else score)


def _field(equation: Equation, rows: list[_Rows], score: Any, theta: Array, cell: float = 0.0) -> tuple[Array, Array]:
    """Mean weighted score, shape (b d,), and its derivative by the coefficients, (b d, b d).

    In `cell`s, so wide, of the predictor less the response scores are straight; 0 for scores as they are.
    """
    d, n, cell = len(equation.order), sum(len(r.y) for r in rows), cell or STEP
    at = (theta + equation.offsets).reshape(len(equation.offsets), -1, d)
    b = at.shape[1]
    total, slope = np.zeros((b, d)), np.zeros((b, d, b, d))
    for r in rows:  # scores averaged over offsets, shape (n, b), and their slopes by the predictors, (n, b, b)
        if scores.scoring_of(equation.shape[0]).multiple:
            etas, balanced = np.array([r.z @ at[:, k].T for k in range(b)]), equation.weighing != "capped"
            moves = STEP * np.eye(b)[:, :, None, None]
            up, down = ([_by_class(etas + by * m, r.y, balanced=balanced) for m in moves] for by in (1.0, -1.0))
            psi = (_by_class(etas, r.y, balanced=balanced) @ equation.weights).T
            rise = ((np.array(up) - np.array(down)) @ equation.weights / (2.0 * STEP)).transpose(2, 1, 0)
        else:
            eta = r.z @ at[:, 0].T + (0.0 if r.offset is None else r.offset[:, None])
            y = np.broadcast_to(r.y[:, None], eta.shape)
            # a jump where both are the same is in the middle of a cell
            low = y + cell * (np.floor((eta - y) / cell + 0.5) - 0.5)
            below, above = (
                scores.unit(equation.score, equation.c, end, y)
                if score is None
                else scores.unit(equation.score, 1.0, end.ravel(), y.ravel(), score).reshape(end.shape)
                for end in (low, low + cell)
            )
            psi = ((below + (eta - low) / cell * (above - below)) @ equation.weights)[:, None]
            rise = ((above - below) / cell @ equation.weights)[:, None, None]
        total += psi.T @ r.weighted
        for i, j in np.ndindex(b, b):
            slope[i, :, j] += (r.weighted * rise[:, i, j, None]).T @ r.z
    return total.reshape(-1) / n - equation.bend, slope.reshape(b * d, b * d) / n
