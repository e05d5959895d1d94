"""The published rates under their public name; see `privreg.published.theory`."""

from privreg.published.theory import *  # noqa: F403
from privreg.published.theory import __all__ as __all__
