"""Figures of results; matplotlib is imported when the first is drawn.

`dots` (rows of estimates, and `plot()` of tables), `coefficients` (and by how much each column is moved), `trajectory`,
`inference` (lengths by method), `privacy` (what a guarantee means); `style` is that of all.
"""
