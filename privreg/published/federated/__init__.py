"""Federated averaging under local privacy of whole silos, by GeoDP, LDPVec and plainer mechanisms.

`model` is the front door, `plan` the public plan and the server's means by it. `client` alone sees records; `reports`
randomises its updates, with `theory` of directions, predicts errors, and audits them. `flower` runs
clients and server for real, `results` has what the core's has. Public names are those of `privreg.federated`.

See Duan (2025), PhD thesis; Duan, Hu, Ye & Sun, arXiv 2504.05618: GeoDP.
"""
