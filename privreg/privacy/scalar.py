"""Mechanisms for one number in a known range: how it is randomised, and exactly what that does to its distribution.

Neighbours differ by replacing the number, so its sensitivity is the length of the range. Vectors that go as a whole
(Gaussian, Laplace, PrivUnit) are randomised by `privreg.privacy.mechanisms`, which also holds the sensitivities.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, real, shown
from privreg.privacy.ledger import Budget, at_least
from privreg.privacy.mechanisms import Randomiser, refuse_pure, score_sensitivity

NUMBER_MECHANISMS: Final = ("laplace", "gaussian", "duchi", "piecewise", "square_wave", "square_wave_biased")


@dataclass(frozen=True)
class NumberMechanism(Randomiser):
    """Randomiser of a number of a known range, by a name of `NUMBER_MECHANISMS`; see :func:`number_mechanism`.

    The budget is per number, and of the pure form unless the noise is Gaussian. Values outside the public range are
    clamped, NaN is taken for the middle. With u the number mapped to [-1, 1], and reports mapped back to its units:

    "laplace": u plus Laplace noise of scale 2/ε. "gaussian": u plus normal noise of sd 2/μ. "duchi": one of two
    answers, ±(e^ε + 1)/(e^ε − 1), the upper one with probability 1/2 + u (e^ε − 1)/(2e^ε + 2). "piecewise": uniform on
    a window that holds u with probability e^{ε/2}/(e^{ε/2} + 1), else uniform on the rest of [−C, C],
    C = (e^{ε/2} + 1)/(e^{ε/2} − 1). "square_wave": v = (u + 1)/2 is answered by a number in [−b, 1 + b], whose density
    is e^ε times as high within b of v as elsewhere. Its mean is an affine function of v, which "square_wave" inverts,
    so that reports are unbiased; "square_wave_biased" leaves reports as they come, and they estimate that function.

    See Duchi, Jordan & Wainwright (2018), section 4; Wang et al. (2019), Collecting and analyzing multidimensional data
    with local differential privacy, section III; Li et al. (2020), Estimating numerical distributions under local
    differential privacy, section 5.
    """

    low: float = -1.0
    high: float = 1.0

    @property
    def unbiased(self) -> bool:
        """True if a report's mean is the number itself."""
        return self.name != "square_wave_biased"

    @property
    def width(self) -> int:
        """Standard normals that a report takes."""
        return 1 if self.name in {"laplace", "gaussian", "duchi"} else 2

    @property
    def scale(self) -> float:
        """Additive noise's scale (Laplace) or sd (Gaussian), the number's units: sensitivity over ε or μ."""
        sensitivity = score_sensitivity(self._half)
        if self.name == "gaussian":
            return sensitivity / self.budget.mu if self.budget.private else 0.0
        return sensitivity / self.epsilon

    @property
    def output_range(self) -> tuple[float, float]:
        """Lowest and highest report, the number's units; infinite for additive noise."""
        if self.name in {"laplace", "gaussian"}:
            return -math.inf, math.inf
        if self.name in {"duchi", "piecewise"}:
            top = self._answer if self.name == "duchi" else self._reach
            return float(self._out(-top)), float(self._out(top))
        low, high = self._from_wave(np.array([-self._wave[0], 1.0 + self._wave[0]]))
        return float(self._out(low)), float(self._out(high))

    def words(self) -> str:
        """Noise of the number, in words for the privacy block."""
        if self.name == "gaussian":
            return f"noise sd {self.scale:.4g} = range / mu, {at_least(self.budget.mu, 4)}-GDP"
        if self.name == "laplace":
            return f"noise scale {self.scale:.4g} = range / epsilon, epsilon {at_least(self.epsilon, 4)}"
        low, high = self.output_range
        ends = f"{low:.4g} or {high:.4g}" if self.name == "duchi" else f"a number from {low:.4g} to {high:.4g}"
        return f"answers {ends}, epsilon {at_least(self.epsilon, 4)}"

    def __repr__(self) -> str:
        return f"{self.title}({self.budget}, for one number in [{self.low:g}, {self.high:g}], replace-one neighbours)"

    def randomise(self, values: ArrayLike, normals: ArrayLike) -> Array:
        """Randomise numbers, each of another person or paid for by itself; shape (n,), the numbers' units.

        `values`, shape (n,), are clamped to the range; NaN counts as its middle. `normals`, shape (n, width), are
        standard, independent, and each used once.
        """
        u = self._unit(values)
        z = np.asarray(normals, dtype=np.float64).reshape(len(u), self.width)
        first = z[:, 0]
        match self.name:
            case "gaussian":
                return np.asarray(self._out(u) + self.scale * first)
            case "laplace":  # −log(2Φ(−|z|)) is exponential, and |z| is independent of z's sign
                noise = np.copysign(-np.log(2.0) - log_ndtr(-np.abs(first)), first)
                return np.asarray(self._out(u) + self.scale * noise)
            case "duchi":
                upper = ndtr(first) < 0.5 * (1.0 + u / self._answer)
                return np.asarray(self._out(np.where(upper, self._answer, -self._answer)))
        chosen, place = ndtr(first), ndtr(z[:, 1])
        if self.name == "piecewise":
            reach, left = self._reach, self._left(u)
            near = left + (reach - 1.0) * place
            at = (reach + 1.0) * place  # along what is outside the window, its two parts joined
            far = np.where(at < left + reach, at - reach, at - 1.0)
            return np.asarray(self._out(np.where(chosen < 1.0 / (1.0 + math.exp(-0.5 * self.epsilon)), near, far)))
        b, height, _ = self._wave
        v = 0.5 * (u + 1.0)
        near = v + b * (2.0 * place - 1.0)
        far = np.where(place < v, place - b, place + b)  # [−b, 1 + b] without the window has length 1
        return np.asarray(self._out(self._from_wave(np.where(chosen < 2.0 * b * height, near, far))))

    def bias(self, values: ArrayLike) -> Array:
        """Exact bias of a report of each number, its units; zero but for "square_wave_biased"."""
        u, (slope, constant) = self._unit(values), (1.0, 0.0) if self.unbiased else self._line
        return np.asarray(2.0 * self._half * (constant + (slope - 1.0) * (0.5 * (u + 1.0))))

    def variance(self, values: ArrayLike) -> Array:
        """Exact variance of a report of each of `values`, shape (n,), its units squared."""
        return self._moment(values, 2)

    def third_moment(self, values: ArrayLike) -> Array:
        """E|report − its mean|³ for each number, exact: what the Berry–Esseen bound needs."""
        return self._moment(values, 3)

    def worst_variance(self) -> float:
        """Largest variance of a report over the range, its units squared."""
        return float(self.variance(np.array([self.low, self._middle, self.high])).max())

    def _moment(self, values: ArrayLike, k: int) -> Array:
        """E|report − its mean|^k of each number, k = 2 or 3, its units to that power; shape (n,)."""
        u = self._unit(values)
        match self.name:
            case "gaussian":
                return np.full_like(u, (1.0 if k == 2 else 2.0 * math.sqrt(2.0 / math.pi)) * self.scale**k)
            case "laplace":
                return np.full_like(u, math.factorial(k) * self.scale**k)
            case "duchi":
                upper = 0.5 * (1.0 + u / self._answer)
                unit = upper * (self._answer - u) ** k + (1.0 - upper) * (self._answer + u) ** k
                return np.asarray(self._half**k * unit)
        edges, heights, per_unit = self._steps(u)
        slope, constant = (2.0, -1.0) if self.name == "piecewise" else self._line
        gaps = edges - (constant + slope * 0.5 * (u + 1.0))[:, None]
        rise = np.diff(gaps * np.abs(gaps) ** k / (k + 1.0), axis=1)  # ∫ |t − mean|^k over each step
        return np.asarray(np.sum(heights * rise, axis=1) * (self._half * per_unit) ** k)

    @property
    def _half(self) -> float:
        return 0.5 * (self.high - self.low)

    @property
    def _middle(self) -> float:
        return 0.5 * (self.low + self.high)

    def _unit(self, values: ArrayLike) -> Array:
        x = np.clip(np.atleast_1d(np.asarray(values, dtype=np.float64)), self.low, self.high)
        return np.asarray(np.where(np.isnan(x), 0.0, np.clip((x - self._middle) / self._half, -1.0, 1.0)))

    def _out(self, unit: Any) -> Any:
        return self._middle + self._half * np.asarray(unit)

    @property
    def _answer(self) -> float:
        """Duchi's two answers are ± this."""
        return 1.0 / math.tanh(0.5 * self.epsilon)

    @property
    def _reach(self) -> float:
        """C of the Piecewise mechanism."""
        return 1.0 / math.tanh(0.25 * self.epsilon)

    def _left(self, u: Array) -> Array:
        """Left end of the Piecewise window, whose length is C − 1."""
        return np.asarray(0.5 * ((self._reach + 1.0) * u - (self._reach - 1.0)))

    @property
    def _wave(self) -> tuple[float, float, float]:
        """Half window b of the square wave, and its heights inside and outside."""
        e, less = math.exp(self.epsilon), math.expm1(self.epsilon)
        b = (self.epsilon * e - less) / (2.0 * e * (less - self.epsilon))
        q = 1.0 / (2.0 * b * e + 1.0)
        return b, e * q, q

    @property
    def _line(self) -> tuple[float, float]:
        """Slope and constant of the square wave's mean as a function of v in [0, 1]."""
        b, p, q = self._wave
        return 2.0 * b * (p - q), q * (0.5 + b)

    def _from_wave(self, answers: Any) -> Any:
        """Answers in [−b, 1 + b] on the scale of u, inverted unless they stay biased."""
        slope, constant = self._line if self.unbiased else (1.0, 0.0)
        return 2.0 * (np.asarray(answers) - constant) / slope - 1.0

    def _steps(self, u: Array) -> tuple[Array, Array, float]:
        """Edges (n, 4) and heights (n, 3) of a density of three steps, and how long a unit of theirs is in u's."""
        if self.name == "piecewise":
            reach, left, per_unit = self._reach, self._left(u), 1.0
            inside = 1.0 / (1.0 + math.exp(-0.5 * self.epsilon)) / (reach - 1.0)
            outside, first, last, right = inside * math.exp(-self.epsilon), -reach, reach, left + reach - 1.0
        else:
            (b, inside, outside), v = self._wave, 0.5 * (u + 1.0)
            first, left, right, last = -b, v - b, v + b, 1.0 + b
            per_unit = 2.0 / (self._line[0] if self.unbiased else 1.0)
        edges = np.stack([np.full_like(u, first), left, right, np.full_like(u, last)], axis=1)
        return edges, np.tile([outside, inside, outside], (len(u), 1)), per_unit


def number_mechanism(name: object, budget: Budget, low: float = -1.0, high: float = 1.0) -> NumberMechanism:
    """Make a mechanism for one number of the public range from `low` to `high`, by a name of `NUMBER_MECHANISMS`.

    `budget` is what one report may cost; a pure mechanism under another form takes the largest ε that keeps it.
    Raises OptionError if the name is unknown, Gaussian noise is to keep a pure ε, or the range is empty or not finite.
    """
    got = choose("mechanism", name, NUMBER_MECHANISMS)
    first, last = real(low), real(high)
    if first is None or last is None or not -math.inf < first < last < math.inf:
        raise OptionError(f"the range ({shown(low)}, {shown(high)}) must be two finite numbers, low < high.")
    if not budget.private:
        return NumberMechanism("gaussian", budget, first, last)
    refuse_pure(got, budget, "'piecewise', 'duchi', 'square_wave' or 'laplace'")
    return NumberMechanism(got, budget if got == "gaussian" else budget.as_pure(), first, last)


def share(budget: Budget, parts: int) -> Budget:
    """Budget of each of `parts` reports about the same person, 1 or more, that together cost `budget`.

    ε/parts of a pure budget, ρ/parts; otherwise μ/√parts.
    """
    if parts == 1 or not budget.private:
        return budget
    if budget.form in {"epsilon", "rho"}:
        return Budget.declare(**{budget.form: budget.asked[0] / parts})
    return replace(budget, mu=budget.mu / math.sqrt(parts), form="mu", asked=(budget.mu / math.sqrt(parts),))
