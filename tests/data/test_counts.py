"""How many records a file has, counted without reading them, is how many are then read."""

import gzip

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.data.sources.csv import _count_lines
from privreg.data.sources.open import open_table, rows_of
from privreg.schema.declarations import Schema

FILES = {
    "plain": "a,b\n1,x\n2,y\n",
    "no newline at the end": "a,b\n1,x\n2,y",
    "no record": "a,b\n",
    "header only": "a,b",
    "windows": "a,b\r\n1,x\r\n2,y\r\n",
    "byte order mark": "\ufeffa,b\n1,x\n2,y\n",
    "blank lines": "\n \na,b\n\n1,x\n  \n\t\n\n2,y\n\n\n",
    "blank lines of windows": "a,b\r\n\r\n1,x\r\n \r\n2,y\r\n\r\n",
    "blank lines and a quote": '\na,b\n\n1,"x"\n  \n\t\n\n2,y\n\n\n',
    "blank lines of windows and a quote": 'a,b\r\n\r\n1,"x"\r\n \r\n2,y\r\n\r\n',
    "lone quote in a cell": 'a,b\n1,x"\n2,5" pipe\n3,y\n4,z\n',
    "lone quote, windows, no newline at the end": 'a,b\r\n1,x"\r\n2,y\r\n3,z',
    "quotes that stay open": 'a,b\n1,"x\ny\n"\n2,"\n\n"\n3,z\n',
    "quotes that stay open, of windows": 'a,b\r\n1,"x\r\ny"\r\n2,z\r\n',
    "carriage returns in a line": "a,b\n1,x\ry\r\n2,z\r\r\n\r3,z\n",
    "doubled quotes": 'a,b\n1,"say """\n2,""""\n3,z\n',
    "quote after a quoted part": 'a,b\n1,"x"y"\n2,z\n',
    "quoted header": '"a","b"\n1,x\n2,y\n',
    "empty cells": 'a,b\n,\n,""\n3,z\n',
    "long cell": f'a,b\n1,"{"x" * 300_000}"\n2,y\n',
}


def read(path):
    schema = Schema.declare({}, {"b": ["x", "y"]}, {})
    return sum(map(rows_of, open_table(path, ("a", "b"), schema).batches(0)))


@pytest.mark.some(10)
@pytest.mark.parametrize("name", FILES)
def test_as_many_records_are_counted_as_are_read(name, tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(FILES[name].encode())
    assert _count_lines(path) == read(path)
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(FILES[name].encode()))
    assert _count_lines(packed) == _count_lines(path)


def test_the_count_is_the_same_whatever_is_in_a_cell(tmp_path):
    path = tmp_path / "people.csv"
    for cell in ('x"', '"x"', '"x', '"x""', '"x"y",z', 'x""', "x\ry", "x", " ", "x" * 200_000, f'"{"x" * 200_000}"'):
        path.write_text(f"a,b\n1,{cell}\n2,y\n3,z\n")
        assert _count_lines(path) == 3


def test_what_cannot_be_read_is_not_counted(tmp_path):
    path = tmp_path / "people.csv"
    assert _count_lines(path) is None
    path.write_bytes(b"\xff\xfea\x00,\x00b\x00\n\x001\x00,\x002\x00\n\x00")
    assert _count_lines(path) is None
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 9999)[:-20])
    assert _count_lines(packed) is None


def test_what_spoils_its_own_record_is_counted_with_it(tmp_path):
    path = tmp_path / "people.csv"
    for record in (b"1,\xff", b"1,x,y,z", b"1", b'1,"x', b'"1",\xff', b'1,"x"",y', b"1,\0", b"1\r2"):
        path.write_bytes(b"a,b\n" + record + b"\n2,y\n3,z\n")
        assert _count_lines(path) == 3 == read(path)


def test_a_lone_quote_in_a_cell_does_not_change_the_plan(tmp_path):
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 300), "note": "none"})
    data["y"] = data["x"] + 0.1 * rng.standard_normal(300)
    plans = []
    for note in ("none", 'a 5" pipe'):
        data.loc[7, "note"] = note
        path = tmp_path / "people.csv"
        path.write_text("x,note,y\n" + "".join(f"{r.x},{r.note},{r.y}\n" for r in data.itertuples()))
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", path, mu=1, bounds={"x": (-1, 1), "y": (-2, 2)})
        plans.append((model._expected(), model.fit(seed=1, progress=False).params.tolist()))
    assert plans[0] == plans[1]
    assert plans[0][0] == 300
