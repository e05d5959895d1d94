"""Tables of the collector. Laid out so that several workers on one server can share them; SQLite needs the first nine.

Sums are whole numbers of 64 bits, little-endian, in binary columns; squares two rows of them, see
`privreg_field.collector.chain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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
    Text,
)

FORMAT: Final = 3  # Version of the tables; a change of them needs a step in `versions`

METADATA: Final = MetaData()

meta = Table("meta", METADATA, Column("name", String(64), primary_key=True), Column("value", String))


def _of_study(name: str, key: Sequence[str], *rest: Any, metadata: MetaData = METADATA, **more: Any) -> Table:
    """A table whose rows are of one study each, and that beside it has these columns as its key."""
    own = Column("study", String(127), nullable=False)
    return Table(name, metadata, own, *rest, PrimaryKeyConstraint("study", *key), **more)


study = Table(
    "study",
    METADATA,
    Column("slug", String(127), primary_key=True),
    Column("plan_hash", LargeBinary, nullable=False),
    Column("plan", LargeBinary, nullable=False),  # The signed envelope
    Column("status", String(16), nullable=False),  # "open", "closed" by hand, or "sealed": no report counts any more
    Column("issued", BigInteger, nullable=False),  # Tokens that were handed out
    Column("seq", BigInteger, nullable=False),  # Number of the last report
    Column("moved", String(1024)),  # Where the study is since; then nothing here counts
    Column("erased", BigInteger),  # When reports were deleted, in seconds since 1970; their sums stay
)

issuer = _of_study(
    "issuer",
    ("key",),
    Column("key", Integer, nullable=False),  # 1 to 255: the first byte of its tokens
    Column("secret", LargeBinary, nullable=False),  # Encrypted, if a key was given
    Column("revoked", Integer, nullable=False),
)

access = _of_study(
    "access",
    ("digest",),
    Column("digest", LargeBinary(32), nullable=False),  # SHA-256 of a token of whoever reads results or operates
    Column("name", Text, nullable=False),
    Column("may", String(64), nullable=False),  # Roles, with blanks between
    Column("until", BigInteger),  # Seconds since 1970 when it ends
)

revoked = _of_study("revoked", ("token_id",), Column("token_id", LargeBinary(16), nullable=False))

state = _of_study(
    "state",
    ("k",),
    Column("k", Integer, nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("prev", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
)

report = _of_study(
    "report",
    ("token_id",),
    Column("token_id", LargeBinary(16), nullable=False),
    Column("k", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("grp", Integer, nullable=False),
    Column("body_hash", LargeBinary(32), nullable=False),
    Column("vals", LargeBinary, nullable=False),  # int32, little-endian
    ForeignKeyConstraint(["study", "k"], ["state.study", "state.k"]),
    sqlite_with_rowid=False,  # rows' own numbers would tell in which order reports came
)

cell = _of_study(
    "cell",
    ("k", "role", "grp"),
    Column("k", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("grp", Integer, nullable=False),
    Column("people", BigInteger, nullable=False),
    Column("sums", LargeBinary, nullable=False),
    Column("squares", LargeBinary, nullable=False),
    Column("upto", BigInteger, nullable=False),  # The last report in it
)

snapshot = _of_study(
    "snapshot",
    ("k",),
    Column("k", Integer, nullable=False),
    Column("cells", LargeBinary, nullable=False),  # JSON: all cells when state k closed
)

counter = _of_study(
    "counter",
    ("minute", "name"),
    Column("minute", BigInteger, nullable=False),  # Since 1970
    Column("name", String(32), nullable=False),
    Column("count", BigInteger, nullable=False),
)

# --- studies with two collectors ------------------------------------------------------------------------------

SUMS: Final = MetaData()  # Tables of such studies beside the others; databases of other studies are without them

share = _of_study(
    "share",
    ("token_id",),
    Column("token_id", LargeBinary(16), nullable=False),
    Column("k", Integer, nullable=False),
    Column("status", String(8), nullable=False),  # "held", "summed" or "unsummed"; never out of "summed"
    Column("body_hash", LargeBinary(32), nullable=False),
    Column("sealed", LargeBinary),  # By the batch's key, which is in no table; null once it is not held
    Index("share_by_batch", "study", "k", "status"),
    metadata=SUMS,
    sqlite_with_rowid=False,
)

batch = _of_study(
    "batch",
    ("k",),
    Column("k", Integer, nullable=False),
    Column("status", String(10), nullable=False),  # See `kept.Batch`
    Column("offer", LargeBinary, nullable=False),
    Column("ids", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("peer_hash", LargeBinary, nullable=False),
    Column("peer_value", LargeBinary, nullable=False),
    metadata=SUMS,
)
