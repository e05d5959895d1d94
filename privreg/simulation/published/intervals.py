"""From the published algorithm's single chain to covariances and laws, method by method. Reports only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privreg.errors import InferenceError
from privreg.inference.batches import Batches, path_sandwich, regression
from privreg.inference.methods import Anytime, Bootstrap, Estimate, Normal, RandomScaling, StudentT
from privreg.inference.resampling import FIRST
from privreg.inference.sandwich import KAPPA, Sandwich, local_sandwich
from privreg.simulation.published.path import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from privreg.arrays import Array
    from privreg.collector.published.sgd import ChainSummary as Chain
    from privreg.inference.methods import Method
    from privreg.simulation.published.sgd import AveragedSGD
    from privreg.simulation.settings import Settings


def of_chain(
    run: AveragedSGD, chain: Chain, settings: Settings, release_central: Callable[[Chain], Sandwich]
) -> tuple[Estimate, ...]:
    """Estimates of precision of the single chain's mean, user's units.

    Parameters
    ----------
    run : AveragedSGD
    chain : Chain
        Its averages so far.
    settings : Settings
    release_central : callable
        Randomises the curator's raw sums.

    Raises
    ------
    InferenceError
        If a method has too little to go on yet.
    """
    return tuple(_of_chain(m, run, chain, settings, release_central) for m in settings.methods)


def _of_chain(
    method: Method, run: AveragedSGD, chain: Chain, settings: Settings, release_central: Callable[[Chain], Sandwich]
) -> Estimate:
    user = run.outside
    p, name = len(chain.mean), method.name
    if method.blocks:
        assert run.blocks is not None
        kept = run.blocks, run.state.origin, run.steps.alpha
        found = batches_of(chain, *kept, growing=name in {"batch_means", "anytime"})
        return of_batches(name, found, run.to_user, chain.people)
    if method.scaling:
        law = RandomScaling(chain.lanes, chain.updates)
        if chain.scaling.ndim == 1 and chain.scaling.size:
            return Estimate(name, run.variances(chain), law)
        return Estimate(name, user(6.0 * chain.scaling / chain.updates), law)
    if name == "path_curvature":
        if chain.updates <= p + 1:  # the regression would fit them exactly
            raise InferenceError(
                f"path_curvature needs more than {p + 1} updates, and there were {chain.updates}; ask more people."
            )
        k0, early = run.early(chain.updates)
        gram = chain.outer * chain.updates - early
        steps = settings.steps.total(chain.updates) - settings.steps.total(k0)
        out = path_sandwich(regression(gram), chain.updates, steps, KAPPA)
    elif name == "plug_in":
        if not chain.curvature_people:
            raise InferenceError("nobody has sent a curvature report yet; plug_in needs more people.")
        mechanism = settings.mechanism
        sds = mechanism.sd(run.plan.radius, p), mechanism.sd(run.plan.curvature_radius, p * (p + 1) // 2)
        out = local_sandwich(chain._replace(outer=chain.outer[:p, :p]), *sds, settings.batch)
    else:
        out = release_central(chain)
    return Estimate(name, user(out.cov), Normal(), out.notes)


def of_batches(name: str, found: Batches, linear: Array | None, people: int) -> Estimate:
    """Estimate of a method that goes by batches; `linear` maps to the user's coefficients, None if they are these."""
    cov = found.cov if linear is None else np.asarray(linear @ found.cov @ linear.T)
    if name == "batch_means":
        return Estimate(name, cov, StudentT(found.df))
    if name == "anytime":
        if people < FIRST:
            raise InferenceError(
                f"anytime intervals begin at {FIRST:,} people whose reports enter the estimate, and {people:,} have; "
                "ask more people, or fit with inference='batch_means'."
            )
        return Estimate(name, cov, Anytime(people))
    moves = found.moves if linear is None else found.moves @ linear.T
    return Estimate(name, cov, Bootstrap(moves, name == "block_bootstrap_t"))
