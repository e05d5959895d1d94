"""What a device sends: one person's record, made one randomised report.

`design` makes numbers of answers, `score` a report of real numbers, `answer` clips it and adds the exact `noise`.
`table` makes one of a table, `persons` one of several rows, `sums` shares of one for two collectors.
"""
