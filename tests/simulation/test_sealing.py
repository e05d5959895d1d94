"""Only who saved a stream or a checkpoint goes on with it: a file made up by somebody else would choose the noise."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.base import archive
from privreg.cli import app
from privreg.errors import OptionError, SavedFileError
from privreg.simulation.streaming.stream import Stream
from tests.helpers import read_saved

N = 3000
PUBLIC = {"mu": 1, "bounds": {"x": (-1, 1), "y": (-1, 1)}}


@pytest.fixture(autouse=True)
def secret(tmp_path, monkeypatch):
    """A secret of the test's own, which is not there yet."""
    path = tmp_path / "mine" / "secret"
    monkeypatch.setenv("PRIVREG_SECRET", str(path))
    return path


def rows(n=N):
    x = np.linspace(-1, 1, n)
    return pd.DataFrame({"x": x, "y": 0.5 * x}).sample(frac=1, random_state=0)


def model(data=None):
    return pr.PrivateOnlineRegression.from_formula("y ~ x", data, rows=N, **PUBLIC)


@pytest.fixture
def saved(tmp_path, secret):
    path = tmp_path / "s.privreg"
    model().start().update(rows().iloc[:1000]).save(path)
    return path


class Killed(BaseException):
    """As if the process had ended there."""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A checkpoint of a fit that was stopped, and the file it reads."""
    path, data = tmp_path / "run", tmp_path / "people.csv"
    rows().to_csv(data, index=False)
    with monkeypatch.context() as m:
        m.setattr(Stream, "_update_all", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            model(data).fit(checkpoint=path, progress=False)
    return path, data


def members(path):
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in z.namelist()}


def write(path, content):
    with zipfile.ZipFile(path, "w") as z:
        for name, value in content.items():
            z.writestr(name, value)


def array(values):
    content = BytesIO()
    np.lib.format.write_array(content, values)
    return content.getvalue()


def another_user(monkeypatch, tmp_path):
    path = tmp_path / "theirs" / "secret"
    monkeypatch.setenv("PRIVREG_SECRET", str(path))
    return path


# --- what is made up or changed --------------------------------------------------------------------------


def planted_seed(parts):
    parts["privreg.json"] = json.dumps(json.loads(parts["privreg.json"]) | {"seed": 5}).encode()


def chosen_key(parts):
    parts["secret_key.npy"] = array(np.zeros(32, dtype=np.uint8))


def moved_position(parts):
    parts["piece.npy"] = array(np.lib.format.read_array(BytesIO(parts["piece.npy"])) + 1)


def key_left_out(parts):
    del parts["secret_key.npy"]


def something_more(parts):
    parts["weight_99.npy"] = array(np.zeros(3))


def exchanged(parts):
    parts["total_0.npy"], parts["weight_0.npy"] = parts["weight_0.npy"], parts["total_0.npy"]


def other_seal(parts):
    parts["seal"] = b"0" * 64


def no_ascii(parts):
    parts["seal"] = b"\xff\xfe"


CHANGES = [
    planted_seed,
    chosen_key,
    moved_position,
    key_left_out,
    something_more,
    exchanged,
    other_seal,
    no_ascii,
]


@pytest.mark.some(4)
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_changed_stream_or_checkpoint_is_refused(change, saved, kept):
    path, data = kept
    for file, call in (
        (saved, lambda: pr.load(saved)),
        (path, lambda: model(data).fit(checkpoint=path, progress=False)),
    ):
        parts = members(file)
        change(parts)
        write(file, parts)
        before = file.read_bytes()
        with pytest.raises(SavedFileError, match="was saved by another user or on another machine, or changed since"):
            call()
        assert file.read_bytes() == before


def test_a_file_without_a_seal_is_refused(saved, kept):
    path, data = kept
    for file, call, anew in (
        (saved, lambda: pr.load(saved), "begin the stream anew"),
        (path, lambda: model(data).fit(checkpoint=path, progress=False), "remove it to begin anew"),
    ):
        parts = members(file)
        del parts["seal"]
        write(file, parts)
        with pytest.raises(SavedFileError, match=f"no seal of who saved it.*Continue only what you saved: {anew}"):
            call()


def test_a_member_that_comes_twice_is_refused(saved):
    parts = members(saved)
    with zipfile.ZipFile(saved, "a") as z, pytest.warns(UserWarning, match="Duplicate"):
        z.writestr("privreg.json", parts["privreg.json"])
    with pytest.raises(SavedFileError, match="damaged"):
        pr.load(saved)


def test_a_seed_in_a_stream_saved_without_one_is_refused(saved):
    pr.load(saved)
    document, arrays = read_saved(saved)
    document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    archive.write_archive(saved, "stream", document | {"seed": 5}, arrays)
    with pytest.raises(SavedFileError, match="has a seed, but was saved without one"):
        pr.load(saved)


def test_an_untouched_stream_loads_whatever_the_order_of_its_parts(saved):
    write(saved, dict(reversed(members(saved).items())))
    assert pr.load(saved).nobs == 1000


# --- other users and machines ----------------------------------------------------------------------------


def test_a_stream_moves_to_another_machine_with_its_secret(saved, secret, tmp_path, monkeypatch):
    twin, keyfile = tmp_path / "twin.privreg", tmp_path / "copy"
    shutil.copy(saved, twin)
    shutil.copy(secret, keyfile)
    keyfile.chmod(0o644)  # a copy may have travelled on anything
    here = pr.load(saved).update(rows().iloc[1000:]).results()
    theirs = another_user(monkeypatch, tmp_path)
    with pytest.raises(SavedFileError, match=r"load\(path, trust=KEYFILE\).*\.local/share/privreg/secret"):
        pr.load(twin)
    assert not theirs.exists()  # nothing is made by reading
    there = pr.load(twin, trust=keyfile)
    assert theirs.exists()
    assert (there.update(rows().iloc[1000:]).results().params == here.params).all()
    for trust in (None, str(keyfile)):  # what is left is sealed anew
        with pytest.warns(UserWarning, match="fresh noise"):
            assert pr.load(twin, trust=trust).nobs == 1000
    other = tmp_path / "other"
    other.write_bytes(bytes(32))
    shutil.copy(saved, twin)
    with pytest.raises(SavedFileError, match="was saved by another user"):
        pr.load(twin, trust=other)


@pytest.mark.thorough
def test_a_checkpoint_moves_with_its_secret(kept, secret, tmp_path, monkeypatch, capsys):
    path, data = kept
    keyfile = shutil.copy(secret, tmp_path / "copy")
    shutil.copy(path, tmp_path / "again")
    another_user(monkeypatch, tmp_path)
    call = ["fit", "y ~ x", str(data), "--mu", "1", "--bounds", "x=-1:1", "y=-1:1", "--rows", str(N), "--quiet"]
    call += ["--out", str(tmp_path / "res.privreg"), "--checkpoint", str(path)]
    assert app.main(call) != 0
    assert "at the shell --checkpoint-trust KEYFILE" in " ".join(capsys.readouterr().err.split())
    assert app.main([*call, "--checkpoint-trust", str(keyfile)]) == 0
    assert not path.exists()
    res = model(data).fit(checkpoint=tmp_path / "again", checkpoint_trust=keyfile, progress=False)
    assert (res.params == pr.load(tmp_path / "res.privreg").params).all()  # the same noise


@pytest.mark.parametrize("bad", ["missing", "short", "type"])
def test_what_is_no_secret_to_trust(bad, saved, kept, tmp_path):
    given = {"missing": tmp_path / "nowhere", "short": tmp_path / "short", "type": 3}[bad]
    (tmp_path / "short").write_bytes(bytes(31))
    match = {"missing": "can't be read", "short": "is not 32 bytes long", "type": "got int|of type int"}[bad]
    with pytest.raises(SavedFileError, match=match):
        pr.load(saved, trust=given)
    path, data = kept
    with pytest.raises((SavedFileError, OptionError), match=match):
        model(data).fit(checkpoint=path, checkpoint_trust=given, progress=False)
    with pytest.raises(OptionError, match="checkpoint_trust is for fits with a checkpoint"):
        model(data).fit(checkpoint_trust=given, progress=False)


def test_results_need_no_secret(secret, tmp_path):
    path = tmp_path / "r.privreg"
    res = model(rows()).fit(progress=False)
    res.save(path)
    assert "seal" not in members(path)
    assert (pr.load(path).params == res.params).all()
    assert not secret.exists()
    assert stat.S_IMODE(path.stat().st_mode) & 0o044


# --- the secret ------------------------------------------------------------------------------------------


def test_the_secret_is_made_once_and_is_its_owner_s(saved, secret, tmp_path):
    content = secret.read_bytes()
    assert len(content) == 32
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    assert [p.name for p in secret.parent.iterdir()] == ["secret"]
    model().start().save(tmp_path / "t.privreg")
    assert secret.read_bytes() == content
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600


@pytest.mark.parametrize("links", [True, False])
def test_all_who_make_the_secret_at_once_get_the_same(secret, monkeypatch, links):
    if not links:

        def refuse(*_):
            raise PermissionError(1, "no links here")

        monkeypatch.setattr("privreg.base.archive.os.link", refuse)
    for _ in range(20):
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(lambda _: archive._process_secret(), range(8)))) == 1
        assert [p.name for p in secret.parent.iterdir()] == ["secret"]
        secret.unlink()


def test_processes_that_make_the_secret_at_once_get_the_same(secret):
    code = "from privreg.base import archive; print(archive._process_secret().hex())"
    given = [sys.executable, "-c", code]
    running = [subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env=os.environ) for _ in range(4)]
    assert {p.communicate()[0].strip() for p in running} == {secret.read_bytes().hex()}


def test_a_secret_that_others_can_read_or_that_is_damaged_is_refused(saved, secret, tmp_path):
    secret.chmod(0o640)
    for call in (lambda: pr.load(saved), lambda: model().start().save(tmp_path / "t")):
        with pytest.raises(SavedFileError, match=r"can be read by others; keep it yours: chmod 600"):
            call()
    secret.chmod(0o600)
    secret.write_bytes(b"")
    with pytest.raises(SavedFileError, match=r"is not 32 bytes long; remove it"):
        pr.load(saved)
    assert not (tmp_path / "t").exists()


def test_without_a_place_for_the_secret_nothing_is_saved(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PRIVREG_SECRET", str(tmp_path / "file" / "secret"))
    stream = model().start().update(rows().iloc[:1000])
    message = re.escape(str(tmp_path / "file" / "secret")) + ".*PRIVREG_SECRET name a file in a folder"
    with pytest.raises(SavedFileError, match=message):
        stream.save(tmp_path / "s.privreg")
    assert not (tmp_path / "s.privreg").exists()
    monkeypatch.setenv("PRIVREG_SECRET", str(tmp_path / "secret"))
    stream.save(tmp_path / "s.privreg")
    assert pr.load(tmp_path / "s.privreg").nobs == 1000


def test_where_the_secret_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert archive.secret_file() == tmp_path / "mine" / "secret"
    monkeypatch.delenv("PRIVREG_SECRET")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert archive.secret_file() == tmp_path / "data" / "privreg" / "secret"
    for ignored in ("", "data/here"):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert archive.secret_file() == tmp_path / "home" / ".local" / "share" / "privreg" / "secret"
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    with pytest.raises(SavedFileError, match=r"has no home folder.*PRIVREG_SECRET"):
        archive.secret_file()


def test_the_texts_say_that_only_one_s_own_are_continued(capsys):
    for text in (pr.load.__doc__, Stream.save.__doc__):
        assert "Continue only streams you saved" in text
    assert app.main(["fit", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Continue only what you saved" in text
    assert "--checkpoint-trust KEYFILE" in text


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "kind", ["Stream", "stream ", "xyz", "", None, ["stream"], "results", "means", "central results"]
)
def test_a_stream_by_another_name_is_no_stream(saved, tmp_path, monkeypatch, kind):
    """What nobody sealed must not be taken for a stream because its kind is none that is known."""
    parts = members(saved)
    del parts["seal"]
    parts["privreg.json"] = json.dumps(json.loads(parts["privreg.json"]) | {"kind": kind}).encode()
    write(saved, parts)
    another_user(monkeypatch, tmp_path)
    with pytest.raises(SavedFileError, match="damaged or was not saved by privreg"):
        pr.load(saved)
    assert members(saved) == parts


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_files_are_as_the_umask_allows_which_is_left_alone_and_secrets_are_their_owners(tmp_path, monkeypatch):
    old = os.umask(0o027)
    try:
        with monkeypatch.context() as m:
            m.setattr(os, "umask", lambda mask: pytest.fail("other threads make files, too"))
            for secret in (False, True):
                archive.write_bytes(tmp_path / f"{secret}", b"x", secret=secret)
    finally:
        os.umask(old)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("False", "True")]
    assert modes == [0o640, 0o600]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["False", "True"]


@pytest.mark.filterwarnings("ignore:the key in .* was taken")
def test_one_of_two_threads_that_load_a_stream_at_once_has_its_key(tmp_path):
    path, both = tmp_path / "stream.privreg", threading.Barrier(2)
    pr.PrivateOnlineRegression.from_formula("y ~ x", rows=N, **PUBLIC).start().save(path)

    def load(_):
        both.wait()
        return pr.load(path)._run.key

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(load, range(2))
    assert one != other


@pytest.mark.parametrize("path", [None, 1.5, b"people", "no\0file"])
def test_what_names_no_file_is_refused(path):
    with pytest.raises(SavedFileError):
        pr.load(path)


def test_a_number_opens_no_file_that_is_open(tmp_path):
    with (tmp_path / "other").open("wb") as other:
        with pytest.raises(SavedFileError, match="a string or Path, got int"):
            pr.load(other.fileno())
        other.write(b"still open")
    assert (tmp_path / "other").read_bytes() == b"still open"
