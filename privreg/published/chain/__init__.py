"""The published algorithm's single chain.

`kernels` is its compiled loop, which draws by the `normal` law; `collector` takes in reports one after another and
averages the states. `numbers` has what is fixed before the first record and `plans` what the loop is handed of it,
`blocks` keep sums along the way, and `path` makes covariances of it, without a whole matrix where coefficients are
`mapped` one by one. `run` plays everybody in order. `theory` has printed rates.
"""
