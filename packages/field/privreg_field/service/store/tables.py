"""Tables of the collector, their versions, and the step from each version to the next.

Several servers can share them. Sums are whole numbers of 64 bits, little-endian, in binary columns; squares two rows of
them, see `privreg_field.collector.chain`. Steps are plain statements, not scripts of Alembic: there is one line of
versions, each step is a few statements for two databases, one transaction runs them all, and the version has its place
in `meta` already.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from privreg_field import KIT
from privreg_field.service.store.records import StoreError

FORMAT: Final = 3  # Version of the tables; a change of them needs a step in `versions`

METADATA: Final = sa.MetaData()

meta = sa.Table("meta", METADATA, sa.Column("name", sa.String(64), primary_key=True), sa.Column("value", sa.String))


def _of_study(name: str, key: Sequence[str], *rest: Any, metadata: sa.MetaData = METADATA, **more: Any) -> sa.Table:
    """A table whose rows are of one study each, and that beside it has these columns as its key."""
    study = sa.Column("study", sa.String(127), nullable=False)
    return sa.Table(name, metadata, study, *rest, sa.PrimaryKeyConstraint("study", *key), **more)


study = sa.Table(
    "study",
    METADATA,
    sa.Column("slug", sa.String(127), primary_key=True),
    sa.Column("plan_hash", sa.LargeBinary, nullable=False),
    sa.Column("plan", sa.LargeBinary, nullable=False),  # The signed envelope
    sa.Column("status", sa.String(16), nullable=False),  # "open", "closed" by hand, or "sealed": no report counts
    sa.Column("issued", sa.BigInteger, nullable=False),  # Tokens that were handed out
    sa.Column("seq", sa.BigInteger, nullable=False),  # Number of the last report
    sa.Column("moved", sa.String(1024)),  # Database that the study was moved to; then nothing here counts
    sa.Column("erased", sa.BigInteger),  # When reports were deleted, in seconds since 1970; their sums stay
)

issuer = _of_study(
    "issuer",
    ("key",),
    sa.Column("key", sa.Integer, nullable=False),  # 1 to 255: the first byte of its tokens
    sa.Column("secret", sa.LargeBinary, nullable=False),  # Encrypted, if a key was given
    sa.Column("revoked", sa.Integer, nullable=False),
)

access = _of_study(
    "access",
    ("digest",),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),  # SHA-256 of a token of whoever reads results or operates
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("may", sa.String(64), nullable=False),  # Roles, with blanks between
    sa.Column("until", sa.BigInteger),  # Seconds since 1970 when it ends
)

revoked = _of_study("revoked", ("token_id",), sa.Column("token_id", sa.LargeBinary(16), nullable=False))

state = _of_study(
    "state",
    ("k",),
    sa.Column("k", sa.Integer, nullable=False),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("prev", sa.LargeBinary, nullable=False),
    sa.Column("time", sa.BigInteger, nullable=False),
)

report = _of_study(
    "report",
    ("token_id",),
    sa.Column("token_id", sa.LargeBinary(16), nullable=False),
    sa.Column("k", sa.Integer, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("grp", sa.Integer, nullable=False),
    sa.Column("body_hash", sa.LargeBinary(32), nullable=False),
    sa.Column("vals", sa.LargeBinary, nullable=False),  # int32, little-endian
    sa.ForeignKeyConstraint(["study", "k"], ["state.study", "state.k"]),
    sqlite_with_rowid=False,  # rows' own numbers would tell in which order reports came
)

cell = _of_study(
    "cell",
    ("k", "role", "grp"),
    sa.Column("k", sa.Integer, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("grp", sa.Integer, nullable=False),
    sa.Column("people", sa.BigInteger, nullable=False),
    sa.Column("sums", sa.LargeBinary, nullable=False),
    sa.Column("squares", sa.LargeBinary, nullable=False),
    sa.Column("upto", sa.BigInteger, nullable=False),  # The last report in it
)

snapshot = _of_study(
    "snapshot",
    ("k",),
    sa.Column("k", sa.Integer, nullable=False),
    sa.Column("cells", sa.LargeBinary, nullable=False),  # JSON: all cells when state k closed
)

counter = _of_study(
    "counter",
    ("minute", "name"),
    sa.Column("minute", sa.BigInteger, nullable=False),  # Since 1970
    sa.Column("name", sa.String(32), nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
)

# --- studies with two collectors ------------------------------------------------------------------------------

SUMS: Final = sa.MetaData()  # Tables of such studies beside the others; databases of other studies are without them

share = _of_study(
    "share",
    ("token_id",),
    sa.Column("token_id", sa.LargeBinary(16), nullable=False),
    sa.Column("k", sa.Integer, nullable=False),
    sa.Column("status", sa.String(8), nullable=False),  # "held", "summed" or "unsummed"; never out of "summed"
    sa.Column("body_hash", sa.LargeBinary(32), nullable=False),
    sa.Column("sealed", sa.LargeBinary),  # Sealed by the batch's key, which is in no table; null once it is not held
    sa.Index("share_by_batch", "study", "k", "status"),
    metadata=SUMS,
    sqlite_with_rowid=False,
)

batch = _of_study(
    "batch",
    ("k",),
    sa.Column("k", sa.Integer, nullable=False),
    sa.Column("status", sa.String(10), nullable=False),  # See `records.Batch`
    sa.Column("offer", sa.LargeBinary, nullable=False),
    sa.Column("ids", sa.LargeBinary, nullable=False),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.Column("peer_hash", sa.LargeBinary, nullable=False),
    sa.Column("peer_value", sa.LargeBinary, nullable=False),
    metadata=SUMS,
)


_REPORT: Final = "study, token_id, k, role, grp, body_hash, vals"

_OF_STUDY: Final = ("study", "issuer", "revoked", "state", "report", "cell", "snapshot", "counter", "share", "batch")

_FIRST: Final = """\
INSERT INTO access (study, digest, name, may)
SELECT DISTINCT {study}, analyst, 'analyst', 'results cells' FROM study
WHERE (moved IS NULL OR moved = 'backup') AND NOT EXISTS (
SELECT 1 FROM revoked WHERE revoked.study = {study} AND token_id = substr(analyst, 1, 16))"""

STEPS: Final[Mapping[int, Mapping[str, tuple[str, ...]]]] = {
    # Version 1: some databases have a table of leases, rows of reports in the order in which they came, and names too
    # short for an analysis
    1: {
        "sqlite": (
            "ALTER TABLE study ADD COLUMN moved VARCHAR(1024)",
            "ALTER TABLE study ADD COLUMN erased BIGINT",
            "DROP TABLE IF EXISTS lease",
            "CREATE TABLE report_2 (study VARCHAR(127) NOT NULL, token_id BLOB NOT NULL, k INTEGER NOT NULL, "
            "role VARCHAR(16) NOT NULL, grp INTEGER NOT NULL, body_hash BLOB NOT NULL, vals BLOB NOT NULL, "
            "PRIMARY KEY (study, token_id), FOREIGN KEY(study, k) REFERENCES state (study, k)) WITHOUT ROWID",
            f"INSERT INTO report_2 SELECT {_REPORT} FROM report ORDER BY study, token_id",
            "DROP TABLE report",
            "ALTER TABLE report_2 RENAME TO report",
            "CREATE INDEX report_by_place ON report (study, k, role, grp)",
        ),
        "postgresql": (
            *(
                f"ALTER TABLE IF EXISTS {name} ALTER COLUMN {'slug' if name == 'study' else 'study'} TYPE VARCHAR(127)"
                for name in _OF_STUDY
            ),
            "ALTER TABLE study ADD COLUMN moved VARCHAR(1024)",
            "ALTER TABLE study ADD COLUMN erased BIGINT",
            "ALTER TABLE report DROP COLUMN seq",
        ),
    },
    # Version 2: the first token of those who read results is in the study's row, all others in a file
    2: {
        "sqlite": (
            "CREATE TABLE access (study VARCHAR(127) NOT NULL, digest BLOB NOT NULL, name TEXT NOT NULL, "
            "may VARCHAR(64) NOT NULL, until BIGINT, PRIMARY KEY (study, digest))",
            _FIRST.format(study="substr(slug, 1, instr(slug || '/', '/') - 1)"),
            "CREATE TABLE study_3 (slug VARCHAR(127) NOT NULL, plan_hash BLOB NOT NULL, plan BLOB NOT NULL, "
            "status VARCHAR(16) NOT NULL, issued BIGINT NOT NULL, seq BIGINT NOT NULL, moved VARCHAR(1024), "
            "erased BIGINT, PRIMARY KEY (slug))",
            "INSERT INTO study_3 SELECT slug, plan_hash, plan, status, issued, seq, moved, erased FROM study",
            "DROP TABLE study",
            "ALTER TABLE study_3 RENAME TO study",
            "DROP INDEX report_by_place",
        ),
        "postgresql": (
            "CREATE TABLE access (study VARCHAR(127) NOT NULL, digest BYTEA NOT NULL, name TEXT NOT NULL, "
            "may VARCHAR(64) NOT NULL, until BIGINT, PRIMARY KEY (study, digest))",
            _FIRST.format(study="split_part(slug, '/', 1)"),
            "ALTER TABLE study DROP COLUMN analyst",
            "ALTER TABLE meta ALTER COLUMN value TYPE VARCHAR",
            "DROP INDEX report_by_place",
        ),
    },
}
"""From each version to the next, statements by dialect."""


def version_of(c: sa.Connection) -> int:
    """Version of a database's tables; 0 if it has none."""
    if not sa.inspect(c).has_table(meta.name):
        return 0
    found = c.execute(sa.select(meta.c.value).where(meta.c.name == "format")).scalar()
    return int(found or 0)


def must_be_known(found: int, name: str) -> None:
    """Refuse a version of the tables that this release can't bring to its own. Raises StoreError."""
    if found > FORMAT:
        raise StoreError(
            f"{name} has tables of version {found}, of a later release of privreg; this one has version {FORMAT}. "
            f'Install that release, in its clone: pip install . "{KIT}[serve]".'
        )


def must_be_this(found: int, name: str) -> None:
    """Refuse tables of any version but this release's. Raises StoreError."""
    must_be_known(found, name)
    if found < FORMAT:
        raise StoreError(
            f"{name} has tables of version {found}; this release has version {FORMAT}. Stop privreg serve, and run "
            "privreg collector migrate with the same plan, --db and --role."
        )


def steps(found: int, dialect: str) -> list[str]:
    """Statements from a version to this release's."""
    return [line for version in range(found, FORMAT) for line in STEPS[version][dialect]]
