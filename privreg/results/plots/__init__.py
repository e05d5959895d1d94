"""Figures of results; matplotlib is imported when the first is drawn.

`coefficients` (rows of estimates, and by how much each column is moved), `trajectory`, `privacy` (what a
guarantee means); `style` is that of all.
"""
