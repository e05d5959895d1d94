"""`python -m privreg.device`: see `command`."""

import sys

from .command import main

sys.exit(main(prog="python -m privreg.device"))
