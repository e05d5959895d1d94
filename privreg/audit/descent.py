"""An audit of a curator's release: run again and again on two neighbouring data sets made up for it."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from privreg.audit.neighbours import Trial, Verification, verify
from privreg.privacy.ledger import UNSET, Budget
from privreg.privacy.noise import fresh_key, seeded_key
from privreg.published.descent import descent
from privreg.published.descent.kernels import slopes
from privreg.published.descent.losses import resolve, resolve_loss
from privreg.published.descent.plan import make_plan


def audit(
    family: Any = "huber", *, mu: Any = UNSET, epsilon: Any = None, delta: Any = None, others: int = 0,
    runs: int = 20_000, alpha: float = 1e-6, seed: int | None = None, noise: float = 1.0, **options: Any,
) -> Verification:  # fmt: skip
    """Distinguish two neighbouring data sets by releases of the published descent.

    Family, budget and `options` (perturbation, order, epochs, step, radius, average, batch_size) are as for a fit.
    There are `others` beside the record that differs, with covariates of 0, so that they don't hide it; `runs` releases
    of each neighbour; any limit is above its true value with probability `alpha`. `seed` and `noise`, a factor of the
    noise that is drawn, are for tests: 0.5 must be caught.

    The table has a line for μ of the average, where that is one Gaussian mechanism, one for its δ at an ε, and one for
    the matrix of curvature; together they keep the budget. The record that differs has the covariate 1 and responses at
    the largest distance, so that its gradients are −G and G from the start: with a smooth loss, one pass and no other
    record the sensitivity is attained. For curvature it has covariates at right angles, where the loss is steepest.
    """
    budget = Budget.declare(mu, epsilon, delta)
    fam = resolve(family)
    loss, n = resolve_loss(fam), others + 1
    plan = make_plan(loss, budget, n=n, p=1, reach=1.0, lanes=1, **options)
    square = make_plan(loss, budget, n=max(n, 2), p=2, reach=1.0, lanes=2)
    key = fresh_key() if seed is None else seeded_key(seed, "audit")
    streams, normals = descent.randomness(key, 1), descent.randomness(key, 2)[2]
    drawn = replace(plan, noise_sd=plan.noise_sd * noise)

    @cache  # trials of the average are of the same releases
    def averages(runs: int) -> tuple[Any, Any]:
        x = np.zeros((n, 1))
        x[0] = 1.0
        many = [
            [descent.release(x, np.full(n, y), loss, drawn, streams).lanes[0, 0] for _ in range(runs)]
            for y in (0.0 if fam.binary else -1.0, 1.0)
        ]
        return np.array(many[0]), np.array(many[1])

    def matrices(runs: int) -> tuple[Any, Any]:
        etas, less = np.linspace(-1.0, 1.0, 2001), replace(square, curvature_sd=square.curvature_sd * noise)
        above, below = (slopes(loss.code, loss.a, np.inf, etas + s * loss.window, 1.0) for s in (1.0, -1.0))
        at, out = np.full(2, etas[np.argmax(above - below)]), []
        for row in np.eye(2):
            x = np.zeros((max(n, 2), 2))
            x[0] = row
            many = (descent.curvature(x, np.ones(len(x)), loss, less, at, normals) for _ in range(runs))
            out.append(np.array([matrix[0, 0] - matrix[1, 1] for matrix in many]))
        return out[0], out[1]

    ends, alone = "responses at opposite ends", replace(plan, curvature_mu=0.0)
    at = budget.asked[0] if budget.form == "epsilon, delta" else 1.0
    trials = [Trial("average", ends, "delta", alone.delta(at), averages, epsilon=at)]
    if plan.gaussian:
        trials.insert(0, Trial("average", ends, "mu", math.sqrt(budget.mu**2 - plan.curvature_mu**2), averages))
    trials.append(Trial("curvature", "covariates at right angles", "mu", square.curvature_mu, matrices))
    return verify(trials, claim=str(budget), n=runs, alpha=alpha, option="runs")
