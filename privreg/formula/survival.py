"""Times until an event in a formula: ``Surv(time, event, [cuts]) ~ x``, as a formula of rows of intervals."""

from __future__ import annotations

import ast
import math
from typing import Any, Final

import numpy as np
from scipy.special import gammaincinv

from privreg.data.followed import Followed
from privreg.data.participants import Participants
from privreg.errors import FormulaError, OptionError, UnsupportedArgumentError, real
from privreg.families import Huber
from privreg.families.hazards import ENDED, INTERVAL, USUAL
from privreg.formula.language.parse import constant_value, refuse_deep, syntax

MOST_CUTS: Final = 60  # Intervals at most: each has a coefficient

RATIO: Final = 1.5  # Hazard ratio that an interval of a fit with local reports would just tell from 1


def without_survival(formula: Any) -> tuple[Any, Followed | None]:
    """A formula, of ``Surv()`` as that of rows of intervals, and what its left-hand side says; None of others.
    Raises FormulaError if it is no such call of columns with public cut points.

    Examples
    --------
    >>> without_survival("Surv(months, died, [6, 12]) ~ age")[0]
    'Surv ~ C(interval) + age'
    """
    if not isinstance(formula, str) or not formula.lstrip().startswith("Surv("):
        return formula, None
    left, tilde, right = formula.partition("~")
    call = syntax(left.strip())
    wrong = FormulaError(
        f"the formula {formula!r} can't be read; write Surv(time, event, [6, 12, 24]) ~ age, or, with late entry, "
        "Surv(start, stop, event, [6, 12, 24]) ~ age."
    )
    if not isinstance(call, ast.Call) or not tilde:
        raise wrong
    refuse_deep(call, left)
    given = {word.arg: word.value for word in call.keywords}
    columns = [_column(node) for node in call.args[:-1]]
    if set(given) - {"cause"} or not 2 <= len(columns) <= 3 or None in columns:
        raise wrong
    match call.args[-1], given.get("cause"):
        case ((ast.List(points) | ast.Tuple(points) | ast.Call(ast.Name("c"), points, [])), None | ast.Constant()):
            cuts = [real(constant_value(point)) for point in points]
        case _:
            raise wrong
    *start, time, event = [str(name) for name in columns]
    rising = [cut for cut in cuts if cut is not None and 0.0 < cut < math.inf]
    if len(rising) < len(cuts) or not 1 <= len(cuts) <= MOST_CUTS or not (np.diff(rising) > 0.0).all():
        raise FormulaError(
            f"the cut points of {left.strip()} must be rising positive numbers, {MOST_CUTS} at most: hazards are "
            "constant in between, from time 0 on, and nobody is followed beyond the last one."
        )
    cause: Any = given.get("cause")
    out = Followed(time, event, tuple(rising), start[0] if start else None, None if cause is None else cause.value)
    if len(set(out.columns)) < len(out.columns):
        raise FormulaError(f"{out.written} needs a column for each of its times and one for the event.")
    return f"{ENDED} ~ {_of_intervals(out)}{right.strip()}", out


def with_survival(formula: str, followed: Followed) -> str:
    """The formula that `without_survival` was given."""
    return f"{followed.written} ~ {formula.removeprefix(f'{ENDED} ~ {_of_intervals(followed)}')}"


def _of_intervals(followed: Followed) -> str:
    """The term of intervals, where there are several."""
    return f"C({INTERVAL}) + " if len(followed.cuts) > 1 else ""


def _column(node: ast.expr) -> str | None:
    match node:
        case ast.Name(name):
            return name
        case ast.Call(ast.Name("Q"), [ast.Constant(str(name))], []):
            return name
    return None


def refuse_beside(followed: Followed, people: Participants, asked: Any, design: Any, named: Any) -> None:
    """Refuse options that don't go with ``Surv()``, on public grounds.

    `asked` are the options, and `named` the columns of the data, as far as they are known.
    Raises FormulaError, OptionError or UnsupportedArgumentError.
    """
    if both := [c for c in followed.columns if c in design.covariates]:
        raise FormulaError(f"{', '.join(both)} stands on both sides of {followed.written}; keep one.")
    if INTERVAL in (named or ()) and any(INTERVAL in t.reads and t.name != f"C({INTERVAL})" for t in design.terms):
        raise FormulaError(
            f"the data have a column {INTERVAL!r}, which says here in which interval rows are; rename it."
        )
    others = "offset", "exposure", "id", "k_max", "allow_leak"
    given = ["family="] * ("family" in asked.changed() and asked.family != Huber())
    given += [f"{option}=" for option in others if option in asked.changed()]
    given += [f"{people.spent}='column'"] * (people.mu is not None)
    if given:
        raise UnsupportedArgumentError(
            f"{given[0]} doesn't go with {followed.written}: a record is one person's time at risk, which is "
            "the exposure of a family of its own; leave it out."
        )
    if people.missing != "noise":
        raise OptionError(
            f"missing={people.missing!r} doesn't go with {followed.written}: records that can't be used count for "
            "nothing; leave missing= out."
        )


def refuse_hazards(followed: Followed, names: tuple[str, ...], mu: float, trust: str, private: str) -> None:
    """Refuse reports that can't be of intervals, on public grounds; `names` are the coefficients'.
    Raises UnsupportedArgumentError or FormulaError.
    """
    written = followed.written
    if "Intercept" not in names:
        raise FormulaError(f"{written} needs an intercept, the first interval's hazard; leave out '- 1' or '+ 0'.")
    if private == "response":
        raise UnsupportedArgumentError(f"private='response' doesn't go with {written}; leave private= out.")
    if trust == "local":
        reach = 1.0 + 2.0 * float(gammaincinv(0.5 * max(len(names) - 1, 1), 0.99))
        noise = 4.0 * 2.0 * reach / mu**2  # of a person's report, whose scores are up to (A² + 1)^½ L, A = 1
        people = (1.96 / math.log(RATIO)) ** 2 * (USUAL + noise) / USUAL**2
        raise UnsupportedArgumentError(
            f"{written} is not for trust='local': at mu = {mu:g} noise on each report of {len(names)} coefficients "
            f"would take some {float(f'{people:.2g}'):,.0f} people to tell a hazard ratio of {RATIO:g} from 1; use "
            "trust='central', 'silos' or 'two_collectors'."
        )
