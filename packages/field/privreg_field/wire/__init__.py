"""What devices, collectors and analysts write to each other. The standard library alone.

`wire` is how messages are written and signed, `study` the plan, `messages` states and reports, `peers` what two
collectors say to each other. Parts of a plan, each with its own checks: `columns` are a person's answers and `trees`
the design of them, `roles` what is asked in a round, `collectors` the two of a plan that has them. A plan may have
several `analyses`, `tables` among them, and `diaries`, which keep a person's rows until one report is made of them.
The folder schemas has the same in JSON Schema.
"""
