"""A name that says where what it named has gone."""

raise ImportError(
    "rates of the published algorithm are in privreg.published.chain.theory, "
    "bounds and Omega in benchmarks.papers.bounds of a clone"
)
