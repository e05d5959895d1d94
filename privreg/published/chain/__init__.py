"""The published algorithm's single chain.

`kernels` is its compiled loop; `collector` takes in reports one after another and averages the states. `numbers` are
fixed before the first record, `plans` are the values that the loop is handed, `path` has batches of the way. `run`
plays everybody in order.
"""
