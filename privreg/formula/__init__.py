"""From a formula and declarations to a public design: what a row of the design is, before any row is read.

`describe` reads what a front door was given. `parse` and `allowlist` say what a formula may compute, `spelling` how
others write it, `opt_out` is the user's own exception (``allow_leak=``). `compile` writes terms as expression trees, of
`operations`; `terms` says which columns belong together; `design`, `encoding` and `arrays` make rows, by `evaluate`
(trees) and `lookup` (levels); `probe` stands for rows that nobody has read; `units` and `affine` map to internal units,
`spec` is what a model fixes. `covariates` takes what a fit needs of public rows that look like the people's.
"""
