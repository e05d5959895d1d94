"""Shrinking many noisy means: `rules` has HDR4ME* and what stands beside it."""
