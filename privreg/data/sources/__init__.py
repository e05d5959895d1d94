"""Readers of rows; only the columns asked for are touched.

`open` knows tables, queries and paths by their kind, and `files` the formats of paths: `csv`, whose records are
`lines`, `parquet` (and Feather). `frames` has rows in memory, `tables` other libraries' tables, `arrow` their columns,
`database` queries; `source` is what all are, `order` the random order in which rows that can be addressed are read,
`persons` that in which rows of one person come together.
"""
