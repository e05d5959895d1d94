"""Optional packages, imported where they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from privreg.errors import MissingExtraError


def need(module: str, extra: str, what: str) -> Any:
    """Import a module of an optional package, which `extra` brings; without it an error says `what` needs it."""
    package = {"docx": "python-docx"}.get(module, module.partition(".")[0])
    try:
        return import_module(module)
    except ImportError:
        pass  # raised below: the text of another package's error is not passed on
    raise MissingExtraError(f"{what} needs {package}, which is not installed: pip install privreg[{extra}].")


def comes_from(value: object, package: str, *names: str) -> bool:
    """True if a value is of one of a package's classes, found without importing it."""
    return any(
        c.__name__ in names and c.__module__.partition(".")[0].lstrip("_") == package for c in type(value).__mro__
    )
