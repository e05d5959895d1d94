"""Families by name, and what is asked of a family as a whole. The functions that make one are in its module."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from privreg.errors import OptionError, UnsupportedArgumentError, choose
from privreg.families.scores import CLASSICAL_C, SCORINGS, Family, ScoreRules, from_json
from privreg.options.unknown import MODELS, TIMES
from privreg.schema.declarations import Schema

__all__ = [
    "CLASSICAL_C", "FAMILIES", "Family", "check_ratios", "from_json", "resolve_family", "score_rules", "with_counts",
]  # fmt: skip

FAMILIES: Final[dict[str, Callable[..., Family]]] = {}
"""Functions that make families, by the name that users may write instead; `privreg.families` fills it."""
NEEDED: Final = {
    "poisson": "Poisson(y_max=...), with the largest count anybody may have",
    "negative_binomial": "NegativeBinomial(y_max=...), with the largest count anybody may have",
    "tobit": "Tobit(low=...), Tobit(high=...) or both, the limits at which responses are censored",
}
"""Families that aren't made without a number, as they are written."""


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
        if name in NEEDED:
            raise OptionError(f"family={name!r} needs a public number; write {NEEDED[name]}.")
        return FAMILIES[name]()
    if callable(family) and got == "custom":
        raise UnsupportedArgumentError("family=custom lacks its arguments; write custom(name, score, bound).")
    for name, make in FAMILIES.items():
        if family is make:
            write = NEEDED.get(name, f"{make.__name__}() or {name!r}")
            raise UnsupportedArgumentError(f"family={make.__name__} lacks its brackets; write {write}.")
    known = (MODELS.get(got) or MODELS.get(got.lower()) or "").replace("pr.", "")
    meant = f" Did you mean {known}?" if known else ""
    raise UnsupportedArgumentError(
        f"family must be a privreg family or its name ({', '.join(map(repr, FAMILIES))}), got {got}.{meant}"
    )


def score_rules(
    family: Family, d: int, mu: float, *, low: float = -1.0, high: float = 1.0, label: bool = False, plain: bool = False
) -> ScoreRules:
    """Rules of a family for a fit by rounds of `d` coefficients at `mu` per person.

    `low` and `high` are public limits of the response, internal units. `label` is True if only the response is
    private: then a score's range counts, not its size. `plain` is True if no score has a divisor that depends on
    covariates, as likelihoods have none.
    Raises OptionError if the family is the published chain's alone; ValueError of a code without rules here.
    """
    family.refuse_joint()
    shape = family.shape(low, high, balanced=not (label or plain), plain=plain)
    return family.scoring.rules(family, shape, d, mu, low, high)


_LOG: Final = re.compile(r"np\.log(1p)?\(([^()]|\([^()]*\))*\)")  # One call, around what may have calls inside


def check_ratios(family: Family, response: str) -> None:
    """Refuse to exponentiate coefficients that are no differences of logs.

    Of a `response` that the formula has as ``np.log(y)`` they are logs of ratios of y.
    """
    if family.logs or (family.link == "identity" and _LOG.fullmatch(response)):
        return
    what = "differences of the response itself" if family.link == "identity" else family.estimand.partition(";")[0]
    raise OptionError(
        "exponentiate=True is for odds ratios of Logistic(), Multinomial() and Ordered(), rate ratios of Poisson() and "
        "NegativeBinomial(), hazard ratios of Cloglog() and Surv(), "
        f"and ratios of a response written np.log(y); this is {family!r}, whose coefficients are {what}. Leave it out."
    )


def with_counts(schema: Schema, family: Family, name: str) -> Schema:
    """Schema with the bounds that counts, or two limits, give the response `name`, if it has none of its own."""
    low, high = (0.0, family.y_max) if family.response == "count" else (family.low, family.high)
    if low is None or high is None or schema.declares(name) or not name.isidentifier():
        return schema
    return replace(schema, bounds={**schema.bounds, name: (low, high)})
