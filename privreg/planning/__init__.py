"""Sample size and power before there are data.

`power` asks (``pr.plan``), `study_plan` answers in words by the numbers of `plan`, and `plots` draws it, from
`scenario` (what is assumed of people) and `precision` (what fits of so many show), which has a `rehearsal` of a local
fit's rounds on expected reports, and with two collectors or a curator fits made-up people, by which a plan is tried,
too. `two_groups` plans the comparison of two shares or means (``pr.plan_two_groups``).
"""
