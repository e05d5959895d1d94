"""Readers of rows; only the columns asked for are touched.

`open` knows data by their kind, and finds the declarations that they carry; `files` reads Parquet, `csv`
lines, `database` queries, `tables` rows in memory and other libraries' tables, `arrow` Arrow's columns; `source` is
what all are, and their order.
"""
