"""Sources of rows: `sources` reads batches of raw columns, `columns` makes numbers and codes of them.

`cells` reads single cells and takes rows of columns in memory, `participants` who counts (ids, personal budgets,
missing values), `followed` makes rows of intervals of people who are followed until an event, `inspect` holds a schema
against a file's own names.
"""
