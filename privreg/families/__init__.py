"""Families of losses: frozen values, their scores and constants in internal units.

A family is one module, with its score, what engines, measures and plans ask of it, and the function that users call:
`residuals` of Huber, expectiles and quantiles, `squared`, `logistic` of two and more classes, `cloglog`, `ordered`,
`poisson`, `negative_binomial`, `tobit`, `hinge`, `hazards` of times until an event, and `users` of scores of one's own.
`scores` has the class that they fill in, the table of codes and a family's options, `family` their class, `measures`
measures of fit, `weights` weights of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from privreg.errors import OptionError, UnsupportedArgumentError, choose
from privreg.families.cloglog import Cloglog
from privreg.families.family import Family
from privreg.families.hinge import Hinge, SmoothedHinge
from privreg.families.logistic import Logistic, Multinomial
from privreg.families.negative_binomial import NegativeBinomial
from privreg.families.ordered import Ordered
from privreg.families.poisson import Poisson
from privreg.families.residuals import Expectile, Huber, Quantile
from privreg.families.scores import SCORINGS
from privreg.families.squared import Squared
from privreg.families.tobit import Tobit
from privreg.families.users import custom
from privreg.options.unknown import MODELS, TIMES, public_names

__all__ = [
    "Cloglog", "Expectile", "Family", "Hinge", "Huber", "Logistic", "Multinomial", "NegativeBinomial", "Ordered",
    "Poisson", "Quantile", "SmoothedHinge", "Squared", "Tobit", "custom", "resolve_family",
]  # fmt: skip

FAMILIES: Final[dict[str, Callable[..., Family]]] = {
    "huber": Huber,
    "logistic": Logistic,
    "expectile": Expectile,
    "quantile": Quantile,
    "multinomial": Multinomial,
    "poisson": Poisson,
    "hinge": Hinge,
    "smoothed_hinge": SmoothedHinge,
    "cloglog": Cloglog,
    "ordered": Ordered,
    "negative_binomial": NegativeBinomial,
    "tobit": Tobit,
    "squared": Squared,
    "gaussian": Squared,  # as R and statsmodels call mean regression
}


def resolve_family(family: Any, *, curator: bool = False) -> Family:
    """Accept a `Family` or its lower-case name; with a `curator` also one of the published descent.
    Raises OptionError if the name is not known; UnsupportedArgumentError if `family` is a class, function or object of
    another library.
    """
    if isinstance(family, Family):
        if family.code < 0 and not curator:
            raise UnsupportedArgumentError(
                f"{family!r} has no score of bounded length, which people's reports need; it is for a trusted "
                "curator, trust='central'."
            )
        if family.code >= 0 and (family.code not in SCORINGS or family.scoring.form):
            raise UnsupportedArgumentError(
                f"{family!r} is none of {', '.join(map(repr, FAMILIES))}; of a score of your own write "
                "custom(name, score, bound)."
            )
        return family
    got = family if isinstance(family, str) else getattr(family, "__name__", type(family).__name__)
    if got.lower() in TIMES.names:
        raise UnsupportedArgumentError(f"family={got} is not known: {TIMES.hint}.")
    if isinstance(family, str):
        name = choose("family", family, FAMILIES)
        if name in {"poisson", "negative_binomial"}:
            written = "Poisson" if name == "poisson" else "NegativeBinomial"
            raise OptionError(f"family={name!r} needs a public largest count; write {written}(y_max=...).")
        return FAMILIES[name]()
    if family is custom:
        raise UnsupportedArgumentError("family=custom lacks its arguments; write custom(name, score, bound).")
    for name, make in FAMILIES.items():
        if family is make:
            write = "Poisson(y_max=20)" if name == "poisson" else f"{make.__name__}() or {name!r}"
            raise UnsupportedArgumentError(f"family={make.__name__} lacks its brackets; write {write}.")
    known = (MODELS.get(got) or MODELS.get(got.lower()) or "").replace("pr.", "")
    meant = f" Did you mean {known}?" if known else ""
    raise UnsupportedArgumentError(
        f"family must be a privreg family or its name ({', '.join(map(repr, FAMILIES))}), got {got}.{meant}"
    )


for _name in FAMILIES:
    globals().pop(_name, None)  # a module, such as `hinge`, which is not what the name means here

__dir__, __getattr__ = public_names(__name__, __all__)
