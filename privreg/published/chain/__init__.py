"""The published algorithm's single chain.

`kernels` is its compiled loop; `collector` takes in reports one after another and averages the states. `numbers` are
fixed before the first record, `plans` are the values that the loop is handed, `blocks` keep sums along the way, and
`path` makes covariances of it. `run` plays everybody in order.
"""
