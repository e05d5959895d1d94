"""From the published algorithm's single chain to covariances and laws, method by method. Reports only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.errors import InferenceError
from privreg.inference import blocks as marks
from privreg.inference.batches import Batches, batches, growing_batches, path_sandwich, regression
from privreg.inference.methods import Anytime, Bootstrap, Estimate, Normal, RandomScaling, StudentT
from privreg.inference.resampling import FIRST
from privreg.inference.sandwich import KAPPA, Sandwich, local_sandwich

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privreg.collector.published.sgd import ChainSummary as Chain
    from privreg.inference.methods import Method
    from privreg.simulation.published.sgd import AveragedSGD
    from privreg.simulation.settings import Settings

    Array = NDArray[np.float64]

__all__ = ["BATCHES", "chain_variances", "of_batches", "of_chain"]

BATCHES: Final = 20
"""Growing batches of the published algorithm."""


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
        found = _chain_batches(run, chain, growing=name in {"batch_means", "anytime"})
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


def chain_variances(run: AveragedSGD, chain: Chain) -> Array | None:
    """Variances by growing batches, user's units; None before there are two."""
    if run.blocks is None or len(run.blocks.sums) < 2:
        return None
    cov = _chain_batches(run, chain, growing=True).cov
    return np.asarray(((run.to_user @ cov) * run.to_user).sum(axis=1))


def _chain_batches(run: AveragedSGD, chain: Chain, *, growing: bool) -> Batches:
    """Batches of the chain's path: growing ones, the first thrown away, or equal ones."""
    found, mean = run.blocks, chain.mean - run.state.origin
    assert found is not None
    if not growing:
        sums, weights = marks.parts(found)
        return batches(sums, weights, mean, float(chain.updates))
    ends = np.array(found.layout.edges)
    if len(ends) and ends[-1] == chain.updates and len(found.edge_sums) == len(ends):
        return growing_batches(found.edge_sums[:, 0], ends, mean)
    wished = np.array(marks.growing_edges(chain.updates, BATCHES, run.steps.alpha))
    at = np.unique(np.clip(np.rint(wished / found.length), 1, len(found.sums))).astype(int)
    return growing_batches(found.sums[at - 1, 0], at * found.length, mean)


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
