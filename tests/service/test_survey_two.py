"""The survey's page of a study with two collectors in a real Chromium: a sealed share to each of two servers."""

import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from privreg_field.service.pages import survey
from privreg_field.study import keys
from tests.device.test_two_collectors import GOOD, Study
from tests.service.test_survey_page import OUTSIDE, Visitor, flaws, opened
from tests.studies import COLLECTORS, COLUMNS, ROOT, public, sum_plan, token

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def browser():
    with opened() as one:
        yield one


def app_of(one, url):
    """One of the two servers: the page, the plan, the state, and shares."""

    async def answer(request):
        body = await request.body() if request.method == "POST" else None
        got = one(f"{url}{request.url.path}", body)
        return Response(got.body, got.status or 503, media_type="application/json")

    paths = [("plan", "GET"), ("state", "GET"), ("shares", "POST")]
    api = [Route(f"/v1/studies/sleep/{path}", answer, methods=[verb]) for path, verb in paths]
    shown = survey.routes("sleep", one.plan.collectors)
    return Starlette(routes=[*api, *shown], middleware=survey.middleware(one.plan.collectors))


@contextmanager
def serving(app, sock):
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield
    server.should_exit = True
    thread.join(30)


@contextmanager
def visiting(browser, look=None, **more):
    """A study of two servers, and who visits the first one's page; nothing else may be asked."""
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(2)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        urls = [f"http://127.0.0.1:{sock.getsockname()[1]}" for sock in socks]
        named = more.pop("named", [c.name for c in COLLECTORS])
        pair = tuple(c._replace(url=url, name=n) for c, url, n in zip(COLLECTORS, urls, named, strict=True))
        one = Study(sum_plan(collectors=pair, opens=0, closes=1 << 35, **more))
        for url, sock in zip(urls, socks, strict=True):
            stack.enter_context(serving(app_of(one, url), sock))
        visitor = Visitor(browser, urls[0], **(look or {}))
        yield one, visitor, keys.invitation(urls[0], "sleep", public(ROOT), token())
        visitor.context.close()
        assert visitor.faults == []
        assert all(url.startswith((*urls, "data:")) for url in visitor.asked)
        assert {url.removeprefix(urls[1]) for url in visitor.asked if url.startswith(urls[1])} <= {
            "/v1/studies/sleep/shares"
        }


def filled(page, age="41", shift="night", *, stopped=False, make=True):
    page.get_by_label("How old are you?").fill(age)
    page.get_by_label("What is your body-mass index?").fill("24.5")
    page.get_by_label("How long did you sleep?").fill("7")
    page.get_by_role("radio", name=shift, exact=True).check()
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Check my answers").click()
    if stopped:
        page.get_by_text("counts as 90").wait_for()
        page.get_by_role("button", name="Check my answers").click()
    page.locator("table").wait_for()
    if make:
        page.get_by_role("button", name="Make my report").click()


def test_each_server_gets_a_sealed_share(browser):
    with visiting(browser) as (one, visitor, link):
        page = visitor.open(link).page
        text = page.locator("main").inner_text()
        for said in (
            f"“Office A” ({one.plan.collectors[0].url})", f"“Office B” ({one.plan.collectors[1].url})",
            "Neither of them sees an answer of yours", "Both together could", "one of these two included",
            "69 times of 100", "“Office A”, A@example.org; “Office B”, B@example.org",
            "“Office A” and “Office B” both learn",
            "sends one part of it to “Office A” and the other to “Office B”", "one operator of each included",
            "69: one of these two, or anybody else", "up to 100: both together",
        ):  # fmt: skip
            assert said in text
        assert "with random noise added" not in text
        assert "both of them together up to 100" in page.get_by_role("img").get_attribute("aria-label")
        filled(page)
        page.get_by_text("Two sealed parts are sent").wait_for()
        assert page.locator("#numbers").count() == 0
        bodies = page.locator("#bytes").text_content().split("\n")
        assert not one.posted
        kept = visitor.stored()
        assert "24.5" not in kept
        page.get_by_role("button", name="Send both parts").click()
        receipt = visitor.receipt()
        assert len(receipt.split("\n")) == 2
        assert "one at “Office A” and one at “Office B”" in page.locator("main").inner_text()
        assert sorted(one.posted) == [(k, body.encode()) for k, body in enumerate(bodies)]
        assert np.abs(np.array(one.added()) - one.bare()).max() <= 1
        assert '"body":null' in visitor.stored().replace(" ", "")


def test_a_report_that_neither_added_up_is_made_afresh_also_on_a_page_opened_anew(browser):
    with visiting(browser) as (one, visitor, link):
        page = visitor.open(link).page
        filled(page)
        page.get_by_text("Two sealed parts are sent").wait_for()
        one.close()
        page.close()
        visitor.page = visitor.new()
        page = visitor.open(link).page
        page.get_by_role("button", name="Send both parts").click()
        page.get_by_text("You can answer once more").wait_for()
        filled(page)
        page.get_by_text("Two sealed parts are sent").wait_for()
        one.close()  # and once more, on a page that still has the answers
        page.get_by_role("button", name="Send both parts").click()
        visitor.receipt()
        assert np.abs(np.array(one.added()) - one.bare()).max() <= 1
        assert {held[token().id][0] for held in one.held} == {2}


LABELLED = tuple(c._replace(labels=("By day", "At night", "Both")) if c.name == "shift" else c for c in COLUMNS)


def test_labels_are_shown_and_codes_are_what_the_report_is_made_of(browser):
    with visiting(browser, columns=LABELLED) as (one, visitor, link):
        page = visitor.open(link).page
        filled(page, shift="At night")
        page.get_by_text("Two sealed parts are sent").wait_for()
        assert "At night" in page.locator("table").inner_text()
        page.get_by_role("button", name="Send both parts").click()
        visitor.receipt()
        assert np.abs(np.array(one.added()) - one.bare()).max() <= 1  # of the code `night`


def test_an_answer_out_of_bounds_counts_as_the_nearest_that_is_allowed(browser):
    with visiting(browser) as (one, visitor, link):
        page = visitor.open(link).page
        filled(page, age="107", stopped=True)
        page.get_by_text("Two sealed parts are sent").wait_for()
        page.get_by_role("button", name="Send both parts").click()
        visitor.receipt()
        assert np.abs(np.array(one.added()) - one.bare({**GOOD, "age": 90})).max() <= 1


@pytest.mark.parametrize("width", [1280, 400, 320])
def test_axe_finds_nothing_on_a_page_of_two_collectors(browser, width):
    with visiting(browser, {"viewport": {"width": width, "height": 800}}, columns=LABELLED) as (one, visitor, link):
        page = visitor.open(link).page

        def fine():
            assert flaws(page) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.evaluate(OUTSIDE) == []

        fine()
        page.get_by_role("button", name="Check my answers").click()
        page.get_by_text("Then your whole report is zeros").wait_for()
        fine()
        filled(page, shift="At night", make=False)
        fine()
        page.get_by_role("button", name="Make my report").click()
        page.get_by_text("Two sealed parts are sent").wait_for()
        fine()
        page.get_by_role("button", name="Send both parts").click()
        visitor.receipt()
        fine()
        assert len(one.posted) == 2


def write_pictures(browser, folder):
    """Pictures of the documentation, of a page with two collectors; of `tests.service.test_survey_page`."""
    about = {"columns": LABELLED, "named": ("University of Here", "Office of Statistics")}
    for scheme in ("light", "dark"):
        for width in (1280, 400):
            look = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
            with visiting(browser, look, **about) as (_, visitor, link):
                page = visitor.open(link).page
                filled(page, shift="At night", make=False)
                page.go_back()
                page.get_by_label("How old are you?").wait_for()
                page.screenshot(path=folder / f"two-{width}-{scheme}.png", full_page=True)
