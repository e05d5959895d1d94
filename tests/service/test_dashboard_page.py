"""The dashboard in a real Chromium: it updates, keeps its token, asks nobody else, and everybody can read it."""

import json
import math
import urllib.request

import numpy as np
import pytest

from privreg.collector.inference.resampling import Anytime
from tests.service.served import FLAGS, chromium, served
from tests.service.world import ANALYST, World, people

pytestmark = pytest.mark.browser

PATH = "/studies/sleep/dashboard"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        one = p.chromium.launch(executable_path=path, args=FLAGS)
        yield one
        one.close()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, n=1200, rows=1200)


def opened(browser, address, width=1280, scheme="light", token=ANALYST):
    """The study's page after the token was entered by keyboard; what it asked for and complained of."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.asked, page.complained = [], []
    page.on("request", lambda r: page.asked.append(r.url))
    page.on("pageerror", lambda e: page.complained.append(str(e)))
    page.on("console", lambda m: page.complained.append(m.text) if m.type == "error" else None)
    page.goto(address + PATH)
    page.wait_for_selector("#token:focus")
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    return page


def shown(page, name):
    """What stands under a name among the numbers of now."""
    return page.locator(f".pr dl div:has(dt:text-is('{name}')) dd").evaluate("dd => dd.firstChild.textContent")


def wait_shown(page, name, value):
    page.locator(f".pr dl div:has(dt:text-is('{name}')) dd", has_text=value).wait_for(timeout=15_000)


def post(address, bodies):
    for body in bodies:
        head = {"content-type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{address}/v1/studies/sleep/reports", body, head)
        ) as answer:
            assert answer.status == 201


def test_the_dashboard_updates(browser, world):
    world.answer(500)
    with served(world.scheduler) as address:
        page = opened(browser, address)
        wait_shown(page, "Reports", "500")
        before = page.locator(".pr-cards tbody").inner_text()
        assert "Intercept" in before
        for count in (30, 60):
            post(address, world.bodies(30))
            wait_shown(page, "Reports", str(500 + count))
        page.wait_for_function("before => document.querySelector('.pr-cards tbody').innerText !== before", arg=before)
        assert shown(page, "In the estimate") != "–"
        assert page.locator(".pr-curves canvas").count() == 2
        warning = page.locator("section", has_text="every look").first.inner_text()
        assert "Not valid for stopping early" in warning
        page.context.close()


def test_curves_are_drawn(browser, world):
    world.answer(900)
    with served(world.scheduler) as address:
        page = opened(browser, address)
        page.wait_for_selector(".pr-curves canvas")
        page.wait_for_timeout(300)
        inked = page.evaluate("""() => [...document.querySelectorAll('canvas')].map((c) => {
            const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return new Set(data.filter((_, i) => i % 4 === 3)).size; })""")
        assert len(inked) == 3
        assert min(inked) > 1
        assert all(
            len(label) > 20 for label in page.eval_on_selector_all("[role=img]", "all => all.map((e) => e.ariaLabel)")
        )
        page.context.close()


def test_the_token_is_kept_in_the_tab_and_sent_in_a_header(browser, world):
    with served(world.scheduler) as address:
        page = opened(browser, address, token="wrong")
        page.locator("#login-wrong", has_text="not the study").wait_for()
        assert page.evaluate("sessionStorage.length") == 0
        page.fill("#token", ANALYST)
        page.keyboard.press("Enter")
        wait_shown(page, "Reports", "0")
        page.reload()
        wait_shown(page, "Reports", "0")
        assert page.evaluate("[localStorage.length, document.cookie, sessionStorage.length]") == [0, "", 1]
        page.click("#forget")
        page.wait_for_selector("#login:visible")
        assert page.evaluate("sessionStorage.length") == 0
        assert not page.locator("#view").is_visible()
        assert all(url.startswith((address, "data:")) for url in page.asked)
        assert not any(ANALYST in url or "token" in url.lower() for url in page.asked)
        assert all("401" in text for text in page.complained)
        page.context.close()


def test_the_page_of_public_results_needs_a_token(browser, world):
    with served(world.scheduler, public_results=True) as address:
        page = opened(browser, address)
        wait_shown(page, "Reports", "0")
        page.context.close()


def test_a_lost_server_is_found_again(browser, world):
    with served(world.scheduler) as address:
        page = opened(browser, address)
        wait_shown(page, "Reports", "0")
    page.locator("#link", has_text="Connection lost").wait_for()
    world.answer(40)
    with served(world.scheduler, port=int(address.rpartition(":")[2])):
        wait_shown(page, "Reports", "40")
        page.locator("#link", has_text="Connected").wait_for()
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400, 320])
def test_everybody_can_read_it(browser, world, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    world.answer(900)
    with served(world.scheduler) as address:
        page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        page.goto(address + PATH)
        page.wait_for_selector("#token:focus")
        faults = Axe().run(page, options={"runOnly": RULES}).response["violations"]
        page.fill("#token", ANALYST)
        page.keyboard.press("Enter")
        page.wait_for_selector(".pr-curves canvas")
        page.locator("#view summary").click()
        page.locator("#glossary summary").click()
        faults += Axe().run(page, options={"runOnly": RULES}).response["violations"]
        assert [(f["id"], [n["html"] for n in f["nodes"]]) for f in faults] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        wide = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)"
        assert page.eval_on_selector_all(".pr section, .pr table, .pr p, .pr dl", wide) == []
        page.context.close()


def test_long_names_stay_in_their_boxes(browser, tmp_path):
    long = "Nachtschichtarbeitszeitverordnungsänderungsgesetz" * 2
    folk = people(1500)
    folk["shift"] = np.array(["day", long, "both"])[np.arange(1500) % 3]
    words = {"title": long, "purpose": long, "questions": {"age": "a?", "hours": "h?", "shift": "s?"}}
    model = {"formula": "hours ~ age + C(shift)", "levels": {"shift": ["day", long, "both"]}, "rows": 1500}
    world = World(tmp_path, n=1500, folk=folk, **model, **words)
    world.answer(1200)
    with served(world.scheduler) as address:
        page = opened(browser, address, width=400)
        page.wait_for_selector(".pr-curves canvas")
        page.locator(".pr li", has_text=long).wait_for()  # a note of the fit names the column
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        wide = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)"
        assert page.eval_on_selector_all("h1, .pr section, .pr table, .pr p, .pr ul, .pr dl", wide) == []
        page.context.close()


def test_the_keyboard_reaches_everything(browser, world):
    world.answer(900)
    with served(world.scheduler) as address:
        page = opened(browser, address)
        page.wait_for_selector(".pr-curves canvas")
        assert page.evaluate("document.activeElement.id") == "title"
        seen = []
        for _ in range(5):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.tagName + (document.activeElement.id || '')"))
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert seen == ["BUTTONforget", "SELECT", "SUMMARY", "SELECT", "INPUT"]
        page.context.close()


def test_what_is_still_needed_is_what_the_width_takes(browser, world):
    world.answer(900)
    with served(world.scheduler) as address:
        page = opened(browser, address)
        page.wait_for_selector(".pr-curves canvas")
        request = urllib.request.Request(
            f"{address}/v1/studies/sleep/results", headers={"Authorization": f"Bearer {ANALYST}"}
        )
        with urllib.request.urlopen(request) as answer:
            told = json.load(answer)
        error, senders = told["coefficients"][1]["std_error"], told["senders"]
        ask = """([told, error, width, kind]) =>
            import("./dashboard/curves.js").then((m) => m.needed(told, error, width, kind))"""
        for kind, law in (("once", lambda n: 1.959964), ("always", lambda n: Anytime(n).critical(0.05))):
            for width in (error, error / 3, error / 10, error / 25):
                more = page.evaluate(ask, [told, error, width, kind])
                n = senders + more
                assert n >= (30_000 if kind == "always" else senders)
                reached = 2.0 * law(n) * error * math.sqrt(senders / n)
                assert reached == pytest.approx(width, rel=0.01) or (
                    kind == "always" and n < 35_000 and reached < width
                )
        assert page.evaluate(ask, [told, error, 10 * error, "once"]) == 0
        assert page.evaluate(ask, [told, error, error / 1e6, "once"]) is None
        page.get_by_label("Width").fill(str(error))
        page.locator("section p[role=status]", has_text="Reports still needed: about").wait_for()
        page.context.close()
