"""Tables as a browser lays them out on a telephone."""

import pytest

from tests.helpers import array_model
from tests.service.served import FLAGS, chromium

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        one = p.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield one
        one.close()


def test_titles_of_tables_are_as_wide_as_their_tables_on_a_narrow_page(browser, tmp_path):
    res = array_model(2000).fit(seed=1, progress=False)
    page = tmp_path / "page.html"
    page.write_text(f'<meta name="viewport" content="width=device-width">{res.t_test("a = b, c").as_html()}')
    for width in (400, 1280):
        shown = browser.new_page(viewport={"width": width, "height": 800})
        shown.goto(page.as_uri())
        wide = [shown.locator(part).first.bounding_box()["width"] for part in ("caption", "table.coef")]
        assert wide[0] > 0.9 * wide[1]
