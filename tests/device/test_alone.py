"""The device alone: bare Python, nothing installed, over real HTTP on this machine."""

import json
import subprocess
import sys
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from privreg.base.version import __version__
from privreg_field.wire import messages, study, wire
from tests.studies import NOON, ROOT, SERVER, ask, field_state, public, signed, study_plan, token

REPO = Path(__file__).resolve().parents[2]
KIT = REPO / "packages" / "field"
ISOLATED = [sys.executable, "-I", "-S", "-c"]
"""Without site-packages, environment variables and the present folder."""


def isolated(folders, code, *words):
    text = f"import sys; sys.path[:0] = {[str(folder) for folder in folders]}; {code}"
    return subprocess.run([*ISOLATED, text, *words], capture_output=True, text=True, timeout=60, check=False)


LOADED = "print(sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'__main__'}))"


@pytest.mark.thorough
def test_the_device_needs_the_standard_library_alone():
    code = "import privreg_field.device.session, privreg_field.device.command; privreg_field.device.respond; " + LOADED
    got = isolated([REPO, KIT], code)
    assert (got.stdout, got.stderr) == ("['privreg', 'privreg_field']\n", "")


def test_importing_scores_brings_no_http():
    code = "import privreg_field.device.report.score; print('urllib' in sys.modules or 'sqlite3' in sys.modules)"
    got = isolated([REPO, KIT], code)
    assert got.stdout == "False\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The unpacked wheel of the device."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    built("wheel", REPO / "packages" / "device", folder)
    return unpacked(folder)


def built(target, source, folder):
    build = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def unpacked(folder):
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as zipped:
        zipped.extractall(folder / "there")
    return folder / "there"


@pytest.mark.thorough
@pytest.mark.slow
def test_the_wheel_is_built_from_the_source_distribution_too(wheel, tmp_path):
    built("sdist", REPO / "packages" / "device", tmp_path)
    (file,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (p for p in tmp_path.iterdir() if p.is_dir())
    (tmp_path / "wheel").mkdir()
    built("wheel", source, tmp_path / "wheel")
    again = unpacked(tmp_path / "wheel")

    def contents(folder):
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    assert contents(again) == contents(wheel)


@pytest.mark.thorough
def test_the_wheel_holds_the_device_and_the_protocol_and_nothing_else(wheel):
    here = {p.relative_to(wheel).as_posix() for p in wheel.rglob("*.py")}
    expected = {f"privreg_device/{name}.py" for name in ("__init__", "__main__")}
    for folder in (KIT / "privreg_field" / "device", KIT / "privreg_field" / "wire", REPO / "privreg" / "protocol"):
        expected |= {f"privreg_device/{p.relative_to(folder.parent).as_posix()}" for p in folder.rglob("*.py")}
    assert here == expected
    (licence,) = wheel.glob("*.dist-info/licenses/LICENSE")
    assert licence.read_text() == (REPO / "LICENSE").read_text()
    metadata = next(wheel.glob("*.dist-info/METADATA")).read_text()
    assert "Requires-Dist" not in metadata
    assert "License-File: LICENSE\n" in metadata
    assert f"Version: {__version__}\n" in metadata


@pytest.mark.thorough
def test_the_wheel_and_an_installed_privreg_leave_each_other_alone(wheel):
    both = "import privreg_device.device.session, privreg.protocol.codes; privreg_device.respond; " + LOADED
    assert isolated([wheel, REPO], both).stdout == "['privreg', 'privreg_device']\n"
    code = "import privreg_device.device.session; privreg_device.respond; " + LOADED
    assert isolated([wheel, REPO, KIT], code).stdout == "['privreg_device']\n"


@pytest.mark.thorough
def test_the_wheel_is_imported_in_well_under_a_second(wheel):
    code = "import time; t = time.process_time(); import privreg_device; t = time.process_time() - t; print(t < 0.5); "
    assert isolated([wheel], code + LOADED).stdout == "True\n['privreg_device']\n"
    code = (
        "import time; t = time.process_time(); from privreg_device import respond; print(time.process_time() - t < 1.0)"
    )
    assert isolated([wheel], code).stdout == "True\n"


@pytest.fixture
def server():
    """A study's server on this machine; what was posted is in its `posted`."""
    plan = study_plan()
    payload = study.plan_payload(plan)
    plan_hash = wire.hash_of(payload)
    state = messages.state_payload(field_state(plan_hash, ask(plan, "main")))
    said = {"plan": signed("plan", payload, ROOT), "state": signed("state", state, SERVER)}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(200, said[self.path.rpartition("/")[2]])

        def do_POST(self):
            posted.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            arrived.set()
            if running.silent:
                running.over.wait(30)
                return
            self._answer(201, b"{}")

        def _answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given):
            pass

    posted, arrived = [], threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        running.posted, running.plan, running.hash, running.arrived = posted, plan, plan_hash, arrived
        running.silent, running.over = False, threading.Event()
        yield running
        running.over.set()
        running.shutdown()
        thread.join()


@pytest.mark.thorough
def test_the_wheel_answers_a_study_over_http(wheel, server, tmp_path):
    (tmp_path / "me.json").write_text(json.dumps({"age": 41, "bmi": 24.5, "shift": "night", "hours": 7}))
    url = f"http://127.0.0.1:{server.server_address[1]}/v1/studies/sleep#k={wire.base(public(ROOT))}"
    words = [url, "--token", messages.token_text(token()), "--row", str(tmp_path / "me.json")]
    words += ["--memory", str(tmp_path / "memory"), "--yes"]
    code = f"from privreg_device.device import client; client.now = lambda: {NOON}.0; "
    run = "from privreg_device.device.command import main; sys.exit(main(sys.argv[1:]))"
    got = isolated([wheel], code + run, *words, "--dry-run")
    assert (got.returncode, got.stderr) == (0, "")
    assert server.posted == []
    got = isolated([wheel], run, *words, "--patience", "20")
    assert (got.returncode, got.stdout, got.stderr) == (0, "The report has arrived. Thank you.\n", "")
    ((headers, body),) = server.posted
    assert messages.read_report(body, server.plan, server.hash).token == token()
    assert {k.lower() for k in headers} <= {
        "host", "user-agent", "accept", "content-type", "content-length", "connection", "accept-encoding",
    }  # fmt: skip
    got = isolated([wheel], run, *words)
    assert got.returncode == 1
    assert "has answered the study" in got.stderr


RUN = "from privreg_field.device.command import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def words(server, tmp_path):
    """Arguments of the command, of one device."""
    (tmp_path / "me.json").write_text(json.dumps({"age": 41, "bmi": 24.5, "shift": "night", "hours": 7}))
    url = f"http://127.0.0.1:{server.server_address[1]}/v1/studies/sleep#k={wire.base(public(ROOT))}"
    given = [url, "--token", messages.token_text(token()), "--row", str(tmp_path / "me.json"), "--yes"]
    return [*given, "--memory", str(tmp_path / "memory"), "--patience", "20"]


def begun(words):
    text = f"import sys; sys.path[:0] = {[str(REPO), str(KIT)]}; {RUN}"
    return subprocess.Popen([*ISOLATED, text, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_processes_of_one_device_send_the_same_bytes(server, words):
    running = [begun(words) for _ in range(4)]
    codes = []
    for one in running:
        one.communicate(timeout=60)
        codes.append(one.returncode)
    assert 0 in codes
    assert set(codes) <= {0, 1}  # 1: another had it answered before
    assert len({body for _, body in server.posted}) == 1


def test_a_device_that_is_killed_while_sending_sends_the_same_bytes_again(server, words):
    server.silent = True
    one = begun(words)
    assert server.arrived.wait(30)
    one.kill()
    one.communicate(timeout=60)
    server.silent = False
    got = isolated([REPO, KIT], RUN, *words)
    assert (got.returncode, got.stdout) == (0, "The report has arrived. Thank you.\n")
    (_, first), (_, second) = server.posted
    assert first == second


@pytest.mark.thorough
def test_the_module_runs(wheel):
    got = isolated(
        [wheel], "import runpy; sys.argv = ['x', '--help']; runpy.run_module('privreg_device', run_name='__main__')"
    )
    assert got.stdout.startswith("usage: python -m privreg_device")
