"""What estimates of two collectors are to be, in plain NumPy: the root of the weighted equation and its sandwich."""

from __future__ import annotations

import numpy as np

from privreg.collector.aggregate.estimate import Estimated
from privreg.collector.aggregate.plan import Plan, Progress, State
from privreg.collector.aggregate.report import MEDIAN, slopes
from privreg.families.scores import unit
from privreg.simulation.aggregate import AggregateRun


def root(plan: Plan, y: np.ndarray, x: np.ndarray, weights: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Coefficients θ of x with mean ω ψ(x'θ, y) x = 0, and c 1.345 normal-consistent median absolute residuals.

    Shapes: y and weights (n,), x (n, d), start (d,). Of a multinomial response ψ is its probabilities less what was
    answered, of each level but the first; start is (b d,).
    """
    theta, least, since = start.copy(), np.inf, 0
    for _ in range(200):
        c, score, bread = equation(plan, y, x, weights, theta)
        step = c * np.linalg.solve(bread, score.mean(axis=0))
        far = np.abs(step.reshape(-1, x.shape[1]) @ x.T).max() / (4.0 * c)
        theta = theta - step / max(1.0, far)
        size = np.abs(step).max()
        least, since = (size, 0) if size < 0.9 * least else (least, since + 1)
        if size < 1e-9 or since == 20:  # a quantile's score of finitely many records is a step: it has no root
            break
    return theta


def equation(
    plan: Plan, y: np.ndarray, x: np.ndarray, weights: np.ndarray, theta: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Threshold c, weighted unit scores (n, p) and their mean slope (p, p) by θ/c."""
    if plan.rules.blocks > 1:
        share = chances(x, theta)
        score = weights[:, None] * (share - (y[:, None] == np.arange(1, plan.rules.blocks + 1)))
        steep = share[:, :, None] * (np.eye(plan.rules.blocks) - share[:, None, :]) * weights[:, None, None]
        bread = np.einsum("nij,na,nb->iajb", steep, x, x, optimize=True) / len(y)
        size = len(theta)
        return 1.0, (score[:, :, None] * x[:, None, :]).reshape(-1, size), bread.reshape(size, size)
    eta = x @ theta
    c = threshold(plan, y - eta)
    score = x * (weights * unit(plan.rules.shape, c, eta, y, plan.rules.function))[:, None]
    return c, score, (x * (weights * slopes(plan.rules, c, eta, y))[:, None]).T @ x / len(y)


def chances(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Probabilities of each level but the first, shape (n, b)."""
    eta = np.column_stack([np.zeros(len(x)), x @ theta.reshape(-1, x.shape[1]).T])
    odds = np.exp(eta - eta.max(axis=1, keepdims=True))
    return np.asarray((odds / odds.sum(axis=1, keepdims=True))[:, 1:])


def threshold(plan: Plan, residuals: np.ndarray) -> float:
    """c of these residuals; 1 of families without one."""
    if not plan.rules.scaled:
        return 1.0
    return plan.rules.ratio * float(np.median(np.abs(residuals))) / MEDIAN


def errors(plan: Plan, y: np.ndarray, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Sandwich standard errors of one record without privacy and weights, shape (p,): divide by √n."""
    c, score, slope = equation(plan, y, x, np.ones(len(y)), theta)
    bread = c * np.linalg.inv(slope)
    return np.sqrt(np.diag(bread @ (score.T @ score / len(y)) @ bread.T))


def weight(plan: Plan, found: Estimated, x: np.ndarray) -> np.ndarray:
    """Mean ω of the rounds that count, shape (n,)."""
    each = [np.minimum(1.0, s.state.reach(plan) ** 2 / ((x @ s.state.rows.T) ** 2).sum(axis=1)) for s in found.rounds]
    return np.asarray(found.weights @ np.array(each))


def report_of_person(plan: Plan, state: State, y: np.ndarray, x: np.ndarray, weight: float) -> np.ndarray:
    """A person's report by Equations (26) to (28), row by row; shapes y (K,), x (K, d), NaN in rows of no use."""
    rows = [j for j in range(len(y)) if np.isfinite(y[j])]
    part = weight / (max(len(rows), 1) if plan.persons.mean else len(y))
    z, d = [state.rows @ x[j] for j in range(len(y))], plan.d
    pairs = [(i, j) for i in range(d + 1) for j in range(i, d + 1)]

    def stacked(m: np.ndarray) -> np.ndarray:
        return np.array([m[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i, j in pairs if j < len(m)])

    if state.role == "location":
        middle, half = 0.5 * (plan.lows + plan.highs), 0.5 * (plan.highs - plan.lows)
        out = np.zeros(2 * plan.located + 1)
        for j in rows:
            t = [(x[j, c] - middle[c]) / half[c] for c in plan.numbers]
            t += [] if plan.binary else [(y[j] - 0.5 * (plan.y_low + plan.y_high)) / (0.5 * (plan.y_high - plan.y_low))]
            out += part * np.array([*t, *(1.665 * np.square(t)), 1.0])
        return out / np.sqrt(plan.located * (1.0 + 1.665**2) + 1.0)
    if state.role == "moments":
        out = np.zeros((d + 1, d + 1))
        for j in rows:
            u = np.append(z[j], (y[j] - state.y_centre - z[j] @ state.theta) / state.scale)
            out += part * np.outer(u, u) * min(1.0, state.ball / (u @ u)) / state.ball
        return stacked(out)
    rules, c, reach = plan.rules, state.threshold(plan.rules), state.reach(plan)
    omega = min(1.0, reach**2 / max(part * sum(z[j] @ z[j] for j in rows), 1e-300))
    a, b, m, o, t = np.sqrt(rules.shares)
    score, slope, q = np.zeros(d), np.zeros((d, d)), np.zeros(d + int(rules.scaled))
    beyond, middle, numbers = np.zeros(d), np.zeros(d), np.zeros(3)
    for j in rows:
        eta = np.array([z[j] @ state.theta])
        one = z[j] * omega * unit(rules.shape, c, eta, y[j : j + 1], rules.function)[0] / reach
        steep = omega * slopes(rules, c, eta, y[j : j + 1])[0] / (rules.top * reach**2)
        score, slope = score + part * one, slope + part * steep * np.outer(z[j], z[j])
        r = y[j] - eta[0]
        far = np.log(abs(r) / (MEDIAN * state.scale)) / state.window
        inside = abs(far) < 1.0
        q += part * (np.append(one, np.clip(far, -1.0, 1.0)) if rules.scaled else one)
        beyond += part * one * (abs(r) > c)
        middle += part * z[j] * np.sign(r) * (inside and abs(r) <= c) * omega / reach
        numbers += part * np.array([np.clip(far, -1.0, 1.0), 0.5 * inside, 0.5 * (not inside)])
    if not rules.scaled:
        return np.concatenate([a * score, b * stacked(slope), m * stacked(np.outer(q, q))])
    parts = [a * score, b * stacked(slope), 0.5 * m * stacked(np.outer(q, q)), o * beyond, o * middle]
    return np.concatenate([*parts, t * numbers])


def play(plan: Plan, y: np.ndarray, x: np.ndarray, key: bytes | None, offset: np.ndarray | None = None) -> Progress:
    """Play all rounds on made-up rows, in order; it enters nothing in the ledger."""
    run = AggregateRun(plan, key)
    run.advance(y, x, offset)
    run.close()
    return run.progress
