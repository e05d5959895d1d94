"""Build the documentation: ``python -m docs [--fast] [--only NAME ...]``, or only run its code: ``--check [NAME ...]``.

Pages of this folder and the vignettes are put side by side, every code cell is run, and HTML is written to
``docs/_build/html``. A cell that fails, a reference that leads nowhere, a page that nothing leads to, or one that asks
another host for anything fails the build. The reference shows pictures of the page of plots. ``--fast`` runs no cells,
and ``--only`` those of the pages that it names. Needs ``pip install -e ".[docs]" -e "./packages/field[all]"``;
``--check`` runs the code of the README and of all pages, or of those that it names, without Sphinx.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

from docs import cells

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def stage(into: Path) -> None:
    """Put the pages, the vignettes and the stored results that pages show where Sphinx looks for them."""
    for page in [*HERE.glob("*.md"), HERE / "conf.py"]:
        shutil.copy2(page, into)
    for folder in (HERE / "guides", HERE / "extending", HERE / "static", ROOT / "vignettes"):
        if folder.exists():
            shutil.copytree(folder, into / folder.name)
    for page in into.rglob("*.md"):  # links lead somewhere in a clone too, where vignettes lie beside this folder
        text = page.read_text("utf-8")
        text = text.replace("](../docs/", "](../") if page.parent.name == "vignettes" else text
        up = "../" * (len(page.relative_to(into).parts) - 1)
        page.write_text(text.replace(f"]({up}../vignettes/", f"]({up}vignettes/"), "utf-8")


class _Asked(HTMLParser):
    """What a browser asks of other hosts to show a page; links, which wait for a click, are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "link" and named.get("rel") in {"canonical", "next", "prev", "search", "index", "author"}:
            return
        wanted = ("src", "srcset", "data", "poster", *(("href",) if tag == "link" else ()))
        self.found += [url for name in wanted if re.match(r"(https?:)?//", url := named.get(name) or "")]

    def handle_data(self, data: str) -> None:
        if self.lasttag in {"style", "script"}:
            self.found += re.findall(FETCHED, data)


FETCHED = r"""(?:(?:url|import|fetch)\(\s*["']?|(?:@import|\bfrom)\s*["'])((?:https?:)?//[\w.-]+[^"')\s]*)"""


def asked(folder: Path) -> list[str]:
    """What built pages, their styles and their scripts ask of other hosts."""
    found = []
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".html":
            page = _Asked()
            page.feed(file.read_text("utf-8"))
            found += [f"{file.relative_to(folder)}: {url}" for url in page.found]
        elif file.suffix in {".css", ".js"}:
            found += [f"{file.relative_to(folder)}: {url}" for url in re.findall(FETCHED, file.read_text("utf-8"))]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Build; the exit status is Sphinx's."""
    parser = argparse.ArgumentParser(prog="python -m docs", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="run no code cells")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help="run the code cells of these pages only")
    parser.add_argument("--out", type=Path, default=HERE / "_build" / "html", help="folder of the pages")
    parser.add_argument(
        "--check", nargs="*", metavar="NAME", help="run the code of these pages, or of all, and no more"
    )
    a = parser.parse_args(arguments)
    if a.check is not None:
        return cells.check(a.check)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="privreg-docs-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        stage(source)
        env = {**os.environ, "PRIVREG_ROOT": str(ROOT)}
        env.pop("MPLBACKEND", None)  # the kernel's own puts figures into the pages
        env["PYTHONWARNINGS"] = "ignore:IProgress not found"  # bars are drawn as text, which pages don't show
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        if not (a.fast or a.only):
            drawing = [sys.executable, "-m", "docs.pictures", str(HERE / "plots.md"), str(source / "pictures")]
            subprocess.run(drawing, env=env, check=True)
        if a.only:
            env["PRIVREG_DOCS_SKIP"] = ",".join(page.name for page in cells.pages() if page.stem not in a.only)
        more = ["-D", "nb_execution_mode=off"] if a.fast else []
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", *more]
        status = subprocess.run([*command, str(source), str(a.out)], env=env, check=False).returncode
    for request in asked(a.out):
        print(f"asks another host: {request}")
        status = status or 1
    print(f"{'built' if status == 0 else 'failed'} in {time.monotonic() - begin:.0f} s: {a.out / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
