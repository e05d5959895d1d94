"""What estimates of two collectors are to be, in plain NumPy: the root of the weighted equation and its sandwich."""

from __future__ import annotations

import numpy as np

from privreg.collector.aggregate.estimate import Estimated
from privreg.collector.aggregate.plan import Plan
from privreg.collector.aggregate.report import MEDIAN, slopes
from privreg.families.scores import unit


def root(plan: Plan, y: np.ndarray, x: np.ndarray, weights: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Coefficients θ of x with mean ω ψ(x'θ, y) x = 0, and c 1.345 normal-consistent median absolute residuals.

    Shapes: y and weights (n,), x (n, d), start (d,).
    """
    theta, least, since = start.copy(), np.inf, 0
    for _ in range(200):
        eta = x @ theta
        c = threshold(plan, y - eta)
        score = x.T @ (weights * unit(plan.rules.shape, c, eta, y)) / len(y)
        bread = (x * (weights * slopes(plan.rules, c, eta, y))[:, None]).T @ x / len(y)
        step = c * np.linalg.solve(bread, score)
        far = np.abs(x @ step).max() / (4.0 * c)
        theta = theta - step / max(1.0, far)
        size = np.abs(step).max()
        least, since = (size, 0) if size < 0.9 * least else (least, since + 1)
        if size < 1e-9 or since == 20:  # a quantile's score of finitely many records is a step: it has no root
            break
    return theta


def threshold(plan: Plan, residuals: np.ndarray) -> float:
    """c of these residuals; 1 of families without one."""
    if not plan.rules.scaled:
        return 1.0
    return plan.rules.ratio * float(np.median(np.abs(residuals))) / MEDIAN


def errors(plan: Plan, y: np.ndarray, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Sandwich standard errors of one record without privacy and weights, shape (d,): divide by √n."""
    eta = x @ theta
    c = threshold(plan, y - eta)
    score = x * (c * unit(plan.rules.shape, c, eta, y))[:, None]
    bread = np.linalg.inv((x * slopes(plan.rules, c, eta, y)[:, None]).T @ x / len(y))
    return np.sqrt(np.diag(bread @ (score.T @ score / len(y)) @ bread.T))


def weight(plan: Plan, found: Estimated, x: np.ndarray) -> np.ndarray:
    """Mean ω of the rounds that count, shape (n,)."""
    each = [np.minimum(1.0, plan.reach**2 / ((x @ s.state.rows.T) ** 2).sum(axis=1)) for s in found.rounds]
    return np.asarray(found.weights @ np.array(each))
