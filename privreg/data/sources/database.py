"""Rows of SQL queries: of DuckDB as Arrow batches, of SQLAlchemy and DBAPI connections as rows fetched in turn."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from privreg.base.optional import need, recent
from privreg.data.sources.source import CHUNK, Batch, Source, Wanted, beyond, check_labels
from privreg.data.sources.tables import foreign, quoted
from privreg.errors import DataError, MissingExtraError, PrivregError, quietly, refuse
from privreg.privacy.accounts import comes_from

_ALIAS: Final = "privreg_rows"
_BACKTICKS: Final = ("MySQLdb", "pymysql", "mysql", "mariadb", "aiomysql")
"""Drivers of databases to which "a" is a text, not a column."""


@dataclass(frozen=True, repr=False, eq=False)
class Sql:
    """An SQL query and where to ask it; made by :func:`sql`. It shows neither text, nor parameters, nor address."""

    query: Any = field(repr=False)
    connection: Any = field(repr=False)
    parameters: Any = field(repr=False, default=None)

    def __repr__(self) -> str:
        return f"<SQL query on {_place(self.connection)}>"

    def __reduce__(self) -> str:
        raise TypeError("an SQL query holds a connection and can't be pickled; make it again with privreg.sql()")


def sql(query: Any, connection: Any, parameters: Any = None) -> Sql:
    """Rows of an SQL query, to be given to a model as its data.

    Parameters
    ----------
    query : str or SQLAlchemy select
        Only the columns of the formula are asked for: the query becomes the inner one of
        ``SELECT "age", "bmi" FROM (query)``.
    connection : DuckDB connection, SQLAlchemy engine, connection or URL, or DBAPI connection
        Connections stay open, and are the caller's. A URL is a string such as ``"postgresql://localhost/health"``.
    parameters : mapping or sequence, optional
        Values of the query's placeholders, in the database's own way of writing them.

    Raises
    ------
    UnsupportedArgumentError
        If the query or the connection is of another kind, or the text is more than one statement or not a query.

    Notes
    -----
    A text must be one statement that begins with SELECT, WITH, FROM, VALUES or TABLE. What it calls is run by the
    database as the connection's user; a query of somebody else's goes to a user who may only read. How many rows will
    come isn't known beforehand: give the model ``rows=``, if it is public. Without ``ORDER BY`` rows may come in
    another order each time, and the same seed then gives other results. Some DBAPI drivers hold all rows in memory; an
    SQLAlchemy engine asks for a cursor at the server.

    Examples
    --------
    >>> import sqlite3
    >>> import privreg as pr
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE people AS SELECT 1.0 AS dose, 2.0 AS y")
    >>> pr.sql("SELECT * FROM people", connection)
    <SQL query on sqlite3>
    >>> connection.close()
    """
    text, opening = isinstance(query, str), _opening(connection)
    bare = _ASIDE.sub(lambda found: " " if found[0][:1] in "-/" else "''", query).strip(" \t\r\n;(") if text else ""
    first = re.match(r"[A-Za-z]*", bare)
    wrong = {
        f"the query is of type {type(query).__name__}; give a string with an SQL query, or an SQLAlchemy select":
        not text and not hasattr(query, "subquery"),
        "the query is empty; give one such as 'SELECT * FROM people'": text and not _bare(query),
        "the text is no query: it must begin with SELECT or WITH (or FROM, VALUES, TABLE), such as 'SELECT * FROM "
        "people'. Run other statements on the connection itself":  # tables must not be dropped by mistake
        text and (first is None or first[0].lower() not in _READS),
        "the text holds more than one statement; give one query, and run the others on the connection itself":
        ";" in bare,
        "the connection is a string that is no URL; give one such as 'sqlite:///people.db', or an open connection":
        isinstance(connection, str) and "://" not in connection,
        f"a connection of type {type(connection).__name__} can't be asked; give a DuckDB connection, an SQLAlchemy "
        "engine, connection or URL, or a DBAPI connection": opening is None,
        "an SQLAlchemy select needs an SQLAlchemy engine, connection or URL; give one, or the query as a string":
        not text and opening is not _of_sqlalchemy,
    }  # fmt: skip
    refuse(wrong)
    return Sql(query, connection, parameters)


_ASIDE: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`", re.DOTALL)
"""Comments, texts and quoted names."""
_READS: Final = ("select", "with", "from", "values", "table")


def _place(connection: Any) -> str:
    """The kind of database, without its address."""
    if isinstance(connection, str):
        return connection.partition(":")[0].partition("+")[0]
    if comes_from(connection, "sqlalchemy", "URL"):
        return str(connection.get_backend_name())
    if hasattr(connection, "dialect"):
        return str(connection.dialect.name)
    return type(connection).__module__.partition(".")[0].lstrip("_") or "a database"


def open_sql(data: Sql, wanted: Wanted) -> Source:
    """Rows of a query; of DuckDB none is asked for yet."""
    where = f"SQL query on {_place(data.connection)}"

    def fetched() -> Iterator[Batch]:
        begun, problem = False, list[PrivregError]()
        try:
            with _opening(data.connection)(data, wanted.columns, f"the {where}") as fetch:
                while rows := fetch():
                    begun, held = True, dict[str, Any]()
                    # a connection may hand out rows by name
                    plain = [[row[c] for c in wanted.columns] if isinstance(row, Mapping) else row for row in rows]
                    for name, values in zip(wanted.columns, zip(*plain, strict=True), strict=True):
                        held[name] = np.fromiter(values, dtype=object, count=len(plain))
                    yield held
        except (DataError, MissingExtraError):
            raise
        except Exception as e:  # whose text may quote a value
            broke = f": the database broke off ({type(e).__name__}); look after the connection and fit again."
            refused = f" was refused ({type(e).__name__}); try it on the connection itself, which says why."
            problem = [DataError(f"the {where}{broke if begun else refused}")]
            if isinstance(e, ModuleNotFoundError):
                words = f"the {where} needs the package {e.name!r}, its driver, which is not installed."
                problem = [MissingExtraError(words)]
        for error in problem:  # after the handler, so that nothing is attached as its context
            raise error

    if not comes_from(data.connection, "duckdb", "DuckDBPyConnection"):
        return Source(where, None, lambda skip: beyond(fetched(), skip), data)
    recent("duckdb")
    more = {} if data.parameters is None else {"params": data.parameters}
    refused = DataError("the SQL query on duckdb was refused; try it on the connection itself, which says why.")
    parts = quietly(lambda: data.connection.extract_statements(data.query), refused)
    if [part.type.name for part in parts] != ["SELECT"]:  # it would be run at once
        raise DataError("the SQL query on duckdb is not one query that selects rows; give one.")
    if (found := foreign(quietly(lambda: data.connection.sql(data.query, **more), refused))) is None:
        raise DataError("the SQL query on duckdb gives no rows; give one that selects some.")
    return Source(where, None, found.rows(wanted).batches, data)


# --- rows that are fetched -------------------------------------------------------------------------------

Fetch = Callable[[], Sequence[Sequence[Any]]]


def _opening(connection: Any) -> Any:
    if isinstance(connection, str) or comes_from(connection, "sqlalchemy", "Engine", "Connection", "URL"):
        return _of_sqlalchemy
    return _of_dbapi if callable(getattr(connection, "cursor", None)) else None


@contextmanager
def _of_dbapi(data: Sql, columns: Sequence[str], where: str) -> Iterator[Fetch]:
    mark = "`" if type(data.connection).__module__.partition(".")[0] in _BACKTICKS else '"'
    inner = f"FROM (\n{_bare(data.query)}\n) {_ALIAS}"
    more = () if data.parameters is None else (data.parameters,)
    with closing(data.connection.cursor()) as cursor, _lenient(data.connection):
        cursor.execute(f"SELECT * {inner} WHERE 1 = 0", *more)  # names alone; SQLite takes a wrong "a" for a text
        check_labels(columns, [c[0] for c in cursor.description or ()], where)
        cursor.execute(f"SELECT {', '.join(quoted(c, mark) for c in columns)} {inner}", *more)
        yield lambda: cursor.fetchmany(CHUNK)


@contextmanager
def _lenient(connection: Any) -> Iterator[None]:
    """Let SQLite's driver hand out texts that are no UTF-8, which would break off the query."""
    if not comes_from(connection, "sqlite3", "Connection"):
        yield
        return
    before = connection.text_factory
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        yield
    finally:
        connection.text_factory = before


@contextmanager
def _of_sqlalchemy(data: Sql, columns: Sequence[str], where: str) -> Iterator[Fetch]:
    sa = need("sqlalchemy", "sql", where)
    with ExitStack() as stack:
        connection = data.connection
        if isinstance(connection, str) or comes_from(connection, "sqlalchemy", "URL"):
            connection = sa.create_engine(connection)
            stack.callback(connection.dispose)
        if not comes_from(connection, "sqlalchemy", "Connection"):
            connection = stack.enter_context(connection.connect())
        elif not connection.in_transaction():
            stack.callback(connection.rollback)  # reading begins a transaction on the caller's connection
        bare = sa.text(_bare(data.query)) if isinstance(data.query, str) else data.query
        text = isinstance(bare, sa.TextClause)
        every = bare.columns() if text else bare
        labels = sa.select(sa.text("*")).select_from(every.subquery(_ALIAS)).where(sa.false())
        check_labels(columns, list(connection.execute(labels, data.parameters).keys()), where)
        names = bare.columns(*(sa.column(sa.sql.quoted_name(c, True)) for c in columns)) if text else bare
        inner = names.subquery(_ALIAS)
        # as the driver gives them: a type of SQLAlchemy's may fail on one value
        wanted = sa.select(*(sa.type_coerce(inner.c[c], sa.types.NullType()).label(c) for c in columns))
        driver = connection.connection.dbapi_connection
        how = {"stream_results": True, "max_row_buffer": CHUNK}  # a cursor at the server, where there is one
        with _lenient(driver), connection.execute(wanted, data.parameters, execution_options=how) as result:
            yield lambda: result.fetchmany(CHUNK)


def _bare(query: str) -> str:
    """A query without the semicolon that would end the inner one."""
    return query.strip().rstrip(";").rstrip()
