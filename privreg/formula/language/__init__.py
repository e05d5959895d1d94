"""The language of formulas, checked before a row is read.

`parse` and `allowlist` define it, `rowwise` marks functions that a formula may call, `limits` bounds its size,
`spelling` explains other spellings, and `opt_out` is the user's exception (``allow_leak=``).
"""
