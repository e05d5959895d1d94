"""Randomisation of a silo's update before it leaves: noise scales, exact moments of reports, an audit of them.

Neighbours replace a silo's records as a whole: two updates of ℓ2 norm at most `clip` are up to 2·clip apart, their
angles as far as their box reaches, their lengths up to `clip`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.errors import OptionError
from privreg.options.table import check
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism, Randomiser, randomised, refuse_pure
from privreg.privacy.noise import NoiseStream, fresh_key, seeded_key
from privreg.privacy.scalar import NumberMechanism, number_mechanism, share
from privreg.published.federated.theory import AngleBox, angle_sensitivity, attenuation, from_angles, to_angles

UPDATE_MECHANISMS: Final = ("gaussian", "privunit", "laplace", "piecewise", "geodp", "ldpvec")
GEOMETRIC: Final = frozenset({"geodp", "ldpvec"})
MOST_COORDINATES: Final = 64  # Largest number of coordinates that a report of "piecewise" is tried with
MOST_UNDONE: Final = 30.0
"""Largest log of a factor by which a coordinate is blown up to undo what angle noise does to its mean."""


@dataclass(frozen=True)
class UpdateMechanism(Randomiser):
    """Randomiser of one update of one silo, by a name of `UPDATE_MECHANISMS`. Made by :func:`update_mechanism`.

    "gaussian", "privunit", "laplace": as `privacy.mechanisms.Mechanism`. "piecewise": so many coordinates, each by the
    Piecewise mechanism on [−clip, clip] with its part of the budget, times d over their number. "geodp": the magnitude
    with noise of sd clip/μ_mag and the angles, in a fixed box, with noise of sd √(d + 2)βπ/μ_dir each; μ² = μ_mag² +
    μ_dir². "ldpvec": the angles alone, the magnitude being `clip` for everybody.

    See Duan, Hu, Ye & Sun, arXiv 2504.05618, for GeoDP, with these corrections: no 1/B in the noise of angles, a box
    that doesn't depend on the data, and costs of magnitude and direction that add up. Duan (2025), PhD thesis, for
    LDPVec, whose raw magnitude and unclipped angles have no guarantee. Wang et al. (2019), section IV, for Piecewise.
    """

    TITLES: ClassVar = {
        **Randomiser.TITLES,
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

    @property
    def geometric(self) -> bool:
        """True if it randomises a direction."""
        return self.name in GEOMETRIC

    @property
    def width(self) -> int:
        """Standard normals that a report takes."""
        if self.name == "piecewise":  # which coordinates, then the Piecewise mechanism's
            return self.size + 2 * self.coordinates
        return self.size if self.geometric else self.whole.width(self.size)

    @property
    def whole(self) -> Mechanism:
        """Mechanism of reports that go as a whole."""
        return Mechanism(self.name, self.budget)

    @property
    def radius(self) -> float:
        """Radius by which it randomises, half the sensitivity: the clip."""
        return self.whole.score_radius(self.clip)

    @property
    def number(self) -> NumberMechanism:
        """The mechanism of one coordinate of "piecewise"."""
        return number_mechanism("piecewise", share(self.budget, self.coordinates), -self.clip, self.clip)

    @property
    def mu(self) -> float:
        """GDP parameter of one report, as accounted."""
        return math.sqrt(self.coordinates) * self.number.budget.mu if self.coordinates else self.budget.mu

    @property
    def box(self) -> AngleBox:
        """Box to which angles are clipped."""
        return AngleBox(self.size, self.beta)

    @property
    def angle_sd(self) -> float:
        """Noise sd of each angle, radians: sensitivity over the direction's part of μ."""
        return angle_sensitivity(self.size, self.beta) / (math.sqrt(1.0 - self.magnitude_share) * self.budget.mu)

    @property
    def magnitude_sd(self) -> float:
        """Noise sd of the magnitude, whose sensitivity is the clip; 0 if it is public and not sent."""
        return self.clip / (math.sqrt(self.magnitude_share) * self.budget.mu) if self.magnitude_share else 0.0

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

    def randomise(self, update: Array, normals: Array) -> Array:
        """Randomise an update of norm at most `clip`, finite: the only thing that leaves a silo; shapes (d,).

        `normals`, shape (width,), are drawn for this report and never used again.
        """
        if not self.budget.private:
            return update.copy()
        if self.geometric:
            return from_angles(*self.release(update, normals)) * self._factors
        if self.name == "piecewise":
            some = np.argsort(normals[: self.size])[: self.coordinates]
            out = np.zeros(self.size)
            drawn = normals[self.size :].reshape(self.coordinates, 2)
            out[some] = self.number.randomise(update[some], drawn) * (self.size / self.coordinates)
            return out
        return np.asarray(randomised(self.whole.channel(self.size), update[None], self.radius, normals[None])[0])

    def release(self, update: Array, normals: Array) -> tuple[Array, Array]:
        """Noised magnitude, shape (...), and angles, shape (..., d − 1), from normals of shape (..., width)."""
        length, inside = self._inside(update)
        return length + self.magnitude_sd * normals[..., 0], inside + self.angle_sd * normals[..., 1:]

    def _inside(self, update: Array) -> tuple[float, Array]:
        """Length that a report uses, and an update's angles within the box; a zero update has those of the centre."""
        length, angles = to_angles(update)
        inside = self.box.clip(angles) if length > 0.0 else self.box.centre
        return float(length) if self.magnitude_share else self.clip, inside

    @property
    def _factors(self) -> Array:
        return np.exp(-attenuation(self.size, self.angle_sd)) if self.debias else np.ones(self.size)

    def moments(self, update: Array) -> tuple[Array, Array]:
        """Exact mean and variance of each coordinate of a report of `update`, shapes (d,)."""
        if self.geometric:
            r, inside = self._inside(update)
            mean = r * from_angles(1.0, inside) * (np.exp(attenuation(self.size, self.angle_sd)) * self._factors)
            lost = math.exp(-2.0 * self.angle_sd**2)
            cosines, sines = 0.5 * (1.0 + lost * np.cos(2.0 * inside)), 0.5 * (1.0 - lost * np.cos(2.0 * inside))
            squares = np.append(1.0, np.cumprod(sines)) * np.append(cosines, 1.0) * (r * r + self.magnitude_sd**2)
            return mean, squares * self._factors**2 - mean**2
        if not self.budget.private:
            return update.copy(), np.zeros(self.size)
        if self.name == "piecewise":
            times = self.size / self.coordinates
            return update.copy(), times * (self.number.variance(update) + update**2) - update**2
        return update.copy(), np.diag(self.whole.covariance(update[None], self.radius)).copy()

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
    """Make the mechanism of one report; OptionError if it can't give what is asked.

    `name` is one of `UPDATE_MECHANISMS`, or "auto": whichever of the unbiased ones has the least noise at this `budget`
    of one report, of which a pure mechanism takes the largest ε that keeps it. Others are as in
    :class:`UpdateMechanism`; `magnitude_share` in (0, 1) is for "geodp".
    """
    got = check("silos.formula", "mechanism", name)
    part, undo = check("silos.formula", "magnitude_share", magnitude_share), check("silos.formula", "debias", debias)
    width = AngleBox(max(size, 2), beta).beta  # type: ignore[arg-type]  # checked there
    if not budget.private:
        return UpdateMechanism("gaussian", budget, size, clip)
    refuse_pure(got, budget, "'privunit', 'laplace', 'piecewise' or 'auto'")
    if got in GEOMETRIC:
        AngleBox(size, width)
        one = UpdateMechanism(got, budget, size, clip, width, part if got == "geodp" else 0.0, undo)
        log = float(-attenuation(size, one.angle_sd).min())
        if undo and log > MOST_UNDONE:
            raise OptionError(
                f"angle noise of sd {one.angle_sd:.3g} shrinks the last of {size} coefficients by a factor of "
                f"e^-{log:.4g}, which can't be undone; give debias=False (the updates stay shrunk), a smaller beta, a "
                "larger budget or fewer rounds, or use mechanism='gaussian'."
            )
        return one
    several = range(1, min(size, MOST_COORDINATES) + 1)
    made = [UpdateMechanism("gaussian", budget, size, clip)] if not budget.pure else []
    made += [UpdateMechanism(n, budget.as_pure(), size, clip) for n in ("privunit", "laplace")]
    made += [UpdateMechanism("piecewise", budget, size, clip, coordinates=m) for m in several]
    made = [m for m in made if got in {m.name, "auto"}]
    longest = np.full(size, clip / math.sqrt(size))  # as long as the clip allows, as most are, and spread evenly
    return min(made, key=lambda m: m.mean_square(longest))


def worst_updates(mechanism: UpdateMechanism) -> tuple[Array, Array]:
    """Two updates at the largest distance that the mechanism allows, each of shape (d,)."""
    m = mechanism
    if m.geometric:
        box = m.box
        low, high = box.centre - box.half, box.centre + box.half
        # on the edge of the half circle the angle of a vector is +π; just inside, −π + a little
        high[-1] -= 1e-9
        low[-1] += 1e-9
        short = 1e-6 * m.clip if m.magnitude_share else m.clip
        inner = 1e-4  # at 0 and π exactly a vector has no further angles
        low[:-1], high[:-1] = np.maximum(low[:-1], inner), np.minimum(high[:-1], math.pi - inner)
        return from_angles(short, low), from_angles(m.clip, high)
    spread = m.name in {"laplace", "piecewise"}
    along = np.full(m.size, m.clip / math.sqrt(m.size)) if spread else m.clip * np.eye(m.size)[0]
    return -along, along


def evidence(mechanism: UpdateMechanism, first: Array, second: Array, normals: Array, who: int) -> Array:
    """Log-likelihood ratios (up to constants) of reports for `second` against `first`, as by :func:`worst_updates`.

    `who`, 0 or 1, says whose n independent reports are drawn, of `normals` of shape (n, width); shape (n,).
    """
    m, update = mechanism, (first, second)[who]
    if m.geometric:
        magnitude, angles = m.release(update, normals)
        ends = [m.release(u, np.zeros(m.width)) for u in (first, second)]
        out = angles @ (ends[1][1] - ends[0][1]) / m.angle_sd**2
        return np.asarray(out + (ends[1][0] - ends[0][0]) * magnitude / m.magnitude_sd**2 if m.magnitude_share else out)
    reports = np.array([m.randomise(update, z) for z in normals])
    if m.name == "laplace":
        return np.asarray(np.sum(np.abs(reports - first) - np.abs(reports - second), axis=1))
    if m.name == "piecewise":  # all coordinates of a worst update are alike, and windows e^ε times likelier
        reach, sent = 1.0 / math.tanh(0.25 * m.number.epsilon), reports * (m.coordinates / m.size / m.clip)
        gaps = (np.abs(sent - 0.5 * (reach + 1.0) * u[0] / m.clip) for u in (first, second))
        near, there = (np.where(reports != 0.0, gap <= 0.5 * (reach - 1.0), 0.0).sum(axis=1) for gap in gaps)
        return np.asarray(there - near)
    along = reports @ (second - first)
    if m.name == "privunit" and m.size > 1:  # beyond the cut it is e^ε times likelier
        channel = m.whole.channel(m.size)
        part = along / float(np.linalg.norm(second - first)) / (channel.scale * m.radius)
        cut = -float(ndtri(channel.above))
        return (part >= cut).astype(np.float64) - (part <= -cut)
    return np.asarray(along)


def transcripts(mechanism: UpdateMechanism, rounds: int, n: int, seed: int | None = None) -> tuple[Array, Array]:
    """Evidence of all reports of a silo, `n` times for each of two neighbours, different in all rounds; shapes (n,)."""
    first, second = worst_updates(mechanism)
    out = np.zeros((2, n))
    for who in (0, 1):
        key = fresh_key() if seed is None else seeded_key(seed, f"federated audit {who}")
        stream = NoiseStream(key, mechanism.width)
        for _ in range(rounds):
            out[who] += evidence(mechanism, first, second, stream.draw(n), who)
    return out[0], out[1]


def trials(mechanism: UpdateMechanism, *_: Any, rounds: int = 1, seed: int | None = None) -> Iterator[tuple[Any, ...]]:
    """Fields of a trial of the reports of so many rounds together, of two silos at the largest distance."""
    pure = mechanism.budget.pure
    claimed = rounds * mechanism.budget.epsilon if pure else math.sqrt(rounds) * mechanism.mu
    draw = partial(transcripts, mechanism, rounds, seed=seed)
    yield "update", "silos at opposite ends", "epsilon" if pure else "mu", claimed, draw, math.nan, np.ones(1)
