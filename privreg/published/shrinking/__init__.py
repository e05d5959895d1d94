"""Shrinking many noisy means: `rules` has HDR4ME*, its theory of deviations, and what stands beside it."""
