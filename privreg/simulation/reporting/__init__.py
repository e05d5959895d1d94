"""From the state of a fit to what its results hold beside coefficients. Reports only.

`outcome` puts it together in the user's units; `findings` is what a fit has found out of itself, `notes` says which
rows it weakens and why, `statements` what was spent.
"""
