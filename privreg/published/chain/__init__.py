"""The published algorithm's single chain.

`kernels` is its compiled loop, which draws by the `normal` law; `collector` takes in reports one after another and
averages the states. `numbers` is the plan in a fit's terms and `plans` in the loop's; `blocks` keep sums along the
path, and `path` makes covariances of it, without a whole matrix if coefficients are `mapped` one by one. `run` plays
everybody in order. `theory` has printed rates.
"""
