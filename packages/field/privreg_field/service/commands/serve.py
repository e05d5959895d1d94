"""`privreg serve`: the server of a study."""

import argparse
import errno
import gc
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

import uvicorn

from privreg.errors import OptionError
from privreg_field.service.access import VARIABLE
from privreg_field.service.commands import prepare
from privreg_field.service.commands.prepare import HERE, PORT, database_of, plans_of, prepared
from privreg_field.service.http.app import Service
from privreg_field.service.http.guard import CONNECTIONS, Guarded, Proxied
from privreg_field.service.http.handler import Handler, Options, application
from privreg_field.service.logs import Journal, Logged, take_over
from privreg_field.service.scheduler import Scheduler
from privreg_field.service.store import Store
from privreg_field.service.sums import app as two
from privreg_field.service.sums.app import SumService
from privreg_field.study import keys
from privreg_field.study.running import done, parser_of
from privreg_field.wire.study import PublicPlan

ENDING: Final = 45  # Seconds for requests that are not answered yet: more than a body may take


def serve(arguments: Sequence[str]) -> int:
    """Run ``privreg serve``."""
    parser = parser_of("serve", host=HERE, port=PORT, proxy_at=HERE)
    return done(parser, arguments, _serve, prepare.completed)


def _serve(a: argparse.Namespace) -> str:
    if os.name != "posix":
        raise OptionError("privreg serve locks its database as Linux and macOS do; run it there, or in a container.")
    (plan, *_), _ = plans_of(a)
    if a.shared and plan.collectors:
        raise OptionError("a collector of a study with two has one server; leave --shared out.")
    journal = Journal(a.log)
    options = Options(rate=a.rate, public_results=a.public_results, journal=journal)
    if a.check:
        return _checked(a, plan, options)
    stores = prepared(a.plan, database_of(a), role=a.role)
    services = _services(a, plan, stores, options)
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
        journal("start", study=plan.study, state=len(services[0].scheduler.states) - 1)
        gc.collect()
        gc.freeze()  # or each look through all that was imported holds every answer back, for a third of a second
        Server(config).run([listening])
    journal("stop")
    for one in stores:
        one.leave()
    return "Stopped; everything that was acknowledged is kept."


def _services(a: argparse.Namespace, plan: PublicPlan, stores: Sequence[Store], options: Options) -> list[Handler]:
    """Handlers of the study's analyses, by the keys that the plan names; raises OptionError if they are others."""
    if plan.collectors:
        path = str(a.key or Path(a.plan).with_name(f"{a.role}.key"))
        return [SumService(two.scheduler_of(store, a.role, path), options) for store in stores]
    key = keys.load(a.state_key or Path(a.plan).with_name("server.key"))
    return [Service(Scheduler(store, key), options) for store in stores]


def _checked(a: argparse.Namespace, plan: PublicPlan, options: Options) -> str:
    """Rehearse the start with an empty database in a folder that is deleted; raises OptionError where it fails."""
    with TemporaryDirectory() as folder, _bound(a.host, a.port):
        copy = shutil.copy(a.plan, folder)
        stores = prepared(copy, f"sqlite:///{folder}/check.db", out=str, role=a.role)
        _services(a, plan, stores, options)
        for one in stores:
            one.leave()
    role = f", as collector {a.role}," if a.role else ""
    return (
        f"Study {plan.study!r} can be served{role} at {a.host}, port {a.port}: settings, plan and keys agree. "
        f"Nothing was written; the start opens the database, {database_of(a)}."
    )


def _bound(host: str, port: int) -> socket.socket:
    """A socket that has the address, which nobody else can take any more."""
    if not 0 <= port < 1 << 16:
        raise OptionError(f"--port {port} must be 0 (any that is free) to 65535.")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as e:
        why = "another program has it" if e.errno == errno.EADDRINUSE else "this machine doesn't have it, or let you"
        raise OptionError(f"port {port} of {host} can't be had: {why}; give another --port, or --host.") from None
