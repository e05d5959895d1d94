"""An audit of the reports of silos, of all rounds together."""

from __future__ import annotations

from privreg.audit.verification import Verification, verify
from privreg.errors import BudgetError
from privreg.published.federated.reports import UpdateMechanism, trials

__all__ = ["verify_mechanism"]


def verify_mechanism(
    mechanism: UpdateMechanism, *, rounds: int = 1, n: int = 20_000, alpha: float = 1e-6, seed: int | None = None
) -> Verification:
    """Audit the reports of all rounds together: `n` transcripts of each neighbour.

    `alpha` is the probability of a lower limit above the true value.
    Raises BudgetError if there is no noise to audit; OptionError if `n` or `alpha` is out of range.

    References
    ----------
    Clopper & Pearson (1934); see `privreg.audit.neighbours.audit`.
    """
    if not mechanism.budget.private:
        raise BudgetError("there is no mechanism to audit: mu=None asked for no privacy.")
    each = f" in each of {rounds} rounds" if rounds > 1 else ""
    return verify(trials(mechanism, rounds=rounds, seed=seed), claim=f"{mechanism.budget}{each}", n=n, alpha=alpha)
