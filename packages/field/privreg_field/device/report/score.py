"""Scores, numbers and second moments of a row before noise, in scalar floats.

Sums go from the first number to the last, so that every language gets the same bits wherever `exp`, `log` and `pow` are
not called. Nothing here raises, whatever a row or a made-up state holds: what is not a number becomes 0, or 1/2 of a
number in [0, 1] that stands for an indicator. How far reports may be apart is `lattice`'s to say; `answer` clips to it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from privreg.protocol import codes, counts

CAP: Final = 5.0  # Losses by which fit is measured are clipped to it
CLIPPED: Final = 0.7101645482690486  # Mean of min(u², 1.345²), u a standard normal
NEAR_ONE: Final = 2.0**-30  # Tolerance of Σ u² = 1 of a direction; see `lattice.SLACK`

Floats = Sequence[float]


# --- arithmetic that never raises ----------------------------------------------------------------------------


def divide(a: float, b: float) -> float:
    """a/b as IEEE 754 has it."""
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def exp(x: float) -> float:
    """eˣ, infinite beyond the largest."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def log(x: float) -> float:
    """Ln x: −∞ at 0, not a number below."""
    return math.log(x) if x > 0.0 else -math.inf if x == 0.0 else math.nan


def clipped(x: float, low: float, high: float) -> float:
    """The nearest of [low, high]; what is not a number stays so."""
    return low if x < low else high if x > high else x


def dot(a: Floats, b: Floats) -> float:
    """Σ a_j b_j over the shorter one's length, from the first to the last."""
    out = 0.0
    for u, v in zip(a, b, strict=False):
        out += u * v
    return out


def mapped(rows: Sequence[Floats], x: Floats, *, wide: bool = False) -> list[float]:
    """Coordinates z = W x: the lower triangle's rows, or scales and shifts, z_j = s_j x_j + t_j x_0."""
    if wide:
        return [s * v + t * x[0] for v, s, t in zip(x, *rows, strict=True)]
    return [dot(row[: j + 1], x) for j, row in enumerate(rows)]


def inverse_length(z: Floats) -> float:
    """1/‖z‖; 0 if z is too short, too long, or no row of numbers."""
    norm2 = dot(z, z)
    return 1.0 / math.sqrt(norm2) if codes.TINY < norm2 < math.inf else 0.0


# --- scores --------------------------------------------------------------------------------------------------


def unit(family: int, a: float, b: float, c: float, eta: float, y: float) -> float:
    """Scalar score over its bound at linear predictor `eta` and response `y`, in [−1, 1], or not a number.

    `family` is its code, see `codes`, `a` and `b` are its numbers, see `plans.Shape`; `c` is where Huber, expectile and
    robust counts are clipped. Units are internal.
    """
    if family == codes.HUBER:
        return -clipped(divide(y - eta, c), -1.0, 1.0)
    if family == codes.EXPECTILE:
        r = divide(y - eta, c)
        return -(a if r >= 0.0 else 1.0 - a) / b * clipped(r, -1.0, 1.0)
    if family == codes.QUANTILE:
        r = y - eta
        return -a / b if r >= 0.0 else (1.0 - a) / b if r < 0.0 else math.nan
    if family in {codes.LOGISTIC, codes.ORDERED}:
        e = exp(-abs(eta))
        return (1.0 / (1.0 + e) if eta >= 0.0 else e / (1.0 + e)) - y
    if family == codes.BALANCED:
        e = exp(-abs(eta))
        return (1.0 - y) - (1.0 - (1.0 - y)) * e if eta >= 0.0 else -(y - (1.0 - y) * e)
    if family == codes.POISSON:
        if b:
            return divide((a if eta > log(a) else exp(eta)) - y, a)
        if eta > log(0.5 * a):
            return 1.0 - y * exp(-eta)
        mean = exp(eta)
        return divide(mean - y, a - mean)
    if family == codes.ROBUST_POISSON:
        return counts.unit(c, eta, y)
    if family == codes.NEGATIVE_BINOMIAL:
        mean = a if eta > log(a) else exp(eta)
        return (mean - y) * divide(1.0 + c * b, (1.0 + c * max(mean, b)) * a)
    if family == codes.TOBIT:
        return tobit(a, b, c, eta, y)[0]
    if family == codes.CLOGLOG:
        share, rest = -math.expm1(-exp(eta)), exp(-exp(eta))
        return ((1.0 - y) * share - y * rest) / (max(share, rest) if b else 1.0)
    side = 2.0 * y - 1.0
    if family == codes.HINGE:
        margin = side * eta
        return -side if margin < 1.0 else 0.0 if margin >= 1.0 else math.nan
    if family == codes.SMOOTHED_HINGE:
        return -side * clipped(divide(1.0 - side * eta, a), 0.0, 1.0)
    if family == codes.SQUARED:
        return divide(clipped(eta, a, b) - clipped(y, a, b), b - a)
    return math.nan


def extra(a: float, at: float, eta: float, y: float) -> tuple[float, float]:
    """Number whose mean is 0 if the dispersion of counts up to `a` is `at`, and its slope: Equation (59) of sums."""
    mean = exp(clipped(eta, -700.0, log(a)))
    near = mean / (3.0 + mean)
    steps, x = (math.log1p(-1.0 / (3.0 + mean)), log(near)), (at * near, 3.0 * at * near)
    sizes = [exp((1.0 / at + 1.0) * math.log1p(v)) for v in x]

    def gap(count: float) -> float:
        return sizes[1] * exp(count * steps[1]) / 3.0 - sizes[0] * exp(count * steps[0]) + 2.0 / 3.0

    rise = near * (divide((1.0 + x[1]) * math.log1p(x[1]), x[1]) - divide((1.0 + x[0]) * math.log1p(x[0]), x[0]))
    peak = divide(log(divide(steps[1] * sizes[1], 3.0 * steps[0] * sizes[0])), steps[0] - steps[1])
    most = max(abs(gap(0.0)), abs(gap(max(peak, 0.0))), 2.0 / 3.0)
    return divide(gap(y), most), divide(rise, most)


def tobit(low: float, high: float, s: float, eta: float, y: float) -> tuple[float, ...]:
    """Score, slope, number of log σ, its slope, and slopes of both by log σ and η: Equation (62) of sums."""
    k, least, u = 1.345, CLIPPED, divide(y - eta, s)
    if low < y < high:
        inside = 1.0 if abs(u) < k else 0.0
        far = 0.0 if inside else math.copysign(1.0, -u)
        number = (min(u * u, k * k) - least) / (k * k - least)
        return -clipped(u / k, -1.0, 1.0), inside, number, inside * u * u / (k * k), far, -u * inside / k
    side, cut = (1.0, divide(low - eta, s)) if y <= low else (-1.0, divide(eta - high, s))
    inner, tail = clipped(cut, -k, k), normal(-k)
    below = normal(max(cut, -k))
    more = max(below - normal(inner), 0.0)
    mean = (k * (more - tail) + density(k) - density(inner)) / below
    square = (k * k * (more + tail) + normal(inner) - inner * density(inner) - tail - k * density(k)) / below
    hazard = density(cut) / below if cut > -k else 0.0
    steep, rise = hazard * (inner - mean), hazard * (inner * inner - square)
    first = -side * mean / k, steep, (square - least) / (k * k - least)
    return *first, 0.5 * cut * rise / (k * k), side * (cut * steep - mean) / k, -0.5 * side * rise / k


def normal(v: float) -> float:
    """Probability that a standard normal is below v."""
    return 0.5 * math.erfc(-v / math.sqrt(2.0)) if math.isfinite(v) else math.nan


def density(v: float) -> float:
    """Density of a standard normal."""
    return exp(-0.5 * v * v) / math.sqrt(2.0 * math.pi)


def number(family: int, a: float, b: float, c: float, eta: float, y: float) -> float:
    """Number in [0, 1] that a joint report carries; 0 of one who has nothing to tell.

    abs r ≤ c for scores of residuals; half the rise of a hinge's score from η − c to η + c; for others min(1, c/2).
    """
    if math.isnan(eta) or math.isnan(y):
        return 0.0
    if family in codes.RESIDUALS:
        return 1.0 if abs(y - eta) <= c else 0.0
    if family not in {codes.HINGE, codes.SMOOTHED_HINGE}:
        return clipped(0.5 * c, 0.0, 1.0)
    rise = 0.5 * (unit(family, a, b, 1.0, eta + c, y) - unit(family, a, b, 1.0, eta - c, y))
    return min(rise, 1.0) if rise > 0.0 else 0.0


def weighted(psi: float, z: Floats, weight: float | None = None) -> list[float]:
    """ψ z/‖z‖, of length at most 1; zeros where ψ or the row can't be used. `weight`, if given, stands for 1/‖z‖."""
    inverse = inverse_length(z) if weight is None else min(weight, inverse_length(z))
    if not math.isfinite(psi * inverse) or psi * inverse == 0.0:
        return [0.0] * len(z)
    factor = clipped(psi * inverse, -inverse, inverse)
    return [factor * v for v in z]


def classes(theta: Floats, z: Floats, y: float) -> list[float]:
    """Balanced multinomial score of classes k ≥ 1 times z/‖z‖: (π − e_y)/max_k ‖π − e_k‖ for each.

    `theta` and `z` have the shapes ((K − 1) d,) and (d,); `y` is the class, 0 to K − 1.
    """
    d = len(z)
    blocks = len(theta) // d
    nothing = [0.0] * len(theta)
    etas = [0.0, *(dot(z, theta[k * d : (k + 1) * d]) for k in range(blocks))]
    if any(math.isnan(e) for e in etas) or not (0.0 <= y <= blocks and y == math.floor(y)):
        return nothing
    top = max(etas)
    shares = [exp(e - top) for e in etas]
    total = 0.0
    for share in shares:
        total += share
    shares = [share / total for share in shares]
    squares = dot(shares[1:], shares[1:])
    lengths = [squares, *(squares + 1.0 - 2.0 * share for share in shares[1:])]
    scale = divide(inverse_length(z), math.sqrt(max(lengths)))
    residual = [scale * (share - (1.0 if y == k + 1 else 0.0)) for k, share in enumerate(shares[1:])]
    out = [r * v if r != 0.0 else 0.0 for r in residual for v in z]
    return out if all(map(math.isfinite, out)) else nothing


# --- covariates ----------------------------------------------------------------------------------------------


def direction(z: Floats) -> list[float]:
    """U = z/‖z‖; zeros unless its length comes out as 1, up to 2⁻³⁰ of its square."""
    inverse = inverse_length(z)
    u = [v * inverse for v in z] if inverse else [0.0] * len(z)
    return u if abs(dot(u, u) - 1.0) <= NEAR_ONE else [0.0] * len(z)


def outer(u: Floats) -> list[float]:
    """Lower triangle of u uᵀ, off-diagonal entries times √2."""
    root = math.sqrt(2.0)
    return [u[j] * u[m] * (root if m < j else 1.0) for j in range(len(u)) for m in range(j + 1)]


def means_and_squares(x: Floats, edges: Floats) -> list[float]:
    """Means and squares of columns in [−edge, edge], v = x/edge: (1 + v)/2 of each, then v² of each."""
    v = [clipped(divide(a, e), -1.0, 1.0) for a, e in zip(x, edges, strict=True)]
    return [half(0.5 + 0.5 * a) for a in v] + [half(a * a) for a in v]


def above(x: Floats, thresholds: Floats) -> list[float]:
    """Indicators of numbers above their thresholds: 1 or 0, or 1/2 of what is no number."""
    return [0.5 if math.isnan(a) else 1.0 if a > t else 0.0 for a, t in zip(x, thresholds, strict=True)]


def summed(vectors: Sequence[Floats], parts: Floats) -> list[float]:
    """Σ π v of vectors of one length, by their parts π, from the first to the last."""
    out = [0.0] * (len(vectors[0]) if vectors else 0)
    for v, part in zip(vectors, parts, strict=True):
        out = [a + part * b if part > 0.0 else a for a, b in zip(out, v, strict=True)]
    return out


def over_rows(rows: Floats, numbers: int, of: Callable[[Floats], list[float]]) -> list[float]:
    """Sum of what is made of rows of a triangle's width, one after the other in `rows`; empty if they don't fit."""
    width = (math.isqrt(8 * numbers + 1) - 1) // 2
    if not rows or len(rows) % max(width, 1) or width * (width + 1) // 2 != numbers:
        return []
    made = [of(rows[k : k + width]) for k in range(0, len(rows), width)]
    return summed(made, [1.0] * len(made))


def half(x: float) -> float:
    """The number, 1/2 of what is none."""
    return 0.5 if math.isnan(x) else x


# --- how well a state predicts -------------------------------------------------------------------------------


class Gauged(NamedTuple):
    """Public clipping constants of the fit-measure report."""

    family: int
    residual: float  # Bound of residuals, internal units
    spread: float  # Bound of responses about `centre`
    centre: float
    y_max: float  # Largest count
    silent: bool  # Nonresponse is told: a last number is 1 for a usable record, and all are 0 for others


def gauged(gauge: Gauged, etas: Floats, y: float) -> list[float]:
    """Measures of fit of a record's predictors, in [0, 1]; 1/2 of what is no number."""
    out = _measures(gauge, etas, y)
    if gauge.silent:
        usable = not any(math.isnan(v) for v in out)
        return [*(out if usable else [0.0] * len(out)), 1.0 if usable else 0.0]
    return [half(v) for v in out]


def _measures(gauge: Gauged, etas: Floats, y: float) -> list[float]:
    eta, family = etas[0], gauge.family
    if family in {codes.HUBER, codes.SQUARED}:
        r = clipped(divide(y - eta, gauge.residual), -1.0, 1.0)
        away = clipped(divide(y - gauge.centre, gauge.spread), -1.0, 1.0)
        return [r * r, away * away, 0.5 + 0.5 * away]
    if family in {codes.EXPECTILE, codes.QUANTILE}:
        return [math.nan if math.isnan(y - eta) else 1.0 if y < eta else 0.0]
    if family in codes.COUNTS:
        mean = exp(eta if eta < 700.0 else 700.0) if not math.isnan(eta) else math.nan
        best = y * log(max(y, 1e-300)) if y > 0.0 else 0.0
        deviance = 2.0 * (best - y * eta - (y - mean))
        rate = clipped(divide(mean, gauge.y_max), 0.0, 1.0)
        share = clipped(divide(y, gauge.y_max), 0.0, 1.0)
        return [clipped(deviance / (2.0 * CAP), 0.0, 1.0), share, rate + 0.0 * y]
    if family in {codes.HINGE, codes.SMOOTHED_HINGE}:
        margin = (2.0 * y - 1.0) * eta
        right = math.nan if math.isnan(margin) else 1.0 if margin > 0.0 else 0.0
        loss = 0.0 if margin >= 1.0 else 1.0 - margin
        return [clipped(loss / CAP, 0.0, 1.0), right]
    hazard = exp(clipped(eta, -700.0, 700.0))  # with log-odds log(e^hazard − 1)
    return _of_classes([hazard + log(-math.expm1(-hazard))] if family == codes.CLOGLOG else etas, y)


def _of_classes(etas: Floats, y: float) -> list[float]:
    full = [0.0, *etas]
    if any(math.isnan(e) for e in full) or not (0.0 <= y < len(full) and y == math.floor(y)):
        return [math.nan] * (len(full) + 1)
    top, k = max(full), int(y)
    total = 0.0
    for e in full:
        total += exp(e - top)
    loss = -(full[k] - top - log(total))
    right = 1.0 if full.index(top) == k else 0.0
    return [clipped(loss / CAP, 0.0, 1.0), right, *(1.0 if k == c else 0.0 for c in range(1, len(full)))]
