"""Studies in the field, on the analyst's side: nothing here sees a row or a report.

`keys` makes signing keys, signs plans and states, and writes invitations. `plan` makes the plan of a study, of the
public plan of a fit and of what respondents are told.
"""
