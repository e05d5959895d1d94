"""Wrong calls on streams and results, and damaged files: which error, what it tells, and that it quotes no data."""

import zipfile

import numpy as np
import pytest

import privreg as pr
from privreg.base import archive
from privreg.errors import (
    SavedFileError,
)
from tests.helpers import read_saved
from tests.wrong import (
    BOX,
    WORD,
    N,
    cell,
    check_silence,
    rows,
    stream,
)


def test_a_record_that_cant_be_used_counts_in_a_stream_and_nothing_is_said_of_it():
    def fit(data):
        going = stream(tuning="published")
        going.update(data)
        return going.results()

    check_silence(lambda: fit(cell("g", WORD)))
    assert fit(cell("g", WORD)).nobs == N


def people_by_role(**options):
    """How many people bring a stream into a round of each role; of several of a role, into the last."""
    going, out = stream(**options), {}
    for i in range(N):
        out[going._run.progress.state.role] = i
        going.update(rows().iloc[i : i + 1])
    return {**out, "end": N}


def first_and_last(arrays):
    """Names of arrays; of those that are numbered, one for each round, the first and the last."""
    kinds = {}
    for name in arrays:
        kinds.setdefault(name.rstrip("0123456789"), []).append(name)
    return [name for alike in kinds.values() for name in dict.fromkeys((alike[0], alike[-1]))]


PRIVATE = {"scaling": "private", "bounds": {"b": BOX["b"]}}
WRONG = {
    "cut off": lambda v: v[:-1] if v.ndim else np.zeros(2, v.dtype),
    "of another type": lambda v: v.astype(np.float32),
    "not finite": lambda v: np.full(v.shape, np.nan),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "roles"),
    [({}, ["moments", "pilot", "end"]), (PRIVATE, ["location"]), ({"tuning": "published"}, ["end"])],
    ids=["default", "private", "published"],
)
def test_a_damaged_file_never_reaches_compiled_code(tmp_path, options, roles, monkeypatch):
    """Each array of a saved stream replaced by a wrong one: the compiled loops check no index."""
    monkeypatch.setattr("privreg.privacy.noise.NORMALS", 1 << 8)  # small files
    path = tmp_path / "s.privreg"
    by_role = {"end": N} if "tuning" in options else people_by_role(**options)
    for people in (by_role[role] for role in roles):
        stream(**options).update(rows().head(people)).save(path)
        document, arrays = read_saved(path)
        document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
        looked_at = first_and_last(arrays)
        for name in [n for n in looked_at if arrays[n].size and not n.startswith(("trail_", "secret_"))]:
            for what, make in WRONG.items():
                if what == "not finite" and arrays[name].dtype.kind != "f":
                    continue
                bad = {**arrays, name: make(arrays[name])}
                archive.write_archive(path, "stream", document, bad)
                with pytest.raises(SavedFileError, match="damaged"):
                    pr.load(path)
        for name in looked_at:
            archive.write_archive(path, "stream", document, {k: v for k, v in arrays.items() if k != name})
            try:
                pr.load(path).update(rows()).save(path)
            except SavedFileError:
                continue
            pytest.fail(f"a stream without {name} was loaded")
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
