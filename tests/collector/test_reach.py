"""Rounds whose states lie far apart: which are left behind, and when steps grow."""

import warnings

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector import rounds
from privreg.collector.covariates import moments
from privreg.collector.estimation import curvature
from privreg.collector.plan import Progress, ScoreRound
from privreg.errors import ReliabilityWarning
from privreg.protocol.schedule import Round
from tests.kinds import KINDS
from tests.rounds import plan_by_rounds, state_of

GAIN = 0.6
ONCE = curvature.FAR * GAIN  # The way of a step that was shortened, in thresholds


def after(places, people, kind="huber"):
    """A plan, and progress after main rounds at these places along the last coefficient, in thresholds of one."""
    plan, seen = plan_by_rounds(KINDS[kind]), []
    for number, (at, n) in enumerate(zip(places, people, strict=True)):
        state = state_of(plan, "main", np.random.default_rng(0), theta=np.array([0.0, 0.0, at]))
        weight = np.full((1, 16), n / 16)
        seen.append(ScoreRound(state._replace(number=number, c=1.0), weight, np.zeros((1, 16, 3)), None, 1.0))
    scatter = moments.start_even(np.eye(3), plan.factors)
    return plan, Progress(seen[-1].state, scatter, moments.search(0), None, tuple(seen), None, ())


@pytest.mark.parametrize(
    ("places", "people", "chance", "off", "since"),
    [
        ([-9, -6, -2, 0], [10, 10, 10, 10], 0.1, 0.5, 2),
        ([-9, -2, -6, 0.5, 0], [10, 10, 10, 10, 10], 0.1, 0.5, 3),  # none before a far one counts
        ([-2, -1, 1, 0], [10, 10, 10, 10], 0.1, 0.5, 0),
        ([-9, -6, -2, 0], [10, 10, 10, 10], 4.0, 0.5, 0),  # noise moves states so far
        ([-9, -6, -2, 0], [10, 10, 10, 10], 0.1, 1.5, 0),  # the last state is itself far off
        ([-9, -6, -2, 0], [10, 10, 1, 1], 0.1, 0.5, 1),  # the others tell too little
        ([-9, 0], [10, 1], 0.1, 0.5, 0),
        ([0], [10], 0.1, 0.5, 0),
    ],
)
def test_rounds_far_from_the_last_state_are_left_behind_once_others_tell_as_much(places, people, chance, off, since):
    plan, progress = after(places, people)
    found = rounds.left_behind(plan, progress, chance, off)
    assert found.since == since
    assert [one.state.number for one in found.main] == list(range(since, len(places)))
    assert found.scored == progress.scored


def test_rounds_of_other_families_all_count():
    plan, progress = after([-9, -6, -2, 0], [10] * 4, "logistic")
    assert rounds.left_behind(plan, progress, 0.1, 0.5) is progress


@pytest.mark.parametrize(
    ("places", "step", "chance", "left", "length"),
    [
        ([0, ONCE], [0, 0, 2.0], 0.1, 9, 2 * curvature.FAR),
        ([0, ONCE, 3 * ONCE], [0, 0, 2.0], 0.1, 9, 4 * curvature.FAR),
        ([0, 4 * ONCE], [0, 0, 2.0], 0.1, 3, 4 * curvature.FAR),  # as much as is left to halve
        ([0, 4 * ONCE], [0, 0, 2.0], 0.1, 0, curvature.FAR),
        ([0, 4 * ONCE], [0, 0, -2.0], 0.1, 9, 2 * curvature.FAR),  # gone too far
        ([0, ONCE], [0, 0, -2.0], 0.1, 9, curvature.FAR),
        ([0, ONCE], [0, 0, 1.0], 0.1, 9, 1.0),  # near enough now
        ([0, ONCE], [2.0, 0, 0.5], 0.1, 9, curvature.FAR),  # elsewhere
        ([0, 0.5 * ONCE], [0, 0, 2.0], 0.1, 9, curvature.FAR),  # the last step was a whole one
        ([0, ONCE], [0, 0, 2.0], 1.0, 9, curvature.FAR),  # which noise alone may be
        ([0], [0, 0, 2.0], 0.1, 9, curvature.FAR),
        ([0, ONCE], [0, 0, 0.0], 0.1, 9, 0.0),
    ],
)
def test_a_shortened_step_grows_if_it_goes_on_the_same_way(places, step, chance, left, length):
    plan, progress = after(places, [10] * len(places))
    held = progress.state.number + 1
    plan = plan._replace(rounds=(Round("main", 10),) * (held + 1 + left))
    found = rounds.lengthened(plan, progress, np.array(step), 1.0, GAIN, chance)
    assert np.linalg.norm(found) == pytest.approx(length)
    assert found @ step == pytest.approx(length * np.linalg.norm(step))


@pytest.mark.statistical
def test_intervals_hold_across_a_valley_between_two_peaks_or_are_marked():
    """The group's line lies 0.5 below the upper peak, eleven thresholds from where states begin."""

    def people(seed, n):
        rng = np.random.default_rng(seed)
        group = rng.random(n) < 0.25
        return pd.DataFrame(
            {"g": np.where(group, "b", "a"), "y": 11.0 * (group & (rng.random(n) < 0.6)) + rng.normal(0, 0.3, n)}
        )

    public = {"bounds": {"y": (-5, 16)}, "levels": {"g": ["a", "b"]}}
    others, off = people(1, 400_000), []
    for seed in range(3, 8):
        model = pr.PrivateOnlineRegression.from_formula("y ~ g", people([2, seed], 100_000), mu=5, **public)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)
            res = model.fit(seed=seed, progress=False)
        line = res.tidy().set_index("term").loc["g[T.b]"]
        if line["reliable"]:
            off.append((line["estimate"] - res.estimand(others)["g[T.b]"]) / line["std_error"])
    assert len(off) >= 3
    assert np.abs(off).max() < 3.5  # of five with a chance of 0.998
