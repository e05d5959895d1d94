"""The collector: a `State` begins, is taken about a new origin now and then, and is summed up. It never sees a row."""

from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.protocol import codes
from privreg.protocol.codes import BLOCK, DIAGONAL, FULL, LINE, NONE
from privreg.published.chain import kernels
from privreg.published.chain.plans import Plan, State

_FIRST_TURN: Final = 4096


def init(start: Array, plan: Plan, functional: Array) -> State:
    """State before the first report; `functional` is used in DIAGONAL mode in place of coordinate 0. Shapes (p,)."""
    p = start.shape[0]
    sums = (p + 1, p + 1) if plan.scaling_mode == FULL else (2, p)
    side = {0: 0, 1: p, 2: 2 * p + 1}[plan.outer]
    return State(
        theta=start.astype(np.float64), origin=start.astype(np.float64), total=np.zeros(p), batch=np.zeros(p),
        path=np.zeros((p + 1, LINE)), sums=np.zeros(sums), functional=functional.astype(np.float64),
        reports=np.zeros((max(side, p), LINE)), outer=np.zeros((side, side)),
        curvature=np.zeros(p * (p + 1) // 2 if plan.curvature_share else 0), spreads=np.zeros(2),
        counts=np.zeros(5, dtype=np.int64),
    )  # fmt: skip


def is_turn(updates: int) -> bool:
    """True if sums get a new origin after so many updates: 2¹², 2¹⁶, 2²⁰, …"""
    return updates >= _FIRST_TURN and updates & (updates - 1) == 0 and (updates.bit_length() - 1) % 4 == 0


def recentred(state: State, plan: Plan) -> tuple[State, Array]:
    """State with sums about the mean so far, and by how much the origin moved, shape (p,).

    Between blocks only. Random scaling is a small difference of sums that grow like n³ where the origin is wrong.
    """
    new, k, p = State._make(array.copy() for array in state), int(state.counts[codes.UPDATES]), len(state.theta)
    move = state.total / k
    new.origin[:] += move
    move = new.origin - state.origin  # as rounded
    new.total[:] -= k * move
    if plan.scaling_mode == FULL:
        turn = np.eye(p + 1)
        turn[:p, p] = -move
        new.sums[:] = np.tril(turn @ symmetric(state.sums) @ turn.T)
    elif plan.scaling_mode == DIAGONAL:
        moved = move.copy()
        moved[0] = float(state.functional @ move)
        squares = k * (k + 1) * (2 * k + 1) / 6.0
        new.sums[0] += moved * (moved * squares - 2.0 * state.sums[1])
        new.sums[1] -= moved * squares
    new.outer[:] = moved_gram(state.outer, move)
    return new, move


def moved_gram(gram: Array, move: Array) -> Array:
    """Products of (report, θ − origin, 1), lower triangle, after the origin moved; others as they are."""
    p = len(move)
    turn = np.eye(2 * p + 1)
    turn[p : 2 * p, 2 * p] = -move
    return gram if len(gram) <= p else np.asarray(np.tril(turn @ symmetric(gram) @ turn.T))


class ChainSummary(NamedTuple):
    """Summary of a chain for inference. Internal units."""

    people: int  # Gradient senders whose reports entered an update
    updates: int
    mean: Array  # Averaged iterate θ̄; shape (p,)
    last: Array  # Last iterate; shape (p,)
    scaling: Array  # Random-scaling matrix V̂ of √updates·θ̄ (its diagonal in DIAGONAL mode); shape (p, p)
    outer: Array  # Mean outer product of the reports, or of (report, θ − origin, 1); shape (p, p)
    curvature: Array  # Mean of the curvature reports, noise included; shape (p, p)
    curvature_people: int  # Curvature senders
    spreads: Array  # Mean noise variance of gradient and curvature reports over the largest budget's; shape (2,)


def final(state: State, plan: Plan) -> ChainSummary:
    """Averages and random-scaling matrix of a chain so far; the state is unchanged and may go on."""
    counts, p = state.counts, len(state.theta)
    k, senders = int(counts[codes.UPDATES]), int(counts[codes.CURVATURES])
    centred, scaling, outer, curvature = state.total / max(k, 1), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
    if senders:
        rows, cols = np.triu_indices(p)
        curvature = np.zeros((p, p))
        curvature[cols, rows] = state.curvature / senders / np.where(rows == cols, 1.0, np.sqrt(2.0))
    with np.errstate(all="ignore"):  # steps that overflow are refused where results are asked for
        if k and plan.scaling_mode != NONE:
            sums, squares = state.sums.copy(), k * (k + 1) * (2 * k + 1) / 6.0
            kernels.flush(state.path, k % BLOCK, sums, plan.scaling_mode)
            if plan.scaling_mode == DIAGONAL:
                mean = np.append(float(state.functional @ centred), centred[1:])
                scaling = (sums[0] - 2 * mean * sums[1] + squares * mean**2) / float(k) ** 2
            else:
                cross = np.outer(centred, sums[p, :p])
                whole = symmetric(sums[:p, :p]) - cross - cross.T + squares * np.outer(centred, centred)
                scaling = whole / float(k) ** 2
        if k and plan.outer:
            lower = state.outer.copy()
            kernels.add_gram(state.reports, k % BLOCK, lower)
            outer = symmetric(lower) / k
    people = int(counts[codes.PEOPLE] - counts[codes.IN_BATCH])
    spreads = state.spreads / np.maximum([int(counts[codes.PEOPLE]), senders], 1)
    mean, last = state.origin + centred, state.theta.copy()
    return ChainSummary(people, k, mean, last, scaling, outer, symmetric(curvature), senders, spreads)


def symmetric(lower: Array) -> Array:
    """Symmetric matrix of a lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T
