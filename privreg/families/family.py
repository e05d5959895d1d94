"""A family: a frozen value that says which loss is meant. The functions that make one are in its family's module."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from privreg.errors import OptionError, UnsupportedArgumentError, choose
from privreg.families.scores import SCORINGS, Declared, Score, ScoreRules, Scoring, scoring_of
from privreg.options.unknown import MODELS, TIMES
from privreg.protocol.plans import Shape
from privreg.schema.declarations import Schema

CLASSICAL_C: Final = 1.345  # Huber's constant with 95% efficiency for normal errors of sd 1


@dataclass(frozen=True, repr=False)
class Family(Declared):
    """A loss, as the user names it. Made by :func:`Huber`, :func:`Logistic` and their like."""

    def __repr__(self) -> str:
        return scoring_of(self.shape().family).words(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return from_json, (self.to_json(), self.score)

    @property
    def scoring(self) -> Scoring:
        """The score, and all that is known of it."""
        return scoring_of(self.code)

    @property
    def scaled(self) -> bool:
        """True if the response has units, so that it is scaled inside."""
        return self.scoring.scaled

    @property
    def logs(self) -> tuple[str, str] | None:
        """Names of coefficients and their exponentials where these are ratios."""
        return self.scoring.logs or {"logit": ("log-odds", "odds ratio"), "log": ("log rate", "rate ratio")}.get(
            self.link
        )

    @property
    def title(self) -> str:
        """Name in tables, with its level."""
        return self.scoring.title.format(**vars(self))

    @property
    def estimand(self) -> str:
        """Estimand of the coefficients, in words."""
        return scoring_of(self.shape().family).estimand.format(**vars(self))

    def target(self, ratio: float, *, learned: bool) -> str:
        """Target of the coefficients, in words, with the threshold c in residual scales, if there is one."""
        if not self.scoring.symmetric:
            return self.estimand
        beyond = math.erfc(ratio / math.sqrt(2.0))  # of normal errors
        near = "a median regression" if beyond > 0.5 else "least squares" if beyond < 0.05 else "a regression of means"
        moves = "; c and scale were learned, so with skewed errors another fit targets other numbers" if learned else ""
        return (
            f"close to {near}: residuals beyond ± {ratio:.4g} scale ({100.0 * beyond:.0f}% of normal ones) count by "
            f"their sign. With symmetric errors and a right model the conditional mean{moves}"
        )

    def shape(self, low: float = -1.0, high: float = 1.0, *, balanced: bool = False, plain: bool = False) -> Shape:
        """Score over its bound, for the kernel; `balanced` is of Logistic's, `plain` of Poisson's likelihood's.

        `low` and `high` are public limits of the response, internal units, which Squared needs.
        """
        return self.scoring.shape(self, low, high, balanced=balanced, plain=plain)

    def resolve(self, *, unit: float, low: float = -1.0, high: float = 1.0) -> tuple[Score, str]:
        """Turn the family into the numbers of the published algorithm, and describe it with them in the user's units.

        "auto" is the sources' fixed c = 1.345 internal units. `unit` is response units per internal one, `low` and
        `high` are public limits of the response, internal units.
        """
        scoring, shape, assumed = self.scoring, self.shape(low, high), isinstance(self.scale, str)
        ratio = CLASSICAL_C if isinstance(self.c, str) else self.c
        scale = 1.0 if isinstance(self.scale, str) else self.scale / unit
        if not scoring.cornered:
            words = repr(self).removesuffix("()")
            return scoring.published(self, shape, ratio if self.robust else 1.0, low, high), words
        size = f" {scale * unit:.4g} ({'assumed' if assumed else 'declared'})"
        size = ", estimated jointly" if self.joint else size
        words = f"{self.title}, c = {ratio:.4g} × residual scale{size}"
        return scoring.published(self, shape, ratio * scale, low, high), words


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
    family: Family,
    d: int,
    mu: float,
    *,
    low: float = -1.0,
    high: float = 1.0,
    label: bool = False,
    plain: bool = False,
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


def check_ratios(family: Family, response: str) -> None:
    """Refuse to exponentiate coefficients that are no differences of logs.

    Of a `response` that the formula has as ``np.log(y)`` they are logs of ratios of y.
    """
    if family.logs or (family.link == "identity" and _is_log(response)):
        return
    what = "those of a separating hyperplane" if family.link == "margin" else "differences of the response itself"
    raise OptionError(
        "exponentiate=True is for odds ratios of Logistic(), Multinomial() and Ordered(), rate ratios of Poisson() and "
        "NegativeBinomial(), hazard ratios of Cloglog() and Surv(), "
        f"and ratios of a response written np.log(y); this is {family!r}, whose coefficients are {what}. Leave it out."
    )


def _is_log(response: str) -> bool:
    try:
        call = ast.parse(response, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the name of a column need not be Python
        return False
    func = call.func if isinstance(call, ast.Call) else None
    of_numpy = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "np"
    return of_numpy and getattr(func, "attr", "") in {"log", "log1p"}


def with_counts(schema: Schema, family: Family, name: str) -> Schema:
    """Schema with the bounds that counts, or two limits, give the response `name`, if it has none of its own."""
    low, high = (0.0, family.y_max) if family.response == "count" else (family.low, family.high)
    if low is None or high is None or schema.declares(name) or not name.isidentifier():
        return schema
    return replace(schema, bounds={**schema.bounds, name: (low, high)})


def from_json(doc: Mapping[str, Any], score: Any = None) -> Family:
    """Rebuild a family from :meth:`Family.to_json`; one of a user's own without its score can predict, not fit."""
    if score is None:
        return Family(**doc)
    return Family(**doc, score=score, _compiled=scoring_of(doc["code"]).compiled(score, Family(**doc)))
