"""Where rows come from: `sources` reads batches of raw columns, `columns` makes numbers and codes of them.

`cells` says what one cell means, `participants` who counts (ids, personal budgets, missing values), `labels` checks
names of columns, `inspect` holds a schema against a file's own names, `carried` finds declarations that data carry,
`taken` takes rows at some places of columns in memory, `writing` writes tables.
"""
