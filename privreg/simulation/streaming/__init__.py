"""Rows in, estimates out at any time: `stream` takes rows, which `encoding` makes of records.

`persons` makes people of rows. `begin` makes a stream of what is asked, and `ways` has the two ways of a fit, by rounds
and by the published chain.
`checkpoint` keeps long fits, and `storage` says what of a stream is written to a file.
"""
