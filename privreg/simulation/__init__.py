"""Rows through all devices at once.

`tuning` turns options into the settings of one fit, and chooses the way it is run. `streaming` takes rows and keeps
what is made of them. A Run of `rounds` plays blocks of rows, and ends batches of them; what is open in it:

==========  =====================================  ======================================================
a run of    RoundsRun of `rounds`: local reports   AggregateRun of `aggregate`: two collectors' sums
==========  =====================================  ======================================================
devices     `devices`: a score in each report      `collector/aggregate/report.py`, added up by `summing`
noise       in reports, or on pieces of their sum  once on the whole sum, when its batch ends
design      `collector/rounds.py`                  `collector/aggregate/chain.py`
outcome     `fits/rounds.py`                       `fits/aggregate.py`
==========  =====================================  ======================================================

A CuratorRun is an AggregateRun whose rows answer in each round. `simulate` plays a plan with reports that are lost or
late. `workers` share one fit among processes and machines. Published algorithms are in `published`.
"""
