"""Several analyses in one study: budgets that add up, tables as whole numbers, results of each."""

import itertools
import json
import math
import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privreg as pr
from privreg.errors import FormulaError, OptionError, PrivregError, SchemaError
from privreg.protocol.lattice import Mu
from privreg.protocol.sums import SumAsk
from privreg_field.collector.chain import add
from privreg_field.device.report import answer, design, sums
from privreg_field.study import tabled
from privreg_field.study.declaring import declared
from privreg_field.study.declaring.plan import study_plans
from privreg_field.study.declaring.precision import planned
from privreg_field.study.reading.collected import chain_of, table_of
from privreg_field.study.reading.collected import results as results_of
from privreg_field.wire import analyses, study
from privreg_field.wire.analyses import WORDS
from privreg_field.wire.messages import Ask
from privreg_field.wire.roles import TABLE
from privreg_field.wire.wire import MessageError
from tests.protocol.test_schemas import accepts
from tests.studies import SERVER, public

DOC = {
    "study": "sleep",
    "title": "Sleep",
    "purpose": "How sleep goes with age and shifts.",
    "contact": "study@example.org",
    "opens": "2026-01-01",
    "closes": "2040-01-01",
    "mu": 2,
    "rows": 1000,
    "analyses": {
        "who": {"table": "age + C(shift) + C(shift):C(sex)", "share": 0.2},
        "hours": {"formula": "hours ~ age + C(shift)", "family": "huber", "share": 0.5},
        "tired": {"formula": "tired ~ age", "family": "logistic", "share": 0.3},
    },
    "bounds": {"age": [18, 90], "hours": [0, 24]},
    "levels": {"shift": ["day", "night"], "sex": ["f", "m", "x"], "tired": ["no", "yes"]},
    "questions": {
        "age": "How old are you?", "shift": "When do you work?", "sex": "What is your sex?",
        "hours": "How long did you sleep?", "tired": "Are you tired?",
    },
}  # fmt: skip
TWO = {
    "trust": "two_collectors",
    "collectors": [
        {"name": f"Office {k}", "url": f"https://{k}.example.org", "contact": "o@example.org", "key": key, "seal": seal}
        for k, key, seal in (("a", "A" * 42 + "E", "B" * 42 + "E"), ("b", "C" * 42 + "E", "D" * 42 + "E"))
    ],
}
PEOPLE = [
    dict(zip(("age", "shift", "sex", "hours", "tired"), one, strict=True))
    for one in itertools.product(
        (18, 54, 90, 200, None), ("day", "night", None), ("f", "x"), (0, 24, -9), ("no", "yes")
    )
]


def plans_of(folder, keys=None, **more):
    path = folder / "study.json"
    path.write_text(json.dumps({**DOC, **more}))
    read = declared.read_study(path)
    return study_plans(read, keys or ([c.key for c in read[0].about.collectors] or [public(SERVER)]))


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    return plans_of(tmp_path_factory.mktemp("study"))


def test_budgets_are_exact_and_never_above_the_whole(plans):
    whole = Fraction(2)
    assert [p.part.name for p in plans] == ["who", "hours", "tired"]
    spent = [Fraction(*p.mu) ** 2 for p in plans]
    assert sum(spent) <= whole**2
    for share, mine, plan in zip((0.2, 0.5, 0.3), spent, plans, strict=True):
        assert mine <= Fraction(repr(share)) * whole**2 < (Fraction(*plan.mu) + Fraction(1, 10**6)) ** 2
    assert {p.title_of_mu for p in plans} == {"2"}
    assert {tuple(c.name for c in p.form) for p in plans} == {("age", "shift", "sex", "hours", "tired")}
    assert study.read_plans(study.plan_payload(*plans)) == plans


@pytest.mark.parametrize("mu", [0.001, 0.1, 1 / 3, 0.7, 1, 1.9999, 2])
@pytest.mark.parametrize("shares", [(1, 1, 1), (0.123, 0.456, 7), (1e-3, 1, 1)])
def test_rounding_never_adds_to_a_budget(tmp_path, mu, shares):
    own = [{**one, "share": s} for one, s in zip(DOC["analyses"].values(), shares, strict=True)]
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**DOC, "mu": mu, "analyses": dict(zip(DOC["analyses"], own, strict=True))}))
    try:
        read = declared.read_study(path)
    except PrivregError:  # a share of almost nothing
        if mu >= 0.1:
            raise
        return
    whole, parts = Fraction(*read[0].part.whole), [Fraction(*analyses.mu_of(d.fit.spec.budget.mu)) for d in read]
    assert sum(part**2 for part in parts) <= whole**2 <= Fraction(repr(mu)) ** 2
    most = max(shares) / sum(shares) * float(whole) ** 2
    assert max(map(float, parts)) >= math.sqrt(most) - 1.001e-6


def test_an_analysis_alone_is_the_study(tmp_path, plans):
    (one,) = plans_of(tmp_path, analyses={"hours": DOC["analyses"]["hours"]}, questions={
        k: DOC["questions"][k] for k in ("age", "shift", "hours")})  # fmt: skip
    assert one.mu == one.together == Mu(2, 1)
    bare = {k: v for k, v in DOC.items() if k != "analyses"} | {"formula": "hours ~ age + C(shift)"}
    path = tmp_path / "one.json"
    path.write_text(json.dumps(bare))
    (single,) = study_plans(declared.read_study(path), [public(SERVER)])
    assert single.roles == one.roles
    assert single.design == one.design
    assert b"analyses" not in study.plan_payload(single)


def asks_of(plan, rng):
    """States that nobody honest would publish, one for each role."""
    d, big = plan.d, 1e9
    for name, role in plan.roles.items():
        if plan.collectors:
            rows = rng.normal(0, big, (d, d))
            theta = tuple(rng.normal(0, big, d))
            yield SumAsk(name, WORDS, tuple(map(tuple, rows.tolist())), theta, 0.3, 1e-3, 1.0, 2.0, 1.5, role.radius)
            continue
        n = d + (int(plan.constant) + int(plan.moment_response) if name == "moments" else 0)
        rows = () if name == TABLE else tuple(tuple(rng.normal(0, big, j + 1)) for j in range(n))
        scores = name in {"pilot", "main", "measures"}
        theta = tuple(rng.normal(0, 2, plan.size)) if scores else ()
        offsets = ((0.0,) * plan.size,) * role.groups if scores else ()
        yield Ask(name, WORDS, rows, 0.1, 1e-3, theta, 1e-6, 0.5, (), offsets, (), None)


def bare(plan, ask, row):
    if plan.table:
        return answer.whole(plan, row)
    role, inside = plan.role_of(ask), design.row_of(plan, row)
    if plan.collectors:
        return sums.whole(role, sums.of_person(plan, ask, [inside]))
    return answer.values(role, answer.before_noise(plan, ask, 0, inside))


@pytest.mark.parametrize("more", [{}, TWO, {"missing": "refuse"}], ids=["local", "two collectors", "refuse"])
def test_all_reports_of_one_person_keep_the_whole_budget_exactly(tmp_path, more):
    rng, total = np.random.default_rng(7), Fraction(0)
    made = plans_of(tmp_path, **more)
    for plan in made:
        worst = 0
        for _, ask in itertools.product(range(3), asks_of(plan, rng)):
            told = np.array([bare(plan, ask, row) for row in PEOPLE], dtype=object)
            for one in told[:: max(len(told) // 40, 1)]:
                worst = max(worst, int(((told - one) ** 2).sum(axis=1).max()))
        noise = Fraction(*plan.mu) * 2**plan.bits
        assert worst <= noise**2
        assert worst >= 0.3 * noise**2  # so that the states are hostile indeed
        total += Fraction(worst, 4**plan.bits)
    assert total <= Fraction(*made[0].together) ** 2


AGES = st.one_of(st.none(), st.floats(), st.integers(-(10**30), 10**30), st.text(max_size=3))
ROWS = st.fixed_dictionaries({
    "age": AGES, "shift": st.sampled_from(["day", "night", "noon", None, 3]),
    "sex": st.sampled_from(["f", "m", "x", "", None]),
})  # fmt: skip


@settings(max_examples=150, deadline=None, database=None)
@given(one=ROWS, other=ROWS)
def test_two_reports_to_a_table_are_no_farther_than_its_radius(plans, one, other):
    role = plans[0].roles[TABLE]
    first, second = (answer.whole(plans[0], row) for row in (one, other))
    assert len(first) == role.numbers
    assert sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) <= role.radius**2


@given(w=st.integers(1, 400), t=st.integers(-400, 400), u=st.integers(-400, 400))
def test_a_numbers_block_is_as_long_as_is_said(w, t, u):
    t, u = max(min(t, w), -w), max(min(u, w), -w)
    square = [math.isqrt(2 * v**4 // w**2) for v in (t, u)]
    assert (t - u) ** 2 + (square[0] - square[1]) ** 2 <= (2 * w + 1) ** 2
    assert t**2 + w**2 + square[0] ** 2 <= (2 * w + 1) ** 2


def changed(plans, change):
    said = json.loads(study.plan_payload(*plans))
    change(said)
    return json.dumps(said).encode()


def moved(said, name):
    """Let every analysis say what the study says, of which devices tell their owners the first one's."""
    value = said.pop(name)
    for one in said["analyses"]:
        one[name] = value


WRONG = {
    "more than the whole": lambda p: p["together"].update(mu=[199, 100]),
    "another release group": lambda p: p["analyses"][1]["privacy"].update(release_group="another"),
    "a heavier block": lambda p: p["analyses"][0]["table"][0].update(weight=10**6),
    "a larger radius": lambda p: p["analyses"][0]["roles"]["table"].update(radius=10**6),
    **{
        f"its own {name}": partial(moved, name=name)
        for name in ("study", "title", "missing", "columns", "keys", "closes")
    },
    "its own collectors": lambda p: p["analyses"][1].update(collectors=TWO["collectors"]),
    "the study's privacy": lambda p: p.update(privacy=p["analyses"][0]["privacy"]),
    "two of a name": lambda p: p["analyses"][1].update(name="who"),
    "a name in capitals": lambda p: p["analyses"][1].update(name="WHO"),
    "what the study says": lambda p: p["analyses"][1].update(title="Another"),
    "nobody": lambda p: p.update(analyses=[]),
    "ranges that descend": lambda p: p["together"].update(below=[5, 4, WORDS]),
    "ranges of some": lambda p: p["together"].update(below=[5, 6, 7]),
    "one more member": lambda p: p["together"].update(more=1),
    "a table of a text": lambda p: p["analyses"][0]["table"][0].update(columns=["nothing"]),
    "a pair with itself": lambda p: p["analyses"][0]["table"][1].update(columns=["shift", "shift"]),
    "a table with a score": lambda p: p["analyses"][0].update(score=p["analyses"][1]["score"]),
    "a table with a main round": lambda p: p["analyses"][0]["roles"].update(main=p["analyses"][1]["roles"]["main"]),
    "a regression's table": lambda p: p["analyses"][1]["roles"].update(table=p["analyses"][0]["roles"]["table"]),
}


@pytest.mark.parametrize("which", WRONG)
def test_plans_that_break_the_whole_budget_are_refused(plans, which):
    with pytest.raises(MessageError):
        study.read_plans(changed(plans, WRONG[which]))


def test_people_that_are_split_spend_the_whole_once(tmp_path):
    made = plans_of(tmp_path, split="people")
    assert [p.mu for p in made] == [Mu(2, 1)] * 3
    ends = [p.part.people for p in made]
    assert (ends[0][0], ends[-1][1]) == (0, WORDS)
    assert [b - a for a, b in ends] == pytest.approx([0.2 * WORDS, 0.5 * WORDS, 0.3 * WORDS], abs=1)
    assert [{c.name for c in p.form} for p in made] == [
        {"age", "shift", "sex"},
        {"age", "shift", "hours"},
        {"age", "tired"},
    ]
    assert study.read_plans(study.plan_payload(*made)) == made
    words = np.array([analyses.word_of(bytes(32), i.to_bytes(16, "big")) for i in range(20_000)]) / WORDS
    got = np.histogram(words, [0, 0.2, 0.7, 1])[0] / len(words)
    for share, seen in zip((0.2, 0.5, 0.3), got, strict=True):
        assert abs(seen - share) < 4.0 * math.sqrt(share * (1 - share) / len(words))


IN_PARTS = {"analyses": None, "parts": 8, "formula": "hours ~ age + C(shift)", "family": "huber", "rows": 16_000}


def test_parts_of_a_study_have_the_model_and_different_people(tmp_path):
    made = plans_of(tmp_path, **IN_PARTS, **TWO)
    assert [p.part.name for p in made] == [f"part{k}" for k in range(1, 9)]
    assert [p.mu for p in made] == [Mu(2, 1)] * 8
    ends = [p.part.people for p in made]
    assert [a for a, _ in ends[1:]] == [b for _, b in ends[:-1]]
    assert (ends[0][0], ends[-1][1]) == (0, WORDS)
    assert study.alike(made)
    assert study.read_plans(study.plan_payload(*made)) == made
    assert not study.alike(made[:1])
    assert not study.alike(plans_of(tmp_path, split="people"))
    assert not study.alike(plans_of(tmp_path, analyses={n: {"table": "age"} for n in ("a", "b")}, split="people"))
    assert not study.alike(plans_of(tmp_path, analyses={n: {"formula": "hours ~ age"} for n in ("a", "b")}))


@pytest.mark.usefixtures("unmarked")
def test_the_price_of_parts_is_that_of_noise_and_of_the_median(tmp_path):
    plans = plans_of(tmp_path, **IN_PARTS, **TWO)
    text = " ".join(planned(declared.read_study(tmp_path / "study.json"), plans).split())
    bounds, levels = DOC["bounds"], {"shift": DOC["levels"]["shift"]}
    error = {
        n: pr.plan("hours ~ age + C(shift)", bounds=bounds, levels=levels, mu=2, n=n, trust="two_collectors").table()
        for n in (2_000, 16_000)
    }
    times = math.sqrt(math.pi / 3 / 8) * np.mean(error[2_000]["std_error"] / error[16_000]["std_error"])
    said = float(re.search(r"([\d.]+) times those of one fit of all", text)[1])
    assert said == pytest.approx(times, rel=0.1)  # one mean of ratios is of squares
    assert text.count("Plan: hours ~") == 1
    assert "by 0.61 of its standard error" in text


WRONG_FILES = {
    "a formula beside": ({"formula": "hours ~ age"}, SchemaError, "stands in one of them"),
    "both": ({"analyses": {"a": {"formula": "hours ~ age", "table": "age"}}}, SchemaError, "has a formula"),
    "neither": ({"analyses": {"a": {"share": 1}}}, SchemaError, "has a formula"),
    "a budget of its own": ({"analyses": {"a": {"formula": "hours ~ age", "mu": 1}}}, SchemaError, "stands beside"),
    "a family of a table": ({"analyses": {"a": {"table": "age", "family": "huber"}}}, SchemaError, "no 'family'"),
    "a share of some": (
        {"analyses": {"a": {"table": "age", "share": 1}, "b": {"table": "sex"}}}, SchemaError, "share of an analysis"),
    "a name with a blank": ({"analyses": {"a b": {"table": "age"}}}, SchemaError, "short name"),
    "a table of nothing known": ({"analyses": {"a": {"table": "weight"}}}, SchemaError, "no public range"),
    "a table of a response": ({"analyses": {"a": {"table": "age ~ sex"}}}, FormulaError, "'table' of a study"),
    "another split": ({"split": "rows"}, OptionError, "split"),
    "parts of analyses": ({"parts": 8}, SchemaError, "of a study with one model"),
    "few parts": ({**IN_PARTS, "parts": 3}, SchemaError, "a whole number from 4 to 16"),
    "many parts": ({**IN_PARTS, "parts": 17}, SchemaError, "a whole number from 4 to 16"),
    "parts that are true": ({**IN_PARTS, "parts": True}, SchemaError, "a whole number from 4 to 16"),
    "parts of no model": ({"parts": 4, "analyses": None}, SchemaError, "needs the key 'formula'"),
}  # fmt: skip


@pytest.mark.parametrize("which", WRONG_FILES)
def test_files_of_studies_say_what_is_wrong(tmp_path, which):
    more, error, words = WRONG_FILES[which]
    with pytest.raises(error, match=words):
        plans_of(tmp_path, **more)


def table_results(plan, rows, rng):
    """Results of a table of these people, whose devices are played."""
    told = np.array([answer.whole(plan, row) for row in rows])
    noise = np.rint(2.0**plan.bits * rng.standard_normal(told.shape)).astype(np.int64)
    cell = add(None, told + noise, TABLE)
    return results_of(plan, None, {(0, TABLE, 0): cell})


def someone(rng):
    night = rng.random() < 0.3
    return {"age": float(rng.uniform(18, 90)), "shift": "night" if night else "day", "sex": rng.choice(["f", "m", "x"])}


@pytest.mark.thorough
def test_a_tables_results_are_those_of_a_table(plans):
    rng = np.random.default_rng(3)
    assert chain_of(plans[0]).plan.rows == 1000
    res = table_results(plans[0], [someone(rng) for _ in range(3000)], rng)
    assert res.nobs == 3000
    shown = res.table_one().frame()
    assert shown["variable"].unique().tolist() == ["age", "shift", "shift:sex"]
    assert res.crosstab().shares.shape == (3, 4)
    assert "people's own devices" in res.privacy.trust_words
    assert "0.894427-GDP" in res.privacy.guarantee
    assert abs(res.params["age"] - 54) < 5 * res.bse["age"]
    with pytest.raises(SchemaError):
        declared.read("nothing.yaml")


def test_widths_of_a_table_are_those_it_has(plans):
    rng = np.random.default_rng(5)
    res = table_results(plans[0], [someone(rng) for _ in range(2000)], rng)
    found = tabled.half_widths(table_of(plans[0]), plans[0].table, plans[0].bits, 2000, {})
    wide = {name: half for name, half, _ in found}
    for name in ("age", "shift[day]"):
        assert 1.96 * res.bse[name] == pytest.approx(wide[name], rel=0.1)


@pytest.mark.some(1)
@pytest.mark.parametrize("more", [{}, {"split": "people"}, {"missing": "refuse"}, TWO])
def test_plans_of_several_analyses_are_as_the_schema_says(tmp_path, more):
    plans = plans_of(tmp_path, **more)
    assert accepts("plan", study.plan_payload(*plans))
    for which in ("what the study says", "nobody", "one more member", "a table with a score", "a name in capitals",
                  "its own missing", "its own collectors"):  # fmt: skip
        assert not accepts("plan", changed(plans, WRONG[which])), which


@pytest.mark.parametrize(
    "asked", ["age + cut(age, 5)", "age + cut(age, [40, 60])", "age + I(age**2)", "hours + age + age:hours"]
)
def test_a_table_of_what_devices_cant_report_is_refused(tmp_path, asked):
    with pytest.raises(PrivregError, match=r"cut\(\), Surv\(\), products and squares of numbers can't be had yet"):
        plans_of(tmp_path, analyses={"who": {"table": asked}})
