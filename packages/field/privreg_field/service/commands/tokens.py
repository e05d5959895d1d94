"""`privreg tokens`: invitations, each of which entitles to one report."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Callable, Sequence
from functools import partial

from privreg.base.archive import write_bytes
from privreg.errors import OptionError
from privreg_field.service.commands import mail, settings
from privreg_field.service.commands.prepare import HERE, PORT, database_of, envelope_of, plans_of, prepared
from privreg_field.service.course import opened
from privreg_field.service.sums import command as two
from privreg_field.service.tokens import Issuer, new_secret
from privreg_field.service.tokens import opened as secret_of
from privreg_field.study import keys
from privreg_field.study.running import done, parser_of
from privreg_field.wire.analyses import word_of


def tokens(arguments: Sequence[str]) -> int:
    """Run ``privreg tokens``."""
    return done(parser_of("tokens"), arguments, _tokens, partial(settings.completed, names=settings.SHARED[:3]))


def _tokens(a: argparse.Namespace) -> str:
    root = keys.given(a.key, "--key")
    plans_of(a)
    if (a.n is None) == (a.mail is None):
        raise OptionError("say how many, -n N, or for whom, --mail FILE.")
    people = None if a.mail is None else mail.read_people(a.mail)
    count = write_tokens(
        a.plan, database_of(a), root, a.n if people is None else len(people.rows), a.out, a.server, role=a.role,
        issuer=a.issuer_file, people=people,
        codes=None if a.qr is None else partial(mail.write_codes, folder=a.qr, kind=a.qr_kind),
    )  # fmt: skip
    wrote = f"Wrote {count:,} invitations to {a.out!r}: hand each to one person, and delete the file."
    if a.role is None or a.issuer_file is not None:
        return wrote
    return f"{wrote} The other collector takes them only if it has this issuer's key, see --issuer-file."


def write_tokens(
    plan: str, db: str, root: bytes, count: int, out: str, server: str | None = None, *, role: str | None = None,
    issuer: str | None = None, people: mail.People | None = None, codes: Callable[[list[str]], list[str]] | None = None,
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
        two.write_issuer(issuer, number, secret, plan_hash)
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    made = list(Issuer(number, secret, plan_hash).tokens(count))
    columns = [[keys.invitation(server, said.study, root, token) for token in made]]
    if codes is not None:
        columns.append(codes(columns[0]))
    lines.writerow([*(people.header if people else []), *mail.ADDED[: len(columns)]])
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
