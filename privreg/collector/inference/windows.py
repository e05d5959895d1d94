"""Windows of a stream: estimates from the reports of some of the records, and tests of change. Reports only."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from privreg.base.arrays import Array
from privreg.collector.inference.methods import Estimate
from privreg.errors import InferenceError
from privreg.tables.diagnostics import doubts

OF_CHAIN: Final = ("path_curvature", "plug_in", "batch_means")
"""Methods for standard errors of a single chain's windows, best first; batches are as few as windows."""


def of_chain(estimates: Iterable[Estimate]) -> Estimate | None:
    """Estimate for standard errors of a single chain's windows: the first in `OF_CHAIN` that no note marks."""
    there = sorted((e for e in estimates if e.method in OF_CHAIN), key=lambda e: OF_CHAIN.index(e.method))
    return next((e for e in there if not doubts(e.notes)), there[0] if there else None)


class Steps(NamedTuple):
    """Estimates of consecutive runs of records, each from its reports, except for curvature; user's units."""

    begin: Array  # Records before a run; shape (m,)
    ends: Array  # Records up to its end; shape (m,)
    weight: Array  # shape (m,)
    estimate: Array  # shape (m, p)
    group: NDArray[np.intp]  # Group of runs with the same error due to curvature; shape (m,)
    each: Array  # Covariance of an estimate of weight 1; shape (p, p)
    unknown: Array  # That error, by group: moves whose squares and products sum to a covariance; shape (r, k, p)


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
