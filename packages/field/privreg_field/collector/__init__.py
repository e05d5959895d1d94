"""Of studies in the field, whose devices send whole numbers.

`messages` writes states and reads reports, `chain` makes a study's states of sums of what came, `batches` those of a
study with two collectors; of a `table` there is one.
"""
