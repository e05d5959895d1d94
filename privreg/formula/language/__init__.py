"""What a formula may say, decided before a row is read.

`parse` and `allowlist` say what a formula may compute, `rowwise` has functions that it may call, `limits` how large it
may be, `spelling` how others write
it, and `opt_out` is the user's exception (``allow_leak=``).
"""
