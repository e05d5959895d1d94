"""What the single chain needs beyond a fit's settings: public values."""

from __future__ import annotations

from dataclasses import dataclass

from privreg.inference.blocks import Layout
from privreg.published.chain.device import Device
from privreg.published.chain.steps import Steps


@dataclass(frozen=True)
class Published:
    """What a fit by the single chain needs beyond `Settings`; public."""

    device: Device
    steps: Steps
    batch: int = 1  # People per update
    curvature_share: float = 0.0  # Share of people who send curvature instead of a score
    weakest: float = 0.0  # Smallest eigenvalue of the curvature for unrelated covariates whose bounds lie at ±4 sd
    blocks: int = 1  # Linear predictors of a person
    cut: Layout | None = None  # How the path is cut into blocks, if it is

    @property
    def bound(self) -> float:
        """Bound of the weighted score's ℓ2 norm, internal units."""
        return self.device.bound

    @property
    def weighing(self) -> str:
        """Score weights, for the header."""
        return self.device.weights.name

    def report(self, p: int) -> tuple[float, int]:
        """Radius and size of a score report with `p` covariates."""
        return self.device.radius, p * self.blocks
