"""`python -m privreg_device`: see `device.command`."""

import sys

from .device.command import main

sys.exit(main(prog="python -m privreg_device"))
