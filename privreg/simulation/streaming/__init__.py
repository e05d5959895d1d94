"""Rows in, estimates out at any time: `stream` takes rows, which `encoding` makes of records; `begin` makes a stream.

`checkpoint` keeps long fits, and `storage` says what of a stream is written to a file.
"""
