"""Regression with inference under local differential privacy.

Each person's record is randomised once, before anyone else sees it; models are fitted in one pass over the
reports, with private standard errors, intervals, t-statistics and p-values.

Examples
--------
>>> import privreg as pr
>>> people = pr.datasets.us_insurance(20_000)
>>> model = pr.PrivateOnlineRegression.from_formula(
...     "charges ~ age + bmi + smoker", people, family=pr.Huber(scale=2500), mu=1,
...     bounds={"age": (18, 65), "bmi": (18, 50), "charges": (0, 35_000)}, levels={"smoker": ["no", "yes"]})
>>> res = model.fit(progress=False)
>>> res.params.index.tolist()
['Intercept', 'smoker[T.yes]', 'age', 'bmi']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privreg import central, datasets, errors, experiments, families, federated, means
    from privreg.accounting import Budget, Ledger, limit_spending
    from privreg.comparison import compare
    from privreg.errors import PrivacyLeakError, PrivacyLeakWarning
    from privreg.families import (
        Expectile,
        Hinge,
        Huber,
        Logistic,
        Multinomial,
        Poisson,
        Quantile,
        SmoothedHinge,
        Squared,
    )
    from privreg.formula import rowwise
    from privreg.loading import load
    from privreg.model import PrivateOnlineRegression
    from privreg.planning import plan
    from privreg.schema import Schema
    from privreg.sources.database import sql
    from privreg.theory import rates

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Expectile",
    "Hinge",
    "Huber",
    "Ledger",
    "Logistic",
    "Multinomial",
    "Poisson",
    "PrivacyLeakError",
    "PrivacyLeakWarning",
    "PrivateOnlineRegression",
    "Quantile",
    "Schema",
    "SmoothedHinge",
    "Squared",
    "central",
    "compare",
    "datasets",
    "errors",
    "experiments",
    "families",
    "federated",
    "limit_spending",
    "load",
    "means",
    "plan",
    "rates",
    "rowwise",
    "sql",
]

_HOMES = {
    "Budget": "privreg.accounting",
    "Expectile": "privreg.families",
    "Hinge": "privreg.families",
    "Huber": "privreg.families",
    "Ledger": "privreg.accounting",
    "Logistic": "privreg.families",
    "Multinomial": "privreg.families",
    "Poisson": "privreg.families",
    "PrivacyLeakError": "privreg.errors",
    "PrivacyLeakWarning": "privreg.errors",
    "PrivateOnlineRegression": "privreg.model",
    "Quantile": "privreg.families",
    "Schema": "privreg.schema",
    "SmoothedHinge": "privreg.families",
    "Squared": "privreg.families",
    "compare": "privreg.comparison",
    "limit_spending": "privreg.accounting",
    "load": "privreg.loading",
    "plan": "privreg.planning",
    "rates": "privreg.theory",
    "rowwise": "privreg.formula",
    "sql": "privreg.sources.database",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: pandas, numba and patsy would make `import privreg` slow.
    from importlib import import_module

    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in {"central", "datasets", "errors", "experiments", "families", "federated", "means"}:
        value = import_module(f"privreg.{name}")
    else:
        raise import_module("privreg.unavailable").no_such_name(name, __all__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
