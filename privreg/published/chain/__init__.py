"""The published algorithm's single chain.

`numbers` is the plan in a fit's terms, `plans` in the compiled loop's, `kernels`, with the state that `collector`
begins, turns and sums up. `path` has sums along the path, and covariances of them; `run` plays everybody in order.
`theory` has printed rates.
"""
