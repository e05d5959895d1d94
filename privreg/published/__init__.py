"""The papers' algorithms, as printed: what runs them for a user, and one file of theory beside each.

`chain` is LDP-SGD, ``tuning="published"``: a single averaged chain, devices and collector in one compiled loop; `fit`
takes it from settings to what results hold. `descent` is a curator's, ``trust="central"``, and `shrinking` HDR4ME*. The
rest of the package knows `fit.tuning.resolve`, where tuning is resolved, begin and report of `fit.report`, where a fit
is begun, `chain.plans`, which settings hold, `chain` for audits of its reports, `descent.fit`, and the rules of
`shrinking`. Printed tables are run again by `benchmarks.papers`.
"""
