"""An audit of a curator's release: run again and again on two neighbouring data sets made up for it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from privreg.audit.verification import Trial, Verification, verify
from privreg.privacy.ledger import UNSET, Budget
from privreg.privacy.noise import fresh_key, seeded_key
from privreg.published.descent import descent, kernels
from privreg.published.descent.losses import Loss, resolve, resolve_loss
from privreg.published.descent.plan import check_budget, make_plan


def audit(
    family: Any = "huber",
    *,
    mu: Any = UNSET,
    epsilon: Any = None,
    delta: Any = None,
    others: int = 0,
    runs: int = 20_000,
    alpha: float = 1e-6,
    seed: int | None = None,
    noise: float = 1.0,
    **options: Any,
) -> Verification:
    """Distinguish two neighbouring data sets by what the fit's code releases of them.

    Parameters
    ----------
    family, mu, epsilon, delta
        As for a fit, whose options (perturbation, order, epochs, step, radius, average, batch_size) are taken, too.
    others : int
        Records beside the one that differs; their covariates are 0, so that they don't hide it.
    runs : int
        Releases of each neighbour.
    alpha : float
        Probability that any limit is above its true value.
    seed : int, optional
        For tests.
    noise : float
        Factor of the noise that is drawn; 0.5 must be caught.

    Returns
    -------
    Verification
        Its table has a line for μ, where the release is one Gaussian mechanism, one for δ at an ε, and one for the
        matrix of curvature that fits of several lanes release too.

    Raises
    ------
    OptionError, BudgetError

    Notes
    -----
    The record that differs has the covariate 1 and responses at the largest distance, so that its gradients are
    −G and G from the start: with a smooth loss, one pass and no other record the sensitivity is attained. For curvature
    it has covariates at right angles, where the loss is steepest.
    """
    budget = Budget.declare(mu, epsilon, delta)
    check_budget(budget, gaussian=True, how="")
    loss = resolve_loss(resolve(family))
    n = others + 1
    plan = make_plan(loss, budget, n=n, p=1, reach=1.0, lanes=1, **options)
    drawn = replace(plan, noise_sd=plan.noise_sd * noise)
    low = 0.0 if resolve(family).binary else -1.0
    key = fresh_key() if seed is None else seeded_key(seed, "audit")
    streams = descent.randomness(key, 1)

    @cache  # both trials are of the same releases
    def releases(runs: int) -> tuple[Any, Any]:
        x = np.zeros((n, 1))
        x[0] = 1.0
        first, second = (
            np.array([descent.release(x, np.full(n, y), loss, drawn, streams).lanes[0, 0] for _ in range(runs)])
            for y in (low, 1.0)
        )
        return first, second

    at, delta_claimed = budget.asked if budget.form == "epsilon, delta" else (1.0, budget.delta(1.0))
    words = "responses at opposite ends"
    trials = [Trial("release", words, "mu", budget.mu, releases)] if plan.gaussian else []
    trials.append(Trial("release", words, "delta", delta_claimed, releases, epsilon=at))
    trials.append(_curvature(loss, budget, max(n, 2), key, noise))
    return verify(trials, claim=str(budget), n=runs, alpha=alpha, option="runs")


def _curvature(loss: Loss, budget: Budget, n: int, key: bytes, noise: float) -> Trial:
    """Neighbours whose records have covariates at right angles, at coefficients where both have the most curvature."""
    plan = make_plan(loss, budget, n=n, p=2, reach=1.0, lanes=2)
    drawn = replace(plan, curvature_sd=plan.curvature_sd * noise)
    etas = np.linspace(-1.0, 1.0, 2001)
    above, below = (kernels.slopes(loss.code, loss.a, np.inf, etas + side * loss.window, 1.0) for side in (1.0, -1.0))
    at, square = np.full(2, etas[np.argmax(above - below)]), descent.randomness(key, 2)[2]

    def releases(runs: int) -> tuple[Any, Any]:
        out = []
        for row in np.eye(2):
            x = np.zeros((n, 2))
            x[0] = row
            many = (descent.curvature(x, np.ones(n), loss, drawn, at, square) for _ in range(runs))
            out.append(np.array([matrix[0, 0] - matrix[1, 1] for matrix in many]))
        return out[0], out[1]

    return Trial("curvature", "covariates at right angles", "mu", plan.curvature_mu, releases)
