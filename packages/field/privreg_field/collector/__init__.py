"""Collector of studies in the field, whose devices send whole numbers.

`messages` writes states and reads reports, `chain` makes a study's states of sums of reports, `batches` those of a
study with two collectors.
"""
