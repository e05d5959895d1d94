"""The command that runs all that default tests leave out, on parts made up for it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import everything
from tests.everything import BEGIN, END, PARTS, ROOT, Part

PAGE = f"before\n{BEGIN}old\n{END}after\n"


def python(code: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *map(str, arguments))


def noting(name: str, note: Path, status: int = 0) -> Part:
    """A part that notes its name in a file, says something and exits with a status."""
    code = (
        "import sys; open(sys.argv[1], 'a').write(sys.argv[2]); print('said', sys.argv[2]); sys.exit(int(sys.argv[3]))"
    )
    return Part(name, (python(code, note, name[0], status),))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command on given parts, in a folder and with a page of its own; the commit is what `at` says."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    def run(parts, *arguments, at="aaaaaaaa"):
        monkeypatch.setattr(everything, "commit", lambda: at)
        return everything.main([*arguments, "--folder", str(tmp_path / "logs")], parts, page)

    run.page, run.logs, run.note = page, tmp_path / "logs", tmp_path / "note"
    run.note.touch()
    return run


def test_what_failed_is_run_again_and_what_passed_at_another_commit_unless_only_what_is_left(run, capsys):
    parts = [noting("a 1/2", run.note), noting("b 2/2", run.note, 3), noting("c", run.note)]
    assert run(parts) == 1
    assert run(parts) == 1
    assert run.note.read_text() == "abcb"
    mended = [parts[0], noting("b 2/2", run.note), parts[2]]
    assert run(mended, "--left", at="bbbbbbbb") == 0
    assert run.note.read_text() == "abcbb"
    assert run(mended, at="cccccccc") == 0
    assert run.note.read_text() == "abcbbabc"
    assert run(mended, "a", at="dddddddd") == 0
    assert run.note.read_text() == "abcbbabca"
    assert "said b" in (run.logs / "b-2-2.log").read_text()
    with pytest.raises(SystemExit):
        run(mended, "nothing")
    assert "no part is called nothing" in capsys.readouterr().err


def test_the_page_has_a_line_a_group_with_commits_and_failures(run):
    parts = [noting("a 1/2", run.note), noting("a 2/2", run.note, 1), noting("b", run.note), noting("c", run.note)]
    lacking = [Part("d", (python("1"),), programs=("no-such-program",), modules=("no_such_module",))]
    run([*parts, *lacking], "a", "d")
    run([*parts, *lacking], "a 1/2", at="bbbbbbbb")
    text = run.page.read_text()
    assert text.startswith(f"before\n{BEGIN}")
    assert text.endswith(f"{END}after\n")
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:6]]
        for cells in (line.split("|") for line in text.splitlines() if line.startswith("|"))
    }
    assert (rows["a"][0], rows["a"][3]) == ("bbbbbbbb, aaaaaaaa", "**failed**: a 2/2")
    assert rows["b"] == ["", "", "0", "not run"]
    assert rows["d"][3] == "skipped: no_such_module, no-such-program not installed"
    run([parts[0], parts[2]], "b")
    assert "| b | aaaaaaaa |" in run.page.read_text()
    assert "old" not in run.page.read_text()


def test_lines_stay_of_what_a_new_folder_knows_nothing_of(run):
    parts = [noting("a 1/2", run.note), noting("a 2/2", run.note), noting("b", run.note), noting("c", run.note)]
    run(parts, "a", "b")
    (run.logs / "outcomes.json").unlink()
    run(parts, "b", "c", at="bbbbbbbb")
    text = run.page.read_text()
    assert [text.count(f"| {name} |") for name in ("a | aaaaaaaa", "b | bbbbbbbb", "c | bbbbbbbb")] == [1, 1, 1]
    assert "| b | aaaaaaaa |" not in text
    run(parts, "a 1/2", at="cccccccc")
    assert "1 of 2 parts run" in run.page.read_text()


@pytest.mark.parametrize(
    ("text", "chosen", "whole", "end", "tests", "skipped"),
    [
        ("def test_a(): pass\ndef test_b(): pytest.skip('no')\n", "test", True, "passed", 2, 1),
        ("def test_a(): assert 1 > 2\n", "test", True, "failed", 1, 0),
        ("def test_a(): pytest.skip('no')\n", "test", True, "skipped", 0, 0),
        ("def test_a(): pass\n", "other", True, "failed", 0, 0),
        ("def test_a(): pass\n", "other", False, "passed", 0, 0),
        ("no python\n", "test", False, "failed", 1, 0),
    ],
)
def test_tests_are_counted_and_none_is_no_success(tmp_path, monkeypatch, text, chosen, whole, end, tests, skipped):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it begins sooner
    file = tmp_path / "test_it.py"
    file.write_text(f"import pytest\n{text}")
    command = (sys.executable, *everything.PYTEST, "--rootdir", str(tmp_path), "--noconftest", "-c", "/dev/null")
    part = Part("p", ((*command, "-k", chosen, str(file)),), counted=True, whole=whole)
    found = everything.carried_out(part, tmp_path)
    assert (found.end, found.tests, found.skipped) == (end, tests, skipped)


def test_tests_that_never_begin_have_failed(tmp_path):
    assert everything.carried_out(Part("p", (python("1"),), counted=True), tmp_path).end == "failed"


def test_a_command_that_fails_is_the_last(run):
    part = Part("a", (python("raise SystemExit(2)"), noting("n", run.note).commands[0]))
    assert run([part]) == 1
    assert run.note.read_text() == ""


def test_what_takes_too_long_has_failed_and_ends(run, monkeypatch):
    monkeypatch.setattr(everything, "LIMIT", 0.3)
    begin = time.monotonic()
    assert run([Part("a", (python("import time; time.sleep(60)"),))]) == 1
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("with_what", [signal.SIGKILL, signal.SIGINT])
def test_it_goes_on_after_a_stop(run, tmp_path, with_what):
    """The first part isn't run twice; the second, in which it was stopped, is run from its beginning."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    code = f"""
import pathlib, time
pathlib.Path({str(begun)!r}).touch()
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.01)
"""
    parts = [noting("a", run.note), Part("b", (python(code), noting("b", run.note).commands[0]))]
    program = f"""
import signal
from pathlib import Path
from tests import everything
from tests.everything import Part
signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where tests run in the background
everything.commit = lambda: "aaaaaaaa"
everything.main(["--folder", {str(run.logs)!r}], {parts!r}, Path({str(run.page)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL)
    for _ in range(6000):
        if begun.exists():
            break
        time.sleep(0.01)
    process.send_signal(with_what)
    try:
        assert process.wait(60) != 0
    finally:
        process.kill()
        process.wait()
    assert list(json.loads((run.logs / "outcomes.json").read_text())) == ["a"]
    assert ("2 of 2" in run.page.read_text()) is False
    go.touch()  # what a kill left behind ends too
    time.sleep(0.3 if with_what is signal.SIGKILL else 0.0)
    run.note.write_text("a")
    assert run(parts) == 0
    assert run.note.read_text() == "ab"


def test_a_commit_is_named_and_changes_are_marked(tmp_path, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *arguments], cwd=tmp_path, check=True)

    monkeypatch.setattr(everything, "ROOT", tmp_path)
    (tmp_path / "file").write_text("1")
    (tmp_path / "CONTRIBUTING.md").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    (tmp_path / "CONTRIBUTING.md").write_text("2")
    assert len(everything.commit()) == 8
    (tmp_path / "file").write_text("2")
    assert everything.commit()[8:] == "+"


def test_parts_have_names_of_their_own_and_files_that_exist():
    assert len({part.name for part in PARTS}) == len(PARTS)
    named = {word for part in PARTS for command in part.commands for word in command if "/" in word and "{" not in word}
    files = {word for word in named if word.endswith((".py", ".js", ".txt"))} - {sys.executable}
    assert files
    assert all((ROOT / word).exists() for word in files)


def test_the_page_for_contributors_has_the_place_of_the_table():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)
