"""The package without the kit for studies in the field: it needs nothing of it, and says what to install."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import privreg as pr
from privreg.base import optional
from privreg.cli.app import main
from privreg.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]
INSTALL = 'pip install . "./packages/field[serve]"'


def test_the_package_knows_the_names_that_the_kit_adds():
    points = tomllib.loads((ROOT / "packages" / "field" / "pyproject.toml").read_text("utf-8"))["project"][
        "entry-points"
    ]
    for group, names in optional.FIELD.items():
        assert sorted(points[f"privreg.{group}"]) == sorted(names)
        assert set(names) <= optional.added(group).keys()
    assert optional.find("names", "connect") is pr.connect
    assert all(optional.find("verbs", verb).about for verb in optional.FIELD["verbs"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What runs code where all is installed but the kit."""
    folder = tmp_path_factory.mktemp("site")
    for place in {sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")}:
        for one in Path(place).iterdir():
            if "privreg_field" not in one.name and not (folder / one.name).exists():
                (folder / one.name).symlink_to(one)

    def run(code):
        text = f"import sys; sys.path += {[str(ROOT), str(folder)]}\n{code}"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.stdout

    return run


FIT = """
import importlib.util
import privreg as pr
assert importlib.util.find_spec("privreg_field") is None
people = pr.datasets.us_insurance(20_000)
fit = pr.PrivateOnlineRegression.from_formula("charges ~ age + smoker", people, mu=4)
fit.fit(seed=1, progress=False).save({path!r})
print([*pr.load({path!r}).params.index], "connect" in dir(pr))
"""

CONNECT = """
import privreg as pr
try:
    pr.connect
except pr.errors.MissingExtraError as e:
    print(e)
"""


def test_fits_and_their_files_need_no_kit(alone, tmp_path):
    assert alone(FIT.format(path=str(tmp_path / "fit.privreg"))) == "['Intercept', 'smoker[T.yes]', 'age'] False\n"


def test_names_and_verbs_of_the_kit_say_what_to_install(alone):
    assert INSTALL in alone(CONNECT)
    shown = alone("from privreg.cli.app import main; main(['--help'])")
    assert "\n    fit " in shown
    assert INSTALL in shown
    for verb in optional.FIELD["verbs"]:
        assert f"\n  {verb} " not in shown
    code = "from privreg.cli.app import main; sys.stderr = sys.stdout; print(main(['study', 'demo']))"
    said = alone(code)
    assert re.search(rf"^privreg: error: privreg study is part of the kit.*{re.escape(INSTALL)}\.\n2\n$", said, re.S)


def test_help_lists_the_verbs_that_are_installed(capsys):
    main(["--help"])
    shown = capsys.readouterr().out
    assert INSTALL not in shown
    for verb in optional.FIELD["verbs"]:
        assert f"\n  {verb} " in shown


def test_an_unknown_name_is_not_the_kits(monkeypatch):
    monkeypatch.setattr(optional, "added", lambda group: {})
    assert optional.find("names", "conect") is None
    with pytest.raises(MissingExtraError, match=r"privreg\.connect is part of the kit"):
        optional.find("names", "connect")


def test_nothing_is_imported_by_its_path():
    ways = re.compile(r"spec_from_file_location|SourceFileLoader|run_path|sys\.path\b")
    files = [path for top in ("privreg", "packages/field/privreg_field") for path in (ROOT / top).rglob("*.py")]
    assert len(files) > 300
    assert [str(path) for path in files if ways.search(path.read_text("utf-8"))] == []


def test_a_broken_kit_leaves_help_and_verbs_of_the_package(alone, tmp_path):
    """It can't take the place of a verb either."""
    (tmp_path / "broken-1.0.dist-info").mkdir()
    points = {"gone": "no_such_module:run", "silent": "math:inf", "fit": "math:inf"}
    lines = [f"[privreg.{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group in optional.FIELD]
    (tmp_path / "broken-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (tmp_path / "broken-1.0.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    start = f"sys.path.append({str(tmp_path)!r}); sys.stderr = sys.stdout; from privreg.cli.app import main; "
    shown = alone(start + "print(main(['--help']))")
    assert re.search(r"\n  gone +which can't be imported\n  silent +which can't be imported\n.*\n0\n$", shown, re.S)
    assert "usage: privreg fit" in alone(start + "main(['fit', '--help'])")
    wanted = "privreg gone is no_such_module:run, which can't be imported: install its package anew."
    assert alone(start + "print(main(['gone']))") == f"privreg: error: {wanted}\n2\n"
    assert alone(start + CONNECT.replace("pr.connect", "pr.gone")) == wanted.replace("privreg ", "privreg.", 1) + "\n"


def test_what_is_to_be_installed_is_there_in_a_clone():
    """Nothing is on a package index under these names: extras are those of a clone's folders."""
    folders = [ROOT / folder for folder in ("docs", "vignettes", "privreg", "packages")]
    files = [ROOT / "README.md", *(file for folder in folders for file in folder.rglob("*"))]
    texts = {f: f.read_text("utf-8") for f in files if f.suffix in {".md", ".py", ".toml", ".R", ".Rd", ".js", ".yaml"}}
    assert len(texts) > 400
    wrong = r"pip install (?:-\w+ )*['\"]?privreg"
    assert [f.name for f, text in texts.items() if re.search(wrong, text) and f.name != "pyproject.toml"] == []
    extras = {
        folder: tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        for folder in (".", "packages/field")
    }
    named = [m for text in texts.values() for m in re.findall(r"[\"'](\.|\./packages/field)\[([\w,]+)\][\"']", text)]
    assert len(named) > 15
    assert [(f, x) for f, xs in named for x in xs.split(",") if x not in extras[f.removeprefix("./") or "."]] == []
