"""Studies in the field, each with options of its own; what they need is imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from privreg.errors import MissingExtraError


def _respond(arguments: Sequence[str]) -> int:
    from privreg.device.command import main

    return main(arguments, prog="privreg respond")


def _study(arguments: Sequence[str]) -> int:
    from privreg.field.command import main

    return main(arguments)


def _results(arguments: Sequence[str]) -> int:
    from privreg.field.reading import main

    return main(arguments)


def _swarm(arguments: Sequence[str]) -> int:
    from privreg.field.swarm import main

    return main(arguments)


def _serving(name: str) -> Callable[[Sequence[str]], int]:
    def run(arguments: Sequence[str]) -> int:
        try:
            import sqlalchemy  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError:
            raise MissingExtraError(
                'a collector needs packages that are not installed: pip install "privreg[serve]".'
            ) from None
        from privreg.service import command

        return int(getattr(command, name)(arguments))

    return run


FIELD: Final[dict[str, Callable[[Sequence[str]], int]]] = {
    "respond": _respond,
    "study": _study,
    "serve": _serving("serve"),
    "tokens": _serving("tokens"),
    "collector": _serving("collector"),
    "results": _results,
    "swarm": _swarm,
}
