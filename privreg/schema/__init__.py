"""Public declarations about columns: bounds, levels, moments.

`declarations` has the schema, its checks, and dates as numbers, `files` reads and writes YAML or JSON, and reads
dictionaries of REDCap and ODK.
"""

from privreg.schema.declarations import Schema

__all__ = ["Schema"]
