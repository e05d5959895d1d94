"""`privreg tokens`: invitations, each of which entitles to one report; for a list of people, links and QR codes."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from privreg.base.archive import write_bytes
from privreg.base.optional import need
from privreg.errors import OptionError
from privreg_field import KIT
from privreg_field.service.access import Issuer, new_secret
from privreg_field.service.access import opened as secret_of
from privreg_field.service.commands import prepare
from privreg_field.service.commands.prepare import HERE, PORT, database_of, envelope_of, plans_of, prepared
from privreg_field.service.scheduler import opened
from privreg_field.study import keys
from privreg_field.study.running import done, parser_of
from privreg_field.wire import wire
from privreg_field.wire.analyses import word_of


def tokens(arguments: Sequence[str]) -> int:
    """Run ``privreg tokens``."""
    return done(parser_of("tokens"), arguments, _tokens, partial(prepare.completed, names=prepare.SHARED[:3]))


def _tokens(a: argparse.Namespace) -> str:
    root = keys.given(a.key, "--key")
    plans_of(a)
    if (a.n is None) == (a.mail is None):
        raise OptionError("say how many, -n N, or for whom, --mail FILE.")
    people = None if a.mail is None else read_people(a.mail)
    count = write_tokens(
        a.plan, database_of(a), root, a.n if people is None else len(people.rows), a.out, a.server, role=a.role,
        issuer=a.issuer_file, people=people,
        codes=None if a.qr is None else partial(write_codes, folder=a.qr, kind=a.qr_kind),
    )  # fmt: skip
    wrote = f"Wrote {count:,} invitations to {a.out!r}: hand each to one person, and delete the file."
    if a.role is None or a.issuer_file is not None:
        return wrote
    return f"{wrote} The other collector takes them only if it has this issuer's key, see --issuer-file."


def write_tokens(
    plan: str, db: str, root: bytes, count: int, out: str, server: str | None = None, *, role: str | None = None,
    issuer: str | None = None, people: People | None = None, codes: Callable[[list[str]], list[str]] | None = None,
) -> int:  # fmt: skip
    """Write `count` invitations, which pin the key `root` that has signed the plan, to the new file `out`.

    For `plan`, `db` and `role` see `prepared`. `server` is the address that devices reach the study at, by default the
    leading collector's, or this machine. `issuer` is a new file with the secret of the issuer, for the other of two
    collectors. Each of `people` has one, in a row with what their list has; `codes` writes QR codes of links, and names
    the files.
    """
    if count < 1:
        raise OptionError(f"-n {count} must be 1 or more.")
    plans, plan_hash = opened(envelope_of(plan), root)
    said = plans[0]
    if said.tokens != "issued":
        raise OptionError("this study is open: anybody's device makes its own token.")
    if server is None:
        server = said.collectors[0].url if said.collectors else f"http://{HERE}:{PORT}"
    stores = prepared(plan, db, role=role)
    store = stores[0]
    have = store.issuers()
    number = max(have, default=0)
    if number:
        secret = secret_of(have[number])
    else:
        secret, kept = new_secret()
        number = store.issue(kept)
    if issuer is not None:
        members = {"v": wire.VERSION, "plan": wire.base(plan_hash), "key": number, "secret": wire.base(secret)}
        write_bytes(issuer, wire.dumps(members) + b"\n", secret=True, new=True)
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    made = list(Issuer(number, secret, plan_hash).tokens(count))
    columns = [[keys.invitation(server, said.study, root, token) for token in made]]
    if codes is not None:
        columns.append(codes(columns[0]))
    lines.writerow([*(people.header if people else []), *ADDED[: len(columns)]])
    lines.writerows(
        [*row, *more]
        for row, more in zip(people.rows if people else [[]] * count, zip(*columns, strict=True), strict=True)
    )
    dealt = [0] * len(plans)
    for token in made:
        word = word_of(plan_hash, token.id)
        dealt = [n + (one.part.people[0] <= word < one.part.people[1]) for n, one in zip(dealt, plans, strict=True)]
    write_bytes(out, text.getvalue().encode(), secret=True, new=True)
    for one, some in zip(stores, dealt, strict=True):
        one.handed_out(some)
    return count


NEEDED: Final = ("name", "address")
ADDED: Final = ("link", "qr")


class People(NamedTuple):
    """A list of people to invite."""

    header: list[str]
    rows: list[list[str]]


def read_people(path: str) -> People:
    """Read a list: a CSV file with the columns name and address, and any others.
    Raises OptionError if there is none that can be read, or a row is incomplete or there twice. Messages name rows,
    never what is in them.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file, strict=True) if any(cell.strip() for cell in row)]
    except (OSError, ValueError, csv.Error):
        raise OptionError(f"--mail {path!r} can't be read, or is empty; give a CSV file in UTF-8.") from None
    header = [name.strip() for name in header]
    if not set(NEEDED) <= set(header) or set(ADDED) & set(header) or len(set(header)) < len(header):
        raise OptionError(f"--mail {path!r} needs columns name and address, each once, and none named link or qr.")
    places = [header.index(name) for name in NEEDED]
    seen: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows, 1):
        if len(row) != len(header) or not all(row[i].strip() for i in places):
            raise OptionError(f"--mail {path!r}: person {number} has no name, no address, or too few or many cells.")
        before = seen.setdefault(tuple(row[i].strip().casefold() for i in places), number)
        if before != number:
            raise OptionError(f"--mail {path!r}: persons {before} and {number} are the same; each gets one invitation.")
    if not rows:
        raise OptionError(f"--mail {path!r} names nobody.")
    return People(header, rows)


def write_codes(links: list[str], folder: str, kind: str = "svg") -> list[str]:
    """Write each link's QR code to a file in a new folder, which only its owner may read; names of the files.
    Raises OptionError if segno is missing, or the folder exists or can't be made.
    """
    segno = need("segno", "qr", "QR codes", KIT)
    try:
        Path(folder).mkdir(mode=0o700)
    except OSError:
        raise OptionError(f"--qr {folder!r} exists, or can't be made; name a new folder.") from None
    out = []
    for number, link in enumerate(links, 1):
        made = io.BytesIO()
        segno.make_qr(link, error="m").save(made, kind=kind, scale=6)
        out.append(str(Path(folder) / f"{number:06d}.{kind}"))
        write_bytes(out[-1], made.getvalue(), secret=True, new=True)
    return out
