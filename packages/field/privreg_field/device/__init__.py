"""Device side of the wall: one person's record in, one randomised report out. The standard library alone.

`session` is a respondent's way through a study in the field: by the `exchange` with its servers plan and states are
verified, and after `consent` the report is sent until it has arrived. `command` is its command line (and `__main__`),
`client` its HTTP;
`ed25519` verifies, `memory` keeps what was spent and sent. `report` makes the numbers that are sent, of several rows
after a `diary` has kept them; for two collectors `seal` seals shares to each. What else sees raw rows is `data`, which
reads them, and `simulation`, which plays many devices at once.
"""

from typing import Any

__all__ = ["Limits", "Outcome", "RefusedError", "respond"]


def __getattr__(name: str) -> Any:
    """Import what is asked for: a simulation needs scores alone, and no HTTP."""
    if name in __all__:
        from . import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
