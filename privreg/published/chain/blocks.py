"""Sums of a path at equal marks: all that batch means and the block bootstrap keep of it. Reports only.

Marks lie ever farther apart: whenever there are twice as many blocks as are wanted, neighbours are joined, so that
nobody need know how many people will come. What is kept grows like the number of blocks, n to the power `spare`.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.arrays import Array

LONGEST: Final = 1 << 62
_SAVED: Final = ("length", "sums", "weights", "edge_sums")


class Layout(NamedTuple):
    """How a path is cut. Public."""

    lanes: int  # Parallel paths, cut at the same updates
    spare: float  # There are about n to this power blocks of n updates, over all lanes; below 1
    least: int  # Fewest blocks wanted over all lanes
    edges: tuple[int, ...] = ()  # Further marks, updates, ascending


class Blocks(NamedTuple):
    """Sums noted so far."""

    layout: Layout
    length: int  # Updates of a lane between two marks
    sums: Array  # Sum of each lane's path about its reference, after `length`, 2 `length`, … updates; shape (m, K, d)
    weights: Array  # Weight of what was summed: updates, or fewer with personal budgets; shape (m, K)
    edge_sums: Array  # The same at the first e of the further marks; shape (e, K, d)


def wanted(layout: Layout, updates: int) -> int:
    """Blocks wanted of each lane after so many updates of each."""
    every = max(layout.least, math.ceil(math.pow(max(layout.lanes * updates, 1), layout.spare)))
    return max(-(-every // layout.lanes), 1)


def begin(layout: Layout, d: int) -> Blocks:
    """No sums yet, of paths of `d` coefficients."""
    return Blocks(
        layout, 1, np.zeros((0, layout.lanes, d)), np.zeros((0, layout.lanes)), np.zeros((0, layout.lanes, d))
    )


def next_mark(blocks: Blocks) -> int:
    """Updates of each lane at which the next sum is to be noted."""
    done, edges = len(blocks.edge_sums), blocks.layout.edges
    edge = edges[done] if done < len(edges) else LONGEST
    return min((len(blocks.sums) + 1) * blocks.length, edge)


def noted(blocks: Blocks, updates: int, sums: Array, weights: Array) -> Blocks:
    """Blocks after every lane has had so many updates, a number that `next_mark` gave.

    Parameters
    ----------
    blocks : Blocks
    updates : int
    sums : ndarray, shape (K, d)
    weights : ndarray, shape (K,)
    """
    done, layout = len(blocks.edge_sums), blocks.layout
    if done < len(layout.edges) and layout.edges[done] == updates:
        blocks = blocks._replace(edge_sums=np.concatenate([blocks.edge_sums, sums[None]]))
    if updates != (len(blocks.sums) + 1) * blocks.length:
        return blocks
    blocks = blocks._replace(
        sums=np.concatenate([blocks.sums, sums[None]]), weights=np.concatenate([blocks.weights, weights[None]])
    )
    if len(blocks.sums) % 2 == 0 and len(blocks.sums) >= 2 * wanted(layout, updates):
        blocks = blocks._replace(length=2 * blocks.length, sums=blocks.sums[1::2], weights=blocks.weights[1::2])
    return blocks


def moved(blocks: Blocks, move: Array) -> Blocks:
    """Blocks after the reference of the path moved by `move`, shape (d,)."""
    edges = np.array(blocks.layout.edges[: len(blocks.edge_sums)], dtype=np.float64)
    return blocks._replace(
        sums=blocks.sums - blocks.weights[:, :, None] * move,
        edge_sums=blocks.edge_sums - edges[:, None, None] * move,
    )


def parts(blocks: Blocks) -> tuple[Array, Array]:
    """Sums of each block and their weights, shapes (m K, d) and (m K,): block after block, lane by lane."""
    m, lanes, d = blocks.sums.shape
    sums = np.diff(blocks.sums, axis=0, prepend=np.zeros((1, lanes, d)))
    weights = np.diff(blocks.weights, axis=0, prepend=np.zeros((1, lanes)))
    return sums.reshape(m * lanes, d), weights.reshape(-1)


def growing_edges(updates: int, batches: int, alpha: float) -> tuple[int, ...]:
    """Ends e_0 < … < e_M of the published growing batches, e_k = n ((k + 1)/(M + 1))^(1/(1 − α)).

    Batches that would be empty are left out.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 4.3; Chen, Lee, Tong & Zhang (2020).
    """
    at = updates * np.power((np.arange(batches + 1) + 1.0) / (batches + 1.0), 1.0 / (1.0 - alpha))
    ends = np.unique(np.maximum(np.floor(at + 1e-9), 1.0)).astype(int)
    return tuple(int(e) for e in ends)


def to_arrays(blocks: Blocks | None) -> dict[str, Any]:
    """All of it, to be saved; nothing if there is nothing."""
    return {} if blocks is None else {f"blocks_{k}": np.asarray(getattr(blocks, k)) for k in _SAVED}


def from_arrays(arrays: dict[str, Any], layout: Layout, d: int, updates: int) -> Blocks:
    """Take over what `to_arrays` gave, of lanes that have each had at least so many updates.

    Raises
    ------
    ValueError
        If an array doesn't fit.
    """
    length, sums, weights, edges = (arrays[f"blocks_{k}"] for k in _SAVED)
    if length.shape != () or length.dtype.kind != "i" or not 1 <= int(length) < LONGEST:
        raise ValueError("blocks of no length")
    m, e, lanes = updates // int(length), sum(k <= updates for k in layout.edges), layout.lanes
    least = wanted(layout, m * int(length))
    if int(length).bit_count() != 1 or m >= 2 * least or (m < least and length > 1):
        raise ValueError("blocks of a length that never was")
    if (sums.shape, weights.shape, edges.shape) != ((m, lanes, d), (m, lanes), (e, lanes, d)):
        raise ValueError("blocks of another place")
    if any(a.dtype != np.float64 or not np.isfinite(a).all() for a in (sums, weights, edges)):
        raise ValueError("blocks that aren't numbers")
    if (np.diff(weights, axis=0, prepend=np.zeros((1, lanes))) < 0.0).any():
        raise ValueError("blocks that weigh less than nothing")
    return Blocks(layout, int(length), sums, weights, edges)
