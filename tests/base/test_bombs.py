"""Files that hold more than they need are refused by their directory, before anything of that is read."""

import io
import json
import re
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.base import archive
from privreg.doors.loading import load_results
from privreg.errors import OptionError, SavedFileError, SchemaError
from privreg.simulation.streaming.stream import Stream
from privreg_field.service.commands import prepare
from privreg_field.study import keys, servers

N = 2_000
MUCH = 1 << 24  # bytes of zeros that a member unpacks to
MEMORY = 1 << 23  # bytes, at most, that a refusal takes
PUBLIC = {"mu": 1, "bounds": {"x": (-1, 1), "y": (-3, 3)}}


def rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, N)
    return pd.DataFrame({"x": x, "y": x + rng.normal(0, 0.3, N)})


def model(data):
    return pr.PrivateOnlineRegression.from_formula("y ~ x", data, rows=N, **PUBLIC)


def results(tmp):
    model(rows()).fit(progress=False).save(tmp)


def curator(tmp):
    family = pr.Huber(scale=0.3)
    pr.central.Regression.from_formula("y ~ x", rows(), family=family, **PUBLIC).fit(progress=False).save(tmp)


def means(tmp):
    pr.means.estimate(rows(), ["x", "y"], progress=False, **PUBLIC).save(tmp)


def stream(tmp):
    model(None).start().update(rows()).save(tmp)


def published(tmp):
    model(None).start(tuning="published").update(rows()).save(tmp)


def of_csv(tmp):
    path = tmp.with_name("people.csv")
    if not path.exists():
        rows().to_csv(path, index=False)
    return model(path)


def checkpoint(tmp):
    """A fit that is stopped before its first batch."""
    fit = of_csv(tmp).fit
    with pytest.MonkeyPatch.context() as m:
        m.setattr(Stream, "_take", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(checkpoint=tmp, progress=False)


def go_on(tmp):
    return of_csv(tmp).fit(checkpoint=tmp, progress=False)


KINDS = {
    "results": (results, pr.load),
    "results, by the shell": (results, load_results),
    "curator": (curator, pr.load),
    "means": (means, pr.load),
    "stream": (stream, pr.load),
    "published stream": (published, pr.load),
    "checkpoint": (checkpoint, go_on),
}


def zeros(length=MUCH):
    part = io.BytesIO()
    np.lib.format.write_array(part, np.empty(0))
    return part.getvalue() + bytes(length)


def huge(shape):
    """An array that says it has a shape, and has next to nothing."""
    part = io.BytesIO()
    np.lib.format.write_array_header_1_0(part, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return part.getvalue() + bytes(8)


def larger(members):
    name = next(name for name in members if name.endswith(".npy"))
    return {**members, name: zeros()}, {}


def unknown(members):
    return {**members, "more.npy": zeros()}, {}


def no_array(members):
    return {**members, "more.txt": bytes(MUCH)}, {}


def long_seal(members):
    return {**members, "seal": bytes(MUCH)}, {}


def long_document(members):
    return {**members, "privreg.json": members["privreg.json"] + b" " * archive.LONGEST}, {}


def many(members):
    """Small members of a name that there is, whose sum is large."""
    part = zeros(1 << 17)
    prefix = "weight" if any(name.startswith("weight_") for name in members) else "trail"
    return {**members, **{f"{prefix}_{k + 1000}.npy": part for k in range(256)}}, {}


def packed(members):
    """As of a library whose unpacking nobody can bound."""
    return members, {"compression": zipfile.ZIP_LZMA}


def says_more(members):
    name = next(name for name in members if name.endswith(".npy"))
    return {**members, name: huge((1 << 40,))}, {}


BOMBS = [larger, unknown, no_array, long_seal, long_document, many, packed, says_more]


def members_of(path):
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in z.namelist()}


def refused(call, error=SavedFileError, match="damaged|more than its document needs|changed since"):
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match):
            call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files of every kind, each made once."""
    out = {}
    for kind, (make, _) in KINDS.items():
        path = tmp_path_factory.mktemp("kind") / "a.privreg"
        make(path)
        out[kind] = path, path.read_bytes()
    return out


@pytest.mark.some(14)
@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_no_document_needs_is_refused_before_it_is_read(kind, bomb, made):
    path, whole = made[kind]
    path.write_bytes(whole)
    members, how = bomb(members_of(path))
    with zipfile.ZipFile(path, "w", **{"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1, **how}) as z:
        for name, content in members.items():
            z.writestr(name, content)
    del members
    refused(lambda: KINDS[kind][1](path))


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_that_understates_a_size_gets_no_more_than_that(kind, made):
    path, whole = made[kind]
    path.write_bytes(whole)
    members, _ = larger(members_of(path))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        for name, content in members.items():
            z.writestr(name, content)
    name = next(name for name in members if len(members[name]) > MUCH)
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\x01\x02", 0, raw.rindex(name.encode()))
    raw[at + 24 : at + 28] = (200).to_bytes(4, "little")
    path.write_bytes(raw)
    del members
    refused(lambda: KINDS[kind][1](path))


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_is_read(kind, made):
    path, whole = made[kind]
    path.write_bytes(whole)
    assert KINDS[kind][1](path) is not None


def test_a_document_whose_coefficients_are_many_says_how_many(made):
    """Wide documents may hold more, and what they hold is what their own arrays need."""
    path, whole = made["means"]
    path.write_bytes(whole)
    members = members_of(path)
    document = json.loads(members["privreg.json"])
    document["names"] = [f"x{k}" for k in range(10_000)]
    members |= {"privreg.json": json.dumps(document).encode(), "cov.npy": huge((10_000, 10_000))}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in members.items():
            z.writestr(name, content)
    refused(lambda: pr.load(path), match="damaged")


def mappings(document, path=()):
    """Ways to every mapping in a document; of lists the first three are enough."""
    if isinstance(document, dict):
        yield path
    inside = document.items() if isinstance(document, dict) else enumerate(document[:3])
    for key, value in inside:
        if isinstance(value, dict | list):
            yield from mappings(value, (*path, key))


def persons(tmp):
    """Results whose equation holds declarations of people."""
    data = rows().assign(who=np.arange(N) // 2)
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, id="who", k_max=2, **PUBLIC)
    model.fit(progress=False).save(tmp)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", [*KINDS, "persons"])
def test_keys_that_nobody_knows_are_ignored_or_end_as_a_damaged_file(kind, made, tmp_path, monkeypatch):
    """From every mapping in it: in none is a key taken for an argument."""
    monkeypatch.setattr(archive, "check_seal", lambda *_, **__: None)
    make, read = KINDS.get(kind, (persons, pr.load))
    path, whole = made.get(kind, (tmp_path / "a.privreg", b""))
    if not whole:
        make(path)
        whole = path.read_bytes()
    path.write_bytes(whole)
    members = members_of(path)
    document = json.loads(members["privreg.json"])
    ways, said = list(mappings(document)), set()
    assert ways
    for way in ways:
        changed = json.loads(members["privreg.json"])
        place = changed
        for key in way:
            place = place[key]
        place |= {"odd": 1, "self": 1}
        with zipfile.ZipFile(path, "w") as z:
            for name, content in {**members, "privreg.json": json.dumps(changed).encode()}.items():
                z.writestr(name, content)
        try:  # another error than these fails the test
            loaded = read(path)
        except SavedFileError as e:
            said.add(str(e))
        else:
            if way[:1] == ("equation",):
                loaded.estimand(rows().assign(who=np.arange(N) // 2))
    assert [text for text in said if not re.search("is damaged|can't be used|has another|is no checkpoint", text)] == []


SMALL = {
    "schema": (lambda path: pr.Schema.from_file(path), "s.json", SchemaError, "larger than any schema"),
    "key": (keys.load, "root.key", OptionError, "no Ed25519 signing key"),
    "collector's keys": (keys.load_collector, "a.key", OptionError, "a.key"),
    "token": (servers.token_of, "token", OptionError, "in no file"),
    "plan": (lambda path: prepare.envelope_of(str(path)), "p.plan", OptionError, "no plan"),
    "settings": (lambda path: prepare._of_file(str(path)), "s.toml", OptionError, "can't be read"),
}


@pytest.mark.parametrize("what", SMALL)
def test_files_that_are_small_are_not_read_beyond_that(what, tmp_path):
    load, name, error, match = SMALL[what]
    with (tmp_path / name).open("wb") as file:  # a hole takes no space
        file.truncate(1 << 32)
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match):
            load(tmp_path / name)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * archive.LONGEST
