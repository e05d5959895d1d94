"""Designs of many coefficients: from how many on, and what people then report in place of second moments.

Second moments are d (d + 1)/2 numbers a person, whose noise drowns them long before they become slow. Above `WIDE`
coefficients people report two numbers a column, for its mean and its square; correlations are not learned, so the row
map is a scale and a shift for each column. Public numbers in, public numbers out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector.covariates.points import FARTHEST
from privreg.collector.covariates.points import WIDE as WIDE_BOUNDS
from privreg.collector.levels import STRICT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.arrays import Array

FULLEST: Final = 4000
"""Coefficients for which a whole matrix is kept, at most: 8 p² bytes each, 32 MB at 2,000 and 128 MB here."""

WIDE: Final = 100  # Coefficients up to which correlations are learned, and random scaling keeps the whole matrix


class Wide(NamedTuple):
    """What is public about the columns of a wide design, internal units."""

    # Those whose means are reported: neither the constant nor of two values nor of a private scale; shape (k,)
    columns: NDArray[np.int64]
    edges: Array  # How far a column reaches over the public box; shape (d,)
    # Of a column that takes two values, the rarer one's share over the public box, in which levels are equally
    # frequent; NaN for others; shape (d,)
    shares: Array
    gaps: Array  # How far apart those values are; shape (d,)


def is_wide(d: int, *, label: bool) -> bool:
    """Whether a staged fit of so many columns learns no correlations; public covariates tell them without noise."""
    return d > WIDE and not label


class Map(NamedTuple):
    """A linear map to the user's coefficients that mixes into one of them only."""

    places: NDArray[np.int64]  # Of the coefficients inside, those outside that they stand for; shape (d,)
    own: Array  # By how much each moves its own; shape (d,)
    row: Array  # By how much each moves the one outside that stands at ``places[0]``; shape (d,)

    def __call__(self, moves: Array) -> Array:
        """Moves of the coefficients outside, shape (m, d)."""
        out = np.empty_like(moves)
        out[:, self.places] = moves * self.own
        out[:, self.places[0]] = moves @ self.row
        return out


def mapped(linear: Array) -> Map | None:
    """The map as one that mixes into one coefficient only, in whatever order; None if it is none, or not wide."""
    d = len(linear)
    if d <= WIDE:
        return None
    at = places(linear)
    others = np.count_nonzero(linear) - np.count_nonzero(linear[at[0]])
    if others != d - 1 or len(np.unique(at)) < d:
        return None
    return Map(at, linear[at, np.arange(d)], linear[at[0]].copy())


def is_diagonal(linear: Array) -> bool:
    """Whether the map to a wide design's coefficients, shape (d, d), mixes them in its first row only.

    Then the diagonal of random scaling is known from sums of the d paths and of the intercept's.
    """
    off = linear[1:] * (1.0 - np.eye(*linear.shape)[1:])
    return len(linear) > WIDE and not off.any()


def places(linear: Array) -> NDArray[np.int64]:
    """Of the coefficients inside, those outside that they stand for; `linear` mixes into that of the first only."""
    off = np.array(linear)
    first = int(np.flatnonzero(linear[:, 0])[0])
    off[first] = 0.0
    off[first, 0] = 1.0
    return np.asarray(np.argmax(off != 0.0, axis=0))


def public(probe: Array, gaps: Array, unscaled: tuple[int, ...], constant: bool) -> Wide:
    """From rows over the public box, internal units, shape (m, d)."""
    low, high = probe.min(axis=0), probe.max(axis=0)
    middle = (low + high) / 2.0
    above = (probe > middle).mean(axis=0)
    held = (gaps == 0.0) & (high > low)
    held[[j for j in unscaled if j < len(gaps)]] = False
    if constant:
        held[0] = False
    shares = np.where(gaps > 0.0, np.minimum(above, 1.0 - above), np.nan)
    return Wide(np.flatnonzero(held), np.maximum(np.maximum(abs(low), abs(high)), 1e-300), shares, gaps)


def numbers(wide: Wide, x: Array) -> Array:
    """What people tell of their columns, `x` of shape (n, k), u within [−1, 1] of the edges: (1 + u)/2 and u² of each.

    Number by number, so that the way rows are cut can't change a bit; NaN where there is nothing to tell.
    """
    k = len(wide.columns)
    out = np.empty((len(x), 2 * k))
    u = np.clip(x / wide.edges[wide.columns], -1.0, 1.0)
    out[:, :k] = 0.5 + 0.5 * u
    out[:, k:] = u * u
    return out


def start(wide: Wide, places: Array) -> Array:
    """Row map before anything is reported, shape (2, d): `places` are those of columns that were located, else 1, 0."""
    rows = np.array(places)
    two = wide.gaps > 0.0
    share = np.where(two, wide.shares, 0.5)
    stretch = np.minimum(1.0 / np.sqrt(np.maximum(share * (1.0 - share), 1e-12)), FARTHEST)
    rows[0] = np.where(two, stretch / np.where(two, wide.gaps, 1.0), rows[0])
    rows[0, wide.columns] = 1.0 / wide.edges[wide.columns]
    return rows


def learn(wide: Wide, rows: Array, total: Array, people: float, sd: float, constant: bool) -> Array:
    """Row map from the sum of the reports of so many people, whose noise sd is `sd` per number; shape (2, d).

    Means are shrunk toward the public middle and variances toward their common mean by as much as noise could have
    made of them (James–Stein, positive part); no column is taken for narrower than where bounds count as wide.
    """
    k = len(wide.columns)
    if not k:
        return rows
    noise2, least = (sd**2 + 0.1) / people, (2.0 / WIDE_BOUNDS) ** 2
    means, kept = np.zeros(k), 0.0
    if constant:
        means = 2.0 * total[:k] / people - 1.0
        kept = _kept(means, 4.0 * noise2)
    squares = total[k:] / people - means**2 + (4.0 * noise2 if constant else 0.0)
    common = min(max(float(squares.mean()), least), 1.0)
    deviation = squares - common
    error2 = noise2 + 2.0 * (4.0 * noise2) ** 2  # of a square, and of the mean's that is taken off
    variances = common + _kept(deviation, error2) * deviation
    scale = np.sqrt(np.clip(variances, least, 1.0))
    out = np.array(rows)
    out[0, wide.columns] = 1.0 / (wide.edges[wide.columns] * scale)
    out[1, wide.columns] = -kept * means / scale
    return out


def centre_errors(wide: Wide, rows: Array, people: int, sd: float) -> float:
    """Squared errors of the learned means, in learned sd, summed: 0 where all are taken to be the middles.

    Errors of all of them act together, between the constant and one direction of the others.
    """
    if not people or not rows[1, wide.columns].any():
        return 0.0
    noise2 = (sd**2 + 0.1) / people
    return float(4.0 * noise2 * np.sum((rows[0, wide.columns] * wide.edges[wide.columns]) ** 2))


def _kept(part: Array, noise2: float) -> float:
    """Share of numbers, each with noise of this variance, that is believed."""
    size = float(part @ part)
    wanted = len(part) * noise2 * (1.0 + STRICT * math.sqrt(2.0 / len(part)))
    return max(0.0, 1.0 - wanted / size) if size > 0.0 else 0.0
