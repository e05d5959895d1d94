"""What is saved of an efficient fit in progress, noise apart, and how it is taken back with every number checked.

A damaged file must not reach the kernels: compiled loops don't check their indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privreg.collector import location, moments
from privreg.collector.factors import Shares
from privreg.collector.history import History
from privreg.inference import blocks
from privreg.protocol.plans import Lanes
from privreg.simulation.sgd import like
from privreg.simulation.staged import lanes
from privreg.simulation.staged.lanes import Chains
from privreg.simulation.staged.schedule import ChainSteps, Stage, lane_plan

if TYPE_CHECKING:
    from privreg.simulation.staged.pipeline import Pipeline

__all__ = ["from_arrays", "to_arrays"]


def to_arrays(run: Pipeline) -> dict[str, Any]:
    """All there is to save but noise; public."""
    out: dict[str, Any] = {
        "position": np.array([run.stage, run.at, run.people], dtype=np.int64),
        "past": np.array(run.past, dtype=np.int64),
        "weights": np.array([run.weight_here, run.weight_past, run.location_weight]),
        "growth": np.array([run.growth]),
        "total": run.total,
        "outer": run.outer,
        "response": np.array([run.y_centre, run.y_scale]),
        "stretch": run.stretch,
        "tied": run.tied,
        "shares": np.nan_to_num(run.shares, nan=-1.0),
        "guess": np.zeros(0) if run.start.theta is None else run.start.theta,
        "trail_people": np.array(run.trail_people, dtype=np.int64),
        "trail_senders": np.array(run.trail_senders, dtype=np.int64),
        "trail_means": np.array(run.trail_means).reshape(-1, run.coefficients),
        "trail_variances": np.array(run.trail_variances).reshape(-1, run.coefficients),
    }
    named: dict[str, Any] = {"location": run.location, "scatter": run.scatter, "levels": run.scatter.shares}
    for name, chains in (("chains", run.chains), ("common", run.common)):
        if chains is not None:
            out[f"{name}_newton"], out[f"{name}_steps"] = chains.newton, np.array(chains.steps)
            out[f"{name}_worth"] = np.array([chains.plan.worth])
            named[name] = chains.state
    out |= blocks.to_arrays(run.blocks)
    if run.history is not None:
        out |= run.history.to_arrays()
    return out | {
        f"{name}_{k}": np.asarray(v)
        for name, values in named.items()
        for k, v in values._asdict().items()
        if k != "shares"
    }


def from_arrays(run: Pipeline, arrays: dict[str, Any]) -> None:
    """Take over what `to_arrays` gave.

    Raises
    ------
    ValueError
        If an array doesn't fit the plan.
    """
    stages = run.start.schedule.stages
    stage, at, people = (int(v) for v in like(np.zeros(3, dtype=np.int64), arrays["position"]))
    if not 0 <= stage < len(stages):
        raise ValueError("stage out of range")
    past = like(np.zeros(stage, dtype=np.int64), arrays["past"]).tolist()
    weights = [float(v) for v in like(np.zeros(3), arrays["weights"])]
    personal = run.start.personal
    run.stage, run.past = stage, past
    run.growth = float(like(np.zeros(1), arrays["growth"])[0])
    grown = run.start.rules.from_predictor
    if not (run.growth >= 1.0 if grown else run.growth == 1.0):
        raise ValueError("growth out of range")
    if at < 0 or people != sum(past) + at or (not personal and at >= run.here.people >= 0):
        raise ValueError("position out of range")
    held = [n == s.people or (s.optional and n == 0) or s.kind == "lanes" for s, n in zip(stages, past, strict=False)]
    if min(past, default=0) < 0 or not (personal or grown or all(held)):
        raise ValueError("stages of another length")
    if min(weights) < 0.0 or (not personal and weights != [float(at), float(people - at), 0.0]):
        raise ValueError("weights out of range")
    run.at, run.people = at, people
    run.weight_here, run.weight_past, run.location_weight = weights
    guess = arrays["guess"]
    run.start = run.start._replace(theta=like(np.zeros(run.coefficients), guess) if guess.size else None)
    run.total = like(np.zeros(run.numbers()), arrays["total"])
    run.y_centre, run.y_scale = (float(v) for v in like(np.zeros(2), arrays["response"]))
    shares = like(np.zeros(run.d), arrays["shares"])
    run.shares = np.where(shares < 0.0, np.nan, shares)
    run.location = location.Location(
        *(like(np.asarray(own), arrays[f"location_{k}"]) for k, own in run.location._asdict().items())
    )._replace(batches=int(arrays["location_batches"]))
    if run.location.batches != _located(run):
        raise ValueError("batches out of range")
    rows = np.eye(run.size(before=run.kind in {"location", "moments"})) if run.start.wide is None else run.no_map()
    run.stretch = like(np.ones(run.d), arrays["stretch"])
    run.tied = like(np.zeros(run.d, dtype=np.bool_), arrays["tied"])
    levels = Shares(*(like(np.asarray(own), arrays[f"levels_{k}"]) for k, own in run.scatter.shares._asdict().items()))
    run.scatter = moments.Scatter(
        like(rows, arrays["scatter_rows"]),
        like(np.zeros_like(rows), arrays["scatter_memory"]),
        like(np.zeros(()), arrays["scatter_weight"]).item(),
        levels._replace(people=float(arrays["levels_people"])),
        *(like(np.zeros(()), arrays[f"scatter_{k}"]).item() for k in ("answers", "asked", "noise2", "answering")),
    )
    if not run.scatter.asked >= 0.0:
        raise ValueError("people out of range")
    run.outer = like(np.zeros((run.numbers(),) * 2 if run.kind == "measures" else (0, 0)), arrays["outer"])
    people_of = [*run.past, at]
    lanes_stage = stage - 1 if run.kind == "measures" else stage
    if run.kind not in {"location", "moments"}:
        run.chains = _restored(run, "chains", stages[lanes_stage], people_of[lanes_stage], arrays)
    if run.kind in {"lanes", "measures"}:
        run.common = _restored(run, "common", stages[lanes_stage - 1], people_of[lanes_stage - 1], arrays)
        rounds = people_of[lanes_stage] // (run.start.schedule.batch * run.start.schedule.lanes)
        if run.start.cut is not None:
            run.blocks = blocks.from_arrays(arrays, run.start.cut, run.coefficients, rounds)
        if run.start.path == 3:
            run.history = History(run.start.schedule.lanes, run.coefficients)
            checked = {k: like(own, arrays[k]) for k, own in run.history.to_arrays().items()}
            run.history.from_arrays(checked, rounds)
    shape = (len(arrays["trail_people"]), run.coefficients)
    run.trail_people = like(np.zeros(shape[0], dtype=np.int64), arrays["trail_people"]).tolist()
    run.trail_senders = like(np.zeros(shape[0], dtype=np.int64), arrays["trail_senders"]).tolist()
    run.trail_means = list(like(np.zeros(shape), arrays["trail_means"]))
    variances = arrays["trail_variances"]  # not numbers before there are intervals
    if variances.shape != shape or variances.dtype != np.float64:
        raise ValueError("trail of unequal lengths")
    run.trail_variances = list(variances)


def _restored(run: Pipeline, name: str, stage: Stage, people: int, arrays: dict[str, Any]) -> Chains:
    """Chains of a stage in which so many people have reported."""
    start = run.start
    worth = float(like(np.zeros(1), arrays[f"{name}_worth"])[0])
    if not (0.0 < worth <= 1.0 if start.personal else worth == 1.0):
        raise ValueError("worth out of range")
    plan = lane_plan(
        *(stage, start.schedule, start.rules, start.reports, run.d),
        path=start.path,
        gram=start.gram and stage.kind == "lanes",
        worth=worth,
        y_centre=run.y_centre,
        y_scale=run.y_scale,
    )
    own = lanes.init(np.zeros(run.coefficients), 0.0, plan)
    state = Lanes(*(like(a, arrays[f"{name}_{k}"]) for k, a in own._asdict().items()))
    batches, rest = divmod(people, plan.batch)
    k = np.arange(plan.lanes)
    if (state.updates != (batches - k + plan.lanes - 1) // plan.lanes).any():
        raise ValueError("updates out of range")
    if (state.in_batch != np.where(k == batches % plan.lanes, rest, 0)).any():
        raise ValueError("counts out of range")
    steps = arrays[f"{name}_steps"]
    if steps.shape != (len(ChainSteps._fields),) or steps.dtype != np.float64 or np.isnan(steps).any():
        raise ValueError("steps that aren't numbers")
    if np.isinf(np.delete(steps, ChainSteps._fields.index("scale"))).any():  # a search's scale is infinite
        raise ValueError("steps without end")
    newton = like(np.zeros(run.newton_shape()), arrays[f"{name}_newton"])
    return Chains(plan, state, newton, ChainSteps(*steps.tolist()))


def _located(run: Pipeline) -> int:
    """Batches of location reports that have been taken in."""
    stage = run.start.schedule.stages[0]
    if stage.kind != "location":
        return 0
    return run.at * location.BATCHES // stage.people if run.stage == 0 else location.BATCHES
