"""Step sizes γ_k = γ (k + i0)^(−α) of the k-th update."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Steps(NamedTuple):
    """A step-size sequence."""

    gamma: float  # γ > 0, internal units
    alpha: float  # α in (0, 1), and 1 in experiments; intervals need α > 1/2
    delay: float  # i0 ≥ 0

    def block(self, updates: int, m: int) -> NDArray[np.float64]:
        """γ of updates number `updates` + 1 … `updates` + m, shape (m,)."""
        k = np.arange(updates + 1, updates + m + 1, dtype=np.float64)
        return self.gamma * np.power(k + self.delay, -self.alpha)

    def total(self, updates: int) -> float:
        """Σγ over the first `updates` updates, by the integral that bounds it from below."""
        a = 1.0 - self.alpha
        if a == 0.0:  # in experiments alone
            return self.gamma * math.log((updates + 1 + self.delay) / (1 + self.delay))
        return self.gamma / a * float((updates + 1 + self.delay) ** a - (1 + self.delay) ** a)
