"""Families of losses: frozen values, their scores and constants in internal units.

`builtin` are the families by name, `family` is their class, `compiled` compiles a score that users define, `scores`,
`counts` and `weights` compute reports on devices, `constants` follow from normal residuals, `measures` are measures
of fit.
"""

from privreg.families.builtin import (
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
from privreg.families.family import Family
from privreg.options.unknown import public_names

__all__ = [
    "Expectile", "Family", "Hinge", "Huber", "Logistic", "Multinomial", "Poisson", "Quantile", "SmoothedHinge",
    "Squared", "custom", "resolve_family",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)
