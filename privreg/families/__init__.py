"""Which loss is meant: families as frozen values, their scores and constants in internal units.

`builtin` has the user's ways to make one, `family` what one is, `compiled` a score of the user's own, `scores`,
`counts` and `weights` what devices compute, `constants` what follows from normal residuals, `measures` how fit is
measured.
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
from privreg.options.elsewhere import public_names

__all__ = [
    "Expectile", "Family", "Hinge", "Huber", "Logistic", "Multinomial", "Poisson", "Quantile", "SmoothedHinge",
    "Squared", "custom", "resolve_family",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)
