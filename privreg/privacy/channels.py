"""The randomisers of reports, many at a time: noise as `mechanisms` calibrates it, never chosen here."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.protocol import codes
from privreg.protocol.plans import Channel


def width(channel: Channel, size: int) -> int:
    """Standard normals that a report of `size` numbers takes."""
    kinds = {codes.GAUSSIAN: size, codes.LAPLACE: 3 * size, codes.PRIVUNIT: size + 2}
    return max(kinds.get(channel.kind, 1), size)


def randomised(channel: Channel, rows: Array, radius: float | Array, noise: Array) -> Array:
    """Randomise reports in the ball of `radius` about 0, one a row, shape (n, size).

    `radius` is a number or one for each report, of additive noise half the sensitivity; `noise`, shape (n, width), are
    standard normals drawn for these records and never used again.
    """
    n, size = rows.shape
    radius = np.broadcast_to(radius, (n,))
    scale = (channel.scale * radius)[:, None]
    if channel.kind == codes.GAUSSIAN:
        return np.asarray(rows + scale * noise[:, :size])
    if channel.kind == codes.LAPLACE:
        three = noise[:, : 3 * size].reshape(n, size, 3)
        return np.asarray(rows + scale * (np.hypot(three[..., 0], three[..., 1]) * three[..., 2]))
    if channel.kind == codes.RESPONSE:
        share = np.clip(rows[:, 0] / np.where(radius > 0.0, radius, 1.0), -1.0, 1.0)
        up = ndtr(noise[:, 0]) < 0.5 + 0.5 * share / channel.scale
        return np.where(up[:, None], scale, -scale)
    norm = np.linalg.norm(rows, axis=1)
    tiny = ~(norm > 1e-140)
    share = np.where(tiny, 0.0, np.minimum(norm / radius, 1.0))
    unit = rows / np.where(tiny, 1.0, norm)[:, None]
    chance = ndtr(noise[:, size])
    sign = np.where(chance < 0.5 + 0.5 * share, 1.0, -1.0)
    # a report of nothing takes any axis, either way, so that what is sent has no direction
    axis = np.minimum(2.0 * size * chance[tiny], 2.0 * size - 1.0).astype(np.int64)
    unit[tiny] = np.eye(size)[axis // 2]
    sign[tiny] = 1.0 - 2.0 * (axis % 2)
    along = np.einsum("ij,ij->i", unit, noise[:, :size])
    uniform = ndtr(along)
    in_cap = ndtr(noise[:, size + 1]) < channel.accept
    drawn = np.where(in_cap, -ndtri(uniform * channel.above), ndtri(uniform * (1.0 - channel.above)))
    return np.asarray(scale * (noise[:, :size] + (sign * drawn - along)[:, None] * unit))
