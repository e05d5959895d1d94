"""What takes rows back reaches all that people use: marked rows, a column of the table, one warning."""

import ast
import dataclasses
import pickle
import re
import string
import warnings
from functools import partial
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import privreg as pr
import privreg_field
from privreg import central
from privreg.base import archive
from privreg.collector.estimation import curvature
from privreg.collector.estimation.coordinates import wide
from privreg.errors import PrivregWarning, ReliabilityWarning, SavedFileError
from privreg.fits import findings
from privreg.tables import diagnostics
from privreg.tables.diagnostics import CODES, Diagnostic, doubt
from tests.families.test_multinomial import FLAT, model
from tests.families.test_multinomial import people as voters
from tests.helpers import array_model, people, read_saved
from tests.results.test_summary import check_latex, flat, read, table_lines

FEW = doubt("few", "few people")
NOTE = doubt("rare", "only some 1% of the people have the rarer value of g", [1])


def with_notes(res, *notes):
    """Results with these doubts and no others."""
    statement = dataclasses.replace(res.privacy, notes=notes)
    return pr.results.PrivateResults(dataclasses.replace(res._fit, statement=statement))


def said(function):
    """The one warning of a call, and what it returns."""
    with pytest.warns(ReliabilityWarning) as caught:
        out = function()
    (one,) = caught
    assert one.filename == __file__  # points at the call
    return str(one.message), out


def rare(n=40_000, share=0.01, levels=(0, 1), bounds=4, formula="y ~ x + C(g)"):
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"x": rng.standard_normal(n), "g": (rng.uniform(size=n) < share).astype(int)})
    data["y"] = data["x"] + 0.5 * rng.standard_normal(n)
    given = {"mu": 1, "bounds": {"x": (-bounds, bounds), "y": (-6, 6)}, "levels": {"g": list(levels)}}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **given)


# --- which rows --------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_few_people_take_all_rows_back():
    text, res = said(lambda: array_model(3000).fit(seed=1, progress=False))
    assert text.startswith("don't rely on the intervals of all 4 coefficients (const, a, b, c): few records")
    assert issubclass(ReliabilityWarning, PrivregWarning)
    assert not any(res.tidy()["reliable"])
    assert res.tidy()["reliable"].dtype == bool
    assert list(res.tidy())[-1] == "reliable"
    assert "† DON'T RELY ON THE INTERVALS: see note [" in flat(str(res.summary()))


@pytest.mark.thorough
def test_predictions_and_trajectories_say_what_takes_them_back():
    res = with_notes(array_model(9000).fit(seed=1, progress=False), NOTE)
    found = res.get_prediction(np.array([[1.0, 0.5, 0.5, 0.5]]))
    assert found.notes == (NOTE,)
    for text in (str(found), found._repr_html_()):
        assert f"Note: {NOTE}." in unescape(text).replace("\n", " ")
    axes = res.plot_trajectory()
    assert [a._left_title.get_text() for a in axes] == ["const", "a †", "b", "c"]
    assert "† don't rely on it" in " ".join(t.get_text() for t in axes[-1].texts)
    assert axes[0].get_xlim() == pytest.approx(tuple(res.trajectory()["n"].iloc[[0, -1]]))


@pytest.mark.thorough
def test_enough_people_are_not_warned_and_have_no_marks():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res = array_model(60_000).fit(seed=2, progress=False)
    assert res.tidy()["reliable"].all()
    for text in (str(res.summary()), res.summary().as_html(), res.summary().as_latex()):
        assert "†" not in text
        assert "dagger" not in text
        assert "RELY" not in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("share", "levels", "concerned"),
    [
        (0.01, (0, 1), ["C(g)[T.1]"]),
        (0.01, (1, 0), ["C(g)[T.0]", "Intercept"]),  # the reference level is the rare one
        (0.99, (0, 1), ["C(g)[T.1]", "Intercept"]),
    ],
)
def test_a_rare_level_takes_its_own_row_back_and_the_intercept_as_reference(share, levels, concerned):
    text, res = said(lambda: rare(share=share, levels=levels).fit(seed=1, progress=False))
    table = res.tidy().set_index("term")["reliable"]
    assert sorted(table.index[~table]) == sorted(concerned)
    assert table["x"]
    assert all(name in text for name in concerned)
    assert " x" not in text
    assert not any(c.isdigit() for c in re.sub(r"C\(g\)\[T\.\d\]", "", text))  # no shares, no counts
    assert "† DON'T RELY ON THE MARKED INTERVALS: see note [" in flat(str(res.summary()))


@pytest.mark.thorough
def test_bounds_far_too_wide_take_their_column_and_the_constant_back():
    _, res = said(lambda: rare(share=0.5, bounds=400).fit(seed=1, progress=False))
    table = res.tidy().set_index("term")["reliable"]
    assert list(table.index[~table]) == ["Intercept", "x"]


@pytest.mark.thorough
def test_what_crosses_a_factor_and_a_number_is_told_by_the_level_and_not_by_its_own_spread():
    crossed = {"share": 0.3, "formula": "y ~ C(g) * x"}
    stream = rare(**crossed).start()
    plan = stream._run.plan
    column = [stream._spec.design.names[j] for j in stream._encoder.order]
    (one,) = plan.columns.crossed
    assert column[one.column] == "C(g)[T.1]:x"
    assert [column[j] for j in one.levels] == ["C(g)[T.1]"]
    stretch = np.diag([30.0 if j == one.column else 1.0 for j in range(4)])
    assert wide(plan._replace(columns=plan.columns._replace(crossed=())), stretch)
    assert not wide(plan, stretch)
    for share, marked in ((0.3, []), (0.02, ["C(g)[T.1]", "C(g)[T.1]:x"])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)
            res = rare(150_000, share, formula="y ~ C(g) * x").fit(seed=1, progress=False)
        table = res.tidy().set_index("term")["reliable"]
        assert [name for name in table.index[~table] if name != "Intercept"] == marked
        assert "nan" not in str(res.summary())


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("right", "share", "marked"),
    [
        (
            "C(g, Sum) * x",
            0.0,
            ["Intercept", "C(g, Sum)[S.a]", "C(g, Sum)[S.b]", "x", "C(g, Sum)[S.a]:x", "C(g, Sum)[S.b]:x"],
        ),
        ("C(g, Sum) * x", 0.2, []),
        ("C(g, Helmert) + x", 0.0, ["Intercept", "C(g, Helmert)[H.c]"]),
        ("g * x", 0.0, ["g[T.c]", "g[T.c]:x"]),
    ],
)
@pytest.mark.usefixtures("usual_rounds")
def test_a_rare_level_takes_back_all_that_is_about_it(right, share, marked):
    """In codings beside a mean of all levels that is the constant, too, and the slope by itself."""
    rng, n = np.random.default_rng(5), 40_000
    g, x = rng.choice(3, n, p=[0.7 - share, 0.3, share]), 10 * rng.random(n)
    rows = pd.DataFrame({"g": np.array(list("abc"))[g], "x": x, "y": 1 + g + 0.5 * x + rng.standard_normal(n)})
    model = pr.PrivateOnlineRegression.from_formula(
        f"y ~ {right}", rows, mu=8, bounds={"x": (0, 10), "y": (-10, 20)}, levels={"g": list("abc")}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        table = model.fit(seed=1, progress=False).tidy().set_index("term")["reliable"]
    assert set(marked) == set(table.index[~table])


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("right", "common"),
    [
        ("g + h + x", ["h[T.v]", "x"]),
        ("g * x + h", ["h[T.v]"]),
        ("0 + g + h + x", ["g[b]", "g[c]", "h[T.v]", "x"]),
        ("0 + h + g + x", ["x"]),
        ("C(g, Sum) + h + x", ["h[T.v]", "x"]),
        ("g * h + x", ["x"]),
        ("C(g, Treatment('b')) + h + x", ["Intercept", "C(g, Treatment('b'))[T.c]", "h[T.v]", "x"]),
    ],
)
def test_a_rare_reference_level_takes_back_all_that_is_compared_with_it(right, common):
    """Levels compared with one that nobody had covered 43 to 57%, unmarked."""
    rng, n = np.random.default_rng(6), 60_000
    g, h, x = rng.choice(3, n, p=[0.004, 0.5, 0.496]), rng.integers(0, 2, n), 10 * rng.random(n)
    rows = pd.DataFrame({"g": np.array(list("abc"))[g], "h": np.array(list("uv"))[h], "x": x})
    rows["y"] = 1 + g + 0.5 * x + rng.standard_normal(n)
    model = pr.PrivateOnlineRegression.from_formula(
        f"y ~ {right}", rows, mu=8, bounds={"x": (0, 10), "y": (-10, 20)}, levels={"g": list("abc"), "h": ["u", "v"]}
    )
    text, res = said(lambda: model.fit(seed=1, progress=False))
    table = res.tidy().set_index("term")["reliable"]
    assert set(common) == set(table.index[table])
    assert "rare" in {note.code for note in res.privacy.doubts}
    assert not set(re.findall(r"\d", text.replace("Treatment", "")))  # no shares


def test_states_that_creep_one_way_take_their_coefficient_back():
    """Where a group's responses leave a valley, states move by as much each round; noise moves them to and fro."""
    learned = curvature.Curvature(np.eye(2), np.eye(3))
    frame = SimpleNamespace(noise=np.eye(2), root=np.eye(2))
    rng = np.random.default_rng(0)
    for creep, found in ((0.0, [False, False]), (0.1, [False, True])):
        states = rng.standard_normal((10, 2)) * 0.01 + np.outer(np.arange(10), [0.0, creep])
        main = [SimpleNamespace(weight=np.full((1, 1), 1e4), state=SimpleNamespace(theta=theta)) for theta in states]
        given = SimpleNamespace(main=main), frame, learned, np.eye(2)
        assert findings._creeping(*given).tolist() == found
        given[0].main = main[:3]
        assert not findings._creeping(*given).any()
    start = np.outer(0.3 ** np.arange(10), [0.0, 1.0])  # a poor start that is left behind
    main = [SimpleNamespace(weight=np.full((1, 1), 1e4), state=SimpleNamespace(theta=theta)) for theta in start]
    assert not findings._creeping(SimpleNamespace(main=main), frame, learned, np.eye(2)).any()


@pytest.mark.thorough
def test_what_depends_on_a_coefficient_that_is_taken_back_is_marked_too():
    x, y = people(4000)
    rows = pd.DataFrame({"x": x[:, 1], "g": np.resize(["a", "b", "c"], len(y)), "y": y})
    declared = {"bounds": {"x": (-1, 1), "y": (-9, 9)}, "levels": {"g": ["a", "b", "c"]}}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + C(g)", rows, mu=None, **declared)
    plain = model.fit(seed=1, progress=False)
    names = list(plain.params.index)
    res = with_notes(plain, doubt("rare", "this level is rare", [names.index("C(g)[T.c]")]))
    assert res.t_test("C(g)[T.b] = 0, C(g)[T.c] = C(g)[T.b], x").summary_frame()["reliable"].tolist() == [1, 0, 1]
    pairs = res.t_test_pairwise("g")
    assert pairs.result_frame["reliable"].tolist() == [True, False, False]
    new = {"x": [0.0, 0.5, 0.1], "g": ["a", "c", "b"]}
    assert res.get_prediction(new).summary_frame()["reliable"].tolist() == [True, False, True]
    for shown, lines in ((pairs, 2), (res.t_test("x, C(g)[T.c]"), 1), (res.get_prediction(new), 1)):
        assert str(shown).count("†") == lines
    assert "†" not in str(plain.get_prediction(new))


@pytest.mark.thorough
def test_columns_are_found_in_the_users_order_and_at_every_level():
    res = said(lambda: model(voters(3000)).fit(seed=1, progress=False))[1]
    one = with_notes(res, doubt("rare", "this", [1, 4]))
    table = one.tidy()
    assert list(table.columns[:2]) == ["level", "term"]
    flagged = one._fit.flat(table)
    assert list(flagged.loc[~flagged["reliable"], "term"]) == [FLAT[1], FLAT[4]]
    lines = table_lines(str(one.summary()))
    assert sum(" † " in line for line in lines) == 2


def calls_of(name):
    """Calls of a function by this name in the package: the first argument's node, and names of keywords."""
    files = [path for package in (pr, privreg_field) for path in Path(package.__file__).parent.rglob("*.py")]
    for text in [text for path in files if f"{name}(" in (text := path.read_text("utf-8"))]:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name and node.args:
                yield node.args[0], {k.arg for k in node.keywords}


@pytest.mark.thorough
def test_the_table_has_every_code_that_is_used_and_no_other():
    files = [path for package in (pr, privreg_field) for path in Path(package.__file__).parent.rglob("*.py")]
    texts = [path.read_text() for path in files if path.name != "diagnostics.py"]
    constants = {word for text in texts for word in re.findall(r'"([^".\n{]+)[^"\n]*"', text)}
    assert set(CODES) - {"before", "diagonal", "remark", "excess"} <= constants  # of earlier files
    with pytest.raises(ValueError, match="no code of a note: 'fewer'"):
        Diagnostic("fewer", "few people")
    assert {code.severity for code in CODES.values()} == {"info", "caution", "doubt"}
    assert (FEW.severity, Diagnostic("seeded", "").severity) == ("doubt", "caution")


@pytest.mark.thorough
def test_every_text_of_the_table_is_used_and_given_its_values():
    texts = {}
    for code, row in CODES.items():
        several = row.text if isinstance(row.text, dict) else {"": row.text}
        texts |= {f"{code}.{which}".rstrip("."): text for which, text in several.items() if text}
    needed = {n: {f for _, f, _, _ in string.Formatter().parse(text) if f} for n, text in texts.items()}
    used = set()
    for first, given in calls_of("note"):
        names = [n.value for n in ast.walk(first) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        made = isinstance(first, ast.JoinedStr)  # of one of several texts
        found = [n for n in texts if n in names or (made and n.startswith(tuple(names)))]
        assert found or isinstance(first, ast.Name), ast.unparse(first)
        used |= {*found}
        for name in found:
            assert needed[name] <= given, name
            assert made or len(found) > 1 or given - {"rows", "of", "methods", "ways"} == needed[name], name
    assert set(texts) - used == {
        "unidentified",
        "moving.descent",
    }  # whose code is a variable there


@pytest.mark.thorough
def test_a_doubt_of_one_method_marks_its_rows_only_there():
    res = array_model(20_000).fit(seed=1, progress=False, inference=("between_lanes", "random_scaling"))
    own = doubt("curvature", "unsure", of="the random-scaling intervals")
    estimates = (res._fit.estimates[0], dataclasses.replace(res._fit.estimates[1], notes=(own,)))
    fit = dataclasses.replace(with_notes(res, own)._fit, estimates=estimates)
    both = pr.results.PrivateResults(fit)
    assert both.tidy()["reliable"].all()
    assert not both.tidy(method="random_scaling")["reliable"].any()
    assert not both.using("random_scaling").tidy()["reliable"].any()


# --- where it is seen --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def doubted():
    return with_notes(array_model(20_000).fit(seed=1, progress=False), Diagnostic("rounding", "a remark"), NOTE)


def test_marked_rows_in_text_html_and_latex(doubted):
    summary = doubted.summary()
    lines = table_lines(summary.as_text())
    assert [line.split()[0] for line in lines if " † " in line] == ["a"]
    words = "† DON'T RELY ON THE MARKED INTERVALS: see note [1]"
    assert words in flat(summary.as_text())
    page = read(summary.as_html())
    assert "a †" in page.cells
    assert "b" in page.cells
    assert words in page.cells
    latex = summary.as_latex()
    check_latex(latex)
    assert r"a $\dagger$ & " in latex
    assert "DON'T RELY" in latex
    assert max(map(len, summary.as_text().split("\n"))) <= 80


@pytest.mark.thorough
def test_marks_of_estimates_without_intervals():
    bare = with_notes(array_model(3000).fit(seed=1, progress=False, inference=None), NOTE)
    assert "† DON'T RELY ON THE MARKED ESTIMATES: see note [1]" in flat(str(bare.summary()))
    assert bare.tidy()["reliable"].tolist() == [True, False, True, True]


@pytest.mark.thorough
def test_compared_tables_mark_the_estimate(doubted):
    sound = with_notes(doubted)
    both = pr.compare([sound, doubted], names=["good", "bad"])
    value = f"{doubted.params['a']:.3f}"
    for text in (str(both), both.as_html(), both.as_latex().replace(r"$\dagger$", "†").replace("$-$", "-")):
        assert text.count(f"{value}†") == 1
        assert "† Not to be relied on, as follows." in flat(text)
    assert "†" not in str(pr.compare([sound]))
    rows = [line for line in str(both).split("\n") if line.split(" ")[0] in {"const", "a", "b", "c"}]
    assert len({line.rindex(".") for line in rows}) == 1  # marked or not, digits stand below each other
    assert len(rows) == 4
    assert both.frame()["bad"]["reliable"].tolist() == [True, False, True, True]


# --- once --------------------------------------------------------------------------------------------------


def test_a_stream_warns_once():
    x, y = people(3000)
    stream = array_model(rows=3000).start(seed=1).update((y, x))
    said(stream.results)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not stream.results().tidy()["reliable"].any()


def test_a_stream_waits_for_intervals_before_it_warns():
    x, y = people(3000)
    stream = array_model(rows=3000).start(seed=1).update((y[:600], x[:600]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.results()
    stream.update((y[600:], x[600:]))
    said(stream.results)


def test_many_coefficients_are_counted_not_listed():
    names = [f"x{i}" for i in range(21)]
    with pytest.warns(ReliabilityWarning) as caught:
        assert diagnostics.caution(names, [FEW])
    assert "all 21 coefficients (x0, x1, x2, x3, x4, x5 and 15 more): few records" in str(caught[0].message)
    assert not diagnostics.caution(names, [Diagnostic("rounding", "don't rely on")])


# --- files -------------------------------------------------------------------------------------------------


def test_marks_keep_through_files_and_pickles(doubted, tmp_path):
    doubted.save(tmp_path / "res.privreg")
    for again in (pr.load(tmp_path / "res.privreg"), pickle.loads(pickle.dumps(doubted))):
        pd.testing.assert_frame_equal(again.tidy(), doubted.tidy())
        remark, note = again.privacy.notes
        assert (remark.code, again.privacy.doubts) == ("rounding", (note,))
        assert (note, note.code, note.rows) == (NOTE, NOTE.code, NOTE.rows)
        assert str(again.summary()) == str(doubted.summary())


def test_files_of_the_version_before_go_by_what_their_notes_say(doubted, tmp_path):
    doubted.save(tmp_path / "res.privreg")
    document, arrays = read_saved(tmp_path / "res.privreg")
    del document["statement"]["notes_about"]
    own = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    archive.write_archive(tmp_path / "old.privreg", "results", own, arrays)
    old = pr.load(tmp_path / "old.privreg")
    assert not old.tidy()["reliable"].any()  # it doesn't say which rows
    assert old.privacy.notes == doubted.privacy.notes
    own["statement"]["notes"] = ["a remark", "no intervals yet by anytime, batch_means: they begin later"]
    archive.write_archive(tmp_path / "old.privreg", "results", own, arrays)
    old = pr.load(tmp_path / "old.privreg")
    assert old.tidy()["reliable"].all()
    assert old.privacy.waiting[0].methods == ("anytime", "batch_means")


def test_codes_of_the_version_before_are_read_as_those_of_this_one():
    about = [None, ["silent", None, []], ["tied", [1], []]]
    notes = diagnostics.from_json(["a remark", "first", "second"], about)
    assert [(n.code, n.rows) for n in notes] == [("remark", None), ("nonresponse", None), ("confounded", (1,))]
    assert diagnostics.from_json(map(str, notes), diagnostics.to_json(notes)) == notes
    (way,) = diagnostics.from_json(["first"], diagnostics.to_json([Diagnostic("few", "first", [0], ways=[[1, 0.5]])]))
    assert way.ways == ((1.0, 0.5),)


DAMAGED = [[None], [None, ["fewer", None, []]], *([None, ["few", [at], []]] for at in (4, -1, True))]
DAMAGED += [[None, ["few", [0], [], ways]] for ways in ([[1.0]], [["a", 0, 0, 0]], [None], [[None]], 1)]


@pytest.mark.parametrize("about", DAMAGED)
def test_damaged_marks_are_refused(doubted, tmp_path, about):
    doubted.save(tmp_path / "res.privreg")
    document, arrays = read_saved(tmp_path / "res.privreg")
    document["statement"]["notes_about"] = about
    own = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    archive.write_archive(tmp_path / "res.privreg", "results", own, arrays)
    with pytest.raises(SavedFileError, match="damaged"):
        pr.load(tmp_path / "res.privreg")


# --- the other front doors ---------------------------------------------------------------------------------


def test_means_name_the_factor_of_which_too_few_gave_an_answer(tmp_path):
    n = 4000
    data = pd.DataFrame({"x": np.linspace(0, 1, n), "g": ["a"] * (n - 2) + ["b"] * 2, "who": ["u", "v"] * (n // 2)})
    given = {"bounds": {"x": (0, 1)}, "levels": {"g": ["a", "b"], "who": ["u", "v"]}, "epsilon": 24.0}
    text, res = said(lambda: pr.means.PrivateMeans(["x", "g"], data, frequencies="grr", **given).fit(progress=False))
    assert res.tidy().set_index("term")["reliable"].to_dict() == {"x": True, "g[a]": False, "g[b]": False}
    assert text.startswith("don't rely on the intervals of g[a], g[b]: fewer than 10 records")
    assert "† DON'T RELY ON THE MARKED INTERVALS: see note [1]" in flat(str(res.summary()))
    assert "g[b] †" in str(res.summary())
    model = pr.means.PrivateMeans(["x", "g"], data, frequencies="grr", by="who", **given)
    text, res = said(lambda: model.fit(progress=False))
    by = res.by_group()
    assert by.loc[by["term"] == "x", "reliable"].all()
    assert not by.loc[by["term"] == "g[b]", "reliable"].any()
    res.save(tmp_path / "m.privreg")
    pd.testing.assert_frame_equal(pr.load(tmp_path / "m.privreg").by_group(), by)
    stream = model.start()
    stream.update(data)
    said(stream.results)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.results()


def test_a_curators_lanes_that_still_move_warn_and_mark():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, 6000)}).assign(y=lambda d: d["a"] + rng.normal(0, 0.3, 6000))
    given = {"bounds": {"a": (-1, 1), "y": (-3, 3)}, "family": pr.Huber(scale=0.5), "mu": 1.0}
    fit = partial(central.Regression.from_formula("y ~ a", data, **given).fit, tuning="published")
    text, res = said(lambda: fit(perturbation="output", lanes=8, step=1e-6, progress=False))
    assert not res.tidy()["reliable"].any()
    assert "not converged" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = fit(lanes=1, progress=False)  # asked for: there are no standard errors to rely on
    assert not one.tidy()["reliable"].any()


def test_federated_models_that_still_move_warn_and_mark():
    rng = np.random.default_rng(1)
    silos = [pd.DataFrame({"a": rng.uniform(-1, 1, 300)}).assign(y=lambda d: 3 * d["a"]) for _ in range(20)]
    given = {
        "bounds": {"a": (-1, 1), "y": (-4, 4)},
        "mu": 100.0,
        "family": "huber",
        "rounds": 3,
        "local_steps": 1,
        "clip": 0.05,
    }
    model = pr.federated.FederatedRegression.from_formula("y ~ a", silos, **given)
    text, res = said(lambda: model.fit(seed=1, progress=False))
    assert not res.tidy()["reliable"].any()
    assert text.startswith(
        "don't rely on the estimates of all 2 coefficients (Intercept, a): the estimates had not converged"
    )
    assert "† DON'T RELY ON THE ESTIMATES: see note [1]" in flat(str(res.summary()))


# --- curvature ---------------------------------------------------------------------------------------------


def valley(n=100_000, deep=True):
    """Two groups; the responses of one have two peaks, between which its median lies."""
    rng = np.random.default_rng(5)
    g, x = rng.random(n) < 0.3, rng.standard_normal(n)
    apart = np.where(g, 8.0 * rng.choice([-1, 1], n), 0.0) if deep else 0.0
    return pd.DataFrame({"x": x, "g": np.where(g, "y", "n"), "y": x + apart + rng.standard_normal(n)})


@pytest.mark.thorough
@pytest.mark.parametrize("deep", [True, False])
def test_a_group_whose_curvature_nothing_tells_is_taken_back(deep):
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ g + x", valley(deep=deep), mu=1, bounds={"x": (-4, 4), "y": (-15, 15)}, levels={"g": ["n", "y"]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        table = model.fit(seed=1, progress=False).tidy().set_index("term")
    assert table.loc["g[T.y]", "reliable"] == (not deep)
    assert table.loc["x", "reliable"]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("low", "high", "reliable"),
    [(-5, 5, True), (-5, 0, False), (4, 9, False), (0, 5, True), (-500, 500, True)],
    ids=["all inside", "nearly all at the top", "nearly all at the bottom", "half of it", "far too wide"],
)
def test_a_response_that_is_clamped_to_one_end_is_doubted(low, high, reliable):
    rng = np.random.default_rng(6)
    rows = pd.DataFrame({"x": rng.uniform(-1, 1, 60_000)}).assign(y=lambda d: 2 + 0.3 * d["x"])
    rows["y"] += 0.5 * rng.standard_normal(len(rows))
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, mu=1, bounds={"x": (-1, 1), "y": (low, high)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        res = model.fit(seed=2, progress=False)
    assert res.tidy()["reliable"].all() == reliable
    assert any(note.code == "flat" for note in res.privacy.notes) == (not reliable)


# --- rows of one person ----------------------------------------------------------------------------------


def by_person(mu, seed, rows=20_000, each=5, *, shuffled=False, **given):
    """Rows of which each person has several that are the same but for a little."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(rows // each), each)
    x, error = rng.standard_normal((2, rows // each))[:, person]
    data = pd.DataFrame({"id": person, "x": x, "y": x + error + 0.1 * rng.standard_normal(rows)})
    data = data.iloc[rng.permutation(rows)] if shuffled else data
    bounds = {"x": (-4, 4), "y": (-8, 8)}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, mu=mu, bounds=bounds, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        return model.fit(seed=seed, progress=False)


@pytest.mark.some(1)
@pytest.mark.parametrize(("mu", "each", "code"), [(1, 5, "repeated"), (3, 5, "alike"), (3, 1, None), (0.2, 5, None)])
def test_several_rows_of_a_person_are_noted_by_what_they_can_do_to_standard_errors(mu, each, code):
    res = by_person(mu, 1, 60_000, id="id", max_per_id=each)
    codes = [note.code for note in res.privacy.notes if note.code in {"repeated", "alike"}]
    assert codes == ([code] if code else [])
    assert res.tidy()["reliable"].any() == (code != "alike")


@pytest.mark.statistical
@pytest.mark.slow
def test_standard_errors_are_too_small_for_rows_that_are_alike_by_no_more_than_is_said():
    """Without noise √5 times, if they don't come one after another: then they are seen to scatter together.

    The largest and smallest of 20 fits' sd by chance in one of 1,000 studies each.
    """
    fits = [by_person(None, seed, id="id", max_per_id=5, shuffled=True) for seed in range(20)]
    (note,) = (note for note in fits[0].privacy.notes if note.code == "alike")
    assert "up to 2.24 times" in note
    z = np.array([(fit.params["x"] - 1.0) / fit.bse["x"] for fit in fits])
    low, high = np.sqrt(chi2.ppf([0.001, 0.999], len(z)) / len(z))
    assert low < np.sqrt(np.mean(z**2)) / 5**0.5 < high
