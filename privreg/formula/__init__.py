"""Public designs, made of a formula and declarations before any row is read.

`describe` reads the options of a front door, or a file, by the `language` that formulas are written in. A `design`, of
a formula or of arrays, whose rows come in `batches`, makes rows by its `encoding`: factors by their levels, all else
by `trees` of expressions. `units` map to internal ones, `spec` is the public specification of a model. `persons` reads
the parts of a formula about several rows of a person, and about times until an event.
"""
