"""The dashboard of a study with several analyses in a real Chromium, on its page and as a notebook has it."""

import pytest

from privreg_field.device.memory import Memory
from privreg_field.device.session import respond
from privreg_field.service.pages.dashboard import Feed
from privreg_field.study.reading import picture as live
from privreg_field.study.reading.picture import picture
from tests.service.test_analyses import ROW, Several
from tests.service.test_dashboard_page import PATH, RULES, browser, opened, shown, wait_shown  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.foreign_random]

HEADING = "section h2 >> nth=1"


@pytest.fixture
def several(tmp_path):
    """A study of three analyses that three people have answered: the table has estimates, the others have none yet."""
    one = Several(tmp_path)
    with one.serve() as url:
        for i, link in enumerate(one.links(url)[:3]):
            assert respond(link, row=ROW, consent=True, memory=Memory(tmp_path / f"{i}.db")).sent
        one.url = url
        yield one


@pytest.mark.parametrize("width", [1280, 400])
def test_analyses_are_shown_one_at_a_time(browser, several, width):  # noqa: F811
    from axe_playwright_python.sync_playwright import Axe

    page = opened(browser, several.url, width=width)
    page.locator(HEADING, has_text="Means and shares").wait_for()
    assert page.locator("#analysis option").all_inner_texts() == ["who", "hours", "tired"]
    assert page.locator(".pr-cards").inner_text().count("shift[day]:sex[") == 3
    assert "every look" not in page.locator(".pr-cards").inner_text()
    for words, there in (
        ("Coefficients as reports come", False), ("Reports still needed", False), ("Reports by minute", True)
    ):  # fmt: skip
        assert page.get_by_text(words, exact=True).is_visible() == there
    assert shown(page, "Guarantee, each person") == "0.894-GDP"
    assert "all analyses together 2-GDP" in page.locator(".pr dl").inner_text()
    for name, mu in (("hours", "1.414-GDP"), ("tired", "1.095-GDP"), ("who", "0.894-GDP")):
        page.focus("#analysis")
        page.select_option("#analysis", name)
        wait_shown(page, "Guarantee, each person", mu)
        wait_shown(page, "Reports", "3")
        wait_shown(page, "State", "0")
        page.locator("#view", has_text="Means and shares" if name == "who" else "Not yet").wait_for()
        assert page.locator("section h2").count() == 6
        assert page.evaluate("document.activeElement.id") == "analysis"
        faults = Axe().run(page, options={"runOnly": RULES}).response["violations"]
        assert [(f["id"], [n["html"] for n in f["nodes"]]) for f in faults] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert all("401" in text for text in page.complained)
    page.context.close()


def test_a_server_that_was_busy_at_first_is_asked_again(browser, several):  # noqa: F811
    page, busy = browser.new_page(), [True]

    def answered(route):
        if busy:
            busy.pop()
            route.fulfill(status=503, body="{}")
        else:
            route.continue_()

    page.route("**/v1/studies/sleep/plan", answered)
    page.goto(several.url + PATH)
    page.locator("#link", has_text="trying again").wait_for()
    page.wait_for_selector("#token:focus")
    assert page.locator("#analysis option").count() == 3
    page.close()


def test_the_first_minutes_axis_is_of_minutes(browser, several):  # noqa: F811
    page = opened(browser, several.url)
    wait_shown(page, "Reports", "3")
    minutes = page.evaluate(
        """async (told) => {
            const [{ default: uPlot }, { View }] = await Promise.all(
                ["./dashboard/uPlot.esm.js", "./dashboard/view.js"].map((one) => import(one)));
            const view = new View(uPlot, document.getElementById("view"));
            const made = async (bins) => {
                view.progress({ ...told, recent: { ...told.recent, ...bins } });
                await new Promise((go) => setTimeout(go, 50)); // uPlot draws a little later
                const { min, max } = view.bars.plot.scales.x;
                return (max - min) / 60;
            };
            const counts = (n) => Object.fromEntries(
                ["new", "same", "other", "refused"].map((name) => [name, Array(n).fill(1)]));
            return [await made(counts(1)), await made(counts(3)), await made(counts(30))];
        }""",
        Feed(several.schedulers[0]).progress(),
    )
    assert minutes == [10, 10, 30]
    page.context.close()


def test_a_notebook_shows_the_analysis_that_is_chosen(browser, several):  # noqa: F811
    pytest.importorskip("anywidget", reason="anywidget is not installed: pip install './packages/field[live]'")
    told = {
        scheduler.plan.part.name: {"progress": Feed(scheduler).progress(), "results": picture(scheduler.results)}
        for scheduler in several.schedulers
    }
    page = browser.new_page()
    failed = []
    page.on("pageerror", lambda e: failed.append(str(e)))
    page.evaluate(
        """async ([source, told]) => {
            const held = { names: Object.keys(told), chosen: "who", of: "who", said: "", ...told.who }, heard = {};
            window.model = {
                get: (name) => held[name], save_changes: () => {},
                on: (name, tell) => (heard[name] ??= []).push(tell),
                set: (name, value) => {
                    const same = JSON.stringify(held[name]) === JSON.stringify(value);
                    held[name] = value;
                    if (!same) heard[`change:${name}`].forEach((tell) => tell());
                },
            };
            const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            const { default: widget } = await import(url);
            await widget.render({ model, el: document.body });
        }""",
        [str(live._class()._esm), told],
    )

    def comes(name):
        for key, value in {**told[name], "of": name}.items():
            page.evaluate("([key, value]) => model.set(key, value)", [key, value])

    def text():
        return page.locator(".pr").inner_text()

    assert "Means and shares" in text()
    page.select_option("select[aria-label=Analysis]", "hours")
    assert page.evaluate("model.get('chosen')") == "hours"
    comes("who")  # a late answer about another analysis
    assert "GDP" not in text()
    comes("hours")
    assert "1.414-GDP" in text()
    assert "Not yet" in text()
    told["tired"] |= {"progress": told["hours"]["progress"], "results": told["hours"]["results"]}
    page.select_option("select[aria-label=Analysis]", "tired")
    assert "GDP" not in text()
    comes("tired")  # which says the very same: nothing but the name changes
    assert "1.414-GDP" in text()
    page.evaluate("model.set('chosen', 'who')")  # in another view of the same widget, or by the program
    assert page.input_value("select[aria-label=Analysis]") == "who"
    comes("who")
    assert "Means and shares" in text()
    assert not failed
    page.close()
