"""A study's file: read, and carried by the signed plan as what the collector makes the same fit of."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

import privreg as pr
from privreg.errors import OptionError, PrivregError, SchemaError, StudyError
from privreg.planning import power
from privreg.results.data import of_results
from privreg.tables import as_text
from privreg_field.study import keys
from privreg_field.study.declaring import command, declared, precision
from privreg_field.study.declaring.plan import study_plan, study_plans
from privreg_field.study.reading.collected import chain_of
from privreg_field.wire import study, wire
from privreg_field.wire.collectors import Collector
from tests.field.test_plan import HOURS
from tests.studies import HIDDEN, ROOT, SERVER, public, signed

OPENS = 2_431_123_200
"""2047-01-15: signing refuses a study that closes in the past."""

TEXT = """
study: sleep
title: Sleep and shift work
purpose: How sleep goes with age and shifts.
contact: study@example.org
opens: 2047-01-15
closes: 2047-03-01T08:00:00Z
grace_days: 3
round_hours: 48
least: 0.25
questions:
  hours: How long did you sleep?
  age: How old are you?
  bmi: What is your body-mass index?
  shift: When do you work?
formula: hours ~ C(shift) + age + age:bmi
family: {huber: {c: 1.2}}
mu: 1
rows: 4000
rounds: 14
bounds:
  hours: [0, 24]
  age: [18, 90]
  bmi: [15, 50]
levels:
  shift: [day, night, both]
"""


def written(tmp_path, text=TEXT, name="study.yaml"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_study_is_read(tmp_path):
    about, fit = declared.read(written(tmp_path))
    assert (about.study, about.opens, about.closes) == ("sleep", OPENS, OPENS + 45 * 86_400 + 28_800)
    assert (about.grace, about.after, about.least, about.tokens) == (3 * 86_400, 48 * 3600, 0.25, "issued")
    assert about.questions["age"] == "How old are you?"
    assert fit.rows == 4000
    assert fit.asked.rounds == 14
    assert fit.family.c == 1.2
    assert "age:bmi" in fit.formula


def test_the_signed_plan_carries_what_the_same_fit_is_made_of(tmp_path):
    about, fit = declared.read(written(tmp_path))
    plan = study_plan(fit, HOURS, about, [public(SERVER)])
    root = keys.make(tmp_path / "root.key")
    envelope = wire.open_envelope(keys.signed("plan", study.plan_payload(plan), root), "plan")
    again = study.read_plan(envelope.payload)
    there = declared.fit_of(again.model["declared"])
    assert there.to_dict() == fit.to_dict()
    assert study_plan(there, HOURS, about, [public(SERVER)]) == plan
    assert [r.after for r in plan.rounds] == [48 * 3600] * len(plan.rounds)
    assert plan.rounds[0].least == plan.rounds[0].total // 4


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Saved results of the study's design: of a fit whose noise is secret, and of one with a seed."""
    rng, n = np.random.default_rng(3), 20_000
    age, bmi = rng.uniform(18, 90, n), rng.normal(27, 4, n).clip(15, 50)
    shift = rng.choice(["day", "night", "both"], n)
    hours = (8 - 0.02 * age + 0.5 * (shift == "day") + rng.normal(0, 1, n)).clip(0, 24)
    data = pd.DataFrame({"age": age, "bmi": bmi, "shift": shift, "hours": hours})
    doc = yaml.safe_load(TEXT)
    model = pr.PrivateOnlineRegression.from_formula(
        doc["formula"], data, family=pr.Huber(c=1.2), mu=2, bounds=doc["bounds"], levels=doc["levels"]
    )
    folder = tmp_path_factory.mktemp("earlier")
    model.fit().save(folder / "secret.res")
    model.fit(seed=1).save(folder / "seeded.res")
    return folder


def test_the_signed_plan_carries_the_target_of_an_earlier_fit(tmp_path, earlier):
    first = pr.load(earlier / "secret.res")
    about, fit = declared.read(written(tmp_path, f"{TEXT}like: {earlier / 'secret.res'}\n"))
    there = declared.fit_of(about.model["declared"])
    assert fit.asked.like.same(of_results(first._fit))
    assert there.asked.like == fit.asked.like  # to the bit
    assert there.to_dict() == fit.to_dict()
    plan = study_plan(fit, HOURS, about, [public(SERVER)])
    engine = chain_of(plan).plan
    np.testing.assert_array_equal(engine.like[0], first._fit.equation.rows)
    assert engine.like[1] == first._fit.equation.c[-1] * first._fit.equation.y_scale
    found = command.shown(signed("plan", study.plan_payload(plan), ROOT), None)
    assert f"Target: fixed, that of an earlier fit, internal units, threshold c = {engine.like[1]:.6g}" in found
    assert all(f"{v:.4g}" in found for v in engine.like[0].ravel())


NO_TARGET = [{}, {"declared": 3}, *({"declared": text} for text in ("{", "[]", '{"asked": {}}', "[" * 3000))]
UNREADABLE = [
    '{"rows": 3, "c": null}',
    '{"rows": [["x"]], "c": 1}',
    '{"rows": [[1]], "corner": 1}',
    '{"rows": [[1]], "c": -5}',
    '{"rows": [[1], [1]], "c": 1}',
    '{"rows": [[1]], "c": 1' + "0" * 400 + "}",
    '{"rows": [[1' + "0" * 400 + ']], "c": 1}',
    '{"rows": {"a": 1}, "c": NaN}',
]


@pytest.mark.parametrize("model", [*NO_TARGET, {"declared": '{"asked": {"like": null}}'}], ids=lambda v: str(v)[:40])
def test_a_plan_whose_model_says_no_target_is_shown_without_one(model):
    assert command._target(SimpleNamespace(model=model, d=1)) == []


@pytest.mark.parametrize("like", UNREADABLE, ids=lambda v: v[:40])
def test_a_target_that_no_collector_can_use_is_said_to_be_none(like):
    (line,) = command._target(SimpleNamespace(model={"declared": f'{{"asked": {{"like": {like}}}}}'}, d=1))
    assert "none that this version can read" in line


@pytest.mark.parametrize(
    ("line", "name", "error", "words"),
    [
        ("", "seeded.res", OptionError, "whose noise anybody can redraw"),
        ("", "none.res", PrivregError, "none.res"),
        ("family: {huber: {c: 1.3}}", "secret.res", OptionError, "another design: its family"),
        ("formula: hours ~ age", "secret.res", OptionError, "another design: its columns"),
        ("bounds: {hours: [0, 24], age: [18, 80], bmi: [15, 50]}", "secret.res", OptionError, "bounds of 'age'"),
    ],
)
def test_a_target_that_cannot_be_taken_over_is_refused(tmp_path, earlier, line, name, error, words):
    doc = {**yaml.safe_load(TEXT), **(yaml.safe_load(line) or {}), "like": str(earlier / name)}
    with pytest.raises(error, match=words):
        declared.read(written(tmp_path, yaml.safe_dump(doc)))


def test_a_target_is_a_file(tmp_path):
    with pytest.raises(SchemaError, match="saved results"):
        declared.read(written(tmp_path, f"{TEXT}like: 3\n"))


@pytest.mark.parametrize("one", [{"formula": "hours ~ age"}, {"table": "C(shift)"}])
def test_an_analysis_with_no_file_for_its_target_has_none(tmp_path, one):
    doc = {k: v for k, v in yaml.safe_load(TEXT).items() if k not in {"formula", "family", "rounds"}}
    path = written(tmp_path, yaml.safe_dump({**doc, "analyses": {"x": {**one, "like": None}}}))
    (made,) = declared.read_study(path)
    assert getattr(made.fit, "asked", None) is None or made.fit.asked.like is None


def test_a_plan_with_a_malformed_target_is_refused(tmp_path, earlier):
    about, fit = declared.read(written(tmp_path, f"{TEXT}like: {earlier / 'secret.res'}\n"))
    plan = study_plan(fit, HOURS, about, [public(SERVER)])
    said = json.loads(about.model["declared"])
    for wrong in ({"rows": [[1.0]], "c": 1.0}, {"rows": "x", "c": None}, 7):
        said["asked"]["like"] = wrong
        with pytest.raises(StudyError):
            chain_of(plan._replace(model={"declared": json.dumps(said)}))


def test_json_does_as_well(tmp_path):
    yaml = pytest.importorskip("yaml")
    doc = yaml.safe_load(TEXT)
    doc = {**doc, "opens": "2047-01-15T01:00:00+01:00", "closes": "2047-03-01"}
    about, fit = declared.read(written(tmp_path, json.dumps(doc), "study.json"))
    assert about.opens == OPENS
    assert fit.to_dict() == declared.read(written(tmp_path))[1].to_dict()


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("mu: 1", "", "needs the key 'mu'"),
        ("title: Sleep and shift work", "", "needs the key 'title'"),
        ("rounds: 14", "round: 14", "no key 'round'.*'rounds'"),
        ("opens: 2047-01-15", "opens: soon", "'opens' of a study must be a day"),
        ("opens: 2047-01-15", "opens: 20", "'opens' of a study must be a day"),
        ("grace_days: 3", "grace_days: -3", "'grace_days'"),
        ("least: 0.25", "least: 2", "a share"),
        ("contact: study@example.org", "contact: 12", "in quotes"),
        ("  hours: How long did you sleep?", "  hours: 7", "questions must be texts"),
        ("  age: [18, 90]", "  age: [90, 18]", "empty"),
        ("family: {huber: {c: 1.2}}", "family: gauss", "choose one of"),
        ("family: {huber: {c: 1.2}}", "family: cox", r"Surv\(time, event, \[6, 12, 24\]\) ~ x"),
        ("family: {huber: {c: 1.2}}", "family: {huber: 2}", "a name with options"),
        ("family: {huber: {c: 1.2}}", "family: {huber: {tau: 0.5}}", "'huber' has no option 'tau'; it has c"),
        ("formula: hours ~ C(shift) + age + age:bmi", "formula: hours ~ C(shift", "formula|parenthes|read"),
        ("rounds: 14", "rounds: -1", "rounds"),
        ("rounds: 14", "rounds: 016", "line 20: YAML takes 016 for another number"),
        ("mu: 1", "mu: 1:30", "YAML takes 1:30"),
        ("least: 0.25", "least: 0b1", "YAML takes 0b1"),
        ("{huber: {c: 1.2}}", "{huber: {c: 0x1}}", "YAML takes 0x1"),
        ("contact: study@example.org", "contact: 0471234", "YAML takes 0471234"),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, match):
    assert old in TEXT
    with pytest.raises(PrivregError, match=match):
        declared.read(written(tmp_path, TEXT.replace(old, new)))


@pytest.mark.some(1)
@pytest.mark.parametrize("key", ["title", "purpose", "contact", "release_group", "questions", "texts"])
def test_texts_that_are_not_seen_are_named(tmp_path, key):
    doc = yaml.safe_load(TEXT)
    for what, text in HIDDEN.items():
        inner = {"questions": {**doc["questions"], "age": text}, "texts": {"send": text}}
        path = written(tmp_path, json.dumps({**doc, key: inner.get(key, text)}, default=str), "study.json")
        if (what, key) == ("newline", "purpose"):
            assert declared.read(path)[0].purpose == text
            continue
        name = {"questions": r"questions\[age\]", "texts": "send"}.get(key, key)
        with pytest.raises(SchemaError, match=rf"'{name}' of a study must be .* visible characters, without U\+"):
            declared.read(path)


def test_line_breaks_at_the_end_of_a_text_are_yamls(tmp_path):
    folded = TEXT.replace("title: Sleep and shift work", "title: >\n  Sleep and\n  shift work\n")
    assert declared.read(written(tmp_path, folded))[0].title == "Sleep and shift work"


def test_a_file_that_is_no_study_is_refused(tmp_path):
    with pytest.raises(SchemaError, match="no schema"):
        declared.read(tmp_path / "nothing.yaml")
    with pytest.raises(SchemaError, match="holds a list"):
        declared.read(written(tmp_path, "[1]", "study.json"))
    with pytest.raises(OptionError, match="choose one of"):
        declared.family_of("custom")


def test_a_study_has_score_weights(tmp_path):
    about, fit = declared.read(written(tmp_path, TEXT))
    plain = replace(fit, spec=replace(fit.spec, score_weights="likelihood"))
    with pytest.raises(OptionError, match="leave score_weights= out"):
        study_plan(plain, fit.spec.design.trees(), about, [public(SERVER)])


def test_other_words_of_the_page_are_signed_with_the_plan(tmp_path):
    about, fit = declared.read(written(tmp_path, f"{TEXT}texts: {{language: de, send: Absenden}}\n"))
    plan = study_plan(fit, fit.spec.design.trees(), about, [public(SERVER)])
    payload = study.plan_payload(plan)
    assert json.loads(payload)["x_texts"] == {"language": "de", "send": "Absenden"}
    assert study.read_plan(payload) == plan
    assert b"x_texts" not in study.plan_payload(plan._replace(texts=()))
    for odd in (7, {"language": 7, "send": "Absenden"}, ["de"]):  # no device acts on it, whatever it is
        other = study.read_plan(json.dumps({**json.loads(payload), "x_texts": odd}).encode())
        assert set(other.texts) <= {("send", "Absenden")}
    with pytest.raises(SchemaError, match="words of the survey's page"):
        declared.read(written(tmp_path, f"{TEXT}texts: {{language: 7}}\n"))
    with pytest.raises(SchemaError, match=r"no text 'sned' on the survey's page; they are language, .*'send'\?"):
        declared.read(written(tmp_path, f"{TEXT}texts: {{sned: Absenden}}\n"))


SPOKEN = {
    "language": ["en", "de"],
    "title": {"en": "Sleep", "de": "Schlaf"},
    "purpose": {"en": "How sleep goes with shifts.", "de": "Wie der Schlaf von Schichten abhängt."},
    "questions": {"hours": {"en": "How long?", "de": "Wie lange?"}, "age": "Age/Alter?", "shift": "Shift?"},
    "choices": {"shift": {"day": {"en": "By day", "de": "Tags"}, "night": {"en": "At night", "de": "Nachts"}}},
    "levels": {"shift": ["day", "night"]},
    "formula": "hours ~ C(shift) + age",
}


def spoken(tmp_path, **more):
    doc = {k: v for k, v in {**yaml.safe_load(TEXT), **SPOKEN, **more}.items() if v is not None}
    about, fit = declared.read(written(tmp_path, json.dumps(doc, default=str), "study.json"))
    return study_plan(fit, fit.spec.design.trees(), about, [public(SERVER)])


def test_a_study_in_two_languages_says_everything_in_both(tmp_path):
    plan = spoken(tmp_path)
    assert (plan.title, plan.languages["de"]["title"]) == ("Sleep", "Schlaf")
    assert {c.name: c.labels for c in plan.columns}["shift"] == ("By day", "At night")
    assert plan.languages["de"]["choices"]["shift"] == {"day": "Tags", "night": "Nachts"}
    assert plan.languages["de"]["questions"] == {"hours": "Wie lange?", "age": "Age/Alter?", "shift": "Shift?"}
    codes = {"levels": {"shift": ["1", "2"]}, "choices": None}  # which are the same in all languages
    assert {c.name: c.labels for c in spoken(tmp_path, **codes).columns}["shift"] == ()
    same = {"choices": {"shift": {"day": "day/Tag", "night": "night/Nacht"}}}
    assert spoken(tmp_path, **same).languages["de"]["choices"]["shift"]["day"] == "day/Tag"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"choices": None}, "choices has no column 'shift'"),
        ({"choices": {"shift": {"day": {"en": "By day"}, "night": "Night"}}}, "no text in the language 'de'"),
        ({"choices": {"shift": {"day": {"en": "Day", "de": " "}, "night": "Night"}}}, "no text for day"),
        ({"choices": {"shift": {c: {"en": c, "de": "Arbeit"} for c in ("day", "night")}}}, "same text for two levels"),
        ({"title": {"en": "Sleep"}}, "title of the study has no text in the language 'de'"),
        ({"questions": {**SPOKEN["questions"], "hours": {"en": "How long?", "de": ""}}}, "'hours' has no question"),
        ({"language": ["en", "en"]}, "each once"),
        ({"language": ["en", "nl"]}, "language of a study is en or de, or a file"),
        ({"texts": {"send": "Send"}}, "several languages stand in the files"),
    ],
)
def test_what_a_language_lacks_is_said_when_a_study_is_signed(tmp_path, more, words):
    with pytest.raises(SchemaError, match=words):
        spoken(tmp_path, **more)


# --- two collectors ------------------------------------------------------------------------------------------

ONE, OTHER = (wire.base(bytes([k]) * 32) for k in (1, 2))
TWO = f"""
trust: two_collectors
collectors:
  - name: University of Here
    url: https://a.example.org/
    contact: a@example.org
    key: {ONE}
    seal: {OTHER}
  - name: Office of Statistics
    url: http://localhost:8001/here
    contact: b@example.org
    key: b.key.pub
    seal: b.key.pub
"""


def written_for_two(tmp_path, old="", new=""):
    two = keys.make_collector(tmp_path / "b.key")
    sign, seal = map(wire.base, two.public)
    (tmp_path / "b.key.pub").write_text(f"key: {sign}\nseal: {seal}\n")
    text = TEXT.replace("least: 0.25\n", "").replace("rounds: 14\n", "") + TWO
    assert old in text
    return written(tmp_path, text.replace(old, new, 1) if old else text), two


def test_two_collectors_are_read_with_keys_as_texts_or_files(tmp_path):
    path, two = written_for_two(tmp_path)
    about, fit = declared.read(path)
    a, b = about.collectors
    assert a == Collector("University of Here", "https://a.example.org", "a@example.org", *unbased(ONE, OTHER))
    assert b == Collector("Office of Statistics", "http://localhost:8001/here", "b@example.org", *two.public)
    assert fit.spec.trust == "two_collectors"
    plan = study_plan(fit, fit.spec.design.trees(), about, [c.key for c in about.collectors])
    assert plan.collectors == about.collectors
    (tmp_path / "one").write_text(f"{ONE}\n")  # a file with the key alone
    assert declared.read(written_for_two(as_new(tmp_path), "key: b.key.pub", "key: ../one")[0])[0].collectors[1].key


def as_new(tmp_path):
    (tmp_path / "new").mkdir()
    return tmp_path / "new"


def unbased(*texts):
    return [wire.unbase(text, "") for text in texts]


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (TWO.partition("collectors:\n")[2], "  - {}\n", "a list of two, each with name, url"),
        (TWO.partition("collectors:\n")[2], "  - a\n  - b\n", "a list of two"),
        (TWO.partition("collectors:\n")[2], "  a: 1\n  b: 2\n", "a list of two"),
        ("    contact: a@", "    contacts: a@", "collector a has no key 'contacts'.*'contact'"),
        ("    contact: b@example.org\n", "", "collector b has no 'contact'"),
        ("University of Here", "7", "'name' of collector a must be a string .* in quotes"),
        ("University of Here", '"Uni\\u202eversity"', r"'name' of collector a must be .* U\+202E"),
        ("https://a.example.org/", "http://a.example.org", "'url' of collector a .*https"),
        ("https://a.example.org/", "a.example.org", "'url' of collector a"),
        ("https://a.example.org/", "https://a.example.org/?x", "'url' of collector a"),
        ("https://a.example.org/", "https://a.example.org/#x", "'url' of collector a"),
        ("https://a.example.org/", "https://me:pw@a.example.org", "'url' of collector a"),
        (ONE, ONE[:-1], "'key' of collector a is neither a public key"),
        (ONE, ONE[:-1] + "F", "'key' of collector a is neither a public key"),
        ("seal: b.key.pub", "seal: b.key", "'seal' of collector b is neither a public key.*nor a file"),
        ("seal: b.key.pub", "seal: .", "'seal' of collector b is neither"),
        ("seal: b.key.pub", "seal: nothing.pub", "'seal' of collector b is neither"),
        ("grace_days: 3", "least: 0.5", "'least' is for studies whose devices"),
    ],
)
def test_mistakes_in_collectors_are_named(tmp_path, old, new, match):
    path, _ = written_for_two(tmp_path, old, new)
    with pytest.raises(SchemaError, match=match):
        declared.read(path)


CHOICES = """
choices:
  shift:
    day: By day
    both: Both
    night: At night
"""


def planned(tmp_path, text):
    about, fit = declared.read(written(tmp_path, text))
    return study_plan(fit, fit.spec.design.trees(), about, [public(SERVER)])


def test_what_respondents_choose_from_may_have_labels(tmp_path):
    plan, bare = planned(tmp_path, TEXT + CHOICES), planned(tmp_path, TEXT)
    (shift,) = (c for c in plan.columns if c.name == "shift")
    assert shift.levels == ("day", "night", "both")
    assert shift.labels == ("By day", "At night", "Both")  # in the levels' order
    assert plan._replace(columns=bare.columns) == bare  # whose model, design and reports know nothing of them
    assert study.read_plan(study.plan_payload(plan)) == plan


@pytest.mark.some(1)
@pytest.mark.parametrize("levels", ["[0, 1]", "[false, true]", '["0", "1"]', '["no", "yes"]'])
def test_levels_of_any_kind_have_labels(tmp_path, levels):
    codes = [json.dumps(v) for v in yaml.safe_load(levels)]
    choices = f"choices: {{ill: {{{codes[0]}: Not ill, {codes[1]}: Ill}}}}\n"
    text = TEXT.replace("formula: hours ~", "formula: ill ~").replace("family: {huber: {c: 1.2}}", "family: logistic")
    text = text.replace("  shift: [day", f"  ill: {levels}\n  shift: [day").replace("  hours: How", "  ill: How")
    (ill,) = (c for c in planned(tmp_path, text.replace("  hours: [0, 24]\n", "") + choices).columns if c.name == "ill")
    assert ill.labels == ("Not ill", "Ill")


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ("[day]", "choices must be texts by level"),
        ("{shift: By day}", "choices must be texts by level"),
        ("{shift: {day: 1, night: N, both: B}}", "in quotes|quote a text"),
        ("{shift: {day: yes, night: N, both: B}}", "quote a text"),
        ("{shift: {day: '', night: N, both: B}}", "choices must be texts by level"),
        ("{shift: {day: D, night: N}}", r"choices\['shift'\] has no text for both; write one for each level"),
        ("{shift: {day: D, nigth: N, both: B}}", r"'nigth', which is no level .* day, night, both.*'night'"),
        ("{shift: {day: D, night: D, both: B}}", "the same text for two levels"),
        ("{shift: {day: D, day: E, night: N, both: B}}", r"line \d+: choices\['shift'\] has a level twice"),
        ("{shift: {day: D, no: N, both: B}}", r"choices\['shift'\] has the unquoted level 'no'"),
        ('{shift: {day: "a\\u202eb", night: N, both: B}}', r"'choices\[shift\]\[day\]' of a study must be one line"),
        ("{age: {18: Young}}", r"choices\['age'\]: the column has no levels to choose from; declare them"),
        (
            "{shift: {day: " + "x" * 201 + ", night: N, both: B}}",
            "'label' of the column 'shift' must be a string of 1 to",
        ),
    ],
)
def test_labels_that_cannot_be_are_named(tmp_path, choices, match):
    with pytest.raises(PrivregError, match=match):
        planned(tmp_path, f"{TEXT}choices: {choices}\n")


def test_levels_with_their_labels_are_shown_where_these_go(tmp_path):
    with pytest.raises(SchemaError, match=r"levels are lists of codes.*in choices: "):
        planned(tmp_path, TEXT.replace("[day, night, both]", "{day: By day, night: At night, both: Both}"))


@pytest.mark.usefixtures("shared_rehearsals")
def test_expected_sds_make_the_widths_of_a_signed_study_and_are_not_signed(tmp_path):
    """Of a regression's covariates and residuals, and of a table's numbers."""
    sds = "sd: {age: 12, hours: 1.5}\n"
    usual, told = (declared.read_study(written(tmp_path, TEXT + more)) for more in ("", sds))
    plans = study_plans(usual, [public(SERVER)])
    assert study_plans(told, [public(SERVER)]) == plans
    said = precision.planned(told, plans)
    design = told[0].fit
    plan = power.plan_of_fit(design, 4000, {"sd": {"age": 12.0}, "residual_sd": 1.5})
    assert as_text(plan._layout()).partition("Assumed")[0] in said
    assert "age mean 54, sd 12" in said
    assert "Write those that are known" in precision.planned(usual, plans)
    assert "Write those that are known" not in said
    kept = {*declared.NEEDED, "bounds", "levels", "rows"} - {"formula"}
    document = {k: str(v) if k in {"opens", "closes"} else v for k, v in yaml.safe_load(TEXT).items() if k in kept}
    document |= {"analyses": {"means": {"table": "age"}}, "questions": {"age": "How old are you?"}}
    wide, narrow = (
        declared.read_study(written(tmp_path, yaml.safe_dump(document | more))) for more in ({}, {"sd": {"age": 6}})
    )
    tables = study_plans(wide, [public(SERVER)])
    widths = [float(re.findall(r"± ([\d.]+)", precision.planned(one, tables))[0]) for one in (wide, narrow)]
    assert widths[1] < widths[0]


@pytest.mark.some(1)
@pytest.mark.parametrize("sd", ["3", "[age]", "{age: 0}", "{age: -1}", "{age: x}", "{age: .inf}", "{shift: 1}"])
def test_expected_sds_are_positive_numbers_of_numbers(tmp_path, sd):
    with pytest.raises(SchemaError, match="sd of a study has"):
        declared.read(written(tmp_path, f"{TEXT}sd: {sd}\n"))
