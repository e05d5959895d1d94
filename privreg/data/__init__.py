"""Sources of rows: `sources` reads batches of raw columns, `columns` makes numbers and codes of them.

`cells` reads single cells and takes rows of columns in memory, `participants` who counts (ids, personal budgets,
missing values), `inspect` holds a schema against a file's own names.
"""
