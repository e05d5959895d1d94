"""The plan of an efficient fit: who is asked what, in order of position. Public numbers only.

Every person has one role, given by their position in the stream: location (only where no scale was declared),
moments, search (only where curvature depends on the coefficients), pilot, common chain, then the lanes. What the
roles need in people grows with d² and 1/μ², a small share of a long stream; on a short one each gets a fixed share.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg import location
from privreg.kernels import HUBER, LanePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.mechanisms import Gaussian

    Array = NDArray[np.float64]

__all__ = [
    "FEWEST_LANES",
    "ChainRules",
    "ChainSteps",
    "Schedule",
    "Stage",
    "chain_steps",
    "lane_plan",
    "make_schedule",
]

FEWEST_LANES: Final = 8
MOST_LANES: Final = 16
MOMENT_ROUNDS: Final = (0.2, 0.3, 0.5)
CORRECTION_ALPHA: Final = 0.7
"""Exponent of the steps: the one-step correction takes out what the chain has not forgotten, so they may fall fast."""

BATCH: Final = 32
LONG: Final = 20_000
"""People from whom on batches are whole."""

LEGS: Final = 6
"""Legs of the search where the Newton step depends on the coefficients and is renewed between them."""

ENOUGH: Final = {False: 700.0, True: 2000.0}
"""People in lanes, times μ²/d², under which intervals undercover in our simulations (benchmarks/efficiency), and the
same where curvature depends on the coefficients."""


class Stage(NamedTuple):
    """People in one role.

    Attributes
    ----------
    kind : str
        "location", "moments", "search", "pilot", "common" or "lanes".
    people : int
        How many; −1 for all who are still to come.
    optional : bool
        Whether it is held only if the covariates turn out to be correlated.
    """

    kind: str
    people: int
    optional: bool = False


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
    effective: float
    needed: float

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
        """Whether so many people in lanes are enough for intervals to be relied on."""
        return people >= self.wanted(d)

    def wanted(self, d: int) -> int:
        """People in lanes from whom on intervals can be relied on."""
        return math.ceil(self.needed * d**2 * math.pow(max(d / 11.0, 1.0), 0.6) / self.effective**2)


def make_schedule(
    *,
    d: int,
    mu: float,
    rows: int | None,
    unscaled: int,
    declared: bool,
    batch: int | None,
    lanes: int | None,
    alpha: float | None,
    pace: float | None,
    between: bool,
    binary: bool,
) -> Schedule:
    """Choose the plan.

    Parameters
    ----------
    d : int
        Coefficients.
    mu : float
        GDP parameter per person; inf without privacy.
    rows : int or None
        People expected, if known.
    unscaled : int
        Columns, the response included, whose scale nobody declared.
    declared : bool
        Whether all covariates have declared moments, so that fewer reports on moments will do.
    batch, lanes, alpha, pace
        The user's wishes or None.
    between : bool
        Whether intervals between lanes are wanted, which need 8 lanes.
    binary : bool
        Whether the curvature depends on the coefficients, so that the pilot goes in several legs.

    Returns
    -------
    Schedule
    """
    # noise variance of a score report in units of 4/μ²; without privacy its own variance, about 0.7/d, remains
    effective = 1.0 / math.sqrt((0.0 if math.isinf(mu) else 1.0 / mu**2) + 0.7 / (4.0 * d))
    unit = max(d, 4) ** 2 / effective**2
    size = batch or min(max((rows or LONG) * BATCH // LONG, 1), BATCH)

    def share(wanted: float, part: float) -> int:
        people = wanted if rows is None else min(wanted, part * rows)
        return max(int(people) // size, 1) * size

    stages = []
    if unscaled:
        per_batch = math.ceil(location.PEOPLE * unscaled * max(1.0 / effective**2, 0.25))
        if rows is not None:
            per_batch = max(1, min(per_batch, int(0.2 * rows) // location.BATCHES))
        stages.append(Stage("location", per_batch * location.BATCHES))
    total = 150.0 * unit if declared else 300.0 * unit
    stages += [Stage("moments", share(part * total, part * 0.1)) for part in MOMENT_ROUNDS]
    stages.append(Stage("moments", share(350.0 * unit, 0.08), optional=True))
    if binary:
        stages += [Stage("search", share(1500.0 * unit / LEGS, 0.2 / LEGS))] * LEGS
        stages.append(Stage("pilot", share(1500.0 * unit / LEGS, 0.03)))
        stages.append(Stage("common", share((2000.0 if rows is None else 6000.0) * unit, 0.2)))
    else:
        stages.append(Stage("pilot", share(160.0 * unit, 0.05)))
        stages.append(Stage("common", share((300.0 if rows is None else 2000.0) * unit, 0.15)))
    left = None if rows is None else max(rows - sum(s.people for s in stages), 0)
    if lanes is None:
        lanes = 12 if left is None else int(left / (100.0 * unit))
        lanes = min(max(lanes, FEWEST_LANES), 12 if binary else MOST_LANES) if between else 1
    stages.append(Stage("lanes", -1))
    return Schedule(
        tuple(stages),
        size,
        lanes,
        CORRECTION_ALPHA if alpha is None else alpha,
        1.0 if pace is None else pace,
        rows,
        effective,
        ENOUGH[binary],
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


class ChainRules(NamedTuple):
    """What the chains are told about the family.

    Attributes
    ----------
    family : int
        HUBER or BALANCED.
    ratio : float
        Huber's c in residual sd.
    track : bool
        Whether c is learned.
    """

    family: int
    ratio: float
    track: bool

    @property
    def target(self) -> float:
        """P(abs r ≤ c) for normal residuals."""
        return math.erf(self.ratio / math.sqrt(2.0)) if self.family == HUBER else 1.0

    @property
    def slope(self) -> float:
        """d/d log c of it."""
        return 2.0 * self.ratio * math.exp(-0.5 * self.ratio**2) / math.sqrt(2.0 * math.pi)


def lane_plan(
    stage: Stage, schedule: Schedule, rules: ChainRules, mechanism: Gaussian, reach: float, path: bool
) -> LanePlan:
    """Numbers of one stage of chains for the kernel."""
    kappa = 1.0 if rules.track and stage.kind in {"pilot", "common"} else 0.0
    return LanePlan(
        family=rules.family,
        batch=schedule.batch,
        lanes=schedule.lanes if stage.kind == "lanes" else 1,
        reach=reach,
        kappa=kappa,
        noise_sd=mechanism.joint_sd(reach, kappa),
        target=rules.target,
        late=max(stage.people, 0) // schedule.batch // 2,
        path=int(path),
    )


def chain_steps(
    stage: Stage, schedule: Schedule, rules: ChainRules, plan: LanePlan, curvature: float, spread: float, d: int
) -> ChainSteps:
    """Steps of one stage.

    Parameters
    ----------
    stage : Stage
    schedule : Schedule
    rules : ChainRules
    plan : LanePlan
    curvature : float
        Curvature of the loss per unit of score bound and c: P(abs r ≤ c), or mean min(π, 1 − π).
    spread : float
        Sd that the iterates may have in z'θ at first, in units of c.
    d : int

    Returns
    -------
    ChainSteps

    Notes
    -----
    With P ≈ A⁻¹ ≈ √d c/κ, noise of variance ν² per coordinate and b people a batch, steps γ let z'θ fluctuate with
    variance γ d² c² ν²/(2 κ² b), which fixes γ.
    """
    noise2 = plan.noise_sd**2 + 0.7 / d
    first = min(schedule.pace * 2.0 * (spread * curvature / d) ** 2 * schedule.batch / noise2, 0.5)
    pilot = stage.kind == "pilot"
    scale = stage.people / schedule.batch / 4.0 if pilot else 1.0 / first
    if stage.kind == "search":
        scale = math.inf
    delay = {"pilot": 400.0, "common": 1000.0}.get(stage.kind, 0.0) / schedule.batch / schedule.effective**2
    gain = 1.0 / rules.slope if plan.kappa > 0.0 else 0.0
    return ChainSteps(first, max(scale, 1.0), CORRECTION_ALPHA if pilot else schedule.alpha, gain, delay)
