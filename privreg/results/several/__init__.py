"""Results of several fits together.

`comparison` puts them side by side; `meta` pools estimates of fits to different people, or draws them towards each
other.
"""
