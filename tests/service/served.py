"""A study served on this machine, by a thread of the test's own process."""

import threading
import time
from contextlib import contextmanager

import uvicorn

from privreg.field import keys
from privreg.service.app import Options, make
from tests.studies import ROOT, public


@contextmanager
def served(world, port=0):
    """Serve it; gives the server's address."""
    config = uvicorn.Config(make(world.course, Options(rate=0.0)), port=port, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def links(world, url, count=None):
    """Invitations of this server."""
    tokens = world.tokens[:count] if world.plan.tokens == "issued" else [None]
    return [keys.invitation(url, world.plan.study, public(ROOT), token) for token in tokens]
