"""Levels, ids and names of columns in any of Unicode's forms are the same, at every front door; one rule tells ids."""

from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.cli.app import main
from privreg.errors import PrivregWarning, SchemaError
from privreg.federated import FederatedRegression
from privreg_field.device.report.design import read
from privreg_field.study.declaring import declared
from privreg_field.wire.trees import Column
from tests.field.test_declared import TEXT, written

FORMS = ("NFC", "NFD")
N = 600


def people(form):
    rng = np.random.default_rng(5)
    g = rng.choice(["blé", "café", "ä b"], N)
    y = rng.normal(0, 1, N) + (g == "café")
    table = pd.DataFrame({"y": np.clip(y, -5, 5), "gène": g, "âge": rng.uniform(0, 1, N), "b": rng.integers(0, 2, N)})
    table["école"] = [f"é{k % 16}" for k in range(N)]
    table["personne"] = [f"ü{k // 2}" for k in range(N)]
    return spelt(table, form)


def spelt(what, form):
    """Names and texts in a form."""
    if isinstance(what, str):
        return normalize(form, what)
    if isinstance(what, dict):
        return {spelt(k, form): spelt(v, form) for k, v in what.items()}
    if isinstance(what, list):
        return [spelt(v, form) for v in what]
    if isinstance(what, pd.DataFrame):
        return pd.DataFrame({spelt(c, form): spelt(what[c].tolist(), form) for c in what})
    return what


def declared_in(form):
    levels = {"gène": ["blé", "café", "ä b"], "école": [f"é{k}" for k in range(16)], "b": [0, 1]}
    return spelt({"bounds": {"y": (-5, 5), "âge": (0, 1)}, "levels": levels}, form)


def local(rows, form, tmp_path, data=None, formula="y ~ gène + âge", **more):
    options = {"mu": 1, **declared_in(form), **{k: spelt(v, form) for k, v in more.items()}}
    model = pr.PrivateOnlineRegression.from_formula(spelt(formula, form), rows if data is None else data, **options)
    return model.fit(seed=1, progress=False).params.tolist()


def streamed(rows, form, tmp_path):
    model = pr.PrivateOnlineRegression.from_formula(spelt("y ~ gène + âge", form), mu=1, rows=N, **declared_in(form))
    stream = model.start(seed=1)
    stream.update(rows)
    return stream.results().params.tolist()


def in_a_file(rows, form, tmp_path):
    rows.to_parquet(tmp_path / "p.parquet")
    return local(rows, form, tmp_path, tmp_path / "p.parquet")


def with_a_schema(rows, form, tmp_path):
    given = declared_in(form)
    pr.Schema.declare(**given).to_file(tmp_path / "s.json")
    text = (tmp_path / "s.json").read_text("utf-8")
    (tmp_path / "s.json").write_text(normalize(form, text), "utf-8")
    formula = spelt("y ~ gène + âge", form)
    model = pr.PrivateOnlineRegression.from_formula(formula, rows, mu=1, schema=tmp_path / "s.json")
    return model.fit(seed=1, progress=False).params.tolist()


def silos(rows, form, tmp_path):
    rows = [rows[: N // 2].reset_index(drop=True), rows[N // 2 :].reset_index(drop=True)]
    formula, given = spelt("b ~ gène + âge", form), declared_in(form)
    given["levels"].pop("b")
    return FederatedRegression.from_formula(formula, rows, mu=1, **given).fit(seed=1, progress=False).params.tolist()


def means(trust, **more):
    def fit(rows, form, tmp_path):
        options = {**declared_in(form), **{k: spelt(v, form) for k, v in more.items()}}
        formula = spelt("C(gène) + âge ~ 1", form)
        res = pr.means.estimate(rows, formula, mu=1, trust=trust, seed=1, progress=False, **options)
        return [*res.params, *(res.by_group()["estimate"] if res.by else ())]

    return fit


def columns_of_means(rows, form, tmp_path):
    names = spelt(["âge", "gène"], form)
    return pr.means.estimate(rows, names, mu=1, seed=1, progress=False, **declared_in(form)).params.tolist()


def shell(rows, form, tmp_path):
    rows.to_csv(tmp_path / "p.csv", index=False)
    given = declared_in(form)
    words = [f"{k}={low}:{high}" for k, (low, high) in given["bounds"].items()]
    levels = [f"{k}={','.join(map(str, v))}" for k, v in given["levels"].items()]
    formula, out = spelt("y ~ gène + âge", form), str(tmp_path / "t.csv")
    command = ["fit", formula, str(tmp_path / "p.csv"), "--mu", "1", "--seed", "1", "--quiet", "--out", out]
    assert main([*command, "--bounds", *words, "--levels", *levels]) == 0
    return pd.read_csv(out)["estimate"].tolist()


def of(**more):
    return lambda rows, form, tmp_path: local(rows, form, tmp_path, **more)


DOORS = {
    "formula": local,
    "two collectors": of(trust="two_collectors"),
    "curator": of(trust="central"),
    "file": in_a_file,
    "stream": streamed,
    "schema": with_a_schema,
    "silos": silos,
    "means": means("local"),
    "means of sums": means("central", by="école", by_budget={"é1": 0.5}),
    "columns of means": columns_of_means,
    "shell": shell,
    "cluster": of(cluster="école"),
    "id": of(id="personne", max_per_id=1),
    "persons": of(id="personne", k_max=2),
    "effect": of(formula="y ~ âge | personne", k_max=2),
    "offset": of(formula="y ~ gène", offset="âge"),
    "a level in the formula": of(formula="y ~ C(gène, Treatment('café')) + I(gène == 'ä b'):âge"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("door", DOORS)
def test_forms_make_no_difference(door, tmp_path):
    found = [DOORS[door](people(data), form, tmp_path) for data in FORMS for form in FORMS]
    assert np.isfinite(found).all()
    assert found == [found[0]] * 4


def test_devices_and_studies_take_either_form(tmp_path):
    for form in FORMS:
        column = Column("g", (normalize(form, "é"), "b"), -1.0, 1.0, "?")
        assert [read(column, normalize(one, "é")) for one in FORMS] == [0.0, 0.0]
    text = TEXT.replace("night", "nuité").replace("shift", "équipe")
    plans = [declared.read(written(tmp_path, normalize(form, text)))[1].to_dict() for form in FORMS]
    assert plans[0] == plans[1]
    twice = text.replace("[day, nuité, both]", f"[day, nuité, {normalize('NFD', 'nuité')}]")
    with pytest.raises(SchemaError, match="names a level twice"):
        declared.read(written(tmp_path, twice))


@pytest.mark.thorough
def test_levels_that_differ_by_blanks_or_zeros_are_warned_of_whatever_the_rows(capsys, tmp_path):
    rows = pd.DataFrame({"y": np.linspace(0, 1, 600), "g": ["a", "b", "c"] * 200})
    rows.to_csv(tmp_path / "p.csv", index=False)
    for levels in (["a", "a ", "b"], ["1", "1.0"], [2, "2.00"], ["x", "\u00a0x"]):
        with pytest.warns(PrivregWarning, match=r"levels\['g'\] has levels that differ only by blanks"):
            pr.Schema.declare(levels={"g": levels})
    for levels in (["a", "A"], ["1", "01"], ["1", "1.5"], ["1.0", "2.0"]):
        pr.Schema.declare(levels={"g": levels})
    command = ["fit", "y ~ g", str(tmp_path / "p.csv"), "--mu", "1", "--bounds", "y=0:1", "--levels", 'g=a,"a ",b,c']
    assert main([*command, "--trust", "central"]) == 0
    assert capsys.readouterr().err.count("differ only by blanks") == 1
