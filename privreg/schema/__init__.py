"""Public declarations about columns: bounds, levels, moments. `files` reads and writes them as YAML or JSON."""

from privreg.schema.declarations import Schema

__all__ = ["Schema"]
