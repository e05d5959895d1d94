"""The published tables and figures under their public name; see `privreg.published.experiments`."""

import sys

from privreg.published import experiments
from privreg.published.experiments import *  # noqa: F403

# the same modules under both names, not second ones
_found = {name: module for name, module in sys.modules.items() if name.startswith(experiments.__name__)}
sys.modules |= {name.replace("privreg.published.", "privreg.", 1): module for name, module in _found.items()}
