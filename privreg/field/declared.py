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
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files as files_of_package
from pathlib import Path
from typing import Any, Final, NamedTuple

from privreg.device.client import invitation
from privreg.errors import OptionError, SchemaError, choose, meant, quietly, shown
from privreg.families.builtin import FAMILIES
from privreg.field.plan import DAY, About
from privreg.fits.fit_plan import FitPlan
from privreg.protocol.sums import LETTERS, Collector
from privreg.protocol.trees import label_text
from privreg.protocol.wire import KEY, MessageError, Record, must_show, unbase
from privreg.regression import PrivateOnlineRegression
from privreg.schema import files
from privreg.schema.declarations import Schema

_ABOUT: Final = ("study", "title", "purpose", "contact", "opens", "closes")
_OPTIONAL: Final = (
    "grace_days", "questions", "choices", "texts", "release_group", "tokens", "missing", "round_hours", "least",
    "collectors",
)  # fmt: skip
_MODEL: Final = ("formula", "family", "mu", "rows", "offset", "exposure", "scaling", "trust")
_PLAN: Final = ("rounds", "lanes", "inference", "measures")
_SCHEMA: Final = ("bounds", "levels", "moments", "correlations")
KEYS: Final = (*_ABOUT, *_OPTIONAL, *_MODEL, *_PLAN, *_SCHEMA)  # Keys of a study's file

_LONGEST: Final = 1 << 16  # Bytes of a file with a public key, at most

_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")

NEEDED: Final = (*_ABOUT, "formula", "mu")


class Declared(NamedTuple):
    """A study's file, read."""

    about: About  # Whose `model` has all that `fit_of` needs
    fit: FitPlan


def read(path: str | Path) -> Declared:
    """Read a study's file.

    Parameters
    ----------
    path : path-like
        YAML or JSON.

    Raises
    ------
    SchemaError
        If the file can't be read, a key is unknown or missing, or a declaration is malformed.
    OptionError, FormulaError
        If the model can't be what is asked.
    """
    doc = files.document(path)
    if not isinstance(doc, dict):
        raise SchemaError(f"a study holds a {type(doc).__name__}; write keys such as {', '.join(NEEDED)}.")
    for key in doc:
        if key not in KEYS:
            known = ", ".join(KEYS)
            raise SchemaError(f"there is no key {shown(key)} in a study; the keys are {known}.{meant(key, KEYS)}")
    for key in NEEDED:
        if doc.get(key) is None:
            raise SchemaError(f"a study needs the key {key!r}.")
    if isinstance(doc["mu"], bool) or not isinstance(doc["mu"], int | float):
        raise SchemaError(f"mu of a study is a number, such as 1, got {shown(doc['mu'])}.")
    if not isinstance(doc["formula"], str):
        raise SchemaError(f"'formula' of a study must be a text such as y ~ x, got {shown(doc['formula'])}.")
    choose("trust", doc.get("trust") or "local", ("local", "two_collectors"))
    choices = _choices(doc)
    schema = Schema.from_document({k: doc[k] for k in _SCHEMA if doc.get(k) is not None})
    asked = {k: doc[k] for k in (*_MODEL, *_PLAN) if doc.get(k) is not None}
    said = {"schema": schema.to_json(), "asked": asked}
    wrong = SchemaError("a study holds Unicode text and finite numbers; mend what is neither.")
    quietly(lambda: json.dumps(doc, ensure_ascii=False, default=str).encode(), wrong)
    text = quietly(lambda: json.dumps(said, ensure_ascii=False, allow_nan=False), wrong)
    return Declared(
        replace(_about(doc, text), choices=choices, collectors=_collectors(doc, Path(path).parent)), fit_of(text)
    )


def _words_of_the_page() -> tuple[str, ...]:
    """Names of the survey page's texts, from the page's own file."""
    text = files_of_package("privreg").joinpath("service", "web", "survey", "texts.js").read_text("utf-8")
    return tuple(re.findall(r"^  (\w+):", text, flags=re.MULTILINE))


def _about(doc: Mapping[str, Any], text: str) -> About:
    questions = doc.get("questions") or {}
    if not isinstance(questions, dict) or not all(isinstance(v, str) for v in questions.values()):
        raise SchemaError("questions must be texts by column, such as {age: How old are you?}.")
    words = doc.get("texts") or {}
    if not isinstance(words, dict) or not all(isinstance(v, str) for v in words.values()):
        raise SchemaError("texts must be words of the survey's page by name, such as {language: de, send: Absenden}.")
    known = _words_of_the_page()
    for name in words:
        if name not in known:
            raise SchemaError(
                f"there is no text {shown(name)} on the survey's page; they are {', '.join(known)}.{meant(name, known)}"
            )
    if not _LANGUAGE.fullmatch(words.get("language", "en")):
        raise SchemaError("language of the texts is a code such as de or pt-BR.")
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
        questions={str(k): v.strip() for k, v in questions.items()},
        texts={str(k): v.strip() for k, v in words.items()},
        after=int(3600 * _number(doc, "round_hours", 0.0)),
        model={"declared": text},
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


def fit_of(text: str) -> FitPlan:
    """The plan of the fit that a study declares: of the study's file, or of the text that a signed plan carries.

    Parameters
    ----------
    text : str
        ``plan.model["declared"]``.
    """
    said = json.loads(text)
    asked = dict(said["asked"])
    plan = {k: asked.pop(k) for k in _PLAN if k in asked}
    family, rows = _family(asked.pop("family", "huber")), asked.pop("rows", None)
    schema = Schema.from_json(said["schema"])
    formula = asked.pop("formula")
    model = PrivateOnlineRegression.from_formula(
        formula, None, family=family, schema=schema, mechanism="gaussian", **asked
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
