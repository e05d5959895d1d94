"""The analyst's command: keys, and what a signed plan says."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from privreg.cli.app import main
from privreg.options.table import TABLE
from privreg.planning.power import plan_of_fit
from privreg.tables import Paragraph
from privreg_field.device.report import design
from privreg_field.study import keys
from privreg_field.study.declaring import declared, precision
from privreg_field.wire import study, wire
from tests.field.test_declared import ONE, TEXT, written, written_for_two
from tests.studies import ROOT, public, signed, study_plan


def test_a_key_is_made(tmp_path, capsys, monkeypatch):
    path = str(tmp_path / "root.key")
    assert main(["study", "key", path]) == 0
    root = keys.public(keys.load(path))
    assert capsys.readouterr().out.splitlines()[-1] == wire.base(root)
    assert main(["study", "key", path]) == 2
    assert "never overwritten" in capsys.readouterr().err
    monkeypatch.setattr("getpass.getpass", lambda prompt: "secret")
    assert main(["study", "key", f"{path}2", "--password"]) == 0
    assert keys.load(f"{path}2", b"secret")
    monkeypatch.setattr("getpass.getpass", lambda prompt: "")
    assert main(["study", "key", f"{path}3", "--password"]) == 2


def test_a_collectors_keys_are_made_and_what_the_analyst_needs_is_printed(tmp_path, capsys, monkeypatch):
    path = str(tmp_path / "a.key")
    assert main(["study", "key", path, "--collector"]) == 0
    sign, seal = map(wire.base, keys.load_collector(path).public)
    assert (tmp_path / "a.key.pub").read_text() == f"key: {sign}\nseal: {seal}\n"
    assert (tmp_path / "a.key.pub").read_text() in capsys.readouterr().out
    assert main(["study", "key", path, "--collector"]) == 2
    assert "never overwritten" in capsys.readouterr().err
    monkeypatch.setattr("getpass.getpass", lambda prompt: "secret")
    assert main(["study", "key", f"{path}2", "--collector", "--password"]) == 0
    assert keys.load_collector(f"{path}2", b"secret")


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "sleep.plan"
    payload = study.plan_payload(study_plan())
    path.write_bytes(signed("plan", payload, ROOT))
    return str(path), wire.base(wire.hash_of(payload))


def test_a_plan_is_verified_and_shown(plan, capsys):
    path, name = plan
    assert main(["study", "show", path, "--key", wire.base(public(ROOT))]) == 0
    out = capsys.readouterr().out
    for said in (name, "verified", "524288", "joint", "hours ~ Intercept", "mu = 1", "69 times of 100"):
        assert said in out
    assert "The study says:\n\n  | Sleep and shift work\n" in out
    assert main(["study", "show", path]) == 0
    assert "not looked at" in capsys.readouterr().out


def test_a_plan_that_devices_refuse_is_said_so(plan, capsys, tmp_path):
    path, _ = plan
    assert main(["study", "show", path, "--key", wire.base(bytes(32))]) == 2
    assert "not signed by this key" in capsys.readouterr().err
    assert main(["study", "show", path, "--key", "AAAA"]) == 2
    assert main(["study", "show", path, "--key", "?"]) == 2
    (tmp_path / "no.plan").write_text("{}")
    assert main(["study", "show", str(tmp_path / "no.plan")]) == 2
    assert main(["study", "show", str(tmp_path / "nothing")]) == 2
    assert main(["study", "draw"]) == 2
    assert main(["study", "--help"]) == 0


@pytest.mark.thorough
@pytest.mark.usefixtures("shared_rehearsals")
def test_a_study_is_signed_and_what_is_signed_verifies(tmp_path, capsys):
    file, root, server = (str(tmp_path / name) for name in ("study.yaml", "root.key", "server.key"))
    written(tmp_path)
    for path in (root, server):
        assert main(["study", "key", path]) == 0
    key, state = (wire.base(keys.public(keys.load(path))) for path in (root, server))
    capsys.readouterr()
    assert main(["study", "sign", file, "--key", root, "--states", server]) == 0
    out = capsys.readouterr().out
    assert key in out
    _, fit = declared.read(file)
    planned = plan_of_fit(fit, 4000)
    assert str(planned).partition("Assumed")[0] in out  # widths are those of pr.plan, and of this fit's 14 rounds
    assert planned.reliable > 4000
    assert "don't rely on intervals with so few records" in out
    held = planned._precision.plan(4000)[0].rounds
    assert [(r.role, r.optional) for r in held] == list(
        fit.rounds[["role", "optional"]].itertuples(index=False, name=None)
    )
    made = str(tmp_path / "study.plan")
    for pinned in (key, root):  # written out, or its file
        assert main(["study", "show", made, "--key", pinned]) == 0
    assert "C(shift)[T.night]" in capsys.readouterr().out
    plan = study.read_plan(wire.open_envelope((tmp_path / "study.plan").read_bytes(), "plan").payload)
    assert [wire.base(k) for k in plan.keys] == [state]
    # the record's expression trees are those of the formula
    columns = {c.name: c for c in plan.columns}
    told = {n: design.read(columns[n], v) for n, v in {"shift": "night", "age": 50, "bmi": 30}.items()}
    values = {cell.name: design.value_of(cell.tree, columns, told) for cell in plan.design}
    assert values == {"Intercept": 1, "C(shift)[T.night]": 1, "C(shift)[T.both]": 0, "age": 50, "age:bmi": 1500}
    assert main(["study", "sign", file, "--key", root, "--states", server]) == 2  # never overwritten
    assert main(["study", "sign", file, "--key", root, "--states", state, "--out", f"{made}2"]) == 0
    one, two = (wire.open_envelope(Path(p).read_bytes(), "plan").payload for p in (made, f"{made}2"))
    assert one == two


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace("age:bmi", "np.sin(age)"), "np.sin(age)"),
        (TEXT.replace("mu: 1", "mu: many"), "mu of a study is a number"),
        (TEXT.replace("mu: 1", "mu: 3"), "more than devices allow by themselves; write mu: 2 or less"),
        (TEXT.replace("  age: How", "  agee: What?\n  age: How"), "question 'agee': the formula has no such column"),
        (TEXT + "choices: {shfit: {day: D}}\n", "choices 'shfit': the formula has no such column"),
        (TEXT.replace("opens: 2047", "opens: 2017").replace("closes: 2047", "closes: 2017"), "closes in the past"),
        (TEXT.replace("bounds:", "bound:"), "bound"),
    ],
)
def test_a_study_that_devices_can_t_play_is_refused_by_name(tmp_path, capsys, text, said):
    written(tmp_path, text)
    root = str(tmp_path / "root.key")
    assert main(["study", "key", root]) == 0
    assert main(["study", "sign", str(tmp_path / "study.yaml"), "--key", root, "--states", root]) == 2
    assert said in capsys.readouterr().err
    assert main(["study", "sign", str(tmp_path / "study.yaml"), "--key", root, "--states", "??"]) == 2
    assert not (tmp_path / "study.plan").exists()


WRONG = {
    "no bounds": (("  age: [18, 90]\n", ""), "give bounds: {age: [low, high]}, or scaling: private"),
    "no levels": (("levels:\n  shift: [day, night, both]\n", ""), "if a factor, levels: {shift: [A, B]}"),
    "empty bounds": (("[18, 90]", "[90, 18]"), "bounds: {age: [90, 18]} is empty; write [low, high]"),
    "one bound": (("[18, 90]", "[18]"), "bounds of 'age' is a list of 1; it must be a pair of numbers [low, high]"),
    "one level": (("[day, night, both]", "[day]"), "levels of 'shift' has 1 level(s)"),
    "rows": (("rows: 4000", "rows: many"), "rows: many must be a whole number"),
    "rounds": (("rounds: 14", "rounds: 3"), "rounds: 3 must be"),
    "lanes": (("rounds: 14", "lanes: 7"), "lanes: 7 is the number"),
    "inference": (("rounds: 14", "inference: nope"), "inference: nope is not known"),
    "measures": (("rounds: 14", "measures: 0.9"), "measures: 0.9 must be a number in (0, 0.5)"),
    "scaling": (("rounds: 14", "scaling: privte"), "scaling: privte is not known"),
    "trust": (("rounds: 14", "trust: central"), "choose one of 'local', 'two_collectors'"),
    "family": (("{huber: {c: 1.2}}", "normal"), "family: normal is not known"),
    "tau": (("{huber: {c: 1.2}}", "{quantile: {tau: 3}}"), "tau: 3 must be"),
    "c": (("{huber: {c: 1.2}}", "{huber: {c: 300}}"), "write family: {huber: {scale: 300}}"),
    "no y_max": (("{huber: {c: 1.2}}", "poisson"), "family: {poisson: {y_max: Y}} must be"),
    "binary": (("{huber: {c: 1.2}}", "logistic"), "levels: {hours: [A, B]}, or, of 0 and 1, bounds: {hours: [0, 1]}"),
    "classes": (("{huber: {c: 1.2}}", "multinomial"), "give levels: {hours: [A, B]} in place"),
    "offset": (("rounds: 14", "offset: nope"), "give bounds: {nope: [low, high]}"),
    "exposure": (("rounds: 14", "exposure: age"), "goes with Poisson(), and the family is"),
    "mu": (("mu: 1", "mu: 0"), "1e-12 to 1e12; 0.5"),
    "moments": (("rounds: 14", "moments: {age: [40]}"), "a pair of numbers [mean, sd]"),
    "a function": (("age:bmi", "center(age)"), "with all knots and both bounds."),
    "a random effect": (("age:bmi", "(1|shift)"), "with levels: {shift: [A, B]}."),
    "a formula": (("hours ~ C(shift) + age + age:bmi", "5"), "'formula' of a study must be a text"),
    "a factor": (("age:bmi", "C(age)"), "Give levels: {age: [A, B]} in place of bounds."),
    "no rows": (("rows: 4000\nrounds: 14", "trust: two_collectors"), "give rows:."),
}
PYTHON = re.compile(rf"(?<![\w'\"(.])(?:{'|'.join(o.name for o in TABLE if o.doors)})=|\[\.\.\.|\bpr\.|from_formula")


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_study_is_explained_by_the_keys_of_its_file(tmp_path, capsys, wrong):
    (old, new), words = WRONG[wrong]
    assert old in TEXT
    file = written(tmp_path, TEXT.replace(old, new))
    assert main(["study", "sign", str(file), "--key", str(file), "--states", wire.base(public(ROOT))]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert not PYTHON.search(re.sub(r"[A-Z]\w+\([^()]*\)", "", said)), said  # families are shown as in summaries


def test_a_study_is_not_signed_with_a_collectors_key(tmp_path, capsys):
    file, _ = written_for_two(tmp_path)
    path = next(tmp_path.glob("*.key"))
    assert main(["study", "sign", str(file), "--key", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"--key {str(path)!r} is the key of collector" in said
    assert "privreg study key root.key" in said


class Widths:
    """In place of a plan, which takes seconds."""

    assumed = SimpleNamespace(usual=True)

    def _layout(self):
        return [Paragraph("WIDTHS")]


def test_a_study_with_two_collectors_is_signed_with_their_keys(tmp_path, capsys, monkeypatch):
    planned = []
    monkeypatch.setattr("privreg.planning.power.plan_of_fit", lambda *given: planned.append(given) or Widths())
    file, two = written_for_two(tmp_path)
    root, made = str(tmp_path / "root.key"), str(tmp_path / "study.plan")
    assert main(["study", "key", root]) == 0
    assert main(["study", "sign", str(file), "--key", root, "--states", root]) == 2
    assert "both collectors that the study names sign states" in capsys.readouterr().err
    assert main(["study", "sign", str(file), "--key", root]) == 0
    out = capsys.readouterr().out
    _, fit = declared.read(file)
    assert "WIDTHS" in out  # which tests of plans have, for a fit and a number of people
    assert "of the response that of its residuals: sd: {age: 12, …}" in " ".join(out.split())
    assert "Target:" not in out
    text, _ = precision._fit(SimpleNamespace(rows=4000, asked=SimpleNamespace(like="of an earlier fit")), False)
    assert "Target: fixed, that of the earlier fit in like:" in text
    assert [(one.to_dict(), n) for one, n in planned[:1]] == [(fit.to_dict(), 4000)]
    plan = study.read_plan(wire.open_envelope(Path(made).read_bytes(), "plan").payload)
    assert plan.keys == tuple(c.key for c in plan.collectors)
    assert plan.keys[1] == two.public[0]
    assert main(["study", "show", made, "--key", root]) == 0
    shown = capsys.readouterr().out
    for text in (out, shown):
        for said in (
            "University of Here, https://a.example.org",
            "Office of Statistics",
            ONE,
            wire.base(two.public[1]),
        ):
            assert said in text
        assert ("noise is in a round's sum" in text) == (text is shown)
    held = fit.rounds.set_index("role")["noise_sd"]
    for line in shown.splitlines():
        if line.split()[:1] in [[role] for role in plan.roles] and "ball" in line:
            assert float(line.split()[-1]) == pytest.approx(held.loc[[line.split()[0]]].iloc[0], rel=1e-3)


def test_an_analyst_who_plays_a_collector_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("privreg.planning.power.plan_of_fit", lambda *given: Widths())
    root = str(tmp_path / "root.key")
    assert main(["study", "key", root]) == 0
    file, _ = written_for_two(tmp_path, ONE, wire.base(keys.public(keys.load(root))))
    assert main(["study", "sign", str(file), "--key", root]) == 2
    assert f"--key {root!r} is the key of collector a" in capsys.readouterr().err
    assert not (tmp_path / "study.plan").exists()


def test_a_local_study_needs_who_signs_its_states(tmp_path, capsys):
    root = str(tmp_path / "root.key")
    assert main(["study", "key", root]) == 0
    assert main(["study", "sign", str(written(tmp_path)), "--key", root]) == 2
    assert "name the key of the server" in capsys.readouterr().err
