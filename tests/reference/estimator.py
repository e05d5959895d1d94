"""The default fit once more, from the noised sums of its rounds: readable NumPy, for tests.

Huber's loss with a learned scale, or a logistic regression, without special cases: up to 15 coefficients, no missing
values, no number near a bound or 0 for most records, no valley for states to cross. Equations are numbered as in
`docs/estimator.md`; constants are the engine's.
"""

import math
from types import SimpleNamespace as Values

import numpy as np
from numpy.linalg import cholesky, inv, solve
from scipy.linalg import hadamard
from scipy.special import expit, ndtr

from privreg.collector import plan as planned
from privreg.collector import rounds as collector
from privreg.collector.estimation import combination, coordinates, curvature, reference
from privreg.collector.estimation import estimate as estimates
from privreg.collector.estimation import reference as reference_law
from tests.reference import covariates


def phi(v):
    """Normal density."""
    return np.exp(-0.5 * v**2) / math.sqrt(2.0 * math.pi)


def huber_c(p, mu):
    """Corner in residual scales (3)."""
    grid = np.linspace(0.5, 1.345, 170)
    inside = 2.0 * ndtr(grid) - 1.0
    square = inside - 2.0 * grid * phi(grid) + grid**2 * (1.0 - inside)
    return grid[np.argmin((square / p + (2.0 * grid / mu) ** 2) / inside**2)]


# --- the reference model (11): z one of the points, y normal about z'θ with scale s, or yes with its logistic ------


def mean_score(fit, here, there, c, s):
    """E ψ at predictors `here`, and its derivative, if `there` is the truth (12)."""
    if not fit.huber:
        share, top = expit(there), np.maximum(expit(here), expit(-here))
        return (expit(here) - share) / top, -share * (1.0 - share) / top
    low, high = (-c - there + here) / s, (c - there + here) / s
    area = high * ndtr(high) + phi(high) - low * ndtr(low) - phi(low)
    return s * area / c - 1.0, -(ndtr(high) - ndtr(low)) / c


def mean_square(fit, here, c, s):
    """E ψ² where `here` is the truth (12)."""
    if not fit.huber:
        share = expit(here)
        return share * (1.0 - share) / np.maximum(share, 1.0 - share) ** 2
    v, inside = c / s, 2.0 * ndtr(c / s) - 1.0
    return np.full_like(here, (inside - 2.0 * v * phi(v)) / v**2 + 1.0 - inside)


def weighted(fit, values):
    """E ω κ z z'."""
    return (fit.z * (fit.omega * values)[:, None]).T @ fit.z / len(fit.z)


def secant(fit, state, c, theta, s):
    """S with E ψ(state) = S (state − θ) if θ is the truth (13)."""
    here, there = fit.z @ state, fit.z @ theta
    score, slope = mean_score(fit, here, there, c, s)
    near = np.abs(here - there) < reference_law.SMALL * (c if fit.huber else 1.0)
    return weighted(fit, np.where(near, -slope, score / np.where(near, 1.0, here - there)))


def bend(fit, theta, square):
    """What balanced offsets with these second moments add to a mean report (14)."""
    if fit.huber:
        return np.zeros(len(theta))
    there, away = fit.z @ theta, np.sqrt(np.einsum("ij,jk,ik->i", fit.z, square, fit.z))
    up, down = (mean_score(fit, there + v, there, 1.0, 1.0)[0] for v in (away, -away))
    return fit.z.T @ (fit.omega * 0.5 * (up + down)) / len(fit.z)


def wrong(fit, theta, c, s):
    """What curvature changes by in the ways in which the reference model may be wrong (15)."""
    t, there, unit = reference_law.STEP, fit.z @ theta, fit.z * fit.omega[:, None]
    if fit.huber:
        down, up = (-mean_score(fit, there, there, c, s * math.exp(v))[1] for v in (-t, t))
        along = unit / np.sqrt(np.mean(unit**2, axis=0))
        return np.array([weighted(fit, f * (up - down) / (2.0 * t)) for f in along.T]) / math.sqrt(len(theta))
    down, kappa, up = (-mean_score(fit, v, v, c, s)[1] for v in (there - t, there, there + t))
    x, out = (fit.z @ inv(fit.rows).T)[:, 1:], []
    x = x - x.mean(axis=0)
    for j, column in enumerate(fit.rows[:, 1:].T):
        moved = (fit.z * (fit.omega * kappa * x[:, j])[:, None]).mean(axis=0)
        change = x[:, j] * ((up - down) / (2.0 * t) * (theta @ column) - kappa * (fit.z @ column) * fit.omega**2)
        out.append(np.outer(column, moved) + np.outer(moved, column) + weighted(fit, change))
    return combination.SPREAD * fit.unbound[:, None, None] * np.array(out)


# --- pilot ---------------------------------------------------------------------------------------------------------


def distance(fit, at, seen, prior):
    """Squared distance of reports and reference model, half its gradient and Hessian (16)."""
    theta, s, d = at[:-1], math.exp(at[-1]), len(at) - 1
    precision = np.diag(1.0 / prior.variance)
    away = at - prior.mean
    value, gradient, hessian = away @ precision @ away, precision @ away, precision
    for one in seen:
        n, g = one.weight.sum(), one.score.sum(axis=(0, 1)) / one.weight.sum()
        here, there = fit.z @ one.theta, fit.z @ theta
        score, slope = mean_score(fit, here, there, one.c, s)
        by, rest = weighted(fit, slope), fit.z.T @ (fit.omega * score) / len(fit.z) - g
        low, high = (-one.c - there + here) / s, (one.c - there + here) / s
        scale = fit.z.T @ (fit.omega * (phi(high) - phi(low)) * s / one.c) / len(fit.z) * fit.huber
        square = (one.sd**2 + 0.5 / d) / n + (1.0 - reference.MODELLED) ** 2 * (g @ g) / d
        parts = [(np.column_stack([by, scale]), rest, square)]
        if fit.huber:
            off = np.mean(ndtr(high) - ndtr(low)) - one.number
            by = np.r_[fit.z.T @ (phi(low) - phi(high)) / s, (low * phi(low) - high * phi(high)).sum()] / len(fit.z)
            error2 = (one.sd**2 + 0.25) / n + (curvature.COMMON * one.number) ** 2
            parts.append((by[None], np.array([off]), error2))
        for by, rest, variance in parts:
            value = value + rest @ rest / variance
            gradient, hessian = gradient + by.T @ rest / variance, hessian + by.T @ by / variance
    return value, gradient, hessian


def pilot_fit(fit, at, seen, prior):
    """Gauss–Newton steps, shortened where they gain nothing (16)."""
    value, gradient, hessian = distance(fit, at, seen, prior)
    for _ in range(reference.TURNS):
        step = -solve(hessian, gradient)
        promised, enough, part = -gradient @ step, reference.PRECISE * (1.0 + abs(value)), 1.0
        if promised < enough:
            break
        found = distance(fit, at + step, seen, prior)
        while not found[0] < value and part > reference.SHORTEST:
            least = part * promised / (found[0] - value + 2.0 * part * promised)
            part *= min(max(least, 0.1), 0.5)
            found = distance(fit, at + part * step, seen, prior)
        gained = value - found[0]
        if not gained > 0.0:
            break
        at, (value, gradient, hessian) = at + part * step, found
        if gained < enough:
            break
    return at, inv(hessian)


# --- main rounds ---------------------------------------------------------------------------------------------------


def group_offsets(fit, number, c, stretch):
    """What each group answers apart (18), (19)."""
    return (-1.0) ** number * hadamard(16)[:, 1 : fit.d + 1] * (length(fit, c) / math.sqrt(fit.d)) @ stretch


def length(fit, c):
    """Length of offsets (18)."""
    effective = fit.n * 4.0 / (fit.sd**2 + planned.SAMPLED / fit.d)
    enough = collector.OFFSET_PEOPLE * fit.d**2
    return collector.OFFSET * min(1.0, (enough / effective) ** 0.25) * (c if fit.huber else collector.GENTLE)


def stretched(fit, found, c):
    """By what offsets are multiplied where curvature is low (20)."""
    values, vectors = np.linalg.eigh(found.root @ found.m @ found.root.T)
    along = (fit.z @ vectors) ** 2
    far = length(fit, c) / (c * math.sqrt(fit.d)) * np.sqrt((fit.omega @ along**2) / (fit.omega @ along))
    most = np.clip(1.0 / far, 1.0, 1.0 / collector.OFFSET)
    return np.eye(fit.d) + (vectors * (np.clip(values.mean() / values, 1.0, most) - 1.0)) @ vectors.T


def framed(fit, theta, s, *, nearby=False):
    """Rounds in coordinates x = L'θ in which the reference model says M = I (21), (22)."""
    last = fit.seen[-1]
    a = secant(fit, theta, last.c, theta, s)
    root = cholesky(a)
    sent = {o.c: weighted(fit, mean_square(fit, fit.z @ theta, o.c, s) * fit.omega) for o in fit.seen}
    noise = {(o.c, o.sd): o.sd**2 * np.eye(fit.d) + sent[o.c] for o in fit.seen}
    omega, rounds = inv(root) @ noise[last.c, last.sd] @ inv(root).T, []
    for k, o in enumerate(fit.seen):
        if o.role == "main" or (o.c < combination.WIDEST_THRESHOLD * last.c and k in {2, 3}):
            near = nearby and o.c == last.c
            map_ = inv(root) @ a @ inv(a if near else secant(fit, o.theta, o.c, theta, s))
            n, square = o.weight.sum(axis=0), o.offsets.T @ o.offsets / len(o.offsets)
            mean = o.score.sum(axis=0) / n[:, None] - bend(fit, theta, square) * (o.role == "main")
            times = np.trace(map_ @ noise[o.c, o.sd] @ map_.T) / np.trace(omega)
            rounds.append(Values(x=(o.theta + o.offsets) @ root, g=mean @ map_.T, n=n / times, map=map_, seen=o))
    wrong_by = inv(root) @ wrong(fit, theta, last.c, s) @ inv(root).T
    gain, back = curvature.GAIN * np.eye(fit.d), inv(root.T)
    if not fit.huber:
        gain = root.T @ gain_of(fit, back @ omega @ back.T / max(r.n.sum() for r in rounds)) @ back
    return Values(root=root, omega=omega, rounds=rounds, wrong=wrong_by, gain=gain)


def gain_of(fit, noise):
    """Part of the way that states go, by what a round's noise moves them (24)."""
    if fit.huber:
        return curvature.GAIN * np.eye(fit.d)
    square, along = np.linalg.eigh(noise)
    part = np.clip(curvature.STEADY / np.sqrt(fit.d * square), curvature.LEAST, curvature.GAIN)
    return (along * part) @ along.T


def means(rounds):
    """Records, mean states and mean reports of rounds."""
    n = np.array([r.n.sum() for r in rounds])
    return n, *(np.array([r.n @ v for r, v in zip(rounds, some, strict=True)]) / n[:, None]
                for some in ([r.x for r in rounds], [r.g for r in rounds]))  # fmt: skip


def learned(fit, frame):
    """Posterior mean and covariance of the curvature M (25)-(29)."""
    q, omega = fit.d, frame.omega
    gram, cross = np.zeros((2, q, q))
    for r in frame.rounds:  # within rounds (25)
        x = r.x - r.n @ r.x / r.n.sum()
        gram, cross = gram + (x.T * r.n) @ x, cross + (r.g.T * r.n) @ x
    main = [r for r in frame.rounds if r.seen.role == "main"]
    if len(main) > 1:  # between them (26)
        n, x, g = means(main)
        weight, centre = n, x[-1]
        for _ in range(2):
            far = ((x - centre) ** 2).mean(axis=1)
            weight = 1.0 / (1.0 / n + curvature.CARRY**2 * far * q / np.trace(omega))
            centre = weight @ x / weight.sum()
        chance, left = np.zeros((q, q)), frame.gain
        for later in range(1, len(n)):
            chance = chance + weight[later:] @ (weight / n)[:-later] / weight.sum() * left
            left = left - frame.gain @ left
        x = x - centre
        gram, cross = gram + (x.T * weight) @ x, cross + (g.T * weight) @ x - omega @ chance.T
    row, col = np.tril_indices(q)
    unit = np.array([np.outer(np.eye(q)[a], np.eye(q)[b]) for a, b in zip(row, col, strict=True)])
    unit = np.maximum(unit, unit.transpose(0, 2, 1))
    precision = np.linalg.inv(omega)
    info = np.einsum("iab,bc,jcd,da->ij", unit, precision, unit, gram, optimize=True)
    linear = np.einsum("iab,ab->i", unit, precision @ cross)
    prior = np.diag(np.where(row == col, 1.0, 0.5) * curvature.SPREAD**2 * 2.0 / (q + 1.0))  # (27)
    ways = curvature.SLOPE * frame.wrong[:, row, col]
    prior = prior + ways.T @ ways + curvature.COMMON**2 * np.outer(row == col, row == col)
    cov = inv(info + inv(prior))  # (28)
    return np.einsum("i,iab->ab", cov @ (linear + inv(prior) @ (row == col)), unit), cov


def combined(fit, frame, m, cov=None, scattered=None):
    """Weights, estimate and covariance in the coordinates x (31)-(35)."""
    n, x, g = means(frame.rounds)
    q, one = fit.d, x - g @ inv(m)
    weight, each = n / n.sum(), np.trace(inv(m) @ frame.omega @ inv(m)) / q
    for _ in range(4):  # (31)
        far = ((x - weight @ one) ** 2).sum(axis=1)
        weight = 1.0 / (each / n + curvature.CARRY**2 * far / q)
        weight = weight / weight.sum()
    bread = inv(m)
    left = (frame.omega if scattered is None else scattered) * (weight**2 / n).sum()
    out, unknown = bread @ left @ bread, np.zeros((q, q))
    if cov is not None:  # (33), (34)
        row, col = np.tril_indices(q)
        apart = np.zeros((combination.DRAWS // 2, q, q))
        rng = np.random.Generator(np.random.PCG64(20_000 + q))
        apart[:, row, col] = rng.standard_normal((len(apart), len(row))) @ cholesky(cov).T
        apart[:, col, row] = apart[:, row, col]
        for e in apart:
            for draw in (m + e, m - e):
                move = solve(curvature.floored(draw), weight @ g) - solve(m, weight @ g)
                unknown = unknown + np.outer(move, move) / combination.DRAWS
            bent = bread @ e @ bread @ e @ out
            unknown = unknown + combination.TAILS * (bread @ e @ out @ e @ bread + bent + bent.T) / len(apart)
    return Values(x=weight @ one, cov=out + unknown)


def scattered(fit, frame, m):
    """Covariance of a report by how cells scatter, and by the reference model (32)."""
    sampled = planned.SAMPLED / fit.d
    sampled = sampled / (fit.sd**2 + sampled)
    prior = 2.0 / ((1.0 - reference.MODELLED) * sampled) ** 2
    total, df = prior * frame.omega, prior - 0.5 * (fit.d + 1.0)
    for r in (r for r in frame.rounds if r.seen.role == "main"):
        each = r.n.sum() / r.seen.weight.sum()
        weight = (each * r.seen.weight).reshape(-1)
        left = (each * r.seen.score @ r.map.T / (each * r.seen.weight)[:, :, None] - r.x @ m).reshape(-1, fit.d)
        left = (left - weight @ left / weight.sum()) * np.sqrt(weight)[:, None]
        total, df = total + left.T @ left, df + len(weight) - 1.0
    return combination.at_least(total / df, frame.omega)


def step(fit, theta, s):
    """The next state (23), by gains (24), and the curvature that was used."""
    frame = framed(fit, theta, s, nearby=fit.huber)
    m = curvature.floored(learned(fit, frame)[0])
    n, x, g = means(frame.rounds)
    share, back = np.zeros(len(n)), inv(frame.root.T) @ inv(m)
    for k in reversed(range(len(n))):
        share[k] = min(n[k], n.max() - share.sum())
        if share.sum() >= collector.ENOUGH * n.max():
            break
    mean = share @ (g + (x[-1] - x) @ m) / share.sum()
    move = -back @ mean
    move = move * min(1.0, curvature.FAR * (fit.seen[-1].c if fit.huber else 1.0) / np.linalg.norm(move))
    return solve(frame.root.T, x[-1]) + gain_of(fit, back @ frame.omega @ back.T / n.max()) @ move, Values(
        root=frame.root, m=m
    )


def estimated(fit, theta, s):
    """Estimate and covariance in the coordinates of the scores (31)-(36)."""
    for _ in range(estimates.TURNS):
        frame = framed(fit, theta, s)
        m, cov = learned(fit, frame)
        found = combined(fit, frame, curvature.floored(m))
        theta = solve(frame.root.T, found.x)
    found = combined(fit, frame, curvature.floored(m), cov, scattered(fit, frame, m))
    back = inv(frame.root.T)
    return theta, back @ found.cov @ back.T, m, cov


def replayed(rounds, *, huber, n, mu, middle, half, levels=None):
    """The fit: what each round was asked, and what all of them tell.

    Parameters
    ----------
    rounds : sequence of (number, role, weight, total)
        Of those that were held. Sums of noised reports, of shape (parts, groups, numbers).
    huber : bool
        Huber's loss with a learned scale; else a logistic regression.
    n : int
        Records expected.
    mu : float
        Per person.
    middle, half : ndarray, shape (d,) or, with the response's, (d + 1,)
        Of the columns' bounds; 0 and 1 of the constant.
    levels : ndarray, shape (c, c − 1), optional
        Rows of a factor's columns within ±1, which follow the constant.
    """
    d = len(middle) - huber
    size, q = d + huber, 0 if levels is None else levels.shape[1]
    fit = Values(huber=huber, n=n, d=d, sd=2.0 / mu, seen=[])
    rows, memory, weight, lead, states = np.eye(size), np.zeros((size, size)), 0.0, 1.0, []
    shares = None
    if levels is not None:
        shares = np.full(q + 1, 1.0 / (q + 1)), np.zeros(q + 1), 0.0
        rows = covariates.whiten(levels, shares[0], rows)
    moments = [r for r in rounds if r[1] == "moments"]
    sharp = sum(r[2].sum() for r in moments[1 : 3 + (not huber)])  # without the optional one
    for k, (_, _, people, total) in enumerate(moments):
        before, lead = lead, 1.0 if huber else covariates.lead_of(k, sharp, math.sqrt(2.0) / mu, size)
        states.append(Values(rows=rows * np.r_[math.sqrt(lead), np.ones(size - 1)][:, None]))
        given = total.sum(axis=(0, 1)) / people.sum(), people.sum(), math.sqrt(2.0) / mu, lead, huber, levels, shares
        rows, memory, weight, shares = covariates.learn(rows, memory, weight if lead == before else 0.0, *given)
    fit.rows = rows[:d, :d]
    p = None if levels is None else covariates.shrunk(levels, shares)
    fit.z = covariates.points_of(fit.rows, range(1 + q, d), levels, p)
    fit.omega = 1.0 / np.linalg.norm(fit.z, axis=1)
    fit.unbound = unbound(fit, q)
    theta, s, wide = np.zeros(d), 1.0, 9.0
    if huber:  # the response's row of W tells coefficients and scale (17)
        theta, s = -solve(fit.rows.T, rows[d, :d] / rows[d, d]), 1.0 / rows[d, d]
        wide = 16.0 * s**2
    prior = Values(mean=np.r_[theta, math.log(s)], variance=np.r_[np.full(d, wide), 2.0])
    ratio = huber_c(d, mu) if huber else 1.0
    at, c, off, stretch, main = prior.mean, ratio * s, np.zeros((1, d)), np.eye(d), 0
    scores = [r for r in rounds if r[1] in {"pilot", "main"}]
    for k, (number, role, people, total) in enumerate(scores):
        if role == "main":
            off = group_offsets(fit, number, c, stretch)
        states.append(Values(theta=theta, c=c, offsets=off))
        joint = huber and role == "pilot"
        share = total[..., -1].sum() / people.sum()
        fit.seen.append(Values(role=role, theta=theta, c=c, offsets=off, weight=people, score=total[..., :d],
                               sd=math.hypot(2.0, joint) / mu, number=share))  # fmt: skip
        if k + 1 == len(scores):
            break
        if role == "pilot":
            at, cov = pilot_fit(fit, at, fit.seen, prior)
            theta, s = at[:d], math.exp(at[d])
            unsure = min(math.sqrt(np.trace(cov[:d, :d])), 1.5 * s) if scores[k + 1][1] == "pilot" else 0.0
            c = ratio * math.hypot(s, unsure) if huber else 1.0  # (17)
            continue
        main += 1
        theta, known = step(fit, theta, s)
        if huber and main == collector.STRETCHED:
            stretch = stretched(fit, known, c)
    theta, cov, m, unknown = estimated(fit, theta, s)
    to_user = (np.eye(d) - np.outer(middle[:d], np.eye(d)[0])).T / half[:d] @ fit.rows.T * (half[d] if huber else 1.0)
    params = to_user @ theta + np.r_[middle[d] if huber else 0.0, np.zeros(d - 1)]  # (37)
    return Values(states=states, m=m, m_cov=unknown, theta=theta, cov=cov, params=params,
                  user_cov=to_user @ cov @ to_user.T)  # fmt: skip


def unbound(fit, q):
    """How freely few records may make a number's variance (15)."""
    x = fit.z @ inv(fit.rows).T
    mean, sd = x.mean(axis=0)[1:], x.std(axis=0)[1:]
    apart = np.maximum((1.0 - mean**2) / sd**2 - 1.0, 0.0)
    even = np.maximum(1.0 - np.abs(mean), 0.0) / (1.0 + np.abs(mean))
    return np.where(np.arange(fit.d - 1) >= q, apart / (coordinates.FAR * even + apart), 0.0)
