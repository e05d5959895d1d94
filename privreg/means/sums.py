"""Noise on sums of reports: by a trusted curator, who holds the rows, or by each of two collectors. Public.

A report has for every item a block: of a number t in [-1, 1] (a, a t, √2 a t²), a being 1 if there is one, else 0; of a
factor the indicators of its levels. The squares are there for the numbers' variance, and cost nothing: the largest
distance of two blocks of a number is 2 with them, as without. Blocks are weighted so that it is 1 of two reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from privreg.base.arrays import Array, Ints
from privreg.errors import BudgetError
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import bits_sensitivity, blocks_sensitivity, square_sensitivity
from privreg.privacy.noise import derived_key, normals

UNIT: Final = 1 << 20  # Largest distance of two reports in whole numbers, before these are rounded

ROOT2: Final = math.sqrt(2.0)


@dataclass(frozen=True)
class Sums:
    """Noise of sums of one subgroup's reports. Made by :func:`make_sums`.

    Each collector adds a rounded normal to each number of the sum, modulo 2⁶⁴. Sums being whole numbers, that is the
    rounded sum of both: rounding tells nothing.
    """

    collectors: int  # Parties that add noise: 1 is a trusted curator
    numbers: tuple[bool, ...]  # True if an item is a number, or whether there is one, and not a factor
    weights: tuple[float, ...]  # Weight of each item's block
    sizes: tuple[int, ...]  # Numbers of each item in a report, squares not counted
    squared: tuple[int, ...]  # Items whose squares follow at the end
    mu: float  # Per person, against whoever adds one of the noises; inf without privacy

    @property
    def scales(self) -> Array:
        """Whole numbers that 1 is, by number of a report; shape (width,). UNIT less 1 for floating point."""
        plain = np.repeat(self.weights, self.sizes)
        return (UNIT - 1.0) * np.concatenate([plain, ROOT2 * np.take(self.weights, self.squared)])

    @property
    def sd(self) -> float:
        """Sd of the normal that a collector rounds and adds, in whole numbers."""
        # an item that says whether there is a number belongs to the number's block
        blocks = [j for j, number in enumerate(self.numbers) if j in self.squared or not number]
        distances = [square_sensitivity() if self.numbers[j] else bits_sensitivity(2) for j in blocks]
        width = sum(self.sizes) + len(self.squared)
        return blocks_sensitivity([UNIT * self.weights[j] for j in blocks], distances, rounded=width) / self.mu

    def noised(self, exact: Ints, key: bytes) -> Array:
        """Release a sum, or several, shape (…, width): add each collector's noise, from a key for them alone."""
        with np.errstate(over="ignore"):  # sums are modulo 2⁶⁴
            for k in range(self.collectors if self.mu < math.inf else 0):
                drawn = normals(derived_key(key, f"collector {k}"), exact.size).reshape(exact.shape)
                exact = exact + np.rint(self.sd * drawn).astype(np.int64)
        return exact.astype(np.float64)

    def variances(self, people: int) -> Array:
        """Variances of the noise in means over so many people, by number of a report; shape (width,)."""
        return np.asarray(self.collectors * (self.sd / (self.scales * people)) ** 2)


def make_sums(layout: Sequence[tuple[str, int, int]], budget: Budget, collectors: int) -> Sums:
    """Weigh the blocks of a report so that the sum of relative variances is least; `layout` has kind, term and levels
    by item.

    With weights w and blocks whose largest distance is δ, Σ w² δ² = 1, an estimate's noise has the variance 1/(w μ n)².
    Over the variance of values that are evenly spread (1/3, or (1 − 1/L)/L of each of L levels, averaged over them)
    that is c/w² up to a factor, c = 3 or L²/(L − 1). Σ c/w² is least for w² ∝ √c/δ.
    Raises BudgetError if the budget is a pure one, which normal noise can't keep, or so small that noise would
    overflow.
    """
    if budget.pure:
        who = "a curator's" if collectors == 1 else "two collectors'"
        raise BudgetError(
            f"noise on {who} sums is Gaussian, which can't keep pure {budget.epsilon:g}-DP; give mu= or rho=, or "
            "delta=1e-6 with epsilon=, or take trust='local'."
        )
    spread = [math.sqrt(3.0 if kind != "factor" else n * n / (n - 1.0)) for kind, _, n in layout]
    distances = [bits_sensitivity(2) if kind == "factor" else square_sensitivity() for kind, _, _ in layout]
    whole = sum(c * d for (kind, _, _), c, d in zip(layout, spread, distances, strict=True) if kind != "answered")
    made = Sums(
        collectors=collectors,
        numbers=tuple(kind != "factor" for kind, _, _ in layout),
        weights=tuple(math.sqrt(c / (d * whole)) for c, d in zip(spread, distances, strict=True)),
        sizes=tuple(n if kind == "factor" else 1 for kind, _, n in layout),
        squared=tuple(j for j, (kind, _, _) in enumerate(layout) if kind == "number"),
        mu=budget.mu,
    )
    if made.sd > 2.0**58:
        raise BudgetError(f"{budget} needs noise beyond 64-bit sums; give a larger budget, mu=1 say.")
    return made
