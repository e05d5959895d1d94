"""Trials of the reports of regressions: what a privacy statement claims, on neighbours made up for it.

It plays devices with the very numbers (score, bound, noise) that the fit's devices had, on made-up rows at the largest
distance.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.audit.neighbours import Row, Trial
from privreg.base.arrays import Array
from privreg.collector.aggregate import report
from privreg.collector.covariates.whitening import triangle
from privreg.families import scores
from privreg.families.logistic import multinomial
from privreg.privacy.budget import Budget
from privreg.privacy.mechanisms import randomised, released, width
from privreg.privacy.noise import NoiseStream, fresh_key
from privreg.protocol import codes
from privreg.protocol.codes import LEVER2, TINY
from privreg.protocol.plans import Channel, ScorePlan, Shape
from privreg.published.chain.plans import Plan

FAR: Final = 1e6
LONG: Final = 1e3  # Length of rows that are clipped to the bound of a curvature report
NOISE_ONLY: Final = "noise only"  # Name of a record that can't be used
OFFSET: Final = 2.0
INSIDE: Final = 1.0 - 1e-9
NUMBERS: Final = frozenset({"moments", "numbers"})

LANES: Final = (0, 1, 5, 6, 7, 8, 9, 10, 11)
"""Places of a `ScorePlan`'s numbers among those that version 0.1 saved of its lanes."""


# --- what is kept of a fit: numbers only, for JSON -------------------------------------------------------


def described(
    name: str, kind: str, plan: tuple[Any, ...], theta: Sequence[float] | Array, c: float = 1.0, **more: Any
) -> dict[str, Any]:
    """Describe reports as `trials` reads it: `kind` "scores" of a `ScorePlan`, "moments", "numbers" of channel, radius.

    Those of a chain's `Plan` are "chain" of scores, "curvature", and "central" of a curator's sums, with the `sds` of
    their noise; `alone` says whether x is the constant 1.
    """
    return {"report": name, "kind": kind, "plan": _plain(plan), "theta": list(map(float, theta)), "c": float(c)} | more


def of_sums(name: str, ends: Mapping[str, Sequence[int]], sd: float, unit: float, mu: float = 0.0) -> dict[str, Any]:
    """Describe a published sum: whole numbers of far reports by name, and the noise of one who adds it.

    `mu` is a curator's budget of this sum, to which all rows of the others report, too; 0 with two collectors.
    """
    return {"report": name, "kind": "sums", "ends": dict(ends), "sd": sd, "unit": unit} | ({"mu": mu} if mu else {})


def of_smaller_budget(m: Mapping[str, Any], weight: float) -> dict[str, Any]:
    """Describe the same reports of somebody whose budget, μ or ε, is √`weight` times the largest."""
    return {**m, "report": f"{m['report']}, {math.sqrt(weight):g} of the budget", "weight": weight}


def _plain(value: Any) -> Any:
    if isinstance(value, Shape):  # an address is of one process; a user's score may be any in [-1, 1]
        value = Shape(codes.HUBER, 0.0, 0.0, 0) if scores.scoring_of(value.family).custom else value._replace(address=0)
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _rebuilt(m: Mapping[str, Any]) -> dict[str, Any]:
    """Reports as described, with their plan, of numbers a channel and a radius, and coefficients as they were."""
    parts: list[Any] = []
    for v in m["plan"]:
        if isinstance(v, list):
            family, *rest = v
            parts.append(Shape(family, *rest) if isinstance(rest[-1], int) else Channel(family, *map(float, rest)))
        else:
            parts.append(float(v) if isinstance(v, str) else v)
    plan = tuple(parts) if m["kind"] in NUMBERS else (ScorePlan if m["kind"] == "scores" else Plan)(*parts)
    return {**m, "plan": plan, "theta": np.array(m["theta"])}


# --- one person's report in a fit by rounds before it is randomised, under any mechanism ----------------------


class Unrandomised(NamedTuple):
    """A report before it is randomised: a point of the ball of `radius` about 0, and what is made of the answer."""

    report: Array  # shape (size,)
    radius: float
    centre: Array  # Public, added to the answer; shape (size,)
    carried: Array | None = None  # Public covariates that multiply its first number, where only a response is private

    def finish(self, answer: Array) -> Array:
        """Reports that leave the device, from randomised ones of shape (…, size)."""
        out = answer + self.centre
        if self.carried is None:
            return np.asarray(out)
        with np.errstate(over="ignore", invalid="ignore"):
            score = np.where(out[..., :1] * self.carried != 0.0, out[..., :1] * self.carried, 0.0)
        return np.concatenate([score, out[..., 1:]], axis=-1)


def second_moments(z: Array) -> Array:
    """Report on second moments before it is randomised: u uᵀ, u = z/‖z‖.

    The lower triangle, shape (d (d + 1)/2,), off-diagonal entries · √2: its norm is 1. Zeros where z can't be used.
    """
    inverse, (row, col) = _inverse(z), triangle(len(z))
    u = z * inverse if inverse else np.zeros(len(z))
    return np.asarray(u[row] * u[col] * np.where(row == col, 1.0, math.sqrt(2.0)))


def scored(plan: ScorePlan, theta: Array, c: float, z: Array, y: float, offset: float = 0.0) -> Unrandomised:
    """Report of scores before it is randomised: ψ z/‖z‖, abs ψ ≤ 1, and in a pilot kappa times a number.

    `theta` are the group's coefficients in the coordinates of z, `c` the public threshold. z and y are NaN for one who
    has nothing to say. With label privacy ψ alone is randomised, and the public ω z, ω = min(1, 8 √d/‖z‖), multiplies
    it.
    """
    inverse = _inverse(z)
    if plan.blocks > 1:
        report = np.zeros(len(theta))  # scores of the classes k ≥ 1 one after the other
        if inverse and 0.0 <= y <= plan.blocks and y == math.floor(y):
            scaled = multinomial(theta.reshape(plan.blocks, -1), z[None], np.array([y]))[0] * inverse
            report = np.outer(scaled, z).reshape(-1)
        report = report if np.isfinite(report).all() else np.zeros(len(theta))
        return Unrandomised(report, plan.radius, np.zeros(len(theta)))
    with np.errstate(over="ignore", invalid="ignore"):
        eta, response = np.array([float(z @ theta) + offset]), np.array([float(y)])
        psi = float(scores.unit(plan.shape, c, eta, response)[0])
        number = float(scores.near(plan.shape, c, eta, response)[0])
    known = not (math.isnan(eta[0]) or math.isnan(y))
    beside = [plan.kappa * ((number if known else 0.0) - 0.5)] if plan.kappa > 0.0 else []
    if plan.label:  # ψ about the middle of its range, and public covariates that multiply it
        low, high = (float(end[0]) for end in scores.ends(plan.shape, c, eta, plan.y_low, plan.y_high))
        with np.errstate(over="ignore", invalid="ignore"):
            norm2, most = float(z @ z), LEVER2 * len(z)
        omega = math.sqrt(most / norm2) if norm2 > most else 1.0
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        # nothing to report: no score, as far as its range allows
        answer = min(max(0.0 if math.isnan(psi) else psi, low), high) - middle
        radius = math.sqrt(half * half + 0.25 * (plan.kappa * plan.kappa))
        if not (radius < math.inf and norm2 < math.inf):
            omega, middle, radius, answer = 0.0, 0.0, 1.0, 0.0
        centre = np.array([middle] + [0.5 * plan.kappa] * len(beside))
        return Unrandomised(np.array([answer, *beside]), radius, centre, omega * z if omega else np.zeros(len(z)))
    inverse = min(inverse, 1.0 / plan.longest) if plan.longest else inverse
    factor = psi * inverse
    usable = factor != 0.0 and math.isfinite(factor)
    report = z * min(max(factor, -inverse), inverse) if usable else np.zeros(len(z))
    centre = np.array([0.0] * len(z) + [0.5 * plan.kappa] * len(beside))
    return Unrandomised(np.array([*report, *beside]), plan.radius, centre)


def _inverse(z: Array) -> float:
    """1/‖z‖; 0 if z is too short, too long, or no row of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        norm2 = float(z @ z)
    return 1.0 / math.sqrt(norm2) if TINY < norm2 < math.inf else 0.0


# --- the trials ------------------------------------------------------------------------------------------


def trials(mechanics: Sequence[Mapping[str, Any]], budget: Budget) -> Iterator[Trial]:
    """Every kind of report, as `described`, on neighbours at the largest distance."""
    pure = math.isfinite(budget.epsilon)
    if len(shared := [m for m in mechanics if m.get("mu")]) > 1:
        yield from _trials_of_sums("all sums", shared, budget.mu, 1)
    for m in mechanics:
        if m["kind"] == "lanes":  # as version 0.1 saved scores
            m = {**m, "kind": "scores", "plan": [m["plan"][k] for k in LANES]}
        if m["kind"] == "location":  # and numbers, two bits a column
            m = {**m, "kind": "numbers", "theta": [*m["theta"], *m["theta"]]}
        if m["kind"] == "sums":
            yield from _trials_of_sums(m["report"], [m], float(m.get("mu", budget.mu)), 2)
            continue
        claim = ("epsilon" if pure else "mu", (budget.epsilon if pure else budget.mu) * math.sqrt(m.get("weight", 1.0)))
        of = _rebuilt(m)
        for first, second, words, distance in _pairs(of):
            yield Trial(m["report"], words, *claim, partial(_both, of, first, second), distance)


def _trials_of_sums(name: str, some: Sequence[Mapping[str, Any]], claimed: float, most: int) -> Iterator[Trial]:
    """Trials of sums to which the same rows report, as one collector, or who reads a curator's results, sees them.

    Of the `most` pairs of rows that are farthest from each other, along the line on which they differ.
    """
    sds = [float(m["sd"]) for m in some]
    rows = {words: [np.array(m["ends"][words], dtype=np.int64) for m in some] for words in some[0]["ends"]}

    def line(a: str, b: str) -> list[Array]:
        return [(there - here) / sd for here, there, sd in zip(rows[a], rows[b], sds, strict=True)]

    def seen(a: str, b: str, n: int) -> tuple[Array, Array]:
        out = np.zeros((2, n))
        for k, words in enumerate((a, b)):
            for row, way, sd in zip(rows[words], line(a, b), sds, strict=True):
                noise = NoiseStream(fresh_key(), len(row)).draw(n)
                out[k] += report.with_noise(row, sd, noise) @ (way / sd)
        return out[0], out[1]

    far = [(float(np.linalg.norm(np.concatenate(line(a, b)))), a, b) for a, b in itertools.combinations(rows, 2)]
    for distance, a, b in sorted(far, reverse=True)[:most]:
        yield Trial(name, f"{a} / {b}", "mu", claimed, partial(seen, a, b), distance / claimed)


def _both(m: Mapping[str, Any], first: Row, second: Row, n: int) -> tuple[Array, Array]:
    """Reports of each; of Laplace noise their log-likelihood ratios, up to a factor: no projection shows as much."""
    both, plan = (_reports(m, first, n), _reports(m, second, n)), m["plan"]
    bent = m["kind"] == "curvature"
    channel = plan[0] if m["kind"] in NUMBERS else plan.curvature_channel if bent else plan.channel
    if channel.kind != codes.LAPLACE:
        return both
    here, there = (_reports(m, row, 1, bare=True)[0] for row in (first, second))
    a, b = (np.abs(r - here).sum(axis=1) - np.abs(r - there).sum(axis=1) for r in both)
    return a, b


def _pairs(m: Mapping[str, Any]) -> Iterator[tuple[Row, Row, str, float]]:
    """Neighbours at a large distance, and that distance relative to what their noise is made for.

    The largest, with a record that sends noise only, and with an offset of either sign.
    """
    rows = list(_rows(m))
    bare = [_reports(m, row, 1, bare=True)[0] for _, row in rows]
    diameters = [_diameter(m, row) for _, row in rows]
    public = m["kind"] == "scores" and m["plan"].label  # the same for neighbours: x, offset
    distances: dict[str, list[tuple[float, int, int]]] = {}
    for i, j in itertools.combinations(range(len(rows)), 2):
        offsets = rows[i][1].offset, rows[j][1].offset
        if public and offsets[0] != offsets[1]:
            continue
        if diameters[i] > 0.0:  # else neither report says anything
            unusable = NOISE_ONLY in (rows[i][0], rows[j][0])
            sign = "up" if max(offsets) > 0.0 else "down" if min(offsets) < 0.0 else "none"
            distance = float(np.linalg.norm(bare[i] - bare[j])) / diameters[i]
            distances.setdefault(NOISE_ONLY if unusable else sign, []).append((distance, i, j))
    for which, group in distances.items():
        for distance, i, j in sorted(group, reverse=True)[: 2 if which == "none" else 1]:
            yield rows[i][1], rows[j][1], f"{rows[i][0]} / {rows[j][0]}", distance


def _rows(m: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    """Rows as far out as rows can be, in the coordinates of the report."""
    theta, plan = m["theta"], m["plan"]
    d = len(theta)
    if m["kind"] in NUMBERS:
        yield NOISE_ONLY, Row(np.full(d, np.nan), math.nan)
        yield "all far out", Row(np.full(d, FAR), 0.0)
        yield "all far down", Row(np.full(d, -FAR), 0.0)
        yield "in the middle", Row(np.zeros(d), 0.0)
        yield from ((f"number {j + 1} far out", Row(FAR * np.eye(d)[j], 0.0)) for j in range(min(d, 3)))
        return
    joint = m["kind"] == "chain" and plan.joint > 0.0  # coefficients end with a residual scale
    theta, sigma = (theta[:-1], float(theta[-1])) if joint else (theta, 1.0)
    d = len(theta) // plan.blocks
    label = m["kind"] == "scores" and plan.label
    one, axes = np.ones(d), np.eye(d)
    if m["kind"] in {"curvature", "central"}:
        # rows at right angles, of the most curvature and much score: an offset puts their predictor there
        eta, y = scores.scoring_of(plan.shape.family).steep(plan.shape, plan.c * INSIDE)
        yield NOISE_ONLY, Row(0.0 * one, math.nan)
        bent = {"first axis": axes[0], "last axis": axes[-1], "x = 1": one / math.sqrt(d)}
        bent = {"x = 1": one} if m.get("alone") else bent
        for (name, x), length in itertools.product(bent.items(), (1.0,) if m.get("alone") else (math.sqrt(2.0), LONG)):
            words, long = f"{name}, length {length:.4g}", length * x
            yield f"{words}, steepest", Row(long, y, eta - float(long @ theta))
            yield f"{words}, y far", Row(long, FAR, eta - float(long @ theta))
        return
    if label or m.get("alone"):
        xs = [("x = 1", axes[0])]  # covariates that are public, or none, are the same for neighbours
    else:
        # where published weights, min(1, 2/‖x‖²), make the most of a row
        slopes = m["kind"] == "chain" and plan.weights == codes.PUBLISHED_SLOPES
        edge = math.sqrt(2.0) * axes[-1] + (axes[0] if slopes else 0.0)
        xs = [("x = 1", one), ("first axis", axes[0]), ("last axis", axes[-1]), ("x = -1", -one)]
        xs += [("x huge", FAR * one), ("x = 0", 0.0 * one), ("last down", -axes[-1])]
        xs += [("x of length √2", edge), ("its opposite", -edge)]
    yield NOISE_ONLY, Row(xs[0][1] if label else 0.0 * one, math.nan)
    c = float(m["c"]) if m["kind"] == "scores" else plan.c * sigma
    tried = [(name, x, 0.0) for name, x in xs]
    if plan.blocks == 1 and not m.get("alone"):
        tried += [(f"{xs[0][0]}, offset {sign}", xs[0][1], v) for sign, v in (("up", OFFSET), ("down", -OFFSET))]
    for x_name, x, offset in tried:
        ys = [(f"class {k}", float(k)) for k in range(plan.blocks + 1)]
        if plan.blocks == 1:  # as far out as they can be, and just within the threshold c of the predictor
            ys = scores.scoring_of(plan.shape.family).responses(plan.shape, float(x @ theta) + offset, c)
        yield from ((f"{x_name}, {y_name}", Row(x, y, offset)) for y_name, y in ys)


def _diameter(m: Mapping[str, Any], row: Row) -> float:
    """Largest distance that the noise of this row's report is made for."""
    plan = m["plan"]
    if m["kind"] in NUMBERS:
        return 2.0 * float(plan[1])
    if m["kind"] == "curvature":
        return 2.0 * float(plan.curvature_radius)
    if m["kind"] == "central":  # in units of the noise, as its reports are; μ of both together
        bounds = plan.curvature_bound, plan.bound**2
        return math.sqrt(sum((math.sqrt(2.0) * b / sd) ** 2 for b, sd in zip(bounds, m["sds"], strict=True)))
    if m["kind"] == "scores" and plan.label:
        eta = np.full(2, float(row.x @ m["theta"]) + row.offset)
        ends = scores.unit(plan.shape, m["c"], eta, np.array([plan.y_low, plan.y_high]))
        return math.hypot(ends[0] - ends[1], plan.kappa)
    return 2.0 * float(plan.radius)


def _reports(m: Mapping[str, Any], row: Row, n: int, *, bare: bool = False) -> Array:
    """Reports that the kernels make of one row, again and again; without noise if `bare`, shape (n, size)."""
    if m["kind"] not in {*NUMBERS, "scores"}:
        return chain_reports(m, m["plan"], m["theta"], row, n, bare)
    if m["kind"] == "scores":
        one, channel = scored(m["plan"], m["theta"], m["c"], row.x, row.y, row.offset), m["plan"].channel
    else:
        channel, radius = m["plan"]
        held, centre = (second_moments(row.x), 0.0) if m["kind"] == "moments" else (np.clip(row.x, 0.0, 1.0) - 0.5, 0.5)
        one = Unrandomised(np.nan_to_num(held), radius, np.full(len(held), centre))
    rows = np.tile(one.report, (n, 1))
    if not bare:
        noise = NoiseStream(fresh_key(), width(channel, rows.shape[1])).draw(n)
        rows = randomised(channel, rows, one.radius / math.sqrt(m.get("weight", 1.0)), noise)
    return one.finish(rows)


def chain_reports(m: Mapping[str, Any], plan: Plan, theta: Array, row: Row, n: int, bare: bool) -> Array:
    """Reports of one row to the published algorithm's chain, `n` times, shape (n, size); without noise if `bare`.

    Of kind "chain" they are of scores, of "curvature" of a triangle; of "central" they are releases of one person's
    sums, in units of their noise.
    """
    from privreg.published.chain import collector, kernels  # compiled

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
