"""What an analyst gets of a study: sums of reports, verified, and results of them.

`connect` is `privreg.connect`, which makes a `study`, or one that is `shared` by two collectors, or of `several`
analyses. `collected` makes results of a plan and of sums of reports, `summed` of two collectors' sums. `picture` has
what a dashboard shows of results, and `live` follows it in a notebook. `command` is `privreg results`.
"""
