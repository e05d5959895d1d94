"""A study served at a port of this machine, and a Chromium that looks at it, for tests."""

import shutil
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn

from privreg_field.service.http.app import Options, make
from privreg_field.study import keys
from tests.studies import ROOT, public

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip


@contextmanager
def served(scheduler, port=0, http="auto", limit=None, make=make, **options):
    """Address of a study's server while it runs in a thread of this process."""
    app = make(scheduler, Options(**{"rate": 0.0, **options}))
    # uvicorn's own configuration of logs closes all handlers there are; one of them, of a library that another test has
    # imported, would close what pytest writes to
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            port=port,
            access_log=False,
            log_config=None,
            log_level="error",
            lifespan="on",
            http=http,
            limit_concurrency=limit,
        )
    )  # fmt: skip
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        app.state.service.let_go()
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def links(world, url, count=None):
    """Invitations of this server."""
    tokens = world.tokens[:count] if world.plan.tokens == "issued" else [None]
    return [keys.invitation(url, world.plan.study, public(ROOT), token) for token in tokens]


def chromium():
    """A path of Chromium; the test is skipped where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    return path
