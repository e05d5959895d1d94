"""One fit shared among threads, processes and machines.

A `crew` is the threads that encode and play. `dask` spreads fits over workers, and `blocks` is what is
spread, and what workers are told.
"""
