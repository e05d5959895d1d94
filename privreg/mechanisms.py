"""Mechanisms: what a device adds to its report, and the only place where a sensitivity is computed.

Neighbouring data differ by *replacing* one record, so a report that lies in a ball of radius B moves
by at most 2B, and the noise sd is 2B/μ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privreg.accounting import Budget

__all__ = ["Gaussian", "bits_sensitivity", "joint_sensitivity", "psd_sensitivity", "score_sensitivity"]


def score_sensitivity(bound: float) -> float:
    """Largest ℓ2 distance of two reports that both lie in the ball of radius `bound`."""
    return 2.0 * bound


def psd_sensitivity(bound: float) -> float:
    """Largest Frobenius distance of two positive semidefinite matrices of Frobenius norm at most `bound`.

    √2 rather than 2: two such matrices have a non-negative inner product.
    """
    return math.sqrt(2.0) * bound


def joint_sensitivity(bound: float, kappa: float) -> float:
    """Largest ℓ2 distance of two joint reports: a score in the ball of radius `bound` and a number in [0, kappa]."""
    return math.hypot(score_sensitivity(bound), kappa)


def bits_sensitivity(numbers: int) -> float:
    """Largest ℓ2 distance of two reports of `numbers` numbers, each in [0, 1]."""
    return math.sqrt(numbers)


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise on every coordinate of a report: μ-GDP for the person who sends it.

    Parameters
    ----------
    budget : Budget
        Budget per person.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 3; the variance is (2 B0/μ)², correcting 4 B0²/μ in
    SXJKH (arXiv 2507.07041), Example 3.
    """

    budget: Budget
    name = "gaussian"

    def score_sd(self, bound: float) -> float:
        """Noise sd per coordinate of a score report bounded by `bound` in ℓ2 norm."""
        return score_sensitivity(bound) / self.budget.mu if self.budget.private else 0.0

    def curvature_sd(self, bound: float) -> float:
        """Noise sd per coordinate of a curvature report (positive semidefinite, Frobenius norm ≤ `bound`).

        The report lists the upper triangle with off-diagonal entries times √2, so that its ℓ2 norm is
        the matrix's Frobenius norm.
        """
        return psd_sensitivity(bound) / self.budget.mu if self.budget.private else 0.0

    def joint_sd(self, bound: float, kappa: float) -> float:
        """Noise sd per coordinate of a score report that carries a number in [0, kappa] as well."""
        return joint_sensitivity(bound, kappa) / self.budget.mu if self.budget.private else 0.0

    def bits_sd(self, numbers: int) -> float:
        """Noise sd per coordinate of a report of `numbers` numbers, each in [0, 1]."""
        return bits_sensitivity(numbers) / self.budget.mu if self.budget.private else 0.0

    def moment_sd(self) -> float:
        """Noise sd per coordinate of a moment report u uᵀ with ‖u‖ ≤ 1, its off-diagonal entries times √2."""
        return self.curvature_sd(1.0)

    def central_sd(self, bound: float) -> float:
        """Noise sd per entry of the upper triangle of a *sum* of positive semidefinite matrices bounded by `bound`.

        For a curator's one release: 2·bound/μ, the published scale. Replacing one person moves the sum by √2·bound at
        most, so each matrix is μ/√2-GDP and a pair of them μ-GDP.
        """
        return 2.0 * bound / self.budget.mu if self.budget.private else 0.0

    def score_variance(self, bound: float) -> float:
        """Noise variance per coordinate of a score report."""
        return self.score_sd(bound) ** 2

    def guarantee(self) -> str:
        """State the guarantee in one line."""
        return str(self.budget)

    def __repr__(self) -> str:
        return f"Gaussian({self.guarantee()}, per person, replace-one neighbours)"
