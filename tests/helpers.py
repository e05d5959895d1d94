"""Small builders that several test files share."""

import math
import re
from dataclasses import replace

import numpy as np

import privreg as pr
from privreg.base import archive
from privreg.families.scores import SCORE_WEIGHTS, Score
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol import codes
from privreg.protocol.codes import FULL
from privreg.protocol.plans import Shape
from privreg.published.chain.plans import Published, Steps

HUBER = Score(Shape(codes.HUBER, 0.0, 0.0, 0), 0.7, 0.7, 1.0)
LOGISTIC = Score(Shape(codes.LOGISTIC, 0.0, 0.0, 0), 0.0, 1.0, 0.25)
SCORES = {"huber": HUBER, "logistic": LOGISTIC}
BOUNDED_WEIGHTS = ("published", "published_slopes", "unit")
"""Score weights of private covariates; with those that are 1, covariates are public."""


def make_device(score, weights="published", mu=1.0, reach=3.0):
    w = SCORE_WEIGHTS[weights]
    reach2 = w.reach2 if math.isfinite(w.reach2) else reach
    noise, bound = Mechanism("gaussian", Budget.declare(mu=mu)), score.curvature_bound * reach2
    return Published(score, w, noise, w.reach, bound, Steps(0.5, 0.51, 0.0))


def make_test_plan(device, p, batch=1, mode=FULL, outer=1, share=0.0, central=False):
    """A plan of the types that fits have: of others numba would compile all its loops anew."""
    device = replace(device, batch=batch, curvature_share=share)
    return device.plan(p, scaling_mode=mode, outer=outer, central=central)


def with_noise(plan, times):
    """The plan with so many times the noise."""
    return plan._replace(channel=plan.channel._replace(scale=times * plan.channel.scale))


def people(n=2000, seed=0, binary=False):
    """Simulated rows: intercept, three covariates within [-1, 1], normal or binary response."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 3))])
    eta = x @ np.array([0.5, 1.0, -1.0, 0.25])
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float) if binary else eta + 0.3 * rng.standard_normal(n)
    return x, y


NAMES = ["const", "a", "b", "c"]
BOUNDS = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1)}


def array_model(n=2000, seed=0, binary=False, **options):
    x, y = people(n, seed, binary)
    bounds = BOUNDS if binary else {**BOUNDS, "y": (-4, 4)}
    family = pr.Logistic() if binary else pr.Huber(scale=0.3)
    return pr.PrivateOnlineRegression(
        y, x, **{"exog_names": NAMES, "bounds": bounds, "family": family, "mu": 1, **options}
    )


def read_saved(path):
    """Document and arrays of a saved file, of however many coefficients."""
    return archive.read(path, lambda _: 1000)


def unmarked(page):
    """Text of HTML without the marks that keep a budget on one line."""
    return re.sub(r"</?span[^>]*>", "", page)
