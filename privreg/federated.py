"""Federated regression: silos that keep their records and send randomised model updates.

The unit of protection is one silo's whole contribution, records and their number (client level).

The algorithm is `privreg.published.federated`; these are its public names. `flower` has the apps that run it for real.

Examples
--------
>>> import privreg as pr
>>> people = pr.datasets.us_insurance(6000)
>>> model = pr.federated.FederatedRegression.from_formula(
...     "smoker ~ age + charges", [people.iloc[i::60] for i in range(60)], family="logistic", mu=2,
...     bounds={"age": (18, 65), "charges": (0, 35_000)}, levels={"smoker": ["no", "yes"]})
>>> model.fit(progress=False).params.index.tolist()
['Intercept', 'age', 'charges']
"""

from __future__ import annotations

from privreg.audit.verification import Verification as Verdict
from privreg.audit.verification import verify
from privreg.errors import BudgetError
from privreg.options.unknown import public_names
from privreg.published.federated import flower
from privreg.published.federated.model import FederatedRegression
from privreg.published.federated.reports import UPDATE_MECHANISMS, UpdateMechanism, trials, update_mechanism
from privreg.published.federated.results import FederatedResults
from privreg.published.federated.theory import AngleBox, from_angles, to_angles
from privreg.results.statement import PrivacyStatement as ClientStatement

__all__ = [
    "UPDATE_MECHANISMS", "AngleBox", "ClientStatement", "FederatedRegression", "FederatedResults", "UpdateMechanism",
    "Verdict", "flower", "from_angles", "to_angles", "update_mechanism", "verify_mechanism",
]  # fmt: skip


def verify_mechanism(
    mechanism: UpdateMechanism, *, rounds: int = 1, n: int = 20_000, alpha: float = 1e-6, seed: int | None = None
) -> Verdict:
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


__dir__, __getattr__ = public_names(__name__, __all__)
