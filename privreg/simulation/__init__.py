"""Rows through all devices at once.

`tuning` turns options into the settings of one fit, and chooses the way it is run. `streaming` takes rows and keeps
what is made of them. Of fits by `rounds`, `devices` is what a round's do with a block of rows. `simulate` plays a plan
with reports that are lost or late. `workers` share one fit among threads, processes and machines. `aggregate` plays two
collectors, whose reports `summing` adds up, `curator` a curator, whose rows answer in each round. What a fit says of
itself is in `fits`, the published algorithms in `published`.
"""
