"""The privacy statement: what it says of every mechanism, and how it is kept in files."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import BudgetError, OptionError, SavedFileError
from privreg.privacy.conversions import shuffled, shuffling_limit
from privreg.privacy.ledger import Budget, Release, compose
from privreg.results.statement import WHOLE_RECORD, PrivacyStatement, closing_notes
from privreg.tables.diagnostics import Diagnostic
from tests.helpers import unmarked

declare = Budget.declare


def statement(budget=None, mechanism="Gaussian", **fields):
    budget = budget or declare(mu=1)
    given = {
        "budget": budget,
        "trust": "simulated",
        "mechanism": mechanism,
        "noise_sd": 2.0,
        "bound": 1.0,
        "weights": "1, unit weights",
        "curvature": "nothing",
        "release": Release(1, budget.mu),
        "declared": (("age", "bounds 18 to 65"),),
        "notes": (Diagnostic("rounding", "first note"), Diagnostic("remark", "second <note>")),
    }
    return PrivacyStatement(**given | fields)


def pure(epsilon=1.0, **fields):
    return statement(declare(epsilon=epsilon), "Laplace", **{"noise": "scale 2.83 per coordinate"} | fields)


VARIANTS = {
    "gaussian": statement(),
    "pure": pure(),
    "epsilon, delta": statement(declare(epsilon=1, delta=1e-6)),
    "rho": statement(declare(rho=0.5)),
    "none": statement(declare(mu=None)),
    "central": statement(trust="central plug-in"),
    "central pure": pure(trust="central plug-in"),
    "seeded": pure(seeded=True),
    "leaked": statement(leaked=("scale",)),
    "rows": statement(per_id=4, mu_max=True, people=10_000),
    "labels": pure(protects="the response only", fit_measures=(("R²", "a tenth of the budget"),)),
}


@pytest.fixture(params=VARIANTS)
def told(request):
    return VARIANTS[request.param]


# --- what it says ----------------------------------------------------------------------------------------


def test_the_gaussian_statement_reads_as_before():
    rows = dict(statement().rows())
    assert rows["Guarantee"] == "1-GDP, hence (4.89, 1e-06)-DP"
    assert rows["Mechanism"] == "Gaussian, noise sd 2 = 2 × bound / mu"
    assert rows["Protects"] == WHOLE_RECORD
    assert statement().short == "1-GDP"


def test_the_first_row_is_a_sentence_about_one_person():
    label, text = statement().rows()[0]
    assert label == "In words"
    assert "is right at most 69.2% of the time" in text  # Φ(1/2) = 0.69146, rounded up
    assert "two possible records" in text
    assert "at most 73.2%" in pure().in_words  # e/(1 + e)
    assert "practically always" in statement(declare(mu=9)).in_words
    assert "Nobody is protected" in VARIANTS["none"].rows()[0][1]
    assert VARIANTS["seeded"].in_words.startswith("With secret noise, not as run: whoever")
    assert VARIANTS["leaked"].in_words.startswith("Of what was reported: whoever")
    assert "two records that differ as protected" in VARIANTS["labels"].in_words


@pytest.mark.parametrize(
    ("mechanism", "noise"),
    [("Laplace", "scale 4 per coordinate"), ("PrivUnit", "variance 31"), ("randomized response", "p = 0.73")],
)
def test_pure_mechanisms_say_what_they_do(mechanism, noise):
    told = statement(declare(epsilon=1), mechanism, noise=noise)
    rows = dict(told.rows())
    assert rows["Mechanism"] == f"{mechanism}, {noise}"
    assert rows["Guarantee"] == "1-DP, pure, hence 1.233-GDP"
    assert told.short == "1-DP (pure)"
    assert "1e-06" not in told.as_text()  # no δ where there is none


def test_gaussian_noise_never_claims_pure_privacy():
    with pytest.raises(BudgetError, match=r"can't keep 1-DP, pure.*Laplace, or give delta=1e-6"):
        statement(declare(epsilon=1))


def test_rows_per_person_add_up_and_are_printed():
    several = VARIANTS["rows"]
    assert several.total_mu == pytest.approx(2.0)
    assert several.guarantee == (
        "at most 2-GDP in all, hence (11, 1e-06)-DP: 1-GDP for each of a person's 4 rows (√4 × 1), per person; "
        "whose budget is smaller has that guarantee; personal budgets are public"
    )
    assert several.short == "≤ 2-GDP"
    twice = pure(0.5, per_id=2)
    assert twice.total == declare(epsilon=1)
    assert twice.guarantee == "1-DP, pure in all, hence 1.233-GDP: 0.5-DP, pure for each of a person's 2 rows (2 × 0.5)"
    curated = statement(per_id=2, trust="central plug-in")
    assert curated.total_mu == pytest.approx(2.0)
    assert "2-GDP in all" in curated.guarantee


def test_a_curators_part_adds_up():
    assert VARIANTS["central"].total_mu == compose([1.0, 1.0])
    assert VARIANTS["central"].guarantee.startswith("at most 1.415-GDP in all, hence (")
    assert VARIANTS["central pure"].total == declare(epsilon=2)
    assert VARIANTS["central pure"].guarantee.startswith("2-DP, pure in all, hence 2.358-GDP: 1-DP, pure locally")


def test_fit_measures_are_listed_with_their_cost():
    assert ("Released: R²", "a tenth of the budget") in VARIANTS["labels"].rows()
    assert ("Protects", "the response only") in VARIANTS["labels"].rows()


def test_every_view_shows_every_row(told):
    text, html = " ".join(told.as_text().split()), told.as_html()
    for label, value in told.rows():
        assert f"{label}: {value}" in text
        assert label in html
    assert "[2] second <note>" in text
    assert "second &lt;note&gt;" in html
    assert html == told._repr_html_()
    assert str(told) == told.as_text()
    assert max(map(len, told.as_text().split("\n"))) <= 80


# --- files -----------------------------------------------------------------------------------------------


def test_json_brings_it_back(told):
    assert PrivacyStatement.from_json(json.loads(told.as_json())) == told
    assert PrivacyStatement.from_json(told.to_json()) == told


def test_older_files_still_load():
    document = statement().to_json()
    for name in ("noise", "protects", "fit_measures", "mu_max", "per_id", "people"):
        del document[name]
    assert PrivacyStatement.from_json(document) == statement()


@pytest.mark.some(15)
@pytest.mark.parametrize("ending", ["txt", "html", "json", "HTML"])
def test_save_by_ending(told, tmp_path, ending):
    path = tmp_path / f"statement.{ending}"
    told.save(path)
    written = path.read_text(encoding="utf-8")
    if ending == "txt":
        assert written == told.as_text() + "\n"
    elif ending == "json":
        assert PrivacyStatement.from_json(json.loads(written)) == told
    else:
        assert written.startswith("<!DOCTYPE html>")
        assert told.as_html() in written
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_save_refuses_other_endings_and_missing_folders(tmp_path):
    for name in ("statement.pdf", "statement"):
        with pytest.raises(OptionError, match=r"\.txt.*\.html.*\.json"):
            statement().save(tmp_path / name)
    with pytest.raises(SavedFileError, match="can't write"):
        statement().save(tmp_path / "none" / "statement.txt")
    assert not list(tmp_path.iterdir())


# --- shuffling -------------------------------------------------------------------------------------------


def test_shuffled_is_the_closed_form_of_the_theorem():
    e, n, delta = 1.5, 50_000, 1e-6
    printed = math.log(
        1
        + (math.exp(e) - 1)
        / (math.exp(e) + 1)
        * (8 * math.sqrt(math.exp(e) * math.log(4 / delta)) / math.sqrt(n) + 8 * math.exp(e) / n)
    )
    assert shuffled(e, n, delta) == pytest.approx(printed, rel=1e-12)
    assert shuffled(e, 4 * n, delta) < shuffled(e, n, delta) < e
    assert shuffled(1e-3, 233, delta) == 1e-3  # never more than the local guarantee


def test_shuffled_stops_where_the_theorem_does():
    n, delta = 50_000, 1e-6
    limit = math.log(n / (16 * math.log(2 / delta)))
    assert shuffling_limit(n, delta) == limit
    assert shuffled(limit, n, delta) <= limit
    with pytest.raises(BudgetError, match=r"proved for epsilon0 up to .* = 5.37 here, got 5.4; it takes 51,397 people"):
        shuffled(5.4, n, delta)
    for bad in ((0, n, delta), (math.nan, n, delta), (1.0, 0, delta), (1.0, 2.5, delta), (1.0, n, 0), (1.0, n, 1)):
        with pytest.raises(BudgetError, match="must"):
            shuffled(*bad)


def test_shuffling_is_only_said_with_its_conditions():
    text = " ".join(pure(people=10_000).shuffled().split())
    assert "If, and only if, a trusted shuffler stood between the 10,000 people" in text
    assert "(0.215, 1e-06)-DP" in text  # 0.21403, rounded up
    assert shuffled(1.0, 10_000, 1e-6) == pytest.approx(0.21403, abs=1e-5)
    for word in ("Theorem III.1", "pure 1-DP", "uniformly random and unknown", "shuffles nothing", "[3]"):
        assert word in text
    assert pure(people=10_000).shuffled() == pure().shuffled(10_000)
    assert max(map(len, pure().shuffled(10_000).split("\n"))) <= 80
    assert pure(seeded=True).shuffled(10_000).startswith("NOT AS RUN")
    assert pure(leaked=("scale",)).shuffled(10_000).startswith("Not counting scale")
    assert "shuffle" not in pure(people=10_000).as_text()  # only when asked for


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (statement(), "shuffling amplifies pure epsilon, and this fit is 1-GDP"),
        (VARIANTS["none"], "NOT PRIVATE"),
        (pure(per_id=2), "several rows per person"),
        (pure(mu_max=True), "personal budgets"),
        (VARIANTS["central pure"], "a curator"),
        (pure(5.0), "it takes 34"),
    ],
)
def test_shuffling_is_refused_where_the_theorem_says_nothing(told, why):
    with pytest.raises(BudgetError, match=why):
        told.shuffled(1000)
    with pytest.raises(BudgetError):
        dataclasses.replace(told, people=0).shuffled()


def test_reports_beside_public_covariates_are_not_amplified(tmp_path):
    x = np.linspace(-1, 1, 2000)
    data = pd.DataFrame({"x": x, "z": (x > 0).astype(float), "w": np.ones(2000), "y": 0.5 * x})
    public = {"bounds": {"x": (-1, 1), "w": (1, 2), "y": (-1, 1)}, "epsilon": 1.0}

    def fit(formula, private="response", **more):
        build = pr.PrivateOnlineRegression.from_formula
        return build(formula, data, private=private, **public | more).fit(progress=False)

    alone = fit("y ~ 1")
    assert "trusted shuffler" in alone.privacy.shuffled(10_000)
    for k, res in enumerate((fit("y ~ x"), fit("y ~ x - 1"), fit("y ~ 1", offset="x"), fit("y ~ 1", offset="w"))):
        path = tmp_path / f"{k}.privreg"
        res.save(path)
        saved = res.privacy.to_json()
        older = PrivacyStatement.from_json({k: v for k, v in saved.items() if k != "linked"})
        for told in (res.privacy, pr.load(path).privacy, PrivacyStatement.from_json(saved), older):
            with pytest.raises(BudgetError, match=r"public covariates, which tell who sent it.*private='record'"):
                told.shuffled(10_000)
    alone.save(tmp_path / "alone.privreg")
    assert pr.load(tmp_path / "alone.privreg").privacy.shuffled(10_000) == alone.privacy.shuffled(10_000)
    assert "trusted shuffler" in fit("y ~ x", private="record").privacy.shuffled(10_000)
    older = {k: v for k, v in pure(people=10_000).to_json().items() if k != "linked"}
    assert "trusted shuffler" in PrivacyStatement.from_json(older).shuffled()


# --- several releases from the same people -----------------------------------------------------------------

AGAIN = Release(5, math.sqrt(5))


def test_the_headline_names_what_all_releases_cost_together_and_then_this_one():
    told = statement(release=AGAIN)
    assert told.guarantee == (
        "at most 2.237-GDP in all 5 releases from these data so far, hence (12.6, 1e-06)-DP; "
        "this release alone: 1-GDP, hence (4.89, 1e-06)-DP"
    )
    assert "everything published in all 5 releases, knows" in told.in_words
    assert "at most 86.9% of the time (69.2% after this one alone)" in told.in_words  # Φ(√5/2) = 0.86822
    assert told.headline == "at most 2.237-GDP in all 5 releases, this one 1-GDP"
    assert json.loads(told.as_json())["guarantee"] == told.guarantee
    for text in (told.as_text(), unmarked(told.as_html())):
        said = " ".join(text.split())
        assert "2.237-GDP in all 5 releases" in said
        assert said.index("2.237-GDP") < said.index("1-GDP, hence")
        assert said.index("86.9%") < said.index("69.2%")
    assert (told.total_mu, told.short) == (1.0, "1-GDP")  # of this release, for what composes releases
    assert Budget.declare(mu=math.sqrt(5)).epsilon_at(1e-6) <= 12.6


@pytest.mark.parametrize("kind", [k for k in VARIANTS if k != "none"])
def test_the_first_release_reads_as_before_and_later_ones_say_both(kind):
    first = VARIANTS[kind]
    assert "in all 1 " not in first.as_text()
    assert first.headline == first.short
    assert dataclasses.replace(first, release=Release(0, first.total_mu)).guarantee == first.guarantee
    total = math.hypot(2.0, first.total_mu)
    again = dataclasses.replace(first, release=Release(2, total))
    own = first.guarantee.removeprefix("NONE as run, because of seed=; with secret noise ").removeprefix("at most ")
    assert "in all 2 releases from these data so far, hence (" in again.guarantee
    assert own in again.guarantee
    assert again.guarantee.startswith("NONE as run") == first.guarantee.startswith("NONE as run")
    assert again.guarantee.startswith("at most") or not first.guarantee.startswith("at most")
    assert "at most at most" not in again.guarantee
    assert "all 2 releases" in again.in_words
    assert PrivacyStatement.from_json(again.to_json()).guarantee == again.guarantee


def test_a_release_without_noise_leaves_nobody_protected_by_all_together():
    after = statement(release=Release(2, math.inf))
    assert after.guarantee == (
        "NONE in all 2 releases from these data so far, as one had no noise (mu=None); this release alone: "
        "1-GDP, hence (4.89, 1e-06)-DP"
    )
    assert after.in_words.startswith(
        "Nobody is protected by all 2 releases: one carried no noise. After this one alone: whoever sees"
    )
    assert "69.2%" in after.in_words
    assert after.headline == "NOT PRIVATE in all 2 releases, as one had no noise; this one 1-GDP"
    assert VARIANTS["none"].guarantee == dataclasses.replace(VARIANTS["none"], release=AGAIN).guarantee


@pytest.mark.parametrize(("delta", "said"), [(1e-6, False), (1e-3, False), (0.01, True), (0.5, True)])
def test_a_large_delta_is_said(delta, said):
    asked = declare(epsilon=1, delta=delta)
    assert ("delta" in {note.code for note in closing_notes(asked, asked)}) is said
