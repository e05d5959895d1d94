"""What reports of several rows, of weighted rows and of clusters don't go with: one table, each line with its fix."""

from __future__ import annotations

from pathlib import Path

import pytest

import privreg as pr
from privreg.errors import FormulaError, InferenceError, OptionError, SchemaError, UnsupportedArgumentError
from tests.simulation.test_persons import FIT, HOW, model, panel

POOLED = {"formula": "y ~ x", "id": "person"}
CLUSTERS = {"formula": "y ~ x", "k_max": None, "cluster": "school", "levels": {"school": list(range(20))}}
LOCAL = {"trust": "local"}

MODELS = [
    # what is declared of people
    ({"formula": "y ~ x", "id": None}, OptionError, "give id='person'"),
    ({"id": "person", "max_per_id": 2}, OptionError, "give one of them, with two collectors k_max="),
    ({"formula": "y ~ x", "k_max": 0}, OptionError, "1 to 1,000"),
    ({"k_max": None}, OptionError, "give k_max=5"),
    ({"k_max": None, **LOCAL}, FormulaError, "k_max=5, say"),
    ({"k_max": 1}, OptionError, "2 or more"),
    ({"per_person": "median"}, OptionError, "per_person"),
    ({"formula": "y ~ x", "k_max": None, "per_person": "mean"}, OptionError, "give k_max="),
    ({"missing": "drop"}, OptionError, "leave missing= out"),
    ({**LOCAL, "mu": "w", "mu_max": 4}, UnsupportedArgumentError, "give one budget for all"),
    ({**POOLED, **LOCAL, "private": "response"}, OptionError, "leave further rows of a person out"),
    # columns
    ({**LOCAL, "scaling": "private", "bounds": {}}, SchemaError, "declare bounds="),
    ({"offset": "v"}, SchemaError, "'v'"),
    ({"weights": "v"}, SchemaError, r"bounds=\{'v': \(0, largest\)\}"),
    ({"weights": "v", "bounds": {**HOW["bounds"], "v": (-1, 1)}}, SchemaError, "from 0 on"),
    ({"weights": "x"}, SchemaError, "name another column in weights="),
    ({**LOCAL, "formula": "y ~ x", "k_max": None, "weights": "w", "private": "response"},
     OptionError, "leave private= out"),
    # what a formula has after |
    ({"id": "year"}, OptionError, r"must be one column; for another factor write C\(person\)"),
    ({"formula": "y ~ x | person + year"}, FormulaError, "further factors are terms"),
    ({"formula": "y ~ x | person/year"}, FormulaError, "further factors are terms"),
    ({"formula": "y ~ x | lag(person)"}, FormulaError, r"diff\(person\)"),
    ({"formula": "y ~ x - 1 | person"}, UnsupportedArgumentError, "leave out '- 1'"),
    ({"formula": "y ~ x + person | person"}, SchemaError, "person"),
    # families
    ({"family": pr.Quantile(0.5)}, UnsupportedArgumentError, r"goes with Squared\(\), Huber\(\) and Logistic\(\)"),
    ({"formula": "b ~ x | person", "family": "logistic"}, UnsupportedArgumentError, "give k_max=2"),
    ({**POOLED, "formula": "year ~ x", "family": "multinomial"}, UnsupportedArgumentError, "or trust='local'"),
    # clusters
    ({**CLUSTERS, "levels": {}}, SchemaError, r"declare levels=\{'school'"),
    ({**CLUSTERS, "levels": {"school": list(range(15))}}, OptionError, r"put C\(school\) into the formula"),
    ({**CLUSTERS, "cluster": "person", "id": "person"}, OptionError, "name one for each"),
    ({**CLUSTERS, "cluster": 3}, OptionError, "must be the name"),
    ({**CLUSTERS, **LOCAL, "private": "response"}, UnsupportedArgumentError, "private='record'"),
    ({**CLUSTERS, "missing": "drop"}, UnsupportedArgumentError, "missing='noise'"),
    ({**CLUSTERS, "trust": "central", "missing": "drop"}, UnsupportedArgumentError, "missing='noise'"),
]  # fmt: skip

FITS = [
    (LOCAL, {"tuning": "published"}, OptionError, "leave tuning= out"),
    (LOCAL, {"measures": 0.1}, OptionError, "leave it out, as predictions need persons' levels"),
    ({**POOLED, **LOCAL}, {"measures": 0.1}, OptionError, r"results.evaluate\(rows\)"),
    (POOLED, {"measures": 0.1}, OptionError, r"results.evaluate\(rows\)"),
    (LOCAL, {"client": "local"}, UnsupportedArgumentError, "leave it out"),
    (LOCAL, {"checkpoint": "kept"}, UnsupportedArgumentError, r"checkpoint= doesn't go with k_max=.* leave it out"),
    ({}, {"checkpoint": "kept"}, UnsupportedArgumentError, r"checkpoint= doesn't go with k_max=.* leave it out"),
    ({}, {"lanes": 8}, OptionError, "belongs to trust='local'"),
    ({**CLUSTERS, **LOCAL}, {"inference": "sandwich"}, InferenceError, "leave inference= and tuning= out"),
    ({**CLUSTERS, **LOCAL}, {"tuning": "published"}, InferenceError, "leave inference= and tuning= out"),
    ({**CLUSTERS, **LOCAL}, {"lanes": 16}, OptionError, "two clusters each.* leave it out"),
    ({**CLUSTERS, **LOCAL}, {"measures": 0.1}, OptionError, "cluster=; leave it out"),
    ({**CLUSTERS, **LOCAL}, {"client": "local"}, UnsupportedArgumentError, "cluster=.* leave it out"),
]

PLANS = [
    ({"icc": 0.5}, OptionError, "goes with k_max="),
    ({"icc": 0.5, "k_max": 3, "family": "logistic"}, OptionError, "a number's family"),
    ({"icc": 1.0, "k_max": 3}, OptionError, r"\[0, 1\)"),
]


def made(asked: dict[str, object], data: object) -> pr.PrivateOnlineRegression:
    given = dict(asked)
    return model(data, str(given.pop("formula", "y ~ x | person")), **given)


@pytest.mark.parametrize(("asked", "error", "words"), MODELS)
def test_models_are_refused_by_their_declarations(asked: dict[str, object], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        made(asked, panel(1, 30).assign(v=1.0, many=1, school=1))


@pytest.mark.parametrize(("asked", "options", "error", "words"), FITS)
def test_fits_are_refused_by_their_options(
    asked: dict[str, object], options: dict[str, object], error: type, words: str, tmp_path: Path
) -> None:
    data = panel(1, 300)
    data.assign(school=data["person"] % 20).to_csv(tmp_path / "panel.csv", index=False)
    options = {k: tmp_path / str(v) if k == "checkpoint" else v for k, v in options.items()}
    with pytest.raises(error, match=words):
        made({**asked, "rows": 300}, tmp_path / "panel.csv").fit(**options)


@pytest.mark.parametrize(("asked", "error", "words"), PLANS)
def test_plans_are_refused_by_what_they_assume(asked: dict[str, object], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        pr.plan("y ~ x", n=1_000, mu=1, bounds={"x": (0, 1), "y": (0, 1)}, **asked)


@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("asked", [{"weights": "w"}, CLUSTERS])
def test_precision_is_not_said_of_weights_and_clusters_that_nobody_described(
    asked: dict[str, object], trust: str
) -> None:
    """As of a study that is to be signed; what `pr.plan` takes has neither."""
    from privreg.planning.power import plan_of_fit

    with pytest.raises(UnsupportedArgumentError, match="leave weights= and cluster= out, or play made-up people"):
        plan_of_fit(made({**asked, "trust": trust}, None).plan(rows=1_000), 1_000)


@pytest.mark.parametrize("option", ["id", "k_max", "per_person", "weights", "cluster"])
def test_arrays_have_no_columns_of_people_and_a_frame_has(option: str) -> None:
    data = panel(1, 30)
    with pytest.raises(UnsupportedArgumentError, match="put the rows in a DataFrame and use from_formula"):
        pr.PrivateOnlineRegression(data["y"], data[["x"]], mu=1, **{option: "person"})


def test_other_front_doors_say_who_takes_levels_of_persons_out() -> None:
    with pytest.raises(FormulaError, match="trust='local', 'two_collectors' or 'central'"):
        pr.federated.FederatedRegression.from_formula("y ~ x | person", panel(1, 30), mu=1, bounds=HOW["bounds"])


def test_a_stream_of_persons_is_not_saved(tmp_path: Path) -> None:
    stream = model(None, rows=300, trust="local").start().update(panel(1, 30))
    with pytest.raises(InferenceError, match=r"save its results\(\) instead"):
        stream.save(tmp_path / "stream.privreg")


def test_a_data_frame_needs_no_rows_and_a_stream_does() -> None:
    assert FIT("y ~ x | person", panel(1, 30), **HOW, k_max=3).plan().rows == 30
    with pytest.raises(OptionError, match="give rows= to the model"):
        model(None).start()
