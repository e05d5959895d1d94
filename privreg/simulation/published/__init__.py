"""The published algorithm's single chain, devices and collector in one loop.

`sgd` runs it, `sgd_kernels` is its compiled loop, `sgd_device` one of its devices, to be read. `intervals` has its
precision, and `fit` makes results of it.
"""
