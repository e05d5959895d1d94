"""Plans and outcomes of fits: public values, and reports with their noise.

`settings` are the options and what follows from them, `plan` makes the collector's plan of them, and `fit_plan` is the
public plan that a user sees. `rounds` makes an `outcome` of the reports so far, by way of `findings` and `notes`; there
is the one way from an outcome, of rounds or of the published chain, to a statistician's results. `aggregate` has plan
and outcome of fits by sums, `published` those of the single chain.
"""
