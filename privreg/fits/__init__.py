"""Plans and outcomes of fits: public values, and reports with their noise.

`settings` are the options and what follows from them, `plan` makes the collector's plan of them, with the longest rows
(`extremes`), and `fit_plan` is the public plan that a user sees. `held` are the reports of a fit by rounds so far,
whoever sent them: `rounds` makes an `outcome` of them, by way of `findings` and `notes`. `results` is the one way from
an outcome, of rounds or of the published chain, to a statistician's results. `aggregate` has plan and outcome of fits
by sums, `published` those of the single chain, `target` reads the earlier fit of `like=`.
"""
