"""The language of formulas, checked before a row is read.

`parse` and `allowlist` define it and bound its size, `rowwise` marks functions that a formula may call, `spelling`
explains other spellings.
"""
