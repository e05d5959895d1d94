"""Pictures of a dashboard for its page: ``python -m docs.screens [--reports N] [--into FOLDER]``.

A study is collected from simulated devices, served on this machine and looked at by Chromium, in two widths, light and
dark. Noise is secret, so that no two pictures have the same numbers. Needs Chromium, playwright and Pillow.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import uvicorn
from PIL import Image

from privreg_field.service.http.app import Options, make
from tests.service.world import ANALYST, World

HERE = Path(__file__).resolve().parent
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = (1280, 400)
MINUTES = 170
LARGEST = 150_000
"""Bytes of a picture, at most."""

STUDY = {
    "title": "Sleep and shift work",
    "purpose": "How sleep goes with age and shifts.",
    "formula": "hours ~ age + C(shift)",
    "mu": 1,
    "bounds": {"age": [18, 90], "hours": [0, 24]},
    "levels": {"shift": ["day", "night", "both"]},
    "questions": {"age": "How old are you?", "hours": "How long did you sleep?", "shift": "When do you work?"},
}


def people(n: int) -> pd.DataFrame:
    """Made-up people."""
    rng = np.random.default_rng(1)
    age, shift = rng.uniform(18, 90, n), rng.integers(0, 3, n)
    hours = 8.5 - 0.02 * age - np.array([0.0, 0.9, 0.5])[shift] + rng.normal(0, 1, n)
    return pd.DataFrame(
        {"age": age, "hours": np.clip(hours, 0, 24), "shift": np.array(["day", "night", "both"])[shift]}
    )


def collected(folder: Path, reports: int, planned: int) -> World:
    """A study of which so many have answered, in the last hours."""
    world = World(folder, n=planned, folk=people(planned), rows=planned, **STUDY)
    world.store.handed_out(2 * planned)
    rng, now = np.random.default_rng(2), time.time()
    world.clock.now = int(now)
    pace = 1.0 + 0.6 * np.sin(np.arange(MINUTES) / 17.0) + rng.uniform(0.0, 0.3, MINUTES)
    for minute, count in enumerate(rng.multinomial(reports, pace / pace.sum())):
        world.store.clock = lambda minute=minute: now - 60.0 * (MINUTES - 1 - minute)
        while count:
            k = world.scheduler.present.k
            some = min(int(count), 150)
            came = [world.arrived(body) for body in world.bodies(some)]
            again = [one for one in came if rng.uniform() < 0.06]
            fetched = Counter(
                {f"fetched.{k}": round(some * rng.uniform(1.25, 1.4)), "422": int(rng.poisson(0.006 * some))}
            )
            world.store.take(came + again, +fetched)
            while world.scheduler.advance():
                pass
            count -= some
    return world


@contextmanager
def served(world: World) -> Iterator[str]:
    """Address of the study's dashboard, while it is served."""
    app = make(world.scheduler, Options(rate=0.0))
    server = uvicorn.Server(uvicorn.Config(app, port=0, access_log=False, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/studies/{world.plan.study}/dashboard"
    finally:
        app.state.service.feed.stop()
        server.should_exit = True
        thread.join()


def shoot(address: str, into: Path) -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                context: Any = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page = context.new_page()
                page.goto(address)
                page.fill("#token", ANALYST)
                page.keyboard.press("Enter")
                page.wait_for_selector(".pr-curves canvas")
                page.fill(".pr input", "0.15")
                page.locator(".pr input").blur()
                page.wait_for_timeout(1500)
                save(page.screenshot(full_page=True), into / f"dashboard-{width}-{scheme}.png")
                context.close()
        browser.close()


def save(data: bytes, path: Path) -> None:
    """Write a picture in few colours."""
    import io

    few = Image.open(io.BytesIO(data)).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"{path.name} has more than {LARGEST:,} bytes")


def main(arguments: list[str] | None = None) -> int:
    """Collect, serve, and take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m docs.screens", description=__doc__)
    parser.add_argument("--reports", type=int, default=100_000, help="reports that have come")
    parser.add_argument("--planned", type=int, default=120_000, help="reports that the plan expects")
    parser.add_argument("--into", type=Path, default=HERE / "static", help="folder of the pictures")
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, served(collected(Path(folder), a.reports, a.planned)) as address:
        shoot(address, a.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
