"""The documentation: pages, their settings, and the command that builds them, ``python -m docs``."""
