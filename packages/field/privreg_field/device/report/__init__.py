"""One person's record, made one randomised report.

`design` makes numbers of answers, `score` a report of real numbers, `answer` clips it and adds the exact `noise`, also
of several rows or of a table; `sums` makes shares of one for two collectors.
"""
