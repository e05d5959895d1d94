"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. `design` is the frame of all rounds, which has two designs.
Of local reports: `plan` has its values, `rounds` publishes states, and says how far they move, and those of the groups
of a round differ; `levels` are thresholds of evidence; `covariates` learns from the rounds before the scores, and
`estimation` computes coefficients. Of noised sums: `aggregate`. `inference` has covariances, intervals and tests.
"""
