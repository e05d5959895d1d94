"""Public declarations about columns: bounds, levels, moments.

`declarations` has the schema and its checks, `dates` makes numbers of dates, `files` reads and writes YAML or JSON, and
`combining` takes a schema and what is declared beside it.
"""

from privreg.schema.declarations import Schema

__all__ = ["Schema"]
