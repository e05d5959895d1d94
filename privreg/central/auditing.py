"""An audit of a curator's release: run again and again on two neighbouring data sets made up for it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from privreg.audit import neighbours as audits
from privreg.central import descent
from privreg.central.losses import resolve, resolve_loss
from privreg.central.plan import check_budget, make_plan
from privreg.device.sampler import fresh_key, seeded_key
from privreg.errors import OptionError, level
from privreg.privacy.ledger import UNSET, Budget

__all__ = ["CentralAudit", "audit"]


class CentralAudit(NamedTuple):
    """Outcome of an audit.

    Attributes
    ----------
    mu_lower, mu : float
        Lower confidence limit of μ and the claim; ``inf`` where the release is not one Gaussian mechanism.
    delta_lower, delta : float
        Lower confidence limit of δ at `epsilon` and the claim.
    epsilon : float
    runs : int
        Releases of each neighbour.
    """

    mu_lower: float
    mu: float
    delta_lower: float
    delta: float
    epsilon: float
    runs: int

    @property
    def passed(self) -> bool:
        """Whether no more was shown than is claimed."""
        return self.mu_lower <= self.mu and self.delta_lower <= self.delta


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
) -> CentralAudit:
    """Tell two neighbouring data sets apart by what the fit's own code releases of them.

    Parameters
    ----------
    family : Family or str
    mu, epsilon, delta : float
        The budget, as for a fit.
    others : int
        Records beside the one that differs; their covariates are 0, so that they don't hide it.
    runs : int
        Releases of each neighbour.
    alpha : float
        Probability of a limit above its true value, for each of the two.
    seed : int, optional
        For tests.
    noise : float
        Factor of the noise that is drawn; 0.5 must be caught.
    **options
        Of the fit: perturbation, order, epochs, step, radius, average, batch_size.

    Returns
    -------
    CentralAudit

    Raises
    ------
    OptionError, BudgetError

    Notes
    -----
    The record that differs has the covariate 1 and responses as far apart as they can be, so that its gradients are
    −G and G from the start: with a smooth loss, one pass and no other record the sensitivity is attained.
    """
    level(alpha)
    if runs < 1000:
        raise OptionError(f"runs={runs} are too few to tell anything; take 1000 or more.")
    budget = Budget.declare(mu, epsilon, delta)
    check_budget(budget, gaussian=True, how="")
    loss = resolve_loss(resolve(family))
    n = others + 1
    plan = make_plan(loss, budget, n=n, p=1, reach=1.0, lanes=1, **options)
    drawn = replace(plan, noise_sd=plan.noise_sd * noise)
    x = np.zeros((n, 1))
    x[0] = 1.0
    low = 0.0 if resolve(family).binary else -1.0
    key = fresh_key() if seed is None else seeded_key(seed, "audit")
    turns, normals = descent.randomness(key, 1)
    releases = []
    for response in (low, 1.0):
        y = np.full(n, response)
        releases.append(np.array([descent.noisy_lanes(x, y, loss, drawn, turns, normals)[0, 0] for _ in range(runs)]))
    found = audits.audit(releases[0], releases[1], alpha=alpha)
    at = budget.asked[0] if budget.form == "epsilon, delta" else 1.0
    claim = budget.asked[1] if budget.form == "epsilon, delta" else budget.delta(at)
    return CentralAudit(
        found.lower,
        budget.mu if plan.gaussian else math.inf,
        _delta_lower(releases[0], releases[1], at, alpha),
        claim,
        at,
        runs,
    )


def _delta_lower(first: Any, second: Any, epsilon: float, alpha: float) -> float:
    """Lower confidence limit of δ at `epsilon`: a threshold from the first half, tested on the second."""
    half = len(first) // 2
    cuts = np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0.001, 0.999, 400))
    gains = []
    for one, other in ((first, second), (second, first)):
        for sign in (1.0, -1.0):
            a, b = np.sort(sign * one[:half]), np.sort(sign * other[:half])
            above = [half - np.searchsorted(v, np.sort(sign * cuts), side="right") for v in (a, b)]
            gain = above[0] / half - math.exp(epsilon) * above[1] / half
            j = int(np.argmax(gain))
            gains.append((float(gain[j]), sign, float(np.sort(sign * cuts)[j]), one, other))
    _, sign, cut, one, other = max(gains, key=lambda g: g[0])
    m = len(one) - half
    hits, misses = int((sign * one[half:] > cut).sum()), int((sign * other[half:] > cut).sum())
    low = betaincinv(hits, m - hits + 1, alpha / 2) if hits else 0.0
    high = betaincinv(misses + 1, m - misses, 1 - alpha / 2) if misses < m else 1.0
    return max(float(low - math.exp(epsilon) * high), 0.0)
