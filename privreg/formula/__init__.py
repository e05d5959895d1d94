"""From a formula and declarations to a public design: what a row of the design is, before any row is read.

`parse` and `allowlist` read a formula, `design` and `encoding` make rows of it, `arrays` does so for plain arrays,
`units` maps to internal units, `spec` is what a model fixes. `leaks` is the user's own exception.
"""
