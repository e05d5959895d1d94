"""Messages between devices, collectors and analysts. The standard library alone.

`wire` is how messages are written and signed, `study` the plan, `messages` states and reports, `peers` the messages of
two collectors to each other. Parts of a plan, each with its own checks: `trees` are a person's answers and the design
of them, `roles` the rounds and the diary, which keeps a person's rows until one report is made of them, `collectors`
the two of a plan that has them. A plan may have several `analyses`, `tables` among them. The folder schemas has the
same in JSON Schema.
"""
