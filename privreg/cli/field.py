"""Studies in the field, each with options of its own; what they need is imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from privreg.errors import MissingExtraError


def _run(module: str, name: str, arguments: Sequence[str], **more: Any) -> int:
    if module == "privreg.service.command":
        try:
            for needed in ("sqlalchemy", "starlette", "uvicorn"):
                import_module(needed)
        except ImportError:
            raise MissingExtraError(
                'a collector needs packages that are not installed: pip install "privreg[serve]".'
            ) from None
    return int(getattr(import_module(module), name)(arguments, **more))


FIELD: Final[dict[str, Callable[[Sequence[str]], int]]] = {
    "respond": partial(_run, "privreg.device.command", "main", prog="privreg respond"),
    "study": partial(_run, "privreg.field.command", "main"),
    **{verb: partial(_run, "privreg.service.command", verb) for verb in ("serve", "tokens", "collector")},
    "results": partial(_run, "privreg.field.reading", "main"),
    "swarm": partial(_run, "privreg.field.swarm", "main"),
}
