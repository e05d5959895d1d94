"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. A fit by rounds: `plan` has its values, `rounds` publishes
states, by the `pilot` first, and `spacing` is how far states move, and those of the groups of a round differ;
`clamping` estimates shares of clamped records, `levels` are thresholds of evidence. `covariates` learns from the rounds
before the scores, `estimation` computes coefficients, `aggregate` is the estimator by sums, `inference` has
covariances, intervals and tests.
"""
