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

from privreg.base.version import __version__

if TYPE_CHECKING:
    from privreg import central, datasets, errors, families, federated, means
    from privreg.data.sources.csv import csv
    from privreg.data.sources.database import sql
    from privreg.doors.loading import load
    from privreg.doors.regression import PrivateOnlineRegression
    from privreg.errors import PrivacyLeakError, PrivacyLeakWarning
    from privreg.families import (
        Cloglog,
        Expectile,
        Hinge,
        Huber,
        Logistic,
        Multinomial,
        NegativeBinomial,
        Ordered,
        Poisson,
        Quantile,
        SmoothedHinge,
        Squared,
        Tobit,
    )
    from privreg.formula.language.rowwise import rowwise
    from privreg.means.model import survival, table_one
    from privreg.planning.power import plan
    from privreg.planning.two_groups import plan_two_groups
    from privreg.privacy.ledger import Budget, Ledger, limit_spending
    from privreg.results.several.comparison import anova, compare
    from privreg.results.several.meta import meta_analysis
    from privreg.results.several.shrinkage import shrink
    from privreg.schema.declarations import Schema
    from privreg.simulation.simulate import simulate


__all__ = [
    "Budget", "Cloglog", "Expectile", "Hinge", "Huber", "Ledger", "Logistic", "Multinomial", "NegativeBinomial",
    "Ordered", "Poisson", "PrivacyLeakError", "PrivacyLeakWarning", "PrivateOnlineRegression", "Quantile", "Schema",
    "SmoothedHinge", "Squared", "Tobit", "__version__", "anova", "central", "compare", "csv", "datasets", "errors",
    "families", "federated", "limit_spending", "load", "means", "meta_analysis", "plan", "plan_two_groups",
    "rowwise", "shrink", "simulate", "sql", "survival", "table_one",
]  # fmt: skip

_HOMES = {
    name: f"privreg.{home}"
    for home, names in {
        "data.sources.csv": "csv",
        "data.sources.database": "sql",
        "errors": "PrivacyLeakError PrivacyLeakWarning",
        "families": (
            "Cloglog Expectile Hinge Huber Logistic Multinomial NegativeBinomial Ordered Poisson Quantile "
            "SmoothedHinge Squared Tobit"
        ),
        "formula.language.rowwise": "rowwise",
        "doors.loading": "load",
        "means.model": "survival table_one",
        "planning.power": "plan",
        "planning.two_groups": "plan_two_groups",
        "privacy.ledger": "Budget Ledger limit_spending",
        "doors.regression": "PrivateOnlineRegression",
        "results.several.comparison": "anova compare",
        "results.several.meta": "meta_analysis",
        "results.several.shrinkage": "shrink",
        "schema.declarations": "Schema",
        "simulation.simulate": "simulate",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    # Imported on first use: pandas, numba and patsy would make `import privreg` slow.
    from importlib import import_module

    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in {"central", "datasets", "errors", "families", "federated", "means"}:
        value = import_module(f"privreg.{name}")
    else:
        value = None if name.startswith("_") else import_module("privreg.base.optional").find("names", name)
        if value is None:
            raise import_module("privreg.options.unknown").no_such_name(name, __dir__())
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from privreg.base.optional import added

    return sorted({*__all__, *added("names")})
