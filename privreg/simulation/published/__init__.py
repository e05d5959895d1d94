"""The published algorithm's single chain, devices and collector in one loop.

`sgd` runs it, `sgd_kernels` is its compiled loop, `sgd_device` what its devices know. `intervals` has its
precision, by batches of its `path`, and `fit` makes results of it.
"""
