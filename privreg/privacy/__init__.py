"""The guarantee as numbers, and noise.

`budget` has the largest loss of a person, in any form, `conversions` the exact relations of these forms, shuffling's
included; `mechanisms` has mechanisms with their sensitivities (but those of a
curator's descent and of silos, in `published`, and of whole numbers, in `protocol`), and how they
randomise many reports, `scalar` those for one number, `noise` and `ziggurat` a simulation's random numbers. `ledger`
keeps what was released of whom, by the data sets that `accounts` identifies.
"""
