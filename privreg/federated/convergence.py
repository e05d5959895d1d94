"""Distance of federated rounds from their limit without noise, predicted from public numbers.

Each round adds the weighted mean of the silos' noise to the model, of variance Σ w_i² v in a coordinate, v being the
mechanism's exact variance, and E local steps pull the model back. On a quadratic loss the two are a linear recursion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from privreg.errors import OptionError, shown
from privreg.published.federated.reports import UpdateMechanism


@dataclass(frozen=True)
class Convergence:
    """Predicted errors, internal units. Made by :func:`predicted_error`."""

    noise: float  # Variance that the mean of the silos' reports adds in one round, summed over coordinates
    # Rows are rounds, from 0: ``squared_bias`` (what is left of the start), ``variance`` and ``mse`` of the model,
    # summed over coordinates
    table: pd.DataFrame
    averaged: float  # Mean square error of the mean of the models of the second half of the rounds


def predicted_error(
    mechanism: UpdateMechanism,
    *,
    rounds: int,
    silos: int | None = None,
    weights: ArrayLike | None = None,
    curvature: ArrayLike = 0.0,
    step: float = 0.0,
    local_steps: int = 1,
    start: ArrayLike = 0.0,
    update_norm: float = 0.0,
) -> Convergence:
    """Predict the error of a federated fit of a quadratic loss from its public numbers.

    Parameters
    ----------
    mechanism : UpdateMechanism
        An unbiased one: what "geodp" and "ldpvec" do to an update's mean has no such recursion.
    rounds : int
    silos : int
        Silos with equal weights; or `weights`.
    weights : array_like, shape (silos,)
        Public weights, with any sum.
    curvature : float or array_like, shape (d,)
        Eigenvalues of the loss's Hessian, internal units, the same in every silo. 0: rounds only add noise.
    step : float
        Local step.
    local_steps : int
        Local steps E of a round.
    start : float or array_like, shape (d,)
        Distance of the first model from the minimum along each eigenvector.
    update_norm : float
        ℓ2 norm of a typical update, for mechanisms whose noise depends on it; PrivUnit's is largest at 0.

    Raises
    ------
    OptionError
        If the mechanism is biased, or silos and weights are both or neither given.

    Notes
    -----
    Exact where every silo's loss is quadratic with this Hessian, no update is clipped and the noise doesn't depend on
    the update. Clipping slows the pull and adds a bias that no public number tells.

    References
    ----------
    Duan (2025), PhD thesis, section 6.1, with exact variances in place of the printed ones.

    Examples
    --------
    >>> from privreg import Budget
    >>> from privreg.federated import update_mechanism
    >>> m = update_mechanism("gaussian", Budget.declare(mu=0.5), 2, 1.0)
    >>> found = predicted_error(m, rounds=2, silos=16)
    >>> found.noise, found.table["mse"].tolist()
    (2.0, [0.0, 2.0, 4.0])
    """
    if (silos is None) == (weights is None):
        raise OptionError("give either silos= (equal weights) or weights=, the public weights of all silos.")
    if not mechanism.unbiased:
        raise OptionError(
            f"mechanism={mechanism.name!r} is biased, and its error is no such recursion; take 'gaussian', 'privunit', "
            "'laplace' or 'piecewise', or run a simulation."
        )
    if rounds < 1 or local_steps < 1:
        raise OptionError(f"rounds={shown(rounds)} and local_steps={shown(local_steps)} must be 1 or more.")
    w = np.full(silos or 1, 1.0 / (silos or 1)) if weights is None else np.asarray(weights, dtype=np.float64)
    w = w / w.sum()
    d = mechanism.size
    update = np.full(d, update_norm / math.sqrt(d))
    noise = float(w @ w) * mechanism.mean_square(update)
    kept = np.broadcast_to((1.0 - step * np.asarray(curvature, dtype=np.float64)) ** local_steps, (d,))
    begun = np.broadcast_to(np.asarray(start, dtype=np.float64), (d,))
    t = np.arange(rounds + 1)[:, None]
    squared_bias = ((kept**t * begun) ** 2).sum(axis=1)
    added = np.cumsum(kept ** (2 * t), axis=0)[:-1]  # Σ q^{2s} over the noise of the rounds so far
    variance = np.append(0.0, noise / d * added.sum(axis=1))
    table = pd.DataFrame({"squared_bias": squared_bias, "variance": variance, "mse": squared_bias + variance})
    half = t[1 + rounds // 2 :]
    bias = np.mean(kept**half, axis=0) * begun
    since = half - np.arange(1, rounds + 1)  # rounds from each noise to each model
    shares = np.where(since >= 0, 1.0, 0.0)[..., None] * kept ** np.maximum(since, 0)[..., None]
    averaged = float(np.sum(bias**2) + noise / d * np.sum(shares.mean(axis=0) ** 2))
    return Convergence(noise, table.rename_axis("round"), averaged)
