"""Public declarations about columns: bounds, levels, moments.

`declarations` has the schema and its checks, `files` reads and writes it as YAML or JSON.
"""

from privreg.schema.declarations import Schema

__all__ = ["Schema"]
