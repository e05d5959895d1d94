"""The path of the published algorithm: sums at equal marks, and covariances of batches and of its curvature.

Whenever there are twice as many blocks as are wanted, neighbours are joined, so that nobody need know how many people
will come. What is kept grows like the number of blocks, n to the power `spare`.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.archive import like
from privreg.base.arrays import Array
from privreg.collector.inference.resampling import Batches, Sandwich, batches, sandwich
from privreg.tables.diagnostics import note

BATCHES: Final = 20  # Growing batches of the published algorithm
LONGEST: Final = 1 << 62
UNSURE: Final = 0.25  # Relative sd of a curvature from the path above which a note takes the intervals back


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
    sums = blocks.sums - np.outer(ends(blocks), move)
    return blocks._replace(sums=sums, edge_sums=blocks.edge_sums - np.outer(edges, move))


def growing_edges(updates: int, batches: int, alpha: float) -> tuple[int, ...]:
    """Ends e_0 < … < e_M of the published growing batches, e_k = n ((k + 1)/(M + 1))^(1/(1 − α)).

    Batches that would be empty are left out. See XSJKH (arXiv 2505.08227), section 4.3.
    """
    at = updates * np.power((np.arange(batches + 1) + 1.0) / (batches + 1.0), 1.0 / (1.0 - alpha))
    return tuple(np.unique(np.maximum(np.floor(at + 1e-9), 1.0)).astype(int).tolist())


def to_arrays(blocks: Blocks | None) -> dict[str, Any]:
    """All of it, to be saved, sums as those of one of several paths; nothing if there is nothing."""
    if blocks is None:
        return {}
    sums = {"blocks_sums": blocks.sums[:, None], "blocks_edge_sums": blocks.edge_sums[:, None]}
    return {"blocks_length": np.asarray(blocks.length), **sums}


def from_arrays(arrays: dict[str, Any], layout: Layout, d: int, updates: int) -> Blocks:
    """Take over what `to_arrays` gave, of a path that has had so many updates.
    Raises ValueError if an array doesn't fit.
    """
    saved, known = arrays["blocks_length"], arrays["blocks_length"].dtype.kind == "i"
    length = int(saved) if known and saved.shape == () and 1 <= saved < LONGEST else 3
    m, e = updates // length, sum(k <= updates for k in layout.edges)
    least = wanted(layout, m * length)
    if length.bit_count() != 1 or m >= 2 * least or (m < least and length > 1):
        raise ValueError("blocks of a length that never was")
    sums, edges = (like(np.empty((k, 1, d)), arrays[f"blocks_{n}"]) for k, n in ((m, "sums"), (e, "edge_sums")))
    return Blocks(layout, length, sums[:, 0], edges[:, 0])


def growing_batches(sums: Array, ends: Array, mean: Array) -> Batches:
    """Batch means with batches that grow along the path, the first thrown away: XSJKH, section 4.3.

    `sums`, shape (M + 1, d), are those of the path up to the ascending `ends` of the batches, shape (M + 1,).
    """
    return batches(np.diff(sums, axis=0), np.diff(ends).astype(np.float64), mean, float(ends[-1]))


def regression(gram: Array) -> tuple[Array, Array]:
    """Curvature A from the path: reports lean against the distance of the iterate from the minimum.

    Yule–Walker for θ_{k+1} − θ_k = −γ (A (θ_k − θ₀) + noise), from `gram`, Σ v vᵀ with v = (report, θ − reference, 1):
    A, symmetrised, and the mean outer product of the reports about what it says, shapes (d, d).
    """
    d, n = (len(gram) - 1) // 2, gram[-1, -1]
    centre = gram[-1] / n
    about = gram / n - np.outer(centre, centre)
    # rows: iterates, columns: reports; nothing leans in a direction in which the path has not moved
    slope = np.linalg.lstsq(about[d : 2 * d, d : 2 * d], about[d : 2 * d, :d], rcond=None)[0]
    meat = about[:d, :d] - slope.T @ about[d : 2 * d, d : 2 * d] @ slope
    return (slope + slope.T) / 2.0, (meat + meat.T) / 2.0


def path_sandwich(slope: Array, meat: Array, updates: float, steps: float, floor: float) -> Sandwich:
    """Sandwich covariance of the mean of so many updates, with curvature from the path, as of `regression`.

    `steps` is Σγ over the updates of the regression: the sd of a curvature a is about √(2 a/Σγ). No eigenvalue of the
    curvature below `floor` is believed.
    """
    weakest = float(np.linalg.eigvalsh(slope)[0])
    out = sandwich(slope, meat, updates, floor, 0.0, "path-curvature")
    unsure = math.sqrt(2.0 / (max(weakest, floor) * steps)) if steps > 0.0 else math.inf
    if not unsure > UNSURE:
        return out
    said = note("curvature.path", of="the path-curvature intervals", percent=100 * unsure)
    return out._replace(notes=(said, *out.notes))
