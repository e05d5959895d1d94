"""A name that says where what it named has gone."""

raise ImportError("rates, bounds and Omega of the published algorithm are in benchmarks.papers.bounds of a clone")
