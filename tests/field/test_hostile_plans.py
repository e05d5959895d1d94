"""A plan's text may say anything: whoever signs it, serves it or connects to it is told by an error of a study."""

import json
import random
import time

import pytest

import privreg as pr
from privreg.errors import PrivregError, StudyError
from privreg.formula.language.parse import LONGEST, read_formula
from privreg_field.service.scheduler import opened
from privreg_field.study import keys, servers
from privreg_field.study.declaring import declared
from privreg_field.study.declaring.plan import study_plan
from privreg_field.study.reading.collected import chain_of, fit_plan_of
from privreg_field.wire import study, wire
from tests.service.world import DECLARED, plan_of
from tests.studies import ROOT, SERVER, public

MORE = {
    "levels": {"shift": ["day", "night"]},
    "formula": "hours ~ age + shift",
    "questions": {"age": "How old?", "hours": "How long?", "shift": "When?"},
    "rounds": 14,
    "family": {"huber": {"c": 1.2}},
}
DEEP = json.loads("[" * 500 + "]" * 500)
HOSTILE = [
    None, True, 0, -1, 2.5, 1e308, 1e-320, 10**15, 10**18, 10**100, 10**400, 1e999, float("nan"), "", "x" * 100_000,
    "1e999", "huber", "\ud800", [], {}, DEEP, [1e999] * 3, [0, 0], [1, 2, 3], [["a"]] * 5, list(range(3000)), {"a": 1},
    {"huber": {"c": 10**400}}, {"quantile": {"tau": 1e-320}}, "hours ~ (age + shift)**" + "9" * 4000,
    "hours ~ bs(age, knots=[40], lower_bound=18, upper_bound=90, degree=22)", "hours ~ " + "age*shift:" * 5000 + "age",
    "hours ~ I(" + "-" * 5000 + "age)", "hours ~ I(" + "(" * 5000 + "age", "hours ~ np.round(age, 300000000)",
]  # fmt: skip
SECONDS = 5.0


def places(value, path=()):
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def changed(said, path, value):
    said = json.loads(json.dumps(said))
    at = said
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return said


def some(said, extra, count, seed):
    """So many changes of what was said: each hostile value at a place, each place at least once."""
    there = {**said, **dict.fromkeys(extra)} if isinstance(extra, tuple) else said
    pairs = [(path, value) for path in places(there) for value in HOSTILE]
    random.Random(seed).shuffle(pairs)
    return pairs[:count]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return plan_of(tmp_path_factory.mktemp("hostile"), **MORE)[0]


def refused(make, error):
    """Whether it was refused, in time, by an error of this kind and no other."""
    begin = time.process_time()
    try:
        make()
    except error:
        return True
    finally:
        assert time.process_time() - begin < SECONDS
    return False


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_the_model_of_a_signed_plan_is_fitted_or_refused(plan, seed):
    said = json.loads(plan.model["declared"])
    said["asked"] |= dict.fromkeys(("offset", "exposure", "scaling", "lanes", "inference", "measures"))
    count = 1000 if seed else 60
    told = 0
    for path, value in some(said, None, count, seed):
        text = json.dumps(changed(json.loads(plan.model["declared"]), path, value)) if len(path) < 3 else None
        text = text or json.dumps(changed(said, path, value))
        told += refused(lambda text=text: chain_of(plan._replace(model={"declared": text})), StudyError)
    assert told > count / 2


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", "[]", "{}", '{"asked": 1, "schema": {}}', "9" * 5000])
def test_a_model_that_is_no_declaration_is_refused(plan, text):
    with pytest.raises(StudyError, match="can't be fitted: it is none that `privreg study sign` writes"):
        fit_plan_of(plan._replace(model={"declared": text}))


def test_a_plan_without_a_model_is_refused(plan):
    with pytest.raises(StudyError, match="carries no model"):
        chain_of(plan._replace(model={"formula": "hours ~ age"}))


def test_a_model_of_other_reports_than_devices_send_is_refused(plan):
    said = json.loads(plan.model["declared"])
    for path, value in ((("asked", "mu"), 1), (("asked", "formula"), "hours ~ age"), (("asked", "measures"), 0.1)):
        text = json.dumps(changed(said, path, value))
        with pytest.raises(StudyError, match="other reports than its model is made of"):
            chain_of(plan._replace(model={"declared": text}))
    assert chain_of(plan).plan.size == 3


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_what_an_analyst_signs_is_a_study_or_refused(tmp_path, seed):
    said = {**DECLARED, **MORE}
    extra = (*declared._OPTIONAL, *declared._MODEL, *declared.PLAN, "moments", "correlations")
    extra = tuple(name for name in extra if name not in said)
    count = 1000 if seed else 60
    told = 0
    for path, value in some(said, extra, count, seed):
        (tmp_path / "study.json").write_text(json.dumps(changed(said, path, value)))

        def sign():
            about, fit = declared.read(tmp_path / "study.json")
            study_plan(fit, fit.spec.design.trees(), about, [public(SERVER)])

        told += refused(sign, PrivregError)
    assert told > count / 2


# --- served and connected ------------------------------------------------------------------------------------


def resigned(plan, path, value):
    """The plan's payload with a change, signed by who may; None if it is no JSON."""
    said = json.loads(study.plan_payload(plan))
    try:
        return keys.signed("plan", json.dumps(changed(said, path, value)).encode(), ROOT)
    except ValueError:  # a number that is too long to write
        return None


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_plan_that_was_signed_anew_is_served_and_connected_to_or_refused(plan, seed, monkeypatch):
    root, envelope = wire.base(public(ROOT)), b""
    monkeypatch.setattr(servers, "fetched", lambda *_: envelope)
    count, told = 800 if seed else 30, 0
    for path, value in some(json.loads(study.plan_payload(plan)), None, count, seed):
        envelope = resigned(plan, path, value)
        if envelope is None:
            continue

        def serve(envelope=envelope):
            chain_of(opened(envelope, public(ROOT))[0][0])

        here = refused(serve, StudyError)
        there = refused(lambda: pr.connect(f"https://example.org/studies/{plan.study}/#k={root}"), StudyError)
        assert there or not here
        told += here
    assert told > count / 2


# --- formulas by themselves ----------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "piece",
    [
        " ",
        "x",
        "(",
        ")",
        "'",
        '"',
        "`",
        ".",
        "(1|x",
        "=",
        "<-",
        "~",
        "as.",
        "x%in%",
        "-",
        "x.",
        "+ (1 + x",
        "\0",
        "é",
        "[",
        "C(",
        "**",
    ],
)
@pytest.mark.parametrize("around", ["{}", "y ~ {}", "y ~ (1|{}", " {} = "])
def test_no_formula_takes_long_to_be_read(piece, around):
    formula = around.format((piece * LONGEST)[: LONGEST - len(around)])
    refused(lambda: read_formula(formula, {}), PrivregError)
