"""Maps that whiten covariates, learned from reports: of numbers, and of factors, whose moments are partly certain.

`rows` is always the lower triangular map W of the whitened covariates, shape (d, d), whose first row is (1, 0, …) if
there is a constant. Nobody has two levels of one factor, and the square of a column of two values is a linear function
of it: of a factor's noisy moments few can vary, the others are removed by projection, and shares of the levels follow
from the rest. Public numbers in, public out.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.special import gammaincinv, ndtri

from privreg.base.arrays import Array, Ints
from privreg.collector.levels import PRECISE, STRICT

LEAST_LEVEL: Final = 0.05  # Share of a level, relative to an even one, at least: noise may make it none, or less
RANK: Final = 1e-9  # Part of a column, relative to the largest, below which it adds nothing
DIGITS: Final = 9  # Digits by which a column's values are distinguished
EXACT: Final = 1e-6  # Rounding of degrees of freedom: two numbers of one variance have 2, not a bit more
SINGULAR: Final = 1e-9  # Part of their squares by which columns are distinguished that reports make one
_LATTICE = 2048
_FLAT = 1e-8
FARTHEST: Final = 5.0
"""Stretch of a column, at most, whatever reports say: of the two values that one takes, in the scores' coordinates;
relative to what its own factor's levels take; of numbers within ±1 for the first second moments of two collectors."""
WIDE: Final = 28.0
"""Width of a column's bounds, in learned sd, from which on it was stretched too far, by all appearances, and is drawn
in; if it still is, a note asks whether most people share one value. Skewed ones of `benchmarks.designs` reach 20, one
that is 0 for 85% has 34."""
LIMITS: Final = (0.15, 8.0)
"""Eigenvalues by which one round may shrink or stretch a direction: a wrong report must not flatten one for good."""


class Cells(NamedTuple):
    """Columns made of the same factors and of nothing else."""

    columns: NDArray[np.int64]  # Places of the columns in a row; shape (q,)
    values: Array  # Their values in each of the c combinations of levels, internal units; shape (c, q)
    factors: int  # Number of factors


class Certain(NamedTuple):
    """Linear space of the possible second moments of the leading coordinates."""

    leading: int  # Number of these coordinates
    # Orthonormal columns, over entries of a moment report: a lower triangle row by row, leading (leading + 1)/2
    basis: Array

    def project(self, entries: Array) -> Array:
        """Mean report, shape (d (d + 1) / 2,), with its leading entries projected on the space."""
        out = np.array(entries)
        here = slice(0, len(self.basis))  # a lower triangle row by row begins with the leading coordinates'
        out[here] = self.basis @ (self.basis.T @ entries[here])
        return out

    def left(self, m: int) -> Array:
        """Share of the noise variance of each of `m` entries that remains after `project`."""
        out = np.ones(m)
        out[: len(self.basis)] = np.sum(self.basis**2, axis=1)
        return out


def groups(sources: Sequence[Sequence[str]], levels: Mapping[str, Sequence[Any]], probe: Array) -> tuple[Cells, ...]:
    """Disjoint groups of columns by the factors they are made of, largest first; factors of one term are one group.

    `sources` are what each column is made from, `levels` those declared, and `probe`, shape (m, p), rows in internal
    units that show every combination of levels that meet in a term.
    """
    made_of = [frozenset(names) if names and all(n in levels for n in names) else None for names in sources]
    out: list[Cells] = []
    taken: frozenset[str] = frozenset()
    for factors in sorted({f for f in made_of if f is not None}, key=lambda f: (-len(f), sorted(f))):
        if factors & taken:
            continue
        columns = np.array([j for j, f in enumerate(made_of) if f is not None and f <= factors and np.ptp(probe[:, j])])
        values = np.unique(probe[:, columns], axis=0)
        many = math.prod(len(levels[f]) for f in factors)
        # fewer, if the coding doesn't tell combinations apart, or there were too many to show
        if len(values) == many == np.linalg.matrix_rank(np.column_stack([np.ones(len(values)), values])):
            out.append(Cells(columns, values, len(factors)))
            taken |= factors
    return tuple(out)


def certain(some: Sequence[Cells], rows: Array) -> Certain:
    """Space of the mean of moment reports that are made at `rows`; for equation (9) of docs/estimator.md.

    Places of `some` are as in v, whose first coordinate is 1. `rows`, shape (d, d), is W, lower triangular: the leading
    coordinates of W v depend on those of v alone.
    """
    leading = 1 + max(int(g.columns.max()) for g in some)
    w, group = rows[:leading, :leading], np.full(leading, -1)
    for number, g in enumerate(some):
        group[g.columns] = number
    a, b = np.tril_indices(leading)
    free = ((group[a] != group[b]) & (b > 0)) | ((group[a] < 0) & (a > 0))
    j, k = a[free], b[free]
    columns = [w[a][:, j] * w[b][:, k] + w[b][:, j] * w[a][:, k]]
    first = (1 - len(some)) * w[a, 0] * w[b, 0]  # the constant's square is the same in all groups
    for g in some:
        v = np.zeros((len(g.values), leading))
        v[:, 0], v[:, g.columns] = 1.0, g.values
        products = (v @ w.T)[:, a] * (v @ w.T)[:, b]
        columns.append((products[1:] - products[0]).T)
        first = first + products[0]
    span = np.where(a == b, 1.0, math.sqrt(2.0))[:, None] * np.column_stack([*columns, first])
    basis, triangle, _ = qr(span / np.linalg.norm(span, axis=0), mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diag(triangle))
    return Certain(leading, np.ascontiguousarray(basis[:, size > RANK * size[0]]))


def keep(part: Array, noise2: Array) -> float:
    """Part to keep of noisy numbers, noise variances `noise2`, by James–Stein: equation (7) of docs/estimator.md.

    Degrees of freedom are the sum of the variances over the largest.
    """
    total = float(np.sum(noise2))
    free = total / float(np.max(noise2)) if total > 0.0 else 0.0
    margin = 1.0 + STRICT * math.sqrt(2.0 / free) if free > 2.0 + EXACT else 1.0
    size = float(np.sum(part**2))
    return max(0.0, 1.0 - total * margin / size) if size > 0.0 else 0.0


class Shares(NamedTuple):
    """Estimated share of the people in each cell, all groups one after the other; c cells in all."""

    reported: Array  # Mean of the reports, not always between 0 and 1; shape (c,)
    variance: Array  # Variance of that mean, by noise and by sampling; shape (c,)
    people: float  # Number of people in it


def unknown(some: Sequence[Cells]) -> Shares:
    """Equal shares, before anybody has reported."""
    equal = np.concatenate([np.zeros(0), *(np.full(len(g.values), 1.0 / len(g.values)) for g in some)])
    return Shares(equal, np.zeros_like(equal), 0.0)


def shrunk(some: Sequence[Cells], shares: Shares) -> list[Array]:
    """Shares of each group's cells, shrunk toward equal ones; positive, sum 1. Equation (9) of docs/estimator.md."""
    out, ends = list[Array](), np.cumsum([len(g.values) for g in some])[:-1]
    parts = np.split(shares.reported, ends), np.split(shares.variance, ends)
    for g, reported, variance in zip(some, *parts, strict=False):
        even = 1.0 / len(g.values)
        deviation = reported - even
        p = np.clip(even + keep(deviation, variance) * deviation, LEAST_LEVEL * even, 1.0)
        out.append(p / p.sum())
    return out


def unsure(shares: Array, variance: Array) -> bool:
    """True if the share of any level is below `PRECISE` standard errors; both arguments of all groups, shape (c,)."""
    return bool((shares < PRECISE * np.sqrt(variance)).any())


def update(
    some: Sequence[Cells], shares: Shares, space: Certain, entries: Array, people: float, sd: float, rows: Array
) -> Shares:
    """Shares with the mean of a round's reports added, made at `rows`, (d, d): equation (9) of docs/estimator.md.

    E 1{cell}/‖z‖² is linear in the report's first column, E z_j z₀/‖z‖². That it is a share over a squared length is
    allowed for by stand-ins. `space` is where the mean can lie, and `entries`, shape (d (d + 1) / 2,), is it,
    projected. `sd` is the noise sd per number of a report.
    """
    leading, d = space.leading, len(rows)
    first = np.arange(1, leading + 1).cumsum() - np.arange(1, leading + 1)  # places of column 0 in a lower triangle
    once = np.where(first == 0, 1.0, 1.0 / math.sqrt(2.0))
    back = np.linalg.inv(rows[:leading, :leading])
    joint, spread = back @ (once * entries[first]), back @ (once[:, None] * space.basis[first])  # E 1/‖z‖² with columns
    points, cells = stand_ins(some, shrunk(some, shares), rows, np.ones(d), np.full(d, np.nan), constant=True)
    inverse = 1.0 / (np.einsum("ij,ij->i", points[:, 1:], points[:, 1:]) + rows[0, 0] ** 2)
    new, variance = [], []
    for k, g in enumerate(some):
        some_of = np.linalg.pinv(np.column_stack([np.ones(len(g.values)), g.values]).T)
        places = np.concatenate([[0], g.columns])
        count = np.bincount(cells[k], minlength=len(g.values))
        length = np.bincount(cells[k], inverse, len(g.values)) / np.maximum(count, 1)
        length = np.where(count > 0, length, inverse.mean())
        share = some_of @ joint[places] / length
        noise = np.sum((some_of @ spread[places]) ** 2, axis=1) / length**2
        whole = max(float(share.sum()), 0.5)  # 1, but for what stand-ins get wrong
        new.append(share / whole)
        drawn = np.abs(new[-1] * (1.0 - new[-1]))  # who happened to be asked
        variance.append((noise * (sd / whole) ** 2 + drawn) / people)
    weight = shares.people + people
    a, b = shares.people / weight, people / weight
    variances = a**2 * shares.variance + b**2 * np.concatenate(variance)
    return Shares(a * shares.reported + b * np.concatenate(new), variances, weight)


def whiten(some: Sequence[Cells], shares: Sequence[Array], rows: Array) -> Array:
    """Row map, (d, d), that whitens each group by its shares, else is `rows`: equation (9) of docs/estimator.md."""
    inverse = np.linalg.inv(rows)  # second moments are its square, whose roots are found without squaring
    mean, root = np.array(inverse[1:, 0], dtype=np.float64), np.array(inverse[1:, 1:], dtype=np.float64)
    for g, p in zip(some, shares, strict=True):
        k = g.columns - 1
        spread = _root((g.values - p @ g.values).T * np.sqrt(p))
        root[k] = spread @ np.linalg.solve(_root(root[k]), root[k])
        mean[k] = p @ g.values
    out = np.eye(len(rows))
    out[1:, 1:] = np.linalg.inv(_root(root))
    out[1:, 0] = -out[1:, 1:] @ mean
    out *= np.minimum(1.0, _longest(some, shares, len(rows)) / np.diag(out))[:, None]
    return np.tril(out)


def tied(some: Sequence[Cells], shares: Sequence[Array], rows: Array) -> NDArray[np.bool_]:
    """True for columns at `_longest`, shape (d,): their levels nearly coincide with those of earlier factors."""
    return np.asarray(np.diag(rows) > (1.0 - RANK) * _longest(some, shares, len(rows)))


def _longest(some: Sequence[Cells], shares: Sequence[Array], d: int) -> Array:
    """Largest diagonal of a row map, shape (d,): `FARTHEST` times the stretch that its factor's levels need.

    Where most people have one level of a second factor with one of a first, no map makes directions even: every round
    would stretch what is left of the column further, without end.
    """
    out = np.full(d, np.inf)
    for g, p in zip(some, shares, strict=True):
        out[g.columns] = FARTHEST / np.diag(_root((g.values - p @ g.values).T * np.sqrt(p)))
    return out


def _root(factor: Array) -> Array:
    """Lower triangular L with L Lᵀ = F Fᵀ and a positive diagonal, of F with at least as many columns as rows."""
    _, upper = np.linalg.qr(factor.T)
    return np.asarray(upper.T * np.where(np.diag(upper) < 0.0, -1.0, 1.0))


def rarer(some: Sequence[Cells], shares: Sequence[Array], d: int) -> Array:
    """Share of people with the rarest value of a column, shape (d,).

    NaN for those not made of factors alone, and for those of several factors that take more than two values.
    """
    out = np.full(d, np.nan)
    for g, p in zip(some, shares, strict=True):
        for j, values in zip(g.columns, g.values.T, strict=True):
            _, which = np.unique(values.round(DIGITS), return_inverse=True)
            held = np.bincount(which, p)
            if len(held) == 2 or g.factors == 1:
                out[j] = float(held.min())
    return out


def stand_ins(
    some: Sequence[Cells], shares: Sequence[Array], rows: Array, size: Array, two: Array, *, constant: bool
) -> tuple[Array, list[NDArray[np.int64]]]:
    """Points that stand for people, whitened coordinates, (2048, d): levels by their shares, all else normal.

    Of exact mean and covariance. Beside them are the cells they are in, by groups, each of shape (2048,). Columns of
    `some` come first, after the constant, if z begins with one; `shares` are theirs. `rows`, shape (d, d), is the row
    map, lower triangular, and `size`, shape (d,), the root mean square that each coordinate is to have. `two`, shape
    (d,), is of another column that takes two values the rarer one's share; NaN for others.
    """
    d, first = len(rows), int(constant)
    even = even_points(d - first)
    z, cells = np.asarray(ndtri(even)), []
    v = np.ones((len(even), first + sum(len(g.columns) for g in some)))
    for g, p in zip(some, shares, strict=True):
        cells.append(np.minimum(np.searchsorted(np.cumsum(p), even[:, g.columns[0] - first]), len(p) - 1))
        v[:, g.columns] = g.values[cells[-1]]
    leading = v.shape[1]
    for j in range(leading, d):
        if two[j] > 0.0:
            z[:, j - first] = even[:, j - first] < two[j]
    z[:, : leading - first] = (v @ rows[:leading, :leading].T)[:, first:] / size[first:leading]
    return np.column_stack([np.ones((len(z), first)), made_white(z, centred=constant)]) * size, cells


def inside(theta: Array, rows: Array) -> Array:
    """Coefficients of the covariates before the map, shape (m, d), from those after it."""
    if len(rows) == theta.shape[1]:
        return np.asarray(theta @ rows)
    out = theta * rows[0]
    out[:, 0] += theta @ rows[1]
    return np.asarray(out)


def covariance(rows: Array, constant: bool) -> Array:
    """Covariance of the covariates, internal units, that `rows` whitens; the constant left out."""
    first = int(constant)
    inverse = np.linalg.inv(rows)[first:, first:]
    return np.asarray(inverse @ inverse.T)


def correlation(rows: Array, constant: bool) -> Array:
    """Correlation matrix of the covariates that `rows` whitens; the constant left out."""
    cov = covariance(rows, constant)
    lost = np.diag(cov) == 0.0  # in rounding, beside a centre far away
    cov[lost, lost] = 1.0
    size = np.sqrt(np.diag(cov))
    return np.asarray(cov / np.outer(size, size))


def scaled(rows: Array, constant: bool) -> Array:
    """Map that centres and scales the covariates by what `rows` has learned, and leaves them correlated."""
    size, first = np.sqrt(np.diag(covariance(rows, constant))), int(constant)
    out = np.diag(np.append(np.ones(first), 1.0 / size))
    if first:
        out[1:, 0] = -np.linalg.inv(rows)[1:, 0] / size
    return out


def without_constant(rows: Array, d: int) -> Array:
    """Map of a design without a constant, shape (d, d) or larger, from one learned beside a constant that was added.

    It makes the second moments of x, about 0, the identity; the response's row loses its constant.
    """
    inverse, out = np.linalg.inv(rows[: d + 1, : d + 1]), np.array(rows[1:, 1:])
    second = inverse[1:] @ inverse[1:].T
    try:
        low: Array = np.asarray(np.linalg.cholesky(second))
    except np.linalg.LinAlgError:  # noise alone made columns go together, to all digits
        low = np.asarray(np.linalg.cholesky(second + SINGULAR * np.diag(np.diag(second))))
    out[:d, :d] = np.tril(np.linalg.inv(low))
    return out


def bring_in(rows: Array, gaps: Sequence[float], constant: bool, constant2: float = 1.0) -> tuple[Array, Array]:
    """Undo part of the stretch of rare values, which whitening would send far out, where scores are flat.

    `gaps` are distances between the two values of two-valued columns before the map; 0 for other columns. `constant2`
    is the square of the constant in the last reports on moments, see `moments.asked`. Returns the map, shape (d, d) or
    larger, and the share of people with each rarer value, shape (d,), NaN for other columns.
    """
    d = len(gaps)
    out, shares = np.array(rows), np.full(d, np.nan)
    for j, gap in enumerate(gaps):
        if gap > 0.0:
            stretched = float(rows[j, j]) * gap
            shares[j] = two_point_share(stretched, d, constant, constant2)
            out[j] *= min(1.0, FARTHEST / stretched)
    return out, shares


@lru_cache(maxsize=64)
def _chi2(df: int, points: int) -> Array:
    """Equally likely values of χ² with `df` degrees of freedom, to be read only; one zero if there are none."""
    even = (np.arange(points) + 0.5) / points
    out = np.asarray(2.0 * gammaincinv(df / 2.0, even)) if df else np.zeros(1)
    out.setflags(write=False)
    return out


@lru_cache(maxsize=256)
def moment_diagonal(d: int, constant: bool, constant2: float = 1.0) -> Array:
    """Diagonal of E u uᵀ, u = z/‖z‖, which has no other entries: equation (4) of docs/estimator.md; shape (d,).

    With a constant z₀² is `constant2`; else every coordinate is normal. To be read only.

    Examples
    --------
    >>> moment_diagonal(4, False).round(6)
    array([0.25, 0.25, 0.25, 0.25])
    """
    slopes, out = d - int(constant), np.ones(d)
    if slopes:
        square = _chi2(slopes, 20_000)
        norm2 = square + (constant2 if constant else 0.0)
        out[:] = float(np.mean(square / norm2)) / slopes
        if constant:
            out[0] = float(np.mean(constant2 / norm2))
    out.setflags(write=False)
    return out


@lru_cache(maxsize=256)
def two_point_share(gap: float, d: int, constant: bool, constant2: float = 1.0) -> float:
    """Share π ≤ ½ of people with the rarer value of a two-valued column, from its stretch by whitening.

    `gap` is the distance of its two values after whitening, (1 − π) `gap` and −π `gap`, at whose fixed point E u_j² is
    that of a normal coordinate of the `d` of z; with a constant z₀² is `constant2`.
    """
    wanted = float(moment_diagonal(d, constant, constant2)[-1])
    rest = (constant2 if constant else 0.0) + _chi2(d - 1 - int(constant), 2_000)

    def square(share: float) -> float:
        """E z_j²/‖z‖²."""
        out = 0.0
        for weight, z in ((share, (1.0 - share) * gap), (1.0 - share, share * gap)):
            out += weight * float(np.mean(z**2 / np.maximum(z**2 + rest, 1e-300)))
        return out

    low, high = 1e-6, 0.5
    if square(high) <= wanted:
        return high
    for _ in range(50):  # it grows with the share
        middle = math.sqrt(low * high)
        low, high = (low, middle) if square(middle) > wanted else (middle, high)
    return high


@lru_cache(maxsize=8)
def even_points(axes: int) -> Array:
    """Points spread evenly over the unit cube, shape (2048, `axes`); to be read only."""
    # Kronecker's sequence by powers of the generalised golden ratio: even in every dimension
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (axes + 1.0))
    out = np.asarray((0.5 + np.arange(1, _LATTICE + 1)[:, None] * ratio ** -np.arange(1.0, axes + 1.0)) % 1.0)
    out.setflags(write=False)
    return out


def made_white(z: Array, *, centred: bool = True) -> Array:
    """Points of exact mean, if `centred`, and second moments, short where they hardly lie; triangular map, (m, k)."""
    if not z.shape[1]:
        return z
    z = z - z.mean(axis=0) if centred else z
    z = z / np.maximum(np.sqrt(np.mean(z**2, axis=0)), 1e-300)
    moments = z.T @ z / len(z)
    values, vectors = np.linalg.eigh(moments)
    if values[0] < _FLAT:
        moments = (vectors * np.maximum(values, _FLAT)) @ vectors.T
    return np.asarray(z @ np.linalg.inv(np.linalg.cholesky(moments)).T)


@cache
def triangle(size: int) -> tuple[Ints, Ints]:
    """Rows and columns of a lower triangle, as `numpy.tril_indices`, which makes them anew for each of many reports."""
    row, col = np.tril_indices(size)
    row.flags.writeable = col.flags.writeable = False
    return row, col
