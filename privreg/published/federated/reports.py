"""Randomisation of a silo's update before it leaves: noise scales, exact moments of reports.

An update is a vector of ℓ2 norm at most `clip`. Neighbours replace a silo's records as a whole, so two updates have a
distance of up to 2·clip; their angles as far as their box reaches, their lengths up to `clip`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import OptionError
from privreg.options.table import check
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism, Randomiser, randomised
from privreg.privacy.scalar import NumberMechanism, number_mechanism, share
from privreg.published.federated.theory import AngleBox, attenuation, from_angles, magnitude_sensitivity, to_angles

UPDATE_MECHANISMS: Final = ("gaussian", "privunit", "laplace", "piecewise", "geodp", "ldpvec")
GEOMETRIC: Final = frozenset({"geodp", "ldpvec"})
MOST_COORDINATES: Final = 64  # Largest number of coordinates that a report of "piecewise" is tried with
MOST_UNDONE: Final = 30.0
"""Largest log of a factor by which a coordinate is blown up to undo what angle noise does to its mean."""


@dataclass(frozen=True)
class UpdateMechanism(Randomiser):
    """Randomiser of one update of one silo, by a name of `UPDATE_MECHANISMS`. Made by :func:`update_mechanism`.

    Notes
    -----
    "gaussian", "privunit", "laplace": as `privacy.mechanisms.Mechanism`. "piecewise": so many coordinates, each by the
    Piecewise mechanism on [−clip, clip] with its part of the budget, times d over their number. "geodp": the magnitude
    with noise of sd clip/μ_mag and the angles, in a fixed box, with noise of sd √(d + 2)βπ/μ_dir each; μ² = μ_mag² +
    μ_dir². "ldpvec": the angles alone, the magnitude being `clip` for everybody.

    References
    ----------
    Duan, Hu, Ye & Sun, arXiv 2504.05618, for GeoDP, with these corrections: no 1/B in the noise of angles, a box that
    doesn't depend on the data, and costs of magnitude and direction that add up. Duan (2025), PhD thesis, for LDPVec,
    whose raw magnitude and unclipped angles have no guarantee. Wang et al. (2019), section IV, for Piecewise.
    """

    TITLES: ClassVar = {
        "gaussian": "Gaussian",
        "privunit": "PrivUnit",
        "laplace": "Laplace",
        "piecewise": "Piecewise, coordinate by coordinate",
        "geodp": "GeoDP in its corrected form",
        "ldpvec": "LDPVec in its corrected form",
    }

    # `budget` is that of one report of a silo
    size: int  # Numbers d in an update
    clip: float  # Largest ℓ2 norm of an update, internal units
    beta: float = 1.0  # Bounding factor of the angles' box; for "geodp" and "ldpvec"
    magnitude_share: float = 0.0  # Share of μ² spent on the magnitude; 0 for "ldpvec", whose magnitude is public
    debias: bool = True  # True if the shrinkage by angle noise is undone, as far as the box allows
    coordinates: int = 0  # Coordinates in a report of "piecewise", drawn without looking at the data

    # --- what is public about it -------------------------------------------------------------------------

    @property
    def geometric(self) -> bool:
        """True if it randomises a direction."""
        return self.name in GEOMETRIC

    @property
    def unbiased(self) -> bool:
        """True if a report's mean is the update, whatever the update."""
        return not self.geometric or not self.budget.private

    @property
    def width(self) -> int:
        """Standard normals that a report takes."""
        if self.name == "piecewise":  # which coordinates, then the Piecewise mechanism's
            return self.size + 2 * self.coordinates
        return self.size if self.geometric else self.whole.width(self.size)

    @property
    def whole(self) -> Mechanism:
        """The core's mechanism for reports that go as a whole."""
        return Mechanism(self.name, self.budget)

    @property
    def radius(self) -> float:
        """Radius by which the core's mechanism randomises, half the sensitivity: the clip."""
        return self.whole.score_radius(self.clip)

    @property
    def number(self) -> NumberMechanism:
        """The mechanism of one coordinate of "piecewise"."""
        return number_mechanism("piecewise", share(self.budget, self.coordinates), -self.clip, self.clip)

    @property
    def box(self) -> AngleBox:
        """Box to which angles are clipped."""
        return AngleBox(self.size, self.beta)

    @property
    def angle_sd(self) -> float:
        """Noise sd of each angle, radians: sensitivity over the direction's part of μ."""
        return self.box.sensitivity / (math.sqrt(1.0 - self.magnitude_share) * self.budget.mu)

    @property
    def magnitude_sd(self) -> float:
        """Noise sd of the magnitude; 0 if it is public and not sent."""
        if self.magnitude_share == 0.0:
            return 0.0
        return magnitude_sensitivity(self.clip) / (math.sqrt(self.magnitude_share) * self.budget.mu)

    def words(self) -> str:
        """Noise of an update, in words for the privacy block."""
        if not self.budget.private:
            return "no noise"
        if self.name == "piecewise":
            return f"{self.coordinates} of {self.size} coordinates, each {self.number.words()}"
        if not self.geometric:
            return self.whole.words(self.radius, self.size)
        public, undone = self.magnitude_share == 0.0, "shrinkage undone" if self.debias else "shrinkage left as it is"
        sent = "the public magnitude, the clip," if public else f"magnitude noise sd {self.magnitude_sd:.4g}"
        return f"{sent} and angle noise sd {self.angle_sd:.4g} = sqrt(d + 2) × beta × pi / mu_dir; {undone}"

    # --- the report --------------------------------------------------------------------------------------

    def randomise(self, update: Array, normals: Array) -> Array:
        """Randomise an update of norm at most `clip`, finite: the only thing that leaves a silo; shapes (d,).

        `normals`, shape (width,), are drawn for this report and never used again.
        """
        if not self.budget.private:
            return update.copy()
        if self.geometric:
            return self.vector(*self.release(update, normals))
        if self.name == "piecewise":
            some = np.argsort(normals[: self.size])[: self.coordinates]
            out = np.zeros(self.size)
            drawn = normals[self.size :].reshape(self.coordinates, 2)
            out[some] = self.number.randomise(update[some], drawn) * (self.size / self.coordinates)
            return out
        return np.asarray(randomised(self.whole.channel(self.size), update[None], self.radius, normals[None])[0])

    def release(self, update: Array, normals: Array) -> tuple[Array, Array]:
        """Noised magnitude, shape (...), and angles, shape (..., d − 1), of a geometric mechanism, of normals of shape
        (..., width). Its report is computed from these alone.
        """
        length, inside = self._inside(update)
        return length + self.magnitude_sd * normals[..., 0], inside + self.angle_sd * normals[..., 1:]

    def _inside(self, update: Array) -> tuple[float, Array]:
        """Length that a report uses, and an update's angles within the box; a zero update has those of the centre."""
        length, angles = to_angles(update)
        inside = self.box.clip(angles) if length > 0.0 else self.box.centre
        return float(length) if self.magnitude_share else self.clip, inside

    def vector(self, magnitude: Array, angles: Array) -> Array:
        """Reports from released magnitudes and angles, shape (..., d)."""
        return from_angles(magnitude, angles) * self._factors

    @property
    def _factors(self) -> Array:
        return np.exp(-attenuation(self.size, self.angle_sd)) if self.debias else np.ones(self.size)

    # --- its exact moments -------------------------------------------------------------------------------

    def mean(self, update: Array) -> Array:
        """Exact mean of a report of `update`, shape (d,)."""
        if self.unbiased:
            return update.copy()
        r, inside = self._inside(update)
        factors = np.exp(attenuation(self.size, self.angle_sd)) * self._factors
        return r * from_angles(1.0, inside) * factors

    def moments(self, update: Array) -> tuple[Array, Array]:
        """Exact mean and variance of each coordinate of a report of `update`, shapes (d,)."""
        mean = self.mean(update)
        if not self.budget.private:
            return mean, np.zeros(self.size)
        if self.name == "piecewise":
            times = self.size / self.coordinates
            return mean, times * (self.number.variance(update) + update**2) - update**2
        if not self.geometric:
            return mean, np.diag(self.whole.covariance(update[None], self.radius)).copy()
        r, inside = self._inside(update)
        lost = math.exp(-2.0 * self.angle_sd**2)
        cosines, sines = 0.5 * (1.0 + lost * np.cos(2.0 * inside)), 0.5 * (1.0 - lost * np.cos(2.0 * inside))
        squares = np.append(1.0, np.cumprod(sines)) * np.append(cosines, 1.0) * (r * r + self.magnitude_sd**2)
        return mean, squares * self._factors**2 - mean**2

    def mean_square(self, update: Array) -> float:
        """Exact E‖report − update‖²: variance, and for a geometric mechanism squared bias."""
        mean, variance = self.moments(update)
        return float(np.sum(variance) + np.sum((mean - update) ** 2))

    def __repr__(self) -> str:
        return f"{self.title}({self.budget}, per silo and round, replace-one neighbours, clip {self.clip:.4g})"


def update_mechanism(
    name: object,
    budget: Budget,
    size: int,
    clip: float,
    *,
    beta: object = 1.0,
    magnitude_share: object = 0.1,
    debias: object = True,
) -> UpdateMechanism:
    """Make the mechanism of one report.

    Parameters
    ----------
    name : str
        One of `UPDATE_MECHANISMS`, or "auto": whichever of the unbiased ones has the least noise at this budget.
    budget : Budget
        What one report may cost. A pure mechanism under another form takes the largest ε that keeps it.
    size, clip, beta, magnitude_share, debias
        As in :class:`UpdateMechanism`; `magnitude_share` in (0, 1) is for "geodp".

    Raises
    ------
    OptionError
        If the mechanism can't give what is asked.

    Examples
    --------
    >>> from privreg import Budget
    >>> update_mechanism("gaussian", Budget.declare(mu=0.5), 3, 1.0)
    Gaussian(0.5-GDP, per silo and round, replace-one neighbours, clip 1)
    """
    got = check("silos.formula", "mechanism", name)
    part, undo = check("silos.formula", "magnitude_share", magnitude_share), check("silos.formula", "debias", debias)
    width = AngleBox(max(size, 2), beta).beta  # type: ignore[arg-type]  # checked there
    if not budget.private:
        return UpdateMechanism("gaussian", budget, size, clip)
    if got == "auto":
        names = [n for n in UPDATE_MECHANISMS if n not in GEOMETRIC and not (budget.pure and n == "gaussian")]
        made = [_made(n, budget, size, clip) for n in names]
        return min(made, key=lambda m: m.mean_square(_longest(size, clip)))
    if budget.pure and (got == "gaussian" or got in GEOMETRIC):
        raise OptionError(
            f"mechanism={got!r} can't give pure epsilon={budget.epsilon:g}; add delta= (1e-6 is usual), or use "
            "'privunit', 'laplace', 'piecewise' or 'auto'."
        )
    made_one = _made(got, budget, size, clip)
    if got in GEOMETRIC:
        AngleBox(size, width)
        made_one = replace(made_one, beta=width, magnitude_share=part if got == "geodp" else 0.0, debias=undo)
        log = float(-attenuation(size, made_one.angle_sd).min())
        if undo and log > MOST_UNDONE:
            raise OptionError(
                f"angle noise of sd {made_one.angle_sd:.3g} shrinks the last of {size} coefficients by a factor of "
                f"e^-{log:.4g}, which can't be undone; give debias=False (the updates stay shrunk), a smaller beta, a "
                "larger budget or fewer rounds, or use mechanism='gaussian'."
            )
    return made_one


def _made(name: str, budget: Budget, size: int, clip: float) -> UpdateMechanism:
    if name == "gaussian" or name in GEOMETRIC:
        return UpdateMechanism(name, budget, size, clip)
    if name != "piecewise":
        # on a line PrivUnit's caps are points: the core's mechanism takes the two answers by itself
        return UpdateMechanism(name, budget.as_pure(), size, clip)
    several = range(1, min(size, MOST_COORDINATES) + 1)
    made = [UpdateMechanism(name, budget, size, clip, coordinates=m) for m in several]
    return min(made, key=lambda m: m.mean_square(_longest(size, clip)))


def _longest(size: int, clip: float) -> Array:
    """The update that mechanisms are compared by: as long as the clip allows, as most are, and spread evenly."""
    return np.full(size, clip / math.sqrt(size))
