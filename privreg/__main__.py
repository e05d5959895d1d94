"""``python -m privreg``: the same as the command ``privreg``."""

import sys

from privreg.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
