"""Wrong calls on streams and results, and damaged files: which error, what it tells, and that it quotes no data."""

import zipfile
from functools import cache

import numpy as np
import pytest

import privreg as pr
from privreg.errors import (
    DataError,
    FormulaError,
    InferenceError,
    NotPrivateError,
    OptionError,
    SavedFileError,
    SchemaError,
    UnsupportedArgumentError,
)
from privreg.files import archive
from tests.wrong import (
    BOX,
    OTHER,
    WORD,
    N,
    by_arrays,
    by_formula,
    cases,
    cell,
    check_refusal,
    check_silence,
    results,
    rows,
    stream,
)


@cache
def default_results():
    return by_formula().fit(seed=1, progress=False)


@cache
def estimates_only():
    return by_formula().fit(inference=None, progress=False)


@cache
def early():
    """Results of the default fit before its lanes have begun, and so without intervals."""
    going, at = stream(), 0
    while going._run.kind != "pilot":
        going.update(rows().iloc[at : at + 1])
        at += 1
    return going.results()


def saved(tmp, change=None, document=None):
    """A saved result, its arrays or document changed."""
    path = tmp / "r.privreg"
    results().save(path)
    doc, arrays = archive.read(path)
    kind = doc.pop("kind")
    del doc["format"]
    archive.write_archive(path, kind, {**doc, **(document or {})}, {**arrays, **(change or {})})
    return path


def saved_stream(tmp, change, people=N, drop=None, **options):
    path = tmp / "s.privreg"
    stream(**options).update(rows().head(people)).save(path)
    doc, arrays = archive.read(path)
    kind = doc.pop("kind")
    del doc["format"]
    archive.write_archive(path, kind, doc, {k: change(k, v) for k, v in arrays.items() if k != drop})
    return path


def cut(tmp):
    path = saved(tmp)
    path.write_bytes(path.read_bytes()[:-100])
    return path


def flipped(tmp):
    path = saved(tmp)
    raw = bytearray(path.read_bytes())
    for at in range(len(raw) // 4, 3 * len(raw) // 4, 50):
        raw[at] ^= 255
    path.write_bytes(raw)
    return path


def text_file(tmp):
    path = tmp / "r.privreg"
    path.write_text(rows().to_csv())
    return path


STREAMS = {
    "rows of the wrong type": (lambda _: stream().update(rows().to_numpy()), DataError, ["DataFrame", "got ndarray"]),
    "rows a Series": (lambda _: stream().update(rows()["a"]), DataError, ["got Series"]),
    "rows lack a column": (lambda _: stream().update(OTHER), DataError, ["'b' is missing", "mean 'B'?"]),
    "rows with an unknown level": (
        lambda _: stream(missing="raise").update(cell("g", WORD)),
        SchemaError,
        ["'g' has a value"],
    ),
    "results too early": (
        lambda _: stream().results(),
        InferenceError,
        ["people set the scales, and 0 have reported", "estimates begin after them"],
    ),
    "results of the published tuning too early": (
        lambda _: stream(tuning="published").results(),
        InferenceError,
        ["0 people", "more than 4 updates"],
    ),
    "array rows of the wrong type": (lambda _: by_arrays().start().update(rows()), DataError, ["got a DataFrame"]),
    "array rows alone": (lambda _: by_arrays().start().update((rows()["y"],)), DataError, ["got a tuple of 1"]),
    "array rows with a stray offset": (
        lambda _: by_arrays().start().update((rows()["y"], np.ones((N, 3)), np.ones(N))),
        DataError,
        ["without offset="],
    ),
    "array rows of unequal number": (
        lambda _: by_arrays().start().update((rows()["y"], np.ones((5, 3)))),
        DataError,
        ["differ in their number of rows"],
    ),
    "array rows too narrow": (
        lambda _: by_arrays().start().update((rows()["y"], np.ones((N, 2)))),
        DataError,
        ["3 columns (const, a, b), got shape (60, 2)"],
    ),
    "save under a number": (lambda _: stream().save(5), SavedFileError, ["string or Path, got int"]),
    "save into no folder": (lambda tmp: stream().save(tmp / "no" / "s"), SavedFileError, ["can't write", "folder"]),
    "save over a folder": (lambda tmp: stream().save(tmp), SavedFileError, ["can't write"]),
}

RESULTS = {
    "interval at 0": (lambda _: results().conf_int(0), OptionError, ["alpha=0", "(0, 1)"]),
    "interval at 1": (lambda _: results().conf_int(1), OptionError, ["alpha=1", "0.05 gives 95%"]),
    "interval at x": (lambda _: results().conf_int("x"), OptionError, ["alpha='x'", "(0, 1)"]),
    "interval at a column": (lambda _: results().conf_int(rows()["a"]), OptionError, ["alpha=<Series>"]),
    "interval of a stranger": (lambda _: results().conf_int(cols=["c"]), OptionError, ["Intercept, g[T.v], a, b"]),
    "interval of position 9": (lambda _: results().conf_int(cols=[9]), OptionError, ["position, 0 to 3"]),
    "interval of a column": (lambda _: results().conf_int(cols=rows()["a"]), OptionError, ["by name"]),
    "interval with cov_type": (
        lambda _: results().conf_int(cov_type="HC1"),
        UnsupportedArgumentError,
        ["no argument 'cov_type'", "fit(inference=...)"],
    ),
    "unknown method": (lambda _: results().conf_int(method="plugin"), OptionError, ["'plug_in'", "Did you mean"]),
    "method not asked for": (
        lambda _: results().cov_params("plug_in_central"),
        InferenceError,
        ["it has random_scaling, plug_in", "fit(tuning='published', inference=('random_scaling', 'plug_in_central'))"],
    ),
    "no intervals": (lambda _: estimates_only().bse, InferenceError, ["inference=None", "'random_scaling'"]),
    "no intervals yet": (lambda _: early().bse, InferenceError, ["no intervals yet", "lanes begin after", "rows="]),
    "no tests yet": (lambda _: early().t_test("a = 0"), InferenceError, ["no intervals yet", "have reported"]),
    "plug-in of the default fit": (
        lambda _: default_results().conf_int(method="plug_in"),
        InferenceError,
        ["this fit has no 'plug_in'; it has between_lanes", "fit(inference=('between_lanes', 'plug_in'))"],
    ),
    "curator's plug-in of the default fit": (
        lambda _: default_results().conf_int(method="plug_in_central"),
        InferenceError,
        ["this fit has no 'plug_in_central'", "fit(tuning='published', inference='plug_in_central')"],
    ),
    "random scaling of the default fit": (
        lambda _: default_results().summary(method="random_scaling"),
        InferenceError,
        ["Ask for it with fit(inference=('between_lanes', 'random_scaling'))"],
    ),
    "exponentiate a column": (lambda _: results().tidy(rows()["a"]), OptionError, ["exponentiate=<Series>", "True or"]),
    "trajectory at 2": (lambda _: results().trajectory(2), OptionError, ["alpha=2"]),
    "test of a stranger": (
        lambda _: results().t_test("c = 0"),
        FormulaError,
        ["'c = 0'", "Coefficients of this fit are Intercept"],
    ),
    "test of nonsense": (lambda _: results().t_test("a = = b"), FormulaError, ["'a = = b'", "can't be read"]),
    "test of nothing": (lambda _: results().t_test(""), OptionError, ["string such as 'b = 0'"]),
    "test of no list": (lambda _: results().wald_test([]), OptionError, ["don't fit 4 coefficients"]),
    "test of a column": (lambda _: results().t_test(rows()["name"]), OptionError, ["'b = 0'", "array of shape"]),
    "test of a list of words": (lambda _: results().t_test(rows()["name"].tolist()), FormulaError, ["in a list of 60"]),
    "test of the wrong shape": (lambda _: results().wald_test(np.eye(3)), OptionError, ["shape (3, 3)", "4 coeff"]),
    "test of three dimensions": (lambda _: results().wald_test(np.ones((1, 4, 4))), OptionError, ["shape (1, 4, 4)"]),
    "test with NaN": (lambda _: results().wald_test([[0, 0, np.nan, 0]]), OptionError, ["NaN or infinite"]),
    "test of too few values": (lambda _: results().wald_test((np.eye(4), [0])), OptionError, ["1 value(s)"]),
    "redundant restrictions": (lambda _: results().wald_test("a = 0, 2 * a = 0"), InferenceError, ["redundant"]),
    "contrast interval at 1": (lambda _: results().t_test("a = 0").conf_int(1), OptionError, ["alpha=1", "(0, 1)"]),
    "contrast table at x": (lambda _: results().t_test("a = 0").summary_frame("x"), OptionError, ["alpha='x'"]),
    "predict nothing": (lambda _: results().predict(), NotPrivateError, ["raw data", "public covariate values"]),
    "predict None": (lambda _: results().get_prediction(None), NotPrivateError, ["public covariate values"]),
    "predict without a column": (lambda _: results().predict(OTHER), DataError, ["'b' is missing", "mean 'B'?"]),
    "predict from an array": (lambda _: results().predict(np.ones((2, 4))), DataError, ["DataFrame", "got ndarray"]),
    "predict with text": (
        lambda _: results().predict(rows(a=WORD)),
        DataError,
        ["'a' has a value that is", "no number"],
    ),
    "predict of an unknown kind": (
        lambda _: results().predict(rows(), which="median"),
        OptionError,
        ["'median'", "'mean', 'linear'", "Did you mean 'mean'?"],
    ),
    "predict intervals at 0": (
        lambda _: results().get_prediction(rows().head(3)).summary_frame(0),
        OptionError,
        ["alpha=0"],
    ),
    "predict array of the wrong width": (
        lambda _: by_arrays().fit(progress=False).predict(np.ones((2, 2))),
        DataError,
        ["3 columns (const, a, b), got shape (2, 2)"],
    ),
    "predict array with a short offset": (
        lambda _: (
            by_arrays(offset=np.zeros(N), bounds={**BOX, "offset": (-1, 1)})
            .fit(progress=False)
            .predict((np.ones((4, 3)), [0.0]))
        ),
        DataError,
        ["new rows are 4 but the offset has 1"],
    ),
    "raw residuals": (lambda _: results().resid, NotPrivateError, ["not private", "predict()"]),
    "save into no folder": (lambda tmp: results().save(tmp / "no" / "r"), SavedFileError, ["can't write", "folder"]),
    "save over a folder": (lambda tmp: results().save(tmp), SavedFileError, ["can't write"]),
    **{
        f"save as {suffix}": (
            lambda tmp, suffix=suffix: results().save(tmp / f"r{suffix}"),
            UnsupportedArgumentError,
            ["privreg.load()", "name it .privreg", instead],
        )
        for suffix, instead in {
            ".html": "summary().as_html()",
            ".HTML": "summary().as_html()",
            ".tex": "summary().as_latex()",
            ".txt": "summary().as_text()",
            ".csv": "tidy().to_csv(path)",
        }.items()
    },
    "save under a frame": (lambda _: results().save(rows()), SavedFileError, ["string or Path, got DataFrame"]),
}

SAVED = {
    "no file": (lambda tmp: pr.load(tmp / "none"), SavedFileError, ["there is no file", "none"]),
    "no path": (lambda _: pr.load(rows()), SavedFileError, ["string or Path, got DataFrame"]),
    "a text file": (lambda tmp: pr.load(text_file(tmp)), SavedFileError, ["damaged or was not saved by privreg"]),
    "cut off": (lambda tmp: pr.load(cut(tmp)), SavedFileError, ["damaged"]),
    "bytes changed": (lambda tmp: pr.load(flipped(tmp)), SavedFileError, ["damaged"]),
    "array of the wrong shape": (
        lambda tmp: pr.load(saved(tmp, {"params": np.ones(9)})),
        SavedFileError,
        ["r.privreg' is damaged"],
    ),
    "array of texts": (lambda tmp: pr.load(saved(tmp, {"last": np.full(4, WORD)})), SavedFileError, ["is damaged"]),
    "unknown family": (lambda tmp: pr.load(saved(tmp, document={"family": ["Probit", 1, 1]})), SavedFileError, ["dam"]),
    "no design": (lambda tmp: pr.load(saved(tmp, document={"design": {}})), SavedFileError, ["kind 'formula' or"]),
    "stream with another state": (
        lambda tmp: pr.load(
            saved_stream(tmp, lambda k, v: np.zeros(3) if k == "state_path" else v, tuning="published")
        ),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream with a negative count": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v - 1000 if k == "state_counts" else v, tuning="published")),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream at another position": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v + 1 if k == "position" else v)),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream without its chains": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v, drop="chains_newton")),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream without its common chain": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v, drop="common_newton")),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream with a negative count of updates": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v - 1000 if k == "chains_updates" else v)),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
}


CASES = cases(stream=STREAMS, results=RESULTS, saved=SAVED)


@pytest.mark.parametrize(("call", "error", "pieces"), CASES)
def test_wrong_input_is_refused_in_words_that_help_and_tell_nothing(call, error, pieces, tmp_path):
    check_refusal(call, error, pieces, tmp_path)


def test_a_record_that_cant_be_used_counts_in_a_stream_and_nothing_is_said_of_it():
    def fit(data):
        going = stream(tuning="published")
        going.update(data)
        return going.results()

    check_silence(lambda: fit(cell("g", WORD)))
    assert fit(cell("g", WORD)).nobs == N


def people_by_stage(**options):
    """How many people bring a stream into each of its stages; of several of a kind, into the last."""
    going, out = stream(**options), {}
    for i in range(N):
        out[going._run.kind] = i
        going.update(rows().iloc[i : i + 1])
    return {**out, "end": N}


PRIVATE = {"scaling": "private", "bounds": {"b": BOX["b"]}}
WRONG = {
    "cut off": lambda v: v[:-1] if v.ndim else np.zeros(2, v.dtype),
    "of another type": lambda v: v.astype(np.float32),
    "not finite": lambda v: np.full(v.shape, np.nan),
}


@pytest.mark.parametrize(
    ("options", "stages"),
    [({}, ["moments", "pilot", "end"]), (PRIVATE, ["location"]), ({"tuning": "published"}, ["end"])],
    ids=["default", "private", "published"],
)
def test_a_damaged_file_never_reaches_compiled_code(tmp_path, options, stages, monkeypatch):
    """Each array of a saved stream replaced by a wrong one: the compiled loops check no index."""
    monkeypatch.setattr("privreg.device.sampler.NORMALS", 1 << 8)  # small files
    path = tmp_path / "s.privreg"
    by_stage = {"end": N} if "tuning" in options else people_by_stage(**options)
    for people in (by_stage[stage] for stage in stages):
        stream(**options).update(rows().head(people)).save(path)
        document, arrays = archive.read(path)
        document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
        for name in [n for n in arrays if arrays[n].size and not n.startswith(("trail_", "secret_"))]:
            for what, make in WRONG.items():
                if what == "not finite" and arrays[name].dtype.kind != "f":
                    continue
                bad = {**arrays, name: make(arrays[name])}
                archive.write_archive(path, "stream", document, bad)
                with pytest.raises(SavedFileError, match="damaged"):
                    pr.load(path)
        for name in arrays:
            archive.write_archive(path, "stream", document, {k: v for k, v in arrays.items() if k != name})
            try:
                pr.load(path).update(rows()).save(path)
            except SavedFileError:
                continue
            pytest.fail(f"a stream without {name} was loaded")
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
