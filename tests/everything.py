"""All that the default tests leave out, by one command: ``python -m tests.everything [PART ...]``.

Parts are thorough and statistical tests, the mutants, the documentation whole, a real browser, R's check of its
package, the tests of extras that go with no others, the types of the JavaScript, and other Pythons and the oldest
dependencies. One runs after the other, each with a log of its own under ``build/everything``. What has passed at this
commit is not run again, so that a run goes on after a stop; with ``--left`` neither is what has passed at an earlier
one. What lacks a program or a package is skipped, and says so. The table of outcomes is printed and written into
CONTRIBUTING.md, where the lines of what this folder knows nothing of stay. It takes hours.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
LIMIT = 3 * 3600.0
"""Seconds after which a part has failed."""
BEGIN, END = "<!-- everything: begin -->\n", "<!-- everything: end -->\n"
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={name}.xml")
EMPTY = 5
"""What pytest exits with where no test was chosen."""
FAST = "not statistical and not browser and not thorough and not slow"


@dataclass(frozen=True)
class Part:
    """One part: commands, one after the other, and what they need.

    ``{name}`` in a command is the name of the log without its ending, where other files may be put.
    `counted`: the last command is pytest's and leaves how many tests there were in ``{name}.xml``; `whole`: it must
    choose some.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    counted: bool = False
    whole: bool = True

    @property
    def group(self) -> str:
        """The name without the number of the part."""
        return re.sub(r" \d+/\d+$", "", self.name)

    def missing(self) -> str:
        """What it needs and isn't there; empty if all is."""
        without = [name for name in self.modules if find_spec(name) is None]
        for name in self.programs:
            found = shutil.which(name)
            if found is None or subprocess.run([found, "--version"], check=False, capture_output=True).returncode:
                without.append(name)
        return ", ".join(without)


@dataclass(frozen=True)
class Outcome:
    """How a part ended: ``passed``, ``failed`` or ``skipped``, and of which of its tests; at which commit, and when."""

    end: str
    why: str = ""
    seconds: float = 0.0
    tests: int = 0
    skipped: int = 0
    commit: str = ""
    day: str = ""


def dealt(name: str, n: int, *command: str, counted: bool = False) -> list[Part]:
    """A part in `n` parts, by ``--part=K/N`` of its command; of tests one part may have none."""
    each = (f"{k}/{n}" for k in range(1, n + 1))
    return [Part(f"{name} {k}", ((PYTHON, *command, f"--part={k}"),), counted=counted, whole=not counted) for k in each]


def elsewhere(name: str, install: Sequence[str], tests: Sequence[str], python: str = PYTHON) -> Part:
    """A part whose tests run in an environment of their own, with what pip is asked to install there."""
    own = "{name}/bin/python"
    make = (python, "-m", "venv", "--clear", "{name}")
    commands = (make, (own, "-m", "pip", "install", "-q", *install), (own, *PYTEST, *tests))
    return Part(name, commands, programs=(python,), counted=True)


KIT = ("-e", ".[test]", "-e", "./packages/field[test]")
WEB = "packages/field/privreg_field/service/web"
TSC = "npx --yes -p typescript tsc --allowJs --checkJs --noEmit --strict --target es2022 --module nodenext"
SCRIPTS = sorted(
    str(path.relative_to(ROOT)) for part in ("device", "survey") for path in (ROOT / WEB / part).glob("*.js")
)
R_CHECK = """
set -e; rm -rf "$1"; mkdir "$1"; root=$PWD; cd "$1"
R CMD build "$root/packages/privreg-r"; R CMD check --no-manual privreg_*.tar.gz
"""
PARTS = (
    Part("types of the JavaScript", ((*TSC.split(), "--lib", "es2022,dom,dom.iterable", *SCRIPTS),), programs=("npx",)),
    elsewhere(
        "Flower",
        ("-e", ".[test,flower]", "-e", "./packages/field[test,flower]", "flwr[simulation]"),
        (
            "-m",
            "",
            *(
                f"tests/{at}.py"
                for at in ("federated/test_flower", "field/test_flower", "documents/test_hospitals_guide")
            ),
        ),
    ),
    elsewhere("tables of other libraries", ("-e", ".[test,adapters]"), ("-m", "", "tests/results/test_adapters.py")),
    Part(
        "R CMD check",
        (("env", f"RETICULATE_PYTHON={PYTHON}", "bash", "-c", R_CHECK, "R", "{name}"),),
        programs=("R",),
    ),
    *dealt("thorough", 8, *PYTEST, "-m", "thorough and not browser", counted=True),
    *dealt("statistical", 6, *PYTEST, "-m", "statistical", counted=True),
    Part(
        "browser",
        ((PYTHON, *PYTEST, "-m", "browser"),),
        programs=("chromium",),
        modules=("playwright",),
        counted=True,
    ),
    *dealt("mutants", 16, "-m", "tests.mutants", "--jobs=1"),
    Part("documentation", ((PYTHON, "-m", "docs", "--out", "{name}"),), modules=("sphinx", "myst_nb")),
    elsewhere(  # of pyparsing, which Matplotlib asks for, later versions warn Matplotlib 3.8
        "oldest dependencies, fast tests",
        ("-c", "tests/minimum.txt", *KIT, "pyparsing<3.3"),
        ("-m", FAST),
        "python3.11",
    ),
    *(
        elsewhere(f"Python {v}, fast tests", ("-c", "constraints.txt", *KIT), ("-m", FAST), f"python{v}")
        for v in ("3.12", "3.13", "3.14")
    ),
)


def commit() -> str:
    """The commit that is tested; a plus sign follows if files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!CONTRIBUTING.md")
    return git("rev-parse", "--short=8", "HEAD") + "+" * bool(changed)


def carried_out(part: Part, folder: Path) -> Outcome:
    """Run a part's commands until one fails, with a log."""
    if without := part.missing():
        return Outcome("skipped", f"{without} not installed")
    name = folder / re.sub(r"[^\w.]+", "-", part.name)
    counts = Path(f"{name}.xml")
    counts.unlink(missing_ok=True)
    begin, status = time.monotonic(), 0
    env = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **os.environ}
    with Path(f"{name}.log").open("wb") as log:
        for command in part.commands:
            ready = [word.replace("{name}", str(name)) for word in command]
            log.write(f"$ {' '.join(ready)}\n".encode())
            log.flush()
            status = _status(ready, log.fileno(), env, LIMIT - (time.monotonic() - begin))
            if status:
                break
    seconds = time.monotonic() - begin
    if not part.counted:
        return Outcome("failed" if status else "passed", "", seconds)
    if not counts.exists():
        return Outcome("failed", "its tests did not begin", seconds)
    suites = list(ElementTree.parse(counts).iter("testsuite"))
    tests, skipped = (sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "skipped"))
    if status == EMPTY and not part.whole:
        return Outcome("passed", "", seconds)
    if not status and tests == skipped:
        return Outcome("skipped", f"each of its {tests} tests was", seconds)
    return Outcome("failed" if status else "passed", "", seconds, tests, skipped)


def _status(command: list[str], log: int, env: dict[str, str], seconds: float) -> int:
    """Exit status of a command; it and what it began end with us, and after so many seconds."""
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        return process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        return 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def table(parts: Sequence[Part], outcomes: Mapping[str, Outcome], before: Mapping[str, str]) -> Iterator[str]:
    """Lines of the table of outcomes, one a group of parts; of one without outcomes its line from before."""
    yield "| what | commit | day | minutes | outcome |\n|---|---|---|---:|---|\n"
    for name, of in groupby(parts, key=lambda part: part.group):
        group = [part.name for part in of]
        known = {part: outcomes[part] for part in group if part in outcomes}
        if not known and name in before:
            yield before[name]
            continue
        failed = [part for part, found in known.items() if found.end == "failed"]
        skipped = dict.fromkeys(found.why for found in known.values() if found.end == "skipped")
        said = [f"**failed**: {', '.join(failed)}"] if failed else []
        said += [f"skipped: {', '.join(skipped)}"] if skipped else []
        if len(known) < len(group):
            said.append(f"{len(known)} of {len(group)} parts run" if known else "not run")
        said = said or ["passed"]
        if tests := sum(found.tests for found in known.values()):
            said.append(f"{tests:,} tests, {sum(found.skipped for found in known.values()):,} skipped")
        commits = dict.fromkeys(found.commit for found in known.values())
        day = max((found.day for found in known.values()), default="")
        minutes = sum(found.seconds for found in known.values()) / 60
        yield f"| {name} | {', '.join(commits)} | {day} | {minutes:.0f} | {'; '.join(said)} |\n"


def written(file: Path, text: str) -> None:
    """Write a file under another name and rename it."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text, "utf-8")
    new.replace(file)


def main(
    arguments: Sequence[str] | None = None,
    parts: Sequence[Part] = PARTS,
    page: Path = ROOT / "CONTRIBUTING.md",
) -> int:
    """Run what is left; the number of parts that have failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PART", help="only these, or these groups of parts")
    parser.add_argument("--left", action="store_true", help="leave out what has passed at any commit")
    parser.add_argument("--list", action="store_true", help="print the table of outcomes and no more")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "everything", help="of logs and outcomes")
    a = parser.parse_args(arguments)
    if unknown := set(a.names) - {name for part in parts for name in (part.name, part.group)}:
        parser.error(f"no part is called {', '.join(sorted(unknown))}: {', '.join({p.group: 0 for p in parts})}")
    a.folder.mkdir(parents=True, exist_ok=True)
    store = a.folder / "outcomes.json"
    kept = json.loads(store.read_text("utf-8")) if store.exists() else {}
    outcomes = {name: Outcome(**found) for name, found in kept.items()}
    head = commit()
    try:
        for part in () if a.list else parts:
            if a.names and part.name not in a.names and part.group not in a.names:
                continue
            before = outcomes.get(part.name)
            if before is not None and before.end == "passed" and (a.left or before.commit == head):
                continue
            print(f"== {part.name}", flush=True)
            found = replace(carried_out(part, a.folder), commit=head, day=f"{datetime.now(UTC):%Y-%m-%d}")
            outcomes[part.name] = found
            written(store, json.dumps({name: asdict(outcome) for name, outcome in outcomes.items()}, indent=1))
            print(f"   {found.end} {found.why}", flush=True)
    finally:
        text, _, rest = page.read_text("utf-8").partition(BEGIN)
        old, _, rest = rest.partition(END)
        before = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines(keepends=True)}
        lines = "".join(table(parts, outcomes, before))
        print(lines, end="", flush=True)
        written(page, f"{text}{BEGIN}\n{lines}\n{END}{rest}")
    return sum(part.name in outcomes and outcomes[part.name].end == "failed" for part in parts)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what has begun ends too, and the table is written
    sys.exit(main())
