"""Names of columns are public: misspelt ones are answered by those that the data have, before a row is read."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import DataError, FormulaError, OptionError, PrivacyLeakError, SchemaError, UnsupportedArgumentError

FIT = pr.PrivateOnlineRegression.from_formula
BOX = {"age": (18, 65), "charges": (0, 35_000)}


@pytest.fixture(scope="module")
def people():
    return pr.datasets.us_insurance(500)


@pytest.fixture(scope="module", params=["frame", "mapping", "parquet", "csv", "arrow", "list"])
def held(request, people, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / f"people.{request.param}"
    if request.param == "mapping":
        return {name: people[name].to_numpy() for name in people}
    if request.param == "arrow":
        return pytest.importorskip("pyarrow").Table.from_pandas(people)
    if request.param == "list":
        return [people[:250], people[250:]]
    if request.param == "csv":
        people.to_csv(path, index=False)
    elif request.param == "parquet":
        people.to_parquet(path)
    return people if request.param == "frame" else path


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("formula", "absent", "meant"),
    [
        ("charges ~ agee", "agee", "age"),
        ("charge ~ age", "charge", "charges"),
        ("charges ~ Age", "Age", "age"),
        ("np.log(charges) ~ C(smokr)", "smokr", "smoker"),
    ],
)
def test_a_misspelt_column_is_missing_and_the_nearest_is_named(held, formula, absent, meant):
    with pytest.raises(DataError, match=f"column '{absent}' is missing.*Did you mean '{meant}'"):
        FIT(formula, held, mu=1)


@pytest.mark.parametrize("option", ["id", "mu", "offset", "exposure"])
def test_so_is_a_column_beside_the_formula(people, option):
    more = {"mu": 1, "bounds": BOX, option: "agee"} | ({"mu_max": 1} if option == "mu" else {})
    with pytest.raises(DataError, match=r"column 'agee' is missing.*Did you mean 'age'"):
        FIT("charges ~ bmi", people, **more)


def test_a_first_record_where_a_header_should_be_is_not_quoted(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("diabetic,female,north\nwell,male,south\n")
    with pytest.raises(DataError, match="column 'diabetes' is missing") as caught:
        FIT("diabetes ~ sex", path, mu=1)
    assert not any(word in str(caught.value) for word in ("diabetic", "female", "north"))


def silos(people):
    halves = [people[:250], people[250:]]
    return pr.federated.FederatedRegression.from_formula("smoker ~ agee", halves, mu=1, family="logistic")


def means(people):
    return pr.means.PrivateMeans.from_formula("agee ~ 1", people, mu=1, by="smoker")


def curator(people):
    return FIT("charges ~ agee", people, mu=1, trust="central")


@pytest.mark.parametrize("make", [curator, silos, means])
def test_so_it_is_at_every_front_door(people, make):
    with pytest.raises(DataError, match=r"column 'agee' is missing.*Did you mean 'age'"):
        make(people)


def test_a_formula_that_may_not_be_read_is_refused_before_the_names_are_looked_at(people):
    with pytest.raises(PrivacyLeakError):
        FIT("charges ~ center(agee)", people, mu=1)


def test_nothing_but_the_nearest_name_is_told_of_a_mapping_by_person():
    with pytest.raises(DataError) as caught:
        FIT("y ~ x", {"Anna": [1.0], "Bert": [2.0]}, mu=1)
    assert "Anna" not in str(caught.value)
    assert "Bert" not in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "meant"),
    [({"bounds": {"agee": (20, 30)}}, "age"), ({"levels": {"smokr": ["no", "yes"]}}, "smoker"),
     ({"moments": {"bmii": (30, 5)}}, "bmi")],
)  # fmt: skip
def test_a_misspelt_declaration_is_refused_where_the_data_carry_another(people, declared, meant):
    option = next(iter(declared))
    with pytest.raises(SchemaError, match=f"^{option}= declares .* neither of the data nor of the model.*'{meant}'"):
        FIT("charges ~ age + bmi + smoker", people, mu=1, **declared)
    with pytest.raises(SchemaError, match="neither of the data nor of the model"):
        pr.means.PrivateMeans.from_formula("age + bmi ~ 1", people, mu=1, bounds={"nobody": (0, 1)})


def test_so_it_is_where_a_scale_is_learned(people):
    plain = pd.DataFrame({name: people[name].to_numpy() for name in ("age", "charges")})
    with pytest.raises(SchemaError, match="declares 'agee'"):
        FIT("charges ~ age", plain, mu=1, scaling="private", bounds={"agee": (18, 65)})
    arrays = {"exog_names": ["const", "age"], "endog_name": "y", "scaling": "private"}
    x = np.column_stack([np.ones(500), plain["age"]])
    with pytest.raises(SchemaError, match="declares 'agee'"):
        pr.PrivateOnlineRegression(plain["charges"], x, mu=1, bounds={"agee": (18, 65)}, **arrays)


def test_declarations_of_several_models_and_tables_may_be_shared(people):
    FIT("charges ~ age", people, mu=1, bounds={**BOX, "elsewhere": (0, 1)})
    FIT("charges ~ age", people, mu=1, bounds={"bmi": (10, 60)})
    FIT("charges ~ age", people, mu=1, schema=pr.Schema.declare({"elsewhere": (0, 1)}))


# --- offsets that are logarithms ---------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["np.log(bmi)", "log(bmi)", "numpy.log( bmi )"])
def test_the_logarithm_of_an_offset_is_an_exposure(people, code):
    with pytest.raises(FormulaError, match="give exposure='bmi' beside it, whose logarithm is added"):
        FIT(f"children ~ age + offset({code})", people, mu=1, family=pr.Poisson(5))
    for option in ("offset", "exposure"):
        with pytest.raises(OptionError, match="exposure='bmi' adds the logarithm of it"):
            FIT("children ~ age", people, mu=1, family=pr.Poisson(5), **{option: code})


def test_another_offset_stays_one(people):
    with pytest.raises(FormulaError, match="give offset='bmi' beside it"):
        FIT("children ~ age + offset(bmi)", people, mu=1, family=pr.Poisson(5))


# --- declarations and data of the wrong kind ---------------------------------------------------------------


def test_levels_may_be_a_series_of_type_category(people):
    given = people["region"].astype("category")
    model = FIT("charges ~ region", people, mu=1, levels={"region": given})
    assert model.exog_names == FIT("charges ~ region", people, mu=1, levels={"region": given.cat.categories}).exog_names
    with pytest.raises(SchemaError, match=r"names a level twice.*Got a Series that is not of type category"):
        FIT("charges ~ region", people, mu=1, levels={"region": people["region"].astype(object)})


def test_an_undeclared_column_may_hold_dates(people):
    with pytest.raises(SchemaError, match=r"If it is a number or a date, give bounds=\{'day'"):
        FIT("charges ~ day", people.assign(day="2020-01-01"), mu=1)


def test_a_file_separated_by_spaces_is_told_so(people, tmp_path):
    path = tmp_path / "people.txt"
    people[["age", "charges"]].to_csv(path, index=False, sep=" ")
    with pytest.raises(DataError, match="separated by spaces"):
        FIT("charges ~ age", path, mu=1, bounds=BOX)


@pytest.mark.parametrize("address", ["https://example.org/a.csv", "s3://bucket/a.parquet"])
def test_an_address_is_no_file(address):
    with pytest.raises(UnsupportedArgumentError, match=r"on the network .* are not read; download it first"):
        FIT("charges ~ age", address, mu=1, bounds=BOX)


def test_of_a_series_as_data_it_is_said_what_is_allowed(people):
    with pytest.raises(UnsupportedArgumentError, match="of type Series can't be read; give a DataFrame"):
        FIT("charges ~ age", people["age"], mu=1, bounds=BOX)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["Alter in Jahren", "Größe (cm)", "a-b", "x.1", "2nd", "class", "body mass"])
def test_a_column_whose_name_is_no_word_is_written_with_q(people, name, tmp_path):
    data = people.rename(columns={"age": name})
    bounds = {"bounds": {**BOX, name: (18, 65)}}
    data.to_csv(tmp_path / "people.csv", index=False)
    for given in (data, tmp_path / "people.csv"):
        for formula in (f"charges ~ {name}", f"charges ~ C({name})", f"{name} ~ charges", f"charges ~ {name} + bmi"):
            with pytest.raises(FormulaError, match=re.escape(f'write Q("{name}") in the formula')):
                FIT(formula, given, mu=1, **bounds)
            with pytest.raises(FormulaError, match=re.escape(f'write Q("{name}") in the formula')):
                pr.central.Regression.from_formula(formula, given, mu=1, **bounds)
    with pytest.raises(FormulaError, match=re.escape(f'write Q("{name}") in the formula')):
        pr.means.estimate(data, formula=f"{name} + bmi ~ 1", mu=1, **bounds)
    assert FIT(f'charges ~ Q("{name}")', data, mu=1, **bounds).exog_names == ["Intercept", f'Q("{name}")']
    # a formula that is wrong otherwise is not blamed on names that it writes rightly, or hasn't
    with pytest.raises(pr.PrivacyLeakError, match="mean"):
        FIT(f'charges ~ Q("{name}").mean()', data, mu=1, **bounds)


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["central", "two_collectors"])
@pytest.mark.parametrize(
    ("formula", "shares", "said"),
    [
        ("y ~ x + k", (0.005, 0.6, 0.395), "least of all along k, of which 'a' seems the rarest level"),
        ("y ~ x + C(k, Sum)", (0.5, 0.495, 0.005), "of which 'c' seems the rarest level"),
        ("y ~ x + k:x", (0.5, 0.495, 0.005), "least of all along k[T.c]:x"),
    ],
)
def test_a_note_names_the_column_that_reports_say_least_about(formula, shares, said, trust) -> None:
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.uniform(0, 10, 2000), "k": rng.choice(["a", "b", "c"], 2000, p=shares)})
    data["y"] = 10 + 2 * data["x"] + rng.normal(0, 3, 2000)
    given = {"bounds": {"y": (-10, 60), "x": (0, 10)}, "levels": {"k": ["a", "b", "c"]}, "mu": 1, "trust": trust}
    with pytest.warns(pr.errors.ReliabilityWarning):
        res = pr.PrivateOnlineRegression.from_formula(formula, data, **given).fit(seed=1, progress=False)
    (note,) = (n for n in res.privacy.notes if n.code == "curvature")
    assert said in note


@pytest.mark.thorough
def test_a_note_on_perfect_predictions_names_what_it_marks() -> None:
    rng, found = np.random.default_rng(1), 0
    data = pd.DataFrame({"age": rng.uniform(18, 80, 3_000), "rare": rng.choice(["no", "yes"], 3_000, p=[0.97, 0.03])})
    data["g"] = rng.choice(["a", "b", "c", "d"], 3_000, p=[0.4, 0.3, 0.2, 0.1])
    data["y"] = (rng.random(3_000) < 1.0 / (1.0 + np.exp(3.0 - 0.05 * data["age"]))).astype(int)
    given = {"bounds": {"age": (18, 80)}, "levels": {"g": ["a", "b", "c", "d"], "rare": ["no", "yes"], "y": [0, 1]}}
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ age + g + rare", data, family="logistic", mu=1, trust="central", **given
    )
    for seed in range(12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
            res = model.fit(seed=seed, progress=False)
        for note in (n for n in res.privacy.notes if n.code == "perfect"):
            named = re.search("level, of (.*?) have", str(note))[1]
            assert {res.params.index[j] for j in note.rows} - {"Intercept"} == set(re.split(", | and ", named))
            found += 1
    assert found > 3


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["huber", "gaussian"])
@pytest.mark.parametrize("n", [2_000, 20_000])
def test_a_rare_0_or_1_that_is_a_number_marks_all_that_its_rows_may_move(family, n) -> None:
    """In its few rows, which are long, another column has another slope: weights take those from it, too."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = pd.DataFrame({"x": rng.uniform(0, 10, n), "rare": (rng.random(n) < 0.03).astype(float)})
        data["y"] = 10 + 2 * data["x"] + data["rare"] * (2 * data["x"] - 7) + rng.normal(0, 3, n)
        given = {"bounds": {"y": (-10, 60), "x": (0, 10), "rare": (0, 1)}, "mu": 1, "trust": "central"}
        model = pr.PrivateOnlineRegression.from_formula("y ~ x + rare", data, family=family, **given)
        with pytest.warns(pr.errors.ReliabilityWarning):
            res = model.fit(seed=seed, progress=False)
        assert not res.tidy()["reliable"].any()


def test_a_note_on_rows_far_out_names_the_rare_0_or_1() -> None:
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.uniform(0, 10, 2000), "rare": (rng.random(2000) < 0.03).astype(float)})
    data["y"] = 10 + 2 * data["x"] + 3 * data["rare"] + rng.normal(0, 3, 2000)
    given = {"bounds": {"y": (-10, 60), "x": (0, 10), "rare": (0, 1)}, "mu": 1, "trust": "central"}
    with pytest.warns(pr.errors.ReliabilityWarning):
        res = pr.PrivateOnlineRegression.from_formula("y ~ x + rare", data, **given).fit(seed=1, progress=False)
    (note,) = (n for n in res.privacy.notes if n.code == "weights")
    assert "most of all along rare," in note
    assert "levels= of what is 0 or 1" in note
