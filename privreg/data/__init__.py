"""Where rows come from: `sources` reads batches of raw columns, `columns` makes numbers and codes of them.

`cells` says what one cell means and takes rows of columns in memory, `participants` who counts (ids, personal budgets,
missing values), `inspect` holds a schema against a file's own names, `carried` names of columns against data and
declarations, and finds those that data carry.
"""
