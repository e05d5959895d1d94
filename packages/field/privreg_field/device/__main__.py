"""`python -m privreg_field.device`: see `command`."""

import sys

from .command import main

sys.exit(main(prog="python -m privreg_field.device"))
