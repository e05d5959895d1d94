"""Auditing the mechanisms that a fit used, on made-up neighbours: what its privacy statement claims, tried out.

Device side: it plays devices with the very numbers (score, bound, noise) that the fit's devices had, on rows of its
own making, as far apart as rows can be. No row of the fit's people is there any more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg import collector, kernels, lanes
from privreg.audit import audit
from privreg.errors import OptionError, shown
from privreg.kernels import Channel, LanePlan, Plan, Shape
from privreg.noise import NoiseStream, fresh_key
from privreg.reference import moment_diagonal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Verification", "of_chain", "of_lanes", "of_numbers", "verify"]

LEAST: Final = 1000
MOST: Final = 10**7
PAIRS: Final = 3
"""Pairs of neighbours that are tried for each kind of report: the farthest apart, and those with somebody silent."""

FAR: Final = 1e6

Row = tuple[Any, float]


@dataclass(frozen=True)
class Verification:
    """Outcome of an audit of every kind of report that a fit used.

    Parameters
    ----------
    table : DataFrame
        One line for each kind of report and pair of neighbours: how far their reports lie apart relative to what the
        noise was made for, the claim, and the lower confidence limits of μ and ε that the audit reached.
    claim : str
    alpha : float
        Probability that any limit lies above its true value.
    n : int
        Reports of each neighbour.
    """

    table: pd.DataFrame
    claim: str
    alpha: float
    n: int

    @property
    def passed(self) -> bool:
        """Whether no limit exceeds the claim."""
        return bool((self.table["lower"] <= self.table["claimed"]).all())

    def __str__(self) -> str:
        verdict = "no limit exceeds the claim" if self.passed else "THE CLAIM IS EXCEEDED: this is a bug, report it"
        text = self.table.to_string(index=False, float_format=lambda v: f"{v:.3f}")
        return (
            f"Audit of {self.claim}: {verdict}.\n{self.n:,} reports of each neighbour; all lower limits hold together "
            f"with probability {1 - self.alpha:.6g}.\n{text}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *_ = str(self).split("\n")
        return f"<p>{head}</p>{self.table.to_html(index=False, float_format=lambda v: f'{v:.3f}')}"


# --- what is kept of a fit: numbers only, for JSON -------------------------------------------------------


def of_lanes(name: str, plan: LanePlan, theta: Array, c: float) -> dict[str, Any]:
    """Describe the reports of a stage of chains, as `verify` reads it."""
    return {"report": name, "kind": "lanes", "plan": _plain(plan), "theta": theta.tolist(), "c": float(c)}


def of_chain(plan: Plan, theta: Array) -> dict[str, Any]:
    """Describe the score reports of the single chain."""
    return {"report": "score", "kind": "chain", "plan": _plain(plan), "theta": theta.tolist(), "c": 1.0}


def of_numbers(name: str, kind: str, channel: Channel, radius: float, size: int) -> dict[str, Any]:
    """Describe reports of numbers: `kind` "moments" of `size` coordinates, "location" of `size` columns, "numbers"."""
    return {"report": name, "kind": kind, "plan": [_plain(channel), radius], "theta": [0.0] * size, "c": 1.0}


def _plain(value: Any) -> Any:
    if isinstance(value, Shape):  # an address is of one process; the user's own score may be any in [-1, 1]
        value = value._replace(address=0) if value.family != kernels.CUSTOM else Shape(kernels.HUBER, 0.0, 0.0, 0)
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def _tuples(kind: Any, saved: Sequence[Any]) -> Any:
    """Rebuild a plan with its shape and channels."""
    parts = []
    for v in saved:
        if isinstance(v, list):
            family, *rest = v
            parts.append(Shape(family, *rest) if isinstance(rest[-1], int) else Channel(family, *map(_number, rest)))
        else:
            parts.append(_number(v))
    return kind(*parts)


# --- the audit -------------------------------------------------------------------------------------------


def verify(
    mechanics: Sequence[Mapping[str, Any]], *, mu: float, epsilon: float, claim: str, n: int, alpha: float
) -> Verification:
    """Audit every kind of report.

    Parameters
    ----------
    mechanics : sequence of mapping
        From `of_lanes`, `of_chain` and `of_numbers`.
    mu, epsilon : float
        Claims per report: GDP parameter, and pure ε (inf if the mechanism is not pure).
    claim : str
        In words.
    n : int
        Reports of each neighbour.
    alpha : float
        Probability that any limit exceeds its true value.

    Returns
    -------
    Verification

    Raises
    ------
    OptionError
        If `n` or `alpha` is out of range.
    """
    if isinstance(n, bool) or not isinstance(n, int) or not LEAST <= n <= MOST:
        raise OptionError(f"n={shown(n)} must be a whole number of reports, {LEAST:,} to {MOST:,}.")
    if not isinstance(alpha, float) or not 0.0 < alpha < 1.0:
        raise OptionError(f"alpha={shown(alpha)} must be a number in (0, 1); 1e-6 is usual.")
    tried = [(m, pair) for m in mechanics for pair in _pairs(m)]
    lines = []
    for m, (first, second, words, reach) in tried:
        reports = (_reports(m, first, n), _reports(m, second, n))
        found = audit(*reports, alpha=alpha / max(len(tried), 1))
        pure = math.isfinite(epsilon)
        lines.append(
            {
                "report": m["report"],
                "neighbours": words,
                "distance": reach,
                "measure": "epsilon" if pure else "mu",
                "claimed": epsilon if pure else mu,
                "lower": found.epsilon_lower if pure else found.lower,
            }
        )
    return Verification(pd.DataFrame(lines), claim, alpha, n)


def _pairs(m: Mapping[str, Any]) -> Iterator[tuple[Row, Row, str, float]]:
    """Neighbours whose reports lie far apart, and how far, relative to twice the radius of their noise."""
    rows = list(_rows(m))
    bare = [_reports(m, row, 1, bare=True)[0] for _, row in rows]
    apart = sorted(
        (
            (float(np.linalg.norm(bare[i] - bare[j])), i, j)
            for i, j in itertools.combinations(range(len(rows)), 2)
            if not (rows[i][0] == "silent" or rows[j][0] == "silent")
        ),
        reverse=True,
    )
    silent = next(k for k, (name, _) in enumerate(rows) if name == "silent")
    farthest = max((k for k in range(len(rows)) if k != silent), key=lambda k: float(np.linalg.norm(bare[k])))
    chosen = [(d, i, j) for d, i, j in apart[: PAIRS - 1]]
    chosen.append((float(np.linalg.norm(bare[silent] - bare[farthest])), silent, farthest))
    diameter = 2.0 * _radius(m)
    for d, i, j in chosen:
        yield rows[i][1], rows[j][1], f"{rows[i][0]} / {rows[j][0]}", d / diameter if diameter > 0.0 else math.nan


def _rows(m: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    """Rows as far out as rows can be, in the coordinates of the report."""
    theta = np.array(m["theta"])
    if m["kind"] in {"moments", "location", "numbers"}:
        d = len(theta)
        yield "silent", (np.full(d, np.nan), math.nan)
        yield "all far out", (np.full(d, FAR), 0.0)
        yield "all far down", (np.full(d, -FAR), 0.0)
        yield "in the middle", (np.zeros(d), 0.0)
        for j in range(min(d, 3)):
            yield f"number {j + 1} far out", (FAR * np.eye(d)[j], 0.0)
        return
    plan = _tuples(LanePlan if m["kind"] == "lanes" else Plan, m["plan"])
    blocks = plan.blocks
    d = len(theta) // blocks
    label = m["kind"] == "lanes" and plan.label
    binary = plan.shape.family in {
        kernels.LOGISTIC,
        kernels.BALANCED,
        kernels.HINGE,
        kernels.SMOOTHED_HINGE,
    }
    ys = [("y low", -FAR), ("y high", FAR), ("y in the middle", 0.0)]
    if binary:
        ys = [("y = 0", 0.0), ("y = 1", 1.0)]
    elif blocks > 1:
        ys = [(f"class {k}", float(k)) for k in range(blocks + 1)]
    elif plan.shape.family == kernels.POISSON:
        ys = [("no count", 0.0), ("largest count", plan.shape.a)]
    elif plan.shape.family == kernels.SQUARED:
        ys = [("y low", plan.shape.a), ("y high", plan.shape.b)]
    xs = [("x = 1", np.ones(d)), ("first axis", np.eye(d)[0]), ("last axis", np.eye(d)[-1])]
    if not label:  # public covariates are the same for neighbours
        xs += [("x = -1", -np.ones(d)), ("x huge", np.full(d, FAR)), ("x = 0", np.zeros(d))]
        xs += [("last down", -np.eye(d)[-1])]
        # where published weights, min(1, 2/‖x‖²), make the most of a row
        edge = math.sqrt(2.0) * np.eye(d)[-1] + (np.eye(d)[0] if plan.weights == kernels.PUBLISHED_SLOPES else 0.0)
        xs += [("x of length √2", edge), ("its opposite", -edge)]
    else:
        xs = xs[:1]
    yield "silent", (xs[0][1] if label else np.zeros(d), math.nan)
    for (x_name, x), (y_name, y) in itertools.product(xs, ys):
        yield f"{x_name}, {y_name}", (x, y)


def _radius(m: Mapping[str, Any]) -> float:
    if m["kind"] in {"moments", "location", "numbers"}:
        return float(m["plan"][1])
    plan = _tuples(LanePlan if m["kind"] == "lanes" else Plan, m["plan"])
    if m["kind"] == "lanes" and plan.label:
        return float(plan.radius) * math.sqrt(len(m["theta"]))  # ‖x‖ of the row above
    return float(plan.radius)


def _reports(m: Mapping[str, Any], row: Row, n: int, *, bare: bool = False) -> Array:
    """Reports that the kernels make of one row, again and again; without noise if `bare`, shape (n, size)."""
    draw = {"lanes": _lane_reports, "chain": _chain_reports}.get(str(m["kind"]), _number_reports)
    return draw(m, row, n, bare)


def _noise(width: int, n: int, bare: bool) -> Array:
    if bare:
        return np.zeros((n, width))
    stream, out = NoiseStream(fresh_key(), width), np.empty((n, width))
    at = 0
    while at < n:
        block = stream.peek()[: n - at]
        out[at : at + len(block)] = block
        stream.advance(len(block))
        at += len(block)
    return out


def _silenced(channel: Channel, bare: bool) -> Channel:
    return Channel(kernels.GAUSSIAN, 0.0, 0.0, 0.0) if bare else channel


def _width(channel: Channel, size: int) -> int:
    kinds = {kernels.GAUSSIAN: size, kernels.LAPLACE: 3 * size, kernels.PRIVUNIT: size + 2}
    return max(kinds.get(channel.kind, 1), size)


def _lane_reports(m: Mapping[str, Any], row: Row, n: int, bare: bool) -> Array:
    plan, theta = _tuples(LanePlan, m["plan"]), np.array(m["theta"])
    d = len(theta) // plan.blocks
    # a batch that is never full leaves the report in the state, where it can be read
    plan = plan._replace(batch=2, lanes=1, path=0, late=0, worth=1.0, channel=_silenced(plan.channel, bare))
    state = lanes.init(theta, math.log(m["c"]), plan)
    size = (1 if plan.label else len(theta)) + int(plan.kappa > 0.0)
    noise, none, still = _noise(_width(plan.channel, size), n, bare), np.empty(0), np.zeros(1)
    x, y, rows, newton = row[0].reshape(1, -1), np.array([row[1]]), np.eye(d), np.zeros((len(theta),) * 2)
    out = np.empty((n, len(theta) + int(plan.kappa > 0.0)))
    for k in range(n):
        kernels.run_lanes(x, y, none, none, rows, newton, still, still, noise[k : k + 1], 0, 0, 1, plan, state)
        out[k] = state.batch[0, : out.shape[1]]
        state.batch[:], state.weight[:], state.in_batch[:] = 0.0, 0.0, 0
    return out


def _chain_reports(m: Mapping[str, Any], row: Row, n: int, bare: bool) -> Array:
    plan, theta = _tuples(Plan, m["plan"]), np.array(m["theta"])
    plan = plan._replace(
        outer=1, batch=1, curvature_share=0, central=0, scaling_mode=kernels.NONE, channel=_silenced(plan.channel, bare)
    )
    none, still, block = np.empty((0, 0)), np.zeros(kernels.BLOCK), kernels.BLOCK
    noise = _noise(_width(plan.channel, len(theta)), n, bare)
    x, y = np.tile(row[0], (block, 1)), np.full(block, row[1])
    out = np.empty((n, len(theta)))
    for a in range(0, n, block):
        b = min(block, n - a)
        state = collector.init(theta, plan, np.zeros(len(theta)))
        kernels.fused(x[:b], y[:b], np.empty(0), still[:b], noise[a : a + b], none, plan, state, none, none)
        out[a : a + b] = state.reports[:, :b].T
    return out


def _number_reports(m: Mapping[str, Any], row: Row, n: int, bare: bool) -> Array:
    saved, radius = m["plan"]
    channel, d = _silenced(Channel(saved[0], *map(_number, saved[1:])), bare), len(m["theta"])
    v, none, one = row[0].reshape(1, -1), np.empty(0), np.ones(d)
    size = {"moments": d * (d + 1) // 2, "location": 2 * d}.get(str(m["kind"]), d)
    noise, out = _noise(_width(channel, size), n, bare), np.empty((n, size))
    for k in range(n):
        total = np.zeros(size)
        given = (noise[k : k + 1], channel, radius, none, total, 0, 1)
        if m["kind"] == "moments":
            kernels.moment_reports(v, np.eye(d), moment_diagonal(d, constant=True), *given)
        elif m["kind"] == "location":
            kernels.location_reports(v, 0.0 * one, one, *given)
        else:
            kernels.number_reports(np.clip(v, 0.0, 1.0), *given, np.empty((0, 0)))
        out[k] = total
    return out
