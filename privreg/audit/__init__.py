"""Audits: how well can reports of two neighbours be distinguished?

`neighbours` bounds the budget of any mechanism from below, and does so for trials, which the front doors make of the
mechanisms they use; `reports` makes those of regressions, with one record's report under any mechanism, readable.
`descent` audits a curator's published descent.
"""
