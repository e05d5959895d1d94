"""Verbs of the command `privreg` that are the kit's: each is imported when it is run."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from privreg.base.optional import need
from privreg_field import KIT


class Verb(NamedTuple):
    """A verb, and where it is."""

    about: str
    module: str
    name: str = "main"
    prog: str | None = None

    def __call__(self, arguments: Sequence[str]) -> int:
        """Run it with the words after its name; its exit status."""
        for needed in ("sqlalchemy", "starlette", "uvicorn") if ".service." in self.module else ():
            need(needed, "serve", "a collector", KIT)
        named: dict[str, Any] = {} if self.prog is None else {"prog": self.prog}
        return int(getattr(import_module(self.module), self.name)(arguments, **named))


study: Final = Verb(
    "make keys, sign a plan, verify one; `privreg study demo` plays all", "privreg_field.study.declaring.command"
)
serve: Final = Verb(
    "collect reports over HTTP; tokens makes invitations", "privreg_field.service.commands.serve", "serve"
)
tokens: Final = Verb("make invitations: each entitles to one report", "privreg_field.service.commands.tokens", "tokens")
silo: Final = Verb(
    "sign a plan of silos, accept one for a silo's file, print what was sent", "privreg_field.silos.command"
)
results: Final = Verb("print the results of a study so far", "privreg_field.study.reading.connect")
collector: Final = Verb(
    "check, replay, close, rotate-keys or export what was collected",
    "privreg_field.service.commands.collector",
    "collector",
)
respond: Final = Verb("answer a study from this device", "privreg_field.device.command", prog="privreg respond")
swarm: Final = Verb("let simulated devices answer a study on this machine", "privreg_field.study.simulated.swarm")
