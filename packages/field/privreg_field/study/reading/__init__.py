"""Sums of reports for the analyst, verified, and results of them.

`connect` is `privreg.connect`, and the command `privreg results`. It makes a `study`, or one that is `shared` by two
collectors, or several of them. `collected` makes results of a plan and of sums of reports. `picture` has the numbers of
a dashboard, and follows it in a notebook.
"""
