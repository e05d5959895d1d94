"""Silos in the field: one answer to each round, in one state, whatever a server asks and whenever a machine stops."""

from __future__ import annotations

import itertools
import json
import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
import yaml

import privreg as pr
from privreg.collector.aggregate.report import steps
from privreg.errors import BudgetError, DataError, OptionError, PrivregError, StudyError
from privreg.privacy.noise import seeded_key
from privreg.simulation.aggregate import by_group, keys_of, of_all
from privreg.simulation.streaming.encoding import Block
from privreg_field.silos import command, memory, plan, rounds
from privreg_field.silos.memory import Accepted, Memory
from privreg_field.silos.plan import Entry, SiloPlan, sign, verified
from privreg_field.silos.rounds import Fit, History, answer, play
from privreg_field.study import keys
from privreg_field.study.declaring.declared import family_of
from privreg_field.wire.wire import MessageError, base, dumps, loads, unbase
from tests.databases import sqlite

SIZES = {"north": 900, "south": 700, "west": 500}
SAID = {
    "study": "charges", "title": "Costs", "contact": "nobody@example.org", "silos": list(SIZES), "formula": "y ~ x + g",
    "mu": 1.5, "bounds": {"x": [-1, 1], "y": [-5, 6]}, "levels": {"g": ["a", "b"]},
}  # fmt: skip
SEED = 5
UNUSABLE = "its rows can't be used now."


def people() -> dict[str, pd.DataFrame]:
    rng, out = np.random.default_rng(1), {}
    for name, n in SIZES.items():
        x, g = rng.uniform(-1, 1, n), rng.choice(["a", "b"], n)
        y = 0.5 + x + 0.5 * (g == "b") + rng.normal(0, 1, n)
        more = {"b": (y > 0.5).astype(int), "who": np.arange(n) // 2, "ward": [f"w{k % 20}" for k in range(n)]}
        out[name] = pd.DataFrame({"x": x, "g": g, "y": y, **more})
    return out


def signed(folder: Path, **more: object) -> tuple[bytes, bytes]:
    """A plan's envelope, and the public key that signed it."""
    path = folder / "root.key"
    key = keys.load(path) if path.exists() else keys.make(path)
    (folder / "plan.yaml").write_text(yaml.safe_dump({**SAID, **more}))
    return sign(folder / "plan.yaml", key), keys.public(key)


class Field:
    """Silos in files of their own, asked in this process."""

    def __init__(self, folder: Path, *, accepts: bool = True, **more: object) -> None:
        self.folder = folder
        self.envelope, self.root = signed(folder, **more)
        self.plan = verified(self.envelope, self.root)
        self.memories = {}
        for name, rows in people().items():
            rows.to_csv(folder / f"{name}.csv", index=False)
            self.memories[name] = Memory(folder / f"{name}.sqlite")
            if accepts:
                self.accept(name)
        self.asked, self.log = list[bytes](), list[str]()

    def accept(self, name: str, place: Sequence[str] = ()) -> None:
        data = json.dumps(place or [str(self.folder / f"{name}.csv")])
        fit = Fit(self.plan, (), name, data)
        self.memories[name].accept(self.envelope, self.root, fit.entry, data, fit.stamp)
        with self.memories[name].written() as db:  # for a comparison: keys that follow from a seed
            key = keys_of(seeded_key(SEED), (name,))
            db.execute("UPDATE plan SET key = ? WHERE hash = ?", (key, self.plan.digest))

    def ask(self, body: bytes, silos: Sequence[str]) -> list[bytes]:
        self.asked.append(body)
        return [answer(self.memories[name].path, body) for name in silos]

    def play(self, ask: Callable | None = None) -> pr.PrivateResults:
        return play(self.plan, ask or self.ask, self.folder / "kept.json", self.log.append)

    def state(self) -> tuple[object, ...]:
        """All that the silos' files hold but times."""
        out = []
        for one in self.memories.values():
            with one.written() as db:
                out.append((db.execute("SELECT plan, round, state, total FROM sum").fetchall(),
                            db.execute("SELECT hash, silo, rows, p, q, key FROM plan").fetchall()))  # fmt: skip
        return tuple(out)


def held(field: Field, silo: str = "north") -> Accepted:
    with field.memories[silo].written() as db:
        found = Memory.accepted(db, field.plan.digest)
    assert found is not None
    return found


def taken(plan: SiloPlan, history: History, held: Accepted | None = None) -> tuple:
    """The state that is asked, its numbers, budgets, and the exact sum of a silo."""
    fit = Fit(plan, history.entries, *(() if held is None else (held.entry.silo, held.data)))
    people, budgets = fit.take_in(history)
    state = fit.run.progress.state
    size = people.shape[1] * fit.run.plan.width(state.role)
    exact = None if held is None else of_all(fit.run.plan, state, fit.run.rows, last=False)[0][0]
    return state, size, budgets, exact


def bits(res: pr.PrivateResults) -> bytes:
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


def in_one_process(data: dict[str, pd.DataFrame] | None = None, **more: object) -> pr.PrivateResults:
    said = {**SAID, **more}
    given = {k: v for k, v in said.items() if k not in {"study", "title", "contact", "silos", "formula", "least"}}
    given["family"], measures = family_of(given.get("family", "huber")), given.pop("measures", None)
    model = pr.PrivateOnlineRegression.from_formula(said["formula"], data or people(), trust="silos", **given)
    return model.fit(seed=SEED, measures=measures)


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
    "measures": {"measures": 0.2},
    "clusters": {"cluster": "ward", "levels": {"g": ["a", "b"], "ward": [f"w{k}" for k in range(20)]}},
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[pytest.mark.thorough] * (k in {"logistic", "persons", "quantile"})) for k in MORE]
)
def test_the_result_is_bit_for_bit_that_in_one_process_with_the_same_keys(name: str, tmp_path: Path) -> None:
    assert bits(Field(tmp_path, **MORE[name]).play()) == bits(in_one_process(**MORE[name]))


@pytest.mark.thorough
def test_silos_may_be_clusters_of_which_each_is_in_one_sum_of_the_last_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.field.test_silos.SIZES", {f"s{k:02}": 150 + k for k in range(17)})
    more = {"silos": list(SIZES), "cluster": "silo"}
    field = Field(tmp_path, **more)
    res = field.play(lambda body, silos: field.ask(body, [name for name in silos if name != "s03"]))
    assert bits(res) == bits(in_one_process({k: v for k, v in people().items() if k != "s03"}, **more))
    assert "16 in 8 random groups" in str(res.summary(details=True))
    last = History.from_bytes((tmp_path / "kept.json").read_bytes()).closed[-1]
    for k in range(16):
        assert sum(np.frombuffer(last[k], "<i8").reshape(8, -1).any(axis=1)) == 1


@pytest.mark.thorough
def test_fits_of_silos_alone_are_pooled_by_a_meta_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits, sizes = {}, dict(SIZES)
    for name, n in sizes.items():
        monkeypatch.setattr("tests.field.test_silos.SIZES", {name: 2 * n})
        (tmp_path / name).mkdir()
        fits[name] = Field(tmp_path / name, silos=[name]).play()
    table = pr.meta_analysis(fits, terms="x").frame()
    assert abs(float(table["estimate"].iloc[-1]) - 1.0) < 4.5 * float(table["std_error"].iloc[-1])


@pytest.mark.thorough
def test_a_query_is_read_as_a_file_is(over: tuple[Field, pr.PrivateResults], tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    field = Field(tmp_path, accepts=False)
    for name, rows in people().items():
        with sqlite(tmp_path / "hospital.db") as db:
            rows.to_sql(name, db, index=False)
        field.accept(name, [f"sqlite:///{tmp_path / 'hospital.db'}", f"SELECT * FROM {name} ORDER BY rowid"])
    assert bits(field.play()) == bits(over[1])


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
    whole = sum(Fraction(*mu) ** 2 for mu in taken(field.plan, history)[2][:-1])
    assert Fraction(999, 1000) * Fraction(9, 4) < whole <= Fraction(9, 4)
    assert len(history.closed) == len(field.asked) - 1


# --- machines that stop -----------------------------------------------------------------------------------------


class Stop(BaseException):
    """The machine stops."""


@pytest.mark.thorough
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
            ask = lambda body, silos: [rounds.answer(field.memories[name].path, body) for name in silos]  # noqa: E731
        with pytest.raises(Stop):
            field.play(ask)
    assert bits(field.play()) == bits(over[1])
    assert [one[0] for one in field.state()] == [one[0] for one in over[0].state()]


def test_a_server_that_lost_its_file_gets_the_same_sums_again(field: Field) -> None:
    first, before = field.play(), field.state()
    (field.folder / "kept.json").unlink()
    assert bits(field.play()) == bits(first)
    assert field.state() == before


@pytest.mark.thorough
@pytest.mark.parametrize("more", [{}, MORE["clusters"]], ids=["usual", "clusters"])
def test_a_silo_that_drops_out_is_left_out_and_may_come_back(more: dict[str, object], tmp_path: Path) -> None:
    field = Field(tmp_path, **more)

    def without(body: bytes, silos: Sequence[str]) -> list[bytes]:
        number = len(History.from_bytes(body).closed)
        return field.ask(body, [s for s in silos if s != "west" or number not in {2, 5, 6}])

    res = field.play(without)
    assert np.isfinite(res.bse).all()
    with field.memories["west"].written() as db:
        answered = [n for (n,) in db.execute("SELECT round FROM sum ORDER BY round")]
    rounds_over = len(History.from_bytes((tmp_path / "kept.json").read_bytes()).closed)
    assert answered == [n for n in range(rounds_over) if n not in {2, 5, 6}]
    assert "round 2, moments: 2 of 3 silos" in field.log
    text = " ".join(str(res.summary(details=True)).split())
    assert f"3 silos: {rounds_over} rounds" in text
    assert (res.params != in_one_process(**more).params).any()


@pytest.mark.thorough
def test_a_silo_that_is_missing_in_rounds_of_scores_is_named_in_the_results(tmp_path: Path) -> None:
    """Its people count less there, and at a large budget the estimates are those of the others' rows."""
    field, rows = Field(tmp_path, accepts=False, mu=500, bounds=SAID["bounds"]), people()
    for one in field.memories.values():
        one.accept = lambda *given, one=one: Memory.accept(one, *given, memory.Mu(500, 1))
    for name in SIZES:
        field.accept(name)

    def late(body: bytes, silos: Sequence[str]) -> list[bytes]:
        history = History.from_bytes(body)
        scores = bool(history.entries) and taken(field.plan, history)[0].role == "main"
        return field.ask(body, [s for s in silos if not (s == "west" and scores)])

    res = field.play(late)
    (note,) = [n for n in res.summary().notes if n.code == "dropped"]
    asked = sum("main" in line for line in field.log)
    assert f"dropped out of {asked} rounds of scores (west {asked})" in note
    others = pd.concat([rows["north"], rows["south"]])
    plain = smf.rlm("y ~ x + g", others).fit()
    np.testing.assert_array_less(np.abs(res.params - plain.params[res.params.index]), 0.1 * res.bse)


def test_silos_that_refuse_to_enter_are_left_out_of_the_study_and_named(tmp_path: Path) -> None:
    """Budget spent, too few rows, a column that isn't there, a plan not accepted: to others they are one."""
    field, rows = Field(tmp_path, accepts=False), people()
    field.accept("north")
    field.accept("south")
    spent, root = signed(tmp_path, title="Another")
    mine = field.memories["west"]
    mine.accept(spent, root, Entry("west", 500), '["west.csv"]', "null")
    with pytest.raises(BudgetError, match=r"would cost mu = 1\.5.* may cost 2, and 1\.5 is spent"):
        field.accept("west")
    said = [answer(mine.path, History(field.plan.digest).to_bytes())]
    rows["west"][:50].to_csv(tmp_path / "west.csv", index=False)
    with pytest.raises(DataError, match="100 rows or more"):
        field.accept("west")
    rows["west"].drop(columns="x").to_csv(tmp_path / "west.csv", index=False)
    with pytest.raises(DataError, match=r"silo 'west': .*'x'"):
        field.accept("west")
    mine = Memory(tmp_path / "anew.sqlite")
    said.append(answer(mine.path, History(field.plan.digest).to_bytes()))
    assert set(said) == {dumps({"silo": "", "refused": "its owner has accepted no such plan."})}
    res = field.play()
    two = {name: rows[name] for name in ("north", "south")}
    assert bits(res) == bits(in_one_process(two))
    assert "west, of the plan's silos" in str(res.summary(details=True))


def test_a_silo_that_refuses_in_a_round_is_left_out_of_it_and_the_study_goes_on(
    field: Field, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, away = plan.source, []

    def source(said: str) -> object:
        return original(said.replace("north", "gone") if away else said)

    def ask(body: bytes, silos: Sequence[str]) -> list[bytes]:
        away[:] = [1] * (len(History.from_bytes(body).closed) == 3)
        return field.ask(body, silos)

    monkeypatch.setattr(plan, "source", source)
    assert np.isfinite(field.play(ask).bse).all()
    assert [line for line in field.log if "left out" in line] == [
        "silo 'north' is left out of round 3: it refuses: its rows can't be used now."
    ]
    assert "there is no file" in caplog.text  # on this machine alone


def test_too_few_silos_refuse_on_public_grounds_and_nothing_is_kept(tmp_path: Path) -> None:
    field = Field(tmp_path, mu=0.4)
    with pytest.raises(DataError, match="500 rows are too few"):
        field.play(lambda body, silos: field.ask(body, ["west"]))
    with pytest.raises(StudyError, match="round 0: no silo answers"):
        field.play(lambda body, silos: [])
    assert not (tmp_path / "kept.json").exists()
    assert all(sums == [] for sums, _ in field.state())


BROKEN: dict[str, Callable[[dict[str, object]], object]] = {
    "no JSON": lambda said: b"{",
    "nothing": lambda said: b"",
    "another round": lambda said: dumps({**said, "round": said["round"] + 1}),
    "half a sum": lambda said: dumps({**said, "total": str(said["total"])[:-4]}),
    "no sum": lambda said: dumps({"silo": said["silo"], "round": said["round"]}),
    "a number for a sum": lambda said: dumps({**said, "total": 3}),
    "two nodes of one name": lambda said: [dumps(said), dumps({**said, "total": base(bytes(8))})],
}


@pytest.mark.thorough
def test_answers_that_cant_be_read_leave_one_silo_out(field: Field) -> None:
    """Another kind of them in each round, and the silo is back in the rounds after them."""

    def ask(body: bytes, silos: Sequence[str]) -> list[bytes]:
        out, history = field.ask(body, silos), History.from_bytes(body)
        if history.entries and len(history.closed) < len(BROKEN):
            west = list(BROKEN.values())[len(history.closed)](loads(out.pop(), "it", 1 << 26))
            out += west if isinstance(west, list) else [west]
        return out

    field.play(ask)
    history = History.from_bytes((field.folder / "kept.json").read_bytes())
    assert [bool(one[2]) for one in history.closed] == [k >= len(BROKEN) for k in range(len(history.closed))]
    assert len(history.closed) > len(BROKEN)
    lines = [line for line in field.log if "left out" in line]
    assert len(lines) == len(BROKEN)
    for k, line in enumerate(lines):
        assert line.startswith(f"silo 'west' is left out of round {k}: ")


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
        other = (*one[:-1], bytes(len(one[-1])))  # another sum of the last silo
        refused(field, whole._replace(closed=(*whole.closed[: k - 1], other)), "in another state")
    again = answer(field.memories["north"].path, whole._replace(closed=whole.closed[:3]).to_bytes())
    assert again == answer(field.memories["north"].path, whole._replace(closed=whole.closed[:3]).to_bytes())


def test_other_plans_sizes_and_histories_are_refused(over: tuple[Field, pr.PrivateResults], tmp_path: Path) -> None:
    field, whole = histories(over)
    refused(field, whole, "all rounds of this plan are over")
    refused(field, whole._replace(plan=b"x" * 32), "accepted no such plan")
    north, *others = whole.entries
    more = whole._replace(entries=(north._replace(rows=901), *others))
    refused(field, more, "has other entries")
    refused(field, whole._replace(entries=()), "a list of 0")
    refused(field, History(whole.plan, tuple(others)), "has other entries")
    refused(field, History(whole.plan, (*others, north)), "has other entries")
    refused(field, History(whole.plan, (north, north, *others)), "has other entries")
    refused(field, b"{}", "has no 'entries'")
    refused(field, b"nonsense", "")
    own = whole.closed[0]
    fake = (bytes(len(own[0])), *own[1:])  # north's own sum
    refused(field, whole._replace(closed=(fake, *whole.closed[1:], own)), "in another state")


def first(field: Field, entries: tuple[Entry, ...] = ()) -> History:
    return History(field.plan.digest, entries or tuple(Entry(name, n) for name, n in SIZES.items()))


def told(field: Field, history: History, silo: str = "north") -> dict[str, object]:
    return loads(answer(field.memories[silo].path, history.to_bytes()), "it", 1 << 26)


def test_histories_of_other_silos_are_refused_before_anything_was_answered(field: Field) -> None:
    north, south, west = first(field).entries
    refused(field, first(field, (south, north, west)), "has other entries")
    refused(field, first(field, (north, north, west)), "has other entries")
    refused(field, first(field, (north, Entry("east", 500))), "has other entries")
    refused(field, first(field, (north, south._replace(clusters=(699,)))), "other people by cluster")
    assert "total" in told(field, first(field, (north, west)))  # fewer silos: its own noise is that of its sum
    refused(field, first(field), "in another state")  # and no other set of them after that


def test_a_smaller_set_of_silos_and_an_old_round_are_refused(field: Field) -> None:
    """Before anything was answered, nobody's sum can be made up; after a round none before it is answered."""
    begin = first(field)
    assert all("total" in told(field, begin, s) for s in SIZES)
    size = 8 * taken(field.plan, begin)[1]
    for invented in ((bytes(size),) * 3, (bytes(24),) * 3):
        refused(field, begin._replace(closed=(invented,)), "has not the sums that this silo has sent")
    skipped = (b"", bytes(size), bytes(size))
    assert "total" in told(field, begin._replace(closed=(skipped,)))
    refused(field, begin._replace(entries=(*begin.entries[:2], Entry("west", 501))), "in another state")
    refused(field, begin._replace(closed=(skipped, invented)), "has not the sums that this silo has sent")
    refused(field, begin._replace(closed=((b"", b"", b""), skipped)), "in another state")
    old = told(field, begin)  # an old round: these bytes, and no others
    assert old == told(field, begin)
    assert old["round"] == 0


def test_two_servers_of_one_plan_get_one_sum_a_round(field: Field) -> None:
    """The second has a silo left out, and then asks for what the silos have not seen."""
    ended = field.play()
    whole, before = History.from_bytes((field.folder / "kept.json").read_bytes()), field.state()
    (field.folder / "kept.json").unlink()
    heard = []

    def other(body: bytes, silos: Sequence[str]) -> list[bytes]:
        out = field.ask(body, [s for s in silos if s != "west" or len(heard) != 2])
        heard.append(out)
        return out

    with pytest.raises(StudyError, match="round 2: no silo answers"):
        field.play(other)
    assert field.state() == before
    assert np.isfinite(ended.bse).all()
    assert whole.closed[:1] == History.from_bytes((field.folder / "kept.json").read_bytes()).closed[:1]


def test_rounds_that_would_cost_more_than_the_plan_are_refused(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds.lattice, "composed", lambda budgets, mu: len(budgets) < 3)
    whole = []

    def ask(body: bytes, silos: Sequence[str]) -> list[bytes]:
        whole.append(body)
        return field.ask(body, silos)

    with pytest.raises(StudyError, match="round 2: no silo answers"):
        field.play(ask)
    refused(field, whole[-1], "cost more than the plan's budget")


def test_a_round_without_a_budget_of_its_own_is_refused(tmp_path: Path) -> None:
    """Its noise would be that of the whole budget, which nobody has counted: a server that makes up others' rows."""
    field = Field(tmp_path, measures=1e-13, mu=0.5)

    def lying(body: bytes, silos: Sequence[str]) -> list[bytes]:
        out = field.ask(body, silos)
        if History.from_bytes(body).entries:
            return out[:1]
        each = [loads(one, "it", 1 << 26) for one in out[1:]]
        return [out[0], *(dumps({**said, "entry": {**said["entry"], "rows": 2**40}}) for said in each)]

    with pytest.raises(StudyError, match="no silo answers"):
        field.play(lying)
    asked = History.from_bytes((tmp_path / "kept.json").read_bytes())
    assert taken(field.plan, asked)[0].role == "measures"
    assert taken(field.plan, asked)[2][-1] == (0, 1)
    refused(field, asked, "cost more than the plan's budget")


def forged(rng: np.random.Generator, width: int) -> bytes:
    """A made-up sum, of numbers up to 2^62."""
    scale, spread = 2.0 ** rng.choice([0, 10, 20, 25, 30, 40, 62]), rng.normal(0, 1, width)
    made = [spread, np.abs(spread), np.full(width, rng.choice([-1.0, 1.0]))][rng.choice(3)]
    return np.clip(made * scale, -(2.0**62), 2.0**62).astype("<i8").tobytes()


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "more", [{}, {"formula": "b ~ x + g", "family": "logistic"}, MORE["quantile"], MORE["measures"]], ids=str
)
def test_whatever_sums_a_server_makes_up_neighbours_stay_within_the_budget(
    seed: int, more: dict[str, object], tmp_path: Path
) -> None:
    """In fractions: squared distances of reports of far rows over variances of noise add up to mu² at most."""
    plan = verified(*signed(tmp_path, **more))
    rng, entries = np.random.default_rng(seed), tuple(Entry(name, n) for name, n in SIZES.items())
    history, apart = History(plan.digest, entries), dict[tuple[int, int], Fraction]()
    rows = itertools.product((-1.0, 1.0, np.nan), (-5.0, 0.3, 1e300), ("a", "b"), (0, 1))
    far = pd.DataFrame(rows, columns=["x", "y", "g", "b"])
    for _ in range(30):
        fit = Fit(plan, entries)
        try:
            fit.take_in(history)
        except MessageError:  # sums that leave no state; a silo refuses them
            break
        state, one = fit.run.progress.state, fit.stream._encoder.encode(
            {**far, "silo": pd.Categorical(["north"] * len(far), list(SIZES))}, clamped=True
        )  # fmt: skip
        if state.role == "over":
            break
        blocks = (Block(one.y[i : i + 1], one.x[i : i + 1], clamped=one.clamped[i : i + 1])
                  for i in range(len(far)))  # fmt: skip
        sums = [by_group(fit.run.plan, state, block, None)[0][0].astype(object) for block in blocks]
        noise = 4 ** steps(fit.run.plan, state).bits
        for a, b in itertools.combinations(range(len(far)), 2):
            distance = Fraction(sum(int(v) ** 2 for v in sums[a] - sums[b]), noise)
            apart[a, b] = apart.get((a, b), Fraction(0)) + distance
        made = tuple(forged(rng, fit.run.plan.width(state.role)) for _ in entries)
        history = history._replace(closed=(*history.closed, made))
    assert len(history.closed) > 2
    assert 0 < max(apart.values()) <= Fraction(*plan.mu) ** 2


def test_processes_that_share_a_file_answer_once(field: Field) -> None:
    """Node processes, two histories of one round: one is answered, the other refused, whoever comes first."""
    begin = first(field)
    fewer = first(field, begin.entries[::2])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["privreg_field.silos.rounds"])  # imported once for all four
    path = field.memories["north"].path
    with context.Pool(4) as pool:
        done = pool.starmap(answer, [(path, one.to_bytes()) for one in (begin, fewer, begin, fewer)], chunksize=1)
    said = [loads(one, "it", 1 << 26) for one in done]
    answered = [k for k in range(4) if "total" in said[k]]
    assert answered in ([0, 2], [1, 3])
    assert said[answered[0]] == said[answered[-1]]
    assert all("in another state" in said[k]["refused"] for k in range(4) if k not in answered)


def test_a_query_whose_rows_change_has_other_noise_also_from_a_file_that_comes_back(tmp_path: Path) -> None:
    """A query has no stamp: of two sums of one state the difference must not be that of the rows."""
    pytest.importorskip("sqlalchemy")
    field, rows, found = Field(tmp_path), people()["north"], []
    path = tmp_path / "hospital.db"
    with sqlite(path) as db:
        rows.to_sql("north", db, index=False)
    mine = field.memories["north"] = Memory(tmp_path / "other.sqlite")
    field.accept("north", [f"sqlite:///{path}", "SELECT * FROM north ORDER BY rowid"])
    copy = mine.path.read_bytes()
    for value in (rows["y"][0], -rows["y"][0]):
        mine.path.write_bytes(copy)
        with sqlite(path) as db:
            db.execute("UPDATE north SET y = ? WHERE rowid = 1", (float(value),))
        history = first(field)
        # the round of means, after that of clamped values
        history = history._replace(closed=((b"", bytes(24), bytes(24)),))
        exact = taken(field.plan, history, held(field))[3]
        found.append((exact, np.frombuffer(unbase(told(field, history)["total"], "it"), dtype="<i8") - exact))
    (one, noise), (two, other_noise) = found
    assert (one != two).any()
    assert np.abs(noise - other_noise).min() > 1e-6 * np.std(noise)


def test_a_file_that_changed_is_refused_without_a_word_of_its_rows(field: Field) -> None:
    rows = people()["north"]
    for changed in (rows.iloc[:-1], rows.assign(y=-rows["y"]), rows.rename(columns={"x": "z"}), rows[:5]):
        changed.to_csv(field.folder / "north.csv", index=False)
        refused(field, first(field), UNUSABLE)
    (field.folder / "north.csv").unlink()
    refused(field, first(field), UNUSABLE)


def test_an_error_is_refused_and_not_by_its_words(
    field: Field, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a value of a row: 42")

    monkeypatch.setattr(rounds, "_fresh", fails)
    assert told(field, first(field))["refused"] == UNUSABLE
    assert "RuntimeError" in caplog.text
    assert "42" not in caplog.text
    elsewhere = loads(answer(field.folder / "no" / "\0", History(field.plan.digest).to_bytes()), "it")
    assert str(field.folder) not in str(elsewhere)


def test_a_file_that_comes_back_from_a_copy_has_no_noise_twice(field: Field) -> None:
    """Of two states of a round the difference of sums must not be that of sums without noise."""
    history, closed = first(field), list[tuple[bytes, ...]]()
    for _ in range(2):
        closed.append(tuple(unbase(told(field, history, s)["total"], "it") for s in SIZES))
        history = history._replace(closed=tuple(closed))
    path = field.memories["north"].path
    copy, found = path.read_bytes(), []
    for last in (closed[1][2], bytes(len(closed[1][2]))):  # a server's other sum of the last silo
        path.write_bytes(copy)
        history = history._replace(closed=(closed[0], (*closed[1][:2], last)))
        exact = taken(field.plan, history, held(field))[3]
        sent = told(field, history)["total"]
        assert told(field, history)["total"] == sent  # these bytes again
        found.append((exact, np.frombuffer(unbase(sent, "it"), dtype="<i8") - exact))
    (one, noise), (two, other_noise) = found
    assert (one != two).any()
    assert np.abs(noise - other_noise).min() > 1e-6 * np.std(noise)  # equal noise is exactly so


@pytest.mark.parametrize("rows", [9_000, 2**40, 101])
def test_a_silo_that_lies_about_its_rows_spends_nobodys_budget(rows: int, tmp_path: Path) -> None:
    """It changes weights and the plan of rounds, for which each other silo checks what they cost in all."""
    field = Field(tmp_path)

    def lying(body: bytes, silos: Sequence[str]) -> list[bytes]:
        *out, last = field.ask(body, silos)
        if History.from_bytes(body).entries:
            return out
        said = loads(last, "it", 1 << 26)
        return [*out, dumps({**said, "entry": {**said["entry"], "rows": rows}})]

    with suppress(PrivregError):  # made-up numbers may leave no fit; that is the server's loss
        field.play(lying)
    history = History.from_bytes((tmp_path / "kept.json").read_bytes())
    assert history.entries[2].rows == rows
    for name in ("north", "south"):
        with field.memories[name].written() as db:
            many = db.execute("SELECT count(*) FROM sum").fetchone()[0]
        budgets = taken(field.plan, history)[2]
        assert many
        assert sum(Fraction(*mu) ** 2 for mu in budgets[:many]) <= Fraction(9, 4)
    with field.memories["west"].written() as db:  # an honest program doesn't go on after another's lie of its rows
        assert not db.execute("SELECT count(*) FROM sum").fetchone()[0]


# --- plans and budgets ------------------------------------------------------------------------------------------


def test_a_budget_is_spent_once_and_before_anything_is_computed(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="accepted already"):
        field.accept("north")
    envelope, root = signed(field.folder, title="Another")
    monkeypatch.setattr(rounds, "_fresh", None)
    entry = Entry("north", 900)
    with pytest.raises(BudgetError, match=r"would cost mu = 1\.5.* may cost 2, and 1\.5 is spent"):
        field.memories["north"].accept(envelope, root, entry, "north.csv", "null")
    field.memories["north"].accept(envelope, root, entry, "north.csv", "null", memory.Mu(5, 2))
    assert len(field.memories["north"].log()) == 2


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "unknown": ({"formulas": "y ~ x"}, "no 'formulas'"),
    "no silos": ({"silos": []}, "different names"),
    "one text": ({"silos": "north"}, "a list of different names"),
    "an empty name": ({"silos": ["north", " "]}, "silos' names"),
    "numbers": ({"silos": [1, 2]}, "silos' names"),
    "no mu": ({"mu": None}, "needs 'mu'"),
    "hidden": ({"title": "a\u202eb"}, "visible characters"),
    "few silos as clusters": ({"cluster": "silo"}, "16 are the fewest"),
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
    payload["plan"] = payload["plan"].replace("Costs", "Other costs")
    forged = json.dumps({**said, "payload": base(dumps(payload))}).encode()
    with pytest.raises(MessageError, match="not signed by this key"):
        verified(forged, field.root)


def test_few_rows_and_silos_that_have_no_part_are_refused(field: Field) -> None:
    with pytest.raises(StudyError, match="'east' has no part"):
        Fit(field.plan, (), "east", json.dumps([str(field.folder / "north.csv")]))
    people()["north"][:50].to_csv(field.folder / "few.csv", index=False)
    with pytest.raises(DataError, match="100 rows or more"):
        Fit(field.plan, (), "north", json.dumps([str(field.folder / "few.csv")]))


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
    assert sqlite(at[4]).execute("SELECT count(*) FROM sum").fetchone() == (0,)
    assert (tmp_path / "n.sqlite").stat().st_mode & 0o777 == 0o600
