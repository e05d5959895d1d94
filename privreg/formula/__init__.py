"""Public designs, made of a formula and declarations before any row is read.

`describe` reads the arguments of a front door, or a file, by the `language` that formulas are written in. A `design`,
of a formula or of `arrays`, whose rows come in `batches`, makes rows by its `encoding`: factors by their levels, all
else by `trees` of expressions. `response` checks its left side. `probe` stands for rows that nobody has read; `units`
and `affine` map to internal units, `spec` is the public specification of a model. `persons` reads the part of a formula
about several rows of a person. `covariates` keeps public rows that look like the people's.
"""
