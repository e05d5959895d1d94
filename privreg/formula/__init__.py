"""From a formula and declarations to a public design: what a row of the design is, before any row is read.

`describe` reads what a front door was given, by the `language` that formulas are written in. `design`, `encoding` and
`arrays` make rows, by `trees` of expressions; `response` is its left side, `terms` says which columns belong
together. `probe` stands for rows that nobody has read; `units` and `affine` map to internal units, `spec` is what a
model fixes. `covariates` takes what a fit needs of public rows that look like the people's.
"""
