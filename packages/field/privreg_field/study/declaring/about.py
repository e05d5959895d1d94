"""Texts of a study's file, in one language or several, its times, and its two collectors."""

import datetime
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files as files_of_package
from pathlib import Path
from typing import Any, Final

from privreg.errors import SchemaError, meant, shown
from privreg.protocol.sums import LETTERS
from privreg.schema import files
from privreg_field.device.client import invitation
from privreg_field.study.declaring.plan import DAY, About
from privreg_field.wire.collectors import Collector
from privreg_field.wire.trees import label_text
from privreg_field.wire.wire import KEY, MessageError, Record, must_show, unbase

SHIPPED: Final = ("en", "de")  # Languages of the page
_LONGEST: Final = 1 << 16  # Bytes of a file with a public key, at most

_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def languages_of(doc: Mapping[str, Any], folder: Path) -> dict[str, dict[str, str]]:
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


def spoken(doc: Any, languages: Mapping[str, dict[str, str]]) -> tuple[Any, dict[str, Any]]:
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
    for code, one in made.items():
        texts = {**one["texts"], **one["questions"], "title": one["title"], "purpose": one["purpose"]}
        _must_show({k if k == "purpose" else f"{k} ({code})": v for k, v in texts.items()})
    return spoken, made


def _checked_words(words: Mapping[str, Any]) -> dict[str, str]:
    """Words of the survey's page, by name, which are those of the page's own file."""
    page = files_of_package("privreg_field.service").joinpath("web", "survey", "texts.js").read_text("utf-8")
    known = tuple(re.findall(r"^  (\w+):", page, flags=re.MULTILINE))
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


def about_of(doc: Mapping[str, Any]) -> About:
    """Texts for respondents, times and contact; raises SchemaError."""
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


def choices_of(doc: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Labels of levels, by column and the level's code as text."""
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


def collectors_of(doc: Mapping[str, Any], folder: Path) -> tuple[Collector, ...]:
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
