"""Audits: how well can reports of two neighbours be told apart?

`neighbours` bounds the budget of any mechanism from below; `verification` tries every report that a fit used on
neighbours made up for it.
"""
