"""Silos in the field: one answer to each round, in one state, whatever a server asks and whenever a machine stops."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import privreg as pr
from privreg.errors import BudgetError, DataError, OptionError, PrivregError, StudyError
from privreg.privacy.noise import seeded_key
from privreg.simulation.curator import keys_of, of_all
from privreg_field.silos import command, memory, rounds
from privreg_field.silos.memory import Memory
from privreg_field.silos.plan import sign, verified
from privreg_field.silos.rounds import Closed, History, answer, counted, play
from privreg_field.study import keys
from privreg_field.study.declaring.declared import family_of
from privreg_field.wire.wire import MessageError, base, dumps, loads, unbase

SIZES = {"north": 900, "south": 700, "west": 500}
SAID = {
    "study": "charges", "title": "Costs", "contact": "nobody@example.org", "silos": list(SIZES), "formula": "y ~ x + g",
    "mu": 1.5, "bounds": {"x": [-1, 1], "y": [-5, 6]}, "levels": {"g": ["a", "b"]},
}  # fmt: skip
SEED = 5


def people() -> dict[str, pd.DataFrame]:
    rng, out = np.random.default_rng(1), {}
    for name, n in SIZES.items():
        x, g = rng.uniform(-1, 1, n), rng.choice(["a", "b"], n)
        y = 0.5 + x + 0.5 * (g == "b") + rng.normal(0, 1, n)
        out[name] = pd.DataFrame({"x": x, "g": g, "y": y, "b": (y > 0.5).astype(int), "who": np.arange(n) // 2})
    return out


def signed(folder: Path, **more: object) -> tuple[bytes, bytes]:
    """A plan's envelope, and the public key that signed it."""
    path = folder / "root.key"
    key = keys.load(path) if path.exists() else keys.make(path)
    (folder / "plan.yaml").write_text(yaml.safe_dump({**SAID, **more}))
    return sign(folder / "plan.yaml", key), keys.public(key)


class Field:
    """Silos in files of their own, asked in this process."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.folder = folder
        self.envelope, self.root = signed(folder, **more)
        self.plan = verified(self.envelope, self.root)
        self.memories = {}
        for name, rows in people().items():
            rows.to_csv(folder / f"{name}.csv", index=False)
            self.memories[name] = Memory(folder / f"{name}.sqlite")
            self.accept(name)
        self.asked = list[bytes]()

    def accept(self, name: str) -> None:
        data = str(self.folder / f"{name}.csv")
        n, stamp = counted(self.plan, name, data)
        self.memories[name].accept(self.envelope, self.root, name, data, stamp, n)
        with self.memories[name].written() as db:  # for a comparison: keys that follow from a seed
            key = keys_of(seeded_key(SEED), (name,))
            db.execute("UPDATE plan SET key = ? WHERE hash = ?", (key, self.plan.digest))

    def ask(self, body: bytes, silos: Sequence[str]) -> dict[str, bytes]:
        self.asked.append(body)
        return {name: answer(self.memories[name].path, body) for name in silos}

    def play(self, ask: Callable | None = None) -> pr.PrivateResults:
        return play(self.plan, ask or self.ask, self.folder / "kept.json")

    def state(self) -> tuple[object, ...]:
        """All that the silos' files hold but times."""
        out = []
        for one in self.memories.values():
            with one.written() as db:
                out.append((db.execute("SELECT plan, round, state, total FROM sum").fetchall(),
                            db.execute("SELECT hash, rows, p, q, key FROM plan").fetchall()))  # fmt: skip
        return tuple(out)


def bits(res: pr.PrivateResults) -> bytes:
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


def in_one_process(**more: object) -> pr.PrivateResults:
    said = {**SAID, **more}
    given = {k: v for k, v in said.items() if k not in {"study", "title", "contact", "silos", "formula", "least"}}
    given["family"] = family_of(given.get("family", "huber"))
    return pr.PrivateOnlineRegression.from_formula(said["formula"], people(), trust="silos", **given).fit(seed=SEED)


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> tuple[Field, pr.PrivateResults]:
    """A study that is over; nobody changes it."""
    one = Field(tmp_path_factory.mktemp("over"))
    return one, one.play()


# --- results ----------------------------------------------------------------------------------------------------

MORE = {
    "usual": {},
    "logistic": {"formula": "b ~ x + C(silo)", "family": "logistic"},
    "persons": {"id": "who", "k_max": 2},
    "quantile": {"family": {"quantile": {"tau": 0.4}}},
}


@pytest.mark.parametrize("name", MORE)
def test_the_result_is_bit_for_bit_that_in_one_process_with_the_same_keys(name: str, tmp_path: Path) -> None:
    assert bits(Field(tmp_path, **MORE[name]).play()) == bits(in_one_process(**MORE[name]))


def test_results_say_that_no_row_left_its_silo(over: tuple[Field, pr.PrivateResults], tmp_path: Path) -> None:
    _, res = over
    text = " ".join(f"{res.summary(details=True)} {res.privacy}".split())
    for words in (
        "which never left it: this process had noised sums alone",
        "against everybody outside the person's silo",
        "north 900, south 700, west 500",
        "1.5-GDP",
        "sqrt(q) times mu",
    ):
        assert words in text
    assert "simulated" not in text
    assert "NOT PRIVATE" not in text
    res.save(tmp_path / "res.privreg")
    assert str(pr.load(tmp_path / "res.privreg").privacy) == str(res.privacy)


def test_budgets_of_all_rounds_keep_the_plans(over: tuple[Field, pr.PrivateResults]) -> None:
    field, _ = over
    history = History.from_bytes((field.folder / "kept.json").read_bytes())
    _, run = rounds._stream(field.plan)
    played = rounds._played(field.plan, run, history)
    whole = sum(Fraction(repr(p.state.mu)) ** 2 for p in played.history[:-1])
    assert Fraction(999, 1000) * Fraction(9, 4) < whole <= Fraction(9, 4)
    assert len(history.closed) == len(field.asked) - 1


# --- machines that stop -----------------------------------------------------------------------------------------


class Stop(BaseException):
    """The machine stops."""


@pytest.mark.some(4)
@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.parametrize(
    "who", ["server before asking", "server before keeping", "silo before storing", "silo before sending"]
)
def test_a_machine_that_stops_in_a_round_changes_no_bit(
    at: int, who: str, over: tuple[Field, pr.PrivateResults], field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def stops(original: Callable, *, before: bool = False) -> Callable:
        def stopping(*given: object) -> object:
            done.append(1)
            if before and len(done) == at + 1:
                raise Stop
            out = original(*given)
            if not before and len(done) == at + 1:
                raise Stop
            return out

        return stopping

    ask = field.ask
    with monkeypatch.context() as m:
        if who == "server before asking":
            ask = stops(ask, before=True)
        elif who == "server before keeping":
            ask = stops(ask)
        elif who == "silo before storing":
            m.setattr(Memory, "store", staticmethod(stops(Memory.store, before=True)))
        else:
            m.setattr(rounds, "answer", stops(answer))
            ask = lambda body, silos: {name: rounds.answer(field.memories[name].path, body) for name in silos}  # noqa: E731
        with pytest.raises(Stop):
            field.play(ask)
    assert bits(field.play()) == bits(over[1])
    assert [one[0] for one in field.state()] == [one[0] for one in over[0].state()]


def test_a_server_that_lost_its_file_gets_the_same_sums_again(field: Field) -> None:
    first, before = field.play(), field.state()
    (field.folder / "kept.json").unlink()
    assert bits(field.play()) == bits(first)
    assert field.state() == before


def test_a_silo_that_drops_out_is_left_out_and_may_come_back(field: Field) -> None:
    def without(body: bytes, silos: Sequence[str]) -> dict[str, bytes]:
        number = len(History.from_bytes(body).closed)
        return field.ask(body, [s for s in silos if s != "west" or number not in {2, 3}])

    res = field.play(without)
    assert np.isfinite(res.bse).all()
    with field.memories["west"].written() as db:
        answered = [n for (n,) in db.execute("SELECT round FROM sum ORDER BY round")]
    assert 1 in answered
    assert not {2, 3} & set(answered)
    assert 4 in answered
    assert (res.params != in_one_process().params).any()


# --- servers that ask something else ----------------------------------------------------------------------------


def refused(field: Field, history: History | bytes, words: str, silo: str = "north") -> None:
    before = field.state()
    body = history if isinstance(history, bytes) else history.to_bytes()
    said = loads(answer(field.memories[silo].path, body), "it", 1 << 26)
    assert words in said["refused"]
    assert set(said) == {"silo", "refused"}
    assert field.state() == before


def histories(over: tuple[Field, pr.PrivateResults]) -> tuple[Field, History]:
    field, _ = over
    return field, History.from_bytes((field.folder / "kept.json").read_bytes())


def test_another_state_of_a_round_is_refused(over: tuple[Field, pr.PrivateResults]) -> None:
    field, whole = histories(over)
    for k in range(1, len(whole.closed)):
        one = whole.closed[k - 1]
        other = one._replace(totals=one.totals[:-8] + bytes(8))  # another sum of the last silo
        refused(field, whole._replace(closed=(*whole.closed[: k - 1], other)), "in another state")
    again = answer(field.memories["north"].path, whole._replace(closed=whole.closed[:3]).to_bytes())
    assert again == answer(field.memories["north"].path, whole._replace(closed=whole.closed[:3]).to_bytes())


def test_other_plans_sizes_and_histories_are_refused(over: tuple[Field, pr.PrivateResults], tmp_path: Path) -> None:
    field, whole = histories(over)
    refused(field, whole, "all rounds of this plan are over")
    refused(field, whole._replace(digest=b"x" * 32), "accepted no such plan")
    refused(field, whole._replace(sizes=(901, 700, 500)), "another number of rows")
    refused(field, whole._replace(sizes=(900, 700)), "'counts' of a round")
    refused(field, History(whole.digest, (900, 700)), "another number of rows")
    refused(field, b"{}", "has no 'plan'")
    refused(field, b"nonsense", "")
    own = whole.closed[0]
    fake = own._replace(totals=bytes(8) + own.totals[8:])  # north's own sum
    refused(field, whole._replace(closed=(fake, *whole.closed[1:], own)), "isn't that of the rounds")


def test_a_smaller_set_of_silos_and_an_old_round_are_refused(field: Field) -> None:
    """Before anything was answered, nobody's sum can be made up; after a round none before it is answered."""
    counts = tuple(SIZES.values())
    first = History(field.plan.digest, counts)
    answers = {s: loads(answer(field.memories[s].path, first.to_bytes()), "it", 1 << 26) for s in SIZES}
    assert all("total" in one for one in answers.values())
    _, run = rounds._stream(field.plan)
    width = 8 * rounds._played(field.plan, run, first).plan.width(run.progress.state.role)
    invented = Closed(counts, bytes(3 * width))
    refused(field, first._replace(closed=(invented,)), "a sum that this silo hasn't sent")
    skipped = Closed((0, 700, 500), bytes(3 * width))
    later = first._replace(closed=(skipped,))
    assert "total" in loads(answer(field.memories["north"].path, later.to_bytes()), "it", 1 << 26)
    fresh = first._replace(sizes=(900, 700, 501))
    refused(field, fresh, "in another state")


def test_a_file_that_changed_is_refused_without_a_word_of_its_rows(field: Field) -> None:
    first = History(field.plan.digest, tuple(SIZES.values()))
    rows = people()["north"]
    rows.iloc[:-1].to_csv(field.folder / "north.csv", index=False)
    refused(field, first, "changed since the plan was accepted")
    rows.rename(columns={"x": "z"}).to_csv(field.folder / "north.csv", index=False)
    refused(field, first, "its rows can't be used (DataError)")
    (field.folder / "north.csv").unlink()
    refused(field, first, "its rows can't be used")


def test_an_error_is_refused_by_its_type_and_not_by_its_words(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a value of a row: 42")

    monkeypatch.setattr(rounds, "_fresh", fails)
    said = loads(
        answer(field.memories["north"].path, History(field.plan.digest, tuple(SIZES.values())).to_bytes()), "it"
    )
    assert said["refused"] == "its rows can't be used (RuntimeError)"
    elsewhere = loads(answer(field.folder / "no" / "\0", History(field.plan.digest).to_bytes()), "it")
    assert str(field.folder) not in str(elsewhere)


def test_a_file_that_comes_back_from_a_copy_has_no_noise_twice(field: Field) -> None:
    """Of two states of a round the difference of sums must not be that of sums without noise."""
    counts, closed = tuple(SIZES.values()), list[Closed]()
    history = History(field.plan.digest, counts)
    for _ in range(2):
        said = (loads(answer(field.memories[s].path, history.to_bytes()), "it", 1 << 26)["total"] for s in SIZES)
        closed.append(Closed(counts, b"".join(unbase(one, "it") for one in said)))
        history = history._replace(closed=tuple(closed))
    path, width = field.memories["north"].path, len(closed[1].totals) // 3
    copy, found = path.read_bytes(), []
    for last in (closed[1].totals[-width:], bytes(width)):  # a server's other sum of the last silo
        path.write_bytes(copy)
        other = closed[1]._replace(totals=closed[1].totals[:-width] + last)
        history = history._replace(closed=(closed[0], other))
        _, run = rounds._stream(field.plan, "north", str(field.folder / "north.csv"))
        rounds._played(field.plan, run, history)
        exact = of_all(run.plan, run.progress.state, run.rows, last=run.progress.last)[0][0]
        sent = loads(answer(path, history.to_bytes()), "it", 1 << 26)["total"]
        assert loads(answer(path, history.to_bytes()), "it", 1 << 26)["total"] == sent  # these bytes again
        found.append((exact, np.frombuffer(unbase(sent, "it"), dtype="<i8") - exact))
    (one, noise), (two, other_noise) = found
    assert (one != two).any()
    assert np.abs(noise - other_noise).min() > 1e-6 * np.std(noise)  # equal noise is exactly so


def test_a_refusal_stops_the_server_with_its_reason(field: Field) -> None:
    (field.folder / "north.csv").unlink()
    with pytest.raises(StudyError, match="silo 'north' refuses: its rows can't be used"):
        field.play()


def test_a_server_without_all_silos_doesnt_begin(field: Field) -> None:
    with pytest.raises(StudyError, match="don't answer: west"):
        field.play(lambda body, silos: field.ask(body, ["north", "south"]))
    assert not (field.folder / "kept.json").exists()


def test_a_silo_that_lies_about_its_rows_changes_weights_and_no_budget(field: Field) -> None:
    def lying(body: bytes, silos: Sequence[str]) -> dict[str, bytes]:
        out = field.ask(body, silos)
        return {s: dumps({**loads(v, "it", 1 << 26), "rows": 9_000}) if s == "west" else v for s, v in out.items()}

    with pytest.raises(StudyError, match="'west' refuses: the history has another number of rows"):
        field.play(lying)


# --- plans and budgets ------------------------------------------------------------------------------------------


def test_a_budget_is_spent_once_and_before_anything_is_computed(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="accepted already"):
        field.accept("north")
    envelope, root = signed(field.folder, title="Another")
    monkeypatch.setattr(rounds, "_fresh", None)
    with pytest.raises(BudgetError, match=r"would cost mu = 1\.5.* may cost 2, and 1\.5 is spent"):
        field.memories["north"].accept(envelope, root, "north", "north.csv", "null", 900)
    field.memories["north"].accept(envelope, root, "north", "north.csv", "null", 900, memory.Mu(5, 2))
    assert len(field.memories["north"].log()) == 2


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "unknown": ({"formulas": "y ~ x"}, "no 'formulas'"),
    "no silos": ({"silos": []}, "different names"),
    "one text": ({"silos": "north"}, "a list of their names"),
    "twice": ({"silos": ["a", "a"]}, "different names"),
    "mu": ({"mu": 0}, "positive number"),
    "mu of text": ({"mu": "x"}, "positive number"),
    "least": ({"least": 0}, "whole number"),
    "bounds": ({"bounds": {"x": [1, -1], "y": [0, 1]}}, "x"),
    "levels": ({"levels": {}}, "g"),
    "family": ({"family": "hinges"}, "hinge"),
    "intercept": ({"formula": "y ~ x - 1"}, "intercept"),
    "columns": ({"formula": "y ~ z"}, "z"),
    "learned": ({"formula": "y ~ center(x)"}, "center"),
}


@pytest.mark.parametrize("name", WRONG)
def test_plans_are_refused_by_what_is_wrong(name: str, tmp_path: Path) -> None:
    given, words = WRONG[name]
    with pytest.raises((PrivregError, MessageError), match=words):
        signed(tmp_path, **given)


def test_a_plan_of_another_key_or_changed_is_refused(field: Field) -> None:
    other = keys.public(keys.make(field.folder / "other.key"))
    with pytest.raises(MessageError, match="not signed by this key"):
        verified(field.envelope, other)
    said = json.loads(field.envelope)
    payload = json.loads(rounds.unbase(said["payload"], "it"))
    payload["least"] = 1
    forged = json.dumps({**said, "payload": base(dumps(payload))}).encode()
    with pytest.raises(MessageError, match="not signed by this key"):
        verified(forged, field.root)


def test_few_rows_and_silos_that_have_no_part_are_refused(field: Field) -> None:
    with pytest.raises(StudyError, match="'east' has no part"):
        counted(field.plan, "east", str(field.folder / "north.csv"))
    people()["north"][:50].to_csv(field.folder / "few.csv", index=False)
    with pytest.raises(DataError, match="100 rows or more"):
        counted(field.plan, "north", str(field.folder / "few.csv"))


def test_the_command_signs_accepts_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    envelope, root = signed(tmp_path)
    assert envelope
    people()["north"].to_csv(tmp_path / "north.csv", index=False)
    run, at = command.main, [str(tmp_path / name) for name in ("plan.yaml", "root.key", "n.plan", "n.csv", "n.sqlite")]
    assert run(["plan", at[0], "--key", at[1], "--out", at[2]]) == 0
    assert base(root) in capsys.readouterr().out
    given = ["accept", at[2], "--key", base(root), "--silo", "north", "--ledger", at[4], "--yes"]
    assert run([*given, "--data", str(tmp_path / "north.csv")]) == 0
    assert "with 900 rows, whose number becomes public" in capsys.readouterr().out
    assert run([*given, "--data", str(tmp_path / "north.csv")]) == 2
    assert "accepted already" in capsys.readouterr().err
    assert run([*given, "--data", at[3]]) == 2
    assert "no file" in capsys.readouterr().err
    assert run(["log", "--ledger", at[4]]) == 0
    assert "900 rows, mu = 1.5" in capsys.readouterr().out
    assert sqlite3.connect(at[4]).execute("SELECT count(*) FROM sum").fetchone() == (0,)
    assert (tmp_path / "n.sqlite").stat().st_mode & 0o777 == 0o600
