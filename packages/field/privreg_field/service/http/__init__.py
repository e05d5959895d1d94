"""What devices, analysts and operators ask over HTTP, and what is answered.

`desk` answers requests, and counts them, `app` those of studies whose devices add the noise; `operate` is what
operators ask, `problems` what is answered instead. `quota` limits how often one address asks, `guard` connections.
"""
