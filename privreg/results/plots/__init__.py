"""Figures of results; matplotlib is imported when the first is drawn.

`dots` (rows of estimates), `coefficients` (and by how much each column is moved), `trajectory`, `privacy` (what a
guarantee means); `style` is that of all.
"""
