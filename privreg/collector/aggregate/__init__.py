"""Rounds of two collectors that don't collude: noise is added once to a sum of reports, not to every report.

`plan` has what is public before the first record, `report` what a record's vector holds and `lattice` its whole
numbers, `rounds` makes the next state of a round's noised sum, `classes` has what several linear predictors need,
`estimate` makes the coefficients and their covariance of all sums, `measuring` how well they predict, and `chain` the
states one after the other. Functions on values; nothing here sees a row. The equations are those of
docs/sums.md.
"""
