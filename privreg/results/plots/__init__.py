"""Figures of results; matplotlib is imported when the first is drawn.

`coefficients` (rows of estimates, by how much each column is moved, and estimates along a stream), `privacy` (what a
guarantee means); `style` is that of all.
"""
