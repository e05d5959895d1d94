"""A study as its analyst declares it: a small YAML or JSON file, and the model in it.

The file holds what respondents read (title, purpose, contact, questions), when (opens, closes), the model (formula,
family, mu and the options of a plan) and its public declarations (bounds, levels, moments, correlations); with
``trust: two_collectors`` the two who add up shares. The signed plan carries the model's part as text, from which the
collector makes the very same plan of a fit.
"""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from privreg.doors.loading import load_results
from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import OptionError, PrivregError, SchemaError, choose, meant, quietly, real, shown
from privreg.families import resolve_family
from privreg.families.family import FAMILIES
from privreg.fits.fit_plan import FitPlan, target_of
from privreg.formula.persons import without_effect
from privreg.protocol.lattice import Mu
from privreg.results.data import Target
from privreg.schema import files
from privreg.schema.declarations import Schema
from privreg_field.study.declaring.about import about_of, choices_of, collectors_of, languages_of, spoken
from privreg_field.study.declaring.plan import About
from privreg_field.study.tabled import TableFit, table_fit
from privreg_field.wire.analyses import MOST, NAME, WORDS, Part, mu_of
from privreg_field.wire.wire import MessageError

PLAN: Final = ("rounds", "lanes", "inference", "measures", "like")  # Keys of a study's file
PERSON: Final = "person"  # Column of people's ids in a trial of a study; in the study each device is one's


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
    family, rows = family_of(asked.pop("family", "huber")), asked.pop("rows", None)
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


def family_of(given: Any) -> Any:
    """A family by name, or by name with its options: {quantile: {tau: 0.8}}."""
    name: Any = given
    options: Any = {}
    if isinstance(given, dict) and len(given) == 1:
        ((name, options),) = given.items()
    if not isinstance(options, dict):
        raise OptionError("family of a study is a name, or a name with options, such as {quantile: {tau: 0.8}}.")
    made: Any = FAMILIES[name] if isinstance(name, str) and name in FAMILIES else resolve_family(name)
    known = list(inspect.signature(made).parameters)
    for option in options:
        if option not in known:
            raise OptionError(f"family {name!r} has no option {shown(option)}; it has {', '.join(known) or 'none'}.")
    return made(**options)


_ABOUT: Final = ("study", "title", "purpose", "contact", "opens", "closes")
_OPTIONAL: Final = (
    "grace_days", "questions", "choices", "texts", "release_group", "tokens", "missing", "round_hours", "least",
    "collectors", "language", "diary_days", "sd",
)  # fmt: skip
_OF_ALL: Final = ("mu", "rows", "trust")  # Keys of a model that hold for all of a study's analyses
_OWN: Final = ("share", "table")  # Keys of an analysis beside its model
_MODEL: Final = (
    "formula", "family", "mu", "rows", "offset", "exposure", "scaling", "trust", "k_max", "per_person", "weights",
)  # fmt: skip
_SCHEMA: Final = ("bounds", "levels", "moments", "correlations")
_SEVERAL: Final = ("analyses", "split", "parts")
KEYS: Final = (*_ABOUT, *_OPTIONAL, *_MODEL, *PLAN, *_SCHEMA, *_SEVERAL)  # Keys of a study's file
ANALYSIS: Final = (*(k for k in (*_MODEL, *PLAN) if k not in _OF_ALL), *_OWN)  # Keys of one of several analyses

T = TypeVar("T")

NEEDED: Final = (*_ABOUT, "formula", "mu")

FEWEST: Final = 4  # Parts of a study's people; of fewer one that liars spoil is more than 29%
PARTS: Final = 10**6  # Budgets of several analyses are whole numbers of millionths


class Declared(NamedTuple):
    """An analysis of a study's file, read."""

    about: About  # About the study; its `model` has all that `fit_of` needs of this analysis
    fit: FitPlan | TableFit
    part: Part = Part()  # Which analysis it is, where there are several


def read(path: str | Path) -> tuple[About, FitPlan]:
    """Read a study's file that has one model; see `read_study`."""
    one, *others = read_study(path)
    if others or not isinstance(one.fit, FitPlan):
        raise SchemaError("the study has several analyses, or a table.")
    return one.about, one.fit


def read_study(path: str | Path) -> list[Declared]:
    """Read a study's file, YAML or JSON: its analyses, in order, of which there is one unless it has `analyses`.
    Raises SchemaError if the file can't be read, a key is unknown or missing, or a declaration is malformed;
    OptionError, FormulaError if the model can't be what is asked.
    """
    doc = files.document(path)
    languages = languages_of(doc, Path(path).parent) if isinstance(doc, dict) else {}
    doc, others = spoken(doc, languages)
    if not isinstance(doc, dict):
        raise SchemaError(f"a study holds a {type(doc).__name__}; write keys such as {', '.join(NEEDED)}.")
    for key in doc:
        if key not in KEYS:
            known = ", ".join(KEYS)
            raise SchemaError(f"there is no key {shown(key)} in a study; the keys are {known}.{meant(key, KEYS)}")
    several = doc.get("analyses") is not None
    for key in NEEDED:
        if doc.get(key) is None and not (several and key == "formula"):
            raise SchemaError(f"a study needs the key {key!r}.")
    if isinstance(doc["mu"], bool) or not isinstance(doc["mu"], int | float):
        raise SchemaError(f"mu of a study is a number, such as 1, got {shown(doc['mu'])}.")
    if isinstance(doc["mu"], float) and not math.isfinite(doc["mu"]):
        raise SchemaError("mu of a study is a finite number, such as 1.")
    choose("trust", doc.get("trust") or "local", ("local", "two_collectors"))
    choices = choices_of(doc)
    schema = Schema.from_document({k: doc[k] for k in _SCHEMA if doc.get(k) is not None})
    wrong = SchemaError("a study holds Unicode text and finite numbers; mend what is neither.")
    quietly(lambda: json.dumps(doc, ensure_ascii=False, default=str).encode(), wrong)
    about = replace(about_of(doc), languages=others, choices=choices, collectors=collectors_of(doc, Path(path).parent))
    about, out = replace(about, sd=_sds(doc.get("sd"), schema)), []
    for part, asked in _analyses(doc):
        if not isinstance(asked.get("formula", ""), str):
            raise SchemaError(f"'formula' of a study must be a text such as y ~ x, got {shown(asked['formula'])}.")
        said: dict[str, Any] = {"schema": schema.to_json(), "asked": asked}
        if "table" in asked:
            said["missing"] = about.missing
        if asked.get("like") is not None:
            asked["like"] = _named(part, partial(_target, said, Path(path).parent))
        text = quietly(partial(json.dumps, said, ensure_ascii=False, allow_nan=False), wrong)
        fit = _named(part, partial(declared_of, text))
        out.append(Declared(replace(about, model={"declared": text}), fit, part))
    return out


def _sds(given: Any, schema: Schema) -> dict[str, float]:
    """Expected sds by column, of a response that of its residuals; a plan's widths are by them, and nothing else."""
    known = sorted({*schema.bounds, *schema.moments})
    for name, sd in given.items() if isinstance(given, dict) else [(given, None)] * (given is not None):
        if name not in known or not 0.0 < (real(sd) or 0.0) < math.inf:
            said = f"sd of a study has {shown(name)}: {shown(sd)}; write sd: {{age: 12}}, a positive number for columns"
            raise SchemaError(f"{said} that are numbers: {', '.join(known)}.")
    return {name: float(sd) for name, sd in (given or {}).items()}


def _named(part: Part, make: Callable[[], T]) -> T:
    """Result of reading an analysis; errors name it."""
    try:
        return make()
    except PrivregError as e:
        raise type(e)(f"analyses[{part.name}]: {e}" if part.name else str(e)) from None


def _target(said: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The map and threshold of the earlier fit whose saved results an analysis names, as its signed plan has them.

    Raises
    ------
    SchemaError, SavedFileError
        If it names no file, or one without results.
    OptionError
        If these hold no target, or one of another design.
    """
    asked = dict(said["asked"])
    given = asked.pop("like")
    if not isinstance(given, str):
        raise SchemaError(f"'like' of a study is the file of an earlier fit's saved results, got {shown(given)}.")
    target = fit_of(json.dumps({**said, "asked": asked}, default=str), load_results(folder / given)).asked.like
    assert isinstance(target, Target)
    return target.to_json()


def _analyses(doc: Mapping[str, Any]) -> list[tuple[Part, dict[str, Any]]]:
    """Options of each analysis, a fit or a table, with its budget."""
    doc = _in_parts(doc) if doc.get("parts") is not None else doc
    asked = {k: doc[k] for k in (*_MODEL, *PLAN) if doc.get(k) is not None}
    if doc.get("analyses") is None:
        if doc.get("split") is not None:
            raise SchemaError("'split' is of a study with several analyses; take it out.")
        return [(Part(), asked)]
    for key in asked:
        if key not in _OF_ALL:
            raise SchemaError(f"{key!r} of a study with analyses stands in one of them, not beside them.")
    given = doc["analyses"]
    if isinstance(given, list) and all(isinstance(one, dict) for one in given):
        named = [(one.get("name"), {k: v for k, v in one.items() if k != "name"}) for one in given]
    else:
        named = list(given.items()) if isinstance(given, dict) else []
    if not 1 <= len(named) <= MOST or not all(isinstance(one, dict) for _, one in named):
        raise SchemaError(
            f"analyses of a study are 1 to {MOST} by name, such as {{sleep: {{formula: hours ~ age}}, who: {{table: "
            "age + C(shift)}}."
        )
    for name, one in named:
        _check_analysis(name, one)
    if len({name for name, _ in named}) < len(named):
        raise SchemaError("two analyses of the study have the same name.")
    shares = _shares([one.get("share") for _, one in named])
    split, mu = choose("split", doc.get("split") or "budget", ("budget", "people")), _fraction(doc["mu"])
    whole = Mu(mu.numerator, mu.denominator)
    out, low = [], Fraction(0)
    for (name, one), share in zip(named, shares, strict=True):
        declared = {k: v for k, v in one.items() if k != "share"} | {k: asked[k] for k in _OF_ALL if k in asked}
        people = (0, WORDS)
        if split == "people":
            people = round(low * WORDS), round((low + share) * WORDS)
            declared |= {"rows": max(round(asked["rows"] * share), 1)} if isinstance(asked.get("rows"), int) else {}
        else:  # the largest number of millionths whose square is no more than its share of the whole's
            declared["mu"] = math.isqrt(int(mu * mu * share * PARTS**2)) / PARTS
        low += share
        out.append((Part(name, whole, people), declared))
    return out


def _in_parts(doc: Mapping[str, Any]) -> dict[str, Any]:
    """A study whose people are dealt to `parts`, each of which fits the study's one model."""
    parts = doc["parts"]
    if isinstance(parts, bool) or not isinstance(parts, int) or not FEWEST <= parts <= MOST:
        raise SchemaError(f"'parts' of a study is a whole number from {FEWEST} to {MOST}, got {shown(parts)}.")
    if doc.get("analyses") is not None or doc.get("split") is not None:
        raise SchemaError("'parts' is of a study with one model; write formula: in place of analyses: and split:.")
    model = {k: doc[k] for k in (*_MODEL, *PLAN) if k not in _OF_ALL and doc.get(k) is not None}
    left = {k: v for k, v in doc.items() if k not in model and k != "parts"}
    return left | {"analyses": {f"part{k}": model for k in range(1, parts + 1)}, "split": "people"}


def _fraction(mu: float) -> Fraction:
    """The whole budget, as a plan has it."""
    try:
        return Fraction(*mu_of(mu))
    except MessageError as e:
        raise SchemaError(str(e)) from None


def _check_analysis(name: Any, one: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise SchemaError(f"an analysis has a short name, a-z, 0-9, - and _, got {shown(name)}.")
    for key in one:
        if key not in ANALYSIS:
            of_all = " stands beside the analyses" if key in _OF_ALL else f"; the keys are {', '.join(ANALYSIS)}"
            raise SchemaError(f"analyses[{name}] has no key {shown(key)}{of_all}.{meant(key, ANALYSIS)}")
    if (one.get("formula") is None) == (one.get("table") is None):
        raise SchemaError(f"analyses[{name}] has a formula, such as y ~ x, or a table, such as age + C(shift).")
    if one.get("table") is not None and (more := [k for k in one if k not in _OWN and one[k] is not None]):
        raise SchemaError(f"analyses[{name}] is a table, which has no {more[0]!r}; take it out.")


def _shares(given: Sequence[Any]) -> list[Fraction]:
    """Parts of the whole, in proportion to what each says; equal ones if none says anything."""
    if all(v is None for v in given):
        return [Fraction(1, len(given))] * len(given)
    if any(isinstance(v, bool) or not isinstance(v, int | float) or not 1e-6 <= v <= 1e6 for v in given):
        raise SchemaError("share of an analysis is its part of the whole, a positive number: of all, or of none.")
    parts = [Fraction(repr(v)) for v in given]
    return [v / sum(parts) for v in parts]
