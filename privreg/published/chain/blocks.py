"""Sums of a path at equal marks: all that batch means and the block bootstrap keep of it. Reports only.

Marks have ever larger distances: whenever there are twice as many blocks as are wanted, neighbours are joined, so that
nobody need know how many people will come. What is kept grows like the number of blocks, n to the power `spare`.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array

BATCHES: Final = 20  # Growing batches of the published algorithm
LONGEST: Final = 1 << 62


class Layout(NamedTuple):
    """Marks that cut a path into blocks. Public."""

    spare: float  # Exponent: n updates have about n to this power blocks; below 1
    least: int  # Fewest blocks wanted
    edges: tuple[int, ...] = ()  # Further marks, updates, ascending


class Blocks(NamedTuple):
    """Sums noted so far."""

    layout: Layout
    length: int  # Updates between two marks
    sums: Array  # Sum of the path about its reference, after `length`, 2 `length`, … updates; shape (m, d)
    edge_sums: Array  # Sums at the first e of the further marks; shape (e, d)


def wanted(layout: Layout, updates: int) -> int:
    """Blocks wanted after so many updates."""
    return max(layout.least, math.ceil(math.pow(max(updates, 1), layout.spare)))


def begin(layout: Layout, d: int) -> Blocks:
    """No sums yet, of a path of `d` coefficients."""
    return Blocks(layout, 1, np.zeros((0, d)), np.zeros((0, d)))


def next_mark(blocks: Blocks) -> int:
    """Updates at which the next sum is to be noted."""
    done, edges = len(blocks.edge_sums), blocks.layout.edges
    return min((len(blocks.sums) + 1) * blocks.length, edges[done] if done < len(edges) else LONGEST)


def noted(blocks: Blocks, updates: int, total: Array) -> Blocks:
    """Blocks after so many updates, a number that `next_mark` gave, with the path's sum so far, shape (d,)."""
    done, layout = len(blocks.edge_sums), blocks.layout
    if done < len(layout.edges) and layout.edges[done] == updates:
        blocks = blocks._replace(edge_sums=np.concatenate([blocks.edge_sums, total[None]]))
    if updates != (len(blocks.sums) + 1) * blocks.length:
        return blocks
    blocks = blocks._replace(sums=np.concatenate([blocks.sums, total[None]]))
    if len(blocks.sums) % 2 == 0 and len(blocks.sums) >= 2 * wanted(layout, updates):
        blocks = blocks._replace(length=2 * blocks.length, sums=blocks.sums[1::2])
    return blocks


def ends(blocks: Blocks) -> Array:
    """Updates after which the sums were noted, shape (m,)."""
    return blocks.length * np.arange(1.0, len(blocks.sums) + 1.0)


def moved(blocks: Blocks, move: Array) -> Blocks:
    """Blocks after the reference of the path moved by `move`, shape (d,)."""
    edges = np.array(blocks.layout.edges[: len(blocks.edge_sums)], dtype=np.float64)
    return blocks._replace(
        sums=blocks.sums - np.outer(ends(blocks), move), edge_sums=blocks.edge_sums - np.outer(edges, move)
    )


def growing_edges(updates: int, batches: int, alpha: float) -> tuple[int, ...]:
    """Ends e_0 < … < e_M of the published growing batches, e_k = n ((k + 1)/(M + 1))^(1/(1 − α)).

    Batches that would be empty are left out.

    See XSJKH (arXiv 2505.08227), section 4.3; Chen, Lee, Tong & Zhang (2020).
    """
    at = updates * np.power((np.arange(batches + 1) + 1.0) / (batches + 1.0), 1.0 / (1.0 - alpha))
    ends = np.unique(np.maximum(np.floor(at + 1e-9), 1.0)).astype(int)
    return tuple(int(e) for e in ends)


def to_arrays(blocks: Blocks | None) -> dict[str, Any]:
    """All of it, to be saved, sums as those of one of several paths; nothing if there is nothing."""
    if blocks is None:
        return {}
    sums = {"blocks_sums": blocks.sums[:, None], "blocks_edge_sums": blocks.edge_sums[:, None]}
    return {"blocks_length": np.asarray(blocks.length)} | sums


def from_arrays(arrays: dict[str, Any], layout: Layout, d: int, updates: int) -> Blocks:
    """Take over what `to_arrays` gave, of a path that has had so many updates.
    Raises ValueError if an array doesn't fit.
    """
    length, sums, edges = (arrays[f"blocks_{k}"] for k in ("length", "sums", "edge_sums"))
    if length.shape != () or length.dtype.kind != "i" or not 1 <= int(length) < LONGEST:
        raise ValueError("blocks of no length")
    m, e = updates // int(length), sum(k <= updates for k in layout.edges)
    least = wanted(layout, m * int(length))
    if int(length).bit_count() != 1 or m >= 2 * least or (m < least and length > 1):
        raise ValueError("blocks of a length that never was")
    if (sums.shape, edges.shape) != ((m, 1, d), (e, 1, d)):
        raise ValueError("blocks of another place")
    if any(a.dtype != np.float64 or not np.isfinite(a).all() for a in (sums, edges)):
        raise ValueError("blocks that aren't numbers")
    return Blocks(layout, int(length), sums[:, 0], edges[:, 0])
