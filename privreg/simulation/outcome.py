"""From a fit by rounds to what its results hold: user's units, words, notes. Reports only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector import carried, coordinates, estimate, many
from privreg.errors import InferenceError
from privreg.inference.batches import batches
from privreg.inference.methods import Estimate
from privreg.inference.pivots import Normal, RandomScaling, StudentT
from privreg.inference.resampling import FIRST, Anytime, Bootstrap
from privreg.protocol.rounds import GROUPS
from privreg.simulation.assemble import FitOutcome, _bound, _outside, _refuse_overflow
from privreg.simulation.findings import before_role, found_of
from privreg.simulation.notes import notes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from privreg.collector.many import Found
    from privreg.collector.plan import Estimated, Many, Plan, Progress
    from privreg.formula.units import Units
    from privreg.simulation.rounds import RoundsRun
    from privreg.simulation.settings import Settings

    Array = NDArray[np.float64]

__all__ = ["report_of_rounds"]

ROLES: Final = {
    "location": "told where columns lie",
    "moments": "reported second moments",
    "pilot": "ran a pilot",
}


def report_of_rounds(
    run: RoundsRun, settings: Settings, units: Units, order: NDArray[np.intp], names: Sequence[str]
) -> FitOutcome:
    """Outcome of a fit by rounds; arguments as of `assemble.report_of_pipeline`.

    Raises
    ------
    InferenceError
        While the first records' reports still set the scales.
    """
    plan, progress = run.plan, run.so_far()
    if progress.fitted is None:
        before = before_role(plan, run.progress, "pilot", "main")
        raise InferenceError(
            f"up to {before:,} people set the scales, and {run.people:,} have reported; estimates begin after them."
        )
    found = estimate.estimate(plan, progress)
    theta = progress.fitted.theta if found is None else found.theta
    linear = run.to_user @ coordinates.linear(plan, progress.state)

    def outside(at: Array) -> Array:
        return _outside(coordinates.inside(plan, progress.state, at), order, units)

    _refuse_overflow(theta)
    estimates = () if found is None else _estimates(plan, progress, found, settings, linear)
    senders = _senders(progress)
    trail = [] if found is None else _trail(plan, progress, found, linear, outside)
    trail.append((run.people, senders, outside(theta), _variances(estimates, len(theta))))
    people, sent, params, variances = zip(*trail, strict=True)
    return FitOutcome(
        params=outside(theta),
        last=outside(progress.state.theta),
        estimates=estimates,
        senders=senders,
        updates=len(progress.seen),
        trail_n=np.array(people, dtype=np.int64),
        trail_senders=np.array(sent, dtype=np.int64),
        trail_params=np.array(params),
        trail_variances=np.array(variances),
        family=_family(plan, progress, settings, units),
        tuning=_tuning(plan, progress),
        spending=_spending(plan, run),
        bound=_bound(settings),
        notes=notes(found_of(run, progress, found, settings, estimates), names, order, plan.blocks),
        measures=run.measured(units.y_scale),
        told=run.at if progress.state.role == "measures" else 0,
    )


def _tuning(plan: Plan, progress: Progress) -> str:
    roles = [r.role for r in plan.rounds if not r.optional]
    many = "as many as needed" if plan.rows is None else str(roles.count("main"))
    return f"rounds: {len(progress.held)} held; {many} main ones of {GROUPS} groups"


def _senders(progress: Progress) -> int:
    """Records whose score entered the estimate."""
    return round(sum(float(s.weight.sum()) for s in progress.seen if s.state.role == "main"))


def _variances(estimates: tuple[Estimate, ...], size: int) -> Array:
    if not estimates:
        return np.full(size, np.nan)
    cov = estimates[0].cov
    return cov if cov.ndim == 1 else np.diag(cov).copy()


def _trail(
    plan: Plan, progress: Progress, found: Estimated, linear: Array, outside: Callable[[Array], Array]
) -> list[tuple[int, int, Array, Array]]:
    """Estimates after each main round but the last."""
    if found.many is not None:
        return _trail_of_many(progress, found.many, linear, outside)
    assert found.frame is not None
    out, root = [], np.linalg.inv(found.frame.root.T)
    first = len(found.frame.rounds) - sum(1 for s in progress.seen if s.state.role == "main")
    for k in range(first + 1, len(found.frame.rounds)):
        some = found.frame.rounds[:k]
        learned = carried.learn(some, found.frame.noise)
        here = carried.combine(some, found.frame.noise, learned, brief=True)
        main = [s for s in progress.seen if s.state.role == "main"][: k - first]
        people = sum(progress.held[: main[-1].state.number + 1])
        move = linear @ root
        senders = round(sum(float(s.weight.sum()) for s in main))
        out.append((people, senders, outside(root @ here.x), np.asarray(((move @ here.cov) * move).sum(axis=1))))
    return out


def _trail_of_many(
    progress: Progress, known: Many, linear: Array, outside: Callable[[Array], Array]
) -> list[tuple[int, int, Array, Array]]:
    box, out = progress.box, []
    found: list[Found] = []
    assert box is not None
    main = [s for s in progress.seen if s.state.role == "main"]
    for k in range(1, len(main)):
        some = known.rounds[:k]
        found.append(many.combine(some, box, many.learn(some, box)))
        people = sum(progress.held[: main[k - 1].state.number + 1])
        senders = round(sum(float(s.weight.sum()) for s in main[:k]))
        out.append((people, senders, outside(found[-1].theta)))
    variances = known.found.variances(box, linear, found)
    return [(*one, variance) for one, variance in zip(out, variances, strict=True)]


def _estimates(
    plan: Plan, progress: Progress, found: Estimated, settings: Settings, linear: Array
) -> tuple[Estimate, ...]:
    """Estimates of precision by each method, user's units."""
    out = []
    moves, weights = estimate.corrections(plan, progress, found)
    total = float(weights.sum())
    unknown = linear @ found.unknown @ linear.T
    for m in settings.methods:
        if m.name == "sandwich":
            out.append(Estimate(m.name, np.asarray(linear @ found.cov @ linear.T), Normal()))
            continue
        sums = (moves * weights[:, None]) @ linear.T
        mean = sums.sum(axis=0) / total
        if m.scaling:
            path = np.cumsum(sums - weights[:, None] * mean, axis=0) / total
            share = weights / total
            cov = 6.0 * (path * share[:, None]).T @ path + unknown
            out.append(Estimate(m.name, cov, RandomScaling(1, len(weights))))
        elif m.blocks:
            seen = batches(sums, weights, mean, total)
            if m.name == "batch_means":
                out.append(Estimate(m.name, seen.cov + unknown, StudentT(seen.df)))
            elif m.name == "anytime":
                if _senders(progress) >= FIRST:
                    out.append(Estimate(m.name, seen.cov + unknown, Anytime(_senders(progress))))
            else:
                out.append(Estimate(m.name, seen.cov, Bootstrap(seen.moves, m.name == "block_bootstrap_t")))
    return tuple(out)


def _family(plan: Plan, progress: Progress, settings: Settings, units: Units) -> str:
    rules = plan.rules
    if not rules.track or rules.moving or progress.fitted is None:
        return settings.score_text
    scale = progress.fitted.scale * progress.state.y_scale * units.y_scale
    name, _, _ = settings.score_text.partition(",")
    if name.startswith("Quantile"):
        return f"{name}, density there that of a normal with sd {scale:.4g} (learned)"
    return f"{name}, c = {rules.ratio:.4g} × residual scale {scale:.4g} (learned)"


def _spending(plan: Plan, run: RoundsRun) -> str:
    counts = dict.fromkeys(ROLES, 0)
    roles = [plan.rounds[min(k, len(plan.rounds) - 1)].role for k in range(len(run.progress.held) + 1)]
    for role, people in zip(roles, [*run.progress.held, run.at], strict=True):
        if role in counts:
            counts[role] += people
    words = ROLES if plan.wide is None else ROLES | {"moments": "reported means and squares"}
    parts = [f"{n:,} {words[k]} (noise sd {plan.sd(k):.4g})" for k, n in counts.items() if n]
    return f"{', '.join(parts)}; each person in one role, no extra budget"
