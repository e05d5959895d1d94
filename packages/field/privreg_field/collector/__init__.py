"""Collector of studies in the field, whose devices send whole numbers.

`messages` writes states and reads reports, `chain` makes the sums of reports of what came by state, by which the next
state is made, and has the design of tables; `batches` asks devices of a study with two collectors.
"""
