"""Rounds of noised sums: noise is added once to a sum of reports, by a curator or by two collectors who don't collude.

`plan` is fixed before the first record, `report` makes a record's vector and `lattice` its whole numbers, `rounds` the
next state from a round's noised sum; `budget` divides μ among rounds that the same rows answer, `lengths` finds the
length up to which rows count whole, `classes` treats several linear predictors, `estimate` computes the coefficients
and their covariance from all sums, `extra` what a parameter beside them does to these, `measuring` the measures of fit,
and `chain` is the sequence of states. Functions on values; nothing here sees a row. The equations are those of
docs/sums.md.
"""
