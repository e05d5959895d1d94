"""Sample size and power before there are data.

`power` asks (``pr.plan``) and `plan` answers, by a `search` over what `precision` says of fits of so many, which has a
`rehearsal` of a local fit's rounds on expected reports, and with two collectors, silos or a curator fits made-up
people, by which a plan is tried, too. `scenario` is what is assumed of people. `two_groups` plans the comparison of two
shares or means (``pr.plan_two_groups``).
"""
