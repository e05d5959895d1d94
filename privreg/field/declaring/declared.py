"""A study as its analyst declares it: a small YAML or JSON file, and the model in it.

The file holds what respondents read (title, purpose, contact, questions), when (opens, closes), the model (formula,
family, mu and the options of a plan) and its public declarations (bounds, levels, moments, correlations); with
``trust: two_collectors`` the two who add up shares. The signed plan carries the model's part as text, from which the
collector makes the very same plan of a fit.
"""

from __future__ import annotations

import datetime
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.resources import files as files_of_package
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from privreg.device.client import invitation
from privreg.errors import OptionError, PrivregError, SchemaError, choose, meant, quietly, shown
from privreg.families.builtin import FAMILIES
from privreg.field.declaring.plan import DAY, About
from privreg.field.tabled import TableFit, table_fit
from privreg.fits.fit_plan import FitPlan
from privreg.fits.target import target_of
from privreg.formula.persons import without_effect
from privreg.loading import load_results
from privreg.protocol.analyses import MOST, NAME, WORDS, Part
from privreg.protocol.lattice import Mu, mu_of
from privreg.protocol.sums import LETTERS, Collector
from privreg.protocol.trees import label_text
from privreg.protocol.wire import KEY, MessageError, Record, must_show, unbase
from privreg.regression import PrivateOnlineRegression
from privreg.results.target import Target
from privreg.schema import files
from privreg.schema.declarations import Schema

_ABOUT: Final = ("study", "title", "purpose", "contact", "opens", "closes")
_OPTIONAL: Final = (
    "grace_days", "questions", "choices", "texts", "release_group", "tokens", "missing", "round_hours", "least",
    "collectors", "language", "diary_days",
)  # fmt: skip
_OF_ALL: Final = ("mu", "rows", "trust")  # Of a model, what holds for all of a study's analyses
_OWN: Final = ("share", "table")  # Of an analysis, beside its model
_MODEL: Final = (
    "formula", "family", "mu", "rows", "offset", "exposure", "scaling", "trust", "k_max", "per_person", "weights",
)  # fmt: skip
_PLAN: Final = ("rounds", "lanes", "inference", "measures", "like")
_SCHEMA: Final = ("bounds", "levels", "moments", "correlations")
_SEVERAL: Final = ("analyses", "split")
KEYS: Final = (*_ABOUT, *_OPTIONAL, *_MODEL, *_PLAN, *_SCHEMA, *_SEVERAL)  # Keys of a study's file
ANALYSIS: Final = (*(k for k in (*_MODEL, *_PLAN) if k not in _OF_ALL), *_OWN)  # Keys of one of several analyses

T = TypeVar("T")
SHIPPED: Final = ("en", "de")  # Languages of the page
_LONGEST: Final = 1 << 16  # Bytes of a file with a public key, at most

_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")

NEEDED: Final = (*_ABOUT, "formula", "mu")
PERSON: Final = "person"  # What tells people apart in a trial of a study; in the study each device is one's

PARTS: Final = 10**6  # Budgets of several analyses are whole numbers of millionths


class Declared(NamedTuple):
    """An analysis of a study's file, read."""

    about: About  # Of the study; its `model` has all that `fit_of` needs of this analysis
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
    languages = _languages(doc, Path(path).parent) if isinstance(doc, dict) else {}
    doc, others = _spoken(doc, languages)
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
    choices = _choices(doc)
    schema = Schema.from_document({k: doc[k] for k in _SCHEMA if doc.get(k) is not None})
    wrong = SchemaError("a study holds Unicode text and finite numbers; mend what is neither.")
    quietly(lambda: json.dumps(doc, ensure_ascii=False, default=str).encode(), wrong)
    about = replace(_about(doc), languages=others, choices=choices, collectors=_collectors(doc, Path(path).parent))
    out = []
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


def _named(part: Part, make: Callable[[], T]) -> T:
    """What is made of an analysis; errors name it."""
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
    assert target is not None
    return target.to_json()


def _analyses(doc: Mapping[str, Any]) -> list[tuple[Part, dict[str, Any]]]:
    """What each analysis asks of a fit, or of a table, with its budget."""
    asked = {k: doc[k] for k in (*_MODEL, *_PLAN) if doc.get(k) is not None}
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
        own = {k: v for k, v in one.items() if k != "share"} | {k: asked[k] for k in _OF_ALL if k in asked}
        people = (0, WORDS)
        if split == "people":
            people = round(low * WORDS), round((low + share) * WORDS)
            own |= {"rows": max(round(asked["rows"] * share), 1)} if isinstance(asked.get("rows"), int) else {}
        else:  # the largest number of millionths whose square is no more than its share of the whole's
            own["mu"] = math.isqrt(int(mu * mu * share * PARTS**2)) / PARTS
        low += share
        out.append((Part(name, whole, people), own))
    return out


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


def _languages(doc: Mapping[str, Any], folder: Path) -> dict[str, dict[str, str]]:
    """Words of the page by language, the first one first: a code that is shipped, a file, or several of these."""
    given = doc.get("language")
    out: dict[str, dict[str, str]] = {}
    for one in given if isinstance(given, list) else [] if given is None else [given]:
        words = {"language": one} if isinstance(one, str) and one in SHIPPED else None
        if words is None and isinstance(one, str) and "." in one:
            words = files.document(folder / one)
        if not isinstance(words, dict) or not isinstance(code := words.get("language"), str) or code in out:
            raise SchemaError(
                f"language of a study is {' or '.join(SHIPPED)}, or a file with texts of the page by name, among them "
                f"language: fr; or a list of these, each once. Got {shown(one)}."
            )
        out[code] = words
    return out


def _spoken(doc: Any, languages: Mapping[str, dict[str, str]]) -> tuple[Any, dict[str, Any]]:
    """The study in its first language, and its texts in the others, by code; texts may be given by language."""
    if not languages:
        return doc, {}
    first, *others = languages

    def text(value: Any, code: str, what: str) -> Any:
        if not isinstance(value, dict):
            return value
        if not isinstance(value.get(code), str):
            raise SchemaError(
                f"{what} of the study has no text in the language {code!r}; write {{{first}: ..., {code}: ...}}."
            )
        return value[code].strip()

    def said(code: str) -> dict[str, Any]:
        asked, choices = (doc.get(k) if isinstance(doc.get(k), dict) else {} for k in ("questions", "choices"))
        shown_ = {k: v if isinstance(v, dict) else {} for k, v in choices.items()}
        return {
            **{k: text(doc.get(k), code, k) for k in ("title", "purpose")},
            "questions": {k: text(v, code, f"questions[{k}]") for k, v in asked.items()},
            "choices": {
                k: {label_text(c): text(v, code, f"choices[{k}]") for c, v in one.items()} for k, one in shown_.items()
            },
        }

    words = doc.get("texts")
    shared = words if isinstance(words, dict) else {}
    if shared and others:
        raise SchemaError("texts of a study with several languages stand in the files of these; take them out.")
    made = {code: {**said(code), "texts": _checked_words(languages[code])} for code in others}
    spoken = {k: v for k, v in doc.items() if k != "language"} | {k: v for k, v in said(first).items() if v}
    spoken["texts"] = {**({} if first == "en" and not shared and not others else languages[first]), **shared}
    _must_show_all(made)
    return spoken, made


def _must_show_all(made: Mapping[str, Any]) -> None:
    for code, one in made.items():
        texts = {**one["texts"], **one["questions"], "title": one["title"], "purpose": one["purpose"]}
        _must_show({k if k == "purpose" else f"{k} ({code})": v for k, v in texts.items()})


def _checked_words(words: Mapping[str, Any]) -> dict[str, str]:
    """Words of the survey's page, by name."""
    known = _words_of_the_page()
    if not all(isinstance(v, str) for v in words.values()):
        raise SchemaError("texts must be words of the survey's page by name, such as {language: de, send: Absenden}.")
    for name in words:
        if name not in known:
            raise SchemaError(
                f"there is no text {shown(name)} on the survey's page; they are {', '.join(known)}.{meant(name, known)}"
            )
    if not _LANGUAGE.fullmatch(words.get("language", "en")):
        raise SchemaError("language of the texts is a code such as de or pt-BR.")
    return {str(k): v.strip() for k, v in words.items()}


def _words_of_the_page() -> tuple[str, ...]:
    """Names of the survey page's texts, from the page's own file."""
    text = files_of_package("privreg").joinpath("service", "web", "survey", "texts.js").read_text("utf-8")
    return tuple(re.findall(r"^  (\w+):", text, flags=re.MULTILINE))


def _about(doc: Mapping[str, Any]) -> About:
    questions = doc.get("questions") or {}
    if not isinstance(questions, dict) or not all(isinstance(v, str) for v in questions.values()):
        raise SchemaError("questions must be texts by column, such as {age: How old are you?}.")
    words = doc.get("texts") or {}
    if not isinstance(words, dict):
        raise SchemaError("texts must be words of the survey's page by name, such as {language: de, send: Absenden}.")
    words = _checked_words(words)
    more = {k: doc[k] for k in ("release_group", "tokens", "missing", "least") if doc.get(k) is not None}
    texts = {k: doc[k] for k in ("study", "title", "purpose", "contact")}
    for key, value in {**texts, **{k: v for k, v in more.items() if k != "least"}}.items():
        if not isinstance(value, str):
            raise SchemaError(f"{key!r} of a study must be a text, got {type(value).__name__}; put it in quotes.")
    said = {**texts, **more, **{f"questions[{k}]": v for k, v in questions.items()}, **words}
    _must_show(said)
    if "least" in more and not 0.0 <= _number(doc, "least", 0.0) <= 1.0:
        raise SchemaError("'least' of a study is a share of a round's reports, from 0 to 1.")
    return About(
        **{k: v.strip() for k, v in texts.items()},
        opens=_seconds(doc, "opens"),
        closes=_seconds(doc, "closes"),
        grace=int(DAY * _number(doc, "grace_days", 2.0)),
        diary=int(DAY * _number(doc, "diary_days", 0.0)),
        questions={str(k): v.strip() for k, v in questions.items()},
        texts={str(k): v.strip() for k, v in words.items()},
        after=int(3600 * _number(doc, "round_hours", 0.0)),
        **more,
    )


def _choices(doc: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What respondents read for each level, by column and the level's code as text."""
    levels = doc.get("levels")
    if isinstance(levels, dict) and any(isinstance(v, dict) for v in levels.values()):
        raise SchemaError(
            "levels are lists of codes, such as {shift: [day, night]}; what respondents read for each is in choices: "
            "{shift: {day: By day, night: At night}}."
        )
    out: dict[str, dict[str, str]] = {}
    given = doc.get("choices") or {}
    for name, labels in given.items() if isinstance(given, dict) else [("", None)]:
        if not isinstance(labels, dict) or not all(isinstance(v, str) and v.strip() for v in labels.values()):
            raise SchemaError(
                "choices must be texts by level, of each column that has some, such as {shift: {day: By day, night: At "
                'night}}; quote a text that YAML takes for something else, such as "yes".'
            )
        out[str(name)] = {label_text(code): text.strip() for code, text in labels.items()}
    _must_show({f"choices[{k}][{code}]": text for k, labels in out.items() for code, text in labels.items()})
    return out


def _must_show(said: Mapping[str, object]) -> None:
    """Refuse texts that aren't seen as they are; only the purpose may have several lines."""
    try:
        for key, value in said.items():
            must_show([str(value).strip()], f"{key!r} of a study", lines=key == "purpose")
    except MessageError as e:
        raise SchemaError(f"{e} Take it out.") from None


def _collectors(doc: Mapping[str, Any], folder: Path) -> tuple[Collector, ...]:
    """The two who add up shares, if the study names some."""
    said = doc.get("collectors")
    if said is None:
        return ()
    if not isinstance(said, list) or len(said) != len(LETTERS) or not all(isinstance(one, dict) for one in said):
        raise SchemaError(f"collectors of a study are a list of two, each with {', '.join(Collector._fields)}.")
    if doc.get("least") is not None:
        raise SchemaError("'least' is for studies whose devices add the noise; take it out: collectors have their own.")
    return tuple(_collector(f"collector {letter}", one, folder) for letter, one in zip(LETTERS, said, strict=True))


def _collector(who: str, said: Mapping[str, Any], folder: Path) -> Collector:
    """One of the two."""
    names = Collector._fields
    for name in said:
        if name not in names:
            raise SchemaError(f"{who} has no key {shown(name)}; the keys are {', '.join(names)}.{meant(name, names)}")
    try:
        record = Record({k: v.strip() if isinstance(v, str) else v for k, v in said.items()}, who)
        texts = [record.text(name) for name in names]
    except MessageError as e:
        raise SchemaError(f"{e} Put a text there, in quotes.") from None
    url = texts[1].rstrip("/")
    try:
        fine = invitation(f"{url}/studies/x").base == f"{url}/v1/studies/x"
    except ValueError:
        fine = False
    if not fine:
        raise SchemaError(
            f"'url' of {who} is its server's, such as https://study.example.org (http:// only on this machine), got "
            f"{shown(url)}."
        )
    key, seal = (_public(given, name, who, folder) for given, name in zip(texts[3:], names[3:], strict=True))
    return Collector(texts[0], url, texts[2], key, seal)


def _public(given: str, name: str, who: str, folder: Path) -> bytes:
    """A public key: written out, or a line of a file as `privreg study key --collector` writes it."""
    text = given
    with suppress(OSError, ValueError), (folder / given).open("rb") as file:
        text = file.read(_LONGEST).decode()
    found = re.findall(rf"^\s*(?:{name}:\s*)?([A-Za-z0-9_-]{{43}})\s*$", text, re.MULTILINE)
    if len(found) == 1:
        with suppress(MessageError):
            return unbase(found[0], "a key")
    raise SchemaError(
        f"{name!r} of {who} is neither a public key, base64url of {KEY} bytes, nor a file with one such as `privreg "
        f"study key FILE --collector` writes, FILE.pub; got {shown(given)}."
    )


def _number(doc: Mapping[str, Any], key: str, usual: float) -> float:
    value = doc.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
        raise SchemaError(f"{key!r} of a study must be a number, 0 or more.")
    return float(value)


def _seconds(doc: Mapping[str, Any], key: str) -> int:
    """A day, or a time, as seconds since 1970; UTC unless it says otherwise."""
    value = doc[key]
    try:
        if isinstance(value, str):
            value = datetime.datetime.fromisoformat(value)
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, datetime.time())
        if isinstance(value, datetime.datetime):
            value = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            return int(value.timestamp())
    except (ValueError, OverflowError):
        pass
    raise SchemaError(f"{key!r} of a study must be a day or a time, such as 2027-03-01 or 2027-03-01T08:00:00Z.")


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
    plan = {k: asked.pop(k) for k in _PLAN if k in asked}
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
