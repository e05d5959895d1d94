"""Versions of the tables, and the step from each to the next.

They are plain statements, not scripts of Alembic: there is one line of versions, each step is a few statements for two
databases, one transaction runs them all, and the version has its place in `meta` already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from privreg_field.service.store import tables as t
from privreg_field.service.store.kept import StoreError

_REPORT: Final = "study, token_id, k, role, grp, body_hash, vals"

_OF_STUDY: Final = ("study", "issuer", "revoked", "state", "report", "cell", "snapshot", "counter", "share", "batch")

_FIRST: Final = """\
INSERT INTO access (study, digest, name, may)
SELECT DISTINCT {study}, analyst, 'analyst', 'results cells' FROM study
WHERE (moved IS NULL OR moved = 'backup') AND NOT EXISTS (
SELECT 1 FROM revoked WHERE revoked.study = {study} AND token_id = substr(analyst, 1, 16))"""

STEPS: Final[Mapping[int, Mapping[str, tuple[str, ...]]]] = {
    # Of version 1 there are databases with a table of leases, with rows of reports in the order in which they came, and
    # with names too short for an analysis
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
    # Of version 2 the first token of those who read results was in the study's row, all others in a file
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
    if not sa.inspect(c).has_table(t.meta.name):
        return 0
    found = c.execute(sa.select(t.meta.c.value).where(t.meta.c.name == "format")).scalar()
    return int(found or 0)


def must_be_known(found: int, name: str) -> None:
    """Refuse a version of the tables that this release can't bring to its own. Raises StoreError."""
    if found > t.FORMAT:
        raise StoreError(
            f"{name} has tables of version {found}, of a later release of privreg; this one has version {t.FORMAT}. "
            "Update it: pip install -U privreg."
        )


def must_be_this(found: int, name: str) -> None:
    """Refuse tables of any version but this release's. Raises StoreError."""
    must_be_known(found, name)
    if found < t.FORMAT:
        raise StoreError(
            f"{name} has tables of version {found}; this release has version {t.FORMAT}. Stop privreg serve, and run "
            "privreg collector migrate with the same plan, --db and --role."
        )


def steps(found: int, dialect: str) -> list[str]:
    """Statements from a version to this release's."""
    return [line for version in range(found, t.FORMAT) for line in STEPS[version][dialect]]
