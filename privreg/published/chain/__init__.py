"""The published algorithm's single chain.

`plans` has the plan in a fit's terms and in the compiled loop's, `kernels`, whose state `collector` begins, turns and
sums up. `path` has sums along the path, and covariances of them; `run` plays everybody in order.
"""
