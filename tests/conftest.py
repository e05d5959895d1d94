"""What every test runs under: a numba cache of this tree, no display, and untouched global random streams."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from privreg.privacy import noise
from privreg.protocol.schedule import MOST
from tests import compiled, databases

pytest.register_assert_rewrite("tests.wrong")
hypothesis.settings.register_profile("few", max_examples=25)
hypothesis.settings.load_profile("few")

_SECRET = pytest.StashKey[str]()
SLOW = Path(__file__).with_name("slow.txt")
"""Test functions whose cases take longer than `LONG` together, and how long, by ``python -m tests --record``."""
LONG = 0.07
"""Seconds of the processor, children's among them, so that the list is the same whatever else the machine does."""
LAWS, QUICK = "tests/laws/", 8
"""Of a slow function's cases in this folder every `QUICK`-th stays in the fast subset."""
_seconds: Counter[str] = Counter()
_so_far = pytest.StashKey[float]()
_others = pytest.StashKey[set[Path]]()
DEALT = ("tests", "privreg", "packages/field/privreg_field")
BYTES = 50_000
"""So much of a file counts as a second where files are dealt to parts, for collection and quick tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the list, and the one for several processes that collect a part of the files each."""
    parser.addoption("--record", action="store_true", help=f"write tests that take more than {LONG} s to {SLOW.name}")
    parser.addoption("--part", metavar="K/N", help="files of part K of N alone, which take about as long as the others")


def _slow() -> dict[str, float]:
    """The list: seconds by test function."""
    return {name: float(s) for name, s in map(str.split, SLOW.read_text("utf-8").splitlines())}


def _files_of_others(root: Path, part: str, *, fast: bool) -> set[Path]:
    """Files that are not of this part: the longest is dealt first, to whoever has least."""
    k, n = map(int, part.split("/"))
    takes = Counter({path: path.stat().st_size / BYTES for top in DEALT for path in (root / top).rglob("*.py")})
    for name, seconds in ({} if fast else _slow()).items():
        takes[root / name.partition("::")[0]] += seconds
    dealt, others = [0.0] * n, set()
    for path, seconds in sorted(takes.items(), key=lambda item: (-item[1], item[0])):
        least = dealt.index(min(dealt))
        dealt[least] += seconds
        if least != k - 1:
            others.add(path)
    return others


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other parts."""
    return True if collection_path in config.stash[_others] else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the list as slow, and all but some cases of those with many as thorough."""
    items[:] = [item for item in items if item.path not in config.stash[_others]]  # of files that were named
    listed = _slow()
    many: dict[str, list[pytest.Item]] = {}
    slow: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in listed:
            slow[name] += 1
            if not name.startswith(LAWS) or slow[name] % QUICK:
                item.add_marker("slow")
        if item.get_closest_marker("some"):
            many.setdefault(name, []).append(item)
    for cases in many.values():
        k = min((mark.args[0] for mark in cases[0].iter_markers("some") if mark.args), default=None)
        kept = _with_each_value(cases) if k is None else {len(cases) * j // k for j in range(k)}
        for j, case in enumerate(cases):
            if j not in kept:
                case.add_marker("thorough")


def _with_each_value(cases: list[pytest.Item]) -> set[int]:
    """As few cases as have each value of each parameter among them: next is always whoever has most that are new."""
    values = {
        j: {(name, id(value)) for name, value in case.callspec.params.items()}  # the same object in all of its cases
        for j, case in enumerate(cases)
        if not case.get_closest_marker("thorough")
    }
    left, had, kept = set().union(*values.values()), Counter[Any](), set[int]()
    while left:
        j = max(values, key=lambda j: (len(values[j] & left), -sum(had[v] for v in values[j]), -j))
        kept.add(j)
        left -= values[j]
        had.update(values[j])
    return kept


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collection makes lives until the end: the garbage collector needn't go through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Nor later on, and what tests keep for others not often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    session.config.stash[_so_far] = _processor()


def _processor() -> float:
    """Seconds that this process and its children that have ended took of the processor."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Tell what a part of a test took of the processor, its setup first, where the list is written: asking is slow."""
    report = yield
    if not item.config.getoption("--record"):
        return report
    before, item.config.stash[_so_far] = item.config.stash.get(_so_far, 0.0), _processor()
    report.processor = item.config.stash[_so_far] - before
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the cases of a function take."""
    _seconds[report.nodeid.partition("[")[0]] += getattr(
        report, "processor", 0.0
    )  # of a process that was killed nothing is told


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the list, in the process that hears of every test; a run of the fast subset, or of a part, adds to it."""
    if session.config.getoption("--record") and "PYTEST_XDIST_WORKER" not in os.environ:
        fast, others = "not slow" in session.config.option.markexpr, session.config.stash[_others]
        kept = {
            name: s
            for name, s in _slow().items()
            if fast or session.config.rootpath / name.partition("::")[0] in others
        }
        found = sorted((kept | {name: s for name, s in _seconds.items() if s > LONG}).items())
        SLOW.write_text("".join(f"{name} {s:.1f}\n" for name, s in found), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Give the session its own secret, and the cache of this tree's compiled loops, filled before workers start.

    xdist workers and other processes inherit the variables from the process that sets them.
    """
    config.pluginmanager.register(databases)  # of doctests, too, which have other hooks of this file not
    part = config.getoption("--part")
    config.stash[_others] = (
        _files_of_others(config.rootpath, part, fast="not slow" in config.option.markexpr) if part else set()
    )
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.stash[_SECRET] = tempfile.mkdtemp(prefix="privreg-secret-")
        os.environ["PRIVREG_SECRET"] = str(Path(config.stash[_SECRET]) / "secret")
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("PRIVREG_ROOT", str(Path(__file__).parent.parent))  # where vignettes find stored results
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(compiled.folder())
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers share the processors
        if (compiling := compiled.start()) is not None:
            compiling.wait()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the secret this process made."""
    secret = config.stash.get(_SECRET, None)
    if secret is not None:
        shutil.rmtree(secret, ignore_errors=True)
        os.environ.pop("PRIVREG_SECRET", None)


class _Keys:
    """Keys of noise by the name of the test, or of the fixture, that draws them, so that a run can be repeated."""

    def __init__(self) -> None:
        self.names = [""]
        self.drawn = Counter[str]()

    def getpid(self) -> int:
        """As `os.getpid`, which some tests replace."""
        return os.getpid()

    def urandom(self, count: int) -> bytes:
        """The next key of whoever draws now."""
        name = self.names[-1]
        self.drawn[name] += 1
        return hashlib.shake_256(f"{name}|{self.drawn[name]}".encode()).digest(count)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Draw by this name, from the first key on."""
        self.names.append(name)
        self.drawn[name] = 0
        try:
            yield
        finally:
            self.names.pop()


_keys = _Keys()
if os.environ.get("PRIVREG_TEST_KEYS") != "secret":
    noise.os = _keys  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[object]:
    """Draw a fixture's keys by its name and case, whichever test asks for it first."""
    with _keys.of(f"{fixturedef.baseid}|{fixturedef.argname}|{getattr(request, 'param_index', '')}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Draw a test's keys by its name."""
    with _keys.of(item.nodeid):
        return (yield)


def _global_streams() -> tuple[object, ...]:
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return random.getstate(), (name, keys.tobytes(), position, has_gauss, cached)


@pytest.fixture(autouse=True)
def _global_random_streams_are_left_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that draws from, or seeds, Python's or NumPy's global random stream."""
    before = _global_streams()
    yield
    after = _global_streams()
    changed = [who for who, x, y in zip(("random", "numpy.random"), before, after, strict=True) if x != y]
    if request.node.get_closest_marker("foreign_random"):
        changed = [who for who in changed if who != "random"]
    if changed:
        pytest.fail(
            f"this test changed the global state of {' and '.join(changed)}; "
            "use a local numpy.random.Generator or random.Random",
            pytrace=False,
        )


@pytest.fixture(scope="module")
def small_blocks() -> Iterator[None]:
    """Less noise is made ahead, so that streams are saved faster."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr("privreg.privacy.noise.NORMALS", 1 << 13)
        yield


@pytest.fixture(scope="module")
def coarse_search() -> Iterator[None]:
    """Locations of columns without a scale are looked for on a coarser grid."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr("privreg.collector.covariates.moments.GRID", 15)
        yield


@pytest.fixture(scope="module")
def the_same_rounds(coarse_search: None) -> Iterator[None]:
    """Less noise is made ahead, and twins hold the same rounds.

    Whether the optional round of moments is held is decided by what reports have shown: here it always is. So is
    whether effects seem too strong to tell, or predictors to be hardly known, which a few records' noise can do: here
    they never do. A few records tell what bounds clamp, however short the stream.
    """
    with pytest.MonkeyPatch.context() as m:
        m.setattr("privreg.privacy.noise.NORMALS", 1 << 10)
        m.setattr("privreg.collector.rounds._pays", lambda *_: True)
        m.setattr("privreg.fits.findings._predictors", lambda *_: (0.0, 0.0))
        m.setattr("privreg.fits.plan.people_for", lambda *_: 30)
        m.setitem(MOST, "clamping", 0.1)
        yield


@pytest.fixture(scope="module")
def few_draws() -> Iterator[None]:
    """Bands and intervals that hold together, by fewer draws, are some thousandths wider or narrower."""
    from privreg.collector.inference import resampling

    with pytest.MonkeyPatch.context() as m:
        m.setattr(resampling, "_SCALES", 1 << 12)
        resampling._simulated.cache_clear()
        yield
    resampling._simulated.cache_clear()


@contextmanager
def reference_points(count: int) -> Iterator[None]:
    """As many points of the reference model, made anew before and after."""
    from privreg.collector.covariates import whitening
    from privreg.collector.estimation import coordinates

    def remade() -> None:
        whitening.even_points.cache_clear()
        coordinates.lattice.cache_clear()

    with pytest.MonkeyPatch.context() as m:
        m.setattr(whitening, "_LATTICE", count)
        remade()
        yield
    remade()


@pytest.fixture(scope="module", autouse=True)
def few_rounds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fits hold 10 rounds, the fewest that fit(rounds=) takes, and plans rehearse one pair, or try two to six fits.

    These are of 8,000 people at most; of hazards five are tried, not 20, of which still nine in ten may not be marked.
    The reference model has 512 points, on which local fits spend a quarter of their time; the usual 2048 where thorough
    or statistical tests are asked for.

    What a test says holds whatever their number: fits are quick. A test of the usual number asks for `usual_rounds`; a
    module of such tests, or whose fits run in other processes too, has a `few_rounds` of its own that does nothing.
    """
    from privreg.protocol.schedule import schedule

    def fewer(*, rows: int | None, rounds: int, **given: Any) -> Any:
        return schedule(rows=rows, rounds=min(rounds, 10), **given)

    coarse = "not thorough" in request.config.option.markexpr
    with pytest.MonkeyPatch.context() as m, reference_points(512 if coarse else 2048):
        m.setattr("privreg.fits.plan.schedule", fewer)
        m.setattr("privreg.planning.precision.PAIRS", 1)
        usual = _usual_fits()
        m.setattr("privreg.planning.precision.FITS", min(2, usual["FITS"]))
        m.setattr("privreg.planning.precision.MOST_FITS", min(6, usual["MOST_FITS"]))
        m.setattr("privreg.planning.precision.MOST", min(8_000, usual["MOST"]))
        m.setattr("privreg.planning.precision.MARKED", (5, 0.5, 8_000))
        yield


@cache
def _usual_fits() -> dict[str, Any]:
    """How many fits plans try for users, and of how many people: asked for first where nobody has changed it."""
    from privreg.planning import precision

    return {name: getattr(precision, name) for name in ("FITS", "MOST_FITS", "MOST", "MARKED")}


@pytest.fixture
def usual_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many fits tried by plans, of as many people, as users get, for one test among others with few."""
    for name, value in _usual_fits().items():
        monkeypatch.setattr(f"privreg.planning.precision.{name}", value)


@pytest.fixture
def one_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fit tried by plans at each number of people, for tests of what holds however many are."""
    monkeypatch.setattr("privreg.planning.precision.FITS", 1)
    monkeypatch.setattr("privreg.planning.precision.MOST_FITS", 1)
    monkeypatch.setattr("privreg.planning.precision.MARKED", (1, 0.5, 8_000))


@pytest.fixture
def unmarked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fits tried for the number of people from whom on intervals can be relied on."""
    monkeypatch.setattr("privreg.planning.precision.FittedPrecision.reliable", lambda *_: True)


@pytest.fixture
def usual_rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As many rounds, and points of the reference model, as users get, for one test among others with few."""
    from privreg.protocol.schedule import schedule

    monkeypatch.setattr("privreg.fits.plan.schedule", schedule)
    with reference_points(2048):
        yield


def _question(*parts: Any) -> bytes:
    """What a rehearsal depends on, the number of rounds and of pairs among it, which tests change."""
    from privreg.fits import plan
    from privreg.planning import precision

    return pickle.dumps((*parts, plan.schedule.__qualname__, precision.PAIRS))


@cache
def _rehearsed_once() -> Callable[[Any, int], Any]:
    from privreg.planning import precision

    rehearse, known = precision.Precision._node, {}

    def node(self: Any, k: int) -> Any:
        asked = _question(self.spec, self.people, precision.FEWEST, precision.TIMES, k)
        if asked not in known:
            known[asked] = rehearse(self, k)
        return known[asked]

    return node


@cache
def _fitted_once() -> Callable[[Any, int, int], Any]:
    from privreg.planning import precision

    fits, known = precision.FittedPrecision._fits, {}

    def fitted(self: Any, k: int, runs: int) -> Any:
        if k not in self._tried:
            self._tried[k] = known.setdefault(_question(self.spec, self.assumed, k), [])
        return fits(self, k, runs)

    return fitted


@cache
def _relied_on_once() -> Callable[[Any, int, Any], bool]:
    from privreg.planning import precision

    reliable, known = precision.Precision.reliable, {}

    def found(self: Any, n: int, columns: Any) -> bool:
        asked = _question(self.spec, self.people, self.asked, n, sorted(columns))
        if asked not in known:
            known[asked] = reliable(self, n, columns)
        return bool(known[asked])

    return found


@pytest.fixture
def shared_rehearsals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share rehearsals and fits, which are seeded, of plans of the same people, budget and number between tests."""
    monkeypatch.setattr("privreg.planning.precision.Precision._node", _rehearsed_once())
    monkeypatch.setattr("privreg.planning.precision.Precision.reliable", _relied_on_once())
    monkeypatch.setattr("privreg.planning.precision.FittedPrecision._fits", _fitted_once())


@pytest.fixture
def coarse_contours(monkeypatch: pytest.MonkeyPatch, shared_rehearsals: None) -> None:
    """Contours of a plan over fewer budgets and numbers of people, and fits rehearsed at fewer of these."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("privreg.planning.plan.POINTS", (5, 5))
    monkeypatch.setattr("privreg.planning.precision.TIMES", 4096)
