"""The HTTP interface for devices, analysts and operators.

`handler` answers requests, and counts them, `app` those of studies whose devices add the noise. `guard` limits requests
of an address and connections, and has the answers that refuse.
"""
