"""A name that says where what it named has gone."""

raise ImportError("the papers' tables and figures are run from a clone, by python -m benchmarks.papers NAME")
