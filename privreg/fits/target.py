"""Target of an earlier fit of the same design, whose estimand a fit is to share (`like=`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privreg.collector.covariates.points import longest
from privreg.errors import OptionError
from privreg.fits.fit_plan import FitPlan
from privreg.fits.plan import extremes_of, order_of
from privreg.formula.spec import ModelSpec
from privreg.formula.units import public_units
from privreg.results.data import Equation, Target, of_results
from privreg.results.results import PrivateResults


def target_of(spec: ModelSpec, like: Any, *, seeded: bool = False) -> Target:
    """The target of an earlier fit: of its results, or of a plan that has one.

    The target of a signed plan was checked before it was signed. `seeded` says that this fit's noise can be redrawn.
    Raises OptionError if `like` holds no target, or that of another design, or the model has no use for it. Public
    grounds alone.
    """
    if isinstance(like, Target):
        return like
    if isinstance(like, FitPlan | PrivateResults):
        earlier = like.budget if isinstance(like, FitPlan) else like.privacy.budget
        if spec.budget.private and not earlier.private:
            raise OptionError(
                "like= is of a fit without privacy, whose map and threshold were learned of rows without noise, and "
                "this fit would publish them; fit the earlier one with mu=, epsilon= or rho=."
            )
    if isinstance(like, FitPlan):
        if like.asked.like is None:
            raise OptionError("this plan holds no target, as no like= was given to it; give an earlier fit's results.")
        target: Target = like.asked.like
        _refuse_other(spec, like.spec.design, like.family, target, _weighing(like.spec), like.spec.people.to_json())
        return target
    if not isinstance(like, PrivateResults):
        raise OptionError(
            f"like= is of type {type(like).__name__}; give the results of an earlier fit, what pr.load() made of their "
            "file, or a plan made with like=."
        )
    if spec.budget.private and like._fit.statement.seeded and not seeded:
        raise OptionError(
            "like= is of a fit with seed=, whose noise anybody can redraw, and this fit would publish its map; give a "
            "fit without seed=, or seed= here, too, in a simulation."
        )
    fit = like._fit
    found = of_results(fit)
    if found is None:
        raise OptionError(
            "these results hold no target: they are of tuning='published', or of a fit whose main rounds had not "
            "begun; give results of a fit by rounds of local reports, of two collectors or of a curator."
        )
    try:
        Target.from_json(found.to_json(), len(fit.design.names))
    except ValueError:
        raise OptionError("the target of these results is of no fit: their file was changed; save them anew.") from None
    assert fit.equation is not None
    _refuse_other(spec, fit.design, fit.family, found, fit.equation.weighing, _people(fit.equation))
    return found


def _people(equation: Equation) -> Mapping[str, Any]:
    """People of an equation, in the form of `Participants.to_json`."""
    return equation.people or {"mu": equation.budgets and equation.budgets[0]}


def _counted(people: Mapping[str, Any], trust: str) -> dict[str, Any]:
    """Weighting of a person's records in an equation, by option: in sums they have one weight."""
    together = trust != "local" or people.get("effect") is not None
    return {
        "levels of persons": people.get("effect"),
        "per_person": people.get("per_person", "sum"),
        "weights": people.get("weight"),
        "personal budgets": people.get("mu"),
        "k_max": people.get("k_max") if together else None,
    }


def _weighing(spec: ModelSpec) -> str:
    """Score weights, as an equation has them."""
    if spec.summed:
        return "capped"
    return "leverage" if spec.scalar else "likelihood" if spec.unweighted else "unit"


def _refuse_other(
    spec: ModelSpec, design: Any, family: Any, target: Target, weighing: str, people: Mapping[str, Any]
) -> None:
    """Refuse the target of another design, and name what differs."""
    if spec.summed != (target.reach is not None):
        trust = "'local'" if target.reach is None else "'two_collectors' or 'central'"
        raise OptionError(
            f"like= is of a fit with trust={trust}, and this one has trust={spec.trust!r}, which weighs records in "
            "another way; give a fit of the same trust."
        )
    if target.reach is not None and spec.unweighted:
        farthest = longest(extremes_of(spec, order_of(spec, factors=False)[0]), target.map)
        if farthest > target.reach * (1.0 + 1e-9):
            raise OptionError(
                "like= is of a fit with score weights, and this one has score_weights='likelihood', that is none; give "
                "a fit of the same score_weights."
            )
    own = spec.design
    pairs: list[tuple[str, Any, Any]] = [
        ("columns", tuple(own.names), tuple(design.names)),
        ("response", own.endog_name, design.endog_name),
        ("family", repr(spec.family), repr(family)),
        ("public covariates", spec.scalar, weighing == "leverage"),
        ("score weights", _weighing(spec), weighing),
        ("offset", own.offset, design.offset),
        ("exposure", own.exposure, design.exposure),
    ]
    counted = _counted(people, spec.trust)
    pairs += [(what, mine, counted[what]) for what, mine in _counted(spec.people.to_json(), spec.trust).items()]
    for name in own.columns:
        pairs += [
            (f"levels of {name!r}", own.schema.levels.get(name), design.schema.levels.get(name)),
            (f"bounds of {name!r}", own.schema.bounds.get(name), design.schema.bounds.get(name)),
        ]
    for what, mine, theirs in pairs:
        if mine != theirs:
            raise OptionError(f"like= is of another design: its {what} {theirs!r}, here {mine!r}; declare the same.")
    theirs, mine = (public_units(d, scale_response=spec.family.scaled) for d in (design, own))
    if not np.array_equal(theirs.matrix, mine.matrix) or theirs.y_scale != mine.y_scale:
        raise OptionError("like= is of another design: other moments, or a scale that is learned; declare the same.")
