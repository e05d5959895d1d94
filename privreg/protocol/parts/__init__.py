"""Parts of a study's plan, each with its own checks.

`columns` are a person's answers and `trees` the design of them, `roles` what is asked in a round, `collectors` the two
of a plan that has them. A plan may have several `analyses`, `tables` among them, and `diaries`, which keep a person's
rows until one report is made of them.
"""
