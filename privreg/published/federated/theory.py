"""Vectors as a magnitude and angles, and fixed boxes that bound the distance of two vectors' angles.

A vector of d ≥ 2 numbers is r and d − 1 angles: x_z = r sin θ_1 ⋯ sin θ_{z−1} cos θ_z, x_d = r sin θ_1 ⋯ sin θ_{d−1}.
The first d − 2 angles are in [0, π], the last in (−π, π].
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privreg.base.arrays import Array
from privreg.errors import OptionError, real, shown


def angle_sensitivity(size: int, beta: float) -> float:
    """Largest ℓ2 distance of the angles of two vectors of `size` numbers with angles in one box of factor `beta`.

    The box's diagonal: d − 2 edges of length βπ and one of 2βπ, √(d + 2) βπ. It does not fall with the number of
    records behind a vector: replacing one of many can turn a short mean into any direction.
    """
    return math.sqrt(size + 2.0) * beta * math.pi


def to_angles(vectors: ArrayLike) -> tuple[Array, Array]:
    """Magnitudes, shape (...), and angles, radians, shape (..., d − 1), of finite vectors, shape (..., d), d ≥ 2.

    Angles that a vector leaves open (those of a zero vector, say) are 0.

    Examples
    --------
    >>> magnitude, angles = to_angles([3.0, 0.0, 4.0])
    >>> float(magnitude), angles.round(3).tolist()
    (5.0, [0.927, 1.571])
    """
    x = np.asarray(vectors, dtype=np.float64)
    tails = np.hypot.accumulate(np.abs(x[..., ::-1]), axis=-1)[..., ::-1]  # lengths of what follows, no overflow
    angles = np.arctan2(tails[..., 1:], x[..., :-1])
    angles[..., -1] = np.arctan2(x[..., -1], x[..., -2])
    return tails[..., 0], angles


def from_angles(magnitude: ArrayLike, angles: ArrayLike) -> Array:
    """Vectors from magnitudes (a negative one turns the vector round) and any angles; inverts :func:`to_angles`."""
    a, r = np.asarray(angles, dtype=np.float64), np.asarray(magnitude, dtype=np.float64)[..., None]
    sines = np.cumprod(np.sin(a), axis=-1)
    ones = np.ones_like(a[..., :1])
    return np.asarray(r * np.concatenate([ones, sines], axis=-1) * np.concatenate([np.cos(a), ones], axis=-1))


def attenuation(size: int, sd: float) -> Array:
    """Log of the factor by which angle noise of this sd shrinks the mean of each coordinate, shape (d,).

    −z sd²/2 for coordinate z, as E cos(θ + n) = e^{−sd²/2} cos θ and so for sines; the last two share a factor.
    """
    return np.asarray(-0.5 * sd * sd * np.minimum(np.arange(1.0, size + 1.0), size - 1.0))


@dataclass(frozen=True)
class AngleBox:
    """Box to which a vector's angles are clipped before noise is added: fixed in advance, whatever the data.

    The first d − 2 angles are within βπ/2 of π/2, the last within βπ of 0; β = 1 clips nothing. In section V of Duan,
    Hu, Ye & Sun, arXiv 2504.05618, the region follows the gradient, which costs δ′; a fixed box costs none.
    """

    size: int  # Numbers d of a vector, 2 or more
    beta: float = 1.0  # Bounding factor β in (0, 1]

    def __post_init__(self) -> None:
        if not 0.0 < (real(self.beta) or 0.0) <= 1.0:
            raise OptionError(f"beta={shown(self.beta)} must be in (0, 1]; 1 leaves every direction as it is.")
        if self.size < 2:
            raise OptionError(
                f"a direction needs 2 coefficients or more, got {self.size}; use mechanism='gaussian' or 'privunit'."
            )

    @property
    def centre(self) -> Array:
        """Middle of the box, shape (d − 1,); also the angles that a zero vector is given."""
        return np.append(np.full(self.size - 2, 0.5 * math.pi), 0.0)

    @property
    def half(self) -> Array:
        """Half lengths of its edges, shape (d − 1,)."""
        return self.beta * math.pi * np.append(np.full(self.size - 2, 0.5), 1.0)

    def clip(self, angles: Array) -> Array:
        """Angles moved into the box, shape (..., d − 1)."""
        return np.clip(angles, self.centre - self.half, self.centre + self.half)
