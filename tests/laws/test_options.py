"""Options go by name from a front door's keywords to a frozen value: none by way of `locals()`, none forgotten."""

import ast
import inspect
import re
import textwrap
import tomllib
from dataclasses import fields

import pytest

import privreg as pr
from privreg.fits.settings import FitOptions, RunOptions
from privreg.formula.describe import ModelOptions
from privreg.options.table import TABLE, described
from privreg.privacy.ledger import UNSET
from privreg.published import descent
from tests.laws.test_rooms import ROOTS

Model, Silos = pr.PrivateOnlineRegression, pr.federated.FederatedRegression
READ = {
    "arrays": (Model.__init__, (ModelOptions,)),
    "formula": (Model.from_formula, (ModelOptions,)),
    "plan": (Model.plan, (FitOptions,)),
    "start": (Model.start, (FitOptions,)),
    "fit": (Model.fit, (FitOptions, RunOptions)),
}
"""Front doors, with the values that hold their options."""
ALONE = {
    "pr.plan": pr.plan,
    "silos' formula": Silos.from_formula,
    "silos' fit": Silos.fit,
    "means": pr.means.PrivateMeans.__init__,
    "start of means": pr.means.PrivateMeans.start,
    "fit of means": pr.means.PrivateMeans.fit,
}
"""Front doors that hand each option on by itself."""
BESIDE = {"plan": {"start_params"}, "start": {"start_params", "seed"}}
"""Options that a front door uses at once."""


DOCUMENTED = {
    "local.arrays": Model, "local.formula": Model.from_formula, "local.fit": Model.fit,
    "means.arrays": pr.means.PrivateMeans, "means.fit": pr.means.PrivateMeans.fit,
    "silos.formula": Silos.from_formula, "silos.fit": Silos.fit, "plan.formula": pr.plan,
    "curator.fit": descent.fit,
}  # fmt: skip
"""Front doors whose docstrings have their options from `parameters.toml`."""


def keywords(function):
    """Keywords of a signature, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def tree(function):
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))


def handed(function, classes):
    """Keywords that a front door hands to its options' classes under their own names."""
    names = {cls.__name__ for cls in classes}
    calls = [n for n in ast.walk(tree(function)) if isinstance(n, ast.Call) and getattr(n.func, "id", "") in names]
    given = [k for call in calls for k in call.keywords]
    assert all(isinstance(k.value, ast.Name) and k.value.id == k.arg for k in given if k.arg in keywords(function))
    return {k.arg for k in given}


def test_no_option_goes_by_way_of_locals():
    def asked(text):
        return "locals" in text and any(isinstance(n, ast.Name) and n.id == "locals" for n in ast.walk(ast.parse(text)))

    files = {file: file.read_text("utf-8") for root in ROOTS for file in root.rglob("*.py")}
    assert len(files) > 300
    assert asked("def f(x):\n    return g(**locals())")
    assert not asked("locals_of = 'locals'")
    assert [str(file) for file, text in files.items() if asked(text)] == []


@pytest.mark.parametrize("door", READ)
def test_every_keyword_is_a_field_with_its_default(door):
    function, classes = READ[door]
    defaults = {f.name: f.default for cls in classes for f in fields(cls)}
    given = keywords(function)
    assert given.keys() - BESIDE.get(door, set()) <= defaults.keys()
    usual = {name: defaults[name] for name in given.keys() & defaults.keys()}
    assert usual == {name: given[name] for name in usual}
    assert handed(function, classes) == usual.keys()


@pytest.mark.parametrize(("doors", "classes"), [
    (("arrays", "formula"), (ModelOptions,)),
    (("fit",), (FitOptions, RunOptions)),
])  # fmt: skip
def test_every_field_is_a_keyword(doors, classes):
    given = {k for door in doors for k in keywords(READ[door][0]).keys() - BESIDE.get(door, set())}
    assert {f.name for cls in classes for f in fields(cls)} == given


@pytest.mark.parametrize("door", BESIDE)
def test_what_a_front_door_uses_at_once_it_uses(door):
    used = {node.id for node in ast.walk(tree(READ[door][0])) if isinstance(node, ast.Name)}
    assert BESIDE[door] <= keywords(READ[door][0]).keys() & used


@pytest.mark.parametrize("door", ALONE)
def test_every_keyword_of_other_doors_is_used(door):
    used = {node.id for node in ast.walk(tree(ALONE[door])) if isinstance(node, ast.Name)}
    assert keywords(ALONE[door]).keys() <= used


def test_changed_options_are_those_that_are_not_left_at_their_defaults():
    asked = ModelOptions(mu=2.0, levels={"g": ["a", "b"]}, trust="local")
    assert asked.changed() == {"mu": 2.0, "levels": {"g": ["a", "b"]}}
    assert ModelOptions().changed() == {}
    assert ModelOptions().mu is UNSET


def test_options_don_t_print_the_rows_that_they_hold():
    assert "12345" not in repr(ModelOptions(offset=[12345.0])) + repr(RunOptions(start_params=[12345.0]))


@pytest.mark.parametrize("door", DOCUMENTED)
def test_every_keyword_is_documented_once_and_by_the_table(door):
    text = inspect.cleandoc(DOCUMENTED[door].__doc__)
    parameters = re.split(r"\n\n\w+\n-+\n", text.split("Parameters\n----------\n")[1])[0]
    names = re.findall(r"(?m)^(\w+) : ", parameters)
    assert len(names) == len(set(names))
    assert names[-len(keywords(DOCUMENTED[door])) :] == list(keywords(DOCUMENTED[door]))
    for name in keywords(DOCUMENTED[door]):
        kind, said = described(door, name)
        assert f"{name} : {kind}\n{textwrap.indent(said, '    ')}" in parameters
        assert kind
        assert re.match("[A-Z]", said)


def test_no_option_is_documented_that_nobody_takes():
    tables = tomllib.loads((ROOTS[0] / "options" / "parameters.toml").read_text("utf-8"))
    for door, table in tables.items():
        product = "" if door == "local" else door.partition(".")[0]  # whose texts other products have, too
        assert set(table) <= {o.name for o in TABLE if not product or o.of(product)}
    with pytest.raises(KeyError, match="colour"):
        described("local.fit", "colour")
