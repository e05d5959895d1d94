"""Rounds of noised sums: noise is added once to a sum of reports, by a curator or by two collectors who don't collude.

`plan` has what is public before the first record, `report` what a record's vector holds and `lattice` its whole
numbers, `rounds` makes the next state of a round's noised sum, `budget` says what a round costs where rows answer in
every one, `lengths` up to which length rows count whole, `classes` has what several linear predictors need, `estimate`
makes the coefficients and their covariance of all sums, `measuring` how well they predict, and `chain` the states one
after the other. Functions on values; nothing here sees a row. The equations are those of docs/sums.md.
"""
