"""The papers' algorithm in one room: ``tuning="published"``, a single averaged chain, its experiments and its theory.

`chain` is the algorithm, devices and collector in one compiled loop; `fit` takes it from settings to what results hold.
`experiments` run printed tables and figures again, `theory` has printed rates. The rest of the package knows
`fit.tuning.resolve`, where tuning is resolved, begin and report of `fit.report`, where a fit is begun,
`chain.plans`, which settings hold, and `chain` for audits of its reports.
"""
