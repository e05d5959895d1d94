"""Paths and names that docstrings, comments and pages cite, and which of them lead nowhere."""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import inspect
import re
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

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
    "packages/field/deploy/systemd/privreg",
    "limit_conn",
    "client_header_timeout",
    "PGPASSWORD",
    "pg_dump",
    "pg_restore",
    "prop.table",
    "cor.test",
    "marginaleffects.avg_comparisons",
    "marginaleffects.avg_predictions",
    "marginaleffects.avg_slopes",
    "CalibrationDisplay.from_predictions",
    "maketables.ETable",
}  # R's, patterns, beginnings, nginx's, PostgreSQL's, other libraries'
MAP = ROOT / "CONTRIBUTING.md"  # Its paths are those within privreg
KIT = ROOT / "packages" / "field"
MADE = ("docs/_build/",)  # by commands, not kept
NAMED = frozenset({"id", "attr", "name", "arg", "asname", "module"})  # Fields of nodes that hold a name

PATH = re.compile(rf"(?<![\w./:-])(?:{'|'.join(FOLDERS)})/[\w./*{{}},-]*[\w/*}}](?:::\w+)?")
ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|exc|obj):`~?([\w.]+)`")
DOTTED = re.compile(
    r"(?<![\w./@-])(?:privreg(?:_field)?|(?<=-m )tests|(?:field_)?benchmarks|docs)(?:\.[A-Za-z_]\w*)+(?![\w/-])"
)
QUOTED = re.compile(r"(?<![`:\w])`{1,2}([A-Za-z_][\w.]*)(?:\([^`]*\))?`{1,2}(?!`)")
SHORT = re.compile(r"`([\w/]+\.(?:py|js))`")
COMMENT = re.compile(r"#.*")
WORD = re.compile(r"\w+")
FILE = re.compile(r"\.(?:py|md|toml|yml|csv|json|db|plan|key|privreg|html|parquet|analyst|pkl|pub|access|yaml)$")


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """Files of the project with one of these endings; the changelog, which is about the past, is left out."""
    found = [p for name in FOLDERS for p in sorted((ROOT / name).rglob("*")) if p.suffix in suffixes]
    found += [p for p in sorted(ROOT.glob("*")) if p.suffix in suffixes and p.name != "CHANGELOG.md"]
    return tuple(p for p in found if not {"_build", "__pycache__", "build"} & set(p.parts))


class Module(NamedTuple):
    """What one pass over a module finds; trees aren't kept, as all at once would be most of the memory of the tests."""

    docstrings: list[str]
    """Of constants too: strings that are statements."""
    defined: set[str]
    """Names that its top level defines, imported ones left out."""
    named: set[str]
    """Every name that it defines or uses, and every word of its strings; docstrings don't count."""
    used: set[str]
    """Names that it reads, imports, or has as a word of a short string that is not in ``__all__``."""
    pairs: set[tuple[str, str]]
    parents: dict[str, set[str]]


@cache
def module(file: Path) -> Module:
    """Read a module; that is most of the cost of these tests."""
    collects = gc.isenabled()
    gc.disable()  # a tree has no circles
    try:
        return _read(file)
    finally:
        if collects:
            gc.enable()


def _read(file: Path) -> Module:
    stem = file.parent.name if file.stem == "__init__" else file.stem
    found = Module([], set(), set(), set(), {(file.parent.name, stem)}, {})
    tree = ast.parse(file.read_text("utf-8"))
    for line in tree.body:
        if not isinstance(line, ast.Import | ast.ImportFrom):
            found.defined.update(defined(line))
    said: set[int] = set()
    public: set[int] = set()
    for node in _below(tree):
        kind = type(node)
        if kind is ast.Name:
            found.named.add(node.id)
            if type(node.ctx) is ast.Load:
                found.used.add(node.id)
        elif kind is ast.Attribute:
            found.named.add(node.attr)
            found.used.add(node.attr)
            found.pairs.add((_last(node.value), node.attr))
        elif kind is ast.Constant:
            if isinstance(node.value, str):
                words = WORD.findall(node.value)
                if id(node) not in said:
                    found.named.update(words)
                if id(node) not in public and len(node.value) < 200:
                    found.used.update(words)
        else:
            for name in _named(kind):
                if isinstance(value := getattr(node, name), str):
                    found.named.update(value.split("."))
            if kind is ast.alias:
                found.used.add(node.name.split(".")[-1])
            elif kind is ast.Expr:
                if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                    found.docstrings.append(node.value.value)
                    said.add(id(node.value))
            elif isinstance(node, ast.stmt):
                names = defined(node)
                found.pairs.update((stem, name) for name in names)
                if kind is ast.ClassDef:
                    found.pairs.update((node.name, name) for line in _below(node) for name in defined(line))
                    found.parents.setdefault(node.name, set()).update(map(_last, node.bases))
                elif "__all__" in names and file.name != "__init__.py":
                    public.update(map(id, ast.walk(node)))
    return found


def _below(tree: ast.AST) -> list[Any]:
    """A node and all below it that have fields, as `ast.walk` has them, and quicker."""
    found = [tree]
    for node in found:
        if type(node) in {ast.Name, ast.Constant}:
            continue
        for value in vars(node).values():
            if type(value) is list:
                found += [one for one in value if isinstance(one, ast.AST) and one._fields]
            elif type(value) is not int and isinstance(value, ast.AST) and value._fields:
                found.append(value)
    return found


def texts(file: Path) -> list[str]:
    """Docstrings of a module and what a line has after a #, a comment or not; the whole of a page."""
    source = file.read_text("utf-8")
    return [*module(file).docstrings, *COMMENT.findall(source)] if file.suffix == ".py" else [source]


@cache
def pairs() -> frozenset[tuple[str, str]]:
    """All (a, b) such that code says a.b, or the module or class a has a name b, its own or a parent's."""
    found: set[tuple[str, str]] = set()
    parents: dict[str, set[str]] = {}
    for file in files(".py"):
        found |= module(file).pairs
        for name, above in module(file).parents.items():
            parents.setdefault(name, set()).update(above)
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
        found |= module(file).named if file.suffix == ".py" else set(WORD.findall(file.read_text("utf-8")))
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
    parts = file.relative_to(KIT if file.is_relative_to(KIT) else ROOT).with_suffix("").parts
    near = ".".join(parts).removesuffix(".__init__") if file.suffix == ".py" else ""
    found = []
    for text in texts(file):
        if file.name.startswith("coming_from"):  # has calls of R; test_calls.py runs the others
            text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
        found += gone(text, near, "privreg/" if file == MAP else "")
    return found


OURS = {"privreg", "privreg_field", "benchmarks", "field_benchmarks", "tests"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def wrong_calls(module: ModuleType) -> list[str]:
    """Calls in a module, of functions and classes of ours that it imports, with arguments that these don't take."""
    out: list[str] = []
    _calls(ast.parse(Path(str(module.__file__)).read_text("utf-8")), vars(module), out)
    return out


def _calls(node: ast.AST, names: dict[str, Any], out: list[str]) -> None:
    if isinstance(node, FUNCTIONS):
        below = list(ast.walk(node))
        own = {n.arg for n in below if isinstance(n, ast.arg)}
        own |= {n.id for n in below if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names = {name: found for name, found in names.items() if name not in own}
        for line in (n for n in below if isinstance(n, ast.ImportFrom) and str(n.module).partition(".")[0] in OURS):
            source = importlib.import_module(str(line.module))
            names |= {a.asname or a.name: getattr(source, a.name) for a in line.names if hasattr(source, a.name)}
    if isinstance(node, ast.Call) and not _takes(node, names):
        out.append(f"line {node.lineno}: {ast.unparse(node)}")
    for child in ast.iter_child_nodes(node):
        _calls(child, names, out)


def _takes(call: ast.Call, names: dict[str, Any]) -> bool:
    """False if what is called is known, is ours and doesn't take these arguments."""
    first, *rest = ast.unparse(call.func).split(".")
    found = names.get(first)
    for name in rest:
        found = getattr(found, name, None) if isinstance(found, ModuleType | type) else None
    if not callable(found) or str(getattr(found, "__module__", "")).partition(".")[0] not in OURS:
        return True
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return True
    try:
        inspect.signature(found).bind(*call.args, **{str(k.arg): k for k in call.keywords})
    except TypeError:
        return False
    except ValueError:  # it has none
        return True
    return True


@cache
def used() -> frozenset[str]:
    """Names that code uses, by itself or by name in a short string."""
    return frozenset().union(*(module(file).used for file in files(".py")))
