"""``privreg show``: saved results print as they did, in other forms too; nothing else is shown."""

import json

import pytest

import privreg as pr
from privreg import datasets
from privreg.cli.app import main

PUBLIC = {"bounds": {"age": (18, 65), "charges": (0, 35000)}, "levels": {"smoker": ["no", "yes"]}}


@pytest.fixture(scope="module")
def people():
    return datasets.us_insurance(3000)


@pytest.fixture(scope="module")
def kept(people, tmp_path_factory):
    path = tmp_path_factory.mktemp("show") / "fit.privreg"
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age + smoker", people, mu=1, **PUBLIC)
    model.fit(seed=1, progress=False).save(path)
    return path


@pytest.fixture
def show(capsys):
    def run(path, *more):
        status = main(["show", str(path), *map(str, more)])
        return status, *capsys.readouterr()

    return run


@pytest.mark.thorough
def test_it_prints_the_summary(kept, show):
    status, out, err = show(kept, "--level", "0.9")
    assert (status, err) == (0, "")
    table, _, below = out.partition("Guarantee:")
    assert table == pr.load(kept).summary(alpha=0.1).as_text().partition("Guarantee:")[0]
    assert "More: --details; privacy statement: privreg.load('fit.privreg').privacy\n" in below


@pytest.mark.thorough
def test_it_writes_other_forms(kept, show, tmp_path):
    files = [tmp_path / f"again{kind}" for kind in (".html", ".txt", ".md", ".tex", ".csv", ".json", ".privreg")]
    status, out, _ = show(kept, "--simultaneous", "--quiet", *(f"--out={f}" for f in files))
    assert (status, out) == (0, "")
    assert all(f.stat().st_size > 100 for f in files)
    document = json.loads(files[-2].read_text())
    assert document["formula"] == "charges ~ age + smoker"
    assert document["simultaneous"]
    limits = pr.load(kept).tidy(simultaneous=True)["conf_low"]
    assert [row["conf_low"] for row in document["coefficients"]] == list(limits)
    assert pr.load(files[-1]).params.equals(pr.load(kept).params)


def test_means_and_their_subgroups(people, show, tmp_path):
    path = tmp_path / "means.privreg"
    options = {"bounds": {"age": (18, 65)}, "levels": PUBLIC["levels"], "by": "smoker", "progress": False}
    res = pr.means.estimate(people, "age ~ 1", epsilon=1, seed=1, **options)
    res.save(path)
    assert res.by == "smoker"
    status, out, err = show(path)
    assert (status, err) == (0, "")
    assert out.startswith(res.summary().as_text().partition("Guarantee:")[0])
    assert out.splitlines()[-2].split()[:3] == ["no", str(res.by_group()["people"][0]), "age"]
    status, _, err = show(path, "--simultaneous")
    assert (status, err.count("\n")) == (2, 1)
    assert "means and frequencies" in err


def test_a_stream_is_not_shown_and_keeps_its_key(people, show, tmp_path):
    path = tmp_path / "stream.privreg"
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age + smoker", mu=1, rows=len(people), **PUBLIC)
    stream = model.start()
    stream.update(people[:1000])
    stream.save(path)
    before = path.read_bytes()
    status, out, err = show(path)
    assert (status, out) == (2, "")
    assert "is a stream to go on with" in err
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--quiet"], "would show nothing"),
        (["--level", "1"], "must be in (0, 1)"),
        (["--exponentiate"], "whose coefficients are differences"),
    ],
)
def test_refusals(kept, show, more, said):
    status, out, err = show(kept, *more)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_what_is_read_is_not_written(kept, show, tmp_path):
    before = kept.read_bytes()
    status, _, err = show(kept, "--out", kept)
    assert status == 2
    assert "would overwrite the results that are read" in err
    assert kept.read_bytes() == before
    assert (
        show(tmp_path / "none.privreg")[2] == f"privreg: error: there is no file {str(tmp_path / 'none.privreg')!r}.\n"
    )
