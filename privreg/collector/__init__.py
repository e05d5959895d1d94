"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. A fit by rounds: `plan` has its values, `rounds` publishes
states, and says how far they move, and those of the groups of a round differ; `levels` are thresholds of evidence.
`covariates` learns from the rounds before the scores, `estimation` computes coefficients, `aggregate` is the estimator
by sums, `inference` has covariances, intervals and tests.
"""
