"""A family is one file: nothing outside `privreg/families` asks which one it is."""

import ast
import re
from pathlib import Path

import pytest

import privreg as pr
from privreg.errors import OptionError
from privreg.families import FAMILIES
from privreg.families.family import NEEDED, check_ratios
from privreg.families.scores import SCORINGS, Scoring, scoring_of
from privreg.protocol import codes

ROOT = Path(__file__).parents[2]
CODES = [
    name
    for file in (ROOT / "privreg/families").glob("*.py")
    for name in re.findall(r"^    code = codes\.(\w+)$", file.read_text("utf-8"), re.M)
]
NAMES = {*CODES, "EXTRA", "COUNTS", "RESIDUALS", "SCALED"}
"""Names of codes, of each class of scores one, and of sets of them."""
CALLED = {*FAMILIES, *(make.__name__ for make in FAMILIES.values())} - {"gaussian", "poisson", "quantile"}
"""Names of families, but those that mechanisms, orders and statistics have, too."""
COMPILED = "privreg/published/chain/kernels.py"  # the one compiled loop that switches on codes
FIELD = "packages/field/privreg_field"
EXCEPTIONS = {
    COMPILED,
    "privreg/published/descent/losses.py",  # the losses of a printed algorithm, with numbers of its own
    "privreg/doors/loading.py",  # files of earlier versions
    "privreg/options/spelling.py",  # a family as text, with what brackets hold
    "privreg/protocol/sums.py",  # distances of reports, which devices compute without this folder
    f"{FIELD}/device/report/score.py",  # of devices, which have the standard library alone
    f"{FIELD}/device/report/sums.py",
    f"{FIELD}/device/report/answer.py",
    f"{FIELD}/wire/study.py",  # names on the wire
    f"{FIELD}/wire/roles.py",
}
"""Files that compare codes of families. None may be added."""


def asked(text):
    """Lines at which a module compares a family's code, looks one up, or has a case for it."""
    if not any(name in text for name in NAMES | CALLED):
        return []
    tree = ast.parse(text)
    bare = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "privreg.protocol.codes"
        for alias in node.names
    }

    def is_code(node):
        dotted = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "codes"
        return (dotted and node.attr in NAMES) or (isinstance(node, ast.Name) and node.id in NAMES & bare)

    def by_name(node):
        texts = {v.value for v in ast.walk(node) if isinstance(v, ast.Constant) and isinstance(v.value, str)}
        return isinstance(node, ast.Compare) and bool(texts & CALLED)

    held = (ast.Compare, ast.Dict, ast.Set, ast.match_case)
    return [
        node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        for node in ast.walk(tree)
        if isinstance(node, held)
        and (by_name(node) or any(map(is_code, ast.walk(node.pattern if isinstance(node, ast.match_case) else node))))
    ]


def test_no_file_outside_families_asks_for_a_code():
    places = [f for root in ("privreg", FIELD) for f in (ROOT / root).rglob("*.py")]
    files = {f.relative_to(ROOT).as_posix(): asked(f.read_text("utf-8")) for f in places}
    found = {name for name, lines in files.items() if lines and not name.startswith("privreg/families/")}
    assert sorted(found - EXCEPTIONS) == [], "ask the family for a property with a meaning, see `families.scores`"
    assert sorted(EXCEPTIONS - found) == [], "no longer an exception"


@pytest.mark.parametrize(
    "text",
    [
        "codes.HUBER == family",
        "x = {codes.POISSON: 1}",
        "family in {codes.HUBER, 3}",
        "family in codes.COUNTS",
        "from privreg.protocol.codes import POISSON\nfamily != POISSON",
        "match f:\n    case codes.HUBER | codes.SQUARED:\n        pass",
    ],
)
def test_a_branch_would_be_found(text):
    assert len(asked(text)) >= 1
    assert asked(text.replace("codes", "other")) == []


@pytest.mark.parametrize("text", ["family.name == 'Huber'", "name in ('logistic', 'balanced')"])
def test_a_comparison_of_names_would_be_found(text):
    assert asked(text) == [1]
    assert asked(text.replace("Huber", "other").replace("logistic", "another")) == []


MADE = {name: make(20) if name in NEEDED else make() for name, make in FAMILIES.items()}


@pytest.mark.parametrize(
    "place",
    ["privreg/__init__.pyi", "privreg/options/parameters.toml", "docs/api.md", "docs/guides/models.md"],
)
def test_every_family_is_named_where_people_look(place):
    text = (ROOT / place).read_text("utf-8")
    text = text.partition("[local]\nfamily")[2].partition("\nmu =")[0] or text  # of options, this one
    names = {make.__name__ for make in FAMILIES.values()}
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", text)) == [], f"name them in {place}"


def test_families_that_have_ratios_are_named_to_those_that_have_none():
    with pytest.raises(OptionError, match="exponentiate=True is for") as refused:
        check_ratios(pr.Huber(), "y")
    missing = [f.name for f in MADE.values() if f.logs and f"{f.name}()" not in str(refused.value)]
    assert missing == [], "name them in the message of privreg.families.family.check_ratios"
    for family in MADE.values():
        if not family.logs and family.link != "identity":
            with pytest.raises(OptionError, match=re.escape(family.estimand.partition(";")[0])):
                check_ratios(family, "y")


def test_every_code_has_one_score_which_says_what_it_estimates():
    assert sorted(SCORINGS) == list(range(len(SCORINGS)))
    for code, scoring in SCORINGS.items():
        assert scoring.code == code
        assert scoring.estimand
        assert vars(scoring) == {}, "what a score holds is in its shape"
    assert sorted(getattr(codes, name) for name in CODES) == sorted(SCORINGS), "write code = codes.NAME"
    assert {family.code for family in MADE.values()} == {
        code for code, scoring in SCORINGS.items() if not scoring.form
    } - {codes.CUSTOM}


def test_a_score_that_is_not_known_has_none_of_the_properties():
    none = scoring_of(99)
    assert type(none) is Scoring
    assert not any(getattr(none, name) for name in ("residual", "scaled", "counts", "classed", "predicted", "custom"))
    assert none.words(pr.Logistic()) == "Logistic()"
