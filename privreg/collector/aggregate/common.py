"""Rounds of scores that are combined: in the last one's coordinates and at a common threshold, Equation (12)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.collector.aggregate.curvature import grouped, unequal
from privreg.collector.aggregate.rounds import WINDOWS

if TYPE_CHECKING:
    from privreg.base.arrays import Array, Flags
    from privreg.collector.aggregate.plan import Plan, Progress, State, Summed


class Turned(NamedTuple):
    """A round in the last one's coordinates."""

    theta: Array
    score: Array  # Times the threshold
    slope: Array
    square: Array
    noise: Array  # Covariance of the score
    beyond: Array
    steep: float
    lean: Array
    lean_sd: float
    people: float  # That sampling varies by
    wider: float  # Mean square by which noise grew in turning
    sds: tuple[float, float, float, float, float]


class Rounds(NamedTuple):
    """Rounds of scores that are combined, in common coordinates and at a common threshold."""

    plan: Plan
    progress: Progress
    last: State  # Its rows are the coordinates
    summed: tuple[Summed, ...]  # Those whose thresholds are within a factor 1.5 of the last one's
    narrow: tuple[Summed, ...]  # Those of them that say the residual scale, by the narrowest window
    c: float
    turned: list[Turned]

    @property
    def again(self) -> bool:
        """True if the same rows answered all of them."""
        return self.plan.noise.again

    @property
    def places(self) -> Array:
        """Coefficients at which they asked, shape (rounds, b d)."""
        return np.array([t.theta for t in self.turned])

    @property
    def main(self) -> Flags:
        """Rounds of people who are sampled separately: main ones, of the same rows those of groups of clusters."""
        return np.array([grouped(self.plan, s) if self.again else s.state.role == "main" for s in self.summed])

    @property
    def once(self) -> bool:
        """True if all rows are in each of them, so that they are sampled once."""
        return self.again and not self.main.any()

    def at(self, c: float) -> Rounds:
        """The rounds at another common threshold."""
        return self._replace(c=c, turned=[_turn(self.plan, s, self.last.rows, c) for s in self.summed])


def similar(plan: Plan, progress: Progress) -> Rounds:
    """Rounds of scores whose thresholds differ from the last one's by little: others estimate something else."""
    # a state of measures is that of the estimate
    last = progress.state if progress.state.gauge is None else progress.seen[-1].state
    c = progress.seen[-1].state.threshold(plan.rules)
    summed = tuple(s for s in progress.seen if abs(math.log(s.state.threshold(plan.rules) / c)) < WINDOWS[1])
    least = min(s.state.window for s in summed)
    return Rounds(plan, progress, last, summed, tuple(s for s in summed if s.state.window == least), c, []).at(c)


def differing(rounds: Rounds) -> Array:
    """Share by which slopes of rounds may differ from that at the estimate; shape (rounds,).

    As states of the same rows are so many thresholds away, or as other rows count whole.
    """
    if not rounds.again:
        return unequal(rounds.plan, rounds.summed)
    far = np.linalg.norm(rounds.places - rounds.last.theta, axis=1)
    return np.asarray(far / (rounds.c * rounds.plan.rules.bend))


def _turn(plan: Plan, s: Summed, rows: Array, common: float) -> Turned:
    """A round's sums in other coordinates, scores at the common threshold, squares about their mean: Equation (12)."""
    by, c = rows @ np.linalg.inv(s.state.rows), s.state.threshold(plan.rules)
    by, d = np.kron(np.eye(len(s.score) // len(by)), by), len(s.score)
    square = s.square - s.products
    square[:d, :d] += s.products_noise * np.eye(d)
    wide = np.eye(len(square))
    wide[:d, :d] = by
    return Turned(
        theta=np.asarray(np.linalg.solve(by.T, s.state.theta), dtype=np.float64),
        score=by @ (c * s.score + (common - c) * s.beyond),
        slope=by @ s.slope @ by.T,
        square=wide @ square @ wide.T,
        noise=((c * s.sds[0]) ** 2 + ((common - c) * s.sds[3] if common != c else 0.0) ** 2) * by @ by.T,
        beyond=by @ s.beyond,
        steep=s.steep,
        lean=by @ s.lean,
        lean_sd=s.lean_sd,
        people=plan.noise._replace(came=s.counts).precise if s.counts else s.people,
        wider=float((by**2).sum()) / len(by),
        sds=s.sds,
    )
