"""The device of studies under local differential privacy: one record in, one randomised report out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .device import Limits, Outcome, RefusedError, respond

__all__ = ["Limits", "Outcome", "RefusedError", "respond"]


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name in __all__:
        from . import device

        return getattr(device, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
