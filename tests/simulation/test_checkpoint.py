"""Fits that are stopped go on to the same bits, from the last checkpoint, with the same noise on the same rows."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.base import archive
from privreg.data.sources.open import CHUNK, file_mark
from privreg.errors import DataError, InferenceError, OptionError, SavedFileError, UnsupportedArgumentError
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming import checkpoint
from privreg.simulation.streaming.stream import Stream
from tests.helpers import read_saved

N = 150_000
EVERY = 40_000
PUBLIC = {"mu": 1, "bounds": {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}}


class Killed(BaseException):
    """As if the process had ended there."""


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.uniform(-1, 1, N)})
    data["y"] = 0.5 + data["a"] - data["b"] + rng.normal(0, 0.5, N)
    path = tmp_path_factory.mktemp("people") / "people.csv"
    data.to_csv(path, index=False)
    return path


def model(path, **more):
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", path, **{**PUBLIC, **more})


def bits(res):
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


WAYS = {
    "default": {},
    "all that is kept": {"inference": ("random_scaling", "batch_means", "block_bootstrap", "between_lanes", "plug_in")},
    "published": {"tuning": "published", "inference": ("random_scaling", "plug_in")},
}


def killed_after(monkeypatch, rows):
    """Let the process seem to be killed in the first update that would bring a stream beyond so many people."""
    original = Stream._take

    def take(self, given, read):
        end = self.rows_read + read
        if end <= rows + 5_000:
            original(self, given, read)  # so that noise is used beyond the checkpoint, in memory
        if end > rows:
            raise Killed

    monkeypatch.setattr(Stream, "_take", take)


@pytest.mark.some(1)
@pytest.mark.parametrize(("way", "threads"), [*((way, 2) for way in WAYS), ("default", 1)])
def test_a_fit_that_is_killed_again_and_again_ends_in_the_same_bits(people, tmp_path, monkeypatch, way, threads):
    kept = tmp_path / "run.privreg"
    how = {**WAYS[way], "threads": threads, "progress": False, "seed": 5}
    whole = bits(model(people).fit(**how))
    rng, seen, settled = np.random.default_rng(threads), [], []
    reads = []
    original = Stream._update_all

    def spied(self, batches, threads):
        reads.append(self.rows_read)
        return original(self, batches, threads)

    monkeypatch.setattr(Stream, "_update_all", spied)
    for stop in sorted(rng.integers(0, N, 4)):
        with monkeypatch.context() as m:
            killed_after(m, stop)
            with pytest.raises(Killed):
                model(people).fit(checkpoint=kept, checkpoint_rows=EVERY, **how)
        document, _ = read_saved(kept)
        assert not document["clean"]
        # two batches at most are taken together, which begin before the kill; of those an interval is read again
        assert stop - 2 * CHUNK - EVERY < document["read"] <= stop
        seen.append(document["read"])
        settled.append(document["read"] + document["skip"])
    assert settled == sorted(settled)  # nothing that was kept is lost again
    assert settled[-1] > 0
    assert bits(model(people).fit(checkpoint=kept, checkpoint_rows=EVERY, **how)) == whole
    assert reads[1:] == [*seen]  # each begins where the one before was kept
    assert not kept.exists()


def test_a_checkpoint_leaves_no_trace_in_the_result(people, tmp_path):
    how = {"seed": 5, "progress": False}
    plain, kept = model(people).fit(**how), model(people).fit(checkpoint=tmp_path / "run.privreg", **how)
    assert bits(plain) == bits(kept)
    pd.testing.assert_frame_equal(plain.trajectory(), kept.trajectory(), check_exact=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("usual_rounds")
def test_the_noise_of_a_killed_fit_is_that_of_the_fit_that_goes_on(people, tmp_path, monkeypatch):
    # without a seed: what is in memory at the kill comes again, from the same key, on the way to the end
    kept, found, original = tmp_path / "run", [], Stream._take

    def take(self, given, read):
        original(self, given, read)
        found[-1] = [one.total.tobytes() for one in self._run.chain.batches]
        if len(found) == 1 and self.rows_read > 110_000:
            raise Killed

    monkeypatch.setattr(Stream, "_take", take)
    found.append([])
    with pytest.raises(Killed):
        model(people).fit(checkpoint=kept, checkpoint_rows=30_000, threads=1, progress=False)
    _, arrays = read_saved(kept)
    found.append([])
    model(people).fit(checkpoint=kept, threads=1, progress=False)
    killed, again = found
    assert len(arrays["people"]) <= len(killed) < len(again)  # whole rounds lie beyond the checkpoint
    assert again[: len(killed)] == killed


def test_a_checkpoint_is_its_owner_s_and_holds_the_present_key_only(people, tmp_path, monkeypatch):
    kept = tmp_path / "run.privreg"
    killed_after(monkeypatch, 100_000)
    with pytest.raises(Killed):
        model(people).fit(checkpoint=kept, checkpoint_rows=30_000, progress=False)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    document, arrays = read_saved(kept)
    keys = [k for k in arrays if k.startswith("secret")]
    assert set(keys) == {"secret_key", "secret_order"}
    assert document["source"] == [file_mark(people)]
    with pytest.raises(SavedFileError, match="is the checkpoint of a fit; give the fit's own call again"):
        pr.load(kept)


# --- what is refused ---------------------------------------------------------------------------------------


def killed(people, folder):
    """A copy of the people, and the checkpoint of a fit to them that was killed."""
    copy = folder / "copy.csv"
    copy.write_bytes(people.read_bytes())
    with pytest.MonkeyPatch.context() as m:
        killed_after(m, 100_000)
        with pytest.raises(Killed):
            model(copy).fit(checkpoint=folder / "run", checkpoint_rows=30_000, progress=False)
    return copy, folder / "run"


@pytest.fixture(scope="module")
def killed_once(people, tmp_path_factory):
    copy, kept = killed(people, tmp_path_factory.mktemp("killed"))
    return copy, kept, kept.read_bytes()


@pytest.fixture
def begun(killed_once):
    """For tests that leave the people as they are; the checkpoint is the same for all."""
    copy, kept, held = killed_once
    kept.write_bytes(held)
    kept.chmod(0o600)
    return copy, kept


@pytest.fixture
def begun_anew(people, tmp_path):
    """For a test that changes the people."""
    return killed(people, tmp_path)


def test_rows_that_have_changed_are_refused(begun_anew):
    copy, kept = begun_anew
    with copy.open("a") as f:
        f.write("0,0,0\n")
    saved = kept.read_bytes()
    for mended in (False, True):  # noise was used beyond the checkpoint: nothing can mend that
        with pytest.raises(SavedFileError, match="changed or moved since it was killed"):
            model(copy, rows=N).fit(checkpoint=kept, mended=mended, progress=False)
    assert kept.read_bytes() == saved


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("more", "how", "word"),
    [
        ({"mu": 2}, {}, "budget"),
        ({"family": "squared"}, {}, "family"),
        ({"bounds": {**PUBLIC["bounds"], "a": (-2, 1)}}, {}, "formula or declarations"),
        ({"private": "response"}, {}, "mechanism or score weights"),
        ({"missing": "raise"}, {}, "handling of people"),
        ({}, {"seed": 3}, "seed"),
        ({}, {"inference": "random_scaling"}, "set of fit options"),
        ({}, {"lanes": 32}, "set of fit options"),
        ({}, {"start_params": [0.1, 0.2, 0.3]}, "start_params"),
    ],
)
def test_another_fit_is_refused(begun, more, how, word):
    copy, kept = begun
    saved = kept.read_bytes()
    with pytest.raises(SavedFileError, match=f"has another {word}; give the call it was begun with"):
        model(copy, **more).fit(checkpoint=kept, progress=False, **how)
    assert kept.read_bytes() == saved


def test_an_edit_that_sets_the_times_back_is_seen(begun_anew):
    copy, kept = begun_anew
    seen, text = copy.stat(), copy.read_text()
    copy.write_text(text[:-4] + "000\n")  # the last number's last digits: as long as before
    os.utime(copy, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert copy.stat().st_size == seen.st_size
    assert copy.stat().st_mtime_ns == seen.st_mtime_ns
    with pytest.raises(SavedFileError, match="changed or moved since it was killed"):
        model(copy).fit(checkpoint=kept, progress=False)


def test_another_function_of_the_same_name_is_refused(people, tmp_path, monkeypatch):
    def fitted(times):
        bent = pr.rowwise(lambda v: v * times)  # noqa: F841 - the formula finds it
        return pr.PrivateOnlineRegression.from_formula("y ~ bent(a)", people, **PUBLIC).fit(
            checkpoint=tmp_path / "run", checkpoint_rows=30_000, progress=False
        )

    with monkeypatch.context() as m:
        killed_after(m, 100_000)
        with pytest.raises(Killed):
            fitted(1.0)
    with pytest.raises(SavedFileError, match="another function in its formula"):
        fitted(1.5)
    assert fitted(1.0).nobs == N


def test_of_two_processes_that_begin_at_once_one_is_refused(people, tmp_path, monkeypatch):
    kept = tmp_path / "run"
    original = archive.write_archive

    def late(path, *given, **how):
        if how.get("new"):
            kept.write_bytes(b"another process was here first")
        original(path, *given, **how)

    with monkeypatch.context() as m:
        m.setattr(archive, "write_archive", late)
        with pytest.raises(SavedFileError, match="is there already"):
            model(people).fit(checkpoint=kept, progress=False)
    assert kept.read_bytes() == b"another process was here first"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.thorough
def test_threads_may_change(begun):
    copy, kept = begun
    assert model(copy).fit(checkpoint=kept, threads=2, progress=False).nobs == N
    assert not kept.exists()


@pytest.mark.some(2)
@pytest.mark.parametrize("damage", ["cut", "another file", "empty", "saved results"])
def test_other_files_are_refused_and_left_alone(begun, damage):
    copy, kept = begun
    whole = kept.read_bytes()
    content = {"cut": whole[: len(whole) // 2], "another file": b"a,b\n1,2\n", "empty": b""}
    if damage == "saved results":
        model(copy).fit(progress=False).save(kept)
    else:
        kept.write_bytes(content[damage])
    saved = kept.read_bytes()
    with pytest.raises(SavedFileError, match=r"damaged|is no checkpoint of a fit"):
        model(copy).fit(checkpoint=kept, progress=False)
    assert kept.read_bytes() == saved


def test_a_state_that_does_not_fit_is_refused(begun):
    copy, kept = begun
    document, arrays = read_saved(kept)
    document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    for name in ("weight_0", "total_0", "secret_key"):
        archive.write_archive(kept, "checkpoint", document, {**arrays, name: arrays[name][..., :-1]})
        with pytest.raises(SavedFileError, match="is damaged; remove it to begin anew"):
            model(copy).fit(checkpoint=kept, progress=False)
    older = {**document, "version": "0.0.1"}
    archive.write_archive(kept, "checkpoint", older, arrays)
    with pytest.raises(SavedFileError, match=r"was begun by privreg 0\.0\.1, and this is"):
        model(copy).fit(checkpoint=kept, progress=False)


def test_sources_that_nothing_can_tell_again_are_refused(people, tmp_path):
    data = pd.read_csv(people)
    for given in (data, {c: data[c].to_numpy() for c in data}, iter([data]), [data]):
        with pytest.raises(UnsupportedArgumentError, match="write them to a Parquet or CSV file"):
            model(given, rows=N).fit(checkpoint=tmp_path / "run", progress=False)
    arrays = pr.PrivateOnlineRegression(
        data["y"], data[["a"]].assign(const=1.0), mu=1, bounds={"a": (-1, 1), "y": (-4, 4)}
    )
    with pytest.raises(UnsupportedArgumentError, match="checkpoint= needs rows that are the same"):
        arrays.fit(checkpoint=tmp_path / "run", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_what_must_not_be_stored_is_refused_before_a_row_is_read(people, tmp_path):
    with pytest.raises(InferenceError, match="holds raw sums"):
        model(people).fit(checkpoint=tmp_path / "run", tuning="published", inference="plug_in_central", progress=False)
    with pytest.raises(InferenceError, match="how often each person came"):
        pr.PrivateOnlineRegression.from_formula(
            "y ~ a", people, mu=1, bounds={"a": (-1, 1), "y": (-4, 4)}, id="b", missing="noise"
        ).fit(checkpoint=tmp_path / "run", progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"checkpoint": 3}, "checkpoint is of type int; give the name of a file"),
        ({"checkpoint": ""}, "give the name of a file"),
        ({"checkpoint": "x", "checkpoint_rows": 0}, "must be a whole number of rows"),
        ({"checkpoint": "x", "checkpoint_rows": 1.5}, "must be a whole number of rows"),
        ({"checkpoint": "x", "checkpoint_seconds": 0}, "must be a positive number of seconds"),
        ({"checkpoint": "x", "checkpoint_seconds": "30s"}, "must be a positive number of seconds"),
        ({"checkpoint": "x", "mended": 1}, "must be True or False"),
        ({"checkpoint_rows": 10}, "checkpoint_rows is for fits with a checkpoint"),
        ({"mended": True}, "mended is for fits with a checkpoint"),
    ],
)
def test_wrong_options(people, how, message):
    with pytest.raises(OptionError, match=message):
        model(people).fit(progress=False, **how)


def test_a_folder_that_is_not_there(people, tmp_path):
    with pytest.raises(SavedFileError, match="can't write"):
        model(people).fit(checkpoint=tmp_path / "none" / "run", progress=False)


# --- errors in the rows, and Ctrl-C ------------------------------------------------------------------------


def test_rows_before_a_bad_line_are_kept_and_the_fit_goes_on_once_it_is_mended(people, tmp_path):
    lines = people.read_text().splitlines(keepends=True)
    bad = tmp_path / "bad.csv"
    wrong = 100_001
    bad.write_text("".join([*lines[:wrong], lines[wrong].replace("\n", ",extra\n"), *lines[wrong + 1 :]]))
    kept = tmp_path / "run"
    strict = {"missing": "raise"}
    told = r"^column 'y' has a value that is missing.* rows before are kept in .*mended=True"
    with pytest.raises(DataError, match=told) as caught:
        model(bad, **strict).fit(checkpoint=kept, progress=False)
    assert "10000" not in str(caught.value)
    document, _ = read_saved(kept)
    assert document["clean"]
    assert wrong - 6 * CHUNK < document["read"] <= wrong - 1
    bad.write_text("".join(lines))
    with pytest.raises(SavedFileError, match=r"have changed or moved since\. If the rows already read are what they"):
        model(bad, **strict).fit(checkpoint=kept, progress=False)
    res = model(bad, **strict).fit(checkpoint=kept, mended=True, progress=False)
    assert res.nobs == N
    assert np.abs(res.params - [0.5, 1.0, -1.0]).max() < 0.1
    assert not kept.exists()


def test_a_mended_file_is_noised_by_a_fresh_key(people, tmp_path):
    copy, kept = tmp_path / "copy.csv", tmp_path / "run"
    text = people.read_text()
    copy.write_text(text[: len(text) // 2] + "\nx,x,x\n")
    strict = {"rows": N, "missing": "raise"}
    with pytest.raises(DataError, match="are kept in"):
        model(copy, **strict).fit(checkpoint=kept, progress=False)
    _, before = read_saved(kept)
    copy.write_text(text)
    found = []

    def noted(stream, *given, renew, original=checkpoint._resume):
        original(stream, *given, renew=renew)
        found.append((renew, stream._run.secrets()["secret_key"].tobytes()))
        raise Killed

    with pytest.MonkeyPatch.context() as m:
        m.setattr(checkpoint, "_resume", noted)
        with pytest.raises(Killed):
            model(copy, **strict).fit(checkpoint=kept, mended=True, progress=False)
    assert found[0][0]
    assert found[0][1] != before["secret_key"].tobytes()


def stopped_after(monkeypatch, rows):
    """Press Ctrl-C once so many people have reported."""
    original = Stream._take

    def take(self, given, read):
        original(self, given, read)
        if self.rows_read >= rows:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Stream, "_take", take)


def test_once_killed_no_later_stop_lets_the_rest_be_mended(begun_anew, monkeypatch):
    # the killed run used noise beyond where the next one is stopped: the rest must not be noised a second time
    copy, kept = begun_anew
    with monkeypatch.context() as m:
        stopped_after(m, 1)
        with pytest.raises(KeyboardInterrupt, match="is kept in"):
            model(copy).fit(checkpoint=kept, progress=False)
    document, _ = read_saved(kept)
    assert not document["clean"]
    copy.write_text(copy.read_text().replace("\n", "\n\n", 1))
    with pytest.raises(SavedFileError, match="changed or moved since it was killed"):
        model(copy, rows=N).fit(checkpoint=kept, mended=True, progress=False)


def test_a_fit_that_goes_on_from_a_clean_stop_is_not_clean_while_it_runs(people, tmp_path, monkeypatch):
    kept = tmp_path / "run"
    with monkeypatch.context() as m:
        stopped_after(m, 1)
        with pytest.raises(KeyboardInterrupt):
            model(people).fit(checkpoint=kept, progress=False)
    assert read_saved(kept)[0]["clean"]
    with monkeypatch.context() as m:  # killed before the next checkpoint is due
        killed_after(m, 100_000)
        with pytest.raises(Killed):
            model(people).fit(checkpoint=kept, progress=False, checkpoint_rows=10 * N)
    assert not read_saved(kept)[0]["clean"]


@pytest.mark.thorough
def test_an_update_that_is_cut_off_is_not_kept(people, tmp_path, monkeypatch):
    kept, original = tmp_path / "run", RoundsRun.advance

    def advance(self, *given, **how):
        original(self, *given, **how)
        if self.people > 60_000:
            raise KeyboardInterrupt  # the second Ctrl-C

    with monkeypatch.context() as m:
        m.setattr(RoundsRun, "advance", advance)
        with pytest.raises(KeyboardInterrupt):
            model(people).fit(checkpoint=kept, progress=False, checkpoint_rows=EVERY, threads=1, seed=5)
    document, _ = read_saved(kept)
    assert document["read"] <= 60_000
    assert not document["clean"]
    whole = model(people).fit(progress=False, threads=1, seed=5)
    assert bits(model(people).fit(checkpoint=kept, progress=False, threads=1, seed=5)) == bits(whole)


def test_what_a_kill_in_the_middle_of_writing_left_goes_with_the_checkpoint(people, tmp_path):
    left, other = tmp_path / ".run.abcd_123", tmp_path / ".run.privreg.abcd_123"
    for path in (left, other):
        path.write_bytes(b"a noise key")
    model(people).fit(checkpoint=tmp_path / "run", progress=False)
    assert list(tmp_path.iterdir()) == [other]


SCRIPT = """
import sys
import privreg as pr
res = pr.PrivateOnlineRegression.from_formula(
    "y ~ a + b", {path!r}, mu=1, bounds={{"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}}, rows={rows}
).fit(checkpoint={kept!r}, checkpoint_rows=20_000, seed=5, progress=False)
print((res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()).hex())
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_processes_that_are_really_stopped(people, tmp_path, usual_rounds):
    """Interrupted, begun again, killed, and begun again: the bits of a fit that nobody stopped.

    The processes know nothing of the few rounds of tests.
    """
    big = tmp_path / "big.csv"
    lines = people.read_text().splitlines(keepends=True)
    big.write_text("".join([lines[0], *(lines[1:] * 6)]))
    kept = tmp_path / "run"
    script = textwrap.dedent(SCRIPT).format(path=str(big), kept=str(kept), rows=6 * N)
    given = [sys.executable, "-c", script]
    begun = []
    for how, moment in ((signal.SIGINT, 0.05), (signal.SIGKILL, 0.05)):
        process = subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
        limit = time.monotonic() + 120
        last = kept.stat().st_mtime_ns if kept.exists() else 0
        while (not kept.exists() or kept.stat().st_mtime_ns == last) and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(moment)
        process.send_signal(how)
        said = process.communicate()[1].decode()
        assert process.returncode != 0, "it had ended before"
        assert ("the same call goes on" in said) == (how == signal.SIGINT)
        document, _ = read_saved(kept)
        begun.append(document["read"])
        assert document["clean"] == (how == signal.SIGINT)
    assert begun[1] >= begun[0]
    out = subprocess.run(given, capture_output=True, check=True, env=os.environ).stdout.decode().strip()
    assert out == bits(model(big, rows=6 * N).fit(seed=5, progress=False)).hex()
    assert not kept.exists()


@pytest.mark.parametrize("trust", [pytest.param("local", marks=pytest.mark.thorough), "two_collectors"])
def test_a_fit_of_weighted_rows_that_is_killed_ends_in_the_same_bits(people, tmp_path, monkeypatch, trust):
    data = pd.read_csv(people).head(30_000)
    data.assign(w=np.random.default_rng(1).uniform(0.5, 2, 30_000)).to_csv(tmp_path / "people.csv", index=False)
    weighted = {"weights": "w", "bounds": {**PUBLIC["bounds"], "w": (0, 2)}, "rows": 30_000, "trust": trust}
    made = model(tmp_path / "people.csv", **weighted)
    whole = bits(made.fit(seed=5, progress=False))
    with monkeypatch.context() as patch:
        patch.setattr("privreg.data.sources.open.CHUNK", 20_000)
        killed_after(patch, 12_000)
        with pytest.raises(Killed):
            made.fit(seed=5, progress=False, checkpoint=tmp_path / "run.privreg", checkpoint_rows=5_000)
    assert (tmp_path / "run.privreg").exists()
    assert bits(made.fit(seed=5, progress=False, checkpoint=tmp_path / "run.privreg")) == whole
