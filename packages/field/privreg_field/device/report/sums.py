"""From a row and a state of two collectors to shares of a report: numbers, whole numbers in the role's set, shares.

The set makes the guarantee, for any state, also one made up for one respondent: what `whole` returns is in the set that
the role's radius stands for, see `lattice`, whatever went before. Scores are closer to each other than the set is wide:
that rests on how `_scores` clips them, and on `session`, which takes no state whose radius is larger than
`protocol.sums.distance2` allows. Equations by number are those of docs/sums.md; sums go from the first number to the
last, as in `score`.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import Final

from privreg.protocol import codes, lattice
from privreg.protocol.sums import FALLS, MEDIAN, SQUARED, SumAsk, Sums, farthest, longest2
from privreg_field.wire.roles import Role
from privreg_field.wire.study import FAMILIES, PublicPlan

from . import noise, score
from .answer import inside, shortened
from .design import Row
from .score import Floats

ROOT2: Final = math.sqrt(2.0)
LEAST: Final = 1e-300
FIRST: Final = frozenset({"location", "moments"})  # Roles of rounds about covariates and response, not scores

# --- numbers -------------------------------------------------------------------------------------------------


def of_person(plan: PublicPlan, ask: SumAsk, rows: Sequence[Row]) -> list[float]:
    """Report of a person's rows to a state: real numbers of norm 1 at most, by the rows' parts, Equation (26).

    Of moments, vectors u one after the other, reported as the sum of u u'. Of a plan without a diary there is one row.
    """
    sums = plan.sums
    assert sums is not None  # of every plan with collectors
    if sums.edges:
        return _followed(sums, ask, rows)
    persons = plan.diary is not None or bool(sums.cuts)
    rows = [row for row in rows if all(map(math.isfinite, (*row.x, row.y, row.offset)))]
    if not rows:
        return []
    parts = [row.part for row in rows]
    held = []
    for row in rows:
        x = [score.clipped(v, *ends) for v, *ends in zip(row.x, sums.lows, sums.highs, strict=True)]
        y = score.clipped(row.y, sums.y_low, sums.y_high)
        if ask.role in FIRST and FAMILIES[plan.family] in codes.COUNTS:  # a rate
            y = score.clipped(y * score.exp(sums.rate - row.offset), sums.y_low, sums.y_high)
        held.append((x, y, row.offset))
    if ask.role == "clamping":  # in which part of the person's rows, whatever they weigh
        return [1.0, *rows[0].clamped]
    if ask.role == "location":
        return score.summed([_places(sums, x, y, persons=persons) for x, y, _ in held], parts)
    mapped = [([score.dot(line, x) for line in ask.rows], y, offset) for x, y, offset in held]
    if ask.role == "moments":
        out: list[float] = []
        for (z, y, offset), part in zip(mapped, parts, strict=True):
            less = y - (offset if FAMILIES[plan.family] in codes.SCALED else 0.0)
            u = [*z, score.divide(less - ask.y_centre - score.dot(z, ask.theta), ask.scale)]
            out += [v * math.sqrt(part) for v in _direction(u, ask.ball)]
        return out
    return _scores(plan, sums, ask, [(z, score.dot(z, ask.theta) + offset, y) for z, y, offset in mapped], parts)


def _followed(sums: Sums, ask: SumAsk, rows: Sequence[Row]) -> list[float]:
    """Report of a person's intervals, those without a response being ones when they are not at risk: (54) to (58)."""
    here = [j for j, row in enumerate(rows) if all(map(math.isfinite, (*row.x, row.y, row.offset)))]
    if not here or ask.role == "clamping":
        return [1.0, *rows[0].clamped] if here else []
    xs = [[score.clipped(v, *ends) for v, *ends in zip(rows[j].x, sums.lows, sums.highs, strict=True)] for j in here]
    if ask.role == "location":
        root, short = math.sqrt(longest2(sums.located, True) + 1.0), math.sqrt(longest2(sums.located, False))
        means = score.summed([_places(sums, x, 0.0, persons=False) for x in xs], [1.0 / len(here)] * len(here))
        events, times = [0.0] * len(rows), [0.0] * len(rows)
        for j in here:
            part = score.exp(rows[j].offset) / (sums.edges[j + 1] - sums.edges[j])
            events[j], times[j] = rows[j].y, score.clipped(part, 0.0, 1.0) / math.sqrt(len(rows))
        return [v / root for v in (*(v * short for v in means), *events, *times)]
    zs = [[score.dot(line, x) for line in ask.rows] for x in xs]
    etas = [score.dot(z, ask.theta) + rows[j].offset for z, j in zip(zs, here, strict=True)]
    squares, out, one = [max(score.dot(z, z), LEAST) for z in zs], list[list[float]](), [1.0] * len(here)
    if ask.role == "moments":
        shares = [score.exp(eta - max(etas)) for eta in etas]
        for z, share, square in zip(zs, shares, squares, strict=True):
            by = score.divide(min(1.0, score.divide(ask.ball, square)), ask.ball)
            out.append([v * math.sqrt(by * (share / max(score.dot(shares, one), 1.0))) for v in z])
        return [v for u in out for v in u]
    a, b, m = map(math.sqrt, sums.shares[:3])
    (span, top), upto, falls = farthest(ask.most), [0.0], ask.most >= FALLS
    for eta in etas:
        upto.append(min(upto[-1] + score.exp(eta), ask.most))
    counts = [score.clipped((ask.most - v) / FALLS, 0.0, 1.0) if falls else float(v < ask.most) for v in upto]
    known, steep = upto, 1.0
    if falls:
        known = [v - max(v - (ask.most - FALLS), 0.0) ** 2 / (2.0 * FALLS) for v in upto]
        ended = [rows[j].y * (0.0 < count < 1.0) for j, count in zip(here, counts[1:], strict=True)]
        steep = counts[-1] + max(ended) / FALLS
    for k, (z, square, j) in enumerate(zip(zs, squares, here, strict=True)):
        weight = min(1.0, score.divide(ask.reach * ask.reach, square))
        by = (known[k + 1] - known[k] - rows[j].y * counts[k + 1]) * weight
        rise = products(z, (upto[k + 1] - upto[k]) * steep * weight * (b / (top * (ask.reach * ask.reach))))
        out.append([*(v * (by / (ask.reach * span)) for v in z), *rise])
    whole = score.summed(out, one)
    total, rise = whole[: len(ask.theta)], whole[len(ask.theta) :]
    total = [v / max(math.sqrt(score.dot(total, total)), 1.0) for v in total]
    return [*(v * a for v in total), *rise, *products(total, m)]


def _places(sums: Sums, x: Floats, y: float, *, persons: bool) -> list[float]:
    """Numbers within ±1 and their squares: Equation (1), of persons (27)."""
    numbers = [(x[j], sums.lows[j], sums.highs[j]) for j in sums.numbers]
    numbers += [] if sums.binary else [(y, sums.y_low, sums.y_high)]
    t = [score.clipped(score.divide(v - 0.5 * (a + b), 0.5 * (b - a)), -1.0, 1.0) for v, a, b in numbers]
    root = math.sqrt(longest2(len(t), persons))
    return [v / root for v in (*t, *(SQUARED * v * v for v in t), *([1.0] * persons))]


def _direction(u: Floats, ball: float) -> list[float]:
    """Rows shortened to the square root of the state's ball, over that: Equation (2)."""
    factor = score.divide(min(1.0, score.divide(ball, max(score.dot(u, u), LEAST))), ball)
    return [v * math.sqrt(factor) for v in u] if 0.0 <= factor < math.inf else []


def products(z: Floats, by: float) -> list[float]:
    """Entries of by · z z' on and above the diagonal, √2 times those off it."""
    return [u * v * (1.0 if k == 0 else ROOT2) * by for j, u in enumerate(z) for k, v in enumerate(z[j:])]


def _scores(
    plan: PublicPlan, sums: Sums, ask: SumAsk, rows: Sequence[tuple[Floats, float, float]], parts: Floats
) -> list[float]:
    """Score, slope and squared score with bounded weights, the score beyond c, and the scale: Equation (3).

    `rows` are z, predictor and response of each, which have one weight: Equations (26) and (28).
    """
    family, reach = FAMILIES[plan.family], ask.reach
    c = sums.ratio * ask.scale if sums.scaled else sums.fixed
    at = ask.scale if family in codes.EXTRA else c
    square = score.summed([[score.dot(z, z)] for z, _, _ in rows], parts)[0]
    weight = min(1.0, score.divide(reach * reach, max(square, LEAST)))
    a, b, m, o, t = map(math.sqrt, sums.shares)
    made: dict[str, list[list[float]]] = {name: [] for name in ("score", "slope", "number", "far", "near", "scale")}
    for z, eta, y in rows:
        r = y - eta
        beyond = sums.cornered and family not in codes.EXTRA and abs(r) > c
        # within these ends reports are as far from each other as `protocol.sums` says
        psi = score.clipped(score.unit(family, plan.a, plan.b, at, eta, y), -1.0, 1.0) * weight
        rise = score.clipped(slope(family, plan.a, plan.b, at, eta, y, sums.top), 0.0, sums.top) * weight * (not beyond)
        scores = [v * (psi / reach) for v in z]
        made["score"].append(scores)
        made["slope"].append(products(z, rise * (b / (sums.top * (reach * reach)))))
        if not sums.scaled:
            continue
        if family in codes.EXTRA:
            learned = score.tobit(plan.a, plan.b, at, eta, y)[2:] if family == codes.TOBIT else ()
            learned = learned or score.extra(plan.a, ask.scale, eta, y)
            number, rise, *beside = (score.clipped(v, -1.0, 1.0) for v in learned)
            made["number"].append([number])
            for name, v in zip(("far", "near"), beside, strict=False):
                made[name].append([u * (v * weight * (o / (ROOT2 * reach))) for u in z])
            halves = [0.5 * rise] if plan.diary is None else [0.25 * (1.0 + rise), 0.25 * (1.0 - rise)]
            made["scale"].append([t * number, *(t * v for v in halves)])
            continue
        far = score.divide(score.log(score.divide(max(abs(r), LEAST), MEDIAN * ask.scale)), ask.window)
        number, inside = score.clipped(far, -1.0, 1.0), abs(far) < 1.0
        sign = 0.0 if r == 0.0 or beyond or not inside else math.copysign(1.0, r)
        made["number"].append([number])
        made["far"].append([v * o if beyond else 0.0 for v in scores])
        made["near"].append([v * (sign * weight * (o / reach)) for v in z])
        halves = [float(inside) - 0.5] if plan.diary is None else [0.5 * inside, 0.5 * (not inside)]
        made["scale"].append([t * number, *(t * v for v in halves)])
    mean = {name: score.summed(vectors, parts) for name, vectors in made.items() if vectors}
    out = [v * a for v in mean["score"]] + mean["slope"]
    if not sums.scaled:
        return out + products(mean["score"], m)
    out += products([*mean["score"], *mean["number"]], 0.5 * m)
    out += [*mean["far"], *mean["near"]] if o > 0.0 else []
    return [*out, *mean["scale"]]


def slope(family: int, a: float, b: float, c: float, eta: float, y: float, top: float) -> float:
    """Slope of the unit score by the linear predictor, times c, in [0, top].

    Of quantiles, whose score is a step, that of its mean over a window of ±c.
    """
    r = y - eta
    if family == codes.HUBER:
        return 1.0 if abs(r) <= c else 0.0
    if family == codes.EXPECTILE:
        return (a if r >= 0.0 else 1.0 - a) / b if abs(r) <= c else 0.0
    if family == codes.QUANTILE:
        return top if abs(r) <= c else 0.0
    if family in {codes.LOGISTIC, codes.ORDERED}:
        e = score.exp(-abs(eta))
        return e / ((1.0 + e) * (1.0 + e))
    if family == codes.POISSON:
        mean = score.exp(min(eta, 700.0))
        return mean / a if mean < a else 0.0
    if family == codes.NEGATIVE_BINOMIAL:
        mean = score.exp(min(eta, 700.0))
        steep = score.divide((1.0 + c * y) * (1.0 + c * b), (1.0 + c * mean) * (1.0 + c * mean)) if mean >= b else 1.0
        return mean * steep / a if mean < a else 0.0
    if family == codes.TOBIT:
        return score.tobit(a, b, c, eta, y)[1]
    return top if a <= eta <= b else 0.0


# --- whole numbers -------------------------------------------------------------------------------------------


def whole(role: Role, report: Floats) -> list[int]:
    """A report in whole numbers, shape (numbers,), in the set of its role's form; zeros of what can't be used."""
    size = role.numbers
    if role.form == lattice.BLOCKS:  # which `answer.whole` makes; anything else gives zeros
        return [0] * size
    unit = max(lattice.unit_of_sums(role.form, size, role.radius), 0.0)
    if role.form == lattice.SWITCHES:
        one = min(round(unit / math.sqrt(size)), math.isqrt(role.radius * role.radius // size))
        shares = [0.0 if math.isnan(v) else score.clipped(v, 0.0, 1.0) for v in report]
        return [round(one * v) for v in shares] if len(report) == size else [0] * size
    entries = inside(report)
    if role.form == lattice.PSD:
        entries = score.over_rows(entries, size, lambda row: products(row, 1.0))
    if len(entries) != size:
        return [0] * size
    return shortened([round(v * unit) for v in entries], role.radius + math.isqrt(size) // 2 + 2)


# --- shares --------------------------------------------------------------------------------------------------


def shares(a: Sequence[int], source: Callable[[int], bytes] = noise.secret) -> tuple[bytes, bytes]:
    """Two shares of integers, each alone uniform: (a − s) mod 2⁶⁴ and s, as little-endian words of 64 bits."""
    second = source(8 * len(a))
    words = struct.unpack(f"<{len(a)}Q", second)
    return struct.pack(f"<{len(a)}Q", *((v - s) % (1 << 64) for v, s in zip(a, words, strict=True))), second
