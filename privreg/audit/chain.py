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
from privreg.published.chain.numbers import Plan


def _noise(columns: int, n: int, bare: bool) -> Array:
    return np.zeros((n, columns)) if bare else NoiseStream(fresh_key(), columns).draw(n)


def _still(plan: Plan, bare: bool, **more: Any) -> Plan:
    """Plan of a chain that keeps the reports alone."""
    silent = {k: Channel(codes.GAUSSIAN, 0.0, 0.0, 0.0) for k in ("channel", "curvature_channel")} if bare else {}
    kept = {"outer": 0, "batch": 1, "curvature_share": 0, "central": 0, "scaling_mode": codes.NONE}
    return plan._replace(**{**kept, **silent, **more})


def _ratios(m: Mapping[str, Any], n: int) -> Array:
    """Noise over that of the largest budget, of somebody with a smaller budget."""
    return np.full(n, float(m.get("ratio", 1.0)))


def scores(plan: Plan, theta: Array, m: Mapping[str, Any], row: Row, n: int, bare: bool) -> Array:
    """Score reports, shape (n, p)."""
    noise, plan = _noise(width(plan.channel, len(theta)), n, bare), _still(plan, bare, outer=1)
    none, block = np.empty((0, 0)), codes.BLOCK
    x, y, off, still = np.tile(row.x, (block, 1)), *(np.full(block, v) for v in (row.y, row.offset, 0.0))
    out = np.empty((n, len(theta)))
    for a in range(0, n, block):
        b = min(block, n - a)
        state = collector.init(theta, plan, np.zeros(len(theta)))
        given = x[:b], y[:b], off[:b], still[:b], noise[a : a + b], none, plan, state, none, none
        kernels.fused(*given, _ratios(m, b))
        out[a : a + b] = state.reports[:, :b].T
    return out


def curvatures(plan: Plan, theta: Array, m: Mapping[str, Any], row: Row, n: int, bare: bool) -> Array:
    """Curvature reports, shape (n, p (p + 1) / 2)."""
    size, none = len(theta) * (len(theta) + 1) // 2, np.empty((0, 0))
    noise, still = _noise(width(plan.curvature_channel, size), n, bare), np.zeros(1)
    plan = _still(plan, bare, curvature_share=2**32)  # everybody's turn
    x, y, off, quiet = row.x[None], np.array([row.y]), np.array([row.offset]), np.zeros((1, len(theta)))
    state, out = collector.init(theta, plan, np.zeros(len(theta))), np.empty((n, size))
    for k in range(n):
        state.curvature[:] = 0.0
        kernels.fused(x, y, off, still, quiet, noise[k : k + 1], plan, state, none, none, _ratios(m, 1))
        out[k] = state.curvature
    return out


def releases(plan: Plan, theta: Array, m: Mapping[str, Any], row: Row, n: int, bare: bool) -> Array:
    """Releases of one person's sums, in units of their noise, shape (n, p (p + 1))."""
    plan = _still(plan, True, central=1)
    d, one = len(theta), np.zeros(1)
    raw, quiet = np.zeros((2, d, d)), np.zeros((1, width(plan.channel, d)))
    state = collector.init(theta, plan, np.zeros(d))
    given = row.x[None], np.array([row.y]), np.array([row.offset]), one, quiet, np.empty((0, 0))
    kernels.fused(*given, plan, state, raw[0], raw[1], _ratios(m, 1))
    noise = _noise(d * (d + 1), n, bare).reshape(n, 2, -1)
    out = released(raw, m["sds"], noise) / np.array(m["sds"])[:, None]
    return np.asarray(out.reshape(n, -1))
