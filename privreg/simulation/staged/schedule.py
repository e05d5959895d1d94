"""The plan of an efficient fit: who is asked what, in order of position. Public numbers only.

Every person has one role, given by their position in the stream: location (only where no scale was declared),
moments, search (only where curvature depends on the coefficients), pilot, common chain, then the lanes. What the
roles need in people grows with d² and 1/μ²; on a short stream each gets at most a share, on a long one at least one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector import location
from privreg.collector.diagonal import PEOPLE, SHARE
from privreg.protocol import codes
from privreg.protocol.plans import LanePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.families.constants import ChainRules
    from privreg.privacy.mechanisms import Mechanism

    Array = NDArray[np.float64]

__all__ = [
    "FEWEST_LANES",
    "ChainSteps",
    "Reports",
    "Schedule",
    "Stage",
    "chain_steps",
    "lane_plan",
    "make_schedule",
]

FEWEST_LANES: Final = 8
MOST_LANES: Final = 16
MOMENT_ROUNDS: Final = (0.2, 0.3, 0.5)
LEAST_SHARES: Final = {"moments": 0.01, "correlated": 0.03, "common": 0.15, "mapped": 0.05}
"""Of a stream of known length. What the map of the covariates gets wrong turns the common chain's error into one that
all lanes share, so the more precise the lanes are to be the less of either there may be. The last is the common
chain's where there is no such map to learn from noisy reports."""
GATHER: Final = 4
"""The lanes meet at their pooled estimate when this many times the people of the common chain have come, or an eighth
of those expected, and again whenever there are as many times more: what they began with is forgotten sooner."""
FIRST_MEETING: Final = 0.125
MOST_LEAD: Final = 1e6
"""People of that share at most where parts of the stream have lanes of their own and wait for its common chain."""

NEVER: Final = 1 << 62
LEAST_IN_LANE: Final = 100.0
"""People a lane, per coefficient squared and at μ = 1, below which there are fewer lanes."""
PUBLIC_ROUNDS: Final = ((15.0, 0.01), (105.0, 0.03))
"""People in the rounds on public covariates, on scales and on moments: per coefficient squared, and at most a share."""

CORRECTION_ALPHA: Final = 0.7
"""Exponent of the steps: the one-step correction takes out what the chain has not forgotten, so they may fall fast."""

BATCH: Final = 32
LONG: Final = 20_000
"""People from whom on batches are whole."""

USUAL_SLOPE: Final = 0.352
USUAL_CURVATURE: Final = 0.383
"""Of Huber at half a residual sd, by which gains and people were chosen."""

NEARLY: Final = 0.97
"""Part of the people wanted that are taken for enough: how strong effects are a plan is told, and a fit estimates."""

LEGS: Final = 6
"""Legs of the search where the Newton step depends on the coefficients and is renewed between them."""

ENOUGH: Final = {False: 700.0, True: 2000.0}
"""People in lanes, times μ²/d², under which intervals undercover in our simulations (benchmarks/efficiency), and the
same where curvature depends on the coefficients."""

ROUGH: Final = 6.0
"""As many more where the predictor tells only the shape of the curvature."""


class Stage(NamedTuple):
    """People in one role.

    Attributes
    ----------
    kind : str
        "location", "moments", "search", "pilot", "common", "lanes" or "measures".
    people : int
        How many; −1 for all who are still to come.
    optional : bool
        Whether it is held only if the covariates turn out to be correlated.
    wanted : float
        With personal budgets a stage ends when the weights of its people come to this, or with `most` people.
    most : float
    """

    kind: str
    people: int
    optional: bool = False
    wanted: float = math.inf
    most: float = math.inf

    def expected(self, worth: float) -> float:
        """People to expect when their mean weight is `worth`."""
        return float(self.people) if worth == 1.0 else min(self.wanted / worth, self.most)


class Schedule(NamedTuple):
    """The whole plan.

    Attributes
    ----------
    stages : tuple of Stage
    batch : int
        People who are asked at one iterate, in pilot, common chain and lanes.
    lanes : int
    alpha : float
        Exponent of the steps in common chain and lanes.
    pace : float
        Factor of all step sizes; 1 unless the user asked otherwise.
    rows : int or None
        People expected, if known.
    gather : int
        People in lanes when these first meet at their pooled estimate.
    effective : float
        1/√(per-coordinate noise variance / 4): μ, but smaller when μ is so large that sampling noise matters.
    needed : float
        People in lanes, times μ²/d², from whom on intervals can be relied on.
    """

    stages: tuple[Stage, ...]
    batch: int
    lanes: int
    alpha: float
    pace: float
    rows: int | None
    gather: int
    effective: float
    needed: float

    def next_meeting(self, people: int) -> int:
        """People in lanes when these meet next, counted from so many."""
        mark = self.gather
        while mark <= people:
            mark *= GATHER
        return mark

    def before(self, kind: str) -> int:
        """People before the first stage of this kind."""
        out = 0
        for stage in self.stages:
            if stage.kind == kind:
                break
            out += stage.people
        return out

    def people(self, kind: str) -> int:
        """People of all stages of this kind, as planned."""
        return sum(s.people for s in self.stages if s.kind == kind)

    def enough(self, people: int, d: int) -> bool:
        """Whether so many people in lanes are enough for intervals to be relied on, as nearly as plans can foresee."""
        return people >= NEARLY * self.wanted(d)

    def wanted(self, d: int) -> int:
        """People in lanes from whom on intervals can be relied on."""
        return math.ceil(self.needed * d**2 * math.pow(max(d / 11.0, 1.0), 0.6) / self.effective**2)


def make_schedule(
    *,
    d: int,
    noise: float,
    moment_noise: float,
    rows: int | None,
    unscaled: int,
    declared: bool,
    batch: int | None,
    lanes: int | None,
    alpha: float | None,
    pace: float | None,
    between: bool,
    moving: bool,
    shaped: bool = False,
    curvature: float = USUAL_CURVATURE,
    label: bool = False,
    wide: int | None = None,
    measures: float = 0.0,
    partitions: int | None = None,
) -> Schedule:
    """Choose the plan.

    Parameters
    ----------
    d : int
        Coefficients.
    noise : float
        Noise variance per coordinate of a score report of norm at most 1; 4/μ² with Gaussian noise.
    moment_noise : float
        The same of a moment report; 2/μ² with Gaussian noise.
    rows : int or None
        People expected, if known.
    unscaled : int
        Columns, the response included, whose scale nobody declared.
    declared : bool
        Whether all covariates have declared moments and correlations, so that fewer reports on moments will do.
    batch, lanes, alpha, pace
        The user's wishes or None.
    between : bool
        Whether intervals between lanes are wanted, which need 8 lanes.
    moving : bool
        Whether the curvature depends on the coefficients, so that the pilot goes in several legs.
    shaped : bool
        Whether the predictor tells only the shape of the curvature.
    curvature : float
        Curvature of the loss to expect, per unit of score bound and c.
    label : bool
        Whether covariates are public, so that their moments carry no noise and a score report is one number.
    wide : int or None
        Columns that report means and squares, of a design of so many coefficients that correlations are not learned.
    measures : float
        Share of the people, whose number must then be known, who tell how well the fit predicts them.
    partitions : int, optional
        Parts of the stream that go through lanes of their own, and meet between them; the plan is then that of one
        part's lanes.

    Returns
    -------
    Schedule
    """
    # noise variance of a score report in units of 4/μ²; without privacy its own variance, about 0.7/d, remains
    effective = 1.0 / math.sqrt(noise / (4.0 * d if label else 4.0) + 0.7 / (4.0 * d))
    unit = max(d, 4) ** 2 / effective**2
    # Laplace noise grows with the length of a report, and moments are long ones
    heavy = 1.0 if label or moment_noise == 0.0 else max(1.0, 2.0 * moment_noise / noise)
    size = batch or min(max((rows or LONG) * BATCH // LONG, 1), BATCH)

    def stage(kind: str, wanted: float, part: float, *, optional: bool = False) -> Stage:
        most = math.inf if rows is None else part * rows
        people = max(int(min(wanted, most)) // size, 1) * size
        most = most if math.isinf(most) else max(int(most) // size, 1) * size
        return Stage(kind, people, optional, max(wanted // size, 1.0) * size, most)

    stages = []
    if unscaled:
        per_batch = math.ceil(location.PEOPLE * unscaled * max(noise / 4.0, 0.25))
        if rows is not None:
            per_batch = max(1, min(per_batch, int(0.2 * rows) // location.BATCHES))
        stages.append(Stage("location", per_batch * location.BATCHES))
    known = 0.0 if rows is None else float(rows)
    total = max((150.0 if declared else 300.0) * unit * heavy, LEAST_SHARES["moments"] * known)
    if label:
        if d > 1:  # scales first, by which the moments of those who come then are clipped
            stages += [stage("moments", each * max(d, 4) ** 2, part) for each, part in PUBLIC_ROUNDS]
    elif wide is not None:
        moments = stage("moments", d * (PEOPLE[0] * noise / 4.0 + PEOPLE[1]), SHARE)
        stages += [moments] if wide else []
    else:
        stages += [stage("moments", part * total, part * 0.1) for part in MOMENT_ROUNDS]
        again = max(350.0 * unit * heavy, LEAST_SHARES["correlated"] * known)
        stages.append(stage("moments", again, 0.08, optional=True))
    if moving:
        stages += [stage("search", 1500.0 * unit / LEGS, 0.2 / LEGS)] * LEGS
        stages.append(stage("pilot", 1500.0 * unit / LEGS, 0.03))
        common, most = (2000.0 if rows is None else 6000.0) * unit, 0.2
    else:
        hard = max(1.0, (USUAL_CURVATURE / curvature) ** 2)  # as many more people make an estimate as precise
        stages.append(
            stage("pilot", 160.0 * unit * hard * (3.0 if label else 1.0), 0.05 if hard < 2.0 or d == 1 else 0.1)
        )
        common, most = (300.0 if rows is None else 2000.0) * unit * hard, 0.15
    least = LEAST_SHARES["mapped" if label or d == 1 else "common"] * known
    least = min(least, MOST_LEAD) if partitions else least
    most = 0.06 if d == 1 and not moving else most  # one number: a joint report is that much noisier than it alone
    stages.append(stage("common", max(common, least), most))
    told = 0 if rows is None else int(measures * rows)
    left = None if rows is None else max(rows - sum(s.people for s in stages) - told, 0)
    if partitions:
        lanes = math.ceil((lanes or MOST_LANES) / partitions)
    if lanes is None:
        lanes = 12 if left is None else int(left / (LEAST_IN_LANE * unit))
        lanes = min(max(lanes, FEWEST_LANES), 12 if moving else MOST_LANES) if between else 1
    if told and left:
        stages += [Stage("lanes", left, most=left), Stage("measures", -1)]
    else:
        stages.append(Stage("lanes", -1))
    full = size * lanes  # people of a round, after which no lane waits for reports
    apart = GATHER * stages[-2].people if left is None else FIRST_MEETING * left
    return Schedule(
        tuple(stages),
        size,
        lanes,
        CORRECTION_ALPHA if alpha is None else alpha,
        1.0 if pace is None else pace,
        rows,
        # where curvature depends on the coefficients, a correction from far off is itself far off now and then
        NEVER if partitions or moving else max(math.ceil(apart / full), 1) * full,
        effective,
        ENOUGH[moving]
        * heavy
        * (ROUGH if shaped else 1.0)
        * (1.0 if moving else max(1.0, (USUAL_CURVATURE / curvature) ** 2)),
    )


class ChainSteps(NamedTuple):
    """Steps γ_t and gains of log c of one stage of chains.

    Attributes
    ----------
    first : float
        γ₀ per update, in Newton units, at most 1/2.
    scale : float
        Updates after which the steps have begun to fall.
    alpha : float
    gain : float
        Gain of log c before division, 0 if c is not tracked.
    delay : float
        Updates' worth of caution in the gain.
    """

    first: float
    scale: float
    alpha: float
    gain: float
    delay: float

    def block(self, updates: int, m: int) -> tuple[Array, Array]:
        """Steps and gains of updates number `updates` + 1 … `updates` + m, each of shape (m,)."""
        t = np.arange(updates, updates + m, dtype=np.float64)
        steps = self.first * np.power(1.0 + t / self.scale, -self.alpha)
        return steps, self.gain * np.power(t + 1.0 + self.delay, -0.75)


class Reports(NamedTuple):
    """How people report to the chains. Public.

    Attributes
    ----------
    mechanism : Mechanism
    reach : float
        Bound of a weighted unit score's norm.
    blocks : int
        Linear predictors of a person.
    label : bool
        Whether only one number, the scalar score, is randomised, because covariates are public or there are none.
    y_low, y_high : float
        Public limits of the response, internal units before a learned scale.
    """

    mechanism: Mechanism
    reach: float
    blocks: int = 1
    label: bool = False
    y_low: float = -math.inf
    y_high: float = math.inf

    def size(self, d: int, kappa: float) -> int:
        """Numbers that are randomised in a report to a chain with `d` covariates."""
        return (1 if self.label else self.blocks * d) + int(kappa > 0.0)

    def radius(self, kappa: float) -> float:
        """Radius of the ball of such reports; with label privacy the largest that occurs."""
        return self.mechanism.joint_radius(1.0 if self.label else self.reach, kappa)

    def variance(self, d: int, kappa: float) -> float:
        """Variance of a report's scores, a coordinate's on average, up to their signal's."""
        return self.mechanism.sd(self.radius(kappa), self.size(d, kappa)) ** 2 + 0.7 / (1 if self.label else d)


def kappa_of(kind: str, rules: ChainRules) -> float:
    """Weight of the number in the joint reports of a stage; 0 if scores are sent alone."""
    return 1.0 if (rules.track or rules.counting) and kind in {"search", "pilot", "common"} else 0.0


def _log(length: float) -> float:
    return math.log(length) if length > 0.0 else math.inf


def lane_plan(
    stage: Stage,
    schedule: Schedule,
    rules: ChainRules,
    reports: Reports,
    d: int,
    *,
    path: int,
    gram: bool = False,
    worth: float = 1.0,
    y_centre: float = 0.0,
    y_scale: float = 1.0,
) -> LanePlan:
    """Numbers of one stage of chains for the kernel; `d` is the number of covariates."""
    kappa = kappa_of(stage.kind, rules)
    people = 0.0 if stage.people < 0 else stage.expected(worth)
    return LanePlan(
        shape=rules.shape,
        blocks=reports.blocks,
        weights=codes.LEVERAGE if reports.label else codes.UNIT,
        batch=schedule.batch,
        lanes=schedule.lanes if stage.kind == "lanes" else 1,
        reach=reports.reach,
        kappa=kappa,
        radius=reports.radius(kappa),
        channel=reports.mechanism.channel(reports.size(d, kappa)),
        label=int(reports.label),
        y_low=(reports.y_low - y_centre) / y_scale,
        y_high=(reports.y_high - y_centre) / y_scale,
        target=rules.target,
        widest=math.inf if rules.moving or rules.counting else _log((reports.y_high - reports.y_low) / y_scale),
        late=int(people) // schedule.batch // 2,
        path=int(path),
        gram=int(gram),
        worth=worth,
        precision=reports.variance(d, 0.0) / reports.variance(d, kappa),
    )


def chain_steps(
    stage: Stage,
    schedule: Schedule,
    rules: ChainRules,
    plan: LanePlan,
    noise: float,
    curvature: float,
    spread: float,
    d: int,
    newton2: float | None = None,
) -> ChainSteps:
    """Steps of one stage.

    Parameters
    ----------
    stage : Stage
    schedule : Schedule
    rules : ChainRules
    plan : LanePlan
    noise : float
        Noise sd per coordinate of a report.
    curvature : float
        Curvature of the loss per unit of score bound and c: P(abs r ≤ c), or mean min(π, 1 − π).
    spread : float
        Sd that the iterates may have in z'θ at first, in units of c.
    d : int
    newton2 : float, optional
        tr P², where P is far from a multiple of the identity; by default that of √d c/κ.

    Returns
    -------
    ChainSteps

    Notes
    -----
    With P ≈ A⁻¹, noise of variance ν² per coordinate and b people a batch, steps γ let z'θ fluctuate with variance
    γ c² ν² tr P²/(2 b), which fixes γ; tr P² is d²/κ² if P ≈ √d/κ.
    """
    # one number's noise reaches the predictor through covariates of length √d, not through d numbers weighted by √d
    noise2, dims = (noise**2 + 0.7, d) if plan.label else (noise**2 + 0.7 / d, d**2)
    stretch = dims / curvature**2 if newton2 is None else newton2
    first = min(schedule.pace * 2.0 * spread**2 / stretch * schedule.batch * plan.worth / noise2, 0.5)
    pilot = stage.kind == "pilot"
    scale = stage.expected(plan.worth) / schedule.batch / 4.0 if pilot else 1.0 / first
    if stage.kind == "search":
        scale = math.inf
    delay = {"search": 200.0, "pilot": 400.0, "common": 1000.0}.get(stage.kind, 0.0)
    delay = delay / schedule.batch / plan.worth / schedule.effective**2 * (d if plan.label else 1)
    delay *= max(1.0, (USUAL_SLOPE / rules.slope) ** 2)  # where the number tells less of c, its noise weighs more
    gain = 1.0 / rules.slope if plan.kappa > 0.0 else 0.0
    return ChainSteps(first, max(scale, 1.0), CORRECTION_ALPHA if pilot else schedule.alpha, gain, delay)
