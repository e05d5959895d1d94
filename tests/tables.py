"""The same rows in every kind of table, file and database that a model takes, for the tests of sources."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather
import pyarrow.parquet as pq
import sqlalchemy as sa

import privreg as pr
from tests.databases import engine, sqlite

BOUNDS = {"x": (-1, 1), "k": (0, 9), "b": (0, 1), "f": (0, 1), "y": (-3, 5)}
LEVELS = {"g": ["u", "v", "w"]}
FORMULA = "y ~ x + k + b + f + g"


def model(data, formula=FORMULA, **more):
    given = {"mu": 1, "bounds": BOUNDS, "levels": LEVELS, "rows": 3000, "family": pr.Huber(scale=0.5), **more}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **given)


def bits(data, tuning="published", **more):
    """What a fit of rows as they come gives; the published chain takes a twelfth of the default fit's time."""
    how = {"order": "position"} if tuning == "efficient" else {}  # as files and queries are read
    res = model(data, **more).fit(seed=1, progress=False, threads=1, tuning=tuning, **how)
    return res.nobs, res.params.to_numpy().tobytes(), res.bse.to_numpy().tobytes()


def people(n=3000, seed=0):
    """Columns of every type that can be used, and one that must not be read."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "unused": "z",
            "x": rng.uniform(-1.2, 1.2, n),
            "k": rng.integers(0, 9, n),
            "b": rng.random(n) < 0.5,
            "f": rng.random(n).astype(np.float32),
            "g": rng.choice(["u", "v", "w"], n),
            "id": rng.integers(0, n // 2, n),
        }
    )
    data["y"] = data["x"] + 0.1 * data["k"] + data["b"] + 0.5 * (data["g"] == "v") + 0.3 * rng.standard_normal(n)
    return data


def gappy(n=3000):
    """The same with a missing value here and there, in every column but the id."""
    data = people(n).astype({"k": "Int64", "b": "boolean", "x": "Float64", "y": "Float64"})
    rng = np.random.default_rng(9)
    for column in ("x", "k", "b", "f", "g", "y"):
        data.loc[rng.random(n) < 0.02, column] = None
    return data


def folder(tmp, data, parts=12):
    """A folder of files, whose numbers are in another order as texts, with a stray file that is not data."""
    out = tmp / "folder"
    out.mkdir()
    for i, at in enumerate(np.array_split(np.arange(len(data)), parts)):
        data.iloc[at].to_parquet(out / f"part.{i}.parquet", row_group_size=101, index=False)
    (out / "_metadata.parquet").write_text("no data")
    return out


def sources(data, tmp):
    """Each kind of source by name, as functions that make it; files are written to `tmp`."""
    table = pa.Table.from_pandas(data, preserve_index=False)
    data.to_parquet(tmp / "whole.parquet", row_group_size=701, index=False)
    coded = table.set_column(table.column_names.index("g"), "g", table["g"].dictionary_encode())
    pq.write_table(coded, tmp / "coded.pq", row_group_size=977, compression="zstd")
    half = len(data) // 2
    for i, part in enumerate((data.iloc[:half], data.iloc[half:])):
        part.to_parquet(tmp / f"half-{i}.parquet", row_group_size=300, index=False)
    pyarrow.feather.write_feather(table, tmp / "whole.feather", chunksize=801)
    pyarrow.feather.write_feather(table, tmp / "plain.arrow", compression="uncompressed")
    plain = data.astype(object).where(data.notna(), None)
    plain.to_sql("people", sqlite(tmp / "people.db"), index=False)
    frame = pl.from_arrow(table)
    duck = duckdb.connect()
    duck.register("people", table)
    url = f"sqlite:///{tmp / 'people.db'}"
    rows = sa.table("people", *[sa.column(c) for c in data.columns])
    halves = [tmp / "half-0.parquet", str(tmp / "half-1.parquet")]
    parts = folder(tmp, data)
    return {
        "parquet": lambda: tmp / "whole.parquet",
        "parquet with dictionaries": lambda: str(tmp / "coded.pq"),
        "parquet folder": lambda: parts,
        "parquet list": lambda: halves,
        "table": lambda: table,
        "dataset of Feather": lambda: pads.dataset(tmp / "whole.feather", format="feather"),
        "dataset of Arrow's": lambda: pads.dataset(tmp / "plain.arrow", format="ipc"),
        "table with dictionaries": lambda: coded,
        "record batch": lambda: table.combine_chunks().to_batches()[0],
        "reader": lambda: table.to_reader(max_chunksize=333),
        "dataset": lambda: pads.dataset(halves),
        "stream": lambda: Streamed(frame),
        "polars": lambda: frame,
        "polars, categorical": lambda: frame.with_columns(pl.col("g").cast(pl.Categorical)),
        "polars, lazy": lambda: frame.lazy(),
        "polars, scanned": lambda: pl.scan_parquet(tmp / "whole.parquet"),
        "duckdb relation": lambda: duck.sql("SELECT * FROM people"),
        "duckdb query": lambda: pr.sql("SELECT * FROM people;", duck),
        "duckdb parameters": lambda: pr.sql("SELECT * FROM people WHERE unused = ?", duck, ["z"]),
        "sqlite": lambda: pr.sql("SELECT * FROM people -- all\n;", sqlite(tmp / "people.db")),
        "sqlite parameters": lambda: pr.sql("SELECT * FROM people WHERE unused = ?", sqlite(tmp / "people.db"), ("z",)),
        "url": lambda: pr.sql("SELECT * FROM people", url),
        "engine": lambda: pr.sql("SELECT * FROM people WHERE unused = :u", engine(url), {"u": "z"}),
        "connection": lambda: pr.sql(sa.text("SELECT * FROM people"), engine(url).connect()),
        "select": lambda: pr.sql(sa.select(rows).where(rows.c.unused == "z"), engine(url)),
    }


NAMES = (
    *("parquet", "parquet with dictionaries", "parquet folder", "parquet list", "table", "dataset of Feather"),
    *("dataset of Arrow's", "table with dictionaries", "record batch", "reader", "dataset", "stream", "polars"),
    *("polars, categorical", "polars, lazy", "polars, scanned", "duckdb relation", "duckdb query", "duckdb parameters"),
    *("sqlite", "sqlite parameters", "url", "engine", "connection", "select"),
)
KNOWN = {*NAMES[:5], "table with dictionaries", "record batch", "polars", "polars, categorical"}
"""Those whose number of rows is known when they are opened."""


class Streamed:
    """Some library's table, known by its Arrow stream alone."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame.__arrow_c_stream__(requested_schema)
