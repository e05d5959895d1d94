"""Paths and names that docstrings, comments and pages cite, and which of them lead nowhere."""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("privreg", "tests", "benchmarks", "docs", "vignettes", "data", "packages")
VARIABLES = {"res", "s", "tests"}  # Of examples: results, a stream, a table of tests
FOREIGN = {
    "contr.sum",
    "as.numeric",
    "np.f",
    "numpy.f",
    "plt.style.use",
    "fdr",
    "benchmarks.NAME",
    "limit_conn",
    "client_header_timeout",
    "PGPASSWORD",
    "pg_dump",
    "pg_restore",
    "prop.table",
    "cor.test",
    "marginaleffects.avg_comparisons",
    "maketables.ETable",
}  # R's, patterns, beginnings, nginx's, PostgreSQL's, other libraries'
MAP = ROOT / "CONTRIBUTING.md"  # Its paths are those within privreg
MADE = ("docs/_build/",)  # by commands, not kept
NAMED = frozenset({"id", "attr", "name", "arg", "asname", "module"})  # Fields of nodes that hold a name

PATH = re.compile(rf"(?<![\w./:-])(?:{'|'.join(FOLDERS)})/[\w./*{{}},-]*[\w/*}}](?:::\w+)?")
ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|exc|obj):`~?([\w.]+)`")
DOTTED = re.compile(r"(?<![\w./@-])(?:privreg|(?<=-m )tests|benchmarks|docs)(?:\.[A-Za-z_]\w*)+(?![\w/-])")
QUOTED = re.compile(r"(?<![`:\w])`{1,2}([A-Za-z_][\w.]*)(?:\([^`]*\))?`{1,2}(?!`)")
SHORT = re.compile(r"`([\w/]+\.(?:py|js))`")
COMMENT = re.compile(rf"#.*(?:`|{PATH.pattern}|{DOTTED.pattern})")
"""Where a comment may cite something."""
WORD = re.compile(r"\w+")
FILE = re.compile(r"\.(?:py|md|toml|yml|csv|json|db|plan|key|privreg|html|parquet|analyst|pkl|pub|access|yaml)$")


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """Files of the project with one of these endings; the changelog, which is about the past, is left out."""
    found = [p for name in FOLDERS for p in sorted((ROOT / name).rglob("*")) if p.suffix in suffixes]
    found += [p for p in sorted(ROOT.glob("*")) if p.suffix in suffixes and p.name != "CHANGELOG.md"]
    return tuple(p for p in found if not {"_build", "__pycache__", "build"} & set(p.parts))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module; parsing all files once is most of the cost of these tests.

    Nodes live until the end: the garbage collector would go through those of all files so far again and again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return tuple(_below(ast.parse(file.read_text("utf-8"))))
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def _below(tree: ast.AST) -> list[ast.AST]:
    """A node and all below it that have fields, as `ast.walk` has them, and quicker."""
    found = [tree]
    for node in found:
        for value in vars(node).values():
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST) and one._fields]
            elif isinstance(value, ast.AST) and value._fields:
                found.append(value)
    return found


def docstrings(file: Path) -> list[ast.Constant]:
    """Docstrings, of constants too: strings that are statements."""
    values = (node.value for node in nodes(file) if isinstance(node, ast.Expr))
    return [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def texts(file: Path) -> Iterator[str]:
    """Docstrings and comments of a module; the whole of a page."""
    source = file.read_text("utf-8")
    if file.suffix != ".py":
        yield source
        return
    yield from (str(text.value) for text in docstrings(file))
    if not COMMENT.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def pairs() -> frozenset[tuple[str, str]]:
    """All (a, b) such that code says a.b, or the module or class a has a name b, its own or a parent's."""
    found: set[tuple[str, str]] = set()
    parents: dict[str, set[str]] = {}
    for file in files(".py"):
        stem = file.parent.name if file.stem == "__init__" else file.stem
        found.add((file.parent.name, stem))
        for node in nodes(file):
            if isinstance(node, ast.Attribute):
                found.add((_last(node.value), node.attr))
            elif isinstance(node, ast.ClassDef):
                found |= {(node.name, name) for line in _below(node) for name in defined(line)}
                parents.setdefault(node.name, set()).update(map(_last, node.bases))
            found.update((stem, name) for name in defined(node))
    members: dict[str, set[str]] = {}
    for a, b in found:
        members.setdefault(a, set()).add(b)
    for _ in range(4):  # no class of the project has more generations
        for child, above in parents.items():
            members.setdefault(child, set()).update(*(members.get(a, ()) for a in above))
    found |= {(child, b) for child in parents for b in members[child]}
    for file in files(".md", ".js"):
        found |= set(re.findall(r"(\w+)\.(\w+)", re.sub(r"`[^`\n]*`", "", file.read_text("utf-8"))))
    return frozenset(found)


def _last(node: ast.expr) -> str:
    """The last name of a dotted one."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def defined(line: ast.AST) -> set[str]:
    """Names that a line defines or imports, attributes of ``self`` among them."""
    if not isinstance(line, ast.stmt):
        return set()
    if isinstance(line, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {line.name}
    if isinstance(line, ast.Import | ast.ImportFrom):
        return {(name.asname or name.name).split(".")[0] for name in line.names}
    if isinstance(line, ast.Assign | ast.AnnAssign):
        targets = line.targets if isinstance(line, ast.Assign) else [line.target]
        return {
            _last(part) for target in targets for part in _below(target) if isinstance(part, ast.Name | ast.Attribute)
        }
    return set()


def known(name: str) -> bool:
    """Whether a quoted name is one of code's, and a dotted one said or defined as it stands."""
    parts = name.strip(".").split(".")
    if not set(parts) <= identifiers():
        return False
    return all(pair in pairs() for pair in pairwise(parts)) or resolves(name.replace("pd.", "pandas.", 1))


@cache
def _named(kind: type[ast.AST]) -> frozenset[str]:
    return NAMED & set(kind._fields)


@cache
def identifiers() -> frozenset[str]:
    """Every name that code defines or uses, and every word of its strings; docstrings don't count."""
    found = set(dir(builtins))
    for file in files(".py", ".js", ".json", ".toml", ".yml", ".css", ".html"):
        found.add(file.stem)
        if file.suffix != ".py":
            found |= set(re.findall(r"\w+", file.read_text("utf-8")))
            continue
        said = {id(text) for text in docstrings(file)}
        for node in nodes(file):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str) and id(node) not in said:
                    found.update(WORD.findall(node.value))
                continue
            for name in _named(type(node)):
                if isinstance(value := getattr(node, name), str):
                    found.update(value.split("."))
    for file in files(".csv"):
        with file.open(encoding="utf-8") as lines:
            first = next((line for line in lines if not line.startswith("#")), "")
        found |= {file.stem, *re.findall(r"\w+", first)}
    for file in files(".md"):  # what the code of pages defines
        for block in re.findall(r"^```[^\n]*\n(.*?)^```", file.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
            found |= set(re.findall(r"\w+", block))
    return frozenset(found)


def _member(of: Any, name: str) -> Any:
    if isinstance(of, type) and any(name in getattr(parent, "__annotations__", {}) for parent in of.__mro__):
        return None
    return getattr(of, name)


def _within(found: Any, parts: list[str]) -> bool:
    try:
        for part in parts:
            found = _member(found, part)
    except AttributeError:
        return False
    return True


@cache
def resolves(name: str, near: str = "") -> bool:
    """Whether a dotted name is a module or something in one, or in the module `near`, or in a class that it has."""
    parts = name.split(".")
    for at in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:at]))
        except ImportError:
            continue
        if _within(module, parts[at:]):
            return True
    if not near:
        return False
    places = near.split(".")
    modules = [importlib.import_module(".".join(places[:at])) for at in range(len(places), 0, -1)]
    classes = [value for value in vars(modules[0]).values() if isinstance(value, type)]
    return any(_within(owner, parts) for owner in [*modules, *classes, *(kind for c in classes for kind in _heirs(c))])


def _heirs(kind: type) -> list[type]:
    below = type.__subclasses__(kind) if kind.__module__.startswith("privreg") else []
    return [*below, *(heir for one in below for heir in _heirs(one))]


def exists(path: str) -> bool:
    """Whether a path is there, all paths of a pattern, or the function of a file that is named after ``::``."""
    path, _, name = path.partition("::")
    choices = [part[1:-1].split(",") if part.startswith("{") else [part] for part in re.split(r"(\{[^{}]*\})", path)]
    for one in map("".join, product(*choices)):
        if not (list(ROOT.glob(one.rstrip("/"))) or (ROOT / f"{one}.md").exists()):  # tables of contents leave out .md
            return False
    return not name or f"def {name}(" in (ROOT / path).read_text("utf-8")


def gone(text: str, near: str = "", within: str = "") -> list[str]:
    """What a text cites that isn't there; `near` is the module that it is of, `within` a folder of its paths."""
    found = [path for path in PATH.findall(text) if not path.startswith(MADE)]
    found = [path for path in found if not (exists(path) or (within and exists(within + path)))]
    found += [name for name in ROLE.findall(text) if not resolves(name, near)]
    found += [name for name in DOTTED.findall(text) if not FILE.search(name) and not resolves(name)]
    found += [name for name in QUOTED.findall(text) if not FILE.search(name) and not known(name)]
    found += [name for name in SHORT.findall(text) if not any(str(p).endswith(f"/{name}") for p in files(".py", ".js"))]
    found = list(dict.fromkeys(found))
    return [name for name in found if name not in FOREIGN and name.split(".")[0] not in VARIABLES]


def faults(file: Path) -> list[str]:
    """What a file cites that isn't there."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    near = ".".join(parts).removesuffix(".__init__") if file.suffix == ".py" else ""
    found = []
    for text in texts(file):
        if file.name == "coming_from.md":  # its tables have calls of R; tests/documents/test_calls.py runs the others
            text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
        found += gone(text, near, "privreg/" if file == MAP else "")
    return found


@cache
def used() -> frozenset[str]:
    """Names that code reads, imports, or has as a whole string that is not in ``__all__``; words of pages."""
    found: set[str] = set()
    for file in files(".py"):
        named = [line for line in nodes(file) if isinstance(line, ast.Assign) and _last(line.targets[0]) == "__all__"]
        public = {id(node) for line in named for node in ast.walk(line)} if file.name != "__init__.py" else set()
        for node in nodes(file):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.alias):
                found.add(node.name.split(".")[-1])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in public:
                found |= set(re.findall(r"\w+", node.value)) if len(node.value) < 200 else set()
    return frozenset(found)
