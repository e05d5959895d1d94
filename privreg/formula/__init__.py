"""From a formula and declarations to a public design: what a row of the design is, before any row is read.

`describe` reads what a front door was given, or a file holds, by the `language` that formulas are written in. A
`design`, of a formula or of `arrays`, whose rows come in `batches`, makes rows by its `encoding`: factors by their
levels, all else by `trees` of expressions. `response` has its left side. `probe` stands for rows that nobody has read;
`units` and `affine` map to internal units, `spec` is what a model fixes. `persons` has what a formula says of several
rows of a person. `covariates` takes what a fit needs of public rows that look like the people's.
"""
