"""The papers' algorithms, as printed: what runs them for a user, and one file of theory beside each.

`chain` is LDP-SGD, ``tuning="published"``: a single averaged chain, devices and collector in one compiled loop, which
room `fits` takes from settings to what results hold. `descent` is a curator's, ``trust="central"``, `shrinking` has
HDR4ME*, and `federated` is regression over silos, with GeoDP and LDPVec. `benchmarks.papers` runs printed tables again.
"""
