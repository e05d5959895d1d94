"""Several rows of a person in one report: the part of a formula after ``|``, and models that can't have such rows."""

from __future__ import annotations

import math
import re
from typing import Final

from privreg.collector.inference.methods import LEAST
from privreg.data.participants import DIFFERENCES, WITHIN, Participants
from privreg.errors import FormulaError, OptionError, SchemaError, UnsupportedArgumentError
from privreg.families.family import Family
from privreg.formula.design import Design
from privreg.formula.survival import with_survival
from privreg.formula.units import Units

_COLUMN: Final = r"""(?:Q\(\s*(?P<q>['"])(?P<quoted>.+?)(?P=q)\s*\)|(?P<name>[^\W\d]\w*))"""
_EFFECT: Final = re.compile(rf"\s*(?:{_COLUMN}|(?P<diff>diff)\s*\((?P<inner>.*)\))\s*")


def without_effect(formula: str) -> tuple[str, tuple[str, str] | None]:
    """A formula without its part after ``|``, and that part: a kind, `WITHIN` or `DIFFERENCES`, and a column.
    Raises FormulaError if that is not one column, or ``diff()`` of one.

    Examples
    --------
    >>> without_effect("y ~ x | diff(who)")
    ('y ~ x', ('differences', 'who'))
    >>> without_effect("y ~ I((x > 1) | (x < 0))")
    ('y ~ I((x > 1) | (x < 0))', None)
    """
    at = _bar(formula)
    if at is None:
        return formula, None
    left, right = formula[:at].rstrip(), formula[at + 1 :]
    if "~" in right:
        raise FormulaError(f"the formula {formula!r} has instruments after |, which are not supported.")
    outer = _EFFECT.fullmatch(right)
    found = _EFFECT.fullmatch(outer["inner"]) if outer is not None and outer["diff"] else outer
    if outer is None or found is None or found["diff"]:
        raise FormulaError(
            f"after | the formula {formula!r} has {right.strip()!r}, and there stands one column, that of id=, whose "
            f"levels a person's device takes out: write '{left} | person', or '{left} | diff(person)' for differences "
            "of a person's rows in their order; further factors are terms, as C(year) is."
        )
    return left, (DIFFERENCES if outer["diff"] else WITHIN, found["quoted"] or found["name"])


def with_effect(formula: str, people: Participants) -> str:
    """A formula with the part that `without_effect` took from it."""
    if people.followed is not None:
        return with_survival(formula, people.followed)
    if people.effect is None:
        return formula
    name = str(people.id)
    name = name if name.isidentifier() else f"Q({name!r})"
    return f"{formula} | {name if people.effect == WITHIN else f'diff({name})'}"


def _bar(formula: str) -> int | None:
    """Place of the first | outside of brackets and quotes."""
    depth, quote = 0, ""
    for at, sign in enumerate(formula):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign == "|" and depth == 0:
            return at
        else:
            depth += (sign in "([{") - (sign in ")]}")
    return None


def refuse_of_persons(
    people: Participants, family: Family, design: Design, units: Units, trust: str, private: str = "record"
) -> None:
    """Refuse a model of which a report can't be of several rows, or weighted. On public grounds.
    Raises UnsupportedArgumentError if reports are those of `trust`, or of a family, that has only single rows yet;
    OptionError or SchemaError if weights or columns have no public bounds, or an option doesn't go with several rows.
    """
    if people.cluster is not None:
        _refuse_clusters(people, design, private)
    if not people.gathered or (people.followed is not None and people.weight is None):
        return
    option = "weights=" if people.k_max is None else f"k_max={people.k_max}"
    if private == "response":
        raise OptionError(
            f"{option} goes with private='record': how many rows a person has, and their weight, are no more public "
            "than what is in them; leave private= out."
        )
    if trust == "local":
        _refuse_local(option, family, design, units)
    if people.mu is not None:
        raise UnsupportedArgumentError(
            f"{people.spent}={people.mu!r} of personal budgets doesn't go with {option}; give one budget for all."
        )
    if people.missing == "drop":
        raise OptionError(
            f"missing='drop' doesn't go with {option}: rows that can't be used are left out of their person, who "
            "reports all the same; leave missing= out."
        )
    if family.scoring.multiple and trust != "local":
        raise UnsupportedArgumentError(
            f"{option} doesn't go with Multinomial() where noise falls on sums: squared scores of several rows have "
            "too many numbers; use Logistic() for each level, or trust='local'."
        )
    if people.weight is not None:
        low, high = design.schema.limits(people.weight)
        if not 0.0 <= low < high < float("inf"):
            raise SchemaError(
                f"weights={people.weight!r} needs public bounds from 0 on, as the largest one sets the noise: declare "
                f"bounds={{{people.weight!r}: (0, largest)}}."
            )
    if people.effect is not None:
        _refuse_without_levels(people, family, design, units)


def _refuse_clusters(people: Participants, design: Design, private: str) -> None:
    """Refuse clusters that aren't declared, that are too few, or that an option of the reports excludes."""
    levels = design.schema.levels.get(str(people.cluster))
    if levels is None:
        raise SchemaError(
            f"cluster={people.cluster!r} needs all clusters, which are public: declare "
            f"levels={{{people.cluster!r}: [...]}}."
        )
    if len(levels) < LEAST:
        raise OptionError(
            f"cluster={people.cluster!r} has {len(levels)} declared clusters, and intervals follow from how random "
            f"groups of them differ: {LEAST} are the fewest. Of fewer put C({people.cluster}) into the formula."
        )
    if people.mu is not None or private == "response" or people.missing == "drop":
        raise UnsupportedArgumentError(
            f"cluster={people.cluster!r} goes with one mu=, private='record' and missing='noise'; leave the others out."
        )


def _refuse_local(option: str, family: Family, design: Design, units: Units) -> None:
    """Refuse models without second moments, which show how much of a local report of several rows is filled."""
    if units.unscaled.any() or (units.y_unscaled and family.scoring.residual):
        raise SchemaError(
            f"{option} needs public bounds of every number, as reports on scales don't tell how many rows a person "
            "has; declare bounds=."
        )


def _refuse_without_levels(people: Participants, family: Family, design: Design, units: Units) -> None:
    """Refuse a model from which a person's level can't be taken."""
    said = with_effect("", people).strip()
    linear = family.scoring.linear
    if not linear and not family.scoring.conditional:
        raise UnsupportedArgumentError(
            f"'{said}' goes with Squared(), Huber() and Logistic(): of {family!r} a person's level can't be taken out "
            "of single rows."
        )
    if not linear and people.k_max != 2:
        raise UnsupportedArgumentError(
            f"'{said}' with Logistic() is the conditional logit of two rows a person, and k_max={people.k_max}; more "
            "rows are not there yet: give k_max=2, or Squared() for differences of shares."
        )
    if design.offset is not None and not math.isfinite(sum(design.schema.limits(design.offset))):
        raise SchemaError(
            f"offset={design.offset!r} needs public bounds with '{said}', which set how far responses less their "
            f"level may be from 0: declare bounds={{{design.offset!r}: (low, high)}}."
        )
    if (units.constant != 0.0).sum() != 1:
        raise UnsupportedArgumentError(
            f"'{said}' needs a model with an intercept, which takes what a person's level leaves; leave out '- 1' or "
            "'+ 0'."
        )
