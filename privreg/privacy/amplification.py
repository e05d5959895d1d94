"""Amplification by shuffling: what pure local reports are worth once nobody knows who sent which."""

from __future__ import annotations

import math

from privreg.errors import BudgetError, real, shown


def shuffling_limit(n: int, delta: float) -> float:
    """Largest local ε for which :func:`shuffled` has a theorem: log(n/(16 log(2/δ)))."""
    return math.log(n / (16 * math.log(2 / delta)))


def shuffled(epsilon0: float, n: int, delta: float) -> float:
    """Central ε of `n` people's reports, one each, once a trusted shuffler has hidden who sent which.

    `epsilon0` is the pure local ε of a person and report, above 0. What is returned is the ε of an (ε, δ)-DP guarantee
    towards whoever sees the shuffled reports only, never more than `epsilon0`:
    log(1 + (e^ε0 − 1)/(e^ε0 + 1) · (8√(e^ε0 log(4/δ))/√n + 8 e^ε0/n)).
    Raises BudgetError if a number is out of range, or ε0 > log(n/(16 log(2/δ))), where the theorem says nothing.

    The theorem permutes the *people* uniformly at random and then calls one ε0-DP randomiser after another. The i-th
    randomiser may depend on the earlier reports, not on who is called. So reports may be adaptive, provided that the
    order of the people is uniformly random and stays unknown to the attacker. Neighbours replace one record.

    See Feldman, McMillan & Talwar (2021), Hiding among the clones, FOCS, Theorem III.1 (3.1 of arXiv 2012.12803).
    """
    e, d, people = real(epsilon0), real(delta), real(n)
    if e is None or not 0 < e < math.inf:
        raise BudgetError(f"epsilon0={shown(epsilon0)} must be a positive number, the pure local ε of each report.")
    if d is None or not 0 < d < 1:
        raise BudgetError(f"delta={shown(delta)} must be in (0, 1); 1e-6 is usual.")
    if people is None or not 1 <= people < math.inf or people != int(people):
        raise BudgetError(f"n={shown(n)} must be a number of people, 1 or more.")
    limit = shuffling_limit(int(people), d)
    if e > limit:
        needed = math.exp(min(e, 100.0)) * 16 * math.log(2 / d)
        raise BudgetError(
            f"amplification by shuffling is proved for epsilon0 up to log(n/(16 log(2/delta))) = {limit:.3g} here, "
            f"got {e:g}; it takes {math.ceil(needed):,} people or more, a smaller epsilon0 or a larger delta."
        )
    grown = math.exp(e)
    size = 8 * math.sqrt(grown * math.log(4 / d) / people) + 8 * grown / people
    return min(e, math.log1p(math.tanh(e / 2) * size))
