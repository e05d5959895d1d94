"""Covariances and pivots of the published algorithm's single chain, method by method. Reports only."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.inference.methods import Estimate, Method
from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.collector.inference.resampling import FIRST, Anytime, Batches, Bootstrap
from privreg.collector.inference.sandwich import KAPPA, Sandwich, floored, sandwich
from privreg.errors import InferenceError
from privreg.privacy.mechanisms import Mechanism
from privreg.published.chain.collector import ChainSummary as Chain
from privreg.published.chain.path import batches_of, path_sandwich, regression
from privreg.published.chain.run import AveragedSGD


def of_chain(
    method: Method, run: AveragedSGD, chain: Chain, mechanism: Mechanism, release_central: Callable[[Chain], Sandwich]
) -> Estimate:
    """Precision of the chain's mean by a method, user's units; `release_central` randomises the curator's raw sums.
    Raises InferenceError if the method has too little to go on yet.
    """
    user = run.outside
    p, name = len(chain.mean), method.name
    if method.blocks:
        assert run.blocks is not None
        kept = run.blocks, run.state.origin, run.steps.alpha
        found = batches_of(chain, *kept, growing=name in {"batch_means", "anytime"})
        return _of_batches(name, found, run.to_user, chain.people)
    if method.scaling:
        pivot = RandomScaling(1, chain.updates)
        if chain.scaling.ndim == 1 and chain.scaling.size:
            return Estimate(name, run.variances(chain), pivot)
        return Estimate(name, user(6.0 * chain.scaling / chain.updates), pivot)
    if name == "path_curvature":
        if chain.updates <= p + 1:  # the regression would fit them exactly
            raise InferenceError(
                f"path_curvature needs more than {p + 1} updates, and there were {chain.updates}; ask more people."
            )
        k0, early = run.early(chain.updates)
        gram = chain.outer * chain.updates - early
        steps = run.steps.total(chain.updates) - run.steps.total(k0)
        out = path_sandwich(regression(gram), chain.updates, steps, KAPPA)
    elif name == "plug_in":
        if not chain.curvature_people:
            raise InferenceError("nobody has sent a curvature report yet; plug_in needs more people.")
        sds = mechanism.sd(run.plan.radius, p), mechanism.sd(run.plan.curvature_radius, p * (p + 1) // 2)
        sds = sds[0] * math.sqrt(chain.spreads[0]), sds[1] * math.sqrt(chain.spreads[1])
        out = local_sandwich(chain._replace(outer=chain.outer[:p, :p]), *sds, run.plan.batch)
    else:
        out = release_central(chain)
    return Estimate(name, user(out.cov), Normal(), out.notes)


def _of_batches(name: str, found: Batches, linear: Array, people: int) -> Estimate:
    """Estimate of a method that goes by batches; `linear` maps to the user's coefficients."""
    cov = np.asarray(linear @ found.cov @ linear.T)
    if name == "batch_means":
        return Estimate(name, cov, StudentT(found.df))
    if name == "anytime":
        if people < FIRST:
            raise InferenceError(
                f"anytime intervals begin at {FIRST:,} people whose reports enter the estimate, and {people:,} have; "
                "ask more people, or fit with inference='batch_means'."
            )
        return Estimate(name, cov, Anytime(people))
    return Estimate(name, cov, Bootstrap(found.moves @ linear.T, name == "block_bootstrap_t"))


def local_sandwich(path: Chain, noise_sd: float, curvature_sd: float, batch: int) -> Sandwich:
    """Plug-in covariance from local reports only: XSJKH (arXiv 2505.08227), section 4.1, without raw sums.

    S̃ is the mean outer product of the reports, its eigenvalues at least the known noise variance; Â the mean curvature
    report, its eigenvalues at least κ₁ and at least two sd of the noise in it. Sds are of a coordinate of a report.
    """
    sd = curvature_sd / np.sqrt(path.curvature_people)
    return sandwich(path.curvature, path.outer, path.updates, max(KAPPA, 2 * sd), noise_sd**2 / batch)


def central_sandwich(curvature: Array, outer: Array, n: int, noise_sd: float) -> Sandwich:
    """Plug-in covariance from raw sums released once with noise, for a trusted curator: XSJKH, section 4.1.

    `curvature` and `outer`, shape (p, p), are randomised means already; `noise_sd`, that of the score reports, is added
    to the meat.
    """
    p = curvature.shape[0]
    vectors, values, _ = floored(outer, KAPPA)
    meat = (vectors * values) @ vectors.T + noise_sd**2 * np.eye(p)
    return sandwich(curvature, meat, n, KAPPA, KAPPA)
