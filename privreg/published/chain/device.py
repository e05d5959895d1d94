"""What every device of the published chain knows.

A device holds one row (x, y), receives the public iterate θ and sends one report. The order is always
score → weight → bound → clip to the bound → randomise, in the compiled loop, `kernels`.

`bound` is the declared sup of ‖ω(x) ψ x‖₂. The clip is a safety net: were the declared bound wrong,
the report would be biased and stay private. How much it is randomised comes from the mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from privreg.families.scores import Score
from privreg.families.weights import ScoreWeights
from privreg.privacy.mechanisms import Mechanism

Function = Callable[[float, float], float] | None


class Device(NamedTuple):
    """What every device knows before it sees its row: public."""

    score: Score  # Scalar score and its bound, internal units
    weights: ScoreWeights  # ω(x)
    mechanism: Mechanism  # Randomiser
    row_bound: float  # sup ‖x‖ω that holds for the declared covariates (finite for every form of weight)
    curvature_bound: float  # sup of ‖ω ∂ψ x xᵀ‖_F, or inf where no curvature may be reported
    function: Function = None  # Score over its bound of a user's own family
    alone: bool = False  # Whether x is the constant 1, so that a score report is one number of known range

    @property
    def centre(self) -> float:
        """What a score report is randomised about."""
        return 0.5 * sum(self.score.range) if self.alone else 0.0

    @property
    def radius(self) -> float:
        """Radius by which a score report is randomised: half the range of a single number, else by its bound."""
        low, high = self.score.range
        return self.mechanism.score_radius(0.5 * (high - low) if self.alone else self.bound)

    @property
    def bound(self) -> float:
        """Declared bound B0 of the weighted score's ℓ2 norm."""
        return self.score.bound * self.row_bound
