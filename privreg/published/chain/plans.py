"""Public plan of a single chain in the compiled loop's terms and in a fit's, and the state that its collector keeps."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.families.scores import Score, ScoreWeights
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol.plans import Channel, Shape
from privreg.published.chain.path import Layout


class Plan(NamedTuple):
    """Public plan, fixed before the first record: numbers only."""

    shape: Shape
    blocks: int  # Linear predictors of a person: 1, or one less than the classes of a multinomial response
    c: float  # Huber threshold, internal units
    top: float  # Bound of the scalar score
    weights: int  # Kernel code of the score weights ω(x)
    bound: float  # Declared bound of the weighted score's ℓ2 norm; the device clips to it
    radius: float  # Radius by which a score report is randomised
    middle: float  # Its centre: 0 unless there is one coefficient
    channel: Channel  # Channel of a score report
    batch: int  # People per update
    scaling_mode: int  # Random scaling: NONE, DIAGONAL or FULL
    outer: int  # 1 if outer products of reports are summed (plug-in), 2 if also those with iterates (path curvature)
    curvature_share: int  # A person sends a curvature report when a hash of their position is below this (of 2**32)
    curvature_bound: float  # Bound of a curvature report's Frobenius norm
    curvature_radius: float  # Radius by which a curvature report is randomised
    curvature_channel: Channel
    central: int  # 1 if the raw sums of the central plug-in are kept on the device side
    joint: float = 0.0  # E min(Z², c²), Z standard normal, where θ ends with a residual scale; else 0


class State(NamedTuple):
    """State of the collector: sums of reports and of iterates, nothing else. Internal units."""

    theta: Array  # Current iterate, block after block; shape (p,)
    origin: Array  # The start; path sums are taken about it, against cancellation; shape (p,)
    total: Array  # Σ (θ_k − origin); shape (p,)
    batch: Array  # Reports of the unfinished batch, summed; shape (p,)
    path: Array  # Columns (s_k, k) of the current block, s_k the partial sum after update k; shape (p + 1, LINE)
    # Σ (s_k, k)(s_k, k)ᵀ over finished blocks, lower triangle; in DIAGONAL mode Σ s_k² and Σ k s_k; shape
    # (p + 1, p + 1)
    sums: Array
    functional: Array  # In DIAGONAL mode coordinate 0 of the path is this of s_k, the user's intercept; shape (p,)
    # Mean reports g̃ of the current block, if outer products are summed; under them θ − origin and 1; shape (p, LINE)
    reports: Array
    outer: Array  # Σ v vᵀ over finished blocks, v a column of these, lower triangle; shape (p, p)
    curvature: Array  # Σ of curvature reports; shape (p (p + 1) / 2,)
    spreads: Array  # Σ (noise over that of the largest budget)² of gradient and of curvature senders; shape (2,)
    # Updates, gradient senders, curvature senders, people seen, people in the unfinished batch; shape (5,)
    counts: NDArray[np.int64]


class Steps(NamedTuple):
    """A step-size sequence."""

    gamma: float  # γ > 0, internal units
    alpha: float  # α in (0, 1), and 1 in experiments; intervals need α > 1/2
    delay: float  # i0 ≥ 0

    def block(self, updates: int, m: int) -> Array:
        """γ of updates number `updates` + 1 … `updates` + m, shape (m,)."""
        k = np.arange(updates + 1, updates + m + 1, dtype=np.float64)
        return self.gamma * np.power(k + self.delay, -self.alpha)

    def total(self, updates: int) -> float:
        """Σγ over the first `updates` updates, by the integral that bounds it from below."""
        a = 1.0 - self.alpha
        if a == 0.0:  # in experiments alone
            return self.gamma * math.log((updates + 1 + self.delay) / (1 + self.delay))
        return self.gamma / a * float((updates + 1 + self.delay) ** a - (1 + self.delay) ** a)


@dataclass(frozen=True)
class Published:
    """Public rule by which every device makes its report: score → weight → bound → clip to the bound → randomise.

    The clip is a safety net: were the declared bound wrong, the report would be biased and stay private.
    """

    score: Score  # Scalar score and its bound, internal units
    weights: ScoreWeights  # ω(x)
    mechanism: Mechanism  # Randomiser
    row_bound: float  # sup ‖x‖ω that holds for the declared covariates (finite for every form of weight)
    curvature_bound: float  # sup of ‖ω ∂ψ x xᵀ‖_F, or inf where no curvature may be reported
    steps: Steps
    alone: bool = False  # True if x is the constant 1, so that a score report is one number of known range
    joint: float = 0.0  # E min(Z², c²), Z standard normal, where a report holds a score of the residual scale; else 0
    batch: int = 1  # People per update
    curvature_share: float = 0.0  # Share of people who send curvature instead of a score
    weakest: float = 0.0  # Smallest eigenvalue of the curvature for unrelated covariates whose bounds are at ±4 sd
    blocks: int = 1  # Linear predictors of a person
    cut: Layout | None = None  # Marks that cut the path into blocks, if any do

    @property
    def norm(self) -> float:
        """Declared bound B0 of the weighted score's ℓ2 norm, internal units."""
        return self.score.bound * self.row_bound

    @property
    def radius(self) -> float:
        """Radius by which a score report is randomised: half the range of a single number, else by its bound."""
        low, high = self.score.range
        if self.joint:  # whose score is in [κ − c², κ]/2, as ω ≤ 1
            return self.mechanism.joint_radius(self.norm, 0.5 * self.score.c**2)
        return self.mechanism.score_radius(0.5 * (high - low) if self.alone else self.norm)

    @property
    def bound(self) -> float:
        """Bound for the statement: of the weighted score's ℓ2 norm, or half the sensitivity of a joint report."""
        return self.radius if self.joint else self.norm

    @property
    def weighing(self) -> str:
        """Score weights, for the header."""
        return self.weights.name

    def report(self, p: int) -> tuple[float, int]:
        """Radius and size of a score report with `p` covariates."""
        return self.radius, p * self.blocks + bool(self.joint)

    def plan(self, p: int, *, scaling_mode: int, outer: int, central: bool) -> Plan:
        """Calibrate every number that the loop needs, for `p` covariates."""
        bound, share = self.curvature_bound, self.curvature_share
        return Plan(
            shape=self.score.shape, blocks=self.blocks, c=self.score.c, top=self.score.bound,
            weights=self.weights.code, bound=self.norm, radius=self.radius,
            middle=0.5 * sum(self.score.range) if self.alone else 0.0, batch=self.batch,
            channel=self.mechanism.channel(self.report(p)[1]), scaling_mode=scaling_mode, outer=outer,
            curvature_share=turns(share),
            curvature_bound=bound, curvature_radius=self.mechanism.curvature_radius(bound) if share > 0 else 0.0,
            curvature_channel=self.mechanism.channel(p * (p + 1) // 2), central=int(central), joint=self.joint,
        )  # fmt: skip


def turns(share: float) -> int:
    """The share of people who send curvature, in units of 2⁻³², as the loop has it."""
    return int(share * 2**32)
