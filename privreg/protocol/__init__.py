"""Messages across the wall between devices and the collector. Public numbers, the standard library only.

`schedule` says who is asked what, `rounds` has public states and sums of reports, `codes` constants and public sizes of
formulas, `counts` the robust score of counts, `plans` what a loop is handed and what a collector keeps. Of reports that
are whole numbers `lattice` says how large they may be, `sums` what two collectors are sent. Both sides import it, it
imports neither.
"""
