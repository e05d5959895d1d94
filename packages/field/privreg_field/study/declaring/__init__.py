"""A study before it begins: what its analyst declares, and what is signed.

`declared` reads a study's file: texts and times, by `about`, and the model of each analysis. `plan` makes the plan of a
study, of the public plan of a fit and of what respondents read, `precision` says what to expect of each analysis.
`command` is `privreg study`.
"""
