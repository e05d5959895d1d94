"""Built pages ask no other host for anything."""

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
