"""Personal budgets and several rows of one person."""

import copy
import itertools
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privreg as pr
from privreg.data.participants import Counter, Participants
from privreg.data.sources.open import open_table
from privreg.data.sources.source import by_person
from privreg.errors import BudgetError, DataError, OptionError, SchemaError
from privreg.schema.declarations import Schema
from tests.leaks import reach
from tests.wrong import ANSWER, BOX, INSIDE, LEVELS, OUTSIDE, WORD, assert_says_nothing, cases, check_refusal, rows

SCHEMA = Schema.declare(BOX, LEVELS)
PEOPLE = Participants.declare("mu", 2.0, "who", 2)


# --- declarations ----------------------------------------------------------------------------------------


def test_declarations():
    assert Participants.declare() == Participants(None, None, None, 1, "noise")
    assert Participants.declare("mu", np.float64(2), "who", np.int64(2)) == PEOPLE
    assert PEOPLE.columns == ("mu", "who")
    assert Participants.declare(id="who").columns == Participants.declare(id="who").text == ("who",)
    assert Participants.declare().columns == PEOPLE.from_json(Participants.declare().to_json()).columns == ()
    assert Participants.declare("mu", 1).text == ()
    assert Participants.from_json(json.loads(json.dumps(PEOPLE.to_json()))) == PEOPLE
    assert pickle.loads(pickle.dumps(PEOPLE)) == PEOPLE
    assert Participants.declare(missing="drop").missing == "drop"
    PEOPLE.check_columns(("y", "x"))


# --- budgets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw", [[2, 1, 0.5], np.array([2, 1, 0.5], dtype=np.float32), pd.array([2, 1, 0.5], dtype="Float64")]
)
def test_weights_are_squared_shares_of_the_largest_budget(raw):
    np.testing.assert_array_equal(PEOPLE.weights({"mu": raw}), [1, 0.25, 0.0625])
    kept = np.array([True, False, True])
    np.testing.assert_array_equal(PEOPLE.weights({"mu": raw}, kept), [1, 0.0625])
    assert Participants.declare().weights({"mu": raw}) is None
    assert Participants.declare(id="who").weights({"mu": raw}) is None


def test_budgets_of_dropped_rows_are_checked_too():
    with pytest.raises(DataError, match="not positive"):
        PEOPLE.weights({"mu": [1.0, -1.0]}, np.array([True, False]))


# --- several rows of one person --------------------------------------------------------------------------


def wanted(ids, most):
    texts = pd.Series([str(i) for i in ids])
    return (texts.groupby(texts).cumcount() >= most).to_numpy()


def test_rows_beyond_the_first_of_their_person():
    counter = PEOPLE.counter()
    assert counter.excess(["a", "b", "a", "a"]).tolist() == [False, False, False, True]
    assert counter.excess(["c", "b", "b", "a"]).tolist() == [False, False, True, True]
    assert counter.excess([]).tolist() == []
    assert counter.excess(pd.Series([], dtype="str")).tolist() == []
    assert PEOPLE.counter().excess(["a"]).tolist() == [False]
    assert Participants.declare().counter() is None
    assert Participants.declare().ids({"a": [1]}) is None
    assert PEOPLE.ids({"who": [1, 2]}) == [1, 2]


FORMS = {
    "integers": lambda ids: np.array(ids),
    "narrow": lambda ids: np.array(ids, dtype=np.int16),
    "unsigned": lambda ids: np.array(ids, dtype=np.uint64),
    "floats": lambda ids: np.array(ids, dtype=float),
    "nullable": lambda ids: pd.array(ids, dtype="Int64"),
    "texts": lambda ids: np.array([str(i) for i in ids]),
    "objects": lambda ids: np.array([str(i) for i in ids], dtype=object),
    "strings": lambda ids: pd.Series([str(i) for i in ids], index=range(5, 5 + len(ids))).astype("string"),
    "categories": lambda ids: pd.Categorical([str(i) for i in ids]),
    "categories of numbers": lambda ids: pd.Categorical(ids),
    "mixed": lambda ids: np.array([i if i % 2 else float(i) for i in ids], dtype=object),
    "mixed with text": lambda ids: np.array([i if i % 2 else str(i) for i in ids], dtype=object),
    "list": list,
}


@pytest.mark.some(1)
@pytest.mark.parametrize("form", FORMS)
def test_the_type_of_the_column_makes_no_difference(form):
    ids = np.random.default_rng(1).integers(0, 40, 100).tolist()
    counter = Counter("who", 2)
    got = [counter.excess(part) for part in (FORMS[form](ids[:50]), ids[50:])]
    np.testing.assert_array_equal(np.concatenate(got), wanted(ids, 2))


def test_one_rule_tells_texts_apart():
    counter = Counter("who", 1)
    assert not counter.excess(["007", "7", "07", "7.5", "+7", "é", "é\0", "a" * 10_000, "A", "7e0", "7,0"]).any()
    same = [" 7", "7.0", "7.00\t", "007.0", "\u00e9 ", "e\u0301", "\u00a0" + "a" * 10_000, b"7".decode(), 7, 7.0]
    assert counter.excess(same).all()  # but for blanks at the ends, Unicode's form, zeros after the point
    assert counter.excess([7, 7.0, "007"]).all()
    assert not counter.excess([2**53 + 1, 2**53 + 2, -7, 2**64 - 1, 10**30]).any()


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.integers(0, 12), max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=6),
    most=st.integers(1, 4),
)
def test_how_rows_are_cut_into_batches_makes_no_difference(ids, cuts, most):
    counter = Counter("who", most)
    ends = [0, *sorted(min(c, len(ids)) for c in cuts), len(ids)]
    parts = [counter.excess(np.array(ids[a:b], dtype=int)) for a, b in itertools.pairwise(ends)]
    np.testing.assert_array_equal(np.concatenate(parts), wanted(ids, most))


@pytest.mark.thorough
def test_many_people_one_by_one_and_in_bulk():
    ids = np.random.default_rng(2).integers(0, 60_000, 100_000)
    counter = Counter("who", 2)
    got = [counter.excess(ids[i : i + 1]) for i in range(300)]
    got += [counter.excess(ids[a : a + 16_384]) for a in range(300, len(ids), 16_384)]
    np.testing.assert_array_equal(np.concatenate(got), wanted(ids, 2))
    assert len(counter._runs) < 18


def test_hashing_and_counting_apart():
    counter = Counter("who", 1)
    a, b = counter.hashed(["x", "y"]), counter.hashed(["y", "z"])
    assert a[1] == b[0]
    assert counter.count(a).tolist() == [False, False]
    assert counter.count(b).tolist() == [True, False]
    assert (a != Counter("who", 1).hashed(["x", "y"])).all()  # the key is the counter's own
    assert (Counter("who", 1).hashed([1, 2]) != Counter("who", 1).hashed([1, 2])).all()


NO_IDS = (None, np.nan, pd.NA, pd.NaT, "", 1.5, np.inf, "\ud800", ["a"], 1j, pd.Timestamp("2020-01-01"), b"a")


LARGE = [2**60 + 1, 2**60 + 3]
NULLABLE = {
    "nullable": lambda ids: pd.array(ids, dtype="Int64"),
    "Arrow's": lambda ids: pd.Series(pa.array(ids), dtype=pd.ArrowDtype(pa.int64())),
    "categories": lambda ids: pd.Categorical.from_codes([0, 1, -1][: len(ids)], categories=LARGE),
    "texts": lambda ids: [None if one is None else str(one) for one in ids],
}


@pytest.mark.parametrize("form", NULLABLE)
def test_a_large_id_is_the_same_persons_beside_one_that_is_missing(form):
    counter = Counter("who", 2)
    assert counter.excess(np.array(LARGE)).tolist() == [False, False]
    assert counter.excess(NULLABLE[form]([*LARGE, None]), gaps=True).tolist() == [False, False, True]
    assert counter.excess(np.array(LARGE)).tolist() == [True, True]


@pytest.mark.parametrize("rounded", [np.array(LARGE, dtype=float), np.array([2.0**24], dtype="f4"), [2.0**53]])
def test_an_id_that_was_rounded_is_nobodys(rounded):
    counter = Counter("who", 1)
    assert counter.excess(rounded, gaps=True).all()
    with pytest.raises(DataError, match="doubles of"):
        counter.hashed(rounded)


@pytest.mark.parametrize("wrong", NO_IDS)
@pytest.mark.parametrize("form", [np.array, list, pd.Series])
def test_rows_without_an_id_are_nobodys(wrong, form):
    """They are beyond the rows of everybody, and take none of anybody's."""
    counter = Counter("who", 2)
    cells = np.array(["a", "7", None, "a", None, "", "b", 7, "a"], dtype=object)
    for i in (2, 4, 5):
        cells[i] = wrong
    given = cells if form is np.array else form(cells.tolist())
    want = [False, False, True, False, True, True, False, False, True]
    assert counter.excess(given, gaps=True).tolist() == want
    assert counter.excess([wrong, "b"], gaps=True).tolist() == [True, False]
    assert counter.excess(["7", "b"]).tolist() == [True, True]


def test_a_refused_batch_is_not_counted():
    counter = Counter("who", 1)
    with pytest.raises(DataError):
        counter.excess(["a", None])
    assert counter.excess(["a"]).tolist() == [False]


def test_a_counter_tells_nothing():
    counter = Counter("who", 1)
    counter.excess([WORD, WORD, "other"])
    assert repr(counter) == str(counter) == "Counter('who', most=1)"
    # the key itself may hold anything
    held = {k: v for k, v in vars(counter).items() if k != "_key"}
    assert {v for v in reach(held) if isinstance(v, str | bytes)} <= {"who", *held}
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="begin another stream") as caught:
            take(counter)
        assert_says_nothing(caught.value)


# --- sources ---------------------------------------------------------------------------------------------


def table():
    ids = ["007", "7", "a b", "007"] * 15
    return rows(mu=np.linspace(0.5, 2, 60), who=pd.Series(ids, index=rows().index, dtype=object)), ids


@pytest.mark.some(3)
@pytest.mark.parametrize("kind", ["frame", "mapping", "lists", "frames", "mappings", "csv", "quoted csv"])
def test_every_kind_of_table_hands_the_columns_through(kind, tmp_path):
    data, ids = table()
    path = tmp_path / "people.csv"
    data.to_csv(path, index=False, quoting=1 if kind == "quoted csv" else 0)
    given = {
        "frame": data,
        "mapping": {c: data[c].to_numpy() for c in data},
        "lists": {c: data[c].tolist() for c in data},
        "frames": [data.iloc[:20], data.iloc[20:]],
        "mappings": [{c: data[c] for c in data}],
    }.get(kind, path)
    source = open_table(given, ("y", "a", *PEOPLE.columns), SCHEMA, text=PEOPLE.text)
    batches = list(source.batches(0))
    weights = np.concatenate([PEOPLE.weights(b) for b in batches])
    np.testing.assert_allclose(weights, (np.linspace(0.5, 2, 60) / 2) ** 2, rtol=1e-12)
    counter = PEOPLE.counter()
    got = np.concatenate([counter.excess(PEOPLE.ids(b)) for b in batches])
    np.testing.assert_array_equal(got, wanted(ids, 2))
    assert [str(v) for b in batches for v in PEOPLE.ids(b)] == ids


READ = {"mu": PEOPLE.weights, "who": lambda batch: PEOPLE.counter().excess(PEOPLE.ids(batch))}


@pytest.mark.parametrize("column", READ)
def test_blank_fields_of_a_file_are_missing(column, tmp_path):
    data, _ = table()
    data.loc[data.index[9], column] = None
    path = tmp_path / "people.csv"
    data.to_csv(path, index=False)
    (batch,) = open_table(path, ("y", *PEOPLE.columns), SCHEMA, text=PEOPLE.text).batches(0)
    with pytest.raises(DataError, match=f"'{column}'.* has an? (id|value) that is missing") as caught:
        READ[column](batch)
    assert_says_nothing(caught.value)
    if column == "who":
        assert PEOPLE.counter().excess(PEOPLE.ids(batch), gaps=True)[9]


def test_na_is_somebodys_id_in_a_file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("y,who\n1,NA\n2,1e3\n3,1000\n4,NA\n5,null\n")
    (batch,) = open_table(path, ("y", "who"), SCHEMA, text=("who",)).batches(0)
    assert Counter("who", 1).excess(batch["who"]).tolist() == [False, False, False, True, False]


# --- wrong calls -----------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("form", [np.int64, np.uint64, np.float64, str, object])
def test_rows_are_gathered_by_person_whatever_their_order_and_the_type_of_ids(ordered, form, monkeypatch):
    monkeypatch.setattr("privreg.data.sources.source.chunk_of", lambda columns: 7)
    rng = np.random.default_rng(1)
    who = np.repeat(rng.integers(0, 2**40, 30), rng.integers(1, 20, 30))
    who = np.sort(who) if ordered else rng.permutation(who)
    data = pd.DataFrame({"who": who.astype(form), "at": np.arange(len(who), dtype=float)})
    data["who"] = ["x" if w % 5 == 0 else w for w in who] if form is object else data["who"]
    source = by_person(open_table(data, ("who", "at"), SCHEMA), "who", gaps=False)
    groups = [np.asarray(rows) for rows in data.groupby("who", sort=False)["at"].groups.values()]
    assert source.rows == len(groups)
    for skip in (0, 11):
        batches = list(source.batches(skip))
        at = np.concatenate([b["at"] for b in batches])
        np.testing.assert_array_equal(at, np.concatenate(groups)[skip:])
        numbers = np.concatenate([b["who"] for b in batches])
        np.testing.assert_array_equal(numbers, np.repeat(np.arange(len(groups)), list(map(len, groups)))[skip:])
    dealt = np.concatenate([b["at"] for b in source.dealt(bytes(32))(0)]).astype(int)
    runs = np.split(dealt, 1 + np.flatnonzero(np.diff(pd.factorize(data["who"])[0][dealt])))
    assert sorted(map(tuple, runs)) == sorted(map(tuple, groups))


def test_nobodys_rows_are_left_out_or_refused():
    data = pd.DataFrame({"who": [3, None, 1, 3, 0.5], "at": np.arange(5.0)})
    source = open_table(data, ("who", "at"), SCHEMA)
    (batch,) = by_person(source, "who", gaps=True).batches(0)
    assert batch["at"].tolist() == [0.0, 3.0, 2.0]
    with pytest.raises(DataError, match="an id that is missing"):
        by_person(source, "who", gaps=False)
    empty = by_person(open_table(data.iloc[:0], ("who", "at"), SCHEMA), "who", gaps=True)
    assert empty.rows == 0
    assert not list(empty.batches(0))


def declared(*given, **more):
    return lambda _: Participants.declare(*given, **more)


def budgets(*values):
    return lambda _: PEOPLE.weights({"mu": [1.0, *values]})


def ids(*values):
    return lambda _: PEOPLE.counter().excess(np.array(["a", *values], dtype=object))


OPTIONS = {
    "mu column without ceiling": (declared("mu"), BudgetError, ["mu='mu'", "public ceiling", "mu_max=1.0"]),
    "ceiling without mu column": (declared(mu_max=2), BudgetError, ["mu_max=2", "mu='column'", "leave mu_max out"]),
    "ceiling 0": (declared("mu", 0), BudgetError, ["mu_max=0", "positive finite"]),
    "ceiling infinite": (declared("mu", float("inf")), BudgetError, ["mu_max=inf", "positive finite"]),
    "ceiling NaN": (declared("mu", float("nan")), BudgetError, ["mu_max=nan", "positive finite"]),
    "ceiling True": (declared("mu", True), BudgetError, ["mu_max=True", "positive finite"]),
    "ceiling a column": (declared("mu", rows()["a"]), BudgetError, ["mu_max=<Series>"]),
    "mu a column itself": (declared(rows()["a"], 1), OptionError, ["mu=<Series>", "must be the name of a column"]),
    "mu a number": (declared(1.5, 1), OptionError, ["mu=1.5", "must be the name"]),
    "id a column itself": (declared(id=rows()["name"]), OptionError, ["id=<Series>", "id='person'"]),
    "id empty": (declared(id=""), OptionError, ["id=''", "must be the name"]),
    "id and mu the same": (declared("mu", 1, "mu"), OptionError, ["the same column"]),
    "no row": (declared(id="who", max_per_id=0), OptionError, ["max_per_id=0", "whole number, 1 or more"]),
    "half a row": (declared(id="who", max_per_id=1.5), OptionError, ["max_per_id=1.5", "whole number"]),
    "true rows": (declared(id="who", max_per_id=True), OptionError, ["max_per_id=True"]),
    "rows without id": (declared(max_per_id=3), OptionError, ["max_per_id=3", "id='person'"]),
    "missing": (declared(missing="skip"), OptionError, ["missing='skip'", "'noise', 'raise', 'drop'"]),
    "id in the model": (lambda _: PEOPLE.check_columns(["who", "y"]), SchemaError, ["id='who'", "take it out"]),
    "mu in the model": (lambda _: PEOPLE.check_columns(["y", "mu"]), SchemaError, ["mu='mu'", "in mu="]),
}
NO_BUDGET = "has a value that is missing, infinite or no number"
BUDGETS = {
    "missing": (budgets(INSIDE, None), DataError, ["'mu'", NO_BUDGET, "everybody needs a budget", "fill it"]),
    "zero": (budgets(0.0), DataError, ["'mu'", "not positive"]),
    "negative": (budgets(-INSIDE), DataError, ["'mu'", "not positive"]),
    "too large": (budgets(OUTSIDE), DataError, ["'mu'", "above mu_max=2", "larger mu_max"]),
    "infinite": (budgets(np.inf), DataError, ["'mu'", NO_BUDGET]),
    "too small": (budgets(1e-200), DataError, ["'mu'", "too near 0"]),
    "text": (budgets(WORD), DataError, ["'mu'", NO_BUDGET]),
    "text of a number": (budgets(str(ANSWER)), DataError, ["'mu'", "above mu_max=2"]),
    "absent": (lambda _: PEOPLE.weights(rows()), DataError, ["column 'mu' is missing from the data"]),
}
NO_ID = "'who' has an id that is missing, or neither a text nor a whole number"
IDS = {
    "missing": (ids(WORD, None), DataError, [NO_ID, "everybody needs one", "missing='noise'"]),
    "NaN": (ids(WORD, np.nan), DataError, [NO_ID]),
    "empty": (ids(WORD, ""), DataError, [NO_ID]),
    "fractions": (ids(INSIDE), DataError, [NO_ID, "convert the ids to text"]),
    "column of fractions": (lambda _: PEOPLE.counter().excess(np.array([1.0, OUTSIDE])), DataError, [NO_ID]),
    "infinite": (lambda _: PEOPLE.counter().excess(np.array([1.0, np.inf])), DataError, [NO_ID]),
    "dates": (lambda _: PEOPLE.counter().excess(pd.to_datetime(["2020-01-01", "2021-01-01"])), DataError, [NO_ID]),
    "lists": (ids([WORD], [INSIDE]), DataError, [NO_ID]),
    "two columns": (
        lambda _: PEOPLE.counter().excess(np.full((2, 2), INSIDE)),
        DataError,
        [NO_ID],
    ),
    "half a character": (ids(f"{WORD}\ud800"), DataError, [NO_ID]),
    "absent": (lambda _: PEOPLE.ids(rows()), DataError, ["column 'who' is missing from the data"]),
}


@pytest.mark.parametrize(("call", "error", "pieces"), cases(options=OPTIONS, budgets=BUDGETS, ids=IDS))
def test_wrong_calls(call, error, pieces, tmp_path):
    check_refusal(call, error, pieces, tmp_path)


def test_several_rows_are_protected_together():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"who": np.arange(3000), "x": rng.uniform(-1, 1, 3000)})
    rows["y"] = rows["x"] + 0.3 * rng.standard_normal(3000)
    told = {}
    for most in (1, 3):
        more = {"id": "who", "max_per_id": most, "bounds": {"x": (-1, 1), "y": (-3, 3)}}
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, mu=1, **more)
        told[most] = model.fit(progress=False, seed=1)
    one, several = (dict(told[most].privacy.rows()) for most in (1, 3))
    assert "neighbours replace one" in one["Protects"]
    assert "up to 3, each used once; " in several["Protects"]
    assert several["Protects"].endswith("of one person")
    assert several["Protects"] in " ".join(str(told[3].summary(details=True)).split())
    assert "which of two possible records a person sent" in one["In words"]
    assert "which of two possible sets of records a person sent" in several["In words"]
