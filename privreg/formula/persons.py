"""Rows of persons in a formula: ``Surv()``, the part after ``|``, and models that can have no such rows."""

import ast
import math
import re
from typing import Any, Final

import numpy as np
from scipy.special import gammaincinv

from privreg.collector.inference.methods import LEAST
from privreg.data.followed import Followed
from privreg.data.participants import DIFFERENCES, WITHIN, Participants
from privreg.errors import FormulaError, OptionError, SchemaError, UnsupportedArgumentError, real, refuse
from privreg.families import Huber
from privreg.families.family import Family
from privreg.families.hazards import ENDED, INTERVAL, USUAL
from privreg.formula.design import Design
from privreg.formula.language.allowlist import column_name
from privreg.formula.language.parse import constant_value, refuse_deep, syntax
from privreg.formula.units import Units

MOST_CUTS: Final = 60  # Intervals at most: each has a coefficient

RATIO: Final = 1.5  # Hazard ratio that an interval of a fit with local reports would just tell from 1


def without_survival(formula: Any) -> tuple[Any, Followed | None]:
    """A formula, of ``Surv()`` as that of rows of intervals, and what its left-hand side says; None of others.
    Raises FormulaError if it is no such call of columns with public cut points.
    """
    if not isinstance(formula, str) or not formula.lstrip().startswith("Surv("):
        return formula, None
    left, tilde, right = formula.partition("~")
    call, cause = syntax(left.strip()), None
    wrong = FormulaError(
        f"the formula {formula!r} can't be read: Surv() takes columns, then public cut points, between which hazards "
        "are constant; write Surv(time, event, [6, 12, 24]) ~ age, or, with late entry, Surv(start, stop, event, "
        "[6, 12, 24]) ~ age. An event that isn't 0 or 1 has levels= with censoring first: levels={'event': [1, 2]}."
    )
    if call is not None and tilde:
        refuse_deep(call, left)
    match call:
        case ast.Call(_, [*of, ast.List(points) | ast.Tuple(points) | ast.Call(ast.Name("c"), points, [])], words):
            columns, cuts = [column_name(node) for node in of], [real(constant_value(point)) for point in points]
        case _:
            raise wrong
    for word in words:
        if word.arg != "cause":
            raise FormulaError(f"Surv() has no {word.arg}=; it takes cause=, one level of the event.")
        if not isinstance(word.value, ast.Constant):
            raise wrong
        cause = word.value.value
    if not tilde or not 2 <= len(columns) <= 3 or None in columns:
        raise wrong
    *start, time, event = [str(name) for name in columns]
    rising = [cut for cut in cuts if cut is not None and 0.0 < cut < math.inf]
    if len(rising) < len(cuts) or not 1 <= len(cuts) <= MOST_CUTS or not (np.diff(rising) > 0.0).all():
        raise FormulaError(
            f"the cut points of {left.strip()} must be rising positive numbers, at most {MOST_CUTS} of them: hazards "
            "are constant in between, from time 0 on, and nobody is followed beyond the last one."
        )
    out = Followed(time, event, tuple(rising), start[0] if start else None, cause)
    if len(set(out.columns)) < len(out.columns):
        raise FormulaError(f"{out.written} needs a column for each of its times and one for the event.")
    return f"{ENDED} ~ {f'C({INTERVAL}) + ' * (len(cuts) > 1)}{right.strip()}", out


def refuse_beside(followed: Followed, people: Participants, asked: Any, design: Any, named: Any) -> None:
    """Refuse options that don't go with ``Surv()``, on public grounds.

    `asked` are the options, and `named` the columns of the data, as far as they are known.
    Raises FormulaError or UnsupportedArgumentError.
    """
    if both := [c for c in followed.columns if c in design.covariates]:
        raise FormulaError(f"{', '.join(both)} stands on both sides of {followed.written}; keep one.")
    if "Intercept" not in design.names:
        raise FormulaError(f"{followed.written} needs an intercept, the first interval's hazard; leave out '- 1'.")
    if INTERVAL in (named or ()) and any(INTERVAL in t.reads and t.name != f"C({INTERVAL})" for t in design.terms):
        raise FormulaError(
            f"the data have a column {INTERVAL!r}, which says here in which interval rows are; rename it."
        )
    options = ["offset", "exposure", "id", "k_max", "allow_leak", *["family"] * (asked.family != Huber())]
    given = [f"{option}=" for option in options if option in asked.changed()]
    given += ["missing="] * (people.missing != "noise") + [f"{people.spent}='column'"] * (people.mu is not None)
    if given:
        raise UnsupportedArgumentError(
            f"{given[0]} doesn't go with {followed.written}: a record is one person's time at risk, which is the "
            "exposure of a family of its own, and one that can't be used counts for nothing; leave it out."
        )


def refuse_local_hazards(followed: Followed, d: int, mu: float) -> None:
    """Refuse local reports of intervals with d coefficients, and say how many people they would take.
    Raises UnsupportedArgumentError.
    """
    reach = 1.0 + 2.0 * float(gammaincinv(0.5 * max(d - 1, 1), 0.99))
    noise = 4.0 * 2.0 * reach / mu**2  # of a person's report, whose scores are up to (A² + 1)^½ L, A = 1
    people = (1.96 / math.log(RATIO)) ** 2 * (USUAL + noise) / USUAL**2
    raise UnsupportedArgumentError(
        f"{followed.written} is not for trust='local': at mu = {mu:g} noise on each report of {d} coefficients "
        f"would take some {float(f'{people:.2g}'):,.0f} people to tell a hazard ratio of {RATIO:g} from 1; use "
        "trust='central', 'silos' or 'two_collectors'."
    )


_COLUMN: Final = r"""(?:Q\(\s*(?P<q>['"])(?P<quoted>.+?)(?P=q)\s*\)|(?P<name>[^\W\d]\w*))"""
_EFFECT: Final = re.compile(rf"\s*(?:{_COLUMN}|(?P<diff>diff)\s*\((?P<inner>.*)\))\s*")


def without_effect(formula: str) -> tuple[str, tuple[str, str] | None]:
    """A formula without its part after ``|``, and that part: a kind, `WITHIN` or `DIFFERENCES`, and a column.
    Raises FormulaError if that is not one column, or ``diff()`` of one.
    """
    before, masked = "", re.sub("'[^']*'|\"[^\"]*\"", lambda text: "_" * len(text[0]), formula)
    while masked != before:  # brackets without others in them
        before, masked = masked, re.sub(r"[(\[{][^()\[\]{}]*[)\]}]", lambda text: "_" * len(text[0]), masked)
    if "|" not in masked:
        return formula, None
    left, right = formula[: masked.index("|")].rstrip(), formula[masked.index("|") + 1 :]
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
        right = formula.removeprefix(f"{ENDED} ~ ")
        return f"{people.followed.written} ~ {right.removeprefix(f'C({INTERVAL}) + ')}"
    if people.effect is None:
        return formula
    name = str(people.id)
    name = name if name.isidentifier() else f"Q({name!r})"
    return f"{formula} | {name if people.effect == WITHIN else f'diff({name})'}"


def refuse_of_persons(
    people: Participants, family: Family, design: Design, units: Units, trust: str, private: str = "record"
) -> None:
    """Refuse a model of which a report can't be of several rows, or weighted, and clusters. On public grounds.
    Raises UnsupportedArgumentError if reports are those of `trust`, or of a family, that has only single rows yet;
    OptionError or SchemaError if weights, clusters or columns aren't declared, or an option excludes several rows.
    """
    if (name := people.cluster) is not None:
        if (levels := design.schema.levels.get(name)) is None:
            raise SchemaError(
                f"cluster={name!r} needs all clusters, which are public: declare levels={{{name!r}: [...]}}."
            )
        if len(levels) < LEAST:
            raise OptionError(
                f"cluster={name!r} has {len(levels)} declared clusters, and intervals follow from how random groups of "
                f"them differ: {LEAST} are the fewest. Of fewer put C({name}) into the formula."
            )
        if people.mu is not None or private == "response" or people.missing == "drop":
            raise UnsupportedArgumentError(
                f"cluster={name!r} goes with one mu=, private='record' and missing='noise'; leave the others out."
            )
    if not people.gathered or (people.followed is not None and people.weight is None):
        return
    option = "weights=" if people.k_max is None else f"k_max={people.k_max}"
    wrong = {
        f"{option} goes with private='record': how many rows a person has, and their weight, are no more public than "
        "what is in them; leave private= out": private == "response",
        f"missing='drop' doesn't go with {option}: rows that can't be used are left out of their person, who reports "
        "all the same; leave missing= out": people.missing == "drop",
    }
    refuse(wrong, OptionError)
    # without second moments nothing shows how much of a local report of several rows is filled
    if trust == "local" and (units.unscaled.any() or (units.y_unscaled and family.scoring.residual)):
        raise SchemaError(
            f"{option} needs public bounds of every number, as reports on scales don't tell how many rows a person "
            "has; declare bounds=."
        )
    unsupported = {
        f"{people.spent}={people.mu!r} of personal budgets doesn't go with {option}; give one budget for "
        "all": people.mu,
        f"{option} doesn't go with Multinomial() where noise falls on sums: squared scores of several rows have too "
        "many numbers; use Logistic() for each level, or trust='local'": family.scoring.multiple and trust != "local",
    }
    refuse(unsupported)
    if people.weight is not None:
        low, high = design.schema.limits(people.weight)
        if not 0.0 <= low < high < float("inf"):
            raise SchemaError(
                f"weights={people.weight!r} needs public bounds from 0 on, as the largest one sets the noise: declare "
                f"bounds={{{people.weight!r}: (0, largest)}}."
            )
    if people.effect is not None:
        _refuse_without_levels(people, family, design, units)


def _refuse_without_levels(people: Participants, family: Family, design: Design, units: Units) -> None:
    """Refuse a model from which a person's level can't be taken."""
    said, linear = with_effect("", people).strip(), family.scoring.linear
    wrong = {
        f"'{said}' goes with Squared(), Huber() and Logistic(): of {family!r} a person's level can't be taken out of "
        "single rows": not linear and not family.scoring.conditional,
        f"'{said}' with Logistic() is the conditional logit of two rows a person, and k_max={people.k_max}; more rows "
        "are not there yet: give k_max=2, or Squared() for differences of shares": not linear and people.k_max != 2,
        f"'{said}' needs a model with an intercept, which takes what a person's level leaves; leave out '- 1' or "
        "'+ 0'": (units.constant != 0.0).sum() != 1,
    }
    refuse(wrong)
    if design.offset is not None and not math.isfinite(sum(design.schema.limits(design.offset))):
        raise SchemaError(
            f"offset={design.offset!r} needs public bounds with '{said}', which set how far responses less their "
            f"level may be from 0: declare bounds={{{design.offset!r}: (low, high)}}."
        )
