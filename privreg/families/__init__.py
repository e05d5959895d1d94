"""Families of losses: frozen values, their scores and constants in internal units.

A family is one module, with its score, what engines, measures and plans ask of it, and the function that users call:
`residuals` of Huber, expectiles and quantiles, `squared`, `logistic` of two and more classes, `cloglog`, `ordered`,
`poisson`, `negative_binomial`, `tobit`, `hinge`, `hazards` of times until an event, and `users` of scores of one's own.
`scores` has the class that they fill in, the table of codes, the class of a family with its options and weights of
rows, `family` families by name, `measures` measures of fit. To add one: docs/extending/add_family.md.
"""

from privreg.families.cloglog import Cloglog
from privreg.families.family import FAMILIES, Family, resolve_family
from privreg.families.hinge import Hinge, SmoothedHinge
from privreg.families.logistic import Logistic, Multinomial
from privreg.families.negative_binomial import NegativeBinomial
from privreg.families.ordered import Ordered
from privreg.families.poisson import Poisson
from privreg.families.residuals import Expectile, Huber, Quantile
from privreg.families.squared import Squared
from privreg.families.tobit import Tobit
from privreg.families.users import custom
from privreg.options.unknown import public_names

__all__ = [
    "Cloglog", "Expectile", "Family", "Hinge", "Huber", "Logistic", "Multinomial", "NegativeBinomial", "Ordered",
    "Poisson", "Quantile", "SmoothedHinge", "Squared", "Tobit", "custom", "resolve_family",
]  # fmt: skip

FAMILIES.update(
    huber=Huber,
    logistic=Logistic,
    expectile=Expectile,
    quantile=Quantile,
    multinomial=Multinomial,
    poisson=Poisson,
    hinge=Hinge,
    smoothed_hinge=SmoothedHinge,
    cloglog=Cloglog,
    ordered=Ordered,
    negative_binomial=NegativeBinomial,
    tobit=Tobit,
    squared=Squared,
    gaussian=Squared,  # as R and statsmodels call mean regression
)

for _name in FAMILIES:
    globals().pop(_name, None)  # a module, such as `hinge`, which is not what the name means here

__dir__, __getattr__ = public_names(__name__, __all__)
