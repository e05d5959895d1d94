"""The published algorithm's single chain.

`kernels` is its compiled loop and `device` what its devices know; `collector` takes in reports one after another and
averages the states. `steps` are step sizes, `path` and `history` what is kept of the way, `plans` the values all share,
`numbers` what a fit's settings say of them. `run` plays everybody in order.
"""
