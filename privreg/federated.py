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

from privreg.options.unknown import stub_names

__all__, __dir__, __getattr__ = stub_names(__name__)
