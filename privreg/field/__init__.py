"""Studies in the field, on the analyst's side: nothing here sees a row or a report.

`declared` reads a study's file and the model in it. `plan` makes the plan of a study, of the public plan of a fit and
of what respondents are told. `keys` makes signing keys, signs plans and states, and writes invitations. `command` is
their command line.
"""
