"""Device side of the wall: one person's record in, one randomised report out.

`score` makes the report, `sampler` and `ziggurat` its noise. What else sees raw rows is `data`, which reads them, and
`simulation`, which plays many devices at once; compiled loops there do the same arithmetic in the same order.
"""
