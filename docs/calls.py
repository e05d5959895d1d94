"""The calls in the tables of a page: run one by one, or matched with signatures, so that none rots."""

from __future__ import annotations

import ast
import inspect
import os
import re
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

RUN = ("statsmodels", "privreg", "use instead", "")
"""Columns whose code is run; that of a table without headings is its last."""
REFUSED = "refused"
"""The column whose code must raise an AttributeError or a TypeError."""


def rows(text: str) -> list[dict[str, str]]:
    """The rows of all tables of a page, each by the names of its columns."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|\n"))] for line in table.splitlines()]
        found += [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
    return found


def code(cell: str) -> list[str]:
    """The code of a cell."""
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", cell)]


def run(page: str, names: dict[str, Any]) -> int:
    """Run the calls of a page of this folder; the number of them.

    ``option=`` stands for the value of that name. A piece that begins with a dot goes on from the last that doesn't.
    """
    folder = Path(os.environ.get("PRIVREG_ROOT", Path(__file__).parents[1])) / "docs"
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few records, on purpose
        for row in rows((folder / page).read_text("utf-8")):
            for call in (call for column in RUN for call in code(row.get(column, "")) if is_python(call)):
                try:
                    _run(call, names)
                except Exception as e:
                    raise AssertionError(f"{page}: {call} raises {type(e).__name__}: {e}") from e
                count += 1
            for call in code(row.get(REFUSED, "")):
                try:
                    _run(call, names)
                except (AttributeError, TypeError):
                    count += 1
                else:
                    raise AssertionError(f"{page}: {call} is not refused")
    return count


def is_python(span: str) -> bool:
    """Whether a piece is Python, not a command of the shell, its option, the ending of a file or an extra's call."""
    return not re.match(r"privreg |pip |marginaleffects\.|-|\.\w+$", span)


def _run(call: str, names: dict[str, Any]) -> None:
    """Run one piece."""
    text = re.sub(r"(\w+)=(?=[,)])", r"\1=\1", call)
    (part,) = ast.parse(f"_last{text}" if text.startswith(".") else text).body
    if isinstance(part, ast.Assign) and not isinstance(part.value, ast.Call):
        raise TypeError("an option alone is no call")  # which="linear" would run, and show nothing
    if isinstance(part, ast.Assign | ast.Expr):
        value = eval(ast.unparse(part.value), names)
        if isinstance(part, ast.Assign):
            names[ast.unparse(part.targets[0])] = value
        if not text.startswith("."):
            names["_last"] = value


def faults(text: str, names: dict[str, Any]) -> list[str]:
    """Calls of these names in the tables of a page that lead nowhere or don't fit their signature; none is run."""
    found = []
    for span in (span for row in rows(text) for cell in row.values() for span in code(cell) if is_python(span)):
        try:
            tree = ast.parse(re.sub(r"(\w+)=(?=[,)])", r"\1=...", span).replace("(...)", "()"))
        except SyntaxError:  # words
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            if re.fullmatch(r"[\w.]+", name) and name.split(".")[0] in names:
                try:
                    function = eval(name, dict(names))
                    options = {word.arg: ... for word in call.keywords if word.arg}
                    with suppress(ValueError):  # of NumPy's types before 2.4, which have no signature
                        inspect.signature(function).bind_partial(*call.args, **options)
                except (AttributeError, TypeError) as error:
                    found.append(f"{span}: {error}")
    return found
