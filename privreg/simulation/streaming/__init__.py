"""Rows in, estimates out at any time: `stream` takes rows, which `encoding` makes of records, and people of rows.

`checkpoint` keeps long fits.
"""
