"""Cells of CSV files: what each means, whatever is beside it and wherever reading begins."""

from __future__ import annotations

import gzip
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privreg.data.columns import prepare
from privreg.data.sources import csv
from privreg.data.sources.csv import _count_lines
from privreg.data.sources.open import open_table, rows_of
from privreg.errors import DataError
from privreg.schema.declarations import Schema

SCHEMA = Schema.declare({"a": (0, 9), "y": (0, 1)}, {"g": ["u", "v", "NA", "1", "01"]})
NUMBERS = ["1", "2", "3.25", "0.1", "7e-3", "", "NA", "12345.678901234567"]
TEXTS = ["u", "v", "NA", "1", "01", "", "w"]
ODD = [
    *("-3e4", "1e400", "1e-400", "+5", " 7 ", "nan", "inf", "None", "True", "false", " u", "x y", "\t", "1_0", "0x1p3"),
    *(
        "1.",
        "-.5",
        "9007199254740993",
        "5\u00b2",
        "\u0663",
        "\u00a09",
        "\u00e9",
        '"',
        '5"',
        '"u"',
        '"1\n2"',
        "\r",
        "\0",
    ),
]


def read(path, skip=0):
    """Every cell, as the encoders take it; ids as they are written."""
    out = []
    for batch in open_table(path, ("a", "g", "y", "id"), SCHEMA, text=("id",)).batches(skip):
        held = prepare(batch, ("a", "g", "y"), SCHEMA, (), gaps=True)
        ids = ["" if pd.isna(v) else str(v) for v in batch["id"]]
        out += zip(*(map(repr, values.tolist()) for values in held.values()), ids, strict=True)
    return out


def made(seed):
    """A file with cells, lines and ends of every kind."""
    r = random.Random(seed)
    odd, lines = r.random() < 0.7, []
    for _ in range(r.choice([0, 1, 5, 60])):
        cells = [r.choice(NUMBERS), r.choice(TEXTS), r.choice(NUMBERS), str(r.randint(1, 9)).zfill(2)]
        if odd and r.random() < 0.1:
            cells[r.randrange(4)] = r.choice(ODD)
        line = ",".join(cells)
        if odd and r.random() < 0.09:
            line = r.choice([f"{line},more", line.rsplit(",", 1)[0], "", " ", "\t"])
        lines.append(line)
    end = r.choice(["\n", "\n", "\r\n"])
    text = r.choice(["", "\ufeff", "\n"]) + "a,g,y,id" + end + end.join(lines) + (end if r.random() < 0.7 else "")
    raw = text.encode()
    return raw.replace(b"x y", b"\xff\xfe") if r.random() < 0.5 else raw


@pytest.mark.some(1)
@pytest.mark.parametrize("part", range(8))
def test_no_cell_depends_on_the_chunk_it_is_in_and_reading_goes_on_anywhere(part, tmp_path, monkeypatch):
    path = tmp_path / "people.csv"
    for seed in range(20 * part, 20 * part + 20):
        path.write_bytes(made(seed))
        want = read(path)
        with monkeypatch.context() as m:
            m.setattr(csv, "MOST", 40)
            m.setattr(csv, "BLOCK", 40)
            assert read(path) == want, seed
            assert _count_lines(path) == len(want), seed
        assert _count_lines(path) == len(want), seed
        skip = len(want) // 2
        assert read(path, skip) == want[skip:], seed


@pytest.mark.some(1)
@pytest.mark.parametrize("part", range(8))
def test_whatever_is_in_a_line_all_others_mean_what_they_meant(part, tmp_path, monkeypatch):
    r = random.Random(part)
    path, rest = tmp_path / "people.csv", [f"{k % 10},{'uv'[k % 2]},0.{k},{k:02}" for k in range(30)]
    path.write_text("\n".join(["a,g,y,id", *rest]))
    want = read(path)
    for _ in range(75):
        k = r.randrange(len(rest))
        odd = "1" + "".join(r.choice('""",,,a1 \t\r\0\ufeff.') for _ in range(r.choice([1, 3, 9, 40])))  # not blank
        odd = r.choice([odd, odd[1:] + "1", "9" * 310, '"' * 7, f'1,"{"x" * 3000}'])
        path.write_bytes("\n".join(["a,g,y,id", *rest[:k], odd, *rest[k + 1 :]]).encode())
        for name in ("BLOCK", "MOST"):
            monkeypatch.setattr(csv, name, r.choice([1, 50, 1 << 18]))
        found = read(path)
        assert _count_lines(path) == len(found) == len(want), odd
        assert [*found[:k], *found[k + 1 :]] == [*want[:k], *want[k + 1 :]], odd


def test_two_lines_that_quotes_would_make_one_are_two(tmp_path):
    path, rest = tmp_path / "people.csv", [f"{k},u,0.{k},{k:02}" for k in range(9)]
    for odd in (['1,"x', 'y",0.5,07'], ['1,"', '",0.5,07'], ['"', '",u,0.5,07']):
        path.write_text("\n".join(["a,g,y,id", *rest, *odd, *rest]) + "\n")
        found, alone = read(path), tmp_path / "alone.csv"
        alone.write_text("\n".join(["a,g,y,id", *rest]) + "\n")
        assert _count_lines(path) == len(found) == 20
        assert found[:9] == found[11:] == read(alone)
    none = ("nan", "-1", "nan", "")
    for odd in ('1,u,0.5,"x', '"1,u,0.5,07', '1,u,0.5,"x""'):  # at the end of a file, with a line feed and without
        for end in ("", "\n"):
            path.write_text("\n".join(["a,g,y,id", *rest, odd]) + end)
            assert _count_lines(path) == 10
            assert read(path)[9] == none
            assert read(path)[:9] == read(alone)


@pytest.mark.parametrize("how", [{}, {"decimal": ",", "sep": ";"}], ids=str)
def test_a_cell_means_the_same_whether_its_block_is_read_at_once_or_line_by_line(how, tmp_path, monkeypatch):
    path, parsed, r = tmp_path / "people.csv", csv._parsed, random.Random(2)
    for _ in range(20):
        cells = [[r.choice(NUMBERS), r.choice(TEXTS), r.choice(NUMBERS), r.choice(["07", "", "NA"])] for _ in range(40)]
        cells[7][0] = r.choice(ODD[:10])
        text = "\n".join(how.get("sep", ",").join(line) for line in [["a", "g", "y", "id"], *cells]) + "\n"
        path.write_text(text.replace(".", how.get("decimal", ".")))
        want = read(csv.csv(path, **how))

        def at_once(block, types, columns, how):
            if columns == 4:
                raise pa.ArrowInvalid
            return parsed(block, types, columns, how)

        with monkeypatch.context() as m:
            m.setattr(csv, "_parsed", at_once)
            assert read(csv.csv(path, **how)) == want


def test_a_cell_means_what_it_means_in_a_table(tmp_path):
    r = random.Random(1)
    cells = [(r.choice(NUMBERS), r.choice(TEXTS), r.choice(NUMBERS), str(k).zfill(3)) for k in range(500)]
    path, packed = tmp_path / "people.csv", tmp_path / "people.csv.gz"
    path.write_text("\n".join(",".join(line) for line in [("a", "g", "y", "id"), *cells]))
    packed.write_bytes(gzip.compress(path.read_bytes()))
    frame = pd.DataFrame(cells, columns=["a", "g", "y", "id"])
    for name in ("a", "y"):
        frame[name] = [np.nan if v in {"", "NA"} else float(v) for v in frame[name]]
    frame["g"] = frame["g"].where(frame["g"] != "", None)  # "NA" is a level
    assert read(path) == read(packed) == read(frame)


def plain(n):
    return "".join(f"{k % 10},{'uv'[k % 2]},0.{k},{k:07}\n" for k in range(n))


@pytest.mark.thorough
def test_a_file_that_is_cut_off_is_an_error_after_the_rows_before(tmp_path):
    packed = tmp_path / "people.csv.gz"
    raw = gzip.compress(("a,g,y,id\n" + plain(200_000)).encode(), 1)
    packed.write_bytes(raw[: len(raw) * 3 // 4])
    rows, batches = 0, open_table(packed, ("a", "g"), SCHEMA).batches(0)

    def count():
        nonlocal rows
        for batch in batches:
            rows += rows_of(batch)

    with pytest.raises(DataError, match=r"^people\.csv\.gz: it can't be read to its end"):
        count()
    assert rows > 50_000


def test_numbers_are_the_nearest_doubles(tmp_path):
    rng = np.random.default_rng(3)
    values = rng.normal(size=3000) * 10.0 ** rng.integers(-300, 300, 3000)
    path = tmp_path / "people.csv"
    path.write_text("a,g,y,id\n" + "".join(f"{v!r},u,{v:.17e},1\n" for v in values.tolist()))
    found = read(path)
    assert [float(a) for a, *_ in found] == values.tolist()
