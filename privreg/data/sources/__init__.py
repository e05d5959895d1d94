"""Readers of rows; only the columns asked for are touched.

`open` knows tables, queries and paths by their kind, and finds the declarations that they carry. `files` reads paths:
Parquet and Feather, and `csv`. `tables` has rows in memory and other libraries' tables, `arrow`
Arrow's columns, `database` queries; `source` is what all are, and the order in which rows are read: at random where
they can be addressed, or person by person.
"""
