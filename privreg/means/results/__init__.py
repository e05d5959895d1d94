"""Estimates as they are handed out: `results`, which know a `fit` with what follows from it; `shares` in tables; the
curves of `survival`.
"""
