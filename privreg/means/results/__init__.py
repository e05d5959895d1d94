"""Estimates as they are handed out: `results`, which know a `fit`, what follows from them (`described`), the tables
`shares` and `table_one`, the curves of `survival`, and the `words` of notes.
"""
