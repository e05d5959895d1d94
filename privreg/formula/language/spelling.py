"""Terms as R, SAS or pandas write them, and how a formula here says the same. Nothing is evaluated."""

import ast
import re
from collections.abc import Collection, Mapping
from typing import Any, Final
from unicodedata import normalize

from privreg.errors import DataError, OptionError
from privreg.options.unknown import WORDS, by_name
from privreg.schema.declarations import Schema

_SAME, _CALLS, _CONTRASTS = (by_name(WORDS["formulas"][kind]) for kind in ("numpy", "calls", "contrasts"))
"""Other names of elementwise NumPy functions; calls of R that stand for something else, where {0} is what is called
with; names of contrasts."""

_SIGNS: Final[dict[str, str]] = WORDS["formulas"]["signs"]  # Messages on R's words and signs, by regular expression
_LOG: Final = re.compile(r"\s*(?:\w+\.)?(?:log|ln)\(\s*(\w+)\s*\)\s*")
_MODULES: Final = frozenset({"np", "numpy", "math", "scipy", "special", "pd", "pandas", "base", "stats"})


def spelt_here(node: ast.Call, functions: Mapping[str, tuple[int, int]]) -> str | None:
    """Advice on a call that has another name here; None if nothing here does the same.

    `functions` are NumPy's that a formula may call, with the least and the largest number of their arguments.
    """
    func, args = node.func, [ast.unparse(a) for a in node.args]
    if isinstance(func, ast.Attribute):
        value, name = func.value, func.attr
        if isinstance(value, ast.Name) and value.id == "contr":
            return f"write C({args[0] if args else 'x'}, {contrast_here(func) or 'Sum'})"
        if not (isinstance(value, ast.Name) and value.id in _MODULES):
            args = [ast.unparse(value), *args]  # a method of a column
    elif isinstance(func, ast.Name):
        name = func.id
    else:
        return None
    known = _SAME.get(name, name)
    if known in functions:
        low, high = functions[known]
        fits = low <= len(args) <= high and not node.keywords
        return f"write np.{known}({', '.join(args if fits else 'xyz'[:low])})"
    x, second = (*args, *(ast.unparse(word.value) for word in node.keywords), *("x", "'level'")[len(args) :])[:2]
    if name in {"offset", "exposure"} and (column := logged(x)) is not None:
        return f"leave it out of the formula and give exposure={column!r} beside it, whose logarithm is added"
    text = _CALLS.get(name)
    return None if text is None else text.format(x, second, x if x.isidentifier() else "column")


def contrast_here(node: ast.expr) -> str | None:
    """Our name of a contrast: of R's ``contr.sum``, or of one in quotes; None if it is no such thing."""
    match node.func if isinstance(node, ast.Call) else node:
        case ast.Attribute(ast.Name(), name) | ast.Constant(str(name)) | ast.Name(name):
            return _CONTRASTS.get(name.lower().removeprefix("contr."))
    return None


_QUOTED: Final = re.compile(r"""'[^']*'|"[^"]*\"""")


def bare(formula: str) -> str:
    """A formula with Q in the place of whatever is in quotes."""
    return _QUOTED.sub("Q", formula)


def explained(formula: str) -> str | None:
    """Message on a formula, or a term, that can't be read, with what to write; None if no cause of it is known."""
    plain = bare(formula)
    if plain.count("(") != plain.count(")"):
        return None
    signs: dict[str, str] = WORDS["formulas"]["symbols"]
    parts = (re.sub(r"(?<=\w)\(.*?\)", "", plain), plain)  # what is outside of calls first
    return next((text for part in parts for sign, text in signs.items() if re.search(sign, part)), None)


_INNER: Final = re.compile(r"\([^()]*\)")
_GROUPS: Final = re.compile(r"~([^~|]*)\|\|?([^~|]*)")


def foreign(formula: str) -> str | None:
    """Message on R's words and signs in a formula, with the spelling here; None if there are none."""
    for sign, text in _SIGNS.items():
        if (found := re.search(sign, formula)) is not None:
            return text.format(*(group or "x" for group in found.groups()))
    flat, fewer = "", formula
    while flat != fewer:
        flat, fewer = fewer, _INNER.sub("", fewer)
    found = _GROUPS.search(flat)
    names = [] if found is None else re.findall(r"[^\W\d]\w*", found[2])
    if not names:
        return None
    plain = " + ".join([formula.partition("|")[0].strip(), *(f"C({name})" for name in names)])
    levels = f"with levels={{{names[0]!r}: [...]}}, the reference first"
    person = (
        f"if {names[0]!r} identifies people, their own reports do without their levels (trust='local', "
        "'two_collectors' or 'central'): give k_max=5, say, the most rows a person has"
    )
    return f"fixed effects after | but a person's are not supported; write '{plain}', {levels}; {person}"


# --- names of columns ------------------------------------------------------------------------------------

_NAME: Final = re.compile(r"""Q\(\s*(['"])(.*?)\1\s*\)|'[^']*'|"[^"]*"|(?:[^\W\d]|[^\x00-\x7f])(?:\w|[^\x00-\x7f])*""")


def as_labelled(asked: Any, labels: Collection[Any] | None) -> Any:
    """A formula, or declarations by column, with columns named as the data name them; anything else as it is.

    Python reads names in their normal form NFKC, in which a micro sign is the Greek letter. In a formula a column that
    is written otherwise is put into Q(), where names are taken as they are; its levels are in the form NFC.
    Raises DataError if two columns have one name to Python.
    """
    known = labels or ()
    if isinstance(asked, Mapping):
        named = [label_of(key, known) for key in asked]
        if len(set(named)) < len(named):
            raise DataError("a column is declared twice, by names that are one to Python; keep one.")
        return dict(zip(named, asked.values(), strict=True))

    def spelt(match: re.Match[str]) -> str:
        name = match[0] if match[1] is None else match[2]
        label = name if name[:1] in ("'", '"') else label_of(name, known)
        bare = label == normalize("NFKC", name) and match[1] is None
        return match[0] if label not in known or (match[1] and label == name) else label if bare else f"Q({label!r})"

    return _NAME.sub(spelt, normalize("NFC", asked)) if isinstance(asked, str) else asked


def schema_labelled(schema: Any, labels: Collection[Any] | None) -> Any:
    """A schema, or that of a file, with columns named as the data name them."""
    if schema is None or labels is None:
        return schema
    base = schema if isinstance(schema, Schema) else Schema.from_file(schema)
    base.refuse_leaked()
    return Schema.declare(*(as_labelled(one, labels) for one in base.as_given()))


def label_of(name: Any, labels: Collection[Any] | None) -> Any:
    """The label that is this name to Python, of a tuple each; the name itself, or what is none, if there is none."""
    if not isinstance(name, str) or labels is None:
        return tuple(label_of(one, labels) for one in name) if isinstance(name, tuple) else name
    plain = normalize("NFKC", name)
    same = {c for c in labels if isinstance(c, str) and not c.isascii() and normalize("NFKC", c) == plain}
    same |= {plain} if plain in labels and name.isidentifier() else set()
    if len(same) > 1:
        raise DataError(f"{' and '.join(map(repr, sorted(same)))} are one name to Python, {plain!r}; rename a column.")
    return same.pop() if same else name


def refuse_arrays(**columns: Any) -> None:
    """Refuse arrays, and the logarithm of a column, where a formula wants the names of columns."""
    for option, name in ((option, name) for option, name in columns.items() if name is not None):
        if not isinstance(name, str):
            raise OptionError(
                f"{option} must be the name of a column when the model is given by a formula, as in {option}='years', "
                f"got {type(name).__name__}; an array goes with PrivateOnlineRegression(endog, exog, {option}=...)."
            )
        if (column := logged(name)) is not None:
            raise OptionError(
                f"{option}={name!r} must be the name of a column; exposure={column!r} adds the logarithm of it."
            )


def logged(code: str) -> str | None:
    """The column that an expression takes the logarithm of; None if it is anything else."""
    found = _LOG.fullmatch(code)
    return None if found is None else found[1]
