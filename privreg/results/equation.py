"""The equation that a fit's estimates solve: its own weights, corners and offsets, public and randomised numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privreg.arrays import Array
from privreg.files import archive
from privreg.protocol.plans import Shape


@dataclass(frozen=True)
class Equation:
    """Σ_j a_j E ω(z) z ψ_j(z'(θ + δ_j), y) = e in θ, z = W x: covariates and response in internal units.

    States of rounds and groups with the same threshold and offset count together.
    """

    shape: tuple[int, float, float]  # Of the score: family's code and constants, see `protocol.plans.Shape`
    weighing: str  # Name of the score weights ω, see `families.weights`
    rows: Array  # W; shape (d, d), or a scale and a shift of each column, (2, d)
    order: NDArray[np.int64]  # Columns of the design in the order of W; shape (d,)
    constant: bool  # Whether the first of them is the constant
    y_centre: float  # The response is (y − y_centre)/y_scale, beyond the public units
    y_scale: float
    weights: Array  # a, sum 1; shape (m,)
    corners: Array  # c_j of ψ_j; shape (m,)
    offsets: Array  # δ_j; shape (m, b d)
    bend: Array  # e: what offsets add by the law of the fit; shape (b d,)
    theta: Array  # The estimate; shape (b d,)
    # Of two collectors: ω(z) = Σ_k shares_k min(1, 1/‖caps_k z‖²); shapes (k, d, d), (k,). Empty of others
    caps: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    shares: Array = field(default_factory=lambda: np.zeros(0))
    ratio: float | None = None  # Where c follows the residuals: in their normal-consistent median absolute size
    budgets: tuple[str, float] | None = None  # Column of personal budgets and their ceiling, by which records count

    @property
    def score(self) -> Shape:
        """The score's shape."""
        return Shape(*self.shape, 0)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, to be saved."""
        return {f"equation_{n}": getattr(self, n) for n in _ARRAYS}

    def to_json(self) -> dict[str, Any]:
        """All the rest."""
        return {
            "shape": list(self.shape),
            "weighing": self.weighing,
            "constant": self.constant,
            "response": [self.y_centre, self.y_scale],
            "ratio": self.ratio,
            "budgets": None if self.budgets is None else list(self.budgets),
        }


_ARRAYS = ("rows", "order", "weights", "corners", "offsets", "bend", "theta", "caps", "shares")
_NEWER = {"caps": (0, 0, 0), "shares": (0,)}  # Arrays that files of earlier versions lack, and their shapes there


def equation_from(document: Mapping[str, Any], arrays: Mapping[str, Any], size: int) -> Equation:
    """Rebuild what was saved of a fit with `size` coefficients.

    Raises
    ------
    ValueError
        If the arrays don't fit each other.
    """
    given = {f"equation_{n}": np.zeros(shape) for n, shape in _NEWER.items()} | dict(arrays)
    held = {n: np.array(given[f"equation_{n}"]) for n in _ARRAYS}
    d, m = len(held["order"]), len(held["weights"])
    archive.expect(held["rows"].shape in {(d, d), (2, d)}, held["offsets"].shape == (m, size))
    archive.expect(
        held["corners"].shape == (m,), held["theta"].shape == held["bend"].shape == (size,), size % max(d, 1) == 0
    )
    archive.expect(sorted(held["order"].tolist()) == list(range(d)))
    archive.expect(held["caps"].shape in {(0, 0, 0), (len(held["shares"]), d, d)})
    family, a, b = document["shape"]
    y_centre, y_scale = document["response"]
    budgets, ratio = document["budgets"], document.get("ratio")
    return Equation(
        shape=(int(family), float(a), float(b)),
        weighing=str(document["weighing"]),
        constant=bool(document["constant"]),
        y_centre=float(y_centre),
        y_scale=float(y_scale),
        ratio=None if ratio is None else float(ratio),
        budgets=None if budgets is None else (str(budgets[0]), float(budgets[1])),
        **held,
    )
