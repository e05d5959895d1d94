"""Device side of the wall: one person's record in, one randomised report out.

The privacy claim is made here: the score and its bound, the report, where its noise comes from. What else sees raw
rows is `data`, which reads them, and `simulation`, which plays many devices at once.
"""
