"""The staged engine, whole: its plan, its devices, its chains and lanes, its compiled loops.

It mixes both sides of the wall and is to be replaced by rounds; import contracts leave it out until then.
"""
