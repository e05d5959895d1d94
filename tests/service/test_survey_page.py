"""The survey's page in a real Chromium: answer, no connection, reload, answer twice; keyboard, screen reader, phone.

Needs Chromium and the extra `browser`; see CONTRIBUTING. `python -m
tests.service.test_survey_page` writes the pictures of the documentation anew.
"""

import json
import math
import re
import sys
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from privreg_field.device.consent import guess
from privreg_field.wire import messages, wire
from tests.service import world as worlds
from tests.service.served import FLAGS, chromium, links, served

pytestmark = [pytest.mark.browser]

PICTURES = Path(__file__).parents[2] / "docs" / "static" / "survey"
WAIT = 15_000
STUDY = {
    "title": "Sleep and shift work",
    "purpose": "We want to learn how sleep goes with age and shift work, so that rosters let people rest.",
    "formula": "hours ~ age + C(shift) + ill",
    "levels": {"shift": ["day", "night", "both"], "ill": [False, True]},
    "mu": 1,
    "rows": 5000,
    "questions": {
        "age": "How old are you?",
        "hours": "How many hours did you sleep last night?",
        "shift": "When do you work?",
        "ill": "Were you ill in the last week?",
    },
}


@pytest.fixture(scope="module")
def browser():
    with opened() as one:
        yield one


@contextmanager
def opened():
    command = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        one = p.chromium.launch(executable_path=command, args=FLAGS)
        yield one
        one.close()


class Survey(worlds.World):
    """A study with levels, whose people are of no importance here."""

    def __init__(self, folder, **more):
        rows = worlds.people(20).assign(shift="day", ill=False)
        with pytest.MonkeyPatch.context() as m:
            m.setattr(worlds, "people", lambda n, seed=0: pd.DataFrame(rows[:n]))
            super().__init__(folder, n=20, **{**STUDY, **more})


@pytest.fixture
def survey(tmp_path):
    return Survey(tmp_path)


class Visitor:
    """A page, what it has asked for, and what it complained of."""

    def __init__(self, browser, url, **more):
        self.context = browser.new_context(**{"viewport": {"width": 800, "height": 900}, **more})
        self.url, self.asked, self.posted, self.faults = url, [], [], []
        self.context.on("request", self._note)
        self.page = self.new()

    def new(self):
        page = self.context.new_page()
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda e: self.faults.append(str(e)))
        page.on("console", lambda m: self.faults.append(m.text) if "Content Security Policy" in m.text else None)
        return page

    def _note(self, request):
        self.asked.append(request.url)
        if request.method == "POST":
            self.posted.append(request.post_data)

    def open(self, link):
        self.page.goto(link)
        self.page.locator("h1", has_not_text=re.compile("^Survey$")).wait_for()
        return self

    def fill(self, age="34", hours="7.5", shift="night", ill="no"):
        page = self.page
        page.get_by_label("How old are you?").fill(age)
        page.get_by_label("How many hours did you sleep last night?").fill(hours)
        for name in filter(None, (shift, ill)):
            page.get_by_role("radio", name=name, exact=True).check()
        return self

    def check(self):
        self.page.get_by_role("checkbox").check()
        self.page.get_by_role("button", name="Check my answers").click()
        self.page.get_by_role("heading", name="Are these your answers?").wait_for()
        return self

    def make(self):
        self.check().page.get_by_role("button", name="Make my report").click()
        self.page.locator("#sent").wait_for()
        return self

    def send(self):
        self.page.get_by_role("button", name="Send these numbers").click()
        return self

    def receipt(self):
        self.page.locator("#receipt").wait_for()
        return self.page.locator("#receipt").inner_text()

    def stored(self):
        """Everything that this browser keeps of the page."""
        return self.page.evaluate(
            """async () => {
                const db = await new Promise((ok) => {
                    const asked = indexedDB.open("privreg", 1);
                    asked.onsuccess = () => ok(asked.result);
                });
                const all = await new Promise((ok) => {
                    const asked = db.transaction("studies").objectStore("studies").getAll();
                    asked.onsuccess = () => ok(asked.result);
                });
                db.close();
                return JSON.stringify([all, {...localStorage}, {...sessionStorage}, document.cookie]);
            }"""
        )

    def close(self):
        """End it: nothing may have failed, and nothing else been asked."""
        self.context.close()
        assert self.faults == []
        assert all(url.startswith((self.url, "data:")) for url in self.asked)
        secrets = [part for url in self.asked for part in url.split("#")[:1] if "k=" in part or "t=" in part]
        assert secrets == []


@contextmanager
def visiting(browser, survey, **more):
    with served(survey.scheduler) as url:
        one = Visitor(browser, url, **more)
        yield one, links(survey, url)
        one.close()


def people_of(survey):
    return sum(cell.people for cell in survey.store.cells().values())


def test_open_answer_see_what_is_sent_and_keep_the_receipt(browser, survey):
    with visiting(browser, survey) as (one, invited):
        one.open(invited[0])
        text = one.page.locator("main").inner_text()
        for said in (
            "Sleep and shift work",
            "rosters let people rest",
            "study@example.org",
            "μ = 1",
            "69 times of 100",
            "from 18 to 90",
        ):
            assert said in text
        one.fill().make()
        assert "34" in one.page.locator("table").inner_text()
        body = one.page.locator("#bytes").text_content()
        shown = [int(t.replace(",", "").replace("−", "-")) for t in one.page.locator("#numbers li").all_inner_texts()]
        report = messages.read_report(body.encode(), survey.plan, survey.hash)
        assert list(report.values) == shown
        assert one.posted == []  # nothing was sent yet
        assert json.loads(json.loads(one.stored())[0][0]["report"]["body"]) == json.loads(body)
        receipt = one.send().receipt()
        assert one.posted == [body]
        assert receipt == wire.base(wire.hash_of(body.encode()))
        assert people_of(survey) == 1


def test_without_a_connection_the_same_bytes_wait_for_one(browser, survey):
    with visiting(browser, survey) as (one, invited):
        one.open(invited[0]).fill(age="43.712345").make()
        body = one.page.locator("#bytes").text_content()
        one.context.set_offline(True)
        one.send()
        one.page.get_by_text("No connection to the study's server").wait_for()
        for answer in ("43.7", "night", "7.5"):
            assert answer not in one.stored()
        one.context.set_offline(False)
        assert one.receipt()
        assert set(one.posted) == {body}
        assert '"body":null' in one.stored()
        assert people_of(survey) == 1


def test_a_reload_before_the_answer_came_sends_the_same_bytes(browser, survey):
    with visiting(browser, survey) as (one, invited):
        one.open(invited[0]).fill().make()
        body = one.page.locator("#bytes").text_content()

        def lost(route):
            route.fetch()  # the server has it
            route.abort()  # and its answer is lost

        one.page.route("**/reports", lost)
        one.send()
        one.page.get_by_text("No connection to the study's server").wait_for()
        assert people_of(survey) == 1
        one.page.unroute("**/reports")
        one.page.reload()
        one.page.get_by_text("has not arrived yet").wait_for()
        assert one.page.locator("table").count() == 0  # answers weren't kept
        assert one.page.locator("#bytes").text_content() == body
        one.send().receipt()
        assert set(one.posted) == {body}
        assert people_of(survey) == 1


def test_nobody_answers_twice(browser, survey):
    with visiting(browser, survey) as (one, invited):
        receipt = one.open(invited[0]).fill().make().send().receipt()
        one.page.reload()
        assert one.receipt() == receipt
        assert "everybody answers once" in one.page.locator("main").inner_text()
        one.open(f"{invited[1]}&again").page.wait_for_timeout(300)  # another invitation, the same browser
        assert one.receipt() == receipt
        assert one.page.get_by_role("button").count() == 0
        assert people_of(survey) == 1
        other = Visitor(browser, one.url)  # the same invitation, another browser: the collector takes one report
        other.open(invited[0]).fill().make().send()
        other.page.get_by_text("a report has arrived before, and yours was not taken").wait_for()
        other.close()
        assert people_of(survey) == 1


def test_two_pages_make_one_report(browser, survey):
    with visiting(browser, survey) as (one, invited):
        one.open(invited[0]).fill(age="20")
        first, second = one.page, one.new()
        one.page = second
        one.open(invited[0]).fill(age="80").make()
        made = second.locator("#bytes").text_content()
        one.page = first
        one.make()
        assert first.locator("#bytes").text_content() == made


def nothing_made(one):
    """Whether no report is stored or shown."""
    return one.page.locator("#sent").count() == 0 and ("report" not in one.stored() or '"report":null' in one.stored())


def test_wrong_answers_are_named_and_nothing_is_made(browser, survey):
    with visiting(browser, survey) as (one, invited):
        one.open(invited[0]).fill(age="old")
        on = one.page.get_by_role("button", name="Check my answers")
        on.click()
        assert "Write a number" in one.page.locator("#q0-flaw").inner_text()
        assert one.page.locator("#q0").get_attribute("aria-invalid") == "true"
        assert one.page.evaluate("document.activeElement.id") == "q0"
        assert "Without your consent" in one.page.locator("#consent-flaw").inner_text()
        one.page.get_by_label("How old are you?").fill("34,5")
        one.page.get_by_label("How many hours did you sleep last night?").fill("")
        one.page.get_by_role("checkbox").check()
        on.click()
        one.page.get_by_text("You left a question open").wait_for()
        assert one.page.locator("#q1-flaw").inner_text() == "No answer yet."
        assert one.page.evaluate("document.activeElement.id") == "q1"
        assert nothing_made(one)
        on.click()  # as it is meant
        assert "No answer" in one.page.locator("table").inner_text()
        assert nothing_made(one)
        one.page.get_by_role("button", name="Make my report").click()
        one.page.locator("#numbers").wait_for()


def test_an_answer_out_of_bounds_stops_once_with_what_is_allowed(browser, survey):
    with visiting(browser, survey) as (one, invited):
        page = one.open(invited[0]).fill(age="17", hours="25").page
        on, flaws = page.get_by_role("button", name="Check my answers"), page.locator("#q0-flaw, #q1-flaw")
        page.get_by_role("checkbox").check()
        on.click()
        assert flaws.all_inner_texts() == [
            f"Not allowed. A number from {low} to {high}. If you press the button again, your answer counts as {kept}."
            for low, high, kept in ((18, 90, 18), (0, 24, 24))
        ]
        assert page.evaluate("document.activeElement.id") == "q0"
        assert [page.locator(f"#q{k}").get_attribute("aria-invalid") for k in (0, 1)] == ["true"] * 2
        page.locator("#q0").fill("16")  # another answer, which was not doubted yet
        page.locator("#q1").fill("7")
        on.click()
        assert "counts as 18" in flaws.first.inner_text()
        assert flaws.last.inner_text() == ""
        on.click()
        told = page.locator("td").all_inner_texts()
        assert told[1] == "16 (not allowed, so it counts as 18)"
        assert told[3] == "7"
        page.get_by_role("button", name="Make my report").click()
        page.locator("#numbers").wait_for()
        assert page.locator("td").all_inner_texts() == told


WAYS = {
    "its button": lambda page: page.get_by_role("button", name="Back to the questions").click(),
    "the browser's": lambda page: page.go_back(),
    "a key": lambda page: (page.keyboard.press("Tab"), page.keyboard.press("Tab"), page.keyboard.press("Enter")),
}


@pytest.mark.parametrize("way", WAYS)
def test_there_is_a_way_back_that_keeps_the_answers(browser, survey, way):
    with visiting(browser, survey) as (one, invited):
        page = one.open(invited[0]).fill(age="43", hours="7,5", shift="both", ill="yes").check().page
        assert focused(page)[0] == "H1"  # which a screen reader reads
        asked = len(one.asked)
        WAYS[way](page)
        page.get_by_label("How old are you?").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Your answers"
        page.wait_for_timeout(100)  # in which a browser would put back how far the page was scrolled
        top = page.evaluate("document.activeElement.getBoundingClientRect().top")
        assert 0 <= top < page.viewport_size["height"]
        assert [page.locator(f"#q{k}").input_value() for k in (0, 1)] == ["43", "7,5"]
        assert page.get_by_role("radio", checked=True).evaluate_all("all => all.map((e) => e.value)") == ["2", "1"]
        assert page.get_by_role("checkbox").is_checked()
        assert nothing_made(one)
        page.get_by_label("How old are you?").fill("44")
        one.check()
        assert page.locator("td").all_inner_texts()[1::2] == ["44", "7,5", "both", "yes"]
        WAYS[way](page)  # as often as they like
        one.check()
        assert len(one.asked) == asked  # and nobody is asked, or told, anything
        page.get_by_role("button", name="Make my report").click()
        page.locator("#numbers").wait_for()
        page.go_back()  # what is made is made
        page.wait_for_timeout(200)
        assert page.locator("#numbers").count() == 1
        one.send().receipt()
        assert people_of(survey) == 1


def test_choices_have_labels_and_codes_are_reported(browser, tmp_path):
    labels = {
        "shift": {"day": "By day", "both": "Both, by turns", "night": "At night"},
        "ill": {"true": "I was", "false": "No"},
    }
    with visiting(browser, Survey(tmp_path, choices=labels)) as (one, invited):
        page = one.open(invited[0]).fill(shift="At night", ill="I was").page
        rows = page.locator(".choice:has([type=radio])").all_inner_texts()
        assert rows == ["By day", "At night", "Both, by turns", "No answer", "No", "I was", "No answer"]
        one.check()
        assert page.locator("td").all_inner_texts()[1::2] == ["34", "7.5", "At night", "I was"]
        page.get_by_role("button", name="Make my report").click()
        page.locator("#numbers").wait_for()
        assert "At night" not in one.stored()
        one.send().receipt()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda link: link.replace("#k=", "#k=A"), "the link is incomplete"),
        (lambda link: re.sub("#k=.{8}", "#k=AAAAAAAA", link), "not signed"),
        (lambda link: link.partition("&t=")[0], "needs a token"),
    ],
)
def test_links_that_were_changed_are_refused(browser, survey, change, said):
    with visiting(browser, survey) as (one, invited):
        one.open(change(invited[0]))
        assert said in one.page.get_by_role("alert").inner_text()
        assert one.page.locator("form").count() == 0


def test_a_browser_that_lacks_something_is_told_what(browser, survey):
    with visiting(browser, survey) as (one, invited):
        one.context.add_init_script(
            "crypto.subtle.importKey = () => Promise.reject(new DOMException('NotSupportedError'))"
        )
        one.open(invited[0])
        text = one.page.get_by_role("alert").inner_text()
        assert all(name in text for name in ("Ed25519", "137", "Firefox from 129", "Safari from 17"))


def test_it_is_answered_by_the_keyboard_alone(browser, survey):
    with visiting(browser, survey) as (one, invited):
        keys = one.open(invited[0]).page.keyboard
        focus = "document.activeElement.id || document.activeElement.name || document.activeElement.tagName"

        def tab_to(wanted):
            for _ in range(12):
                keys.press("Tab")
                if one.page.evaluate(focus) == wanted:
                    outline = "getComputedStyle(document.activeElement).outlineWidth"
                    assert one.page.evaluate(outline) == "3px"
                    return
            raise AssertionError(wanted)

        tab_to("q0")
        keys.type("34")
        tab_to("q1")
        keys.type("8")
        tab_to("q2")
        keys.press("Space")
        tab_to("q3")
        keys.press("ArrowDown")
        tab_to("SUMMARY")
        one.page.get_by_text("your internet address").wait_for()
        keys.press("Enter")
        one.page.get_by_text("your internet address").wait_for(state="hidden")
        tab_to("consent")
        keys.press("Space")
        tab_to("BUTTON")
        keys.press("Enter")
        one.page.get_by_role("heading", name="Are these your answers?").wait_for()
        assert focused(one.page) == ["H1", "solid"]
        tab_to("BUTTON")
        keys.press("Enter")
        one.page.locator("#numbers").wait_for()
        assert focused(one.page) == ["H1", "solid"]  # which a screen reader reads, and which they went to by a key
        tab_to("BUTTON")
        keys.press("Enter")
        one.receipt()
        assert one.page.evaluate("document.activeElement.tagName") == "H1"


def test_other_words_of_a_plan_are_shown(browser, tmp_path):
    words = {"language": "de", "check": "Antworten prüfen", "range": "Eine Zahl von {low} bis {high}."}
    with visiting(browser, Survey(tmp_path, texts=words)) as (one, invited):
        text = one.open(invited[0]).page.locator("main").inner_text()
        assert all(w in text for w in ("Antworten prüfen", "Eine Zahl von 18 bis 90.", "1. Januar 2040"))
        assert one.page.evaluate("document.documentElement.lang") == "de"
        unchanged = one.page.locator("#unchanged").inner_text()
        assert all(w in unchanged for w in ("written words of this page anew", "69 times of 100", "study 1 that"))


def test_the_studys_text_is_in_its_box_and_the_guarantee_is_last(browser, tmp_path):
    fake = "This browser says: nobody learns anything. <b>Yours</b>"
    with visiting(browser, Survey(tmp_path, title=fake, purpose=f"{fake}\n{fake}")) as (one, invited):
        page = one.open(invited[0]).page
        assert page.locator("h1").inner_text() == "A study asks you"
        assert page.get_by_text(fake).count() == page.locator(".said").get_by_text(fake).count() == 3
        assert page.locator("main b").count() == page.locator("#unchanged").count() == 0
        order = ".said, #privacy, #consent"
        kinds = page.eval_on_selector_all(order, "all => all.map((e) => e.id || e.className)")
        assert kinds == ["said", "said", "privacy", "consent"]


def test_the_questions_are_in_the_studys_box_where_answers_are_shown_too(browser, tmp_path):
    fake = "This browser says: nobody learns anything."
    with visiting(browser, Survey(tmp_path, questions={**STUDY["questions"], "ill": fake})) as (one, invited):
        page = one.open(invited[0]).fill(ill="yes").make().page
        assert page.get_by_text(fake).count() == page.locator(".said").get_by_text(fake).count() == 1


def focused(page, wanted="H1"):
    """Tag of what has the focus, once it is the one that is `wanted`, and the style of the ring around it."""
    page.wait_for_function("tag => document.activeElement.tagName === tag", arg=wanted)
    return page.evaluate("[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]")


def test_no_ring_that_nobody_asked_for(browser, survey):
    """A screen reader begins at the heading; a ring around it is drawn for who came there by a key alone."""
    with visiting(browser, survey) as (one, invited):
        for link in (invited[0].partition("&t=")[0], invited[0]):  # refused, and asked
            page = one.open(link).page
            assert focused(page) == ["H1", "none"]
            page.keyboard.press("PageDown")
            assert focused(page) == ["H1", "none"]
            page.reload()
        page.locator("main").click(position={"x": 3, "y": 3})
        page.keyboard.press("PageDown")
        assert focused(page, "BODY")[0] == "BODY"
        one.fill().make()
        assert focused(page) == ["H1", "none"]


EARLIER = """async (n) => {
    const db = await new Promise((ok) => {
        const asked = indexedDB.open("privreg", 1);
        asked.onupgradeneeded = () => asked.result.createObjectStore("studies", {keyPath: "id"});
        asked.onsuccess = () => ok(asked.result);
    });
    const all = db.transaction("studies", "readwrite"), clock = Math.floor(Date.now() / 1000);
    for (let i = 0; i < n; i += 1) {
        const sent = {state: 0, body: null, receipt: "r", mu: [1, 1], time: clock, clock};
        const report = {plan: `p${i}`, token: `t${i}`, release: `g${i}`, ...sent};
        all.objectStore("studies").put({id: `r${i}/s`, root: `r${i}`, slug: "s", seen: null, report});
    }
    await new Promise((ok) => { all.oncomplete = ok; });
    db.close();
}"""


@pytest.mark.parametrize("earlier", [0, 1, 3])
def test_the_years_studies_are_counted(browser, survey, earlier):
    with visiting(browser, survey) as (one, invited):
        one.open(invited[0].partition("#")[0])  # refused; its memory is this browser's
        one.page.evaluate(EARLIER, earlier)
        said = one.open(invited[0]).page.locator("[aria-labelledby=privacy]").inner_text()
        together = math.sqrt(earlier + 1)  # each of μ = 1, as this one
        assert f"study {earlier + 1} that this browser answers this year. From all of them together somebody" in said
        assert f"guesses right at most {100 * guess(together):.0f} times of 100" in said
        assert f"at most {100 * guess(1):.0f} times of 100" in said


WORD = "Donaudampfschifffahrtsgesellschaftskapitänswitwenrentenauszahlungsstelle" * 2
ASKED = "כמה שעות ישנת אתמול?"
HOSTILE = {
    "title": WORD,
    "purpose": f'{ASKED}\n"This browser says:" </blockquote> https://example.org/{"a" * 150}\n{"字" * 120}',
    "contact": f"{'x' * 80}@example.org",
    "levels": {"shift": ["day", WORD, "كل من النهار والليل"], "ill": [False, True]},
    "questions": {"age": WORD, "hours": ASKED, "shift": f"«{WORD}»", "ill": WORD},
    "texts": dict.fromkeys(
        (
            "heading",
            "said",
            "coin",
            "report",
            "answers",
            "consent",
            "check",
            "make",
            "back",
            "none",
            "question",
            "send",
        ),
        WORD,
    ),
}
OUTSIDE = """() => {
    const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), out = [];
    while (walk.nextNode()) {
        const range = document.createRange(), boxes = ".said, .panel, button, td, th, main";
        range.selectNodeContents(walk.currentNode);
        const box = walk.currentNode.parentElement.closest(boxes).getBoundingClientRect();
        for (const { left, right, width } of range.getClientRects()) {
            if (width > 0 && (left < box.left - 0.5 || right > box.right + 0.5)) out.push(walk.currentNode.data);
        }
    }
    return out;
}"""


@pytest.mark.parametrize("direction", ["ltr", "rtl"])
@pytest.mark.parametrize("width", [400, 320])
def test_long_words_of_any_direction_stay_in_their_boxes(browser, tmp_path, width, direction):
    words = {**HOSTILE["texts"], "direction": direction, "language": "he" if direction == "rtl" else "en"}
    survey = Survey(tmp_path, **{**HOSTILE, "texts": words})
    with visiting(browser, survey, viewport={"width": width, "height": 800}) as (one, invited):

        def fine():
            assert one.page.evaluate(OUTSIDE) == []
            assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

        page = one.open(invited[0]).page
        fine()
        whole, share, coin, answers = (
            page.locator(f".picture {part}").bounding_box()
            for part in (".whole", ".share", ".ends :first-child", ".ends :last-child")
        )
        assert share["width"] == pytest.approx((2 * guess(1) - 1) * whole["width"], abs=1)
        first, second = (coin, answers) if direction == "ltr" else (answers, coin)
        assert first["x"] + first["width"] <= second["x"]
        begins = (
            (share["x"], whole["x"])
            if direction == "ltr"
            else (share["x"] + share["width"], whole["x"] + whole["width"])
        )
        assert begins[0] == pytest.approx(begins[1], abs=1)
        page.locator("#q0").fill("34")
        page.locator("#q1").fill("8")
        page.locator("input[name=q2]").nth(1).check()
        page.locator("input[name=q3]").first.check()
        page.locator("#consent").check()
        page.locator("button[type=submit]").click()
        page.locator("table").wait_for()
        fine()
        page.locator("button").first.click()
        page.locator("#numbers").wait_for()
        page.locator("summary").click()
        fine()
        assert page.locator("#bytes").evaluate("e => getComputedStyle(e).direction") == "ltr"  # as they are
        page.locator("button").click()
        one.receipt()
        fine()


def test_a_response_of_0_and_1_is_a_choice_of_two(browser, tmp_path):
    folk = pd.DataFrame({"age": [30.0] * 20, "rested": [1.0] * 20})
    more = {"formula": "rested ~ age", "family": "logistic", "bounds": {"age": [18, 90], "rested": [0, 1]}}
    asks = {"questions": {"age": "How old are you?", "rested": "Are you rested?"}}
    with visiting(browser, worlds.World(tmp_path, n=20, folk=folk, **more, **asks)) as (one, invited):
        page = one.open(invited[0]).page
        page.get_by_label("How old are you?").fill("34")
        choices = page.get_by_role("radio")
        assert [choices.nth(k).locator("..").inner_text() for k in range(3)] == ["0", "1", "No answer"]
        page.get_by_role("radio", name="1", exact=True).check()
        assert "1" in one.make().page.locator("dl, table").first.inner_text()
        one.send().receipt()


def flaws(page):
    """What axe finds against WCAG 2.2 AA and its own best practice."""
    if find_spec("axe_playwright_python") is None:
        pytest.skip("there is no axe: install the extra browser")
    from axe_playwright_python.base import AXE_FILE_PATH

    page.evaluate(Path(AXE_FILE_PATH).read_text("utf-8"))
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("tags => axe.run({runOnly: {type: 'tag', values: tags}})", tags)
    assert len(found["passes"]) > 15
    return [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400, 320])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(browser, survey, scheme, width):
    look = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with visiting(browser, survey, **look) as (one, invited):

        def fine():
            assert flaws(one.page) == []
            assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            heights = "[...document.querySelectorAll('button, input, select')].map(e => e.offsetHeight)"
            assert min(one.page.evaluate(heights), default=24) >= 21

        one.open(invited[0])
        one.page.locator("summary").click()
        fine()
        one.page.get_by_role("button", name="Check my answers").click()
        fine()  # with its complaints
        one.fill(age="17")
        one.page.get_by_role("checkbox").check()
        one.page.get_by_role("button", name="Check my answers").click()
        fine()
        one.check()
        fine()
        one.page.get_by_role("button", name="Back to the questions").click()
        fine()
        one.make()
        one.page.locator("summary").click()
        fine()
        one.send().receipt()
        fine()
        one.open(f"{invited[1].partition('&t=')[0]}")
        fine()
        one.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
        assert [name for name, _ in flaws(one.page)] == ["button-name"]  # it does find what is wrong


def write_pictures():
    """Pictures of the documentation."""
    from tests.service import test_survey_two as two  # which uses what is above

    PICTURES.mkdir(parents=True, exist_ok=True)
    with opened() as browser:
        two.write_pictures(browser, PICTURES)
    with (
        opened() as browser,
        tempfile.TemporaryDirectory() as folder,
        served((survey := Survey(folder)).scheduler) as url,
    ):
        invited = iter(links(survey, url))
        for scheme in ("light", "dark"):
            for width in (1280, 400):
                one = Visitor(browser, url, viewport={"width": width, "height": 800}, color_scheme=scheme)
                one.open(next(invited)).fill()
                one.page.screenshot(path=PICTURES / f"answers-{width}-{scheme}.png", full_page=True)
                one.check().page.screenshot(path=PICTURES / f"review-{width}-{scheme}.png", full_page=True)
                one.page.go_back()
                one.make().page.screenshot(path=PICTURES / f"sent-{width}-{scheme}.png", full_page=True)
                one.send().receipt()
                one.page.screenshot(path=PICTURES / f"receipt-{width}-{scheme}.png", full_page=True)
                one.close()


if __name__ == "__main__":
    sys.exit(write_pictures())
