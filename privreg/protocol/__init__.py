"""What crosses the wall between devices and the collector. Public numbers, the standard library only.

`schedule` says who is asked what, `rounds` has public states and sums of reports, `codes` constants, `counts` the
robust score of counts, `plans` what a loop is handed and what a collector keeps. Of studies in the field: `wire` how
messages are written, `study` the plan, made of `parts`, `messages` states and reports, `sums` and `peers` those of two
collectors, `lattice` how large reports may be. Both sides import it, it imports neither.
"""
