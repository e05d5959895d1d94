"""The model of an analysis, or its table, as a study's file and its signed plan have it as text."""

from __future__ import annotations

import inspect
import json
from typing import Any, Final

from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import OptionError, choose, shown
from privreg.families.builtin import FAMILIES
from privreg.fits.fit_plan import FitPlan
from privreg.fits.target import target_of
from privreg.formula.persons import without_effect
from privreg.results.target import Target
from privreg.schema.declarations import Schema
from privreg_field.study.tabled import TableFit, table_fit

PLAN: Final = ("rounds", "lanes", "inference", "measures", "like")  # Keys of a study's file
PERSON: Final = "person"  # What tells people apart in a trial of a study; in the study each device is one's


def declared_of(text: str) -> FitPlan | TableFit:
    """The fit's plan, or the table, that ``plan.model["declared"]`` says, as a study's file or a signed plan has it."""
    said = json.loads(text)
    if "table" not in said["asked"]:
        return fit_of(text)
    return table_fit(said["asked"], Schema.from_json(said["schema"]), said["missing"])


def fit_of(text: str, like: Any = None) -> FitPlan:
    """The plan of the fit that an analysis declares, see `declared_of`; with the target of results `like`."""
    said = json.loads(text)
    asked = dict(said["asked"])
    plan = {k: asked.pop(k) for k in PLAN if k in asked}
    family, rows = _family(asked.pop("family", "huber")), asked.pop("rows", None)
    schema = Schema.from_json(said["schema"])
    formula = asked.pop("formula")
    if asked.get("k_max") is not None and without_effect(formula)[1] is None:
        asked["id"] = PERSON
    model = PrivateOnlineRegression.from_formula(
        formula, None, family=family, schema=schema, mechanism="gaussian", **asked
    )
    plan["like"] = (
        Target.from_json(plan.get("like"), len(model.exog_names)) if like is None else target_of(model._spec, like)
    )
    return model.plan(rows, **plan)


def _family(given: Any) -> Any:
    """A family by name, or by name with its options: {quantile: {tau: 0.8}}."""
    name: Any = given
    options: Any = {}
    if isinstance(given, dict) and len(given) == 1:
        ((name, options),) = given.items()
    if not isinstance(options, dict):
        raise OptionError("family of a study is a name, or a name with options, such as {quantile: {tau: 0.8}}.")
    made = FAMILIES[choose("family", name, FAMILIES)]
    known = list(inspect.signature(made).parameters)
    for option in options:
        if option not in known:
            raise OptionError(f"family {name!r} has no option {shown(option)}; it has {', '.join(known) or 'none'}.")
    return made(**options)
