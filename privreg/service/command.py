"""Commands of whoever collects: `privreg serve`, `privreg tokens` and `privreg collector`."""

from __future__ import annotations

import argparse
import csv
import errno
import io
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

from privreg.collector.field import chain as chains
from privreg.collector.field.chain import Cell, Place
from privreg.errors import OptionError
from privreg.field import keys
from privreg.field.running import done, parser_of
from privreg.files.archive import write_bytes
from privreg.protocol.analyses import hash_of_part, word_of
from privreg.protocol.messages import read_token
from privreg.protocol.study import PublicPlan
from privreg.protocol.sums import LETTERS
from privreg.service import access, keeping, mail, operate, settings
from privreg.service.course import Course, opened
from privreg.service.logs import FORMS
from privreg.service.store import Store, open_store
from privreg.service.sums import command as two
from privreg.service.sums.course import SumCourse
from privreg.service.tokens import VARIABLE, Issuer, new_secret
from privreg.service.tokens import opened as secret_of

HERE: Final = "127.0.0.1"
PORT: Final = 8000
ENDING: Final = 45  # Seconds for requests that are not answered yet: more than a body may take

_SERVE: Final = """\
examples:
  privreg serve sleep.plan
  privreg serve sleep.plan --db sqlite:///sleep.db --port 8443 --rate 0
  privreg serve --config serve.toml

Keeps reports in SQLite beside the plan, or in PostgreSQL (--db), which is then
given to privreg tokens and privreg collector, too. States are signed by the key
that the plan names: server.key beside it, or --state-key. It speaks HTTP on this
machine alone; put a server that speaks HTTPS before it. Nothing is logged of
requests, unless --log json is said. Ctrl-C ends it, after it has answered what
was asked; it goes on where it was when it is started again.

Each option may be a line of a TOML file (--config), such as port = 8000, or a
variable, such as PRIVREG_SERVE_PORT. Options come before variables, and these
before the file. Passwords are read from PRIVREG_STORE_KEY and PGPASSWORD, or
from files that PRIVREG_STORE_KEY_FILE and PGPASSWORD_FILE name.
"""

_COLLECTOR: Final = f"""\
verbs:
  check        add up all reports again, and compare with the sums
  replay       make every state again, and compare it with the published one
  close        publish a last state that asks nobody
  rotate-keys  make the issuer a new key; --revoke takes an old one back
  export       write sums, states and counts as JSON, for anybody to recompute
{keeping.HELP}of who may read results or operate the server, by name:
  grant        write a token to --out for --name, who may do what --may says
  rotate-token write a token in place of that of --name, which ends --hours later
  revoke-token take back the tokens of --name at once
  list-tokens  names, and what each may do
of studies with two collectors:
  issuer       take in --issuer-file, by which the other's tokens are good here
"""


_ACCESS: Final = {
    "grant": "--name NAME --may ROLE --out FILE", "rotate-token": "--name NAME --out FILE",
    "revoke-token": "--name NAME alone", "list-tokens": "",
}  # fmt: skip


def _database(a: argparse.Namespace) -> str:
    return str(a.db or f"sqlite:///{_beside(a.plan, a.role, 'db')}")


def _beside(plan: str, role: str | None, kind: str) -> Path:
    """A file beside the plan, of one of two collectors if it has a role."""
    return Path(plan).with_suffix(f".{role}.{kind}" if role else f".{kind}")


def _opened(a: argparse.Namespace) -> tuple[tuple[PublicPlan, ...], bytes]:
    """The plan, for each analysis, and its hash; refuses a role where there is none to play, or none where there is."""
    a.plan = a.plan or a.config_plan
    if a.plan is None:
        raise OptionError('name the signed plan, PLAN, or give it as plan = "FILE" in the file of --config.')
    plans, plan_hash = opened(_read(a.plan))
    said = plans[0]
    if bool(said.collectors) != bool(a.role):
        raise OptionError(
            "this study has two collectors; say which of them this is: --role a, or --role b."
            if said.collectors
            else "this study has one collector; leave --role out."
        )
    return plans, plan_hash


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        raise OptionError(f"there is no plan {path!r} that can be read; make one by `privreg study sign`.") from None


def prepared(plan: str, db: str, out: Callable[[str], Any] = print, role: str | None = None) -> list[Store]:
    """Open the database of a signed plan's study at `db`, for each analysis, entering the study if it is new.

    For `db` see `open_store`; `out` prints where the analyst's token is. `role` is "a" or "b" of one of two collectors.

    A token that is there is kept, also for a database that is new: another one may have its hash.
    """
    envelope = _read(plan)
    plans, plan_hash = opened(envelope)
    stores: list[Store] = [open_store(db, one.slug, beside=_beside(plan, role, "db")) for one in plans]
    where = _beside(plan, role, "analyst")
    fresh = not where.is_file()
    token = secrets.token_urlsafe(32) if fresh else where.read_text("utf-8").strip()
    if not token:  # nobody's, which everybody could give
        raise OptionError(f"{str(where)!r} has no token; delete the file.")
    if fresh and not stores[0].known():  # written first: the database has its hash alone
        write_bytes(where, token.encode() + b"\n", secret=True, new=True)
    first = access.first_of(token)
    entered = [
        store.enter(hash_of_part(plan_hash, one.part.name), envelope, first)
        for store, one in zip(stores, plans, strict=True)
    ]
    if entered[0]:
        did = (
            "Wrote the analyst's token, by which results can be read, to"
            if fresh
            else f"{stores[0]} is new; its token is in"
        )
        out(f"{did} {str(where)!r}.")
    return stores


# --- serve ---------------------------------------------------------------------------------------------------


def serve(arguments: Sequence[str]) -> int:
    """Run ``privreg serve``."""
    parser = _parser("privreg serve", "Serve a study to devices, and collect their reports.", _SERVE)
    parser.add_argument("--host", default=HERE, help=f"address to listen at; {HERE}, this machine, by default")
    parser.add_argument("--port", type=int, default=PORT, help=f"{PORT} by default")
    parser.add_argument("--state-key", metavar="FILE", help="signs states; server.key beside the plan by default")
    parser.add_argument(
        "--rate", type=float, default=50.0, help="requests a second from one address; 50 by default, 0 for no limit"
    )
    parser.add_argument(
        "--proxy", action="store_true", help="believe the address that a server before it, on this machine, forwards"
    )
    parser.add_argument(
        "--proxy-at",
        metavar="ADDRESS",
        default=HERE,
        help=f"the address, or network, of that server; {HERE} by default",
    )
    parser.add_argument("--key", metavar="FILE", help="of one of two collectors: its keys; ROLE.key by default")
    parser.add_argument(
        "--shared",
        action="store_true",
        help="with PostgreSQL: others that say so, too, serve the study beside this one",
    )
    parser.add_argument("--public-results", action="store_true", help="let anybody read results")
    parser.add_argument(
        "--log", choices=FORMS, default=FORMS[0], help="json: a line an event, of requests too, without addresses"
    )
    return done(parser, arguments, _serve, settings.completed)


def _serve(a: argparse.Namespace) -> str:
    import uvicorn

    from privreg.service.desk import Desk, Options, application
    from privreg.service.guard import CONNECTIONS, Guarded, Proxied
    from privreg.service.logs import Journal, Logged, take_over

    (plan, *_), _ = _opened(a)
    if a.shared and plan.collectors:
        raise OptionError("a collector of a study with two has one server; leave --shared out.")
    journal = Journal(a.log)
    options = Options(rate=a.rate, public_results=a.public_results, journal=journal)
    services: list[Desk]
    if plan.collectors:
        from privreg.service.sums.app import SumService

        stores = prepared(a.plan, _database(a), role=a.role)
        own = str(a.key or Path(a.plan).with_name(f"{a.role}.key"))
        services = [SumService(two.course_of(store, a.role, own), options) for store in stores]
    else:
        from privreg.service.app import Service

        key = keys.load(a.state_key or Path(a.plan).with_name("server.key"))
        stores = prepared(a.plan, _database(a))
        services = [Service(Course(store, key), options) for store in stores]
    store = stores[0]
    if plan.tokens == "issued" and not store.issuers():
        there = ", or privreg collector issuer takes the other collector's" if plan.collectors else ""
        print(f"No tokens are known here yet: privreg tokens makes them{there}, also while this runs.")
    if VARIABLE not in os.environ and plan.tokens == "issued":
        print(f"The issuer's keys are kept as they are; set {VARIABLE} before they are made to have them encrypted.")
    app = application(*services)
    paths = {getattr(route, "endpoint", None): getattr(route, "path", "") for route in app.routes}

    class Server(uvicorn.Server):
        """Ends in the same way however often it is asked to, and while dashboards listen, whose events don't end."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            services[0].let_go()
            self.should_exit = True

    config = uvicorn.Config(
        Logged(app, journal, paths), host=a.host, port=a.port, access_log=False, log_level="warning",
        log_config=None, lifespan="on",
        server_header=False, timeout_keep_alive=30, backlog=2048, limit_concurrency=CONNECTIONS,
        http=Proxied if a.proxy else Guarded, proxy_headers=a.proxy, forwarded_allow_ips=a.proxy_at,
        timeout_graceful_shutdown=ENDING,
    )  # fmt: skip
    take_over(journal)
    with store.alone(shared=a.shared), _bound(a.host, a.port) as listening:
        where = f"http://{a.host}:{listening.getsockname()[1]}"
        print(f"Serving {plan.study!r} at {where}/v1/studies/{plan.study}; its page, by invitation:")
        print(f"{where}/studies/{plan.study}/", flush=True)
        journal("start", study=plan.study, state=len(services[0].course.states) - 1)
        Server(config).run([listening])
    journal("stop")
    for one in stores:
        one.leave()
    return "Stopped; everything that was acknowledged is kept."


def _bound(host: str, port: int) -> socket.socket:
    """A socket that has the address, which nobody else can take any more."""
    if not 0 <= port < 1 << 16:
        raise OptionError(f"--port {port} must be 0 (any that is free) to 65535.")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as e:
        why = "another program has it" if e.errno == errno.EADDRINUSE else "this machine doesn't have it, or let you"
        raise OptionError(f"port {port} of {host} can't be had: {why}; give another --port, or --host.") from None


# --- tokens --------------------------------------------------------------------------------------------------


def tokens(arguments: Sequence[str]) -> int:
    """Run ``privreg tokens``."""
    parser = _parser("privreg tokens", "Make invitations: each entitles to one report.")
    parser.add_argument("-n", type=int, metavar="N", help="how many")
    parser.add_argument(
        "--mail", metavar="FILE", help="CSV file of people, name and address: one for each, in --out beside them"
    )
    parser.add_argument("--qr", metavar="FOLDER", help="a new folder for the links' QR codes")
    parser.add_argument("--qr-kind", choices=mail.KINDS, default=mail.KINDS[0], help=f"{mail.KINDS[0]} by default")
    parser.add_argument("--out", required=True, metavar="FILE", help="a new CSV file of links, which only you may read")
    parser.add_argument(
        "--server",
        metavar="URL",
        help=f"address that devices reach the study at; of two collectors a's in the plan by default, else "
        f"http://{HERE}:{PORT}",
    )
    parser.add_argument(
        "--issuer-file", metavar="FILE", help="of one of two collectors: a new file with what the other needs"
    )
    parser.add_argument("--key", required=True, help="public key, or file of the key, that has signed the plan")
    return done(parser, arguments, _tokens, partial(settings.completed, names=settings.SHARED[:3]))


def _tokens(a: argparse.Namespace) -> str:
    root = keys.given(a.key, "--key")
    _opened(a)
    if (a.n is None) == (a.mail is None):
        raise OptionError("say how many, -n N, or for whom, --mail FILE.")
    people = None if a.mail is None else mail.read_people(a.mail)
    count = write_tokens(
        a.plan, _database(a), root, a.n if people is None else len(people.rows), a.out, a.server, role=a.role,
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
    plans, plan_hash = opened(_read(plan), root)
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


# --- collector -----------------------------------------------------------------------------------------------


def collector(arguments: Sequence[str]) -> int:
    """Run ``privreg collector``."""
    verbs = ("check", "replay", "close", "rotate-keys", "export", "issuer", *keeping.VERBS, *_ACCESS)
    parser = _parser("privreg collector", "Look after what was collected.", _COLLECTOR, verbs)
    parser.add_argument("--state-key", metavar="FILE", help="of close: signs the last state; server.key by default")
    parser.add_argument(
        "--out", metavar="FILE", help="of export: a new JSON file; of backup and tokens: a new file of one"
    )
    keeping.add_options(parser)
    parser.add_argument(
        "--issuer-file", metavar="FILE", help="of issuer: what the other collector's tokens has written"
    )
    parser.add_argument("--revoke", type=int, nargs="*", default=[], metavar="KEY", help="of rotate-keys: take back")
    parser.add_argument("--tokens", nargs="*", default=[], metavar="TOKEN", help="of rotate-keys: tokens to take back")
    parser.add_argument("--name", help="of tokens: whose")
    parser.add_argument("--may", nargs="+", choices=access.ROLES, metavar="ROLE", help=", ".join(access.ROLES))
    parser.add_argument(
        "--hours", type=float, default=access.HOURS,
        help=f"of rotate-token: for which the old one counts, {access.HOURS:g} by default",
    )  # fmt: skip
    return done(parser, arguments, _collector, partial(settings.completed, names=settings.SHARED))


def _collector(a: argparse.Namespace) -> str:
    plans, plan_hash = _opened(a)
    if a.verb == "issuer":
        return two.take_issuer(prepared(a.plan, _database(a), role=a.role)[0], a.issuer_file, plan_hash)
    beside = _beside(a.plan, a.role, "db")
    if a.verb in keeping.VERBS:
        return keeping.run(a, plans, _database(a), beside, partial(_audited, a))
    stores = {p.part.name: open_store(_database(a), p.slug, make=False, beside=beside) for p in plans}
    store = stores[plans[0].part.name]
    store.about()  # which refuses what is elsewhere
    if a.verb in _ACCESS:
        return _access(store, a)
    if a.verb == "export":
        made = {name: (two.export(SumCourse(one, None, place=LETTERS.index(a.role))) if plans[0].collectors
                       else operate.exported(Course(one, None))) for name, one in stores.items()}  # fmt: skip
        return _written(operate.together(made), a.out)
    if a.verb != "rotate-keys":
        work = _of_two if plans[0].collectors else _of_one
        said = [(name, work(one, a)) for name, one in stores.items()]
        if a.verb == "close":
            return said[0][1]
        return "\n".join(f"{name}: {text}" if name else text for name, text in said)
    _, kept = new_secret()
    number = store.issue(kept)
    store.revoke(keys=a.revoke, tokens=[read_token(x).id for x in a.tokens])
    return f"New tokens are made by key {number}; taken back: {len(a.revoke)} keys, {len(a.tokens)} tokens."


def _audited(a: argparse.Namespace, store: Store) -> str:
    """What can be checked of an analysis."""
    if a.role:
        return two.check(SumCourse(store, None, place=LETTERS.index(a.role)))
    return f"{_check(store)} {Course(store, None).replay()} states follow from the reports."


def _of_one(store: Store, a: argparse.Namespace) -> str:
    if a.verb == "check":
        return _check(store)
    if a.verb == "replay":
        return f"{Course(store, None).replay()} states follow from the reports."
    Course(store, keys.load(a.state_key or Path(a.plan).with_name("server.key"))).close()
    return "Closed: the last state asks nobody. Reports that answer earlier states count until the grace is over."


def _of_two(store: Store, a: argparse.Namespace) -> str:
    course = SumCourse(store, None, place=LETTERS.index(a.role))
    return two.close(course, a.role) if a.verb == "close" else two.check(course)


def _access(store: Store, a: argparse.Namespace) -> str:
    """Say, and change, who may read results or operate the server."""
    now = time.time()
    if a.verb == "list-tokens":
        known = access.granted(store, now)
        left = [f", for {(one.until - now) / 3600.0:.1f} hours more" if one.until else "" for one in known]
        return "\n".join(f"{one.name}: {', '.join(one.may)}{more}" for one, more in zip(known, left, strict=True))
    if a.name is None or (a.out is None) != (a.verb == "revoke-token") or bool(a.may) != (a.verb == "grant"):
        raise OptionError(f"{a.verb} needs {_ACCESS[a.verb]}.")
    if a.verb == "grant":
        access.grant(store, now, a.name, a.may, a.out)
    elif a.verb == "rotate-token":
        access.rotate(store, now, a.name, a.out, a.hours)
    else:
        access.revoke(store, now, a.name)
        return f"Tokens of {a.name!r} are taken back."
    return f"Wrote a token of {a.name!r} to {a.out!r}: hand it over, and delete the file."


def _check(store: Store) -> str:
    """Add up all reports again, with the sums of the same moment."""
    with store.moment():
        return _added_up(store)


def _added_up(store: Store) -> str:
    if store.about().erased is not None:
        people = sum(cell.people for cell in store.cells().values())
        return f"Reports were erased after their sums had been checked; {people:,} people are in them."
    found: dict[Place, Cell] = {}
    waiting: dict[Place, list[bytes]] = {}

    def fold(place: Place) -> None:
        values = waiting.pop(place)
        told = np.frombuffer(b"".join(values), dtype="<i4").reshape(len(values), -1)
        found[place] = chains.add(found.get(place), told, place.role)

    count = 0
    for place, values in store.reports():
        waiting.setdefault(place, []).append(values)
        count += 1
        if len(waiting[place]) == 4096:
            fold(place)
    for place in list(waiting):
        fold(place)
    kept = store.cells()
    if chains.plain(kept) != chains.plain(found):
        raise OptionError("the sums are not those of the reports: the database was changed, or is damaged.")
    return f"{count:,} reports in {len(kept)} cells: the sums are right."


def _written(said: bytes, out: str | None) -> str:
    if out is None:
        raise OptionError("export needs --out FILE.")
    write_bytes(out, said, new=True)
    return f"Wrote plan, states and sums to {out!r}; no single report is in it."


# --- together ------------------------------------------------------------------------------------------------


def _parser(prog: str, about: str, epilog: str | None = None, verbs: Sequence[str] = ()) -> argparse.ArgumentParser:
    parser = parser_of(prog, about, epilog)
    if verbs:
        parser.add_argument("verb", choices=verbs, metavar="VERB")
    settings.add_to(parser)
    parser.add_argument(
        "--db", metavar="URL", help="sqlite:///FILE, beside the plan by default, or postgresql://USER@HOST/DATABASE"
    )
    parser.add_argument("--role", choices=LETTERS, help="which of two collectors this is; a leads")
    return parser
