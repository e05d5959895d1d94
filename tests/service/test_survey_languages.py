"""The survey's page of a study with several analyses in a real Chromium: two languages, and forms that are kept."""

import json
import re
from pathlib import Path

import pytest

from tests.service.served import FLAGS, chromium
from tests.service.test_analyses import KEY, Several

pytestmark = [pytest.mark.browser, pytest.mark.foreign_random]

QUESTIONS = {
    "age": {"en": "How old are you?", "de": "Wie alt sind Sie?"},
    "shift": {"en": "When do you work?", "de": "Wann arbeiten Sie?"},
    "sex": {"en": "What is your sex?", "de": "Welches Geschlecht haben Sie?"},
    "hours": {"en": "How long did you sleep?", "de": "Wie lange haben Sie geschlafen?"},
    "tired": {"en": "Are you tired?", "de": "Sind Sie müde?"},
}
MORE = {
    "language": ["en", "de"],
    "title": {"en": "Sleep", "de": "Schlaf"},
    "purpose": {"en": "How sleep goes with age and shifts.", "de": "Wie der Schlaf von Alter und Schichten abhängt."},
    "questions": QUESTIONS,
    "choices": {
        "shift": {"day": {"en": "By day", "de": "Tagsüber"}, "night": {"en": "At night", "de": "Nachts"}},
        "tired": {"no": {"en": "No", "de": "Nein"}, "yes": {"en": "Yes", "de": "Ja"}},
        "sex": {
            "f": {"en": "Woman", "de": "Frau"},
            "m": {"en": "Man", "de": "Mann"},
            "x": {"en": "Other", "de": "Anderes"},
        },
    },
}
WEB = Path(__file__).parents[2] / "packages" / "field" / "privreg_field" / "service" / "web" / "survey"


@pytest.mark.parametrize("width", [1280, 400])
def test_a_survey_in_two_languages_is_kept_and_answered(tmp_path, width):
    path = chromium()
    from playwright.sync_api import sync_playwright

    one = Several(tmp_path, **MORE)
    one.clock.now = 1_800_000_000
    with one.serve() as url, sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_context(viewport={"width": width, "height": 900}, locale="de-DE").new_page()
        wrong = []
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.goto(one.links(url)[0])
        page.wait_for_selector("form")
        assert page.locator("html").get_attribute("lang") == "de"  # as the browser is
        assert page.get_by_text("Wie alt sind Sie?").count() == 1
        assert page.get_by_text("Tagsüber").count() == 1
        assert "Was Sie eintragen, merkt sich dieser Browser" in page.content()
        page.fill("#q0", "33")
        page.get_by_label("Nachts").check()
        page.screenshot(path=str(tmp_path / f"de-{width}.png"), full_page=True)
        page.select_option("#language", "en")
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.evaluate("document.activeElement.id") == "language"  # so that arrow keys go on to the next
        assert not page.is_checked("#consent")
        assert page.get_by_text("How old are you?").count() == 1
        assert page.input_value("#q0") == "33"
        assert page.get_by_label("At night").is_checked()
        page.screenshot(path=str(tmp_path / f"en-{width}.png"), full_page=True)
        page.reload()
        page.wait_for_selector("form")
        assert page.input_value("#q0") == "33"  # kept, while it is half-filled
        page.click("#forget")
        assert page.input_value("#q0") == ""
        assert page.evaluate("Object.keys(localStorage).length") == 0
        page.fill("#q0", "41")
        page.get_by_label("Tagsüber").check()
        page.get_by_label("Frau").check()
        page.fill("#q3", "7,5")
        page.get_by_label("Nein", exact=True).check()
        assert page.evaluate("Object.keys(localStorage).length") == 1
        page.check("#consent")
        page.get_by_role("button", name="Meine Antworten prüfen").click()
        page.get_by_role("button", name="Meinen Bericht bilden").click()
        page.wait_for_selector("#bytes", state="attached")
        assert page.evaluate("Object.keys(localStorage).length") == 0  # nothing of the answers from here on
        body = page.locator("#bytes").text_content()
        assert len(body.split("\n")) == 3
        assert all(json.loads(line)["state"] == 0 for line in body.split("\n"))
        page.get_by_role("button", name="Diese Zahlen senden").click()
        page.wait_for_selector("#receipt")
        assert page.locator("h1").text_content() == "Vielen Dank"
        page.screenshot(path=str(tmp_path / f"done-{width}.png"), full_page=True)
        page.evaluate("key => localStorage.setItem(key, '{}')", f"privreg-form:{KEY}:sleep")  # by another tab
        page.reload()
        page.wait_for_selector("#receipt")
        assert page.evaluate("Object.keys(localStorage).length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not wrong
        browser.close()
    assert one.people() == [1, 1, 1]


def test_every_text_is_shipped_in_both_languages_with_the_same_places():
    def texts(name):
        found = re.findall(
            r'^  (\w+):((?:\s*(?:\+ )?"(?:[^"\\]|\\.)*")+),', (WEB / name).read_text("utf-8"), re.MULTILINE
        )
        return {key: re.findall(r"\{\w+\}", text) for key, text in found}

    english, german = texts("texts.js"), texts("german.js")
    assert english.keys() == german.keys()
    assert len(english) > 80
    for name, places in english.items():
        assert sorted(set(places)) == sorted(set(german[name])), name
