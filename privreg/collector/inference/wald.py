"""Limit of the joint Wald statistic under random scaling: for one lane from a shipped table, for more simulated.

W_q = B(1)ᵀ [∫ b bᵀ]⁻¹ B(1) with B a q-dimensional Brownian motion and b its bridge; with K lanes the mean of K
independent ∫ b bᵀ stands in the middle, and B(1) is independent of it all the same. So W_q = χ²_q · a_q with
a_q = ([∫ b bᵀ]⁻¹)_qq independent of χ²_q. The table holds a discretised distribution of a_q; p-values and critical
values follow at any level by averaging the χ² tail over it. For several lanes a_q is drawn with a fixed seed, which is
post-processing of numbers that have been released; the averaging takes most of the Monte Carlo error out.

``python -m privreg.collector.inference.wald`` makes the table anew.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Final

import numpy as np
from scipy.special import chdtrc

from privreg.base.arrays import Array
from privreg.errors import InferenceError

MAX_RESTRICTIONS: Final = 20
_TABLE: Final = "wald_table.npz"
_DRAWS: Final = 4_000_000
_TERMS: Final = 128
_SEED: Final = 20_230_917
_LANES_TERMS: Final = 192
"""Terms over all lanes, about; 4 of each at least, as the mean of many tails is nearly its mean."""
_MOST: Final = 20_000
_NORMALS: Final = 80_000_000  # Standard normals drawn for several lanes, at most but for a thousand draws of a_q
_TOGETHER: Final = 4_000_000


@functools.cache
def _tabulated() -> tuple[Array, Array]:
    with files("privreg.collector.inference").joinpath(_TABLE).open("rb") as f, np.load(f, allow_pickle=False) as z:
        return z["nodes"], z["weights"]


@functools.lru_cache(maxsize=64)
def _draws_of_lanes(q: int, lanes: int) -> Array:
    """Draws of a_q where the matrices of several lanes are averaged."""
    terms = max(4, -(-_LANES_TERMS // lanes))
    draws = int(np.clip(_NORMALS // (terms * lanes * q), 1000, _MOST))
    return np.asarray(simulate(draws, terms, _SEED, q, lanes)[-1])


def wald_sf(w: float, q: int, lanes: int = 1) -> float:
    """P(W_q > w), the p-value of a joint test of `q` restrictions, w = n (Rθ̄ − r)ᵀ (R V̂ Rᵀ)⁻¹ (Rθ̄ − r).

    `lanes` is the number of chains whose random-scaling matrices are averaged.
    Raises InferenceError if `q` is not tabulated.

    See XSJKH (arXiv 2505.08227), section 4.2; Lee, Liao, Seo & Shin (2022).
    """
    if not 1 <= q <= MAX_RESTRICTIONS:
        raise InferenceError(
            f"a joint test of {q} restrictions by random scaling is not tabulated; at most {MAX_RESTRICTIONS} "
            "restrictions, or fit with inference='batch_means'."
        )
    if lanes > 1:
        return float(np.mean(chdtrc(q, max(w, 0.0) / _draws_of_lanes(q, lanes))))
    nodes, weights = _tabulated()
    return float(np.sum(weights * chdtrc(q, max(w, 0.0) / nodes[q - 1])))


def simulate(draws: int, terms: int, seed: int, q: int = MAX_RESTRICTIONS, lanes: int = 1) -> Array:
    """Draw a_1 … a_q by the Karhunen–Loève series of the bridges, shape (q, draws).

    ∫ b bᵀ = Σ Z_k Z_kᵀ / (π k)², cut after `terms` with the rest replaced by its mean. The q-th squared
    Cholesky pivot is 1 / ([∫ b bᵀ]⁻¹)_qq of the leading q × q block.
    """
    values = 1.0 / (np.pi * np.arange(1, terms + 1)) ** 2
    rest = (1.0 / 6.0 - float(values.sum())) * np.eye(q)
    scale = np.sqrt(np.repeat(values, lanes) / lanes)[:, None]
    rng, step, out = np.random.Generator(np.random.SFC64(seed)), max(_TOGETHER // (len(scale) * q), 1), []
    for start in range(0, draws, step):
        z = rng.standard_normal((min(step, draws - start), len(scale), q)) * scale
        low = np.linalg.cholesky(z.transpose(0, 2, 1) @ z + rest)
        out.append(1.0 / np.diagonal(low, axis1=1, axis2=2) ** 2)
    return np.concatenate(out).T


def tabulate(draws: Array) -> tuple[Array, Array]:
    """Cell means of the sorted draws: 400 equal cells below the 99% point, 64 geometric ones above it."""
    n = draws.shape[1]
    upper = np.concatenate([np.linspace(1.0, 0.01, 401), np.geomspace(0.01, 2e-6, 64)[1:], [0.0]])
    edges = np.round((1.0 - upper) * n).astype(int)
    size = np.diff(edges)
    return np.add.reduceat(np.sort(draws, axis=1), edges[:-1], axis=1) / size, size / n


if __name__ == "__main__":
    nodes, weights = tabulate(simulate(_DRAWS, _TERMS, _SEED))
    target = files("privreg.collector.inference").joinpath(_TABLE)
    np.savez_compressed(str(target), nodes=nodes, weights=weights)
    print(f"wrote {_TABLE}: {_DRAWS:,} draws, {_TERMS} terms, seed {_SEED}")
