"""Built pages ask no other host for anything."""

import pkgutil
import re
import runpy

import pytest

from docs import __main__ as build
from docs import cells

CONF = runpy.run_path(str(cells.ROOT / "docs" / "conf.py"))
PAGES = [
    page
    for folder in ("docs", "vignettes")
    for page in (cells.ROOT / folder).rglob("*.md")
    if "_build" not in page.parts
]


def test_settings_ask_no_other_host():
    assert CONF["nb_ipywidgets_js"] == {}  # scripts of widgets
    assert not {"dollarmath", "amsmath"} & set(CONF["myst_enable_extensions"])  # MathJax
    text = (cells.ROOT / "docs" / "conf.py").read_text("utf-8")
    assert re.findall(r"https?://", text) == []
    for style in (cells.ROOT / "docs" / "static").rglob("*.css"):
        assert re.findall(build.FETCHED, style.read_text("utf-8")) == []


@pytest.mark.some(1)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_picture_or_script_of_another_host(page):
    text = page.read_text("utf-8")
    assert re.findall(r"!\[[^]]*\]\(\s*(?:https?:)?//|\{math\}|\$\$", text) == []
    asked = build._Asked()
    asked.feed(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    assert asked.found == []


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/require.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        '<img src="https://example.org/badge.svg">',
        '<style>@import "https://fonts.example/a.css";</style>',
        '<script type="module">import("https://cdn.example/a.js")</script>',
        '<iframe src="http://example.org"></iframe>',
    ],
)
def test_what_asks_another_host_is_found(text, tmp_path):
    (tmp_path / "page.html").write_text(f"<html><body>{text}</body></html>", "utf-8")
    assert len(build.asked(tmp_path)) == 1


def test_links_and_files_beside_the_page_are_not_requests(tmp_path):
    text = '<link rel="canonical" href="https://example.org/"><a href="https://example.org">a</a><img src="a.png">'
    (tmp_path / "page.html").write_text(text, "utf-8")
    assert build.asked(tmp_path) == []


def listed(page, directive):
    """Entries of a page's lists of one kind."""
    text = page.read_text("utf-8")
    found = re.findall(rf"^(?:```{{{directive}}}|\.\. {directive}::)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    blocks = [re.sub(r"^ *:.*\n", "", block, flags=re.MULTILINE) for block in found]
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def test_names_of_the_reference_exist():
    names = listed(cells.ROOT / "docs" / "api.md", "autosummary")
    assert len(names) > 60
    for name in names:
        pkgutil.resolve_name(f"privreg.{name}")


def test_each_page_is_in_one_table_of_contents():
    docs = cells.ROOT / "docs"
    staged = [page.relative_to(docs if docs in page.parents else cells.ROOT) for page in PAGES]
    entries = [entry for page in PAGES for entry in listed(page, "toctree")]
    assert sorted([*entries, "index"]) == sorted(str(page.with_suffix("")) for page in staged)


@pytest.mark.thorough  # a thousand pages are written
def test_pages_are_built_without_a_warning(tmp_path):
    for module in ("sphinx", "myst_nb", "numpydoc", "pydata_sphinx_theme"):
        pytest.importorskip(module)
    assert build.main(["--fast", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "index.html").is_file()
