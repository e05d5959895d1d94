"""Mechanisms: the randomisers of reports, and the only place where a sensitivity is computed.

Neighbouring data differ by *replacing* one record. Every report is in a ball about a public centre; the distance
of two of them is at most twice its radius, so Gaussian noise has the sd 2 · radius / μ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose
from privreg.privacy.ledger import Budget, at_least
from privreg.protocol import codes
from privreg.protocol.plans import Channel


def width(channel: Channel, size: int) -> int:
    """Standard normals that a report of `size` numbers takes."""
    kinds = {codes.GAUSSIAN: size, codes.LAPLACE: 3 * size, codes.PRIVUNIT: size + 2}
    return max(kinds.get(channel.kind, 1), size)


def randomised(channel: Channel, rows: Array, radius: float | Array, noise: Array) -> Array:
    """Randomise reports in the ball of `radius`, a number or one a report, about 0, one a row, shape (n, size).

    `noise`, shape (n, width), are standard normals drawn for these records and never used again.
    """
    n, size = rows.shape
    radius = np.broadcast_to(radius, (n,))
    scale = (channel.scale * radius)[:, None]
    if channel.kind == codes.GAUSSIAN:
        return np.asarray(rows + scale * noise[:, :size])
    if channel.kind == codes.LAPLACE:
        three = noise[:, : 3 * size].reshape(n, size, 3)
        return np.asarray(rows + scale * (np.hypot(three[..., 0], three[..., 1]) * three[..., 2]))
    if channel.kind == codes.RESPONSE:
        share = np.clip(rows[:, 0] / np.where(radius > 0.0, radius, 1.0), -1.0, 1.0)
        up = ndtr(noise[:, 0]) < 0.5 + 0.5 * share / channel.scale
        return np.where(up[:, None], scale, -scale)
    norm = np.linalg.norm(rows, axis=1)
    tiny = ~(norm > 1e-140)
    share = np.where(tiny, 0.0, np.minimum(norm / radius, 1.0))
    unit = rows / np.where(tiny, 1.0, norm)[:, None]
    chance = ndtr(noise[:, size])
    sign = np.where(chance < 0.5 + 0.5 * share, 1.0, -1.0)
    # a report of nothing takes any axis, either way, so that what is sent has no direction
    axis = np.minimum(2.0 * size * chance[tiny], 2.0 * size - 1.0).astype(np.int64)
    unit[tiny] = np.eye(size)[axis // 2]
    sign[tiny] = 1.0 - 2.0 * (axis % 2)
    along = np.einsum("ij,ij->i", unit, noise[:, :size])
    uniform = ndtr(along)
    in_cap = ndtr(noise[:, size + 1]) < channel.accept
    drawn = np.where(in_cap, -ndtri(uniform * channel.above), ndtri(uniform * (1.0 - channel.above)))
    return np.asarray(scale * (noise[:, :size] + (sign * drawn - along)[:, None] * unit))


MECHANISMS: Final = ("gaussian", "laplace", "randomized_response", "privunit")
MOST_EPSILON: Final = 30.0
"""Beyond it the chance of the other answer is lost in rounding, and with it the guarantee; it is not needed either."""


def score_sensitivity(bound: float) -> float:
    """Largest ℓ2 distance of two reports in the ball of radius `bound`, as of means of several rows' vectors.

    Equations (1) and (41) of docs/estimator.md.
    """
    return 2.0 * bound


def psd_sensitivity(bound: float) -> float:
    """Largest Frobenius distance of two positive semidefinite matrices of Frobenius norm at most `bound`.

    √2 rather than 2: two such matrices have a non-negative inner product. Equation (1) of docs/estimator.md.
    """
    return math.sqrt(2.0) * bound


def joint_sensitivity(bound: float, kappa: float) -> float:
    """Largest ℓ2 distance of two joint reports: a score in the ball of radius `bound` and a number in [0, kappa].

    Equation (1) of docs/estimator.md.
    """
    return math.hypot(score_sensitivity(bound), kappa)


def square_sensitivity() -> float:
    """Largest ℓ2 distance of (a, a t, √2 a t²) and (b, b s, √2 b s²) for a, b in {0, 1} and s, t in [-1, 1].

    That of the numbers alone, at t = 1, s = −1. With u = |t − s|, |t + s| ≤ 2 − u, two numbers are at most
    u √(1 + 2 (2 − u)²) from each other, no more than 2 for u in [0, 2]; a number is √(1 + t² + 2 t⁴) ≤ 2 from none.
    """
    return 2.0


def blocks_sensitivity(weights: Sequence[float], distances: Sequence[float], *, rounded: int = 0) -> float:
    """Largest ℓ2 distance of two reports made of blocks, and so of two sums that differ in one report.

    By block, `weights` are what it is multiplied by, `distances` the largest of two of them. Each of `rounded` numbers,
    rounded to whole ones, may add 1 to the difference of two reports.
    """
    return math.hypot(*(w * d for w, d in zip(weights, distances, strict=True))) + math.sqrt(rounded)


def bits_sensitivity(numbers: int) -> float:
    """Largest ℓ2 distance of two reports of `numbers` numbers, each in [0, 1]."""
    return math.sqrt(numbers)


@dataclass(frozen=True)
class Randomiser:
    """Base of all mechanisms: a name, a budget for each report, and a title."""

    TITLES: ClassVar[dict[str, str]] = {
        "gaussian": "Gaussian", "laplace": "Laplace", "randomized_response": "randomized response",
        "privunit": "PrivUnit", "duchi": "Duchi", "piecewise": "Piecewise",
        "square_wave": "Square wave, its mean inverted", "square_wave_biased": "Square wave, as it comes",
    }  # fmt: skip

    name: str
    budget: Budget

    @property
    def title(self) -> str:
        """Name in sentences."""
        return self.TITLES[self.name]

    @property
    def pure(self) -> bool:
        """True if it gives pure ε-DP."""
        return self.name != "gaussian"

    @property
    def epsilon(self) -> float:
        """Pure ε that it spends on a report; inf for Gaussian noise."""
        return min(self.budget.epsilon, MOST_EPSILON) if self.pure else math.inf


@dataclass(frozen=True)
class Mechanism(Randomiser):
    """Randomiser of reports, by a name of `MECHANISMS`.

    The budget is per person, and of the pure form unless the noise is Gaussian, see :meth:`Budget.as_pure`.

    "gaussian": independent normal noise on every coordinate, μ-GDP. "laplace": independent Laplace noise of scale
    (ℓ1 distance of two reports)/ε, ε-DP. "privunit": a random vector whose part along the report is in a cap about
    it with a probability that makes it ε-DP; unbiased, of variance O(d/ε²). "randomized_response": a single number,
    rounded at random to an end of its range, then reported with probability e^ε/(1 + e^ε), else flipped: ε-DP; reports
    of more numbers (on scales) go by PrivUnit.

    See XSJKH (arXiv 2505.08227), section 3; the Gaussian variance is (2 B0/μ)², correcting 4 B0²/μ in SXJKH (arXiv
    2507.07041), Example 3. PrivUnit: Bhowmick et al. (arXiv 1812.00984), in the normal form of Asi, Feldman & Talwar
    (arXiv 2205.02466). One number: Duchi, Jordan & Wainwright (2018), section 4.
    """

    def _kind(self, size: int) -> str:
        one = {"randomized_response": "privunit"} if size > 1 else {"privunit": "randomized_response"}
        return one.get(self.name, self.name)  # on a line PrivUnit's caps are points

    def channel(self, size: int) -> Channel:
        """Numbers by which the kernel randomises reports of `size` numbers in a ball of any radius."""
        if not self.budget.private:
            return Channel(codes.GAUSSIAN, 0.0, 0.0, 0.0)
        match self._kind(size):
            case "gaussian":
                return Channel(codes.GAUSSIAN, 2.0 / self.budget.mu, 0.0, 0.0)
            case "laplace":  # the ℓ1 distance is at most √size times the ℓ2 distance
                return Channel(codes.LAPLACE, 2.0 * math.sqrt(size) / self.epsilon, 0.0, 0.0)
            case "privunit":
                cap = _privunit(self.epsilon, size)
                return Channel(codes.PRIVUNIT, 1.0 / cap.mean, cap.accept, cap.above)
        return Channel(codes.RESPONSE, 1.0 / math.tanh(0.5 * self.epsilon), 0.0, 0.0)

    def ratios(self, shares: Array) -> Array:
        """Noise of people with personal budgets over that of the largest, by which `Channel.scale` grows, shape (n,).

        `shares`, shape (n,), in (0, 1], are their μ, of a pure mechanism their ε, over the largest.
        """
        if self.name == "randomized_response":
            return np.asarray(math.tanh(0.5 * self.epsilon) / np.tanh(0.5 * self.epsilon * shares))
        return 1.0 / shares

    def width(self, size: int) -> int:
        """Standard normals that a report of `size` numbers takes."""
        return width(self.channel(size), size)

    def radius(self, sensitivity: float, bound: float) -> float:
        """Radius by which a report is randomised whose ℓ2 `sensitivity` and largest norm, `bound`, are known.

        Additive noise needs half the sensitivity only; the others a ball that holds the report.
        """
        return 0.5 * sensitivity if self.additive else max(0.5 * sensitivity, bound)

    def covariance(self, reports: Array, radius: float) -> Array:
        """Exact mean covariance of what is added to reports, shape (size, size).

        `reports`, shape (n, size), are those before they are randomised, about the centre of their ball of `radius`.
        """
        (n, size), identity = reports.shape, np.eye(reports.shape[1])
        if self.additive:
            return np.asarray((2.0 if self.name == "laplace" else 1.0) * self._scale(radius, size) ** 2 * identity)
        norms = np.linalg.norm(reports, axis=1, keepdims=True)
        units = reports / np.where(norms > 0.0, norms, 1.0)
        towards = units.T @ units / n + float(np.mean(norms == 0.0)) * identity / size  # of nothing, any axis
        return np.asarray(self.sent(towards, radius) - reports.T @ reports / n)

    @property
    def additive(self) -> bool:
        """True if noise of one distribution is added; other mechanisms send points whose size no record decides."""
        return self.name in {"gaussian", "laplace"} or not self.budget.private

    def sent(self, along: Array, radius: float) -> Array:
        """Second moments of what is sent by a mechanism that isn't additive, about the centre of its ball.

        `along` are those of the directions of reports, of trace 1; both have the shape (size, size).
        """
        size = len(along)
        return np.asarray(self._scale(radius, size) ** 2 * (np.eye(size) + (self._square(size) - 1.0) * along))

    def sd(self, radius: float, size: int) -> float:
        """Noise sd per coordinate of a report of `size` numbers, averaged over coordinates; at the ball's centre."""
        # from the trace of `covariance`, whose matrix is large for moments
        each = 2.0 if self.name == "laplace" else (size - 1.0 + self._square(size)) / size
        return math.sqrt(each) * self._scale(radius, size)

    def _scale(self, radius: float, size: int) -> float:
        return self.channel(size).scale * radius

    def _square(self, size: int) -> float:
        """Second moment of what is sent along the report, in units of `_scale`²."""
        return _privunit(self.epsilon, size).square if self._kind(size) == "privunit" else 1.0

    def score_radius(self, bound: float) -> float:
        """Radius of a score report bounded by `bound` in ℓ2 norm."""
        return self.radius(score_sensitivity(bound), bound)

    def joint_radius(self, bound: float, kappa: float) -> float:
        """Radius of a score report that carries a number in [0, kappa] as well, about (0, kappa/2)."""
        sensitivity = joint_sensitivity(bound, kappa)
        return self.radius(sensitivity, 0.5 * sensitivity)

    def bits_radius(self, numbers: int) -> float:
        """Radius of a report of `numbers` numbers, each in [0, 1], about 1/2."""
        return self.radius(bits_sensitivity(numbers), 0.5 * math.sqrt(numbers))

    def curvature_radius(self, bound: float) -> float:
        """Radius of a report of a positive semidefinite matrix of Frobenius norm ≤ `bound`, such as u uᵀ with ‖u‖ ≤ 1.

        It lists a triangle with off-diagonal entries times √2, so that its ℓ2 norm is the matrix's Frobenius norm.
        """
        return self.radius(psd_sensitivity(bound), bound)

    def central_sd(self, bound: float) -> float:
        """Noise sd per entry of the upper triangle of a *sum* of positive semidefinite matrices bounded by `bound`.

        For a curator's one release: 2·bound/μ, the published scale. Replacing one person moves the sum by √2·bound at
        most, so each matrix is μ/√2-GDP and a pair of them μ-GDP.
        """
        return 2.0 * bound / self.budget.mu if self.budget.private else 0.0

    def words(self, radius: float, size: int) -> str:
        """Noise of a report, in words for the privacy block."""
        scale, budget = f"{self._scale(radius, size):.4g}", f"epsilon {at_least(self.epsilon, 4)}"
        match self._kind(size):
            case "gaussian":
                return f"noise sd {scale} = 2 × bound / mu"
            case "laplace":
                return f"noise scale {scale} = 2 × sqrt({size}) × bound / epsilon, {budget}"
            case "privunit":
                cap, sd = self.channel(size).accept, self.sd(radius, size)
                return f"a cap of probability {cap:.4g}, {budget}; noise sd {sd:.4g} a coordinate"
        return f"reported with probability {1.0 / (1.0 + math.exp(-self.epsilon)):.4g}, {budget}"

    def __repr__(self) -> str:
        return f"{self.title}({self.budget}, per person, replace-one neighbours)"


class _Cap(NamedTuple):
    """PrivUnit for one ε: N(0, I) given that its part t along the report is in a cap, at least a cut, or is not."""

    accept: float  # Probability of the cap
    above: float  # Normal mass of the cap
    mean: float  # E t
    square: float  # E t²


@lru_cache(maxsize=256)
def _privunit(epsilon: float, size: int) -> _Cap:
    """Cut with the least noise for a report of `size` numbers on the sphere."""
    from scipy.optimize import minimize_scalar

    def at(cut: float) -> _Cap:
        below, above = float(ndtr(cut)), float(ndtr(-cut))
        # densities over the normal's differ by accept/above : (1 − accept)/below = e^ε
        accept = 1.0 / (1.0 + math.exp(-epsilon) * below / above)
        density = math.exp(-0.5 * cut * cut) / math.sqrt(2.0 * math.pi)
        mean = density * (accept / above - (1.0 - accept) / below)
        square = 1.0 + cut * density * (accept / above - (1.0 - accept) / below)
        return _Cap(accept, above, mean, square)

    def noise(cut: float) -> float:
        return (size - 1.0 + at(cut).square) / at(cut).mean ** 2

    most = float(-ndtri(1.0 / (2.0 + 1e3 * math.exp(min(epsilon, 600.0)))))
    found = minimize_scalar(noise, bounds=(0.0, min(most, 30.0)), method="bounded", options={"xatol": 1e-10})
    return at(float(found.x) if found.fun < noise(0.0) else 0.0)


def refuse_pure(name: str, budget: Budget, instead: str) -> None:
    """Refuse (OptionError) a mechanism of normal noise that is to keep a pure ε; `instead` names those that can."""
    if budget.pure and name in {"gaussian", "geodp", "ldpvec"}:
        raise OptionError(
            f"mechanism={name!r} can't give pure epsilon={budget.epsilon:g}; add delta= (1e-6 is usual), or use "
            f"{instead}."
        )


def resolve_mechanism(name: object, budget: Budget, *, size: int, scalar: bool, personal: bool = False) -> Mechanism:
    """Read ``mechanism=``: "auto" is the one with the least noise for score reports of `size` numbers at a budget.

    `scalar`: such a report is a single number of known range; `personal`: people have budgets of their own.
    Raises OptionError if the mechanism can't give what is asked.
    """
    got = choose("mechanism", name, ("auto", *MECHANISMS))
    if not budget.private:
        return Mechanism("gaussian", budget)
    refuse_pure(got, budget, "'privunit', 'laplace' or 'auto'")
    if got == "randomized_response" and not scalar:
        raise OptionError(
            f"mechanism='randomized_response' is for one number of known range (a formula 'y ~ 1', or "
            f"private='response'), and a score report here has {size}; use 'privunit' or 'auto'."
        )
    if personal:  # noise that is a multiple of that of the largest budget
        have = ("randomized_response", "laplace") if budget.form == "epsilon" else ("gaussian",)
        if got not in {"auto", *have}:
            raise OptionError(f"mechanism={got!r} has no personal budgets of this form; use {have[-1]!r}.")
        got = have[0 if scalar else -1] if got == "auto" else got
    without = {"gaussian": budget.pure, "randomized_response": not scalar}
    wanted = [m for m in MECHANISMS if not without.get(m)] if got == "auto" else [got]
    made = [Mechanism(m, budget if m == "gaussian" else budget.as_pure()) for m in wanted]
    return min(made, key=lambda m: m.sd(1.0, size))


def released(raw: Array, sds: Sequence[float], noise: Array) -> Array:
    """Randomise a curator's raw sums, the only thing about them that is released: upper triangles, row by row.

    `raw`, shape (2, p, p), are sums of people's curvatures and of the outer products of their scores, with noise of
    `sds`, `Mechanism.central_sd` of their bounds; `noise`, shape (…, 2, p (p + 1) / 2), are normals used once.
    """
    rows, cols = np.triu_indices(raw.shape[1])
    return np.asarray(raw[:, rows, cols] + np.array(sds)[:, None] * noise)
