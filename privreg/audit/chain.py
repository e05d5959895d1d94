"""Reports of the published algorithm's single chain, by its compiled loop, for trials on rows made up for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privreg.audit.neighbours import Row
from privreg.base.arrays import Array
from privreg.privacy.mechanisms import released, width
from privreg.privacy.noise import NoiseStream, fresh_key
from privreg.protocol import codes
from privreg.protocol.plans import Channel
from privreg.published.chain import collector, kernels
from privreg.published.chain.plans import Plan


def reports(m: Mapping[str, Any], plan: Plan, theta: Array, row: Row, n: int, bare: bool) -> Array:
    """Reports of one row, `n` times, shape (n, size); without noise if `bare`.

    Of kind "chain" they are of scores, of "curvature" of a triangle; of "central" they are releases of one person's
    sums, in units of their noise.
    """
    kind, d, none = m["kind"], len(theta), np.empty((0, 0))
    chain, central = kind == "chain", kind == "central"
    share = 2**32 if kind == "curvature" else 0  # everybody's turn
    plan = plan._replace(curvature_share=share, central=int(central))
    plan = plan._replace(outer=int(chain), batch=1, scaling_mode=codes.NONE)
    if bare or central:
        silent = Channel(codes.GAUSSIAN, 0.0, 0.0, 0.0)
        plan = plan._replace(channel=silent, curvature_channel=silent)
    size = d if chain else d * (d + 1) if central else d * (d + 1) // 2
    columns = size if central else width(plan.channel if chain else plan.curvature_channel, size)
    noise = np.zeros((n, columns)) if bare else NoiseStream(fresh_key(), columns).draw(n)
    raw, out, many = np.zeros((2, d, d)) if central else (none, none), np.empty((n, size)), codes.BLOCK if chain else 1
    x, *rest = np.tile(row.x, (many, 1)), *(np.full(many, v) for v in (row.y, row.offset, 0.0))
    ratios, quiet = np.full(many, float(m.get("ratio", 1.0))), np.zeros((1, width(plan.channel, d)))
    for a in range(0, 1 if central else n, many):
        b = min(many, n - a)
        state = collector.init(theta, plan, np.zeros(d))
        given = (noise[a : a + b], none) if chain else (quiet, none if central else noise[a : a + 1])
        kernels.fused(x[:b], *(one[:b] for one in rest), *given, plan, state, *raw, ratios[:b])
        if not central:
            out[a : a + b] = state.reports[:, :b].T if chain else state.curvature
    if central:
        out = released(np.asarray(raw), m["sds"], noise.reshape(n, 2, -1)) / np.array(m["sds"])[:, None]
        out = out.reshape(n, -1)
    return out
