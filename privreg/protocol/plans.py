"""What compiled loops are handed: public numbers, and the sums that a collector keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]


class Shape(NamedTuple):
    """A scalar score, numbers only: u(η, y) in [−1, 1], times a bound and a corner c where it has one."""

    family: int  # Kernel code
    # τ and max(τ, 1 − τ) of expectile and quantile; y_max of Poisson; width of the smoothed hinge; lowest and highest
    # response of Squared; 0 where unused
    a: float
    b: float
    address: int  # Where the compiled score of a user's own family lies in memory; 0 for the others. Not for saving.


class Channel(NamedTuple):
    """How a report is randomised that lies in a ball: numbers only, all public."""

    kind: int  # GAUSSIAN, LAPLACE, PRIVUNIT or RESPONSE
    # Per unit of the ball's radius: noise sd, scale of Laplace noise, or factor that makes the answer unbiased
    scale: float
    accept: float  # PrivUnit: probability of an answer in the cap about the truth
    above: float  # PrivUnit: normal mass of the cap


class Plan(NamedTuple):
    """What is fixed before the first record: numbers only, all public."""

    shape: Shape
    blocks: int  # Linear predictors of a person: 1, or one less than the classes of a multinomial response
    c: float  # Huber's corner, internal units
    top: float  # Bound of the scalar score
    weights: int  # Kernel code of the score weights ω(x)
    bound: float  # Declared bound of the weighted score's ℓ2 norm; the device clips to it
    # Radius by which a score report is randomised, and what about: 0 unless there is one coefficient
    radius: float
    middle: float
    channel: Channel  # Of a score report
    batch: int  # People per update
    # Random scaling: NONE, DIAGONAL, FULL, or HISTORY, in which full blocks are left to `history.fold`
    scaling_mode: int
    # 1 if outer products of the reports are summed (plug-in), 2 if also those with the iterates at which people were
    # asked (path curvature)
    outer: int
    curvature_share: int  # A person sends a curvature report when a hash of their position is below this (of 2**32)
    curvature_bound: float  # Bound of a curvature report's Frobenius norm
    curvature_radius: float  # Radius by which a curvature report is randomised
    curvature_channel: Channel
    central: int  # 1 if the raw sums of the central plug-in are kept on the device side


class State(NamedTuple):
    """What the collector knows: sums of reports and of iterates, nothing else. Internal units."""

    theta: Array  # Current iterate, block after block; shape (p,)
    origin: Array  # The start; path sums are taken about it, against cancellation; shape (p,)
    total: Array  # Σ (θ_k − origin); shape (p,)
    batch: Array  # Reports of the unfinished batch, summed; shape (p,)
    # Columns (s_k, k) of the current block of updates, s_k the partial sum after update k; shape (p + 1, LINE)
    path: Array
    # Σ (s_k, k)(s_k, k)ᵀ over finished blocks, lower triangle; in DIAGONAL mode Σ s_k² and Σ k s_k; shape (p + 1, p +
    # 1)
    sums: Array
    # In DIAGONAL mode coordinate 0 of the path is this functional of s_k (the user's intercept); shape (p,)
    functional: Array
    # Mean reports g̃ of the current block, if outer products are summed; under them θ − origin and 1; shape (p, LINE)
    reports: Array
    outer: Array  # Σ v vᵀ over finished blocks, v a column of these, lower triangle; shape (p, p)
    curvature: Array  # Σ of curvature reports; shape (p (p + 1)
    # Updates, gradient senders, curvature senders, people seen, people in the unfinished batch; shape (5,)
    counts: Ints


class ScorePlan(NamedTuple):
    """How records report scores in a fit by rounds: numbers only, all public."""

    shape: Shape  # The score, whose unit form lies in [−1, 1] (of norm at most 1 with several blocks)
    blocks: int  # Linear predictors of a record: 1, or one less than the classes of a multinomial response
    reach: float  # Bound of a weighted unit score's ℓ2 norm; the device clips to it
    kappa: float  # Weight of the number in [0, 1] that a joint report carries; 0 if scores are sent alone
    radius: float  # Half the sensitivity of a report; a ball that holds all reports has this radius
    channel: Channel
    label: int  # 1 if only the response is private: one number is randomised, and the public covariates multiply it
    # Public limits of the response, internal units, by which label privacy knows a score's range
    y_low: float
    y_high: float
