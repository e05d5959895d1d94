"""Public declarations about columns: bounds, levels, moments.

`declarations` has the schema, its checks, and dates as numbers, `dictionaries` reads those of REDCap
and ODK, `files` reads and writes YAML or JSON.
"""

from privreg.schema.declarations import Schema

__all__ = ["Schema"]
