"""The published algorithm's single chain.

`numbers` has its plan and state; `kernels` is its compiled loop; `collector` begins, turns and sums up the states;
`path` keeps sums along the path and makes covariances of them; `run` plays everybody in order; `theory` has printed
rates.
"""
