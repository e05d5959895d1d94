"""Sums of reports for the analyst, verified, and results of them.

`connect` is `privreg.connect`, and the command `privreg results`. It makes a `study`, or one that is `shared` by two
collectors, or of `several` analyses. `collected` makes results of a plan and of sums of reports, `summed` of two
collectors' sums. `picture` has the numbers of a dashboard, and `live` follows it in a notebook.
"""
