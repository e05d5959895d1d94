"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. `location` and `moments` learn where columns lie and how they
go together, `factors` the shares of levels, `diagonal` does without correlations; `reference` and `curvature` have what
to expect of scores; `sgd`, `steps` and `history` are the published chain.
"""
