"""From the state of a fit in progress to covariances and laws, method by method. Reports and public numbers only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.diagnostics import Diagnostic
from privreg.inference import blocks as marks
from privreg.inference.batches import Batches, batches, path_sandwich, regression
from privreg.inference.methods import Estimate, Normal, RandomScaling, StudentT
from privreg.inference.resampling import FIRST
from privreg.inference.sandwich import Sandwich
from privreg.simulation.chain_intervals import of_batches
from privreg.simulation.staged import lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.simulation.settings import Settings
    from privreg.simulation.staged.pipeline import Pipeline

    Array = NDArray[np.float64]

__all__ = ["of_pipeline", "pipeline_covariance", "waiting"]

WEAKEST: Final = 0.2
"""Smallest curvature from the path of lanes that is believed, relative to the one their steps were made for."""


def of_pipeline(run: Pipeline, settings: Settings) -> tuple[Estimate, ...]:
    """Estimates of precision of the staged fit, user's units, as far as known."""
    linear: Array | None
    if run.start.wide is None:
        linear = run.to_user @ run.linear()
        covs = {name: np.asarray(linear @ cov @ linear.T) for name, cov in lane_covariances(run).items()}
    else:
        linear, covs = None, wide_covariances(run)
    out = []
    for m in settings.methods:
        if m.name == "between_lanes" and m.name in covs:
            out.append(Estimate(m.name, covs[m.name], StudentT(len(run.groups()) - 1)))
        elif m.scaling and "random_scaling" in covs:
            assert run.chains is not None
            law = RandomScaling(run.start.schedule.lanes, int(run.chains.state.updates.min()))
            out.append(Estimate(m.name, covs["random_scaling"], law))
        elif m.blocks and run.blocks is not None and len(run.blocks.weights) * run.start.schedule.lanes > 1:
            people = sum(g.people for g in run.groups())
            if m.name != "anytime" or people >= FIRST:
                out.append(of_batches(m.name, _lane_batches(run), linear, people))
        elif linear is not None and m.outer and run.in_lanes and (_moved(run) or not m.path):
            found = _lane_path(run) if m.path else _lane_plug_in(run)
            out.append(Estimate(m.name, np.asarray(linear @ found.cov @ linear.T), Normal(), found.notes))
    if settings.methods and settings.methods[0].name == "anytime" and "anytime" not in {e.method for e in out}:
        return ()  # who looks all the time must not be shown early what holds at one look only
    return tuple(out)


def waiting(run: Pipeline, settings: Settings, estimates: tuple[Estimate, ...], lead: int) -> tuple[Diagnostic, ...]:
    """Why there are no intervals yet, by some methods asked for or by any; `lead` people precede the lanes."""
    missing = {m.name for m in settings.methods} - {e.method for e in estimates}
    people = sum(g.people for g in run.groups())
    out = []
    if "anytime" in missing and run.in_lanes and people < FIRST:
        missing.remove("anytime")
        text = (
            f"no intervals yet by anytime: they begin at {FIRST:,} people whose reports enter the estimate, and "
            f"{people:,} have"
        )
        out.append(Diagnostic("early", text, methods=("anytime",)))
        if settings.methods[0].name == "anytime":
            return tuple(out)
    slow = {m.name for m in settings.methods if m.scaling} & missing
    if slow and run.start.wide is not None and run.in_lanes and not _moved(run):
        missing -= slow
        assert run.chains is not None
        updates = int(run.chains.state.updates.sum())
        text = (
            f"no intervals yet by {', '.join(sorted(slow))}: lanes must have moved in all directions, which takes "
            f"{run.chains.plan.lanes + run.coefficients:,} updates, and there were {updates:,}"
        )
        out.append(Diagnostic("early", text, methods=sorted(slow)))
    if missing:
        by = f" by {', '.join(sorted(missing))}" if estimates else ""
        text = f"no intervals yet{by}: lanes begin after {lead:,} people, and {run.people:,} have reported"
        out.append(Diagnostic("early", text, methods=sorted(missing) if estimates else ()))
    return tuple(out)


def pipeline_covariance(run: Pipeline) -> Array | None:
    """Covariance by batch means, whitened coordinates, or the user's of a wide design; None before there is any."""
    if run.blocks is None or len(run.blocks.weights) * run.start.schedule.lanes < 2 or not run.in_lanes:
        return None
    return _lane_batches(run).cov


def _lane_batches(run: Pipeline) -> Batches:
    """Batches of one-step corrections, of all lanes; the covariance is that of the estimate, of a wide design in the
    user's units.
    """
    assert run.chains is not None
    assert run.blocks is not None
    state, share = run.chains.state, run.lane_share
    sums, weights = marks.parts(run.blocks)
    total = float(state.weight[:, 0].sum())
    mean = state.partial.sum(axis=0) / total
    if run.start.wide is not None:
        sums, mean = run.outside(sums.reshape(-1, run.coefficients)).reshape(sums.shape), run.outside(mean[None])[0]
    found = batches(sums, weights, mean, total)
    return Batches(share * found.cov, math.sqrt(share) * found.moves, found.df)


def _lane_plug_in(run: Pipeline) -> Sandwich:
    """P S̃ P: reports' own outer products between the inverse curvature that pilots and moments imply."""
    assert run.chains is not None
    state, p = run.chains.state, run.chains.newton
    d = len(p)
    lower = state.gram.sum(axis=0)[:d, :d]
    meat = np.tril(lower) + np.tril(lower, -1).T
    total = float(state.weight[:, 0].sum())
    cov = p @ meat @ p.T / total**2 * run.lane_share
    return Sandwich(np.asarray(cov), ())


def _lane_path(run: Pipeline) -> Sandwich:
    """The same with curvature from the path of the lanes, in coordinates in which their steps expect it to be 1."""
    assert run.chains is not None
    _, state, newton, steps = run.chains
    d = len(newton)
    root = np.linalg.cholesky((newton + newton.T) / 2.0)
    turn = np.zeros((2 * d + 1, 2 * d + 1))
    turn[:d, :d], turn[d : 2 * d, d : 2 * d], turn[-1, -1] = root.T, np.linalg.inv(root), 1.0
    lower = state.gram.sum(axis=0)
    gram = turn @ (np.tril(lower) + np.tril(lower, -1).T) @ turn.T
    walked = sum(float(steps.block(0, int(k))[0].sum()) for k in state.updates)
    # the mean outer product is one of n, and what is divided by is the square of the whole weight
    found = path_sandwich(regression(gram), float(state.weight[:, 0].sum()) ** 2 / gram[-1, -1], walked, WEAKEST)
    return found._replace(cov=np.asarray(root @ found.cov @ root.T) * run.lane_share)


def _moved(run: Pipeline) -> bool:
    """Whether lanes have moved in all directions: the first update shows no move, and d of them need as many."""
    assert run.chains is not None
    return int(run.chains.state.updates.sum()) >= run.chains.plan.lanes + run.coefficients


def lane_covariances(run: Pipeline) -> dict[str, Array]:
    """Covariance of the estimate by method, whitened coordinates, as far as known."""
    out: dict[str, Array] = {}
    if not run.in_lanes:
        return out
    assert run.chains is not None
    if run.chains.plan.path and not _moved(run):
        return out
    groups = run.groups()
    if run.chains.plan.lanes > 1:
        out["between_lanes"] = lanes.between(groups)
    if run.chains.plan.path:
        updates = float(run.chains.state.weight[:, 0].sum())
        out["random_scaling"] = 6.0 * lanes.scaling(run.chains.state) / updates * run.lane_share
    return out


def wide_covariances(run: Pipeline) -> dict[str, Array]:
    """The same of a wide design, in the user's units: a product of a few moves for d × d, or variances, shape (d,)."""
    out: dict[str, Array] = {}
    if not run.in_lanes:
        return out
    assert run.chains is not None
    state, plan = run.chains.state, run.chains.plan
    if plan.lanes > 1:
        moves = run.outside(lanes.apart(run.groups()))
        out["between_lanes"] = moves.T @ moves
    if plan.path and _moved(run):
        times = 6.0 / float(state.weight[:, 0].sum()) * run.lane_share
        if plan.path == 2:
            assert run.mapped is not None
            own = run.mapped.own * run.y_scale * run.whitener[0]
            own[0] = 1.0  # coordinate 0 is the user's intercept already
            out["random_scaling"] = np.empty(run.d)
            out["random_scaling"][run.mapped.places] = times * lanes.scaling(state) * own**2
        else:
            whole = lanes.scaling(state) if run.history is None else run.history.matrix()
            whole *= times
            out["random_scaling"] = run.outside(np.ascontiguousarray(run.outside(whole).T))
    return out


def _wide_variances(run: Pipeline) -> Array | None:
    """Diagonal of the first of these, without the matrix where that is a product of moves."""
    if not run.in_lanes:
        return None
    assert run.chains is not None
    if run.chains.plan.path and _moved(run):
        if run.history is not None and run.mapped is not None:
            times = 6.0 / float(run.chains.state.weight[:, 0].sum()) * run.lane_share
            inner = run.y_scale * run.whitener
            row = inner[0] * run.mapped.row + inner[1] * run.mapped.row[0]
            here = run.mapped._replace(own=inner[0] * run.mapped.own, row=row)
            return np.asarray(times * run.history.variances(here))
        found = wide_covariances(run)["random_scaling"]
        return found if found.ndim == 1 else np.diag(found).copy()
    if run.chains.plan.lanes > 1:
        return np.asarray((run.outside(lanes.apart(run.groups())) ** 2).sum(axis=0))
    return None


def pipeline_variances(run: Pipeline) -> Array:
    """Reported variances, user's units, of the first of these that is wanted: batch means where intervals are to
    hold at all times, random scaling, between lanes; NaN if none is.
    """
    if run.start.wide is not None:
        cov = pipeline_covariance(run) if run.start.anytime else None
        found = _wide_variances(run) if cov is None and not run.start.anytime else cov
        none = np.full(run.coefficients, np.nan)
        return none if found is None else found if found.ndim == 1 else np.diag(found).copy()
    covs = lane_covariances(run)
    cov = covs.get("random_scaling", covs.get("between_lanes"))
    if run.start.anytime:
        cov = pipeline_covariance(run)
    if cov is None:
        return np.full(run.coefficients, np.nan)
    linear = run.to_user @ run.linear()
    return np.asarray(((linear @ cov) * linear).sum(axis=1))
