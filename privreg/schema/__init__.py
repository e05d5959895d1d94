"""Public declarations about columns: bounds, levels, moments.

`declarations` has the schema, its checks, and what is declared beside it, `dates` makes numbers of dates, `files` reads
and writes YAML or JSON.
"""

from privreg.schema.declarations import Schema

__all__ = ["Schema"]
