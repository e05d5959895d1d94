"""Device side of the wall: one person's record in, one randomised report out. The standard library alone.

`score` makes a report of real numbers, before noise. What else sees raw rows is `data`, which reads them, and
`simulation`, which plays many devices at once.
"""
