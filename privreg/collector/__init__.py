"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device: scales, shares of levels, correlations, curvature and
averages are made of reports that were randomised before.
"""
