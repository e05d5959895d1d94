"""The published algorithm's single chain.

`kernels` is its compiled loop; `collector` takes in reports one after another and averages the states. `numbers` is the
plan in a fit's terms and `plans` in the loop's; `path` keeps sums along the path and makes covariances of them. `run`
plays everybody in order. `theory` has printed rates.
"""
