"""Families of losses: frozen values, their scores and constants in internal units.

A family is one module, with its score, what engines, measures and plans ask of it, and the function that users call:
`huber`, `expectile`, `quantile`, `squared`, `logistic`, `multinomial`, `poisson`, `hinge`, and `users` of scores of
one's own. `scores` has the class that they fill in and the table of codes, `residuals` the part of clipped residuals,
`declared` a family's options, `family` their class, `registry` families by name, `measures` measures of fit, `weights`
weights of rows.
"""

from privreg.families.family import Family
from privreg.families.registry import (
    Expectile,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    SmoothedHinge,
    Squared,
    custom,
    resolve_family,
)
from privreg.options.unknown import public_names

__all__ = [
    "Expectile", "Family", "Hinge", "Huber", "Logistic", "Multinomial", "Poisson", "Quantile", "SmoothedHinge",
    "Squared", "custom", "resolve_family",
]  # fmt: skip

for _name in ("huber", "expectile", "quantile", "squared", "logistic", "multinomial", "poisson", "hinge"):
    globals().pop(_name, None)  # the module, which is not what `families.huber` means

__dir__, __getattr__ = public_names(__name__, __all__)
