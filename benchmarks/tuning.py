"""Constants that decide something statistical: their values, a hash of them, and the same with others for a while.

``python -m benchmarks.tuning``

How many there are, by group and by what gives a reason for them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

ROOT: Final = Path(__file__).parents[1]
DATA: Final = ROOT / "privreg" / "collector" / "tuning.toml"
COMPILERS: Final = frozenset({"njit", "jit", "vectorize", "guvectorize", "cfunc"})
ENGINE: Final = tuple(f"privreg.{name}" for name in ("collector", "fits", "protocol", "simulation", "families"))
REASONS: Final = ("formula", "study", "comment only", "none")


@cache
def listed() -> dict[str, Any]:
    """What the data file says."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def rows() -> pd.DataFrame:
    """A line for each constant; ``by`` is the kind of its reason."""
    table = pd.DataFrame(listed()["constant"])
    return table.assign(by=table["reason"].str.split(":").str[0])


def value(path: str) -> Any:
    """A constant's value, by "module:NAME"."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def tuning() -> dict[str, Any]:
    """Values of all constants, by path."""
    return {row["path"]: value(row["path"]) for row in listed()["constant"]}


def tuning_hash() -> str:
    """Eight digits that stand for the names and values of all constants, whichever modules they stand in."""
    values = sorted(f"{path.split(':')[1]} = {v!r}" for path, v in _plain(tuning()).items())
    return hashlib.sha256(repr(values).encode()).hexdigest()[:8]


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {path: v.tolist() if isinstance(v, np.ndarray) else v for path, v in values.items()}


class File(NamedTuple):
    """What a file of the package reads, as "NAME" or "module.NAME"."""

    module: str
    names: dict[str, tuple[str, str]]  # Imported ones: the module and name that each is
    early: set[str]  # In defaults and by names made at import
    loops: set[str]  # In functions that numba compiles


@cache
def _files() -> list[File]:
    out = []
    kit = ROOT / "packages" / "field"
    for file in sorted([*(ROOT / "privreg").rglob("*.py"), *(kit / "privreg_field").rglob("*.py")]):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        within = file.relative_to(kit if file.is_relative_to(kit) else ROOT)
        module = ".".join(within.with_suffix("").parts).removesuffix(".__init__")
        names, early, loops = dict[str, tuple[str, str]](), set[str](), set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {a.asname or a.name: (node.module, a.name) for a in node.names}
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                for default in [*node.args.defaults, *node.args.kw_defaults]:
                    early |= _dotted(default) if default is not None else set()
            if isinstance(node, ast.FunctionDef) and any(
                COMPILERS & {word for read in _dotted(d) for word in read.split(".")} for d in node.decorator_list
            ):
                loops |= _dotted(node)
        parts = [part for node in tree.body if isinstance(node, ast.ClassDef) for part in node.body]
        for node in [*tree.body, *parts]:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                early |= _dotted(node.value)
        out.append(File(module, names, early, loops))
    return out


def _dotted(node: ast.AST) -> set[str]:
    """Names, and "module.NAME" of attributes of names, that are read in it."""
    out = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Name):
            out.add(n.id)
        elif isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name):
            out.add(f"{n.value.id}.{n.attr}")
    return out


@cache
def frozen(path: str) -> str:
    """Where a change of a constant would not arrive: a default argument, a name made at import, a compiled loop."""
    home, name = path.split(":")
    for module, names, early, loops in _files():
        ways = {name} if module == home else set()
        for alias, (origin, what) in names.items():
            if (origin, what) == (home, name):
                ways.add(alias)
            if f"{origin}.{what}" == home:
                ways.add(f"{alias}.{name}")
        if ways & loops:
            return f"a compiled loop of {module}"
        if ways & early:
            return f"a default or a name made at import of {module}"
    return ""


@contextmanager
def changed(values: Mapping[str, Any]) -> Iterator[None]:
    """Give constants other values, in their modules and in every loaded one that imported them by name.

    Raises
    ------
    KeyError
        If one isn't in the data file.
    ValueError
        If a change wouldn't arrive everywhere, as `frozen` has it.
    """
    known = {row["path"] for row in listed()["constant"]}
    for path in values:
        if path not in known:
            raise KeyError(f"{path} is no constant of {DATA.name}")
        if where := frozen(path):
            raise ValueError(f"{path} can't be changed: it is read in {where}, before anything could change it")
    spots = list[tuple[Any, str, Any]]()
    for path, new in values.items():
        home, name = path.split(":")
        value(path)
        for module, names, *_ in _files():
            loaded = sys.modules.get(module)
            aliases = [a for a, origin in names.items() if origin == (home, name)] + [name] * (module == home)
            if loaded is not None:
                spots += [(loaded, alias, new) for alias in aliases if hasattr(loaded, alias)]
    before = [(module, alias, getattr(module, alias)) for module, alias, _ in spots]
    places = ("privreg",) if any(path.startswith("privreg.collector.inference.") for path in values) else ENGINE
    try:
        for module, alias, new in spots:
            setattr(module, alias, new)
        _forget(places)
        yield
    finally:
        for module, alias, old in before:
            setattr(module, alias, old)
        _forget(places)


def _forget(places: tuple[str, ...]) -> None:
    """Clear what functions of loaded modules keep: it may follow from a constant."""
    for name, module in list(sys.modules.items()):
        if name.startswith(places) and module is not None:
            for found in list(vars(module).values()):
                if hasattr(found, "cache_clear"):
                    found.cache_clear()


def main() -> None:
    """Print how many there are."""
    table = rows()
    print(pd.crosstab(table["group"], table["by"], margins=True).to_string())
    print(f"\nhash: {tuning_hash()}; can't be changed while it runs:")
    print("\n".join(f"{path}: {where}" for path in table["path"] if (where := frozen(path))))


if __name__ == "__main__":
    main()
