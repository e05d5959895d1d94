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

from privreg.audit.federated import verify_mechanism
from privreg.audit.verification import Verification as Verdict
from privreg.options.unknown import public_names
from privreg.published.federated import flower
from privreg.published.federated.model import FederatedRegression
from privreg.published.federated.reports import UPDATE_MECHANISMS, UpdateMechanism, update_mechanism
from privreg.published.federated.results import FederatedResults
from privreg.published.federated.theory import AngleBox, from_angles, to_angles
from privreg.results.statement import PrivacyStatement as ClientStatement

__all__ = [
    "UPDATE_MECHANISMS", "AngleBox", "ClientStatement", "FederatedRegression", "FederatedResults", "UpdateMechanism",
    "Verdict", "flower", "from_angles", "to_angles", "update_mechanism", "verify_mechanism",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)
