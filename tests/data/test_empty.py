"""Sources without a row, and sources that can't be read: each says so, at every front door."""

import gzip

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import privreg as pr
from privreg.cli.app import main
from privreg.errors import DataError, OptionError
from tests.databases import sqlite

FULL = pd.DataFrame({"y": np.linspace(0, 1, 64), "x": np.linspace(0, 1, 64) ** 2, "who": np.arange(64) // 2})
FULL["w"], FULL["k"] = 0.5, (np.arange(64) % 16).astype(str)
NONE = FULL[:0]
PUBLIC = {"bounds": {"y": (0, 1), "x": (0, 1), "w": (0, 1)}, "levels": {"k": [str(j) for j in range(16)]}}
HEADER = ",".join(FULL)


def fit(**options):
    def go(data):
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, **{"mu": 1, **PUBLIC, **options})
        return model.fit(progress=False)

    return go


def means(**options):
    return lambda data: pr.means.estimate(data, "x ~ 1", **{"mu": 1, "progress": False, **PUBLIC, **options})


def published(data):
    return pr.PrivateOnlineRegression.from_formula("y ~ x", data, mu=1, **PUBLIC).fit(
        progress=False, tuning="published"
    )


DOORS = {
    "local": fit(),
    "no privacy": fit(mu=None),
    "published": published,
    "two collectors": fit(trust="two_collectors"),
    "curator": fit(trust="central"),
    "persons": fit(id="who", k_max=2),
    "persons, two collectors": fit(id="who", k_max=2, trust="two_collectors"),
    "clusters": fit(cluster="k"),
    "clusters, two collectors": fit(cluster="k", trust="two_collectors"),
    "weights": fit(weights="w"),
    "dropped": fit(missing="drop"),
    "counted": fit(id="who"),
    "means": means(),
    "means, two collectors": means(trust="two_collectors"),
    "means by subgroup": means(trust="central", by="k"),
}


def file(tmp, name, text):
    (tmp / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return tmp / name


def frames(tmp, write, name):
    getattr(NONE, write)(tmp / name)
    return tmp / name


def held(_):
    connection = sqlite()
    FULL.to_sql("people", connection, index=False)
    return pr.sql("select * from people where x > 7", connection)


def batches():
    yield NONE


EMPTY = {
    "a header": lambda tmp: file(tmp, "h.csv", HEADER + "\n"),
    "a header without an end": lambda tmp: file(tmp, "h.csv", HEADER),
    "a header, compressed": lambda tmp: file(tmp, "h.csv.gz", HEADER + "\n"),
    "headers": lambda tmp: [file(tmp, "a.csv", HEADER + "\n"), file(tmp, "b.csv", HEADER)],
    "csv()": lambda tmp: pr.csv(file(tmp, "h.csv", HEADER.replace(",", ";") + "\n"), sep=";"),
    "Parquet": lambda tmp: frames(tmp, "to_parquet", "p.parquet"),
    "dataset of Feather": lambda tmp: pads.dataset(frames(tmp, "to_feather", "p.feather"), format="feather"),
    "folder": lambda tmp: frames(tmp, "to_parquet", "p.parquet").parent,
    "dataset": lambda tmp: pads.dataset(frames(tmp, "to_parquet", "p.parquet")),
    "DataFrame": lambda tmp: NONE,
    "mapping": lambda tmp: {name: [] for name in FULL},
    "list": lambda tmp: [NONE, NONE],
    "Arrow": lambda tmp: pa.Table.from_pandas(NONE),
    "polars": lambda tmp: pl.from_pandas(NONE),
    "lazy": lambda tmp: pl.from_pandas(NONE).lazy(),
    "query": held,
    "relation": lambda tmp: duckdb.sql("select 0.5 y, 0.5 x, 1 who, 0.5 w, '1' k where 1 > 2"),
}
ONCE = {"reader": lambda tmp: pa.Table.from_pandas(NONE).to_reader(), "iterator": lambda tmp: batches()}


@pytest.mark.some(1)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("source", [*EMPTY, *ONCE])
def test_sources_without_rows_say_so(source, door, tmp_path):
    unknown = source in ONCE and "two" in door and "means" not in door
    with pytest.raises(OptionError if unknown else DataError, match="give rows=" if unknown else r"no rows|^0 rows"):
        DOORS[door]((EMPTY | ONCE)[source](tmp_path))


def cut(tmp):
    whole = gzip.compress((HEADER + "\n" + "0.5,0.5,1,0.5,1\n" * 40_000).encode())
    (tmp / "c.csv.gz").write_bytes(whole[: len(whole) // 2])
    return tmp / "c.csv.gz"


BROKEN = {
    "nothing": (lambda tmp: file(tmp, "e.csv", ""), r"e\.csv is empty; its first line must hold"),
    "blank lines": (lambda tmp: file(tmp, "e.csv", "\n\n"), r"e\.csv is empty; its first line must hold"),
    "cut off": (cut, r"c\.csv\.gz: it can't be read to its end"),
    "an open quote": (lambda tmp: file(tmp, "q.csv", '"y,x\n0.5,0.5\n'), r"q\.csv: "),
    "no Parquet": (lambda tmp: file(tmp, "p.parquet", "PAR1"), r"p\.parquet: not a readable Parquet file"),
    "no file": (lambda tmp: tmp / "none.csv", "there is no file"),
    "a folder without files": (lambda tmp: tmp, "there is no file with Parquet rows"),
}


@pytest.mark.some
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("source", BROKEN)
def test_sources_that_cannot_be_read_say_why(source, door, tmp_path):
    make, words = BROKEN[source]
    with pytest.raises(DataError, match=words):
        DOORS[door](make(tmp_path))


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["local", "two_collectors", "central"])
@pytest.mark.parametrize("verb", ["fit", "means"])
@pytest.mark.parametrize(("text", "words"), [(HEADER + "\n", "rows"), ("", "is empty")])
def test_the_shell_says_so_in_one_line(verb, trust, text, words, tmp_path, capsys):
    data, formula = str(file(tmp_path, "h.csv", text)), "y ~ x" if verb == "fit" else "x ~ 1"
    assert main([verb, formula, data, "--mu", "1", "--trust", trust, "--bounds", "x=0:1", "y=0:1"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("privreg: error: ")
    assert words in err


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["c.csv", "c.parquet"])
@pytest.mark.parametrize("text", ["", "PAR1", HEADER + "\n"])
def test_public_rows_of_a_plan_say_so_in_one_line(name, text, tmp_path, capsys):
    given = ["--mu", "1", "--n", "1000", "--bounds", "x=0:1", "y=0:1", "--covariates", str(file(tmp_path, name, text))]
    assert main(["plan", "y ~ x", *given]) == 2
    assert "covariates" in capsys.readouterr().err


@pytest.mark.some(1)
@pytest.mark.parametrize("source", ["query", "list"])
def test_two_collectors_count_rows_that_can_be_read_again(source):
    connection = sqlite()
    people = pd.concat([FULL] * 40, ignore_index=True)
    people.to_sql("people", connection, index=False)
    data = {"query": pr.sql("select * from people", connection), "list": [people[:99], people[99:]]}[source]
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, mu=1, trust="two_collectors", **PUBLIC)
    assert model.fit(progress=False).nobs == len(people)
