"""Equations of `docs/estimator.md` are numbered in order, and each is cited by the functions that compute it."""

import re

import pytest

from tests.documents.citations import ROOT, module

PAGE = (ROOT / "docs" / "estimator.md").read_text("utf-8")
CITED = re.compile(r"[Ee]quations? ([\d(),\s]+(?:(?:and|to) [\d()]+)?) of\s+docs/estimator\.md")


def numbers(cited):
    """Numbers of "(7)", "(5), (6) and (8)" or "(25) to (30)"."""
    found = [int(n) for n in re.findall(r"\d+", cited)]
    return set(range(found[0], found[1] + 1)) if " to " in cited else set(found)


def numbered(page=PAGE):
    """Numbers at the ends of lines of equations."""
    blocks = re.findall(r"^```text\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    return [int(n) for block in blocks for n in re.findall(r"  \((\d+)\)$", block, flags=re.MULTILINE)]


def texts():
    """Docstrings of the package that mention the page, each with its file."""
    files = [
        path for path in sorted((ROOT / "privreg").rglob("*.py")) if "docs/estimator.md" in path.read_text("utf-8")
    ]
    return [(str(path.relative_to(ROOT)), text) for path in files for text in module(path).docstrings]


def test_equations_are_numbered_in_order():
    assert numbered() == list(range(1, len(numbered()) + 1))
    assert len(numbered()) > 30


def test_every_equation_is_cited_by_a_function_and_every_cited_one_is_there():
    cited = [numbers(found) for _, text in texts() for found in CITED.findall(text)]
    assert set().union(*cited) == set(numbered())


def test_every_citation_is_read():
    left = {name: text for name, text in texts() if re.search(r"quations? \(\d", CITED.sub("", text))}
    assert left == {}


def test_the_text_refers_to_equations_that_are_there():
    assert {int(n) for n in re.findall(r"\((\d{1,2})\)", PAGE)} <= set(numbered())


@pytest.mark.parametrize(
    ("words", "said"),
    [("equation (7)", {7}), ("Equations (5), (6) and (8)", {5, 6, 8}), ("equations (2) to (4)", {2, 3, 4})],
)
def test_what_a_citation_says(words, said):
    (found,) = CITED.findall(f"of what: {words} of\n    docs/estimator.md.")
    assert numbers(found) == said


def test_equations_of_two_collectors_are_numbered_and_cited():
    page = (ROOT / "docs" / "sums.md").read_text("utf-8")
    tags = numbered(page)
    assert tags == list(range(1, len(tags) + 1))
    files = sorted((ROOT / "privreg" / "collector" / "aggregate").glob("*.py"))
    said = " ".join(path.read_text("utf-8") for path in files)
    cited = set().union(
        *(numbers(found) for found in re.findall(r"Equations? ([\d(),\s]+(?:(?:and|to) [\d()]+)?)", said))
    )
    assert cited == set(tags)
