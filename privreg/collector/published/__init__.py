"""The collector of the published algorithm's single chain.

`sgd` takes in reports one after another and averages the states; `steps` are its step sizes, `history` what it keeps
of its way.
"""
