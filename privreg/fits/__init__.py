"""What every fit is made of, and what it says of itself: public values, and reports with their noise.

`settings` is what is asked of a fit and known before the first record, `plan` makes of it what its rounds know, with
what rows can be (`extremes`), and `fit_plan` is the public plan that a user sees. `held` is what the collector of a fit
by rounds has by now, whoever sent the reports: `rounds` makes an `outcome` of it, with what `findings` finds out and
`notes` says of it. `results` is the one way from an outcome, of rounds or of the published chain, to what a
statistician is handed. `aggregate` has plan and outcome of fits by sums, `target` reads whose estimand a
fit is to have.
"""
