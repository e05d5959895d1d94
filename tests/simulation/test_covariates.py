"""Public rows as the law of covariates: what they change, what they leave as it is, and that they are kept."""

import pickle

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.base import archive
from privreg.collector.estimation.estimate import estimate
from privreg.data.sources.open import file_mark
from privreg.errors import NotPrivateError, SavedFileError
from privreg.fits.settings import FitOptions
from privreg.formula.describe import MOST, PublicRows, public_rows
from privreg.simulation.streaming.stream import Stream
from privreg.simulation.workers import Span, blocks_of, fit_blocks
from tests.helpers import read_saved

N = 12_000
BOX = {"a": (0, 20), "b": (-4, 4), "y": (-5, 25)}
LEVELS = {"g": ["u", "v", "w"]}


def people(n=N, seed=1):
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.standard_normal(n)), np.where(rng.random(n) < 0.7, -1, 2) + 0.3 * rng.standard_normal(n)
    g = np.array(LEVELS["g"])[rng.choice(3, n, p=[0.6, 0.3, 0.1])]
    return pd.DataFrame({"a": a, "b": b, "g": g, "y": 1 + a + b + 0.5 * rng.standard_normal(n)})


PUBLIC = people(5_000, 2).drop(columns="y").assign(other="a text")


def model(data=None, formula="y ~ a + b + g", **options):
    given = {"mu": 2, "bounds": BOX, "levels": LEVELS, "rows": N, **options}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **given)


def fed(data, **options):
    """A stream without noise that has had everybody."""
    stream = model(mu=None).start(**options)
    return stream.update(data)


def bits(res):
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


def curvature(z):
    """E z zᵀ/‖z‖, to which that of a loss is proportional where residuals have the same law everywhere."""
    return (z / np.linalg.norm(z, axis=1)[:, None]).T @ z / len(z)


# --- what they change ----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_law_is_that_of_the_people():
    data, apart = people(), {}
    for name, given in {"none": {}, "public": {"covariates": PUBLIC}}.items():
        stream = fed(data, **given)
        progress = stream._run.progress
        truth = curvature(stream._encoder.encode(data).x @ progress.state.rows.T)
        root = np.linalg.inv(np.linalg.cholesky(curvature(progress.points)))
        apart[name] = np.abs(np.log(np.linalg.eigvalsh(root @ truth @ root.T))).max()
    assert apart["public"] < 0.25  # of 2,048 rows
    assert apart["none"] > 2 * apart["public"]


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"scaling": "private", "bounds": {"y": BOX["y"]}}, {"score_weights": "unit"}])
def test_the_law_is_in_the_coordinates_of_the_scores(options):
    data = people()
    stream = model(mu=None, **options).start(covariates=PUBLIC).update(data)
    progress = stream._run.progress
    z = stream._encoder.encode(data).x @ progress.state.rows.T
    assert np.abs(progress.points.mean(axis=0) - z.mean(axis=0)).max() < 0.15
    np.testing.assert_allclose(np.quantile(progress.points, 0.9, axis=0), np.quantile(z, 0.9, axis=0), atol=0.2)


@pytest.mark.thorough
def test_arrays_take_them_from_columns_of_their_names():
    data = people()
    x = np.column_stack([np.ones(N), data["a"], data["b"]])
    arrays = pr.PrivateOnlineRegression(
        data["y"].to_numpy(), x, exog_names=["const", "a", "b"], endog_name="y", bounds=BOX, mu=2
    )
    by_name = public_rows(model(formula="y ~ a + b")._spec, PUBLIC)
    np.testing.assert_array_equal(public_rows(arrays._spec, PUBLIC).inside, by_name.inside)
    assert arrays.fit(covariates=PUBLIC, seed=1, progress=False).params.notna().all()


# --- what they leave -------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_what_people_are_asked_is_the_same():
    plain, given = model().plan(), model().plan(covariates=PUBLIC)
    pd.testing.assert_frame_equal(plain.rounds, given.rounds)
    assert (plain.guarantee, plain.mechanism, plain.noise_sd) == (given.guarantee, given.mechanism, given.noise_sd)
    first = []
    for stream in (model().start(seed=1), model().start(seed=1, covariates=PUBLIC)):
        run, data = stream._run, people()
        at = 0
        while run.progress.fitted is None:
            stream.update(data.iloc[at : at + 100])
            at += 100
        first.append(run.progress.state)
    for one, other in zip(*first, strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_used_rows_of_the_design_are_kept_and_clamped():
    wild = PUBLIC.assign(a=PUBLIC["a"].where(PUBLIC.index % 2 == 0, 1e9))
    held = public_rows(model()._spec, wild)
    assert (len(held.inside), held.given) == (MOST, 5_000)
    at = np.arange(MOST) * 5_000 // MOST
    clamped = wild.iloc[at].assign(a=wild["a"].iloc[at].clip(*BOX["a"]), y=0.0)
    stream = model().start()
    np.testing.assert_array_equal(held.inside, stream._encoder.encode(clamped).x[:, np.argsort(stream._encoder.order)])
    assert repr(held) == "<public rows (5,000); 2,048 of them are used>"


@pytest.mark.thorough
def test_summary_plan_and_statement_say_so():
    res = model(people()).fit(covariates=PUBLIC.head(1_000), seed=1, progress=False)
    assert ("covariates", "public rows (1,000)") in res.privacy.declared
    assert "covariates" not in dict(model(people()).fit(seed=1, progress=False).privacy.declared)
    plan = model().plan(covariates=PUBLIC)
    assert "public rows (5,000); 2,048 of them are used" in repr(plan)
    told = plan.to_dict()["options"]["covariates"]
    assert (told["rows"], told["used"]) == (5_000, MOST)
    again = pickle.loads(pickle.dumps(plan))
    assert again.to_dict() == plan.to_dict()


# --- kept ------------------------------------------------------------------------------------------------------


def test_a_saved_stream_goes_on_to_the_same_bits(tmp_path):
    data, path = people(), tmp_path / "stream.privreg"
    stream = model().start(seed=1, covariates=PUBLIC).update(data.iloc[:7_000])
    stream.save(path)
    rest = data.iloc[7_000:].copy()
    loaded = pr.load(path).update(rest)
    assert bits(loaded.results()) == bits(stream.update(rest).results())
    document, arrays = read_saved(path)
    kind = document.pop("kind")
    del document["format"]
    for change in ({"covariates": 2 * arrays["covariates"]}, {"covariates": arrays["covariates"][:, 1:]}):
        archive.write_archive(path, kind, document, arrays | change)
        with pytest.raises(SavedFileError, match="damaged"):
            pr.load(path)


@pytest.mark.thorough
def test_a_saved_stream_with_a_first_guess_goes_on_to_the_same_bits(tmp_path):
    data, path = people(), tmp_path / "stream.privreg"
    stream = model().start(seed=1, start_params=[1, 0, 0, 1, 1]).update(data.iloc[:7_000])
    stream.save(path)
    assert bits(pr.load(path).update(data.iloc[7_000:]).results()) == bits(stream.update(data.iloc[7_000:]).results())


@pytest.mark.thorough
def test_a_checkpoint_goes_on_with_the_same_rows_only(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    path, kept = tmp_path / "people.csv", tmp_path / "run.privreg"
    people(100_000).to_csv(path, index=False)
    how = {"seed": 5, "progress": False, "threads": 1}
    whole = bits(model(path).fit(covariates=PUBLIC, **how))
    original = Stream._take

    def take(self, given, read):
        original(self, given, read)
        if self.rows_read > 50_000:
            raise Killed

    with monkeypatch.context() as m:
        m.setattr(Stream, "_take", take)
        with pytest.raises(Killed):
            model(path).fit(covariates=PUBLIC, checkpoint=kept, checkpoint_rows=10_000, **how)
    for other in (None, PUBLIC.head(4_000)):
        with pytest.raises(SavedFileError, match="another set of public rows"):
            model(path).fit(covariates=other, checkpoint=kept, **how)
    assert bits(model(path).fit(covariates=PUBLIC, checkpoint=kept, **how)) == whole


def test_workers_are_not_told_them_and_need_them_not(tmp_path):
    path = tmp_path / "people.parquet"
    people(20_000).to_parquet(path, row_group_size=1_000)
    spec = model()._spec
    files = blocks_of([Span(str(path), 0, 20_000, tuple(file_mark(path)[1:]))], spec)
    asked = FitOptions(covariates=public_rows(spec, PUBLIC))
    given = []

    def backwards(function, some):
        given.extend(work.asked.covariates for work, *_ in some)
        return [function(*one) for one in reversed(some)][::-1]

    def in_turn(function, some):
        return [function(*one) for one in some]

    one, other = (fit_blocks(spec, asked, None, 3, files, each)._run for each in (backwards, in_turn))
    plain = fit_blocks(spec, FitOptions(), None, 3, files, in_turn)._run
    assert set(given) == {None}
    np.testing.assert_array_equal(
        estimate(one.plan, one.held().progress).theta, estimate(other.plan, other.held().progress).theta
    )
    assert (estimate(one.plan, one.held().progress).theta != estimate(plain.plan, plain.held().progress).theta).any()
    assert one.plan.covariates is not None


def test_a_plan_is_played_with_them():
    data = people()
    res = pr.simulate(model(data).plan(covariates=PUBLIC), data, dropout=0.2, late=2, seed=1)
    plain = pr.simulate(model(data).plan(), data, dropout=0.2, late=2, seed=1)
    assert (res.params != plain.params).any()
    assert ("covariates", "public rows (5,000); 2,048 of them are used") in res.privacy.declared


# --- rows that are not public ------------------------------------------------------------------------------------


def test_rows_to_be_fitted_are_not_public():
    data = people()
    plan = model().plan(covariates=data)
    for call in (
        lambda: model(data).fit(covariates=data),
        lambda: model(data).plan(covariates=data.iloc[:1_000]),
        lambda: model(data).start(covariates=data.iloc[::2]),
        lambda: pr.simulate(plan, data),
        lambda: model().start(covariates=data).update(data.iloc[:100]),
    ):
        with pytest.raises(NotPrivateError, match="among the rows to be fitted"):
            call()
    first, rest = data.iloc[:6_000], data.iloc[6_000:]
    with pytest.raises(NotPrivateError, match="share memory with them"):
        model(rest).plan(covariates=first)
    apart = pd.DataFrame(rest.to_dict("list"))
    assert model(apart).plan(covariates=first).asked.covariates.given == 6_000


def test_rows_keep_nothing_alive():
    held = public_rows(model()._spec, people(2_000, 4))
    assert isinstance(held, PublicRows)
    assert held.accounts.entries
    assert held.accounts.now() == []
