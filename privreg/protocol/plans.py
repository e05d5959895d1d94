"""What compiled loops are handed: public numbers, and the sums that a collector keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Channel", "LanePlan", "Lanes", "Plan", "Shape", "State"]


class Shape(NamedTuple):
    """A scalar score, numbers only: u(η, y) in [−1, 1], times a bound and a corner c where it has one.

    Attributes
    ----------
    family : int
        Kernel code.
    a, b : float
        τ and max(τ, 1 − τ) of expectile and quantile; y_max of Poisson; width of the smoothed hinge; lowest and
        highest response of Squared; 0 where unused.
    address : int
        Where the compiled score of a user's own family lies in memory; 0 for the others. Not for saving.
    """

    family: int
    a: float
    b: float
    address: int


class Channel(NamedTuple):
    """How a report is randomised that lies in a ball: numbers only, all public.

    Attributes
    ----------
    kind : int
        GAUSSIAN, LAPLACE, PRIVUNIT or RESPONSE.
    scale : float
        Per unit of the ball's radius: noise sd, scale of Laplace noise, or factor that makes the answer unbiased.
    accept : float
        PrivUnit: probability of an answer in the cap about the truth.
    above : float
        PrivUnit: normal mass of the cap.
    """

    kind: int
    scale: float
    accept: float
    above: float


class Plan(NamedTuple):
    """What is fixed before the first record: numbers only, all public.

    Attributes
    ----------
    shape : Shape
    blocks : int
        Linear predictors of a person: 1, or one less than the classes of a multinomial response.
    c : float
        Huber's corner, internal units.
    top : float
        Bound of the scalar score.
    weights : int
        Kernel code of the score weights ω(x).
    bound : float
        Declared bound of the weighted score's ℓ2 norm; the device clips to it.
    radius, middle : float
        Radius by which a score report is randomised, and what about: 0 unless there is one coefficient.
    channel : Channel
        Of a score report.
    batch : int
        People per update.
    scaling_mode : int
        Random scaling: NONE, DIAGONAL, FULL, or HISTORY, in which full blocks are left to `history.fold`.
    outer : int
        1 if outer products of the reports are summed (plug-in), 2 if also those with the iterates at which people
        were asked (path curvature).
    curvature_share : int
        A person sends a curvature report when a hash of their position is below this (of 2**32).
    curvature_bound : float
        Bound of a curvature report's Frobenius norm.
    curvature_radius : float
        Radius by which a curvature report is randomised.
    curvature_channel : Channel
    central : int
        1 if the raw sums of the central plug-in are kept on the device side.
    """

    shape: Shape
    blocks: int
    c: float
    top: float
    weights: int
    bound: float
    radius: float
    middle: float
    channel: Channel
    batch: int
    scaling_mode: int
    outer: int
    curvature_share: int
    curvature_bound: float
    curvature_radius: float
    curvature_channel: Channel
    central: int


class State(NamedTuple):
    """What the collector knows: sums of reports and of iterates, nothing else. Internal units.

    Attributes
    ----------
    theta : ndarray, shape (p,)
        Current iterate, block after block.
    origin : ndarray, shape (p,)
        The start; path sums are taken about it, against cancellation.
    total : ndarray, shape (p,)
        Σ (θ_k − origin).
    batch : ndarray, shape (p,)
        Reports of the unfinished batch, summed.
    path : ndarray, shape (p + 1, LINE)
        Columns (s_k, k) of the current block of updates, s_k the partial sum after update k.
    sums : ndarray, shape (p + 1, p + 1) or (2, p)
        Σ (s_k, k)(s_k, k)ᵀ over finished blocks, lower triangle; in DIAGONAL mode Σ s_k² and Σ k s_k.
    functional : ndarray, shape (p,)
        In DIAGONAL mode coordinate 0 of the path is this functional of s_k (the user's intercept).
    reports : ndarray, shape (p, LINE) or (2 p + 1, LINE)
        Mean reports g̃ of the current block, if outer products are summed; under them θ − origin and 1.
    outer : ndarray, shape (p, p) or (2 p + 1, 2 p + 1)
        Σ v vᵀ over finished blocks, v a column of these, lower triangle.
    curvature : ndarray, shape (p (p + 1) / 2,)
        Σ of curvature reports.
    counts : ndarray of int64, shape (5,)
        Updates, gradient senders, curvature senders, people seen, people in the unfinished batch.
    """

    theta: Array
    origin: Array
    total: Array
    batch: Array
    path: Array
    sums: Array
    functional: Array
    reports: Array
    outer: Array
    curvature: Array
    counts: Ints


class LanePlan(NamedTuple):
    """What is fixed for one stage of chains: numbers only, all public.

    Attributes
    ----------
    shape : Shape
        The score, whose unit form lies in [−1, 1] (of norm at most 1 with several blocks).
    blocks : int
        Linear predictors of a person: 1, or one less than the classes of a multinomial response.
    weights : int
        Kernel code of the score weights ω(z).
    batch : int
        People who are asked at one iterate.
    lanes : int
        Parallel chains; batch g of the stage goes to lane g mod `lanes`.
    reach : float
        Bound of a weighted unit score's ℓ2 norm; the device clips to it.
    kappa : float
        Weight of the number in [0, 1] that a joint report carries; 0 if scores are sent alone.
    radius : float
        Half the sensitivity of a report; a ball that holds all reports has this radius.
    channel : Channel
    label : int
        1 if only the response is private: one number is randomised, and the public covariates multiply it.
    y_low, y_high : float
        Public limits of the response, internal units, by which label privacy knows a score's range.
    target : float
        Mean of that number at which c stands still, when c is tracked.
    widest : float
        Largest log c: no residual scale is wider than a response's public range.
    late : int
        Updates from this one on enter the late averages.
    path : int
        1 if the second moments of the path are kept, for random scaling; 2 if their diagonal alone is; 3 if others keep
        them (`privreg.collector.history`).
    gram : int
        1 if those of reports and iterates are kept, for plug-in and path curvature.
    worth : float
        Mean weight of a person's report: 1, or less where personal budgets are below the largest.
    precision : float
        Inverse variance of a report's score, relative to that of one which carries the score alone.
    """

    shape: Shape
    blocks: int
    weights: int
    batch: int
    lanes: int
    reach: float
    kappa: float
    radius: float
    channel: Channel
    label: int
    y_low: float
    y_high: float
    target: float
    widest: float
    late: int
    path: int
    gram: int
    worth: float
    precision: float


class Lanes(NamedTuple):
    """State of K parallel chains in whitened coordinates: sums of reports and of iterates, nothing else.

    d is the number of coefficients, over all blocks.

    Attributes
    ----------
    theta : ndarray, shape (K, d)
        Current iterates.
    log_c : ndarray, shape (K,)
        Log of the corner c, internal response units.
    origin : ndarray, shape (d,)
        Common start; sums are taken about it, against cancellation.
    total : ndarray, shape (K, d)
        Σ w (θ − origin) over the iterates at which people were asked, w the weight of their batch.
    score : ndarray, shape (K, d)
        Σ c ḡ over batches, ḡ the batch's mean report, times w.
    late : ndarray, shape (K, d + 1)
        Σ (θ − origin, log c) after the updates of the stage's second half.
    batch : ndarray, shape (K, d + 1)
        Reports of the unfinished batch, summed; the last entry is that of the numbers in joint reports.
    partial : ndarray, shape (K, d)
        Σ w (u_k − origin), u_k = θ_{k−1} − c P ḡ_k the one-step corrections.
    sums : ndarray, shape (K, d + 1, d + 1) or (K, 2, d + 1)
        Σ (s_k, k)(s_k, k)ᵀ of those partial sums, lower triangle, if the path is kept; or their diagonal's Σ (s_k, 0)²
        and Σ k (s_k, k).
    functional : ndarray, shape (d,) or (0,)
        Where the diagonal alone is kept, coordinate 0 is this functional of s_k (the user's intercept).
    gram : ndarray, shape (K, 2 d + 1, 2 d + 1)
        Σ v vᵀ, v = (c ḡ, θ − origin, w), lower triangle, if it is kept.
    weight : ndarray, shape (K, 2)
        Σ w over batches, w = 1 for people of one budget; and people's weights in the unfinished batch, summed.
    updates : ndarray of int64, shape (K,)
    in_batch : ndarray of int64, shape (K,)
        People in the unfinished batch.
    """

    theta: Array
    log_c: Array
    origin: Array
    total: Array
    score: Array
    late: Array
    batch: Array
    partial: Array
    sums: Array
    functional: Array
    gram: Array
    weight: Array
    updates: Ints
    in_batch: Ints
