"""Audits of the staged fit's reports: worst neighbours never show more than the claimed budget, and less noise shows.

The reports are the kernels' own. `n` reports of each neighbour put the lower limit about
2 · 4.9 √(q(1 − q)/n)/φ(μ/2) below what the neighbours show, q = Φ(−μ/2): under .05 for every μ and `n` used here.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest

from privreg.audit.neighbours import mu_lower_bound
from privreg.device.sampler import NoiseStream, seeded_key
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Gaussian
from privreg.protocol.codes import BALANCED, GAUSSIAN, HUBER
from privreg.protocol.plans import Channel
from privreg.simulation.staged import kernels, lanes
from tests.kinds import KINDS, plan_of, reports_of

ALPHA = 1e-6
N = 150_000
GAIN = 2.0**-10
PLAIN = Channel(GAUSSIAN, 1.0, 0.0, 0.0)
"""The radius is the noise sd."""


class Neighbours(NamedTuple):
    """A mechanism and two rows: noise sd at μ = 1, and reports of one row from standard normals, shape (n, width)."""

    width: int
    sensitivity: float
    sd: float
    reports: object
    rows: tuple


def moment_reports(v, sd, noise):
    """The kernel adds reports up; one call a person keeps them apart."""
    rows, out = np.array([[1.0, 0.0], [-1.0, 2.0]]), np.zeros(noise.shape)
    for k in range(len(noise)):
        kernels.moment_reports(v, rows, noise[k : k + 1], PLAIN, sd, np.empty(0), out[k], 0, 1)
    return out


def location_reports(v, sd, noise):
    centre, spread, out = np.array([40.0]), np.array([14.0]), np.zeros(noise.shape)
    for k in range(len(noise)):
        kernels.location_reports(v, centre, spread, noise[k : k + 1], PLAIN, sd, np.empty(0), out[k], 0, 1)
    return out


def lane_reports(family, kappa):
    """Reports of `n` lanes with one person each: `score` holds the score, and log c has moved by the bit's report."""

    def reports(row, sd, noise):
        x, y = row
        n, d = len(noise), len(x)
        kind = KINDS[{HUBER: "huber", BALANCED: "balanced"}[family]]
        plan = plan_of(kind, reports_of(kind, "gaussian", label=False), d, joint=kappa > 0, batch=1, lanes=n)
        plan = plan._replace(reach=1.0, kappa=kappa, radius=sd, channel=PLAIN, target=0.0, path=0)
        state = lanes.init(np.zeros(d), 0.0, plan)
        kernels.run_lanes(
            np.tile(x, (n, 1)), np.full(n, y), np.empty(0), np.empty(0), np.eye(d), np.eye(d), np.zeros(1),
            np.full(1, GAIN), noise, 0, 0, 1, plan, state,
        )  # fmt: skip
        if kappa == 0.0:
            return state.score
        assert np.abs(state.log_c).max() < 0.5  # no bit was clipped on its way into log c
        return np.column_stack([state.score, state.log_c / -GAIN * kappa])  # exact: GAIN and kappa are powers of 2

    return reports


def gaussian(kind, *given):
    """Noise sd of such reports at μ = 1."""
    mechanism = Gaussian(Budget.declare(mu=1))
    return mechanism.sd(getattr(mechanism, f"{kind}_radius")(*given), 1)


X = np.array([0.6, 0.8])
WITHIN = np.nextafter(1.0, 0.0)
"""A residual just within c: a score of full length and the bit set."""

REPORTS = {
    # u = e₁ and u = e₂ in whitened coordinates
    "moment": Neighbours(
        3, math.sqrt(2.0), gaussian("moment"), moment_reports, (np.array([[2.0, 1.0]]), np.array([[0.0, -3.0]]))
    ),
    # a number far above, and one just below the centre
    "location": Neighbours(
        2, math.sqrt(2.0), gaussian("bits", 2), location_reports, (np.array([[1e9]]), np.array([[39.0]]))
    ),
    "score": Neighbours(2, 2.0, gaussian("joint", 1.0, 0.0), lane_reports(HUBER, 0.0), ((X, 1e6), (X, -1e6))),
    "balanced": Neighbours(2, 2.0, gaussian("joint", 1.0, 0.0), lane_reports(BALANCED, 0.0), ((X, 0.0), (X, 1.0))),
    "joint, pilot": Neighbours(
        3, math.hypot(2.0, 1.0), gaussian("joint", 1.0, 1.0), lane_reports(HUBER, 1.0), ((X, WITHIN), (X, -1e6))
    ),
    "joint, common": Neighbours(
        3, math.hypot(2.0, 0.5), gaussian("joint", 1.0, 0.5), lane_reports(HUBER, 0.5), ((X, WITHIN), (X, -1e6))
    ),
}


def normals(key, width, n):
    stream, parts, lacking = NoiseStream(key, width), [], n
    while lacking:
        parts.append(stream.peek()[:lacking].copy())
        stream.advance(len(parts[-1]))
        lacking -= len(parts[-1])
    return np.concatenate(parts)


def audit(kind, sd, n, label):
    case = REPORTS[kind]
    a, b = (case.reports(row, 0.0, np.zeros((1, case.width)))[0] for row in case.rows)
    noise = normals(seeded_key(41, f"{kind}{label}"), case.width, 2 * n)
    first, second = (case.reports(row, sd, z) for row, z in zip(case.rows, (noise[:n], noise[n:]), strict=True))
    return np.linalg.norm(b - a), mu_lower_bound(first, second, b - a, (b - a) @ (a + b) / 2, ALPHA)


STATISTICAL = pytest.mark.statistical


@pytest.mark.parametrize("mu", [1.0, *(pytest.param(mu, marks=STATISTICAL) for mu in (0.5, 3.0))])
@pytest.mark.parametrize("kind", REPORTS)
def test_worst_neighbours_never_show_more_than_the_claimed_mu(kind, mu):
    gap, found = audit(kind, REPORTS[kind].sd / mu, N, mu)
    assert gap == pytest.approx(REPORTS[kind].sensitivity, rel=1e-9)  # neighbours as far apart as the claim allows
    assert found.lower <= mu
    assert found.lower > mu - 0.1 * mu  # and the audit is sharp, so that it can fail


@pytest.mark.parametrize("kind", REPORTS)
def test_half_the_noise_is_caught(kind):
    _, found = audit(kind, REPORTS[kind].sd / 2, 10_000, "half")  # shows μ = 2, and its limit lies .2 below
    assert found.lower > 1.5


@pytest.mark.statistical
@pytest.mark.parametrize("kind", REPORTS)
def test_a_fifth_less_noise_is_caught_with_more_reports(kind):
    _, found = audit(kind, 0.8 * REPORTS[kind].sd, N, "fifth")
    assert found.lower > 1.0


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["joint, pilot", "joint, common"])
def test_noise_for_the_score_alone_would_be_caught(kind):
    # were the bit left out of the sensitivity, the noise would be 2/μ: under a fifth too little, and it shows
    _, found = audit(kind, 2.0, 4 * N if kind == "joint, common" else N, "score alone")
    assert found.lower > 1.0
