"""Rounds of noised sums: noise is added once to a sum of reports, by a curator or by two collectors who don't collude.

`plan` is fixed before the first record, `report` makes a record's vector and its whole numbers, `rounds` the next state
from a round's noised sum; `lengths` divides μ among rounds that the same rows answer, and finds the length up to which
rows count whole, `classes` treats several linear predictors, `curvature` pools rounds' slopes, `common` turns rounds
into common coordinates and says how scores bend between them, `extra` what a parameter beside the coefficients does to
these, `estimate` computes the coefficients and their covariance from all sums, and `chain` makes a design of these, and
measures of fit. Functions on values; nothing here sees a row. The equations are those of docs/sums.md.
"""
