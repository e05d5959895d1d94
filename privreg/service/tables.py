"""Tables of the collector. Laid out so that several workers on one server can share them; SQLite needs the first eight.

Sums are whole numbers of 64 bits, little-endian, in binary columns; squares two rows of them, see `collector.chain`.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
)

FORMAT: Final = 1
"""Of the tables; a database of a later one is refused."""

METADATA: Final = MetaData()

meta = Table("meta", METADATA, Column("name", String(64), primary_key=True), Column("value", String(256)))

study = Table(
    "study",
    METADATA,
    Column("slug", String(63), primary_key=True),
    Column("plan_hash", LargeBinary, nullable=False),
    Column("plan", LargeBinary, nullable=False),  # The signed envelope
    Column("status", String(16), nullable=False),  # "open", "closed" by hand, or "sealed": no report counts any more
    Column("analyst", LargeBinary, nullable=False),  # SHA-256 of the token by which results may be read
    Column("issued", BigInteger, nullable=False),  # Tokens that were handed out
    Column("seq", BigInteger, nullable=False),  # Number of the last report
)

issuer = Table(
    "issuer",
    METADATA,
    Column("study", String(63), nullable=False),
    Column("key", Integer, nullable=False),  # 1 to 255: the first byte of its tokens
    Column("secret", LargeBinary, nullable=False),  # Encrypted, if a key was given
    Column("revoked", Integer, nullable=False),
    PrimaryKeyConstraint("study", "key"),
)

revoked = Table(
    "revoked",
    METADATA,
    Column("study", String(63), nullable=False),
    Column("token_id", LargeBinary(16), nullable=False),
    PrimaryKeyConstraint("study", "token_id"),
)

state = Table(
    "state",
    METADATA,
    Column("study", String(63), nullable=False),
    Column("k", Integer, nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("prev", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
    PrimaryKeyConstraint("study", "k"),
)

report = Table(
    "report",
    METADATA,
    Column("study", String(63), nullable=False),
    Column("token_id", LargeBinary(16), nullable=False),
    Column("k", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("grp", Integer, nullable=False),
    Column("body_hash", LargeBinary(32), nullable=False),
    Column("vals", LargeBinary, nullable=False),  # int32, little-endian
    Column("seq", BigInteger),  # In which order cells took it in; none before
    PrimaryKeyConstraint("study", "token_id"),
    ForeignKeyConstraint(["study", "k"], ["state.study", "state.k"]),
    Index("report_by_place", "study", "k", "role", "grp"),
    sqlite_with_rowid=False,  # rows' own numbers would tell in which order reports came
)

cell = Table(
    "cell",
    METADATA,
    Column("study", String(63), nullable=False),
    Column("k", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("grp", Integer, nullable=False),
    Column("people", BigInteger, nullable=False),
    Column("sums", LargeBinary, nullable=False),
    Column("squares", LargeBinary, nullable=False),
    Column("upto", BigInteger, nullable=False),  # The last report in it
    PrimaryKeyConstraint("study", "k", "role", "grp"),
)

snapshot = Table(
    "snapshot",
    METADATA,
    Column("study", String(63), nullable=False),
    Column("k", Integer, nullable=False),
    Column("cells", LargeBinary, nullable=False),  # JSON: all cells when state k closed
    PrimaryKeyConstraint("study", "k"),
)

counter = Table(
    "counter",
    METADATA,
    Column("study", String(63), nullable=False),
    Column("minute", BigInteger, nullable=False),  # Since 1970
    Column("name", String(32), nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("study", "minute", "name"),
)
