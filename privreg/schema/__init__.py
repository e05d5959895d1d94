"""Public declarations about columns: bounds, levels, moments.

`declarations` has the schema and its checks, `dates` makes numbers of dates, and `files` reads and writes a schema as
YAML or JSON.
"""

from privreg.schema.declarations import Schema

__all__ = ["Schema"]
