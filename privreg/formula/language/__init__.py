"""What a formula may say, decided before a row is read.

`parse` and `allowlist` say what a formula may compute, `spelling` how others write it, and `opt_out` is the user's
own exception (``allow_leak=``).
"""
