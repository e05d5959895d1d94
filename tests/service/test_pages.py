"""The page and the device as they are served and packed: headers, addresses, size, licence."""

import gzip
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import privreg
from privreg_field.service.http.app import Options, make
from privreg_field.service.pages import survey
from tests.service.world import World
from tests.studies import COLLECTORS

ROOT = Path(__file__).parents[2]
KIT = ROOT / "packages" / "field"
WEB = KIT / "privreg_field" / "service" / "web"
DEVICE, SURVEY = (sorted(p for p in (WEB / name).iterdir() if p.suffix != ".md") for name in ("device", "survey"))
AT = "/studies/sleep/"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("study"), n=5)
    with TestClient(make(world.scheduler, Options(rate=0.0)), follow_redirects=False) as one:
        yield one


def test_every_file_comes_as_it_is_under_a_strict_policy(client):
    shown = client.get(AT)
    assert shown.content == (WEB / "survey" / "survey.html").read_bytes()
    served = [p for p in (*DEVICE, *SURVEY) if p.suffix in {".js", ".css", ".svg", ".html"}]
    assert len(served) > 15
    for path in served:
        got = client.get(f"{AT}{path.parent.name}/{path.name}")
        assert got.content == path.read_bytes()
        again = client.get(f"{AT}{path.parent.name}/{path.name}", headers={"if-none-match": got.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        bare = client.get(f"{AT}{path.parent.name}/{path.name}", headers={"accept-encoding": "identity"})
        assert bare.content == got.content
        assert "content-encoding" not in bare.headers
        assert {name: got.headers[name] for name in survey.HEADERS} == survey.HEADERS
    assert {name: shown.headers[name] for name in survey.HEADERS} == survey.HEADERS
    policy = shown.headers["content-security-policy"]
    assert policy.startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'"
    )
    assert "unsafe" not in policy


def test_a_page_of_two_collectors_may_post_to_both_and_to_nobody_else():
    async def taken(request):
        return PlainTextResponse("kept", 503, {"Retry-After": "5"})

    app = Starlette(
        routes=[*survey.routes("sleep", COLLECTORS), Route("/v1/studies/sleep/shares", taken, methods=["POST"])],
        middleware=survey.middleware(COLLECTORS),
    )
    with TestClient(app) as one:
        policy = one.get(AT).headers["content-security-policy"]
        assert "connect-src 'self' https://a.example.org https://b.example.org; img-src" in policy
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        for origin, fine in (("https://a.example.org", True), ("https://c.example.org", False)):
            before = one.options("/v1/studies/sleep/shares", headers={"Origin": origin, **asked})
            after = one.post("/v1/studies/sleep/shares", headers={"Origin": origin})
            assert (before.status_code == 200) == fine
            assert (after.headers.get("access-control-allow-origin") == origin) == fine
            assert "access-control-allow-credentials" not in before.headers
            assert after.headers["access-control-expose-headers"] == "Retry-After"
    assert survey.middleware(()) == []


def test_other_addresses_are_none(client):
    assert client.get("/studies/sleep").headers["location"] == "sleep/"
    for path in (
        "/studies/wake/",
        "/studies/wake",
        f"{AT}device/package.json",
        f"{AT}device/../app.py",
        f"{AT}x/index.js",
    ):
        assert client.get(path).status_code == 404, path


def test_the_page_has_nothing_inline_and_asks_nobody_else(client):
    page = (WEB / "survey" / "survey.html").read_text()
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page)
    for path in (*DEVICE, *SURVEY):
        found = set(re.findall(r"""https?://[^\s"'`]+""", path.read_text())) - {"http://www.w3.org/2000/svg"}
        assert all(url.startswith("https://host/") or url in {"https://", "https://."} for url in found), (path, found)
        kept = "" if path.name == "survey.js" else "|localStorage"  # of a half-filled form, until a report is made
        assert not re.search(
            rf"\b(eval|Function|innerHTML|insertAdjacentHTML|document\.write{kept})\b", path.read_text()
        )
    named = set(re.findall(r'(?:href|src)="((?:survey|device)/[\w.]+)"', page))
    assert all((WEB / name).exists() for name in named)
    assert {name for name in named if name.endswith(".js")} == modules("survey/survey.js")


def modules(*begin, lazy=False):
    """Modules that these load, by folder and name; with those that only some studies load."""
    found, left = set(), list(begin)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            at, text = (WEB / name).parent, (WEB / name).read_text()
            wanted = re.findall(r"""^(?:import|export) (?:[^;]* from )?"(\.[^"]+)";""", text, flags=re.MULTILINE)
            wanted += re.findall(r"""await import\("([^"]+)"\)""", text) if lazy else []
            left += [(at / one).resolve().relative_to(WEB).as_posix() for one in wanted]
    return found


def test_only_studies_with_two_collectors_load_what_these_need():
    common, every = modules("device/index.js"), modules("device/index.js", lazy=True)
    assert every - common == {"device/seal.js", "device/shares.js", "device/sums.js"}
    assert every == {f"device/{p.name}" for p in DEVICE if p.suffix == ".js"}


TEXTS = dict(
    re.findall(
        r"^  (\w+):\s*((?:[^\n]*\n(?!  \w+:|\};))*[^\n]*),\n", (WEB / "survey" / "texts.js").read_text(), re.MULTILINE
    )
)
"""The page's texts as they are written, by name."""


def test_words_have_their_places():
    """Every text that the page asks for is there, and every text is asked for."""
    text = (WEB / "survey" / "survey.js").read_text() + (WEB / "survey" / "picture.js").read_text()
    used = set(re.findall(r"""["'](\w+)["']""", text))
    assert {name.removesuffix("Sums") for name in TEXTS} <= used
    assert all(name.removesuffix("Sums") in TEXTS for name in TEXTS)
    assert set(re.findall(r"\b(?:say|p)\(\"(\w+)\"", text)) <= TEXTS.keys()


OF_ONE = r"noise\b|the study's server|sees your report|[Tt]he study learns|\bnumbers are sent|a report with"
OF_TWO = (
    r"\b[Bb]oth\b|(?<!in )(?<!took )\bparts?\b|\btwo servers\b|\boperator|[Ss]ealed"
    r"|\{(?:nameA|nameB|one|other|contact[AB]|host)\}"
)


def test_texts_of_one_trust_model_are_not_said_under_the_other():
    """What is said with two collectors is a text's variant, if there is one, and the text itself, if not."""
    for name, text in TEXTS.items():
        of_two = name.endswith("Sums") or name in {"contacts", "afresh"}
        if not of_two:
            assert not re.search(OF_TWO, text), name
        if of_two or f"{name}Sums" not in TEXTS:
            said = re.sub("adds random noise|The noise hides", "", text)  # what the collectors add, to sums
            assert not re.search(OF_ONE, said), name


def test_the_keyboards_focus_is_shown_on_every_page():
    for name in ("dashboard/page.css", "dashboard/view.css", "survey/survey.css"):
        text = (WEB / name).read_text()
        assert ":focus-visible { outline: 3px" in text
        assert not re.search(r":focus\s*\{[^}]*outline:\s*(none|0)", text)
    assert 'id="glossary"' in (WEB / "dashboard" / "index.html").read_text()


def test_the_package_has_the_projects_licence_and_version():
    about = json.loads((WEB / "device" / "package.json").read_text())
    assert (WEB / "device" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (about["license"], about["version"]) == ("BSD-3-Clause", privreg.__version__)
    assert about["type"] == "module"
    assert not about.keys() & {"dependencies", "devDependencies", "scripts"}


def test_the_device_stays_small():
    """Its code, compressed, as it is written, without comments: 27.8 KB, and 6.6 KB more with two collectors.

    A bundler (esbuild --minify) would make 17.0 KB of 22.
    """
    for lazy, most in ((False, 27_900), (True, 34_500)):
        code = ""
        for name in sorted(modules("device/index.js", lazy=lazy)):
            bare = re.sub(r"/\*\*.*?\*/", "", (WEB / name).read_text(), flags=re.DOTALL)
            code += re.sub(r"^\s*(//.*)?", "", bare, flags=re.MULTILINE)
        assert len(gzip.compress(code.encode())) < most


@pytest.mark.thorough
def test_npm_packs_the_modules_and_nothing_else():
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no `npm`")
    done = subprocess.run(
        [npm, "pack", "--dry-run", "--json", "--offline"],
        cwd=WEB / "device",
        capture_output=True,
        text=True,
        check=True,
    )
    (packed,) = json.loads(done.stdout)
    modules = {p.name for p in DEVICE if p.suffix == ".js"}
    assert {f["path"] for f in packed["files"]} == {"package.json", "README.md", "LICENSE", *modules}


@pytest.mark.thorough
def test_the_wheel_has_the_pages(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=KIT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipped = zipfile.ZipFile(wheel)
    names = set(zipped.namelist())
    (info,) = {n.partition("/")[0] for n in names if ".dist-info/" in n}
    metadata = zipped.read(f"{info}/METADATA").decode()
    for licence in (KIT / "LICENSE", *(KIT / "privreg_field").rglob("LICENSE")):
        place = licence.relative_to(KIT).as_posix()
        assert f"License-File: {place}\n" in metadata
        assert zipped.read(f"{info}/licenses/{place}") == licence.read_bytes()
    assert {f"privreg_field/service/web/{p.parent.name}/{p.name}" for p in (*DEVICE, *SURVEY)} <= names


def test_the_package_alone_needs_no_server():
    loaded = "print([m for m in sys.modules if 'service' in m or 'starlette' in m])"
    code = f"import sys, privreg, privreg_field.device; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
